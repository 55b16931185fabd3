"""Measures how long kernels take, with data that is not in the cache yet. On a GPU it uses events,
which exclude the host's launch time; on a CPU it uses the clock.

    from wave_lang.benchmark import bench

    print(bench(kernel, (a, b, c)))     # 12.3 us
    print(bench(torch.matmul, (a, b)))  # anything that runs on the current stream, or here
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Callable, Sequence


@dataclass(frozen=True)
class Timing:
    """Microseconds per call: the median, minimum and maximum of `runs` measurements, each of
    `calls` calls."""

    median: float
    least: float
    most: float
    runs: int
    calls: int

    def __str__(self) -> str:
        return f"{self.median:.2f} us"

    def rate(self, amount: float) -> float:
        """`amount` (bytes, operations) in a second."""
        return amount / self.median * 1e6


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def copied(value: Any) -> Any:
    """A copy of a PyTorch or NumPy tensor. Anything else is returned unchanged."""
    if not _is_tensor(value):
        return value
    return value.clone() if hasattr(value, "clone") else value.copy()


def _copies(args: Sequence[Any], bytes_wanted: int) -> list[tuple[Any, ...]]:
    """The arguments, and as many copies as it takes to exceed twice the cache size."""
    size = sum(a.nbytes for a in args if _is_tensor(a))
    count = 1 if size == 0 else max(1, -(-bytes_wanted // size))
    return [tuple(args)] + [tuple(map(copied, args)) for _ in range(min(count, 1000) - 1)]


def _on_gpu(args: Sequence[Any]) -> bool:
    """Whether the tensors are on a GPU; without tensors, whether PyTorch has one."""
    tensors = [a for a in args if _is_tensor(a)]
    if tensors:
        return any(getattr(t, "is_cuda", False) for t in tensors)
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available()


def _cache_bytes(on_gpu: bool) -> int:
    """The size of the GPU's L2 cache, or of the CPU's last-level cache."""
    if on_gpu:
        import torch

        return torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    try:
        return max(os.sysconf("SC_LEVEL3_CACHE_SIZE"), 32 << 20)
    except (ValueError, OSError):
        return 32 << 20


def _captured(call: Callable[..., Any], sets: list[tuple[Any, ...]], calls: int) -> Any:
    """A CUDA graph of this many calls, rotating through the sets of arguments."""
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(*sets[i % len(sets)])
    return graph


def _elapsed(run: Callable[[], Any]) -> float:
    """Milliseconds between two events around it."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def _elapsed_here(run: Callable[[], Any]) -> float:
    """Milliseconds by the clock."""
    begin = perf_counter()
    run()
    return (perf_counter() - begin) * 1e3


def bench(
    call: Callable[..., Any],
    args: Sequence[Any] = (),
    *,
    cold: bool = True,
    graph: bool = True,
    budget_ms: float = 150.0,
    calls: int | None = None,
    runs: int | None = None,
) -> Timing:
    """Times `call(*args)`: on the GPU that holds its tensors, or on the CPU.

    cold    calls rotate through copies of the arguments, so that none finds its data in the last
            cache; otherwise all get the same ones
    graph   on a GPU, calls are captured in a CUDA graph, so that what is measured is its time and
            not the host's. Without it the launch counts where it is the slower of the two
    calls   in one measurement; None: as many as take some milliseconds
    runs    how many measurements; None: as many as `budget_ms` has room for
    """
    for name, value in (("calls", calls), ("runs", runs)):
        if value is not None and (type(value) is not int or value < 1):
            raise ValueError(f"`{name}` is a positive int or None, not {value!r}")
    on_gpu = _on_gpu(args)
    elapsed = _elapsed if on_gpu else _elapsed_here
    sets = _copies(args, 2 * _cache_bytes(on_gpu) if cold else 0)
    for one in sets[:2]:  # compiles, and fills the caches of libraries
        call(*one)
    once = max(elapsed(lambda: [call(*s) for s in sets]) / len(sets), 1e-3)
    together = calls or max(len(sets), min(int(5.0 / once), 1000), 1)

    def each() -> None:
        for i in range(together):
            call(*sets[i % len(sets)])

    run = _captured(call, sets, together).replay if on_gpu and graph else each
    run()
    first = elapsed(run)
    count = runs or max(5, min(int(budget_ms / max(first, 1e-3)), 200))
    times = sorted(elapsed(run) * 1e3 / together for _ in range(count))
    return Timing(times[len(times) // 2], times[0], times[-1], count, together)


__all__ = ["Timing", "bench", "copied"]
