"""Compiled kernels of ops, one for each kind of argument."""

from __future__ import annotations

import functools
import math
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Callable, Iterator

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.wave.compile import WaveCompileOptions, wave_compile
from wave_lang.kernel.wave.machine import target_named

from .tensors import has_shapes_only

M, N = sym.M, sym.N  # rows, and their elements
LOG2_E = math.log2(math.e)
# A maximum before the first element, and not more than any: -inf must not be subtracted from -inf.
LOWEST = -3.4028234663852886e38
MULTIPROCESSORS = 132  # of an H100 or H200

_target: ContextVar[str] = ContextVar("target", default="")


@contextmanager
def on_target(target: str) -> Iterator[None]:
    """Within it, ops are compiled for this target, such as "sim:sm_90a", instead of the device that
    their tensors are on."""
    if not isinstance(target, str):
        raise TypeError(f"`target` is {target!r}, expected a string such as 'sim:sm_90a'")
    before = _target.set(target)
    try:
        yield
    finally:
        _target.reset(before)


def machine_here() -> str:
    """The machine that ops are compiled for, such as "sm_90a"."""
    return target_named(_target.get())


def is_cpu() -> bool:
    return machine_here().startswith("cpu")


def has_large_tiles() -> bool:
    """Whether a workgroup has more than 64 KiB of shared memory, as those of NVIDIA do."""
    return machine_here().startswith("sm_")


def has_warpgroups() -> bool:
    """Whether a workgroup has 227 KiB, and products of four waves, as on Hopper."""
    return machine_here().startswith("sm_90")


@functools.lru_cache(maxsize=512)
def _compiled(target: str, make: Callable[..., Any], *key: Any) -> Any:
    kernel, subs, dynamic, *more = make(*key)
    options = {"subs": subs, "dynamic_symbols": dynamic, "target": target}
    return wave_compile(WaveCompileOptions(**options, **(more[0] if more else {})), kernel)


def program(make: Callable[..., Any], *key: Any) -> Any:
    """The compiled kernel that `make(*key)` gives, with the values of its symbols, its dynamic
    symbols and, where there are any, further options. It is made once."""
    if has_shapes_only():
        return lambda *args: None
    return _compiled(_target.get(), make, *key)


def length_class(columns: int) -> int | None:
    """The length that a kernel of rows is compiled for: rows of whole vectors have their own
    program, all others share one for each power of two."""
    return columns if columns % 16 == 0 else None


def size_class(size: int, least: int = 1) -> int:
    """The size that tiles are chosen for, not less than the given one: a multiple of `least`, and four
    of them between a power of two and the next."""
    step = max(1 << max(size.bit_length() - 3, 0), least)
    return -(-size // step) * step


LONGEST = 16384  # row that the registers of a workgroup hold
LONGEST_SHARED = 262144  # and of a cluster of workgroups


def is_held(columns: int) -> bool:
    """Whether a row is held in registers, and read once."""
    shared = has_warpgroups() and length_class(columns) and columns <= LONGEST_SHARED
    return columns <= LONGEST or bool(shared)


def waves_of(columns: int | None) -> tuple[int, Any]:
    """The waves that divide a row, and the elements of each. A row that is longer than a workgroup
    holds gets more waves than that has, so that a cluster of workgroups shares it."""
    if not columns:
        return 1, N
    if columns > LONGEST and is_held(columns):
        each = 512 if columns <= 32768 else 1024 if columns <= 131072 else 2048
        return -(-columns // (8 * each)) * 8, each
    most = min(max(columns // 512, 1), 16)
    waves = next(count for count in range(most, 0, -1) if columns % count == 0)
    return waves, columns // waves


def row_constraints(columns: int | None) -> list[Any]:
    """One workgroup, or cluster of them, for each row."""
    waves, each = waves_of(columns)
    return [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: each}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(N, waves * each, 1),
        *([tkw.WaveConstraint(N, each)] if waves > 1 else []),
    ]


TILE = 4096  # elements of a row that a workgroup reads at a time, if the row is long
TILE_WAVES = 8


def loop_constraints(*more: Any, tile: int = TILE) -> list[Any]:
    """One workgroup for each row, whose tiles are visited in order."""
    part = tile // TILE_WAVES
    return [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: part}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.TilingConstraint(N, tile),
        tkw.WaveConstraint(N, part),
        *more,
    ]


def row_symbols(columns: int | None) -> tuple[dict[Any, Any], list[Any]]:
    """The values of symbols and the dynamic symbols of a kernel of rows."""
    return ({N: columns}, [M]) if columns else ({}, [M, N])


def per_row(value: Any) -> Any:
    """A value of each row, for all of its elements."""
    return tkw.broadcast(value, [M, N])


def f32_value(value: Any) -> Any:
    return value if value.dtype == tkl.f32 else tkw.cast(value, tkl.f32)


def f32_of(memory: Any, mapping: Any = None) -> Any:
    """What is read, in f32."""
    return f32_value(tkw.read(memory, mapping=mapping))
