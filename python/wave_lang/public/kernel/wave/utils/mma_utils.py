"""How many elements of a matrix operand one lane holds, for the sizes of reads in templates."""

from __future__ import annotations

from typing import Any

from wave_lang import _wave
from wave_lang.kernel.wave.constraints import mma_spec

# name -> (elements of lhs or rhs, elements of the accumulator) per lane; 0: unspecified
_HELD = {row[0]: row[7:9] for row in _wave.mma_table}


def _held(mfma_variant: Any) -> tuple[int, int]:
    return _HELD.get(mma_spec(mfma_variant), (0, 0))


def get_mfma_load_elems_per_thread(mfma_variant: Any) -> int | None:
    """Elements of lhs or rhs per lane; None if the layout does not specify it."""
    return _held(mfma_variant)[0] or None


def get_mfma_store_elems_per_thread(mfma_variant: Any) -> int | None:
    """Elements of the accumulator per lane; None if the layout does not specify it."""
    return _held(mfma_variant)[1] or None
