"""Kernels that put tokens in the order of their experts: two launches, over chunks of ids.

The first counts the ids of each expert in each chunk. In the second, the workgroup of a chunk adds
up the counts of the chunks before it and writes its ids where they belong.
"""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import *

E, ID, SLOT, BLOCKS, CHUNK = (getattr(sym, name) for name in "E ID SLOT BLOCKS CHUNK".split())
STEP, WAVE, LANE, EACH, ONE, EVERY, GROUP = (
    getattr(sym, name) for name in "STEP WAVE LANE EACH ONE EVERY GROUP".split()
)
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
WAVES, LANES = 16, 32
TILE = WAVES * LANES  # ids of an iteration, one for each thread
CHUNKS = 128  # at most: a row of their counts is one access of a wave
CHUNKS_OF_IDS = tkl.Max(tkl.Min(tkl.ceiling(ID / TILE), CHUNKS), 1)
PART = 1024  # elements that are filled in an iteration

_i, _j, _k = (tkw.IndexMapping.iterator(n) for n in range(3))
_x = tkw.IndexMapping.dynamic_val(0)


def _share(size: Any, tile: int) -> Any:
    """The part of `size` that each chunk has, in whole tiles."""
    return tkl.ceiling(size / (CHUNK * tile)) * tile


def _shared_by_chunks(dim: Any, tile: int) -> Any:
    part = _share(dim, tile)
    return tkw.TilingConstraint(dim, tile, iters=part / tile, start=WORKGROUP_0 * part)


def tally(experts: int, lowest: int = 0) -> Any:
    """`tally(ids, counts, slots, owners)`: how many ids of each chunk each expert has. Slots get
    the number of ids, and blocks no owner, which stays where no id is written. The id of the first
    expert is `lowest`."""
    bin_of = tkw.IndexMapping(
        1, inputs={E: _x - lowest}, outputs={ID: _i}, dynamic_val_mappings=({ID: _i},)
    )
    column = tkw.IndexMapping(1, inputs={E: _i}, outputs={E: _i, EVERY: WORKGROUP_0})
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=LANES, vector_shapes={ONE: 0, E: E}),
        tkw.WorkgroupConstraint(ONE, 1, 0, iters=CHUNK),
        _shared_by_chunks(ID, TILE),
        _shared_by_chunks(SLOT, PART),
        _shared_by_chunks(BLOCKS, PART),
        tkw.WaveConstraint(ID, LANES),
    ]

    @tkw.wave(constraints)
    def tally(
        ids: tkl.Memory[ID, GLOBAL, tkl.i32],
        counts: tkl.Memory[E, EVERY, GLOBAL, tkl.i32],
        slots: tkl.Memory[SLOT, GLOBAL, tkl.i32],
        owners: tkl.Memory[BLOCKS, GLOBAL, tkl.i32],
    ):
        bins = tkw.allocate((E,), (experts,), tkl.i32, SHARED)
        tkw.write(tkw.register([E], tkl.i32, 0), bins)

        @tkw.iterate(ID, init_args=[])
        def each():
            one = tkw.register([ID], tkl.i32, 1)
            tkw.atomic_add(one, bins, mapping=bin_of, mapping_dynamic_vals=(tkw.read(ids),))

        @tkw.iterate(SLOT, init_args=[])
        def fill():
            tkw.write(tkw.register([SLOT], tkl.i32, ID), slots)

        @tkw.iterate(BLOCKS, init_args=[])
        def disown():
            tkw.write(tkw.register([BLOCKS], tkl.i32, -1), owners)

        tkw.write(tkw.read(bins), counts, mapping=column)

    return tally, {E: experts, EVERY: CHUNKS, CHUNK: CHUNKS_OF_IDS}, [ID, SLOT, BLOCKS]


def _of(inputs: dict, dims: tuple, *, dynamic: bool = False, write: bool = False) -> Any:
    """A mapping between a register of `dims`, whose iterators count in that order, and memory."""
    register = dict(zip(dims, (_i, _j, _k)))
    sides = (register, inputs) if write else (inputs, register)
    looked_up = {"dynamic_val_mappings": (register,)} if dynamic else {}
    return tkw.IndexMapping(len(dims), inputs=sides[0], outputs=sides[1], **looked_up)


def _ranks(mine: Any, dims: tuple) -> Any:
    """How many ids of the same wave, before each one, have the same expert."""
    ids = tkw.allocate((WAVE, LANE), (WAVES, LANES), tkl.i32, SHARED)
    tkw.write(mine, ids, mapping=_of({WAVE: _k, LANE: _j}, dims, write=True))
    rank = tkw.register(dims, tkl.i32, 0)
    lane = tkw.broadcast(tkw.self_index(LANE, tkl.i32), dims)
    for number in range(LANES - 1):
        found = tkw.read(ids, mapping=_of({WAVE: _j, LANE: number}, (STEP, WAVE)))
        later = lane > tkw.register(dims, tkl.i32, number)
        rank = rank + tkw.cast((tkw.broadcast(found, dims) == mine) & later, tkl.i32)
    return rank


def _place(step: Any, lane: Any, wave: Any) -> Any:
    """Which id this workgroup has there."""
    return WORKGROUP_0 * _share(ID, TILE) + step * TILE + wave * LANES + lane


def _numbers(dims: tuple) -> Any:
    parts = [tkw.broadcast(tkw.self_index(dim, tkl.i32), dims) for dim in dims]
    return tkw.apply_expr(parts, _place)


def _starts(counts: Any, totals: Any, before: Any) -> None:
    """Leaves in scratch memory how many ids each expert has in all, and in the chunks before this
    one."""
    dims = (WAVE, EACH, EVERY)
    expert, inside = _i * EACH + _j, {EVERY: CHUNK}
    found = tkw.read(counts, mapping=_of({E: expert, EVERY: _k}, dims), bounds=inside)
    chunk = tkw.broadcast(tkw.self_index(EVERY, tkl.i32), dims)
    none = tkw.register(dims, tkl.i32, 0)
    earlier = tkw.select(chunk < tkw.register(dims, tkl.i32, WORKGROUP_0), found, none)
    to = _of({E: expert}, dims[:2], write=True)
    tkw.write(tkw.sum(found, dim=EVERY), totals, mapping=to)
    tkw.write(tkw.sum(earlier, dim=EVERY), before, mapping=to)


def place(experts: int, block: int, lowest: int = 0) -> Any:
    """`place(ids, counts, slots, owners, total, sizes, starts, places)`: the ids of each expert in
    order; the expert of each block of slots; how many slots all have; how many ids each expert has,
    and where its slots begin; and the slot of each id, -1 if its expert does not exist."""
    each, whole = -(-experts // WAVES), (LANE, EVERY, E, EACH, GROUP)
    constraints = [
        tkw.HardwareConstraint(
            threads_per_wave=LANES,
            vector_shapes={STEP: 0, ONE: 0, WAVE: 1, **{dim: dim for dim in whole}},
        ),
        tkw.WorkgroupConstraint(LANE, LANES, 0, apply_fn=lambda number: 0, iters=CHUNK),
        tkw.WorkgroupConstraint(WAVE, WAVES, 1),
        tkw.WaveConstraint(WAVE, 1),
        tkw.TilingConstraint(STEP, 1),
    ]
    dims = (STEP, LANE, WAVE)
    slot_of = _of({SLOT: _x}, dims, dynamic=True, write=True)
    owner_of = _of({BLOCKS: _x}, dims, dynamic=True, write=True)
    begin_of = _of({GROUP: _k, E: _x}, dims, dynamic=True)

    @tkw.wave(constraints)
    def place(
        ids: tkl.Memory[ID, GLOBAL, tkl.i32],
        counts: tkl.Memory[E, EVERY, GLOBAL, tkl.i32],
        slots: tkl.Memory[SLOT, GLOBAL, tkl.i32],
        owners: tkl.Memory[BLOCKS, GLOBAL, tkl.i32],
        total: tkl.Memory[ONE, GLOBAL, tkl.i32],
        sizes: tkl.Memory[E, GLOBAL, tkl.i32],
        starts: tkl.Memory[E, GLOBAL, tkl.i32],
        places: tkl.Memory[ID, GLOBAL, tkl.i32],
    ):
        totals, begin = (tkw.allocate((E,), (experts,), tkl.i32, SHARED) for _ in range(2))
        bins = tkw.allocate((GROUP, E), (WAVES, experts), tkl.i32, SHARED)
        _starts(counts, totals, begin)
        size = tkw.read(totals)
        padded = tkw.apply_expr(size, lambda n: tkl.ceiling(n / block) * block)
        first = tkw.cumsum(padded, dim=E) - padded
        tkw.write(first + tkw.read(begin), begin)

        @tkw.conditional(tkl.Eq(WORKGROUP_0, 0))
        def report():
            tkw.write(first, starts)
            tkw.write(size, sizes)
            whole = tkw.sum(tkw.broadcast(padded, [ONE, E]), dim=E)
            tkw.write(whole, total)

        @tkw.iterate(STEP, init_args=[])
        def step():
            tkw.write(tkw.register([GROUP, E], tkl.i32, 0), bins)
            found = tkw.read(ids, mapping=_of({ID: _place(_i, _j, _k)}, dims), other=lowest - 1)
            mine = found - lowest if lowest else found
            one = tkw.register(dims, tkl.i32, 1)
            tkw.atomic_add(one, bins, mapping=begin_of, mapping_dynamic_vals=(mine,))
            rank = _ranks(mine, dims)
            _begin_waves(begin, bins)
            at = rank + tkw.read(bins, mapping=begin_of, mapping_dynamic_vals=(mine,))
            nowhere = tkw.register(dims, tkl.i32, -1)
            none = tkw.register(dims, tkl.i32, 0)
            known = (mine >= none) & (mine < tkw.register(dims, tkl.i32, experts))
            to = tkw.select(known, at, nowhere)
            tkw.write(to, places, mapping=_of({ID: _place(_i, _j, _k)}, dims, write=True))
            tkw.write(_numbers(dims), slots, mapping=slot_of, mapping_dynamic_vals=(to,))
            block_at = tkw.apply_expr(
                to, lambda n: tkl.Piecewise((n // block, tkl.Eq(n % block, 0)), (-1, True))
            )
            tkw.write(found, owners, mapping=owner_of, mapping_dynamic_vals=(block_at,))

    sizes = {E: experts, ONE: 1, WAVE: WAVES, LANE: LANES, EACH: each, GROUP: WAVES}
    sizes |= {EVERY: CHUNKS, CHUNK: CHUNKS_OF_IDS, STEP: _share(ID, TILE) / TILE}
    return place, sizes, [ID, SLOT, BLOCKS]


def _begin_waves(begin: Any, bins: Any) -> None:
    """The counts of waves become where the ids of each wave go; `begin` is where those of the next
    iteration do."""
    dims = (WAVE, EACH, GROUP)
    expert = _i * EACH + _j
    found = tkw.read(bins, mapping=_of({GROUP: _k, E: expert}, dims))
    at = tkw.read(begin, mapping=_of({E: expert}, dims[:2]))
    after = tkw.broadcast(at, dims) + tkw.cumsum(found, dim=GROUP)
    tkw.write(after - found, bins, mapping=_of({GROUP: _k, E: expert}, dims, write=True))
    total = at + tkw.sum(found, dim=GROUP)
    tkw.write(total, begin, mapping=_of({E: expert}, dims[:2], write=True))
