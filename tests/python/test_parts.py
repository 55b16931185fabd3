"""A value that is computed before a loop along one of its dimensions, and used tile by tile inside.

Outside the loop it is a tile of the whole dimension. GPU registers cannot be indexed by a counter:
there it is computed, or read, again inside. Results are compared with NumPy in float64.
"""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G, SHARED_ADDRESS_SPACE

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
SPACE = tkl.sym.SPACE
TARGETS = ["eval", "cpu", "sim:sm_90a", "sim:sm_80", "sim:gfx942"]
if not any(device.kind == "cpu" for device in _wave.devices()):
    TARGETS.remove("cpu")
everywhere = pytest.mark.parametrize("target", TARGETS)
simulated = pytest.mark.parametrize("target", [t for t in TARGETS if t.startswith("sim")])
SIZES = [(5, 40), (16, 33), (3, 7), (1, 1)]


def constraints(*more, waves=1):
    return [
        tkw.HardwareConstraint(threads_per_wave=64),
        tkw.WorkgroupConstraint(M, 16, 0),
        tkw.WaveConstraint(M, 16 // waves),
        tkw.TilingConstraint(K, 8),
        *more,
    ]


def compiled(kernel, target, **subs):
    values = {getattr(tkl.sym, name): value for name, value in subs.items()}
    return wave_compile(WaveCompileOptions(subs=values, target=target), kernel)


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("f4")


def weighted_sum(waves):
    @tkw.wave(constraints(waves=waves))
    def weighted(
        x: tkl.Memory[M, K, G, tkl.f32], w: tkl.Memory[K, SPACE, tkl.f32], y: tkl.Memory[M, G, tkl.f32]
    ):
        weights = tkw.read(w)
        zero = tkl.Register[M, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def total(acc):
            return tkw.sum(tkw.read(x) * weights, acc, dim=K)

        tkw.write(total, y)

    return weighted


@everywhere
@pytest.mark.parametrize("waves", [1, 4])
def test_weights_of_a_sum(target, waves):
    for m, k in SIZES:
        x, w, y = random(m, k), random(k, seed=1), np.zeros(m, "f4")
        options = WaveCompileOptions(subs={M: m, K: k, SPACE: G}, target=target)
        wave_compile(options, weighted_sum(waves))(x, w, y)
        assert np.allclose(y, x.astype("f8") @ w, atol=1e-4)


@everywhere
def test_what_is_computed_from_several_reads(target):
    """Also by ops between, one of which needs the line of the other workgroup dimension."""

    @tkw.wave(constraints(tkw.WorkgroupConstraint(N, 4, 1)))
    def outer(
        a: tkl.Memory[M, K, G, tkl.f32],
        b: tkl.Memory[N, K, G, tkl.f32],
        y: tkl.Memory[M, N, G, tkl.f32],
    ):
        left = tkw.exp(tkw.read(a)) + 1.0
        right = tkw.broadcast(tkw.abs(tkw.read(b)), [M, N, K])
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def total(acc):
            return tkw.sum(tkw.broadcast(left, [M, N, K]) * right, acc, dim=K)

        tkw.write(total, y)

    for m, k in SIZES:
        a, b, y = random(m, k), random(6, k, seed=1), np.zeros((m, 6), "f4")
        compiled(outer, target, M=m, K=k, N=6)(a, b, y)
        assert np.allclose(y, (np.exp(a.astype("f8")) + 1) @ np.abs(b.astype("f8")).T, rtol=1e-4)


@everywhere
def test_mapped_and_shifted(target):
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    shifted = tkw.IndexMapping(2, inputs={M: i, K: j + 3}, outputs={M: i, K: j})

    @tkw.wave(constraints())
    def differences(x: tkl.Memory[M, K, G, tkl.f32], y: tkl.Memory[M, K, G, tkl.f32]):
        later = tkw.read(x, mapping=shifted, other=2.0)

        @tkw.iterate(K, init_args=[])
        def _():
            tkw.write(later - tkw.read(x), y)

    for m, k in SIZES:
        x, y = random(m, k), np.zeros((m, k), "f4")
        compiled(differences, target, M=m, K=k)(x, y)
        padded = np.concatenate([x[:, 3:], np.full((m, min(3, k)), 2, "f4")], 1)
        assert np.allclose(y, padded - x)


@everywhere
def test_a_table_of_rows(target):
    """The rows to be read are known before the loop over them."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    d = tkw.IndexMapping.dynamic_val(0)
    gather = tkw.IndexMapping(
        2, inputs={N: d, M: j}, outputs={K: i, M: j}, dynamic_val_mappings={K: i}
    )

    @tkw.wave(constraints())
    def picked(
        x: tkl.Memory[N, M, G, tkl.f32], t: tkl.Memory[K, G, tkl.i32], y: tkl.Memory[M, G, tkl.f32]
    ):
        rows = tkw.read(t)
        zero = tkl.Register[M, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def total(acc):
            return tkw.sum(tkw.read(x, mapping=gather, mapping_dynamic_vals=(rows,)), acc, dim=K)

        tkw.write(total, y)

    for m, k in SIZES:
        x, y = random(11, m), np.zeros(m, "f4")
        t = np.random.default_rng(2).integers(0, 11, k).astype("i4")
        compiled(picked, target, M=m, K=k, N=11)(x, t, y)
        assert np.allclose(y, x.astype("f8")[t].sum(0), atol=1e-4)


@everywhere
def test_used_whole_and_in_parts(target):
    @tkw.wave(constraints())
    def centred(x: tkl.Memory[M, K, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
        row = tkw.read(x)
        largest = tkw.max(row, dim=K)
        zero = tkl.Register[M, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def total(acc):
            return tkw.sum(tkw.exp(row - tkw.broadcast(largest, [M, K])), acc, dim=K)

        tkw.write(total, y)

    for m, k in SIZES:
        x, y = random(m, k), np.zeros(m, "f4")
        compiled(centred, target, M=m, K=k)(x, y)
        e = np.exp(x.astype("f8") - x.max(1, keepdims=True))
        assert np.allclose(y, e.sum(1), rtol=1e-5)


def refused(kernel, target, **subs):
    with pytest.raises(CompileError) as e:
        compiled(kernel, target, **subs)
    (found,) = [d for d in e.value.diagnostics if d.code == "E0610"]
    assert "a tile of `K` per iteration" in found.message
    return found


@simulated
def test_staged_values(target):
    """Shared memory holds the tile of the place where it was filled."""
    found = refused(weighted_sum(1), target, M=5, K=40, SPACE=SHARED_ADDRESS_SPACE)
    assert "without staging it through shared memory" in found.hint


@simulated
def test_what_changes_is_not_read_again(target):
    """The evaluator keeps the old values; a GPU would have to keep them in registers."""

    @tkw.wave(constraints())
    def shifts(x: tkl.Memory[M, K, G, tkl.f32]):
        old = tkw.read(x)

        @tkw.iterate(K, init_args=[])
        def _():
            tkw.write(tkw.read(x) + old, x)

    found = refused(shifts, target, M=5, K=40)
    assert any("what was read is changed here" in note.message for note in found.notes)


@pytest.mark.parametrize("target", [t for t in TARGETS if not t.startswith("sim")])
def test_what_changes_is_kept(target):
    @tkw.wave(constraints())
    def shifts(x: tkl.Memory[M, K, G, tkl.f32]):
        old = tkw.read(x)
        tkw.write(old * 2.0, x)

        @tkw.iterate(K, init_args=[])
        def _():
            tkw.write(tkw.read(x) + old, x)

    x = random(5, 40)
    y = x.copy()
    compiled(shifts, target, M=5, K=40)(y)
    assert np.allclose(y, 3 * x, rtol=1e-6)
