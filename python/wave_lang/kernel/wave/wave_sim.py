"""Running a kernel's body once, on whole tensors."""

from __future__ import annotations

import sys
from typing import Any, Callable, Sequence

from ..lang.global_symbols import GLOBAL_ADDRESS_SPACE
from ..lang.wave_types import Memory
from .compile import wave_compile
from .compile_options import WaveCompileOptions
from .constraints import Constraint, HardwareConstraint, TilingConstraint, WorkgroupConstraint
from .wave import LaunchableWave


def wave_sim(constraints: Sequence[Constraint] | None = None) -> Callable[..., Callable[..., None]]:
    """Makes a function of tensors from a kernel: symbols take their values from the tensors'
    shapes, and every tile is the whole dimension, whatever the constraints say."""
    localns = sys._getframe(1).f_locals

    def decorate(fn: Callable[..., Any]) -> Callable[..., None]:
        kernel = LaunchableWave(None, fn.__name__, fn, localns)
        loops = {c.dim for c in constraints or () if isinstance(c, TilingConstraint)}

        def run(*args: Any) -> None:
            sizes = {
                dim: size
                for (_, a), arg in zip(kernel._params, args)
                if isinstance(a, Memory)
                for dim, size in zip(a.symbolic_shape, arg.shape)
                if dim.is_symbol
            }
            whole: list[Constraint] = [HardwareConstraint(threads_per_wave=64, vector_shapes=sizes)]
            whole += [TilingConstraint(d, d) for d in loops]
            free = [d for d in sizes if d not in loops]
            whole += [WorkgroupConstraint(d, d, 0, primary=d == free[0]) for d in free]
            kernel.constraints = whole
            spaces = {
                a.address_space: GLOBAL_ADDRESS_SPACE
                for _, a in kernel._params
                if isinstance(a, Memory) and not a.address_space.name.startswith("$")
            }
            wave_compile(WaveCompileOptions(subs={**sizes, **spaces}, target="eval"), kernel)(*args)

        return run

    return decorate
