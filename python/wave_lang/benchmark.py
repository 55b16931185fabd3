"""How long kernels take on a GPU: measured with events, with data that is not in the cache yet, and
without the time that the host needs to launch them.

    from wave_lang.benchmark import bench

    print(bench(kernel, (a, b, c)))     # 12.3 us
    print(bench(torch.matmul, (a, b)))  # anything that runs on the current stream
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Sequence


@dataclass(frozen=True)
class Timing:
    """Microseconds of one call: the median, the least and the most of `runs` measurements."""

    median: float
    least: float
    most: float
    runs: int

    def __str__(self) -> str:
        return f"{self.median:.2f} us"

    def rate(self, amount: float) -> float:
        """`amount` (bytes, operations) in a second."""
        return amount / self.median * 1e6


def _copies(args: Sequence[Any], bytes_wanted: int) -> list[tuple[Any, ...]]:
    """The arguments, and copies of them until all together are larger than the cache twice."""
    import torch

    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    size = sum(t.numel() * t.element_size() for t in tensors)
    count = 1 if size == 0 else max(1, -(-bytes_wanted // size))
    made = [tuple(args)]
    for _ in range(min(count, 1000) - 1):
        made.append(tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in args))
    return made


def _captured(call: Callable[..., Any], sets: list[tuple[Any, ...]], calls: int) -> Any:
    """A CUDA graph of so many calls, one set of arguments after the other."""
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


def bench(
    call: Callable[..., Any],
    args: Sequence[Any] = (),
    *,
    cold: bool = True,
    graph: bool = True,
    budget_ms: float = 150.0,
) -> Timing:
    """Times `call(*args)`, where some of `args` are CUDA tensors of PyTorch.

    cold    calls take turns with copies of the arguments, so that none finds its data in the L2
            cache; otherwise all get the same ones
    graph   calls are captured in a CUDA graph, so that what is measured is the GPU's time and not
            the host's. Without it the launch counts where it is the slower of the two
    """
    import torch

    l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    sets = _copies(args, 2 * l2 if cold else 0)
    for one in sets[:2]:  # compiles, and fills the caches of libraries
        call(*one)
    torch.cuda.synchronize()
    once = max(_elapsed(lambda: [call(*s) for s in sets]) / len(sets), 1e-3)
    calls = max(len(sets), min(int(5.0 / once), 1000), 1)

    def each() -> None:
        for i in range(calls):
            call(*sets[i % len(sets)])

    run = _captured(call, sets, calls).replay if graph else each
    run()
    first = _elapsed(run)
    count = max(5, min(int(budget_ms / max(first, 1e-3)), 200))
    times = sorted(_elapsed(run) * 1e3 / calls for _ in range(count))
    return Timing(times[len(times) // 2], times[0], times[-1], count)


__all__ = ["Timing", "bench"]
