"""atomic_compare_exchange on every target: elements with the expected value are replaced, once
each, and the old values show which."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N, B = tkl.sym.M, tkl.sym.N, tkl.sym.B
G, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
NUMPY = {"i32": "i4", "i64": "i8", "u32": "u4", "u64": "u8", "f32": "f4", "f64": "f8", "f16": "f2"}
NUMPY |= {"i8": "i1", "u16": "u2", "i16": "i2", "u8": "u1"}
TARGETS = ("eval", "cpu", "sim:cpu", "sim:gfx942", "sim:sm_90a", "sim:sm_80")
everywhere = pytest.mark.parametrize("target", TARGETS)


def tiles(m, n, waves=1, threads=32):
    return [
        tkw.HardwareConstraint(threads_per_wave=threads, vector_shapes={M: m, N: n // waves}),
        tkw.WorkgroupConstraint(M, m, 1),
        tkw.WorkgroupConstraint(N, n, 0),
        tkw.WaveConstraint(N, n // waves),
    ]


def run(kernel, target, *arguments, dynamic=(M, N), **subs):
    options = WaveCompileOptions(dynamic_symbols=list(dynamic), target=target, **subs)
    wave_compile(options, kernel)(*arguments)


@everywhere
@pytest.mark.parametrize("dtype", NUMPY)
def test_each_element(target, dtype):
    T = getattr(tkl, dtype)

    @tkw.wave(tiles(1, 40))
    def kernel(
        new: tkl.Memory[M, N, G, T],
        expected: tkl.Memory[M, N, G, T],
        c: tkl.Memory[M, N, G, T],
        old: tkl.Memory[M, N, G, T],
    ):
        tkw.write(tkw.atomic_compare_exchange(tkw.read(new), c, tkw.read(expected)), old)

    rng = np.random.default_rng(7)
    new, expected, c = (rng.integers(0, 3, (3, 71)).astype(NUMPY[dtype]) for _ in range(3))
    if dtype[0] != "f":
        info = np.iinfo(NUMPY[dtype])
        new[new == 2], expected[expected == 2], c[c == 2] = info.min, info.max, info.max
    before, old = c.copy(), np.zeros_like(c)
    run(kernel, target, new, expected, c, old)
    assert np.array_equal(old, before)
    assert np.array_equal(c, np.where(before == expected, new, before))
    assert (before == expected).any() and (before != expected).any()


@everywhere
def test_bits_are_compared(target):
    @tkw.wave(tiles(1, 40))
    def kernel(c: tkl.Memory[M, N, G, tkl.f32]):
        tkw.atomic_compare_exchange(tkl.Register[M, N, tkl.f32](7.0), c, 0.0)

    c = np.array([[0.0, -0.0, 1.0, 0.0]], "f4")
    run(kernel, target, c)
    assert c.tolist() == [[7.0, -0.0, 1.0, 7.0]] and np.signbit(c[0, 1])


@everywhere
@pytest.mark.parametrize("waves", [1, 4])
def test_one_of_many_wins(target, waves):
    """A free slot is taken once: one row of each column gets it, and its old value says so."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    column = tkw.IndexMapping(num_iterators=2, inputs={N: j}, outputs={M: i, N: j})

    @tkw.wave(tiles(2, 128, waves))
    def kernel(
        name: tkl.Memory[M, N, G, tkl.i32],
        owner: tkl.Memory[N, G, tkl.i32],
        won: tkl.Memory[M, N, G, tkl.i32],
    ):
        mine = tkw.read(name)
        old = tkw.atomic_compare_exchange(mine, owner, -1, mapping=column)
        none = tkl.Register[M, N, tkl.i32](-1)
        tkw.write(tkw.cast(old == none, tkl.i32), won)

    name = np.arange(7 * 131, dtype="i4").reshape(7, 131)
    owner, won = np.full(131, -1, "i4"), np.zeros_like(name)
    run(kernel, target, name, owner, won)
    assert np.array_equal(won.sum(0), np.ones(131))
    assert np.array_equal(owner, (name * won).sum(0))


@everywhere
def test_places_read_from_memory(target):
    """A hash table with open addressing: keys go to the slot given by their hash, if it is free."""
    i = tkw.IndexMapping.iterator(0)
    slot = tkw.IndexMapping(
        num_iterators=1,
        inputs={B: tkw.IndexMapping.dynamic_val(0)},
        outputs={N: i},
        dynamic_val_mappings={N: i},
    )
    rows = [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={N: 64}),
        tkw.WorkgroupConstraint(N, 64, 0),
    ]

    @tkw.wave(rows)
    def kernel(
        keys: tkl.Memory[N, G, tkl.u64],
        hashes: tkl.Memory[N, G, tkl.i32],
        table: tkl.Memory[B, G, tkl.u64],
        found: tkl.Memory[N, G, tkl.u64],
    ):
        key = tkw.read(keys)
        old = tkw.atomic_compare_exchange(
            key, table, 0, mapping=slot, mapping_dynamic_vals=(tkw.read(hashes),)
        )
        tkw.write(old, found)

    keys = np.arange(1, 98, dtype="u8") << np.uint64(40)
    hashes = (np.arange(97) * 31 % 53).astype("i4")
    hashes[[3, 50]] = -1, 53  # outside: nothing is stored, and the old value is 0
    table, found = np.zeros(53, "u8"), np.full(97, 5, "u8")
    run(kernel, target, keys, hashes, table, found, dynamic=(N, B))
    inside = (hashes >= 0) & (hashes < 53)
    assert not found[~inside].any()
    for at in range(53):
        here = inside & (hashes == at)
        if not here.any():
            assert table[at] == 0
            continue
        assert (found[here] == 0).sum() == 1 and table[at] == keys[here & (found == 0)][0]
        assert set(found[here]) <= {0, table[at]}


@everywhere
@pytest.mark.parametrize("waves", [1, 4])
def test_what_all_threads_hold(target, waves):
    """For the sum of a row one thread performs the exchange, and all get the old value, across
    several waves too."""

    @tkw.wave(tiles(1, 256, waves, threads=64))
    def kernel(
        a: tkl.Memory[M, N, G, tkl.i32],
        c: tkl.Memory[M, G, tkl.i32],
        b: tkl.Memory[M, N, G, tkl.i32],
    ):
        x = tkw.read(a)
        total = tkw.sum(x, dim=N, block=True)
        old = tkw.atomic_compare_exchange(total, c, 3)
        tkw.write(x + tkw.broadcast(old, [M, N]), b)

    a = np.random.default_rng(1).integers(-9, 9, (5, 200)).astype("i4")
    c, b = np.array([3, 4, 3, 0, 3], "i4"), np.zeros_like(a)
    before = c.copy()
    run(kernel, target, a, c, b)
    assert np.array_equal(c, np.where(before == 3, a.sum(1), before))
    assert np.array_equal(b, a + before[:, None])


@everywhere
def test_shared_memory(target):
    @tkw.wave(tiles(1, 64, threads=64))
    def kernel(a: tkl.Memory[M, N, G, tkl.i32], b: tkl.Memory[M, N, G, tkl.i32]):
        scratch = tkw.allocate((M, N), (1, 64), tkl.i32, SHARED)
        x = tkw.read(a)
        tkw.write(x, scratch)
        tkw.atomic_compare_exchange(x * 10, scratch, 2)
        tkw.write(tkw.read(scratch), b)

    a = (np.arange(3 * 100, dtype="i4") % 5).reshape(3, 100)
    b = np.zeros_like(a)
    run(kernel, target, a, b)
    assert np.array_equal(b, np.where(a == 2, 20, a))


def test_mistakes():
    def refused(code, expected):
        @tkw.wave(tiles(1, 40))
        def kernel(a: tkl.Memory[M, N, G, tkl.i32], c: tkl.Memory[M, N, G, tkl.i32]):
            tkw.atomic_compare_exchange(tkw.read(a), c, expected(tkw.read(a)))

        with pytest.raises((CompileError, TypeError), match=code):
            wave_compile(WaveCompileOptions(dynamic_symbols=[M, N], target="eval"), kernel)

    refused("E0302", lambda x: tkw.cast(x, tkl.i64))
    refused("E0302", lambda x: tkw.self_index(N, tkl.i32))
    refused("traced value", lambda x: "no")
