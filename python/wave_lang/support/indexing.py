"""Symbols. `sym.M` is the non-negative integer symbol M, wherever it is written."""

from __future__ import annotations

from .._wave import Expr, symbol as _symbol
from .sympy_shim import Eq, Max, Min, Ne, Piecewise, ceiling

IndexExpr = Expr
IndexSymbol = Expr


def index_symbol(name: str) -> Expr:
    """The non-negative integer symbol of that name."""
    return _symbol(name)


class _Symbols:
    """Every attribute is a symbol: `sym.BLOCK_M`."""

    def __getattr__(self, name: str) -> Expr:
        if name.startswith("__"):
            raise AttributeError(name)
        return _symbol(name)

    def __repr__(self) -> str:
        return "sym"


sym = _Symbols()

__all__ = ["IndexExpr", "IndexSymbol", "index_symbol", "sym"]
__all__ += ["Eq", "Max", "Min", "Ne", "Piecewise", "ceiling"]
