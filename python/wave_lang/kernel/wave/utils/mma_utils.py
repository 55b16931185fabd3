"""How many elements of a matrix operand one lane holds."""

from __future__ import annotations

from typing import Any

from .... import _wave
from ..constraints import mma_spec

_ROWS = {row[0]: row for row in _wave.mma_table}


def get_mfma_load_elems_per_thread(mfma_variant: Any) -> int | None:
    """Elements of lhs or rhs per lane; None where the layout does not say."""
    row = _ROWS.get(mma_spec(mfma_variant)) if not hasattr(mfma_variant, "k_vec_size") else None
    return (row[7] or None) if row else None


def get_mfma_store_elems_per_thread(mfma_variant: Any) -> int | None:
    """Elements of the accumulator per lane; None where the layout does not say."""
    row = _ROWS.get(mma_spec(mfma_variant)) if not hasattr(mfma_variant, "k_vec_size") else None
    return (row[8] or None) if row else None
