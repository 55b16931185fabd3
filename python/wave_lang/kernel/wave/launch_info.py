"""Facts about launches of a compiled kernel: the grid, the threads and the shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

from ..._wave import Expr, Kernel, Program
from .compile_options import WaveCompileOptions


@dataclass
class KernelLaunchInfo:
    """The size of a launch. `grid` takes the values of scalars that define symbols, then those of
    `dynamic_symbols`, and gives the workgroups in each direction."""

    grid: Callable[[Sequence[int]], list[int]] | None = None
    blocks: Sequence[int] | None = None
    cluster_dims: Sequence[int] | None = None
    shared_memory_bytes: int = 0
    func_name: str = ""
    grid_str: str = ""


def launch_info(
    options: WaveCompileOptions, kernel: Kernel, scalars: dict[Expr, int], program: Program | None
) -> KernelLaunchInfo:
    """`kernel` is one lane's program, or the traced kernel: then threads are as declared, and the
    program says how much shared memory there is, once it is compiled."""
    grid, threads, shared = kernel.launch_shape
    variants = program.variants if program else []
    symbols = [*scalars, *map(Expr, options.dynamic_symbols)]

    def workgroups(values: Sequence[int]) -> list[int]:
        return [int(dim.subs(dict(zip(symbols, values)))) for dim in grid]

    return KernelLaunchInfo(
        grid=workgroups,
        blocks=[int(n) for n in threads] if all(n.is_number for n in threads) else None,
        shared_memory_bytes=variants[0].shared if variants else shared,
        func_name=kernel.name,
        grid_str=str(list(grid)),
    )


__all__ = ["KernelLaunchInfo", "launch_info"]
