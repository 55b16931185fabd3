"""Reductions and scans with a user's combine function, on every target."""

import math

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
G = GLOBAL_ADDRESS_SPACE
NUMPY = {"f16": "f2", "f32": "f4", "f64": "f8", "i8": "i1", "i32": "i4", "i64": "i8", "u8": "u1"}


@pytest.fixture(params=["eval", "cpu", "sim:cpu", "sim:gfx942", "sim:sm_90a", "sim:sm_80"])
def target(request):
    return request.param


# ---- functions: in ops, in NumPy, the initial value ----


def abs_max(a, b):
    return tkw.maximum(tkw.abs(a), tkw.abs(b))


def log_add_exp(a, b):
    """Not symmetric: the order of the operands changes the last bits."""
    high = tkw.maximum(a, b)
    return high + tkw.log(tkw.exp(a - high) + tkw.exp(b - high))


def saturating_add(a, b):
    """Associative if all elements have the same sign."""
    return tkw.minimum(a + b, 1000)


def last_nonzero(a, b):
    """Associative, but not commutative."""
    return tkw.select(b != 0, b, a)


def affine(a, b):
    """Composes x -> p * x + q modulo 16, held as 16 * p + q: associative, not commutative."""
    p, q, r, s = a >> 4, a & 15, b >> 4, b & 15
    return (((p * r) & 15) << 4) + ((q * r + s) & 15)


def affine_of(a, b):
    a, b = int(a), int(b)
    return ((a >> 4) * (b >> 4) % 16 << 4) + ((a & 15) * (b >> 4) + (b & 15)) % 16


def fold(f, row, init):
    for x in row:
        init = f(init, x)
    return init


def prefixes(f, row, init):
    return [init := f(init, x) for x in row]


REDUCTIONS = {
    "absmax": ("f32", abs_max, lambda a, b: max(abs(a), abs(b)), 0.0),
    "absmax of halves": ("f16", abs_max, lambda a, b: max(abs(a), abs(b)), 0.0),
    "logaddexp": ("f32", log_add_exp, np.logaddexp, -30.0),
    "logaddexp of doubles": ("f64", log_add_exp, np.logaddexp, -30.0),
    "xor": ("i64", lambda a, b: a ^ b, lambda a, b: a ^ b, 5),
    "xor of bytes": ("u8", lambda a, b: a ^ b, lambda a, b: a ^ b, 3),
    "saturating": ("i32", lambda a, b: saturating_add(abs(a), abs(b)),
                   lambda a, b: min(abs(a) + abs(b), 1000), 0),
    "or of signed bytes": ("i8", lambda a, b: a | b, lambda a, b: a | b, 0),
}  # fmt: skip


def values(dtype, shape, seed=1):
    rng = np.random.default_rng(seed)
    if dtype[0] == "f":
        return rng.normal(-2, 3, shape).astype(NUMPY[dtype])
    return rng.integers(0 if dtype[0] == "u" else -99, 100, shape).astype(NUMPY[dtype])


def rows(tile, waves=1, high=1):
    """`high` rows per workgroup; waves share them."""
    return [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: tile // waves}),
        tkw.WorkgroupConstraint(M, high, 1),
        tkw.WorkgroupConstraint(N, tile, 0),
        tkw.WaveConstraint(N, tile // waves),
    ]


def options(target, a):
    return WaveCompileOptions(subs={M: a.shape[0], N: a.shape[1]}, target=target)


def reduced(target, dtype, combine, init, a, tile=None, waves=1, high=1):
    T = getattr(tkl, dtype)

    @tkw.wave(rows(tile or a.shape[1], waves, high))
    def kernel(x: tkl.Memory[M, N, G, T], y: tkl.Memory[M, G, T]):
        tkw.write(tkw.reduce(tkw.read(x), combine, init, dim=N, block=waves > 1), y)

    y = np.zeros(a.shape[0], a.dtype)
    wave_compile(options(target, a), kernel)(a, y)
    return y


def scanned(target, dtype, combine, init, a, tile=None, waves=1, high=1):
    T = getattr(tkl, dtype)

    @tkw.wave(rows(tile or a.shape[1], waves, high))
    def kernel(x: tkl.Memory[M, N, G, T], y: tkl.Memory[M, N, G, T]):
        tkw.write(tkw.scan(tkw.read(x), combine, init, dim=N, block=waves > 1), y)

    y = np.zeros_like(a)
    wave_compile(options(target, a), kernel)(a, y)
    return y


def wide(a):
    return a.astype("f8") if a.dtype.kind == "f" else a.astype("i8")


def agree(a, b):
    np.testing.assert_allclose(wide(a), wide(np.array(b)), rtol=2e-3 if a.dtype == "f2" else 1e-5)


# ---- the tests ----


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("n, tile, waves, high", [(77, 80, 1, 1), (100, 512, 4, 2), (96, 96, 3, 4)])
def test_a_reduction(target, name, n, tile, waves, high):
    """The tile is longer than the row: elements that do not exist are never combined."""
    dtype, combine, exact, init = REDUCTIONS[name]
    a = values(dtype, (5, n))
    y = reduced(target, dtype, combine, init, a, tile, waves, high)
    agree(y, [fold(exact, wide(row), init) for row in a])


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("n, tile, waves", [(77, 80, 1), (130, 256, 2)])
def test_a_scan(target, name, n, tile, waves):
    dtype, combine, exact, init = REDUCTIONS[name]
    a = values(dtype, (3, n))
    y = scanned(target, dtype, combine, init, a, tile, waves)
    agree(y, [prefixes(exact, wide(row), init) for row in a])


@pytest.mark.parametrize("n, tile", [(1, 1), (1, 64), (3, 48), (65, 96), (200, 256)])
def test_a_scan_keeps_the_order(target, n, tile):
    a = np.random.default_rng(n).integers(0, 256, (4, n)).astype("i4")
    y = scanned(target, "i32", affine, 16, a, tile)
    assert np.array_equal(y, [prefixes(affine_of, row, 16) for row in a])
    a[:, ::3] = 0
    y = scanned(target, "i32", last_nonzero, -7, a, tile)
    assert np.array_equal(y, [prefixes(lambda p, q: q or p, row.tolist(), -7) for row in a])


@pytest.mark.parametrize("waves", [1, 4])
def test_nothing_to_combine(target, waves):
    """The length of the rows is known at the launch: a row without elements gives `init`, and the
    padding of the tile is not combined. `a * 3 + b` has no neutral element."""

    @tkw.wave(rows(64, waves, 2))
    def kernel(n: tkl.i32, y: tkl.Memory[M, G, tkl.i32], z: tkl.Memory[M, G, tkl.i32]):
        tkw.set_symbol(N, n)
        x = tkl.Register[M, N, tkl.i32](5)
        keep = tkl.Register[M, tkl.i32](-1)
        tkw.write(tkw.reduce(x, lambda a, b: a * b + a + b, 42, dim=N, block=True), y)
        tkw.write(tkw.reduce(x, lambda a, b: a & b & 7, keep, dim=N, block=True), z)

    subs = {M: 3, N: 64}
    compiled = wave_compile(WaveCompileOptions(subs=subs, target=target), kernel)
    for n, right, other in (0, 42, -1), (1, 257, 5), (3, 9287, 5), (17, None, 5):
        y, z = np.zeros((2, 3), "i4")
        compiled(n, y, z)
        if right is None:  # it wraps
            right = (43 * 6**n - 1 + 2**31) % 2**32 - 2**31
        assert (y == right).all() and (z == other).all(), (n, y, z)


@pytest.mark.parametrize("tile", [16, 48, 64, 300])
def test_a_loop_carries_what_was_combined(target, tile):
    """Any tile gives the result of one that covers the row."""

    @tkw.wave([
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, K: tile}),
        tkw.WorkgroupConstraint(M, 2, 0),
        tkw.TilingConstraint(K, tile),
    ])  # fmt: skip
    def logsum(x: tkl.Memory[M, K, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
        start = tkl.Register[M, tkl.f32](-1e9)

        @tkw.iterate(K, init_args=[start])
        def loop(acc):
            return tkw.reduce(tkw.read(x), log_add_exp, acc, dim=K)

        tkw.write(loop, y)

    for k in 1, 48, 131, 0:
        a = values("f32", (3, k), k)
        y = np.zeros(3, "f4")
        subs = {M: 3, K: k}
        wave_compile(WaveCompileOptions(subs=subs, target=target), logsum)(a, y)
        agree(y, [fold(np.logaddexp, row, -1e9) for row in a.astype("f8")])


def test_columns(target):
    """Along the first dimension of a tile."""

    @tkw.wave([
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 40, N: 32}),
        tkw.WorkgroupConstraint(N, 32, 0),
        tkw.WorkgroupConstraint(M, 40, 1),
    ])  # fmt: skip
    def kernel(
        x: tkl.Memory[M, N, G, tkl.u8], y: tkl.Memory[N, G, tkl.u8], z: tkl.Memory[M, N, G, tkl.u8]
    ):
        a = tkw.read(x)
        tkw.write(tkw.reduce(a, lambda p, q: p ^ q, 9, dim=M), y)
        tkw.write(tkw.scan(a, lambda p, q: p ^ q, 9, dim=M), z)

    a = values("u8", (37, 45))
    y, z = np.zeros(45, "u1"), np.zeros_like(a)
    wave_compile(options(target, a), kernel)(a, y, z)
    right = np.bitwise_xor.accumulate(a, 0) ^ 9
    assert np.array_equal(z, right) and np.array_equal(y, right[-1])


def test_a_function_may_hand_on_an_argument(target):
    a = values("i32", (2, 33))
    y = scanned(target, "i32", lambda a, b: b, 0, a, 64)
    assert np.array_equal(y, a)
    y = scanned(target, "i32", lambda a, b: a, 4, a, 64)
    assert np.array_equal(y, np.full_like(a, 4))


SIZES = ((1, 1), (2, 33), (3, 64), (1, 131))


def test_sizes_of_the_launch(target):
    """One kernel for all sizes: rows in tiles, four of them together, scanned and reduced."""

    @tkw.wave([
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: 64}),
        tkw.WorkgroupConstraint(M, 4, 0),
        tkw.TilingConstraint(N, 64),
    ])  # fmt: skip
    def kernel(
        x: tkl.Memory[M, N, G, tkl.i64], y: tkl.Memory[M, N, G, tkl.i64], z: tkl.Memory[M, G, tkl.i64]
    ):
        start = tkl.Register[M, tkl.i64](16)

        @tkw.iterate(N, init_args=[start, start])
        def loop(total, mixed):
            a = tkw.read(x)
            tkw.write(tkw.scan(a, affine, total, dim=N), y)
            bits = tkw.reduce(a, lambda p, q: p ^ q, mixed, dim=N)
            return tkw.reduce(tkw.scan(a, affine, total, dim=N), tkw.maximum, 0, dim=N), bits

        tkw.write(loop[1], z)

    compiled = wave_compile(WaveCompileOptions(dynamic_symbols=[M, N], target=target), kernel)
    for m, n in SIZES:
        a = np.random.default_rng(n).integers(0, 256, (m, n))
        y, z = np.zeros_like(a), np.zeros(m, "i8")
        compiled(a, y, z)
        assert np.array_equal(z, np.bitwise_xor.reduce(a, 1) ^ 16)
        first = [prefixes(affine_of, row[:64], 16) for row in a]
        assert np.array_equal(y[:, :64], first)


def gcd(a, b):
    """Twelve iterations are enough for bytes."""
    for _ in range(12):
        some = tkw.select(b == 0, 1, b)
        a, b = tkw.select(b == 0, a, b), tkw.select(b == 0, b, a % some)
    return a


def test_gcd(target):
    a = np.random.default_rng(3).integers(1, 40, (4, 50)).astype("i4") * 6
    y = reduced(target, "i32", gcd, 0, a, 64)
    assert np.array_equal(y, [math.gcd(*row.tolist()) for row in a])


# ---- text ----


def test_the_text_reads_back():
    @tkw.wave(rows(64))
    def kernel(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
        tkw.write(tkw.reduce(tkw.read(x), lambda a, b: abs_max(a, b) + 0.5, 1.0, dim=N), y)

    text = str(kernel.trace())
    steps = "abs $0 : f32, abs $1 : f32, maximum $2 $3 : f32, scalar 0.5 : f32, add $4 $5 : f32"
    assert steps in text
    assert str(_wave.parse(text, "text")[0]) == text


# ---- mistakes ----


def refused(code, where, combine, init=0, dtype=tkl.i32):
    with pytest.raises(CompileError) as e:

        @tkw.wave(rows(64))
        def kernel(x: tkl.Memory[M, N, G, dtype], y: tkl.Memory[M, G, dtype]):
            r = tkw.read(x)
            tkw.write(tkw.reduce(r, lambda a, b: combine(x, r, a, b), init, dim=N), y)

        kernel.trace()
    assert code in str(e.value) and where in str(e.value)
    if init == 0:  # at the line of the function
        assert f"test_combine.py:{combine.__code__.co_firstlineno}:" in str(e.value)


def test_mistakes():
    refused("E0411", "uses a value defined outside", lambda x, r, a, b: tkw.maximum(a, b) + r)
    refused("E0411", "uses `read`", lambda x, r, a, b: tkw.read(x) + a)
    refused("E0411", "uses the expression `M`", lambda x, r, a, b: a + b + M)
    refused("E0411", "returns i1, expected i32", lambda x, r, a, b: a < b)
    refused("E0411", "returns f32, expected i32", lambda x, r, a, b: tkw.cast(a + b, tkl.f32))
    refused("E0315", "float 0.5", lambda x, r, a, b: a + b, init=0.5)
    refused("E0403", "", lambda x, r, a, b: a if a < b else b)
