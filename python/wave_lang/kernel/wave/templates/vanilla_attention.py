"""Attention over whole tensors: heads first, positions first, or heads as batches."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_common import *
from .attention_loop import scores_of
from .dense_attention import Dense


def get_vanilla_attention_kernel(
    shape: AttentionShape,
    mfma_variants: Any,
    dynamic_dims: bool,
    is_causal: bool = False,
    is_v_transposed: bool = False,
    sliding_window_size: int = -1,
    scale: float | None = None,
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """`base_attention(q, k, v, c)` over [heads, positions, head size]; with `is_v_transposed`, v is
    [heads, head size, positions].

    Row i sees key j if j <= i (`is_causal`) and j >= i - `sliding_window_size` (if not negative).
    """
    dense = Dense(
        shape,
        mfma_variants,
        "HSD",
        dtype=tkl.f16,
        scores=scores_of(shape.head_size, scale, 0.0),
        v_order="HDS" if is_v_transposed else None,
        is_causal=is_causal,
        window=sliding_window_size,
    )

    @tkw.wave(dense.constraints())
    def base_attention(q: dense.q, k: dense.k, v: dense.v, c: dense.c):
        dense.run(q, k, v, c)

    return dense.returned(base_attention, dynamic_dims)


def _with_batches(
    shape: AttentionShape,
    mfma_variant: Any,
    order: str,
    dynamic_dims: bool,
    is_causal: bool,
    is_custom_mask: bool,
    num_waves: int,
) -> tuple[Any, dict[Any, Any], list[Any]]:
    if is_causal and is_custom_mask:
        raise ValueError("`is_causal` and `is_custom_mask` are both set, expected at most one")
    dense = Dense(
        shape,
        mfma_variant,
        order,
        dtype=tkl.f16,
        scores=scores_of(shape.head_size, None, 0.0),
        is_causal=is_causal,
        num_waves=num_waves,
    )

    @tkw.wave(dense.constraints())
    def base_attention(q: dense.q, k: dense.k, v: dense.v, c: dense.c):
        dense.run(q, k, v, c)

    @tkw.wave(dense.constraints())
    def base_attention_custom_mask(
        q: dense.q,
        k: dense.k,
        v: dense.v,
        custom_mask: tkl.Memory[B, N_Q, GLOBAL_ADDRESS_SPACE, tkl.i8],
        c: dense.c,
    ):
        def visible():
            hidden = tkw.read(custom_mask)
            zero = tkl.Register[B, N_Q, tkl.i8](0)
            return tkw.broadcast(hidden == zero, [B, N_Q, N_KV])

        dense.run(q, k, v, c, visible)

    kernel = base_attention_custom_mask if is_custom_mask else base_attention
    return dense.returned(kernel, dynamic_dims)


def get_bshd_attention_kernel(
    shape: AttentionShape,
    mfma_variant: Any,
    dynamic_dims: bool,
    is_causal: bool = False,
    is_custom_mask: bool = False,
    num_waves: int = 4,
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """`base_attention(q, k, v, c)` over [batches, positions, heads, head size]. With
    `is_custom_mask`, `custom_mask` [batches, positions] follows v: queries whose byte is not 0 see
    nothing."""
    return _with_batches(
        shape, mfma_variant, "BSHD", dynamic_dims, is_causal, is_custom_mask, num_waves
    )


def get_bhsd_attention_kernel(
    shape: AttentionShape,
    mfma_variant: Any,
    dynamic_dims: bool,
    is_causal: bool = False,
    is_custom_mask: bool = False,
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """The same over [batches, heads, positions, head size]."""
    return _with_batches(shape, mfma_variant, "BHSD", dynamic_dims, is_causal, is_custom_mask, 4)
