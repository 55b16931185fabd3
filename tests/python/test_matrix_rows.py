"""Matrix registers load rows of the lhs in place (tiles_in_place.c), unless a tile is cut."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
TILE = 48, 32, 128  # register tiles of 32 and 16 rows; two or four steps of k


def gemm(subs=None, strided=None):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, TILE[0], 0),
            tkw.WorkgroupConstraint(N, TILE[1], 1),
            tkw.TilingConstraint(K, TILE[2]),
            tkw.WaveConstraint(M, TILE[0]),
            tkw.WaveConstraint(N, TILE[1]),
        ]
    )
    def product(
        a: tkl.Memory[M, K, G, tkl.i8],
        b: tkl.Memory[N, K, G, tkl.i8],
        c: tkl.Memory[M, N, G, tkl.i32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.i32](3)])
        def loop(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(loop, c)

    dynamic = [] if subs else [M, N, K]
    options = WaveCompileOptions(
        subs=subs or {}, dynamic_symbols=dynamic, target="sim:cpu_amx", strict=True
    )
    return wave_compile(options, product)


def run(kernel, m, n, k):
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-128, 128, s, dtype="i1") for s in ((m, k), (n, k)))
    c = np.zeros((m, n), "i4")
    kernel(a, b, c)
    np.testing.assert_array_equal(c, 3 + a.astype("i4") @ b.T.astype("i4"))


@pytest.fixture(scope="module")
def any_size():
    return gemm()


@pytest.mark.parametrize("m", (1, 47, 48, 49, 96))
@pytest.mark.parametrize("k", (1, 63, 64, 65, 128, 192, 200))
def test_sizes(any_size, m, k):
    """Nothing is read after the last row, nor after the last element of one."""
    run(any_size, m, 33, k)


def test_text(any_size):
    text = str(any_size.lowered)
    assert "load_rows 32 %a" in text and "load_rows 16 %a" in text
    assert "store_rows 32" in text  # sums, in their buffer


def test_known_sizes_need_no_panels():
    kernel = gemm({M: 96, N: 64, K: 256})
    text = str(kernel.lowered)
    assert "load_rows 32 %a" in text and " = load %a" not in text
    run(kernel, 96, 64, 256)


def test_known_edges_are_packed():
    kernel = gemm({M: 96, N: 64, K: 100})
    run(kernel, 96, 64, 100)
