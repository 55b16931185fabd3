"""Schedules: functions that order the instructions of a kernel's loops by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Mapping

from ... import _wave
from ..ops.wave_schedule_ops import Recording, current_recording
from .constraints import Constraint, HardwareConstraint, WaveConstraint, WorkgroupConstraint


def _hardware(constraints: list[Constraint], subs: Mapping[Any, Any]) -> HardwareConstraint | None:
    """The hardware constraint as schedules see it: with the number of waves along each axis."""
    found = next((c for c in constraints if isinstance(c, HardwareConstraint)), None)
    if found is None or found.waves_per_block is not None:
        return found
    groups = {c.dim: c for c in constraints if isinstance(c, WorkgroupConstraint)}
    waves = [1, 1, 1]
    for c in constraints:
        if isinstance(c, WaveConstraint) and c.dim in groups:
            tiles = _wave.op("ceil", _wave.op("div", groups[c.dim].tile_size, c.tile_size))
            waves[groups[c.dim].workgroup_dim] = int(tiles.subs(_wave.resolve(subs)))
    return replace(found, waves_per_block=tuple(waves))


class WaveSchedule:
    """A schedule. It is recorded when a kernel is compiled with it; results never depend on it."""

    def __init__(self, fn: Callable[[], Any], name: str):
        self._fn = fn
        self.name = name
        self.steps: list[tuple[str, tuple, dict]] = []

    def record(self, kernel: Any, subs: Mapping[Any, Any]) -> list[tuple[str, tuple, dict]]:
        """Runs the function for a kernel with these sizes and records what it requested."""
        recording = Recording(_hardware(kernel.constraints, subs))
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
    """Turns a function into a schedule: `@wave_schedule()`."""

    def decorate(fn: Callable[[], Any]) -> WaveSchedule:
        return WaveSchedule(fn, fn.__name__)

    return decorate


__all__ = ["WaveSchedule", "wave_schedule"]
