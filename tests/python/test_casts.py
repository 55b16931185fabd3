"""Casts round once and give the same result on every target: 64-bit integers, and booleans."""

import numpy as np
import pytest

from wave_lang import _wave
from wave_lang.testing import simulate

WAYS = ("eval", "cpu", "sim:cpu", "sim:sm_89", "sim:sm_90a", "sim:gfx942")
HAS_CPU = any(device.kind == "cpu" for device in _wave.devices())
STORAGE = {"f64": "f8", "f32": "f4", "f16": "f2", "bf16": "u2", "i1": "?", "i8": "i1", "i16": "i2"}
STORAGE |= {"i32": "i4", "i64": "i8", "f8e4m3fn": "u1", "f8e5m2": "u1", "f8e5m2fnuz": "u1"}
FORMATS = {"f64": (52, 1023), "f32": (23, 127), "f16": (10, 15), "bf16": (7, 127)}
CAST = """kernel @convert(%a: mem<M, FROM>, %o: mem<M, TO>)
  workgroup M by 64 on 0; hardware threads 64, vector {M: 64}; dynamic M
{
  %x = read %a
  %y = cast %x : tile<M, TO>
  write %y, %o
}
"""


class Compiled(_wave.Launchable):
    def __init__(self, kernel):
        self._bind(kernel)
        self._use(kernel.compile(target="cpu", cache=-1))


def run(way, text, *args):
    if way == "cpu" and not HAS_CPU:
        pytest.skip("no libLLVM")
    if way == "eval":
        _wave.parse(text, "cast.wave")[0].eval(args)
    elif way == "cpu":
        Compiled(_wave.parse(text, "cast.wave")[0])(*args)
    else:
        simulate(text, *args, target=way)


def converted(way, source, target, values):
    out = np.zeros(values.size, STORAGE[target])
    run(way, CAST.replace("FROM", source).replace("TO", target), values, out)
    return out


def beside_ties():
    """Numbers halfway between two floats of each format, and their neighbours."""
    values = [0, 7, 2**63 - 1, -(2**63), 2**62 + 2**38 + 1, 65519, 65520, 464, 465]
    for bit in range(8, 63):
        for mantissa in (2, 3, 7, 10, 23, 52):
            if bit > mantissa + 1:
                tie = 1 << bit | 1 << (bit - mantissa - 1)
                odd = tie | 1 << (bit - mantissa)
                values += [tie - 1, tie, tie + 1, -tie - 1, -tie, -tie + 1, odd - 1, odd, odd + 1]
    return np.array(values, "i8")


def nearest(value, mantissa, bias):
    """In integer arithmetic: rounded once, ties to even."""
    size, sign = abs(value), -1.0 if value < 0 else 1.0
    shift = max(size.bit_length() - 1 - mantissa, 0)
    kept, rest = size >> shift, size & ((1 << shift) - 1)
    kept += 2 * rest + (kept & 1) > 1 << shift if shift else 0
    whole = kept << shift
    return sign * (np.inf if whole >= 2 ** (bias + 1) else float(whole))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", FORMATS)
def test_long_integers_are_rounded_once(target, way):
    values = beside_ties()
    got = converted(way, "i64", target, values)
    if target == "bf16":
        got = (got.astype("u4") << 16).view("f4")
    expected = [nearest(int(v), *FORMATS[target]) for v in values]
    np.testing.assert_array_equal(got.astype("f8"), expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", FORMATS)
def test_long_unsigned_integers_too(target, way):
    values = beside_ties().view("u8")
    got = converted(way, "u64", target, values)
    if target == "bf16":
        got = (got.astype("u4") << 16).view("f4")
    expected = [nearest(int(v), *FORMATS[target]) for v in values]
    np.testing.assert_array_equal(got.astype("f8"), expected)


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("target", ["f8e4m3fn", "f8e5m2", "f8e5m2fnuz"])
def test_bytes_are_those_of_the_evaluator(target, way):
    values = beside_ties()
    expected = converted("eval", "i64", target, values)
    np.testing.assert_array_equal(converted(way, "i64", target, values), expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", ["i8", "i16", "i32", "i64", "f32", "f16"])
def test_true_is_one(target, way):
    truth = np.array([0, 1, 0, 1, 1, 0, 1, 0], bool)
    np.testing.assert_array_equal(converted(way, "i1", target, truth), truth.astype("i4"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "source, values",
    [
        ("i32", [0, 1, 2, 3, -1, -2, 256, -(2**31)]),
        ("i8", [0, 1, 2, 3, -1, -2, 4, -128]),
        ("i64", [0, 2**32, -(2**63), 1, 2, 3, 4, 5]),
        ("f32", [0.0, -0.0, 0.5, -1.0, np.nan, np.inf, 1e-40, 2.0]),
    ],
)
def test_what_is_not_zero_is_true(source, values, way):
    values = np.array(values, STORAGE[source])
    np.testing.assert_array_equal(converted(way, source, "i1", values), values != 0)


IF = """kernel @choose(%a: mem<M, TYPE>, %o: mem<M, i32>)
  workgroup M by 1 on 0; hardware threads 64, vector {M: 0}; dynamic M
{
  %x = read %a
  %zero = fill 0 : tile<M, i32>
  %r = if %x carry %e = %zero {
    %y = fill 5 : tile<M, i32>
    yield %y
  }
  write %r, %o
}
"""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["i32", "i8", "i64"])
def test_conditions_are_numbers_that_are_not_zero(dtype, way):
    values = np.array([0, 1, 2, -2, 4, 0], STORAGE[dtype])
    out = np.full(values.size, -1, "i4")
    run(way, IF.replace("TYPE", dtype), values, out)
    np.testing.assert_array_equal(out, np.where(values != 0, 5, 0))
