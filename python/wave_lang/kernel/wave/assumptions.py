"""Facts about symbols that the compiler may use where a launch fulfils them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .constraints import Constraint


@dataclass
class Assumption(Constraint):
    """Says what is true of most launches: Assumption(K > 4 * BLOCK_K).

    The compiler makes use of it. A launch for which not all assumptions of the kernel hold takes
    code that was compiled without any, with a remark; with `strict=True` it is refused. `assume=
    "ignore"` compiles without them from the beginning.
    """

    expr: Any

    def _fields(self):
        return {"kind": "assume", "expr": self.expr}


__all__ = ["Assumption"]
