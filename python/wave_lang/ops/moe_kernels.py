"""Kernels of layers with experts: which experts a token goes to, and matmuls whose rows belong to
different experts."""

from __future__ import annotations

import math
from typing import Any, Callable

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import *

from .programs import LOWEST, f32_of

T, K, N, E, TOP, ID, SLOT, BLOCKS, ROW = (
    getattr(sym, name) for name in "T K N E TOP ID SLOT BLOCKS ROW".split()
)
EXPERT, FIRST, START, COUNT, BLOCK, BLOCK_N, BLOCK_K = (
    getattr(sym, name) for name in "EXPERT FIRST START COUNT BLOCK BLOCK_N BLOCK_K".split()
)
GROUP, EACH, BEST, TOP_GROUPS = (
    getattr(sym, name) for name in "GROUP EACH BEST TOP_GROUPS".split()
)
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
MMA = tkw.MMAType.F32_16x16x16_F16
TOKENS = 4  # of a workgroup of `gate`

_i, _j, _k = (tkw.IndexMapping.iterator(n) for n in range(3))
_x = tkw.IndexMapping.dynamic_val(0)


def _allowed(ranked: Callable[..., Any]) -> Any:
    """Whether each expert is in one of the best groups: a group counts as much as its best expert
    or, with a bias, its best two. `ranked(mapping of logits, of the bias, dims)` ranks experts."""
    place, here = _j * EACH + _k, {T: _i, GROUP: _j, EACH: _k}
    x_of = tkw.IndexMapping(3, inputs={T: _i, E: place}, outputs=here)
    bias_of = tkw.IndexMapping(3, inputs={E: place}, outputs=here)
    within = ranked(x_of, bias_of, [T, GROUP, EACH])
    best, _ = tkw.topk(within, BEST, EACH)
    _, chosen = tkw.topk(tkw.sum(best, dim=BEST), TOP_GROUPS, GROUP)
    group = tkw.apply_expr(tkw.self_index(E, tkl.i32), lambda e: e // EACH)
    same = tkw.broadcast(chosen, [T, E, TOP_GROUPS]) == tkw.broadcast(group, [T, E, TOP_GROUPS])
    return tkw.max(tkw.cast(same, tkl.i32), dim=TOP_GROUPS) > tkw.register([T, E], tkl.i32, 0)


def gate(
    dtype: Any,
    experts: int,
    top: int,
    sigmoid: bool,
    bias: bool,
    renormalize: bool,
    groups: int = 1,
    top_groups: int = 1,
) -> Any:
    """`gate(logits, bias, scale, weights, ids)`: one wave for each token."""
    chosen_of = tkw.IndexMapping(
        2, inputs={T: _i, E: _x}, outputs={T: _i, TOP: _j}, dynamic_val_mappings=({T: _i, TOP: _j},)
    )
    dims = (E, TOP, GROUP, EACH, BEST, TOP_GROUPS)
    constraints = [
        tkw.HardwareConstraint(
            threads_per_wave=32, vector_shapes={T: 1, **{dim: dim for dim in dims}}
        ),
        tkw.WorkgroupConstraint(T, TOKENS, 0),
        tkw.WaveConstraint(T, 1),
    ]

    @tkw.wave(constraints)
    def gate(
        logits: tkl.Memory[T, E, GLOBAL, dtype],
        correction: tkl.Memory[E, GLOBAL, tkl.f32],
        scale: tkl.f32,
        weights: tkl.Memory[T, TOP, GLOBAL, tkl.f32],
        ids: tkl.Memory[T, TOP, GLOBAL, tkl.i32],
    ):
        x = f32_of(logits)
        if not sigmoid:
            most = tkw.max(x, dim=E)
        if not sigmoid and (bias or not renormalize):
            total = tkw.sum(tkw.exp(x - tkw.broadcast(most, [T, E])), dim=E)

        def parts(value: Any, dims: list[Any]) -> Any:  # scores, or scores times the total
            if sigmoid:
                return tkw.reciprocal(tkw.exp(-value) + 1.0)
            return tkw.exp(value - tkw.broadcast(most, dims))

        def scores(value: Any, dims: list[Any]) -> Any:
            part = parts(value, dims)
            return part if sigmoid else part / tkw.broadcast(total, dims)

        def ranked(x_of: Any, bias_of: Any, dims: list[Any]) -> Any:
            value = f32_of(logits, x_of)
            if not bias:  # logits are in the order of their scores
                return scores(value, dims) if sigmoid else value
            given = tkw.read(correction, mapping=bias_of)
            return scores(value, dims) + tkw.broadcast(given, dims)

        rank = ranked(None, None, [T, E])
        if groups > 1:
            allowed = _allowed(ranked)
            lowest = tkw.register([T, E], tkl.f32, LOWEST)  # also of -inf: others rank below
            others = tkw.register([T, E], tkl.f32, -math.inf)
            rank = tkw.select(allowed, tkw.maximum(rank, lowest), others)
        _, chosen = tkw.topk(rank, TOP, E)
        found = tkw.read(logits, mapping=chosen_of, mapping_dynamic_vals=(chosen,))
        weight = parts(tkw.cast(found, tkl.f32), [T, TOP])
        factor = tkw.broadcast(scale, [T])
        if renormalize:
            factor = factor / tkw.sum(weight, dim=TOP)
        elif not sigmoid:
            factor = factor / total
        tkw.write(weight * tkw.broadcast(factor, [T, TOP]), weights)
        tkw.write(chosen, ids)

    each = experts // groups
    subs = {E: experts, TOP: top, GROUP: groups, EACH: each, TOP_GROUPS: top_groups}
    return gate, {**subs, BEST: min(2 if bias else 1, each)}, [T]


def gathered(
    dtype: Any, out: Any, block: int, each: int, experts: int, n: int, k: int, trans: bool = True
) -> Any:
    """`gathered(a, w, slots, experts, c)`: row p of c is row p // `each` of a times the weights of
    the expert that slot p is in, [K, N], or [N, K] with `trans`."""
    a_of = tkw.IndexMapping(
        2,
        inputs={T: _x // each, K: _j},
        outputs={SLOT: _i, K: _j},
        dynamic_val_mappings=({SLOT: _i},),
    )
    w_of = tkw.IndexMapping(2, inputs={E: EXPERT, N: _i, K: _j}, outputs={N: _i, K: _j})
    c_of = tkw.IndexMapping(
        2, inputs={SLOT: _i, N: _j}, outputs={ID: _x, N: _j}, dynamic_val_mappings=({SLOT: _i},)
    )
    down, across = (2, 2) if block >= 64 else (1, 4)
    constraints = [
        tkw.WorkgroupConstraint(SLOT, BLOCK, 0),
        tkw.WorkgroupConstraint(BLOCKS, 1, 0, primary=False),
        tkw.WorkgroupConstraint(N, BLOCK_N, 1),
        tkw.TilingConstraint(K, BLOCK_K),
        tkw.WaveConstraint(SLOT, BLOCK / down),
        tkw.WaveConstraint(N, BLOCK_N / across),
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=MMA, vector_shapes={BLOCKS: 0}),
    ]

    @tkw.wave(constraints)
    def gathered(
        a: tkl.Memory[T, K, SHARED, dtype],
        w: tkl.Memory[(E, *((N, K) if trans else (K, N)), SHARED, dtype)],
        slots: tkl.Memory[SLOT, GLOBAL, tkl.i32],
        experts: tkl.Memory[BLOCKS, GLOBAL, tkl.i32],
        c: tkl.Memory[ID, N, GLOBAL, out],
    ):
        tkw.set_symbol(EXPERT, tkw.read(experts))

        @tkw.conditional(EXPERT >= 0)  # blocks after the last have none
        def product():
            row = tkw.read(slots)

            @tkw.iterate(K, init_args=[tkl.Register[SLOT, N, tkl.f32](0.0)])
            def loop(acc):
                rows = tkw.read(a, mapping=a_of, mapping_dynamic_vals=(row,))
                return tkw.mma(rows, tkw.read(w, mapping=w_of), acc)

            tkw.write(tkw.cast(loop, out), c, mapping=c_of, mapping_dynamic_vals=(row,))

    subs = {BLOCK: block, BLOCK_N: 128, BLOCK_K: 64, E: experts, N: n, K: k}
    return gathered, subs, [T, SLOT, BLOCKS, ID]


def summed(dtype: Any, top: int, n: int) -> Any:
    """`summed(x, ids, experts, y)`: the sum of the `top` rows of each token, without those whose id
    is that of no expert, which are undefined."""
    x_of = tkw.IndexMapping(
        3, inputs={ID: _i * TOP + _k, N: _j}, outputs={T: _i, N: _j, TOP: _k}
    )
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={T: 0, TOP: 0}),
        tkw.WorkgroupConstraint(T, 1, 0),
        tkw.WorkgroupConstraint(N, BLOCK_N, 1),
        tkw.TilingConstraint(TOP, 1),
    ]

    @tkw.wave(constraints)
    def summed(
        x: tkl.Memory[ID, N, GLOBAL, tkl.f32],
        ids: tkl.Memory[T, TOP, GLOBAL, tkl.i32],
        experts: tkl.i32,
        y: tkl.Memory[T, N, GLOBAL, dtype],
    ):
        @tkw.iterate(TOP, init_args=[tkl.Register[T, N, tkl.f32](0.0)])
        def loop(total):
            at, none = tkw.read(ids), tkw.register([T, TOP], tkl.i32, 0)
            known = (at >= none) & (at < tkw.broadcast(experts, [T, TOP]))
            part = tkw.read(x, mapping=x_of)
            return total + tkw.select(known, part, tkw.register([T, N, TOP], tkl.f32, 0.0))

        tkw.write(tkw.cast(loop, dtype), y)

    return summed, {TOP: top, N: n, BLOCK_N: 512}, [T, ID]


def tiles_of_rows(rows: Any, **more: Any) -> list[Any]:
    """Workgroups in the order in which they start: those of a tile of `rows`, then those of the
    next one. The ones that run at the same time share rows, which was faster than rectangles
    (bench/NOTES.md)."""
    return [
        tkw.WorkgroupConstraint(N, BLOCK_N, 0),
        tkw.WorkgroupConstraint(rows, BLOCK, 1, **more),
        tkw.TilingConstraint(K, BLOCK_K),
    ]


def _take_group(offs: Any, tile: Any) -> None:
    """Sets EXPERT, START and ROW: the group of a tile of rows, its first row, and how many rows
    the group has from there on. Groups have tiles of their own; after the last tile, EXPERT is
    the number of groups."""
    before_of = tkw.IndexMapping(1, inputs={E: _i - 1}, outputs={E: _i})
    end, begin = tkw.read(offs), tkw.read(offs, mapping=before_of)
    tiles = tkw.apply_expr([end, begin], lambda e, b: tkl.ceiling(tkl.Max(e - b, 0) / BLOCK))
    passed = tkw.cumsum(tiles, dim=E)
    number = tkw.register([E], tkl.i32, tile)
    group = tkw.sum(tkw.cast(passed <= number, tkl.i32), dim=E)
    mine = tkw.self_index(E, tkl.i32) == tkw.broadcast(group, [E])
    none = tkw.register([E], tkl.i32, 0)
    only = lambda value: tkw.sum(tkw.select(mine, value, none), dim=E)
    first = only(begin + (number - passed + tiles) * tkw.register([E], tkl.i32, BLOCK))
    tkw.set_symbol(EXPERT, group)
    tkw.set_symbol(FIRST, first)
    tkw.set_symbol(START, tkw.scalar(tkl.Max(FIRST, 0), tkl.i32))  # known to be in the tensor
    tkw.set_symbol(COUNT, only(end))
    tkw.set_symbol(ROW, tkw.scalar(tkl.Max(COUNT - START, 0), tkl.i32))


def grouped(
    dtype: Any, out: Any, groups: int, n: int, k: int, trans: bool, block: tuple[int, int]
) -> Any:
    """`grouped(a, w, offs, c)`: rows offs[e - 1] to offs[e] of a, times the weights of group e, in
    tiles of `block` rows and columns."""
    a_of = tkw.IndexMapping(2, inputs={T: _i + START, K: _j}, outputs={ROW: _i, K: _j})
    w_of = tkw.IndexMapping(2, inputs={E: EXPERT, N: _i, K: _j}, outputs={N: _i, K: _j})
    c_of = tkw.IndexMapping(2, inputs={ROW: _i, N: _j}, outputs={T: _i + START, N: _j})
    order = (N, K) if trans else (K, N)
    tiles = tkl.ceiling(T / BLOCK) + E
    constraints = [
        *tiles_of_rows(ROW, apply_fn=lambda number: 0, iters=tiles),
        tkw.WaveConstraint(ROW, BLOCK / 2),
        tkw.WaveConstraint(N, BLOCK_N / 2),
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=MMA),
    ]

    @tkw.wave(constraints)
    def grouped(
        a: tkl.Memory[T, K, SHARED, dtype],
        w: tkl.Memory[(E, *order, SHARED, dtype)],
        offs: tkl.Memory[E, GLOBAL, tkl.i32],
        c: tkl.Memory[T, N, GLOBAL, out],
    ):
        _take_group(offs, WORKGROUP_1)

        @tkw.conditional(EXPERT < E)
        def product():
            @tkw.iterate(K, init_args=[tkl.Register[ROW, N, tkl.f32](0.0)])
            def loop(acc):
                return tkw.mma(tkw.read(a, mapping=a_of), tkw.read(w, mapping=w_of), acc)

            tkw.write(tkw.cast(loop, out), c, mapping=c_of)

    subs = {E: groups, N: n, K: k, BLOCK: block[0], BLOCK_N: block[1], BLOCK_K: 64}
    return grouped, subs, [T]
