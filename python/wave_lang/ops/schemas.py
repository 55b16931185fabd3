"""What the schema of an operator says about its arguments, for calls that PyTorch does not check."""

from __future__ import annotations

import re
from numbers import Integral, Real
from typing import Any

from .tensors import strides_of

_WORDS = {
    "bool": "True or False",
    "int": "an integer",
    "SymInt": "an integer",
    "int[2]": "one or two integers",
    "float": "a number",
    "str": "a string",
}


def kinds_of(schema: str) -> dict[str, str]:
    """{name: kind} of the arguments, such as {"x": "Tensor", "window": "int[2]"}."""
    args = schema.rpartition(") -> ")[0].partition("(")[2]
    # "int[2] window=[-1, -1]" has a comma of its own.
    words = [word.split() for word in re.sub(r"=\[[^]]*\]", "", args).split(",")]
    return {word[1].partition("=")[0]: word[0] for word in words if len(word) > 1}


def is_written(kind: str) -> bool:
    """Whether the operator changes an argument of this kind."""
    return "!" in kind


def integer_pair(name: str, value: Any) -> tuple[int, ...]:
    """An argument of kind int[2]: one integer stands for both."""
    pair = (value, value) if isinstance(value, Integral) else value
    if not isinstance(pair, (tuple, list)) or not all(_fits("int", n) for n in pair):
        raise TypeError(f"`{name}` is {value!r}, expected {_WORDS['int[2]']}")
    return tuple(int(n) for n in pair)


def checked_value(name: str, kind: str, value: Any) -> Any:
    """An argument other than a tensor, as the operator would get it from PyTorch."""
    kind, optional = kind.removesuffix("?"), kind.endswith("?")
    if kind not in _WORDS or (value is None and optional):
        return value
    if kind == "int[2]":
        return integer_pair(name, value)
    if not _fits(kind, value):
        expected = _WORDS[kind] + (" or None" if optional else "")
        raise TypeError(f"`{name}` is {value!r}, expected {expected}")
    return value


def _fits(kind: str, value: Any) -> bool:
    truth = type(value).__name__ in ("bool", "bool_")  # the second is NumPy's
    if kind == "bool":
        return truth
    if kind == "str":
        return isinstance(value, str)
    return not truth and isinstance(value, Real if kind == "float" else Integral)


def expect_places(name: str, x: Any) -> None:
    """Raises if elements of a tensor that is written have a place in common."""
    if any(n > 1 and step == 0 for n, step in zip(x.shape, strides_of(x))) and 0 not in x.shape:
        raise ValueError(f"several elements of `{name}` are in one place: make it contiguous")
