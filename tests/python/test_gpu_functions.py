"""Functions on a GPU over their whole range: angles of any size, integers divided by constants."""

import numpy as np
import torch

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

N = tkl.sym.N


def applied(function, dtype, x):
    """The result of a kernel for every element."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={N: 128}),
            tkw.WorkgroupConstraint(N, 128, 0),
        ]
    )
    def kernel(a: tkl.Memory[N, G, dtype], b: tkl.Memory[N, G, dtype]):
        tkw.write(function(tkw.read(a)), b)

    a = torch.from_numpy(x).cuda()
    b = torch.zeros_like(a)
    wave_compile(WaveCompileOptions(dynamic_symbols=[N]), kernel)(a, b)
    return b.cpu().numpy()


def off_by(found, expected):
    """The error in units of the last place of `found`'s type; `expected` is wider."""
    assert (np.isnan(found) == np.isnan(expected)).all()
    known = ~np.isnan(expected)
    last = np.spacing(np.abs(expected[known]).astype(found.dtype)).astype(expected.dtype)
    return np.abs(found[known].astype(expected.dtype) - expected[known]) / last


def test_turns():
    """Arguments of every exponent and both signs, the multiples of pi/2 that f32 comes closest to,
    infinities and NaN."""
    rng = np.random.default_rng(9)
    bits = rng.integers(0, 1 << 32, 1 << 20, dtype=np.uint32).view("f4")
    near = (np.arange(1, 20001) * (np.pi / 2)).astype("f4")
    hard = np.array([16367173 * 2.0**72, 105615.0, 105616.0, 2.0**53, 2.0**127], "f4")
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4028235e38, 1e-40], "f4")
    x = np.concatenate([bits, near, -near, hard, -hard, ends])
    with np.errstate(invalid="ignore"):
        for function, reference in ((tkw.sin, np.sin), (tkw.cos, np.cos)):
            off = off_by(applied(function, tkl.f32, x), reference(x.astype("f8")))
            assert off.max() <= 2, f"{reference.__name__}: {off.max()}"


def test_functions():
    """The bounds of docs/numerics.md, in f32: for every exponent, near 1, and at the ends."""
    rng = np.random.default_rng(10)
    bits = rng.integers(0, 1 << 32, 1 << 18, dtype=np.uint32).view("f4")
    near = np.concatenate([rng.uniform(0.9, 1.1, 1 << 16), rng.uniform(-90, 90, 1 << 16)])
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5], "f4")
    x = np.concatenate([bits, near.astype("f4"), ends])
    wide = x.astype("f8")
    with np.errstate(all="ignore"):
        for function, exact, bound in (
            (tkw.log, np.log(wide), 3),
            (tkw.erf, torch.erf(torch.from_numpy(wide)).numpy(), 2),
            (tkw.sigmoid, 1 / (1 + np.exp(-wide)), 4),
            (tkw.reciprocal_approx, 1 / np.where(np.abs(wide) < 2.0**-126, 0 * wide, wide), 1),
            (tkw.floor, np.floor(wide), 0),
            (tkw.ceil, np.ceil(wide), 0),
        ):
            found = applied(function, tkl.f32, x)
            exact = np.where(np.abs(exact) < 2.0**-126, np.copysign(0, exact), exact)
            ends = np.isinf(exact) | (exact == 0)
            off = off_by(np.where(ends, 1, found), np.where(ends, 1, exact))
            assert off.max() <= bound, f"{function.__name__}: {off.max()}"
            normal, got = np.abs(exact[ends]), np.abs(found[ends])  # subnormal results may be 0
            right = (got == normal) | ((normal == 0) & (got < 2.0**-126))
            assert right.all(), function.__name__
        off = off_by(applied(tkw.tanh, tkl.f32, x), np.tanh(wide))
        assert off[~np.isnan(off)].max() <= 2
        found, exact = applied(tkw.tanh_approx, tkl.f32, x), np.tanh(wide)
        assert np.nanmax(np.abs(found - exact)) <= 2.0**-21
        assert (np.isnan(found) == np.isnan(x)).all()
        assert (np.signbit(found) == np.signbit(x))[~np.isnan(x)].all()
        for function, exact in (tkw.isnan, np.isnan(x)), (tkw.isinf, np.isinf(x)):
            truth = lambda v, test=function: tkw.select(test(v), tkl.Register[N, tkl.f32](1), 0.0)
            assert (applied(truth, tkl.f32, x) == exact).all(), function.__name__


def test_functions_of_doubles():
    """The bounds of docs/numerics.md, in f64: exponents from -140 to 140 and values around 1."""
    rng = np.random.default_rng(11)
    x = np.concatenate([2.0 ** rng.uniform(-140, 140, 1 << 14), rng.uniform(0, 4, 1 << 14)])
    wide = x.astype(np.longdouble)
    for function, exact, bound in (
        (tkw.log, np.log(wide), 4),
        (tkw.sigmoid, 1 / (1 + np.exp(-wide)), 4),
        (tkw.rsqrt, 1 / np.sqrt(wide), 2),
        (lambda a: tkw.softsign(a, logit_cap=30.0), 30 * wide / (30 + wide), 2),
    ):
        assert off_by(applied(function, tkl.f64, x), exact).max() <= bound


def test_bits():
    """Shifts by any amount, of i8, i32 and i64."""
    for dtype, name in ((tkl.i8, "i1"), (tkl.i32, "i4"), (tkl.i64, "i8")):
        info = np.iinfo(name)
        x = np.random.default_rng(3).integers(info.min, info.max, 1000, name, endpoint=True)
        for by in (0, 1, 7, info.bits - 1, info.bits, 100, -1):
            amount = lambda: tkw.broadcast(tkl.Register[N, dtype](by), [N])
            gone = not 0 <= by < info.bits
            left = np.zeros_like(x) if gone else x << np.array(by, name)
            right = np.where(x < 0, -1, 0) if gone else x >> np.array(by, name)
            assert (applied(lambda v: v << amount(), dtype, x) == left).all(), (name, by)
            assert (applied(lambda v: v >> amount(), dtype, x) == right).all(), (name, by)
        assert (applied(lambda v: v ^ 5, dtype, x) == (x ^ np.array(5, name))).all(), name


def test_unsigned():
    """Ops that differ for unsigned u8, u32 and u64, at the ends; torch has few ops on them."""
    for dtype, name in ((tkl.u8, "u1"), (tkl.u32, "u4"), (tkl.u64, "u8")):
        most = np.iinfo(name).max
        x = np.array([1, 2, 3, 7, 100, most // 2, most // 2 + 1, most - 1, most] * 9, name)
        seven = lambda: tkw.broadcast(tkl.Register[N, dtype](7), [N])
        for function, exact in (
            (lambda v: v // seven(), x // 7),
            (lambda v: v % seven(), x % 7),
            (lambda v: v >> 1, x >> 1),
            (lambda v: tkw.maximum(v, ~v), np.maximum(x, ~x)),
            (lambda v: tkw.select(v < ~v, v, v - v), np.where(x < ~x, x, 0)),
            (lambda v: tkw.cast(tkw.cast(v, tkl.f64), dtype), None),
        ):
            found = applied(function, dtype, x)
            if exact is None:
                wide = [min(int(float(v)), int(most)) for v in x]
                assert [int(v) for v in found] == wide, name
            else:
                assert (found == exact).all(), name


def test_where_the_best_stands():
    """argmax and argmin of rows that end inside a tile, and products along them, with one and two
    waves."""
    M = tkl.sym.M
    for waves in (1, 2):

        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: 64}),
                tkw.WorkgroupConstraint(M, 1, 1),
                tkw.WorkgroupConstraint(N, 64 * waves, 0),
                tkw.WaveConstraint(N, 64),
            ]
        )
        def kernel(
            a: tkl.Memory[M, N, G, tkl.f32],
            high: tkl.Memory[M, G, tkl.i32],
            low: tkl.Memory[M, G, tkl.i32],
            all_: tkl.Memory[M, G, tkl.f32],
        ):
            x = tkw.read(a)
            tkw.write(tkw.argmax(x, dim=N, block=waves > 1)[1], high)
            tkw.write(tkw.argmin(x, dim=N, block=waves > 1)[1], low)
            tkw.write(tkw.prod(x, dim=N, block=waves > 1), all_)

        a = -torch.randint(1, 3, (9, 50), device="cuda").float()
        high, low = torch.zeros(2, 9, dtype=torch.int32, device="cuda")
        all_ = torch.zeros(9, device="cuda")
        options = WaveCompileOptions(subs={N: 50}, dynamic_symbols=[M])
        wave_compile(options, kernel)(a, high, low, all_)
        rows = a.cpu().numpy()
        assert (high.cpu().numpy() == rows.argmax(1)).all(), waves
        assert (low.cpu().numpy() == rows.argmin(1)).all(), waves
        assert (all_.cpu().numpy() == rows.prod(1)).all(), waves


def test_atomics():
    """Bits of i32 and i8 (in a loop of compare-and-swap), and the largest f32."""
    for dtype, name in ((tkl.i32, "i4"), (tkl.i8, "i1"), (tkl.u32, "u4")):
        info = np.iinfo(name)
        rng = np.random.default_rng(5)
        a, before = rng.integers(info.min, info.max, (2, 300), name, True)
        for word, exact in (
            ("max", np.maximum(before, a)),
            ("and", before & a),
            ("or", before | a),
            ("xor", before ^ a),
            ("exchange", a),
        ):

            @tkw.wave(
                [
                    tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={N: 128}),
                    tkw.WorkgroupConstraint(N, 128, 0),
                ]
            )
            def kernel(x: tkl.Memory[N, G, dtype], c: tkl.Memory[N, G, dtype]):
                getattr(tkw, f"atomic_{word}")(tkw.read(x), c)

            c = torch.from_numpy(before.copy()).cuda()
            wave_compile(WaveCompileOptions(dynamic_symbols=[N]), kernel)(torch.from_numpy(a).cuda(), c)
            assert (c.cpu().numpy() == exact).all(), (name, word)


def test_philox():
    """The published result for a counter and key of zeros, and the first words of others."""
    zero = lambda v: tkw.philox([v ^ v] * 4, [v ^ v] * 2)
    x = np.arange(200, dtype="u4")
    for word, known in enumerate((0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)):
        assert (applied(lambda v: zero(v)[word], tkl.u32, x) == known).all(), word


DIVISORS = (1, 2, 3, 5, 7, 10, 12, 64, 100, 127, -1, -2, -3, -7, -64, -100)


def test_known_divisors():
    """Division toward zero, and the remainder; i8, i32 and i64, near zero and at the ends."""
    for dtype, name in ((tkl.i8, "i1"), (tkl.i32, "i4"), (tkl.i64, "i8")):
        info = np.iinfo(name)
        far = DIVISORS if name == "i1" else (*DIVISORS, 1000, 65537, 2147483647)
        ends = np.arange(0, 100)
        x = np.concatenate([info.min + 1 + ends, info.max - ends, ends - 50]).astype(name)
        for d in far:
            whole, by = x.astype("O"), lambda: tkw.broadcast(tkl.Register[N, dtype](d), [N])
            quotient = np.sign(whole) * np.sign(d) * (np.abs(whole) // abs(d))
            for function, expected in (
                (lambda v: v / by(), quotient),
                (lambda v: v % by(), whole - quotient * d),
                (lambda v: v // by(), whole // d),
            ):
                found = applied(function, dtype, x)
                assert (found == expected.astype(name)).all(), (name, d)


def test_many_parts_of_a_row():
    """Sums across 2 to 32 waves."""
    M = tkl.sym.M
    for waves in (2, 4, 8, 16, 32):

        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: 128}),
                tkw.WorkgroupConstraint(M, 1, 1),
                tkw.WorkgroupConstraint(N, 128 * waves, 0),
                tkw.WaveConstraint(N, 128),
            ]
        )
        def kernel(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, G, tkl.f32]):
            tkw.write(tkw.sum(tkw.read(a), dim=N, block=True), b)

        a = torch.randint(-8, 8, (70, 128 * waves), device="cuda").float()
        b = torch.full((70,), torch.nan, device="cuda")
        options = WaveCompileOptions(subs={N: 128 * waves}, dynamic_symbols=[M])
        wave_compile(options, kernel)(a, b)
        assert torch.equal(b, a.sum(1)), waves
