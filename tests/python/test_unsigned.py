"""Unsigned integers on every target: arithmetic at the ends, casts, memory, reductions, atomics, and
values that become sizes and coordinates."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N = tkl.sym.M, tkl.sym.N
G = GLOBAL_ADDRESS_SPACE
NUMPY = {"u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8"}
SIGNED = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8"}
FLOATS = {"f16": "f2", "f32": "f4", "f64": "f8"}
ALL = {**NUMPY, **SIGNED, **FLOATS}


@pytest.fixture(params=["eval", "cpu", "sim:cpu", "sim:gfx942", "sim:sm_90a", "sim:sm_80"])
def target(request):
    return request.param


def hardware(*dims, waves=1):
    shapes = {d: n for d, n in dims}
    return tkw.HardwareConstraint(threads_per_wave=32, vector_shapes=shapes)


def each(target, dtype, op, *args, out=None):
    """Applies op to the elements of one or two arrays, 48 per workgroup."""
    T, R = getattr(tkl, dtype), getattr(tkl, out or dtype)
    constraints = [hardware((N, 48)), tkw.WorkgroupConstraint(N, 48, 0)]
    if len(args) == 1:

        @tkw.wave(constraints)
        def kernel(x: tkl.Memory[N, G, T], z: tkl.Memory[N, G, R]):
            tkw.write(op(tkw.read(x)), z)

    else:

        @tkw.wave(constraints)
        def kernel(x: tkl.Memory[N, G, T], y: tkl.Memory[N, G, T], z: tkl.Memory[N, G, R]):
            tkw.write(op(tkw.read(x), tkw.read(y)), z)

    z = np.zeros(args[0].shape, ALL[out or dtype])
    wave_compile(WaveCompileOptions(dynamic_symbols=[N], target=target), kernel)(*args, z)
    return z


def ends(dtype):
    most = np.iinfo(NUMPY[dtype]).max
    return [0, 1, 3, 7, most // 2, most // 2 + 1, most - 1, most]


def pairs(dtype):
    values = ends(dtype)
    x = np.repeat(np.array(values, NUMPY[dtype]), len(values))
    return x, np.tile(np.array(values, NUMPY[dtype]), len(values))


@pytest.mark.parametrize("dtype", NUMPY)
def test_arithmetic(target, dtype):
    """The result with Python's integers, modulo the width."""
    bits = np.iinfo(NUMPY[dtype]).bits
    x, y = pairs(dtype)
    nonzero = y != 0
    for ours, exact, some in (
        (lambda a, b: a + b, lambda a, b: a + b, slice(None)),
        (lambda a, b: a - b, lambda a, b: a - b, slice(None)),
        (lambda a, b: a * b, lambda a, b: a * b, slice(None)),
        (lambda a, b: a // b, lambda a, b: a // b, nonzero),
        (lambda a, b: a / b, lambda a, b: a // b, nonzero),
        (lambda a, b: a % b, lambda a, b: a % b, nonzero),
        (lambda a, b: a ^ b, lambda a, b: a ^ b, slice(None)),
        (lambda a, b: a << b, lambda a, b: a << b if b < bits else 0, slice(None)),
        (lambda a, b: a >> b, lambda a, b: a >> b if b < bits else 0, slice(None)),
        (lambda a, b: ~a & b, lambda a, b: ~a & b, slice(None)),
        (tkw.maximum, max, slice(None)),
        (tkw.minimum, min, slice(None)),
        (lambda a, b: -a, lambda a, b: -a, slice(None)),
        (lambda a, b: tkw.abs(a), lambda a, b: a, slice(None)),
        (lambda a, b: a * 3 + 200, lambda a, b: a * 3 + 200, slice(None)),
    ):
        p, q = x[some], y[some]
        found = each(target, dtype, ours, p, q)
        wanted = [exact(int(a), int(b)) % (1 << bits) for a, b in zip(p, q)]
        assert [int(v) for v in found] == wanted


@pytest.mark.parametrize("dtype", NUMPY)
def test_comparisons(target, dtype):
    x, y = pairs(dtype)
    for ours, exact in (
        (lambda a, b: a < b, np.less),
        (lambda a, b: a <= b, np.less_equal),
        (lambda a, b: a > b, np.greater),
        (lambda a, b: a >= b, np.greater_equal),
        (lambda a, b: a == b, np.equal),
        (lambda a, b: a != b, np.not_equal),
    ):
        truth = lambda a, b: tkw.select(ours(a, b), tkl.Register[N, tkl.i32](1), 0)
        assert np.array_equal(each(target, dtype, truth, x, y, out="i32"), exact(x, y))


@pytest.mark.parametrize("dtype", NUMPY)
def test_casts(target, dtype):
    """To every type and back; values out of range give the nearest end."""
    x = np.array(ends(dtype) * 3, NUMPY[dtype])
    for other, name in ALL.items():
        if other == dtype:
            continue
        to = each(target, dtype, lambda a: tkw.cast(a, getattr(tkl, other)), x, out=other)
        with np.errstate(over="ignore"):
            assert np.array_equal(to, x.astype(name)), other
        y = np.array([0, 1, 2.75, 100, -1, -0.5, 70000, 3e9, 5e9, 1e19, 1e30], "f8")
        if other in FLOATS:
            with np.errstate(over="ignore"):
                y = np.append(y, [np.nan, np.inf, -np.inf]).astype(name)
            limit = int(np.iinfo(NUMPY[dtype]).max)
            whole = [0.0 if np.isnan(v) else float(np.clip(np.float64(v), 0, 1e25)) for v in y]
            wanted = [min(int(v), limit) for v in whole]
        else:
            info = np.iinfo(name)
            y = np.array([info.min, info.min + 1, -1 if info.min else 1, 0, 1, info.max], name)
            wanted = [int(v) % (1 << np.iinfo(NUMPY[dtype]).bits) for v in y]
        back = each(target, other, lambda a: tkw.cast(a, getattr(tkl, dtype)), y, out=dtype)
        assert [int(v) for v in back] == wanted, other


@pytest.mark.parametrize("dtype", NUMPY)
def test_reductions(target, dtype):
    """Along a dimension that ends inside a tile."""
    T = getattr(tkl, dtype)

    @tkw.wave([hardware((M, 1), (N, 40)), tkw.WorkgroupConstraint(M, 1, 0)])
    def kernel(
        a: tkl.Memory[M, N, G, T],
        s: tkl.Memory[M, G, T],
        h: tkl.Memory[M, G, T],
        l: tkl.Memory[M, G, T],
        c: tkl.Memory[M, N, G, T],
    ):
        x = tkw.read(a)
        tkw.write(tkw.sum(x, dim=N), s)
        tkw.write(tkw.max(x, dim=N), h)
        tkw.write(tkw.min(x, dim=N), l)
        tkw.write(tkw.cumsum(x, dim=N), c)

    info = np.iinfo(NUMPY[dtype])
    a = np.random.default_rng(3).integers(info.max // 3, info.max, (5, 40), NUMPY[dtype], True)
    s, h, l = (np.zeros(5, NUMPY[dtype]) for _ in range(3))
    c = np.zeros_like(a)
    options = WaveCompileOptions(subs={M: 5, N: 40}, target=target)
    wave_compile(options, kernel)(a, s, h, l, c)
    assert np.array_equal(s, a.sum(1, dtype=a.dtype)) and np.array_equal(c, a.cumsum(1, a.dtype))
    assert np.array_equal(h, a.max(1)) and np.array_equal(l, a.min(1))


@pytest.mark.parametrize("dtype", ["u32", "u64"])
def test_atomics(target, dtype):
    """Sums wrap, and the maximum does not treat large values as negative."""
    T = getattr(tkl, dtype)

    @tkw.wave([hardware((N, 48)), tkw.WorkgroupConstraint(N, 48, 0)])
    def kernel(
        a: tkl.Memory[N, G, T], total: tkl.Memory[N, G, T], least: tkl.Memory[N, G, T]
    ):
        x = tkw.read(a)
        tkw.atomic_add(x, total)
        tkw.atomic_min(x, least)

    most = np.iinfo(NUMPY[dtype]).max
    a = np.array([5, most, most // 2 + 1] * 30, NUMPY[dtype])
    total, least = np.full_like(a, 7), np.full_like(a, most - 1)
    before = total + a
    wave_compile(WaveCompileOptions(dynamic_symbols=[N], target=target), kernel)(a, total, least)
    assert np.array_equal(total, before) and np.array_equal(least, np.minimum(a, most - 1))


def test_values_in_expressions(target):
    """A row number larger than any i32 is reduced to a small range: apply_expr, and a gather with
    it."""
    K = tkl.sym.K
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    at = tkw.IndexMapping.dynamic_val(0)
    rows = tkw.IndexMapping(
        num_iterators=2, inputs={K: at, N: j}, outputs={M: i, N: j}, dynamic_val_mappings={M: i}
    )

    @tkw.wave([hardware((M, 1), (N, 48)), tkw.WorkgroupConstraint(M, 1, 1), tkw.WorkgroupConstraint(N, 48, 0)])
    def kernel(
        number: tkl.Memory[M, G, tkl.u32],
        table: tkl.Memory[K, N, G, tkl.u8],
        c: tkl.Memory[M, N, G, tkl.u8],
    ):
        row = tkw.apply_expr(tkw.read(number), lambda x: x % 7)
        tkw.write(tkw.read(table, mapping=rows, mapping_dynamic_vals=row), c)

    number = np.array([0, 5, 2**31, 2**32 - 1, 3_000_000_000], "u4")
    table = np.random.default_rng(4).integers(0, 256, (7, 50)).astype("u1")
    c = np.zeros((5, 50), "u1")
    options = WaveCompileOptions(subs={M: 5, N: 50, K: 7}, target=target)
    wave_compile(options, kernel)(number, table, c)
    assert np.array_equal(c, table[number % 7])


def test_numbers_of_the_kernel(target):
    """Scalar arguments, positions and sizes as unsigned values."""

    @tkw.wave([hardware((N, 48)), tkw.WorkgroupConstraint(N, 48, 0)])
    def kernel(s: tkl.u32, c: tkl.Memory[N, G, tkl.u32]):
        here = tkw.self_index(N, tkl.u32)
        tkw.write(here * s + tkw.scalar(N, tkl.u32), c)

    c = np.zeros(100, "u4")
    wave_compile(WaveCompileOptions(dynamic_symbols=[N], target=target), kernel)(3_000_000_000, c)
    wanted = [(i * 3_000_000_000 + 100) % 2**32 for i in range(100)]
    assert [int(v) for v in c] == wanted


def test_tensors_of_the_same_width(target):
    """Integers of the same width are interpreted as the kernel declares them."""
    x = np.array([1, -1, 127, -128], "i1")
    found = each(target, "u8", lambda a: a >> 1, x, out="u8")
    assert np.array_equal(found, x.view("u1") >> 1)
    found = each(target, "i8", lambda a: a >> 1, x.view("u1"), out="i8")
    assert np.array_equal(found, x >> 1)


@pytest.mark.parametrize("number", [2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1])
def test_numbers_above_the_expressions(target, number):
    """The upper half of u64, which index expressions cannot represent."""
    x = np.array([0, 1, 2**63, number], "u8")
    found = each(target, "u64", lambda a: tkw.select(a >= number, a, a ^ number), x)
    assert np.array_equal(found, np.where(x >= number, x, x ^ np.uint64(number)))
    found = each(target, "u64", lambda a: tkw.register([N], tkl.u64, number) - a, x)
    assert np.array_equal(found, np.uint64(number) - x)
    found = each(target, "u64", lambda a: a + tkw.scalar(number, tkl.u64), x)
    assert np.array_equal(found, x + np.uint64(number))


def test_the_least_integer(target):
    x = np.array([-(2**63), -1, 0, 2**63 - 1], "i8")
    found = each(target, "i64", lambda a: tkw.maximum(a, -(2**63)) ^ -(2**63), x)
    assert np.array_equal(found, x ^ np.int64(-(2**63)))
    found = each(target, "i64", lambda a: tkw.max(a, tkw.scalar(-(2**63), tkl.i64), dim=N) + 0 * a, x)
    assert np.array_equal(found, np.full(4, 2**63 - 1))


@pytest.mark.parametrize("dtype, number", [("i64", 2**63), ("u64", 2**64), ("u64", -(2**63)), ("i32", 2**63)])
def test_numbers_that_no_element_holds(dtype, number):
    for op in (lambda a: a + number, lambda a: tkw.register([N], getattr(tkl, dtype), number) + a):
        with pytest.raises(CompileError, match="E0315"):
            each("eval", dtype, op, np.zeros(4, ALL[dtype]))


def test_large_integers_beside_floats(target):
    found = each(target, "f32", lambda a: a * 2**100 + 2**63, np.array([1, -2], "f4"))
    assert np.array_equal(found, np.array([2.0**100 + 2.0**63, 2.0**63 - 2.0**101], "f4"))
    with pytest.raises(CompileError, match="E0315"):
        each("eval", "f32", lambda a: a * 2**2000, np.zeros(4, "f4"))


def test_mistakes():
    with pytest.raises(CompileError, match="E0315"):
        each("eval", "u8", lambda a: a + 256, np.zeros(4, "u1"))
    with pytest.raises(CompileError, match="E0315"):
        each("eval", "u32", lambda a: a + -1, np.zeros(4, "u4"))
    with pytest.raises(CompileError, match="E0301"):
        each("eval", "u32", lambda a: a + tkw.cast(a, tkl.i32), np.zeros(4, "u4"))
