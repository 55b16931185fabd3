"""How a kernel is divided over the machine, and the matrix instructions it may use.

Constraints are plain data: compiling never changes them, so one list serves many kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Callable, Mapping, Sequence

from ... import _wave
from ..._wave import Expr
from ..lang.global_symbols import THREAD_0, THREAD_1, THREAD_2, get_workgroup_symbol

# Rows of the compiler's table with a value of the public enumerations; the others are looked up by
# name.
_PUBLIC = [row for row in _wave.mma_table if row[1] > 0]
MMAType = Enum(  # type: ignore[misc]
    "MMAType", [(r[0], r[1]) for r in _PUBLIC if not r[2]], module=__name__
)
MMAType.__doc__ = "Matrix instructions: acc[m, n] += sum over k of lhs[m, k] * rhs[n, k]."
ScaledMMAType = Enum(  # type: ignore[misc]
    "ScaledMMAType", [(r[0], r[1]) for r in _PUBLIC if r[2]], module=__name__
)
ScaledMMAType.__doc__ = "Matrix instructions with one power-of-two scale per 32 elements of k."


class MMAOperand(Enum):
    """The dimensions of a matmul."""

    M = 0
    N = 1
    K = 2


@dataclass(frozen=True)
class GenericDot:
    """A matmul without a matrix instruction, for machines or shapes that lack one.

    Each lane holds `k_vec_size` elements along K and `k_mult` lanes share a result.
    """

    out_vec_size: int = 1
    k_vec_size: int = 4
    k_mult: int = 1
    along_dim: MMAOperand = MMAOperand.N

    def __post_init__(self):
        if self.along_dim is MMAOperand.K:
            _wave.report(
                "E0212",
                "GenericDot cannot run along K",
                "use along_dim=MMAOperand.M or MMAOperand.N",
            )

    @property
    def along(self) -> str:
        return self.along_dim.name


def mma_spec(mma_type: Any) -> Any:
    """A matrix instruction as the compiler expects it: its name, a GenericDot, or None.

    If several are given, the last one counts: kernels with two matmuls pass both, and name the
    first at its `mma`.
    """
    if isinstance(mma_type, (tuple, list)):
        return mma_spec(mma_type[-1])
    return mma_type.name if isinstance(mma_type, Enum) else mma_type


class Constraint:
    """The base of all constraints. Each remembers where it was written, for diagnostics."""

    def __post_init__(self):
        self._place = _wave.here()
        for name in ("dim", "tile_size", "iters"):  # mistakes are reported here
            value = getattr(self, name, None)
            if isinstance(value, str):
                kind = type(self).__name__
                raise TypeError(f"{kind}: `{name}` is the string {value!r}, expected an expression")
            if value is not None:
                Expr(value)

    def _fields(self) -> dict[str, Any]:
        raise NotImplementedError

    def _row(self) -> dict[str, Any]:
        """The row of the kernel's header that it becomes."""
        return {"at": self._place, **self._fields()}


@dataclass
class DeviceConstraint(Constraint):
    """Divides `dim` into tiles of `tile_size` over devices, along device dimension `device_dim`.

    Several devices are not supported yet: one must have the whole dimension (E0215).
    """

    dim: Any
    tile_size: Any
    device_dim: int = 0

    def _fields(self):
        return {"kind": "device", "dim": self.dim, "size": self.tile_size, "axis": self.device_dim}


@dataclass
class WorkgroupConstraint(Constraint):
    """Divides `dim` into tiles of `tile_size` over workgroups, along grid axis `workgroup_dim`.

    `apply_fn` computes the first element from the workgroup id, instead of `id * tile_size`;
    `primary=False` lets a dimension share the id of another; `iters` sets the number of tiles.
    """

    dim: Any
    tile_size: Any
    workgroup_dim: int
    apply_fn: Callable[[Expr], Any] | None = None
    primary: bool = True
    iters: Any = None

    @property
    def wg_dim(self) -> Expr:
        """The symbol of its workgroup id."""
        return get_workgroup_symbol(self.workgroup_dim)

    def _fields(self):
        return {
            "kind": "workgroup",
            "dim": self.dim,
            "size": self.tile_size,
            "axis": self.workgroup_dim,
            "count": self.iters,
            "secondary": not self.primary,
            "start": self.apply_fn(self.wg_dim) if self.apply_fn else None,
        }


@dataclass
class WaveConstraint(Constraint):
    """Divides a workgroup's tile of `dim` into tiles of `tile_size` over waves."""

    dim: Any
    tile_size: Any
    wave_id: Any = None

    def _fields(self):
        return {"kind": "wave", "dim": self.dim, "size": self.tile_size, "expr": self.wave_id}


@dataclass
class TilingConstraint(Constraint):
    """Divides `dim` into tiles of `tile_size` over the iterations of `iterate(dim)`.

    `iters` sets the number of iterations, `start` the first element.
    """

    dim: Any
    tile_size: Any = None
    induction_var: Any = None
    iters: Any = None
    start: Any = 0

    def _fields(self):
        start = None if isinstance(self.start, int) and self.start == 0 else self.start
        return {
            "kind": "tile",
            "dim": self.dim,
            "size": self.tile_size,
            "count": self.iters,
            "start": start,
            "expr": self.induction_var,
        }


@dataclass
class HardwareConstraint(Constraint):
    """Describes a wave: its threads, its matrix instruction, the extents one vector covers.

    A vector shape of 0 marks a batch dimension: never expanded, one position per workgroup.
    """

    threads_per_wave: int
    waves_per_block: Sequence[Any] | None = None
    workgroups_per_cluster: Sequence[Any] | None = None
    mma_type: Any = MMAType["F32_16x16x16_F16"]
    vector_shapes: Mapping[Any, Any] | None = None
    max_bits_per_load: int = 128
    n_service_waves: int = 0

    @property
    def threads_per_block(self) -> tuple[Any, Any, Any]:
        """Threads along each axis of a workgroup, once the number of waves is known."""
        x, y, z = self.waves_per_block or (1, 1, 1)
        return (x * self.threads_per_wave, y + self.n_service_waves, z)

    @property
    def linearized_thread_id(self) -> Expr:
        """The number of a thread in its workgroup."""
        x, y, _ = self.threads_per_block
        return THREAD_0 + THREAD_1 * x + THREAD_2 * (x * y)

    @property
    def lane_id(self) -> Expr:
        """The number of a thread in its wave."""
        return self.linearized_thread_id % self.threads_per_wave

    @property
    def wave_id(self) -> Expr:
        """The number of a wave in its workgroup."""
        return self.linearized_thread_id // self.threads_per_wave

    def max_elems_per_load(self, element_type: "_wave.DataType") -> int:
        """How many elements of a type one load can move."""
        return self.max_bits_per_load // element_type.bitwidth()

    def _fields(self):
        return {
            "kind": "hardware",
            "threads": self.threads_per_wave,
            "waves": self.waves_per_block,
            "cluster": self.workgroups_per_cluster,
            "mma": mma_spec(self.mma_type),
            "pairs": self.vector_shapes,
            "load_bits": self.max_bits_per_load,
            "service_waves": self.n_service_waves,
        }


@dataclass
class GridConstraint(Constraint):
    """Launches exactly this many workgroups; their ids no longer determine positions."""

    grid: Any

    def __post_init__(self):
        super().__post_init__()
        if isinstance(self.grid, (tuple, list)) and len(self.grid) != 1:
            _wave.report(
                "E0212",
                f"a grid constraint takes one extent, not {len(self.grid)}",
                "write GridConstraint(number_of_workgroups)",
                self._place,
            )

    def _fields(self):
        size = self.grid[0] if isinstance(self.grid, (tuple, list)) else self.grid
        return {"kind": "grid", "size": size}


@dataclass
class ReorderingConstraint(Constraint):
    """Replaces the workgroup id along `workgroup_dim` by an expression, in positions only."""

    reordered_equation: Any
    workgroup_dim: int

    def _fields(self):
        return {"kind": "reorder", "expr": self.reordered_equation, "axis": self.workgroup_dim}


@dataclass
class IteratorBindings(Constraint):
    """Names iterators for `read(..., source=, target=)`: {iterator symbol: dimension}."""

    bindings: Mapping[Any, Any]

    def _fields(self):
        return {"kind": "iterators", "pairs": self.bindings}


def row_of(constraint: Any) -> dict[str, Any]:
    """The header row of a constraint or assumption."""
    if isinstance(constraint, Constraint):
        return constraint._row()
    raise TypeError(f"{constraint!r} is not a constraint")


__all__ = [
    "Constraint",
    "DeviceConstraint",
    "GenericDot",
    "GridConstraint",
    "HardwareConstraint",
    "IteratorBindings",
    "MMAOperand",
    "MMAType",
    "ReorderingConstraint",
    "ScaledMMAType",
    "TilingConstraint",
    "WaveConstraint",
    "WorkgroupConstraint",
]
