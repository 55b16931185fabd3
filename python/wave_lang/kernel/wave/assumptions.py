"""Facts about symbols that the compiler may use where a launch fulfils them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .constraints import Constraint


@dataclass
class Assumption(Constraint):
    """States something that holds for most launches: Assumption(K > 4 * BLOCK_K).

    The compiler uses it to optimise. If an assumption of the kernel does not hold for a launch, the
    launch uses code compiled without assumptions, with a remark; with `strict=True` it is rejected.
    `assume="ignore"` never uses them.
    """

    expr: Any

    def _fields(self):
        return {"kind": "assume", "expr": self.expr}


__all__ = ["Assumption"]
