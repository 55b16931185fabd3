"""State of a trace that the compiler does not need: the handlers of debug logs."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Callable

from ..._wave import Expr, Kernel


@dataclass
class DebugLog:
    """One `debug_log` of a kernel."""

    label: str
    symbolic_shape: tuple[Expr, ...]
    iteration_dimensions: list[Expr]  # the first of them
    printer: Callable[[str, Any], Any] | None
    handler: Callable[[dict], Any] | None


@dataclass
class Trace:
    """A traced kernel and its debug logs."""

    kernel: Kernel
    logs: list[DebugLog]

    def __str__(self) -> str:
        return str(self.kernel)


CapturedTrace = Trace

# The debug logs of the kernel being traced.
current_logs: ContextVar[list[DebugLog]] = ContextVar("wave_lang_logs")
