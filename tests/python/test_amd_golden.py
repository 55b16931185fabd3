"""The demo's kernels, and the GEMM and the attention of the talks with their constraints for
MI300X, compiled for gfx942: no spills, no undefined symbols, and the instructions of
tests/isa/counts.txt.

The counts are those of LLVM 19. `make bless` writes the file again: review the diff.
"""

import os
import re
import struct
import sys
from pathlib import Path

import pytest
from test_cpu_llvm import installed

import test_kernels_seed as seeds
from wave_lang import WaveCompileOptions, wave_compile

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import demo_kernels  # noqa: E402

COUNTS = ROOT / "tests" / "isa" / "counts.txt"
HEAD = "# Written by test_amd_golden.py: instructions of kernels for gfx942, by LLVM 19.\n"
KINDS = ["matrix", "VALU", "SALU", "LDS", "memory", "waits", "barriers", "all"]

pytestmark = pytest.mark.skipif(
    19 not in installed() or "WAVE_LLVM" in os.environ, reason="the counts are those of LLVM 19"
)


def compiled(kernel, subs, **options):
    options = WaveCompileOptions(subs=subs, target="emu:gfx942", strict=True, **options)
    return wave_compile(options, kernel)


def of_the_demo(name):
    case = getattr(demo_kernels, name)()
    return compiled(case.kernel, case.symbols("cuda"))


def of_the_talks(test, **parameters):
    """Compiles and executes it, with the test's own comparison."""
    made = []

    def run(kernel, subs, *args, **options):
        made.append(compiled(kernel, subs, **options))
        made[0](*args)

    before, seeds.run = seeds.run, run
    try:
        test(**parameters)
    finally:
        seeds.run = before
    return made[0]


KERNELS = {
    "copy": lambda: of_the_demo("copy"),
    "softmax": lambda: of_the_demo("softmax"),
    "gemm": lambda: of_the_demo("gemm"),
    "convolution": lambda: of_the_demo("convolution"),
    "attention": lambda: of_the_demo("attention"),
    "gemm of the talk": lambda: of_the_talks(seeds.test_gemm, m=100, n=70, k=200, dynamic=True),
    "attention of the talk": lambda: of_the_talks(
        seeds.test_attention, b=2, m=40, n=24, k1=16, k2=373
    ),
}


def counted(text):
    """`KIND COUNT` of the first loop of `wavec loops`; empty: there is none."""
    rows = dict(re.findall(r"^    ([A-Za-z ]+?) +(\d+) +[\d.]+", text, re.M)[:11])
    return " ".join(f"{kind} {rows[kind]}" for kind in KINDS if kind in rows)


def counts(kernel):
    """One line: registers, LDS, instructions of the kernel, and those of its first loop with matrix
    instructions."""
    text = kernel.loops
    registers = re.search(r"registers: (\d+) vector .*, (\d+) scalar;", text)
    lds = re.search(r"LDS (\d+) bytes", text)[1]
    size = len(re.findall(r"^  +[0-9a-f]+  \w", kernel.asm, re.M))
    loop = counted(text)
    line = f"vector {registers[1]} scalar {registers[2]} LDS {lds} instructions {size}"
    return line + (f"; loop: {loop}" if loop else "")


def symbols(code):
    """Name and section of each symbol of an ELF file."""
    start, (size, n) = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<HH", code, 58)
    for at in range(start, start + n * size, size):
        if struct.unpack_from("<I", code, at + 4)[0] != 2:
            continue
        offset, length = struct.unpack_from("<QQ", code, at + 24)
        link = struct.unpack_from("<I", code, at + 40)[0]
        names = struct.unpack_from("<Q", code, start + link * size + 24)[0]
        for symbol in range(offset + 24, offset + length, 24):
            name, _, section = struct.unpack_from("<IHH", code, symbol)
            yield code[names + name : code.index(b"\0", names + name)].decode(), section


def golden():
    lines = COUNTS.read_text().splitlines() if COUNTS.exists() else []
    return dict(line.split(": ", 1) for line in lines if not line.startswith("#"))


def bless(name, line):
    rows = {**golden(), name: line}
    COUNTS.write_text(HEAD + "".join(f"{n}: {rows[n]}\n" for n in KERNELS if n in rows))


@pytest.mark.parametrize("name", KERNELS)
def test_counts(name):
    kernel = KERNELS[name]()
    assert "spills: 0 vector, 0 scalar" in kernel.loops and "scratch 0 bytes" in kernel.loops
    found = dict(symbols(kernel.program.code(0)))
    assert len(found) == 2 and all(found.values()), found  # the function and its descriptor
    line = counts(kernel)
    if os.environ.get("BLESS"):
        bless(name, line)
    assert golden()[name] == line
