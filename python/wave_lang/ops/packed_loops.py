"""Matmuls of weights of 4 bits, two in a byte, each group of which along K has a scale.

Weights are the rows of matrix instructions, which take them from registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym

from .programs import f32_value
from .scaled_loops import Scales, scaled_sums
from .tensors import present

N, GROUPS = sym.N, sym.GROUPS
_STEPS = (128, 64, 32)  # elements along K of an iteration
# The number that a float of 16 bits is if its last four bits are 0, with these others: the four are
# then the integer that is added.
_SIXTEEN_BITS = {tkl.bf16: (0x4300, 128.0), tkl.f16: (0x6400, 1024.0)}


def _integers(pairs: Any, dtype: Any) -> Any:
    """Integers from 0 to 15, less 8: both are moved to where 16-bit floats have their last bits."""
    high, first = _SIXTEEN_BITS[dtype]
    bits = (tkw.cast(pairs, tkl.i32) * 0x1001 & 0xF000F) | (high * 0x10001)
    value = tkw.bitcast(bits, dtype)
    return value - tkw.register(value.shape, dtype, first + 8)


def _floats(pairs: Any, dtype: Any) -> Any:
    return tkw.cast(tkw.bitcast(pairs, tkl.f4e2m1fn), dtype)


_UNPACKED = {"w4": _integers, "mxfp4": _floats}


def unpacked(kind: str, pairs: Any, dtype: Any, zero: Any = None) -> Any:
    """The weights of bytes that have two each; integers less 8 or, if it is given, their zero."""
    value = _UNPACKED[kind](pairs, dtype)
    if zero is None:
        return value
    less = zero - tkw.register(zero.shape, dtype, 8.0)
    return value - tkw.broadcast(less, value.shape)


def step_of(group: int) -> int:
    """How much of K an iteration has, for groups of a multiple of 32 elements."""
    return next(step for step in _STEPS if group % step == 0)


def _factor(scale: Any) -> Any:
    """A scale in f32; bytes are exponents."""
    if scale.dtype == tkl.i8:
        scale = tkw.bitcast(scale, tkl.f8e8m0fnu)
    return f32_value(scale)


@dataclass(frozen=True)
class Packed:
    """Rows of weights: `pairs()` reads their bytes. Scales and, unless they are None, zeros have
    the coordinates `place` besides that of the group."""

    pairs: Callable[[], Any]
    place: dict[Any, Any]
    scales: Any
    zeros: Any = None


def packed_sums(
    kind: str,
    dtype: Any,
    group: int,
    weights: list[Packed],
    columns: Callable[[], Any],
    dim: Any,
    begin: Any = 0,
) -> list[Any]:
    """[N, dim] for each of `weights`: their product with `columns()`, [dim, K] of the type `dtype`,
    over all of K, from iteration `begin` on. Each group's products are added, and then multiplied
    by its scale."""
    step, numbers = step_of(group), present(weights[0].scales, weights[0].zeros)
    along = lambda block: {GROUPS: block * step // group}
    none = tkl.Register[N, dim, tkl.f32](0.0)

    def products(values: Any) -> Any:
        for number, rows in enumerate(weights):
            scale, *zero = values()[number * len(numbers) :][: len(numbers)]
            left = unpacked(kind, rows.pairs(), dtype, *zero)
            factor = _factor(scale)
            right = columns() if number == 0 else right
            yield tkw.mma(left, right, none), tkw.broadcast(factor, [N, dim])

    scales = [
        Scales(memory, N, rows.place, along)
        for rows in weights
        for memory in present(rows.scales, rows.zeros)
    ]
    return scaled_sums([none] * len(weights), scales, products, begin)
