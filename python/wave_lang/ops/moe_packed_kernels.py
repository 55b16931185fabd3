"""The products of a layer with experts whose weights have 4 bits, two in a byte, and scales of
groups along K: integers, with or without zeros, or floats. The other operands are not quantised.
"""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw

from .activation_values import is_narrow
from .moe_layer_kernels import *
from .packed_loops import GROUPS, Packed, packed_sums, step_of
from .scaled_loops import K_BLOCKS

GATED, EXPANDED = 64, 128  # columns of a workgroup in each product

_i = tkw.IndexMapping.iterator(0)


def _constraints(columns: int, step: int) -> list[Any]:
    """Waves are along N, the rows of matrix instructions."""
    return [
        *layer_constraints((1, columns // 32), K_BLOCKS),
        tkw.SymbolicAlias(K_BLOCKS, K, lambda size: tkl.ceiling(size / step)),
    ]


def _sizes(block: int, columns: int, group: int, experts: int, n: int, k: int) -> dict[Any, Any]:
    step = step_of(group)
    sizes = {BLOCK: block, BLOCK_N: columns, BLOCK_K: step, E: experts, N: n, K: k}
    return sizes | {GROUPS: -(-k // group), K_BLOCKS: -(-k // step), SLOT: BLOCKS * block}


def gated_groups(
    kind: str,
    dtype: Any,
    number: Any,
    zeros: bool,
    group: int,
    activation: Any,
    block: int,
    columns: int,
    each: int,
    experts: int,
    n: int,
    k: int,
) -> Any:
    """`gated(a, w, w_scale, w_zero, slots, experts, c)`: as in moe_layer_kernels.py. Scales have
    the type `number`; w_zero is read if there are `zeros`."""
    a_of, w_of = tokens_of(each), halves_of(n, K / 2)

    @tkw.wave(_constraints(columns, step_of(group)))
    def gated(
        a: tkl.Memory[T, K, SHARED, dtype],
        w: tkl.Memory[E, BOTH, K / 2, SHARED, tkl.u8],
        w_scale: tkl.Memory[E, BOTH, GROUPS, GLOBAL, number],
        w_zero: tkl.Memory[E, BOTH, GROUPS, GLOBAL, dtype if zeros else number],
        slots: tkl.Memory[SLOT, GLOBAL, tkl.i32],
        experts: tkl.Memory[BLOCKS, GLOBAL, tkl.i32],
        c: tkl.Memory[SLOT, N, GLOBAL, dtype],
    ):
        def write() -> None:
            row = tkw.read(slots)
            halves = [
                Packed(
                    lambda of=of: tkw.read(w, mapping=of),
                    {E: EXPERT, BOTH: _i + first},
                    w_scale,
                    w_zero if zeros else None,
                )
                for of, first in zip(w_of, (0, n))
            ]
            rows = lambda: tkw.read(a, mapping=a_of, mapping_dynamic_vals=(row,))
            gate, up = packed_sums(kind, dtype, group, halves, rows, SLOT)
            tkw.write(tkw.cast(activation(gate, is_narrow(dtype))[0] * up, dtype), c)

        of_expert(experts, write)

    return gated, _sizes(block, columns, group, experts, n, k) | {BOTH: 2 * n}, [T, BLOCKS]


def expanded_groups(
    kind: str,
    dtype: Any,
    number: Any,
    zeros: bool,
    group: int,
    block: int,
    columns: int,
    experts: int,
    n: int,
    k: int,
) -> Any:
    """`expanded(a, w, w_scale, w_zero, experts, c)`: as in moe_layer_kernels.py."""

    @tkw.wave(_constraints(columns, step_of(group)))
    def expanded(
        a: tkl.Memory[SLOT, K, SHARED, dtype],
        w: tkl.Memory[E, N, K / 2, SHARED, tkl.u8],
        w_scale: tkl.Memory[E, N, GROUPS, GLOBAL, number],
        w_zero: tkl.Memory[E, N, GROUPS, GLOBAL, dtype if zeros else number],
        experts: tkl.Memory[BLOCKS, GLOBAL, tkl.i32],
        c: tkl.Memory[SLOT, N, GLOBAL, dtype],
    ):
        def write() -> None:
            pairs = lambda: tkw.read(w, mapping=weights_of(K / 2))
            rows = Packed(pairs, {E: EXPERT, N: _i}, w_scale, w_zero if zeros else None)
            (total,) = packed_sums(kind, dtype, group, [rows], lambda: tkw.read(a), SLOT)
            tkw.write(tkw.cast(total, dtype), c)

        of_expert(experts, write)

    return expanded, _sizes(block, columns, group, experts, n, k), [BLOCKS]
