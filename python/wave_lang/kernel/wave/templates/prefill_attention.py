"""Attention over packed sequences: each has its own length, and queries and keys are the same
tokens."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_common import *
from .attention_loop import Attention
from .attention_tiles import *

S = tkl.sym.S
MAX_SEQ_LEN = tkl.sym.MAX_SEQ_LEN
START = tkl.sym.START


def _constraints(num_waves: int, instruction: Any) -> list[Any]:
    return [
        tkw.WorkgroupConstraint(N_Q, BLOCK_N_Q, 0, iters=tkl.ceiling(MAX_SEQ_LEN / BLOCK_N_Q)),
        tkw.WorkgroupConstraint(D_KV, BLOCK_D_KV, 1),
        tkw.WorkgroupConstraint(H, 1, 2),
        tkw.WorkgroupConstraint(S, 1, 3),
        tkw.TilingConstraint(N_KV, BLOCK_N_KV),
        tkw.WaveConstraint(N_Q, BLOCK_N_Q / num_waves),
        tkw.WaveConstraint(D_KV, BLOCK_D_KV),
        tkw.HardwareConstraint(
            threads_per_wave=64, mma_type=instruction, vector_shapes={H: 0, S: 0}
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
    q_of = tkw.IndexMapping(
        3, inputs={N_Q: j + START, H: i, D_Q: k_}, outputs={H: i, N_Q: j, D_Q: k_}
    )
    k_of = tkw.IndexMapping(
        3, inputs={N_KV: j + START, H_KV: i // group, D_Q: k_}, outputs={H: i, N_KV: j, D_Q: k_}
    )
    v_of = tkw.IndexMapping(
        3, inputs={N_KV: k_ + START, H_KV: i // group, D_KV: j}, outputs={H: i, D_KV: j, N_KV: k_}
    )
    c_of = tkw.IndexMapping(
        3, inputs={H: i, D_KV: j, N_Q: k_}, outputs={N_Q: k_ + START, H: i, D_KV: j}
    )
    attention = Attention([H], N_Q, N_KV, D_KV, dtype, first)

    @tkw.wave(_constraints(num_waves, second))
    def prefill_attention(
        q: tkl.Memory[N_Q, H, D_Q, GLOBAL_ADDRESS_SPACE, dtype, any_tokens(H, D_Q)],
        k: tkl.Memory[N_KV, H_KV, D_Q, SHARED_ADDRESS_SPACE, dtype, any_tokens(H_KV, D_Q)],
        v: tkl.Memory[N_KV, H_KV, D_KV, SHARED_ADDRESS_SPACE, dtype, any_tokens(H_KV, D_KV)],
        offsets: tkl.Memory[S, GLOBAL_ADDRESS_SPACE, index],
        sequence_lengths: tkl.Memory[S, GLOBAL_ADDRESS_SPACE, index],
        c: tkl.Memory[N_Q, H, D_KV, GLOBAL_ADDRESS_SPACE, out_dtype, any_tokens(H, D_KV)],
    ):
        length = tkw.read(sequence_lengths)
        tkw.set_symbol(START, tkw.read(offsets))
        tkw.set_symbol(N_Q, length)
        tkw.set_symbol(N_KV, length)
        if is_causal:  # no row of this workgroup sees a later key
            end = tkl.Min(N_Q, (WORKGROUP_0 + 1) * BLOCK_N_Q)
            tkw.set_symbol(N_KV, tkw.scalar(end, index))
        rows = tkw.read(q, mapping=q_of)

        @tkw.iterate(N_KV, init_args=attention.start())
        def loop(*state):
            seen = attention.within() if is_causal else None
            keys, values = tkw.read(k, mapping=k_of), tkw.read(v, mapping=v_of)
            return attention.step(state, rows, keys, values, seen)

        tkw.write(tkw.cast(attention.result(loop), out_dtype), c, mapping=c_of)

    hyperparams = {
        MAX_SEQ_LEN: 1 << (longest - 1).bit_length(),  # few programs for many lengths
        H: shape.num_query_heads,
        H_KV: shape.num_kv_heads,
        D_Q: shape.head_size,
        D_KV: shape.head_size_kv,
        BLOCK_N_Q: rows_of(longest, num_waves, second),
        BLOCK_N_KV: keys_of(shape.head_size, columns, dtype),
        BLOCK_D_KV: columns,
    }
    return prefill_attention, hyperparams
