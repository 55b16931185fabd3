"""Rows with more waves than a workgroup can have, which a cluster of workgroups shares."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from thread_faults import faults, made_arguments, outcome
from wave_lang import WaveCompileOptions, ops, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
# columns, those of a wave, waves; the workgroups that share them
SHARED = [((4096, 64, 64), 4), ((4000, 64, 64), 4), ((1056, 32, 33), 4), ((8160, 64, 128), 8)]


def constraints(each, waves):
    return [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: each}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(N, each * waves, 1),
        tkw.WaveConstraint(N, each),
    ]


def softmax(columns, each, waves, target="sim:sm_90a", rows=None):
    @tkw.wave(constraints(each, waves))
    def softmax(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32]):
        value = tkw.read(x)
        largest = tkw.broadcast(tkw.max(value, dim=N, block=True), [M, N])
        weights = tkw.exp(value - largest)
        tkw.write(weights / tkw.broadcast(tkw.sum(weights, dim=N, block=True), [M, N]), y)

    subs, dynamic = ({N: columns}, [M]) if rows is None else ({N: columns, M: rows}, [])
    options = {"subs": subs, "dynamic_symbols": dynamic, "target": target}
    return wave_compile(WaveCompileOptions(**options), softmax)


def softmax_of(x):
    weights = np.exp(x.astype(float) - x.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def clusters(kernel):
    return [r.message for r in kernel.remarks if getattr(r, "code", "") == "R0625"]


@pytest.mark.parametrize("shape, workgroups", SHARED)
def test_softmax(shape, workgroups):
    x = np.random.default_rng(1).standard_normal((3, shape[0]), np.float32)
    y, kernel = np.zeros_like(x), softmax(*shape)
    kernel(x, y)
    np.testing.assert_allclose(y, softmax_of(x), rtol=1e-5)
    assert len(clusters(kernel)) == 1 and f"{workgroups} workgroups" in clusters(kernel)[0]


@pytest.mark.parametrize("target", ["sim:sm_80", "sim:gfx942", "eval"])
def test_machines_without_clusters(target):
    x = np.random.default_rng(2).standard_normal((2, 4000), np.float32)
    y, kernel = np.zeros_like(x), softmax(4000, 64, 64, target)
    kernel(x, y)
    np.testing.assert_allclose(y, softmax_of(x), rtol=1e-5)
    assert not clusters(kernel)


@pytest.mark.parametrize("schedule", ["round", "reverse", "random:3"])
def test_schedules(schedule):
    x = np.random.default_rng(3).standard_normal((1, 1056), np.float32)
    y, kernel = np.zeros_like(x), softmax(1056, 32, 33)
    kernel.simulate(x, y, schedule=schedule)
    np.testing.assert_allclose(y, softmax_of(x), rtol=1e-5)


def test_each_barrier_is_needed():
    """Without the first one, a workgroup writes to the memory of others that may not have started;
    without another, what it reads may not have been written."""
    text = str(softmax(1056, 32, 33, rows=1).lowered)
    arguments = made_arguments(text)
    found = [outcome(f.text, arguments, arguments, "sm_90a") for f in faults(text) if f.kind == "barrier"]
    assert len(found) == 3 and found[0] == "E0816", found
    assert all("E0803" in codes for codes in found[1:]), found


def test_sums_in_a_loop():
    """Workgroups of a cluster meet in each iteration."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 0, K: 0, N: 32}),
            tkw.WorkgroupConstraint(M, 1, 0),
            tkw.WorkgroupConstraint(N, 40 * 32, 1),
            tkw.WaveConstraint(N, 32),
            tkw.TilingConstraint(K, 1),
        ]
    )
    def sums(x: tkl.Memory[M, K, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(total):
            value = tkw.read(x)
            mean = tkw.sum(value, dim=N, block=True) / tkl.Register[M, K, tkl.f32](N)
            return tkw.sum(value - tkw.broadcast(mean, [M, K, N]), total, dim=K)

        tkw.write(loop, y)

    x = np.random.default_rng(5).standard_normal((2, 5, 1250), np.float32)
    y = np.zeros((2, 1250), np.float32)
    options = {"subs": {N: 1250}, "dynamic_symbols": [M, K], "target": "sim:sm_90a"}
    kernel = wave_compile(WaveCompileOptions(**options), sums)
    kernel(x, y)
    exact = x.astype(float)
    expected = (exact - exact.mean(2, keepdims=True)).sum(1)
    np.testing.assert_allclose(y, expected, atol=1e-5)
    assert clusters(kernel)


@pytest.mark.parametrize("columns", [16400, 65536, 128256])
def test_ops(columns):
    rng = np.random.default_rng(6)
    x, w = (rng.standard_normal(s, np.float32).astype("f2") for s in ((2, columns), columns))
    exact = x.astype(float)
    with ops.on_target("sim:sm_90a"):
        y, scaled = ops.softmax(x), ops.rms_norm(x, w)
        changed = ops.softmax_backward(x, y)
    expected = softmax_of(x)
    np.testing.assert_allclose(y, expected, rtol=2e-3, atol=1e-7)
    rms = np.sqrt((exact * exact).mean(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(scaled, exact / rms * w.astype(float), rtol=2e-3, atol=1e-5)
    share = y.astype(float)
    change = (exact - (exact * share).sum(1, keepdims=True)) * share
    np.testing.assert_allclose(changed, change, rtol=4e-3, atol=1e-6)
