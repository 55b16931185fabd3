"""Tiles of workgroups that do not fit a machine are divided (R0620): results are those of NumPy, on
machines with fewer registers than the kernel was written for, and ptxas spills nothing."""

import os
import re
import sys

import numpy as np
import pytest
import sympy

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import f64, halfs, rng
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave.constraints import MMAType

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))

import ptxas  # noqa: E402

B, M, N, K, K1, K2 = (getattr(tkl.sym, s) for s in "B M N K K1 K2".split())
BM, BN, BK = tkl.sym.BM, tkl.sym.BN, tkl.sym.BK
G, S = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
MACHINES = pytest.mark.parametrize("machine", ["sm_90a", "sm_80", "gfx1100"])


def compiled(kernel, target, subs, dynamic=()):
    subs = {s: v for s, v in subs.items() if s not in dynamic}
    options = WaveCompileOptions(subs=subs, dynamic_symbols=list(dynamic), target=target)
    return wave_compile(options, kernel)


def divisions(made):
    return [r.message for r in made.remarks if getattr(r, "code", "") == "R0620"]


# ---- products, with and without what follows them ----


def constraints(waves=(2, 2), more=()):
    return [
        tkw.WorkgroupConstraint(M, BM, 0),
        tkw.WorkgroupConstraint(N, BN, 1),
        tkw.TilingConstraint(K, BK),
        tkw.WaveConstraint(M, BM / waves[0]),
        tkw.WaveConstraint(N, BN / waves[1]),
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=MMAType.F32_16x16x16_F16),
        *more,
    ]


def gemm(waves=(2, 2), more=()):
    @tkw.wave(constraints(waves, more))
    def gemm(
        a: tkl.Memory[M, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    return gemm


def sizes(m, n, k, tile):
    return dict(zip((M, N, K, BM, BN, BK), (m, n, k, *tile)))


def operands(m, n, k):
    return halfs((m, k)), halfs((n, k), 1)


def check_gemm(made, m, n, k):
    a, b = operands(m, n, k)
    c = np.full((m, n), np.nan, "f4")
    made(a, b, c)
    np.testing.assert_allclose(c, f64(a) @ f64(b).T, atol=1e-4 * k**0.5)


@MACHINES
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("m, n, k", [(256, 256, 64), (300, 270, 72), (1, 513, 33)])
def test_gemm(machine, dynamic, m, n, k):
    tile = (256, 256, 32)
    made = compiled(
        gemm(), f"sim:{machine}", sizes(m, n, k, tile), (M, N, K) if dynamic else ()
    )
    check_gemm(made, m, n, k)
    (said,) = divisions(made)
    assert "is divided into" in said and "registers of a thread" in said
    assert dynamic or "2 of `M` 128, `N` 256" in said


@pytest.mark.parametrize(
    "tile, machine, wanted",
    [
        ((256, 128, 32), "sm_90a", None),
        ((192, 256, 64), "sm_90a", None),
        ((256, 224, 64), "sm_80", "`M` 128, `N` 224"),
        ((192, 256, 64), "sm_80", "`M` 192, `N` 128"),
        ((128, 512, 32), "sm_90a", "`M` 128, `N` 256"),
        ((256, 256, 64), "gfx942", None),
    ],
)
def test_only_what_does_not_fit_is_divided(tile, machine, wanted):
    made = compiled(gemm(), f"sim:{machine}", sizes(512, 512, 256, tile))
    said = divisions(made)
    assert bool(said) == bool(wanted)
    assert not wanted or wanted in said[0]


def test_a_tile_of_few_waves_gets_more_of_them():
    """Two warps would hold 256 sums a thread; a division would read more."""
    m, n, k = 130, 128, 40
    made = compiled(gemm((1, 1)), "sim:sm_80", sizes(m, n, k, (128, 128, 32)))
    check_gemm(made, m, n, k)
    (said,) = divisions(made)
    assert "gets 4 waves" in said


@MACHINES
@pytest.mark.parametrize("dynamic", [False, True])
def test_what_follows_the_product_is_divided_with_it(machine, dynamic):
    """Bias, residual, activation, the sum of each row's part, a second output."""
    m, n, k = 270, 520, 40

    @tkw.wave(constraints())
    def fused(
        a: tkl.Memory[M, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        bias: tkl.Memory[N, G, tkl.f32],
        scale: tkl.Memory[M, G, tkl.f32],
        residual: tkl.Memory[M, N, G, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
        h: tkl.Memory[M, N, G, tkl.f16],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        x = product * tkw.broadcast(tkw.read(scale), [M, N])
        x = x + tkw.broadcast(tkw.read(bias), [M, N])
        x = tkw.maximum(x, tkl.Register[M, N, tkl.f32](0.0))
        x = x + tkw.cast(tkw.read(residual), tkl.f32)
        tkw.write(x, c)
        tkw.write(tkw.cast(x, tkl.f16), h)

    made = compiled(
        fused, f"sim:{machine}", sizes(m, n, k, (256, 256, 32)), (M, N, K) if dynamic else ()
    )
    a, b = operands(m, n, k)
    bias, scale = rng(2).standard_normal(n).astype("f4"), rng(3).standard_normal(m).astype("f4")
    residual = halfs((m, n), 4)
    c, h = np.full((m, n), np.nan, "f4"), np.full((m, n), np.nan, "f2")
    made(a, b, bias, scale, residual, c, h)
    want = f64(a) @ f64(b).T * scale[:, None] + bias
    want = np.maximum(want, 0) + f64(residual)
    np.testing.assert_allclose(c, want, atol=2e-3)
    np.testing.assert_allclose(f64(h), want, atol=2e-2, rtol=2e-3)
    assert len(divisions(made)) == 1


# ---- attention ----


def attention(waves=4):
    i, j, k = (tkw.IndexMapping.iterator(d) for d in range(3))
    out = tkw.IndexMapping(num_iterators=3, inputs={B: i, N: j, M: k}, outputs={B: i, M: k, N: j})
    turned = tkw.IndexMapping(
        num_iterators=3, inputs={B: i, K2: k, N: j}, outputs={B: i, N: j, K2: k}
    )

    @tkw.wave(
        [
            tkw.WorkgroupConstraint(M, BM, 0),
            tkw.WorkgroupConstraint(N, BN, 1),
            tkw.WorkgroupConstraint(B, 1, 2),
            tkw.TilingConstraint(K2, BK),
            tkw.WaveConstraint(M, BM / waves),
            tkw.WaveConstraint(N, BN),
            tkw.HardwareConstraint(
                threads_per_wave=64,
                mma_type=MMAType.F32_16x16x16_F16,
                vector_shapes={B: 0, M: 16, N: 16},
            ),
        ]
    )
    def attention(
        q: tkl.Memory[B, M, K1, G, tkl.f16],
        k: tkl.Memory[B, K2, K1, S, tkl.f16],
        v: tkl.Memory[B, K2, N, S, tkl.f16],
        c: tkl.Memory[B, M, N, G, tkl.f32],
    ):
        carried = [
            tkl.Register[B, M, tkl.f32](-1e6),
            tkl.Register[B, M, tkl.f32](0.0),
            tkl.Register[B, N, M, tkl.f32](0.0),
        ]

        @tkw.iterate(K2, init_args=carried)
        def loop(largest, total, acc):
            scores = tkw.mma(tkw.read(k), tkw.read(q), tkl.Register[B, K2, M, tkl.f32](0.0))
            x = tkw.permute(scores, target_shape=[B, M, K2])
            larger = tkw.max(x, largest, dim=K2)
            kept = tkw.exp2(largest - larger)
            e = tkw.exp2(x - larger)
            total = tkw.sum(e, total * kept, dim=K2)
            p = tkw.cast(e, tkl.f16)
            return larger, total, tkw.mma(tkw.read(v, mapping=turned), p, acc * kept)

        _, total, result = loop
        tkw.write(result * tkw.reciprocal(total), c, mapping=out)

    return attention


def attention_sizes(b, m, k2, d, tile):
    return {B: b, M: m, K2: k2, K1: d, N: d, BM: tile[0], BK: tile[1], BN: d}


@MACHINES
@pytest.mark.parametrize("dynamic", [False, True])
def test_attention(machine, dynamic):
    b, m, k2, d = 2, 264, 70, 64
    made = compiled(
        attention(),
        f"sim:{machine}",
        attention_sizes(b, m, k2, d, (256, 64)) | ({BM: 512} if machine == "sm_80" else {}),
        (B, M, K2) if dynamic else (),
    )
    q, k, v = halfs((b, m, d), 0, 0.3), halfs((b, k2, d), 1, 0.3), halfs((b, k2, d), 2)
    c = np.full((b, m, d), np.nan, "f4")
    made(q, k, v, c)
    scores = f64(q) @ f64(k).transpose(0, 2, 1)
    weights = np.exp2(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ f64(v)
    np.testing.assert_allclose(c, want, atol=3e-3)
    (said,) = divisions(made)
    assert f"`N` {d}: it needs" in said or "waves" in said  # queries are divided, not columns


# ---- ids of workgroups ----


@pytest.mark.parametrize("dynamic", [False, True])
def test_reordered_workgroups(dynamic):
    """Groups of two rows of workgroups; the part that a division adds is the fastest."""
    m, n, k, group = 600, 515, 16, 2
    rows, columns = sympy.ceiling(M / BM), sympy.ceiling(N / BN)
    flat = WORKGROUP_0 + WORKGROUP_1 * rows
    first = flat // (group * columns) * group
    height = sympy.Min(rows - first, group)
    order = [
        tkw.ReorderingConstraint(first + flat % (group * columns) % height, 0),
        tkw.ReorderingConstraint(flat % (group * columns) // height, 1),
    ]
    made = compiled(
        gemm(more=order), "sim:sm_90a", sizes(m, n, k, (256, 256, 16)), (M, N) if dynamic else ()
    )
    check_gemm(made, m, n, k)
    assert len(divisions(made)) == 1


# ---- what is not divided ----


def test_a_sum_over_the_tile_is_not_divided():
    m, n, k = 256, 256, 32

    @tkw.wave(constraints())
    def sums(
        a: tkl.Memory[M, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
        d: tkl.Memory[N, G, tkl.f32],
        e: tkl.Memory[M, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)
        tkw.write(tkw.sum(product, dim=M, block=True), d)
        tkw.write(tkw.sum(product, dim=N, block=True), e)

    made = compiled(sums, "sim:sm_90a", sizes(m, n, k, (256, 256, 32)))
    (said,) = divisions(made)
    assert "is not divided along `M`" in said and "`sum` combines elements along it" in said
    a, b = operands(m, n, k)
    c, d, e = np.zeros((m, n), "f4"), np.zeros(n, "f4"), np.zeros(m, "f4")
    made(a, b, c, d, e)
    want = f64(a) @ f64(b).T
    np.testing.assert_allclose(d, want.sum(0), atol=2e-2)
    np.testing.assert_allclose(e, want.sum(1), atol=2e-2)


def test_only_the_dimension_that_is_not_summed_is_divided():
    """Maxima of the columns of each tile of 256 rows: they are those of 256 rows as before."""
    m, n, k = 512, 300, 32

    @tkw.wave(constraints())
    def sums(
        a: tkl.Memory[M, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
        d: tkl.Memory[N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)
        tkw.atomic_add(tkw.sum(product, dim=M, block=True), d)

    made = compiled(sums, "sim:sm_90a", sizes(m, n, k, (256, 256, 32)))
    (said,) = divisions(made)
    assert "divided into 2 of `N` 128" in said
    a, b = operands(m, n, k)
    c, d = np.zeros((m, n), "f4"), np.zeros(n, "f4")
    made(a, b, c, d)
    want = f64(a) @ f64(b).T
    np.testing.assert_allclose(c, want, atol=1e-3)
    np.testing.assert_allclose(d, want.sum(0), atol=4e-2)


# ---- what ptxas reports ----

TILES = [
    (256, 256, 64), (256, 256, 32), (256, 224, 64), (192, 256, 64), (128, 512, 64), (512, 128, 32),
]  # fmt: skip


def spilled(made):
    found = []
    for text in re.split(r"(?=^\.version )", made.ptx, flags=re.MULTILINE)[1:]:
        result = ptxas.assemble(text)
        assert result.ok, result.log
        found += result.advices
    return found


@pytest.mark.skipif(not ptxas.find(), reason="no ptxas")
@pytest.mark.parametrize("machine", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_no_gemm_spills(machine, tile):
    made = compiled(gemm(), machine, sizes(4096, 4096, 4096, tile))
    assert spilled(made) == []


@pytest.mark.skipif(not ptxas.find(), reason="no ptxas")
@pytest.mark.parametrize("depth, keys", [(64, 64), (128, 64), (128, 128), (256, 64)])
def test_no_attention_spills(depth, keys):
    made = compiled(attention(), "sm_90a", attention_sizes(8, 4096, 4096, depth, (256, keys)))
    assert spilled(made) == []
