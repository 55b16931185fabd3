"""What is known about LLVM before it is asked for code for AMD GPUs: the table of intrinsics agrees
with every libLLVM of this machine, and libraries and chips that do not serve are refused."""

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from test_cpu_llvm import installed

ROOT = Path(__file__).resolve().parents[2]
WAVEC = ROOT / os.environ.get("BUILD", "build") / "wavec"
KNOWN = (ROOT / "src/backend/amd/amd_known.def").read_text()
MMA = (ROOT / "src/target/mma.def").read_text()


def intrinsics():
    """Every intrinsic that the emitter uses, without the types that may follow its name, and the
    first version of LLVM that has it with some types."""
    found = {}
    for name, first in re.findall(r'^INTRINSIC\("([^"]+)", *(\d+),', KNOWN, re.M):
        # Before 19 the only type of these was i32, which their names did not say.
        if not name.endswith(".i32"):
            found[name] = int(first)
    first = dict(re.findall(r"^MATRIX\((\w+), *(\d+)\)", KNOWN, re.M))
    for row in re.findall(r"^MMA\((.*)\)$", MMA, re.M):
        words = [word.strip() for word in row.split(",")]
        needs, emit = words[-6], words[-1].strip('"')
        if needs in first:
            emit = emit.replace("%t", "f16").replace("%a", "fp8").replace("%b", "fp8")
            name = re.sub(r"(\.v\d+b?[fi]\d+)+$", "", emit)
            found[name] = min(int(first[needs]), found.get(name, 99))
    return found


def has(library, name):
    """The library also finds an intrinsic by a longer name, which may say types."""
    for full in (f"llvm.amdgcn.{name}".encode(), f"llvm.amdgcn.{name}.x".encode()):
        number = library.LLVMLookupIntrinsicID(full, ctypes.c_size_t(len(full)))
        size = ctypes.c_size_t()
        if number and library.LLVMIntrinsicGetName(number, ctypes.byref(size)) == full:
            return True
    return False


@pytest.mark.parametrize("version", sorted(installed()) or [None])
def test_table_agrees_with_llvm(version):
    if version is None:
        pytest.skip("there is no libLLVM")
    library = ctypes.CDLL(installed()[version])
    library.LLVMLookupIntrinsicID.restype = ctypes.c_uint
    library.LLVMIntrinsicGetName.restype = ctypes.c_char_p
    assert len(intrinsics()) > 40
    wrong = {n: first for n, first in intrinsics().items() if has(library, n) != (version >= first)}
    assert not wrong


def test_every_intrinsic_has_a_row():
    sources = [*(ROOT / "src/backend/amd").glob("*.c"), ROOT / "src/backend/amd/amd.def"]
    text = "".join(path.read_text() for path in sources)
    rows = re.findall(r'^INTRINSIC\("([^"]+)"', KNOWN, re.M)
    used = set(re.findall(r"llvm\.amdgcn\.([a-z][a-z0-9.]*[a-z0-9])", text))
    assert len(used) > 15
    missing = [u for u in used if not any(u == row or u.startswith(row + ".") for row in rows)]
    assert not missing


def compile_for(target, **env):
    options = [f"--target={target}", "--passes=all", "--emit=hsaco", "-o", os.devnull]
    command = [WAVEC, ROOT / "docs/staged.wave", *options]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **env}, check=False
    )


@pytest.mark.parametrize("target, needs", [("gfx950", 20), ("gfx1250", 22), ("emu:gfx1250", 22)])
def test_library_is_too_old(target, needs):
    """LLVM 19 would print a warning and compile for another chip."""
    if 19 not in installed():
        pytest.skip("there is no libLLVM 19")
    done = compile_for(target, WAVE_LLVM=installed()[19])
    assert done.returncode == 1
    found = f"{os.path.realpath(installed()[19])}|{installed()[19]}"
    chip = target.removeprefix("emu:")
    assert re.search(
        rf"error\[E0901\]: ({found}) is version 19, and {chip} needs libLLVM {needs} or newer "
        r"\(`apt-get install libllvm22`",
        done.stderr,
    ), done.stderr


@pytest.mark.parametrize(
    "target, nearest",
    [("gfx943", "gfx942"), ("gfx90", "gfx90a"), ("gfx1259", "gfx1250"), ("emu:gfx94", "emu:gfx942")],
)
def test_unknown_chip(target, nearest):
    done = compile_for(target)
    assert done.returncode == 1
    assert f"error[E0603]: unknown target `{target}`\nhint: did you mean `{nearest}`?" in done.stderr


STUB = """
#define LLVM_FN(result, name, parameters) void LLVM##name(void) {}
%s
void LLVMGetVersion(unsigned *major, unsigned *minor, unsigned *patch)
{ *major = 19, *minor = *patch = 0; }
#define INIT(target) void LLVMInitialize##target##TargetInfo(void) {} \\
  void LLVMInitialize##target##Target(void) {} void LLVMInitialize##target##TargetMC(void) {} \\
  void LLVMInitialize##target##AsmPrinter(void) {} void LLVMInitialize##target##Disassembler(void) {}
INIT(AArch64) INIT(X86)
"""


@pytest.fixture(scope="module")
def without_amdgpu(tmp_path_factory):
    """A library with the functions of libLLVM, which do nothing, and without AMD GPUs."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("llvm")
    table = (ROOT / "src/runtime/llvm/llvm_library.def").read_text()
    rows = [row for row in re.findall(r"^LLVM_FN\(.*$", table, re.M) if "GetVersion" not in row]
    (folder / "stub.c").write_text(STUB % "\n".join(rows))
    library = folder / "libLLVM-stub.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "stub.c"], check=True)
    return str(library)


@pytest.mark.parametrize("target", ["gfx942", "emu:gfx1201"])
def test_library_without_amd_gpus(without_amdgpu, target):
    done = compile_for(target, WAVE_LLVM=without_amdgpu)
    assert done.returncode == 1
    chip = target.removeprefix("emu:")
    assert (
        f"error[E0901]: {without_amdgpu} was built without AMDGPU, which {chip} needs "
        "(`apt-get install libllvm19`" in done.stderr
    ), done.stderr
