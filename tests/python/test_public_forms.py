"""Forms that public Wave kernels are written in, on every kind of target."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import halfs, rng
from wave_lang import CompileError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N, K, S = (getattr(tkl.sym, s) for s in ("M", "N", "K", "S"))
G, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
HAS_CPU = any(d.kind == "cpu" for d in _wave.devices())
MACHINES = ["sim:gfx942", "sim:sm_90a"] + ["cpu"] * HAS_CPU
TARGETS = ["eval", *MACHINES]


def run_on(target, kernel, subs, *arguments, dynamic=()):
    """The arguments as a run leaves them."""
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
    """Reads row S of `a`, which set_symbol chooses for each element; S is a dimension, too."""
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


# ---- constants of a loop's dimension, made in front of it ----------------------------------------


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
