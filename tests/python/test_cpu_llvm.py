"""How libLLVM is found: every installed version from 16 on compiles correctly; without one kernels
are evaluated, and a warning says what to install."""

import glob
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wave_lang.kernel.wave.machine import devices

ROOT = Path(__file__).resolve().parents[2]
WAVEC = ROOT / os.environ.get("BUILD", "build") / "wavec"

# A matmul and a softmax: matrix kernels, reductions, functions, masks.
KERNELS = """
import sys, warnings
import numpy as np
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K

@tkw.wave([
    tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
    tkw.WorkgroupConstraint(M, 32, 0), tkw.WorkgroupConstraint(N, 32, 1), tkw.TilingConstraint(K, 16),
    tkw.WaveConstraint(M, 32), tkw.WaveConstraint(N, 32),
])
def gemm(a: tkl.Memory[M, K, G, tkl.f16], b: tkl.Memory[N, K, G, tkl.f16],
         c: tkl.Memory[M, N, G, tkl.f32]):
    @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
    def product(acc):
        return tkw.mma(tkw.read(a), tkw.read(b), acc)
    tkw.write(product, c)

@tkw.wave([
    tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: N}),
    tkw.WorkgroupConstraint(M, 1, 1), tkw.WorkgroupConstraint(N, N, 0),
    tkw.WaveConstraint(M, 1), tkw.WaveConstraint(N, N),
])
def softmax(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, N, G, tkl.f32]):
    x = tkw.read(a)
    e = tkw.exp2(x - tkw.broadcast(tkw.max(x, dim=N), [M, N]))
    tkw.write(e / tkw.broadcast(tkw.sum(e, dim=N), [M, N]), b)

rng = np.random.default_rng(1)
a, b = rng.standard_normal((50, 37)).astype("f2"), rng.standard_normal((45, 37)).astype("f2")
c = np.full((50, 45), np.nan, "f4")
compile = lambda kernel, **subs: wave_compile(
    WaveCompileOptions(subs={getattr(tkl.sym, n): v for n, v in subs.items()},
                       target="cpu"), kernel)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    product = compile(gemm, M=50, N=45, K=37)
product(a, b, c)
assert np.abs(c - a.astype("f8") @ b.astype("f8").T).max() < 1e-4
rows = compile(softmax, M=50, N=45)
out = np.full_like(c, np.nan)
rows(c, out)
e = np.exp2(c.astype("f8") - c.max(axis=1, keepdims=True))
assert np.abs(out - e / e.sum(axis=1, keepdims=True)).max() < 1e-6
print("device:", *(d.name for d in _wave.devices() if d.kind == "cpu"))
print("compiled:", product.program is not None)
print("warned:", *(w.message for w in said))
"""


def run_kernels(**env):
    path = os.pathsep.join(p for p in sys.path if p)
    given = {**os.environ, "PYTHONPATH": path, "WAVE_CACHE_ON": "0", **env}
    return subprocess.run(
        [sys.executable, "-c", KERNELS], capture_output=True, text=True, env=given, timeout=300
    )


def installed():
    """The libraries of this machine by version."""
    folders = ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/llvm-*/lib")
    names = [p for f in folders for p in sorted(glob.glob(f"{f}/libLLVM*.so*"))]
    found = {}
    for path in names:
        version = re.search(r"libLLVM(?:-(\d+)|\.so\.(\d+))", os.path.basename(path))
        number = int(next(filter(None, version.groups()))) if version else 0
        if number >= 16:
            found.setdefault(number, path)
    return found


@pytest.mark.parametrize("version", sorted(installed()) or [None])
def test_every_version_compiles(version):
    if version is None:
        pytest.skip("there is no libLLVM")
    done = run_kernels(WAVE_LLVM=installed()[version])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"LLVM {version}\n" in done.stdout and "compiled: True" in done.stdout


@pytest.mark.skipif(
    "WAVE_LLVM" in os.environ or 19 not in installed() or max(installed()) == 19,
    reason="needs LLVM 19 and a newer one",
)
def test_newer_versions_do_not_change_the_choice():
    """CPUs, and chips that LLVM 19 knows, use 19; newer chips the newest."""
    assert "LLVM 19\n" in run_kernels().stdout
    for chip, version in [("gfx942", 19), ("gfx950", max(installed()))]:
        command = [WAVEC, ROOT / "docs/staged.wave", "--passes=all", "--emit=asm", f"--target={chip}"]
        named = {**os.environ, "WAVE_LLVM": installed()[version]}
        ours, theirs = (subprocess.run(command, capture_output=True, env=e) for e in (None, named))
        assert ours.returncode == 0, ours.stderr.decode()
        assert ours.stdout == theirs.stdout


def said_what_to_do(text):
    return "apt-get install libllvm19" in text and "WAVE_LLVM=" in text


def test_a_library_that_is_not_there():
    done = run_kernels(WAVE_LLVM="/nowhere/libLLVM.so")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "compiled: False" in done.stdout and said_what_to_do(done.stdout)
    assert "evaluator" in done.stdout


WITHOUT_LLVM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
void *dlopen(const char *path, int flags) {
  void *(*next)(const char *, int);
  *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
  return next(path && strstr(path, "LLVM") ? "/nowhere" : path, flags);
}
"""


@pytest.fixture(scope="module")
def without_llvm(tmp_path_factory):
    """The environment of a machine on which no libLLVM is installed."""
    folder = tmp_path_factory.mktemp("preload")
    (folder / "without.c").write_text(WITHOUT_LLVM)
    library = folder / "without.so"
    compiler = shutil.which("cc") or shutil.which("gcc")
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(folder / "without.c"), "-ldl"]
    if not compiler or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no C compiler")
    return {"LD_PRELOAD": " ".join([*os.environ.get("LD_PRELOAD", "").split(), str(library)])}


def test_a_machine_without_any(without_llvm):
    done = run_kernels(**without_llvm)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "device:\n" in done.stdout and "compiled: False" in done.stdout
    assert said_what_to_do(done.stdout)


@pytest.mark.skipif(not WAVEC.exists(), reason="wavec is not built")
def test_wavec_says_it_too(without_llvm):
    command = [WAVEC, "run", ROOT / "docs/sums.wave", "--target", "cpu", "--set", "M=4"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **without_llvm}
    )
    assert done.returncode == 1 and "error[E0901]" in done.stderr, done.stdout + done.stderr
    assert "16 or newer" in done.stderr and said_what_to_do(done.stderr)
    if devices("cpu"):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
