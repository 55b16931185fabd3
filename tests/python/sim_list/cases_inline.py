"""Kernels with inline PTX. On an NVIDIA GPU the instructions run, elsewhere their `meaning`: both
are compared with the same reference."""

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from sim_cases import Case, Tensor
from wave_lang.kernel.lang.global_symbols import *

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
G = GLOBAL_ADDRESS_SPACE
RELU_SQUARED = ".reg .f32 t; max.f32 t, $1, 0f00000000; mul.f32 $0, t, t;"
# The exponent of $1 is raised by $2.
SCALE = "{ .reg .b32 bits, up; mov.b32 bits, $1; shl.b32 up, $2, 23; add.s32 up, bits, up; mov.b32 $0, up; }"


def tiles(bm, bn, waves=1):
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: bn}),
        tkw.WorkgroupConstraint(M, bm, 1),
        tkw.WorkgroupConstraint(N, bn, 0),
        tkw.WaveConstraint(M, bm // waves),
    ]


def row_sums(bm, bn, volatile=False, dynamic=False):
    """The sum of 2**(x/4) along rows, tile by tile: elements beyond the row are not added."""

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: bn}),
                tkw.WorkgroupConstraint(M, bm, 0),
                tkw.TilingConstraint(N, bn),
                tkw.WaveConstraint(M, bm),
            ]
        )
        def sums(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
            @tkw.iterate(N, init_args=[tkl.Register[M, tkl.f32](0.0)])
            def body(total):
                e = tkw.inline_ptx(
                    "ex2.approx.ftz.f32 $0, $1;",
                    tkw.read(x) * 0.25,
                    tkl.f32,
                    meaning=tkw.exp2,
                    volatile=volatile,
                )
                return tkw.sum(e, total, dim=N)

            tkw.write(body, y)

        return sums

    return Case(
        f"inline_sums_{bm}x{bn}" + "_volatile" * volatile + "_dynamic" * dynamic,
        make,
        around={M: bm, N: bn},
        inputs=(Tensor("f32", (M, N)),),
        outputs=(Tensor("f32", (M,)),),
        reference=lambda x, **_: np.exp2(x / 4).sum(1),
        dynamic=(M, N) if dynamic else (),
    )


def half_fma(bm, bn):
    """16-bit floats, with operands that lack dimensions."""

    def wide(x, scale, bias):
        x, scale, bias = (tkw.cast(v, tkl.f32) for v in (x, scale, bias))
        return tkw.cast(x * scale + bias, tkl.f16)

    def make():
        @tkw.wave(tiles(bm, bn))
        def scaled(
            x: tkl.Memory[M, N, G, tkl.f16],
            s: tkl.Memory[N, G, tkl.f16],
            b: tkl.Memory[M, G, tkl.f16],
            y: tkl.Memory[M, N, G, tkl.f16],
        ):
            inputs = (tkw.read(x), tkw.read(s), tkw.read(b))
            r = tkw.inline_ptx("fma.rn.f16 $0, $1, $2, $3;", inputs, tkl.f16, meaning=wide)
            tkw.write(r, y)

        return scaled

    return Case(
        f"inline_half_{bm}x{bn}",
        make,
        around={M: bm, N: bn},
        inputs=tuple(Tensor("f16", dims) for dims in ((M, N), (N,), (M,))),
        outputs=(Tensor("f16", (M, N)),),
        reference=lambda x, s, b, **_: (x * s + b[:, None], np.abs(x * s) + np.abs(b[:, None])),
    )


def bits_counted(bm, bn, waves):
    def counted(x):
        x = x - ((x >> 1) & 0x55555555)
        x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
        x = (x + (x >> 4)) & 0x0F0F0F0F
        return (x + (x >> 8) + (x >> 16) + (x >> 24)) & 63

    def make():
        @tkw.wave(tiles(bm, bn, waves))
        def bits(x: tkl.Memory[M, N, G, tkl.i32], y: tkl.Memory[M, N, G, tkl.i32]):
            r = tkw.inline_ptx("popc.b32 $0, $1;", (tkw.read(x),), tkl.i32, meaning=counted)
            tkw.write(r, y)

        return bits

    return Case(
        f"inline_bits_{bm}x{bn}_w{waves}",
        make,
        around={M: bm, N: bn},
        inputs=(Tensor("i32", (M, N), (0, 2**31 - 1)),),
        outputs=(Tensor("i32", (M, N)),),
        reference=lambda x, **_: sum((x.astype(np.int64) >> i) & 1 for i in range(32)),
    )


def scaled_by_powers(bm, bn):
    """Operands of two types, several instructions, registers of their own."""

    def make():
        @tkw.wave(tiles(bm, bn))
        def scaled(
            x: tkl.Memory[M, N, G, tkl.f32],
            k: tkl.Memory[N, G, tkl.i32],
            y: tkl.Memory[M, N, G, tkl.f32],
        ):
            r = tkw.inline_ptx(
                SCALE,
                (tkw.read(x), tkw.read(k)),
                tkl.f32,
                meaning=lambda x, k: x * tkw.exp2(tkw.cast(k, tkl.f32)),
            )
            tkw.write(r, y)

        return scaled

    return Case(
        f"inline_powers_{bm}x{bn}",
        make,
        around={M: bm, N: bn},
        inputs=(Tensor("f32", (M, N), (1, 99)), Tensor("i32", (N,), (-9, 9))),
        outputs=(Tensor("f32", (M, N)),),
        reference=lambda x, k, **_: x * 2.0**k,
        exact=True,
    )


def products_in_64_bits(block):
    def make():
        @tkw.wave([tkw.HardwareConstraint(threads_per_wave=64), tkw.WorkgroupConstraint(N, block, 0)])
        def products(
            a: tkl.Memory[N, G, tkl.i32], b: tkl.Memory[N, G, tkl.i32], y: tkl.Memory[N, G, tkl.i32]
        ):
            x, z = tkw.read(a), tkw.read(b)
            r = tkw.inline_ptx(
                "mad.wide.s32 $0, $1, $2, $3;",
                (x, z, tkw.cast(x, tkl.i64)),
                tkl.i64,
                meaning=lambda x, z, c: tkw.cast(x, tkl.i64) * tkw.cast(z, tkl.i64) + c,
            )
            tkw.write(tkw.cast(r >> 24, tkl.i32), y)

        return products

    return Case(
        f"inline_wide_{block}",
        make,
        around={N: block},
        inputs=(Tensor("i32", (N,), (-(2**26), 2**26)),) * 2,
        outputs=(Tensor("i32", (N,)),),
        reference=lambda a, b, **_: (a.astype(np.int64) * b.astype(np.int64) + a.astype(np.int64)) >> 24,
    )


def gemm_epilogue(bm, bn, bk, dynamic=False):
    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
                tkw.WorkgroupConstraint(M, bm, 0),
                tkw.WorkgroupConstraint(N, bn, 1),
                tkw.TilingConstraint(K, bk),
                tkw.WaveConstraint(M, bm // 2),
            ]
        )
        def gemm(
            a: tkl.Memory[M, K, G, tkl.f16],
            b: tkl.Memory[N, K, G, tkl.f16],
            c: tkl.Memory[M, N, G, tkl.f32],
        ):
            @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
            def product(acc):
                return tkw.mma(tkw.read(a), tkw.read(b), acc)

            zero = tkw.inline_ptx(
                RELU_SQUARED, product, tkl.f32, meaning=lambda x: tkw.maximum(x, 0.0) * tkw.maximum(x, 0.0)
            )
            tkw.write(zero, c)

        return gemm

    def reference(a, b, **_):
        exact, size = a @ b.T, np.abs(a) @ np.abs(b).T
        return np.maximum(exact, 0) ** 2, 2 * size * size

    return Case(
        f"inline_gemm_{bm}x{bn}x{bk}" + "_dynamic" * dynamic,
        make,
        around={M: bm, N: bn, K: bk},
        inputs=(Tensor("f16", (M, K)), Tensor("f16", (N, K))),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
        dynamic=(M, N, K) if dynamic else (),
    )


def quotient_and_rest(bm, bn, dynamic=False, volatile=False):
    """Two results of one text, both used."""

    def make():
        @tkw.wave(tiles(bm, bn))
        def divided(
            x: tkl.Memory[M, N, G, tkl.i32],
            d: tkl.Memory[N, G, tkl.i32],
            q: tkl.Memory[M, N, G, tkl.i32],
            r: tkl.Memory[M, N, G, tkl.i32],
        ):
            quotient, rest = tkw.inline_ptx(
                "div.s32 $0, $2, $3; rem.s32 $1, $2, $3;",
                (tkw.read(x), tkw.read(d)),
                (tkl.i32, tkl.i32),
                meaning=lambda x, d: (x / d, x - (x / d) * d),
                volatile=volatile,
            )
            tkw.write(quotient, q)
            tkw.write(rest + quotient, r)

        return divided

    return Case(
        f"inline_quotient_{bm}x{bn}" + "_dynamic" * dynamic + "_volatile" * volatile,
        make,
        around={M: bm, N: bn},
        dynamic=(M, N) if dynamic else (),
        inputs=(Tensor("i32", (M, N), (0, 999)), Tensor("i32", (N,), (1, 9))),
        outputs=(Tensor("i32", (M, N)), Tensor("i32", (M, N))),
        reference=lambda x, d, **_: (x // d, x % d + x // d),
        exact=True,
    )


def mixed_results(bm, bn):
    """Three results of three types; one of them is not used."""

    def make():
        @tkw.wave(tiles(bm, bn))
        def mixed(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32]):
            whole, _, half = tkw.inline_ptx(
                "cvt.rmi.s32.f32 $0, $3; cvt.s64.s32 $1, $0; mul.f32 $2, $3, 0f3F000000;",
                tkw.read(x),
                [tkl.i32, tkl.i64, tkl.f32],
                meaning=lambda x: (
                    tkw.cast(tkw.floor(x), tkl.i32),
                    tkw.cast(tkw.floor(x), tkl.i64),
                    x * 0.5,
                ),
            )
            tkw.write(tkw.cast(whole, tkl.f32) + half, y)

        return mixed

    return Case(
        f"inline_mixed_{bm}x{bn}",
        make,
        around={M: bm, N: bn},
        inputs=(Tensor("f32", (M, N)),),
        outputs=(Tensor("f32", (M, N)),),
        reference=lambda x, **_: (np.floor(x) + x / 2, np.abs(x) * 2 + 1),
    )


CASES = [
    quotient_and_rest(4, 64),
    quotient_and_rest(3, 50, dynamic=True),
    quotient_and_rest(2, 33, volatile=True),
    mixed_results(5, 40),
    row_sums(4, 64),
    row_sums(3, 40, dynamic=True),
    row_sums(2, 96, volatile=True),
    half_fma(4, 64),
    half_fma(3, 50),
    bits_counted(4, 64, 2),
    scaled_by_powers(5, 33),
    products_in_64_bits(100),
    gemm_epilogue(64, 32, 32),
    gemm_epilogue(48, 48, 16, dynamic=True),
]
