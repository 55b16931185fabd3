"""Results that the copy engine writes from shared memory, and deep rings: kernels of one tile for each
workgroup as users write them, of odd sizes, on a simulated H100."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from gemm_kernels import B, K, M, N, halves, product, tiled
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S

P = tkl.sym.P


def rows(tile=(64, 64, 64), waves=1, *more):
    return tiled(tile, 128, waves, *more)


def compiled(kernel, sizes, dynamic=()):
    subs = {s: n for s, n in sizes.items() if s not in dynamic}
    return wave_compile(
        WaveCompileOptions(subs=subs, dynamic_symbols=list(dynamic), target="sim:sm_90a"), kernel
    )


def is_by_engine(kernel, name):
    return f"`{name}` is written by TMA" in str(kernel.explain())


def near(got, want, k):
    np.testing.assert_allclose(got.astype("f8"), want, rtol=1e-3, atol=1e-3 * k**0.5)


def gemm(tile, waves=1):
    @tkw.wave(rows(tile, waves))
    def gemm(a: tkl.Memory[M, K, S, tkl.f16], b: tkl.Memory[N, K, S, tkl.f16], c: tkl.Memory[M, N, G, tkl.f16]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(tkw.cast(product, tkl.f16), c)

    return gemm


def check(kernel, m, n, k):
    a, b, c = halves(m, k), halves(n, k), np.full((m, n), np.nan, "f2")
    kernel(a, b, c)
    near(c, product(a, b), k)


@pytest.mark.parametrize("tile, waves", [((64, 64, 64), 1), ((128, 192, 32), 2), ((192, 128, 64), 3)])
@pytest.mark.parametrize("sizes", [(1, 8, 8), (130, 200, 72), (67, 72, 1032)])
def test_sizes(tile, waves, sizes):
    kernel = compiled(gemm(tile, waves), dict(zip((M, N, K), sizes)))
    assert is_by_engine(kernel, "c")
    check(kernel, *sizes)


@pytest.mark.parametrize("columns", [66, 100, 129])
def test_rows_that_the_engine_cannot_take(columns):
    kernel = compiled(gemm((64, 64, 64)), {M: 70, N: columns, K: 40})
    assert not is_by_engine(kernel, "c")
    check(kernel, 70, columns, 40)


def test_dynamic_sizes():
    kernel = compiled(gemm((64, 128, 32)), {}, dynamic=(M, N, K))
    for sizes in (70, 136, 100), (1, 8, 8), (65, 130, 33), (0, 8, 8), (64, 8, 0):
        check(kernel, *sizes)


def test_residual_in_place():
    """The tensor that is written is read before."""

    @tkw.wave(rows((64, 128, 32)))
    def add(a: tkl.Memory[M, K, S, tkl.f16], b: tkl.Memory[N, K, S, tkl.f16], c: tkl.Memory[M, N, G, tkl.f16]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(tkw.cast(product + tkw.cast(tkw.read(c), tkl.f32), tkl.f16), c)

    m, n, k = 150, 136, 72
    a, b, c = halves(m, k), halves(n, k), halves(m, n)
    want = product(a, b) + c
    kernel = compiled(add, {M: m, N: n, K: k})
    assert is_by_engine(kernel, "c")
    kernel(a, b, c)
    near(c, want, k)


def test_read_again():
    """What is read again must be there: threads write it."""

    @tkw.wave(rows((64, 64, 32)))
    def twice(
        a: tkl.Memory[M, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f16],
        d: tkl.Memory[M, N, G, tkl.f16],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(tkw.cast(product, tkl.f16), c)
        again = tkw.read(c)
        tkw.write(again + again, d)

    m, n, k = 100, 72, 40
    a, b = halves(m, k), halves(n, k)
    c, d = np.full((m, n), np.nan, "f2"), np.full((m, n), np.nan, "f2")
    kernel = compiled(twice, {M: m, N: n, K: k})
    assert not is_by_engine(kernel, "c")
    kernel(a, b, c, d)
    want = product(a, b)
    near(c, want, k)
    near(d, 2 * want, k)


def test_batches_and_two_results():
    batch = tkw.WorkgroupConstraint(B, 1, 2)

    @tkw.wave(rows((64, 128, 32), 1, batch))
    def layer(
        x: tkl.Memory[B, M, K, S, tkl.f16],
        w: tkl.Memory[B, N, K, S, tkl.f16],
        y: tkl.Memory[B, M, N, G, tkl.f16],
        gate: tkl.Memory[B, M, N, G, tkl.f16],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[B, M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(x), tkw.read(w), acc)

        tkw.write(tkw.cast(product, tkl.f16), y)
        tkw.write(tkw.cast(tkw.maximum(product, tkl.Register[B, M, N, tkl.f32](0.0)), tkl.f16), gate)

    b, m, n, k = 3, 70, 200, 96
    x, w = halves(b, m, k), halves(b, n, k)
    y, gate = np.full((b, m, n), np.nan, "f2"), np.full((b, m, n), np.nan, "f2")
    kernel = compiled(layer, {B: b, M: m, N: n, K: k})
    assert is_by_engine(kernel, "y") and not is_by_engine(kernel, "gate")
    kernel(x, w, y, gate)
    want = product(x, w)
    near(y, want, k)
    near(gate, np.maximum(want, 0), k)


def test_two_products_in_a_row():
    """The second loop's rings, and then the results, take the bytes of the first's."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=128),
            tkw.WorkgroupConstraint(M, 64, 0),
            tkw.WorkgroupConstraint(P, 64, 1),
            tkw.TilingConstraint(K, 32),
            tkw.TilingConstraint(N, 32),
            tkw.WaveConstraint(M, 64),
        ]
    )
    def chain(
        q: tkl.Memory[M, K, S, tkl.f16],
        k: tkl.Memory[N, K, S, tkl.f16],
        v: tkl.Memory[P, N, S, tkl.f16],
        c: tkl.Memory[M, P, G, tkl.f16],
    ):
        @tkw.iterate(N, init_args=[tkl.Register[M, P, tkl.f32](0.0)])
        def outer(acc):
            scores = tkw.mma(tkw.read(q), tkw.read(k), tkl.Register[M, N, tkl.f32](0.0))
            return tkw.mma(tkw.cast(scores, tkl.f16), tkw.read(v), acc)

        tkw.write(tkw.cast(outer, tkl.f16), c)

    m, n, k, p = 100, 90, 32, 72
    q, key, v = halves(m, k) / 4, halves(n, k) / 4, halves(p, n)
    c = np.full((m, p), np.nan, "f2")
    compiled(chain, {M: m, N: n, K: k, P: p})(q, key, v, c)
    want = product(product(q, key), v)
    np.testing.assert_allclose(c.astype("f8"), want, rtol=2e-2, atol=6e-2)


def slots(kernel):
    return {int(line.split()[4]) for line in str(kernel.schedule()).splitlines() if line.startswith("ring")}


@pytest.mark.parametrize(
    "rows_of_a, k, expected",
    [
        (512, 1024, 8),  # a compute unit for each workgroup: all of shared memory
        (64 * 300, 1024, 4),  # several share a unit, and hide each other's latency
        (512, 128, 3),  # no more slots than iterations, and one for the product in flight
    ],
)
def test_slots(rows_of_a, k, expected):
    assert slots(compiled(gemm((64, 64, 64)), {M: rows_of_a, N: 64, K: k})) == {expected}


# ---- rows that end inside the tensor ----

T, OFFS = tkl.sym.T, tkl.sym.OFFS
_i, _j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)


def inside(first_row, first_column):
    """c = a bᵀ, somewhere in a larger tensor."""
    where = tkw.IndexMapping(
        2, inputs={M: _i, N: _j}, outputs={T: _i + first_row, P: _j + first_column}
    )

    @tkw.wave(rows((64, 64, 64)))
    def inside(a: tkl.Memory[M, K, S, tkl.f16], b: tkl.Memory[N, K, S, tkl.f16], c: tkl.Memory[T, P, G, tkl.f16]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(tkw.cast(product, tkl.f16), c, mapping=where)

    return inside


@pytest.mark.parametrize(
    "sizes, first, engine",
    [
        ((70, 64, 40), (5, 0), True),  # rows before and after are not written
        ((64, 64, 40), (0, 64), True),
        ((70, 60, 40), (5, 8), False),  # the last columns end inside a row
        ((70, 64, 40), (5, 4), False),  # boxes begin at multiples of 16 bytes
    ],
)
def test_inside_a_larger_tensor(sizes, first, engine):
    m, n, k = sizes
    shape = (m + first[0] + 3, n + first[1])
    shape = shape if engine else (shape[0], -(-(shape[1] + 1) // 8) * 8)
    kernel = compiled(inside(*first), {M: m, N: n, K: k, T: shape[0], P: shape[1]})
    assert is_by_engine(kernel, "c") == engine
    a, b, c = halves(m, k), halves(n, k), np.full(shape, np.nan, "f2")
    kernel(a, b, c)
    here = slice(first[0], first[0] + m), slice(first[1], first[1] + n)
    near(c[here], product(a, b), k)
    c[here] = np.nan
    assert np.isnan(c).all()


FIRST, START, ROW, GROUP = tkl.sym.FIRST, tkl.sym.START, tkl.sym.ROW, tkl.sym.GROUP


def test_sequences_of_a_packed_tensor():
    """Each workgroup writes rows of one sequence; those after its last belong to another."""
    of = tkw.IndexMapping(2, inputs={T: _i + START, K: _j}, outputs={ROW: _i, K: _j})
    to = tkw.IndexMapping(2, inputs={ROW: _i, N: _j}, outputs={T: _i + START, N: _j})
    following = tkw.IndexMapping(1, inputs={GROUP: _i + 1}, outputs={GROUP: _i})
    constraints = [
        tkw.WorkgroupConstraint(ROW, 64, 0, iters=tkl.ceiling(P / 64)),
        tkw.WorkgroupConstraint(N, 64, 1),
        tkw.WorkgroupConstraint(GROUP, 1, 2, iters=GROUP - 1),
        tkw.TilingConstraint(K, 64),
        tkw.HardwareConstraint(threads_per_wave=128, vector_shapes={GROUP: 0}),
    ]

    @tkw.wave(constraints)
    def packed(
        a: tkl.Memory[T, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        ends: tkl.Memory[GROUP, G, tkl.i32],
        P: tkl.SymbolBind[tkl.i32],
        c: tkl.Memory[T, N, G, tkl.f16],
    ):
        first = tkw.read(ends)
        tkw.set_symbol(FIRST, first)
        tkw.set_symbol(ROW, tkw.read(ends, mapping=following) - first)
        tkw.set_symbol(START, tkw.scalar(tkl.Max(FIRST, 0), tkl.i32))

        @tkw.conditional(ROW > 0)
        def some():
            @tkw.iterate(K, init_args=[tkl.Register[ROW, N, tkl.f32](0.0)])
            def product(acc):
                return tkw.mma(tkw.read(a, mapping=of), tkw.read(b), acc)

            tkw.write(tkw.cast(product, tkl.f16), c, mapping=to)

    kernel = compiled(packed, {N: 72, K: 88}, dynamic=(T, GROUP))
    assert is_by_engine(kernel, "c")
    lengths = (70, 0, 1, 64, 33)
    ends = np.cumsum([2, *lengths]).astype("i4")
    a, b, c = halves(ends[-1] + 3, 88), halves(72, 88), np.full((ends[-1] + 3, 72), np.nan, "f2")
    a[: ends[0]], a[ends[-1] :] = np.nan, np.nan
    kernel(a, b, ends, max(lengths), c)
    near(c[ends[0] : ends[-1]], product(a[ends[0] : ends[-1]], b), 88)
    assert np.isnan(c[: ends[0]]).all() and np.isnan(c[ends[-1] :]).all()


def test_exchange_after_the_store():
    """What waves exchange while the engine still reads the result must not be written over it."""

    @tkw.wave(rows((64, 64, 32)))
    def column_sums(
        a: tkl.Memory[M, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f16],
        sums: tkl.Memory[N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(tkw.cast(product, tkl.f16), c)
        tkw.atomic_add(tkw.sum(product, dim=M, block=True), sums)

    m, n, k = 70, 40, 200
    a, b, c, sums = halves(m, k), halves(n, k), np.full((m, n), np.nan, "f2"), np.zeros(n, "f4")
    kernel = compiled(column_sums, {M: m, N: n, K: k})
    assert is_by_engine(kernel, "c")
    kernel(a, b, c, sums)
    near(c, product(a, b), k)
    near(sums, product(a, b).sum(0), m * k)
