"""Matmuls with few rows or columns: the larger operand is read in place (tiles_skinny.c)."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

B, M, N, K = tkl.sym.B, tkl.sym.M, tkl.sym.N, tkl.sym.K
UNIT = {"threads_per_wave": 64, "mma_type": tkw.MMAType.F32_16x16x16_F16}
MACHINES = ("cpu", "sim:cpu_neon", "sim:cpu_avx2", "sim:cpu_avx512")
PLACES = {"dots": "vectors along k, read in place", "rows": "rhs read in place"}


def turned():
    """[N, K] read from [K, N]."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    return tkw.IndexMapping(num_iterators=2, inputs={K: j, N: i}, outputs={N: i, K: j})


def constraints(tile):
    return [
        tkw.HardwareConstraint(**UNIT),
        tkw.WorkgroupConstraint(M, tile[0], 0),
        tkw.WorkgroupConstraint(N, tile[1], 1),
        tkw.TilingConstraint(K, tile[2]),
        tkw.WaveConstraint(M, tile[0]),
        tkw.WaveConstraint(N, tile[1]),
    ]


def gemm(target, form, tile, dtype=tkl.f32, out=tkl.f32, scale=None):
    shape, mapping = ((N, K), None) if form == "nt" else ((K, N), turned())

    @tkw.wave(constraints(tile))
    def product(
        a: tkl.Memory[M, K, G, dtype],
        b: tkl.Memory[shape[0], shape[1], G, dtype],
        c: tkl.Memory[M, N, G, out],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, out](1)])
        def loop(acc):
            left = tkw.read(a)
            if scale:  # computed once, not for every column
                left = tkw.cast(tkw.cast(left, tkl.f32) * scale, dtype)
            return tkw.mma(left, tkw.read(b, mapping=mapping), acc)

        tkw.write(loop, c)

    options = WaveCompileOptions(dynamic_symbols=[M, N, K], target=target, strict=True)
    return wave_compile(options, product)


def operands(m, n, k, form, dtype="f4"):
    rng = np.random.default_rng(m * n + k)
    a, b = (rng.integers(-4, 5, s).astype(dtype) for s in ((m, k), (n, k)))
    expected = 1 + a.astype("f8") @ b.astype("f8").T
    return a, b if form == "nt" else np.ascontiguousarray(b.T), expected


def said(kernel):
    return " ".join(r.message for r in kernel.remarks)


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("form, way", (("nt", "dots"), ("nn", "rows")))
@pytest.mark.parametrize("rows", (1, 3, 4, 8))
def test_few_rows(target, form, way, rows):
    kernel = gemm(target, form, (rows, 80, 96))
    assert PLACES[way] in said(kernel)
    for m, n, k in (
        (rows, 80, 96),
        (rows, 81, 97),
        (1, 1, 1),
        (2 * rows + 1, 33, 200),
        (5, 17, 15),
    ):
        a, b, expected = operands(m, n, k, form)
        c = np.full((m, n), np.nan, "f4")
        kernel(a, b, c)
        np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("columns", (1, 2, 5))
def test_few_columns(target, columns):
    kernel = gemm(target, "nt", (80, columns, 96))
    assert PLACES["dots"] in said(kernel)
    for m, n, k in ((80, columns, 96), (83, columns, 101), (1, 1, 3)):
        a, b, expected = operands(m, n, k, "nt")
        c = np.full((m, n), np.nan, "f4")
        kernel(a, b, c)
        np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("target", ("cpu", "sim:cpu_neon", "sim:cpu_avx512_bf16"))
@pytest.mark.parametrize("form", ("nt", "nn"))
def test_small_types(target, form):
    kernel = gemm(target, form, (2, 80, 96), tkl.f16)
    assert "read in place" in said(kernel)
    a, b, expected = operands(3, 90, 100, form, "f2")
    c = np.zeros(expected.shape, "f4")
    kernel(a, b, c)
    np.testing.assert_array_equal(c, expected)


def test_bytes_keep_their_panels():
    """Instructions for bytes are faster than 32-bit multiplication, panels included."""
    kernel = gemm("sim:cpu_neon_dot", "nt", (1, 80, 96), tkl.i8, tkl.i32)
    assert "`idot_" in said(kernel)
    a, b, expected = operands(1, 90, 100, "nt", "i1")
    c = np.zeros(expected.shape, "i4")
    kernel(a, b, c)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("target", MACHINES)
def test_made_operand(target):
    kernel = gemm(target, "nt", (4, 80, 96), scale=2.0)
    assert PLACES["dots"] in said(kernel)
    a, b, expected = operands(4, 85, 100, "nt")
    c = np.zeros(expected.shape, "f4")
    kernel(a, b, c)
    np.testing.assert_array_equal(c, 2 * expected - 1)


@pytest.mark.parametrize("form", ("nt", "nn"))
def test_any_strides(form):
    kernel = gemm("cpu", form, (4, 80, 96))
    a, b, expected = operands(4, 70, 90, form)
    wide = np.zeros((b.shape[0] * 2, b.shape[1] * 3), "f4")
    wide[::2, ::3] = b
    c = np.zeros((8, 140), "f4")
    kernel(np.asfortranarray(a), wide[::2, ::3], c[::2, ::2])
    np.testing.assert_array_equal(c[::2, ::2], expected)


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("form", ("nt", "nn"))
def test_batch(target, form):
    """Several matmuls in a tile, each with its own accumulator."""
    i, j, k = (tkw.IndexMapping.iterator(d) for d in range(3))
    turn = tkw.IndexMapping(num_iterators=3, inputs={B: i, K: k, N: j}, outputs={B: i, N: j, K: k})
    shape, mapping = ((B, N, K), None) if form == "nt" else ((B, K, N), turn)

    @tkw.wave(
        [
            tkw.HardwareConstraint(**UNIT, vector_shapes={B: 1, M: 16, N: 16}),
            tkw.WorkgroupConstraint(M, 2, 0),
            tkw.WorkgroupConstraint(N, 64, 1),
            tkw.WorkgroupConstraint(B, 3, 2),
            tkw.TilingConstraint(K, 48),
            tkw.WaveConstraint(M, 2),
            tkw.WaveConstraint(N, 64),
        ]
    )
    def product(
        a: tkl.Memory[B, M, K, G, tkl.f32],
        b: tkl.Memory[shape[0], shape[1], shape[2], G, tkl.f32],
        c: tkl.Memory[B, M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[B, M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(a), tkw.read(b, mapping=mapping), acc)

        tkw.write(loop, c)

    sizes = {B: 4, M: 3, N: 70, K: 50}
    kernel = wave_compile(WaveCompileOptions(subs=sizes, target=target, strict=True), product)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype("f4") for s in ((4, 3, 50), (4, 70, 50)))
    c = np.zeros((4, 3, 70), "f4")
    kernel(a, b if form == "nt" else np.ascontiguousarray(b.transpose(0, 2, 1)), c)
    np.testing.assert_array_equal(c, a @ b.transpose(0, 2, 1))


@pytest.mark.parametrize("form", ("nt", "nn"))
def test_variants_for_few(form):
    """A kernel with large tiles has separate programs for few rows, and for few columns."""
    kernel = gemm("cpu", form, (32, 48, 64))
    facts = [v.facts for v in kernel.program.variants]
    assert [f.rpartition(", ")[2] for f in facts[1:3]] == ["M at most 8", "N at most 8"]
    for m, n, k in ((40, 40, 40), (1, 40, 70), (7, 100, 64), (8, 48, 8), (9, 9, 9), (40, 3, 70)):
        a, b, expected = operands(m, n, k, form)
        c = np.full((m, n), np.nan, "f4")
        kernel(a, b, c)
        np.testing.assert_array_equal(c, expected)
    assert [v.compiled for v in kernel.program.variants[:3]] == [True] * 3


def test_no_variants_without_need():
    kernel = gemm("cpu", "nt", (8, 48, 64))
    assert not any("M at most" in v.facts for v in kernel.program.variants)
