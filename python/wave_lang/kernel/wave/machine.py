"""Which machine a kernel is compiled for, as the compiler decides (wv_machine_find in wave.h)."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from ... import _wave
from .compile_options import WaveCompileOptions
from .option_rows import asked


@dataclass(frozen=True)
class Machine:
    """Where a kernel runs.

    kind      "eval", "sim", "cpu", "cuda" or "hip"
    target    as `wavec --list=targets` names it; None for "eval", and for all features of this CPU
    device    the GPU on which code is loaded; -1: there is none here
    anywhere  calls with tensors on another kind of device compile for that one
    remark    why it is not the machine that was named, or None
    evaluated why the evaluator runs its kernels although they are for a CPU, or None
    shown     the target for which passes are shown
    """

    kind: str
    target: str | None = None
    device: int = -1
    anywhere: bool = False
    remark: str | None = None
    evaluated: str | None = field(default=None, compare=False)
    shown: str | None = field(default=None, compare=False)

    def on(self, kind: str) -> Machine | None:
        """The machine of a call with tensors on a kind of device; None if it runs no such calls."""
        found = _wave.machine_on(self.kind, self.target, self.device, self.anywhere, kind)
        return Machine(*found) if found else None


def devices(kind: str) -> list[_wave.Device]:
    """The devices of a kind ("cuda", "hip", "cpu") that kernels can be launched on here."""
    return [d for d in _wave.devices() if d.kind == kind]


def machine_of(options: WaveCompileOptions) -> Machine:
    """The machine that options name."""
    return Machine(*_wave.find_machine(*asked(options)))


@functools.lru_cache
def target_named(target: str = "") -> str:
    """The machine that kernels for a target are compiled for, simulated or not, by default this one:
    "cpu" with all its features, "" for the evaluator."""
    found = machine_of(WaveCompileOptions(target=target))
    return (found.target or found.kind).removeprefix("sim:").removeprefix("eval")


__all__ = ["Machine", "devices", "machine_of", "target_named"]
