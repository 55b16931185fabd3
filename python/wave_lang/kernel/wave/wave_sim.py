"""Running a kernel's body once, on whole tensors."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Callable, Sequence

from ..._wave import Expr, Value, report
from .._support import dtype as dtypes
from .._support.tensor_types import element_type
from ..lang.global_symbols import GLOBAL_ADDRESS_SPACE
from ..lang.wave_types import Memory
from ..ops import wave_ops as ops
from .compile import wave_compile
from .compile_options import WaveCompileOptions
from .constraints import Constraint, HardwareConstraint, TilingConstraint, WorkgroupConstraint
from .wave import LaunchableWave


def _as_passed(annotation: Any, arg: Any) -> Any:
    """A tensor parameter with the element type of the tensor that is passed."""
    dtype = element_type(str(getattr(arg, "dtype", "")).rpartition(".")[2])
    if not isinstance(annotation, Memory) or dtype is None:
        return annotation
    return Memory[annotation.symbolic_shape, GLOBAL_ADDRESS_SPACE, dtype]  # type: ignore[misc]


def _whole(sizes: dict[Any, int], loops: set[Any]) -> list[Constraint]:
    """Constraints under which every tile is its whole dimension."""
    free = [d for d in sizes if d not in loops]
    rows: list[Constraint] = [HardwareConstraint(threads_per_wave=64, vector_shapes=sizes)]
    rows += [TilingConstraint(d, d) for d in loops]
    return rows + [WorkgroupConstraint(d, d, 0, primary=d == free[0]) for d in free]


def _item(sizes: dict[Any, int], value: Value, key: Any) -> Value:
    """`value[i]`: the element or rows at position i of the first dimension, which the tile holds
    entirely."""
    if not value.shape or not isinstance(key, int):
        report("E0310", "a value is indexed by one number, along its first dimension")
    dim = value.shape[0]
    size = int(Expr(dim).subs(sizes))
    if not -size <= key < size:
        report("E0310", f"index {key} is out of range for `{dim}`, which has size {size}")
    here = ops.self_index(dim, dtypes.i32) == key % size
    zero = ops.register(value.shape, value.dtype, 0)
    return ops.sum(ops.select(here, value, zero), dim=dim)


def wave_sim(constraints: Sequence[Constraint] | None = None) -> Callable[..., Callable[..., None]]:
    """Turns a kernel into a function of tensors: symbols and element types are taken from the
    tensors, and every tile is the whole dimension, whatever the constraints say. `value[i]` is
    therefore the element, or the rows, at position i of its first dimension."""
    localns = sys._getframe(1).f_locals
    loops = {c.dim for c in constraints or () if isinstance(c, TilingConstraint)}

    def decorate(fn: Callable[..., Any]) -> Callable[..., None]:
        def run(*args: Any) -> None:
            kernel = LaunchableWave(None, fn.__name__, fn, localns)
            kernel._params = [(n, _as_passed(a, arg)) for (n, a), arg in zip(kernel._params, args)]
            sizes = {
                dim: size
                for (_, a), arg in zip(kernel._params, args)
                if isinstance(a, Memory)
                for dim, size in zip(a.symbolic_shape, arg.shape)
                if dim.is_symbol
            }
            kernel.constraints = _whole(sizes, loops)
            kernel._items = partial(_item, sizes)
            wave_compile(WaveCompileOptions(subs=sizes, target="eval"), kernel)(*args)

        return run

    return decorate
