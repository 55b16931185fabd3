"""Scaled matmuls on every machine: element types, blocks, shapes, NaN."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import rng
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave.constraints import ScaledMMAType

B, M, N, K = (getattr(tkl.sym, s) for s in "BMNK")
BM, BN, BK = tkl.sym.BM, tkl.sym.BN, tkl.sym.BK
G, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
TARGETS = pytest.mark.parametrize(
    "target", ["eval", "cpu", "sim:cpu", "sim:sm_80", "sim:sm_89", "sim:sm_90a", "sim:gfx942", "sim:gfx950"]
)
E8 = tkl.f8e8m0fnu


def small_float(exponent, mantissa, bias, specials):
    """The values of all codes, from the definition; `specials`: codes that are not numbers."""
    code = np.arange(2 ** (1 + exponent + mantissa))
    e, f = code >> mantissa & 2**exponent - 1, code & 2**mantissa - 1
    normal, small = (1 + f / 2.0**mantissa) * 2.0 ** (e - bias), f * 2.0 ** (1 - bias - mantissa)
    value = np.where(e > 0, normal, small) * np.where(code >> exponent + mantissa, -1, 1)
    for c, v in specials.items():
        value[c] = v
    return value


NAN, INF = np.nan, np.inf
VALUES = {
    "f4e2m1fn": small_float(2, 1, 1, {}),
    "f6e2m3fn": small_float(2, 3, 1, {}),
    "f8e4m3fn": small_float(4, 3, 7, {127: NAN, 255: NAN}),
    "f8e4m3fnuz": small_float(4, 3, 8, {128: NAN}),
    "f8e5m2": small_float(
        5, 2, 15, {124: INF, 252: -INF, **{c: NAN for c in (125, 126, 127, 253, 254, 255)}}
    ),
    "f8e8m0fnu": np.append(2.0 ** np.arange(-127, 128), NAN),
}


def finite_codes(dtype, shape, seed):
    good = np.flatnonzero(np.isfinite(VALUES[dtype]))
    return rng(seed).choice(good, shape).astype(np.uint8)


def packed(codes):
    """Four-bit elements: the first of two is the low half of their byte."""
    return codes[..., 0::2] | codes[..., 1::2] << 4


class Operand:
    """Codes of `rows` x `k` elements and their scales, as arguments, and their values."""

    def __init__(self, dtype, rows, k, block, seed, scale="f8e8m0fnu", around=127):
        self.codes = finite_codes(dtype, (rows, k), seed)
        low, high = (around - 4, around + 5) if scale == "f8e8m0fnu" else (1, 120)
        self.scales = rng(seed + 100).integers(low, high, (rows, k // block)).astype(np.uint8)
        self.dtype, self.block, self.scale = dtype, block, scale

    @property
    def arguments(self):
        return (packed(self.codes) if self.dtype == "f4e2m1fn" else self.codes), self.scales

    @property
    def values(self):
        scales = np.repeat(VALUES[self.scale][self.scales], self.block, -1)
        return VALUES[self.dtype][self.codes] * scales


def read_as(memory, dtype):
    value = tkw.read(memory)
    return value if value.dtype == dtype else tkw.bitcast(value, dtype)


def memory_of(row, dtype, space):
    """Six-bit elements have a byte each and are not the bits of a byte type."""
    k = K / 2 if dtype == "f4e2m1fn" else K
    return tkl.Memory[row, k, space, tkl.f6e2m3fn if dtype == "f6e2m3fn" else tkl.i8]


def header(waves=(2, 2), mma=ScaledMMAType.F32_16x16x128_F8F6F4):
    return [
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=mma),
        tkw.WorkgroupConstraint(M, BM, 0),
        tkw.WorkgroupConstraint(N, BN, 1),
        tkw.TilingConstraint(K, BK),
        tkw.WaveConstraint(M, BM / waves[0]),
        tkw.WaveConstraint(N, BN / waves[1]),
    ]


def gemm(a, b, space=G, waves=(2, 2)):
    """c = a bᵀ, for two `Operand`s."""
    left, right = getattr(tkl, a.dtype), getattr(tkl, b.dtype)
    left_scale, right_scale = getattr(tkl, a.scale), getattr(tkl, b.scale)

    @tkw.wave(header(waves))
    def kernel(
        x: memory_of(M, a.dtype, space),
        xs: tkl.Memory[M, K / a.block, space, tkl.i8],
        y: memory_of(N, b.dtype, space),
        ys: tkl.Memory[N, K / b.block, space, tkl.i8],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            p, q = read_as(xs, left_scale), read_as(ys, right_scale)
            return tkw.scaled_mma(read_as(x, left), p, read_as(y, right), q, acc)

        tkw.write(loop, c)

    return kernel


def run(kernel, target, a, b, tiles, dynamic=()):
    (m, k), n = a.codes.shape, len(b.codes)
    subs = dict(zip((M, N, K, BM, BN, BK), (m, n, k, *tiles)))
    options = WaveCompileOptions(
        subs={s: v for s, v in subs.items() if s not in dynamic},
        dynamic_symbols=list(dynamic),
        target=target,
    )
    c = np.full((m, n), 7, np.float32)
    compiled = wave_compile(options, kernel)
    compiled(*a.arguments, *b.arguments, c)
    return c, compiled


def check(c, a, b):
    """f32 sums of exact products, in any order."""
    with np.errstate(invalid="ignore"):
        want, size = a.values @ b.values.T, np.abs(a.values) @ np.abs(b.values).T
    assert np.array_equal(np.isnan(c), np.isnan(want))
    with np.errstate(invalid="ignore"):
        wrong = np.abs(c - want) > 4e-6 * size
    assert not wrong[np.isfinite(want)].any()


@TARGETS
@pytest.mark.parametrize("dtype", ["f4e2m1fn", "f6e2m3fn", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2"])
@pytest.mark.parametrize("space", [G, SHARED], ids=["global", "shared"])
def test_types(target, dtype, space):
    a, b = Operand(dtype, 40, 256, 32, 1), Operand(dtype, 24, 256, 32, 2)
    c, _ = run(gemm(a, b, space), target, a, b, (32, 32, 128))
    check(c, a, b)


@TARGETS
@pytest.mark.parametrize(
    "block, tile, k",
    [
        (16, 64, 192),
        (64, 64, 192),
        (128, 128, 256),
        (24, 48, 144),
        (12, 48, 96),
        (6, 48, 96),
        (2, 32, 64),
        (1, 32, 64),
        (96, 96, 96),
    ],
)
def test_blocks(target, block, tile, k):
    a, b = Operand("f4e2m1fn", 33, k, block, 3), Operand("f4e2m1fn", 17, k, block, 4)
    c, _ = run(gemm(a, b), target, a, b, (32, 32, tile))
    check(c, a, b)


@TARGETS
@pytest.mark.parametrize(
    "left, right, blocks",
    [
        ("f4e2m1fn", "f8e5m2", (32, 32)),
        ("f8e4m3fn", "f6e2m3fn", (16, 64)),
        ("f8e4m3fnuz", "f4e2m1fn", (32, 8)),
    ],
)
def test_operands_that_differ(target, left, right, blocks):
    a, b = Operand(left, 20, 192, blocks[0], 5), Operand(right, 36, 192, blocks[1], 6)
    c, _ = run(gemm(a, b), target, a, b, (16, 32, 64))
    check(c, a, b)


@TARGETS
def test_scales_with_mantissas(target):
    """As in NVFP4: one f8e4m3fn for 16 elements."""
    a = Operand("f4e2m1fn", 31, 160, 16, 7, scale="f8e4m3fn")
    b = Operand("f4e2m1fn", 19, 160, 16, 8, scale="f8e4m3fn")
    c, _ = run(gemm(a, b), target, a, b, (32, 32, 32))
    check(c, a, b)


@TARGETS
@pytest.mark.parametrize("k", [32, 96, 224, 320])
@pytest.mark.parametrize("space", [G, SHARED], ids=["global", "shared"])
def test_dynamic_sizes(target, k, space):
    """Whole blocks, and partial tiles in all dimensions."""
    a, b = Operand("f4e2m1fn", 35, k, 32, 9), Operand("f4e2m1fn", 21, k, 32, 10)
    c, _ = run(gemm(a, b, space), target, a, b, (32, 32, 128), dynamic=[M, N, K])
    check(c, a, b)


@TARGETS
def test_scale_is_nan(target):
    a, b = Operand("f4e2m1fn", 20, 96, 32, 11), Operand("f8e5m2", 18, 96, 32, 12)
    a.scales[3, 1] = b.scales[17, 2] = 255
    a.scales[4, :] = 0
    b.codes[5, 7], b.codes[6, 9] = 124, 126  # infinity, NaN
    c, _ = run(gemm(a, b), target, a, b, (32, 32, 64))
    check(c, a, b)
    assert np.isnan(c[3]).all() and np.isnan(c[:, 17]).all() and np.isnan(c[:, 6]).all()


@TARGETS
@pytest.mark.parametrize("around", [20, 234])
def test_far_scales(target, around):
    """Powers of two that f16 does not have; the sums are in the range of f32."""
    a = Operand("f8e4m3fn", 17, 64, 32, 13, around=around)
    b = Operand("f8e4m3fn", 17, 64, 32, 14, around=254 - around)
    c, _ = run(gemm(a, b), target, a, b, (32, 32, 64))
    check(c, a, b)


@TARGETS
def test_columns_of_k(target):
    """k is the outer dimension of the left operand, and its scales are transposed."""

    @tkw.wave(header())
    def kernel(
        x: tkl.Memory[K, M, G, tkl.f8e4m3fn],
        xs: tkl.Memory[M, K / 16, G, E8],
        y: tkl.Memory[N, K, G, tkl.f8e4m3fn],
        ys: tkl.Memory[K / 16, N, G, E8],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.scaled_mma(tkw.read(x), tkw.read(xs), tkw.read(y), tkw.read(ys), acc)

        tkw.write(loop, c)

    a, b = Operand("f8e4m3fn", 20, 96, 16, 15), Operand("f8e4m3fn", 28, 96, 16, 16)
    tiles = {BM: 32, BN: 32, BK: 32}
    options = WaveCompileOptions(subs=tiles, dynamic_symbols=[M, N, K], target=target)
    c, x, ys = np.zeros((20, 28), np.float32), a.codes.T.copy(), b.scales.T.copy()
    wave_compile(options, kernel)(x, a.scales, b.codes, ys, c)
    check(c, a, b)


@TARGETS
def test_batches_that_share_an_operand(target):
    instruction = ScaledMMAType.F32_16x16x128_F8F6F4

    @tkw.wave(
        [
            tkw.HardwareConstraint(64, mma_type=instruction, vector_shapes={B: 0}),
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 32, 1),
            tkw.WorkgroupConstraint(B, 1, 2),
            tkw.TilingConstraint(K, 64),
            tkw.WaveConstraint(M, 16),
            tkw.WaveConstraint(N, 32),
        ]
    )
    def kernel(
        x: tkl.Memory[B, M, K / 2, G, tkl.i8],
        xs: tkl.Memory[B, M, K / 32, G, tkl.i8],
        y: tkl.Memory[N, K / 2, G, tkl.i8],
        ys: tkl.Memory[N, K / 32, G, tkl.i8],
        c: tkl.Memory[B, M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[B, M, N, tkl.f32](0.0)])
        def loop(acc):
            left, right = read_as(x, tkl.f4e2m1fn), read_as(y, tkl.f4e2m1fn)
            return tkw.scaled_mma(left, read_as(xs, E8), right, read_as(ys, E8), acc)

        tkw.write(loop, c)

    left = [Operand("f4e2m1fn", 33, 128, 32, seed) for seed in (17, 18, 19)]
    b = Operand("f4e2m1fn", 40, 128, 32, 20)
    c = np.zeros((3, 33, 40), np.float32)
    options = WaveCompileOptions(subs={B: 3, M: 33, N: 40, K: 128}, target=target)
    x, xs = (np.stack(t) for t in zip(*(a.arguments for a in left)))
    wave_compile(options, kernel)(x, xs, *b.arguments, c)
    for a, of in zip(left, c):
        check(of, a, b)


@TARGETS
def test_scales_computed_in_the_kernel(target):
    """One scale per row, and NaN scales where no element exists."""

    @tkw.wave(header())
    def kernel(
        x: tkl.Memory[M, K, G, tkl.f8e5m2],
        xs: tkl.Memory[M, G, E8],
        y: tkl.Memory[N, K, G, tkl.f8e5m2],
        ys: tkl.Memory[N, K / 32, G, tkl.f32],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            one_each = tkw.broadcast(tkw.read(xs), [M, K / 32])
            computed = tkw.cast(tkw.read(ys) - 1.0, E8)  # -1 outside: not a scale
            return tkw.scaled_mma(tkw.read(x), one_each, tkw.read(y), computed, acc)

        tkw.write(loop, c)

    a, b = Operand("f8e5m2", 18, 96, 32, 21), Operand("f8e5m2", 30, 96, 32, 22)
    a.scales[:] = a.scales[:, :1]
    b.scales[:] = rng(22).integers(127, 131, b.scales.shape)
    tiles = {BM: 32, BN: 32, BK: 128}
    options = WaveCompileOptions(subs=tiles, dynamic_symbols=[M, N, K], target=target)
    c, ys = np.zeros((18, 30), np.float32), VALUES["f8e8m0fnu"][b.scales] + 1
    wave_compile(options, kernel)(a.codes, a.scales[:, 0].copy(), b.codes, ys.astype("f4"), c)
    check(c, a, b)


@TARGETS
@pytest.mark.parametrize("block", [16, 32])
def test_threads_can_tell(target, block):
    """A kernel that depends on its threads keeps the waves that it declares."""
    if target == "eval":
        pytest.skip("knows no threads")

    @tkw.wave(header())
    def kernel(
        x: tkl.Memory[M, K / 2, G, tkl.i8],
        xs: tkl.Memory[M, K / block, G, tkl.i8],
        y: tkl.Memory[N, K / 2, G, tkl.i8],
        ys: tkl.Memory[N, K / block, G, tkl.i8],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            left, right = read_as(x, tkl.f4e2m1fn), read_as(y, tkl.f4e2m1fn)
            return tkw.scaled_mma(left, read_as(xs, E8), right, read_as(ys, E8), acc)

        thread = tkw.broadcast(tkw.scalar(THREAD_0, tkl.i32), [M, N])
        all_threads = tkl.Register[M, N, tkl.i32](1000)
        tkw.write(tkw.select(thread < all_threads, loop, loop * 0.0), c)

    a, b = Operand("f4e2m1fn", 48, 128, block, 29), Operand("f4e2m1fn", 40, 128, block, 30)
    c, _ = run(kernel, target, a, b, (32, 32, 128))
    check(c, a, b)


def test_remark():
    a, b = Operand("f4e2m1fn", 16, 64, 32, 23), Operand("f8e5m2", 16, 64, 16, 24)
    said = {}
    for target in ("cpu", "sim:sm_80", "sim:gfx942", "sim:gfx950"):
        _, compiled = run(gemm(a, b), target, a, b, (32, 32, 64))
        said[target] = [r for r in map(str, compiled.remarks) if "R0611" in r]
    assert all(len(r) == 1 for r in said.values()), said
    assert "as f32" in said["cpu"][0] and "as bf16" in said["sim:sm_80"][0]
    assert "f4e2m1fn and f8e5m2 with one scale per 32 and 16 elements" in said["sim:gfx942"][0]


def test_instruction_is_kept():
    a, b = Operand("f4e2m1fn", 16, 128, 32, 25), Operand("f4e2m1fn", 16, 128, 32, 26)
    _, compiled = run(gemm(a, b), "sim:gfx950", a, b, (32, 32, 128))
    assert not any("R0611" in str(r) for r in compiled.remarks)
    assert any("F6F4" in str(r) for r in compiled.remarks)


@pytest.mark.parametrize(
    "left, scale, dim, code, words",
    [
        (tkl.f16, E8, K / 32, "E0301", "floats of at most 8 bits"),
        (tkl.i8, E8, K / 32, "E0301", "floats of at most 8 bits"),
        (tkl.f8e5m2, tkl.i8, K / 32, "E0301", "floats of at most 8 bits"),
        (tkl.f8e5m2, tkl.f32, K / 32, "E0301", "floats of at most 8 bits"),
        (tkl.f8e5m2, E8, 2 * K / 3, "E0303", "equal blocks"),
        (tkl.f8e5m2, E8, 2 * K, "E0303", "equal blocks"),
        (tkl.f8e5m2, E8, B, "E0303", "no dimension is shared"),
    ],
)
def test_mistakes(left, scale, dim, code, words):
    @tkw.wave(header())
    def kernel(
        x: tkl.Memory[M, K, G, left],
        xs: tkl.Memory[M, dim, G, scale],
        y: tkl.Memory[N, K, G, left],
        ys: tkl.Memory[N, K / 32, G, E8],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        zero = tkl.Register[M, N, tkl.f32](0.0)
        product = tkw.scaled_mma(tkw.read(x), tkw.read(xs), tkw.read(y), tkw.read(ys), zero)
        tkw.write(product, c)

    with pytest.raises(CompileError, match=words) as error:
        wave_compile(WaveCompileOptions(subs={BM: 32, BN: 32, BK: 64}, target="cpu"), kernel)
    assert code in str(error.value)


@TARGETS
def test_blocks_that_tiles_cut(target):
    """A tile of 48 elements is not a whole number of blocks of 32."""
    a, b = Operand("f4e2m1fn", 16, 96, 32, 27), Operand("f4e2m1fn", 16, 96, 32, 28)
    with pytest.raises(CompileError, match="K/32"):
        run(gemm(a, b), target, a, b, (32, 32, 48))
