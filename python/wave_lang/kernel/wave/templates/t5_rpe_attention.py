"""Attention with a bias that depends on how far a key is behind a row."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_common import *
from .attention_loop import no_change
from .dense_attention import Dense
from .relative_bias import DISTANCE, bias_of_distance, check_most


def get_t5_rpe_attention_kernel(
    shape: AttentionShape, mfma_variant: Any, dynamic_dims: bool, max_rpe_context_length: int
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """`base_attention(q, k, v, rpe, c)` over [heads, positions, head size], with v as [heads, head
    size, positions].

    `rpe` has max_rpe_context_length + 1 biases: that of a key i - j positions back is `rpe[i - j]`,
    or the last one if the key is further back, or ahead. Scores are exponents of 2: the caller has
    multiplied q by log2(e)/sqrt(head_size) and rpe by log2(e).
    """
    check_most(max_rpe_context_length)
    dense = Dense(shape, mfma_variant, "HSD", dtype=tkl.f16, scores=no_change, v_order="HDS")
    table = tkl.MemoryLayout(shape=[max_rpe_context_length + 1])
    rpe_of = bias_of_distance(max_rpe_context_length)

    @tkw.wave(dense.constraints())
    def base_attention(
        q: dense.q,
        k: dense.k,
        v: dense.v,
        rpe: tkl.Memory[DISTANCE, GLOBAL_ADDRESS_SPACE, tkl.f32, table],
        c: dense.c,
    ):
        dense.run(q, k, v, c, bias=lambda: tkw.read(rpe, mapping=rpe_of))

    return dense.returned(base_attention, dynamic_dims)
