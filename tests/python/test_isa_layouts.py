"""The layouts of matrix instructions against AMD's Matrix Instruction Calculator.

tests/isa/amd_layouts.json is the output of version 1.3.2: for each operand the number of elements
of a lane, then row and column of every element, lane by lane (A: m, k; B: n, k; D: m, n). Both
tables of the compiler are compared with it: isa_layouts.def, by which the executor works, exactly;
mma.def, by which kernels are compiled, up to one permutation of K that A and B share. Instructions
of gfx950 and gfx1250, which the calculator lacks, are compared with isa_layouts.def.
"""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = json.loads((ROOT / "tests/isa/amd_layouts.json").read_text())
FAMILY = {"cdna2": "CDNA", "cdna3": "CDNA", "rdna3": "RDNA3", "rdna4": "RDNA4"}


def positions(digits: str):
    """Element and lane to coordinates, as layout.h defines them: elements, lanes, function."""
    parts = {"reg": [], "lane": []}
    for part in digits.split("|"):
        words = part.split()
        for word in words[1:]:
            dim, radix, stride = re.fullmatch(r"(?:d(\d)|~)/(\d+)(?::(\d+))?", word).groups()
            parts[words[0]].append((int(dim or 0), int(radix), int(stride or 0)))

    def size(part):
        n = 1
        for _, radix, _ in parts[part]:
            n *= radix
        return n

    def at(element, lane):
        coord = [0, 0]
        for part, number in (("reg", element), ("lane", lane)):
            for dim, radix, stride in parts[part]:
                coord[dim] += number % radix * stride
                number //= radix
        return tuple(coord)

    return size("reg"), size("lane"), at


def expand(digits: str):
    elements, lanes, at = positions(digits)
    return elements, [at(e, lane) for lane in range(lanes) for e in range(elements)]


def published(row, operand):
    elements, flat = row[operand]
    return elements, list(zip(flat[0::2], flat[1::2]))


def rows_of(path, macro):
    text = re.sub(r"/\*.*?\*/", "", (ROOT / path).read_text(), flags=re.S)
    for match in re.finditer(rf"^{macro}\((.*)\)\s*$", text, flags=re.M):
        quoted = re.findall(r'"[^"]*"|[^,]+', match.group(1))
        yield [word.strip().strip('"') for word in quoted if word.strip()]


PLACES = dict(rows_of("src/isa/isa_layouts.def", "PLACE"))
MATRICES = list(rows_of("src/isa/isa_layouts.def", "(?:MATRIX|SCALED)"))


def executor_row(name):
    """The executor's row for `cdna3:v_mfma_...`; aliases are the names of other chips."""
    family, instruction = name.split(":")
    for row in MATRICES:
        if row[-11] == FAMILY[family] and instruction in [row[0], *" ".join(row[1:-11]).split()]:
            return row
    raise AssertionError(f"isa_layouts.def lacks {name}")


@pytest.mark.parametrize("name", PUBLISHED)
def test_executor_has_published_layouts(name):
    row = executor_row(name)
    for operand, place in zip("ABD", row[-3:]):
        assert expand(PLACES[place]) == published(PUBLISHED[name], operand), operand
    if not name.startswith("cdna2"):  # CDNA2 takes longer: the table has CDNA3's cycles
        assert int(row[-4]) == PUBLISHED[name]["cycles"]


FRAGMENTS = dict(rows_of("src/target/mma.def", "FRAGMENT"))

# The rows of mma.def by the instruction that they are compiled to.
COMPILED = {
    "cdna3:v_mfma_f32_16x16x16_f16": "F32_16x16x16_F16",
    "cdna3:v_mfma_f32_32x32x8_f16": "F32_32x32x8_F16",
    "cdna2:v_mfma_f32_16x16x16bf16_1k": "F32_16x16x16_F16",
    "cdna2:v_mfma_f32_32x32x8bf16_1k": "F32_32x32x8_F16",
    "cdna2:v_mfma_i32_16x16x16i8": "I32_16x16x16_I8",
    "cdna2:v_mfma_i32_32x32x8i8": "I32_32x32x8_I8",
    "cdna3:v_mfma_f32_16x16x32_fp8_fp8": "F32_16x16x32_F8",
    "cdna3:v_mfma_f32_32x32x16_fp8_fp8": "F32_32x32x16_F8",
    "cdna3:v_mfma_i32_16x16x32_i8": "I32_16x16x32_I8",
    "cdna3:v_mfma_i32_32x32x16_i8": "I32_32x32x16_I8",
    "cdna3:v_mfma_f32_16x16x4_f32": "mfma_16x16x4_f32_f32",
    "cdna3:v_mfma_f32_32x32x2_f32": "mfma_32x32x2_f32_f32",
    "cdna3:v_mfma_f64_16x16x4_f64": "mfma_16x16x4_f64_f64",
    "rdna3:v_wmma_f32_16x16x16_f16": "wmma11_16x16x16_f32_f16",
    "rdna3:v_wmma_f32_16x16x16_bf16": "wmma11_16x16x16_f32_bf16",
    "rdna3:v_wmma_i32_16x16x16_iu8": "wmma11_16x16x16_i32_i8",
    "rdna4:v_wmma_f32_16x16x16_f16": "RDNA4_WAVE32_F32_16x16x16_F16",
    "rdna4:v_wmma_f32_16x16x16_bf16": "wmma12_16x16x16_f32_bf16",
    "rdna4:v_wmma_f32_16x16x16_fp8_fp8": "wmma12_16x16x16_f32_f8",
    "rdna4:v_wmma_i32_16x16x16_iu8": "wmma12_16x16x16_i32_i8",
}


def permutation_of_k(ours, theirs):
    """The K that the instruction sees for each K of ours; None: they differ in more than that."""
    pi = {}
    for (row, k), (their_row, their_k) in zip(ours, theirs):
        if row != their_row or pi.setdefault(k, their_k) != their_k:
            return None
    return pi if len(set(pi.values())) == len(pi) else None


def check_compiled(name, theirs):
    """Row `name` of mma.def against A, B and D: the elements of a lane, and their coordinates."""
    row = next(r for r in rows_of("src/target/mma.def", "MMA") if r[0] == name)
    *ours, d = (expand(FRAGMENTS[f]) for f in row[-5:-2])
    assert d == theirs[2]
    assert [elements for elements, _ in ours] == [elements for elements, _ in theirs[:2]]
    a, b = (permutation_of_k(o[1], t[1]) for o, t in zip(ours, theirs))
    assert a is not None and a == b
    if row[2] == "SCALED":  # 32 elements of K have a scale
        assert all(k // 32 == seen // 32 for k, seen in a.items())


@pytest.mark.parametrize("name", PUBLISHED)
def test_compiler_agrees_with_published_layouts(name):
    check_compiled(COMPILED[name], [published(PUBLISHED[name], operand) for operand in "ABD"])


# Instructions that the calculator lacks: chips, executor's row, mma.def's row.
LATER = [
    ("CDNA", "v_mfma_f32_16x16x32_f16", "F32_16x16x32_F16"),
    ("CDNA", "v_mfma_f32_32x32x16_f16", "F32_32x32x16_F16"),
    ("CDNA", "v_mfma_f32_16x16x32_bf16", "F32_16x16x32_BF16"),
    ("CDNA", "v_mfma_f32_32x32x16_bf16", "F32_32x32x16_BF16"),
    ("CDNA5", "v_wmma_f32_16x16x32_f16", "GFX1250_F32_16x16x32_F16"),
    ("CDNA5", "v_wmma_f32_16x16x32_bf16", "wmma1250_16x16x32_f32_bf16"),
    ("CDNA5", "v_wmma_f32_16x16x4_f32", "wmma1250_16x16x4_f32_f32"),
    ("CDNA5", "v_wmma_f32_16x16x64_fp8_fp8", "wmma1250_16x16x64_f32_f8"),
    ("CDNA5", "v_wmma_i32_16x16x64_iu8", "wmma1250_16x16x64_i32_i8"),
    ("CDNA5", "v_wmma_scale_f32_16x16x128_f8f6f4", "GFX1250_F32_16x16x128_F8F6F4"),
]


@pytest.mark.parametrize("chips, instruction, name", LATER)
def test_compiler_agrees_with_executor(chips, instruction, name):
    row = next(r for r in MATRICES if r[0] == instruction and r[-11] == chips)
    check_compiled(name, [expand(PLACES[place]) for place in row[-3:]])
