"""Operands that are contiguous along the wrong dimension: they are stored in LDS as they are, and
transposed while they are read (gfx950, gfx1250). On machines without such reads they are transposed
when they are stored."""

import dataclasses
import os
import re
import subprocess

import numpy as np
import pytest

import cases_attention
from cases_gemm import gemm
from compiler_steps import copied
from wave_lang import _wave

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WAVEC = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")
CHIPS = ("gfx950", "gfx1250")
COLUMNS = re.compile(r"ldmatrix .*\bcolumns\b")
MACHINE = re.compile(r"ds_read_b64_tr_b\d+|ds_load_tr\d+_b\d+")

# form, type, instruction, tile, waves
GEMMS = [
    ("NN", "f16", "16x16x16", (64, 64, 32), (2, 1)),
    ("NN", "bf16", "16x16x32_k8", (48, 80, 64), (3, 1)),
    ("TN", "f16", "32x32x8", (64, 96, 32), (2, 1)),
    ("TT", "bf16", "32x32x16_k8", (64, 32, 48), (1, 1)),
    ("NN", "i8", "16x16x32_i8", (32, 48, 64), (1, 1)),
    ("TN", "f8e4m3fn", "16x16x32_f8", (64, 64, 64), (2, 2)),
    ("NN", "f8e4m3fn", "32x32x16_f8", (32, 96, 32), (1, 1)),
]
# Whole tiles; rows of 16 bytes, with an edge; rows of 4 bytes; odd rows
SIZES = [lambda t: 2 * t, lambda t: t + 24, lambda t: t + 2, lambda t: t + 1]


def run(case, sizes, target):
    """The kernel, which has given the expected result."""
    kernel = case.compile(sizes, target)
    arguments = case.arguments(sizes)
    after = copied(arguments)
    kernel(*(array for _, array in after))
    case.check(sizes, arguments, after)
    return kernel


def skip_without_llvm(chip):
    try:
        case = gemm("NT", "f16", "16x16x16", "shared", (16, 16, 16))
        case.compile(case.shapes[2], f"emu:{chip}")
    except _wave.CompileError as error:
        if "E0901" not in str(error):
            raise
        pytest.skip(f"no libLLVM compiles for {chip}")


def named(form, dtype, mma, tile, waves):
    return gemm(form, dtype, mma, "shared", tile, waves)


@pytest.mark.parametrize("size", SIZES, ids=["tiles", "aligned", "words", "odd"])
@pytest.mark.parametrize("row", GEMMS, ids=lambda row: "_".join(map(str, row[:3])))
@pytest.mark.parametrize("chip", CHIPS)
def test_products(chip, row, size):
    skip_without_llvm(chip)
    case = named(*row)
    sizes = {d: size(t) for d, t in case.around.items()}
    simulated = run(case, sizes, f"sim:{chip}")
    asm = run(case, sizes, f"emu:{chip}").asm
    columns = len(COLUMNS.findall(str(simulated.lowered)))
    assert bool(columns) == bool(MACHINE.search(asm))
    if chip == "gfx950" and size in SIZES[:3]:
        assert columns, "operands are not transposed while they are read"
    if size is SIZES[0]:
        assert not re.search(r"ds_(write|store)_b(8|16)", asm) or not columns


@pytest.mark.parametrize("options", [{"multi_buffer_count": 3}, {"use_global_to_shared": True}])
@pytest.mark.parametrize("chip", CHIPS)
def test_rings_and_direct_copies(chip, options):
    skip_without_llvm(chip)
    case = dataclasses.replace(named("NN", "f16", "16x16x16", (64, 64, 32), (2, 2)), options=options)
    for m, n, k in ((128, 128, 256), (130, 136, 72)):
        sizes = dict(zip(case.around, (m, n, k)))
        assert MACHINE.search(run(case, sizes, f"emu:{chip}").asm)


@pytest.mark.parametrize("target", ["sim:gfx942", "sim:gfx1201", "sim:sm_90a", "cpu"])
def test_other_machines(target):
    """They do without."""
    case = named(*GEMMS[0])
    kernel = run(case, {d: 2 * t for d, t in case.around.items()}, target)
    assert not COLUMNS.search(str(kernel.lowered))


def test_values_of_attention():
    """The second product reads its values along the keys, which are not contiguous."""
    skip_without_llvm("gfx950")
    case = next(c for c in cases_attention.CASES if c.name.startswith("attention_causal_16x16x16"))
    sizes = case.fit({d: 2 * t for d, t in case.around.items()})
    assert MACHINE.search(run(case, sizes, "emu:gfx950").asm)


def test_a_layout_by_the_author_is_kept():
    """Rows along K in LDS: nothing has to be transposed."""
    case = gemm("NT", "f16", "16x16x16", "shared", (64, 64, 32), (2, 1))
    kernel = run(case, {d: 2 * t for d, t in case.around.items()}, "sim:gfx950")
    assert not COLUMNS.search(str(kernel.lowered))


# A read that only some lanes use afterwards must still be executed by all of them.
SOME = """thread kernel @some(%a: mem<{n}, {dtype}>, %b: mem<{n}, {dtype}>)
  launch grid (1) block ({lanes}) wave {lanes} shared 512
{{
  %s = alloc {{base = 0}} : mem<{n}, {dtype}, shared>
  %at = expr {each}*$T0 : i32
  %v = load %a, %at : vec<{each}, {dtype}>
  store %v, %s, %at
  barrier workgroup
  %m = ldmatrix %s, %at {{columns}} : vec<{each}, {dtype}>
  if ($T0 < 7) {{
    store %m, %b, %at
  }}
}}
"""


@pytest.mark.parametrize("dtype, each", [("f16", 4), ("bf16", 4), ("i8", 8), ("i4", 16)])
@pytest.mark.parametrize("chip, lanes", [("gfx950", 64), ("gfx1250", 32)])
def test_all_lanes_read(tmp_path, chip, lanes, dtype, each):
    skip_without_llvm(chip)
    path = tmp_path / "some.wave"
    each = 8 if chip == "gfx1250" and each == 4 else each
    path.write_text(SOME.format(lanes=lanes, each=each, n=lanes * each, dtype=dtype))
    outputs = []
    for way in "sim", "emu":
        words = [WAVEC, "run", str(path), "--target", f"{way}:{chip}"]
        outputs.append(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("chip", ["gfx942", "gfx1201"])
def test_chips_without_them(tmp_path, chip):
    path = tmp_path / "some.wave"
    lanes = 64 if chip == "gfx942" else 32
    path.write_text(SOME.format(lanes=lanes, each=256 // lanes, n=256, dtype="f16"))
    words = [WAVEC, str(path), "--target", chip, "--emit=asm"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"some.wave:9:8: error[E0615]: {chip} does not support `ldmatrix {{columns}}`" in done.stderr


def test_results_are_the_simulators_bits():
    """bf16 sums of integers are exact in any order."""
    skip_without_llvm("gfx950")
    case = named(*GEMMS[1])
    sizes = {d: 2 * t for d, t in case.around.items()}
    rng = np.random.default_rng(5)
    arguments = [rng.integers(-2, 3, a.shape).astype("f4") for _, a in case.arguments(sizes)]
    a, b = ((v.view("u4") >> 16).astype("u2") for v in arguments[:2])
    found = []
    for target in "sim:gfx950", "emu:gfx950":
        c = np.zeros(arguments[2].shape, "f4")
        case.compile(sizes, target)(a, b, c)
        found.append(c)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], arguments[0] @ arguments[1])
