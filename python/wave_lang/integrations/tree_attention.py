"""Attention to a prefix and to a tree of drafts, of which a mask says what each token sees."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.wave.compile import WaveCompileOptions, wave_compile
from wave_lang.kernel.wave.templates.attention_common import AttentionShape
from wave_lang.kernel.wave.templates.extend_attention import get_extend_attention_kernel

MMA = tkw.MMAType.F32_16x16x16_F16


@dataclass
class Tree:
    """The tokens of prefixes, where those of each sequence start, the bytes of all masks, and where
    those of each sequence start. A mask has a row of prefix and drafts for each draft."""

    tokens: torch.Tensor
    ends: torch.Tensor
    mask: torch.Tensor
    mask_ends: torch.Tensor

    @classmethod
    def empty(cls, sequences: int, tokens: int, mask: int, device: Any) -> Tree:
        made = {"device": device}
        return cls(
            torch.zeros(tokens, dtype=torch.int32, **made),
            torch.zeros(sequences + 1, dtype=torch.int32, **made),
            torch.zeros(mask, dtype=torch.int8, **made),
            torch.zeros(sequences + 1, dtype=torch.int64, **made),
        )

    @classmethod
    def make(cls, table: Any, batch: Any, drafts: int, mask: Any, tokens: int) -> Tree:
        """The tree of a batch, whose prefixes have at most this many tokens together."""
        made = cls.empty(batch.batch_size, tokens, mask.numel(), table.device)
        made.fill(table, batch, drafts)
        return made

    def fill(self, table: Any, batch: Any, drafts: int) -> None:
        """Writes a batch: row r of `table` has the tokens of request r."""
        count = batch.batch_size
        if count == 0:
            return
        lengths, requests = batch.seq_lens[:count], batch.req_pool_indices[:count].long()
        mask = batch.spec_info.custom_mask
        if mask is None:
            raise ValueError("`custom_mask` of the batch is None, expected the mask of a tree")
        self.ends[1 : count + 1] = torch.cumsum(lengths, 0)
        self.mask_ends[1 : count + 1] = torch.cumsum(drafts * (lengths + drafts), 0)
        self.mask[: mask.numel()] = mask.reshape(-1).to(torch.int8)
        place = torch.arange(self.tokens.shape[0], dtype=torch.int32, device=self.tokens.device)
        ends = self.ends[: count + 1]
        owner = torch.searchsorted(ends[1:], place, right=True).clamp(max=count - 1)
        inside = (place - ends[owner]).clamp(0, table.shape[1] - 1).long()
        self.tokens.copy_(table[requests[owner], inside])

    def of(self, count: int) -> Tree:
        """The same for the first sequences."""
        return Tree(self.tokens, self.ends[: count + 1], self.mask, self.mask_ends[: count + 1])


@functools.lru_cache
def _kernel(
    heads: tuple[int, int], sizes: tuple[int, int], drafts: int, dtype: Any, scores: Any
) -> Any:
    shape = AttentionShape(*heads, *sizes, max_seq_len=drafts)
    q, k, v = (1, heads[0], sizes[0]), (1, heads[1], sizes[0]), (1, heads[1], sizes[1])
    scale, softcap = scores
    kernel, subs, dynamic = get_extend_attention_kernel(
        shape,
        (MMA, MMA),
        q,
        k,
        v,
        k,
        v,
        (1, heads[0], sizes[1]),
        input_dtype=dtype,
        output_dtype=dtype,
        layer_scaling=scale,
        logit_cap=softcap,
        use_custom_mask=True,
        mask_offset_dtype=tkl.i64,
    )
    return wave_compile(WaveCompileOptions(subs=subs, dynamic_symbols=dynamic), kernel)


def tree_attention(
    q: Any,
    k: Any,
    v: Any,
    k_cache: Any,
    v_cache: Any,
    starts: Any,
    tree: Tree,
    drafts: int,
    scores: tuple[float, float],
    out: Any,
) -> None:
    """q, k and v [tokens, heads, size] of drafts, caches [tokens, heads, size]; `scores` are a
    scale and a soft cap."""
    heads, sizes = (q.shape[1], k.shape[1]), (q.shape[2], v.shape[2])
    kernel = _kernel(heads, sizes, drafts, q.dtype, scores)
    masks = (tree.mask, tree.mask_ends)
    kernel(q, k, v, k_cache, v_cache, starts, tree.ends, tree.tokens, *masks, drafts, out)
