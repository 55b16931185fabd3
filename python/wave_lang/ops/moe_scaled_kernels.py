"""The products of a layer with experts, of 8-bit floats: scales are those of each 128 elements of a
row, and of blocks of 128 x 128 weights. Each 128 products are added, and then multiplied by them.
"""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw

from .moe_layer_kernels import *

FLOAT8 = tkl.f8e4m3fn
GROUP = 128  # elements along K, or along K and N, that share a scale
GATED, EXPANDED = 64, 128  # columns of a workgroup in each product
AHEAD = 2  # iterations before which scales are loaded
N_BLOCKS, K_BLOCKS, BOTH_BLOCKS = sym.N_BLOCKS, sym.K_BLOCKS, sym.BOTH_BLOCKS

_i, _j, _k = (tkw.IndexMapping.iterator(n) for n in range(3))
_x = tkw.IndexMapping.dynamic_val(0)


def _constraints(block: int, columns: int) -> list[Any]:
    each = GROUP // columns  # tiles with columns of the same block of weights
    return [
        *layer_constraints(block, tkw.MMAType.F32_16x16x32_F8, K_BLOCKS, N_BLOCKS),
        tkw.WorkgroupConstraint(
            N_BLOCKS, 1, 0, apply_fn=lambda number: number // each, primary=False
        ),
        tkw.SymbolicAlias(K_BLOCKS, K, lambda size: tkl.ceiling(size / GROUP)),
    ]


class _Scale:
    """Scales of `dim`, one for each block along K; `place` has their coordinates in memory."""

    def __init__(self, memory: Any, dim: Any, place: dict, rows: tuple = ()):
        self.memory, self.dim, self.place, self.rows = memory, dim, place, rows

    def read(self, at: Any, dims: dict) -> Any:
        looked_up = {"dynamic_val_mappings": ({self.dim: _i},)} if self.rows else {}
        mapping = tkw.IndexMapping(
            len(dims), inputs=self.place | {K_BLOCKS: at}, outputs=dims, **looked_up
        )
        return tkw.read(self.memory, mapping=mapping, mapping_dynamic_vals=self.rows)

    def first(self, block: int) -> Any:
        return self.read(block, {self.dim: _i})

    def later(self) -> Any:
        return self.read(_j + AHEAD, {self.dim: _i, K_BLOCKS: _j})


def _sums(left: Any, rights: list[Any], down: _Scale, across: list[_Scale]) -> Any:
    """`left()` times each of `rights`, over all of K, with scales of rows and of blocks."""
    sides, none = [down, *across], tkl.Register[SLOT, N, tkl.f32](0.0)
    number, scales = len(rights), [side.first(n) for n in range(AHEAD) for side in sides]

    @tkw.iterate(K, init_args=[none] * number + scales)
    def loop(*carried):
        totals, scales = carried[:number], carried[number:]
        new, rows, sums = [side.later() for side in sides], left(), []
        for total, right, block in zip(totals, rights, scales[1:]):
            down, across = (tkw.broadcast(s, [SLOT, N_BLOCKS]) for s in (scales[0], block))
            sums.append(total + tkw.mma(rows, right(), none) * (down * across))
        return *sums, *scales[len(sides) :], *new

    return loop[:number]


def gated_blocks(
    dtype: Any, activation: Any, block: int, columns: int, each: int, experts: int, n: int, k: int
) -> Any:
    """`gated(a, a_scale, w, w_scale, slots, experts, c)`: as in moe_layer_kernels.py."""
    a_of = tkw.IndexMapping(
        2,
        inputs={T: _x // each, K: _j},
        outputs={SLOT: _i, K: _j},
        dynamic_val_mappings=({SLOT: _i},),
    )
    w_of = [
        tkw.IndexMapping(2, inputs={E: EXPERT, BOTH: _i + first, K: _j}, outputs={N: _i, K: _j})
        for first in (0, n)
    ]

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
        tkw.set_symbol(EXPERT, tkw.read(experts))

        @tkw.conditional(EXPERT >= 0)  # blocks after the last have none
        def product():
            row = tkw.read(slots)
            down = _Scale(a_scale, SLOT, {T: _x // each}, (row,))
            across = [
                _Scale(w_scale, N_BLOCKS, {E: EXPERT, BOTH_BLOCKS: _i + first // GROUP})
                for first in (0, n)
            ]
            left = lambda: tkw.read(a, mapping=a_of, mapping_dynamic_vals=(row,))
            rights = [lambda of=of: tkw.read(w, mapping=of) for of in w_of]
            gate, up = _sums(left, rights, down, across)
            tkw.write(tkw.cast(activation(gate)[0] * up, dtype), c)

    blocks = {N_BLOCKS: n // GROUP, BOTH_BLOCKS: 2 * n // GROUP, K_BLOCKS: k // GROUP}
    subs = {BLOCK: block, BLOCK_N: columns, BLOCK_K: GROUP, E: experts, N: n, BOTH: 2 * n, K: k}
    return gated, subs | blocks | {SLOT: BLOCKS * block}, [T, BLOCKS]


def expanded_blocks(dtype: Any, block: int, columns: int, experts: int, n: int, k: int) -> Any:
    """`expanded(a, a_scale, w, w_scale, experts, c)`: as in moe_layer_kernels.py."""
    w_of = tkw.IndexMapping(2, inputs={E: EXPERT, N: _i, K: _j}, outputs={N: _i, K: _j})

    @tkw.wave(_constraints(block, columns))
    def expanded(
        a: tkl.Memory[SLOT, K, SHARED, FLOAT8],
        a_scale: tkl.Memory[SLOT, K_BLOCKS, GLOBAL, tkl.f32],
        w: tkl.Memory[E, N, K, SHARED, FLOAT8],
        w_scale: tkl.Memory[E, N_BLOCKS, K_BLOCKS, GLOBAL, tkl.f32],
        experts: tkl.Memory[BLOCKS, GLOBAL, tkl.i32],
        c: tkl.Memory[SLOT, N, GLOBAL, dtype],
    ):
        tkw.set_symbol(EXPERT, tkw.read(experts))

        @tkw.conditional(EXPERT >= 0)
        def product():
            down = _Scale(a_scale, SLOT, {SLOT: _i})
            across = [_Scale(w_scale, N_BLOCKS, {E: EXPERT, N_BLOCKS: _i})]
            rights = [lambda: tkw.read(w, mapping=w_of)]
            (total,) = _sums(lambda: tkw.read(a), rights, down, across)
            tkw.write(tkw.cast(total, dtype), c)

    blocks = {N_BLOCKS: n // GROUP, K_BLOCKS: k // GROUP}
    subs = {BLOCK: block, BLOCK_N: columns, BLOCK_K: GROUP, E: experts, N: n, K: k}
    return expanded, subs | blocks | {SLOT: BLOCKS * block}, [BLOCKS]
