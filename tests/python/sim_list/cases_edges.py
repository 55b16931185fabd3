"""Ragged edges: reductions and matmuls of computed values, over dims that no tile divides.

None of these kernels masks anything: elements that do not exist are never combined (docs/tour.md,
Padding).
"""

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from cases_rows import BM, BN, G, M, N, SPACE, SPACES, rows_in_tiles, softmax_of, tiles
from number_formats import STORAGE, wave_type
from sim_cases import Case, Tensor

K = tkl.sym.K
BK = tkl.sym.BK


def ragged_softmax(bn, dynamic=False):
    """One row per workgroup, N in tiles."""

    def make():
        @tkw.wave(rows_in_tiles())
        def ragged_softmax(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, N, G, tkl.f32]):
            low, zero = tkl.Register[M, tkl.f32](-1e6), tkl.Register[M, tkl.f32](0.0)

            @tkw.iterate(N, init_args=[low, zero])
            def totals(largest, total):
                x = tkw.read(a)
                larger = tkw.max(x, largest, dim=N)
                kept = total * tkw.exp(largest - larger)
                return larger, tkw.sum(tkw.exp(x - larger), kept, dim=N)

            largest, total = totals

            @tkw.iterate(N, init_args=[])
            def rows():
                tkw.write(tkw.exp(tkw.read(a) - largest) / total, b)

        return ragged_softmax

    return Case(
        f"ragged_softmax_f32_{bn}" + "_dynamic" * dynamic,
        make,
        around={M: 1, N: bn},
        subs={BM: 1, BN: bn},
        inputs=(Tensor("f32", (M, N)),),
        outputs=(Tensor("f32", (M, N)),),
        reference=lambda a, **_: softmax_of(a),
        dynamic=(M, N) if dynamic else (),
    )


def ragged_moments(dtype, bn):
    """The range of values far from 0, and a variance around a constant."""
    t = wave_type(dtype)

    def make():
        @tkw.wave(rows_in_tiles())
        def ragged_moments(
            a: tkl.Memory[M, N, G, t],
            spread: tkl.Memory[M, G, t],
            square: tkl.Memory[M, G, tkl.f32],
        ):
            low, high = tkl.Register[M, t](-30000), tkl.Register[M, t](30000)

            @tkw.iterate(N, init_args=[low, high, tkl.Register[M, tkl.f32](0.0)])
            def totals(most, least, total):
                x = tkw.read(a) - tkl.Register[M, N, t](100)
                y = tkw.cast(x, tkl.f32) + tkl.Register[M, N, tkl.f32](50.0)
                return (
                    tkw.max(x, most, dim=N),
                    tkw.min(-x, least, dim=N),
                    tkw.sum(y * y, total, dim=N),
                )

            most, least, total = totals
            tkw.write(most + least, spread)
            tkw.write(total, square)

        return ragged_moments

    def reference(a, **_):
        x = a - 100
        square = ((x + 50) ** 2).sum(1)
        return [(x.max(1) + (-x).min(1), 100), (square, square)]

    return Case(
        f"ragged_moments_{dtype}_{bn}",
        make,
        around={M: 3, N: bn},
        subs={BM: 3, BN: bn},
        inputs=(Tensor(dtype, (M, N), span=(-9, 10)),),
        outputs=(Tensor(dtype, (M,)), Tensor("f32", (M,))),
        reference=reference,
    )


def ragged_block(waves, per_wave):
    """Several waves share a row that is shorter than their tile."""
    step = waves * per_wave

    def make():
        @tkw.wave(tiles(waves))
        def ragged_block(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, G, tkl.f32]):
            x = tkw.read(a)
            largest = tkw.max(x - tkl.Register[M, N, tkl.f32](9.0), dim=N, block=True)
            tkw.write(tkw.sum(tkw.exp2(x), dim=N, block=True) + largest, b)

        return ragged_block

    def reference(a, **_):
        powers = np.exp2(a).sum(1)
        return powers + (a - 9).max(1), powers + 20

    return Case(
        f"ragged_block_f32_w{waves}x{per_wave}",
        make,
        around={M: 1, N: step},
        subs={BM: 1, BN: step},
        fit=lambda sizes: {**sizes, N: min(sizes[N], step)},
        inputs=(Tensor("f32", (M, N)),),
        outputs=(Tensor("f32", (M,)),),
        reference=reference,
    )


def ragged_product(space, bm, bn, bk, dynamic=False):
    """Both operands are computed, and never 0: the sum has exactly K terms, none from padding."""

    def make():
        header = [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, BM, 0),
            tkw.WorkgroupConstraint(N, BN, 1),
            tkw.TilingConstraint(K, BK),
            tkw.WaveConstraint(M, BM / 2),
            tkw.WaveConstraint(N, BN),
        ]

        @tkw.wave(header)
        def ragged_product(
            a: tkl.Memory[M, K, SPACE, tkl.f16],
            b: tkl.Memory[N, K, SPACE, tkl.f16],
            c: tkl.Memory[M, N, G, tkl.f32],
        ):
            @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
            def total(acc):
                x = tkw.read(a) + tkl.Register[M, K, tkl.f16](4.0)
                y = tkw.reciprocal(tkw.cast(tkw.read(b), tkl.f32))
                return tkw.mma(x, tkw.cast(y, tkl.f16), acc)

            tkw.write(total, c)

        return ragged_product

    def reference(a, b, **_):
        y = (1 / b).astype(np.float16).astype(np.float64)
        return (a + 4) @ y.T, np.abs(a + 4) @ np.abs(y).T

    return Case(
        f"ragged_product_{space}_{bm}x{bn}x{bk}" + "_dynamic" * dynamic,
        make,
        around={M: bm, N: bn, K: bk},
        subs={BM: bm, BN: bn, BK: bk, SPACE: SPACES[space]},
        inputs=(Tensor("f16", (M, K), span=(-3, 4)), Tensor("f16", (N, K), span=(1, 5))),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
        dynamic=(M, N, K) if dynamic else (),
        tolerance=2**-10,
    )


def window(bn, dynamic=False):
    """The largest of three neighbours, and over a row: elements outside it count as the lowest
    value."""

    def make():
        i, j = (tkw.IndexMapping.iterator(d) for d in range(2))
        sides = [
            tkw.IndexMapping(num_iterators=2, inputs={M: i, N: j + by}, outputs={M: i, N: j})
            for by in (-1, 1)
        ]

        @tkw.wave(rows_in_tiles())
        def window(
            a: tkl.Memory[M, N, G, tkl.f32],
            b: tkl.Memory[M, N, G, tkl.f32],
            c: tkl.Memory[M, G, tkl.f32],
        ):
            @tkw.iterate(N, init_args=[tkl.Register[M, tkl.f32](0.0)])
            def total(acc):
                before, after = (tkw.read(a, mapping=s, other=-1000.0) for s in sides)
                tkw.write(tkw.maximum(tkw.maximum(before, tkw.read(a)), after), b)
                return tkw.sum(before - after, acc, dim=N)

            tkw.write(total, c)

        return window

    def reference(a, **_):
        wide = np.pad(a, ((0, 0), (1, 1)), constant_values=-1000)
        before, after = wide[:, :-2], wide[:, 2:]
        both = np.abs(before) + np.abs(after)
        largest = np.maximum(np.maximum(before, a), after)
        return [(largest, np.abs(largest)), ((before - after).sum(1), both.sum(1))]

    return Case(
        f"window_f32_{bn}" + "_dynamic" * dynamic,
        make,
        around={M: 2, N: bn},
        subs={BM: 2, BN: bn},
        inputs=(Tensor("f32", (M, N)),),
        outputs=(Tensor("f32", (M, N)), Tensor("f32", (M,))),
        reference=reference,
        dynamic=(M, N) if dynamic else (),
    )


def largest(dtype, bn, k):
    """The k largest of rows that may have fewer elements: the remaining results are the lowest
    value, at index -1."""
    t = wave_type(dtype)

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: bn, K: k}),
                tkw.WorkgroupConstraint(M, 1, 1),
            ]
        )
        def largest(
            a: tkl.Memory[M, N, G, t],
            values: tkl.Memory[M, K, G, t],
            places: tkl.Memory[M, K, G, tkl.i32],
        ):
            v, at = tkw.topk(tkw.read(a), K, dim=N)
            tkw.write(v, values)
            tkw.write(at, places)

        return largest

    def reference(a, **_):
        least = np.iinfo(STORAGE[dtype]).min
        order = np.argsort(-a, axis=1, kind="stable")[:, :k]
        values = np.take_along_axis(a, order, 1)
        more = [(0, 0), (0, k - order.shape[1])]
        return np.pad(values, more, constant_values=least), np.pad(order, more, constant_values=-1)

    return Case(
        f"largest_{dtype}_{k}_of_{bn}",
        make,
        around={M: 2, N: bn},
        subs={K: k},
        inputs=(Tensor(dtype, (M, N)),),
        outputs=(Tensor(dtype, (M, k)), Tensor("i32", (M, k))),
        reference=reference,
        dynamic=(M,),
        exact=True,
    )


CASES = [
    largest("i32", 5, 7),
    largest("i8", 9, 3),
    ragged_softmax(64),
    ragged_softmax(48, True),
    ragged_moments("i32", 64),
    ragged_moments("f32", 40),
    ragged_block(2, 64),
    ragged_block(4, 64),
    ragged_product("global", 32, 16, 16),
    ragged_product("shared", 32, 32, 32),
    ragged_product("shared", 64, 64, 32, True),
    window(64),
    window(24, True),
]
