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
from .programs import (
    LOWEST,
    M,
    N,
    f32_of,
    length_class,
    loop_constraints,
    per_row,
    program,
)
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


def _kept(form: Form, value: Any, top_k: Any, top_p: Any, min_p: Any) -> Any:
    """The threshold of what is kept: top-k of all, top-p of what that leaves, and min-p."""
    level = tkw.register([M], tkl.f32, 0.0)
    if form.by_k:
        number = tkw.cast(form.limit("top_k", top_k), tkl.f32)
        found = _threshold(value, lambda x: _none() + 1.0, number)
        level = tkw.select(number > level, found, level)
    if form.by_p:
        share, before = form.limit("top_p", top_p), level
        mass = lambda x: tkw.select(x >= per_row(before), x, _none())
        whole = _total(lambda: mass(value()))
        least = tkw.register([M], tkl.f32, 2.0**-120)  # one is kept of a share of 0
        found = _threshold(value, mass, tkw.maximum(whole * share, least))
        all_of_it = share >= tkw.register([M], tkl.f32, 1.0)
        level = tkw.maximum(tkw.select(all_of_it, before, found), before)
    if form.by_min:
        level = tkw.maximum(level, form.limit("min_p", min_p))
    return level


def _sample(form: Form) -> Any:
    """`sample(x, temperature, top_k, top_p, min_p, seed, offset, tokens)`"""

    @tkw.wave(loop_constraints(tkw.TilingConstraint(STEP, 1)))
    def sample(
        x: tkl.Memory[M, N, GLOBAL, form.dtype],
        temperature: form.kind("temperature"),
        top_k: form.kind("top_k"),
        top_p: form.kind("top_p"),
        min_p: form.kind("min_p"),
        seed: form.kind("seed"),
        offset: form.kind("offset"),
        tokens: tkl.Memory[M, GLOBAL, tkl.i32],
    ):
        zero = tkw.register([M], tkl.f32, 0.0)

        @tkw.iterate(N, init_args=[zero + LOWEST])
        def most(so_far):
            return tkw.max(kernels.finite(tkw.read(x)), so_far, dim=N, block=True)

        heat = form.limit("temperature", temperature)
        factor = tkw.select(heat > zero, kernels.inverse(heat), zero)
        cold = tkw.select(heat > zero, zero, zero + 1.0)

        def value() -> Any:
            """The probability relative to the largest; without heat, 1 for the largest only."""
            below = kernels.finite(tkw.read(x)) - per_row(most)
            coldest = tkw.select(below < per_row(zero), per_row(cold), per_row(zero))
            return tkw.exp2(below * per_row(factor)) * (1.0 - coldest)

        level = _kept(form, value, top_k, top_p, min_p)

        def kept() -> Any:
            here = value()
            return tkw.select(here >= per_row(level), here, _none())

        whole = _total(kept)
        words = form.limit("seed", seed), form.limit("offset", offset)
        wanted = whole * _uniform(*words) * (1.0 - cold)
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


def _renorm(form: Form) -> Any:
    """`renorm(p, limit, y)`"""
    row = tkl.Memory[M, N, GLOBAL, form.dtype]

    @tkw.wave(loop_constraints(tkw.TilingConstraint(STEP, 1)))
    def renorm(p: row, limit: form.kind("top_k" if form.by_k else "top_p"), y: row):
        value = lambda: f32_of(p)
        level = _kept(form, value, limit, limit, None)

        def kept() -> Any:
            here = value()
            return tkw.select(here >= per_row(level), here, _none())

        factor = tkw.reciprocal(_total(kept))

        @tkw.iterate(N, init_args=[])
        def store():
            tkw.write(tkw.cast(kept() * per_row(factor), form.dtype), y)

    return renorm, {STEP: STEPS}, [M, N]


def _per_row(name: str, given: Any, rows: Any) -> Any:
    """A tensor of limits, checked, with one for each row."""
    given, number = tensor(name, given), rows.shape[0]
    element_type(name, given, (kernels.LIMITS[name].name,))
    if tuple(given.shape) not in ((), (1,), (number,)):
        found = tuple(given.shape)
        raise ValueError(f"`{name}` has the shape {found}, expected () or ({number},)")
    return repeated(given, (number,))


def _divided(given: dict[str, Any]) -> dict[str, Any]:
    """Limits as arguments of an operator: tensors by their name, numbers as `…_of_all`."""
    found = {}
    for name, x in given.items():
        if isinstance(x, (int, float)):
            found[f"{name}_of_all"] = min(x, NOWHERE) if name == "top_k" else x
        elif x is not None:
            found[name] = x
    return found


def _at_least(name: str, value: Any, least: float, most: float) -> None:
    """Checks a number; tensors stay on their device and are not read."""
    if isinstance(value, float) and not kernels.LIMITS[name].name.startswith("f"):
        raise TypeError(f"`{name}` is {value}, expected an integer")
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
    equal ones are kept together. Each is a number or a tensor with one for each row; a `top_k` of 0
    keeps all, a temperature of 0 gives the first of the most likely. A logit of +inf counts as the
    largest number of f32. The same `seed`, `offset`, row and logits give the same token: a call
    with another offset draws other tokens.
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
    given = dict(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    return _drawn(logits, **_divided(dict(given, seed=seed, offset=offset)), out=out)


@operator(
    "sample(Tensor logits, Tensor? temperature=None, Tensor? seed=None, Tensor? offset=None,"
    " Tensor? top_k=None, Tensor? top_p=None, Tensor? min_p=None, *, float temperature_of_all=1.0,"
    " int seed_of_all=0, int offset_of_all=0, int? top_k_of_all=None, float? top_p_of_all=None,"
    " float? min_p_of_all=None) -> (Tensor out)"
)
def _drawn(
    logits: Any,
    temperature: Any = None,
    seed: Any = None,
    offset: Any = None,
    top_k: Any = None,
    top_p: Any = None,
    min_p: Any = None,
    *,
    temperature_of_all: float = 1.0,
    seed_of_all: int = 0,
    offset_of_all: int = 0,
    top_k_of_all: int | None = None,
    top_p_of_all: float | None = None,
    min_p_of_all: float | None = None,
    out: Any = None,
) -> Any:
    logits = tensor("logits", logits)
    dtype = element_type("logits", logits, FLOATS)
    if len(logits.shape) != 2 or logits.shape[1] == 0:
        raise ValueError(f"`logits` has the shape {tuple(logits.shape)}, expected (rows, tokens)")
    numbers = (temperature_of_all, top_k_of_all, top_p_of_all, min_p_of_all)
    given = dict(zip(kernels.LIMITS, (*numbers, seed_of_all, offset_of_all)))
    each = dict(zip(kernels.LIMITS, (temperature, top_k, top_p, min_p, seed, offset)))
    each = {name: _per_row(name, x, logits) for name, x in each.items() if x is not None}
    given.update(each)
    used = tuple(given[name] is not None for name in ("top_k", "top_p", "min_p"))
    limits = {name: 0 if x is None else x for name, x in given.items()}
    out = result("out", out, logits, logits.shape[:1], tkl.i32, *each.values())
    if is_empty(logits):
        return out
    long = logits.shape[1] > LONG
    columns = length_class(logits.shape[1]) if long else None
    form = Form(dtype, columns, *used, tensors=frozenset(each))
    if long:
        _draw_long(form, logits, limits, out)
    else:
        program(_sample, form)(logits, *limits.values(), out)
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
        self.listed = new(form.room, tkl.i64, form.limited)
        self.found = new_tensor(rows, (number,), tkl.i32)


def _narrow(form: Form, x: Any, s: _Scratch, limits: dict[str, Any]) -> None:
    """All but the last step: the sums of what is kept for certain, and a list of what may be."""
    heat, top_k, top_p, min_p = list(limits.values())[:4]
    program(kernels.extremes, form)(x, heat, s.most, s.other, s.counts, s.offsets, s.found)
    if form.limited:
        program(kernels.histogram, form)(x, heat, s.most, s.other, s.counts, s.offsets)
        choose = program(kernels.choose, form)
        choose(heat, top_k, top_p, s.most, s.other, s.counts, s.offsets, s.items, s.bases)
    if form.limited or form.by_min:
        collect = program(kernels.collect, form)
        collect(x, heat, min_p, s.most, s.items, s.sums, s.found, s.listed)


def _draw_long(form: Form, logits: Any, limits: dict[str, Any], out: Any) -> None:
    s = _Scratch(form, logits)
    _narrow(form, logits, s, limits)
    needed = [limits[name] for name in ("temperature", "top_p", "min_p", "seed", "offset")]
    found = (s.most, s.other, s.items, s.bases, s.sums, s.found, s.listed)
    program(kernels.draw, form)(logits, *needed, *found, out)


def _renormalise_long(form: Form, p: Any, limits: dict[str, Any], out: Any) -> None:
    s = _Scratch(form, p)
    _narrow(form, p, s, limits)
    levels, factors = (new_tensor(p, p.shape[:1], dtype) for dtype in (tkl.i32, tkl.f32))
    found = (s.most, s.items, s.bases, s.sums, s.found, s.listed)
    program(kernels.rescale, form)(p, limits["top_p"], *found, levels, factors)
    program(kernels.store, form)(p, s.most, levels, factors, out)


def _renormalised(p: Any, each: Any, number: Any, name: str, out: Any) -> Any:
    p = tensor("probs", p)
    dtype = element_type("probs", p, FLOATS)
    if len(p.shape) != 2:
        raise ValueError(f"`probs` has the shape {tuple(p.shape)}, expected (rows, tokens)")
    limit = number if each is None else _per_row(name, each, p)
    out = result("out", out, p, p.shape, dtype, *([] if each is None else [limit]))
    if is_empty(p):
        return out
    long, by_k = p.shape[1] > LONG, name == "top_k"
    form = Form(
        dtype,
        length_class(p.shape[1]) if long else None,
        by_k,
        not by_k,
        tensors=frozenset() if each is None else frozenset([name]),
        probabilities=True,
    )
    if long:
        _renormalise_long(form, p, {**dict.fromkeys(kernels.LIMITS, 0), name: limit}, out)
    else:
        program(_renorm, form)(p, limit, out)
    return out


def top_k_renorm_probs(probs: Any, top_k: Any, *, out: Any = None) -> Any:
    """Rows of probabilities [rows, V] of which the `top_k` largest are kept, others become 0, and
    the sum 1; equal ones are kept together. `top_k` is a number or a tensor [rows]; 0 keeps all."""
    probs = tensor("probs", probs)
    _at_least("top_k", top_k, 0, float("inf"))
    return _top_k_renorm(probs, **_divided(dict(top_k=top_k)), out=out)


def top_p_renorm_probs(probs: Any, top_p: Any, *, out: Any = None) -> Any:
    """The same, of which the fewest are kept that add up to `top_p` of the sum."""
    probs = tensor("probs", probs)
    _at_least("top_p", top_p, 0, 1)
    return _top_p_renorm(probs, **_divided(dict(top_p=top_p)), out=out)


@operator(
    "top_k_renorm_probs(Tensor probs, Tensor? top_k=None, *, int top_k_of_all=0) -> (Tensor out)"
)
def _top_k_renorm(
    probs: Any, top_k: Any = None, *, top_k_of_all: int = 0, out: Any = None
) -> Any:
    return _renormalised(probs, top_k, top_k_of_all, "top_k", out)


@operator(
    "top_p_renorm_probs(Tensor probs, Tensor? top_p=None, *, float top_p_of_all=1.0)"
    " -> (Tensor out)"
)
def _top_p_renorm(
    probs: Any, top_p: Any = None, *, top_p_of_all: float = 1.0, out: Any = None
) -> Any:
    return _renormalised(probs, top_p, top_p_of_all, "top_p", out)
