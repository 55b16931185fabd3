"""Products of integers of every size, with sums of every size, which wrap around."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE
from wave_lang.kernel.wave.machine import devices

pytestmark = pytest.mark.skipif(not devices("cpu"), reason="there is no libLLVM")
M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
TYPES = {"i8": tkl.i8, "i16": tkl.i16, "i32": tkl.i32, "i64": tkl.i64}


def gemm(dtype, total):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64),
            tkw.WorkgroupConstraint(M, 16, 0),
            tkw.WorkgroupConstraint(N, 16, 1),
            tkw.TilingConstraint(K, 16),
        ]
    )
    def gemm(
        a: tkl.Memory[M, K, GLOBAL_ADDRESS_SPACE, dtype],
        b: tkl.Memory[N, K, GLOBAL_ADDRESS_SPACE, dtype],
        c: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, total],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, total](3)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    return gemm


@pytest.mark.parametrize("target", ["eval", "cpu", "sim:cpu_avx512", "sim:cpu_neon"])
@pytest.mark.parametrize("total", TYPES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("m, n", [(20, 37), (3, 40)])
def test_integers(dtype, total, target, m, n):
    rng = np.random.default_rng(0)
    numpy = {name: name.replace("i", "int") for name in TYPES}
    a, b = (rng.integers(-100, 100, (rows, 50)).astype(numpy[dtype]) for rows in (m, n))
    c = np.zeros((m, n), numpy[total])
    options = WaveCompileOptions(subs={M: m, N: n, K: 50}, target=target, strict=True)
    wave_compile(options, gemm(TYPES[dtype], TYPES[total]))(a, b, c)
    exact = a.astype("i8") @ b.astype("i8").T + 3
    np.testing.assert_array_equal(c, exact.astype(numpy[total]))
