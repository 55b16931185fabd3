"""Kernels with the features that public templates use, compared with NumPy."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import build, f64, halfs, rng, run
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave.compile import WaveCompileOptions, wave_compile
from wave_lang.kernel.wave.constraints import GenericDot, MMAOperand, MMAType, ScaledMMAType
from wave_lang.kernel.wave.symbolic_constraints import SymbolicAlias

B, M, N, K, S, H = (getattr(tkl.sym, s) for s in "B M N K S H".split())
BM, BN, BK = tkl.sym.BM, tkl.sym.BN, tkl.sym.BK
G = GLOBAL_ADDRESS_SPACE


def mma_header(*more, mma=MMAType.F32_16x16x16_F16, vector_shapes=None):
    return [
        tkw.WorkgroupConstraint(M, BM, 0),
        tkw.WorkgroupConstraint(N, BN, 1),
        tkw.TilingConstraint(K, BK),
        tkw.WaveConstraint(M, BM / 2),
        tkw.WaveConstraint(N, BN),
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=mma, vector_shapes=vector_shapes),
        *more,
    ]


TILES = {BM: 32, BN: 32, BK: 16}


def test_in_place_update():
    @tkw.wave(mma_header())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(a) * 2.0, a)

    a = rng().standard_normal((33, 40)).astype(np.float32)
    expected = a * 2
    run(kernel, {M: 33, N: 40, **TILES}, a)
    assert np.array_equal(a, expected)


def test_batched_gemm():
    @tkw.wave(mma_header(tkw.WorkgroupConstraint(B, 1, 2), vector_shapes={B: 0}))
    def kernel(
        a: tkl.Memory[B, M, K, G, tkl.f16],
        b: tkl.Memory[B, N, K, G, tkl.f16],
        c: tkl.Memory[B, M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[B, M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(loop, c)

    a, b, c = halfs((3, 20, 30)), halfs((3, 25, 30), 1), np.zeros((3, 20, 25), np.float32)
    run(kernel, {B: 3, M: 20, N: 25, K: 30, **TILES}, a, b, c)
    np.testing.assert_allclose(c, f64(a) @ f64(b).transpose(0, 2, 1), atol=1e-3)


@pytest.mark.parametrize("form", ["nested", "while"])
def test_sequential_batches(form):
    """One workgroup walks all batches: nested loops, or a while loop that sets its own axis."""
    tiling = tkw.TilingConstraint(B, 1) if form == "nested" else tkw.TilingConstraint(B)

    @tkw.wave(mma_header(tiling, vector_shapes={B: 0}))
    def kernel(
        a: tkl.Memory[B, M, K, G, tkl.f16],
        b: tkl.Memory[B, N, K, G, tkl.f16],
        c: tkl.Memory[B, M, N, G, tkl.f32],
    ):
        def product():
            @tkw.iterate(K, init_args=[tkl.Register[B, M, N, tkl.f32](0.0)])
            def loop(acc):
                return tkw.mma(tkw.read(a), tkw.read(b), acc)

            tkw.write(loop, c)

        if form == "nested":

            @tkw.iterate(B, init_args=[])
            def outer():
                product()

        else:

            @tkw.iterate(B, init_args=[], start=tkw.scalar(0, tkl.i32), condition=B < 3)
            def outer():
                product()
                tkw.set_symbol(B, tkw.scalar(B, tkl.i32) + 1)

    a, b, c = halfs((3, 20, 30)), halfs((3, 25, 30), 1), np.zeros((3, 20, 25), np.float32)
    run(kernel, {B: 3, M: 20, N: 25, K: 30, **TILES}, a, b, c)
    np.testing.assert_allclose(c, f64(a) @ f64(b).transpose(0, 2, 1), atol=1e-3)


@pytest.mark.parametrize("transposed", ["a", "b", "both"])
def test_gemm_with_source_and_target(transposed):
    m, n, k = tkl.sym.m, tkl.sym.n, tkl.sym.k
    a_dims = (K, M) if transposed in ("a", "both") else (M, K)
    b_dims = (K, N) if transposed in ("b", "both") else (N, K)
    iterator = {M: m, N: n, K: k}

    @tkw.wave(mma_header(tkw.IteratorBindings({m: M, n: N, k: K})))
    def kernel(
        a: tkl.Memory[(*a_dims, G, tkl.f16)],
        b: tkl.Memory[(*b_dims, G, tkl.f16)],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            x = tkw.read(a, source=tuple(iterator[d] for d in a_dims), target=(m, k))
            y = tkw.read(b, source=tuple(iterator[d] for d in b_dims), target=(n, k))
            return tkw.mma(x, y, acc)

        tkw.write(loop, c, source=(m, n), target=(m, n))

    a, b, c = halfs((20, 30)), halfs((25, 30), 1), np.zeros((20, 25), np.float32)
    left = np.ascontiguousarray(a.T) if a_dims == (K, M) else a
    right = np.ascontiguousarray(b.T) if b_dims == (K, N) else b
    run(kernel, {M: 20, N: 25, K: 30, **TILES}, left, right, c)
    np.testing.assert_allclose(c, f64(a) @ f64(b).T, atol=1e-3)


def test_split_k_with_atomic_add():
    OFFSET, LENGTH = tkl.sym.K_SPLIT_OFF, tkl.sym.K_SPLIT_LEN
    constraints = [
        tkw.WorkgroupConstraint(M, BM, 0),
        tkw.WorkgroupConstraint(N, BN, 1),
        tkw.WorkgroupConstraint(S, 1, 2),
        tkw.TilingConstraint(K, BK, iters=sympy.ceiling(LENGTH / BK), start=OFFSET),
        tkw.WaveConstraint(M, BM / 2),
        tkw.WaveConstraint(N, BN / 2),
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={S: 0}),
    ]

    @tkw.wave(constraints)
    def kernel(
        a: tkl.Memory[M, K, G, tkl.f16],
        b: tkl.Memory[N, K, G, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.atomic_add(loop, c)

    a, b, c = halfs((40, 120)), halfs((33, 120), 1), np.zeros((40, 33), np.float32)
    run(
        kernel,
        {
            M: 40,
            N: 33,
            K: 120,
            S: 4,
            OFFSET: WORKGROUP_2 * 32,
            LENGTH: sympy.Min(K, 32 * (WORKGROUP_2 + 1)) - OFFSET,
            **TILES,
        },
        a,
        b,
        c,
    )
    np.testing.assert_allclose(c, f64(a) @ f64(b).T, atol=1e-3)


def test_generic_dot():
    dot = GenericDot(along_dim=MMAOperand.M, k_vec_size=4, k_mult=16)

    @tkw.wave(mma_header(mma=dot))
    def kernel(
        a: tkl.Memory[M, K, G, tkl.f16],
        b: tkl.Memory[N, K, G, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc, dot)

        tkw.write(loop, c)

    a, b, c = halfs((40, 24)), halfs((33, 24), 1), np.zeros((40, 33), np.float32)
    run(kernel, {M: 40, N: 33, K: 24, **TILES}, a, b, c)
    np.testing.assert_allclose(c, f64(a) @ f64(b).T, atol=1e-3)


def test_integer_gemm():
    @tkw.wave(mma_header(mma=MMAType.I32_16x16x16_I8))
    def kernel(
        a: tkl.Memory[M, K, G, tkl.i8],
        b: tkl.Memory[N, K, G, tkl.i8],
        c: tkl.Memory[M, N, G, tkl.i32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.i32](0)])
        def loop(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(loop, c)

    a, b = (rng(i).integers(-128, 128, (20, 40)).astype(np.int8) for i in (0, 1))
    c = np.zeros((20, 20), np.int32)
    run(kernel, {M: 20, N: 20, K: 40, **TILES}, a, b, c)
    assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32).T)


def fp4(codes):
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = np.concatenate([table, -table])
    return values[np.stack([codes & 15, codes >> 4], -1).reshape(codes.shape[0], -1)]


def test_scaled_mma_fp4():
    @tkw.wave(mma_header(mma=ScaledMMAType.F32_16x16x128_F8F6F4))
    def kernel(
        a: tkl.Memory[M, K / 2, G, tkl.i8],
        a_scale: tkl.Memory[M, K / 32, G, tkl.i8],
        b: tkl.Memory[N, K / 2, G, tkl.i8],
        b_scale: tkl.Memory[N, K / 32, G, tkl.i8],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            x = tkw.bitcast(tkw.read(a), tkl.f4e2m1fn)
            xs = tkw.bitcast(tkw.read(a_scale), tkl.f8e8m0fnu)
            y = tkw.bitcast(tkw.read(b), tkl.f4e2m1fn)
            ys = tkw.bitcast(tkw.read(b_scale), tkl.f8e8m0fnu)
            return tkw.scaled_mma(x, xs, y, ys, acc)

        tkw.write(loop, c)

    m, n, k = 20, 24, 256
    a, b = (rng(i).integers(0, 256, (r, k // 2)).astype(np.uint8) for i, r in ((0, m), (1, n)))
    sa, sb = (rng(i).integers(124, 128, (r, k // 32)).astype(np.uint8) for i, r in ((2, m), (3, n)))
    c = np.zeros((m, n), np.float32)
    run(kernel, {M: m, N: n, K: k, BM: 32, BN: 32, BK: 128}, a, sa, b, sb, c)
    left = fp4(a) * np.repeat(2.0 ** (sa.astype(int) - 127), 32, 1)
    right = fp4(b) * np.repeat(2.0 ** (sb.astype(int) - 127), 32, 1)
    np.testing.assert_allclose(c, left @ right.T, rtol=1e-5)


def row_header(*more, vector_shapes=None):
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes=vector_shapes or {M: 1, N: 64}),
        tkw.WorkgroupConstraint(M, 1, 1),
        tkw.WorkgroupConstraint(N, 64, 0),
        *more,
    ]


def test_online_softmax():
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.TilingConstraint(N, 64),
    ]

    @tkw.wave(constraints)
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]):
        low, zero = tkl.Register[M, tkl.f32](-1e6), tkl.Register[M, tkl.f32](0.0)

        @tkw.iterate(N, init_args=[low, zero])
        def loop(m, d):
            x = tkw.read(a)
            valid = tkw.cast(tkw.apply_expr(tkw.self_index(N, tkl.i32), lambda i: i < N), tkw.i1)
            x = tkw.select(tkw.broadcast(valid, [M, N]), x, tkl.Register[M, N, tkl.f32](-1e6))
            m_new = tkw.max(x, m, dim=N)
            e = tkw.exp2(x - m_new)
            return m_new, tkw.sum(e, d * tkw.exp2(m - m_new), dim=N)

        tkw.write(tkw.log2(loop[1]) + loop[0], c)

    a, c = rng().standard_normal((7, 150)).astype(np.float32), np.zeros(7, np.float32)
    run(kernel, {M: 7, N: 150}, a, c)
    np.testing.assert_allclose(c, np.log2(np.exp2(f64(a)).sum(1)), rtol=1e-5)


def test_second_phase_of_decode_attention():
    """The splits of a sequence, one at a time: [B, N, M] is combined with [U, B, M], and the body
    returns one dimension more than it carries."""
    U = tkl.sym.U
    header = [
        tkw.WorkgroupConstraint(M, BM, 0),
        tkw.WorkgroupConstraint(N, BN, 1),
        tkw.WorkgroupConstraint(B, 1, 2),
        tkw.WaveConstraint(M, BM),
        tkw.WaveConstraint(N, BN),
        tkw.TilingConstraint(U, tkl.sym.BU),
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={B: 0, M: BM, N: BN, U: 1}),
    ]

    @tkw.wave(header)
    def phase_1(
        logits: tkl.Memory[U, B, N, M, G, tkl.f32],
        logits_max: tkl.Memory[U, B, M, G, tkl.f32],
        output: tkl.Memory[B, N, M, G, tkl.f32],
    ):
        init = [
            tkl.Register[B, M, tkl.f32](-1e6),
            tkl.Register[B, M, tkl.f32](0.0),
            tkl.Register[B, N, M, tkl.f32](0.0),
        ]

        @tkw.iterate(U, init_args=init)
        def repeat(partial_max, partial_sum, acc):
            x_j, xm_j = tkw.read(logits), tkw.read(logits_max)
            m_j = tkw.maximum(xm_j, partial_max)
            old_scale = tkw.exp2(partial_max - m_j)
            new_scale = tkw.exp2(xm_j - m_j)
            d_j = partial_sum * old_scale + new_scale
            return m_j, d_j, acc * old_scale + new_scale * x_j

        _, total, result = repeat
        tkw.write(result / total, output)

    x = rng().standard_normal((5, 2, 12, 9)).astype(np.float32)
    top = rng(1).standard_normal((5, 2, 9)).astype(np.float32)
    out = np.zeros((2, 12, 9), np.float32)
    run(phase_1, {U: 5, B: 2, N: 12, M: 9, BM: 8, BN: 8, tkl.sym.BU: 1}, x, top, out)
    weight = np.exp2(f64(top))[:, :, None, :]
    np.testing.assert_allclose(out, (f64(x) * weight).sum(0) / weight.sum(0), rtol=1e-5)


def test_scalar_arguments_and_symbol_bind():
    LIMIT = tkl.sym.LIMIT

    @tkw.wave(row_header())
    def kernel(
        a: tkl.Memory[M, N, G, tkl.f32],
        scale: tkl.f32,
        LIMIT: tkl.SymbolBind[tkl.i32],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        x = tkw.read(a) * tkw.broadcast(scale, [M, N])
        inside = tkw.cast(
            tkw.apply_expr(tkw.self_index(N, tkl.i32), lambda i: i < tkl.sym.LIMIT), tkw.i1
        )
        tkw.write(tkw.select(tkw.broadcast(inside, [M, N]), x, 0.0), c)

    a, c = rng().standard_normal((3, 90)).astype(np.float32), np.ones((3, 90), np.float32)
    compiled = build(kernel, {M: 3, N: 90})
    assert compiled.bound_scalar_symbols == {LIMIT: 2}
    for limit in (70, 10):
        compiled(a, 3.0, limit, c)
        np.testing.assert_allclose(c, np.where(np.arange(90) < limit, a * 3, 0), rtol=1e-6)


def test_conditional_writes_and_values():
    @tkw.wave(row_header())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], flag: tkl.i32, c: tkl.Memory[M, N, G, tkl.f32]):
        x = tkw.read(a)

        @tkw.conditional(WORKGROUP_1 < 2)
        def early():
            tkw.write(x, c)

        @tkw.conditional(flag > 0, else_return=[x, x])
        def chosen(u, v):
            return u * 2.0, v + 1.0

        doubled, raised = chosen

        @tkw.conditional(sympy.Ge(WORKGROUP_1, 2))
        def late():
            tkw.write(doubled + raised, c)

    a = rng().standard_normal((4, 64)).astype(np.float32)
    compiled = build(kernel, {M: 4, N: 64})
    for flag, rest in ((1, a * 3 + 1), (0, a * 2)):
        c = np.zeros_like(a)
        compiled(a, flag, c)
        np.testing.assert_allclose(c[:2], a[:2])
        np.testing.assert_allclose(c[2:], rest[2:], rtol=1e-5, atol=1e-6)


def test_while_loop_with_carried_values():
    """Collatz steps of one number: the condition depends on a carried value."""
    I = tkl.sym.I

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1}),
            tkw.WorkgroupConstraint(M, 1, 0),
            tkw.TilingConstraint(I),
        ]
    )
    def kernel(start: tkl.i32, c: tkl.Memory[M, G, tkl.i32]):
        @tkw.iterate(I, init_args=[start], start=0, condition=sympy.Ne(GET_ITER_ARG(0), 1))
        def loop(value):
            even = value % 2 == 0
            tkw.set_symbol(I, tkw.scalar(I, tkl.i32) + 1)
            tkw.write(tkw.broadcast(tkw.scalar(I, tkl.i32), [M]), c)
            return tkw.select(even, value / 2, value * 3 + 1)

    steps, n = 0, 27
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    c = np.zeros(1, np.int32)
    run(kernel, {M: 1}, 27, c)
    assert c[0] == steps


def test_paged_gather():
    """Rows are read through a table of page numbers."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    page = tkw.IndexMapping.dynamic_val(0)
    gather = tkw.IndexMapping(
        num_iterators=2, inputs={S: page, N: j}, outputs={M: i, N: j}, dynamic_val_mappings={M: i}
    )

    @tkw.wave(row_header())
    def kernel(
        table: tkl.Memory[M, G, tkl.i32],
        cache: tkl.Memory[S, N, G, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f16],
    ):
        pages = tkw.read(table)
        tkw.write(tkw.read(cache, mapping=gather, mapping_dynamic_vals=(pages,)), c)

    table, cache = np.array([3, 0, 3, 9, 1], np.int32), halfs((10, 70))
    c = np.zeros((5, 70), np.float16)
    run(kernel, {M: 5, N: 70, S: 10}, table, cache, c)
    assert np.array_equal(c, cache[table])


def test_ragged_rows_with_set_symbol():
    """Each row of a batch has its own length; offsets come from memory."""
    OFFSET, ROWS = tkl.sym.OFFSET, tkl.sym.ROWS
    L = tkl.sym.L
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    at_batch = tkw.IndexMapping(num_iterators=1, inputs={B: i}, outputs={B: i})
    next_batch = tkw.IndexMapping(num_iterators=1, inputs={B: i + 1}, outputs={B: i})
    rows = tkw.IndexMapping(num_iterators=2, inputs={ROWS: i + OFFSET, N: j}, outputs={L: i, N: j})
    back = tkw.IndexMapping(num_iterators=2, inputs={L: i, N: j}, outputs={ROWS: i + OFFSET, N: j})

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={B: 0, L: 1, N: 64}),
            tkw.WorkgroupConstraint(L, 8, 1),
            tkw.WorkgroupConstraint(N, 64, 0),
            tkw.WorkgroupConstraint(B, 1, 2, iters=tkl.sym.BATCHES),
        ]
    )
    def kernel(
        starts: tkl.Memory[B, G, tkl.i32],
        x: tkl.Memory[ROWS, N, G, tkl.f16],
        y: tkl.Memory[ROWS, N, G, tkl.f16],
    ):
        start, end = tkw.read(starts, mapping=at_batch), tkw.read(starts, mapping=next_batch)
        tkw.set_symbol(OFFSET, start)
        tkw.set_symbol(L, end - start)
        tkw.write(tkw.read(x, mapping=rows) * 2.0, y, mapping=back)

    starts = np.array([0, 3, 3, 8, 13], np.int32)
    x, y = halfs((16, 70)), np.zeros((16, 70), np.float16)
    run(kernel, {B: 5, ROWS: 16, N: 70, L: 8, tkl.sym.BATCHES: 4}, starts, x, y)
    assert np.array_equal(y[:13], x[:13] * 2) and not y[13:].any()


def test_grouped_query_heads():
    """Several query heads share a key head: a secondary constraint uses the same id."""
    HQ, HKV = tkl.sym.HQ, tkl.sym.HKV
    ratio = 3
    i, j, k = (tkw.IndexMapping.iterator(d) for d in range(3))
    shared = tkw.IndexMapping(
        num_iterators=3, inputs={HKV: i // ratio, N: j, K: k}, outputs={HQ: i, N: j, K: k}
    )

    @tkw.wave(
        mma_header(
            tkw.WorkgroupConstraint(HQ, 1, 2),
            tkw.WorkgroupConstraint(HKV, 1, 2, primary=False, apply_fn=lambda wg: wg // ratio),
            vector_shapes={HQ: 0, HKV: 0},
        )
    )
    def kernel(
        q: tkl.Memory[HQ, M, K, G, tkl.f16],
        key: tkl.Memory[HKV, N, K, G, tkl.f16],
        c: tkl.Memory[HQ, M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[HQ, M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(q), tkw.read(key, mapping=shared), acc)

        tkw.write(loop, c)

    q, key, c = halfs((6, 20, 16)), halfs((2, 24, 16), 1), np.zeros((6, 20, 24), np.float32)
    run(kernel, {HQ: 6, HKV: 2, M: 20, N: 24, K: 16, **TILES}, q, key, c)
    np.testing.assert_allclose(c, f64(q) @ f64(np.repeat(key, 3, 0)).transpose(0, 2, 1), atol=1e-3)


def test_reordered_workgroups():
    swapped = [tkw.ReorderingConstraint(WORKGROUP_1, 0), tkw.ReorderingConstraint(WORKGROUP_0, 1)]

    @tkw.wave(mma_header(*swapped))
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(a), c)

    a, c = rng().standard_normal((64, 64)).astype(np.float32), np.zeros((64, 64), np.float32)
    run(kernel, {M: 64, N: 64, **TILES}, a, c)
    assert np.array_equal(a, c)


def test_persistent_rows():
    """A fixed grid walks all tiles; positions come from set_symbol and mappings."""
    TILE = tkl.sym.TILE
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    rows = tkw.IndexMapping(num_iterators=2, inputs={M: i + TILE, N: j}, outputs={M: i, N: j})
    back = tkw.IndexMapping(num_iterators=2, inputs={M: i, N: j}, outputs={M: i + TILE, N: j})

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64}),
            tkw.WorkgroupConstraint(M, 1, 0),
            tkw.WorkgroupConstraint(N, 128, 1),
            tkw.GridConstraint(3),
            tkw.TilingConstraint(TILE),
        ]
    )
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        @tkw.iterate(TILE, init_args=[], start=tkw.scalar(WORKGROUP_0, tkl.i32), condition=TILE < M)
        def walk():
            tkw.write(tkw.read(a, mapping=rows) + 1.0, c, mapping=back)
            tkw.set_symbol(TILE, tkw.scalar(TILE, tkl.i32) + 3)

    a, c = rng().standard_normal((10, 100)).astype(np.float32), np.zeros((10, 100), np.float32)
    run(kernel, {M: 10, N: 100}, a, c)
    np.testing.assert_allclose(c, a + 1)


def test_memory_layout():
    """The logical tensor is a corner of a larger physical one."""
    layout = tkl.MemoryLayout(shape=[8, 100])

    @tkw.wave(row_header())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32, layout], c: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(a), c)

    a, c = rng().standard_normal((8, 100)).astype(np.float32), np.zeros((4, 64), np.float32)
    run(kernel, {M: 4, N: 64}, a, c)
    assert np.array_equal(c, a[:4, :64])


@pytest.mark.parametrize("target", ["eval", "cpu", "sim:gfx942", "sim:sm_90a"])
def test_histogram_by_scatter_add(target):
    i = tkw.IndexMapping.iterator(0)
    same = tkw.IndexMapping(num_iterators=1, inputs={N: i}, outputs={N: i})

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={N: 64}),
            tkw.WorkgroupConstraint(N, 64, 0),
        ]
    )
    def kernel(x: tkl.Memory[N, G, tkl.i32], c: tkl.Memory[N, G, tkl.i32]):
        bins = tkw.allocate((N,), (64,), tkl.i32, SHARED_ADDRESS_SPACE)
        tkw.write(tkl.Register[N, tkl.i32](0), bins)
        tkw.scatter_add(
            tkl.Register[N, tkl.i32](1),
            tkw.read(x),
            dim=0,
            memory=bins,
            mapping=same,
        )
        tkw.shared_memory_barrier()
        tkw.write(tkw.read(bins), c)

    x, c = rng().integers(0, 9, 64).astype(np.int32), np.zeros(64, np.int32)
    wave_compile(WaveCompileOptions(subs={N: 64}, target=target), kernel)(x, c)
    assert np.array_equal(c, np.bincount(x, minlength=64))


@pytest.mark.parametrize("each", [1, 2, 3])
@pytest.mark.parametrize("target", ["eval", "cpu", "sim:gfx942", "sim:sm_90a"])
def test_scatter_add_of_several_vectors(target, each):
    """`elements_per_thread` counts the elements of one vector; a thread has several vectors of a
    tile."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    same = tkw.IndexMapping(num_iterators=2, inputs={M: i, N: j}, outputs={M: i, N: j})

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 64, N: each}),
            tkw.WorkgroupConstraint(M, 64, 0),
            tkw.WorkgroupConstraint(N, 6, 1),
        ]
    )
    def kernel(
        x: tkl.Memory[M, N, G, tkl.f32],
        at: tkl.Memory[M, N, G, tkl.i32],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        sums = tkw.allocate((M, N), (64, 6), tkl.f32, SHARED_ADDRESS_SPACE)
        tkw.write(tkl.Register[M, N, tkl.f32](0), sums, elements_per_thread=each)
        tkw.scatter_add(
            tkw.read(x, elements_per_thread=each),
            tkw.read(at, elements_per_thread=each),
            dim=0,
            memory=sums,
            mapping=same,
            elements_per_thread=each,
        )
        tkw.write(tkw.read(sums, elements_per_thread=each), c, elements_per_thread=each)

    x = np.arange(64 * 6, dtype=np.float32).reshape(64, 6)
    at, c = rng().integers(0, 64, x.shape).astype(np.int32), np.zeros_like(x)
    compiled = wave_compile(WaveCompileOptions(subs={M: 64, N: 6}, target=target), kernel)
    if target == "eval":  # the elements of a thread are not a property of tiles
        with pytest.raises(tkw.CompileError, match="E0701"):
            compiled(x, at, c)
        return
    compiled(x, at, c)
    want = np.zeros_like(x)
    np.add.at(want, (at, np.arange(6)[None, :]), x)
    assert np.array_equal(c, want)


def test_atomic_min_returns_old_values():
    @tkw.wave(row_header())
    def kernel(
        x: tkl.Memory[M, N, G, tkl.i32],
        low: tkl.Memory[M, N, G, tkl.i32],
        old: tkl.Memory[M, N, G, tkl.i32],
    ):
        tkw.write(tkw.atomic_min(tkw.read(x), low), old)

    x, low = (rng(s).integers(0, 99, (2, 64)).astype(np.int32) for s in (0, 1))
    before, old = low.copy(), np.zeros_like(low)
    run(kernel, {M: 2, N: 64}, x, low, old)
    assert np.array_equal(low, np.minimum(x, before)) and np.array_equal(old, before)


def test_symbolic_alias():
    """Blocks of 32 share a scale; the block dimension follows K's constraints."""
    BLOCKS = tkl.sym.BLOCKS
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    spread = tkw.IndexMapping(num_iterators=2, inputs={M: i, BLOCKS: j // 32}, outputs={M: i, K: j})

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, K: 64}),
            tkw.WorkgroupConstraint(M, 1, 1),
            tkw.WorkgroupConstraint(K, 64, 0),
            SymbolicAlias(BLOCKS, K, lambda x: sympy.ceiling(x / 32)),
        ]
    )
    def kernel(
        a: tkl.Memory[M, K, G, tkl.f32],
        s: tkl.Memory[M, BLOCKS, G, tkl.f32],
        c: tkl.Memory[M, K, G, tkl.f32],
    ):
        tkw.write(tkw.read(a) * tkw.read(s, mapping=spread), c)

    a = rng().standard_normal((3, 128)).astype(np.float32)
    s, c = rng(1).standard_normal((3, 4)).astype(np.float32), np.zeros((3, 128), np.float32)
    run(kernel, {M: 3, K: 128, BLOCKS: 4}, a, s, c)
    np.testing.assert_allclose(c, a * np.repeat(s, 32, 1), rtol=1e-6)


def test_chained_subs():
    X = tkl.sym.X

    @tkw.wave(row_header())
    def kernel(c: tkl.Memory[M, N, G, tkl.i32]):
        tkw.write(tkl.Register[M, N, tkl.i32](X), c)

    c = np.zeros((2, 64), np.int32)
    run(kernel, {M: 2, N: 64, K: 8192, X: K // 32 + tkl.sym.Y, tkl.sym.Y: K - 8000}, c)
    assert (c == 256 + 192).all()


def test_a_kernel_can_be_compiled_many_times():
    constraints = mma_header()
    before = [repr(c) for c in constraints]

    @tkw.wave(constraints)
    def kernel(
        a: tkl.Memory[M, K, G, tkl.f16],
        b: tkl.Memory[N, K, G, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(loop, c)

    for m, n, k, bm in ((10, 12, 14, 16), (40, 30, 20, 32), (7, 50, 9, 64)):
        a, b, c = halfs((m, k)), halfs((n, k), 1), np.zeros((m, n), np.float32)
        run(kernel, {M: m, N: n, K: k, BM: bm, BN: 16, BK: 16}, a, b, c)
        np.testing.assert_allclose(c, f64(a) @ f64(b).T, atol=1e-3)
    assert [repr(c) for c in constraints] == before


def test_helpers_and_closures_run_at_trace_time():
    def make(causal, activations):
        @tkw.wave(row_header())
        def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
            x = tkw.read(a)
            for act in activations:
                x = act(x)
            if causal:
                x = x + 1.0
            tkw.write(x, c)

        return kernel

    a = rng().uniform(1, 2, (2, 64)).astype(np.float32)
    for causal in (False, True):
        c = np.zeros_like(a)
        run(make(causal, [tkw.sqrt, tkw.exp2]), {M: 2, N: 64}, a, c)
        np.testing.assert_allclose(c, np.exp2(np.sqrt(a)) + causal, rtol=1e-5)


def test_wave_sim_runs_the_body_once_on_whole_tensors():
    from wave_lang.kernel.wave.wave_sim import wave_sim

    @wave_sim([tkw.TilingConstraint(K, BK)])
    def gemm(
        a: tkl.Memory[M, K, G, tkl.f16],
        b: tkl.Memory[N, K, G, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(loop, c)

    a, b, c = halfs((7, 9)), halfs((5, 9), 1), np.zeros((7, 5), np.float32)
    gemm(a, b, c)
    np.testing.assert_allclose(c, f64(a) @ f64(b).T, atol=1e-3)
    gemm(a.astype(np.float32), b.astype(np.float32), c)  # whatever the annotations say
    np.testing.assert_allclose(c, f64(a) @ f64(b).T, atol=1e-3)


@pytest.mark.parametrize("at", (0, 3, 36, -1, -37))
def test_wave_sim_indexes_values(at):
    """The public package's test_broadcast_3: there, values are tensors."""
    from wave_lang.kernel.wave.wave_sim import wave_sim

    @wave_sim([tkw.WorkgroupConstraint(M, 16, 0), tkw.WorkgroupConstraint(N, 16, 1)])
    def element(b: tkl.Memory[N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(b)[at], c)

    @wave_sim([tkw.WorkgroupConstraint(M, 16, 0), tkw.WorkgroupConstraint(N, 16, 1)])
    def row(a: tkl.Memory[N, M, G, tkl.i32], c: tkl.Memory[M, G, tkl.i32]):
        tkw.write(tkw.read(a)[at] + tkw.read(a)[at], c)

    b, c = rng().standard_normal(37).astype("f4"), np.zeros((5, 37), "f4")
    b[7] = np.nan
    element(b, c)
    assert (c == b[at]).all()
    a, d = rng().integers(-9, 9, (37, 5)).astype("i4"), np.zeros(5, "i4")
    row(a, d)
    assert (d == 2 * a[at]).all()


@pytest.mark.parametrize("at", (37, -38, slice(0, 3), (0, 1), "a", 1.5))
def test_wave_sim_indices_that_do_not_exist(at):
    from wave_lang.kernel.wave.wave_sim import wave_sim

    @wave_sim([tkw.WorkgroupConstraint(N, 16, 0)])
    def element(b: tkl.Memory[N, G, tkl.f32], c: tkl.Memory[N, G, tkl.f32]):
        tkw.write(tkw.read(b)[at], c)

    with pytest.raises(tkw.CompileError, match="E0310"):
        element(np.ones(37, "f4"), np.ones(37, "f4"))
