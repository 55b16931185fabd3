"""Kernels whose calls are measured: `run_bench` and `profile_python_wrapper`."""

from __future__ import annotations

import cProfile
import json
import timeit
from typing import Any

from ...benchmark import bench, copied
from .compiled import WaveKernel
from .option_rows import ROWS


def _zeros(value: Any) -> Any:
    """A copy of a tensor with 0 in every element."""
    made = copied(value)
    if made is not value:
        made[...] = 0
    return made


class MeasuredKernel(WaveKernel):
    """A kernel that is measured at each call, after the call itself."""

    def __call__(self, *args: Any, **named: Any) -> None:
        super().__call__(*args, **named)
        if self.options.run_bench and self.machine.kind in ROWS["run_bench"].on:
            self._write_results(self._measure(args, named))
        if self.options.profile_python_wrapper:
            self._profile(lambda: super(MeasuredKernel, self).__call__(*args, **named))

    def _measure(self, args: tuple[Any, ...], named: dict[str, Any]) -> list[list[Any]]:
        """A row for each repetition, with the columns of the public package's results: name, time,
        CPU time (not measured), calls, counters (none). The caller's tensors are not
        written again."""
        own = _zeros if self.options.bench_with_constant_weights else copied
        named = {name: own(value) for name, value in named.items()}
        call = super().__call__
        rows = []
        for _ in range(self.options.benchmark_repetitions or 1):
            took = bench(
                lambda *given: call(*given, **named),
                [own(a) for a in args],
                calls=self.options.benchmark_batch_size,
                graph=not named,
            )
            rows.append([self.name, str(took), None, str(took.calls * took.runs), None])
        return rows

    def _write_results(self, rows: list[list[Any]]) -> None:
        text = json.dumps(rows, indent=4)
        if self.options.benchmark_results_file is None:
            print(text)
        else:
            with open(self.options.benchmark_results_file, "w") as out:
                out.write(text)

    def _profile(self, call: Any) -> None:
        """Profiles the Python code of calls; kernels that accumulate into their tensors do so each
        time."""
        options = self.options
        for _ in range(options.profile_python_warmup):
            call()
        if options.profile_python_cprofile:
            with cProfile.Profile() as profile:
                for _ in range(options.profile_python_repetitions):
                    call()
            profile.print_stats(sort="cumulative")
        else:
            took = timeit.timeit(call, number=options.profile_python_repetitions)
            each = took / options.profile_python_repetitions
            print(f"{self.name}: {took:.3f} s, {each * 1e6:.2f} us per call")


__all__ = ["MeasuredKernel"]
