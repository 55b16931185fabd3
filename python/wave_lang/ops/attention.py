"""Attention over sequences of the same length or of different ones, and what belongs to it: keys in
pages, merging of results, appending to a cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wave_lang.kernel import lang as tkl

from . import attention_gradients as gradients
from . import attention_kernels as kernels
from .attention_call import (
    KEY_TYPES,
    call_of,
    dense_call,
    extra_of,
    folded,
    in_order,
    packed_call,
    scales_of,
)
from .operators import operator
from .programs import program
from .tensors import *

OPTIONS = (
    "Tensor? sinks=None, Tensor? k_scale=None, Tensor? v_scale=None, Tensor? alibi=None, *,"
    " bool causal=False,"
    " int[2] window=[-1, -1], float? scale=None, float softcap=0.0, int? splits=None,"
    " bool batch_invariant=False) -> (Tensor out, Tensor lse)"
)


@operator(
    "attention(Tensor q, Tensor k, Tensor v, Tensor? sinks=None, Tensor? k_scale=None,"
    " Tensor? v_scale=None, Tensor? alibi=None, Tensor? bias=None, Tensor? mask=None, *,"
    " bool causal=False, int[2] window=[-1, -1], float? scale=None,"
    " float softcap=0.0, str layout='bshd') -> (Tensor out, Tensor lse)",
    gradients.dense,
)
def _dense(
    q: Any,
    k: Any,
    v: Any,
    sinks: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    alibi: Any = None,
    bias: Any = None,
    mask: Any = None,
    *,
    layout: str = "bshd",
    **options: Any,
) -> tuple[Any, Any]:
    options |= dict(sinks=sinks, k_scale=k_scale, v_scale=v_scale, alibi=alibi)
    call = dense_call(q, k, v, layout, options)
    extra = extra_of(call, bias, mask)
    shape, inputs = tuple(q.shape[:-1]), (call.k, call.v, extra.bias, extra.mask)
    dtype = wave_dtype(call.q.dtype)
    out = result("out", call.out, call.q, (*shape, call.v.shape[-1]), dtype, *inputs)
    lse = result("lse", call.lse, call.q, shape, tkl.f32, *inputs, out)
    if not is_empty(call.q):
        fold, keys, values = folded(call.k, call.v)
        rows, sums = (in_order(layout, x) for x in (out, lse))
        form = replace(extra.of_form(call.form(False, 0)), fold=fold)
        queries = call.q
        if form.group == 1:  # so that TMA can copy tiles of them
            (q_fold, queries), (out_fold, rows) = folded(queries), folded(rows)
            form = replace(form, q_fold=q_fold, out_fold=out_fold)
        given = (queries, keys, values, *call.numbers(), *extra.given(call), rows, sums)
        program(kernels.dense, form)(*given)
    return out, lse


def attention(
    q: Any, k: Any, v: Any, *, layout: str = "bshd", return_lse: bool = False, **options: Any
) -> Any:
    """Attention of q [B, S, H, D] over k and v [B, keys, Hk, D], or, with the layout "bhsd", with
    heads before tokens; with `return_lse`, (o, lse), where lse [B, S, H] is in the same order.

    Options are those of `attention_varlen` without `splits` and `batch_invariant`: a sequence has
    the same bits whatever else is in the batch. Two more are tensors over (B, H, S, keys), or with
    1 instead of some of these: `bias`, which is added to scores after a soft cap, and `mask`, bytes
    or bools that are 0 where a query does not see a key.
    """
    found = _dense(q, k, v, layout=layout, **options)
    return found if return_lse else found[0]


@operator(
    "attention_varlen(Tensor q, Tensor k, Tensor v, Tensor cu_q, Tensor cu_k, SymInt max_q,"
    f" SymInt max_k, {OPTIONS}",
    gradients.packed,
)
def attention_varlen(
    q: Any,
    k: Any,
    v: Any,
    cu_q: Any,
    cu_k: Any,
    max_q: int,
    max_k: int,
    sinks: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    alibi: Any = None,
    **options: Any,
) -> tuple[Any, Any]:
    """(o, lse) of packed sequences: q [tokens, H, D], k and v [tokens, Hk, D], of which sequence s
    has the rows `cu_q[s]` to `cu_q[s + 1]` of q, and likewise of k and v.

    `max_q` and `max_k` are upper bounds of lengths. Options: `causal` (key j <= i + keys -
    queries), `window` (left, right) around that, `scale`, `softcap`, `sinks` [H], `alibi` [H]
    (a score loses this much for each position between query and key), `splits`, `batch_invariant`
    (the same bits whatever else is in the batch), `k_scale` and `v_scale` for keys of 8 bits,
    `out`, `lse`. Rows that see no key are 0 and -inf.
    """
    options |= dict(sinks=sinks, k_scale=k_scale, v_scale=v_scale, alibi=alibi)
    call, cu_k = packed_call(q, k, v, cu_q, cu_k, max_q, max_k, options)
    return call.run(kernels.packed, 0, call.q_ends, cu_k)


@operator(
    "attention_paged(Tensor q, Tensor k_cache, Tensor v_cache, Tensor block_table,"
    " Tensor seq_lens, Tensor query_start_loc, SymInt max_q, SymInt max_k,"
    f" {OPTIONS}"
)
def attention_paged(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    block_table: Any,
    seq_lens: Any,
    query_start_loc: Any,
    max_q: int,
    max_k: int,
    sinks: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    alibi: Any = None,
    **options: Any,
) -> tuple[Any, Any]:
    """(o, lse) of sequences whose keys are in pages: decoding, chunks of a prompt, verification.

    The caches are [pages, tokens of a page, Hk, D]; row s of `block_table` has the pages of
    sequence s, and `seq_lens[s]` its length with the new tokens, which are the last. Its queries
    are the rows from `query_start_loc[s]` on. Options are those of `attention_varlen`.
    """
    options |= dict(sinks=sinks, k_scale=k_scale, v_scale=v_scale, alibi=alibi)
    call = call_of(q, k_cache, v_cache, query_start_loc, max_q, max_k, options)
    table, lengths = tensor("block_table", block_table), tensor("seq_lens", seq_lens)
    index = element_type("query_start_loc", call.q_ends, ("i32", "i64"))
    element_type("seq_lens", lengths, (index.name,))
    element_type("block_table", table, ("i32",))
    if len(call.k.shape) != 4 or call.k.shape[1] < 1:
        found = tuple(call.k.shape)
        raise ValueError(f"`k_cache` has the shape {found}, expected (pages, page, heads, D)")
    if len(table.shape) != 2:
        raise ValueError(f"`block_table` has {len(table.shape)} dimensions, expected 2")
    expect_shape("seq_lens", lengths, table.shape[:1])
    call.check(table.shape[0])
    return call.run(kernels.paged, call.k.shape[1], call.q_ends, lengths, table)


def mla_decode(
    q: Any,
    cache: Any,
    block_table: Any,
    seq_lens: Any,
    query_start_loc: Any,
    max_q: int,
    max_k: int,
    *,
    dv: int = 512,
    **options: Any,
) -> tuple[Any, Any]:
    """(o, lse) of attention with latent keys: q [tokens, H, D] over one cache [pages, tokens of a
    page, D], whose first `dv` columns are the values.

    Other arguments and options are those of `attention_paged`.
    """
    cache = tensor("cache", cache)
    if len(cache.shape) != 3:
        raise ValueError(f"`cache` has the shape {tuple(cache.shape)}, expected (pages, page, D)")
    if not 1 <= dv <= cache.shape[2]:
        raise ValueError(f"`dv` is {dv}, expected 1 to the columns of `cache`, {cache.shape[2]}")
    keys = cache[:, :, None]
    lengths = (seq_lens, query_start_loc, max_q, max_k)
    return attention_paged(q, keys, keys[..., :dv], block_table, *lengths, **options)


@operator(
    "merge_state(Tensor o_a, Tensor lse_a, Tensor o_b, Tensor lse_b)"
    " -> (Tensor out, Tensor lse)"
)
def merge_state(
    o_a: Any, lse_a: Any, o_b: Any, lse_b: Any, *, out: Any = None, lse: Any = None
) -> tuple[Any, Any]:
    """(o, lse) over all keys from results [tokens, H, D] over two parts of them, with their
    log-sum-exps [tokens, H]. A part without keys has the log-sum-exp -inf."""
    o_a, o_b = tensor("o_a", o_a), tensor("o_b", o_b)
    lse_a, lse_b = tensor("lse_a", lse_a), tensor("lse_b", lse_b)
    dtype = element_type("o_a", o_a, FLOATS)
    element_type("o_b", o_b, (dtype.name,))
    if len(o_a.shape) != 3:
        raise ValueError(f"`o_a` has the shape {tuple(o_a.shape)}, expected (tokens, heads, D)")
    expect_shape("o_b", o_b, o_a.shape)
    for name, given in (("lse_a", lse_a), ("lse_b", lse_b)):
        element_type(name, given, ("f32",))
        expect_shape(name, given, o_a.shape[:2])
    inputs = (lse_a, o_b, lse_b)
    out = result("out", out, o_a, o_a.shape, dtype, *inputs)
    lse = result("lse", lse, o_a, o_a.shape[:2], tkl.f32, *inputs, out)
    if not is_empty(o_a):
        program(kernels.merge, dtype, o_a.shape[2])(o_a, lse_a, o_b, lse_b, out, lse)
    return out, lse


@operator(
    "kv_append(Tensor k, Tensor v, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor slots, *,"
    " Tensor? k_scale=None, Tensor? v_scale=None) -> ()"
)
def kv_append(
    k: Any,
    v: Any,
    k_cache: Any,
    v_cache: Any,
    slots: Any,
    *,
    k_scale: Any = None,
    v_scale: Any = None,
) -> None:
    """Stores k and v [tokens, Hk, D] in caches [pages, tokens of a page, Hk, D]: token t at
    `slots[t]`, which counts tokens through all pages. Tokens with a negative slot are skipped.

    With scales, k / k_scale and v / v_scale are stored, rounded to a cache of 8-bit floats.
    """
    slots = tensor("slots", slots)
    index = element_type("slots", slots, ("i32", "i64"))
    rows = []
    for name, x, cache, scale in (("k", k, k_cache, k_scale), ("v", v, v_cache, v_scale)):
        rows.append((name, *_append_arguments(name, x, cache, scale, slots)))
    for name, x, cache, scale in rows:
        if not is_empty(x) and not is_empty(cache):
            types = (wave_dtype(x.dtype), wave_dtype(cache.dtype), index)
            key = (*types, cache.shape[1], cache.shape[3], scale is not None)
            each = scales_of(f"{name}_scale", scale, cache.shape[2], x)
            program(kernels.append, *key)(x, slots, each, cache)


def _append_arguments(name: str, x: Any, cache: Any, scale: Any, slots: Any) -> tuple[Any, ...]:
    """The arguments of `kv_append` for keys or for values, checked."""
    x, cache = tensor(name, x), tensor(f"{name}_cache", cache)
    dtype = element_type(name, x, FLOATS)
    if len(x.shape) != 3:
        raise ValueError(f"`{name}` has the shape {tuple(x.shape)}, expected (tokens, heads, D)")
    if len(cache.shape) != 4:
        found = tuple(cache.shape)
        raise ValueError(f"`{name}_cache` has the shape {found}, expected (pages, page, heads, D)")
    expect_shape(f"{name}_cache", cache, (*cache.shape[:2], *x.shape[1:]))
    expect_shape("slots", slots, x.shape[:1])
    element_type(f"{name}_cache", cache, (dtype.name,) if scale is None else KEY_TYPES[3:])
    if overlap(x, cache):
        raise ValueError(f"`{name}_cache` shares memory with `{name}`")
    scale = None if scale is None else tensor(f"{name}_scale", scale)
    scales_of(f"{name}_scale", scale, cache.shape[2], x)
    return x, cache, scale
