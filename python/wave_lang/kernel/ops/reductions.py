"""Ops that combine the elements along a dimension."""

from __future__ import annotations

import builtins
from typing import Any, Callable

from ... import _wave
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
    grid: builtins.bool = False,
    tag: Tag = None,
) -> Value:
    """The sum along `dim`, plus `init`; `block=True` combines all waves of the workgroup, and
    `grid=True` all workgroups that divide `dim`, each of which gets the sum."""
    operands = (arg,) if init is None else (arg, init)
    return _emit("sum", operands, {"dim": dim, "block": block, "grid": grid, "tag": tag})


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
    """The largest of the elements along `dim` and `init`."""
    return _reduce("max", arg, init, dim, block, tag)


def min(
    arg: Value,
    init: Value | None = None,
    dim: Any = None,
    block: builtins.bool = False,
    *,
    tag: Tag = None,
) -> Value:
    """The smallest of the elements along `dim` and `init`."""
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
    """The largest element along `dim` and its position (i32): the first of equal elements, the first
    NaN if there is one, and -1 if no element exists. `init` is the result for earlier elements."""
    return _arg_reduce("argmax", arg, init, dim, block, tag)


def argmin(
    arg: Value,
    init: tuple[Value, Value] | None = None,
    dim: Any = None,
    block: builtins.bool = False,
    *,
    tag: Tag = None,
) -> tuple[Value, Value]:
    """The smallest element along `dim` and its position, like `argmax`."""
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
    """The largest elements along `dim`, descending, and their positions (i32)."""
    return _emit("topk", (arg,), {"k_dim": k_dim, "dim": dim, "tag": tag})


def _combine(
    op: str, arg: Value, combine: Callable[[Value, Value], Any], init: Any, attrs: dict[str, Any]
) -> Value:
    """Traces `combine` as the body of the op."""
    tracer = _wave.current(op)
    pair = tracer.begin(op, (_need_value(arg, op), init), attrs)
    code = getattr(combine, "__code__", _combine.__code__)
    if code.co_argcount == len(pair):
        for value, name in zip(pair, code.co_varnames):
            tracer.name(value, name)
    return tracer.end((combine(*pair),), code)


def reduce(
    arg: Value,
    combine: Callable[[Value, Value], Any],
    init: Any,
    dim: Any = None,
    block: builtins.bool = False,
    *,
    tag: Tag = None,
) -> Value:
    """Combines `init` and all elements along `dim` with `combine(a, b)`; `init` if there are none.
    The compiler chooses the order of the elements: `combine` must be associative and commutative.
    `block=True` combines all waves of the workgroup."""
    return _combine("reduce", arg, combine, init, {"dim": dim, "block": block, "tag": tag})


def scan(
    arg: Value,
    combine: Callable[[Value, Value], Any],
    init: Any,
    dim: Any = None,
    block: builtins.bool = False,
    *,
    tag: Tag = None,
) -> Value:
    """For each element, combines `init` and the elements along `dim` up to and including it, in
    order, with `combine(a, b)`, which must be associative."""
    return _combine("scan", arg, combine, init, {"dim": dim, "block": block, "tag": tag})


__all__ = [
    name
    for name, value in globals().items()
    if getattr(value, "__module__", None) == __name__ and not name.startswith("_")
]
