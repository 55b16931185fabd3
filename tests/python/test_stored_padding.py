"""Elements that do not exist are not stored: the sizes at the point where a tile was made decide
which elements exist, whatever `set_symbol` changes later."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import DeviceAssertError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N, K, AT = (getattr(tkl.sym, s) for s in ("M", "N", "K", "AT"))
G = GLOBAL_ADDRESS_SPACE
TARGETS = pytest.mark.parametrize("target", ["eval", "cpu", "sim:cpu", "sim:sm_80", "sim:sm_90a", "sim:gfx942"])
LENGTHS = pytest.mark.parametrize("made, stored", [(3, 10), (10, 3), (0, 16), (16, 0), (7, 7), (15, 16)])
EITHER_WAY = pytest.mark.parametrize("dynamic", [False, True], ids=["bound", "dynamic"])


def rows(bn=16):
    return [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: bn}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(N, bn, 1),
    ]


def launch(kernel, target, sizes, dynamic, *args):
    subs, free = ({}, list(sizes)) if dynamic else (sizes, [])
    wave_compile(WaveCompileOptions(subs=subs, dynamic_symbols=free, target=target), kernel)(*args)


@TARGETS
@LENGTHS
@EITHER_WAY
def test_written(target, made, stored, dynamic):
    @tkw.wave(rows())
    def kernel(n: tkl.i32, later: tkl.i32, c: tkl.Memory[M, N, G, tkl.f32]):
        tkw.set_symbol(N, n)
        x = tkl.Register[M, N, tkl.f32](5.0)
        tkw.set_symbol(N, later)
        tkw.write(x, c)

    c = np.zeros((3, 16), "f4")
    launch(kernel, target, {M: 3, N: 16}, dynamic, made, stored, c)
    assert np.array_equal(c, np.broadcast_to(5.0 * (np.arange(16) < min(made, stored)), c.shape))


@TARGETS
@LENGTHS
@EITHER_WAY
def test_added(target, made, stored, dynamic):
    @tkw.wave(rows())
    def kernel(n: tkl.i32, later: tkl.i32, c: tkl.Memory[M, N, G, tkl.i32]):
        tkw.set_symbol(N, n)
        x = tkw.self_index(N, tkl.i32)
        tkw.set_symbol(N, later)
        tkw.atomic_add(x, c)

    c = np.ones((3, 16), "i4")
    launch(kernel, target, {M: 3, N: 16}, dynamic, made, stored, c)
    assert np.array_equal(c, 1 + np.broadcast_to(np.arange(16) * (np.arange(16) < min(made, stored)), c.shape))


@TARGETS
@EITHER_WAY
@pytest.mark.parametrize("length", [0, 5, 11, 16, 20])
def test_rows_of_the_entry_size_go_elsewhere(target, dynamic, length):
    """A tile that was read has the size of the tensor; a larger size, set later, does not add
    elements to store."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    packed = tkw.IndexMapping(num_iterators=2, inputs={M: i, N: j}, outputs={K: 20 * i + j})

    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], later: tkl.i32, c: tkl.Memory[K, G, tkl.f32]):
        x = tkw.read(a) + 1.0
        tkw.set_symbol(N, later)
        tkw.write(x, c, mapping=packed)

    a, c = np.arange(33, dtype="f4").reshape(3, 11), np.full(60, -1, "f4")
    launch(kernel, target, {M: 3, N: 11, K: 60}, dynamic, a, length, c)
    want = np.full((3, 20), -1, "f4")
    want[:, : min(11, length)] = 1 + a[:, :length]
    assert np.array_equal(c.reshape(3, 20), want)


@TARGETS
@EITHER_WAY
def test_lengths_from_memory(target, dynamic):
    """A row is made with its own length and stored after the length was set to its neighbour's."""

    @tkw.wave(rows())
    def kernel(
        length: tkl.Memory[M, G, tkl.i32], other: tkl.Memory[M, G, tkl.i32], c: tkl.Memory[M, N, G, tkl.i32]
    ):
        tkw.set_symbol(N, tkw.read(length))
        x = tkw.self_index(N, tkl.i32) * 3
        tkw.set_symbol(N, tkw.read(other))
        tkw.write(x, c)

    length, other = np.array([0, 4, 21, 40, 9], "i4"), np.array([7, 9, 20, 33, 0], "i4")
    c = np.full((5, 21), -1, "i4")
    launch(kernel, target, {M: 5, N: 21}, dynamic, length, other, c)
    n = np.minimum(length, other)[:, None]
    assert np.array_equal(c, np.where(np.arange(21) < n, 3 * np.arange(21), -1))


@TARGETS
def test_constants_made_before_any_size(target):
    """Only `set_symbol` defines the length of a row: the constant has that length."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: 16}),
            tkw.WorkgroupConstraint(M, 1, 0),
            tkw.TilingConstraint(N, 16),
        ]
    )
    def kernel(length: tkl.Memory[M, G, tkl.i32], c: tkl.Memory[M, K, G, tkl.i32]):
        i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
        there = tkw.IndexMapping(num_iterators=2, inputs={M: i, N: j}, outputs={M: i, K: j})
        seven = tkl.Register[M, N, tkl.i32](7)
        tkw.set_symbol(N, tkw.read(length))

        @tkw.iterate(N, init_args=[])
        def loop():
            tkw.write(seven, c, mapping=there)

    length, c = np.array([0, 4, 21, 40], "i4"), np.zeros((4, 30), "i4")
    launch(kernel, target, {M: 4, K: 30}, False, length, c)
    assert np.array_equal(c, 7 * (np.arange(30) < length[:, None]))


@TARGETS
@pytest.mark.parametrize("made, stored", [(1, 3), (3, 1), (0, 4), (4, 4)])
def test_a_size_by_way_of_another(target, made, stored):
    """N is 4*L, and L is set."""
    L = tkl.sym.L

    @tkw.wave(rows())
    def kernel(l: tkl.Memory[L, G, tkl.i32], n: tkl.i32, later: tkl.i32, c: tkl.Memory[M, N, G, tkl.i32]):
        tkw.set_symbol(L, n)
        x = tkw.self_index(N, tkl.i32) + 1
        tkw.set_symbol(L, later)
        tkw.write(x, c)

    c = np.zeros((2, 16), "i4")
    options = WaveCompileOptions(subs={M: 2, N: 4 * L}, dynamic_symbols=[L], target=target)
    wave_compile(options, kernel)(np.zeros(4, "i4"), made, stored, c)
    at = np.arange(16)
    assert np.array_equal(c, np.broadcast_to((at + 1) * (at < 4 * min(made, stored)), c.shape))


@TARGETS
@EITHER_WAY
@pytest.mark.parametrize("made, stored", [(None, 3), (None, 40), (5, 9), (9, 5), (0, 9)])
def test_products(target, dynamic, made, stored):
    """The part of a matmul that is needed is not known before its size is set."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, 16, 0),
            tkw.WorkgroupConstraint(N, 16, 1),
            tkw.TilingConstraint(K, 16),
        ]
    )
    def kernel(
        a: tkl.Memory[M, K, G, tkl.f16],
        b: tkl.Memory[N, K, G, tkl.f16],
        n: tkl.i32,
        later: tkl.i32,
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        if made is not None:
            tkw.set_symbol(M, n)
            product = product * 2.0
        tkw.set_symbol(M, later)
        tkw.write(product, c)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype("f2") for shape in ((11, 19), (18, 19)))
    c = np.zeros((11, 18), "f4")
    launch(kernel, target, {M: 11, N: 18, K: 19}, dynamic, a, b, made or 0, stored, c)
    want = (1 if made is None else 2) * a.astype("f4") @ b.astype("f4").T
    want[min(stored, 11 if made is None else made) :] = 0
    assert np.array_equal(c, want)


@TARGETS
@EITHER_WAY
def test_handed_to_a_loop(target, dynamic):
    """The arguments of a region are recomputed there, with the sizes at its beginning."""

    @tkw.wave([*rows(), tkw.TilingConstraint(K, 1)])
    def kernel(
        n: tkl.i32,
        length: tkl.Memory[K, G, tkl.i32],
        c: tkl.Memory[M, N, G, tkl.i32],
    ):
        x = tkw.self_index(N, tkl.i32) + 1
        tkw.set_symbol(N, n)

        @tkw.iterate(K, init_args=[x])
        def loop(carried):
            tkw.set_symbol(N, tkw.read(length))
            tkw.atomic_add(carried, c)
            return carried + 1

    lengths, c = np.array([9, 3, 16, 0, 12], "i4"), np.zeros((2, 16), "i4")
    launch(kernel, target, {M: 2, N: 16, K: 5}, dynamic, 11, lengths, c)
    at = np.arange(16)
    want = sum((at + 1 + k) * (at < min(11, n)) for k, n in enumerate(lengths))
    assert np.array_equal(c, np.broadcast_to(want, c.shape))


@TARGETS
@pytest.mark.parametrize("made, stored", [(3, 10), (10, 3)])
def test_logged(target, made, stored):
    @tkw.wave(rows())
    def kernel(n: tkl.i32, later: tkl.i32, c: tkl.Memory[M, N, G, tkl.i32]):
        tkw.set_symbol(N, n)
        x = tkw.self_index(N, tkl.i32) + 1
        tkw.set_symbol(N, later)
        tkw.debug_log(x, label="x", printer=lambda *_: None)
        tkw.write(tkw.self_index(N, tkl.i32), c)

    c, logs = np.zeros((1, 16), "i4"), {}
    made_kernel = wave_compile(WaveCompileOptions(subs={M: 1, N: 16}, target=target), kernel)
    made_kernel(made, stored, c, debug_logs=logs)
    at = np.arange(16)
    assert np.array_equal(np.asarray(logs["x"]["value"]).reshape(-1), (at + 1) * (at < min(made, stored)))


@TARGETS
@pytest.mark.parametrize("made, stored, fails", [(3, 10, False), (10, 3, False), (10, 9, True)])
def test_asserted(target, made, stored, fails):
    """Assertions do not apply to elements that do not exist."""

    @tkw.wave(rows())
    def kernel(n: tkl.i32, later: tkl.i32, c: tkl.Memory[M, N, G, tkl.i32]):
        tkw.set_symbol(N, n)
        few = tkw.self_index(N, tkl.i32) < 8
        tkw.set_symbol(N, later)
        tkw.device_assert(few, "few")
        tkw.write(tkw.self_index(N, tkl.i32), c)

    c = np.zeros((1, 16), "i4")
    run = wave_compile(WaveCompileOptions(subs={M: 1, N: 16}, target=target), kernel)
    if not fails:
        run(made, stored, c)
        return
    with pytest.raises(DeviceAssertError, match="few"):
        run(made, stored, c)
