"""Elementwise ops on every target: accuracy as docs/numerics.md states it, special values, shifts by any
amount, and types that an op does not accept."""

import math

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from number_formats import STORAGE, decode, encode
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *

N = tkl.sym.N
G = GLOBAL_ADDRESS_SPACE
TARGETS = ("eval", "cpu", "sim:cpu", "sim:gfx942", "sim:sm_90a", "sim:sm_80")
INTEGERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}


def each(target, dtype, op, *args, out=None):
    """Applies op to the elements of one or two arrays, 96 per workgroup."""
    T, R = getattr(tkl, dtype), getattr(tkl, out or dtype)
    hardware = tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={N: 96})
    constraints = [hardware, tkw.WorkgroupConstraint(N, 96, 0)]
    if len(args) == 1:

        @tkw.wave(constraints)
        def kernel(x: tkl.Memory[N, G, T], z: tkl.Memory[N, G, R]):
            tkw.write(op(tkw.read(x)), z)

    else:

        @tkw.wave(constraints)
        def kernel(x: tkl.Memory[N, G, T], y: tkl.Memory[N, G, T], z: tkl.Memory[N, G, R]):
            tkw.write(op(tkw.read(x), tkw.read(y)), z)

    z = np.zeros_like(args[0], dtype=None if out is None else np.int32)
    wave_compile(WaveCompileOptions(dynamic_symbols=[N], target=target), kernel)(*args, z)
    return z


def sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


# name: (reference, bound in units of the last place of f32, of f64)
FUNCTIONS = {
    "log": (np.log, 3, 4),
    "log2": (np.log2, 2, 4),
    "erf": (np.vectorize(math.erf, otypes=["f8"]), 2, 2),
    "sigmoid": (sigmoid, 4, 4),
    "floor": (np.floor, 0, 0),
    "ceil": (np.ceil, 0, 0),
    "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), 0, 0),
}
ENDS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, 6e4, -6e4)


def operands(dtype):
    """Magnitudes from 2**-12 to 2**12 of both signs, values near 1, and extreme values."""
    rng = np.random.default_rng(7)
    scale = rng.choice([-1, 1], 900) * 2.0 ** rng.uniform(-12, 12, 900)
    exact = np.concatenate([scale, 1 + rng.uniform(-0.1, 0.1, 100), ENDS])
    stored = encode(dtype, exact) if dtype == "bf16" else exact.astype(STORAGE[dtype])
    return stored, decode(dtype, stored)


def last_place(dtype, x):
    """The distance between neighbouring floats at x."""
    if dtype == "bf16":
        return np.maximum(np.spacing(np.abs(x).astype("f4")).astype("f8") * 65536, 1e-38)
    return np.spacing(np.abs(x).astype(STORAGE[dtype])).astype("f8")


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("target", TARGETS)
def test_functions(target, name, dtype):
    reference, f32_bound, f64_bound = FUNCTIONS[name]
    stored, x = operands(dtype)
    found = decode(dtype, each(target, dtype, getattr(tkw, name), stored))
    with np.errstate(invalid="ignore", divide="ignore"):
        exact = reference(x)
    assert np.array_equal(np.isnan(found), np.isnan(exact))
    plain = np.isfinite(exact)
    assert (found == exact)[np.isinf(exact)].all()
    assert (np.signbit(found) == np.signbit(exact))[exact == 0].all()
    least = 2.0**-1022 if dtype == "f64" else 2.0**-126  # smaller results may be 0
    plain &= np.abs(exact) >= least
    bound = {"f64": f64_bound, "f32": f32_bound}.get(dtype, 0.51)
    off = np.abs(found[plain] - exact[plain]) / last_place(dtype, exact[plain])
    assert off.max() <= max(bound, 0.5 if bound else 0), off.max()


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3fn"])
@pytest.mark.parametrize("target", TARGETS)
def test_no_numbers(target, dtype):
    if dtype.startswith("f8"):
        stored = np.arange(256, dtype=np.uint8)
        x = decode(dtype, stored)
    else:
        stored, x = operands(dtype)
    truth = lambda test: lambda v: tkw.select(test(v), tkl.Register[N, tkl.i32](1), 0)
    for ours, reference in (tkw.isnan, np.isnan), (tkw.isinf, np.isinf):
        assert np.array_equal(each(target, dtype, truth(ours), stored, out="i32"), reference(x))


def shifted(left, a, b, bits):
    """a truncated to this many bits: Python's integers, reduced to the type."""
    gone = not 0 <= b < bits
    if not left:
        return (-1 if a < 0 else 0) if gone else a >> b
    low = 0 if gone else (a << b) & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("target", TARGETS)
def test_bits(target, dtype):
    info = np.iinfo(INTEGERS[dtype])
    values = [info.min, info.min + 1, -7, -1, 0, 1, 5, 100, info.max]
    amounts = [info.min, -1, 0, 1, 3, info.bits - 1, info.bits, 63, 64, info.max]
    amounts = [b for b in amounts if b <= info.max]
    x = np.repeat(np.array(values, info.dtype), len(amounts))
    y = np.tile(np.array(amounts, info.dtype), len(values))
    pairs = [(int(a), int(b)) for a, b in zip(x, y)]
    for ours, exact in (
        (lambda a, b: a << b, lambda a, b: shifted(True, a, b, info.bits)),
        (lambda a, b: a >> b, lambda a, b: shifted(False, a, b, info.bits)),
        (lambda a, b: a ^ b, lambda a, b: a ^ b),
        (lambda a, b: a & ~b, lambda a, b: a & ~b),
        (lambda a, b: (a | 5) ^ (1 << (b & 3)), lambda a, b: (a | 5) ^ (1 << (b & 3))),
    ):
        assert [int(v) for v in each(target, dtype, ours, x, y)] == [exact(*p) for p in pairs]


def pairs_of(dtype):
    """Pairs of numbers at the ends of the range, and of others."""
    t = np.dtype(dtype.replace("f", "float")).type
    info = np.finfo(t)
    least, most = info.smallest_subnormal, info.max
    some = [0, least, 3 * least, info.tiny - least, info.tiny, 0.1, 1, 7.5, 1000, most, np.inf, np.nan]
    numbers = np.array([*some, *(-v for v in some)], t)
    return np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("target", [*TARGETS, "emu:gfx942", "emu:gfx1201"])
def test_quotients_and_remainders(target, dtype):
    """Exact, however large the quotient is, also of subnormal numbers."""
    x, y = pairs_of(dtype)
    for op, reference in (
        (lambda a, b: a / b, np.divide),
        (lambda a, b: a % b, np.fmod),
        (tkw.remf, np.fmod),
    ):
        with np.errstate(all="ignore"):
            exact = reference(x, y)
        found = each(target, dtype, op, x, y)
        assert np.array_equal(found, exact, equal_nan=True)
        numbers = ~np.isnan(exact)
        assert np.array_equal(np.signbit(found[numbers]), np.signbit(exact[numbers]))


@pytest.mark.parametrize("target", TARGETS)
def test_truth_values(target):
    """Exactly one of two comparisons."""
    a, b = np.random.default_rng(1).integers(-3, 4, (2, 300)).astype(np.int32)
    one = lambda x, y: tkw.select((x > y) ^ (x > 0), tkl.Register[N, tkl.i32](1), 0)
    assert np.array_equal(each(target, "i32", one, a, b), ((a > b) ^ (a > 0)).astype(np.int32))


REFUSED = {
    "log": lambda x: tkw.log(tkw.cast(x, tkl.i32)),
    "isnan": lambda x: tkw.isnan(tkw.cast(x, tkl.i32)),
    "xor": lambda x: x ^ x,
    "shl": lambda x: x << 1.0,
    "shr": lambda x: (x > 0) >> (x > 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_types_that_an_op_does_not_take(name):
    with pytest.raises(CompileError) as e:
        each("eval", "f32", REFUSED[name], np.ones(8, "f4"))
    assert e.value.diagnostics[0].code == "E0311" and f"`{name}`" in str(e.value)
