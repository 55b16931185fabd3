"""Attention whose products are of 8-bit floats, with one scale per tensor."""

import functools
from typing import Any

import torch

from wave_lang.kernel import wave as tkw
from wave_lang.kernel.wave.templates.attention_common import AttentionShape
from wave_lang.kernel.wave.templates.quantized_attention import (
    get_brevitas_pertensor_fp8_attention_kernel,
)

from .attention import compiled, flat_shapes, run

MMA = (tkw.MMAType.F32_16x16x32_F8, tkw.MMAType.F32_16x16x32_K4_F8)


@functools.lru_cache
def _kernel(size: int, columns: int, dtype: Any, small: Any, causal: bool, scales: Any) -> Any:
    shape = AttentionShape(1, 1, head_size=size, head_size_kv=columns)
    return compiled(
        get_brevitas_pertensor_fp8_attention_kernel(shape, MMA, dtype, small, True, causal, *scales)
    )


def wave_sdpa_fp8(
    query: Any,
    key: Any,
    value: Any,
    q_scale: float,
    k_scale: float,
    v_scale: float,
    quant_dtype: Any = torch.float8_e4m3fnuz,
    is_causal: bool = False,
) -> Any:
    """Attention of [..., positions, size], rounded to `quant_dtype`: a value is its number times
    its scale. All leading dimensions are those of `query`. It has no gradient."""
    for name, x in (("key", key), ("value", value)):
        if x.dtype != query.dtype:
            raise TypeError(f"`{name}` has elements of type {x.dtype}, expected {query.dtype}")
    shape = flat_shapes(query, key, value)
    sizes = (shape.head_size, shape.head_size_kv)
    scales = tuple(float(scale) for scale in (q_scale, k_scale, v_scale))
    kernel = _kernel(*sizes, query.dtype, quant_dtype, is_causal, scales)
    return run(kernel, shape, query, key, value)
