"""Attention of new tokens to a prefix in a cache, and to each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wave_lang.kernel import lang as tkl

from .attention_call import Call, call_of
from .attention_kernels import Form
from .extend_kernels import extend
from .operators import operator
from .programs import has_warpgroups, program
from .tensors import *

MASK_TYPES = ("i8", "u8", "bool")


def _checked_cache(call: Call, k_cache: Any, v_cache: Any) -> tuple[Any, Any]:
    found = []
    for name, cache, new in (("k_cache", k_cache, call.k), ("v_cache", v_cache, call.v)):
        cache = tensor(name, cache)
        element_type(name, cache, (wave_dtype(call.q.dtype).name,))
        if len(cache.shape) != 3:
            shape = tuple(cache.shape)
            raise ValueError(f"`{name}` has the shape {shape}, expected (tokens, heads, D)")
        expect_shape(name, cache, (cache.shape[0], *new.shape[1:]))
        found.append(cache)
    return found[0], found[1]


def _checked_mask(like: Any, mask: Any, starts: Any, sequences: int) -> tuple[Any, Any, Any]:
    """The bytes of masks, where those of each sequence start, and the type of that; without masks,
    tensors that no kernel reads, and None."""
    if (mask is None) != (starts is None):
        raise ValueError("`custom_mask` and `mask_indptr` are given together, or not at all")
    if mask is None:
        return new_tensor(like, (1,), tkl.i8), new_tensor(like, (sequences + 1,), tkl.i32), None
    mask, starts = tensor("custom_mask", mask), tensor("mask_indptr", starts)
    element_type("custom_mask", mask, MASK_TYPES)
    index = element_type("mask_indptr", starts, ("i32", "i64"))
    expect_shape("mask_indptr", starts, (sequences + 1,))
    return bytes_of(flat("custom_mask", mask)), starts, index


def _form(call: Call, masked: bool, mask_future: bool) -> Form:
    """H200, heads of 128: 16 x (2048 + 512) tokens take 816 us, with 128 keys 1030, with 256 rows 896,
    but with masks of all new tokens 1194, and 1129 with 256 rows; 64 x (1024 + 16) take 114, with 128 keys 162, with four
    waves 129."""
    form = replace(call.form(False, 0), single=False)
    if masked:  # instead of `causal` and `window`
        form = replace(form, left=-1, right=-1 if mask_future else 0)
    if form.rows < 64 or not 64 < form.size <= 128 or form.dtype == tkl.f32 or not has_warpgroups():
        return form
    many = masked and mask_future and form.rows == 128 and call.fills_machine(256)
    rows = 256 if many else form.rows
    return replace(form, rows=rows, keys=64, waves=rows // 32)


@operator(
    "attention_extend(Tensor q, Tensor k, Tensor v, Tensor k_cache, Tensor v_cache,"
    " Tensor qo_indptr, Tensor kv_indptr, Tensor kv_indices, SymInt max_q,"
    " Tensor? custom_mask=None, Tensor? mask_indptr=None, Tensor? sinks=None,"
    " Tensor? alibi=None, *, bool causal=True, int[2] window=[-1, -1], float? scale=None,"
    " float softcap=0.0, bool mask_prefix=True, bool mask_future=True) -> (Tensor out, Tensor lse)"
)
def attention_extend(
    q: Any,
    k: Any,
    v: Any,
    k_cache: Any,
    v_cache: Any,
    qo_indptr: Any,
    kv_indptr: Any,
    kv_indices: Any,
    max_q: int,
    custom_mask: Any = None,
    mask_indptr: Any = None,
    sinks: Any = None,
    alibi: Any = None,
    *,
    causal: bool = True,
    window: Any = (-1, -1),
    scale: float | None = None,
    softcap: float = 0.0,
    mask_prefix: bool = True,
    mask_future: bool = True,
    out: Any = None,
    lse: Any = None,
) -> tuple[Any, Any]:
    """(o, lse) of new tokens, q [tokens, H, D] with k and v [tokens, Hk, D], that see a prefix in
    caches [slots, Hk, D], and each other.

    Sequence s has the new tokens from `qo_indptr[s]` to `qo_indptr[s + 1]`, after those at
    `kv_indices[kv_indptr[s]:kv_indptr[s + 1]]`. With `custom_mask`, bytes decide instead of
    `causal` and `window`: from `mask_indptr[s]` on, a row of prefix and new tokens for each new
    token. Without `mask_prefix`, all of them see the whole prefix, and without `mask_future`, none
    sees a token after its own, whatever the bytes are. Both are so for trees of drafts, which begin
    with their root, and take less time.
    """
    given = dict(causal=causal, window=window, scale=scale, softcap=softcap)
    given |= dict(sinks=sinks, alibi=alibi, out=out, lse=lse)
    call = call_of(q, k, v, qo_indptr, max_q, 0, given)
    index = element_type("qo_indptr", call.q_ends, ("i32", "i64"))
    ends, table = tensor("kv_indptr", kv_indptr), tensor("kv_indices", kv_indices)
    element_type("kv_indptr", ends, (index.name,))
    element_type("kv_indices", table, ("i32",))
    if len(call.q_ends.shape) != 1 or call.q_ends.shape[0] < 1:
        found = tuple(call.q_ends.shape)
        raise ValueError(f"`qo_indptr` has the shape {found}, expected (sequences + 1,)")
    expect_shape("kv_indptr", ends, call.q_ends.shape)
    if len(table.shape) != 1:
        raise ValueError(f"`kv_indices` has {len(table.shape)} dimensions, expected 1")
    sequences = call.q_ends.shape[0] - 1
    call.check(sequences)
    element_type("k", call.k, (wave_dtype(call.q.dtype).name,))
    expect_shape("k", call.k, (call.q.shape[0], *call.k.shape[1:]))
    caches = _checked_cache(call, k_cache, v_cache)
    mask, starts, kind = _checked_mask(call.q, custom_mask, mask_indptr, sequences)
    out, lse = call.results(*caches, ends, table)
    if is_empty(call.q) or sequences == 0 or max_q == 0:
        return out, lse
    form = _form(call, kind is not None, mask_future)
    longest, scale, _, _, sinks, slopes = call.numbers()
    program(extend, form, kind, mask_prefix and kind is not None)(
        *(call.q, call.k, call.v, *caches, call.q_ends, ends, table, mask, starts),
        *(longest, scale, sinks, slopes, out, lse),
    )
    return out, lse


extend_attention = attention_extend
