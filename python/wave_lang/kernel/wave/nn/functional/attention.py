"""Attention over [..., positions, head size], whose result is f32."""

import functools
import math
from typing import Any

import torch

from wave_lang.kernel import wave as tkw
from wave_lang.kernel.wave.compile import WaveCompileOptions, wave_compile
from wave_lang.kernel.wave.templates.attention_common import H, H_KV, N_KV, N_Q, AttentionShape
from wave_lang.kernel.wave.templates.vanilla_attention import get_vanilla_attention_kernel

MMA = tkw.MMAType.F32_16x16x16_F16


def flat_shapes(query: Any, key: Any, value: Any, v_transposed: bool = False) -> AttentionShape:
    """The shape of attention if all leading dimensions are one; shapes that differ are refused."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() < 2 or x.shape[:-2] != query.shape[:-2]:
            wanted = (*query.shape[:-2], "positions", "size")
            raise ValueError(f"`{name}` has the shape {tuple(x.shape)}, expected {wanted}")
    if key.shape[-1] != query.shape[-1]:
        raise ValueError(f"`key` has heads of {key.shape[-1]}, expected {query.shape[-1]}")
    keys, columns = value.shape[-2:][:: -1 if v_transposed else 1]
    if keys != key.shape[-2]:
        raise ValueError(f"`value` has {keys} positions, expected {key.shape[-2]}")
    heads = math.prod(query.shape[:-2])
    return AttentionShape(
        num_query_heads=heads,
        num_kv_heads=heads,
        query_seq_len=query.shape[-2],
        kv_seq_len=keys,
        head_size=query.shape[-1],
        head_size_kv=columns,
    )


def compiled(template: tuple[Any, ...]) -> Any:
    """A template's kernel for any number of heads and positions."""
    kernel, subs, _ = template
    sizes = (H, H_KV, N_Q, N_KV)
    subs = {symbol: value for symbol, value in subs.items() if symbol not in sizes}
    return wave_compile(WaveCompileOptions(subs=subs, dynamic_symbols=list(sizes)), kernel)


@functools.lru_cache
def _kernel(size: int, columns: int, causal: bool, transposed: bool, window: int) -> Any:
    shape = AttentionShape(1, 1, head_size=size, head_size_kv=columns)
    return compiled(
        get_vanilla_attention_kernel(shape, (MMA, MMA), True, causal, transposed, window)
    )


def run(kernel: Any, shape: AttentionShape, query: Any, key: Any, value: Any) -> Any:
    out = query.new_zeros((*query.shape[:-1], shape.head_size_kv), dtype=torch.float32)
    if out.numel() and shape.kv_seq_len:
        kernel(*(x.reshape(-1, *x.shape[-2:]) for x in (query, key, value, out)))
    return out


def wave_sdpa(
    query: Any,
    key: Any,
    value: Any,
    is_causal: bool = False,
    is_v_transposed: bool = False,
    sliding_window_size: int = -1,
) -> Any:
    """Attention of float16 [..., positions, size]: all leading dimensions are those of `query`. Row
    i sees key j if j <= i (`is_causal`) and j >= i - `sliding_window_size`. There is no
    gradient."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dtype != torch.float16:
            raise TypeError(f"`{name}` has elements of type {x.dtype}, expected float16")
    shape = flat_shapes(query, key, value, is_v_transposed)
    options = (is_causal, is_v_transposed, sliding_window_size)
    return run(_kernel(shape.head_size, shape.head_size_kv, *options), shape, query, key, value)
