"""Extend attention: new tokens see a prefix in a cache and each other."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_common import *
from .attention_loop import scaled_by, scores_of
from .attention_tiles import float_type, size_type
from .extend_body import ENDS, GLOBAL, NEW, POOL, PREFIX, ROW, TABLE, Body

MASK, MASK_START = tkl.sym.MASK, tkl.sym.MASK_START
_i, _j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)


def _mask_of(group: int, first_key: Any) -> Any:
    """The mask has a row of PREFIX + NEW bytes for each query of a sequence."""
    place = MASK_START + _i // group * (PREFIX + NEW) + first_key + _j
    return tkw.IndexMapping(2, inputs={MASK: place}, outputs={ROW: _i, N_KV: _j})


def _without_mask(body: Body) -> Any:
    t = body.types

    @tkw.wave(body.constraints())
    def extend_attention(
        q: t.q,
        k: t.k,
        v: t.v,
        k_cache: t.k_cache,
        v_cache: t.v_cache,
        qo_indptr: t.ends,
        kv_indptr: t.ends,
        kv_indices: t.table,
        MAX_EXTEND_SEQ_LEN: tkl.SymbolBind[tkl.i32],
        c: t.c,
    ):
        body(q, k, v, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, c)

    return extend_attention


def _with_mask(body: Body, mask_index: Any) -> Any:
    t = body.types

    @tkw.wave(body.constraints())
    def extend_attention_custom_mask(
        q: t.q,
        k: t.k,
        v: t.v,
        k_cache: t.k_cache,
        v_cache: t.v_cache,
        qo_indptr: t.ends,
        kv_indptr: t.ends,
        kv_indices: t.table,
        custom_mask: tkl.Memory[MASK, GLOBAL, tkl.i8],
        mask_offsets: tkl.Memory[ENDS, GLOBAL, mask_index],
        MAX_EXTEND_SEQ_LEN: tkl.SymbolBind[tkl.i32],
        c: t.c,
    ):
        tkw.set_symbol(MASK_START, tkw.read(mask_offsets))

        def visible(first_key):
            seen = tkw.read(custom_mask, mapping=_mask_of(body.group, first_key))
            return tkw.cast(seen, tkl.i1)

        body(q, k, v, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, c, visible)

    return extend_attention_custom_mask


def get_extend_attention_kernel(
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
    logit_cap: float = 0.0,
    layer_scaling: float | None = None,
    num_waves: int = 4,
    use_custom_mask: bool = False,
    mask_offset_dtype: Any = tkl.i32,
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """`extend_attention(q, k, v, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, max_len, c)`,
    the values of its symbols, and its dynamic symbols.

    Sequence s has the new tokens from `qo_indptr[s]` to `qo_indptr[s + 1]`, after those at
    `kv_indices[kv_indptr[s]:kv_indptr[s + 1]]` in the cache. With `use_custom_mask`,
    `custom_mask, mask_offsets` follow `kv_indices`, and the mask decides instead of `is_causal`:
    from `mask_offsets[s]` on, a byte for each new token and each token of the sequence.
    """
    shapes = dict(q_shape=q_shape, k_shape=k_shape, v_shape=v_shape, o_shape=o_shape)
    shapes |= dict(k_cache_shape=k_cache_shape, v_cache_shape=v_cache_shape)
    scores = scores_of(shape.head_size, layer_scaling, logit_cap)
    body = Body(
        shape,
        mfma_variant,
        shapes,
        (input_dtype, output_dtype, size_dtype),
        scaled_by(scores, float_type("input_dtype", input_dtype)),
        is_causal and not use_custom_mask,
        num_waves,
    )
    dynamic_symbols = [ENDS, POOL, TABLE]
    if not use_custom_mask:
        return _without_mask(body), body.hyperparams(), dynamic_symbols
    kernel = _with_mask(body, size_type("mask_offset_dtype", mask_offset_dtype))
    return kernel, body.hyperparams(), [*dynamic_symbols, MASK]
