"""How long tracing takes: the attention kernel, warm.

PYTHONPATH=python python bench/bench_trace.py
"""

import time

import wave_lang as wl
from wave_lang import sym
from wave_lang.kernel.wave import cache

B, M, N, K1, K2 = sym.B, sym.M, sym.N, sym.K1, sym.K2
BLOCK_B, BLOCK_M, BLOCK_N, BLOCK_K2 = sym.BLOCK_B, sym.BLOCK_M, sym.BLOCK_N, sym.BLOCK_K2
GLOBAL, SHARED = wl.GLOBAL_ADDRESS_SPACE, wl.SHARED_ADDRESS_SPACE

CONSTRAINTS = [
    wl.WorkgroupConstraint(M, BLOCK_M, 0),
    wl.WorkgroupConstraint(N, BLOCK_N, 1),
    wl.WorkgroupConstraint(B, BLOCK_B, 2),
    wl.TilingConstraint(K2, BLOCK_K2),
    wl.WaveConstraint(M, BLOCK_M / 4),
    wl.WaveConstraint(N, BLOCK_N),
    wl.HardwareConstraint(threads_per_wave=64, vector_shapes={B: 0, M: 16, N: 16}),
]
I, J, L = (wl.IndexMapping.iterator(d) for d in range(3))
TRANSPOSED = wl.IndexMapping(3, {B: I, N: J, M: L}, {B: I, M: L, N: J})
V_TRANSPOSED = wl.IndexMapping(3, {B: I, K2: L, N: J}, {B: I, N: J, K2: L})


@wl.wave(CONSTRAINTS)
def attention(
    q: wl.Memory[B, M, K1, GLOBAL, wl.f16],
    k: wl.Memory[B, K2, K1, SHARED, wl.f16],
    v: wl.Memory[B, K2, N, SHARED, wl.f16],
    c: wl.Memory[B, M, N, GLOBAL, wl.f32],
):
    c_reg = wl.Register[B, N, M, wl.f32](0.0)
    init_sum = wl.Register[B, M, wl.f32](0.0)
    init_max = wl.Register[B, M, wl.f32](-1e6)

    @wl.iterate(K2, init_args=[init_max, init_sum, c_reg])
    def repeat(partial_max, partial_sum, acc):
        imm_reg = wl.Register[B, K2, M, wl.f32](0.0)
        inner_acc = wl.mma(wl.read(k), wl.read(q), imm_reg)
        x_j = wl.permute(inner_acc, target_shape=[B, M, K2])
        mask = wl.apply_expr(wl.self_index(K2, wl.i64), lambda x: x < K2)
        mask = wl.cast(wl.broadcast(mask, target_shape=[M, K2]), wl.i1)
        x_j = x_j + wl.select(mask, wl.Register[M, K2, wl.f32](0.0), -1e6)
        m_j = wl.max(x_j, partial_max, dim=K2)
        e_delta_max = wl.exp2(partial_max - m_j)
        e_delta = wl.exp2(x_j - m_j)
        d_j = wl.sum(e_delta, partial_sum * e_delta_max, dim=K2)
        v_reg = wl.read(v, mapping=V_TRANSPOSED)
        acc = wl.mma(v_reg, wl.cast(e_delta, wl.f16), acc * e_delta_max)
        return m_j, d_j, acc

    _, res_sum, res_mm = repeat
    wl.write(res_mm * wl.reciprocal(res_sum), c, mapping=TRANSPOSED)


OPTIONS = wl.WaveCompileOptions(
    target="eval",
    subs={
        B: 8,
        M: 2048,
        N: 128,
        K1: 64,
        K2: 2048,
        BLOCK_B: 1,
        BLOCK_M: 128,
        BLOCK_N: 64,
        BLOCK_K2: 64,
    },
)


def best_of(fn, rounds=20, repeats=20):
    """The fastest round, in milliseconds per call."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            fn()
        times.append((time.perf_counter() - start) / repeats)
    return min(times) * 1e3


def main():
    cache.WAVE_CACHE_ON = 0
    print(f"trace, build, verify   {best_of(attention.trace):.3f} ms")
    print(f"wave_compile           {best_of(lambda: wl.wave_compile(OPTIONS, attention)):.3f} ms")


if __name__ == "__main__":
    main()
