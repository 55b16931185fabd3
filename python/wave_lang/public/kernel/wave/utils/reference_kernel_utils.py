"""Attention in PyTorch, which tests compare with.

One head after another: the scores of all of them at once are 8 GB with 32 heads and 8000 keys.
"""

from __future__ import annotations

import itertools
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

    outer = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    q, k, v = (x.expand(*outer, *x.shape[-2:]) for x in (q, k, v))
    rows = torch.arange(q.shape[-2], device=q.device)[:, None]
    cols = torch.arange(k.shape[-2], device=q.device)[None, :]
    hidden = cols > rows if is_causal else None
    if is_causal and sliding_window >= 0:
        hidden |= rows - cols > sliding_window
    out = torch.empty(*q.shape[:-1], v.shape[-1], dtype=torch.float32, device=q.device)
    for at in itertools.product(*map(range, outer)):
        scores = q[at].float() @ k[at].float().T * q.shape[-1] ** -0.5
        if hidden is not None:
            scores.masked_fill_(hidden, float("-inf"))
        if custom_mask is not None:
            scores.masked_fill_(custom_mask[at[0]].bool()[:, None], float("-inf"))
        out[at] = torch.nan_to_num(torch.softmax(scores, dim=-1)) @ v[at].float()
    return out
