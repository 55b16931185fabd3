"""Counted waits, split barriers and staggered waves of schedule functions: R0619 says which of
those that are written are needless, too weak or missing. Results never depend on them."""

from functools import cache

import numpy as np
import pytest

import scheduled
import wave_lang.kernel.wave as tkw
from scheduled import CASES, compiled, copied, copies_of, kernel_part, result
from wave_lang.kernel.wave import wave_schedule


def notes(kernel):
    found = [r for r in kernel.remarks if getattr(r, "code", "") == "R0619"]
    assert len(found) <= 1 and all(n.file == __file__ for r in found for n in r.notes)
    return [n.message for r in found for n in r.notes]


@cache
def unscheduled(name, machine):
    return result(compiled(CASES[name], f"sim:{machine}"), CASES[name])


def check(name, schedule, said, machine="gfx942", run=False):
    """`said`: how the notes begin."""
    kernel = compiled(CASES[name], f"sim:{machine}", schedule)
    got = notes(kernel)
    assert len(got) == len(said) and all(a.startswith(b) for a, b in zip(got, said)), got
    if run:
        assert np.array_equal(result(kernel, CASES[name]), unscheduled(name, machine))


# ---- direct copies, two iterations ahead: those of one iteration may be in flight ----


def ahead(first, last=lambda copies: []):
    """In an iteration: `first`, fetches, copies, products, `last`."""

    @wave_schedule.wave_schedule()
    def schedule():
        (copies_a, fetches_a), (copies_b, fetches_b) = copied("read_a"), copied("read_b")
        products = tkw.get_node_by_tag("mma")
        pipeline = tkw.pipeline(tkw.get_node_by_tag("k_loop"))
        with pipeline as p:
            p.set_stage([(copies_a, copies_b), ()])
            p.set_stage([(), ()])
            p.set_stage([(fetches_a, fetches_b), (products,)])
        copies = kernel_part(pipeline, copies_a) + kernel_part(pipeline, copies_b)
        fetches = kernel_part(pipeline, fetches_a) + kernel_part(pipeline, fetches_b)
        products = kernel_part(pipeline, products)
        clusters = [
            tkw.cluster([*first(copies), fetches, copies]),
            tkw.cluster([products, *last(copies)]),
        ]
        tkw.reorder_graph(pipeline.KERNEL, clusters)

    return schedule


def split(id, copies, **how):
    waits = tkw.MemoryCounterWait(load=len(copies))
    return [waits, tkw.SharedMemoryBarrierSignal(id, **how), tkw.SharedMemoryBarrierWait(id)]


def early_signal(copies):
    waits, signal, wait = split(-1, copies, ds_wait=False)
    return [signal, waits, wait]


BOTH = ("read_a", "read_b")
DIRECT_COPIES = "async_two_cluster_triple_buffer"
DIRECT = {
    "exact": (lambda c: [tkw.MemoryCounterWaitBarrier(load=len(c))], []),
    "by position": (lambda c: [tkw.MemoryCounterWaitBarrier(len(c))], []),
    "by position, others not": (
        lambda c: [tkw.MemoryCounterWaitBarrier(None, None, 0)],
        [f"too weak: between `{x}.copy` and `{x}.fetch`, a MemoryCounterWaitB" for x in BOTH],
    ),
    "apart": (lambda c: [tkw.MemoryCounterWait(load=len(c)), tkw.WorkgroupBarrier()], []),
    "strict": (
        lambda c: [tkw.MemoryCounterWaitBarrier(load=0)],
        ["needless: load=0 of this MemoryCounterWaitBarrier is stricter than needed; load=4 is"],
    ),
    "weak": (
        lambda c: [tkw.MemoryCounterWaitBarrier(load=len(c) + 1)],
        [
            "too weak: between `read_b.copy` and `read_b.fetch`, load=5 of a MemoryCounterWait"
            "Barrier leaves the copy in flight; load=4 does not"
        ],
    ),
    "bare": (
        lambda c: [tkw.WorkgroupBarrier()],
        [
            f"too weak: between `{x}.copy` and `{x}.fetch`, a WorkgroupBarrier does not wait for "
            f"copies; MemoryCounterWaitBarrier(load={n}) does"
            for x, n in zip(BOTH, (6, 4))
        ],
    ),
    "of shared memory": (
        lambda c: [tkw.SharedMemoryBarrier()],
        [f"too weak: between `{x}.copy` and `{x}.fetch`, a SharedMemoryBarrier" for x in BOTH],
    ),
    "of all": (
        lambda c: [tkw.SharedMemoryBarrier(wait_async_ops=True)],
        ["needless: this SharedMemoryBarrier need not wait for accesses to shared memory"],
    ),
    "too late": (
        lambda c: [tkw.WorkgroupBarrier(), tkw.MemoryCounterWait(load=len(c))],
        [f"too weak: no barrier comes between a wait for `{x}.copy` and `{x}.fe" for x in BOTH],
    ),
    "without a barrier": (
        lambda c: [tkw.MemoryCounterWait(load=len(c))],
        [
            f"missing: there is no barrier between `{x}.{a}` and `{x}.{b}`"
            for x in BOTH
            for a, b in (("copy", "fetch"), ("fetch", "copy"))
        ],
    ),
    "twice": (
        lambda c: [tkw.MemoryCounterWaitBarrier(load=len(c)), tkw.MemoryCounterWait(load=len(c))],
        ["needless: without this MemoryCounterWait all accesses are in order"],
    ),
    "split": (lambda c: split(-1, c, ds_wait=False), []),
    "split, waits": (
        lambda c: split(-1, c),
        ["needless: this SharedMemoryBarrierSignal need not wait for accesses to shared memory"],
    ),
    "signals early": (
        early_signal,
        [f"too weak: no barrier comes between a wait for `{x}.copy` and `{x}.fe" for x in BOTH],
    ),
    "of some waves": (
        lambda c: split(3, c, ds_wait=False),
        [f"missing: there is no barrier between `{x}." for x in BOTH for _ in range(2)],
    ),
    "of tensors": (lambda c: [tkw.TensorCounterWait(len(c)), tkw.WorkgroupBarrier()], []),
    "of all tensors": (
        lambda c: [tkw.SharedMemoryBarrier(tensor_wait=True)],
        ["needless: this SharedMemoryBarrier need not wait for accesses to shared memory"],
    ),
    "of no tensors": (
        lambda c: [tkw.SharedMemoryBarrier(tensor_wait=False)],
        [f"too weak: between `{x}.copy` and `{x}.fetch`, a SharedMemoryBarrier" for x in BOTH],
    ),
}


@pytest.mark.parametrize("name", DIRECT)
def test_direct_copies(name):
    written, said = DIRECT[name]
    check(DIRECT_COPIES, ahead(written), said, run=name in ("exact", "weak", "signals early"))


def test_place_of_a_wait():
    """After the products of an iteration it is that of the next one; a second one is needless."""
    barrier = tkw.MemoryCounterWaitBarrier
    check(DIRECT_COPIES, ahead(lambda c: [], lambda c: [barrier(load=len(c))]), [])
    strict = ["needless: load=2 of this MemoryCounterWaitBarrier is stricter than needed; load=4"]
    check(DIRECT_COPIES, ahead(lambda c: [], lambda c: [barrier(load=2)]), strict)
    one = "needless: without this MemoryCounterWaitBarrier all accesses are in order"
    both = ahead(*[lambda c: [barrier(load=len(c))]] * 2)
    check(DIRECT_COPIES, both, [one])


# ---- half of the waves one barrier behind ----


def ping_pong(kinds, staggered=True):
    """The public package's two clusters with these barriers, the last at the loop's end."""

    @wave_schedule.wave_schedule()
    def schedule():
        loads, stores, fetches = copies_of("read_a", "read_b")
        products = tkw.get_node_by_tag("mma")
        pipeline = tkw.pipeline(tkw.get_node_by_tag("k_loop"))
        with pipeline as p:
            p.set_stage([(loads,), (stores,)])
            p.set_stage([(fetches,), (products,)])
        loads, stores, fetches, products = kernel_part(pipeline, loads, stores, fetches, products)
        first, second = scheduled.halves(products)
        clusters = [
            tkw.cluster([fetches, loads, kinds[0]()]),
            tkw.cluster([first, kinds[1]()]),
            tkw.cluster([stores, kinds[2]()]),
            tkw.cluster([second]),
        ]
        tkw.insert_before(pipeline.KERNEL, tkw.SharedMemoryBarrier())
        tkw.insert_at_end(pipeline.KERNEL, kinds[3]())
        tkw.reorder_graph(pipeline.KERNEL, clusters)
        if staggered:
            tkw.stagger(pipeline.KERNEL)

    return schedule


BARE, LDS = tkw.WorkgroupBarrier, tkw.SharedMemoryBarrier
BEHIND = "too weak: half of the waves is one barrier behind, so two barriers must come between"
PUBLIC = [
    f"{BEHIND} a wait for `{x}.{a}` and `{x}.{b}`, not 1"
    for x in BOTH
    for a, b in (("store", "fetch"), ("fetch", "store"))
]


@pytest.mark.parametrize("machine", ["gfx942", "gfx950"])
def test_public_ping_pong(machine):
    check("two_pp_cluster", ping_pong((BARE, LDS, BARE, LDS)), PUBLIC, machine, run=True)
    check("two_pp_cluster", ping_pong((LDS, BARE, LDS, BARE)), [], machine, run=True)


def test_staggered_waits():
    strict = ping_pong((LDS, LDS, LDS, BARE))
    said = "needless: this SharedMemoryBarrier need not wait for accesses to shared memory"
    check("two_pp_cluster", strict, [said])
    weak = [f"{BEHIND} a wait for `{x}.fetch` and `{x}.store`, not 1" for x in BOTH]
    check("two_pp_cluster", ping_pong((BARE, LDS, LDS, BARE)), weak)


def test_without_stagger():
    """All waves meet at each barrier: of four, two are enough, and they wait."""
    said = ["needless: without this WorkgroupBarrier all accesses are in order"] * 2
    check("two_pp_cluster", ping_pong((BARE, LDS, BARE, LDS), False), said)


def test_barriers_of_unknown_waves():
    @wave_schedule.wave_schedule()
    def schedule():
        ahead(lambda c: [tkw.WorkgroupBarrier()]).__dict__["_fn"]()
        tkw.insert_cond_barrier_before(tkw.THREAD_0 < 64, tkw.get_node_by_tag("k_loop"))

    check(DIRECT_COPIES, schedule, [])
