"""What loops and conditionals are given, checked before their bodies are traced."""

from __future__ import annotations

from typing import Any, Mapping

from ... import _wave
from ..._wave import Expr, Value


def need_carried(carried: tuple, where: str) -> None:
    for value in carried:
        if not isinstance(value, Value):
            _wave.report(
                "E0315",
                f"{where} has {value!r}, but carried values must be registers",
                "give its shape and type: `Register[M, N, f32](0.0)`",
            )


def need_promise(until: Any, is_while: bool) -> None:
    """`until` of a loop: a dimension, and a position that follows from the index along it."""
    if until is None:
        return
    if is_while:
        _wave.report(
            "E0406",
            "`until` belongs to a loop without condition=",
            "a while loop ends for all rows when its condition fails",
        )
    if not isinstance(until, Mapping):
        _wave.report(
            "E0406",
            f"`until` is {until!r}, expected a dimension and a position",
            "name them: until={M: IndexMapping.iterator(0) + 1}",
        )
    for dim, position in until.items():
        try:
            Expr(dim), Expr(position)
        except (TypeError, ValueError, OverflowError):
            _wave.report(
                "E0406",
                f"`until` has {dim!r}: {position!r}, expected a dimension and a position",
                "a position is an integer, or an expression of sizes and IndexMapping.iterator(0)",
            )
