"""The host time of a launch beyond the driver's own, without a GPU: 4 tensors, from Python, on the
fake drivers of the tests.

    bench/bench_launch_fake.py [cuda|hip]

As in bench_launch.py, the driver's launch function is called from C with everything prepared, and
the same kernel through Wave. The tensors have DLPack's table of C functions, like PyTorch's; it is
compiled on the fly. The differences are what Wave adds. What a real driver leaves in the caches is
not measured: on a GPU the time is longer.
"""

import ctypes
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / os.environ.get("BUILD", "build") / "tests"

SOURCE = r"""
#include <Python.h>
#include <stddef.h>
#include <stdint.h>

typedef struct View {
  void *data;
  int32_t kind, index, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t offset;
} View;

typedef struct Table {
  uint32_t major, minor;
  const void *older;
  void *unused[3];
  int (*view)(void *, View *);
  int (*stream)(int32_t, int32_t, void **);
} Table;

/* A tensor is an object with one slot: the address of its view. */
typedef struct Tensor {
  PyObject_HEAD PyObject *view;
} Tensor;

static int view(void *o, View *out) {
  *out = *(View *)PyLong_AsVoidPtr(((Tensor *)o)->view);
  return 0;
}

static int stream(int32_t kind, int32_t index, void **out) { return *out = (void *)70, 0; }

Table table = {1, 0, NULL, {NULL, NULL, NULL}, view, stream};

typedef int (*Launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      void *, void **, void **);
int launches(Launch f, void *kernel, void **args, void **extra, int n) {
  int bad = 0;
  for (int i = 0; i < n; i++) bad |= f(kernel, 1, 1, 1, 32, 1, 1, 0, (void *)70, args, extra);
  return bad;
}
"""


def build(folder):
    source, library = os.path.join(folder, "kit.c"), os.path.join(folder, "kit.so")
    Path(source).write_text(SOURCE)
    include = sysconfig.get_paths()["include"]
    command = ["cc", "-O2", "-shared", "-fPIC", f"-I{include}", source, "-o", library]
    subprocess.run(command, check=True)
    return ctypes.PyDLL(library)


class View(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("index", ctypes.c_int32)]
    _fields_ += [("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8)]
    _fields_ += [("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p)]
    _fields_ += [("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)]


def tensor_type(kit):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    table = ctypes.addressof(ctypes.c_char.in_dll(kit, "table"))

    class Tensor:
        __slots__ = ("view",)
        __dlpack_c_exchange_api__ = new(table, b"dlpack_exchange_api", None)

        def __dlpack__(self):
            raise NotImplementedError

    return Tensor


def add3(vendor):
    import wave_lang.kernel.lang as tkl
    import wave_lang.kernel.wave as tkw
    from wave_lang import WaveCompileOptions, wave_compile
    from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

    M = tkl.sym.M
    vector = tkl.Memory[M, G, tkl.f32]

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 32}),
            tkw.WorkgroupConstraint(M, 32, 0),
        ]
    )
    def add3(a: vector, b: vector, c: vector, d: vector):
        tkw.write(tkw.read(a) + tkw.read(b) + tkw.read(c), d)

    return wave_compile(WaveCompileOptions(dynamic_symbols=[M], target=vendor), add3)


class Last(ctypes.Structure):
    """The beginning of FakeLaunch and FakeHipLaunch, up to where they differ."""

    _fields_ = [("function", ctypes.c_void_p), ("stream", ctypes.c_void_p)]
    _fields_ += [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3)]


def direct(kit, vendor, fake):
    """Calls of the driver's function, like the last launch; the values of arguments do not matter."""
    now = getattr(fake, f"fake_{vendor}_now")
    now.restype = ctypes.c_void_p
    at = now() + {"cuda": 40, "hip": 32}[vendor]
    function = ctypes.c_void_p(Last.from_address(at).function)
    zeros = (ctypes.c_uint64 * 64)()
    pointers = (ctypes.c_void_p * 64)(*[ctypes.addressof(zeros)] * 64)
    size = ctypes.c_size_t.from_address(at + ctypes.sizeof(Last) + 16)  # HIP's block_bytes
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(zeros), 2, ctypes.addressof(size), 3)
    launch = fake.cuLaunchKernel if vendor == "cuda" else fake.hipModuleLaunchKernel
    given = (pointers, None) if vendor == "cuda" else (None, extra)

    def run(n):
        assert kit.launches(launch, function, *given, n) == 0

    return run


def seconds_each(runs, n):
    best = [float("inf")] * len(runs)
    for _ in range(300):
        for i, run in enumerate(runs):
            begin = time.perf_counter()
            run(n)
            best[i] = min(best[i], (time.perf_counter() - begin) / n)
    return best


def calls(kernel, a, b, c, d):
    def run(n):
        for _ in range(n):
            kernel(a, b, c, d)

    return run


def measure(vendor):
    os.environ["WAVE_CACHE_ON"] = "0"
    library = str(TESTS / f"libfake_{vendor}.so")
    os.environ[f"WAVE_{vendor.upper()}_LIB"] = library
    kit, fake = build(tempfile.mkdtemp()), ctypes.PyDLL(library)
    kernel = add3(vendor)
    if kernel.machine.kind != vendor:
        print(f"{vendor}: no code can be generated for its devices (is libLLVM installed?)")
        return
    size = (ctypes.c_int64 * 1)(32)
    Tensor, views, args = tensor_type(kit), [], []
    for i in range(4):
        kind = {"cuda": 2, "hip": 10}[vendor]
        where = ctypes.addressof(size)
        views.append(View((i + 1) << 20, kind, 0, 1, 2, 32, 1, where, None, 0))
        args.append(Tensor())
        args[-1].view = ctypes.addressof(views[-1])
    kernel(*args)
    rows = {
        "the driver's launch, from C": direct(kit, vendor, fake),
        "kernel(a, b, c, d)": calls(kernel, *args),
        "kernel.launch(a, b, c, d)": calls(kernel.launch, *args),
    }
    found = seconds_each(list(rows.values()), 200)
    for name, seconds in zip(rows, found):
        above = (seconds - found[0]) * 1e9
        print(f"{vendor:4} {name:28} {seconds * 1e9:6.0f} ns, above the driver {above:5.0f} ns")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        measure(sys.argv[1])
    else:
        for vendor in ("cuda", "hip"):  # a driver is loaded once
            subprocess.run([sys.executable, __file__, vendor], check=True)
