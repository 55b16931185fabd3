"""SymPy together with Wave's expressions: loaded when first used, and extended with our conditions.

Nearly all of SymPy turns our expressions into its own by itself (`_sympy_`). The exception is the
condition of a Piecewise branch, which must be SymPy's already: that one constructor is wrapped.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

from .._wave import Expr
from . import sympy_shim


def _teach_conditions() -> None:
    from sympy.functions.elementary.piecewise import ExprCondPair

    original = ExprCondPair.__new__
    if getattr(original, "takes_wave_conditions", False):
        return

    def __new__(cls: type, expr: Any, cond: Any) -> Any:
        return original(cls, expr, cond._sympy_() if isinstance(cond, Expr) else cond)

    __new__.takes_wave_conditions = True  # type: ignore[attr-defined]
    ExprCondPair.__new__ = __new__


class _Loader:
    """Loads SymPy with its own loader, then extends it."""

    def __init__(self, loader: Any):
        self._loader = loader

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _teach_conditions()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def load() -> ModuleType:
    """SymPy, executed at its first use; if it is not installed, the module that replaces it."""
    if "sympy" in sys.modules:
        _teach_conditions()
        return sys.modules["sympy"]
    spec = importlib.util.find_spec("sympy")
    if spec is None:
        return sympy_shim
    taught: Any = _Loader(spec.loader)
    spec.loader = importlib.util.LazyLoader(taught)
    module = importlib.util.module_from_spec(spec)
    sys.modules["sympy"] = module
    spec.loader.exec_module(module)
    return module
