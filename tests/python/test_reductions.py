"""argmax, argmin and prod on every target: ragged ends, equal elements, NaN, loops, several waves."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
G = GLOBAL_ADDRESS_SPACE
NUMPY = {"f16": "f2", "f32": "f4", "f64": "f8", "i32": "i4", "i64": "i8", "u8": "u1", "u64": "u8"}


@pytest.fixture(params=["eval", "cpu", "sim:cpu", "sim:gfx942", "sim:sm_90a", "sim:sm_80"])
def target(request):
    return request.param


def rows(n, tile=None, waves=1):
    """One row per workgroup, in `waves` parts."""
    tile = tile or n
    return [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: tile // waves}),
        tkw.WorkgroupConstraint(M, 1, 1),
        tkw.WorkgroupConstraint(N, tile, 0),
        tkw.WaveConstraint(N, tile // waves),
    ]


def best_of(target, dtype, a, least=False, tile=None, waves=1):
    T, reduce = getattr(tkl, dtype), tkw.argmin if least else tkw.argmax

    @tkw.wave(rows(a.shape[1], tile, waves))
    def kernel(
        x: tkl.Memory[M, N, G, T], v: tkl.Memory[M, G, T], i: tkl.Memory[M, G, tkl.i32]
    ):
        value, where = reduce(tkw.read(x), dim=N, block=waves > 1)
        tkw.write(value, v)
        tkw.write(where, i)

    v, i = np.zeros(a.shape[0], a.dtype), np.zeros(a.shape[0], "i4")
    options = WaveCompileOptions(subs={M: a.shape[0], N: a.shape[1]}, target=target)
    wave_compile(options, kernel)(a, v, i)
    return v, i


@pytest.mark.parametrize("dtype", NUMPY)
def test_where_the_best_stands(target, dtype):
    """Few different values, so that some are equal; all negative if the type has negative
    numbers."""
    rng = np.random.default_rng(1)
    low, high = (0, 5) if dtype[0] == "u" else (-9, -2)
    a = rng.integers(low, high, (5, 77)).astype(NUMPY[dtype])
    for least, exact in (False, np.argmax), (True, np.argmin):
        v, i = best_of(target, dtype, a, least)
        assert np.array_equal(i, exact(a, 1))
        assert np.array_equal(v, a.min(1) if least else a.max(1))


def test_rows_that_end_inside_of_a_tile(target):
    a = -1.0 - np.random.default_rng(2).random((3, 41)).astype("f4")
    for tile, waves in (64, 1), (128, 2):
        v, i = best_of(target, "f32", a, tile=tile, waves=waves)
        assert np.array_equal(i, a.argmax(1)) and np.array_equal(v, a.max(1))


def test_no_numbers_and_ends(target):
    """The first NaN wins, as it does in NumPy."""
    a = np.array([[1, np.nan, 3, np.nan], [np.inf, 2, np.inf, -np.inf], [-np.inf] * 4], "f4")
    for least, exact in (False, np.argmax), (True, np.argmin):
        v, i = best_of(target, "f32", a, least)
        assert np.array_equal(i, exact(a, 1))


def test_carried_through_a_loop(target):
    """Among equal elements in several tiles, the first one wins."""
    hardware = tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 2, K: 8})
    constraints = [hardware, tkw.WorkgroupConstraint(M, 2, 0), tkw.TilingConstraint(K, 8)]

    @tkw.wave(constraints)
    def kernel(x: tkl.Memory[M, K, G, tkl.f32], v: tkl.Memory[M, G, tkl.f32], i: tkl.Memory[M, G, tkl.i32]):
        low = tkl.Register[M, tkl.f32](-1e30)
        nowhere = tkl.Register[M, tkl.i32](-1)

        @tkw.iterate(K, init_args=[low, nowhere])
        def best(value, where):
            return tkw.argmax(tkw.read(x), init=(value, where), dim=K)

        tkw.write(best[0], v)
        tkw.write(best[1], i)

    a = np.random.default_rng(3).integers(-4, 1, (5, 61)).astype("f4")
    a[0], a[1, 60] = -1e30, 7
    v, i = np.zeros(5, "f4"), np.zeros(5, "i4")
    wave_compile(WaveCompileOptions(subs={M: 5, K: 61}, target=target), kernel)(a, v, i)
    wanted = np.where(np.arange(5) == 0, -1, a.argmax(1))
    assert np.array_equal(i, wanted) and np.array_equal(v, a.max(1))


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "i32", "u8"])
def test_products(target, dtype):
    """Rows that end inside a tile, with and without waves that share one, and with an initial
    value."""
    T = getattr(tkl, dtype)
    rng = np.random.default_rng(4)
    a = rng.choice([1, 1, 1, 2, 3], (4, 45)).astype(NUMPY[dtype])
    a[:, 5:] = rng.choice([1, 1, 1, 1, 1, 1, 1, 2], (4, 40)).astype(NUMPY[dtype])
    if dtype[0] == "f":
        a[1, 3], a[2] = -0.5, 1
    for tile, waves in (45, 1), (64, 1), (64, 2):

        @tkw.wave(rows(45, tile, waves))
        def kernel(x: tkl.Memory[M, N, G, T], s: tkl.Memory[M, G, T], c: tkl.Memory[M, G, T]):
            tkw.write(tkw.prod(tkw.read(x), tkw.read(s), dim=N, block=waves > 1), c)

        s, c = np.full(4, 3, a.dtype), np.zeros(4, a.dtype)
        wave_compile(WaveCompileOptions(subs={M: 4, N: 45}, target=target), kernel)(a, s, c)
        exact = 3 * a.astype("f8").prod(1)
        exact = exact.astype("i8") % 256 if dtype == "u8" else exact
        assert np.allclose(c.astype("f8"), exact, rtol=2e-3 if dtype == "f16" else 1e-6), waves


def test_mistakes():
    @tkw.wave(rows(8))
    def kernel(x: tkl.Memory[M, N, G, tkl.f32]):
        tkw.argmax(tkw.read(x), dim=K)

    with pytest.raises(CompileError, match="E0308"):
        wave_compile(WaveCompileOptions(subs={M: 2, N: 8}, target="eval"), kernel)
