"""Code for AMD GPUs as files: `wavec --emit=hsaco`, `asm`, `obj`, and what is refused."""

import os
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WAVEC = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")
KERNEL = os.path.join(ROOT, "docs", "staged.wave")
AMDGPU, RELOCATABLE, SHARED = 224, 1, 3


def wavec(*options, **env):
    return subprocess.run(
        [WAVEC, KERNEL, *options], capture_output=True, env={**os.environ, **env}, check=False
    )


def emitted(kind, file, target="gfx942"):
    done = wavec(f"--target={target}", "--passes=all", f"--emit={kind}", "-o", str(file))
    if b"E0901" in done.stderr:
        pytest.skip("no libLLVM for AMD GPUs")
    assert done.returncode == 0, done.stderr.decode()
    return file.read_bytes()


@pytest.mark.parametrize("kind, type_", [("obj", RELOCATABLE), ("hsaco", SHARED)])
@pytest.mark.parametrize("target, number", [("gfx90a", 0x3F), ("gfx942", 0x4C), ("gfx1201", 0x4E)])
def test_code_objects(tmp_path, kind, type_, target, number):
    code = emitted(kind, tmp_path / "k", target)
    assert code[:4] == b"\x7fELF"
    assert int.from_bytes(code[16:18], "little") == type_
    assert int.from_bytes(code[18:20], "little") == AMDGPU
    assert code[48] == number
    assert b"wave_staged.kd\0" in code and f"amdgcn-amd-amdhsa--{target}".encode() in code


def test_assembly(tmp_path):
    text = emitted("asm", tmp_path / "k").decode()
    assert "v_mfma_f32_16x16x16_f16" in text and "s_barrier" in text
    assert ".vgpr_spill_count: 0" in text and ".sgpr_spill_count: 0" in text


@pytest.mark.parametrize(
    "options, code, words",
    [
        (["--target=gfx942", "--passes=all", "--emit=hsaco"], 2, "-o NAME.hsaco"),
        (["--target=sm_90a", "--passes=all", "--emit=hsaco", "-o", "/dev/null"], 1, "E0603"),
        (["--target=cpu", "--passes=all", "--emit=hsaco", "-o", "/dev/null"], 1, "AMD target"),
    ],
)
def test_refused(options, code, words):
    done = wavec(*options)
    assert done.returncode == code and words in done.stderr.decode()


@pytest.mark.parametrize("library", ["/no/such/libLLVM.so", "libc.so.6"])
def test_libraries_that_do_not_serve(library):
    options = ["--target=gfx942", "--passes=all", "--emit=hsaco", "-o", "/dev/null"]
    done = wavec(*options, WAVE_LLVM=library)
    assert done.returncode == 1 and "E0901" in done.stderr.decode()
