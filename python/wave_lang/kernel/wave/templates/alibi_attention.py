"""Attention with linear biases: keys that are further back count less, at a slope of each head."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_common import *
from .attention_loop import no_change
from .dense_attention import Dense


def get_alibi_attention_kernel(
    shape: AttentionShape, mfma_variant: Any, dynamic_dims: bool
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """`alibi_attention(q, k, v, m, c)` over [heads, positions, head size], with v as [heads, head
    size, positions] and the slopes m [heads].

    The bias of row i and key j is `m * min(j - i, 0)`. Scores are exponents of 2: the caller has
    multiplied q by log2(e)/sqrt(head_size) and m by log2(e).
    """
    dense = Dense(shape, mfma_variant, "HSD", dtype=tkl.f16, scores=no_change, v_order="HDS")

    @tkw.wave(dense.constraints())
    def alibi_attention(
        q: dense.q,
        k: dense.k,
        v: dense.v,
        m: tkl.Memory[H, GLOBAL_ADDRESS_SPACE, tkl.f32],
        c: dense.c,
    ):
        slope = tkw.read(m)

        def bias():
            row = tkw.broadcast(tkw.self_index(N_Q, tkl.i32), [N_Q, N_KV])
            key = tkw.broadcast(tkw.self_index(N_KV, tkl.i32), [N_Q, N_KV])
            back = tkw.minimum(key - row, tkl.Register[N_Q, N_KV, tkl.i32](0))
            whole = [H, N_Q, N_KV]
            return tkw.broadcast(tkw.cast(back, tkl.f32), whole) * tkw.broadcast(slope, whole)

        dense.run(q, k, v, c, bias=bias)

    return dense.returned(alibi_attention, dynamic_dims)
