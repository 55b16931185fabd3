"""Atomics other than atomic_add and atomic_min, on every target: performed once per element; they
return the old values."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N = tkl.sym.M, tkl.sym.N
G = GLOBAL_ADDRESS_SPACE
NUMPY = {"i32": "i4", "i64": "i8", "u32": "u4", "u64": "u8", "f32": "f4", "f64": "f8", "f16": "f2"}
NUMPY |= {"i8": "i1", "u16": "u2"}
TARGETS = ("eval", "cpu", "sim:cpu", "sim:gfx942", "sim:sm_90a", "sim:sm_80")
EXACT = {
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exchange": lambda old, new: new,
}


def tiles(m, n):
    hardware = tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: m, N: n})
    return [hardware, tkw.WorkgroupConstraint(M, m, 1), tkw.WorkgroupConstraint(N, n, 0)]


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("word", EXACT)
@pytest.mark.parametrize("target", TARGETS)
def test_each_element_once(target, word, dtype):
    if dtype[0] == "f" and word in ("and", "or", "xor"):
        pytest.skip("bits of floats")
    T, atomic = getattr(tkl, dtype), getattr(tkw, f"atomic_{word}")

    @tkw.wave(tiles(1, 40))
    def kernel(
        a: tkl.Memory[M, N, G, T], c: tkl.Memory[M, N, G, T], old: tkl.Memory[M, N, G, T]
    ):
        tkw.write(atomic(tkw.read(a), c), old)

    rng = np.random.default_rng(5)
    info = None if dtype[0] == "f" else np.iinfo(NUMPY[dtype])
    draw = lambda: (
        rng.integers(info.min, info.max, (3, 71), NUMPY[dtype], True)
        if info
        else rng.standard_normal((3, 71)).astype(NUMPY[dtype])
    )
    a, c = draw(), draw()
    before, old = c.copy(), np.zeros_like(a)
    options = WaveCompileOptions(dynamic_symbols=[M, N], target=target)
    wave_compile(options, kernel)(a, c, old)
    assert np.array_equal(old, before)
    assert np.array_equal(c, EXACT[word](before, a))


@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_meet(target):
    """All rows combined into one: by maximum, bitwise or, and exclusive or."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    one_row = tkw.IndexMapping(num_iterators=2, inputs={N: j}, outputs={M: i, N: j})

    @tkw.wave(tiles(2, 24))
    def kernel(
        a: tkl.Memory[M, N, G, tkl.u32],
        most: tkl.Memory[N, G, tkl.u32],
        any_: tkl.Memory[N, G, tkl.u32],
        odd: tkl.Memory[N, G, tkl.u32],
    ):
        x = tkw.read(a)
        tkw.atomic_max(x, most, mapping=one_row)
        tkw.atomic_or(x, any_, mapping=one_row)
        tkw.atomic_xor(x, odd, mapping=one_row)

    a = np.random.default_rng(6).integers(0, 2**32, (7, 50), "u4")
    most, any_, odd = (np.zeros(50, "u4") for _ in range(3))
    wave_compile(WaveCompileOptions(dynamic_symbols=[M, N], target=target), kernel)(a, most, any_, odd)
    assert np.array_equal(most, a.max(0))
    assert np.array_equal(any_, np.bitwise_or.reduce(a, 0))
    assert np.array_equal(odd, np.bitwise_xor.reduce(a, 0))


@pytest.mark.parametrize("dtype", ["f32", "i1"])
def test_types_that_an_atomic_does_not_take(dtype):
    T = getattr(tkl, dtype)

    @tkw.wave(tiles(1, 40))
    def kernel(a: tkl.Memory[M, N, G, T], c: tkl.Memory[M, N, G, T]):
        tkw.atomic_xor(tkw.read(a), c)

    with pytest.raises(CompileError, match="E0311"):
        wave_compile(WaveCompileOptions(dynamic_symbols=[M, N], target="eval"), kernel)
