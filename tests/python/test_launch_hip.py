"""AMD devices from Python, with a fake HIP library (tests/fake_hip): in separate processes, because
a library is loaded once."""

import os

import pytest

from kernel_utils import run_python
from test_launch_fake import SETUP

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TESTS = os.path.join(ROOT, os.environ.get("BUILD", "build"), "tests")
FAKE = os.path.join(TESTS, "libfake_hip.so")
pytestmark = pytest.mark.skipif(not os.path.exists(FAKE), reason="the fake library is not built")

HIP = """
import ctypes, os, types
from wave_lang.kernel.wave.machine import devices

class Fake(ctypes.Structure):  # the beginning of FakeHip
    _fields_ = [(name, ctypes.c_int) for name in
                ("launches", "loads", "unloads", "allocated", "streams", "sets", "pending",
                 "devices")]
    _fields_ += [("function", ctypes.c_void_p), ("stream", ctypes.c_void_p),
                 ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3)]

if os.path.exists(os.environ["WAVE_HIP_LIB"]):
    library = ctypes.CDLL(os.environ["WAVE_HIP_LIB"])
    library.fake_hip_now.restype = ctypes.POINTER(Fake)
    fake = library.fake_hip_now().contents

class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("index", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
                ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
ROCM = 10

class Shared:  # a tensor of any library on ROCm
    def __init__(self, *shape):
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.tensor = DLTensor(1 << 20, ROCM, 0, len(shape), 2, 32, 1, self.shape)

    def __dlpack_device__(self):
        return ROCM, 0

    def __dlpack__(self, stream=None):
        assert stream == -1
        return new_capsule(ctypes.addressof(self.tensor), b"dltensor", None)

class DType:
    __str__ = lambda self: "torch.float32"

class Torch:  # like a tensor of PyTorch before it had a table of C functions
    dtype = DType()
    def __init__(self, *shape, device=0):
        self.shape, self.device_ = shape, device
    get_device = lambda self: self.device_
    data_ptr = lambda self: 1 << 21
    stride = lambda self: tuple(int(np.prod(self.shape[i + 1:])) for i in range(len(self.shape)))

def pretend_torch(hip):
    sys.modules["torch.version"] = types.SimpleNamespace(hip=hip, cuda=None if hip else "13.0")
    sys.modules["torch._C"] = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda i: 70 + i)
"""

# The rest of a test needs a libLLVM that knows AMD GPUs.
CODE = """
try:
    compile_scale(target="gfx942", factor=5.0)
except CompileError as error:
    if "libLLVM" not in str(error):
        raise
    print("NO CODE FOR AMD")
    sys.exit()
"""


def check(code, tmp_path, library=FAKE, **env):
    env = {"WAVE_CUDA_LIB": "/no/such/libcuda.so", "WAVE_CACHE_DIR": str(tmp_path), **env}
    done = run_python("-c", SETUP + HIP + code, WAVE_HIP_LIB=library, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    if "NO CODE FOR AMD" in done.stdout:
        pytest.skip("there is no libLLVM for AMD GPUs")
    return done


@pytest.mark.parametrize("library, driver", [(FAKE, 60241133), (FAKE[:-3] + "_old.so", 50221153)])
def test_devices(tmp_path, library, driver):
    check(
        f"""
found = devices("hip")
assert [d.index for d in found] == [0, 1] and _wave.devices()[:2] == found
assert all(d.target == "gfx942" and d.name == "Fake Instinct" for d in found)
assert found[0].driver == {driver} and found[0].memory == 3 << 30 and found[0].units == 4
assert fake.pending == 0 and fake.sets == 0
""",
        tmp_path,
        library=library,
    )


def test_without_the_library(tmp_path):
    check(
        """
assert devices("hip") == []
k = compile_scale(target="hip/gfx942")     # for this machine instead
assert any("no AMD device" in str(r) and "emu:gfx942" in str(r) for r in k.remarks)
x = np.ones((4, 70), "f4"); y = np.zeros_like(x)
k(x, y)
assert (y == 2).all()
strict = lambda: compile_scale(target="gfx942", strict=True)
assert fails(strict, "E0601", "no AMD device", "emu:gfx942", "sim:gfx942") is CompileError
""",
        tmp_path,
        library="/no/such/libamdhip64.so",
    )


def test_code_needs_no_device(tmp_path):
    """Compiling for a chip that is not here; running it needs `emu:`."""
    check(
        """
try:
    code = compile_scale(target="gfx1201", compile_to_asm=True)
except CompileError as error:
    assert "libLLVM" in str(error)
    print("NO CODE FOR AMD")
    sys.exit()
assert code.target == "gfx1201" and "s_endpgm" in code.asm
assert not any("no AMD device" in str(r) for r in code.remarks)
x = np.ones((4, 70), "f4"); y = np.zeros_like(x)
compile_scale(target="emu:gfx1201")(x, y)
assert (y == 2).all()
""",
        tmp_path,
        library="/no/such/libamdhip64.so",
    )


@pytest.mark.parametrize("hip, kind", [("6.2.41133", "hip"), (None, "cuda")])
def test_whose_gpus_pytorch_has(tmp_path, hip, kind):
    """PyTorch calls the GPUs of both vendors `cuda`."""
    check(
        f"""
pretend_torch({hip!r})
k = compile_scale(target="cpu")
assert fails(lambda: k(Torch(4, 70), Torch(4, 70)), "on '{kind}'") is ArgumentError
""",
        tmp_path,
    )


def test_tensors_on_rocm(tmp_path):
    check(
        """
k = compile_scale(target="cpu")
assert fails(lambda: k(Shared(4, 70), Shared(4, 70)), "on 'hip'") is ArgumentError
""",
        tmp_path,
    )


def test_amd_devices_run_kernels(tmp_path):
    """As in programs of the public package: the defaults, `device="hip"` and `wave_runtime`."""
    check(
        CODE
        + """
pretend_torch("6.2.41133")
for options in ({}, {"device": "hip"}, {"target": "hip"}, {"target": "gfx942"},
                {"target": "hip/gfx942", "strict": True}, {"wave_runtime": True}):
    before = fake.launches
    k = compile_scale(**{"target": "", **options})
    assert k.machine.kind == "hip" and k.machine.device == 0 and k.target == "gfx942"
    assert k.program.kind == "hip" and k.resources.registers == 96
    k(Torch(4, 70), Torch(4, 70))
    assert fake.launches == before + 1 and fake.stream == 70
    k(Shared(4, 70), Shared(4, 70), stream=80)
    assert fake.launches == before + 2 and fake.stream == 80
    k.prepare()
k = compile_scale(target="")
x = np.ones((4, 70), "f4"); y = np.zeros_like(x)
k(x, y)                                      # host tensors: the CPU
assert (y == 2).all()
k(Torch(4, 70, device=1), Torch(4, 70, device=1))
assert fake.stream == 71 and fake.pending == 0
assert fails(lambda: k(Torch(4, 70), x), "`y`", "cpu", "hip") is LaunchError
named = compile_scale(target="gfx90a")       # not here: this device instead
assert named.target == "gfx942" and any("no AMD device" in str(r) for r in named.remarks)
elsewhere = compile_scale(target="hip")
assert fails(lambda: elsewhere(x, y), "compiled for", "'cpu'") is ArgumentError
""",
        tmp_path,
    )


def test_the_cache_on_disk(tmp_path):
    code = CODE + """
k = compile_scale(target="hip")
k(Shared(4, 70), Shared(4, 70))
print(k.program.variants[0].from_cache, fake.launches)
"""
    assert "False 1" in check(code, tmp_path).stdout
    assert "True 1" in check(code, tmp_path).stdout


def test_streams(tmp_path):
    check(
        CODE
        + """
k = compile_scale(target="hip")
a, b = Shared(4, 70), Shared(4, 70)
class Stream:
    cuda_stream = 90
k(a, b, stream=Stream())
assert fake.stream == 90
k.launch(a, b, stream=100)
assert fake.stream == 100
k(a, b)                                      # no PyTorch: the default stream
assert not fake.stream
assert fails(lambda: k(a, b, stream="s"), "stream") is ArgumentError
""",
        tmp_path,
    )


def test_binaries_are_dumped(tmp_path):
    check(
        CODE
        + """
from pathlib import Path
folder = Path("%s")
compile_scale(target="hip", dump_binaries=str(folder))
files = list(folder.iterdir())
assert files and all(f.suffix == ".hsaco" and f.read_bytes()[:4] == b"\\x7fELF" for f in files)
""" % (tmp_path / "binaries"),
        tmp_path / "cache",
    )
