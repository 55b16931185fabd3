"""Schedules: functions that order the instructions of a kernel's loops by hand."""

from __future__ import annotations

from typing import Any, Callable

from ..ops.wave_schedule_ops import Recording, current_recording
from .constraints import HardwareConstraint


class WaveSchedule:
    """A schedule. It is recorded when a kernel is compiled with it; results never depend on it."""

    def __init__(self, fn: Callable[[], Any], name: str):
        self._fn = fn
        self.name = name
        self.steps: list[tuple[str, tuple, dict]] = []

    def record(self, kernel: Any = None) -> list[tuple[str, tuple, dict]]:
        """Runs the function and keeps what it asked for."""
        hardware = [
            c for c in getattr(kernel, "constraints", ()) if isinstance(c, HardwareConstraint)
        ]
        recording = Recording(hardware[0] if hardware else None)
        token = current_recording.set(recording)
        try:
            self._fn()
        finally:
            current_recording.reset(token)
        self.steps = recording.steps
        return self.steps

    def __repr__(self) -> str:
        return f"<schedule {self.name}>"


def wave_schedule(constraints: Any = None) -> Callable[[Callable[[], Any]], WaveSchedule]:
    """Makes a schedule of a function: `@wave_schedule()`."""

    def decorate(fn: Callable[[], Any]) -> WaveSchedule:
        return WaveSchedule(fn, fn.__name__)

    return decorate


__all__ = ["WaveSchedule", "wave_schedule"]
