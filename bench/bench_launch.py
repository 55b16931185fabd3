"""The host time of a launch beyond the driver's own: 4 tensors, from Python.

The same tiny kernel is launched by cuLaunchKernel with everything prepared (from C, through ctypes'
function pointer in a loop compiled on the fly, so that no Python is involved), and through Wave:
with DLPack's table of C functions, and with PyTorch's attributes. The differences are what Wave
adds.
"""

import ctypes
import os
import subprocess
import tempfile
import time

import torch

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

M = tkl.sym.M

LOOP = r"""
#include <stddef.h>
typedef int (*Launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      void *, void **, void **);
int launches(Launch f, void *kernel, void *stream, int n) {
  void *data = NULL;
  int size = 32, bad = 0;
  void *args[] = {&data, &data, &data, &data, &size};
  for (int i = 0; i < n; i++) bad |= f(kernel, 1, 1, 1, 32, 1, 1, 0, stream, args, NULL);
  return bad;
}
"""
EMPTY = b""".version 7.0
.target sm_80
.address_size 64
.visible .entry empty(.param .b64 a, .param .b64 b, .param .b64 c, .param .b64 d, .param .b32 n)
{ ret; }
"""


def add3():
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 32}),
            tkw.WorkgroupConstraint(M, 32, 0),
        ]
    )
    def add3(
        a: tkl.Memory[M, G, tkl.f32],
        b: tkl.Memory[M, G, tkl.f32],
        c: tkl.Memory[M, G, tkl.f32],
        d: tkl.Memory[M, G, tkl.f32],
    ):
        tkw.write(tkw.read(a) + tkw.read(b) + tkw.read(c), d)

    return wave_compile(WaveCompileOptions(dynamic_symbols=[M]), add3)


def seconds_each(runs, n):
    """For each of them the best of many batches, which take turns and do not fill the driver's
    queue."""
    best = [float("inf")] * len(runs)
    for _ in range(100):
        for i, run in enumerate(runs):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            run(n)
            best[i] = min(best[i], (time.perf_counter() - begin) / n)
    torch.cuda.synchronize()
    return best


def driver_loop():
    """A function of n that calls cuLaunchKernel n times, from C."""
    folder = tempfile.mkdtemp()
    source, library = os.path.join(folder, "loop.c"), os.path.join(folder, "loop.so")
    with open(source, "w") as out:
        out.write(LOOP)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
    loop, cuda = ctypes.CDLL(library), ctypes.CDLL("libcuda.so.1")
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(EMPTY)) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"empty") == 0
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def run(n):
        assert loop.launches(cuda.cuLaunchKernel, kernel, stream, n) == 0

    return run


def calls(kernel, a, b, c, d):
    def run(n):
        for _ in range(n):
            kernel(a, b, c, d)

    return run


def main():
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    kernel = add3()
    args = [torch.ones(32, device="cuda") for _ in range(4)]
    kernel(*args)
    torch.cuda.synchronize()
    assert (args[3] == 3).all()
    direct = driver_loop()

    def attributes(n):
        _wave.use_exchange(False)
        called(n)
        _wave.use_exchange(True)

    called = calls(kernel, *args)
    rows = {
        "cuLaunchKernel, from C": direct,
        "kernel(a, b, c, d), table of C functions": called,
        "kernel.launch(a, b, c, d), the same": calls(kernel.launch, *args),
        "kernel(a, b, c, d), PyTorch's attributes": attributes,
        "torch.add(a, b, out=d)": calls(lambda a, b, c, d: torch.add(a, b, out=d), *args),
    }
    found = seconds_each(list(rows.values()), 100)
    for name, seconds in zip(rows, found):
        above = (seconds - found[0]) * 1e6
        print(f"{name:42} {seconds * 1e6:6.2f} us, above the driver {above:6.2f} us")


if __name__ == "__main__":
    main()
