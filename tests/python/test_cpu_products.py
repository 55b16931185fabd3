"""Products on CPUs: panels too long for the L1 cache, which are multiplied in parts of k; integers of every
size, with sums of every size, which wrap around."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE
from wave_lang.kernel.wave.machine import devices

pytestmark = pytest.mark.skipif(not devices("cpu"), reason="needs libLLVM")
M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
INTEGERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
NUMPY = {**INTEGERS, "f16": np.float16, "f32": np.float32, "f64": np.float64}


def divided(tile):
    return [
        tkw.HardwareConstraint(threads_per_wave=64),
        tkw.WorkgroupConstraint(M, tile[0], 0),
        tkw.WorkgroupConstraint(N, tile[1], 1),
        tkw.TilingConstraint(K, tile[2]),
    ]


def product(a, b, dtype, total, tile, start, target, dynamic=False):
    """a times b transposed, plus `start`, of these element types."""
    element, sums = getattr(tkl, dtype), getattr(tkl, total)

    @tkw.wave(divided(tile))
    def gemm(
        a: tkl.Memory[M, K, GLOBAL_ADDRESS_SPACE, element],
        b: tkl.Memory[N, K, GLOBAL_ADDRESS_SPACE, element],
        c: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, sums],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, sums](start)])
        def loop(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(loop, c)

    (m, k), n = a.shape, b.shape[0]
    symbols = {"dynamic_symbols": [M, N, K]} if dynamic else {"subs": {M: m, N: n, K: k}}
    c = np.full((m, n), 99, NUMPY[total])
    options = WaveCompileOptions(target=target, strict=True, **symbols)
    wave_compile(options, gemm)(a.astype(NUMPY[dtype]), b.astype(NUMPY[dtype]), c)
    return c


def integers(most, *shape):
    return np.random.default_rng(shape[0]).integers(-most, most + 1, shape)


@pytest.mark.parametrize("target", ["cpu", "sim:cpu_avx2"])
@pytest.mark.parametrize(
    "dtype, total", [("f32", "f32"), ("f64", "f64"), ("f16", "f16"), ("i8", "i32")]
)
@pytest.mark.parametrize(
    "size, tile, start",
    [
        ((37, 50, 700), (32, 48, 300), 0),
        ((5, 97, 513), (16, 96, 512), 3),
        ((33, 31, 129), (33, 50, 1000), 0),
        ((8, 8, 0), (16, 16, 600), 2),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_parts_of_k(target, dtype, total, size, tile, start, dynamic):
    m, n, k = size
    a, b = integers(3, m, k), integers(3, n, k)
    c = product(a, b, dtype, total, tile, start, target, dynamic)
    np.testing.assert_array_equal(c, a @ b.T + start)  # small enough for f16


@pytest.mark.parametrize("target", ["eval", "cpu", "sim:cpu_avx512", "sim:cpu_neon"])
@pytest.mark.parametrize("total", INTEGERS)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("m, n", [(20, 37), (3, 40)])
def test_sums_wrap_around(dtype, total, target, m, n):
    a, b = integers(100, m, 50), integers(100, n, 50)
    c = product(a, b, dtype, total, (16, 16, 16), 3, target)
    np.testing.assert_array_equal(c, (a @ b.T + 3).astype(NUMPY[total]))


def turned_product(a, b, dtype, tile, target, dynamic):
    """a transposed times b transposed, as sums that are scaled by 1 in each iteration; written
    transposed."""
    element = getattr(tkl, dtype)

    @tkw.wave(divided(tile))
    def gemm(
        a: tkl.Memory[K, M, GLOBAL_ADDRESS_SPACE, element],
        b: tkl.Memory[N, K, GLOBAL_ADDRESS_SPACE, element],
        ones: tkl.Memory[N, GLOBAL_ADDRESS_SPACE, tkl.f32],
        c: tkl.Memory[N, M, GLOBAL_ADDRESS_SPACE, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](2)])
        def loop(acc):
            left = tkw.permute(tkw.read(a), target_shape=[M, K])
            return tkw.mma(left, tkw.read(b), acc * tkw.read(ones))

        tkw.write(tkw.permute(loop, target_shape=[N, M]), c)

    (k, m), n = a.shape, b.shape[0]
    symbols = {"dynamic_symbols": [M, N, K]} if dynamic else {"subs": {M: m, N: n, K: k}}
    whole = np.full((n, 2 * m), 99, np.float32)
    options = WaveCompileOptions(target=target, strict=True, **symbols)
    rows = np.zeros((k, 2 * m), NUMPY[dtype])[:, m:]  # the second half of rows
    rows[...] = a
    wave_compile(options, gemm)(rows, b.astype(NUMPY[dtype]), np.ones(n, np.float32), whole[:, :m])
    assert (whole[:, m:] == 99).all()
    return whole[:, :m]


@pytest.mark.parametrize("target", ["cpu", "sim:cpu_avx512", "sim:cpu_neon"])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("m, n, k", [(70, 1, 100), (64, 3, 32), (100, 4, 65), (33, 11, 7)])
@pytest.mark.parametrize("columns", [1, 4, 8])
@pytest.mark.parametrize("dynamic", [False, True])
def test_few_columns_are_computed_transposed(target, dtype, m, n, k, columns, dynamic):
    a, b = integers(3, k, m), integers(3, n, k)
    c = turned_product(a, b, dtype, (64, columns, 32), target, dynamic)
    np.testing.assert_array_equal(c, b @ a + 2)
