"""Attention over sequences of the same length or of different ones, and what belongs to it: keys in
pages, merging of results, appending to a cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from wave_lang.kernel import lang as tkl

from . import attention_kernels as kernels
from .operators import operator
from .programs import program
from .tensors import *

KEY_TYPES = (*FLOATS, "f8e4m3fn", "f8e5m2")
CHUNK = 1024  # keys of a split that does not depend on the batch
KEYS_OF_SPLIT = 256  # at least
ENOUGH_WORKGROUPS = 264  # two for each multiprocessor of a large GPU
MOST_SPLITS = 16
OPTIONS = (
    "Tensor? sinks=None, Tensor? k_scale=None, Tensor? v_scale=None, *, bool causal=False,"
    " int[2] window=[-1, -1], float? scale=None, float softcap=0.0, int? splits=None,"
    " bool batch_invariant=False) -> (Tensor out, Tensor lse)"
)


@dataclass(frozen=True)
class Call:
    """The arguments that all forms of attention have."""

    q: Any
    k: Any
    v: Any
    q_ends: Any
    max_q: int
    max_k: int
    causal: bool
    window: tuple[int, int]
    scale: float | None
    softcap: float
    sinks: Any
    k_scale: Any
    v_scale: Any
    splits: int | None
    batch_invariant: bool
    out: Any
    lse: Any

    @property
    def heads(self) -> tuple[int, int]:
        return self.q.shape[-2], self.k.shape[-2]

    def check(self, sequences: int) -> None:
        if len(self.q.shape) != 3:
            found = tuple(self.q.shape)
            raise ValueError(f"`q` has the shape {found}, expected (tokens, heads, D)")
        expect_shape("cu_q", self.q_ends, (sequences + 1,))
        self.check_heads()

    def check_heads(self) -> None:
        """Checks what does not depend on where sequences begin."""
        dtype = element_type("q", self.q, FLOATS)
        narrow = element_type("k", self.k, KEY_TYPES)
        element_type("v", self.v, (narrow.name,))
        if narrow.name in FLOATS and narrow != dtype:
            raise TypeError(f"`k` has elements of type {narrow}, expected {dtype} or 8-bit floats")
        if self.k.shape[-1] != self.q.shape[-1]:
            raise ValueError(f"`k` has heads of {self.k.shape[-1]}, expected {self.q.shape[-1]}")
        expect_shape("v", self.v, (*self.k.shape[:-1], self.v.shape[-1]))
        heads, kv_heads = self.heads
        if kv_heads == 0 or heads % kv_heads or heads == 0:
            raise ValueError(f"`q` has {heads} heads, expected a multiple of the {kv_heads} of `k`")
        if self.sinks is not None:
            element_type("sinks", self.sinks, ("f32",))
            expect_shape("sinks", self.sinks, (heads,))
        self.check_numbers()

    def check_numbers(self) -> None:
        for name, value in (("max_q", self.max_q), ("max_k", self.max_k)):
            if value < 0:
                raise ValueError(f"`{name}` is {value}, expected at least 0")
        if len(self.window) != 2 or min(self.window) < -1:
            raise ValueError(f"`window` is {self.window}, expected (left, right), each -1 or more")
        if not self.softcap >= 0:
            raise ValueError(f"`softcap` is {self.softcap}, expected at least 0")
        if self.splits is not None and not 1 <= self.splits <= 256:
            raise ValueError(f"`splits` is {self.splits}, expected 1 to 256")
        if (self.k_scale is None) != (self.v_scale is None):
            raise ValueError("`k_scale` and `v_scale` are given together, or not at all")

    def rows(self) -> int:
        """Rows of a tile: few if no sequence has many."""
        heads, kv_heads = self.heads
        most = self.max_q * (heads // kv_heads)
        return 16 if most <= 16 else 64 if most <= 256 else 128

    def split_count(self, sequences: int) -> int:
        """How many parts the keys of a sequence are divided into; 0: they are not. It depends on
        the number of sequences, unless results must not, and on no data."""
        if self.batch_invariant:
            return max(-(-self.max_k // CHUNK), 1)
        if self.splits is not None:
            return self.splits if self.splits > 1 else 0
        heads, kv_heads = self.heads
        tiles = -(-self.max_q * (heads // kv_heads) // self.rows())
        workgroups = max(sequences * kv_heads * tiles, 1)
        most = min(self.max_k // KEYS_OF_SPLIT, MOST_SPLITS, -(-ENOUGH_WORKGROUPS // workgroups))
        return most if most > 1 else 0

    def form(self, splits: bool, page: int) -> kernels.Form:
        left, right = self.window
        right = min(right, 0) if self.causal and right >= 0 else 0 if self.causal else right
        dtype = wave_dtype(self.q.dtype)
        return kernels.Form(
            dtype=dtype,
            key_dtype=wave_dtype(self.k.dtype),
            index=tkl.i32 if self.q_ends is None else wave_dtype(self.q_ends.dtype),
            heads=self.heads[0],
            kv_heads=self.heads[1],
            size=self.q.shape[-1],
            columns=self.v.shape[-1],
            page=page,
            rows=self.rows(),
            splits=splits,
            chunk=CHUNK if self.batch_invariant else 0,
            single=self.max_q <= 1 and right == 0,
            left=left,
            right=right,
            cap=float(self.softcap),
            scales=self.k_scale is not None,
            sinks=self.sinks is not None,
            dense=self.q_ends is None,
        )

    def numbers(self) -> tuple[Any, ...]:
        """What kernels take after keys and lengths: the longest sequence, scales and sinks."""
        heads, kv_heads = self.heads
        scale = self.q.shape[-1] ** -0.5 if self.scale is None else self.scale
        given = {"k_scale": self.k_scale, "v_scale": self.v_scale}
        scales = [_scales(name, x, kv_heads, self.q) for name, x in given.items()]
        sinks = new_tensor(self.q, (heads,), tkl.f32) if self.sinks is None else self.sinks
        return self.max_q, scale, *scales, sinks

    def results(self, *more: Any) -> tuple[Any, Any]:
        """The tensors for the result and its log-sum-exp, apart from the arguments and `more`."""
        shape, inputs = tuple(self.q.shape[:-1]), (self.k, self.v, self.q_ends, *more)
        dtype = wave_dtype(self.q.dtype)
        out = result("out", self.out, self.q, (*shape, self.v.shape[-1]), dtype, *inputs)
        return out, result("lse", self.lse, self.q, shape, tkl.f32, *inputs, out)

    def run(self, make: Any, page: int, *keys: Any) -> tuple[Any, Any]:
        """Launches the kernel and, if there are splits, the one that combines them."""
        sequences = self.q_ends.shape[0] - 1
        tokens, heads, columns = self.q.shape[0], self.heads[0], self.v.shape[-1]
        out, lse = self.results(*keys)
        if is_empty(self.q) or sequences == 0 or self.max_q == 0:
            return out, lse
        splits = self.split_count(sequences)
        form = self.form(splits > 0, page)
        parts, sums = out, lse
        if splits:
            parts = new_tensor(self.q, (splits, tokens, heads, columns), tkl.f32)
            sums = new_tensor(self.q, (splits, tokens, heads), tkl.f32)
        program(make, form)(self.q, self.k, self.v, *keys, *self.numbers(), parts, sums)
        if splits:
            both = program(kernels.combine, form.dtype, form.index, heads, columns)
            both(parts, sums, self.q_ends, out, lse)
        return out, lse


def _scales(name: str, given: Any, heads: int, like: Any) -> Any:
    """A scale for each key head: one for all of them is repeated. Without scales, a tensor that no
    kernel reads."""
    if given is None:
        return new_tensor(like, (heads,), tkl.f32)
    element_type(name, given, ("f32",))
    if tuple(given.shape) not in ((), (1,), (heads,)):
        raise ValueError(f"`{name}` has the shape {tuple(given.shape)}, expected () or ({heads},)")
    return repeated(given, (heads,))


def call_of(q: Any, k: Any, v: Any, q_ends: Any, max_q: int, max_k: int, given: dict) -> Call:
    known = dict(causal=False, window=(-1, -1), scale=None, softcap=0.0, sinks=None)
    known |= dict(k_scale=None, v_scale=None, splits=None, batch_invariant=False)
    known |= dict(out=None, lse=None)
    for name in given:
        if name not in known:
            raise TypeError(f"`{name}` is not an argument of attention")
    known |= given
    for name in ("sinks", "k_scale", "v_scale"):
        known[name] = None if known[name] is None else tensor(name, known[name])
    ends = None if q_ends is None else tensor("cu_q", q_ends)
    tensors = (tensor("q", q), tensor("k", k), tensor("v", v), ends)
    return Call(*tensors, max_q, max_k, **known)


@operator(
    "attention(Tensor q, Tensor k, Tensor v, Tensor? sinks=None, Tensor? k_scale=None,"
    " Tensor? v_scale=None, *, bool causal=False, int[2] window=[-1, -1], float? scale=None,"
    " float softcap=0.0, str layout='bshd') -> (Tensor out, Tensor lse)"
)
def _dense(
    q: Any,
    k: Any,
    v: Any,
    sinks: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    *,
    layout: str = "bshd",
    **options: Any,
) -> tuple[Any, Any]:
    options |= dict(sinks=sinks, k_scale=k_scale, v_scale=v_scale)
    call = call_of(q, k, v, None, 0, 0, options)
    if layout not in ("bshd", "bhsd"):
        raise ValueError(f"`layout` is {layout!r}, expected 'bshd' or 'bhsd'")
    for name, x in (("q", call.q), ("k", call.k)):
        if len(x.shape) != 4:
            raise ValueError(f"`{name}` has the shape {tuple(x.shape)}, expected ({layout})")
    expect_shape("v", call.v, (*call.k.shape[:-1], call.v.shape[-1]))
    out, lse = call.results()
    order = lambda x: x.swapaxes(1, 2) if layout == "bhsd" else x
    q, k, v = (order(x) for x in (call.q, call.k, call.v))
    expect_shape("k", k, (q.shape[0], *k.shape[1:]))
    call = replace(call, q=q, k=k, v=v, max_q=q.shape[1], max_k=k.shape[1])
    call.check_heads()
    if not is_empty(q):
        kernel = program(kernels.dense, call.form(False, 0))
        kernel(q, k, v, *call.numbers(), order(out), order(lse))
    return out, lse


def attention(
    q: Any, k: Any, v: Any, *, layout: str = "bshd", return_lse: bool = False, **options: Any
) -> Any:
    """Attention of q [B, S, H, D] over k and v [B, keys, Hk, D], or, with the layout "bhsd", with
    heads before tokens; with `return_lse`, (o, lse), where lse [B, S, H] is in the same order.

    Options are those of `attention_varlen` without `splits` and `batch_invariant`: a sequence has
    the same bits whatever else is in the batch.
    """
    found = _dense(q, k, v, layout=layout, **options)
    return found if return_lse else found[0]


@operator(
    "attention_varlen(Tensor q, Tensor k, Tensor v, Tensor cu_q, Tensor cu_k, SymInt max_q,"
    f" SymInt max_k, {OPTIONS}"
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
    **options: Any,
) -> tuple[Any, Any]:
    """(o, lse) of packed sequences: q [tokens, H, D], k and v [tokens, Hk, D], of which sequence s
    has the rows `cu_q[s]` to `cu_q[s + 1]` of q, and likewise of k and v.

    `max_q` and `max_k` are upper bounds of lengths. Options: `causal` (key j <= i + keys -
    queries), `window` (left, right) around that, `scale`, `softcap`, `sinks` [H], `splits`,
    `batch_invariant` (the same bits whatever else is in the batch), `k_scale` and `v_scale` for
    keys of 8 bits, `out`, `lse`. Rows that see no key are 0 and -inf.
    """
    options |= dict(sinks=sinks, k_scale=k_scale, v_scale=v_scale)
    call = call_of(q, k, v, cu_q, max_q, max_k, options)
    cu_k = tensor("cu_k", cu_k)
    index = element_type("cu_q", call.q_ends, ("i32", "i64"))
    element_type("cu_k", cu_k, (index.name,))
    if len(call.k.shape) != 3:
        raise ValueError(f"`k` has the shape {tuple(call.k.shape)}, expected (tokens, heads, D)")
    if len(cu_k.shape) != 1 or cu_k.shape[0] < 1:
        raise ValueError(f"`cu_k` has the shape {tuple(cu_k.shape)}, expected (sequences + 1,)")
    call.check(cu_k.shape[0] - 1)
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
    **options: Any,
) -> tuple[Any, Any]:
    """(o, lse) of sequences whose keys are in pages: decoding, chunks of a prompt, verification.

    The caches are [pages, tokens of a page, Hk, D]; row s of `block_table` has the pages of
    sequence s, and `seq_lens[s]` its length with the new tokens, which are the last. Its queries
    are the rows from `query_start_loc[s]` on. Options are those of `attention_varlen`.
    """
    options |= dict(sinks=sinks, k_scale=k_scale, v_scale=v_scale)
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
            each = _scales(f"{name}_scale", scale, cache.shape[2], x)
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
    _scales(f"{name}_scale", scale, cache.shape[2], x)
    return x, cache, scale
