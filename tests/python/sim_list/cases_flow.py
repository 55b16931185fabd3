"""Loops and conditionals that depend on data, on the workgroup, and on each other."""

import numpy as np
import sympy

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from sim_cases import Case, Tensor
from wave_lang.kernel.lang.global_symbols import *

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
I, J = tkl.sym.I, tkl.sym.J
G = GLOBAL_ADDRESS_SPACE


def one_each():
    """A workgroup for each element of M."""
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 0, I: 0, J: 0}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.TilingConstraint(I),
        tkw.TilingConstraint(J),
    ]


# ---- nested loops --------------------------------------------------------------------------------


def collatz(most):
    """Odd steps of 3x + 1 outside, halvings inside: each loop tests the value that it carries."""

    def make():
        @tkw.wave(one_each())
        def collatz(a: tkl.Memory[M, G, tkl.i32], b: tkl.Memory[M, G, tkl.i32]):
            zero, one = tkw.scalar(0, tkl.i32), tkw.scalar(1, tkl.i32)
            odd = tkw.abs(tkw.read(a)) * 2 + 1
            more = (I < most) & (GET_ITER_ARG(0) > 1)

            @tkw.iterate(I, start=zero, condition=more, init_args=[odd, odd * 0])
            def steps(x, count):
                even = sympy.Eq(sympy.Mod(GET_ITER_ARG(0), 2), 0)

                @tkw.iterate(J, start=zero, condition=even, init_args=[x * 3 + 1, count])
                def halve(y, count):
                    tkw.set_symbol(J, tkw.scalar(J, tkl.i32) + one)
                    return y / 2, count + 1

                tkw.set_symbol(I, tkw.scalar(I, tkl.i32) + one)
                return halve[0], halve[1]

            tkw.write(steps[1], b)

        return collatz

    def halvings(n):
        count, x, step = 0, 2 * abs(int(n)) + 1, 0
        while step < most and x > 1:
            x, step = 3 * x + 1, step + 1
            while x % 2 == 0:
                x, count = x // 2, count + 1
        return count

    return Case(
        f"loops_collatz_{most}",
        make,
        around={M: 4},
        inputs=(Tensor("i32", (M,)),),
        outputs=(Tensor("i32", (M,)),),
        reference=lambda a, **_: np.array([halvings(n) for n in a]),
    )


def first_match(tile):
    """For each number the position of the first one that is at least as large: a flag ends the
    loop."""
    i = tkw.IndexMapping.iterator(0)
    at = tkw.IndexMapping(num_iterators=1, inputs={N: J}, outputs={M: i})

    def make():
        @tkw.wave(one_each())
        def first_match(
            a: tkl.Memory[M, G, tkl.i32],
            table: tkl.Memory[N, G, tkl.i32],
            b: tkl.Memory[M, G, tkl.i32],
        ):
            zero, one = tkw.scalar(0, tkl.i32), tkw.scalar(1, tkl.i32)
            wanted = tkw.read(a)
            rounds = (I < 2) & sympy.Eq(GET_ITER_ARG(0), 0)

            @tkw.iterate(I, start=zero, condition=rounds, init_args=[wanted * 0, wanted * 0 - 1])
            def search(done, place):
                looking = (J < N) & sympy.Eq(GET_ITER_ARG(0), 0)

                @tkw.iterate(J, start=zero, condition=looking, init_args=[wanted * 0, place])
                def walk(found, place):
                    j = tkw.scalar(J, tkl.i32)
                    hit = tkw.read(table, mapping=at) >= wanted
                    tkw.set_symbol(J, j + one)
                    ones = wanted * 0 + 1
                    return tkw.select(hit, ones, found), tkw.select(hit, ones * j, place)

                tkw.set_symbol(I, tkw.scalar(I, tkl.i32) + one)
                return walk[0], walk[1]

            tkw.write(search[1], b)

        return first_match

    def reference(a, table, **_):
        found = table[None, :] >= a[:, None]
        return np.where(found.any(1), found.argmax(1), -1)

    return Case(
        f"loops_first_match_{tile}",
        make,
        around={M: 3, N: tile},
        inputs=(Tensor("i32", (M,)), Tensor("i32", (N,))),
        outputs=(Tensor("i32", (M,)),),
        reference=reference,
    )


# ---- conditionals --------------------------------------------------------------------------------


def some_groups(bm, bn, condition, holds, name):
    """Rows of some workgroups are doubled; the others keep what they read."""

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: bm, N: bn}),
                tkw.WorkgroupConstraint(M, bm, 0),
                tkw.WorkgroupConstraint(N, bn, 1),
            ]
        )
        def some_groups(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, N, G, tkl.f32]):
            x = tkw.read(a)

            @tkw.conditional(condition, else_return=[x])
            def chosen(y):
                return y + x

            tkw.write(chosen, b)

        return some_groups

    def reference(a, **_):
        row, column = np.arange(a.shape[0])[:, None] // bm, np.arange(a.shape[1])[None, :] // bn
        return np.where(holds(row, column), 2 * a, a)

    return Case(
        f"if_{name}_{bm}x{bn}",
        make,
        around={M: bm, N: bn},
        inputs=(Tensor("f32", (M, N)),),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
        exact=True,
    )


# ---- indices from memory -------------------------------------------------------------------------


def gather_rows(factor, bm, bn):
    """Rows factor*(i + 1) of a table; half of the indices are out of range."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    row = factor * (tkw.IndexMapping.dynamic_val(0) + 1)
    there = tkw.IndexMapping(
        num_iterators=2,
        inputs={K: row, N: j},
        outputs={M: i, N: j},
        dynamic_val_mappings={M: i},
    )

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: bm, N: bn}),
                tkw.WorkgroupConstraint(M, bm, 0),
                tkw.WorkgroupConstraint(N, bn, 1),
            ]
        )
        def gather_rows(
            index: tkl.Memory[M, G, tkl.i32],
            table: tkl.Memory[K, N, G, tkl.f32],
            b: tkl.Memory[M, N, G, tkl.f32],
        ):
            wide = tkw.cast(tkw.read(index), tkl.i64)
            tkw.write(tkw.read(table, mapping=there, mapping_dynamic_vals=(wide,)), b)

        return gather_rows

    def reference(index, table, **_):
        rows = factor * (index.astype(int) + 1)
        inside = (rows >= 0) & (rows < len(table))
        return np.where(inside[:, None], table[np.clip(rows, 0, len(table) - 1)], 0)

    return Case(
        f"gather_times{factor}_{bm}x{bn}",
        make,
        around={M: bm, N: bn, K: 900},
        dynamic=(M, N, K),
        inputs=(Tensor("i32", (M,)), Tensor("f32", (K, N))),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
        exact=True,
        roomy=True,  # 32-bit numbers are far from the limits of an index
    )


def rows_by_symbol(factor, bn):
    """One row of a table per workgroup; the row number becomes a 64-bit symbol."""
    S = tkl.sym.S
    i, j = (tkw.IndexMapping.iterator(n) for n in range(2))
    there = tkw.IndexMapping(2, {K: factor * S + 1, N: j}, {M: i, N: j})

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 0, N: bn}),
                tkw.WorkgroupConstraint(M, 1, 0),
                tkw.WorkgroupConstraint(N, bn, 1),
            ]
        )
        def rows_by_symbol(
            index: tkl.Memory[M, G, tkl.i32],
            table: tkl.Memory[K, N, G, tkl.f32],
            b: tkl.Memory[M, N, G, tkl.f32],
        ):
            tkw.set_symbol(S, tkw.cast(tkw.read(index), tkl.i64))
            tkw.write(tkw.read(table, mapping=there), b)

        return rows_by_symbol

    def reference(index, table, **_):
        rows = factor * index.astype(int) + 1
        inside = (rows >= 0) & (rows < len(table))
        return np.where(inside[:, None], table[np.where(inside, rows, 0)], 0)

    return Case(
        f"rows_by_symbol_times{factor}_{bn}",
        make,
        around={M: 5, N: bn, K: 900},
        dynamic=(M, N, K),
        inputs=(Tensor("i32", (M,)), Tensor("f32", (K, N))),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
        exact=True,
        roomy=True,
    )


# ---- sizes that change between computing and storing
# ------------------------------------------------


def resized_rows(bn, dynamic):
    """Each row is computed with one length from memory and written with another: the shorter one
    counts."""

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 0, N: bn}),
                tkw.WorkgroupConstraint(M, 1, 0),
                tkw.WorkgroupConstraint(N, bn, 1),
            ]
        )
        def resized_rows(
            made: tkl.Memory[M, G, tkl.i32],
            stored: tkl.Memory[M, G, tkl.i32],
            a: tkl.Memory[M, N, G, tkl.f32],
            b: tkl.Memory[M, N, G, tkl.f32],
        ):
            tkw.set_symbol(N, tkw.read(made))
            x = tkw.read(a) + 1.0
            tkw.set_symbol(N, tkw.read(stored))
            tkw.write(x, b)

        return resized_rows

    def reference(made, stored, a, **_):
        return np.where(np.arange(a.shape[1]) < np.minimum(made, stored)[:, None], a + 1, 0)

    lengths = Tensor("i32", (M,), span=(-2, 2 * N + 3))
    return Case(
        f"resized_rows_{bn}" + "_dynamic" * dynamic,
        make,
        around={M: 5, N: bn},
        dynamic=(M, N) if dynamic else (),
        inputs=(lengths, lengths, Tensor("f32", (M, N))),
        outputs=(Tensor("f32", (M, N), start=0),),
        reference=reference,
    )


def resized_product(bm, dynamic):
    """A matmul; the number of its rows changes before it is scaled, and again before it is
    written."""

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(64, mma_type=tkw.MMAType.F32_16x16x16_F16, vector_shapes={J: 0}),
                tkw.WorkgroupConstraint(M, bm, 0),
                tkw.WorkgroupConstraint(N, 16, 1),
                tkw.TilingConstraint(K, 16),
            ]
        )
        def resized_product(
            made: tkl.Memory[J, G, tkl.i32],
            stored: tkl.Memory[J, G, tkl.i32],
            a: tkl.Memory[M, K, G, tkl.f16],
            b: tkl.Memory[N, K, G, tkl.f16],
            c: tkl.Memory[M, N, G, tkl.f32],
        ):
            @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
            def product(acc):
                return tkw.mma(tkw.read(a), tkw.read(b), acc)

            tkw.set_symbol(M, tkw.read(made))
            scaled = product * 2.0
            tkw.set_symbol(M, tkw.read(stored))
            tkw.write(scaled, c)

        return resized_product

    def reference(made, stored, a, b, **_):
        rows = np.arange(len(a))[:, None] < min(made[0], stored[0])
        return np.where(rows, 2 * (a @ b.T), 0), 2 * (np.abs(a) @ np.abs(b.T))

    # At most the rows that were computed: those after them do not exist.
    counts = Tensor("i32", (1,), span=(0, M + 1))
    return Case(
        f"resized_product_{bm}" + "_dynamic" * dynamic,
        make,
        around={M: bm, N: 16, K: 16},
        subs={J: 1},
        dynamic=(M, N, K) if dynamic else (),
        inputs=(counts, counts, Tensor("f16", (M, K)), Tensor("f16", (N, K))),
        outputs=(Tensor("f32", (M, N), start=0),),
        reference=reference,
    )


# ---- dimensions that the grid folds --------------------------------------------------------------


def folded_ids(bn, shape, dynamic):
    """Every workgroup computes with its ids along dimensions 3 and 4, which z holds together with
    2."""

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(
                    threads_per_wave=64, vector_shapes={M: 0, K: 0, I: 0, J: 0, N: bn}
                ),
                tkw.WorkgroupConstraint(N, bn, 0),
                tkw.WorkgroupConstraint(M, 1, 1),
                tkw.WorkgroupConstraint(K, 1, 2),
                tkw.WorkgroupConstraint(I, 1, 3),
                tkw.WorkgroupConstraint(J, 1, 4),
            ]
        )
        def folded_ids(
            a: tkl.Memory[M, K, I, J, N, G, tkl.i32], b: tkl.Memory[M, K, I, J, N, G, tkl.i32]
        ):
            ids = tkw.Register[M, K, I, J, N, tkl.i32](100 * WORKGROUP_3 + WORKGROUP_4)

            @tkw.conditional(WORKGROUP_3 + WORKGROUP_4 < 3)
            def _():
                tkw.write(tkw.read(a) + ids, b)

        return folded_ids

    def reference(a, **_):
        _, _, i, j, _ = np.indices(a.shape)
        return np.where(i + j < 3, a + 100 * i + j, 0)

    sizes = dict(zip((M, K, I, J), shape))
    return Case(
        f"folded_ids_{bn}" + "_dynamic" * dynamic,
        make,
        around={N: bn},
        subs=sizes,
        dynamic=(N,) if dynamic else (),
        inputs=(Tensor("i32", (*shape, N)),),
        outputs=(Tensor("i32", (*shape, N), start=0),),
        reference=reference,
        exact=True,
    )


def weights_before_a_loop(tile, waves):
    """All weights are read before the loop that uses a tile of them in each iteration."""

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=64),
                tkw.WorkgroupConstraint(M, 8, 0),
                tkw.WaveConstraint(M, 8 // waves),
                tkw.TilingConstraint(K, tile),
            ]
        )
        def weighted(
            a: tkl.Memory[M, K, G, tkl.f32], w: tkl.Memory[K, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]
        ):
            weights = tkw.abs(tkw.read(w)) + 1.0

            @tkw.iterate(K, init_args=[tkl.Register[M, tkl.f32](0.0)])
            def total(acc):
                return tkw.sum(tkw.read(a) * weights, acc, dim=K)

            tkw.write(total, c)

        return weighted

    def reference(a, w, **_):
        return a @ (np.abs(w) + 1), np.abs(a) @ (np.abs(w) + 1)

    return Case(
        f"weights_before_a_loop_{tile}_waves{waves}",
        make,
        around={M: 8, K: tile},
        inputs=(Tensor("f32", (M, K)), Tensor("f32", (K,))),
        outputs=(Tensor("f32", (M,)),),
        reference=reference,
    )


CASES = [
    weights_before_a_loop(16, 1),
    weights_before_a_loop(12, 2),
    rows_by_symbol(1, 16),
    rows_by_symbol(5, 12),
    resized_rows(16, False),
    resized_rows(12, True),
    resized_product(16, True),
    resized_product(24, False),
    folded_ids(16, (1, 2, 3, 2), False),
    folded_ids(5, (2, 1, 2, 5), True),
    collatz(3),
    collatz(40),
    first_match(5),
    gather_rows(1, 8, 16),
    gather_rows(3, 4, 12),
    some_groups(8, 16, WORKGROUP_0 < 1, lambda i, j: i < 1, "first"),
    some_groups(3, 5, sympy.Eq(WORKGROUP_1, 1), lambda i, j: j == 1, "second"),
    some_groups(
        4, 12, (WORKGROUP_0 > 0) & (WORKGROUP_1 < 1), lambda i, j: (i > 0) & (j < 1), "edge"
    ),
]
