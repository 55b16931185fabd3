"""Every NVIDIA matrix instruction of src/target/mma.def as PTX: each is emitted, and assembles.
`make test-full` assembles all, `make test` some of the widths of wgmma."""

import itertools
import os
import re
import subprocess

import pytest

from test_ptx import ROOT, WAVEC, needs_ptxas, ptxas, texts

FULL = bool(os.environ.get("TEST_FULL"))
with open(os.path.join(ROOT, "src/target/mma.def"), encoding="utf-8") as file:
    TABLE = file.read()

F8 = {"f8e4m3fn": "e4m3", "f8e5m2": "e5m2"}
SPELLED = {**F8, "i8": "s8", "i32": "s32"}
BITS = {**dict.fromkeys(F8, 8), "i8": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def pairs_of(types):
    return list(itertools.product(F8, F8)) if types == "F8_OCP" else [(types, types)]


def wave_rows():
    """name, registers of a, b and c, types of a and b, of the accumulator, whether sm_80 has it."""
    row = r"^MMA\((mma_m(\d+)n(\d+)k(\d+)_\w+),.*?NATIVE.*?,\s*(\w+),\s*(?:SAME|MIXED),\s*(\w+), (\w+),"
    for name, m, n, k, types, acc, needs in re.findall(row, TABLE, re.M):
        m, n, k = int(m), int(n), int(k)
        for a, b in pairs_of(types):
            yield name, (m * k // 32, n * k // 32, m * n // 32), (a, b), acc, needs == "MMA_SYNC"


def in_memory(types):
    """tf32 is how an instruction reads f32."""
    return ["f32" if t == "tf32" else t for t in types]


def wave_kernel(name, registers, operands, acc):
    operands = in_memory(operands)
    loads = "".join(
        (
            f"  %{x} = load %p{x}, %z : vec<{n}, {t}>\n"
            if n > 1
            else f"  %{x} = load %p{x}, %z : {t}\n"
        )
        for x, n, t in zip("abc", registers, (*operands, acc))
    )
    return f"""thread kernel @k(%pa: mem<64, {operands[0]}>, %pb: mem<64, {operands[1]}>, %pc: mem<64, {acc}>)
  launch grid (1) block (32) wave 32
{{
  %z = scalar 0 : i32
{loads}  %r = wave_mma {name} %a, %b, %c
  store %r, %pc, %z
}}
"""


def group_rows():
    """N, K, types of a and b, of the accumulator."""
    for k, acc, types, steps in re.findall(
        r"^WGMMA\((\d+),\s*(\w+), \w+,\s*(\w+),.*(STEP\d+),", TABLE, re.M
    ):
        table = re.search(
            rf"#define {steps}\(.*?\n\n|#define {steps}\(.*?(?=#define|WGMMA)", TABLE, re.S
        )
        for n in map(int, re.findall(r"ROW\((\d+),", table.group(0))):
            for pair in pairs_of(types):
                yield n, int(k), pair, acc


def group_kernel(n, k, operands, acc, registers):
    """With a given by its descriptor, or in registers."""
    name = f"wgmma_m64n{n}k{k}_{acc}_{'f8' if operands[0] in F8 else operands[0]}"
    operands = in_memory(operands)
    bits = BITS[operands[0]]
    a = "%ra" if registers else "%s, %z"
    desc = "" if registers else "desc_a = [128, 256, 0, 0], "
    return f"""thread kernel @k(%pa: mem<4096, {operands[0]}>, %pc: mem<65536, {acc}>)
  launch grid (1) block (128) wave 32 shared 20480
{{
  %s = alloc {{base = 0}} : mem<{2048 * 8 // bits}, {operands[0]}, shared>
  %t = alloc {{base = 2048}} : mem<{16384 * 8 // bits}, {operands[1]}, shared>
  %z = scalar 0 : i32
  %i = expr {n // 2}*$T0 : i32
  %c = load %pc, %i : vec<{n // 2}, {acc}>
  %ra = load %pa, %i : vec<{k // 2}, {operands[0]}>
  wgmma_fence
  %r = wgmma {name} %c, {a}, %t, %z {{{desc}desc_b = [128, 256, 0, 0]}}
  wgmma_commit
  wgmma_wait 0
  store %r, %pc, %i
}}
"""


def emit(kernels, target, at_once=200):
    if len(kernels) > at_once:
        return emit(kernels[:at_once], target) + emit(kernels[at_once:], target)
    done = subprocess.run(
        [WAVEC, "-", "--target", target, "--passes=legalise", "--emit=ptx"],
        input="\n".join(k.replace("@k(", f"@k{i}(") for i, k in enumerate(kernels)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = texts(done.stdout)
    assert len(found) == len(kernels)
    return found


def spelled(acc, operands):
    return [SPELLED.get(t, t) for t in (acc, *operands)]


def test_the_table_was_read():
    assert (
        len(list(wave_rows())) == 11 + 2 * 4 and len(list(group_rows())) == 32 * 4 + 2 * 4 * 32 + 18
    )


@pytest.mark.parametrize("target", ptxas.targets())
def test_rows_of_a_wave(target):
    rows = [r for r in wave_rows() if target not in ("sm_80", "sm_86") or r[4]]
    for row, text in zip(rows, emit([wave_kernel(*r[:4]) for r in rows], target)):
        shape = re.search(r"m\d+n\d+k\d+", row[0]).group(0)
        d, a, b = spelled(row[3], row[2])
        assert f"mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{d} " in text, row
        if ptxas.find():
            result = ptxas.assemble(text)
            assert result.ok, (row, result.log)


@needs_ptxas
@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
def test_rows_of_four_waves(registers):
    rows = list(group_rows())
    for row, text in zip(rows, emit([group_kernel(*r, registers) for r in rows], "sm_90a")):
        n, k, operands, acc = row
        d, a, b = spelled(acc, operands)
        assert f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d}.{a}.{b} " in text, row
        if FULL or n in (8, 96) or (n == 256 and operands[0] in ("f16", "i8")):
            result = ptxas.assemble(text)
            assert result.ok, (row, result.log)
