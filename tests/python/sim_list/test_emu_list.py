"""The list of kernels as AMD machine code: compiled by LLVM, run by the executor with every check,
compared with NumPy in float64, and with the simulator bit by bit where docs/numerics.md says so.

One size of each kernel runs on every chip, with LLVM 19 or 22 in turn: most of the time is LLVM's.
`make test-full` takes both. In two runs of five, loops keep two or three tiles of an operand in LDS,
so that some are read while others are written. Under a sanitizer each kernel runs once, on one chip
with one version.
"""

import dataclasses
import functools
import os

import pytest

from compiler_steps import copied
from kernel_list import CASES, FULL
from same_bits import why_bits_may_differ
from test_cpu_llvm import installed
from wave_lang import _wave

# The first version that the tests use for a chip.
CHIPS = {
    **{"gfx90a": 19, "gfx942": 19, "gfx950": 22},
    **{"gfx1100": 19, "gfx1201": 19, "gfx1250": 22},
}
VERSIONS = (19, 22)
RINGS = (None, 2, None, 3, None)
SANITIZED = "-san" in os.environ.get("BUILD", "")


@functools.cache
def libraries(chip):
    """The libraries to use for a chip: that of the environment, or 19 and 22."""
    given = os.environ.get("WAVE_LLVM")
    if given:
        return [("", given)]
    found = installed()
    return [(f"-llvm{v}", found[v]) for v in VERSIONS if v in found and v >= CHIPS[chip]]


@functools.cache
def compiles(chip, library):
    """Whether this library has AMD GPUs, and knows the chip."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("WAVE_LLVM", library)
            CASES[0].compile(CASES[0].shapes[0], f"emu:{chip}")
        return True
    except _wave.CompileError:
        return False


def runs(place):
    """(chip, word, library)"""
    every = [(chip, *library) for chip in CHIPS for library in libraries(chip)]
    if SANITIZED:
        return every[place % len(every) :][:1] if every else []
    if FULL:
        return every
    chips = [(chip, libraries(chip)) for chip in CHIPS]
    return [
        (chip, *found[(place + i) % len(found)]) for i, (chip, found) in enumerate(chips) if found
    ]


def with_ring(case, slots):
    ring = {"multi_buffer_count": slots} if slots else {}
    return dataclasses.replace(case, options={**ring, **case.options})


def cases():
    for place, case in enumerate(CASES):
        sizes = case.shapes[place % len(case.shapes)]
        for i, (chip, word, library) in enumerate(runs(place)):
            slots = RINGS[(place + i) % len(RINGS)]
            name = f"{case.name}-{case.label(sizes)}-{chip}{word}{f'-ring{slots}' if slots else ''}"
            yield pytest.param(with_ring(case, slots), sizes, chip, library, id=name)


@pytest.mark.parametrize("case,sizes,chip,library", list(cases()))
def test_emu(case, sizes, chip, library, monkeypatch):
    if not compiles(chip, library):
        pytest.skip(f"{library} does not compile for {chip}")
    monkeypatch.setenv("WAVE_LLVM", library)
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
