"""A matmul of f16 in shared memory, its arguments, and the check of its result: for tests of options that
change how its tiles are computed."""

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S

B, M, N, K = tkl.sym.B, tkl.sym.M, tkl.sym.N, tkl.sym.K
RNG = np.random.default_rng(7)


def tiled(tile, threads, waves, *more):
    return [
        tkw.HardwareConstraint(threads_per_wave=threads, vector_shapes={B: 0}),
        tkw.WorkgroupConstraint(M, tile[0], 0),
        tkw.WorkgroupConstraint(N, tile[1], 1),
        tkw.TilingConstraint(K, tile[2]),
        tkw.WaveConstraint(M, tile[0] // waves),
        *more,
    ]


def halves(*shape):
    return RNG.standard_normal(shape).astype("f2")


def gemm(rows):
    @tkw.wave(rows)
    def gemm(a: tkl.Memory[M, K, S, tkl.f16], b: tkl.Memory[N, K, S, tkl.f16], c: tkl.Memory[M, N, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    return gemm


def product(a, b):
    return a.astype("f8") @ b.astype("f8").swapaxes(-1, -2)


def check_gemm(kernel, m, n, k):
    a, b, c = halves(m, k), halves(n, k), np.full((m, n), np.nan, "f4")
    kernel(a, b, c)
    np.testing.assert_allclose(c, product(a, b), atol=1e-3 * max(k, 1) ** 0.5)
    return c
