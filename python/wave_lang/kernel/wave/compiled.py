"""Compiled kernels: calling, inspecting and simulating them."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import Any, Callable, Iterator

from ... import _wave
from ..._wave import CompileError, Expr, Kernel, Launchable, Program, Proof, Report, Resources
from ..._wave import SimulationError
from ...support.visible import put, warn_once
from .._support.tracing import DebugLog, Trace
from . import cache
from .compile_options import WaveCompileOptions
from .host_tensors import log_tensor
from .machine import Machine
from .option_rows import asked
from .schedule_view import Schedule, Timeline
from .wave import LaunchableWave
from .wave_schedule import WaveSchedule


class WaveKernel(Launchable):
    """A compiled kernel. Call it with tensors and scalars in the order of its parameters; outputs
    are written in place. On a GPU it is launched on the current stream of the tensors' library,
    and the call does not wait for it.

    A call of a kernel with debug logs waits for it.

    `launch(*args, stream=None)` does the same with no other keyword arguments, and is faster.
    """

    def __init__(
        self,
        options: WaveCompileOptions,
        source: LaunchableWave,
        kernel: Kernel,
        trace: Trace | None,
        remarks: list[Any],
        schedule: WaveSchedule | None = None,
        lowered: Kernel | None = None,
        machine: Machine = Machine("eval"),
        programs: dict[str, Program] | None = None,
    ):
        self._bind(kernel)
        self.options = options
        self.source = source
        self.machine = machine
        self.lowered = lowered  # one lane's program, for a simulated machine
        self.ir = kernel
        self.kernel = kernel
        self._said = remarks
        self.schedule_function = schedule
        self.bound_scalar_symbols: dict[Expr, int] = source.bound_scalar_symbols
        self.executable = None
        self.gpu_binary_path = None
        self._trace = trace
        self._logs: list[DebugLog] = trace.logs if trace else []
        self._report: Report | None = None
        self._programs: dict[str, Program] = {} if programs is None else programs
        for program in self._programs.values():
            self._take(program)

    # ---- looking

    @property
    def _text_only(self) -> str | None:
        """The option that compiles a kernel to text only, if it is set."""
        return _wave.text_only(*asked(self.options))

    @property
    def remarks(self) -> list[Any]:
        """Remarks of the compiler and of the calls so far: a list of Diagnostic and texts."""
        programs = [remark for program in self._programs.values() for remark in program.remarks]
        return self._said + [remark for remark in programs if remark not in self._said]

    def _note(self, remarks: list[Any]) -> None:
        """Each is kept once, however many calls report it."""
        self._said += [remark for remark in remarks if remark not in self._said]

    @property
    def name(self) -> str:
        return self.ir.name

    @property
    def program(self) -> Program | None:
        """The program compiled for the device; None on the evaluator and the simulator."""
        return self._programs.get(self.machine.kind)

    @cached_property
    def asm(self) -> str:
        """The code for the device: PTX on NVIDIA, machine code on AMD. On the evaluator and the
        simulator, the kernel's IR, which `wavec` and wave_lang._wave.parse read."""
        return (self.program and self.program.text("asm")) or str(self.ir)

    @property
    def ptx(self) -> str:
        """The PTX of the variant for aligned, row-major tensors (`program.text("ptx", i)` for the
        others); ValueError if the kernel was not compiled for NVIDIA."""
        text = self._compiled("PTX").text("ptx")
        if text is None:
            raise ValueError(f"`{self.name}` has no PTX: it was compiled for {self.target}")
        return text

    @property
    def loops(self) -> str:
        """What limits the speed of that variant's loops with matrix instructions (`wavec loops`);
        ValueError if the kernel was not compiled for AMD."""
        text = self._compiled("loops").text("loops")
        if text is None:
            raise ValueError(f"`{self.name}` has no loops to show: it was compiled for {self.target}")
        return text

    @property
    def resources(self) -> Resources:
        """Registers, shared memory, spills and occupancy of that variant, as reported by the
        driver."""
        return self._compiled("resources").resources(0, max(self.machine.device, 0))

    @property
    def target(self) -> str:
        """The target that the kernel was compiled for."""
        return self.program.target if self.program else self.machine.target or self.machine.kind

    def _compiled(self, what: str) -> Program:
        if self.program is None:
            raise ValueError(
                f"`{self.name}` has no {what}: it was compiled for {self.target}, not for a GPU"
            )
        return self.program

    @property
    def trace(self) -> Trace | None:
        """The traced kernel; None if it came from the cache."""
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

    def proof(self, after: str | None = None) -> Proof:
        """What was proved about each access, and what is tested at run time: `.text` and `.rows`.
        `after="sync"`: of the kernel after that pass for this target, and whether each loop orders
        its accesses to shared memory, for any number of iterations."""
        return (self._after(after) if after else self.ir).proof()

    def schedule(self) -> Schedule:
        """How the loops of the kernel are pipelined on this target, with predicted times: `str()` is
        the text of a schedule file, and notebooks show pictures."""
        target = self._shown_target()
        if target is None:
            raise ValueError(
                f"`{self.name}` was compiled for {self.target}, which has no schedule; "
                "compile it with target='sim:gfx942' or another of `wavec --list=targets`"
            )
        return Schedule(lambda form: self._quiet(self.ir.schedule_as, target, form))

    def timeline(self, *args: Any, first: int = 4, stream: Any = None) -> Timeline:
        """Calls the kernel once and measures its loops: waves of the first workgroup record when they
        reach its ops, from iteration `first` of a loop on. A copy of the kernel is compiled for it;
        the results are those of any call."""
        target = self._shown_target()
        if target is None:
            raise ValueError(f"`{self.name}` was compiled for {self.target}, which measures no time")
        kernel = self.ir.clone()
        whole = target.startswith(("sim:", "emu:"))  # these count instructions: stamps delay nothing
        kernel.constrain([{"kind": "timeline", "size": first, "secondary": whole}])
        stamps = self._stamps(kernel, args, stream)
        return Timeline(lambda form: self._quiet(kernel.timeline_as, target, form, stamps))

    def _stamps(self, kernel: Kernel, args: tuple[Any, ...], stream: Any) -> bytes:
        """The times that a call of the kernel, which has the row `timeline`, records."""
        found: dict[str, bytes] = {}

        def log(label: str, dtype: str, shape: tuple[int, ...], data: bytes) -> None:
            found[label] = data

        if self.lowered is not None:
            kernel = kernel.clone()
            kernel.lower_as(*asked(self.options), self.machine.target, put)
            kernel.sim(args, self.options.target, None, False, log)
        else:
            program = compile_program(self.options, kernel, self.machine.target, self.machine.device)
            self._launch_logged(program, args, stream, log)
            self._note(program.remarks)
        return found.get("$timeline", b"")

    def _quiet(self, show: Callable[..., str], *args: Any) -> str:
        """What it returns, without the remarks that compiling has made already."""
        text = show(*args)
        _wave.take_diagnostics()
        return text

    def _shown_target(self) -> str | None:
        if self.machine.shown is None and self.program is not None:
            return self.program.target  # this CPU's, by its name
        return self.machine.shown

    def schedules(self, n: int) -> list[str]:
        """The n best schedules that are found for its loops on this target, by predicted cycles:
        each is the text of a file for the option `override_schedule`."""
        target = self._shown_target()
        found = self.ir.schedules(target, n) if target is not None else []
        _wave.take_diagnostics()  # remarks that compiling has made already
        return found

    def explain(self, html: bool = False) -> str:
        """What was decided about each line on this target, and why: how tiles are copied, rings, roles,
        registers, the predicted time and what bounds it. As text, or as a page."""
        target = self._shown_target()
        if target is None:
            raise ValueError(
                f"`{self.name}` was compiled for {self.target}, for which nothing is decided; "
                "compile it with target='sim:gfx942' or another of `wavec --list=targets`"
            )
        return self._quiet(self.ir.explain, target, "html" if html else "text")

    def choices(self, n: int = 64) -> list[dict[str, int]]:
        """Values of the tile symbols that were left open, at most n of those that the compiler
        compares for this target: first those that no other dominates, by estimated time."""
        target = self._shown_target()
        lines = self.ir.choices(target, n).splitlines() if target is not None else []
        _wave.take_diagnostics()
        found = [line.split(" # ")[0].split() for line in lines]
        return [{k: int(v) for k, v in (word.split("=") for word in words)} for words in found]

    def ir_after(self, name: str) -> str:
        """The IR as text after one of the passes (`wavec --list=passes`) for this target."""
        return str(self._after(name))

    def _after(self, name: str) -> Kernel:
        kernel = self.ir.clone()
        target = self._shown_target()
        kernel.run_passes(target=target, stop_after=name, start_after=self.options.override_stage)
        _wave.take_diagnostics()  # the same remarks again
        return kernel

    # ---- simulating

    def simulate(
        self,
        *args: Any,
        schedule: str = "round",
        nonfinite: bool = False,
        debug_logs: dict[str, Any] | None = None,
    ) -> Report:
        """Runs it lane by lane with every check, on the simulated machine it was compiled for.

        `schedule` is the order of the waves: "round", "reverse", "first", "last", "random" or "random:SEED".
        `nonfinite` also reports where infinities and NaN appear. A finding raises SimulationError;
        `debug_logs` is filled in either case.
        """
        if self.lowered is None:
            raise ValueError(
                f"`{self.name}` was compiled for target {self.options.target!r}; "
                "compile it with target='sim:gfx942' or another of `wavec --list=targets`"
            )
        self._report = None
        try:
            with self._collecting(args, {} if debug_logs is None else debug_logs) as log:
                self._report = self.lowered.sim(args, self.options.target, schedule, nonfinite, log)
        except SimulationError as error:
            self._report = error.report
            raise
        self._note(self._report.remarks)
        return self._report

    def report(self) -> Report:
        """What the last simulation did: findings, costs per line, text, JSON and HTML."""
        if self._report is None:
            raise ValueError(f"`{self.name}` has not been simulated yet")
        return self._report

    # ---- calling: the slow paths; the fast one is in Launchable

    def invoke(self, *args: Any, **named: Any) -> None:
        """The same as calling it."""
        self(*args, **named)

    def _call_named(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """A call with `stream=`, `debug_logs=`, or parameters by their names."""
        names = [param.name for param in self.ir.params]
        own = {name: named.pop(name) for name in ("stream", "debug_logs") if name in named}
        for name in named:
            if name not in names:
                near = _wave.nearest(name, [*names, "stream", "debug_logs"])
                also = f"; did you mean `{near}`?" if near else ""
                raise _wave.ArgumentError(f"{self.name}() has no parameter `{name}`{also}")
            if name in names[: len(args)]:
                raise _wave.ArgumentError(f"{self.name}() got two values for `{name}`")
        missing = [name for name in names[len(args) :] if name not in named]
        if missing and named:
            raise _wave.ArgumentError(f"{self.name}() is missing the argument `{missing[0]}`")
        self.launch(*args, *(named[name] for name in names[len(args) :] if named), **own)

    def _launch_first(
        self, kind: str, args: tuple[Any, ...], stream: Any, logs: dict[str, Any] | None
    ) -> None:
        """A call with tensors on a kind of device ("cuda", "hip", "cpu") without a program, or of
        a kernel with debug logs."""
        logs = {} if logs is None else logs
        if self._text_only:
            raise ValueError(
                f"`{self.name}` cannot be called: {self._text_only}=True compiles it to text only"
            )
        if self.lowered is not None:
            self.simulate(*args, debug_logs=logs)
        elif self.machine.kind == "eval":
            self._evaluate(args, logs)
        elif not (program := self.compile_for(kind)):
            self._evaluate(args, logs)
        elif self._logs:
            with self._collecting(args, logs) as log:
                self._launch_logged(program, args, stream, log)
        else:
            self.launch(*args, stream=stream)

    def _machine_on(self, kind: str) -> Machine:
        where = self.machine.on(kind)
        if where is None:
            raise _wave.ArgumentError(
                f"`{self.name}` was compiled for {self.target}, but its tensors are on {kind!r}"
            )
        return where

    def prepare(self, *args: Any) -> None:
        """Compiles everything a call may need: for tensors with other strides or alignments, and
        for arguments that violate the assumptions. Nothing can be compiled while a stream is being
        captured, so call this first. With the arguments of a call, compiles what that call needs,
        including a kernel whose tile sizes are not known before it is called."""
        if args:
            self._prepare_call(args)
            return
        for program in self._programs.values():
            own = program.kind == self.machine.kind
            program.prepare(max(self.machine.device, 0) if own else 0)

    def _prepare_call(self, args: tuple[Any, ...]) -> None:
        kind = self._warm(args)
        compiles = self.lowered is None and self.machine.kind != "eval"
        if kind and compiles and self.compile_for(kind):
            self._warm(args)

    def compile_for(self, kind: str) -> Program | None:
        """The program for a kind of device, compiled if necessary. None: the evaluator runs the
        kernel there."""
        if kind not in self._programs:
            where = self._machine_on(kind)
            program = None if where.evaluated else self._compile_on(where)
            if program is None:
                return None
            self._programs[kind] = program
            self._take(program)
        return self._programs[kind]

    def _take(self, program: Program) -> None:
        """Lets calls launch it directly, unless there are debug logs to process afterwards, or the
        kernel is only text."""
        if not self._logs and not self._text_only:
            self._use(program)

    def _compile_on(self, where: Machine) -> Program | None:
        try:
            return compile_program(self.options, self.ir, where.target, where.device)
        except CompileError as error:
            if error.evaluated is None:
                raise
            self._note(error.diagnostics)
            warn_once(error.evaluated, cause=error.evaluated.replace(f"`{self.name}`", ""))
            return None

    def _evaluate(self, args: tuple[Any, ...], collected: dict[str, Any]) -> None:
        """Runs on the reference evaluator; debug logs are added to `collected`."""
        with self._collecting(args, collected) as log:
            self._note(self.ir.eval(args, log))

    @contextmanager
    def _collecting(
        self, args: tuple[Any, ...], collected: dict[str, Any]
    ) -> Iterator[Callable | None]:
        """The function a run calls with each debug log; printers and handlers run after a
        successful run."""
        wanted = {log.label: log for log in self._logs}

        def collect(label: str, dtype: str, shape: tuple[int, ...], data: bytes) -> None:
            log = wanted[label]
            collected[label] = {
                "value": log_tensor(dtype, shape[: len(log.symbolic_shape)], data, args),
                "symbolic_shape": log.symbolic_shape,
                "iteration_dimensions": log.iteration_dimensions,
            }

        yield collect if wanted else None
        for log in self._logs:
            if log.printer and log.label in collected:
                log.printer(log.label, collected[log.label]["value"])
        for log in self._logs:
            if log.handler:
                log.handler(collected)

    def __repr__(self) -> str:
        return f"<compiled kernel {self.name} for {self.target}>"


def compile_program(
    options: WaveCompileOptions, kernel: Kernel, target: str | None, device: int
) -> Program:
    """Compiles for a device, as options request."""
    files = (1 if cache.is_cache_enabled() else -1, cache.get_cache_manager().directory)
    return kernel.compile_as(*asked(options), target, device, *files, put)


__all__ = ["WaveKernel", "compile_program"]
