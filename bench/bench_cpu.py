"""Kernels on this machine's processor beside NumPy, in one run, alternately, on one thread each.

    WAVE_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONPATH=python python bench/bench_cpu.py

Times are those of the thread, not of the clock on the wall, so that what else runs on the machine
counts little; the best of several rounds is shown. The kernels are not fitted to any size.
"""

import os

os.environ.setdefault("WAVE_NUM_THREADS", "1")  # before NumPy and Wave start threads
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("WAVE_CACHE_ON", "0")

import time  # noqa: E402

import numpy as np  # noqa: E402

import wave_lang.kernel.lang as tkl  # noqa: E402
import wave_lang.kernel.wave as tkw  # noqa: E402
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL  # noqa: E402
from wave_lang.kernel.wave.compile import WaveCompileOptions, wave_compile  # noqa: E402
from wave_lang.kernel.wave.machine import devices  # noqa: E402

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
ROUNDS = 7


def gemm_of(dtype):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, 128, 0),
            tkw.WorkgroupConstraint(N, 192, 1),
            tkw.TilingConstraint(K, 256),
            tkw.WaveConstraint(M, 128),
            tkw.WaveConstraint(N, 192),
        ]
    )
    def gemm(
        a: tkl.Memory[M, K, GLOBAL, dtype],
        b: tkl.Memory[N, K, GLOBAL, dtype],
        c: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    return gemm


def compiled(kernel, symbols):
    options = WaveCompileOptions(dynamic_symbols=symbols, target="cpu", strict=True)
    start = time.thread_time()
    return wave_compile(options, kernel), 1e3 * (time.thread_time() - start)


def best(calls):
    """The least seconds of each call, taken in turns."""
    least = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for i, call in enumerate(calls):
            start = time.thread_time()
            call()
            least[i] = min(least[i], time.thread_time() - start)
    return least


def bench_gemm(name, dtype, array_type):
    kernel, first = compiled(gemm_of(dtype), [M, N, K])
    _, again = compiled(gemm_of(dtype), [M, N, K])
    print(f"gemm {name}: compiled in {first:.0f} ms, again in {again:.0f} ms (of one thread)")
    rng = np.random.default_rng(0)
    for m, n, k in ((64, 64, 64), (512, 512, 512), (1024, 1024, 1024), (1000, 1001, 1003)):
        a = rng.standard_normal((m, k)).astype(array_type)
        b = rng.standard_normal((n, k)).astype(array_type)
        c, a32, b32 = np.zeros((m, n), "f4"), a.astype("f4"), b.astype("f4")
        ours, numpys = best([lambda: kernel(a, b, c), lambda: a32 @ b32.T])
        error = np.abs(c - a.astype("f8") @ b.astype("f8").T).max()
        rate = 2e-9 * m * n * k
        print(
            f"  {m:5}x{n}x{k:<5} {rate / ours:6.1f} GFLOP/s   NumPy f32 {rate / numpys:6.1f}   "
            f"ratio {numpys / ours:4.2f}   error {error:.0e}"
        )


def main():
    if not devices("cpu"):
        print("there is no libLLVM")
        return
    print(devices("cpu")[0].name)
    bench_gemm("f32", tkl.f32, "f4")
    bench_gemm("f16", tkl.f16, "f2")


if __name__ == "__main__":
    main()
