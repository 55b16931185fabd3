"""Kernels whose tiles are as large as a tensor: compiled when they are called, for each power of two."""

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from number_formats import wave_type
from sim_cases import Case, Tensor
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K


def rows(bm, *more):
    return [tkw.HardwareConstraint(threads_per_wave=64), tkw.WorkgroupConstraint(M, bm, 0), *more]


def softmax(dtype, bm, bn, waves=1):
    """The tile is a whole row; waves divide it, or none are declared."""
    t = wave_type(dtype)
    header = rows(bm)
    if waves > 1:
        header = [
            tkw.HardwareConstraint(threads_per_wave=64),
            tkw.WorkgroupConstraint(M, bm, 1),
            tkw.WorkgroupConstraint(N, N, 0),
            tkw.WaveConstraint(N, tkl.ceiling(N / waves)),
        ]
    block = {"block": True} if waves > 1 else {}

    def make():
        @tkw.wave(header)
        def softmax(a: tkl.Memory[M, N, G, t], b: tkl.Memory[M, N, G, tkl.f32]):
            x = tkw.cast(tkw.read(a), tkl.f32)
            e = tkw.exp(x - tkw.broadcast(tkw.max(x, dim=N, **block), [M, N]))
            tkw.write(e / tkw.broadcast(tkw.sum(e, dim=N, **block), [M, N]), b)

        return softmax

    def reference(a, **_):
        e = np.exp(a - a.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True), 1.0

    return Case(
        f"open_softmax_{dtype}_{bm}x{bn}" + f"_w{waves}" * (waves > 1),
        make,
        around={M: bm, N: bn},
        inputs=(Tensor(dtype, (M, N)),),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
        dynamic=(M, N),
        open=True,
    )


def columns(dtype, bm, bn):
    """Both dimensions are whole: sums of rows and of columns, and the position of the largest
    element."""
    t = wave_type(dtype)

    def make():
        @tkw.wave([tkw.HardwareConstraint(threads_per_wave=64), tkw.GridConstraint(1)])
        def columns(
            a: tkl.Memory[M, N, G, t],
            b: tkl.Memory[M, G, t],
            c: tkl.Memory[N, G, t],
            d: tkl.Memory[M, G, tkl.i32],
        ):
            x = tkw.read(a)
            tkw.write(tkw.sum(x, dim=N), b)
            tkw.write(tkw.sum(x, dim=M), c)
            tkw.write(tkw.argmax(x, dim=N)[1], d)

        return columns

    def reference(a, **_):
        size = np.abs(a)
        return [(a.sum(1), size.sum(1)), (a.sum(0), size.sum(0)), a.argmax(1)]

    return Case(
        f"open_columns_{dtype}_{bm}x{bn}",
        make,
        around={M: bm, N: bn},
        inputs=(Tensor(dtype, (M, N)),),
        outputs=(Tensor(dtype, (M,)), Tensor(dtype, (N,)), Tensor("i32", (M,))),
        reference=reference,
        dynamic=(M, N),
        open=True,
    )


def product(bm, bn, bk):
    """All of K at once."""

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(
                    threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16
                ),
                tkw.WorkgroupConstraint(M, bm, 0),
                tkw.WorkgroupConstraint(N, bn, 1),
            ]
        )
        def product(
            a: tkl.Memory[M, K, G, tkl.f16],
            b: tkl.Memory[N, K, G, tkl.f16],
            c: tkl.Memory[M, N, G, tkl.f32],
        ):
            zero = tkl.Register[M, N, tkl.f32](0.0)
            tkw.write(tkw.mma(tkw.read(a), tkw.read(b), zero), c)

        return product

    def reference(a, b, **_):
        return a @ b.T, np.abs(a) @ np.abs(b).T

    return Case(
        f"open_product_f16_{bm}x{bn}x{bk}",
        make,
        around={M: bm, N: bn, K: bk},
        inputs=(Tensor("f16", (M, K)), Tensor("f16", (N, K))),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
        dynamic=(M, N, K),
        open=True,
    )


CASES = [
    softmax("f32", 2, 64),
    softmax("f16", 1, 1000),
    softmax("bf16", 3, 40),
    softmax("f32", 1, 256, waves=4),
    columns("i32", 5, 33),
    columns("f32", 8, 64),
    product(16, 16, 48),
]
