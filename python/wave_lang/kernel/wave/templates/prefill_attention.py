"""Attention over packed sequences: each has its own length, and queries and keys are the same
tokens.

A workgroup has rows of the query heads that share a head of keys: row r is token r // group and head
r % group of them."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_common import *
from .attention_loop import Attention
from .attention_tiles import *

S = tkl.sym.S
MAX_SEQ_LEN = tkl.sym.MAX_SEQ_LEN
KEY, FIRST, START, LENGTH = tkl.sym.KEY, tkl.sym.FIRST, tkl.sym.START, tkl.sym.LENGTH
ROW, BLOCK_ROW = tkl.sym.ROW, tkl.sym.BLOCK_ROW


def _constraints(group: int, num_waves: int, instruction: Any) -> list[Any]:
    tiles = tkl.ceiling(MAX_SEQ_LEN * group / BLOCK_ROW)
    return [
        tkw.WorkgroupConstraint(ROW, BLOCK_ROW, 0, iters=tiles),
        tkw.WorkgroupConstraint(D_KV, BLOCK_D_KV, 1),
        tkw.WorkgroupConstraint(H_KV, 1, 2),
        tkw.WorkgroupConstraint(S, 1, 3),
        tkw.TilingConstraint(N_KV, BLOCK_N_KV),
        tkw.WaveConstraint(ROW, BLOCK_ROW / num_waves),
        tkw.WaveConstraint(D_KV, BLOCK_D_KV),
        tkw.HardwareConstraint(
            threads_per_wave=64, mma_type=instruction, vector_shapes={H_KV: 0, S: 0}
        ),
    ]


def get_prefill_attention_kernel(
    shape: AttentionShape,
    mfma_variant: Any,
    q_shape: tuple[int, ...],
    k_shape: tuple[int, ...],
    v_shape: tuple[int, ...],
    o_shape: tuple[int, ...],
    input_dtype: Any = tkl.f16,
    output_dtype: Any = tkl.f32,
    size_dtype: Any = tkl.i32,
    is_causal: bool = False,
) -> tuple[Any, dict[Any, Any]]:
    """`prefill_attention(q, k, v, offsets, sequence_lengths, c)` and the values of its symbols.

    Sequence s has the tokens from `offsets[s]` on. Scores are exponents of 2: the caller has
    multiplied q by log2(e)/sqrt(head_size). Rows from `shape.max_seq_len` on are not computed.
    """
    group = group_size(shape.num_query_heads, shape.num_kv_heads)
    check_shape("q_shape", q_shape, shape.num_query_heads, shape.head_size)
    check_shape("k_shape", k_shape, shape.num_kv_heads, shape.head_size)
    check_shape("v_shape", v_shape, shape.num_kv_heads, shape.head_size_kv)
    check_shape("o_shape", o_shape, shape.num_query_heads, shape.head_size_kv)
    dtype = float_type("input_dtype", input_dtype)
    out_dtype = float_type("output_dtype", output_dtype)
    index = size_type("size_dtype", size_dtype)
    first, second = instructions(mfma_variant)
    longest = max(shape.max_seq_len or q_shape[0], 1)
    columns, num_waves = columns_of(shape.head_size_kv), 4

    i, j, k_ = (tkw.IndexMapping.iterator(n) for n in range(3))
    row, place = {H_KV: i, ROW: j}, {N_Q: j // group + START, H: i * group + j % group}
    q_of = tkw.IndexMapping(3, inputs={**place, D_Q: k_}, outputs={**row, D_Q: k_})
    c_of = tkw.IndexMapping(3, inputs={**row, D_KV: k_}, outputs={**place, D_KV: k_})
    k_of, v_of = (
        tkw.IndexMapping(
            3, inputs={KEY: j + START, H_KV: i, d: k_}, outputs={H_KV: i, N_KV: j, d: k_}
        )
        for d in (D_Q, D_KV)
    )
    attention = Attention([H_KV], ROW, N_KV, D_KV, dtype, first)

    @tkw.wave(_constraints(group, num_waves, second))
    def prefill_attention(
        q: tkl.Memory[N_Q, H, D_Q, GLOBAL_ADDRESS_SPACE, dtype, any_tokens(H, D_Q)],
        k: tkl.Memory[KEY, H_KV, D_Q, SHARED_ADDRESS_SPACE, dtype],
        v: tkl.Memory[KEY, H_KV, D_KV, SHARED_ADDRESS_SPACE, dtype],
        offsets: tkl.Memory[S, GLOBAL_ADDRESS_SPACE, index],
        sequence_lengths: tkl.Memory[S, GLOBAL_ADDRESS_SPACE, index],
        c: tkl.Memory[N_Q, H, D_KV, GLOBAL_ADDRESS_SPACE, out_dtype, any_tokens(H, D_KV)],
    ):
        tkw.set_symbol(FIRST, tkw.read(offsets))
        # Known not to be negative, so that keys are copied by TMA.
        tkw.set_symbol(START, tkw.scalar(tkl.Max(FIRST, 0), index))
        tkw.set_symbol(LENGTH, tkw.read(sequence_lengths))
        tkw.set_symbol(ROW, tkw.scalar(LENGTH * group, index))
        # No row of this workgroup sees a later key, if attention is causal.
        last = ((WORKGROUP_0 + 1) * BLOCK_ROW - 1) // group
        end = tkl.Min(LENGTH, last + 1) if is_causal else LENGTH
        end = keys_visited(end, WORKGROUP_0 * BLOCK_ROW, LENGTH * group)
        tkw.set_symbol(N_KV, tkw.scalar(end, index))
        rows = tkw.read(q, mapping=q_of)

        until = attention.seen_until(group) if is_causal else None

        @tkw.iterate(N_KV, init_args=attention.start(), until=until)
        def loop(*state):
            seen = attention.within(group=group) if is_causal else None
            keys, values = tkw.read(k, mapping=k_of), tkw.read(v, mapping=v_of)
            return attention.step(state, rows, keys, values, seen)

        tkw.write(tkw.cast(attention.result(loop), out_dtype), c, mapping=c_of)

    hyperparams = {
        MAX_SEQ_LEN: 1 << (longest - 1).bit_length(),  # few programs for many lengths
        H: shape.num_query_heads,
        H_KV: shape.num_kv_heads,
        D_Q: shape.head_size,
        D_KV: shape.head_size_kv,
        BLOCK_ROW: rows_of(longest * group, num_waves, second),
        BLOCK_N_KV: keys_of(shape.head_size, columns, dtype, most_keys(shape.head_size)),
        BLOCK_D_KV: columns,
    }
    return prefill_attention, hyperparams
