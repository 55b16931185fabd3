"""Attention over whole tensors in which query heads share key heads; also with 8-bit floats."""

import math
from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw

from .attention_common import *
from .attention_loop import scores_of
from .attention_tiles import *
from .dense_attention import Dense

# The type of operands with `use_fp8`, and the power of 2 that its weights begin at.
FP8, FP8_SHIFT = tkl.f8e4m3fnuz, 7


def get_gqa_bshd_attention_kernel(
    shape: AttentionShape,
    mfma_variant: Any,
    input_dtype: Any = tkl.f16,
    output_dtype: Any = tkl.f32,
    is_causal: bool = False,
    layer_scaling: float | None = None,
    sliding_window_size: int = -1,
    q_scale: float = 1.0,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    use_fp8: bool = False,
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """`base_attention(q, k, v, c)` over [batches, positions, heads, head size].

    With `use_fp8`, q, k and v are rounded to 8 bits before they are multiplied; a value is its
    stored number times `q_scale`, `k_scale` or `v_scale`.
    """
    scaling = 1 / math.sqrt(shape.head_size) if layer_scaling is None else layer_scaling
    scaling = scaling * q_scale * k_scale if use_fp8 else scaling
    dense = Dense(
        shape,
        mfma_variant,
        "BSHD",
        dtype=float_type("input_dtype", input_dtype),
        out_dtype=float_type("output_dtype", output_dtype),
        product_dtype=FP8 if use_fp8 else None,
        scores=scores_of(shape.head_size, scaling, 0.0),
        is_causal=is_causal,
        window=sliding_window_size,
        shift=FP8_SHIFT if use_fp8 else 0,
    )

    @tkw.wave(dense.constraints())
    def base_attention(q: dense.q, k: dense.k, v: dense.v, c: dense.c):
        dense.run(q, k, v, c, factor=v_scale if use_fp8 else 1.0)

    return dense.returned(base_attention, dynamic_dims=False)
