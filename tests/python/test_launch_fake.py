"""Programs and launches with a fake driver (tests/fake_cuda): in separate processes, because a
driver is loaded once."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from kernel_utils import run_python

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FAKE = os.path.join(ROOT, os.environ.get("BUILD", "build"), "tests/libfake_cuda.so")
pytestmark = pytest.mark.skipif(not os.path.exists(FAKE), reason="the fake driver is not built")

SETUP = """
import sys
import numpy as np
from test_compile import compile_scale, SIZES, M, N, BM, BN, AS
from wave_lang import ArgumentError, CompileError, LaunchError, _wave
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE
TILES = {BM: 1, BN: 64, AS: GLOBAL_ADDRESS_SPACE}

class Array:
    __cuda_array_interface__ = property(lambda self: self.fields)
    def __init__(self, *shape, typestr="<f4", address=1 << 20, strides=None, **more):
        self.fields = {"shape": shape, "typestr": typestr, "data": (address, False),
                       "strides": strides, "version": 3, **more}

def fails(call, *words):
    try:
        call()
    except Exception as error:
        text = str(error)
        assert all(w in text for w in words), text
        return type(error)
    raise AssertionError("nothing was raised")
"""


def check(code, tmp_path, **env):
    given = {"WAVE_CUDA_LIB": FAKE, "WAVE_HIP_LIB": "none", "WAVE_CACHE_DIR": str(tmp_path), **env}
    done = run_python("-c", SETUP + code, **given)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_devices_and_default_target(tmp_path):
    check(
        """
assert [d.kind for d in _wave.devices()][:2] == ["cuda", "cuda"]
k = compile_scale(target="")
assert k.machine.kind == "cuda" and k.target == "sm_90a" and k.machine.device == 0
assert repr(k) == "<compiled kernel scale for sm_90a>"
x = np.ones((4, 70), "f4"); y = np.zeros_like(x)
k(x, y)                                      # host tensors: the CPU
assert (y == 2).all()
k(Array(4, 70), Array(4, 70))
""",
        tmp_path,
    )


def test_what_can_be_seen(tmp_path):
    check(
        """
k = compile_scale(target="sm_90a")
assert ".entry scale" in k.ptx and k.asm == k.ptx
assert k.resources.registers > 0 and 0 < k.resources.occupancy <= 1
first, *_, last = k.program.variants
assert first.compiled and last.facts == "" and k.program.name == "scale"
assert any("tile-pure" in r.message for r in k.remarks)
assert k.program.text("nothing") is None
source = compile_scale.__code__.co_filename  # instructions know the line they come from
assert f'.file 1 "{source}"' in k.ptx
place = k.ptx[: k.ptx.index("mul.f32")].rpartition(".loc ")[2].split()
assert place[0] == "1" and "* factor" in open(source).read().splitlines()[int(place[1]) - 1]
assert ".target sm_80" in compile_scale(target="sm_80").ptx
""",
        tmp_path,
    )


def test_mistakes(tmp_path):
    check(
        """
k = compile_scale(target="cuda", subs=TILES, dynamic_symbols=[M, N])
a = Array(4, 70)
k(a, Array(4, 70))
k(Array(4, 70, strides=(400, 4)), a)
assert fails(lambda: k(Array(4, 70, typestr="<f2"), a), "`x`", "f16", "f32") is LaunchError
assert fails(lambda: k(Array(4, 70, 1), a), "`x`", "rank 3", "2") is LaunchError
assert fails(lambda: k(Array(4, 71), a), "70", "71") is LaunchError
assert fails(lambda: k(a, np.zeros((4, 70), "f4")), "`y`", "cpu") is LaunchError
assert fails(lambda: k(a), "takes 2 arguments") is ArgumentError
assert issubclass(LaunchError, CompileError)
host = np.zeros((4, 70), "f4")
assert fails(lambda: k(host, host), "compiled for", "'cpu'") is ArgumentError
""",
        tmp_path,
    )


def test_the_session_shares_programs(tmp_path):
    check(
        """
first, second = compile_scale(target="cuda"), compile_scale(target="cuda")
assert first.program is second.program
assert compile_scale(target="cuda", factor=3.0).program is not first.program
""",
        tmp_path,
    )


def test_the_cache_on_disk(tmp_path):
    code = """
k = compile_scale(target="cuda")
print(k.program.variants[0].from_cache)
"""
    assert "False" in check(code, tmp_path).stdout
    assert any(p.is_file() for p in tmp_path.rglob("*"))
    assert "True" in check(code, tmp_path).stdout
    assert "False" in check(code, tmp_path, WAVE_ALWAYS_COMPILE="1").stdout
    assert "False" in check(code, tmp_path, WAVE_CACHE_ON="0").stdout


def test_dumps_and_edited_ir(tmp_path):
    check(
        """
from pathlib import Path
folder = Path("%s")
k = compile_scale(target="sm_90a", dump_intermediates=str(folder))
files = {f.name.split("_", 1)[1]: f for f in folder.iterdir() if f.suffix == ".wave"}
assert "layouts.wave" in files and "lower_threads.wave" in files
text = files["layouts.wave"].read_text()
assert " mul " in text
again = compile_scale(target="sm_90a", override_mlir=text.replace(" mul ", " add "),
                      override_stage="layouts")
assert "add.f32" in again.ptx and "add.f32" not in k.ptx
""" % (tmp_path / "dumps"),
        tmp_path,
    )


def test_streams(tmp_path):
    check(
        """
k = compile_scale(target="cuda")
a, b = Array(4, 70), Array(4, 70)
k(a, b, stream=77)
k.launch(a, b, stream=0x1234)
class Stream:
    cuda_stream = 99
class Other:
    def __cuda_stream__(self):
        return (0, 98)
k(a, b, stream=Stream())
k(a, b, stream=Other())
assert fails(lambda: k(a, b, stream="s"), "stream") is ArgumentError
k(Array(4, 70, stream=2), b)
""",
        tmp_path,
    )


def test_debug_logs(tmp_path):
    """Kernels do not run here: the test sees how logs are delivered, and that they are zeros."""
    check(
        """
import wave_lang.kernel.lang as tkl, wave_lang.kernel.wave as tkw
from test_debug_logs import G, rows
from wave_lang import WaveCompileOptions, wave_compile
printed = []
@tkw.wave(rows())
def kernel(a: tkl.Memory[M, N, G, tkl.f32]):
    tkw.debug_log(tkw.read(a), "x", printer=lambda *p: printed.append(p))
k = wave_compile(WaveCompileOptions(target="cuda", subs={M: 4, N: 70}), kernel)
assert k.program.kind == "cuda" and "st.global" in k.ptx
logs = {}
k(Array(4, 70), debug_logs=logs, stream=77)
k(Array(4, 70))
value = logs["x"]["value"]
assert value.shape == (4, 70) and value.dtype == np.float32 and not value.any()
assert [label for label, _ in printed] == ["x", "x"]
assert fails(lambda: k(Array(4, 71), debug_logs={}), "E0702", "expected 70") is LaunchError
assert fails(lambda: k(np.zeros((4, 70), "f4"), debug_logs={}), "on 'cpu'") is ArgumentError
""",
        tmp_path,
    )


def test_shared_memory_that_code_declares(tmp_path):
    """The driver's default limit of 48 KB covers static and dynamic shared memory together."""
    with open(os.path.join(ROOT, "tests/ptx/cluster_room.wave"), encoding="utf-8") as file:
        text = file.read().replace("shared 232448", "shared 49152")
    kernel = tmp_path / "kernel.wave"
    kernel.write_text(text)
    wavec = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")
    ptx = [wavec, kernel, "--target=sm_90a", "--passes=all", "--emit=ptx"]
    assert "wave_arrived[1]" in subprocess.run(ptx, capture_output=True, text=True, check=True).stdout
    environment = dict(os.environ, WAVE_CUDA_LIB=FAKE, WAVE_HIP_LIB="none")
    run = [wavec, "run", kernel, "--target=cuda"]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "b: 1024 f32" in done.stdout, done.stderr


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="ASan keeps freed memory")
def test_nothing_leaks(tmp_path):
    script = os.path.join(os.path.dirname(__file__), "isolated/with_driver/leak_launch.py")
    done = run_python(script, WAVE_CUDA_LIB=FAKE, WAVE_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_processes_that_compile_the_same_at_once(tmp_path):
    code = """
k = compile_scale(target="sm_90a")
k(Array(4, 70), Array(4, 70))
assert ".entry scale" in k.ptx
"""
    with ThreadPoolExecutor(4) as processes:
        for done in [processes.submit(check, code, tmp_path) for _ in range(4)]:
            done.result()
    check(code + "assert k.program.variants[0].from_cache\n", tmp_path)
    assert all(name.endswith(".wavebin") for name in os.listdir(tmp_path))  # no partial files
