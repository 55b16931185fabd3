"""Run as a child process: tracing, failing and running kernels does not leak memory."""

import numpy as np

import wave_lang as wl
from leak_utils import assert_no_leak
from wave_lang import CompileError, sym
from wave_lang.kernel.wave import cache

cache.WAVE_CACHE_ON = 0
M, N, K = sym.M, sym.N, sym.K
G = wl.GLOBAL_ADDRESS_SPACE
HEADER = [
    wl.WorkgroupConstraint(M, 16, 0),
    wl.WorkgroupConstraint(N, 16, 1),
    wl.TilingConstraint(K, 16),
    wl.HardwareConstraint(threads_per_wave=64),
]
OPTIONS = wl.WaveCompileOptions(subs={M: 16, N: 16, K: 32}, target="eval")
A, C = np.ones((16, 32), np.float16), np.zeros((16, 16), np.float32)


def good():
    @wl.wave(HEADER)
    def kernel(a: wl.Memory[M, K, G, wl.f16], c: wl.Memory[M, N, G, wl.f32]):
        i, j = wl.IndexMapping.iterator(0), wl.IndexMapping.iterator(1)
        columns = wl.IndexMapping(2, {M: i % 16, K: j}, {N: i, K: j})

        @wl.iterate(K, init_args=[wl.Register[M, N, wl.f32](0.0)])
        def loop(acc):
            return wl.mma(wl.read(a), wl.read(a, mapping=columns), acc)

        wl.write(loop, c)

    wl.wave_compile(OPTIONS, kernel)(A, C)


def bad():
    @wl.wave(HEADER)
    def kernel(a: wl.Memory[M, K, G, wl.f16], c: wl.Memory[M, N, G, wl.f32]):
        @wl.iterate(K, init_args=[wl.Register[M, N, wl.f32](0.0)])
        def loop(acc):
            return wl.read(a) + acc

    try:
        wl.wave_compile(OPTIONS, kernel)
    except CompileError:
        return
    raise AssertionError("the mistake was not found")


def expressions():
    for n in range(20):
        ((M + n) * K // 3 < N).subs({M: 1, K: 2, N: 3})


def every_way():
    good()
    bad()
    expressions()


assert_no_leak(every_way, calls=400, most_kib=4096)
