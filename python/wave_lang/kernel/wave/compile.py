"""Compiling kernels."""

from __future__ import annotations

from typing import Any

from ... import _wave
from ..._wave import Expr, Kernel
from ...support.visible import put, warn_once
from ..lang.kernel_buffer import AddressSpace
from . import cache
from .compile_options import WaveCompileOptions
from .compiled import WaveKernel
from .launch_info import launch_info
from .machine import Machine
from .measured import MeasuredKernel
from .option_rows import Asked, others
from .wave import LaunchableWave
from .wave_schedule import WaveSchedule


def _space_symbols(kernel: Kernel) -> set[Expr]:
    return {p.space for p in kernel.params if p.space is not None and p.space.is_symbol}


def _space(options: WaveCompileOptions, kernel: Kernel, symbol: Expr, value: int) -> AddressSpace:
    """The address space with this number; a dimension is there if an author forgot the space."""
    if value in [space.value for space in AddressSpace]:
        return AddressSpace(value)
    param = next(p.name for p in kernel.params if p.space == symbol)
    _wave.report(
        "E0319",
        f"the address space of `{param}` is `{symbol}`, which is {value} in `subs`",
        "an address space comes before the element type: `Memory[M, N, GLOBAL_ADDRESS_SPACE, f32]`",
        options._place,
    )


def _values(options: WaveCompileOptions, kernel: Kernel) -> dict[Expr, Any]:
    """`subs`, with the numbers of address spaces converted to AddressSpace."""
    spaces = _space_symbols(kernel)
    values: dict[Expr, Any] = {}
    for key, value in options.subs.items():
        symbol = Expr(key)
        if value is None:
            _wave.report(
                "E0103",
                f"the value of `{symbol}` in `subs` is None",
                "give it a number, or remove it and list it in `dynamic_symbols`",
                options._place,
            )
        if symbol in spaces and isinstance(value, int):
            value = _space(options, kernel, symbol, value)
        if value is not key:
            values[symbol] = value
    return _wave.resolve(values)


def _rows(options: WaveCompileOptions, values: dict[Expr, Any]) -> list[dict[str, Any]]:
    """Header rows for symbols."""
    at = options._place
    rows = [{"kind": "bind", "dim": s, "size": v, "at": at} for s, v in values.items()]
    free = [s for s in map(Expr, options.dynamic_symbols) if s not in values]
    rows += [{"kind": "dynamic", "dim": s, "at": at} for s in free]
    expected = [(Expr(s), v) for s, v in options.expected_sizes.items()]
    rows += [{"kind": "expect", "dim": s, "size": v, "at": at} for s, v in expected if s in free]
    return rows


def _remarks(options: WaveCompileOptions, machine: Machine) -> list[Any]:
    remarks: list[Any] = _wave.take_diagnostics()
    for found in remarks:
        if getattr(found, "severity", None) == "warning":
            warn_once(found.rendered)
    if machine.remark:
        remarks.append(machine.remark)
        warn_once(machine.remark)
    if machine.evaluated:
        remarks.append(f"target `{options.target or 'this machine'}` {machine.evaluated}")
        warn_once(f"Wave {machine.evaluated}")
    return remarks


def _lower(
    options: WaveCompileOptions, said: Asked, kernel: Kernel, machine: Machine
) -> Kernel | None:
    """One lane's program, when the target is a simulated machine; of an open kernel each call makes
    its own."""
    if machine.kind != "sim" or options.compile_to_mlir:
        return None
    lowered = kernel.clone()
    lowered.lower_as(*said, machine.target, put)
    return lowered


def _prepared(
    options: WaveCompileOptions,
    said: Asked,
    kernel: LaunchableWave,
    schedule: WaveSchedule | None,
    machine: Machine,
) -> tuple[Any, Kernel]:
    """The trace and the kernel that is compiled: constrained, or overridden."""
    trace = kernel.capture()
    values = _values(options, trace.kernel)
    trace.kernel.constrain(_rows(options, values))
    ir = trace.kernel.override(*said) or trace.kernel
    ir.apply_options(*said)
    if schedule is not None:
        schedule.apply(kernel, ir, machine.target, options.use_global_to_shared is True)
    ir.verify()  # with a warning: nothing is added to its header any more
    ir.show(*said, put)
    options.kernel_usages = [
        "output" if p.is_output else "input" for p in ir.params if p.kind == "mem"
    ]
    return trace, ir


def _check_arguments(options: Any, kernel: Any, schedule: Any) -> None:
    if isinstance(options, LaunchableWave):
        raise TypeError("the options come first: wave_compile(options, kernel)")
    if not isinstance(options, WaveCompileOptions):
        raise TypeError(f"expected WaveCompileOptions(...) as first argument, got {options!r}")
    if isinstance(kernel, WaveKernel):
        raise TypeError(f"`{kernel.name}` is already compiled: compile its function instead")
    if not isinstance(kernel, LaunchableWave):
        raise TypeError(f"expected a function decorated with @wave(...), got {kernel!r}")
    if schedule is not None and not isinstance(schedule, WaveSchedule):
        raise TypeError(f"expected a function decorated with @wave_schedule(), got {schedule!r}")


def wave_compile(
    options: WaveCompileOptions, kernel: LaunchableWave, schedule: WaveSchedule | None = None
) -> WaveKernel:
    """Traces, checks and compiles a kernel.

    The default target is this machine; a call with tensors on another kind of device compiles for
    that device. Errors raise CompileError, which shows the user's line. `schedule` says how
    loops are pipelined; it never changes results.
    """
    _check_arguments(options, kernel, schedule)
    said = options._checked()
    machine = Machine(*_wave.find_machine(*said))
    given, place = said
    unused = (given + others(options), place, machine.kind, machine.target, schedule is not None)
    if options.strict:  # errors come first, remarks last
        _wave.report_unused(*unused)
    trace, ir = _prepared(options, said, kernel, schedule, machine)
    if options.strict:
        ir.report_undumped(*said)
    lowered = _lower(options, said, ir, machine)
    if not options.strict:
        _wave.report_unused(*unused)
        ir.report_undumped(*said)
    remarks = _remarks(options, machine)
    found = cache.Entry(ir)
    if not trace.logs and cache.is_cache_enabled() and not _wave.dumps(*said):
        found = cache.get_cache_manager().load_or_store(ir, options)
    known = trace if found.kernel is ir else None
    measured = options.run_bench or options.profile_python_wrapper
    made = (MeasuredKernel if measured else WaveKernel)(
        options, kernel, found.kernel, known, remarks, schedule, lowered, machine, found.programs
    )
    if machine.kind not in ("eval", "sim") and not options.compile_to_mlir:
        made.compile_for(machine.kind)
    if options.compile_to_asm:
        made.asm  # or a remark says why there is none
    _describe_launch(made)
    return made


def _describe_launch(made: WaveKernel) -> None:
    shown = made.lowered or made.ir
    info = launch_info(made.options, shown, made.bound_scalar_symbols, made.program)
    made.options.kernel_launch_info = info
    if made.options.print_grid:
        print(f"{made.name}: grid {info.grid_str}, threads {info.blocks}")


__all__ = ["WaveCompileOptions", "WaveKernel", "wave_compile"]
