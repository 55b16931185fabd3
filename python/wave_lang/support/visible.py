"""Output for the user: what options print, and warnings that must be seen although nothing is wrong."""

from __future__ import annotations

import os.path
import sys
import warnings

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_said: set[str] = set()


def put(text: str) -> None:
    """Prints a piece of text to Python's standard output, which may not be the process's."""
    print(text, end="")


def warn_once(text: str, cause: str | None = None) -> None:
    """A RuntimeWarning at the user's line, unless one with the same cause (by default the text) was
    given before."""
    cause = cause or text
    if cause in _said:
        return
    _said.add(cause)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, RuntimeWarning, stacklevel=level)


__all__ = ["warn_once"]
