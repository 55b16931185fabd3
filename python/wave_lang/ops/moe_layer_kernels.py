"""Kernels of a layer with experts: two products over rows in the order of their experts, and the
sum of each token's rows."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw

from .moe_kernels import *

BOTH = sym.BOTH  # columns of the gate, then of what it multiplies

_i, _j, _k = (tkw.IndexMapping.iterator(n) for n in range(3))
_x = tkw.IndexMapping.dynamic_val(0)


def layer_constraints(block: int, instruction: Any = MMA, *single: Any) -> list[Any]:
    """A workgroup has a block of slots, which are of one expert, and a tile of columns. Tiles have
    one element along the dimensions `single`."""
    down, across = (2, 2) if block >= 64 else (1, 4)
    return [
        *tiles_of_rows(SLOT),
        tkw.WorkgroupConstraint(BLOCKS, 1, 1, primary=False),
        tkw.WaveConstraint(SLOT, BLOCK / down),
        tkw.WaveConstraint(N, BLOCK_N / across),
        tkw.HardwareConstraint(
            threads_per_wave=64,
            mma_type=instruction,
            vector_shapes={dim: 0 for dim in (BLOCKS, *single)},
        ),
    ]


def gated(
    dtype: Any, activation: Any, block: int, columns: int, each: int, experts: int, n: int, k: int
) -> Any:
    """`gated(a, w, slots, experts, c)`: row s of c is act(gate) * up, the halves of row
    slots[s] // `each` of a times the weights of the expert that slot s is of."""
    a_of = tkw.IndexMapping(
        2,
        inputs={T: _x // each, K: _j},
        outputs={SLOT: _i, K: _j},
        dynamic_val_mappings=({SLOT: _i},),
    )
    gate_of, up_of = (
        tkw.IndexMapping(2, inputs={E: EXPERT, BOTH: _i + first, K: _j}, outputs={N: _i, K: _j})
        for first in (0, n)
    )

    @tkw.wave(layer_constraints(block))
    def gated(
        a: tkl.Memory[T, K, SHARED, dtype],
        w: tkl.Memory[E, BOTH, K, SHARED, dtype],
        slots: tkl.Memory[SLOT, GLOBAL, tkl.i32],
        experts: tkl.Memory[BLOCKS, GLOBAL, tkl.i32],
        c: tkl.Memory[SLOT, N, GLOBAL, dtype],
    ):
        tkw.set_symbol(EXPERT, tkw.read(experts))

        @tkw.conditional(EXPERT >= 0)  # blocks after the last have none
        def product():
            row = tkw.read(slots)
            none = tkl.Register[SLOT, N, tkl.f32](0.0)

            @tkw.iterate(K, init_args=[none, none])
            def loop(gate, up):
                rows = tkw.read(a, mapping=a_of, mapping_dynamic_vals=(row,))
                gate = tkw.mma(rows, tkw.read(w, mapping=gate_of), gate)
                return gate, tkw.mma(rows, tkw.read(w, mapping=up_of), up)

            gate, up = loop
            tkw.write(tkw.cast(activation(gate)[0] * up, dtype), c)

    subs = {BLOCK: block, BLOCK_N: columns, BLOCK_K: 64, E: experts, N: n, BOTH: 2 * n, K: k}
    return gated, subs | {SLOT: BLOCKS * block}, [T, BLOCKS]


def expanded(dtype: Any, block: int, columns: int, experts: int, n: int, k: int) -> Any:
    """`expanded(a, w, experts, c)`: each row of a times the weights of its expert."""
    w_of = tkw.IndexMapping(2, inputs={E: EXPERT, N: _i, K: _j}, outputs={N: _i, K: _j})

    @tkw.wave(layer_constraints(block))
    def expanded(
        a: tkl.Memory[SLOT, K, SHARED, dtype],
        w: tkl.Memory[E, N, K, SHARED, dtype],
        experts: tkl.Memory[BLOCKS, GLOBAL, tkl.i32],
        c: tkl.Memory[SLOT, N, GLOBAL, dtype],
    ):
        tkw.set_symbol(EXPERT, tkw.read(experts))

        @tkw.conditional(EXPERT >= 0)
        def product():
            @tkw.iterate(K, init_args=[tkl.Register[SLOT, N, tkl.f32](0.0)])
            def loop(acc):
                return tkw.mma(tkw.read(a), tkw.read(w, mapping=w_of), acc)

            tkw.write(tkw.cast(loop, dtype), c)

    subs = {BLOCK: block, BLOCK_N: columns, BLOCK_K: 64, E: experts, N: n, K: k}
    return expanded, subs | {SLOT: BLOCKS * block}, [BLOCKS]


def combined(dtype: Any, top: int, n: int) -> Any:
    """`combined(x, weights, places, y)`: the sum of the `top` rows of each token, with weights. A
    place before the first row is that of no expert."""
    x_of = tkw.IndexMapping(
        2, inputs={SLOT: _x, N: _j}, outputs={T: _i, N: _j}, dynamic_val_mappings=({T: _i},)
    )
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={T: 0}),
        tkw.WorkgroupConstraint(T, 1, 0),
        tkw.WorkgroupConstraint(N, BLOCK_N, 1),
    ]

    @tkw.wave(constraints)
    def combined(
        x: tkl.Memory[SLOT, N, GLOBAL, dtype],
        weights: tkl.Memory[T, TOP, GLOBAL, tkl.f32],
        places: tkl.Memory[T, TOP, GLOBAL, tkl.i32],
        y: tkl.Memory[T, N, GLOBAL, dtype],
    ):
        total = none = tkl.Register[T, N, tkl.f32](0.0)
        for number in range(top):
            one = tkw.IndexMapping(1, inputs={T: _i, TOP: number}, outputs={T: _i})
            place, weight = tkw.read(places, mapping=one), tkw.read(weights, mapping=one)
            rows = tkw.read(x, mapping=x_of, mapping_dynamic_vals=(place,))
            part = tkw.cast(rows, tkl.f32) * tkw.broadcast(weight, [T, N])
            known = tkw.broadcast(place >= tkw.register([T], tkl.i32, 0), [T, N])
            total = total + tkw.select(known, part, none)
        tkw.write(tkw.cast(total, dtype), y)

    return combined, {TOP: top, N: n, BLOCK_N: 512}, [T, SLOT]
