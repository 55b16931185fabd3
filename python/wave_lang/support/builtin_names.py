"""Ops that share their name with a builtin of Python."""

from __future__ import annotations

import builtins
import functools
from typing import Any, Callable

from .._wave import Value


def or_builtin(op: Callable[..., Any]) -> Callable[..., Any]:
    """The op for traced values, the builtin of the same name for everything else."""
    builtin = getattr(builtins, op.__name__)

    @functools.wraps(op)
    def either(arg: Any, *args: Any, **kwargs: Any) -> Any:
        return (op if isinstance(arg, Value) else builtin)(arg, *args, **kwargs)

    return either
