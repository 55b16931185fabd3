"""`wavec --emit=c`: a pair of files that a C compiler accepts, and a program that launches them."""

import os
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
WAVEC = os.path.join(BUILD, "wavec")
TOOLS = os.path.join(ROOT, "tests", "tools")

pytestmark = pytest.mark.skipif(
    not shutil.which("cc") or not os.path.exists(WAVEC) or "-san" in BUILD,
    reason="needs a C compiler and wavec",
)


def wavec(*words, cwd=None):
    return subprocess.run([WAVEC, *words], capture_output=True, text=True, cwd=cwd)


def build(folder, target):
    """The program tests/tools/use_scale.c with the kernel for `target`."""
    done = wavec(f"{TOOLS}/scale.wave", "--emit=c", f"--target={target}", cwd=folder)
    assert done.returncode == 0, done.stderr
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]
    command += [f"-I{ROOT}/include", f"-I{folder}", f"{folder}/scale.c", f"{TOOLS}/use_scale.c"]
    command += [f"-L{BUILD}", "-lwave", "-o", f"{folder}/use"]
    subprocess.run(command, check=True)
    return f"{folder}/use"


def run(program, **environment):
    environment = {**os.environ, "LD_LIBRARY_PATH": BUILD, **environment}
    return subprocess.run([program], capture_output=True, text=True, env=environment)


def test_on_the_cpu(tmp_path):
    done = run(build(tmp_path, "cpu"))
    if "no libLLVM" in done.stderr:
        pytest.skip("there is no libLLVM")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("scale for cpu") and done.stdout.endswith(": 0 wrong\n")


def test_for_a_gpu(tmp_path):
    """Without a GPU it says what is missing; the fake driver accepts every launch."""
    program = build(tmp_path, "sm_80")
    done = run(program, WAVE_CUDA_LIB="/no/such/libcuda.so")
    assert done.returncode == 1 and "E0901" in done.stderr
    done = run(program, WAVE_CUDA_LIB=f"{BUILD}/tests/libfake_cuda.so")
    assert done.stdout.startswith("scale for sm_80: "), done.stderr


def test_mistakes(tmp_path):
    both = tmp_path / "both.wave"
    text = open(f"{TOOLS}/scale.wave").read()
    both.write_text(text + text.replace("@scale", "@other"))
    done = wavec(str(both), "--emit=c", "--target=sm_80", "-o", str(tmp_path / "x.c"))
    assert done.returncode == 2 and "there are 2 kernels" in done.stderr
    assert not (tmp_path / "x.c").exists()
    done = wavec(f"{TOOLS}/scale.wave", "--emit=c", "--target=sm_80", "-o", str(tmp_path / "x"))
    assert done.returncode == 2 and "-o NAME.c" in done.stderr
    done = wavec(f"{TOOLS}/scale.wave", "--emit=c", "--target=sm_80", "-o", "/no/such/folder/x.c")
    assert done.returncode == 1 and "/no/such/folder/x.c" in done.stderr
    assert wavec(str(both), "--emit=c", "--target=sm_80", cwd=tmp_path).returncode == 0
    assert (tmp_path / "scale.h").exists() and (tmp_path / "other.c").exists()
