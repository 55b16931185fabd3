"""Idioms of public Wave kernels, on every kind of target."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import halfs, rng
from wave_lang import CompileError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave.constraints import MMAType
from wave_lang.kernel.wave.symbolic_constraints import SymbolicAlias

M, N, K, S = (getattr(tkl.sym, s) for s in ("M", "N", "K", "S"))
G, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
HAS_CPU = any(d.kind == "cpu" for d in _wave.devices())
MACHINES = ["sim:gfx942", "sim:sm_90a"] + ["cpu"] * HAS_CPU
TARGETS = ["eval", *MACHINES]


def run_on(target, kernel, subs, *arguments, dynamic=()):
    """The arguments after a run."""
    options = WaveCompileOptions(subs=subs, dynamic_symbols=list(dynamic), target=target)
    made = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    wave_compile(options, kernel)(*made)
    return made


def rows(*more, vector_shapes=None, tile=64):
    """A wave for each row and `tile` columns."""
    return [
        tkw.HardwareConstraint(
            threads_per_wave=64, vector_shapes={M: 1, N: tile, **(vector_shapes or {})}
        ),
        tkw.WorkgroupConstraint(M, 1, 1),
        tkw.WorkgroupConstraint(N, tile, 0),
        tkw.WaveConstraint(M, 1),
        tkw.WaveConstraint(N, tile),
        *more,
    ]


# ---- a dimension whose symbol becomes a coordinate -----------------------------------------------


def gather_by_symbol(index):
    """Reads row S of `a`, which set_symbol chooses for each element; S is also a dimension."""
    j = tkw.IndexMapping.iterator(1)
    row = tkw.IndexMapping(
        num_iterators=2, inputs={S: S, N: j}, outputs={S: tkw.IndexMapping.iterator(0), N: j}
    )

    @tkw.wave(rows(vector_shapes={S: 1}))
    def gather(
        a: tkl.Memory[S, N, G, tkl.f16],
        at: tkl.Memory[M, N, G, tkl.i32],
        b: tkl.Memory[M, N, G, tkl.f16],
    ):
        tkw.set_symbol(S, index(tkw.read(at)))
        tkw.write(tkw.read(a, mapping=row), b)

    return gather


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("shape", [(1, 27), (5, 64), (3, 130)])
def test_a_set_symbol_is_the_row_that_is_read(target, shape):
    a, at = halfs(shape), rng(1).integers(0, shape[0], shape, dtype=np.int32)
    sizes = {M: shape[0], N: shape[1]}
    arguments = a, at, np.full(shape, 7, np.float16)
    kernel = gather_by_symbol(lambda at: at)
    *_, b = run_on(target, kernel, sizes, *arguments, dynamic=[S])
    assert np.array_equal(b, np.take_along_axis(a, at.astype(np.int64), 0))
    kernel = gather_by_symbol(lambda at: tkw.apply_expr(at, lambda x: M - x - 1))
    *_, b = run_on(target, kernel, sizes, *arguments, dynamic=[S])
    assert np.array_equal(b, np.take_along_axis(a, shape[0] - 1 - at.astype(np.int64), 0))


@pytest.mark.parametrize("target", TARGETS)
def test_a_set_symbol_may_be_the_same_for_all(target):
    kernel = gather_by_symbol(lambda at: tkw.scalar(0, tkl.i32))
    a = halfs((4, 70))
    *_, b = run_on(
        target,
        kernel,
        {M: 3, N: 70},
        a,
        np.zeros((3, 70), "i4"),
        np.ones((3, 70), "f2"),
        dynamic=[S],
    )
    assert np.array_equal(b, np.repeat(a[:1], 3, 0))


# ---- a dimension that shares the workgroups of a longer one --------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("heads, shared_by", [(4, 2), (6, 3), (5, 4), (1, 1)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_heads_share_keys(target, heads, shared_by, dynamic):
    """`primary=False`: its coordinate has the range of the heads; the mapping reduces it."""
    H, H_KV = tkl.sym.H, tkl.sym.H_KV
    h, n, k = (tkw.IndexMapping.iterator(i) for i in range(3))
    share = tkw.IndexMapping(
        num_iterators=3,
        inputs={H_KV: h // shared_by, N: n, K: k},
        outputs={H_KV: h, N: n, K: k},
    )

    @tkw.wave(
        [
            tkw.HardwareConstraint(
                threads_per_wave=64,
                mma_type=MMAType.F32_16x16x16_F16,
                vector_shapes={H: 0, H_KV: 0, M: 16, N: 16},
            ),
            tkw.WorkgroupConstraint(M, 16, 0),
            tkw.WorkgroupConstraint(N, 16, 1),
            tkw.WorkgroupConstraint(H, 1, 2),
            tkw.WorkgroupConstraint(H_KV, 1, 2, primary=False),
        ]
    )
    def scores(
        q: tkl.Memory[H, M, K, G, tkl.f16],
        keys: tkl.Memory[H_KV, N, K, G, tkl.f16],
        out: tkl.Memory[H, N, M, G, tkl.f32],
    ):
        zero = tkl.Register[H, N, M, tkl.f32](0.0)
        tkw.write(tkw.mma(tkw.read(keys, mapping=share), tkw.read(q), zero), out)

    q, keys = halfs((heads, 17, 16)), halfs((-(-heads // shared_by), 20, 16))
    sizes = {H: heads, H_KV: len(keys), M: 17, N: 20}
    given = {K: 16} if dynamic else {K: 16, **sizes}
    *_, out = run_on(
        target,
        scores,
        given,
        q,
        keys,
        np.ones((heads, 20, 17), "f4"),
        dynamic=sizes if dynamic else (),
    )
    exact = keys[np.arange(heads) // shared_by].astype("f8") @ q.astype("f8").transpose(0, 2, 1)
    assert np.abs(out - exact).max() < 1e-4


# ---- constants over a loop's dimension, made before it ----------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [1, 32, 75])
def test_constants_in_front_of_a_loop_of_unknown_size(target, columns):
    """Sums of cap * tanh(x / cap) over the columns below a limit, as attention with a cap masks."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64}),
            tkw.WorkgroupConstraint(M, 4, 0),
            tkw.TilingConstraint(N, 64),
            tkw.WaveConstraint(M, 4),
        ]
    )
    def capped(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32], limit: tkl.i32):
        cap = tkl.Register[M, N, tkl.f32](3.0)
        nothing = tkl.Register[M, N, tkl.f32](0.0)
        each = tkw.self_index(N, tkl.i32)
        tkw.set_symbol(S, limit)

        @tkw.iterate(N, init_args=[tkl.Register[M, tkl.f32](0.0)])
        def loop(total):
            inverse = tkw.reciprocal(cap)
            x = cap * tkw.tanh(tkw.read(a) * inverse)
            below = tkw.apply_expr(each, lambda i: i < S)
            x = tkw.select(tkw.broadcast(below, target_shape=[M, N]), x, nothing)
            return tkw.sum(x, total, dim=N)

        tkw.write(loop, c)

    a = rng().standard_normal((6, columns)).astype(np.float32)
    limit = min(columns, 40)
    _, c, _ = run_on(target, capped, {}, a, np.zeros(6, "f4"), limit, dynamic=[M, N])
    expected = (3 * np.tanh(a.astype(np.float64) / 3))[:, :limit].sum(1)
    np.testing.assert_allclose(c, expected, atol=1e-4)


# ---- waves that each have a part of the sum ------------------------------------------------------


def split_attention(waves, block=64):
    """Attention over parts of the keys: each wave along N has its own maximum, sum and accumulator,
    and writes them to its own slot along P."""
    D, P = tkl.sym.D, tkl.sym.P

    @tkw.wave(
        [
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(D, 32, 1),
            tkw.WorkgroupConstraint(N, block, 2),
            tkw.WaveConstraint(M, 16),
            tkw.WaveConstraint(D, 16),
            tkw.WaveConstraint(N, block / waves),
            SymbolicAlias(P, N, lambda x: sympy.ceiling(x / (block / waves))),
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=MMAType.F32_16x16x16_F16),
        ]
    )
    def part(
        q: tkl.Memory[M, K, G, tkl.f16],
        k: tkl.Memory[N, K, SHARED, tkl.f16],
        v: tkl.Memory[D, N, SHARED, tkl.f16],
        out: tkl.Memory[P, D, M, G, tkl.f32],
        top: tkl.Memory[P, M, G, tkl.f32],
    ):
        scores = tkw.mma(tkw.read(k), tkw.read(q), tkl.Register[N, M, tkl.f32](0.0))
        x = tkw.permute(scores, target_shape=[M, N])
        most = tkw.max(x, tkl.Register[M, tkl.f32](-1e6), dim=N)
        e = tkw.exp2(x - most)
        total = tkw.sum(e, tkl.Register[M, tkl.f32](0.0), dim=N)
        product = tkw.mma(tkw.read(v), tkw.cast(e, tkl.f16), tkl.Register[D, M, tkl.f32](0.0))
        tkw.write(most + tkw.log2(total), top)
        tkw.write(product / total, out)

    return part, {tkl.sym.D: 32, P: 128 * waves // block}


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("waves", [1, 2])
def test_waves_with_a_part_of_the_keys_each(target, waves):
    """On sm_90a a wave of 64 threads is two warps, which keep the values that differ between
    waves."""
    kernel, sizes = split_attention(waves)
    q, k, v = halfs((32, 48), scale=0.2), halfs((128, 48), 1), halfs((32, 128), 2)
    parts = 2 * waves
    out, top = np.zeros((parts, 32, 32), "f4"), np.zeros((parts, 32), "f4")
    *_, out, top = run_on(target, kernel, {M: 32, N: 128, K: 48, **sizes}, q, k, v, out, top)
    scores = q.astype("f8") @ k.astype("f8").T
    each = np.exp2(scores).reshape(32, parts, -1)
    np.testing.assert_allclose(top, np.log2(each.sum(2)).T, rtol=1e-4, atol=1e-3)
    values = v.astype("f8").reshape(32, parts, -1)
    expected = np.einsum("mpn,dpn->pdm", each / each.sum(2, keepdims=True), values)
    np.testing.assert_allclose(out, expected, atol=3e-3)


def test_a_part_of_the_sum_is_whole_instructions():
    kernel, sizes = split_attention(2, 48)  # 24 columns for each, of an instruction that takes 16
    options = WaveCompileOptions(subs={M: 32, N: 96, K: 48, **sizes}, target="sim:gfx942")
    with pytest.raises(CompileError, match="E0611"):
        wave_compile(options, kernel)
