"""Biases that depend on how far a key is behind a row."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw

from .attention_common import *

DISTANCE = tkl.sym.DISTANCE


def bias_of_distance(most: int, first_row: Any = 0, rows: Any = N_Q, group: int = 1) -> Any:
    """Reads a table of `most` + 1 biases for row i, which is at position first_row + i // group, and
    the key at position j: the bias of their distance, or the last one if the key is `most` or more
    behind, or ahead."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    distance = first_row + i // group - j
    place = tkl.Piecewise((distance, (distance < most) & (distance >= 0)), (most, True))
    return tkw.IndexMapping(2, inputs={DISTANCE: place}, outputs={rows: i, N_KV: j})


def check_most(most: int) -> None:
    if most < 0:
        raise ValueError(f"`max_rpe_context_length` is {most}, expected at least 0")
