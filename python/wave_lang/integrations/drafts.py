"""Trees of drafts: which of the drafts of a sequence each of them sees. All see the prefix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from wave_lang import ops


@dataclass
class Drafts:
    """For each sequence a square of bytes, a row for each draft; where squares start; and a prefix
    of no tokens, with which drafts only see each other."""

    count: int  # of a sequence
    mask: torch.Tensor
    starts: torch.Tensor
    no_prefix: torch.Tensor
    no_tokens: torch.Tensor

    @classmethod
    def make(cls, sequences: int, count: int, device: Any) -> Drafts:
        size = count * count
        return cls(
            count,
            torch.zeros(sequences, count, count, dtype=torch.int8, device=device),
            torch.arange(sequences + 1, dtype=torch.int64, device=device) * size,
            torch.zeros(sequences + 1, dtype=torch.int32, device=device),
            torch.zeros(1, dtype=torch.int32, device=device),
        )

    def fill(self, prefixes: Any, mask: Any) -> None:
        """Writes the squares of sequences. Their masks follow each other, with a row of prefix and
        drafts for each draft."""
        if mask is None:
            raise ValueError("`custom_mask` of the batch is None, expected the mask of a tree")
        sequences, prefixes = prefixes.shape[0], prefixes.long()
        if sequences == 0:
            return
        rows = prefixes + self.count
        first = torch.cumsum(rows * self.count, 0) - rows * self.count
        at = torch.arange(self.count, device=prefixes.device)
        row = first[:, None] + at * rows[:, None] + prefixes[:, None]
        self.mask[:sequences] = mask.reshape(-1)[row[:, :, None] + at].to(torch.int8)

    def of(self, sequences: int) -> Drafts:
        """The same for the first sequences."""
        ends = sequences + 1
        return Drafts(
            self.count,
            self.mask[:sequences],
            self.starts[:ends],
            self.no_prefix[:ends],
            self.no_tokens,
        )

    def attend(self, q: Any, k: Any, v: Any, starts: Any, **options: Any) -> tuple[Any, Any]:
        """(o, lse) of drafts that see each other, and no prefix."""
        cache = k[:1], v[:1]  # not read
        prefix = (self.no_prefix, self.no_tokens)
        masks = (self.mask.view(-1), self.starts)
        return ops.attention_extend(q, k, v, *cache, starts, *prefix, self.count, *masks, **options)
