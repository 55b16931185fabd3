"""Dimensions derived from others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

from ... import _wave
from ..._wave import Expr
from .constraints import Constraint


@dataclass
class SymbolicAlias(Constraint):
    """`source` is a dimension derived from `target`: it inherits the constraints of `target`, with
    tile sizes passed through `source_to_target`: SymbolicAlias(K2, K1, lambda x: x // 4)."""

    source: Any
    target: Any
    source_to_target: Callable[[Expr], Any]

    def _fields(self):
        return {
            "kind": "alias",
            "dim": self.source,
            "start": self.target,
            "expr": self.source_to_target(_wave.symbol("$ALIAS")),
        }

    def apply(self, tile_size: Any) -> Any:
        """The tile of `source` that belongs to a tile of `target`."""
        return self.source_to_target(tile_size)


SymbolicConstraint = SymbolicAlias

__all__ = ["SymbolicAlias", "SymbolicConstraint"]
