"""Kernels of the gradients of layers with experts: of activations with weights, row by row, and of
the weights of experts, which are sums over the rows of each."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym

from .activation_values import is_narrow
from .moe_kernels import *

BOTH, BLOCK_SLOT, END = sym.BOTH, sym.BLOCK_SLOT, sym.END
TILE, WAVES = 512, 4  # elements of a row that a workgroup has at a time

_i, _j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
_x = tkw.IndexMapping.dynamic_val(0)


def slopes(activation: Any, dtype: Any) -> Any:
    """`slopes(change, hidden, weights, ids, experts, dhidden, active, dweights)`: for row p of
    hidden, and the gradient of w2 · (act(gate) * up) times w2, which is `change`: the gradient of
    hidden, the activated row times its weight, and the gradient of that weight. Rows without an
    expert are undefined, and the gradients of their weights 0."""
    here, gate, up = {ID: _i, N: _j}, {ID: _i, BOTH: _j}, {ID: _i, BOTH: _j + N}
    gate_of, up_of = (tkw.IndexMapping(2, inputs=half, outputs=here) for half in (gate, up))
    to_gate, to_up = (tkw.IndexMapping(2, inputs=here, outputs=half) for half in (gate, up))
    each = tkl.Memory[ID, GLOBAL, tkl.f32]
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={ID: 1, N: TILE // WAVES}),
        tkw.WorkgroupConstraint(ID, 1, 0),
        tkw.TilingConstraint(N, TILE),
        tkw.WaveConstraint(N, TILE // WAVES),
        tkw.Assumption(tkl.Eq(BOTH, 2 * N)),
    ]

    @tkw.wave(constraints)
    def slopes(
        change: tkl.Memory[ID, N, GLOBAL, tkl.f32],
        hidden: tkl.Memory[ID, BOTH, GLOBAL, tkl.f32],
        weights: each,
        ids: tkl.Memory[ID, GLOBAL, tkl.i32],
        experts: tkl.i32,
        dhidden: tkl.Memory[ID, BOTH, GLOBAL, dtype],
        active: tkl.Memory[ID, N, GLOBAL, dtype],
        dweights: each,
    ):
        dims, none = [ID, N], tkw.register([ID], tkl.f32, 0.0)
        at = tkw.read(ids)
        known = (at >= tkw.register([ID], tkl.i32, 0)) & (at < tkw.broadcast(experts, [ID]))
        weight = tkw.broadcast(tkw.read(weights), dims)

        @tkw.iterate(N, init_args=[none])
        def loop(total):
            value, slope = activation(tkw.read(hidden, mapping=gate_of), is_narrow(dtype))
            second, by = tkw.read(hidden, mapping=up_of), tkw.read(change)
            tkw.write(tkw.cast(by * weight * second * slope(), dtype), dhidden, mapping=to_gate)
            tkw.write(tkw.cast(by * weight * value, dtype), dhidden, mapping=to_up)
            tkw.write(tkw.cast(value * second * weight, dtype), active)
            return tkw.sum(value * second * by, total, dim=N, block=True)

        tkw.write(tkw.select(known, loop, none), dweights)

    return slopes, {}, [ID, N, BOTH]


def outer(dtype: Any, each_a: int, each_b: int) -> Any:
    """`outer(a, b, slots, counts, starts, c)`: c[e] is the sum over the slots of expert e of row
    p // `each_a` of a, as a column, times row p // `each_b` of b. One workgroup adds them in order.
    """
    a_of, b_of = (
        tkw.IndexMapping(
            2,
            inputs={rows: _x // each, columns: _j},
            outputs={SLOT: _i, columns: _j},
            dynamic_val_mappings=({SLOT: _i},),
        )
        for rows, each, columns in ((T, each_a, N), (ID, each_b, K))
    )
    constraints = [
        tkw.WorkgroupConstraint(N, BLOCK_N, 0),
        tkw.WorkgroupConstraint(K, BLOCK_K, 1),
        tkw.WorkgroupConstraint(E, 1, 2),
        tkw.TilingConstraint(
            SLOT, BLOCK_SLOT, iters=tkl.ceiling((SLOT - START) / BLOCK_SLOT), start=START
        ),
        tkw.WaveConstraint(N, BLOCK_N / 2),
        tkw.WaveConstraint(K, BLOCK_K / 2),
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=MMA, vector_shapes={E: 0}),
    ]

    @tkw.wave(constraints)
    def outer(
        a: tkl.Memory[T, N, SHARED, dtype],
        b: tkl.Memory[ID, K, SHARED, dtype],
        slots: tkl.Memory[SLOT, GLOBAL, tkl.i32],
        counts: tkl.Memory[E, GLOBAL, tkl.i32],
        starts: tkl.Memory[E, GLOBAL, tkl.i32],
        c: tkl.Memory[E, N, K, GLOBAL, dtype],
    ):
        tkw.set_symbol(START, tkw.read(starts))
        tkw.set_symbol(COUNT, tkw.read(counts))
        tkw.set_symbol(SLOT, tkw.scalar(START + COUNT, tkl.i32))

        @tkw.iterate(SLOT, init_args=[tkw.register([E, N, K], tkl.f32, 0.0)])
        def loop(acc):
            row = tkw.read(slots)
            left, right = (
                tkw.read(memory, mapping=mapping, mapping_dynamic_vals=(row,))
                for memory, mapping in ((a, a_of), (b, b_of))
            )
            return tkw.mma(left, right, acc)

        tkw.write(tkw.cast(loop, dtype), c)

    return outer, {BLOCK_N: 64, BLOCK_K: 64, BLOCK_SLOT: 32}, [T, N, ID, K, SLOT, E]
