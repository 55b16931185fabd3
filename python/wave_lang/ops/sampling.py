"""Sampling of tokens from logits: temperature, top-k, top-p, min-p, and one draw for each row.

Nothing is sorted. A threshold is found bit by bit: the number, or the sum, of elements that are at
least as large as a candidate does not increase with the candidate. All sums are in a fixed order.
Many workgroups share each long row (sampling_kernels.py).
"""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL

from . import sampling_kernels as kernels
from .operators import operator
from .programs import LOWEST, M, N, f32_of, length_class, loop_constraints, per_row, program
from .sampling_kernels import NOWHERE, Form
from .tensors import *

STEP = sym.STEP
# Numbers below 2 have 30 bits, of which a step finds two: three candidates are tried at a time.
STEPS, FIRST_UNIT = 15, 1 << 28
LONG = 16384  # tokens of the longest row that one workgroup reads


def _none() -> Any:
    """Zeros: 0 times an element would be NaN for an infinite one."""
    return tkw.register([M, N], tkl.f32, 0.0)


def _total(of: Any) -> Any:
    """The sum of `of()` over a row."""

    @tkw.iterate(N, init_args=[tkw.register([M], tkl.f32, 0.0)])
    def loop(total):
        return tkw.sum(of(), total, dim=N, block=True)

    return loop


def _threshold(value: Any, weight: Any, wanted: Any) -> Any:
    """The largest number for which the weights of values that are not smaller add up to `wanted`.

    `value()` and `weight(value)` give a tile of numbers that are at least 0 and less than 2, and
    their weights.
    """
    zero = tkw.register([M], tkl.i32, 0)

    @tkw.iterate(STEP, init_args=[zero, zero + FIRST_UNIT])
    def search(bits, unit):
        candidates = [bits + unit * n for n in (1, 2, 3)]
        levels = [tkw.bitcast(c, tkl.f32) for c in candidates]
        start = [tkw.register([M], tkl.f32, 0.0) for _ in levels]

        @tkw.iterate(N, init_args=start)
        def sums(*totals):
            here = value()
            each = weight(here)
            kept = [tkw.select(here >= per_row(x), each, _none()) for x in levels]
            return [tkw.sum(k, t, dim=N, block=True) for k, t in zip(kept, totals)]

        passed = [tkw.cast(s >= wanted, tkl.i32) for s in sums]
        return [bits + unit * (passed[0] + passed[1] + passed[2]), unit >> 2]

    return tkw.bitcast(search[0], tkl.f32)


def _uniform(seed: Any, offset: Any) -> Any:
    """A number from 0 to 1, without 1, for each row."""
    return tkw.cast(kernels.uniform(seed, offset), tkl.f32) * 2.0**-24


def _kept(value: Any, top_k: Any, top_p: Any, min_p: Any) -> Any:
    """The threshold of what is kept: top-k of all, top-p of what that leaves, and min-p."""
    level = tkw.register([M], tkl.f32, 0.0)
    if top_k is not None:
        number = tkw.cast(tkw.read(top_k), tkl.f32)
        found = _threshold(value, lambda x: _none() + 1.0, number)
        level = tkw.select(number > level, found, level)
    if top_p is not None:
        share, before = tkw.read(top_p), level
        mass = lambda x: tkw.select(x >= per_row(before), x, _none())
        whole = _total(lambda: mass(value()))
        least = tkw.register([M], tkl.f32, 2.0**-120)  # one is kept of a share of 0
        found = _threshold(value, mass, tkw.maximum(whole * share, least))
        all_of_it = share >= tkw.register([M], tkl.f32, 1.0)
        level = tkw.maximum(tkw.select(all_of_it, before, found), before)
    if min_p is not None:
        level = tkw.maximum(level, tkw.read(min_p))
    return level


def _sample(dtype: Any, by_k: bool, by_p: bool, by_min: bool) -> Any:
    """`sample(x, temperature, top_k, top_p, min_p, seed, offset, tokens)`"""
    each = tkl.Memory[M, GLOBAL, tkl.f32]
    number = tkl.Memory[M, GLOBAL, tkl.i64]

    @tkw.wave(loop_constraints(tkw.TilingConstraint(STEP, 1)))
    def sample(
        x: tkl.Memory[M, N, GLOBAL, dtype],
        temperature: each,
        top_k: tkl.Memory[M, GLOBAL, tkl.i32],
        top_p: each,
        min_p: each,
        seed: number,
        offset: number,
        tokens: tkl.Memory[M, GLOBAL, tkl.i32],
    ):
        zero = tkw.register([M], tkl.f32, 0.0)

        @tkw.iterate(N, init_args=[zero + LOWEST])
        def most(so_far):
            return tkw.max(f32_of(x), so_far, dim=N, block=True)

        heat = tkw.read(temperature)
        factor = tkw.select(heat > zero, tkw.reciprocal(heat), zero)
        cold = tkw.select(heat > zero, zero, zero + 1.0)

        def value() -> Any:
            """The probability relative to the largest; without heat, 1 for the largest only."""
            below = f32_of(x) - per_row(most)
            coldest = tkw.select(below < per_row(zero), per_row(cold), per_row(zero))
            return tkw.exp(below * per_row(factor)) * (1.0 - coldest)

        level = _kept(
            value, top_k if by_k else None, top_p if by_p else None, min_p if by_min else None
        )

        def kept() -> Any:
            here = value()
            return tkw.select(here >= per_row(level), here, _none())

        whole = _total(kept)
        wanted = whole * _uniform(tkw.read(seed), tkw.read(offset)) * (1.0 - cold)
        none = tkw.register([M], tkl.i32, 0)

        @tkw.iterate(N, init_args=[zero, none + NOWHERE, none])
        def draw(before, token, last):
            here = kept()
            at = tkw.broadcast(tkw.self_index(N, tkl.i32), [M, N])
            after = tkw.cumsum(here, dim=N, block=True) + per_row(before)
            some = here > per_row(zero)
            reached = some & (after > per_row(wanted))
            first = tkw.min(tkw.select(reached, at, at * 0 + NOWHERE), token, dim=N, block=True)
            final = tkw.max(tkw.select(some, at, at * 0), last, dim=N, block=True)
            return [tkw.sum(here, before, dim=N, block=True), first, final]

        # Roundings may leave the sum below the number: then it is the last token.
        found = tkw.select(draw[1] < none + NOWHERE, draw[1], draw[2])
        tkw.write(found, tokens)

    return sample, {STEP: STEPS}, [M, N]


def _renorm(dtype: Any, by_k: bool) -> Any:
    """`renorm(p, limit, y)`"""
    row = tkl.Memory[M, N, GLOBAL, dtype]

    @tkw.wave(loop_constraints(tkw.TilingConstraint(STEP, 1)))
    def renorm(p: row, limit: tkl.Memory[M, GLOBAL, tkl.i32 if by_k else tkl.f32], y: row):
        value = lambda: f32_of(p)
        level = _kept(value, limit if by_k else None, None if by_k else limit, None)

        def kept() -> Any:
            here = value()
            return tkw.select(here >= per_row(level), here, _none())

        factor = tkw.reciprocal(_total(kept))

        @tkw.iterate(N, init_args=[])
        def store():
            tkw.write(tkw.cast(kept() * per_row(factor), dtype), y)

    return renorm, {STEP: STEPS}, [M, N]


def _each(name: str, given: Any, dtype: Any, like: Any) -> Any:
    """A number for each row: the one that is given, repeated, or a tensor of [] or [rows]."""
    if given is None or not isinstance(given, (int, float)):
        return given
    made = new_tensor(like, (1,), dtype)
    made[...] = given
    return made


def _per_row(name: str, given: Any, dtype: Any, rows: Any) -> Any:
    """`given`, checked; without it, a tensor that no kernel reads."""
    number = rows.shape[0]
    if given is None:
        return new_tensor(rows, (number,), dtype)
    given = tensor(name, given)
    element_type(name, given, (dtype.name,))
    if tuple(given.shape) not in ((), (1,), (number,)):
        found = tuple(given.shape)
        raise ValueError(f"`{name}` has the shape {found}, expected () or ({number},)")
    return repeated(given, (number,))


def _at_least(name: str, value: Any, least: float, most: float) -> None:
    """Checks a number; tensors stay on their device and are not read."""
    if isinstance(value, (int, float)) and not least <= value <= most:
        until = f" to {most:g}" if most < float("inf") else ""
        raise ValueError(f"`{name}` is {value}, expected {least:g}{until or ' or more'}")


def sample(
    logits: Any,
    *,
    temperature: Any = 1.0,
    top_k: Any = None,
    top_p: Any = None,
    min_p: Any = None,
    seed: Any = 0,
    offset: Any = 0,
    out: Any = None,
) -> Any:
    """A token (i32) for each row of logits [rows, V], drawn from softmax(logits / temperature).

    `top_k` keeps the k most likely ones, `top_p` the fewest of these, but at least one, whose
    probabilities add up to p, `min_p` those at least p times as likely as the most likely one;
    equal ones are kept together. Each is a number or a tensor with one for each row; a `top_k` of 0 keeps all, a
    temperature of 0 gives the first of the most likely. The same `seed`, `offset`, row and logits
    give the same token: a call with another offset draws other tokens.
    """
    logits = tensor("logits", logits)
    inf = float("inf")
    for name, value, least, most in (
        ("temperature", temperature, 0, inf),
        ("top_k", top_k, 0, inf),
        ("top_p", top_p, 0, 1),
        ("min_p", min_p, 0, 1),
        ("seed", seed, -(2**63), 2**63 - 1),
        ("offset", offset, -(2**63), 2**63 - 1),
    ):
        _at_least(name, value, least, most)
    given = (temperature, top_k, top_p, min_p, seed, offset)
    types = (tkl.f32, tkl.i32, tkl.f32, tkl.f32, tkl.i64, tkl.i64)
    names = ("temperature", "top_k", "top_p", "min_p", "seed", "offset")
    each = [_each(n, x, t, logits) for n, x, t in zip(names, given, types)]
    heat, k, p, least, seeds, offsets = each
    return _drawn(logits, heat, seeds, offsets, k, p, least, out=out)


@operator(
    "sample(Tensor logits, Tensor temperature, Tensor seed, Tensor offset, Tensor? top_k=None,"
    " Tensor? top_p=None, Tensor? min_p=None) -> (Tensor out)"
)
def _drawn(
    logits: Any,
    temperature: Any,
    seed: Any,
    offset: Any,
    top_k: Any = None,
    top_p: Any = None,
    min_p: Any = None,
    *,
    out: Any = None,
) -> Any:
    logits = tensor("logits", logits)
    dtype = element_type("logits", logits, FLOATS)
    if len(logits.shape) != 2 or logits.shape[1] == 0:
        raise ValueError(f"`logits` has the shape {tuple(logits.shape)}, expected (rows, tokens)")
    numbers = [
        _per_row("temperature", temperature, tkl.f32, logits),
        _per_row("top_k", top_k, tkl.i32, logits),
        _per_row("top_p", top_p, tkl.f32, logits),
        _per_row("min_p", min_p, tkl.f32, logits),
        _per_row("seed", seed, tkl.i64, logits),
        _per_row("offset", offset, tkl.i64, logits),
    ]
    out = result("out", out, logits, logits.shape[:1], tkl.i32, *numbers)
    if not is_empty(logits):
        used = (top_k is not None, top_p is not None, min_p is not None)
        if logits.shape[1] <= LONG:
            program(_sample, dtype, *used)(logits, *numbers, out)
        else:
            _draw_long(Form(dtype, length_class(logits.shape[1]), *used), logits, *numbers, out)
    return out


class _Scratch:
    """What the kernels of long rows leave for each other."""

    def __init__(self, form: Form, rows: Any):
        number, parts = rows.shape[0], -(-rows.shape[1] // form.part)

        def new(columns: int, dtype: Any, used: bool = True) -> Any:
            made = new_tensor(rows, (number, columns) if used else (1, 1), dtype)
            return made if used else repeated(made, (number, columns))

        self.most, self.other = new(parts, tkl.f32), new(parts, tkl.f32)
        self.sums = new(parts, tkl.i64)
        self.counts = new(form.bins, tkl.i32, form.limited)
        self.offsets = new(form.bins, tkl.i64, form.by_p)
        self.items, self.bases = new(kernels.ITEMS, tkl.i32), new(kernels.ITEMS, tkl.i64)
        self.listed = new(form.room, tkl.i32, form.limited)
        self.places = new(form.room, tkl.i32, form.limited)
        self.found = new_tensor(rows, (number,), tkl.i32)


def _narrow(form: Form, x: Any, s: _Scratch, heat: Any, top_k: Any, top_p: Any, min_p: Any) -> None:
    """All but the last step: the sums of what is kept for certain, and a list of what may be."""
    program(kernels.extremes, form)(x, heat, s.most, s.other, s.counts, s.offsets, s.found)
    if form.limited:
        program(kernels.histogram, form)(x, heat, s.most, s.other, s.counts, s.offsets)
        choose = program(kernels.choose, form)
        choose(heat, top_k, top_p, s.most, s.other, s.counts, s.offsets, s.items, s.bases)
    if form.limited or form.by_min:
        collect = program(kernels.collect, form)
        collect(x, heat, min_p, s.most, s.items, s.sums, s.found, s.listed, s.places)


def _draw_long(
    form: Form,
    logits: Any,
    temperature: Any,
    top_k: Any,
    top_p: Any,
    min_p: Any,
    seed: Any,
    offset: Any,
    out: Any,
) -> None:
    s = _Scratch(form, logits)
    _narrow(form, logits, s, temperature, top_k, top_p, min_p)
    given = (s.most, s.other, s.items, s.bases, s.sums, s.found, s.listed, s.places)
    program(kernels.draw, form)(logits, temperature, top_p, min_p, seed, offset, *given, out)


def _renormalise_long(form: Form, p: Any, limit: Any, out: Any) -> None:
    s = _Scratch(form, p)
    unused = new_tensor(p, p.shape[:1], tkl.f32)
    top_k = limit if form.by_k else new_tensor(p, p.shape[:1], tkl.i32)
    top_p = limit if form.by_p else unused
    _narrow(form, p, s, unused, top_k, top_p, unused)
    levels, factors = new_tensor(p, p.shape[:1], tkl.i32), new_tensor(p, p.shape[:1], tkl.f32)
    given = (s.most, s.items, s.bases, s.sums, s.found, s.listed, s.places)
    program(kernels.rescale, form)(p, top_p, *given, levels, factors)
    program(kernels.store, form)(p, s.most, levels, factors, out)


def _renormalised(p: Any, limit: Any, name: str, dtype: Any, out: Any) -> Any:
    p = tensor("probs", p)
    kind = element_type("probs", p, FLOATS)
    if len(p.shape) != 2:
        raise ValueError(f"`probs` has the shape {tuple(p.shape)}, expected (rows, tokens)")
    limit = _per_row(name, limit, dtype, p)
    out = result("out", out, p, p.shape, kind, limit)
    by_k = dtype == tkl.i32
    if is_empty(p):
        return out
    if p.shape[1] <= LONG:
        program(_renorm, kind, by_k)(p, limit, out)
    else:
        form = Form(kind, length_class(p.shape[1]), by_k, not by_k, probabilities=True)
        _renormalise_long(form, p, limit, out)
    return out


def top_k_renorm_probs(probs: Any, top_k: Any, *, out: Any = None) -> Any:
    """Rows of probabilities [rows, V] of which the `top_k` largest are kept, others become 0, and
    the sum 1; equal ones are kept together. `top_k` is a number or a tensor [rows]; 0 keeps all."""
    probs = tensor("probs", probs)
    _at_least("top_k", top_k, 0, float("inf"))
    return _top_k_renorm(probs, _each("top_k", top_k, tkl.i32, probs), out=out)


def top_p_renorm_probs(probs: Any, top_p: Any, *, out: Any = None) -> Any:
    """The same, of which the fewest are kept that add up to `top_p` of the sum."""
    probs = tensor("probs", probs)
    _at_least("top_p", top_p, 0, 1)
    return _top_p_renorm(probs, _each("top_p", top_p, tkl.f32, probs), out=out)


@operator("top_k_renorm_probs(Tensor probs, Tensor top_k) -> (Tensor out)")
def _top_k_renorm(probs: Any, top_k: Any, *, out: Any = None) -> Any:
    return _renormalised(probs, top_k, "top_k", tkl.i32, out)


@operator("top_p_renorm_probs(Tensor probs, Tensor top_p) -> (Tensor out)")
def _top_p_renorm(probs: Any, top_p: Any, *, out: Any = None) -> Any:
    return _renormalised(probs, top_p, "top_p", tkl.f32, out)
