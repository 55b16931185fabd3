"""Kernels of a layer with experts: two products over rows in the order of their experts, and the
sum of each token's rows."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw

from .activation_values import is_narrow
from .moe_kernels import *

BOTH = sym.BOTH  # columns of the gate, then of what it multiplies
MANY = 256  # rows of a block that are put in order before they are multiplied

_COPYING = {"override_schedule": "roles K load 4, math 8 on sm_90a\n"}  # by waves of their own
_i, _j = (tkw.IndexMapping.iterator(n) for n in range(2))
_x = tkw.IndexMapping.dynamic_val(0)


def layer_constraints(waves: tuple[int, int], *single: Any, instruction: Any = MMA) -> list[Any]:
    """A workgroup has a block of slots, which are of one expert, and a tile of columns, both
    divided by `waves`. Tiles have one element along the dimensions `single`."""
    down, across = waves
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


def waves_of_block(block: int) -> tuple[int, int]:
    return (2, 2) if block >= 64 else (1, 4)


def tokens_of(each: int) -> Any:
    """The rows of tokens that slots, which are looked up, are for: a token has `each` of them."""
    return tkw.IndexMapping(
        2,
        inputs={T: _x // each, K: _j},
        outputs={SLOT: _i, K: _j},
        dynamic_val_mappings=({SLOT: _i},),
    )


def halves_of(n: int, along: Any = K) -> list[Any]:
    """The expert's weights of the gate, and of what it multiplies."""
    return [
        tkw.IndexMapping(
            2, inputs={E: EXPERT, BOTH: _i + first, along: _j}, outputs={N: _i, along: _j}
        )
        for first in (0, n)
    ]


def weights_of(along: Any = K) -> Any:
    """The expert's weights."""
    return tkw.IndexMapping(2, inputs={E: EXPERT, N: _i, along: _j}, outputs={N: _i, along: _j})


def of_expert(experts: Any, write: Callable[[], None]) -> None:
    """Calls `write` for the block's expert, EXPERT. Blocks after the last have none."""
    tkw.set_symbol(EXPERT, tkw.read(experts))

    @tkw.conditional(EXPERT >= 0)
    def product():
        write()


def in_order(dtype: Any, each: int, k: int) -> Any:
    """`in_order(a, slots, rows)`: row s of rows is row slots[s] // `each` of a."""
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={SLOT: 1, K: BLOCK_K}),
        tkw.WorkgroupConstraint(K, BLOCK_K, 0),
        tkw.WorkgroupConstraint(SLOT, 4, 1),
        tkw.WaveConstraint(SLOT, 1),
    ]

    @tkw.wave(constraints)
    def in_order(
        a: tkl.Memory[T, K, GLOBAL, dtype],
        slots: tkl.Memory[SLOT, GLOBAL, tkl.i32],
        rows: tkl.Memory[SLOT, K, GLOBAL, dtype],
    ):
        found = tkw.read(a, mapping=tokens_of(each), mapping_dynamic_vals=(tkw.read(slots),))
        tkw.write(found, rows)

    return in_order, {K: k, BLOCK_K: 2048}, [T, SLOT]


def _gate_and_up(rows: Callable[[], Any], w: Any, n: int) -> Any:
    """The products of rows, which it is given to read, with both halves of the expert's weights."""

    @tkw.iterate(K, init_args=[tkl.Register[SLOT, N, tkl.f32](0.0)] * 2)
    def loop(*totals):
        a = rows()
        return [tkw.mma(a, tkw.read(w, mapping=of), x) for of, x in zip(halves_of(n), totals)]

    return loop


def gated(
    dtype: Any, activation: Any, block: int, columns: int, each: int, experts: int, n: int, k: int
) -> Any:
    """`gated(a, w, slots, experts, c)`: row s of c is act(gate) * up, the halves of row
    slots[s] // `each` of a times the weights of the expert that slot s is of."""
    a_of = tokens_of(each)

    @tkw.wave(layer_constraints(waves_of_block(block)))
    def gated(
        a: tkl.Memory[T, K, SHARED, dtype],
        w: tkl.Memory[E, BOTH, K, SHARED, dtype],
        slots: tkl.Memory[SLOT, GLOBAL, tkl.i32],
        experts: tkl.Memory[BLOCKS, GLOBAL, tkl.i32],
        c: tkl.Memory[SLOT, N, GLOBAL, dtype],
    ):
        def write() -> None:
            row = tkw.read(slots)
            rows = lambda: tkw.read(a, mapping=a_of, mapping_dynamic_vals=(row,))
            gate, up = _gate_and_up(rows, w, n)
            tkw.write(tkw.cast(activation(gate, is_narrow(dtype))[0] * up, dtype), c)

        of_expert(experts, write)

    subs = {BLOCK: block, BLOCK_N: columns, BLOCK_K: 64, E: experts, N: n, BOTH: 2 * n, K: k}
    return gated, subs | {SLOT: BLOCKS * block}, [T, BLOCKS]


def gated_in_order(
    dtype: Any, activation: Any, block: int, columns: int, experts: int, n: int, k: int
) -> Any:
    """`gated_in_order(a, w, experts, c)`: as `gated`, for rows that are in the order of slots, which
    Hopper's waves that only copy can bring."""

    @tkw.wave(layer_constraints(waves_of_block(block)))
    def gated_in_order(
        a: tkl.Memory[SLOT, K, SHARED, dtype],
        w: tkl.Memory[E, BOTH, K, SHARED, dtype],
        experts: tkl.Memory[BLOCKS, GLOBAL, tkl.i32],
        c: tkl.Memory[SLOT, N, GLOBAL, dtype],
    ):
        def write() -> None:
            gate, up = _gate_and_up(lambda: tkw.read(a), w, n)
            tkw.write(tkw.cast(activation(gate, is_narrow(dtype))[0] * up, dtype), c)

        of_expert(experts, write)

    subs = {BLOCK: block, BLOCK_N: columns, BLOCK_K: 64, E: experts, N: n, BOTH: 2 * n, K: k}
    return gated_in_order, subs | {SLOT: BLOCKS * block}, [BLOCKS], _COPYING


def expanded(dtype: Any, block: int, columns: int, experts: int, n: int, k: int) -> Any:
    """`expanded(a, w, experts, c)`: each row of a times the weights of its expert."""

    @tkw.wave(layer_constraints(waves_of_block(block)))
    def expanded(
        a: tkl.Memory[SLOT, K, SHARED, dtype],
        w: tkl.Memory[E, N, K, SHARED, dtype],
        experts: tkl.Memory[BLOCKS, GLOBAL, tkl.i32],
        c: tkl.Memory[SLOT, N, GLOBAL, dtype],
    ):
        def write() -> None:
            @tkw.iterate(K, init_args=[tkl.Register[SLOT, N, tkl.f32](0.0)])
            def loop(total):
                return tkw.mma(tkw.read(a), tkw.read(w, mapping=weights_of()), total)

            tkw.write(tkw.cast(loop, dtype), c)

        of_expert(experts, write)

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
