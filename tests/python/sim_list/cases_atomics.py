"""Kernels that add to memory atomically, at indices that are known or read from memory.

All addends are integers, even in float types, so that the order of the additions does not change a
result.
"""

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from number_formats import wave_type
from sim_cases import Case, Tensor
from wave_lang.kernel.lang.global_symbols import *

M, N, K, V = tkl.sym.M, tkl.sym.N, tkl.sym.K, tkl.sym.V
G = GLOBAL_ADDRESS_SPACE
SMALL = (-8, 9)


def added_at(shape, index, values):
    """Zeros of this shape to which rows of `values` were added; indices outside add nothing."""
    result = np.zeros(shape)
    index = index.astype(int)
    inside = (index >= 0) & (index < shape[0])
    np.add.at(result, index[inside], values[inside])
    return result


# ---- indices read from memory
# ---------------------------------------------------------------------


def gradient(dtype, bm, bn, waves=1, dynamic=False):
    """The gradient of an embedding: row i is added to row w[i]. Several rows share an index, some
    indices are out of range."""
    t = wave_type(dtype)
    i, j = (tkw.IndexMapping.iterator(n) for n in range(2))
    rows = tkw.IndexMapping(
        num_iterators=2,
        inputs={V: tkw.IndexMapping.dynamic_val(0), N: j},
        outputs={M: i, N: j},
        dynamic_val_mappings={M: i},
    )

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: bn}),
                tkw.WorkgroupConstraint(M, bm, 0),
                tkw.WorkgroupConstraint(N, bn, 1),
                tkw.WaveConstraint(M, bm // waves),
            ]
        )
        def gradient(
            w: tkl.Memory[M, G, tkl.i32],
            dy: tkl.Memory[M, N, G, t],
            dt: tkl.Memory[V, N, G, t],
        ):
            where = tkw.read(w)
            tkw.atomic_add(tkw.read(dy), dt, mapping=rows, mapping_dynamic_vals=(where,))

        return gradient

    return Case(
        f"atomic_gradient_{dtype}_{bm}x{bn}_w{waves}" + "_dynamic" * dynamic,
        make,
        around={M: bm, N: bn, V: 5},
        inputs=(Tensor("i32", (M,), (-1, V + 1)), Tensor(dtype, (M, N), SMALL)),
        outputs=(Tensor(dtype, (V, N), start=0),),
        reference=lambda w, dy, V, N, **_: added_at((V, N), w, dy),
        dynamic=(M, N, V) if dynamic else (),
    )


def histogram(block, waves):
    i = tkw.IndexMapping.iterator(0)
    counted = tkw.IndexMapping(
        num_iterators=1,
        inputs={V: tkw.IndexMapping.dynamic_val(0)},
        outputs={N: i},
        dynamic_val_mappings={N: i},
    )

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=64),
                tkw.WorkgroupConstraint(N, block, 0),
                tkw.WaveConstraint(N, block // waves),
            ]
        )
        def histogram(x: tkl.Memory[N, G, tkl.i32], h: tkl.Memory[V, G, tkl.i32]):
            one = tkl.Register[N, tkl.i32](1)
            tkw.atomic_add(one, h, mapping=counted, mapping_dynamic_vals=(tkw.read(x),))

        return histogram

    return Case(
        f"atomic_histogram_{block}_w{waves}",
        make,
        around={N: block, V: 17},
        inputs=(Tensor("i32", (N,), (-1, V + 2)),),
        outputs=(Tensor("i32", (V,), start=0),),
        reference=lambda x, V, **_: added_at((V,), x, np.ones(x.shape)),
    )


def gathered_product(bm, bn, bk):
    """As in a mixture of experts: rows of `a` are gathered, and the results of the matmul are added
    to the same rows, or to others."""
    i, j = (tkw.IndexMapping.iterator(n) for n in range(2))

    def rows_by_table(column):
        return tkw.IndexMapping(
            num_iterators=2,
            inputs={V: tkw.IndexMapping.dynamic_val(0), column: j},
            outputs={M: i, column: j},
            dynamic_val_mappings={M: i},
        )

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(
                    threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16
                ),
                tkw.WorkgroupConstraint(M, bm, 0),
                tkw.WorkgroupConstraint(N, bn, 1),
                tkw.WaveConstraint(M, bm // 2),
                tkw.WaveConstraint(N, bn),
                tkw.TilingConstraint(K, bk),
            ]
        )
        def gathered_product(
            a: tkl.Memory[V, K, G, tkl.f16],
            b: tkl.Memory[N, K, G, tkl.f16],
            source: tkl.Memory[M, G, tkl.i32],
            target: tkl.Memory[M, G, tkl.i32],
            c: tkl.Memory[V, N, G, tkl.f32],
        ):
            rows = tkw.read(source)

            @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
            def product(acc):
                x = tkw.read(a, mapping=rows_by_table(K), mapping_dynamic_vals=(rows,))
                return tkw.mma(x, tkw.read(b), acc)

            where = tkw.read(target)
            tkw.atomic_add(product, c, mapping=rows_by_table(N), mapping_dynamic_vals=(where,))

        return gathered_product

    def reference(a, b, source, target, V, N, **_):
        source = source.astype(int)
        inside = (source >= 0) & (source < V)
        rows = np.where(inside[:, None], a[np.where(inside, source, 0)], 0)
        return added_at((V, N), target, rows @ b.T)

    return Case(
        f"atomic_gathered_product_{bm}x{bn}x{bk}",
        make,
        around={M: bm, N: bn, K: bk, V: 11},
        inputs=(
            Tensor("f16", (V, K), SMALL),
            Tensor("f16", (N, K), SMALL),
            Tensor("i32", (M,), (-1, V + 1)),
            Tensor("i32", (M,), (-2, V + 2)),
        ),
        outputs=(Tensor("f32", (V, N), start=0),),
        reference=reference,
        exact=True,
    )


# ---- values that many threads hold ---------------------------------------------------------------


def row_tiles(bm, bn, waves):
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: bn // waves}),
        tkw.WorkgroupConstraint(M, bm, 1),
        tkw.WorkgroupConstraint(N, bn, 0),
        tkw.WaveConstraint(N, bn // waves),
    ]


def sums(dtype, bm, bn, waves=1, block=False):
    """Every workgroup sums its part of the rows, and adds a value that all its threads hold.
    Without `block` each wave has its own sum."""
    t = wave_type(dtype)

    def make():
        @tkw.wave(row_tiles(bm, bn, waves))
        def sums(x: tkl.Memory[M, N, G, t], s: tkl.Memory[M, G, t]):
            tkw.atomic_add(tkw.sum(tkw.read(x), dim=N, block=block), s)

        return sums

    return Case(
        f"atomic_sums_{dtype}_{bm}x{bn}_w{waves}" + "_block" * block,
        make,
        around={M: bm, N: bn},
        inputs=(Tensor(dtype, (M, N), SMALL),),
        outputs=(Tensor(dtype, (M,), start=5),),
        reference=lambda x, **_: 5 + x.sum(1),
        exact=True,
    )


def old_values(bm, bn, waves):
    """The old value is returned to every thread that holds the element, and is used afterwards."""

    def make():
        @tkw.wave(row_tiles(bm, bn, waves))
        def old_values(
            x: tkl.Memory[M, G, tkl.i32],
            y: tkl.Memory[M, N, G, tkl.i32],
            low: tkl.Memory[M, G, tkl.i32],
            c: tkl.Memory[M, N, G, tkl.i32],
        ):
            old = tkw.atomic_min(tkw.read(x), low)
            tkw.write(tkw.read(y) * tkw.broadcast(old, [M, N]), c)

        return old_values

    return Case(
        f"atomic_old_values_{bm}x{bn}_w{waves}",
        make,
        around={M: bm, N: bn},
        fit=lambda sizes: {**sizes, N: min(sizes[N], bn)},  # one workgroup, so that `old` is known
        inputs=(Tensor("i32", (M,), SMALL), Tensor("i32", (M, N), SMALL)),
        outputs=(Tensor("i32", (M,), start=2), Tensor("i32", (M, N))),
        reference=lambda x, y, **_: [np.minimum(x, 2), 2 * y],
    )


def taken(dtype, bm, bn, waves):
    """Compare-and-exchange of free elements, in memory of odd sizes, by whole tiles and by values
    that all threads hold."""
    t = wave_type(dtype)

    def make():
        @tkw.wave(row_tiles(bm, bn, waves))
        def taken(
            x: tkl.Memory[M, N, G, t],
            y: tkl.Memory[M, N, G, t],
            c: tkl.Memory[M, N, G, t],
            low: tkl.Memory[M, G, t],
        ):
            v = tkw.read(x)
            old = tkw.atomic_compare_exchange(v, c, tkw.read(y))
            least = tkw.min(v + old, dim=N, block=True)
            tkw.atomic_compare_exchange(least, low, 3)

        return taken

    return Case(
        f"atomic_taken_{dtype}_{bm}x{bn}_w{waves}",
        make,
        around={M: bm, N: bn},
        fit=lambda sizes: {**sizes, N: min(sizes[N], bn)},
        inputs=(Tensor(dtype, (M, N), (1, 9)), Tensor(dtype, (M, N), (2, 4))),
        outputs=(Tensor(dtype, (M, N), start=3), Tensor(dtype, (M,), start=3)),
        reference=lambda x, y, **_: [np.where(y == 3, x, 3), 3 + x.min(1, initial=99)],
        exact=True,
    )


# ---- assertions ----------------------------------------------------------------------------------


def asserted(dtype, bm, bn, waves):
    """Assertions about elements, about values of a wave or workgroup, and about numbers: all of
    them hold, except in the padding of a tile."""
    t = wave_type(dtype)

    def make():
        @tkw.wave(row_tiles(bm, bn, waves))
        def asserted(x: tkl.Memory[M, N, G, t], s: tkl.Memory[M, N, G, t]):
            v = tkw.read(x)
            tkw.device_assert(v > 0, "padding is 0", v)
            least = tkw.min(v, dim=N, block=True)
            tkw.device_assert((v >= tkw.broadcast(least, [M, N])) & (v < 10), "in order")
            tkw.device_assert(least > 0, "of a row")
            tkw.device_assert(tkw.scalar(WORKGROUP_0, tkl.i32) < tkw.scalar(N, tkl.i32), "number")
            tkw.write(v - tkw.broadcast(least, [M, N]), s)

        return asserted

    return Case(
        f"asserted_{dtype}_{bm}x{bn}_w{waves}",
        make,
        around={M: bm, N: bn},
        fit=lambda sizes: {**sizes, N: min(sizes[N], bn)},
        inputs=(Tensor(dtype, (M, N), (1, 9)),),
        outputs=(Tensor(dtype, (M, N)),),
        reference=lambda x, **_: x - x.min(1, keepdims=True, initial=99),
        exact=True,
    )


CASES = [
    gradient("f32", 8, 64, waves=4),
    gradient("i32", 2, 64, dynamic=True),
    gradient("f32", 3, 80),
    gradient("f64", 8, 32, waves=8),
    histogram(256, 4),
    histogram(96, 1),
    gathered_product(32, 32, 32),
    gathered_product(64, 16, 16),
    sums("f32", 4, 64),
    sums("i32", 3, 256, waves=4, block=True),
    sums("f16", 1, 128, waves=2, block=True),
    old_values(2, 128, 2),
    old_values(3, 64, 1),
    taken("i32", 2, 128, 2),
    taken("f32", 1, 64, 1),
    taken("f64", 3, 256, 4),
    taken("f16", 1, 128, 1),
    asserted("f32", 2, 128, 2),
    asserted("i32", 3, 64, 1),
    asserted("f16", 1, 256, 4),
]
