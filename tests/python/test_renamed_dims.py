"""One mapping iterator for dimensions of different names: the register's dimension gives the extent of the
tile, and every dimension of the memory that is mapped to the iterator gets its value."""

import os
import sys
from dataclasses import replace

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import f64, halfs, rng
from wave_lang import WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import *

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tools"))

import ptxas  # noqa: E402

M, N, K, P, D = (getattr(tkl.sym, s) for s in "MNKPD")
HQ, HK, Q, KV, DV = (getattr(tkl.sym, s) for s in ("HQ", "HK", "Q", "KV", "DV"))
G, S = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
I, J, L = (tkw.IndexMapping.iterator(i) for i in range(3))
EVERYWHERE = ["eval", "cpu", "sim:cpu", "sim:sm_80", "sim:sm_90a", "sim:gfx942"]
TARGETS = pytest.mark.parametrize("target", EVERYWHERE)
EITHER_WAY = pytest.mark.parametrize("dynamic", [False, True], ids=["bound", "dynamic"])


def launch(kernel, target, sizes, args, dynamic=False):
    free = [s for s in sizes if s not in (D, DV)] if dynamic else []
    subs = {s: n for s, n in sizes.items() if s not in free}
    options = WaveCompileOptions(subs=subs, dynamic_symbols=free, target=target)
    wave_compile(options, kernel)(*args)
    if target.startswith("sim:sm") and ptxas.find():
        text = wave_compile(replace(options, target=target[4:]), kernel).ptx
        assert ptxas.assemble(text).ok


def lines(bm, bn):
    return [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: bm, N: bn}),
        tkw.WorkgroupConstraint(M, bm, 1),
        tkw.WorkgroupConstraint(N, bn, 0),
    ]


@TARGETS
@EITHER_WAY
@pytest.mark.parametrize("rows, stored", [(7, 7), (7, 5), (5, 9), (5, 0)])
def test_read_of_another_extent(target, dynamic, rows, stored):
    """Elements outside the memory read as `other`; elements outside the register are not read."""
    moved = tkw.IndexMapping(num_iterators=2, inputs={P: I, N: J}, outputs={M: I, N: J})

    @tkw.wave(lines(4, 32))
    def kernel(x: tkl.Memory[P, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(x, mapping=moved, other=-1.0), y)

    x, y = rng(1).standard_normal((stored, 37)).astype("f4"), np.zeros((rows, 37), "f4")
    launch(kernel, target, {M: rows, N: 37, P: stored}, (x, y), dynamic)
    want = np.full_like(y, -1)
    want[:stored] = x[:rows]
    assert np.array_equal(y, want)


@TARGETS
@EITHER_WAY
@pytest.mark.parametrize("rows, stored", [(7, 7), (9, 5), (5, 9)])
def test_write_to_another_extent(target, dynamic, rows, stored):
    turned = tkw.IndexMapping(num_iterators=2, inputs={M: I, N: J}, outputs={N: J, P: I})

    @tkw.wave(lines(4, 32))
    def kernel(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[N, P, G, tkl.f32]):
        tkw.write(tkw.read(x) * 2.0, y, mapping=turned)

    x, y = rng(2).standard_normal((rows, 33)).astype("f4"), np.full((33, stored), 7, "f4")
    launch(kernel, target, {M: rows, N: 33, P: stored}, (x, y), dynamic)
    want = np.full_like(y, 7)
    want[:, :rows] = 2 * x[:stored].T
    assert np.array_equal(y, want)


@TARGETS
@EITHER_WAY
def test_diagonal(target, dynamic):
    """One iterator for two dimensions of one memory, one of which is the register's."""
    both = tkw.IndexMapping(num_iterators=1, inputs={M: I, N: I}, outputs={M: I})

    @tkw.wave(lines(8, 16))
    def kernel(x: tkl.Memory[M, N, G, tkl.i32], y: tkl.Memory[M, G, tkl.i32]):
        tkw.write(tkw.read(x, mapping=both), y)

    x = rng(3).integers(1, 99, (21, 13)).astype("i4")
    y = np.full(21, -1, "i4")
    launch(kernel, target, {M: 21, N: 13}, (x, y), dynamic)
    assert np.array_equal(y, np.pad(np.diagonal(x), (0, 8)))


@TARGETS
@EITHER_WAY
def test_atomics(target, dynamic):
    """The columns of rows of every length are counted."""
    column = tkw.IndexMapping(num_iterators=2, inputs={P: J}, outputs={M: I, N: J})

    @tkw.wave(lines(4, 32))
    def kernel(x: tkl.Memory[M, N, G, tkl.i32], y: tkl.Memory[P, G, tkl.i32]):
        tkw.atomic_add(tkw.read(x), y, mapping=column)

    x, y = rng(4).integers(-9, 9, (11, 45)).astype("i4"), np.ones(40, "i4")
    launch(kernel, target, {M: 11, N: 45, P: 40}, (x, y), dynamic)
    assert np.array_equal(y, 1 + x.sum(0)[:40])


@TARGETS
@EITHER_WAY
@pytest.mark.parametrize("space", [G, S], ids=["direct", "staged"])
def test_gram_matrix(target, dynamic, space):
    """x times its own transpose: the rows of one tensor are the rows and the columns of the
    result."""
    columns = tkw.IndexMapping(num_iterators=2, inputs={M: I, K: J}, outputs={N: I, K: J})

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, 32, 1),
            tkw.WorkgroupConstraint(N, 16, 0),
            tkw.TilingConstraint(K, 16),
        ]
    )
    def kernel(x: tkl.Memory[M, K, space, tkl.f16], y: tkl.Memory[M, N, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(x), tkw.read(x, mapping=columns), acc)

        tkw.write(loop, y)

    x, y = halfs((37, 29), 5), np.zeros((37, 41), "f4")
    launch(kernel, target, {M: 37, N: 41, K: 29}, (x, y), dynamic)
    want = np.pad(f64(x) @ f64(x).T, ((0, 0), (0, 4)))
    np.testing.assert_allclose(y, want, atol=1e-4)


@TARGETS
@EITHER_WAY
@pytest.mark.parametrize("space", [G, S], ids=["direct", "staged"])
def test_attention_whose_groups_are_one_head(target, dynamic, space):
    """The kernel that writes `HK: i // group` for groups of several heads."""
    of_k = tkw.IndexMapping(num_iterators=3, inputs={HK: I, KV: J, D: L}, outputs={HQ: I, KV: J, D: L})
    of_v = tkw.IndexMapping(num_iterators=3, inputs={HK: I, KV: L, DV: J}, outputs={HQ: I, DV: J, KV: L})
    out = tkw.IndexMapping(num_iterators=3, inputs={HQ: I, DV: J, Q: L}, outputs={HQ: I, Q: L, DV: J})

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, mma_type=tkw.MMAType.F32_16x16x16_F16, vector_shapes={HQ: 0}),
            tkw.WorkgroupConstraint(HQ, 1, 2),
            tkw.WorkgroupConstraint(Q, 16, 0),
            tkw.WorkgroupConstraint(DV, 16, 1),
            tkw.TilingConstraint(KV, 16),
        ]
    )
    def kernel(
        q: tkl.Memory[HQ, Q, D, G, tkl.f16],
        k: tkl.Memory[HK, KV, D, space, tkl.f16],
        v: tkl.Memory[HK, KV, DV, space, tkl.f16],
        y: tkl.Memory[HQ, Q, DV, G, tkl.f32],
    ):
        start = tkl.Register[HQ, Q, tkl.f32](-1e6)
        none = tkl.Register[HQ, Q, tkl.f32](0.0)
        zero = tkl.Register[HQ, DV, Q, tkl.f32](0.0)

        @tkw.iterate(KV, init_args=[start, none, zero])
        def loop(most, total, acc):
            scores = tkw.mma(tkw.read(k, mapping=of_k), tkw.read(q), tkl.Register[HQ, KV, Q, tkl.f32](0.0))
            scores = tkw.permute(scores, target_shape=[HQ, Q, KV])
            now = tkw.max(scores, most, dim=KV)
            scale, e = tkw.exp2(most - now), tkw.exp2(scores - now)
            total = tkw.sum(e, total * scale, dim=KV)
            acc = tkw.mma(tkw.read(v, mapping=of_v), tkw.cast(e, tkl.f16), acc * scale)
            return now, total, acc

        _, total, acc = loop
        tkw.write(acc / total, y, mapping=out)

    heads, queries, keys, d, dv = 3, 21, 27, 16, 16
    q, k, v = halfs((heads, queries, d), 6), halfs((heads, keys, d), 7), halfs((heads, keys, dv), 8)
    y = np.zeros((heads, queries, dv), "f4")
    sizes = {HQ: heads, HK: heads, Q: queries, KV: keys, D: d, DV: dv}
    launch(kernel, target, sizes, (q, k, v, y), dynamic)
    p = np.exp2(f64(q) @ f64(k).transpose(0, 2, 1))
    np.testing.assert_allclose(y, p / p.sum(-1, keepdims=True) @ f64(v), atol=4e-3)


def test_registers_have_one_iterator_for_each_dimension():
    """Neither side of this mapping can be a register's."""
    with pytest.raises(_wave.CompileError, match="E0313"):
        tkw.IndexMapping(num_iterators=1, inputs={M: I, N: I}, outputs={P: I, K: I})
