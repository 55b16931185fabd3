"""Waves that share the tile of a loop: `WaveConstraint(K, ...)` with `TilingConstraint(K, ...)`.
They divide each tile of K among them, and combine their results along K."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import rng
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave.constraints import MMAType

D, K, M, N = (getattr(tkl.sym, s) for s in "DKMN")
G, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
MACHINES = ["sim:sm_80", "sim:sm_90a", "sim:gfx942"]
TARGETS = pytest.mark.parametrize("target", ["eval", "cpu", *MACHINES])
EITHER_WAY = pytest.mark.parametrize("dynamic", [False, True], ids=["bound", "dynamic"])


def compiled(kernel, target, sizes, dynamic=False, **options):
    subs, free = ({}, list(sizes)) if dynamic else (sizes, [])
    return wave_compile(WaveCompileOptions(subs=subs, dynamic_symbols=free, target=target, **options), kernel)


def launch(kernel, target, sizes, *args, dynamic=False):
    made = compiled(kernel, target, sizes, dynamic)
    made(*args)
    return made


def shared_sums(made):
    return [r.message for r in made.remarks if getattr(r, "code", "") == "R0612"]


def whole(shape, seed=0, dtype="f2", most=4):
    """Small integers, so that every order of addition gives the same result."""
    return rng(seed).integers(-most, most + 1, shape).astype(dtype)


# ---- products ------------------------------------------------------------------------------------


def gemm_rows(tile, waves, mma=MMAType.F32_16x16x16_F16, threads=64):
    (bm, bn, bk), (wm, wn, wk) = tile, waves
    return [
        tkw.HardwareConstraint(threads_per_wave=threads, mma_type=mma),
        tkw.WorkgroupConstraint(M, bm, 0),
        tkw.WorkgroupConstraint(N, bn, 1),
        tkw.TilingConstraint(K, bk),
        tkw.WaveConstraint(M, bm // wm),
        tkw.WaveConstraint(N, bn // wn),
        tkw.WaveConstraint(K, bk // wk),
    ]


def gemm(tile, waves, dtype=tkl.f16, acc=tkl.f32, space=G, mma=MMAType.F32_16x16x16_F16):
    @tkw.wave(gemm_rows(tile, waves, mma))
    def gemm(
        a: tkl.Memory[M, K, space, dtype], b: tkl.Memory[N, K, space, dtype], c: tkl.Memory[M, N, G, acc]
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, acc](0)])
        def product(sum):
            return tkw.mma(tkw.read(a), tkw.read(b), sum)

        tkw.write(product, c)

    return gemm


@TARGETS
@EITHER_WAY
@pytest.mark.parametrize(
    "tile, waves",
    [
        ((16, 16, 64), (1, 1, 2)),
        ((32, 32, 64), (2, 1, 2)),
        ((16, 48, 128), (1, 1, 4)),
        ((16, 16, 96), (1, 1, 3)),
        ((48, 16, 32), (3, 1, 2)),
        ((32, 16, 24), (1, 1, 2)),  # 12 for each: not whole instructions
    ],
)
@pytest.mark.parametrize("sizes", [(32, 48, 128), (33, 50, 71), (5, 7, 3), (1, 1, 1), (17, 16, 0)])
def test_product(target, dynamic, tile, waves, sizes):
    m, n, k = sizes
    a, b, c = whole((m, k)), whole((n, k), 1), np.full((m, n), -1, "f4")
    launch(gemm(tile, waves), target, {M: m, N: n, K: k}, a, b, c, dynamic=dynamic)
    assert np.array_equal(c, a.astype("f4") @ b.astype("f4").T)


TYPES = {
    "f16": (tkl.f16, tkl.f32, "f2", "f4", MMAType.F32_16x16x16_F16),
    "f32": (tkl.f32, tkl.f32, "f4", "f4", MMAType.F32_16x16x16_F16),
    "i8": (tkl.i8, tkl.i32, "i1", "i4", MMAType.I32_16x16x16_I8),
}


@TARGETS
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("space", [G, SHARED], ids=["global", "shared"])
def test_types(target, kind, space):
    dtype, acc, of, to, mma = TYPES[kind]
    a, b, c = whole((21, 150), 0, of), whole((37, 150), 1, of), np.zeros((21, 37), to)
    launch(gemm((32, 16, 128), (2, 1, 2), dtype, acc, space, mma), target, {M: 21, N: 37, K: 150}, a, b, c)
    assert np.array_equal(c, a.astype(to) @ b.astype(to).T)


@TARGETS
def test_bf16(target):
    torch = pytest.importorskip("torch")
    a, b = (torch.randint(-4, 5, shape).bfloat16() for shape in ((21, 150), (37, 150)))
    c = torch.zeros(21, 37)
    kernel = gemm((16, 32, 64), (1, 1, 4), tkl.bf16)
    launch(kernel, target, {M: 21, N: 37, K: 150}, a, b, c)
    assert torch.equal(c, a.float() @ b.float().T)


@pytest.mark.parametrize("target", MACHINES)
def test_each_wave_multiplies_its_part(target):
    """Not just the right result: the sums are divided among the waves, and added once, after the loop."""
    made = compiled(gemm((16, 16, 64), (1, 1, 2)), target, {M: 16, N: 16, K: 256})
    assert shared_sums(made) == ["2 waves each multiply their part of the tile: the parts are added after the loop"]
    uneven = compiled(gemm((16, 16, 24), (1, 1, 2)), target, {M: 16, N: 16, K: 256})
    assert shared_sums(uneven) == []


@TARGETS
@EITHER_WAY
def test_a_sum_that_begins_with_something(target, dynamic):
    """A bias, and two matmuls that add to the same accumulator in one iteration."""

    @tkw.wave(gemm_rows((16, 32, 64), (1, 1, 2)))
    def kernel(
        a: tkl.Memory[M, K, G, tkl.f16],
        b: tkl.Memory[N, K, G, tkl.f16],
        bias: tkl.Memory[M, N, G, tkl.f32],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkw.read(bias)])
        def product(sum):
            x, y = tkw.read(a), tkw.read(b)
            return tkw.mma(x + x, y, tkw.mma(x, y, sum))

        tkw.write(product, c)

    a, b, bias = whole((19, 200)), whole((40, 200), 1), whole((19, 40), 2, "f4")
    c = np.zeros((19, 40), "f4")
    made = launch(kernel, target, {M: 19, N: 40, K: 200}, a, b, bias, c, dynamic=dynamic)
    assert np.array_equal(c, bias + 3 * (a.astype("f4") @ b.astype("f4").T))
    assert len(shared_sums(made)) == (2 if target in MACHINES else 0)


@TARGETS
def test_a_sum_that_is_needed_at_once(target):
    """Rows of keys with a scale for each tile: the result of an iteration is scaled before it is
    added."""

    @tkw.wave([*gemm_rows((16, 16, 64), (1, 1, 2)), tkw.WorkgroupConstraint(D, 1, 2)])
    def kernel(
        a: tkl.Memory[M, K, G, tkl.f16],
        b: tkl.Memory[N, K, G, tkl.f16],
        scale: tkl.Memory[M, N, G, tkl.f32],
        c: tkl.Memory[M, N, G, tkl.f32],
        most: tkl.Memory[M, N, G, tkl.f32],
    ):
        zero, low = tkl.Register[M, N, tkl.f32](0.0), tkl.Register[M, N, tkl.f32](-1000.0)

        @tkw.iterate(K, init_args=[zero, low])
        def loop(sum, top):
            part = tkw.mma(tkw.read(a), tkw.read(b), zero)
            return sum + part * tkw.read(scale), tkw.maximum(top, part)

        tkw.write(loop[0], c)
        tkw.write(loop[1], most)

    a, b, scale = whole((20, 150), most=2), whole((25, 150), 1, most=2), whole((20, 25), 2, "f4")
    c, most = np.zeros((20, 25), "f4"), np.zeros((20, 25), "f4")
    made = launch(kernel, target, {M: 20, N: 25, K: 150, D: 1}, a, b, scale, c, most)
    parts = [a[:, i : i + 64].astype("f4") @ b[:, i : i + 64].astype("f4").T for i in (0, 64, 128)]
    assert np.array_equal(c, scale * sum(parts)) and np.array_equal(most, np.max(parts, axis=0))
    if target in MACHINES:
        assert shared_sums(made) == ["2 waves each multiply their part of the tile: the parts are added in each iteration"]


# ---- attention -----------------------------------------------------------------------------------


def attention(bm, bn, keys, waves, space=G, causal=False):
    """Waves share the keys of an iteration: each has its part of the scores and of the sum over
    keys."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, bm, 0),
            tkw.WorkgroupConstraint(N, bn, 1),
            tkw.TilingConstraint(K, keys),
            tkw.WaveConstraint(K, keys // waves),
        ]
    )
    def attention(
        q: tkl.Memory[M, D, G, tkl.f16],
        k: tkl.Memory[K, D, space, tkl.f16],
        v: tkl.Memory[N, K, space, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        zeros = tkl.Register[M, N, tkl.f32](0.0)
        none, low = tkl.Register[M, tkl.f32](0.0), tkl.Register[M, tkl.f32](-1e6)

        @tkw.iterate(K, init_args=[low, none, zeros])
        def loop(top, total, acc):
            scores = tkw.mma(tkw.read(q), tkw.read(k), tkl.Register[M, K, tkl.f32](0.0))
            if causal:
                row = tkw.broadcast(tkw.self_index(M, tkl.i32), [M, K])
                after = tkw.broadcast(tkw.self_index(K, tkl.i32), [M, K]) > row
                scores = tkw.select(after, tkl.Register[M, K, tkl.f32](-1e6), scores)
            most = tkw.max(scores, top, dim=K)
            e, old = tkw.exp2(scores - most), tkw.exp2(top - most)
            sums = tkw.sum(e, total * old, dim=K)
            return most, sums, tkw.mma(tkw.cast(e, tkl.f16), tkw.read(v), acc * old)

        top, total, acc = loop
        tkw.write(acc / total, c)

    return attention


@TARGETS
@EITHER_WAY
@pytest.mark.parametrize("bm, bn, keys, waves, space", [(16, 32, 64, 2, G), (32, 16, 64, 4, SHARED), (16, 16, 96, 3, G)])
@pytest.mark.parametrize("sizes, causal", [((40, 32, 200), False), ((17, 20, 33), True), ((3, 16, 64), False)])
def test_attention(target, dynamic, bm, bn, keys, waves, space, sizes, causal):
    m, n, k = sizes
    q, ks, v = (rng(i).standard_normal(s).astype("f2") for i, s in enumerate(((m, 48), (k, 48), (n, k))))
    q *= np.float16(0.2)
    c = np.zeros((m, n), "f4")
    kernel = attention(bm, bn, keys, waves, space, causal)
    subs = {D: 48} if dynamic else {M: m, N: n, K: k, D: 48}
    options = WaveCompileOptions(subs=subs, dynamic_symbols=[M, N, K] if dynamic else [], target=target)
    made = wave_compile(options, kernel)
    made(q, ks, v, c)
    scores = q.astype("f8") @ ks.astype("f8").T
    if causal:
        scores = np.where(np.arange(k) > np.arange(m)[:, None], -1e6, scores)
    e = np.exp2(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(c, e / e.sum(1, keepdims=True) @ v.astype("f8").T, atol=3e-3)
    if target in MACHINES:
        assert any("after the loop" in text for text in shared_sums(made))


# ---- elements and reductions ---------------------------------------------------------------------


def row_rows(bm, bk, waves, lanes=64):
    return [
        tkw.HardwareConstraint(threads_per_wave=lanes, vector_shapes={M: 1, K: bk // waves}),
        tkw.WorkgroupConstraint(M, bm, 0),
        tkw.TilingConstraint(K, bk),
        tkw.WaveConstraint(K, bk // waves),
    ]


ROWS = pytest.mark.parametrize(
    "bm, bk, waves, m, k", [(1, 128, 2, 3, 300), (4, 96, 3, 5, 95), (2, 64, 4, 2, 1), (3, 40, 5, 7, 81), (1, 64, 2, 2, 0)]
)


@TARGETS
@EITHER_WAY
@ROWS
def test_elements(target, dynamic, bm, bk, waves, m, k):
    """Every element is read, written and added once."""

    @tkw.wave(row_rows(bm, bk, waves))
    def kernel(
        a: tkl.Memory[M, K, G, tkl.f32], b: tkl.Memory[M, K, G, tkl.f32], counts: tkl.Memory[M, K, G, tkl.i32]
    ):
        @tkw.iterate(K, init_args=[])
        def loop():
            tkw.write(tkw.read(a) * 2.0 + tkw.cast(tkw.self_index(K, tkl.i32), tkl.f32), b)
            tkw.atomic_add(tkl.Register[M, K, tkl.i32](1), counts)

    a, b, counts = whole((m, k), 0, "f4"), np.full((m, k), -1, "f4"), np.zeros((m, k), "i4")
    launch(kernel, target, {M: m, K: k}, a, b, counts, dynamic=dynamic)
    assert np.array_equal(b, 2 * a + np.arange(k, dtype="f4")) and np.array_equal(counts, np.ones_like(counts))


@TARGETS
@EITHER_WAY
@ROWS
@pytest.mark.parametrize("block", [False, True], ids=["", "block"])
def test_reductions(target, dynamic, bm, bk, waves, m, k, block):
    """All waves together, with `block` or without: the loop has one tile."""

    @tkw.wave(row_rows(bm, bk, waves))
    def kernel(
        a: tkl.Memory[M, K, G, tkl.f32],
        sums: tkl.Memory[M, G, tkl.f32],
        tops: tkl.Memory[M, G, tkl.f32],
        lows: tkl.Memory[M, G, tkl.i32],
        mean: tkl.Memory[M, K, G, tkl.f32],
    ):
        @tkw.iterate(
            K,
            init_args=[
                tkl.Register[M, tkl.f32](0.0),
                tkl.Register[M, tkl.f32](-100.0),
                tkl.Register[M, tkl.i32](100),
            ],
        )
        def loop(s, t, low):
            x = tkw.read(a) - 1.0
            tkw.write(x - tkw.sum(x, dim=K, block=block), mean)
            return (
                tkw.sum(x, s, dim=K, block=block),
                tkw.max(x, t, dim=K, block=block),
                tkw.min(tkw.cast(x, tkl.i32), low, dim=K, block=block),
            )

        tkw.write(loop[0], sums)
        tkw.write(loop[1], tops)
        tkw.write(loop[2], lows)

    a, mean = whole((m, k), 0, "f4"), np.zeros((m, k), "f4")
    sums, tops, lows = np.zeros(m, "f4"), np.zeros(m, "f4"), np.zeros(m, "i4")
    launch(kernel, target, {M: m, K: k}, a, sums, tops, lows, mean, dynamic=dynamic)
    x = a - 1
    assert np.array_equal(sums, x.sum(1, dtype="f4"))
    assert np.array_equal(tops, np.max(x, 1, initial=-100)) and np.array_equal(lows, np.min(x, 1, initial=100))
    parts = [x[:, i : i + bk] - x[:, i : i + bk].sum(1, keepdims=True) for i in range(0, k, bk)]
    assert np.array_equal(mean, np.concatenate(parts, 1) if parts else x)


@TARGETS
@ROWS
def test_scans_and_places(target, bm, bk, waves, m, k):
    """Prefix sums that continue from tile to tile, and the position of the largest element of a
    tile."""

    @tkw.wave(row_rows(bm, bk, waves))
    def kernel(
        a: tkl.Memory[M, K, G, tkl.i32], prefix: tkl.Memory[M, K, G, tkl.i32], best: tkl.Memory[M, G, tkl.i32]
    ):
        zero = tkl.Register[M, tkl.i32](0)

        @tkw.iterate(K, init_args=[zero, zero])
        def loop(before, places):
            x = tkw.read(a)
            tkw.write(tkw.cumsum(x, dim=K) + before, prefix)
            return tkw.sum(x, before, dim=K), places + tkw.argmax(x, dim=K)[1]

        tkw.write(loop[1], best)

    a, prefix, best = whole((m, k), 3, "i4", 50), np.zeros((m, k), "i4"), np.zeros(m, "i4")
    launch(kernel, target, {M: m, K: k}, a, prefix, best)
    assert np.array_equal(prefix, np.cumsum(a, 1, dtype="i4"))
    tiles = [(i, a[:, i : i + bk]) for i in range(0, k, bk)]
    assert np.array_equal(best, sum((i + x.argmax(1) for i, x in tiles), np.zeros(m, int)))


@TARGETS
def test_two_loops_over_the_same_dimension(target):
    """RMS norm: one loop sums the squares, another writes the elements divided by their root mean
    square."""

    @tkw.wave(row_rows(2, 96, 3))
    def kernel(a: tkl.Memory[M, K, G, tkl.f32], b: tkl.Memory[M, K, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkl.Register[M, tkl.f32](0.0)])
        def squares(s):
            x = tkw.read(a)
            return tkw.sum(x * x, s, dim=K)

        scale = tkw.rsqrt(squares / tkw.scalar(K, tkl.f32) + 1e-5)

        @tkw.iterate(K, init_args=[])
        def loop():
            tkw.write(tkw.read(a) * scale, b)

    a, b = rng().standard_normal((5, 211)).astype("f4"), np.zeros((5, 211), "f4")
    launch(kernel, target, {M: 5, K: 211}, a, b)
    x = a.astype("f8")
    np.testing.assert_allclose(b, x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5), rtol=1e-5)


# ---- kernels that observe threads ----------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", *MACHINES])
def test_waves_have_neighbouring_parts(target):
    """Which thread has an element: the waves one after another, and their lanes along K."""
    lanes = 64

    @tkw.wave(row_rows(1, 2 * lanes, 2, lanes))
    def kernel(a: tkl.Memory[M, K, G, tkl.i32], b: tkl.Memory[M, K, G, tkl.i32], c: tkl.Memory[M, G, tkl.i32]):
        @tkw.iterate(K, init_args=[tkl.Register[M, tkl.i32](0)])
        def loop(s):
            x = tkw.read(a, elements_per_thread=1)
            tkw.write(x + tkw.scalar(THREAD_0, tkl.i32), b, elements_per_thread=1)
            return tkw.sum(x, s, dim=K)

        tkw.write(loop, c)

    a, b, c = whole((2, 300), 0, "i4"), np.zeros((2, 300), "i4"), np.zeros(2, "i4")
    launch(kernel, target, {M: 2, K: 300}, a, b, c)
    assert np.array_equal(b - a, np.broadcast_to(np.arange(300) % (2 * lanes), a.shape))
    assert np.array_equal(c, a.sum(1))


@pytest.mark.parametrize("target", ["sim:gfx942", "cpu"])
def test_product_in_a_kernel_that_observes_threads(target):
    @tkw.wave(gemm_rows((16, 16, 64), (1, 1, 2)))
    def kernel(a: tkl.Memory[M, K, G, tkl.f16], b: tkl.Memory[N, K, G, tkl.f16], c: tkl.Memory[M, N, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(sum):
            return tkw.mma(tkw.read(a), tkw.read(b), sum)

        number = tkw.scalar(THREAD_0, tkl.f32)
        tkw.write(product + number - number, c)

    a, b, c = whole((18, 130)), whole((33, 130), 1), np.zeros((18, 33), "f4")
    made = launch(kernel, target, {M: 18, N: 33, K: 130}, a, b, c)
    assert np.array_equal(c, a.astype("f4") @ b.astype("f4").T)
    assert shared_sums(made) == ["2 waves each multiply their part of the tile: the parts are added after the loop"]


# ---- mistakes ------------------------------------------------------------------------------------


def copy(*rows):
    @tkw.wave([tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, K: 64}), *rows])
    def kernel(a: tkl.Memory[M, K, G, tkl.f32], b: tkl.Memory[M, K, G, tkl.f32]):
        tkw.write(tkw.read(a), b)

    return kernel


def test_a_part_that_does_not_divide_the_tile():
    kernel = copy(tkw.WorkgroupConstraint(M, 1, 0), tkw.TilingConstraint(K, 64), tkw.WaveConstraint(K, 24))
    with pytest.raises(CompileError, match="E0203.*24 of `K` does not divide the loop's tile 64"):
        compiled(kernel, "eval", {M: 1, K: 64})


def test_no_tile_to_share():
    kernel = copy(tkw.WorkgroupConstraint(M, 1, 0), tkw.WaveConstraint(K, 24))
    with pytest.raises(CompileError, match="E0205"):
        compiled(kernel, "eval", {M: 1, K: 64})


def test_no_dimension_left_for_waves():
    names = [getattr(tkl.sym, f"S{i}") for i in range(3)]
    rows = [tkw.WorkgroupConstraint(s, 4, i) for i, s in enumerate(names)]
    rows += [tkw.WaveConstraint(s, 2) for s in names]
    kernel = copy(*rows, tkw.TilingConstraint(K, 64), tkw.WaveConstraint(K, 32))
    with pytest.raises(CompileError, match="E0213.*leave none for `K`"):
        compiled(kernel, "eval", {M: 1, K: 64, **{s: 4 for s in names}})


def test_waves_that_the_hardware_row_denies():
    rows = [tkw.WorkgroupConstraint(M, 1, 0), tkw.TilingConstraint(K, 64), tkw.WaveConstraint(K, 32)]
    hardware = tkw.HardwareConstraint(64, waves_per_block=(1, 1, 1), vector_shapes={M: 1, K: 32})

    @tkw.wave([hardware, *rows])
    def kernel(a: tkl.Memory[M, K, G, tkl.f32], b: tkl.Memory[M, K, G, tkl.f32]):
        @tkw.iterate(K, init_args=[])
        def loop():
            tkw.write(tkw.read(a), b)

    with pytest.raises(CompileError, match="E0609.*makes 2 waves along workgroup dimension 0"):
        compiled(kernel, "sim:gfx942", {M: 1, K: 64})
