"""Rows much shorter than their tile: on a CPU, loops end with the row and not with the tile.

Elements beyond the end are never stored, so these tests use a value twice in every possible way.
Results are compared with NumPy in float64.
"""

import time

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
TARGETS = ["eval", "cpu", "sim:cpu", "sim:sm_80"]
if not any(device.kind == "cpu" for device in _wave.devices()):
    TARGETS.remove("cpu")
everywhere = pytest.mark.parametrize("target", TARGETS)
TILE = 96  # three vectors of 32 bytes or less, or one and a remainder
SIZES = ((3, 1), (2, 15), (3, 17), (2, 33), (1, 95), (5, 96), (2, 0))


def constraints(rows=1, tile=TILE):
    return [
        tkw.HardwareConstraint(threads_per_wave=64),
        tkw.WorkgroupConstraint(M, rows, 0),
        tkw.WorkgroupConstraint(N, tile, 1),
    ]


def compiled(kernel, target):
    return wave_compile(WaveCompileOptions(dynamic_symbols=[M, N], target=target), kernel)


def check(make, target, expected, t=tkl.f32, scalar=False, bound=1e-5, rows=1, tile=TILE):
    kernel = compiled(make(t, constraints(rows, tile)), target)
    dtype = {"f32": "f4", "f16": "f2", "i32": "i4"}[str(t)]
    for m, n in SIZES:
        if n > tile:
            continue
        r = np.random.default_rng(m * n)
        x = r.standard_normal((m, n)) - 2 if dtype != "i4" else r.integers(-9, 9, (m, n))
        x = x.astype(dtype)
        y = np.zeros((m, 1) if scalar else (m, n), dtype)
        kernel(x, y.reshape(m) if scalar else y)
        if n:
            want = expected(x.astype("f8"))
            assert np.allclose(y, want, rtol=bound, atol=bound), (m, n)


def result(scalar):
    return (lambda t: tkl.Memory[M, G, t]) if scalar else (lambda t: tkl.Memory[M, N, G, t])


SUM, ROW = result(True), result(False)


def of_row(body):
    def make(t, given):
        @tkw.wave(given)
        def reduces(x: tkl.Memory[M, N, G, t], y: SUM(t)):
            tkw.write(body(tkw.read(x), t), y)

        return reduces

    return make


def on_row(body):
    def make(t, given):
        @tkw.wave(given)
        def maps(x: tkl.Memory[M, N, G, t], y: ROW(t)):
            tkw.write(body(tkw.read(x), t), y)

        return maps

    return make


def total(x, **more):
    return tkw.sum(x, dim=N, block=True, **more)


def largest(x):
    return tkw.max(x, dim=N, block=True)


# ---- reductions

REDUCTIONS = {
    "sum": (lambda v, t: total(v), lambda x: x.sum(1, keepdims=True)),
    "squares": (lambda v, t: total(v * v), lambda x: (x * x).sum(1, keepdims=True)),
    "difference": (lambda v, t: total(v - v * v), lambda x: (x - x * x).sum(1, keepdims=True)),
    "shifted": (lambda v, t: total(v + 1), lambda x: (x + 1).sum(1, keepdims=True)),
    "largest": (lambda v, t: largest(v), lambda x: x.max(1, keepdims=True)),
    "twice": (lambda v, t: largest(v) + total(v), lambda x: x.max(1, keepdims=True) + x.sum(1, keepdims=True)),
    "scanned": (
        lambda v, t: total(tkw.cumsum(v, dim=N, block=True)),
        lambda x: np.cumsum(x, 1).sum(1, keepdims=True),
    ),
    "folded": (
        lambda v, t: tkw.reduce(v, lambda a, b: a + b, 0 if t == tkl.i32 else 0.0, dim=N, block=True),
        lambda x: x.sum(1, keepdims=True),
    ),
}


@everywhere
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("rows, tile", [(1, TILE), (4, TILE), (2, 100), (1, 128)])
def test_reductions(target, name, rows, tile):
    body, expected = REDUCTIONS[name]
    check(of_row(body), target, expected, scalar=True, rows=rows, tile=tile)
    check(of_row(body), target, expected, tkl.i32, scalar=True, rows=rows, tile=tile)


@everywhere
@pytest.mark.parametrize("outside", [0, 1])
def test_nothing_of_the_row_is_read(target, outside):
    """The sizes are known, and with them that no element of the row is in the memory."""

    @tkw.wave(constraints(tile=3))
    def nothing(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
        i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
        far = tkw.IndexMapping(2, inputs={M: i, N: j + 2 * outside}, outputs={M: i, N: j})
        tkw.write(total(-tkw.read(x, mapping=far)), y)

    y = np.full(2, 7, "f4")
    subs = {M: 2, N: outside}
    wave_compile(WaveCompileOptions(subs=subs, target=target), nothing)(np.ones((2, outside), "f4"), y)
    assert (y == 0).all() or not outside


# ---- values that are used again


def exponentials(v, t):
    e = tkw.exp(v - largest(v))
    return e / total(e)


def expected_exponentials(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def centred(v, t):
    """The buffered value is reduced once when it is stored, and again from its buffer."""
    e = tkw.tanh(v)
    s = total(e)
    d = e - s
    return d * tkw.rsqrt(total(d * d) + 1.0)


def expected_centred(x):
    e = np.tanh(x)
    d = e - e.sum(1, keepdims=True)
    return d / np.sqrt((d * d).sum(1, keepdims=True) + 1)


def maximum_of_kept(v, t):
    """Its padding is neutral for the sum that stores it, not for the maximum that reads it."""
    e = tkw.exp(v) - 8.0
    return e * total(e) - largest(e)


def expected_maximum_of_kept(x):
    e = np.exp(x) - 8
    return e * e.sum(1, keepdims=True) - e.max(1, keepdims=True)


def scan_of_kept(v, t):
    e = tkw.exp(v)
    return tkw.cumsum(e, dim=N, block=True) / total(e)


def expected_scan_of_kept(x):
    e = np.exp(x)
    return np.cumsum(e, 1) / e.sum(1, keepdims=True)


USED_AGAIN = {
    "softmax": (exponentials, expected_exponentials),
    "centred": (centred, expected_centred),
    "maximum": (maximum_of_kept, expected_maximum_of_kept),
    "scan": (scan_of_kept, expected_scan_of_kept),
    "scan_scaled": (
        lambda v, t: tkw.cumsum(v * v, dim=N, block=True) * 0.5,
        lambda x: np.cumsum(x * x, 1) * 0.5,
    ),
}


@everywhere
@pytest.mark.parametrize("name", USED_AGAIN)
@pytest.mark.parametrize("rows, tile", [(1, TILE), (4, 100), (2, 128)])
def test_values_that_are_used_again(target, name, rows, tile):
    body, expected = USED_AGAIN[name]
    check(on_row(body), target, expected, bound=1e-4, rows=rows, tile=tile)


@everywhere
def test_half_precision(target):
    check(on_row(exponentials), target, expected_exponentials, tkl.f16, bound=2e-3)


@everywhere
def test_two_writes_that_end_elsewhere(target):
    """One memory has the whole row, the other fewer elements."""

    @tkw.wave(constraints())
    def twice(
        x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32], z: tkl.Memory[M, K, G, tkl.f32]
    ):
        e = tkw.exp(tkw.read(x))
        e = e / total(e)
        tkw.write(e, y)
        i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
        tkw.write(e, z, mapping=tkw.IndexMapping(2, inputs={M: i, N: j}, outputs={M: i, K: j}))

    kernel = wave_compile(WaveCompileOptions(dynamic_symbols=[M, N, K], target=target), twice)
    for n, k in ((40, 17), (17, 40)):
        x = np.random.default_rng(n).standard_normal((3, n)).astype("f4")
        y, z = np.zeros((3, n), "f4"), np.zeros((3, k), "f4")
        kernel(x, y, z)
        e = np.exp(x.astype("f8"))
        e /= e.sum(1, keepdims=True)
        assert np.allclose(y, e, atol=1e-6)
        assert np.allclose(z[:, : min(n, k)], e[:, : min(n, k)], atol=1e-6)


@everywhere
def test_best_of_short_rows(target):
    @tkw.wave(constraints())
    def best(x: tkl.Memory[M, N, G, tkl.f32], v: tkl.Memory[M, K, G, tkl.f32]):
        values, _ = tkw.topk(tkw.read(x), K, N)
        tkw.write(values, v)

    options = WaveCompileOptions(subs={K: 3}, dynamic_symbols=[M, N], target=target)
    kernel = wave_compile(options, best)
    for n in (3, 17, 95):
        x = np.random.default_rng(n).standard_normal((2, n)).astype("f4")
        v = np.zeros((2, 3), "f4")
        kernel(x, v)
        assert (v == -np.sort(-x, 1)[:, :3]).all()


# ---- time


@pytest.mark.skipif("cpu" not in TARGETS, reason="there is no libLLVM")
@pytest.mark.parametrize("name", ["softmax", "centred", "scan"])
def test_time_follows_the_row(name):
    """The same number of elements in short rows takes about as long; it used to take 40 to 80 times
    as long."""
    kernel = compiled(on_row(USED_AGAIN[name][0])(tkl.f32, constraints(tile=4096)), "cpu")

    def seconds(m, n):
        x = np.full((m, n), 0.5, "f4")
        y, best = np.zeros_like(x), np.inf
        for _ in range(4):
            start = time.process_time()
            kernel(x, y)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(2048, 128) < 6 * seconds(64, 4096) + 0.002
