"""The kernel language: `lang` (types and symbols), `wave` (ops, constraints, compilation)."""

from pkgutil import extend_path as _extend_path

__path__ = _extend_path(__path__, __name__)  # including its part of public/

from . import lang, wave
from . import gen

__all__ = ["gen", "lang", "wave"]
