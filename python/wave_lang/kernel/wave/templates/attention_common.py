"""The symbols and shapes of the public attention templates."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Iterator

from wave_lang.kernel.lang import sym

B = sym.B
H = sym.H
H_Q = sym.H_Q
H_KV = sym.H_KV
N_Q = sym.N_D
N_KV = sym.N_KV
D_Q = sym.D_Q
D_KV = sym.D_KV
BLOCK_B = sym.BLOCK_B
BLOCK_H = sym.BLOCK_H
BLOCK_H_Q = sym.BLOCK_H_Q
BLOCK_H_KV = sym.BLOCK_H_KV
BLOCK_N_Q = sym.BLOCK_N_Q
BLOCK_N_KV = sym.BLOCK_N_KV
BLOCK_D_Q = sym.BLOCK_D_Q
BLOCK_D_KV = sym.BLOCK_D_KV


@dataclass(frozen=True)
class AttentionShape:
    """The sizes of an attention problem. Iterating gives those that are set."""

    num_query_heads: int
    num_kv_heads: int
    head_size: int
    head_size_kv: int
    batch_size: int | None = None
    num_seqs: int | None = None
    max_seq_len: int | None = None
    total_seq_len: int | None = None
    context_len: int | None = None
    fixed_seq_len_prefix: int | None = None
    fixed_seq_len_extend: int | None = None
    query_seq_len: int | None = None
    kv_seq_len: int | None = None
    block_size: int | None = None

    def __iter__(self) -> Iterator[int]:
        return (v for v in (getattr(self, f.name) for f in fields(self)) if v)
