"""Registers and scalars with a given value: ops that the types of the language use."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Sequence

from ..._wave import DataType, Value, emit as _emit

Dims = Sequence[Any]
Tag = Any


def _constant(value: Any, dtype: DataType) -> Any:
    """A number converted to the dtype; expressions are returned unchanged."""
    if not isinstance(value, Real):
        return value
    return float(value) if dtype.is_float_asm() else math.trunc(value)


def _is_far(value: Any) -> bool:
    """Whether it is an integer too large for an expression, so that it must be an operand."""
    return isinstance(value, int) and not -(1 << 63) < value < 1 << 63


def register(shape: Dims, dtype: DataType, value: Any, *, tag: Tag = None) -> Value:
    """A register in which every element is `value`: a number or an index expression."""
    value = _constant(value, dtype)
    if _is_far(value):
        return register(shape, dtype, 0, tag=tag) + value
    return _emit("fill", (), {"value": value, "tag": tag}, (tuple(shape), dtype))


def scalar(value: Any, dtype: DataType, *, tag: Tag = None) -> Value:
    """One number: a constant, or the value of an index expression."""
    value = _constant(value, dtype)
    if _is_far(value):
        return scalar(0, dtype, tag=tag) + value
    return _emit("scalar", (), {"value": value, "tag": tag}, dtype)


__all__ = ["register", "scalar"]
