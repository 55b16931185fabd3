"""Attention whose products are of 8-bit floats, with one scale per tensor."""

import math
from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel._support.tensor_types import wave_dtype

from .attention_common import *
from .attention_loop import scores_of
from .dense_attention import Dense

# The largest power of 2 that each 8-bit type has room for: weights are at most that.
SHIFTS = {tkl.f8e4m3fn: 8, tkl.f8e4m3fnuz: 7, tkl.f8e5m2: 15, tkl.f8e5m2fnuz: 15}


def get_brevitas_pertensor_fp8_attention_kernel(
    shape: AttentionShape,
    mfma_variant: Any,
    logit_dtype: Any = tkl.f16,
    f8_dtype: Any = tkl.f8e4m3fnuz,
    dynamic_dims: bool = False,
    is_causal: bool = False,
    q_scale: float = 1.0,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """`base_attention(q, k, v, c)` over [heads, positions, head size] of `logit_dtype`.

    q, k and v are rounded to `f8_dtype` before they are multiplied; a value is its stored number
    times `q_scale`, `k_scale` or `v_scale`.
    """
    product, dtype = wave_dtype(f8_dtype), wave_dtype(logit_dtype)
    if product not in SHIFTS:
        raise ValueError(f"`f8_dtype` is {product}, expected a float of 8 bits")
    if dtype not in (tkl.f16, tkl.bf16, tkl.f32, product):
        raise ValueError(f"`logit_dtype` is {dtype}, expected f16, bf16, f32 or `f8_dtype`")
    scaling = q_scale * k_scale / math.sqrt(shape.head_size)
    dense = Dense(
        shape,
        mfma_variant,
        "HSD",
        dtype=dtype,
        product_dtype=product,
        scores=scores_of(shape.head_size, scaling, 0.0),
        is_causal=is_causal,
        shift=SHIFTS[product],
    )

    @tkw.wave(dense.constraints())
    def base_attention(q: dense.q, k: dense.k, v: dense.v, c: dense.c):
        dense.run(q, k, v, c, factor=v_scale)

    return dense.returned(base_attention, dynamic_dims)
