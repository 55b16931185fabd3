"""Evaluates expressions with numbers for symbols. The numbers need not be Python's own: sizes that
are symbols of torch.compile stay symbols. A fraction is a pair (above, below)."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from typing import Any, Callable, Mapping

from .._wave import Expr

Pair = tuple[Any, Any]


def _add(a: Pair, b: Pair) -> Pair:
    if a[1] is b[1] or a[1] == b[1]:
        return a[0] + b[0], a[1]
    return a[0] * b[1] + b[0] * a[1], a[1] * b[1]


def _mul(a: Pair, b: Pair) -> Pair:
    return a[0] * b[0], a[1] * b[1]


def _mod(a: Pair, m: Pair) -> Pair:
    return (a[0] * m[1]) % (m[0] * a[1]), a[1] * m[1]


def _pow(a: Pair, n: Pair) -> Pair:
    return (a[0] ** n[0], a[1] ** n[0]) if n[0] >= 0 else (a[1] ** -n[0], a[0] ** -n[0])


def _less(a: Pair, b: Pair) -> Any:
    return a[0] * b[1] < b[0] * a[1]


_COMPUTE: dict[str, Callable[..., Any]] = {
    "add": lambda *terms: reduce(_add, terms),
    "mul": lambda *factors: reduce(_mul, factors),
    "pow": _pow,
    "mod": _mod,
    "floor": lambda a: (a[0] // a[1], 1),
    "ceil": lambda a: (-(-a[0] // a[1]), 1),
    "xor": lambda a, b: (a[0] ^ b[0], 1),
    "min": lambda *all: reduce(lambda a, b: a if _less(a, b) else b, all),
    "max": lambda *all: reduce(lambda a, b: b if _less(a, b) else a, all),
    "select": lambda condition, yes, no: yes if condition else no,
    "lt": _less,
    "le": lambda a, b: not _less(b, a),
    "eq": lambda a, b: a[0] * b[1] == b[0] * a[1],
    "ne": lambda a, b: a[0] * b[1] != b[0] * a[1],
    "and": lambda *all: reduce(lambda a, b: a and b, all),
    "or": lambda *all: reduce(lambda a, b: a or b, all),
}


def _value(expr: Expr, sizes: Mapping[Expr, Any]) -> Any:
    if expr.is_symbol:
        return sizes[expr], 1
    if expr.kind in ("int", "rational"):
        number = Fraction(str(expr))
        return number.numerator, number.denominator
    if expr.kind == "bool":
        return str(expr) == "True"
    return _COMPUTE[expr.kind](*(_value(a, sizes) for a in expr.args))


def evaluate(expr: Expr, sizes: Mapping[Expr, Any]) -> Any:
    """The value of an expression whose symbols all have one in `sizes`; it must be an integer."""
    above, below = _value(expr, sizes)
    if isinstance(below, int) and below == 1:
        return above
    if isinstance(above, int) and isinstance(below, int) and above % below:
        raise ValueError(f"`{expr}` is not an integer: {above}/{below}")
    return above // below


__all__ = ["evaluate"]
