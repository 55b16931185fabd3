"""Any schedule with any number of iterations: the same bits as without one. Rows place copies, fetches
and whatever else a loop computes in random stages."""

import os

import numpy as np
import pytest

from trip_kernels import (
    KERNELS,
    NESTED,
    NESTED_ROWS,
    TWICE,
    TWICE_ROWS,
    arguments,
    draw_rows,
    fill_in,
    kernel_text,
)
from wave_lang import _wave

MACHINES = ["sm_80", "sm_90a", "gfx942", "gfx950"]
DYNAMIC = "dynamic M, N, K"
TRIPS = range(15)  # more than stages and slots together
DRAWS = 3
FULL = bool(os.environ.get("TEST_FULL"))


def sizes_of(trips, ragged):
    """Two workgroups along M, or one that is ragged along all dimensions."""
    return {"M": 27 if ragged else 35, "N": 19, "D": 16, "K": max(0, 16 * trips - (5 if ragged else 0))}


def lowered(text, target):
    """None: the schedule is refused."""
    kernel = _wave.parse(text, "trips.wave")[0]
    try:
        kernel.lower(target)
    except _wave.CompileError as error:
        assert "[E0620]" in str(error), str(error)
        return None
    finally:
        _wave.take_diagnostics()
    return kernel


class Run(_wave.Launchable):
    def __init__(self, text, target):
        kernel = _wave.parse(text, "trips.wave")[0]
        self._bind(kernel)
        self._use(kernel.compile(target=target, cache=-1))


def results(run, text, sizes):
    args = arguments(np.random.default_rng(sizes["K"]), text, sizes)
    run(args)
    return [a.tobytes() for a in args]


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("name", KERNELS)
def test_any_number_of_iterations(name, target):
    rng = np.random.default_rng([ord(c) for c in name + target])
    text = kernel_text(name, DYNAMIC, "")
    plain, obeyed = lowered(text, target), 0
    want = {t: results(lambda a: plain.sim(tuple(a), target, "round", False), text, sizes_of(t, t % 2)) for t in TRIPS}
    for _ in range(4 * DRAWS):
        rows = draw_rows(rng, name)
        kernel = lowered(kernel_text(name, DYNAMIC, rows), target)
        obeyed += kernel is not None
        for t in TRIPS if kernel else ():
            order = ("round", "reverse", "random:1")[t % 3]
            got = results(lambda a: kernel.sim(tuple(a), target, order, False), text, sizes_of(t, t % 2))
            assert got == want[t], (rows, t)
        if obeyed == DRAWS:
            break
    assert obeyed


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("name", KERNELS)
def test_known_numbers_of_iterations(name, target):
    rng = np.random.default_rng([ord(c) for c in target + name])
    obeyed = 0
    for t in list(TRIPS) * 2:
        sizes = sizes_of(t, t % 3 == 0)
        bound = f"bind M = {sizes['M']}; bind N = 19; bind K = {sizes['K']}"
        rows = draw_rows(rng, name)
        text = kernel_text(name, bound, rows)
        kernel, plain = lowered(text, target), lowered(kernel_text(name, bound, ""), target)
        obeyed += kernel is not None
        if kernel:
            got, want = (results(lambda a, k=k: k.sim(tuple(a), target, "reverse", False), text, sizes) for k in (kernel, plain))
            assert got == want, (rows, t)
    assert obeyed


@pytest.mark.parametrize("name", KERNELS)
def test_machine_code(name):
    rng = np.random.default_rng([ord(c) for c in name])
    text = kernel_text(name, DYNAMIC, "")
    rows = next(r for r in iter(lambda: draw_rows(rng, name), None) if lowered(kernel_text(name, DYNAMIC, r), "gfx942"))
    try:
        plain, kernel = (Run(kernel_text(name, DYNAMIC, r), "emu:gfx942") for r in ("", rows))
    except _wave.CompileError as error:
        assert "[E0901]" in str(error), str(error)
        pytest.skip("no libLLVM compiles for this chip")
    for t in TRIPS:
        sizes = sizes_of(t, t % 2)
        assert results(lambda a: kernel(*a), text, sizes) == results(lambda a: plain(*a), text, sizes), (rows, t)


# How a loop is unrolled and ends, with copies that run three iterations ahead.
ROUND = [(n, how) for n in (1, 2, 4) for how in ("masked", "peeled")]
ROUNDS = [f"schedule K depth 4 unroll {n} drain {how}" for n, how in ROUND]


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("rows", ROUNDS)
def test_unrolled_loops_and_how_they_end(rows, target):
    text, trips = kernel_text("gemm", DYNAMIC, ""), range(4 + 4 + 2 + 1)
    plain, kernel = (lowered(kernel_text("gemm", DYNAMIC, r), target) for r in ("", rows))
    for t in trips:
        sizes = sizes_of(t, t % 2)
        known = f"bind M = {sizes['M']}; bind N = 19; bind K = {sizes['K']}"
        fixed = lowered(kernel_text("gemm", known, rows), target)
        got, too, want = (
            results(lambda a, k=k: k.sim(tuple(a), target, "random:1", False), text, sizes) for k in (kernel, fixed, plain)
        )
        assert got == want and too == want, (rows, t)


# Copies run two iterations ahead, fetches one, and what fills a slot waits in registers or has a barrier.
STEPPED = {
    "gemm": "at K 0.0 x.copy y.copy; at K 1.0 x.fetch y.fetch; at K 2.1 n; schedule K ",
    "attention": "at K 0.0 y.copy; at K 1.1 w.copy; at K 1.2 s; at K 2.3 n; schedule K ",
}


@pytest.mark.parametrize("target", ["toy8", "sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize("step", (1, 2, 4))
def test_loops_with_steps(step, target):
    """The counter grows by more than 1, slots and phases do not: with and without rows, bit for bit what
    the loop computes that keeps one tile."""
    depth = 3 if target == "toy8" else 4  # what shared memory has room for
    for name, places in STEPPED.items() if target != "toy8" else [("gemm", STEPPED["gemm"])]:
        source = KERNELS[name][0].replace("for K carry", f"for K step {step} carry")
        plain = lowered(fill_in(source, DYNAMIC, "stages 1"), target)
        rows = [""] + [f"{p}unroll {n} drain {how}" for p in (f"schedule K depth {depth} ", places) for n, how in ROUND]
        kernels = [lowered(fill_in(source, DYNAMIC, r), target) for r in rows]
        for t in range(0, 4 * step + 3):
            sizes = sizes_of(t, t % 2)
            want = results(lambda a: plain.sim(tuple(a), target, "round", False), source, sizes)
            for number, (kernel, r) in enumerate(zip(kernels, rows)):
                if step > 1 and (t + number) % 2 and not FULL:
                    continue  # counters that grow by more than 1 take as many iterations several times
                got = results(lambda a, k=kernel: k.sim(tuple(a), target, "random:1", False), source, sizes)
                assert got == want, (name, r, t)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize("step", (1, 2, 4))
def test_steps_of_aligned_tensors(step, target):
    """Tensors whose rows begin at multiples of 16 bytes: a copy engine fills the slots on sm_90a."""
    source = KERNELS["gemm"][0].replace("for K carry", f"for K step {step} carry")
    for t in range(0, 9 * step, 1 if step == 1 else step - 1):
        sizes = sizes_of(t, False) | {"M": 64, "N": 32}
        known = f"bind M = 64; bind N = 32; bind K = {sizes['K']}"
        if t % 3 == 2:
            known = "bind M = 64; bind N = 32; dynamic K; assume Eq(Mod(K, 16), 0)"
        plain = lowered(fill_in(source, known, "stages 1"), target)
        want = results(lambda a: plain.sim(tuple(a), target, "round", False), source, sizes)
        n, how = ROUND[t % len(ROUND)]
        roles = "; roles K load 4, math 8" if target == "sm_90a" and t % 2 else ""
        for rows in ("", f"schedule K depth 4 unroll {n} drain {how}{roles}", f"{STEPPED['gemm']}unroll {n} drain {how}"):
            kernel = lowered(fill_in(source, known, rows), target)
            got = results(lambda a, k=kernel: k.sim(tuple(a), target, "random:1", False), source, sizes)
            assert got == want, (rows, t)


def same_bits(source, sizes, target, rows, all_sizes):
    text = fill_in(source, sizes, "")
    plain, kernel = (lowered(fill_in(source, sizes, r), target) for r in ("", rows))
    for sizes in all_sizes:
        got, want = (results(lambda a, k=k: k.sim(tuple(a), target, "random:1", False), text, sizes) for k in (kernel, plain))
        assert got == want, (rows, sizes)


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("rows", NESTED_ROWS)
def test_loops_in_loops(rows, target):
    sizes = [{"B": b, "K": 16 * k - k % 3, "M": 33, "N": 31} for b in (0, 1, 2, 3, 6) for k in (0, 1, 2, 5)]
    same_bits(NESTED, "dynamic B, M, N, K", target, rows, sizes)


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("rows", TWICE_ROWS)
def test_several_loops(rows, target):
    sizes = [{"K": 16 * k - k % 3, "M": 33, "N": 31} for k in range(9)]
    same_bits(TWICE, DYNAMIC, target, rows, sizes)
