"""Kernels with odd sizes whose loops tests schedule, and rows for them."""

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S

M, N, K, P = tkl.sym.M, tkl.sym.N, tkl.sym.K, tkl.sym.P
GEMM = {M: 40, N: 37, K: 56}


def halves(rng, *shape):
    return (rng.integers(-8, 9, shape) / 8).astype("f2")


def hardware(*rows):
    return [tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16), *rows]


def gemm():
    @tkw.wave(
        hardware(
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 32, 1),
            tkw.TilingConstraint(K, 16),
            tkw.WaveConstraint(M, 16),
            tkw.WaveConstraint(N, 16),
        )
    )
    def product(
        a: tkl.Memory[M, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)], tag="k_loop")
        def loop(acc):
            left = tkw.read(a, tag="read_a")
            right = tkw.read(b)
            return tkw.mma(left, right, acc)

        tkw.write(loop, c)

    return product


def gemm_args(rng, sizes=None):
    sizes = sizes or GEMM
    a, b = halves(rng, sizes[M], sizes[K]), halves(rng, sizes[N], sizes[K])
    return [a, b, np.zeros((sizes[M], sizes[N]), "f4")], a.astype("f8") @ b.astype("f8").T


def two_products():
    """Four operands in one loop, two of them in other types."""

    @tkw.wave(
        hardware(
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 16, 1),
            tkw.TilingConstraint(K, 16),
            tkw.WaveConstraint(M, 16),
        )
    )
    def both(
        a: tkl.Memory[M, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        c: tkl.Memory[M, K, S, tkl.f16],
        d: tkl.Memory[N, K, S, tkl.f32],
        out: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            one = tkw.mma(tkw.read(a), tkw.read(b), acc)
            weights = tkw.cast(tkw.read(d), tkl.f16)
            return tkw.mma(tkw.read(c), weights, one)

        tkw.write(loop, out)

    return both


def two_args(rng):
    a, b, c = halves(rng, 35, 72), halves(rng, 19, 72), halves(rng, 35, 72)
    d = halves(rng, 19, 72).astype("f4")
    want = a.astype("f8") @ b.astype("f8").T + c.astype("f8") @ d.astype("f8").T
    return [a, b, c, d, np.zeros((35, 19), "f4")], want


def chained():
    """The first matmul of an iteration may begin early."""

    @tkw.wave(
        hardware(
            tkw.WorkgroupConstraint(M, 64, 0),
            tkw.WorkgroupConstraint(N, 16, 1),
            tkw.TilingConstraint(K, 16),
            tkw.WaveConstraint(M, 64),
        )
    )
    def chain(
        q: tkl.Memory[M, P, S, tkl.f16],
        k: tkl.Memory[K, P, S, tkl.f16],
        v: tkl.Memory[N, K, S, tkl.f16],
        out: tkl.Memory[N, M, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[N, M, tkl.f32](0.0)])
        def loop(acc):
            keys = tkw.read(k)
            queries = tkw.read(q)
            scores = tkw.mma(keys, queries, tkl.Register[K, M, tkl.f32](0.0))
            weights = tkw.permute(tkw.cast(tkw.abs(scores), tkl.f16), target_shape=[M, K])
            values = tkw.read(v)
            return tkw.mma(values, weights, acc)

        tkw.write(loop, out)

    return chain


def chained_args(rng):
    q, k, v = halves(rng, 61, 16), halves(rng, 75, 16), halves(rng, 13, 75)
    scores = np.abs(k.astype("f8") @ q.astype("f8").T).astype("f2").astype("f8")
    return [q, k, v, np.zeros((13, 61), "f4")], v.astype("f8") @ scores


def running_sums():
    """No matmul: rows are scaled and summed along a loop, and one tile is written in it."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 16, K: 24}),
            tkw.WorkgroupConstraint(M, 16, 0),
            tkw.TilingConstraint(K, 24),
        ]
    )
    def sums(
        x: tkl.Memory[M, K, S, tkl.f32],
        w: tkl.Memory[M, K, S, tkl.f32],
        scaled: tkl.Memory[M, K, G, tkl.f32],
        total: tkl.Memory[M, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, tkl.f32](0.0)])
        def loop(acc):
            y = tkw.read(x) * tkw.read(w)
            tkw.write(y, scaled)
            return tkw.sum(y, acc, dim=K)

        tkw.write(loop, total)

    return sums


def sums_args(rng):
    x, w = halves(rng, 17, 100).astype("f4"), halves(rng, 17, 100).astype("f4")
    y = x.astype("f8") * w
    return [x, w, np.zeros_like(x), np.zeros(17, "f4")], y.sum(1)


def whole_rows():
    """A workgroup has rows of any length: the kernel is compiled when it is called."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, K: 64}),
            tkw.WorkgroupConstraint(M, 1, 0),
        ]
    )
    def doubled(x: tkl.Memory[M, K, G, tkl.f32], y: tkl.Memory[M, K, G, tkl.f32]):
        rows = tkw.read(x)
        tkw.write(rows + rows, y)

    return doubled


KERNELS = {
    "gemm": (gemm, gemm_args, GEMM, "k_loop", ["read_a", "right"]),
    "two products": (two_products, two_args, {M: 35, N: 19, K: 72}, "K", ["a", "b", "c", "d"]),
    "chained": (chained, chained_args, {M: 61, N: 13, K: 75, P: 16}, "K", ["keys", "values"]),
    "sums": (running_sums, sums_args, {M: 17, K: 100}, "K", ["x", "w"]),
}


def rows_of(loop, ops):
    """A ring of another length for every operand; all of one depth; tiles that wait in registers; the
    first copy far ahead; tiles that are fetched an iteration before they are used, or two."""
    yield "".join(f"ring {loop} {op} slots {2 + i}\n" for i, op in enumerate(ops))
    yield f"schedule {loop} depth 3\n"
    yield "".join(f"at {loop} {i}.0 {op}.{c}\n" for op in ops for i, c in enumerate(("load", "store"))) + (
        f"schedule {loop} depth 2\n"
    )
    yield f"at {loop} 0.0 {ops[0]}.copy\nat {loop} 2.0 " + " ".join(f"{op}.copy" for op in ops[1:]) + (
        f"\nschedule {loop} depth 4\n"
    )
    for depth in (3, 4):
        yield f"at {loop} 0.0 " + " ".join(f"{op}.copy" for op in ops) + (
            f"\nat {loop} 1.1 " + " ".join(f"{op}.fetch" for op in ops) + f"\nschedule {loop} depth {depth}\n"
        )
