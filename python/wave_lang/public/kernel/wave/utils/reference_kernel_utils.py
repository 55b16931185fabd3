"""Attention in PyTorch, which tests compare with."""

from __future__ import annotations

from typing import Any


def scaled_dot_product_attention_bhsd(
    q: Any,
    k: Any,
    v: Any,
    is_causal: bool = False,
    sliding_window: int = -1,
    custom_mask: Any = None,
) -> Any:
    """Attention of [B, H, S, D] tensors in f32. A window keeps q - k <= window (causal only);
    `custom_mask` [B, S] masks whole rows of queries; rows without keys give 0."""
    import torch

    q, k, v = (x.to(torch.float32) for x in (q, k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    rows = torch.arange(q.shape[-2], device=q.device)[:, None]
    cols = torch.arange(k.shape[-2], device=q.device)[None, :]
    if is_causal:
        hidden = cols > rows
        if sliding_window >= 0:
            hidden = hidden | (rows - cols > sliding_window)
        scores = scores.masked_fill(hidden, float("-inf"))
    if custom_mask is not None:
        scores = scores.masked_fill(custom_mask.bool()[:, None, :, None], float("-inf"))
    return torch.nan_to_num(torch.softmax(scores, dim=-1)) @ v
