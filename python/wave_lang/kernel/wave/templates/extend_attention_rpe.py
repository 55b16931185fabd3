"""Extend attention with a bias that depends on how far a key is behind a token."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw

from .attention_common import *
from .attention_loop import LOG2_E, scores_of
from .extend_body import ENDS, GLOBAL, POOL, PREFIX, ROW, TABLE, Body
from .relative_bias import DISTANCE, bias_of_distance, check_most


def get_extend_attention_rpe_kernel(
    shape: AttentionShape,
    mfma_variant: Any,
    q_shape: tuple[int, ...],
    k_shape: tuple[int, ...],
    v_shape: tuple[int, ...],
    k_cache_shape: tuple[int, ...],
    v_cache_shape: tuple[int, ...],
    o_shape: tuple[int, ...],
    input_dtype: Any = tkl.f16,
    output_dtype: Any = tkl.f32,
    size_dtype: Any = tkl.i32,
    is_causal: bool = False,
    layer_scaling: float | None = None,
    num_waves: int = 4,
    max_rpe_context_length: int = 0,
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """The kernel of `get_extend_attention_kernel` with `rpe` after `kv_indices`.

    `rpe` has max_rpe_context_length + 1 biases: that of a key d positions back, in the prefix or
    not, is `rpe[d]`, or the last one if it is further back, or ahead.
    """
    check_most(max_rpe_context_length)
    shapes = dict(q_shape=q_shape, k_shape=k_shape, v_shape=v_shape, o_shape=o_shape)
    shapes |= dict(k_cache_shape=k_cache_shape, v_cache_shape=v_cache_shape)
    scores = {"scores": scores_of(shape.head_size, layer_scaling, 0.0)}
    types = (input_dtype, output_dtype, size_dtype)
    body = Body(shape, mfma_variant, shapes, types, scores, is_causal, num_waves)
    table = tkl.MemoryLayout(shape=[max_rpe_context_length + 1])
    t = body.types

    @tkw.wave(body.constraints())
    def extend_attention_rpe(
        q: t.q,
        k: t.k,
        v: t.v,
        k_cache: t.k_cache,
        v_cache: t.v_cache,
        qo_indptr: t.ends,
        kv_indptr: t.ends,
        kv_indices: t.table,
        rpe: tkl.Memory[DISTANCE, GLOBAL, tkl.f32, table],
        MAX_EXTEND_SEQ_LEN: tkl.SymbolBind[tkl.i32],
        c: t.c,
    ):
        def bias(first_key):
            place = bias_of_distance(max_rpe_context_length, PREFIX - first_key, ROW, body.group)
            return tkw.read(rpe, mapping=place) * LOG2_E

        tensors = (q, k, v, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, c)
        body(*tensors, bias=bias)

    return extend_attention_rpe, body.hyperparams(), [ENDS, POOL, TABLE]
