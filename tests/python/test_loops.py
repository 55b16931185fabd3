"""`wavec loops`: the loops of code objects, ours and others', and files that are something else."""

import os
import re
import struct
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WAVEC = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")
GEMM = os.path.join(ROOT, "docs", "loop.wave")


def wavec(*words):
    done = subprocess.run([WAVEC, *map(str, words)], capture_output=True, text=True, check=False)
    if "E0901" in done.stderr:
        pytest.skip("no libLLVM for AMD GPUs")
    return done


def loops(*words):
    done = wavec("loops", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def row(text, name):
    """Count, count per matrix instruction, and cycles if there are any."""
    words = re.search(rf"^    {name} +(.*)$", text, re.M)[1].split()
    return [float(word) for word in words]


@pytest.fixture(scope="module")
def code_object(tmp_path_factory):
    path = tmp_path_factory.mktemp("code") / "gemm.hsaco"
    done = wavec(GEMM, "--target=gfx942", "--emit=hsaco", "-o", path)
    assert done.returncode == 0, done.stderr
    return path


def edited(tmp_path, code_object, change):
    code = bytearray(code_object.read_bytes())
    path = tmp_path / "edited.hsaco"
    made = change(code)
    path.write_bytes(code if made is None else made)
    return path


KINDS = ["matrix", "VALU", "SALU", "LDS", "memory", "scalar memory", "waits", "barriers"]
KINDS += ["branches", "other"]


@pytest.mark.parametrize(
    "target, cycles", [("gfx90a", 32), ("gfx942", 16), ("gfx1100", 32), ("gfx1201", 16)]
)
def test_gemm(target, cycles):
    text = loops(GEMM, "--target", target)
    matrices, each, busy = row(text, "matrix")
    assert each == 1 and busy == matrices * cycles
    assert row(text, "barriers")[0] >= 1
    assert sum(row(text, kind)[0] for kind in KINDS) == row(text, "all")[0]
    assert "spills: 0 vector, 0 scalar" in text and " 0 accumulator copies" in text


def test_a_file_shows_what_its_kernel_shows(code_object):
    assert loops(code_object) == loops(GEMM, "--target=gfx942")
    assert loops(code_object) == loops(GEMM, "--target=emu:gfx942")


def test_kernels_without_such_loops(tmp_path):
    assert "no loop contains matrix instructions" in loops(
        os.path.join(ROOT, "docs", "double.wave"), "--target=gfx942"
    )
    two = tmp_path / "two.wave"
    text = open(GEMM, encoding="utf-8").read()
    two.write_text(text + text.replace("@gemm", "@other"))
    names = re.findall(r"^kernel (\w+)", loops(two, "--target=gfx942"), re.M)
    assert names == ["wave_gemm", "wave_other"]


def test_output_goes_to_a_file(tmp_path, code_object):
    assert loops(code_object, "-o", tmp_path / "out") == ""
    assert (tmp_path / "out").read_text() == loops(code_object)


SYMTAB, DYNSYM, FUNCTION = 2, 11, 2


def sections(code):
    """Where each header is, and its type, offset and size."""
    start = struct.unpack_from("<Q", code, 40)[0]
    size, n = struct.unpack_from("<HH", code, 58)
    for at in range(start, start + n * size, size):
        yield at, *struct.unpack_from("<I", code, at + 4), *struct.unpack_from("<QQ", code, at + 24)


def test_stripped(tmp_path, code_object):
    """Without .symtab, names are those of .dynsym."""

    def strip(code):
        for at, kind, _, _ in sections(code):
            if kind == SYMTAB:
                struct.pack_into("<I", code, at + 4, 1)

    assert loops(edited(tmp_path, code_object, strip)) == loops(code_object)


def test_without_sizes(tmp_path, code_object):
    """Assemblers leave the sizes of functions out."""

    def forget(code):
        for _, kind, offset, size in sections(code):
            for at in range(offset, offset + size, 24) if kind in (SYMTAB, DYNSYM) else ():
                if code[at + 4] & 15 == FUNCTION:
                    struct.pack_into("<Q", code, at + 16, 0)

    assert loops(edited(tmp_path, code_object, forget)) == loops(code_object)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda code: code[:100], "the file ends at 0x64"),
        (lambda code: code[: len(code) // 2], "the file ends at"),
        (lambda code: b"\0" + code, "offset 0x0: not a 64-bit ELF file"),
        (lambda code: b"", "offset 0x0"),
        (lambda code: b"__CLANG_OFFLOAD_BUNDLE__" + code, "offset 0x0: not a 64-bit ELF file"),
        (lambda code: code.__setitem__(18, 62), "offset 0x12: for machine 62, not an AMD GPU"),
        (lambda code: code.__setitem__(48, 0xFE), "offset 0x30: compiled for an unknown chip"),
        (lambda code: code.__setitem__(16, 1), "offset 0x10"),
    ],
)
def test_files_that_are_something_else(tmp_path, code_object, change, words):
    done = wavec("loops", edited(tmp_path, code_object, change))
    assert done.returncode == 1 and done.stdout == ""
    assert "E0903" in done.stderr and words in done.stderr


def test_edited_code(tmp_path, code_object):
    """A branch that leaves the kernel is reported with its offset."""

    def branch(code):
        at = code.find(bytes.fromhex("000081bf"))  # s_endpgm
        assert at > 0
        struct.pack_into("<I", code, at, 0xBF827000)  # s_branch 0x7000
        return None

    done = wavec("loops", edited(tmp_path, code_object, branch))
    assert done.returncode == 1
    said = r"offset 0x\w+: kernel `wave_gemm`, pc 0x\w+: a branch out of the kernel"
    assert re.search(said, done.stderr)


@pytest.mark.parametrize(
    "words, status, said",
    [
        ([GEMM], 1, "--target gfx942"),
        ([GEMM, "--target=sm_90a"], 1, "only code for AMD GPUs"),
        ([GEMM, "--target=cpu"], 1, "only code for AMD GPUs"),
        ([GEMM, "--target=gfx9999"], 1, "E0603"),
        ([GEMM, "--emit=asm"], 2, "not an option of `loops`"),
        (["/no/such/file"], 2, "cannot read"),
        ([], 2, "no input file"),
    ],
)
def test_mistakes(words, status, said):
    done = wavec("loops", *words)
    assert done.returncode == status and said in done.stderr


def test_help_says_it():
    assert "wavec loops FILE" in wavec("--help").stdout
    text = wavec("loops", "--help").stdout
    assert "\n  --target" in text and "\n  --emit" not in text
