"""Ops on each element. Operators on values do the same as the functions of their name."""

from __future__ import annotations

import builtins
from typing import Any

from ..._wave import Expr, Value, emit as _emit

Tag = Any


def _need_value(x: Any, op: str) -> Value:
    if not isinstance(x, Value):
        raise TypeError(f"{op}: expected a traced value, got {x!r}")
    return x


def _binary(op: str, lhs: Any, rhs: Any, tag: Tag) -> Value:
    return _emit(op, (lhs, rhs), {"tag": tag})


def maximum(lhs: Value, rhs: Any, *, tag: Tag = None) -> Value:
    """The larger of two elements; NaN if either is NaN."""
    return _binary("maximum", lhs, rhs, tag)


def minimum(lhs: Value, rhs: Any, *, tag: Tag = None) -> Value:
    """The smaller of two elements; NaN if either is NaN."""
    return _binary("minimum", lhs, rhs, tag)


def atan2(lhs: Value, rhs: Any, *, tag: Tag = None) -> Value:
    """The angle of the point (rhs, lhs)."""
    return _binary("atan2", lhs, rhs, tag)


def powf(lhs: Value, rhs: Any, *, tag: Tag = None) -> Value:
    """lhs to the power rhs."""
    return _binary("powf", lhs, rhs, tag)


def remf(lhs: Value, rhs: Any, *, tag: Tag = None) -> Value:
    """The remainder of lhs / rhs, with the sign of lhs."""
    return _binary("remf", lhs, rhs, tag)


def mod(lhs: Value, rhs: Any, *, tag: Tag = None) -> Value:
    """lhs % rhs: the remainder with the sign of lhs."""
    return _binary("mod", lhs, rhs, tag)


def gt(lhs: Value, rhs: Any, *, tag: Tag = None) -> Value:
    """lhs > rhs."""
    return _binary("gt", lhs, rhs, tag)


def ge(lhs: Value, rhs: Any, *, tag: Tag = None) -> Value:
    """lhs >= rhs."""
    return _binary("ge", lhs, rhs, tag)


def lt(lhs: Value, rhs: Any, *, tag: Tag = None) -> Value:
    """lhs < rhs."""
    return _binary("lt", lhs, rhs, tag)


def le(lhs: Value, rhs: Any, *, tag: Tag = None) -> Value:
    """lhs <= rhs."""
    return _binary("le", lhs, rhs, tag)


def eq(lhs: Value, rhs: Any, *, tag: Tag = None) -> Value:
    """lhs == rhs; false when either is NaN."""
    return _binary("eq", lhs, rhs, tag)


def ne(lhs: Value, rhs: Any, *, tag: Tag = None) -> Value:
    """lhs != rhs; false when either is NaN."""
    return _binary("ne", lhs, rhs, tag)


def _unary(op: str, arg: Value, tag: Tag) -> Value:
    return _emit(op, (arg,), {"tag": tag})


def abs(arg: Value, *, tag: Tag = None) -> Value:
    """The magnitude of each element."""
    return _unary("abs", arg, tag)


def exp(arg: Value, *, tag: Tag = None) -> Value:
    """e to the power of each element."""
    return _unary("exp", arg, tag)


def exp2(arg: Value, *, tag: Tag = None) -> Value:
    """2 to the power of each element."""
    return _unary("exp2", arg, tag)


def log(arg: Value, *, tag: Tag = None) -> Value:
    """The natural logarithm."""
    return _unary("log", arg, tag)


def log2(arg: Value, *, tag: Tag = None) -> Value:
    """The logarithm to base 2."""
    return _unary("log2", arg, tag)


def log10(arg: Value, *, tag: Tag = None) -> Value:
    """The logarithm to base 10."""
    return _unary("log10", arg, tag)


def sqrt(arg: Value, *, tag: Tag = None) -> Value:
    """The square root."""
    return _unary("sqrt", arg, tag)


def rsqrt(arg: Value, *, tag: Tag = None) -> Value:
    """1 / sqrt."""
    return _unary("rsqrt", arg, tag)


def cbrt(arg: Value, *, tag: Tag = None) -> Value:
    """The cube root."""
    return _unary("cbrt", arg, tag)


def reciprocal(arg: Value, *, tag: Tag = None) -> Value:
    """1 / element."""
    return _unary("reciprocal", arg, tag)


def reciprocal_approx(arg: Value, *, tag: Tag = None) -> Value:
    """1 / element by the machine's approximation."""
    return _unary("reciprocal_approx", arg, tag)


def sin(arg: Value, *, tag: Tag = None) -> Value:
    """The sine."""
    return _unary("sin", arg, tag)


def cos(arg: Value, *, tag: Tag = None) -> Value:
    """The cosine."""
    return _unary("cos", arg, tag)


def sinh(arg: Value, *, tag: Tag = None) -> Value:
    """The hyperbolic sine."""
    return _unary("sinh", arg, tag)


def tanh(arg: Value, *, tag: Tag = None) -> Value:
    """The hyperbolic tangent."""
    return _unary("tanh", arg, tag)


def tanh_approx(arg: Value, *, tag: Tag = None) -> Value:
    """The hyperbolic tangent by one exp2."""
    return _unary("tanh_approx", arg, tag)


def erf(arg: Value, *, tag: Tag = None) -> Value:
    """The error function: 2 / sqrt(pi) times the integral of exp(-t*t) from 0 to the element."""
    return _unary("erf", arg, tag)


def sigmoid(arg: Value, *, tag: Tag = None) -> Value:
    """1 / (1 + exp(-element))."""
    return _unary("sigmoid", arg, tag)


def floor(arg: Value, *, tag: Tag = None) -> Value:
    """The largest integer that is not above the element, as a float."""
    return _unary("floor", arg, tag)


def ceil(arg: Value, *, tag: Tag = None) -> Value:
    """The smallest integer that is not below the element, as a float."""
    return _unary("ceil", arg, tag)


def round(arg: Value, *, tag: Tag = None) -> Value:
    """The nearest integer, halves away from zero."""
    return _unary("round", arg, tag)


def roundeven(arg: Value, *, tag: Tag = None) -> Value:
    """The nearest integer, halves to even."""
    return _unary("roundeven", arg, tag)


def trunc(arg: Value, *, tag: Tag = None) -> Value:
    """The element without its fraction: the nearest integer toward zero."""
    return _unary("trunc", arg, tag)


def isnan(arg: Value, *, tag: Tag = None) -> Value:
    """Whether the element is NaN (i1)."""
    return _unary("isnan", arg, tag)


def isinf(arg: Value, *, tag: Tag = None) -> Value:
    """Whether the element is an infinity of either sign (i1)."""
    return _unary("isinf", arg, tag)


def softsign(
    arg: Value,
    logit_cap: float | Expr = 30.0,
    apply_scaling: builtins.bool = False,
    head_dim: int | None = None,
    *,
    tag: Tag = None,
) -> Value:
    """arg / (1 + |arg| / cap); `apply_scaling` scales the cap by 1 / sqrt(head_dim)."""
    cap = logit_cap if isinstance(logit_cap, Expr) else float(logit_cap)
    return _emit(
        "softsign",
        (arg,),
        {"cap": cap, "tag": tag, "head": head_dim if apply_scaling else None},
    )


__all__ = [
    name
    for name, value in globals().items()
    if getattr(value, "__module__", None) == __name__ and not name.startswith("_")
]
