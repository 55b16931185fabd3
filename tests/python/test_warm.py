"""Tiles that are read after a loop with service waves, which prefetch them: of odd sizes, in any order of waves, on a
simulated H100, and the same results without."""

import os
import re
import sys

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from gemm_kernels import RNG, B, K, M, N, halves, product, tiled
from wave_lang import SimulationError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tools"))

import ptxas  # noqa: E402

ORDERS = ("round", "reverse", "first", "last", "random:5", "random:11")
TILE = (64, 64, 32)


def residual(tile=TILE, waves=1, added=tkl.f32):
    @tkw.wave(tiled(tile, 128, waves))
    def residual(
        a: tkl.Memory[M, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        bias: tkl.Memory[N, G, added],
        r: tkl.Memory[M, N, G, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f16],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def result(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        biased = result + tkw.broadcast(tkw.cast(tkw.read(bias), tkl.f32), [M, N])
        tkw.write(tkw.cast(biased + tkw.cast(tkw.read(r), tkl.f32), tkl.f16), c)

    return residual


def batched():
    @tkw.wave(tiled(TILE, 128, 1, tkw.WorkgroupConstraint(B, 1, 2)))
    def batched(
        a: tkl.Memory[B, M, K, S, tkl.f16],
        b: tkl.Memory[B, N, K, S, tkl.f16],
        r: tkl.Memory[B, M, N, G, tkl.f32],
        c: tkl.Memory[B, M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[B, M, N, tkl.f32](0.0)])
        def result(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(result + tkw.read(r), c)

    return batched


def compiled(kernel, subs, dynamic=(), target="sim:sm_90a", workgroups=3, **options):
    options = WaveCompileOptions(subs=subs, dynamic_symbols=list(dynamic), target=target, **options)
    options.persistent_workgroups = workgroups
    return wave_compile(options, kernel)


def check(run, m, n, k):
    a, b, r = halves(m, k), halves(n, k), halves(m, n)
    bias, c = RNG.standard_normal(n).astype("f4"), np.full((m, n), np.nan, "f2")
    run(a, b, bias, r, c)
    np.testing.assert_allclose(c, product(a, b) + bias + r, atol=0.06, rtol=1e-3)
    return a, b, bias, r, c


def prefetches(kernel):
    return str(kernel.ir_after("warm")).count("prefetch %")


@pytest.mark.parametrize("fetched", [False, True])
@pytest.mark.parametrize("sizes", [(130, 200, 72), (257, 72, 8), (64, 448, 136), (1, 8, 64), (192, 64, 512)])
def test_sizes(sizes, fetched):
    kernel = compiled(residual(), dict(zip((M, N, K), sizes)), fetch_reads=fetched)
    check(kernel, *sizes)
    assert bool(re.search("tma_load %r.1.* %r, ", str(kernel.lowered))) == (fetched and sizes[2] > 32)
    assert prefetches(kernel) == (sizes[2] > 32)  # a single iteration needs no ring


def test_dynamic_sizes():
    """Loops that are shorter than the number of parts leave some out; one without iterations, all."""
    kernel = compiled(residual((128, 64, 64), 2), {}, (M, N, K))
    for sizes in (300, 200, 136), (1, 8, 8), (128, 64, 64), (513, 72, 1000), (140, 136, 0):
        check(kernel, *sizes)


def test_dynamic_sizes_lane_by_lane():
    """The program for rows of whole pieces, which a launch of other lengths does not run."""
    kernel = compiled(residual((128, 64, 64), 2), {}, (M, N, K), "sm_90a", 4)
    text = kernel.program.text("ir", 0)
    assert text.count("tma_prefetch") == 1
    for sizes in (300, 200, 136), (1, 8, 8), (513, 72, 1000), (140, 136, 0):
        check(lambda *args: _wave.parse(text)[0].sim(args, "sim:sm_90a", "random:2"), *sizes)


def test_rows_of_other_lengths():
    """Other variants run where rows do not begin at multiples of 16 bytes."""
    kernel = compiled(residual(), {}, (M, N, K))
    for sizes in (130, 201, 72), (65, 67, 35):
        check(kernel, *sizes)


def test_batches():
    """Rows of f32 that are longer than a tile, of one matrix of the batch."""
    sizes = {B: 3, M: 130, N: 100, K: 72}
    kernel = compiled(batched(), sizes)
    a, b, r, c = halves(3, 130, 72), halves(3, 100, 72), RNG.random((3, 130, 100), "f4"), np.zeros((3, 130, 100), "f4")
    kernel(a, b, r, c)
    np.testing.assert_allclose(c, product(a, b) + r, atol=1e-2)
    assert "tma_prefetch" in str(kernel.lowered) and re.search(r"tma_prefetch %r, .* \{box = \[1, \d+, 64\]\}", str(kernel.lowered))


@pytest.mark.parametrize(
    "target, workgroups, why",
    [
        ("sim:sm_90a", 3, None),
        ("sim:sm_90a", 0, "a workgroup computes only one tile"),
        ("sim:sm_80", None, "the machine has no copy engine"),
    ],
)
def test_an_option_without_effect_says_why(target, workgroups, why):
    sizes = {M: 200, N: 128, K: 96}
    kernel = compiled(residual(), sizes, (), target, workgroups, fetch_reads=True)
    said = [r.message for r in kernel.remarks if "fetch_reads" in str(r)]
    assert said == ([f"`fetch_reads` has no effect on `residual`: {why}"] if why else [])


@pytest.mark.parametrize("fetched", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_orders(order, fetched):
    sizes = (140, 136, 330)
    text = str(compiled(residual(), dict(zip((M, N, K), sizes)), fetch_reads=fetched).lowered)
    check(lambda *args: _wave.parse(text)[0].sim(args, "sim:sm_90a", order), *sizes)


def test_the_option_and_the_row():
    """Without it, the program is as if the pass did not exist; results are the same."""
    sizes = {M: 300, N: 200, K: 136}
    on, off = compiled(residual(), sizes), compiled(residual(), sizes, warm_cache=False)
    assert prefetches(on) == 1 and not prefetches(off) and "warm 0" in str(off.ir_after("warm"))
    args = check(on, 300, 200, 136)
    again = np.zeros_like(args[-1])
    off(*args[:-1], again)
    np.testing.assert_array_equal(again, args[-1])


def test_where_it_does_not_pay():
    """Tiles of a few lines, workgroups of one tile, and machines without a copy engine."""
    sizes = {M: 300, N: 200, K: 136}
    assert not prefetches(compiled(residual((64, 32, 32)), sizes))
    assert not prefetches(compiled(residual(), sizes, workgroups=0))
    assert not prefetches(compiled(residual(), sizes, target="sim:sm_80", workgroups=None))


@pytest.mark.parametrize("dynamic", [(), (M, N, K)])
def test_ptx(dynamic):
    """One instruction of the copy engine for each part, which takes no register from the waves that compute."""
    sizes, used = {M: 8192, N: 4096, K: 1024}, []
    subs = {} if dynamic else sizes
    for on in True, False:
        kernel = compiled(residual((128, 256, 64), 2), subs, dynamic, "sm_90a", 132, warm_cache=on)
        text = kernel.ptx
        assert text.count("cp.async.bulk.prefetch.tensor.2d.L2.global.tile") == on
        if ptxas.find():
            used += re.findall(r"Used \d+ registers|\d+ bytes spill", ptxas.assemble(text).log)
    assert used[: len(used) // 2] == used[len(used) // 2 :]


def test_registers_outside_loops():
    """A bias and a residual need a few registers more than there are, when the loop has ended. They keep the tile, and
    workgroups stay; nothing is stored to memory."""
    kernel = compiled(residual((128, 256, 32), 2, tkl.f16), {M: 8192, N: 4096, K: 1024}, (M, N, K), "sm_90a", None)
    assert "prefetch.tensor" in kernel.ptx and not any(r.code == "R0620" for r in kernel.remarks)
    assert not ptxas.find() or " 0 bytes spill stores" in ptxas.assemble(kernel.ptx).log


def test_positions_that_change_after_the_loop():
    """What is read elsewhere is not copied to where the loop was."""
    place = tkl.sym.PLACE
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=128),
        tkw.WorkgroupConstraint(M, 64, 0, apply_fn=lambda wg: wg * 64 + place),
        tkw.WorkgroupConstraint(N, 64, 1),
        tkw.TilingConstraint(K, 32),
        tkw.WaveConstraint(M, 64),
    ]

    @tkw.wave(constraints)
    def moved(
        a: tkl.Memory[M, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        x: tkl.Memory[M, N, G, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
        d: tkl.Memory[M, N, G, tkl.f16],
    ):
        tkw.set_symbol(place, tkw.scalar(0, tkl.i32))

        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def result(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(result, c)
        tkw.set_symbol(place, tkw.scalar(8, tkl.i32))
        tkw.write(tkw.read(x), d)

    rng = np.random.default_rng(4)
    a, b, x = (rng.integers(-3, 4, shape).astype("f2") for shape in ((200, 96), (128, 96), (200, 128)))
    for fetched in (False, True):
        kernel = compiled(moved, {M: 200, N: 128, K: 96}, fetch_reads=fetched)
        c, d = np.zeros((200, 128), "f4"), np.zeros((200, 128), "f2")
        kernel(a, b, x, c, d)
        np.testing.assert_array_equal(c, a.astype("f4") @ b.T.astype("f4"))
        np.testing.assert_array_equal(d[8:], x[8:])


def changed(change):
    sizes = (130, 200, 72)
    kernel = compiled(residual(), dict(zip((M, N, K), sizes)))
    text = change(str(kernel.lowered))
    check(lambda *args: _wave.parse(text)[0].sim(args, "sim:sm_90a", "round"), *sizes)


def fetched(change):
    sizes = (130, 200, 72)
    subs = dict(zip((M, N, K), sizes))
    text = change(str(compiled(residual(), subs, fetch_reads=True).ir_after("sync")))
    check(compiled(residual(), subs, override_mlir=text, override_stage="sync"), *sizes)


def without(text, line):
    changed, count = re.subn(rf"\n *{line}[^\n]*", "", text)
    assert count
    return changed


def test_faults_of_fetched_tiles_are_found():
    """Without the wait for the tile, or for a store, or without the barrier after that."""
    fetched(lambda text: text)
    for line in "mbar_wait %full.1", r"bulk_wait 0 \{read\}":
        with pytest.raises(SimulationError, match="E08"):
            fetched(lambda text: without(text, line))
    with pytest.raises(SimulationError, match="E0803"):
        fetched(lambda text: re.sub(r"(bulk_wait 0 \{read\}\n) *barrier workgroup\n", r"\1", text, count=1))


def test_a_store_is_read_until_its_wait():
    """One iteration has no service waves: a barrier between the store and the wait, for the residual, is not enough."""
    sizes = {M: 257, N: 72, K: 8}
    text = str(compiled(residual(), sizes, fetch_reads=True).ir_after("sync"))
    assert re.search(r"bulk_wait 0 \{read\}\n *barrier workgroup\n *write", text)


def test_faults_are_found():
    """A box that does not begin at a multiple of 16 bytes, or that is too long for a tensor map."""
    changed(lambda text: text)
    with pytest.raises(SimulationError, match="begins 2 bytes into a row|bytes into a row of `r`: expected a multiple of 16"):
        changed(lambda text: re.sub(r"tma_prefetch %r, (%\S+), %\S+ ", r"%one = scalar 1 : i32\n tma_prefetch %r, \1, %one ", text))
    with pytest.raises(SimulationError, match="a box has 512 elements along dimension 1, expected at most 256"):
        changed(lambda text: re.sub(r"(tma_prefetch .*\{box = \[\d+), \d+", r"\1, 512", text))
