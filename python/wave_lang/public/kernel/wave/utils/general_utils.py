"""Small helpers of kernels and tests: torch dtypes, shapes, scheduling parameters."""

from __future__ import annotations

import functools
import gc
import math
from typing import Any, Callable, Sequence

from wave_lang.kernel._support.tensor_types import torch_dtype_to_wave, torch_table, wave_dtype_to_torch
from wave_lang.kernel.lang import global_symbols as _g
from wave_lang import _wave
from wave_lang._wave import Expr

DEFAULT_GPU_DEVICE: int | None = None


def __getattr__(name: str) -> Any:
    if name == "TORCH_DTYPE_TO_WAVE":
        return torch_table()
    raise AttributeError(name)


def torch_dtype_range(dtype: Any) -> list[Any]:
    """[smallest, largest] finite value of a torch dtype."""
    import torch

    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return [info.min, info.max]


def ceildiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def clamp(x: Any, lo: Any, hi: Any) -> Any:
    """x clamped to [lo, hi]."""
    return max(lo, min(x, hi))


def delinearize_index(index: Any, shape: Sequence[Any]) -> list[Any]:
    """The coordinates of a linear index; the last dimension varies fastest."""
    coordinates = []
    for size in reversed(shape):
        coordinates.append(index % size)
        index = index // size
    return coordinates[::-1]


def divide_shape_into_chunks(shape: Sequence[int], chunks: int) -> list[int]:
    """The shape of each of `chunks` equal parts, dividing from the left."""
    result = []
    for size in shape:
        common = math.gcd(size, chunks)
        result.append(size // common)
        chunks //= common
    if chunks != 1:
        raise ValueError(f"cannot divide {tuple(shape)} into equal parts")
    return result


def get_default_scheduling_params() -> dict[Expr, int]:
    """Latencies and units of the instruction scheduler, for `subs`."""
    return {
        _g.READ_SHARED_DELAY: 1,
        _g.WRITE_SHARED_DELAY: 1,
        _g.READ_GLOBAL_DELAY: 2,
        _g.WRITE_GLOBAL_DELAY: 2,
        _g.GLOBAL_TO_SHARED_DELAY: 1,
        _g.MMA_DELAY: 1,
        _g.VALU_DELAY: 1,
        _g.SHUFFLE_DELAY: 1,
        _g.SHARED_MEMORY_UNITS: 4,
        _g.GLOBAL_MEMORY_UNITS: 4,
        _g.MMA_UNITS: 4,
        _g.VALU_UNITS: 2,
        _g.SHUFFLE_UNITS: 2,
    }


def check_leaks(fn: Callable[..., Any]) -> Callable[..., Any]:
    """With WAVE_CHECK_LEAKS=1: fails if the function leaves uncollectable objects."""
    if not _wave.variable_number("WAVE_CHECK_LEAKS", 0):
        return fn

    @functools.wraps(fn)
    def checked(*args: Any, **kwargs: Any) -> Any:
        gc.collect()
        before = len(gc.garbage)
        result = fn(*args, **kwargs)
        gc.collect()
        assert len(gc.garbage) == before, f"{fn.__name__} leaves garbage behind"
        return result

    return checked


def run_test(fn: Callable[[], Any]) -> Callable[[], Any]:
    """Runs the function, printing its name first."""
    print(f"{fn.__name__}\n-----")
    fn()
    return fn
