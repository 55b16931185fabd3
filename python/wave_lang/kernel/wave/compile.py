"""Compiling and calling kernels."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

from ... import _wave
from ..._wave import Expr, Kernel, Proof, Report, SimulationError
from .._support.tracing import DebugLog, Trace
from . import cache
from .compile_options import WaveCompileOptions, is_simulated
from .utils.host_tensors import log_tensor
from .wave import LaunchableWave
from .wave_schedule import WaveSchedule

_EVALUATOR = ("", "cpu", "eval")
_EVALUATOR_REMARK = (
    "runs on the reference evaluator: results are exact in the kernel's types, " "but slow"
)
_warned = False


class WaveKernel:
    """A compiled kernel. Call it with tensors and scalars in the order of its parameters; outputs
    are written in place."""

    def __init__(
        self,
        options: WaveCompileOptions,
        source: LaunchableWave,
        kernel: Kernel,
        trace: Trace | None,
        remarks: list[Any],
        schedule: WaveSchedule | None = None,
        lowered: Kernel | None = None,
    ):
        self.options = options
        self.source = source
        self.lowered = lowered  # one lane's program, for a simulated machine
        self.ir = kernel
        self.kernel = kernel
        self.remarks = remarks
        self.schedule = schedule
        self.bound_scalar_symbols: dict[Expr, int] = source.bound_scalar_symbols
        self.executable = None
        self.gpu_binary_path = None
        self._trace = trace
        self._logs: list[DebugLog] = trace.logs if trace else []
        self._report: Report | None = None

    @property
    def name(self) -> str:
        return self.ir.name

    @cached_property
    def asm(self) -> str:
        """The kernel's IR as text; `wavec` and wave_lang._wave.parse read it."""
        return str(self.ir)

    @property
    def trace(self) -> Trace | None:
        """What was traced; None when the kernel came from the cache."""
        return self._trace

    @property
    def compiled_graph(self) -> Kernel:
        return self.ir

    @property
    def symbols_args_map(self) -> dict[Expr, tuple[int, int]]:
        """Where each dynamic symbol is read: (argument, dimension)."""
        found: dict[Expr, tuple[int, int]] = {}
        for i, param in enumerate(self.ir.params):
            for d, dim in enumerate(param.shape):
                if dim in map(Expr, self.options.dynamic_symbols):
                    found.setdefault(dim, (i, d))
        return found

    def get_trace(self) -> Trace | None:
        return self._trace

    def get_compiled_graph(self) -> Kernel:
        return self.ir

    def proof(self) -> Proof:
        """What was proved of each access, and what is tested at run time: `.text` and `.rows`."""
        return self.ir.proof()

    def ir_after(self, name: str) -> str:
        """The IR as text behind one of the passes (`wavec --list=passes`) for this target."""
        kernel = self.ir.clone()
        kernel.run_passes(target=_machine(self.options), stop_after=name)
        _wave.take_diagnostics()  # the same remarks again
        return str(kernel)

    def simulate(
        self, *args: Any, schedule: str = "round", nonfinite: bool = False
    ) -> Report:
        """Runs it lane by lane with every check, on the simulated machine it was compiled for.

        `schedule` is the order of the waves: "round", "reverse", "random" or "random:SEED".
        `nonfinite` also reports where infinities and NaN appear. A finding raises SimulationError.
        """
        if self.lowered is None:
            raise ValueError(
                f"`{self.name}` was compiled for target {self.options.target!r}; "
                "compile it with target='sim:gfx942' or another of `wavec --list=targets`"
            )
        self._report = None
        try:
            self._report = self.lowered.sim(args, self.options.target, schedule, nonfinite)
        except SimulationError as error:
            self._report = error.report
            raise
        return self._report

    def report(self) -> Report:
        """What the last simulation did: findings, costs per line, text, JSON and HTML."""
        if self._report is None:
            raise ValueError(f"`{self.name}` has not been simulated yet")
        return self._report

    def invoke(self, *args: Any, debug_logs: dict | None = None) -> None:
        """The same as calling it."""
        self(*args, debug_logs=debug_logs)

    def __call__(self, *args: Any, debug_logs: dict | None = None) -> None:
        if self.lowered is not None:
            self.simulate(*args)
            return
        if self.options.target not in _EVALUATOR:
            _wave.report(
                "E0601",
                f"`{self.name}` is not yet lowered for target " f"`{self.options.target}`",
                "compile with target='eval' to run it here",
            )
        collected: dict[str, Any] = {} if debug_logs is None else debug_logs
        wanted = {log.label: log for log in self._logs}

        def collect(label: str, dtype: str, shape: tuple[int, ...], data: bytes) -> None:
            log = wanted[label]
            collected[label] = {
                "value": log_tensor(dtype, shape, data, args),
                "symbolic_shape": log.symbolic_shape,
                "iteration_dimensions": log.iteration_dimensions,
            }

        self.ir.eval(args, collect if wanted else None)
        for log in self._logs:
            if log.printer and log.label in collected:
                log.printer(log.label, collected[log.label]["value"])
        for log in self._logs:
            if log.handler:
                log.handler(collected)

    def __repr__(self) -> str:
        return f"<compiled kernel {self.name} for {self.options.target or 'this machine'}>"


def _is_scheduling_parameter(symbol: Expr) -> bool:
    return symbol.is_symbol and symbol.name.endswith(("_DELAY", "_UNITS")) and symbol.name[0] == "$"


def _space_symbols(kernel: Kernel) -> set[Expr]:
    return {p.space for p in kernel.params if p.space is not None and p.space.is_symbol}


def _values(options: WaveCompileOptions, kernel: Kernel) -> dict[Expr, Any]:
    """`subs`, without what only concerns a scheduler; numbers of address spaces as such."""
    from ..lang.kernel_buffer import AddressSpace

    spaces = _space_symbols(kernel)
    values: dict[Expr, Any] = {}
    for key, value in options.subs.items():
        symbol = Expr(key)
        if value is None:
            _wave.report(
                "E0103",
                f"the value of `{symbol}` in `subs` is None",
                "give it a number, or leave it out and list it in `dynamic_symbols`",
                options._place,
            )
        if symbol in spaces and isinstance(value, int):
            value = AddressSpace(value)
        if not _is_scheduling_parameter(symbol) and value is not key:
            values[symbol] = value
    return _wave.resolve(values)


def _rows(options: WaveCompileOptions, values: dict[Expr, Any]) -> list[dict[str, Any]]:
    """Header rows for `subs` and `dynamic_symbols`."""
    at = options._place
    rows = [{"kind": "bind", "dim": s, "size": v, "at": at} for s, v in values.items()]
    free = [s for s in map(Expr, options.dynamic_symbols) if s not in values]
    return rows + [{"kind": "dynamic", "dim": s, "at": at} for s in free]


def _print_requested(options: WaveCompileOptions, kernel: Kernel) -> None:
    wanted = options.print_ir_after or options.print_ir_before
    if options.print_mlir or options.print_trace_begin or wanted:
        print(kernel)
    if options.print_mlir_file:
        with open(options.print_mlir_file, "w") as out:
            out.write(str(kernel))


def _remarks(options: WaveCompileOptions) -> list[Any]:
    global _warned
    remarks: list[Any] = _wave.take_diagnostics()
    if options.target in ("", "cpu"):
        remarks.append(f"target `{options.target or 'this machine'}` {_EVALUATOR_REMARK}")
        if not _warned:
            _warned = True
            warnings.warn(f"Wave {_EVALUATOR_REMARK}", RuntimeWarning, stacklevel=3)
    return remarks


def _machine(options: WaveCompileOptions) -> str | None:
    """The target that passes are told; evaluated kernels are fitted to none."""
    return None if options.target in _EVALUATOR else options.target


def _lower(options: WaveCompileOptions, kernel: Kernel) -> Kernel | None:
    """One lane's program, when the target is a simulated machine."""
    if not is_simulated(options.target):
        return None
    lowered = kernel.clone()
    lowered.lower(options.target)
    return lowered


def wave_compile(
    options: WaveCompileOptions, kernel: LaunchableWave, schedule: WaveSchedule | None = None
) -> WaveKernel:
    """Traces, checks and compiles a kernel.

    Mistakes raise CompileError, which shows the user's line. `schedule` orders the instructions of
    a loop by hand; it never changes results.
    """
    if not isinstance(kernel, LaunchableWave):
        raise TypeError(f"expected a function decorated with @wave(...), got {kernel!r}")
    options.validate()
    trace = kernel.capture()
    traced = trace.kernel
    values = _values(options, traced)
    traced.constrain(_rows(options, values))
    lowered = _lower(options, traced)
    remarks = _remarks(options)
    if schedule is not None:
        schedule.record(kernel, values)
    _print_requested(options, traced)
    options.kernel_usages = [
        "output" if p.is_output else "input" for p in traced.params if p.kind == "mem"
    ]
    if not trace.logs and cache.is_cache_enabled():
        found = cache.get_cache_manager().load(traced, options)
        if found is not None:
            return WaveKernel(options, kernel, found, None, remarks, schedule, lowered)
        cache.get_cache_manager().store(traced, options)
    return WaveKernel(options, kernel, traced, trace, remarks, schedule, lowered)


__all__ = ["WaveCompileOptions", "WaveKernel", "wave_compile"]
