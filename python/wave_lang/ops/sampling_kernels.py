"""Kernels that sample from long rows, each of which many workgroups read.

Values are at least 0 and less than 2, so that their bits are in their order. A histogram of these
bits finds the bin of a threshold; the elements of that bin are listed, and one workgroup for each
row searches the list. All sums whose order varies are integers: results do not depend on it.

    extremes    the largest and the smallest element of each part
    histogram   the number of values of each bin, and the sum of their bits' offsets in the bin
    choose      the bins of the thresholds
    collect     the sum of each part's values above the bins, and a list of the values in the bins
    draw        the thresholds, and a token; of probabilities: `rescale`, then `store`
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import *

from .programs import LOG2_E, LOWEST, M, N, f32_value, per_row

# A workgroup's own part, parts that a loop visits, bins, lists of many and of few values, items, steps
# of a search
P, Q, B, C, F, I, STEP = (getattr(sym, name) for name in "P Q B C F I STEP".split())
CHUNK, FIRST, NUMBER = sym.CHUNK, sym.FIRST, sym.NUMBER
S, L, AT = sym.S, sym.L, sym.AT  # runs of a part, values of a run, the run of a token
RUN = 64
GLOBAL = GLOBAL_ADDRESS_SPACE
NOWHERE = 2**31 - 1
LIMITS = {
    "temperature": tkl.f32,
    "top_k": tkl.i32,
    "top_p": tkl.f32,
    "min_p": tkl.f32,
    "seed": tkl.i64,
    "offset": tkl.i64,
}
FRACTION = 36  # bits after the point of a sum
ONE = 0x3F800000  # the bits of 1.0

# What `choose` finds for each row: a threshold is at least LOW and less than HIGH, or LOW if these
# are equal; top-k keeps REST values of its bin, and all values from TOP are kept.
ITEMS = 6
K_LOW, K_HIGH, K_REST, P_LOW, P_HIGH, TOP = range(ITEMS)
K_ABOVE, P_ABOVE = range(2)  # sums of the values from HIGH

_i, _j, _k = (tkw.IndexMapping.iterator(n) for n in range(3))
_x = tkw.IndexMapping.dynamic_val(0)


@dataclass(frozen=True)
class Form:
    """What kernels are compiled for."""

    dtype: Any
    columns: int | None  # the length of rows, if it is a multiple of a vector
    by_k: bool = False
    by_p: bool = False
    by_min: bool = False
    tensors: frozenset[str] = frozenset()  # limits with one for each row; others are numbers
    probabilities: bool = False  # values are given, not logits
    part: int = 4096  # elements that are added in f32
    parts: int = 4  # of a chunk, which has one histogram
    bins: int = 2048
    room: int = 4096  # values of a row that can be listed
    few: int = 512  # in a list that is searched by one element of each thread

    @property
    def widest(self) -> int:
        """The bits of the widest bins: values below 2**-63 of the largest share the last one. The
        sum of the offsets of a chunk has 32 bits."""
        return 30 - self.bins.bit_length()

    @property
    def limited(self) -> bool:
        return self.by_k or self.by_p

    def kind(self, name: str) -> Any:
        """The type of a limit."""
        dtype = LIMITS[name]
        return tkl.Memory[M, GLOBAL, dtype] if name in self.tensors else dtype

    def limit(self, name: str, given: Any) -> Any:
        """The limit of each row."""
        return tkw.read(given) if name in self.tensors else tkw.broadcast(given, [M])

    @property
    def symbols(self) -> tuple[dict[Any, Any], list[Any]]:
        fixed = {B: self.bins, C: self.room, F: self.few, I: ITEMS, S: self.part // RUN, L: RUN}
        if self.columns:
            parts = -(-self.columns // self.part)
            return {**fixed, N: self.columns, P: parts, Q: parts}, [M]
        return fixed, [M, N, P, Q]


def finite(value: Any) -> Any:
    """A tile in f32, at most its largest number: the difference of two infinities is NaN."""
    value = f32_value(value)
    return tkw.minimum(value, tkw.register(value.shape, tkl.f32, -LOWEST))


def inverse(heat: Any) -> Any:
    """The factor of exponents of 2 for a temperature above 0, whose reciprocal may be infinite."""
    return tkw.minimum(tkw.reciprocal(heat) * LOG2_E, tkw.register([M], tkl.f32, -LOWEST))


def _bits(value: Any) -> Any:
    return tkw.bitcast(value, tkl.i32)


def _fixed(value: Any) -> Any:
    """An f32 as a number of 2**-FRACTION."""
    return tkw.cast(value * 2.0**FRACTION, tkl.i64)


def _number(value: int, dtype: Any = tkl.i32) -> Any:
    return tkw.register([M], dtype, value)


def _item(memory: Any, at: int) -> Any:
    return tkw.read(memory, mapping=tkw.IndexMapping(1, inputs={M: _i, I: at}, outputs={M: _i}))


def _put(value: Any, memory: Any, at: int) -> None:
    tkw.write(value, memory, mapping=tkw.IndexMapping(1, inputs={M: _i}, outputs={M: _i, I: at}))


class Values:
    """The values of a row: probabilities relative to the largest, or scaled by a power of two."""

    def __init__(self, form: Form, x: Any, temperature: Any, most: Any):
        self.form, self.x, self.most = form, x, most
        zero = tkw.register([M], tkl.f32, 0.0)
        if form.probabilities:
            exponent = tkw.maximum(_bits(most) >> 23, _number(1))
            self.scale = tkw.bitcast((_number(254) - exponent) << 23, tkl.f32)
        else:
            heat = form.limit("temperature", temperature)
            self.factor = tkw.select(heat > zero, inverse(heat), zero)
            self.warm = tkw.select(heat > zero, zero + 1.0, zero)

    def of(self, x: Any, dims: list[Any]) -> Any:
        every = lambda value: value if dims == [M] else tkw.broadcast(value, dims)
        zero = tkw.register(dims, tkl.f32, 0.0)
        if self.form.probabilities:
            value = x * every(self.scale)
        else:
            below = x - every(self.most)
            value = tkw.exp2(below * every(self.factor))
            value = tkw.select(below < zero, value * every(self.warm), value)
        return tkw.select(value > zero, value, zero)  # not NaN

    def tile(self) -> Any:
        return self.of(finite(tkw.read(self.x)), [M, N])

    @property
    def largest(self) -> Any:
        """The bits of the largest value."""
        return _bits(self.of(self.most, [M])) if self.form.probabilities else _number(ONE)


def _over_parts(memory: Any, combine: Callable[..., Any], start: float) -> Any:
    """The extreme of the parts of a row."""

    @tkw.iterate(Q, init_args=[tkw.register([M], tkl.f32, start)])
    def loop(so_far):
        return combine(tkw.read(memory), so_far, dim=Q)

    return loop


def _constraints(tile: int, waves: int, *more: Any) -> list[Any]:
    """A workgroup for each tile of each row."""
    shapes = {M: 1, N: tile // waves, P: 1, Q: 64}
    return [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes=shapes),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(N, tile, 1),
        tkw.WaveConstraint(N, tile // waves),
        *more,
    ]


def extremes(form: Form) -> Any:
    """`extremes(x, temperature, most, other, counts, offsets, found)`: `other` is the smallest
    element of each part; if all values are kept, the sum of values relative to the largest of the
    part. Clears what later kernels count in."""

    @tkw.wave(
        _constraints(
            form.part,
            8,
            tkw.WorkgroupConstraint(P, 1, 1, primary=False),
            tkw.TilingConstraint(B, form.bins, iters=1),
        )
    )
    def extremes(
        x: tkl.Memory[M, N, GLOBAL, form.dtype],
        temperature: form.kind("temperature"),
        most: tkl.Memory[M, P, GLOBAL, tkl.f32],
        other: tkl.Memory[M, P, GLOBAL, tkl.f32],
        counts: tkl.Memory[M, B, GLOBAL, tkl.i32],
        offsets: tkl.Memory[M, B, GLOBAL, tkl.i64],
        found: tkl.Memory[M, GLOBAL, tkl.i32],
    ):
        here = finite(tkw.read(x))
        largest = tkw.max(here, tkw.register([M], tkl.f32, LOWEST), dim=N, block=True)
        tkw.write(largest, most)
        if not form.limited and not form.by_min:
            values = Values(form, x, temperature, largest)
            tkw.write(tkw.sum(values.of(here, [M, N]), dim=N, block=True), other)
        if form.limited:
            tkw.write(tkw.min(here, dim=N, block=True), other)

            @tkw.conditional(tkl.Eq(WORKGROUP_1, 0))
            def clear():
                tkw.write(_number(0), found)

                @tkw.iterate(B, init_args=[])
                def each():
                    tkw.write(tkw.register([M, B], tkl.i32, 0), counts)
                    if form.by_p:
                        tkw.write(tkw.register([M, B], tkl.i64, 0), offsets)

    return extremes, *form.symbols


def _shift(form: Form, values: Values, least: Any) -> Any:
    """The bits of a bin, so that the bins cover all values, or the largest ones."""
    span = values.largest - _bits(values.of(least, [M]))
    span = tkw.cast(span + (span >> 7) + 8, tkl.f32)
    needed = (_bits(span) >> 23) - 127 - (form.bins.bit_length() - 2)
    return tkw.minimum(tkw.maximum(needed, _number(0)), _number(form.widest))


def histogram(form: Form) -> Any:
    """`histogram(x, temperature, most, least, counts, offsets)`: a workgroup for each chunk."""
    bin_of = tkw.IndexMapping(
        2, inputs={M: 0, B: _x}, outputs={M: _i, N: _j}, dynamic_val_mappings=({M: _i, N: _j},)
    )
    used_of = tkw.IndexMapping(
        2, inputs={M: _i, B: _x}, outputs={M: _i, B: _j}, dynamic_val_mappings=({M: _i, B: _j},)
    )
    chunk = form.part * form.parts
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: form.part // 4, Q: 64}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(CHUNK, 1, 1, iters=tkl.ceiling(N / chunk)),
        tkw.TilingConstraint(N, form.part, iters=form.parts, start=WORKGROUP_1 * chunk),
        tkw.WaveConstraint(N, form.part // 4),
        tkw.TilingConstraint(Q, 64),
        tkw.TilingConstraint(B, form.bins, iters=1),
        tkw.WaveConstraint(B, form.bins // 2),
    ]

    @tkw.wave(constraints)
    def histogram(
        x: tkl.Memory[M, N, GLOBAL, form.dtype],
        temperature: form.kind("temperature"),
        most: tkl.Memory[M, Q, GLOBAL, tkl.f32],
        least: tkl.Memory[M, Q, GLOBAL, tkl.f32],
        counts: tkl.Memory[M, B, GLOBAL, tkl.i32],
        offsets: tkl.Memory[M, B, GLOBAL, tkl.i64],
    ):
        number = tkw.allocate((M, B), (1, form.bins), tkl.i32)
        offset = tkw.allocate((M, B), (1, form.bins), tkl.i32) if form.by_p else None

        @tkw.iterate(B, init_args=[])
        def clear():
            for memory in (number, offset):
                if memory is not None:
                    tkw.write(tkw.register([M, B], tkl.i32, 0), memory)

        values = Values(form, x, temperature, _over_parts(most, tkw.max, LOWEST))
        shift = _shift(form, values, _over_parts(least, tkw.min, -LOWEST))

        @tkw.iterate(N, init_args=[])
        def count():
            bits, each = _bits(values.tile()), per_row(shift)
            last = tkw.register([M, N], tkl.i32, form.bins - 1)
            to = tkw.minimum(per_row(values.largest >> shift) - (bits >> each), last)
            named: dict[str, Any] = dict(mapping=bin_of, mapping_dynamic_vals=(to,))
            tkw.atomic_add(tkw.register([M, N], tkl.i32, 1), number, **named)
            if offset is not None:
                tkw.atomic_add(bits - ((bits >> each) << each), offset, **named)

        @tkw.iterate(B, init_args=[])
        def add():
            here = tkw.read(number)
            at = tkw.broadcast(tkw.self_index(B, tkl.i32), [M, B])
            used = tkw.select(here > here * 0, at, here * 0 - 1)
            named: dict[str, Any] = dict(mapping=used_of, mapping_dynamic_vals=(used,))
            tkw.atomic_add(here, counts, **named)
            if offset is not None:
                wide = tkw.cast(tkw.bitcast(tkw.read(offset), tkl.u32), tkl.i64)
                tkw.atomic_add(wide, offsets, **named)

    return histogram, *form.symbols


def _masses(form: Form, values: Values, shift: Any, count: Any, offset: Any) -> Any:
    """The sum of the values of each bin, in fixed point: values of one exponent are multiples of a
    unit, so that it is exact except for one rounding down."""
    every = lambda value: tkw.broadcast(value, [M, B])
    at = tkw.broadcast(tkw.self_index(B, tkl.i32), [M, B])
    low = (every(values.largest >> shift) - at) << every(shift)
    up = (low >> 23) - (150 - FRACTION)
    mantissa = (low & 0x7FFFFF) | 0x800000
    units = tkw.cast(count, tkl.i64) * tkw.cast(mantissa, tkl.i64) + offset
    none = at * 0
    sign = up >= none
    left = tkw.cast(tkw.select(sign, up, none), tkl.i64)
    right = tkw.cast(tkw.select(sign, none, none - up), tkl.i64)
    some = at < none + (form.bins - 1)  # values of the last bin are too small
    return tkw.select(some, (units << left) >> right, units * 0)


def _share(whole: Any, share: Any) -> Any:
    """What the values that top-p keeps add up to: at least one of them is kept."""
    wanted = tkw.cast(tkw.cast(whole, tkl.f32) * share, tkl.i64)
    return tkw.maximum(wanted, _number(1, tkl.i64))


class Bins:
    """The bins of a row, [M, B] of counts and sums, and where their values begin."""

    def __init__(self, form: Form, values: Values, shift: Any):
        self.form, self.values, self.shift = form, values, shift
        self.at = tkw.broadcast(tkw.self_index(B, tkl.i32), [M, B])

    def first(self, reached: Any, limit: Any) -> Any:
        """The first bin for which `reached` holds, at most `limit`."""
        nowhere = self.at * 0 + NOWHERE
        return tkw.min(tkw.select(reached, self.at, nowhere), limit, dim=B, block=True)

    def item(self, of: Any, bin: Any) -> Any:
        here = self.at == tkw.broadcast(bin, [M, B])
        return tkw.sum(tkw.select(here, of, of * 0), dim=B, block=True)

    def low(self, bin: Any) -> Any:
        """The smallest bits of a bin; the last one has all that are smaller."""
        low = ((self.values.largest >> self.shift) - bin) << self.shift
        return tkw.select(bin < _number(self.form.bins - 1), low, _number(0))

    def high(self, bin: Any) -> Any:
        """The bits after those of a bin; a bin of one value needs no search."""
        top = self.values.largest >> self.shift
        exact = (self.shift == _number(0)) & (bin < _number(self.form.bins - 1))
        return tkw.select(exact, self.low(bin), (top - bin + 1) << self.shift)


def choose(form: Form) -> Any:
    """`choose(temperature, top_k, top_p, most, least, counts, offsets, items, sums)`: one
    workgroup for each row."""
    waves = 4  # each computes all sums of a scan
    shapes = {M: 1, B: form.bins // waves, Q: 64}
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes=shapes),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(B, form.bins, 1),
        tkw.WaveConstraint(B, form.bins // waves),
        tkw.TilingConstraint(Q, 64),
    ]
    per_part = tkl.Memory[M, Q, GLOBAL, tkl.f32]

    @tkw.wave(constraints)
    def choose(
        temperature: form.kind("temperature"),
        top_k: form.kind("top_k"),
        top_p: form.kind("top_p"),
        most: per_part,
        least: per_part,
        counts: tkl.Memory[M, B, GLOBAL, tkl.i32],
        offsets: tkl.Memory[M, B, GLOBAL, tkl.i64],
        items: tkl.Memory[M, I, GLOBAL, tkl.i32],
        sums: tkl.Memory[M, I, GLOBAL, tkl.i64],
    ):
        values = Values(form, None, temperature, _over_parts(most, tkw.max, LOWEST))
        shift = _shift(form, values, _over_parts(least, tkw.min, -LOWEST))
        bins = Bins(form, values, shift)
        count = tkw.read(counts)
        last, zero = _number(form.bins - 1), _number(0)
        k_bin, some, k_high = last, None, zero
        if form.by_k:
            number = form.limit("top_k", top_k)
            until = tkw.cumsum(count, dim=B, block=True)
            reached = until >= tkw.broadcast(number, [M, B])
            found = bins.first(reached, _number(NOWHERE))
            some = (number > zero) & (found < _number(NOWHERE))
            k_bin = tkw.select(some, found, last)
            k_high = tkw.select(some, bins.high(k_bin), zero)
            _put(tkw.select(some, bins.low(k_bin), zero), items, K_LOW)
            _put(k_high, items, K_HIGH)
            _put(number - bins.item(until - count, k_bin), items, K_REST)
        top = k_high
        if form.by_p:
            mass = _masses(form, values, shift, count, tkw.read(offsets))
            until = tkw.cumsum(mass, dim=B, block=True)
            whole = bins.item(until, k_bin)
            least_whole = whole
            if form.by_k:
                exact = bins.high(k_bin) == bins.low(k_bin)
                keeps_all = tkw.select(some, exact, zero == zero)
                without = tkw.select(keeps_all, whole * 0, bins.item(mass, k_bin))
                least_whole = whole - without
                _put(least_whole, sums, K_ABOVE)
            else:
                _put(whole, sums, K_ABOVE)
            share = form.limit("top_p", top_p)
            found = [
                bins.first(until >= tkw.broadcast(_share(total, share), [M, B]), k_bin)
                for total in (least_whole, whole)
            ]
            all_of_it = share >= tkw.register([M], tkl.f32, 1.0)
            high = tkw.select(all_of_it, zero, bins.high(found[0]))
            _put(tkw.select(all_of_it, zero, bins.low(found[1])), items, P_LOW)
            _put(high, items, P_HIGH)
            _put(bins.item(until - mass, found[0]), sums, P_ABOVE)
            top = tkw.select(all_of_it, k_high, high)
        _put(top, items, TOP)

    return choose, *form.symbols


def _least(form: Form, min_p: Any) -> Any:
    """The bits of the smallest value that min-p keeps."""
    return _bits(form.limit("min_p", min_p)) if form.by_min else _number(0)


def _either(a: Any, b: Any) -> Any:
    return a if b is None else b if a is None else a | b


def _within(bits: Any, items: Any, low: int, high: int, dims: list[Any]) -> Any:
    every = lambda item: tkw.broadcast(_item(items, item), dims)
    return (bits >= every(low)) & (bits < every(high))


def collect(form: Form) -> Any:
    """`collect(x, temperature, min_p, most, items, sums, found, listed)`: with the bits of each value,
    from bit 32 on, is the number of its part."""
    counter = tkw.IndexMapping(
        2, inputs={M: _x}, outputs={M: _i, N: _j}, dynamic_val_mappings=({M: _i, N: _j},)
    )
    slot = tkw.IndexMapping(
        2, inputs={M: _i, N: _j}, outputs={M: _i, C: _x}, dynamic_val_mappings=({M: _i, N: _j},)
    )
    own = tkw.WorkgroupConstraint(P, 1, 1, primary=False)

    @tkw.wave(_constraints(form.part, 8, own, tkw.TilingConstraint(Q, 64)))
    def collect(
        x: tkl.Memory[M, N, GLOBAL, form.dtype],
        temperature: form.kind("temperature"),
        min_p: form.kind("min_p"),
        most: tkl.Memory[M, Q, GLOBAL, tkl.f32],
        items: tkl.Memory[M, I, GLOBAL, tkl.i32],
        sums: tkl.Memory[M, P, GLOBAL, tkl.i64],
        found: tkl.Memory[M, GLOBAL, tkl.i32],
        listed: tkl.Memory[M, C, GLOBAL, tkl.i64],
    ):
        here = Values(form, x, temperature, _over_parts(most, tkw.max, LOWEST)).tile()
        bits, least = _bits(here), _least(form, min_p)
        if form.limited:
            least = tkw.maximum(least, _item(items, TOP))
        above = tkw.select(bits >= per_row(least), here, tkw.register([M, N], tkl.f32, 0.0))
        tkw.write(_fixed(tkw.sum(above, dim=N, block=True)), sums)
        if form.limited:
            in_k = _within(bits, items, K_LOW, K_HIGH, [M, N]) if form.by_k else None
            in_p = _within(bits, items, P_LOW, P_HIGH, [M, N]) if form.by_p else None
            wanted, nowhere = _either(in_k, in_p), bits * 0 - 1
            row = tkw.broadcast(tkw.self_index(M, tkl.i32), [M, N])
            to = tkw.select(wanted, row, nowhere)
            old = tkw.atomic_add(bits * 0 + 1, found, mapping=counter, mapping_dynamic_vals=(to,))
            to = tkw.select(wanted, old, nowhere)
            part = tkw.broadcast(tkw.scalar(WORKGROUP_1, tkl.i64), [M, N]) << 32
            word = tkw.cast(bits, tkl.i64) | part
            tkw.write(word, listed, mapping=slot, mapping_dynamic_vals=(to,))

    return collect, *form.symbols


def _search(low: Any, high: Any, sums: Callable[[list[Any]], list[Any]], wanted: Any) -> Any:
    """The largest bits, from `low` to below `high`, for which the sum is `wanted` or more.
    `sums(levels)` gives the sum of what is at least as large as each level. A step finds two
    bits."""
    span = high - low
    steps = _number(0)
    for n in range(15):
        steps = steps + tkw.cast(span > _number(4**n), tkl.i32)
    tkw.set_symbol(STEP, steps)

    @tkw.iterate(STEP, init_args=[low, _number(1) << (steps * 2 - 2)])
    def search(bits, unit):
        totals = sums([bits + unit * n for n in (1, 2, 3)])
        passed = [tkw.cast(total >= wanted, tkl.i32) for total in totals]
        return [bits + unit * (passed[0] + passed[1] + passed[2]), unit >> 2]

    return search[0]


def _weights(bits: Any, levels: list[Any], high: Any, counted: bool, dims: list[Any]) -> list[Any]:
    """For each level, 1 or the value of what is at least as large and below `high`, else 0."""
    every = lambda value: tkw.broadcast(value, dims)
    each = bits * 0 + 1 if counted else _fixed(tkw.bitcast(bits, tkl.f32))
    inside = tkw.select(bits < every(high), each, each * 0)
    return [tkw.select(bits >= every(level), inside, each * 0) for level in levels]


class Listed:
    """The values of a row that were listed, along a dimension that has room for them."""

    def __init__(self, along: Any, number: Any, listed: Any):
        tkw.set_symbol(along, number)
        here = tkw.IndexMapping(2, inputs={M: _i, C: _j}, outputs={M: _i, along: _j})
        word = tkw.read(listed, mapping=here)
        self.along, self.bits = along, tkw.cast(word & 0x7FFFFFFF, tkl.i32)
        self.part = tkw.cast(word >> 32, tkl.i32)

    def totals(self, levels: list[Any], high: Any, counted: bool) -> list[Any]:
        """The sums of the weights."""
        weights = _weights(self.bits, levels, high, counted, [M, self.along])
        return [tkw.sum(weight, dim=self.along, block=True) for weight in weights]

    def keep(self, level: Any, top: Any, sums: Any) -> None:
        """Adds what is kept to the sums of the parts."""
        here = {M: _i, self.along: _j}
        to_part = {M: _i, Q: _x}
        part_of = tkw.IndexMapping(2, inputs=to_part, outputs=here, dynamic_val_mappings=(here,))
        every = lambda value: tkw.broadcast(value, [M, self.along])
        kept = (self.bits >= every(level)) & (self.bits < every(top))
        to = tkw.select(kept, self.part, self.part * 0 - 1)
        value = _fixed(tkw.bitcast(self.bits, tkl.f32))
        tkw.atomic_add(value, sums, mapping=part_of, mapping_dynamic_vals=(to,))


class Row:
    """All values of a row: those to search do not fit into the list if many are nearly equal."""

    def __init__(self, values: Values):
        self.values = values
        tkw.set_symbol(FIRST, tkw.scalar(0, tkl.i32))
        tkw.set_symbol(NUMBER, tkw.scalar(Q, tkl.i32))

    def totals(self, levels: list[Any], high: Any, counted: bool) -> list[Any]:
        zero = _number(0, tkl.i32 if counted else tkl.i64)

        @tkw.iterate(N, init_args=[zero for _ in levels])
        def loop(*totals):
            bits = _bits(self.values.tile())
            weights = _weights(bits, levels, high, counted, [M, N])
            return [tkw.sum(w, total, dim=N, block=True) for w, total in zip(weights, totals)]

        return list(loop) if len(levels) > 1 else [loop]

    def keep(self, level: Any, top: Any, sums: Any) -> None:
        part_of = tkw.IndexMapping(1, inputs={M: _i}, outputs={M: _i, Q: _x})

        @tkw.iterate(N, init_args=[_number(0)])
        def loop(part):
            here = self.values.tile()
            kept = tkw.select(_bits(here) >= per_row(level), here, here * 0.0)
            total = _fixed(tkw.sum(kept, dim=N, block=True))
            tkw.write(total, sums, mapping=part_of, mapping_dynamic_vals=(part,))
            return part + 1


def _level(form: Form, source: Any, items: Any, bases: Any, top_p: Any) -> Any:
    """The smallest bits that top-k and top-p keep, found in a source of values."""
    level = _number(0)
    if form.by_k:
        k_high = _item(items, K_HIGH)
        counts = lambda levels: source.totals(levels, k_high, True)
        level = _search(_item(items, K_LOW), k_high, counts, _item(items, K_REST))
    if form.by_p:
        whole, above = _item(bases, K_ABOVE), _item(bases, P_ABOVE)
        if form.by_k:
            whole = whole + source.totals([level], k_high, False)[0]
        low, high, k_level = _item(items, P_LOW), _item(items, P_HIGH), level

        def masses(levels: list[Any]) -> list[Any]:
            levels = [tkw.maximum(level, k_level) for level in levels]
            return [above + total for total in source.totals(levels, high, False)]

        found = _search(low, high, masses, _share(whole, form.limit("top_p", top_p)))
        level = tkw.maximum(found, k_level)
    return level


def _settle(form: Form, values: Values, given: dict[str, Any]) -> Any:
    """The smallest bits that are kept. Completes the sums of the parts."""
    least = _least(form, given["min_p"])
    if not form.limited:
        return least
    items, sums, number = given["items"], given["sums"], tkw.read(given["found"])

    def settle(source: Any) -> Any:
        level = _level(form, source, items, given["bases"], given["top_p"])
        level = tkw.maximum(level, least)
        source.keep(level, _item(items, TOP), sums)
        return level

    def settle_list(along: Any, room: int, otherwise: Callable[[], Any]) -> Any:
        @tkw.conditional(number <= _number(room), otherwise=otherwise)
        def level():
            return settle(Listed(along, number, given["listed"]))

        return level

    many = lambda: settle_list(C, form.room, lambda: settle(Row(values)))
    return settle_list(F, form.few, many)


def _row_constraints(form: Form) -> list[Any]:
    """A workgroup for each row, for loops over NUMBER of its parts from FIRST on."""
    waves, runs = 4, form.part // RUN
    shapes = {M: 1, N: form.part // waves, C: form.room // waves, F: form.few // waves}
    shapes |= {Q: 64, S: runs, L: RUN}
    return [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes=shapes),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(C, form.room, 1),
        tkw.WaveConstraint(C, form.room // waves),
        tkw.WorkgroupConstraint(F, form.few, 1, primary=False),
        tkw.WaveConstraint(F, form.few // waves),
        tkw.TilingConstraint(N, form.part, iters=NUMBER, start=FIRST * form.part),
        tkw.WaveConstraint(N, form.part // waves),
        tkw.TilingConstraint(Q, 64),
        tkw.TilingConstraint(STEP, 1),
        tkw.TilingConstraint(S, runs, iters=1),
        tkw.WaveConstraint(S, runs),
    ]


def uniform(seed: Any, offset: Any) -> Any:
    """24 random bits for each row."""
    low = lambda x: tkw.cast(x & 0xFFFFFFFF, tkl.u32)
    high = lambda x: tkw.cast((x >> 32) & 0xFFFFFFFF, tkl.u32)
    row, none = tkw.self_index(M, tkl.u32), tkw.register([M], tkl.u32, 0)
    bits = tkw.philox([row, none, low(offset), high(offset)], [low(seed), high(seed)])[0]
    return bits >> 8


def _total(sums: Callable[[], Any]) -> Any:
    @tkw.iterate(Q, init_args=[_number(0, tkl.i64)])
    def loop(total):
        return tkw.sum(sums(), total, dim=Q)

    return loop


def draw(form: Form) -> Any:
    """`draw(x, temperature, top_p, min_p, seed, offset, most, other, items, bases, sums, found,
    listed, tokens)`: `other` has the sums of the parts if all values are kept."""
    per_part = tkl.Memory[M, Q, GLOBAL, tkl.f32]

    @tkw.wave(_row_constraints(form))
    def draw(
        x: tkl.Memory[M, N, GLOBAL, form.dtype],
        temperature: form.kind("temperature"),
        top_p: form.kind("top_p"),
        min_p: form.kind("min_p"),
        seed: form.kind("seed"),
        offset: form.kind("offset"),
        most: per_part,
        other: per_part,
        items: tkl.Memory[M, I, GLOBAL, tkl.i32],
        bases: tkl.Memory[M, I, GLOBAL, tkl.i64],
        sums: tkl.Memory[M, Q, GLOBAL, tkl.i64],
        found: tkl.Memory[M, GLOBAL, tkl.i32],
        listed: tkl.Memory[M, C, GLOBAL, tkl.i64],
        tokens: tkl.Memory[M, GLOBAL, tkl.i32],
    ):
        values = Values(form, x, temperature, _over_parts(most, tkw.max, LOWEST))
        given = dict(top_p=top_p, min_p=min_p, items=items, bases=bases, sums=sums)
        level = _settle(form, values, dict(given, found=found, listed=listed))

        def of_parts() -> Any:
            if form.limited or form.by_min:
                return tkw.read(sums)
            return _fixed(tkw.read(other) * values.of(tkw.read(most), [M, Q]))

        # An exact product of the sum and a number of 24 bits after the point is below the sum.
        whole = _total(of_parts)
        words = form.limit("seed", seed), form.limit("offset", offset)
        number = tkw.cast(uniform(*words), tkl.i64)
        number = tkw.select(values.warm > values.warm * 0.0, number, number * 0)
        wanted = (whole >> 24) * number + (((whole & 0xFFFFFF) * number) >> 24)
        part, before = _part(of_parts, wanted)
        tkw.set_symbol(FIRST, part)
        rest = tkw.cast(wanted - before, tkl.f32) * 2.0**-FRACTION
        tkw.write(_token(values, level, rest), tokens)

    return draw, *form.symbols


def _part(sums: Callable[[], Any], wanted: Any) -> tuple[Any, Any]:
    """The part in which the sum exceeds `wanted`, and the sum of the parts before it."""
    zero, most = _number(0, tkl.i64), 2**63 - 1

    @tkw.iterate(Q, init_args=[zero, _number(NOWHERE), zero + most])
    def loop(so_far, part, before):
        here = sums()
        every = lambda value: tkw.broadcast(value, [M, Q])
        until = tkw.cumsum(here, dim=Q) + every(so_far)
        at = tkw.broadcast(tkw.self_index(Q, tkl.i32), [M, Q])
        reached = until > every(wanted)
        first = tkw.min(tkw.select(reached, at, at * 0 + NOWHERE), part, dim=Q)
        least = tkw.min(tkw.select(reached, until - here, here * 0 + most), before, dim=Q)
        return [tkw.sum(here, so_far, dim=Q), first, least]

    some = loop[1] < _number(NOWHERE)  # no value is positive if all are NaN
    return tkw.select(some, loop[1], _number(0)), tkw.select(some, loop[2], zero)


def _place(sums: Any, dim: Any, wanted: Any) -> tuple[Any, Any]:
    """The first element at which the sum exceeds `wanted`, and what is left of it there. Roundings
    may leave all sums below it: then it is the last element that is positive."""
    every = lambda value: tkw.broadcast(value, [M, dim])
    until, zero = tkw.cumsum(sums, dim=dim), sums * 0.0
    some = sums > zero
    reached = some & (until > every(wanted))
    at = every(tkw.self_index(dim, tkl.i32))
    first = tkw.min(tkw.select(reached, at, at * 0 + NOWHERE), dim=dim)
    last = tkw.max(tkw.select(some, at, at * 0), dim=dim)
    left = every(wanted) - (until - sums)
    left = tkw.max(tkw.select(reached, left, zero - 1.0), dim=dim)  # that of the first is largest
    found, endless = first < _number(NOWHERE), tkw.register([M], tkl.f32, math.inf)
    return tkw.select(found, first, last), tkw.select(found, left, endless)


def _token(values: Values, level: Any, wanted: Any) -> Any:
    """The token of a part at which the sum of the values that are kept exceeds `wanted`: first the
    run of values that it is in."""
    begin = FIRST * values.form.part
    in_part, in_run = begin + _j * RUN + _k, begin + AT * RUN + _j
    part = tkw.IndexMapping(3, inputs={M: _i, N: in_part}, outputs={M: _i, S: _j, L: _k})
    run = tkw.IndexMapping(2, inputs={M: _i, N: in_run}, outputs={M: _i, L: _j})

    def kept(mapping: Any, dims: list[Any]) -> Any:
        x = tkw.read(values.x, mapping=mapping, other=-math.inf)
        here = values.of(finite(x), dims)
        return tkw.select(_bits(here) >= tkw.broadcast(level, dims), here, here * 0.0)

    @tkw.iterate(S, init_args=[_number(0), wanted])
    def search(at, rest):
        return _place(tkw.sum(kept(part, [M, S, L]), dim=L), S, rest)

    tkw.set_symbol(AT, search[0])
    token, _ = _place(kept(run, [M, L]), L, search[1])
    return token + search[0] * RUN + tkw.register([M], tkl.i32, begin)


def rescale(form: Form) -> Any:
    """`rescale(p, top_p, most, items, bases, sums, found, listed, levels, factors)`"""

    @tkw.wave(_row_constraints(form))
    def rescale(
        p: tkl.Memory[M, N, GLOBAL, form.dtype],
        top_p: form.kind("top_p"),
        most: tkl.Memory[M, Q, GLOBAL, tkl.f32],
        items: tkl.Memory[M, I, GLOBAL, tkl.i32],
        bases: tkl.Memory[M, I, GLOBAL, tkl.i64],
        sums: tkl.Memory[M, Q, GLOBAL, tkl.i64],
        found: tkl.Memory[M, GLOBAL, tkl.i32],
        listed: tkl.Memory[M, C, GLOBAL, tkl.i64],
        levels: tkl.Memory[M, GLOBAL, tkl.i32],
        factors: tkl.Memory[M, GLOBAL, tkl.f32],
    ):
        values = Values(form, p, None, _over_parts(most, tkw.max, LOWEST))
        given = dict(top_p=top_p, min_p=None, items=items, bases=bases, sums=sums)
        level = _settle(form, values, dict(given, found=found, listed=listed))
        whole = _total(lambda: tkw.read(sums))
        tkw.write(level, levels)
        tkw.write(tkw.reciprocal(tkw.cast(whole, tkl.f32) * 2.0**-FRACTION), factors)

    return rescale, *form.symbols


def store(form: Form) -> Any:
    """`store(p, most, levels, factors, y)`"""

    @tkw.wave(_constraints(form.part, 8, tkw.TilingConstraint(Q, 64)))
    def store(
        p: tkl.Memory[M, N, GLOBAL, form.dtype],
        most: tkl.Memory[M, Q, GLOBAL, tkl.f32],
        levels: tkl.Memory[M, GLOBAL, tkl.i32],
        factors: tkl.Memory[M, GLOBAL, tkl.f32],
        y: tkl.Memory[M, N, GLOBAL, form.dtype],
    ):
        here = Values(form, p, None, _over_parts(most, tkw.max, LOWEST)).tile()
        kept = tkw.select(_bits(here) >= per_row(tkw.read(levels)), here, here * 0.0)
        tkw.write(tkw.cast(kept * per_row(tkw.read(factors)), form.dtype), y)

    return store, *form.symbols
