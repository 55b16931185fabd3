"""How many elements of a matrix operand one lane holds, for the sizes of reads in templates."""

from __future__ import annotations

from typing import Any

from wave_lang import _wave
from wave_lang.kernel.wave.constraints import mma_spec


def _held(mfma_variant: Any) -> tuple[int, int]:
    """Elements of lhs or rhs, and of the accumulator, per lane; 0: unspecified."""
    spec = mma_spec(mfma_variant)
    row = _wave.mma_row(spec) if isinstance(spec, str) else None
    return row[7:9] if row else (0, 0)


def get_mfma_load_elems_per_thread(mfma_variant: Any) -> int | None:
    """Elements of lhs or rhs per lane; None if the layout does not specify it."""
    return _held(mfma_variant)[0] or None


def get_mfma_store_elems_per_thread(mfma_variant: Any) -> int | None:
    """Elements of the accumulator per lane; None if the layout does not specify it."""
    return _held(mfma_variant)[1] or None
