"""Runs the commands that the README gives a newcomer, in a copy of the tree and a fresh
environment.

Packages come from PyPI; without it the tests are skipped. The compiler is built without
optimisation, and once for both ways to install it, to save time.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("scikit-build-core", "pytest", "numpy", "sympy", "lit")
COPIED = ("src", "include", "python", "tools", "tests", "docs", "CMakeLists.txt", "pyproject.toml")
COPIED += ("bench", "README.md", "LICENSE", ".gitignore")

PROGRAM = """
import numpy as np
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import GLOBAL_ADDRESS_SPACE, WaveCompileOptions, wave_compile

M = tkl.sym.M

@tkw.wave([
    tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 64}),
    tkw.WorkgroupConstraint(M, 64, 0),
])
def double(x: tkl.Memory[M, GLOBAL_ADDRESS_SPACE, tkl.f32]):
    tkw.write(tkw.read(x) * 2.0, x)

x = np.ones(100, "f4")
wave_compile(WaveCompileOptions(dynamic_symbols=[M], target="sim:sm_90a"), double)(x)
print(tkw.__file__, (x == 2).all())
"""


class Shell:
    """Runs commands in a folder, with an environment's programs first on the PATH."""

    def __init__(self, folder, venv):
        self.folder, self.bin = folder, venv / "bin"
        kept = ("HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "CMAKE_C_COMPILER_LAUNCHER")
        given = {k: v for k, v in os.environ.items() if k in kept or k.startswith("PIP_")}
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        quick = {"SKBUILD_CMAKE_BUILD_TYPE": "Unoptimised"}
        self.env = {**given, **quick, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def run(self, line):
        return subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )

    def __call__(self, line):
        done = self.run(line)
        assert done.returncode == 0, f"$ {line}\n{done.stdout}"
        return done.stdout


def copy_tree(to):
    """The sources, without build outputs."""
    built = shutil.ignore_patterns("*.so", "__pycache__")
    to.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to / name, ignore=built)
        else:
            shutil.copy(ROOT / name, to / name)


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    place = tmp_path_factory.mktemp("quickstart")
    tree = place / "wave"
    copy_tree(tree)
    made = subprocess.run(
        [sys.executable, "-m", "venv", str(place / "venv")], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"no virtual environment can be made here: {made.stdout.strip()[-200:]}")
    typing = Shell(tree, place / "venv")
    needed = typing.run(f"pip install --no-compile --retries 1 --timeout 20 {' '.join(NEEDED)}")
    if needed.returncode:
        pytest.skip(f"PyPI cannot be reached: {needed.stdout.strip().splitlines()[-1]}")
    yield typing
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize("command", ["pip install .", "pip install -e ."])
def test_install(shell, command):
    shell(command)
    assert shell("command -v wavec").strip() == str(shell.bin / "wavec")
    assert "kernel @" in shell("wavec docs/example.wave --passes=bind,simplify")
    (shell.folder / "double.py").write_text(PROGRAM)
    where, right = shell("python double.py").split()
    assert right == "True"
    assert where.startswith(str(shell.folder if "-e" in command else shell.bin.parent))


def test_pytest_runs_the_tests_of_devices(shell):
    said = shell("pytest -q -rs --run-e2e tests/python -k 'test_buffers or test_gpu_launch'")
    assert " passed" in said and "--run-e2e" not in said  # there is a GPU, or it says so
    said = shell("pytest -q -rs tests/python/test_gpu_launch.py")
    assert "runs on a GPU: --run-e2e" in said


def test_lit_runs_the_tests_in_text(shell):
    said = shell("lit -v tests/ir --filter 'cse|dump_before'")
    assert "PASS: wave :: ir/pass_manager/dump_before.wave" in said and "Failed" not in said
    broken = shell.folder / "tests" / "ir" / "broken_on_purpose.wave"
    broken.write_text("# CHECK: something that is not there\nkernel @k() { }\n")
    assert shell.run("lit tests/ir --filter broken").returncode == 1
