"""The products of a layer with experts, of 8-bit floats: scales are those of each 128 elements of a
row, and of blocks of 128 x 128 weights. Each 128 products are added, and then multiplied by them.
"""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw

from .activation_values import is_narrow
from .moe_layer_kernels import *
from .scaled_loops import K_BLOCKS, Scales, scaled_sums

FLOAT8 = tkl.f8e4m3fn
GROUP = 128  # elements along K, or along K and N, that share a scale
GATED, EXPANDED = 64, 128  # columns of a workgroup in each product
N_BLOCKS, BOTH_BLOCKS = sym.N_BLOCKS, sym.BOTH_BLOCKS

_i = tkw.IndexMapping.iterator(0)
_x = tkw.IndexMapping.dynamic_val(0)


def _constraints(block: int, columns: int) -> list[Any]:
    each = GROUP // columns  # tiles with columns of the same block of weights
    return [
        *layer_constraints(
            waves_of_block(block), K_BLOCKS, N_BLOCKS, instruction=tkw.MMAType.F32_16x16x32_F8
        ),
        tkw.WorkgroupConstraint(
            N_BLOCKS, 1, 0, apply_fn=lambda number: number // each, primary=False
        ),
        tkw.SymbolicAlias(K_BLOCKS, K, lambda size: tkl.ceiling(size / GROUP)),
    ]


def _sums(left: Any, rights: list[Any], down: Scales, across: list[Scales]) -> Any:
    """`left()` times each of `rights`, over all of K, with scales of rows and of blocks."""
    none = tkl.Register[SLOT, N, tkl.f32](0.0)

    def products(scales: Any) -> Any:
        rows, (of_rows, *of_blocks) = left(), scales()
        for right, block in zip(rights, of_blocks):
            down, across = (tkw.broadcast(s, [SLOT, N_BLOCKS]) for s in (of_rows, block))
            yield tkw.mma(rows, right(), none), down * across

    return scaled_sums([none] * len(rights), [down, *across], products)


def gated_blocks(
    dtype: Any, activation: Any, block: int, columns: int, each: int, experts: int, n: int, k: int
) -> Any:
    """`gated(a, a_scale, w, w_scale, slots, experts, c)`: as in moe_layer_kernels.py."""
    a_of, w_of = tokens_of(each), halves_of(n)

    @tkw.wave(_constraints(block, columns))
    def gated(
        a: tkl.Memory[T, K, SHARED, FLOAT8],
        a_scale: tkl.Memory[T, K_BLOCKS, GLOBAL, tkl.f32],
        w: tkl.Memory[E, BOTH, K, SHARED, FLOAT8],
        w_scale: tkl.Memory[E, BOTH_BLOCKS, K_BLOCKS, GLOBAL, tkl.f32],
        slots: tkl.Memory[SLOT, GLOBAL, tkl.i32],
        experts: tkl.Memory[BLOCKS, GLOBAL, tkl.i32],
        c: tkl.Memory[SLOT, N, GLOBAL, dtype],
    ):
        def write() -> None:
            row = tkw.read(slots)
            down = Scales(a_scale, SLOT, {T: _x // each}, rows=(row,))
            across = [
                Scales(w_scale, N_BLOCKS, {E: EXPERT, BOTH_BLOCKS: _i + first // GROUP})
                for first in (0, n)
            ]
            left = lambda: tkw.read(a, mapping=a_of, mapping_dynamic_vals=(row,))
            rights = [lambda of=of: tkw.read(w, mapping=of) for of in w_of]
            gate, up = _sums(left, rights, down, across)
            tkw.write(tkw.cast(activation(gate, is_narrow(dtype))[0] * up, dtype), c)

        of_expert(experts, write)

    blocks = {N_BLOCKS: n // GROUP, BOTH_BLOCKS: 2 * n // GROUP, K_BLOCKS: k // GROUP}
    subs = {BLOCK: block, BLOCK_N: columns, BLOCK_K: GROUP, E: experts, N: n, BOTH: 2 * n, K: k}
    return gated, subs | blocks | {SLOT: BLOCKS * block}, [T, BLOCKS]


def expanded_blocks(dtype: Any, block: int, columns: int, experts: int, n: int, k: int) -> Any:
    """`expanded(a, a_scale, w, w_scale, experts, c)`: as in moe_layer_kernels.py."""
    @tkw.wave(_constraints(block, columns))
    def expanded(
        a: tkl.Memory[SLOT, K, SHARED, FLOAT8],
        a_scale: tkl.Memory[SLOT, K_BLOCKS, GLOBAL, tkl.f32],
        w: tkl.Memory[E, N, K, SHARED, FLOAT8],
        w_scale: tkl.Memory[E, N_BLOCKS, K_BLOCKS, GLOBAL, tkl.f32],
        experts: tkl.Memory[BLOCKS, GLOBAL, tkl.i32],
        c: tkl.Memory[SLOT, N, GLOBAL, dtype],
    ):
        def write() -> None:
            down = Scales(a_scale, SLOT, {SLOT: _i})
            across = [Scales(w_scale, N_BLOCKS, {E: EXPERT, N_BLOCKS: _i})]
            rights = [lambda: tkw.read(w, mapping=weights_of())]
            (total,) = _sums(lambda: tkw.read(a), rights, down, across)
            tkw.write(tkw.cast(total, dtype), c)

        of_expert(experts, write)

    blocks = {N_BLOCKS: n // GROUP, K_BLOCKS: k // GROUP}
    subs = {BLOCK: block, BLOCK_N: columns, BLOCK_K: GROUP, E: experts, N: n, K: k}
    return expanded, subs | blocks | {SLOT: BLOCKS * block}, [BLOCKS]
