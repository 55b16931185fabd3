"""A kernel's text on its way through the compiler: pass by pass, evaluated, simulated.

Arguments are lists of (dtype, array); runs get copies and return them.
"""

import re
from pathlib import Path

import pytest

from wave_lang import _wave

PASSES_DEF = Path(__file__).resolve().parents[3] / "src/transform/passes.def"
_MASK = re.compile(r"(, )?\bmask = \[[^\]]*\](, )?")


def copied(arguments):
    return [(dtype, array.copy()) for dtype, array in arguments]


def kernel(text):
    """The one kernel of a text. Printing and parsing it must give the same kernel."""
    (parsed,) = _wave.parse(text, "kernel.wave")
    return parsed


def tile_passes():
    """The passes of the pipeline that work on tiles, in order."""
    if not PASSES_DEF.exists():
        pytest.skip("the table of passes was not found")
    names = re.findall(r"^PASS\((\w+),", PASSES_DEF.read_text(), re.M)
    return names[: names.index("lower_threads")]


def after_each_pass(text, target):
    """(pass, text) in order. Each pass gets the parsed output of the one before."""
    for name in tile_passes():
        now = kernel(text)
        now.run_passes(target=target, passes=name)
        text = str(now)
        assert str(kernel(text)) == text, f"the dump after `{name}` does not round-trip"
        yield name, text


def evaluated(text, arguments, check_masks=True):
    """The arguments after a run of a tile kernel. Checking masks takes most of the time."""
    if not check_masks:
        text = _MASK.sub(lambda m: ", " if m[1] and m[2] else "", text)
        text = re.sub(r"(?<!->) \{\}", "", text)  # an empty mapping stays
    after = copied(arguments)
    kernel(text).eval(tuple(array for _, array in after))
    return after


def simulated(text, arguments, target, schedule="round"):
    """The arguments after a run of one lane's program; findings raise SimulationError."""
    after = copied(arguments)
    kernel(text).sim(tuple(array for _, array in after), f"sim:{target}", schedule)
    return after
