"""Attention in two phases, for few queries and many keys: phase 0 divides the keys into splits, and
phase 1 combines their results."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_loop import Attention, combine_splits
from .attention_tiles import *

B, M, N, K1, K2, U = (getattr(tkl.sym, name) for name in "B M N K1 K2 U".split())
BLOCK_M, BLOCK_N, BLOCK_K2 = tkl.sym.BLOCK_M, tkl.sym.BLOCK_N, tkl.sym.BLOCK_K2
FIRST = tkl.sym.FIRST  # the first key of a split
KEYS_PER_SPLIT = 256
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE


def take_split(keys: Any, split: Any, splits: Any) -> None:
    """Sets FIRST and the extent `keys` to where this split begins and ends."""
    tkw.set_symbol(FIRST, tkw.scalar(keys * split // splits, tkl.i32))
    tkw.set_symbol(keys, tkw.scalar(keys * (split + 1) // splits, tkl.i32))


def split_loop(keys: Any, tile: Any) -> Any:
    """The constraint of a loop over the keys from FIRST on."""
    return tkw.TilingConstraint(keys, tile, iters=tkl.ceiling((keys - FIRST) / tile), start=FIRST)


def _phase_0(mfma_variant: Any) -> Any:
    attention = Attention([B], M, K2, N, tkl.f16, mfma_variant)
    constraints = [
        tkw.WorkgroupConstraint(M, BLOCK_M, 0),
        tkw.WorkgroupConstraint(U, 1, 1),
        tkw.WorkgroupConstraint(N, BLOCK_N, 2),
        tkw.WorkgroupConstraint(B, 1, 3),
        split_loop(K2, BLOCK_K2),
        tkw.WaveConstraint(M, BLOCK_M / 2),
        tkw.HardwareConstraint(
            threads_per_wave=64, mma_type=mfma_variant, vector_shapes={B: 0, U: 0}
        ),
    ]
    i, j, k_ = (tkw.IndexMapping.iterator(n) for n in range(3))
    result_of = tkw.IndexMapping(
        3, inputs={B: i, N: j, M: k_}, outputs={U: WORKGROUP_1, B: i, N: j, M: k_}
    )
    sum_of = tkw.IndexMapping(2, inputs={B: i, M: j}, outputs={U: WORKGROUP_1, B: i, M: j})

    @tkw.wave(constraints)
    def phase_0(
        q: tkl.Memory[B, M, K1, GLOBAL, tkl.f16],
        k: tkl.Memory[B, K2, K1, SHARED, tkl.f16],
        v: tkl.Memory[B, N, K2, SHARED, tkl.f16],
        output: tkl.Memory[U, B, N, M, GLOBAL, tkl.f32],
        output_max: tkl.Memory[U, B, M, GLOBAL, tkl.f32],
    ):
        take_split(K2, WORKGROUP_1, U)
        rows = tkw.read(q)

        @tkw.iterate(K2, init_args=attention.start())
        def loop(*state):
            return attention.step(state, rows, tkw.read(k), tkw.read(v))

        tkw.write(attention.result(loop), output, mapping=result_of)
        tkw.write(attention.log_sum(loop), output_max, mapping=sum_of)

    return phase_0


def _phase_1() -> Any:
    constraints = [
        tkw.WorkgroupConstraint(M, 64, 0),
        tkw.WorkgroupConstraint(N, 16, 1),
        tkw.WorkgroupConstraint(B, 1, 2),
        tkw.TilingConstraint(U, 1),
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={B: 0, U: 0}),
    ]

    @tkw.wave(constraints)
    def phase_1(
        logits: tkl.Memory[U, B, N, M, GLOBAL, tkl.f32],
        logits_max: tkl.Memory[U, B, M, GLOBAL, tkl.f32],
        output: tkl.Memory[B, M, N, GLOBAL, tkl.f32],
    ):
        tkw.write(combine_splits(logits, logits_max, U, [B, M], [B, N, M])[0], output)

    return phase_1


def get_decode_attention_kernels(
    shape: tuple[int, ...], mfma_variant: Any, use_dynamic_dims: bool = False
) -> tuple[Any, ...]:
    """`phase_0(q, k, v, results, log_sums)`, `phase_1(results, log_sums, output)`, the values of
    their symbols, their dynamic symbols, and the number of splits.

    `shape` is (batches, queries, columns of v, head size, keys). q is [batches, queries, head
    size], v [batches, columns, keys], the results [splits, batches, columns, queries], and the
    logarithms of their sums [splits, batches, queries]. Scores are exponents of 2: the caller has
    multiplied q by log2(e)/sqrt(head size).
    """
    names = ("batches", "queries", "columns", "head size", "keys")
    if len(shape) != 5 or min(shape) < 1:
        raise ValueError(f"`shape` is {tuple(shape)}, expected positive {', '.join(names)}")
    splits = -(-shape[4] // KEYS_PER_SPLIT)
    columns = columns_of(shape[2])
    sizes = dict(zip((B, M, N, K1, K2), shape)) | {U: splits}
    tiles = {BLOCK_M: rows_of(shape[1], 2, mfma_variant), BLOCK_N: columns}
    tiles[BLOCK_K2] = keys_of(shape[3], columns, tkl.f16)
    dynamic_0 = [B, M, N, K2, U] if use_dynamic_dims else []
    dynamic_1 = [d for d in dynamic_0 if d != K2]
    symbols_0 = {d: v for d, v in sizes.items() if d not in dynamic_0} | tiles
    symbols_1 = {d: sizes[d] for d in (B, M, N, U) if d not in dynamic_1}
    kernels = _phase_0(mfma_variant), _phase_1()
    return *kernels, symbols_0, symbols_1, dynamic_0, dynamic_1, splits
