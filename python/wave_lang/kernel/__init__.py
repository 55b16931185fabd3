"""The kernel language: `lang` (types and symbols), `wave` (ops, constraints, compilation)."""

from . import lang, wave
from . import gen

__all__ = ["gen", "lang", "wave"]
