"""The part of SymPy that kernels use, for machines without it. Builds Wave expressions.

`from wave_lang.kernel.lang.global_symbols import *` binds the name `sympy`: to SymPy itself where
it is installed, to this module otherwise.
"""

from __future__ import annotations

from .._wave import Expr, op as _op, symbol as _symbol

Basic = Expr
true = Expr("True")
false = Expr("False")


def Symbol(name: str, **assumptions: bool) -> Expr:
    """A symbol; it may be negative unless `nonnegative` or `positive` is given."""
    return _symbol(name, bool(assumptions.get("nonnegative") or assumptions.get("positive")))


def symbols(names: str, **assumptions: bool):
    """One symbol, or a tuple when several names are given."""
    made = tuple(Symbol(n, **assumptions) for n in names.replace(",", " ").split())
    return made[0] if len(made) == 1 else made


def Integer(value: int) -> Expr:
    """An integer constant."""
    return Expr(int(value))


def Rational(num: int, den: int = 1) -> Expr:
    """An exact fraction."""
    return _op("div", num, den)


def sympify(value) -> Expr:
    """The expression of a number or expression."""
    return Expr(value)


def floor(x) -> Expr:
    """The largest integer not above x."""
    return _op("floor", x)


def ceiling(x) -> Expr:
    """The smallest integer not below x."""
    return _op("ceil", x)


def Mod(a, b) -> Expr:
    """a - b * floor(a / b)."""
    return _op("mod", a, b)


def Min(*args) -> Expr:
    """The smallest of the arguments."""
    return _op("min", *args)


def Max(*args) -> Expr:
    """The largest of the arguments."""
    return _op("max", *args)


def Add(*args) -> Expr:
    """The sum of the arguments."""
    return _op("add", *args)


def Mul(*args) -> Expr:
    """The product of the arguments."""
    return _op("mul", *args)


def Pow(base, exponent) -> Expr:
    """base ** exponent."""
    return _op("pow", base, exponent)


def Eq(a, b) -> Expr:
    """The condition a == b (the operator compares structure and gives a bool)."""
    return _op("eq", a, b)


def Ne(a, b) -> Expr:
    """The condition a != b."""
    return _op("ne", a, b)


def Lt(a, b) -> Expr:
    """The condition a < b."""
    return _op("lt", a, b)


def Le(a, b) -> Expr:
    """The condition a <= b."""
    return _op("le", a, b)


def Gt(a, b) -> Expr:
    """The condition a > b."""
    return _op("gt", a, b)


def Ge(a, b) -> Expr:
    """The condition a >= b."""
    return _op("ge", a, b)


def And(*args) -> Expr:
    """All conditions hold."""
    return _op("and", *args)


def Or(*args) -> Expr:
    """Some condition holds."""
    return _op("or", *args)


def Not(a) -> Expr:
    """The condition does not hold."""
    return _op("not", a)


def Piecewise(*branches) -> Expr:
    """Piecewise((value, condition), ...): the value of the first condition that holds.

    One of them must hold: unless that is proved, the last condition has to be True."""
    return _op("piecewise", *(part for value, condition in branches for part in (value, condition)))


def simplify(expr) -> Expr:
    """A simpler expression that is equal."""
    return Expr(expr).simplify()
