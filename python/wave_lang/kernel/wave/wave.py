"""The decorator that makes a kernel of a Python function."""

from __future__ import annotations

import inspect
import sys
from typing import Any, Callable, Iterable, Sequence

from ... import _wave
from ..._wave import DataType, Kernel
from .._support.tracing import DebugLog, Trace, current_logs
from ..lang.wave_types import Memory, SymbolBind
from .constraints import Constraint, row_of

Function = Callable[..., Any]


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
    """Parameter annotations; strings (`from __future__ import annotations`) are evaluated where
    the function stands."""
    found = inspect.get_annotations(fn)
    if not any(isinstance(a, str) for a in found.values()):
        return found
    scope = {**localns, **_closure(fn)}
    return {
        n: eval(a, fn.__globals__, scope) if isinstance(a, str) else a for n, a in found.items()
    }


class LaunchableWave:
    """A kernel: a function with constraints. Compile it with `wave_compile` to call it."""

    def __init__(
        self,
        constraints: Iterable[Constraint] | None,
        name: str,
        fn: Function,
        localns: dict[str, Any] | None = None,
    ):
        self.constraints: list[Constraint] = list(constraints or ())
        self._name = name
        self._f = fn
        self._place = (fn.__code__.co_filename, fn.__code__.co_firstlineno, 0, 0)
        self._params = self._parameters(localns or {})
        self.__name__ = name
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    def _parameters(self, localns: dict[str, Any]) -> list[tuple[str, Any]]:
        annotations = _annotations(self._f, localns)
        found = []
        for name in self._f.__code__.co_varnames[: self._f.__code__.co_argcount]:
            annotation = annotations.get(name)
            if not isinstance(annotation, (Memory, DataType, SymbolBind)):
                _wave.report(
                    "E0319",
                    f"parameter `{name}` of `{self._name}` has no type",
                    "annotate it with Memory[...], an element type such as f32, or SymbolBind[...]",
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

    def capture(self) -> Trace:
        """Runs the function once with traced values: the kernel and its debug logs."""
        logs: list[DebugLog] = []
        tracer = _wave.Tracer(self._name, self._place)
        token = current_logs.set(logs)
        try:
            with tracer:
                for constraint in self.constraints:
                    tracer.constrain(row_of(constraint))
                self._f(*self._trace_params(tracer))
                return Trace(tracer.finish(), logs)
        finally:
            current_logs.reset(token)

    def trace(self) -> Kernel:
        """The traced kernel; str() of it is its IR."""
        return self.capture().kernel

    def __call__(self, *args: Any) -> Any:
        from ..gen import current_launch

        launch = current_launch.get(None)
        if launch is None:
            raise TypeError(
                f"compile `{self._name}` before calling it: "
                "wave_compile(WaveCompileOptions(subs={...}), kernel)"
            )
        return launch.run(self, args)

    def __repr__(self) -> str:
        return f"<wave kernel {self._name}>"


def wave(constraints: Sequence[Constraint] | None = None) -> Callable[[Function], LaunchableWave]:
    """Makes a kernel of a function: `@wave(constraints)`."""
    localns = sys._getframe(1).f_locals

    def decorate(fn: Function) -> LaunchableWave:
        return LaunchableWave(constraints, fn.__name__, fn, localns)

    return decorate


def wave_trace_only(
    constraints: Sequence[Constraint] | None = None, **_ignored: Any
) -> Callable[[Function], Callable[[], Kernel]]:
    """Like `wave`; calling the result traces the function and returns the kernel."""
    localns = sys._getframe(1).f_locals

    def decorate(fn: Function) -> Callable[[], Kernel]:
        return LaunchableWave(constraints, fn.__name__, fn, localns).trace

    return decorate


__all__ = ["LaunchableWave", "wave", "wave_trace_only"]
