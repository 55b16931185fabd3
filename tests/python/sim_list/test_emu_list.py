"""The list of kernels as AMD machine code: compiled by LLVM, run by the executor with every check,
compared with NumPy in float64, and with the simulator bit by bit where docs/numerics.md says so."""

import pytest

from compiler_steps import copied
from kernel_list import CASES, FULL
from same_bits import why_bits_may_differ
from wave_lang import _wave

CHIPS = ("gfx942", "gfx1201", "gfx90a", "gfx1100")


def has_llvm():
    """Whether libLLVM compiles for AMD GPUs."""
    try:
        case = CASES[0]
        case.compile(case.shapes[0], "emu:gfx90a")
        return True
    except _wave.CompileError:
        return False


pytestmark = pytest.mark.skipif(not has_llvm(), reason="there is no libLLVM with AMD GPUs")


def cases():
    """One size of each kernel, on one chip in rotation; in `make test-full` on each."""
    for place, case in enumerate(CASES):
        sizes = case.shapes[place % len(case.shapes)]
        for chip in CHIPS if FULL else (CHIPS[place % len(CHIPS)],):
            yield pytest.param(case, sizes, chip, id=f"{case.name}-{case.label(sizes)}-{chip}")


@pytest.mark.parametrize("case,sizes,chip", cases())
def test_emu(case, sizes, chip):
    arguments = case.arguments(sizes)
    after = copied(arguments)
    kernel = case.compile(sizes, f"emu:{chip}")
    kernel(*(array for _, array in after))
    case.check(sizes, arguments, after)
    if not why_bits_may_differ(case.lanes(sizes, chip)):
        expected = copied(arguments)
        case.compile(sizes, f"sim:{chip}")(*(array for _, array in expected))
        for (_, array), (_, other) in zip(after, expected, strict=True):
            assert array.tobytes() == other.tobytes()
