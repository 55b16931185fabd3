"""Ops that combine the elements along a dimension."""

from __future__ import annotations

import builtins
from typing import Any

from ..._wave import Value, emit as _emit
from .elementwise import _need_value

Tag = Any


def _reduce(op: str, arg: Value, init: Any, dim: Any, block: builtins.bool, tag: Tag) -> Value:
    operands = (arg,) if init is None else (arg, init)
    return _emit(op, operands, {"dim": dim, "block": block, "tag": tag})


def sum(
    arg: Value,
    init: Value | None = None,
    dim: Any = None,
    block: builtins.bool = False,
    *,
    tag: Tag = None,
) -> Value:
    """The sum along `dim`, plus `init`; `block=True` combines all waves of the workgroup."""
    return _reduce("sum", arg, init, dim, block, tag)


def prod(
    arg: Value,
    init: Value | None = None,
    dim: Any = None,
    block: builtins.bool = False,
    *,
    tag: Tag = None,
) -> Value:
    """The product along `dim`, times `init`."""
    return _reduce("prod", arg, init, dim, block, tag)


def max(
    arg: Value,
    init: Value | None = None,
    dim: Any = None,
    block: builtins.bool = False,
    *,
    tag: Tag = None,
) -> Value:
    """The largest element along `dim`, and of `init`."""
    return _reduce("max", arg, init, dim, block, tag)


def min(
    arg: Value,
    init: Value | None = None,
    dim: Any = None,
    block: builtins.bool = False,
    *,
    tag: Tag = None,
) -> Value:
    """The smallest element along `dim`, and of `init`."""
    return _reduce("min", arg, init, dim, block, tag)


def _arg_reduce(
    op: str, arg: Value, init: Any, dim: Any, block: builtins.bool, tag: Tag
) -> tuple[Value, Value]:
    operands = (arg,) if init is None else (arg, *init)
    return _emit(op, operands, {"dim": dim, "block": block, "tag": tag})


def argmax(
    arg: Value,
    init: tuple[Value, Value] | None = None,
    dim: Any = None,
    block: builtins.bool = False,
    *,
    tag: Tag = None,
) -> tuple[Value, Value]:
    """The largest element along `dim`, and where it stands (i32): of equal ones the first, of NaN
    the first, -1 where no element exists. `init` is the result for elements in front of these."""
    return _arg_reduce("argmax", arg, init, dim, block, tag)


def argmin(
    arg: Value,
    init: tuple[Value, Value] | None = None,
    dim: Any = None,
    block: builtins.bool = False,
    *,
    tag: Tag = None,
) -> tuple[Value, Value]:
    """The smallest element along `dim`, and where it stands, as `argmax`."""
    return _arg_reduce("argmin", arg, init, dim, block, tag)


def cumsum(
    arg: Value,
    init: Value | None = None,
    dim: Any = None,
    block: builtins.bool = False,
    *,
    tag: Tag = None,
) -> Value:
    """The inclusive prefix sum along `dim` (by default the last dimension)."""
    if dim is None or (isinstance(dim, int) and dim == -1):
        dim = _need_value(arg, "cumsum").shape[-1]
    return _reduce("cumsum", arg, init, dim, block, tag)


def topk(arg: Value, k_dim: Any, dim: Any, *, tag: Tag = None) -> tuple[Value, Value]:
    """The largest elements along `dim`, descending, and where they stand (i32)."""
    return _emit("topk", (arg,), {"k_dim": k_dim, "dim": dim, "tag": tag})


__all__ = [
    name
    for name, value in globals().items()
    if getattr(value, "__module__", None) == __name__ and not name.startswith("_")
]
