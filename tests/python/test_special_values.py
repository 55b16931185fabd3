"""The table of docs/numerics.md: NaN, signed zeros, and the extreme integers, on every target."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N = tkl.sym.M, tkl.sym.N
G = GLOBAL_ADDRESS_SPACE
NUMPY = {"f16": "f2", "f32": "f4", "f64": "f8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8"}


@pytest.fixture(params=["eval", "cpu", "sim:cpu", "sim:gfx942", "sim:sm_90a"])
def target(request):
    return request.param


def each(target, dtype, op, a, b):
    """Applies op to every pair of elements of `a` and `b`."""
    T = getattr(tkl, dtype)

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={N: 64}),
            tkw.WorkgroupConstraint(N, 64, 0),
        ]
    )
    def kernel(x: tkl.Memory[N, G, T], y: tkl.Memory[N, G, T], z: tkl.Memory[N, G, T]):
        tkw.write(op(tkw.read(x), tkw.read(y)), z)

    x = np.repeat(np.array(a, NUMPY[dtype]), len(b))
    y = np.tile(np.array(b, NUMPY[dtype]), len(a))
    z = np.zeros_like(x)
    wave_compile(WaveCompileOptions(dynamic_symbols=[N], target=target), kernel)(x, y, z)
    return x, y, z


def same(found, wanted):
    """Equality that distinguishes the zeros but not NaNs."""
    zeros = (wanted != 0) | (np.signbit(found) == np.signbit(wanted))
    return np.array_equal(found, wanted, equal_nan=True) and (zeros | np.isnan(wanted)).all()


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_the_larger_and_the_smaller(target, dtype):
    values = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    for op, better in (tkw.maximum, lambda p, q: p > q), (tkw.minimum, lambda p, q: p < q):
        x, y, z = each(target, dtype, op, values, values)
        # Zeros differ by their signs: -0 is the smaller.
        below = lambda v: np.where(v == 0, np.where(np.signbit(v), -1e-7, 0), v)
        wanted = np.where(better(below(x), below(y)), x, y)
        wanted[np.isnan(x) | np.isnan(y)] = np.nan
        assert same(z, wanted), op.__name__


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64"])
def test_integers_at_their_ends(target, dtype):
    ends = np.iinfo(NUMPY[dtype])
    values = [ends.min, ends.min + 1, -7, -1, 1, 3, ends.max]
    wide = lambda v: [int(i) for i in v]
    wrapped = lambda v: (v - ends.min) % (1 << ends.bits) + ends.min
    toward_zero = lambda p, q: abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)
    for op, exact in (
        (lambda p, q: p + q, lambda p, q: p + q),
        (lambda p, q: p * q, lambda p, q: p * q),
        (lambda p, q: p // q, lambda p, q: p // q),
        (lambda p, q: p / q, toward_zero),
        (lambda p, q: p % q, lambda p, q: p - q * toward_zero(p, q)),
        (lambda p, q: tkw.abs(p) - q, lambda p, q: wrapped(abs(p)) - q),
    ):
        x, y, z = each(target, dtype, op, values, values)
        assert wide(z) == [wrapped(exact(p, q)) for p, q in zip(wide(x), wide(y))]


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_division_by_zero(target, dtype):
    """An error where errors are detected; a device continues with some number."""
    for op in (lambda p, q: p // q), (lambda p, q: p / q), (lambda p, q: p % q):
        if target == "cpu":
            x, y, z = each(target, dtype, op, [7, -7], [0, 1])
            assert (z[y == 1] == op(x[y == 1], 1)).all()
            continue
        with pytest.raises(CompileError) as e:
            each(target, dtype, op, [7, -7], [0, 1])
        assert e.value.diagnostics[0].code == "E0707"


def test_a_literal_without_a_negative(target):
    low = -(2**63)
    found = each(target, "i64", lambda p, q: p // low, [1, low, -1, low + 1], [1])[2]
    assert [int(v) for v in found] == [-1, 1, 0, 0]
