"""Registers written to memories with more dimensions: broadcast over this tile of each, clipped to
the extent. The same on every target, whatever the tiles."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import rng
from wave_lang import CompileError, SimulationError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *

B, H, M, N, K = (getattr(tkl.sym, s) for s in "BHMNK")
G = GLOBAL_ADDRESS_SPACE
TARGETS = pytest.mark.parametrize(
    "target", ["eval", "cpu", "sim:cpu", "sim:sm_90a", "sim:sm_80", "sim:gfx942"]
)


def compiled(kernel, target, subs=(), dynamic=()):
    options = WaveCompileOptions(subs=dict(subs), dynamic_symbols=list(dynamic), target=target)
    return wave_compile(options, kernel)


def tiles(bm, bn=64, waves=1):
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: bn}),
        tkw.WorkgroupConstraint(M, bm, 0),
        tkw.WorkgroupConstraint(N, bn, 1),
        tkw.WaveConstraint(M, max(bm // waves, 1)),
        tkw.WaveConstraint(N, bn),
    ]


def floats(*shape):
    return rng(7).integers(-9, 10, shape).astype(np.float32)


@TARGETS
@pytest.mark.parametrize("bm, waves", [(1, 1), (3, 1), (4, 2), (16, 4)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_rows(target, bm, waves, dynamic):
    @tkw.wave(tiles(bm, waves=waves))
    def kernel(row: tkl.Memory[N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(row), c)

    row, c = floats(70), np.full((10, 70), np.nan, "f4")
    made = compiled(kernel, target, {} if dynamic else {M: 10, N: 70}, [M, N] if dynamic else [])
    made(row, c)
    assert np.array_equal(c, np.broadcast_to(row, c.shape))


@TARGETS
@pytest.mark.parametrize("bm", [1, 3, 4])
def test_atomics_once_for_each_element(target, bm):
    @tkw.wave(tiles(bm))
    def kernel(row: tkl.Memory[N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        tkw.atomic_add(tkw.read(row), c)

    row, c = floats(70), np.ones((10, 70), "f4")
    compiled(kernel, target, {M: 10, N: 70})(row, c)
    assert np.array_equal(c, 1 + np.broadcast_to(row, c.shape))


@TARGETS
@pytest.mark.parametrize("bk", [1, 3, 8])
def test_tile_of_an_iteration(target, bk):
    """Inside a loop it is the iteration's tile; column k of the result is that of the loop."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 4, K: bk}),
            tkw.WorkgroupConstraint(M, 4, 0),
            tkw.TilingConstraint(K, bk),
        ]
    )
    def kernel(x: tkl.Memory[M, G, tkl.f32], c: tkl.Memory[M, K, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkw.read(x)])
        def loop(value):
            tkw.write(value, c)
            return value + value

    x, c = floats(9), np.full((9, 13), np.nan, "f4")
    compiled(kernel, target, {M: 9, K: 13})(x, c)
    assert np.array_equal(c, x[:, None] * 2.0 ** (np.arange(13) // bk))


@TARGETS
def test_a_dimension_that_nothing_cuts_is_one_tile(target):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 5, N: 64}),
            tkw.WorkgroupConstraint(N, 64, 0),
        ]
    )
    def kernel(row: tkl.Memory[N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(row), c)

    row, c = floats(100), np.full((5, 100), np.nan, "f4")
    compiled(kernel, target, {M: 5, N: 100})(row, c)
    assert np.array_equal(c, np.broadcast_to(row, c.shape))


@TARGETS
def test_a_mapping_that_names_the_dimension_wins(target):
    i = tkw.IndexMapping.iterator(0)
    second = tkw.IndexMapping(num_iterators=1, inputs={N: i}, outputs={M: 1, N: i})

    @tkw.wave(tiles(4))
    def kernel(row: tkl.Memory[N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(row), c, mapping=second)

    row, c = floats(64), np.zeros((4, 64), "f4")
    compiled(kernel, target, {M: 4, N: 64})(row, c)
    assert np.array_equal(np.flatnonzero(c.any(1)), [1]) and np.array_equal(c[1], row)


@TARGETS
def test_two_dimensions_at_once_and_one_in_the_middle(target):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={B: 2, M: 3, N: 64}),
            tkw.WorkgroupConstraint(N, 64, 0),
            tkw.WorkgroupConstraint(M, 3, 1),
            tkw.WorkgroupConstraint(B, 2, 2),
        ]
    )
    def kernel(x: tkl.Memory[M, G, tkl.f16], c: tkl.Memory[B, M, N, G, tkl.f16]):
        tkw.write(tkw.read(x), c)

    x, c = floats(7).astype("f2"), np.full((3, 7, 65), np.nan, "f2")
    compiled(kernel, target, {B: 3, M: 7, N: 65})(x, c)
    assert np.array_equal(c, np.broadcast_to(x[None, :, None], c.shape))


@TARGETS
@pytest.mark.parametrize("heads, bh", [(3, 1), (5, 2)])
def test_product_without_the_heads(target, heads, bh):
    """A matmul whose registers lack H: each workgroup writes its own heads."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(
                threads_per_wave=64,
                mma_type=tkw.MMAType.F32_16x16x16_F16,
                vector_shapes={H: 0 if bh == 1 else bh},
            ),
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 32, 1),
            tkw.WorkgroupConstraint(H, bh, 2),
            tkw.TilingConstraint(K, 16),
            tkw.WaveConstraint(M, 16),
            tkw.WaveConstraint(N, 32),
        ]
    )
    def kernel(
        a: tkl.Memory[M, K, G, tkl.f16],
        b: tkl.Memory[N, K, G, tkl.f16],
        c: tkl.Memory[M, H, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    a, b = floats(40, 20).astype("f2"), floats(33, 20).astype("f2")
    c = np.full((40, heads, 33), np.nan, "f4")
    compiled(kernel, target, {M: 40, N: 33, K: 20, H: heads})(a, b, c)
    want = a.astype("f8") @ b.T.astype("f8")
    assert np.array_equal(c, np.broadcast_to(want[:, None, :], c.shape))


@TARGETS
def test_scratch(target):
    """The same for shared memory."""

    @tkw.wave(tiles(4))
    def kernel(row: tkl.Memory[N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        kept = tkw.allocate((M, N), (4, 64), tkl.f32, SHARED_ADDRESS_SPACE)
        tkw.write(tkw.read(row), kept)
        tkw.shared_memory_barrier()
        tkw.write(tkw.read(kept), c)

    row, c = floats(64), np.full((8, 64), np.nan, "f4")
    compiled(kernel, target, {M: 8, N: 64})(row, c)
    assert np.array_equal(c, np.broadcast_to(row, c.shape))


@TARGETS
@pytest.mark.parametrize("bm", [1, 4])
def test_old_values_need_a_tile_of_one(target, bm):
    """One of several old values is not a result: an error at the line, with a hint."""

    @tkw.wave(tiles(bm))
    def kernel(
        row: tkl.Memory[N, G, tkl.f32],
        c: tkl.Memory[M, N, G, tkl.f32],
        d: tkl.Memory[M, N, G, tkl.f32],
    ):
        tkw.write(tkw.atomic_add(tkw.read(row), c), d)

    row, c, d = floats(64), np.ones((4, 64), "f4"), np.zeros((4, 64), "f4")
    if bm == 1:
        compiled(kernel, target, {M: 4, N: 64})(row, c, d)
        assert np.array_equal(c, 1 + np.broadcast_to(row, c.shape)) and (d == 1).all()
        return
    with pytest.raises(CompileError, match="E0304") as error:
        compiled(kernel, target, {M: 4, N: 64})(row, c, d)
    assert "broadcast" in str(error.value) and error.value.diagnostics[0].file == __file__


@TARGETS
@pytest.mark.parametrize("bm, waves", [(1, 1), (3, 1), (4, 2)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_workgroups_that_write_the_same_values(target, bm, waves, dynamic):
    """Workgroups divide N, which the memory lacks."""

    @tkw.wave(tiles(bm, waves=waves))
    def kernel(
        a: tkl.Memory[M, N, G, tkl.f32],
        r: tkl.Memory[M, G, tkl.f32],
        c: tkl.Memory[M, G, tkl.f32],
    ):
        tkw.write(tkw.read(a) * 2.0, a)
        tkw.write(tkw.read(r) + 1.0, c)

    a, r, c = floats(10, 200), floats(10), np.full(10, np.nan, "f4")
    twice = 2 * a
    made = compiled(kernel, target, {} if dynamic else {M: 10, N: 200}, [M, N] if dynamic else [])
    made(a, r, c)
    assert np.array_equal(a, twice) and np.array_equal(c, r + 1)


@pytest.mark.parametrize("target", ["sim:cpu", "sim:sm_90a", "sim:sm_80", "sim:gfx942"])
def test_workgroups_that_disagree(target):
    @tkw.wave(tiles(1))
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]):
        tkw.write(tkw.max(tkw.read(a), dim=N), c)

    a, c = np.arange(300, dtype="f4").reshape(3, 100), np.zeros(3, "f4")
    compiled(kernel, target, {M: 3, N: 50})(np.ascontiguousarray(a[:, :50]), c)
    with pytest.raises(SimulationError, match="E0808"):
        compiled(kernel, target, {M: 3, N: 100})(a, c)


def softmax(x):
    e = np.exp2(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@TARGETS
@pytest.mark.parametrize("sizes", [(1, 32, 2, 16, 16, 32), (2, 20, 3, 8, 12, 48)])
def test_attention_whose_registers_lack_the_heads(target, sizes):
    """As printed in the overview talk: tensors have a dimension H that no register names. Each
    workgroup has one head, reads it and writes it."""
    K1, K2 = tkl.sym.K1, tkl.sym.K2
    i, j, k = (tkw.IndexMapping.iterator(d) for d in range(3))
    columns = tkw.IndexMapping(3, {B: i, K2: k, H: WORKGROUP_2, N: j}, {B: i, N: j, K2: k})

    @tkw.wave(
        [
            tkw.WorkgroupConstraint(M, 64, 0),
            tkw.WorkgroupConstraint(B, 1, 1),
            tkw.WorkgroupConstraint(H, 1, 2),
            tkw.TilingConstraint(K2, 16),
            tkw.WaveConstraint(M, 16),
            tkw.HardwareConstraint(
                threads_per_wave=64,
                mma_type=tkw.MMAType.F32_16x16x16_F16,
                vector_shapes={B: 0, H: 0},
            ),
        ]
    )
    def attention(
        q: tkl.Memory[B, M, H, K1, G, tkl.f16],
        key: tkl.Memory[B, K2, H, K1, G, tkl.f16],
        v: tkl.Memory[B, K2, H, N, G, tkl.f16],
        c: tkl.Memory[B, M, H, N, G, tkl.f32],
    ):
        highest, total = (tkl.Register[B, M, tkl.f32](x) for x in (-1e6, 0.0))

        @tkw.iterate(K2, init_args=[highest, total, tkl.Register[B, N, M, tkl.f32](0.0)])
        def repeat(highest, total, acc):
            scores = tkw.mma(tkw.read(key), tkw.read(q), tkl.Register[B, K2, M, tkl.f32](0.0))
            x = tkw.permute(scores, target_shape=[B, M, K2])
            above = tkw.max(x, highest, dim=K2)
            scale = tkw.exp2(highest - above)
            e = tkw.exp2(x - above)
            total = tkw.sum(e, total * scale, dim=K2)
            columns_of_v = tkw.read(v, mapping=columns)
            return above, total, tkw.mma(columns_of_v, tkw.cast(e, tkl.f16), acc * scale)

        highest, total, product = repeat
        tkw.write(product * tkw.reciprocal(total), c)

    b, m, h, n, k1, k2 = sizes
    shapes = (b, m, h, k1), (b, k2, h, k1), (b, k2, h, n)
    q, key, v = ((rng(i).standard_normal(s) / 2).astype("f2") for i, s in enumerate(shapes))
    c = np.full((b, m, h, n), np.nan, "f4")
    compiled(attention, target, {B: b, M: m, H: h, N: n, K1: k1, K2: k2})(q, key, v, c)
    scores = np.einsum("bmhd,bkhd->bhmk", q.astype("f8"), key.astype("f8"))
    expected = np.einsum("bhmk,bkhn->bmhn", softmax(scores), v.astype("f8"))
    np.testing.assert_allclose(c, expected, atol=4e-3)
