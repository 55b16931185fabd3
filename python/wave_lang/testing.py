"""Tests of kernels: runs them on simulated machines, with every check, and compares the results
with what is expected.

    from wave_lang.testing import check

    def test_gemm():
        check(gemm, (a, b, c), a @ b.T, options=WaveCompileOptions(subs={...}), atol=1e-3)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Iterable, Mapping, Sequence

from . import _wave
from ._wave import Report, SimulationError
from .kernel.wave.compile import WaveKernel, wave_compile
from .kernel.wave.compile_options import WaveCompileOptions
from .kernel.wave.wave import LaunchableWave

SCHEDULES = ("round", "reverse", "last", "random:1")


def simulate(
    text: str,
    *args: Any,
    target: str = "sim",
    schedule: str = "round",
    nonfinite: bool = False,
    name: str = "<text>",
) -> Report:
    """Runs the one kernel of an IR text lane by lane. One lane's program (`thread kernel`) runs as
    it is, on any machine with its waves if the target is "sim"; tiles are lowered first. Tensors
    are written in place; a finding raises SimulationError. `name` is shown as the file."""
    kernels = _wave.parse(text, name)
    if len(kernels) != 1:
        raise ValueError(f"expected text with exactly one kernel, got {len(kernels)}")
    if not kernels[0].is_open:
        kernels[0].lower(target)
        _wave.take_diagnostics()
    return kernels[0].sim(args, target, schedule, nonfinite)


def check(
    kernel: LaunchableWave | WaveKernel,
    args: Sequence[Any],
    expected: Any = None,
    *,
    options: WaveCompileOptions | None = None,
    targets: Iterable[str] | str = ("sim:gfx942", "sim:sm_90a"),
    schedules: Iterable[str] | str = "all",
    rtol: float = 1e-3,
    atol: float = 1e-5,
    nonfinite: bool = False,
) -> dict[tuple[str, str], Report]:
    """Runs a kernel on every target under every schedule, and compares what it wrote.

    `expected` is the right output; for several outputs, a sequence in the order of the parameters,
    or a dict by name (others are not compared). Without it, the reference evaluator gives the right
    output. `options` are those of `wave_compile`; their target is ignored. A compiled kernel uses
    its own. Each run gets copies of `args`. `schedules` are "round", "reverse", "first", "last", "random:SEED";
    "all" is one of each. An AssertionError says which run failed and how. Returns the reports.
    """
    source, options = _source(kernel, options)
    targets = [targets] if isinstance(targets, str) else list(targets)
    schedules = [schedules] if isinstance(schedules, str) else list(schedules)
    schedules = list(SCHEDULES) if schedules == ["all"] else schedules
    right: dict[str, Any] | None = None
    reports: dict[tuple[str, str], Report] = {}
    for target in targets:
        compiled = wave_compile(_for_target(options, target), source)
        if right is None:
            right = _expected(compiled, source, options, args, expected)
        for schedule in schedules:
            where = f"{compiled.name} on {target}, schedule {schedule}"
            given = [_copy(a) for a in args]
            try:
                reports[target, schedule] = compiled.simulate(
                    *given, schedule=schedule, nonfinite=nonfinite
                )
            except SimulationError as error:
                raise AssertionError(f"{where}: a check failed\n{error}") from error
            for i, param in enumerate(compiled.ir.params):
                if param.name in right:
                    _compare(where, param.name, given[i], right[param.name], rtol, atol)
    return reports


def _for_target(options: WaveCompileOptions, target: str) -> WaveCompileOptions:
    """The same options for another target."""
    other = replace(options, target=target)
    other._place = options._place
    return other


def _source(
    kernel: LaunchableWave | WaveKernel, options: WaveCompileOptions | None
) -> tuple[LaunchableWave, WaveCompileOptions]:
    if isinstance(kernel, WaveKernel):
        return kernel.source, options or kernel.options
    if isinstance(kernel, LaunchableWave):
        return kernel, options or WaveCompileOptions()
    raise TypeError(f"expected a kernel, got {kernel!r}")


def _outputs(compiled: WaveKernel) -> list[str]:
    return [p.name for p in compiled.ir.params if p.is_output and p.kind == "mem"]


def _expected(
    compiled: WaveKernel,
    source: LaunchableWave,
    options: WaveCompileOptions,
    args: Sequence[Any],
    expected: Any,
) -> dict[str, Any]:
    """What each output should hold, by name."""
    names = _outputs(compiled)
    if expected is None:
        copies = [_copy(a) for a in args]
        wave_compile(_for_target(options, "eval"), source)(*copies)
        return {p.name: copies[i] for i, p in enumerate(compiled.ir.params) if p.name in names}
    if isinstance(expected, Mapping):
        unknown = [n for n in expected if n not in names]
        if unknown:
            raise ValueError(f"`{unknown[0]}` is not an output; outputs are {', '.join(names)}")
        return dict(expected)
    values = expected if isinstance(expected, (list, tuple)) else [expected]
    if len(values) != len(names):
        raise ValueError(f"got {len(values)} values for the outputs {', '.join(names)}")
    return dict(zip(names, values))


def _copy(value: Any) -> Any:
    """Tensors are copied; numbers need not be."""
    for method in ("clone", "copy"):  # PyTorch, NumPy
        if hasattr(value, method):
            return getattr(value, method)()
    return value


def _numbers(value: Any) -> Any:
    import numpy as np

    if hasattr(value, "detach"):  # PyTorch; NumPy has no bf16
        value = value.detach().double().numpy()
    return np.asarray(value).astype(np.float64)


def _compare(where: str, name: str, got: Any, expected: Any, rtol: float, atol: float) -> None:
    import numpy as np

    left, right = _numbers(got), _numbers(expected)
    if left.shape != right.shape:
        raise AssertionError(f"{where}: `{name}` has shape {left.shape}, expected {right.shape}")
    wrong = ~np.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    if not wrong.any():
        return
    with np.errstate(invalid="ignore"):
        error = np.where(wrong, np.abs(left - right), 0)
    worst = np.unravel_index(np.argmax(np.nan_to_num(error, nan=np.inf)), error.shape)
    index = ", ".join(map(str, worst))
    raise AssertionError(
        f"{where}: {wrong.sum()} of {wrong.size} elements of `{name}` are wrong; the worst is "
        f"{name}[{index}] = {left[worst]:g}, expected {right[worst]:g} (rtol {rtol:g}, atol {atol:g})"
    )


__all__ = ["SCHEDULES", "check", "simulate"]
