"""The arguments that all forms of attention have: checked, and as those of kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from wave_lang.kernel import lang as tkl

from . import attention_kernels as kernels
from .programs import MULTIPROCESSORS, has_large_tiles, has_warpgroups, is_cpu, program
from .tensors import *

KEY_TYPES = (*FLOATS, "f8e4m3fn", "f8e5m2")
CHUNK = 1024  # keys of a split that does not depend on the batch
KEYS_OF_SPLIT = 256  # at least
ENOUGH_WORKGROUPS = 2 * MULTIPROCESSORS
MOST_SPLITS = 16


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
    alibi: Any
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
        if self.v.shape[-1] == 0:
            raise ValueError("`v` has heads of 0, expected at least 1")
        heads, kv_heads = self.heads
        if kv_heads == 0 or heads % kv_heads or heads == 0:
            raise ValueError(f"`q` has {heads} heads, expected a multiple of the {kv_heads} of `k`")
        for name, given in (("sinks", self.sinks), ("alibi", self.alibi)):
            if given is not None:
                element_type(name, given, ("f32",))
                expect_shape(name, given, (heads,))
        self.check_numbers()

    def check_numbers(self) -> None:
        for name, value in (("max_q", self.max_q), ("max_k", self.max_k)):
            if value < 0:
                raise ValueError(f"`{name}` is {value}, expected at least 0")
        if len(self.window) != 2 or min(self.window) < -1:
            raise ValueError(f"`window` is {self.window}, expected (left, right), each -1 or more")
        if not 0 <= self.softcap < math.inf:
            raise ValueError(f"`softcap` is {self.softcap}, expected a finite number of at least 0")
        if self.splits is not None and not 1 <= self.splits <= 256:
            raise ValueError(f"`splits` is {self.splits}, expected 1 to 256")
        if (self.k_scale is None) != (self.v_scale is None):
            raise ValueError("`k_scale` and `v_scale` are given together, or not at all")

    @property
    def latent(self) -> bool:
        """Whether one copy of the keys serves as values, too. The sums of all columns are then in
        the registers of one workgroup."""
        size, columns = self.q.shape[-1], self.v.shape[-1]
        fit = columns % 64 == 0 and (size - columns) % 16 == 0 and 256 < columns <= 512
        narrow = wave_dtype(self.k.dtype).name in ("f16", "bf16")
        fit = fit and columns <= size <= 576 and self.rows() >= 64
        return fit and narrow and has_warpgroups() and is_start(self.v, self.k)

    def rows(self) -> int:
        """Rows of a tile: few if no sequence has many, or if a row has many sums. With small heads
        a tile of more rows reads fewer keys for each (H200, 4 x 4096 tokens, heads of 64: 256 rows
        take 1283 us and 192 take 1349; causal, 32768 tokens in sequences of 1024: 256 rows take 232 us
        and 128 take 233; of 2048: 379 and 391; of 4096: 682 and 711). Long sequences have tiles of 192 rows
        by 128 keys, whose last rows are empty (8192 tokens: 2455 to 2249 us, causal 1319 to 1262; 2048: 641
        and 648)."""
        most = self.most_rows()
        if wave_dtype(self.q.dtype) == tkl.f32 and self.q.shape[-1] > 256:
            return 16  # without a matrix instruction, more are too many elements for a thread
        if self.batch_invariant:  # the longest sequence must not decide in which order keys are added
            return 64
        if is_cpu() and most <= 8:  # keys and values are read in place
            return max(1 << int(most - 1).bit_length(), 1)
        if most <= 256 or self.v.shape[-1] > 256:
            return 16 if most <= 16 else 64
        if max(self.q.shape[-1], self.v.shape[-1]) > 64 or not self.fills_machine(256):
            return 128
        return 192 if self.is_long() else 256

    def is_long(self) -> bool:
        """Whether dense sequences have so many rows and keys that fewer instructions for each count more than the
        rows that the last tile of a sequence lacks."""
        least = 8192 if self.causal else 4096
        return self.q_ends is None and min(self.most_rows(), self.max_k) >= least

    def most_rows(self) -> int:
        """Rows of the longest sequence, for each head of keys."""
        heads, kv_heads = self.heads
        return self.max_q * (heads // kv_heads)

    def fills_machine(self, rows: int) -> bool:
        """Whether a Hopper GPU has work for all multiprocessors with tiles of that many rows of 16
        bits."""
        if not has_warpgroups() or wave_dtype(self.q.dtype) == tkl.f32:
            return False
        sequences = self.q.shape[0] if self.q_ends is None else self.q_ends.shape[0] - 1
        return sequences * self.heads[1] * (self.most_rows() // rows) >= ENOUGH_WORKGROUPS

    def keys(self) -> int:
        """Keys of an iteration, at most. With 128, half as many exchanges between waves are needed
        where shared memory has room for them; with small heads, two workgroups of 64 keys fit
        where one of 128 does."""
        many = self.rows() in (16, 192) or self.q.shape[-1] >= 128
        many = many and not self.batch_invariant
        return 128 if many and has_large_tiles() and not self.paired() else 64

    def paired(self) -> bool:
        """Whether two workgroups of few waves share a multiprocessor, so that one computes while the
        other waits: if there are enough of them."""
        if self.rows() > 16 or self.q_ends is None or not has_large_tiles():
            return False
        sequences = self.q_ends.shape[0] - 1
        number = sequences * self.heads[1] * max(self.split_count(sequences), 1)
        return number >= ENOUGH_WORKGROUPS

    def single_waves(self, page: int) -> bool:
        """Whether two such workgroups have waves of 32 threads, each with keys of its own and all rows, so
        that waves exchange less, and need more registers. Measured for narrow keys in pages, which take
        long to convert (H200, 64 x 4096 keys: 150 us, 183 where two waves share keys)."""
        small = max(self.q.shape[-1], self.v.shape[-1]) <= 128
        narrow = wave_dtype(self.k.dtype).bitwidth() == 8
        return page > 0 and small and narrow and self.paired()

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
        enough = -(-ENOUGH_WORKGROUPS // workgroups)
        if self.latent:  # one workgroup needs the shared memory of a multiprocessor
            enough = ENOUGH_WORKGROUPS // 2 // workgroups
        most = min(self.max_k // KEYS_OF_SPLIT, MOST_SPLITS, enough)
        return most if most > 1 else 0

    def expected(self, left: int, right: int) -> int:
        """For how many keys a kernel is compiled, a power of two, if that may matter: where the compiler
        decides whether workgroups compute tiles of several rows, one after another."""
        matters = self.q_ends is None and right <= 0 and left < 0 and self.rows() > 64
        return 1 << max(self.max_k - 1, 0).bit_length() if matters and has_warpgroups() else 0

    def form(self, splits: bool, page: int) -> kernels.Form:
        left, right = self.window
        right = min(right, 0) if self.causal and right >= 0 else 0 if self.causal else right
        dtype, rows, keys = wave_dtype(self.q.dtype), self.rows(), self.keys()
        single = self.single_waves(page)
        if page and rows > 64:  # H200, 16 x (2048 + 512) tokens: 824 us, with 128 keys 899
            rows, keys = 128, 64
        return kernels.Form(
            dtype=dtype,
            key_dtype=wave_dtype(self.k.dtype),
            index=tkl.i32 if self.q_ends is None else wave_dtype(self.q_ends.dtype),
            heads=self.heads[0],
            kv_heads=self.heads[1],
            size=self.q.shape[-1],
            columns=self.v.shape[-1],
            page=page,
            rows=rows,
            keys=keys,
            splits=splits,
            chunk=CHUNK if self.batch_invariant else 0,
            single=self.max_q <= 1 and right == 0,
            left=left,
            right=right,
            cap=float(self.softcap),
            scales=self.k_scale is not None,
            sinks=self.sinks is not None,
            dense=self.q_ends is None,
            alibi=self.alibi is not None,
            positive=0 < self.factor() * kernels.LOG2_E <= 1,
            latent=page > 0 and self.latent,
            expected=self.expected(left, right),
            waves=2 if self.paired() and not single else max(rows // 32, 4),
            lanes=32 if single else 64,
        )

    def factor(self) -> float:
        """The scale of products."""
        return self.q.shape[-1] ** -0.5 if self.scale is None else self.scale

    def numbers(self) -> tuple[Any, ...]:
        """The longest sequence, scales, sinks and slopes, as kernels take them after keys."""
        heads, kv_heads = self.heads
        scale = self.factor()
        given = {"k_scale": self.k_scale, "v_scale": self.v_scale}
        scales = [scales_of(name, x, kv_heads, self.q) for name, x in given.items()]
        none = new_tensor(self.q, (heads,), tkl.f32)  # not read
        each = (none if x is None else x for x in (self.sinks, self.alibi))
        return self.max_q, scale, *scales, *each

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


LAYOUTS = ("bshd", "bhsd")


def in_order(layout: str, x: Any) -> Any:
    """A tensor with sequences first, then tokens, then heads."""
    return x.swapaxes(1, 2) if layout == "bhsd" else x


def dense_call(q: Any, k: Any, v: Any, layout: str, given: dict) -> Call:
    """The call for tensors with four dimensions, in the order of kernels. `out` and `lse` are made
    before, in the order of the layout, if they are not given."""
    call = call_of(q, k, v, None, 0, 0, given)
    if layout not in LAYOUTS:
        raise ValueError(f"`layout` is {layout!r}, expected 'bshd' or 'bhsd'")
    for name, x in (("q", call.q), ("k", call.k)):
        if len(x.shape) != 4:
            dims = "heads, tokens" if layout == "bhsd" else "tokens, heads"
            found = tuple(x.shape)
            raise ValueError(f"`{name}` has the shape {found}, expected (batch, {dims}, D)")
    expect_shape("v", call.v, (*call.k.shape[:-1], call.v.shape[-1]))
    q, k, v = (in_order(layout, x) for x in (call.q, call.k, call.v))
    expect_shape("k", k, (q.shape[0], *k.shape[1:]))
    call = replace(call, q=q, k=k, v=v, max_q=q.shape[1], max_k=k.shape[1])
    call.check_heads()
    return call


def folded(*tensors: Any) -> tuple[Any, ...]:
    """The dimension that has those of all sequences in views of these tensors with three dimensions, and
    the views; "" and the tensors, which are in the order of kernels, if strides allow none."""
    for fold, first in (("tokens", 0), ("heads", 1)):
        views = [merged(x.swapaxes(0, first), first) for x in tensors]
        if all(x is not None for x in views):
            return fold, *views
    return "", *tensors


MASK_TYPES = ("i8", "u8", "bool")


@dataclass(frozen=True)
class Extra:
    """What is added to scores of dense attention, and which of them count: tensors over (sequences,
    heads, queries, keys), or those of `form` that no kernel reads."""

    bias: Any
    mask: Any

    def of_form(self, form: kernels.Form) -> kernels.Form:
        bias = None if self.bias is None else wave_dtype(self.bias.dtype)
        return replace(form, bias=bias, mask=self.mask is not None)

    def given(self, call: Call) -> tuple[Any, Any]:
        shape = scores_shape(call)
        none = lambda dtype: repeated(new_tensor(call.q, (1, 1, 1, 1), dtype), shape)
        bias = none(tkl.f32) if self.bias is None else self.bias
        return bias, none(tkl.i8) if self.mask is None else self.mask


def scores_shape(call: Call) -> tuple[int, ...]:
    return call.q.shape[0], call.heads[0], call.q.shape[1], call.k.shape[1]


def extra_of(call: Call, bias: Any, mask: Any) -> Extra:
    """The arguments `bias` and `mask`, repeated over dimensions in which they have one element."""
    shape, found = scores_shape(call), {}
    types = (wave_dtype(call.q.dtype).name, "f32")
    for name, x, allowed in (("bias", bias, types), ("mask", mask, MASK_TYPES)):
        found[name] = None if x is None else _repeated(name, tensor(name, x), allowed, shape)
    return Extra(**found)


def _repeated(name: str, x: Any, allowed: Any, shape: tuple[int, ...]) -> Any:
    element_type(name, x, allowed)
    if len(x.shape) != 4 or any(n not in (1, all) for n, all in zip(x.shape, shape)):
        found = tuple(x.shape)
        raise ValueError(f"`{name}` has the shape {found}, expected {shape}, or 1 in some of these")
    return repeated(bytes_of(x) if name == "mask" else x, shape)


def packed_call(
    q: Any, k: Any, v: Any, cu_q: Any, cu_k: Any, max_q: int, max_k: int, given: dict
) -> tuple[Call, Any]:
    """The call for packed sequences, and the ends of their keys."""
    call = call_of(q, k, v, cu_q, max_q, max_k, given)
    cu_k = tensor("cu_k", cu_k)
    index = element_type("cu_q", call.q_ends, ("i32", "i64"))
    element_type("cu_k", cu_k, (index.name,))
    if len(call.k.shape) != 3:
        raise ValueError(f"`k` has the shape {tuple(call.k.shape)}, expected (tokens, heads, D)")
    if len(cu_k.shape) != 1 or cu_k.shape[0] < 1:
        raise ValueError(f"`cu_k` has the shape {tuple(cu_k.shape)}, expected (sequences + 1,)")
    call.check(cu_k.shape[0] - 1)
    return call, cu_k


def scales_of(name: str, given: Any, heads: int, like: Any) -> Any:
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
    known |= dict(alibi=None, out=None, lse=None)
    for name in given:
        if name not in known:
            raise TypeError(f"`{name}` is not an argument of attention")
    known |= given
    for name in ("sinks", "alibi", "k_scale", "v_scale"):
        known[name] = None if known[name] is None else tensor(name, known[name])
    ends = None if q_ends is None else tensor("cu_q", q_ends)
    tensors = (tensor("q", q), tensor("k", k), tensor("v", v), ends)
    return Call(*tensors, max_q, max_k, **known)
