"""Kernels for wgmma, and `roles` rows for them; sizes may be any."""

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from schedule_kernels import K, M, N, P, halves
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S

ROWS = (
    "roles K load 4, math 8\n",
    "roles K load 4 x 24, math 8 x 240\n",
    "roles K load 1, math 8\n",
    "roles K load 4, math 8\nring K x y slots 2\n",
    "roles K load 4, math 8\nring K x slots 3\nring K y slots 5\n",
    "roles K load 4, math 8\nin K math y.copy\n",
)


def rows(*more):
    return [
        tkw.HardwareConstraint(threads_per_wave=128, mma_type=tkw.MMAType.F32_16x16x16_F16),
        tkw.WorkgroupConstraint(M, 128, 0),
        tkw.TilingConstraint(K, 32),
        tkw.WaveConstraint(M, 64),
        *more,
    ]


def gemm():
    @tkw.wave(rows(tkw.WorkgroupConstraint(N, 64, 1)))
    def gemm(
        a: tkl.Memory[M, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            x = tkw.read(a)
            y = tkw.read(b)
            return tkw.mma(x, y, acc)

        tkw.write(tkw.maximum(loop, tkl.Register[M, N, tkl.f32](0.0)), c)

    return gemm


def gemm_args(rng, m, n, k):
    a, b = halves(rng, m, k), halves(rng, n, k)
    want = np.maximum(a.astype("f8") @ b.astype("f8").T, 0)
    return [a, b, np.zeros((m, n), "f4")], {M: m, N: n, K: k}, want


def chain():
    """The first matmul reads x early, the second reads y and registers."""

    @tkw.wave(rows(tkw.WorkgroupConstraint(N, 64, 1)))
    def chain(
        q: tkl.Memory[M, P, S, tkl.f16],
        k: tkl.Memory[K, P, S, tkl.f16],
        v: tkl.Memory[N, K, S, tkl.f16],
        out: tkl.Memory[N, M, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[N, M, tkl.f32](0.0)])
        def loop(acc):
            x = tkw.read(k)
            scores = tkw.mma(x, tkw.read(q), tkl.Register[K, M, tkl.f32](0.0))
            weights = tkw.permute(tkw.cast(tkw.abs(scores), tkl.f16), target_shape=[M, K])
            y = tkw.read(v)
            return tkw.mma(y, weights, acc)

        tkw.write(loop, out)

    return chain


def chain_args(rng, m, n, k):
    q, x, v = halves(rng, m, 16), halves(rng, k, 16), halves(rng, n, k)
    scores = np.abs(x.astype("f8") @ q.astype("f8").T).astype("f2").astype("f8")
    return [q, x, v, np.zeros((n, m), "f4")], {M: m, N: n, K: k, P: 16}, v.astype("f8") @ scores


FORMS = ((gemm, gemm_args), (chain, chain_args))
