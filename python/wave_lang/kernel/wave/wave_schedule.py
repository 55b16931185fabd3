"""Schedules: functions that order the instructions of a kernel's loops by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable

from ..._wave import Kernel
from ..ops.wave_schedule_ops import Recording, current_recording
from .constraints import Constraint, HardwareConstraint


def _hardware(constraints: list[Constraint], kernel: Kernel) -> HardwareConstraint | None:
    """The hardware constraint as schedules see it: with the number of waves along each axis."""
    found = next((c for c in constraints if isinstance(c, HardwareConstraint)), None)
    if found is None or found.waves_per_block is not None:
        return found
    x, y, z = map(int, kernel.launch_shape[1])
    waves = (x // found.threads_per_wave, y - found.n_service_waves, z)
    return replace(found, waves_per_block=waves)


class WaveSchedule:
    """A schedule function. It runs when a kernel is compiled with it; results never depend on it."""

    def __init__(self, fn: Callable[[], Any], name: str):
        self._fn = fn
        self.name = name

    def apply(self, source: Any, kernel: Kernel, target: str | None, direct: bool) -> None:
        """Runs the function for a kernel, as traced from `source`, and adds rows for what it asks
        for. direct: it sees a copy to shared memory as one op, not as a load and a store."""
        code = self._fn.__code__
        place = (code.co_filename, code.co_firstlineno, 1, 1)
        construct = kernel.construct(self.name, target, direct, place)
        token = current_recording.set(Recording(construct, _hardware(source.constraints, kernel)))
        try:
            self._fn()
        finally:
            current_recording.reset(token)
        construct.apply()

    def __repr__(self) -> str:
        return f"<schedule {self.name}>"


def wave_schedule(constraints: Any = None) -> Callable[[Callable[[], Any]], WaveSchedule]:
    """Turns a function into a schedule: `@wave_schedule()`."""

    def decorate(fn: Callable[[], Any]) -> WaveSchedule:
        return WaveSchedule(fn, fn.__name__)

    return decorate


__all__ = ["WaveSchedule", "wave_schedule"]
