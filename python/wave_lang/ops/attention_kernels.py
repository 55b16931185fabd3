"""Kernels of attention over sequences of the same length, and over those of different lengths, whose
keys are packed or in pages.

A workgroup has rows of one sequence and of the query heads that share a key head: row r is token
r // group and head r % group of them. So a single token of many heads fills a tile as well as many
tokens of one head do. The keys that its rows see may be divided into splits, whose results a second
kernel combines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave.templates.attention_loop import (
    LOG2_E,
    LOWEST,
    MOST_ROUGH,
    Attention,
    capped,
    combine_splits,
)
from wave_lang.kernel.wave.templates.attention_tiles import columns_of, keys_of

from .programs import is_cpu, machine_here
from .quantize import nearest

TOKEN, H, D, D_KV, D_REST, H_KV, ROW, N_KV, ENDS = (
    getattr(sym, name) for name in "TOKEN H D D_KV D_REST H_KV ROW N_KV ENDS".split()
)
SPLIT, KEY, PAGE, IN_PAGE, PAGE_NUMBER, ALL_KEYS, ALL_TOKENS, ALL_HEADS, ALL_KEY_HEADS = (
    getattr(sym, name)
    for name in "SPLIT KEY PAGE IN_PAGE PAGE_NUMBER ALL_KEYS ALL_TOKENS ALL_HEADS ALL_KEY_HEADS".split()
)
Q_START, Q_LENGTH, K_FIRST, K_START, LENGTH, SEEN, FIRST = (
    getattr(sym, name) for name in "Q_START Q_LENGTH K_FIRST K_START LENGTH SEEN FIRST".split()
)
MAX_Q = sym.MAX_Q
BLOCK_ROW, BLOCK_N_KV, BLOCK_D_KV = sym.BLOCK_ROW, sym.BLOCK_N_KV, sym.BLOCK_D_KV
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
MMA = tkw.MMAType.F32_16x16x16_F16

_i, _j, _k, _l = (tkw.IndexMapping.iterator(n) for n in range(4))
_next = tkw.IndexMapping(1, inputs={ENDS: _i + 1}, outputs={ENDS: _i})


def bent(x: Any, rough: bool) -> Any:
    """tanh(x), or, if that suffices, with an absolute error of 2^-21."""
    return tkw.tanh_approx(x) if rough else tkw.tanh(x)


@dataclass(frozen=True)
class Form:
    """What a kernel is compiled for. Types are of q, keys and offsets."""

    dtype: Any
    key_dtype: Any
    index: Any
    heads: int
    kv_heads: int
    size: int
    columns: int
    page: int  # tokens in a page; 0: keys are packed
    rows: int  # tile
    keys: int  # at most, of an iteration
    splits: bool  # as many as the scratch memory of their results is for
    chunk: int  # keys of a split; 0: the splits of a sequence have equal parts
    single: bool  # one token per sequence, which sees all keys that the loop visits
    left: int  # how many keys before a token it sees; -1: all
    right: int
    cap: float
    scales: bool
    sinks: bool
    dense: bool = False  # tensors have a dimension for sequences
    fold: str = ""  # which dimension of dense keys and values has those of all sequences, if any
    q_fold: str = ""  # and of queries and
    out_fold: str = ""  # of results, if key heads are not shared
    alibi: bool = False
    bias: Any = None  # type of what is added to scores, in dense attention
    mask: bool = False
    positive: bool = False  # the scale is; times LOG2_E, at most 1
    waves: int = 4
    lanes: int = 64  # threads of a wave
    latent: bool = False  # values are the first columns of keys in pages, and copied once
    expected: int = 0  # about how many tokens and keys a dense sequence has; 0: not known

    @property
    def group(self) -> int:
        return self.heads // self.kv_heads

    @property
    def counted(self) -> bool:
        """Whether ENDS is the number of sequences, which a tensor other than offsets has."""
        return self.dense or self.page > 0

    @property
    def plain(self) -> bool:
        """Scores are products times the scale, which is positive and does not make the lowest number,
        with which the maximum begins, infinite. In f32, where the difference of two rounded products
        would be seen, they are scaled before the maximum is subtracted."""
        others = self.cap or self.scales or self.sinks or self.dtype == tkl.f32
        return self.positive and not (others or self.adds)

    @property
    def adds(self) -> bool:
        """Whether something is added to scores."""
        return self.alibi or self.bias is not None

    @property
    def rough(self) -> bool:
        """Whether 2^-21 of the cap is less than the rounding of weights, which have 16 bits."""
        return self.dtype != tkl.f32 and self.cap <= MOST_ROUGH

    @property
    def bends(self) -> bool:
        """Whether the cap of scores is the last that becomes of them, so that what follows it is
        part of the exponent."""
        return self.cap > 0 and self.rough and not self.adds

    @property
    def product(self) -> Any:
        """The type of products. f16 has every 8-bit float, and the machine converts pairs of them to
        it; with many rows, bf16 queries are better left in shared memory."""
        narrow = self.key_dtype.bitwidth() == 8 and self.dtype == tkl.bf16
        return tkl.f16 if narrow and self.rows < 64 else self.dtype

    @property
    def shift(self) -> int:
        """Of weights: f16 has fewer small numbers than bf16."""
        return 15 if self.product != self.dtype else 0

    @property
    def masked(self) -> bool:
        return not self.single and (self.left >= 0 or self.right >= 0)


def constraints_of(form: Form) -> list[Any]:
    tiles = tkl.ceiling((TOKEN if form.dense else MAX_Q) * form.group / BLOCK_ROW)
    visited = tkl.ceiling((N_KV - FIRST) / BLOCK_N_KV)
    few = form.rows < 64 or form.latent
    return [
        tkw.WorkgroupConstraint(ROW, BLOCK_ROW, 0, iters=tiles),
        tkw.WorkgroupConstraint(SPLIT, 1, 1),
        tkw.WorkgroupConstraint(H_KV, 1, 2),
        tkw.WorkgroupConstraint(D_KV, BLOCK_D_KV, 3),
        tkw.WorkgroupConstraint(ENDS, 1, 4, iters=ENDS if form.counted else ENDS - 1),
        tkw.TilingConstraint(N_KV, BLOCK_N_KV, iters=visited, start=FIRST),
        # Waves share the keys of an iteration if there are rows for one of them only, or if the sums
        # of all columns need the registers of all waves.
        tkw.WaveConstraint(N_KV, BLOCK_N_KV / form.waves)
        if few
        else tkw.WaveConstraint(ROW, BLOCK_ROW / form.waves),
        tkw.HardwareConstraint(
            threads_per_wave=form.lanes, mma_type=MMA, vector_shapes={H_KV: 0, ENDS: 0, SPLIT: 0}
        ),
    ]


def key_parts(form: Form) -> dict[Any, int]:
    """The dimensions that the columns of keys are divided into, and where they begin."""
    if not form.latent:
        return {D: 0}
    return {D_KV: 0, D_REST: form.columns} if form.columns < form.size else {D_KV: 0}


def _row_place(form: Form, fold: str) -> dict[Any, Any]:
    """Where row j of key head i is in a tensor of rows that is folded like this."""
    token, head = Q_START + _j // form.group, _i * form.group + _j % form.group
    if fold == "tokens":
        return {ALL_TOKENS: WORKGROUP_4 * TOKEN + token, H: head}
    if fold:
        return {TOKEN: token, ALL_HEADS: WORKGROUP_4 * form.heads + head}
    return {**({ENDS: WORKGROUP_4} if form.dense else {}), TOKEN: token, H: head}


def _row_memory(form: Form, fold: str, columns: Any, dtype: Any) -> Any:
    """The type of such a tensor. With three dimensions, the copy engine moves tiles of it."""
    end = (columns, GLOBAL, dtype)
    if fold == "tokens":
        return tkl.Memory[(ALL_TOKENS, H, *end, tkl.MemoryLayout(shape=[ENDS * TOKEN, H, columns]))]
    if fold:
        layout = tkl.MemoryLayout(shape=[TOKEN, ENDS * H, columns])
        return tkl.Memory[(TOKEN, ALL_HEADS, *end, layout)]
    return tkl.Memory[(*([ENDS] if form.dense else []), TOKEN, H, *end)]


def _mappings(form: Form) -> tuple[Any, Any, Any]:
    """Where the parts of q, results and logarithms of sums are."""
    q_of = [
        tkw.IndexMapping(
            3,
            inputs={**_row_place(form, form.q_fold), D: _k + first},
            outputs={H_KV: _i, ROW: _j, d: _k},
        )
        for d, first in key_parts(form).items()
    ]
    split = {SPLIT: WORKGROUP_1} if form.splits else {}
    here, there = ({**split, **_row_place(form, fold)} for fold in ("", form.out_fold))
    out_of = tkw.IndexMapping(
        3, inputs={H_KV: _i, ROW: _j, D_KV: _k}, outputs={**there, D_KV: _k}
    )
    return q_of, out_of, tkw.IndexMapping(2, inputs={H_KV: _i, ROW: _j}, outputs=here)


def take_queries(form: Form, ends: Any) -> None:
    """Sets Q_START and Q_LENGTH to the queries of this workgroup's sequence."""
    if form.dense:
        tkw.set_symbol(Q_START, tkw.scalar(0, form.index))
        tkw.set_symbol(Q_LENGTH, tkw.scalar(TOKEN, form.index))
    else:
        first = tkw.read(ends)
        tkw.set_symbol(Q_START, first)
        tkw.set_symbol(Q_LENGTH, tkw.read(ends, mapping=_next) - first)


def take_packed(form: Form, ends: Any) -> None:
    """Sets K_START and LENGTH to the keys of this workgroup's sequence, which are not in pages."""
    if form.dense:
        tkw.set_symbol(LENGTH, tkw.scalar(KEY, form.index))
    else:
        first = tkw.read(ends)
        tkw.set_symbol(K_FIRST, first)
        tkw.set_symbol(LENGTH, tkw.read(ends, mapping=_next) - first)
        # Known not to be negative, so that keys are copied by TMA.
        tkw.set_symbol(K_START, tkw.scalar(tkl.Max(K_FIRST, 0), form.index))


def end_of_loop(form: Form, first: Any, end: Any, exists: Any) -> Any:
    """The end of a loop over `first` to `end`, or over nothing if the workgroup has no rows or keys:
    there are workgroups for the longest sequence. All of those of dense attention have some."""
    return end if form.dense else tkl.Piecewise((end, exists), (first, True))


def take_keys(form: Form, index: Any) -> None:
    """Sets FIRST and N_KV to the first key that this workgroup's loop visits and the one after the
    last: what its rows see, and of that this split's part."""
    first_token = WORKGROUP_0 * BLOCK_ROW // form.group
    last_token = ((WORKGROUP_0 + 1) * BLOCK_ROW - 1) // form.group
    before = LENGTH - Q_LENGTH
    first = tkl.Max(before + first_token - form.left, 0) if form.left >= 0 else 0
    end = tkl.Min(before + last_token + form.right + 1, LENGTH) if form.right >= 0 else LENGTH
    end = end_of_loop(form, first, end, first_token < Q_LENGTH)
    split = WORKGROUP_1
    if form.chunk:
        first = tkl.Max(first, split * form.chunk)
        end = tkl.Max(first, tkl.Min(end, (split + 1) * form.chunk))
    elif form.splits:
        whole = tkl.Max(end - first, 0)
        first, end = (first + whole * part // SPLIT for part in (split, split + 1))
    if first != 0:  # not negative, also where the number above is too large for its type
        tkw.set_symbol(SEEN, tkw.scalar(first, index))
        first = tkl.Max(SEEN, 0)
    tkw.set_symbol(FIRST, tkw.scalar(first, index))
    tkw.set_symbol(N_KV, tkw.scalar(end, index))


def _positions(form: Form, both: Any) -> tuple[Any, Any]:
    """The keys that rows are at, and those of the tile."""
    row = tkw.self_index(ROW, tkl.i64) // form.group
    row = tkw.broadcast(row + tkw.scalar(LENGTH - Q_LENGTH, tkl.i64), both)
    return row, tkw.broadcast(tkw.self_index(N_KV, tkl.i64), both)


def visible_keys(form: Form, both: Any = (ROW, N_KV)) -> Any:
    """Which keys a row sees, of those that exist."""
    row, key = _positions(form, list(both))
    seen = []
    if form.right >= 0:
        seen.append(key <= row + form.right)
    if form.left >= 0:
        seen.append(key >= row - form.left)
    return seen[0] if len(seen) == 1 else seen[0] & seen[1]


def seen_until(form: Form) -> dict[Any, Any] | None:
    """Where the keys begin that a row does not see, for `until`. None: it sees all."""
    if not form.masked or form.right < 0:
        return None
    return {ROW: _i // form.group + LENGTH - Q_LENGTH + form.right + 1}


class Extra:
    """What is added to scores, and which of them count, over `dims`: H_KV, ROW and N_KV."""

    def __init__(self, form: Form, dims: Any, sequence: Any):
        self.form, self.dims = form, list(dims)
        here = dict(zip(self.dims, (_i, _j, _k)))
        row, head = here[ROW], _i * form.group + here[ROW] % form.group
        place = {ENDS: sequence, H: head, TOKEN: row // form.group, KEY: here[N_KV]}
        self.of = tkw.IndexMapping(3, inputs=place, outputs=here)
        self.to = tkw.IndexMapping(3, inputs=here, outputs=place)
        head = _i * form.group + _j % form.group
        self.head_of = tkw.IndexMapping(2, inputs={H: head}, outputs={H_KV: _i, ROW: _j})

    def added(self, slopes: Any, bias: Any) -> Any:
        """To exponents of 2; None: nothing."""
        form, total = self.form, None
        if form.alibi:
            row, key = _positions(form, self.dims[1:])
            behind = tkw.cast(row - key, tkl.f32)
            slope = tkw.read(slopes, mapping=self.head_of) * -LOG2_E
            far = tkw.broadcast(tkw.maximum(behind, -behind), self.dims)
            total = far * tkw.broadcast(slope, self.dims)
        if form.bias is not None:
            given = tkw.read(bias, mapping=self.of)
            given = given if form.bias == tkl.f32 else tkw.cast(given, tkl.f32)
            total = given * LOG2_E if total is None else total + given * LOG2_E
        return total

    def visible(self, mask: Any, masked: bool) -> Any:
        """None: all keys."""
        seen = visible_keys(self.form, self.dims[1:]) if masked else None
        if not self.form.mask:
            return seen
        given = tkw.cast(tkw.read(mask, mapping=self.of), tkl.i1)
        return given if seen is None else given & tkw.broadcast(seen, self.dims)


def _halves(parts: list[Any]) -> tuple[list[Any], Any]:
    """Rows in f16, multiplied by powers of two with which the largest element of a row is about
    2**8, and the powers that undo that."""
    values = [tkw.cast(part, tkl.f32) for part in parts]
    largest = tkw.register([H_KV, ROW], tkl.f32, 0.0)
    for value, dim in zip(values, (D_KV, D_REST) if len(parts) > 1 else (D,)):
        largest = tkw.max(tkw.abs(value), largest, dim=dim)
    field = (tkw.bitcast(largest, tkl.i32) >> 23) & 255
    there, back = 254 + 8 - field, field - 8
    there = tkw.bitcast(tkw.minimum(there, field * 0 + 254) << 23, tkl.f32)
    back = tkw.bitcast(tkw.maximum(back, field * 0) << 23, tkl.f32)
    return [tkw.cast(value * there, tkl.f16) for value in values], back


class Body:
    """What the kernels for packed keys and for pages have in common."""

    def __init__(self, form: Form):
        self.form = form
        self.q_of, self.out_of, self.sum_of = _mappings(form)
        self.extra = Extra(form, [H_KV, ROW, N_KV], WORKGROUP_4)

    def start(self, attention: Attention, sinks: Any) -> list[Any]:
        """A sink is a key whose value is 0: the first split has it. One of -inf is none."""
        state = attention.start()
        if not self.form.sinks:
            return state
        sink = attention.before_factor(tkw.read(sinks, mapping=self.extra.head_of) * LOG2_E)
        first = tkl.Piecewise((1, tkl.Eq(WORKGROUP_1, 0)), (0, True))
        here = tkw.register([H_KV, ROW], tkl.i32, first) > tkw.register([H_KV, ROW], tkl.i32, 0)
        low = tkw.register([H_KV, ROW], tkl.f32, attention.lowest)
        one = tkw.register([H_KV, ROW], tkl.f32, 2.0**self.form.shift)
        here = here & (sink > low)
        return [tkw.select(here, sink, low), tkw.select(here, one, one * 0.0), state[2]]

    def scores(self, scale: Any, k_scale: Any, back: Any = None) -> dict[str, Any]:
        """The arguments of `Attention` for scores with scales that are known at run time, and for each
        row if `back` is given."""
        form, dims = self.form, [H_KV, ROW, N_KV]
        factor = tkw.broadcast(scale, [H_KV])
        factor = factor * tkw.read(k_scale) if form.scales else factor
        factor = factor if back is None else tkw.broadcast(factor, [H_KV, ROW]) * back
        if form.plain:
            return {"factor": factor * LOG2_E}
        times = LOG2_E if not form.cap else -2 * LOG2_E / form.cap if form.bends else 1 / form.cap
        factor = factor * times
        scaled = lambda products: products * tkw.broadcast(factor, dims)
        if form.bends:
            return capped(form.cap, scaled)
        if form.cap:
            top = form.cap * LOG2_E
            return {"scores": lambda products: bent(scaled(products), form.rough) * top}
        return {"scores": scaled}

    def write_sums(self, log_sum: Any, sums: Any) -> None:
        """One of the workgroups that divide the columns writes them."""

        def write() -> None:
            tkw.write(log_sum, sums, mapping=self.sum_of)

        if symbols_of(self.form)[BLOCK_D_KV] < self.form.columns:
            tkw.conditional(WORKGROUP_3 < 1)(write)
        else:
            write()

    def run(
        self,
        *given: Any,
        lengths: Any,
        keys: Any,
        values: Any,
        slopes: Any,
        bias: Any = None,
        mask: Any = None,
    ) -> None:
        """`lengths` sets LENGTH and K_START; `keys` reads those of an iteration, in parts, and
        `values` reads the values, or takes them from the keys."""
        q, ends, scale, out, sums, k_scale, v_scale, sinks = given
        form = self.form
        take_queries(form, ends)
        lengths()
        tkw.set_symbol(ROW, tkw.scalar(Q_LENGTH * form.group, form.index))
        take_keys(form, form.index)
        rows, back = [tkw.read(q, mapping=of) for of in self.q_of], None
        if form.product != form.dtype:
            rows, back = _halves(rows)
        scores = self.scores(scale, k_scale, back)
        kinds = ([H_KV], ROW, N_KV, D_KV, form.product, MMA)
        attention = Attention(*kinds, shift=form.shift, **scores)

        @tkw.iterate(N_KV, init_args=self.start(attention, sinks), until=seen_until(form))
        def loop(*state):
            seen, added = self.extra.visible(mask, form.masked), self.extra.added(slopes, bias)
            key = keys()
            return attention.step(state, rows, key, values(key), seen, added)

        result, log_sum = attention.result(loop), attention.log_sum(loop)
        if form.scales:
            result = result * tkw.broadcast(tkw.read(v_scale), [H_KV, D_KV, ROW])
        kept = tkl.f32 if form.splits else form.dtype
        self.write_sums(log_sum if form.splits else log_sum * (1 / LOG2_E), sums)
        tkw.write(tkw.cast(result, kept), out, mapping=self.out_of)


class Types:
    def __init__(self, form: Form):
        outer = [ENDS] if form.dense else []
        split = [SPLIT, *outer] if form.splits else outer
        kept = tkl.f32 if form.splits else form.dtype
        self.q = _row_memory(form, form.q_fold, D, form.dtype)
        each = [ENDS + 1 if form.counted else ENDS]
        self.ends = tkl.Memory[ENDS, GLOBAL, form.index, tkl.MemoryLayout(shape=each)]
        self.out = tkl.Memory[(*split, TOKEN, H, D_KV, GLOBAL, kept)]
        if form.out_fold:
            self.out = _row_memory(form, form.out_fold, D_KV, kept)
        self.sums = tkl.Memory[(*split, TOKEN, H, GLOBAL, tkl.f32)]
        self.scales = tkl.Memory[H_KV, GLOBAL, tkl.f32]
        self.sinks = tkl.Memory[H, GLOBAL, tkl.f32]
        self.bias = tkl.Memory[ENDS, H, TOKEN, KEY, GLOBAL, form.bias or tkl.f32]
        self.mask = tkl.Memory[ENDS, H, TOKEN, KEY, GLOBAL, tkl.i8]


def _converted(form: Form, value: Any) -> Any:
    """Keys and values of a narrow type are converted to that of products."""
    return value if form.key_dtype == form.product else tkw.cast(value, form.product)


def _keys_of(form: Form, columns: int) -> int:
    """The keys of an iteration."""
    if form.latent:
        return 64
    if is_cpu() and form.rows >= 64 and not form.page:
        return 128  # Sapphire Rapids, heads of 128, f32: 24 ms; 36 with 64, 42 with 16
    if form.dtype == tkl.f32 and form.rows >= 64 and not is_cpu():
        return 16  # without a matrix instruction, a thread holds all keys of an iteration
    return keys_of(form.size, columns, form.dtype, form.keys, machine_here())


def symbols_of(form: Form) -> dict[Any, Any]:
    columns = form.columns if form.latent else columns_of(form.columns)
    return {
        H: form.heads,
        H_KV: form.kv_heads,
        D: form.size,
        D_KV: form.columns,
        **({} if form.splits else {SPLIT: 1}),
        BLOCK_ROW: form.rows,
        BLOCK_N_KV: _keys_of(form, columns),
        BLOCK_D_KV: columns,
        **({D_REST: form.size - form.columns} if form.latent else {}),
    }


def key_place(form: Form, columns: Any, sequence: Any = WORKGROUP_4) -> dict[Any, Any]:
    """Where the element (head i, key j, column k) of keys or values that are not in pages is."""
    if form.fold == "tokens":
        return {ALL_KEYS: sequence * KEY + _j, H_KV: _i, columns: _k}
    if form.fold == "heads":
        return {KEY: _j, ALL_KEY_HEADS: sequence * form.kv_heads + _i, columns: _k}
    outer = {ENDS: sequence, KEY: _j} if form.dense else {KEY: _j + K_START}
    return {**outer, H_KV: _i, columns: _k}


def key_memory(form: Form, columns: Any, space: Any = SHARED) -> Any:
    """The type of keys or values that are not in pages. Those of dense attention have three
    dimensions where strides allow: TMA copies rows that end inside a tensor of at most so many."""
    end = (columns, space, form.key_dtype)
    if form.fold == "tokens":
        return tkl.Memory[(ALL_KEYS, H_KV, *end, tkl.MemoryLayout(shape=[ENDS * KEY, H_KV, columns]))]
    if form.fold == "heads":
        layout = tkl.MemoryLayout(shape=[KEY, ENDS * H_KV, columns])
        return tkl.Memory[(KEY, ALL_KEY_HEADS, *end, layout)]
    outer = [ENDS] if form.dense else []
    return tkl.Memory[(*outer, KEY, H_KV, *end)]


def keys_at(form: Form) -> list[Any]:
    """Where keys and values are."""
    return [
        tkw.IndexMapping(3, inputs=key_place(form, d), outputs={H_KV: _i, N_KV: _j, d: _k})
        for d in (D, D_KV)
    ]


def packed(form: Form) -> Any:
    """`packed(q, k, v, q_ends, k_ends, max_q, scale, k_scale, v_scale, sinks, slopes,
    out, sums)`."""
    body, t = Body(form), Types(form)
    k_of, v_of = keys_at(form)

    @tkw.wave(constraints_of(form))
    def attention_packed(
        q: t.q,
        k: key_memory(form, D),
        v: key_memory(form, D_KV),
        q_ends: t.ends,
        k_ends: t.ends,
        MAX_Q: tkl.SymbolBind[tkl.i32],
        scale: tkl.f32,
        k_scale: t.scales,
        v_scale: t.scales,
        sinks: t.sinks,
        slopes: t.sinks,
        out: t.out,
        sums: t.sums,
    ):
        lengths = lambda: take_packed(form, k_ends)
        keys = lambda: [_converted(form, tkw.read(k, mapping=k_of))]
        values = lambda keys: _converted(form, tkw.read(v, mapping=v_of))
        given = (q, q_ends, scale, out, sums, k_scale, v_scale, sinks)
        body.run(*given, lengths=lengths, keys=keys, values=values, slopes=slopes)

    return attention_packed, symbols_of(form), [TOKEN, KEY, ENDS] + [SPLIT] * form.splits


def dense(form: Form) -> Any:
    """`dense(q, k, v, max_q, scale, k_scale, v_scale, sinks, slopes, bias, mask, out, sums)`:
    tensors begin with the dimension of sequences, which have the same length."""
    body, t = Body(form), Types(form)
    k_of, v_of = keys_at(form)

    @tkw.wave(constraints_of(form))
    def attention(
        q: t.q,
        k: key_memory(form, D),
        v: key_memory(form, D_KV),
        MAX_Q: tkl.SymbolBind[tkl.i32],
        scale: tkl.f32,
        k_scale: t.scales,
        v_scale: t.scales,
        sinks: t.sinks,
        slopes: t.sinks,
        bias: t.bias,
        mask: t.mask,
        out: t.out,
        sums: t.sums,
    ):
        lengths = lambda: take_packed(form, None)
        keys = lambda: [_converted(form, tkw.read(k, mapping=k_of))]
        values = lambda keys: _converted(form, tkw.read(v, mapping=v_of))
        given = (q, None, scale, out, sums, k_scale, v_scale, sinks)
        more = {"slopes": slopes, "bias": bias, "mask": mask}
        body.run(*given, lengths=lengths, keys=keys, values=values, **more)

    sizes = {TOKEN: form.expected, KEY: form.expected} if form.expected else {}
    return attention, symbols_of(form), [TOKEN, KEY, ENDS], {"expected_sizes": sizes}


def paged(form: Form) -> Any:
    """`paged(q, k, v, q_ends, seq_lens, table, max_q, …)`, and so on as for `packed`."""
    body, t = Body(form), Types(form)
    page = tkw.IndexMapping.dynamic_val(0)
    table_of = tkw.IndexMapping(
        2, inputs={ENDS: _i, PAGE: _j // form.page}, outputs={ENDS: _i, N_KV: _j}
    )
    length_of = tkw.IndexMapping(1, inputs={ENDS: _i}, outputs={ENDS: _i})


    def place(memory_columns, columns, first=0):
        at = {PAGE_NUMBER: page, IN_PAGE: _j % form.page, H_KV: _i, memory_columns: _k + first}
        here = {H_KV: _i, N_KV: _j, columns: _k}
        return tkw.IndexMapping(3, at, here, dynamic_val_mappings=({N_KV: _j},))

    k_of = [place(D, d, first) for d, first in key_parts(form).items()]
    v_of = place(D_KV, D_KV)

    @tkw.wave(constraints_of(form))
    def attention_paged(
        q: t.q,
        k: tkl.Memory[PAGE_NUMBER, IN_PAGE, H_KV, D, SHARED, form.key_dtype],
        v: tkl.Memory[PAGE_NUMBER, IN_PAGE, H_KV, D_KV, SHARED, form.key_dtype],
        q_ends: t.ends,
        seq_lens: tkl.Memory[ENDS, GLOBAL, form.index],
        table: tkl.Memory[ENDS, PAGE, GLOBAL, tkl.i32],
        MAX_Q: tkl.SymbolBind[tkl.i32],
        scale: tkl.f32,
        k_scale: t.scales,
        v_scale: t.scales,
        sinks: t.sinks,
        slopes: t.sinks,
        out: t.out,
        sums: t.sums,
    ):
        def lengths():
            tkw.set_symbol(LENGTH, tkw.read(seq_lens, mapping=length_of))

        def read(memory, mapping):
            number = tkw.read(table, mapping=table_of)
            found = tkw.read(memory, mapping=mapping, mapping_dynamic_vals=(number,))
            return _converted(form, found)

        keys = lambda: [read(k, of) for of in k_of]
        values = lambda keys: keys[0] if form.latent else read(v, v_of)
        given = (q, q_ends, scale, out, sums, k_scale, v_scale, sinks)
        body.run(*given, lengths=lengths, keys=keys, values=values, slopes=slopes)

    subs = symbols_of(form) | {IN_PAGE: form.page}
    return attention_paged, subs, [TOKEN, ENDS, PAGE_NUMBER, PAGE] + [SPLIT] * form.splits


def combine(dtype: Any, index: Any, heads: int, columns: int) -> Any:
    """`combine(parts, part_sums, q_ends, out, sums)`: the results of splits, of the tokens that
    sequences have."""
    constraints = [
        tkw.WorkgroupConstraint(TOKEN, 1, 0),
        tkw.WorkgroupConstraint(H, 1, 1),
        tkw.WorkgroupConstraint(D_KV, D_KV, 2),
        tkw.TilingConstraint(SPLIT, 1),
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={TOKEN: 0, H: 0, SPLIT: 0}),
    ]
    first_of, last_of = (
        tkw.IndexMapping(1, inputs={ENDS: end}, outputs={TOKEN: _i}) for end in (_i * 0, ENDS - 1)
    )

    @tkw.wave(constraints)
    def combine(
        parts: tkl.Memory[SPLIT, TOKEN, H, D_KV, GLOBAL, tkl.f32],
        part_sums: tkl.Memory[SPLIT, TOKEN, H, GLOBAL, tkl.f32],
        q_ends: tkl.Memory[ENDS, GLOBAL, index],
        out: tkl.Memory[TOKEN, H, D_KV, GLOBAL, dtype],
        sums: tkl.Memory[TOKEN, H, GLOBAL, tkl.f32],
    ):
        tkw.set_symbol(TOKEN, tkw.read(q_ends, mapping=last_of))
        tkw.set_symbol(FIRST, tkw.read(q_ends, mapping=first_of))
        mean, log_sum = combine_splits(parts, part_sums, SPLIT, [TOKEN, H], [TOKEN, H, D_KV])

        @tkw.conditional(WORKGROUP_0 >= FIRST)
        def of_a_sequence():
            tkw.write(tkw.cast(mean, dtype), out)
            tkw.write(log_sum / LOG2_E, sums)

    return combine, {H: heads, D_KV: columns}, [SPLIT, TOKEN, ENDS]


def merge(dtype: Any, columns: int) -> Any:
    """`merge(a, a_sums, b, b_sums, out, sums)`: two results over different keys as one."""
    constraints = [
        tkw.WorkgroupConstraint(TOKEN, 1, 0),
        tkw.WorkgroupConstraint(H, 1, 1),
        tkw.WorkgroupConstraint(D_KV, D_KV, 2),
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={TOKEN: 0, H: 0}),
    ]
    rows = tkl.Memory[TOKEN, H, D_KV, GLOBAL, dtype]
    each = tkl.Memory[TOKEN, H, GLOBAL, tkl.f32]

    @tkw.wave(constraints)
    def merge(a: rows, a_sums: each, b: rows, b_sums: each, out: rows, sums: each):
        sum_a, sum_b = tkw.read(a_sums), tkw.read(b_sums)
        # The larger one is finite, so that -inf is not subtracted from -inf.
        larger = tkw.maximum(tkw.maximum(sum_a, sum_b), tkw.register([TOKEN, H], tkl.f32, LOWEST))
        one, two = tkw.exp(sum_a - larger), tkw.exp(sum_b - larger)
        total, zero = one + two, tkw.register([TOKEN, H], tkl.f32, 0.0)
        share = tkw.select(total > zero, tkw.reciprocal(total), zero)
        parts = []
        for part, weight in ((a, one), (b, two)):
            # Of a part without keys, results may be anything.
            here = tkw.broadcast(weight > zero, [TOKEN, H, D_KV])
            value = tkw.cast(tkw.read(part), tkl.f32)
            value = tkw.select(here, value, tkw.register(value.shape, tkl.f32, 0.0))
            parts.append(value * (weight * share))
        tkw.write(tkw.cast(parts[0] + parts[1], dtype), out)
        tkw.write(larger + tkw.log(total), sums)

    return merge, {D_KV: columns}, [TOKEN, H]


def append(dtype: Any, cache_dtype: Any, index: Any, page: int, size: int, scales: bool) -> Any:
    """`append(x, slots, scale, cache)`: row t of x goes to slot `slots[t]` of the cache."""
    slot = tkw.IndexMapping.dynamic_val(0)
    place = tkw.IndexMapping(
        3,
        inputs={TOKEN: _i, H_KV: _j, D: _k},
        outputs={PAGE_NUMBER: slot // page, IN_PAGE: slot % page, H_KV: _j, D: _k},
        dynamic_val_mappings=({TOKEN: _i},),
    )
    constraints = [
        tkw.WorkgroupConstraint(TOKEN, 1, 0),
        tkw.WorkgroupConstraint(H_KV, 1, 1),
        tkw.WorkgroupConstraint(D, D, 2),
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={TOKEN: 0, H_KV: 0}),
    ]

    @tkw.wave(constraints)
    def append(
        x: tkl.Memory[TOKEN, H_KV, D, GLOBAL, dtype],
        slots: tkl.Memory[TOKEN, GLOBAL, index],
        scale: tkl.Memory[H_KV, GLOBAL, tkl.f32],
        cache: tkl.Memory[PAGE_NUMBER, IN_PAGE, H_KV, D, GLOBAL, cache_dtype],
    ):
        value = tkw.read(x)
        if scales:
            stored = tkw.cast(value, tkl.f32) / tkw.broadcast(tkw.read(scale), [TOKEN, H_KV, D])
            value = nearest(stored, cache_dtype)
        tkw.write(value, cache, mapping=place, mapping_dynamic_vals=(tkw.read(slots),))

    return append, {IN_PAGE: page, D: size}, [TOKEN, H_KV, PAGE_NUMBER]
