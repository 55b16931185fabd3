"""Which machine a kernel is compiled for: targets and devices by their names, ours and others'."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ... import _wave
from .compile_options import KINDS, WaveCompileOptions, is_simulated

@dataclass(frozen=True)
class Machine:
    """Where a kernel runs.

    kind     "eval", "sim", "cpu" or "cuda"
    target   as `wavec --list=targets` names it; None: of "eval", and all that this processor has
    device   the CUDA device that code is loaded on; -1: there is none here
    anywhere calls with tensors on another kind of device compile for that one
    remark   why it is not the machine that was asked for, or None
    """

    kind: str
    target: str | None = None
    device: int = -1
    anywhere: bool = False
    remark: str | None = None


def devices(kind: str) -> list[_wave.Device]:
    """The devices of a kind ("cuda", "cpu") that kernels can be launched on here."""
    return [d for d in _wave.devices() if d.kind == kind]


def here(remark: str | None = None) -> Machine:
    """This machine: its GPU, or its processor."""
    for gpu in devices("cuda"):
        return Machine("cuda", gpu.target, gpu.index, True, remark)
    return Machine("cpu", anywhere=True, remark=remark)


def _nvidia(arch: str | None) -> Machine:
    """A named architecture, or that of the GPU here. What is newer than our rows runs the code of
    the newest row below it, compiled by the driver."""
    gpus = devices("cuda")
    device = gpus[0].index if gpus else -1
    if arch is None:
        return Machine("cuda", gpus[0].target if gpus else "sm_80", device)
    known = [row[0] for row in _wave.target_table]
    return Machine("cuda", arch if arch in known else _portable(arch), device)


def _portable(arch: str) -> str:
    number = re.fullmatch(r"sm_(\d+)[a-z]?", arch)
    if number and int(number[1]) == 90:
        return "sm_90a"
    return "sm_80" if number and int(number[1]) > 80 else arch


def _amd(name: str, options: WaveCompileOptions) -> Machine:
    """There is no runtime for AMD yet: the kernel is fitted to this machine instead."""
    other = here()
    found = f"`{other.target}`" if other.target else "this machine's CPU"
    text = f"there is no AMD device here to run `{name}`"
    if options.strict:
        hint = "remove strict=True to compile the kernel for this machine"
        _wave.report("E0601", text, hint, options._place)
    return here(f"{text}; compiled for {found}")


def machine_of(options: WaveCompileOptions) -> Machine:
    """The machine that options ask for; they have been validated."""
    name = options.target
    if name == "eval":
        return Machine("eval")
    if is_simulated(name):
        return Machine("sim", name)
    vendor, _, arch = name.rpartition("/")
    if arch.startswith("gfx") or KINDS.get(arch) == "hip":
        return _amd(name, options)
    if arch.startswith("sm_"):
        return _nvidia(arch)
    if arch.startswith("cpu_"):
        return Machine("cpu", arch)
    kind = KINDS.get(arch or vendor)
    if kind is None and options.device != "hip":  # "hip" is what the option is by default
        kind = KINDS.get(options.device)
    if kind is None:
        return here()
    return _nvidia(None) if kind == "cuda" else Machine("cpu")


def asked_target(options: WaveCompileOptions, machine: Machine) -> str | None:
    """The target that passes are shown for: the one asked for, also where another machine runs the
    kernel instead; None for the evaluator's."""
    arch = options.target.rpartition("/")[2]
    known = machine.remark and arch in (row[0] for row in _wave.target_table)
    return arch if known else machine.target


__all__ = ["KINDS", "Machine", "asked_target", "devices", "here", "machine_of"]
