"""Facts about symbols that the compiler may use and a launch checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .constraints import Constraint


@dataclass
class Assumption(Constraint):
    """Says that a condition holds at every launch: Assumption(K > 4 * BLOCK_K)."""

    expr: Any

    def _fields(self):
        return {"kind": "assume", "expr": self.expr}


__all__ = ["Assumption"]
