"""Small types of options."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Callable, Sequence


class CoalescingType(Enum):
    """How global loads are spread over threads; a hint."""

    LINEAR = 0
    WAVE_TILE_ALIGNED = 0x10


@dataclass
class KernelLaunchInfo:
    """What a launch runs. `grid` takes the values of scalars that define symbols, then those of
    `dynamic_symbols`, and gives the workgroups in each direction."""

    grid: Callable[[Sequence[int]], list[int]] | None = None
    blocks: Sequence[int] | None = None
    cluster_dims: Sequence[int] | None = None
    shared_memory_bytes: int = 0
    func_name: str = ""
    grid_str: str = ""
