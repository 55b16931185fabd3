"""The decorator that turns a Python function into a kernel."""

from __future__ import annotations

import inspect
import sys
from contextvars import ContextVar
from types import CodeType
from typing import Any, Callable, Iterable, Sequence

from ... import _wave
from ..._wave import DataType, Kernel
from .._support.tracing import DebugLog, Trace, current_logs
from ..lang.wave_types import Memory, SymbolBind
from .constraints import Constraint, row_of

Function = Callable[..., Any]

# Called if a kernel that is not compiled is called: (kernel, arguments); `gen` sets it.
current_launch: ContextVar[Callable[["LaunchableWave", tuple], Any]] = ContextVar("wave_lang_launch")


def _closure(fn: Function) -> dict[str, Any]:
    """The variables a function takes from its surroundings, as far as they are bound yet."""
    found = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # assigned after the kernel
            pass
    return found


def _annotations(fn: Function, localns: dict[str, Any]) -> dict[str, Any]:
    """Parameter annotations; strings (`from __future__ import annotations`) are evaluated in the
    scope of the function."""
    found = inspect.get_annotations(fn)
    if not any(isinstance(a, str) for a in found.values()):
        return found
    scope = {**localns, **_closure(fn)}
    return {
        n: eval(a, fn.__globals__, scope) if isinstance(a, str) else a for n, a in found.items()
    }


def _function_of(given: Any) -> Function:
    """The function that `@wave` decorates, also inside a staticmethod."""
    fn = given.__func__ if isinstance(given, staticmethod) else given
    if isinstance(fn, LaunchableWave):
        raise TypeError(f"`{fn.name}` is already a kernel: decorate it with `@wave(...)` once")
    if not inspect.isfunction(fn):
        raise TypeError(f"`@wave(...)` turns a function into a kernel, not {given!r}")
    return fn


class LaunchableWave:
    """A kernel: a function with constraints. Compile it with `wave_compile` to call it."""

    def __init__(
        self,
        constraints: Iterable[Constraint] | None,
        name: str,
        fn: Function,
        localns: dict[str, Any] | None = None,
    ):
        if isinstance(constraints, Constraint):
            raise TypeError("constraints must be a list: `@wave([WorkgroupConstraint(...), ...])`")
        self.constraints: list[Constraint] = list(constraints or ())
        self._name = name
        self._f = fn
        self._written = inspect.unwrap(fn)  # below other decorators
        code = self._written.__code__
        self._place = (code.co_filename, code.co_firstlineno, 0, 0)
        self._refuse_kind(code)
        self._params = self._parameters(localns or {})
        self._items: Callable[[Any, Any], Any] | None = None  # what `value[key]` means, if anything
        self.__name__ = name
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    def _refuse_kind(self, code: CodeType) -> None:
        """Functions that cannot be kernels: calling them does not run their bodies, or does not
        say how many arguments there are."""
        if code.co_flags & (
            inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
        ):
            _wave.report(
                "E0408",
                f"`{self._name}` has a `yield` or is `async`: calling it does not run its body",
                "a kernel is a plain function that writes its results to memory",
                self._place,
            )
        if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            _wave.report(
                "E0319",
                f"`{self._name}` has a variable number of parameters",
                "name each parameter and annotate it",
                self._place,
            )

    def _parameters(self, localns: dict[str, Any]) -> list[tuple[str, Any]]:
        code, annotations = self._written.__code__, _annotations(self._written, localns)
        found = []
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            annotation = annotations.get(name)
            if not isinstance(annotation, (Memory, DataType, SymbolBind)):
                has = (
                    f"the type {annotation!r}, which kernels do not support"
                    if name in annotations
                    else "no type"
                )
                _wave.report(
                    "E0319",
                    f"parameter `{name}` of `{self._name}` has {has}",
                    (
                        "kernels in a class must be static: put @staticmethod above @wave(...)"
                        if name == "self"
                        else "annotate it with Memory[...], an element type such as f32, or "
                        "SymbolBind[...]"
                    ),
                    self._place,
                )
            found.append((name, annotation))
        return found

    @property
    def name(self) -> str:
        return self._name

    @property
    def bound_scalar_symbols(self) -> dict["_wave.Expr", int]:
        """The symbols that SymbolBind parameters define, and the position of each."""
        return {
            _wave.symbol(name): i
            for i, (name, annotation) in enumerate(self._params)
            if isinstance(annotation, SymbolBind)
        }

    def _trace_params(self, tracer: "_wave.Tracer") -> list["_wave.Value"]:
        values = []
        for name, annotation in self._params:
            if isinstance(annotation, Memory):
                value = tracer.param(name, annotation._spec(), None, self._place)
            elif isinstance(annotation, SymbolBind):
                value = tracer.param(name, annotation.dtype, _wave.symbol(name), self._place)
            else:
                value = tracer.param(name, annotation, None, self._place)
            values.append(value)
        return values

    def _run(self, values: list["_wave.Value"]) -> None:
        plain = self._written.__code__.co_argcount
        names = [name for name, _ in self._params]
        returned = self._f(*values[:plain], **dict(zip(names[plain:], values[plain:])))
        if returned is not None:
            _wave.report(
                "E0404",
                f"`{self._name}` returns {returned!r}, but a kernel cannot return a value",
                "write the result to memory: `write(value, memory)`",
                self._place,
            )

    def capture(self) -> Trace:
        """Runs the function once with traced values: the kernel and its debug logs."""
        logs: list[DebugLog] = []
        tracer = _wave.Tracer(self._name, self._place)
        token = current_logs.set(logs)
        try:
            with tracer:
                if self._items:
                    tracer.index_by(self._items)
                for constraint in self.constraints:
                    tracer.constrain(row_of(constraint))
                self._run(self._trace_params(tracer))
                return Trace(tracer.finish(), logs)
        finally:
            current_logs.reset(token)

    def trace(self) -> Kernel:
        """The traced kernel; str() of it is its IR."""
        return self.capture().kernel

    def __call__(self, *args: Any) -> Any:
        launch = current_launch.get(None)
        if launch is None:
            raise TypeError(
                f"compile `{self._name}` before calling it: "
                "wave_compile(WaveCompileOptions(subs={...}), kernel)"
            )
        return launch(self, args)

    def __repr__(self) -> str:
        return f"<wave kernel {self._name}>"


def wave(constraints: Sequence[Constraint] | None = None) -> Callable[[Function], LaunchableWave]:
    """Turns a function into a kernel: `@wave(constraints)`."""
    localns = sys._getframe(1).f_locals
    if inspect.isfunction(constraints):
        code = constraints.__code__
        _wave.report(
            "E0201",
            f"`{constraints.__name__}` is decorated with a bare `@wave`, without constraints",
            "write `@wave([HardwareConstraint(threads_per_wave=64), ...])`",
            (code.co_filename, code.co_firstlineno, 0, 0),
        )

    def decorate(given: Any) -> LaunchableWave:
        fn = _function_of(given)
        return LaunchableWave(constraints, fn.__name__, fn, localns)

    return decorate


def wave_trace_only(
    constraints: Sequence[Constraint] | None = None, **_ignored: Any
) -> Callable[[Function], Callable[[], Kernel]]:
    """Like `wave`; calling the result traces the function and returns the kernel."""
    localns = sys._getframe(1).f_locals

    def decorate(given: Any) -> Callable[[], Kernel]:
        fn = _function_of(given)
        return LaunchableWave(constraints, fn.__name__, fn, localns).trace

    return decorate


__all__ = ["LaunchableWave", "wave", "wave_trace_only"]
