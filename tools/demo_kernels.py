"""The kernels of the demo: what each computes, the same in NumPy and in PyTorch.

They are written as for a GPU; nothing in them is specific to CPUs.
"""

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.lang.global_symbols import *

B, M, N, K, K1, K2 = (tkl.sym.B, tkl.sym.M, tkl.sym.N, tkl.sym.K, tkl.sym.K1, tkl.sym.K2)
BLOCK_M, BLOCK_N, BLOCK_K = tkl.sym.BLOCK_M, tkl.sym.BLOCK_N, tkl.sym.BLOCK_K
BLOCK_B, BLOCK_K2 = tkl.sym.BLOCK_B, tkl.sym.BLOCK_K2
GLOBAL = GLOBAL_ADDRESS_SPACE


@dataclass
class Case:
    """A kernel and what it should compute.

    subs        values of its symbols
    tiles       the sizes of its tiles on CPUs and on GPUs: the only difference between them
    inputs      its arguments except the last, which is the result
    result      the last argument: its shape and type
    numpy       the result from the inputs, in their precision
    torch       (torch, inputs as tensors): a function without parameters that computes the result
    operations  of one run: additions and multiplications, functions counted as one
    allowed     how far from float64 a result may be
    """

    kernel: Any
    subs: dict
    tiles: dict
    inputs: list
    result: np.ndarray
    numpy: Callable
    torch: Callable
    operations: float
    allowed: float

    def symbols(self, target):
        return {**self.subs, **self.tiles["cuda" if target == "cuda" else "cpu"]}


def tiles(names, cpu, cuda):
    return {"cpu": dict(zip(names, cpu)), "cuda": dict(zip(names, cuda))}


def half(*shape):
    rng = np.random.default_rng(len(shape) + sum(shape))
    return rng.standard_normal(shape).astype(np.float16)


def copy():
    """A masked copy: no tile size divides 4111 x 2813."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: BLOCK_M, N: BLOCK_N}),
            tkw.WorkgroupConstraint(M, BLOCK_M, 1),
            tkw.WorkgroupConstraint(N, BLOCK_N, 0),
            tkw.WaveConstraint(M, BLOCK_M),
            tkw.WaveConstraint(N, BLOCK_N),
        ]
    )
    def copy(a: tkl.Memory[M, N, GLOBAL, tkl.f16], b: tkl.Memory[M, N, GLOBAL, tkl.f16]):
        tkw.write(tkw.read(a), b)

    a = half(4111, 2813)
    subs, sizes = {M: 4111, N: 2813}, tiles([BLOCK_M, BLOCK_N], (16, 4096), (1, 256))
    with_torch = lambda torch, a: lambda: a.clone()
    return Case(copy, subs, sizes, [a], np.zeros_like(a), np.copy, with_torch, 0, 0)


def softmax():
    """Reductions along a row, and their results broadcast back."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: N}),
            tkw.WorkgroupConstraint(M, 1, 1),
            tkw.WorkgroupConstraint(N, N, 0),
            tkw.WaveConstraint(M, 1),
            tkw.WaveConstraint(N, N),
        ]
    )
    def softmax(a: tkl.Memory[M, N, GLOBAL, tkl.f32], b: tkl.Memory[M, N, GLOBAL, tkl.f32]):
        x = tkw.read(a)
        e = tkw.exp(x - tkw.broadcast(tkw.max(x, dim=N), [M, N]))
        tkw.write(e / tkw.broadcast(tkw.sum(e, dim=N), [M, N]), b)

    a = half(2048, 2048).astype(np.float32)

    def with_numpy(a):
        e = np.exp(a - a.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    with_torch = lambda torch, a: lambda: torch.softmax(a, dim=1)
    subs, result = {M: a.shape[0], N: a.shape[1]}, np.zeros_like(a)
    return Case(
        softmax, subs, tiles([], [], []), [a], result, with_numpy, with_torch, 5 * a.size, 1e-6
    )


def gemm():
    """A matmul with partial tiles: 1000 x 1001 x 1003 whatever the tiles."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, BLOCK_M, 0),
            tkw.WorkgroupConstraint(N, BLOCK_N, 1),
            tkw.TilingConstraint(K, BLOCK_K),
            tkw.WaveConstraint(M, BLOCK_M / 2),
            tkw.WaveConstraint(N, BLOCK_N / 2),
        ]
    )
    def gemm(
        a: tkl.Memory[M, K, GLOBAL, tkl.f16],
        b: tkl.Memory[N, K, GLOBAL, tkl.f16],
        c: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    m, n, k = 1000, 1001, 1003
    inputs, result = [half(m, k), half(n, k)], np.zeros((m, n), np.float32)
    subs, blocks = {M: m, N: n, K: k}, [BLOCK_M, BLOCK_N, BLOCK_K]
    sizes = tiles(blocks, (128, 192, 256), (64, 64, 64))
    with_torch = lambda torch, a, b: lambda: a @ b.T
    with_numpy = lambda a, b: a @ b.T
    return Case(gemm, subs, sizes, inputs, result, with_numpy, with_torch, 2.0 * m * n * k, 2e-3)


def convolution():
    """A 3 x 3 convolution as one matmul: 4-D tensors read through index mappings."""
    H, W, C, HF, WF, NF = (tkl.sym.H, tkl.sym.W, tkl.sym.C, tkl.sym.HF, tkl.sym.WF, tkl.sym.NF)
    H_OUT, W_OUT = H - HF + 1, W - WF + 1
    pixels, taps = H_OUT * W_OUT * N, HF * WF * C
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    image, row, column = i // (H_OUT * W_OUT), i % (H_OUT * W_OUT) // W_OUT, i % W_OUT
    read_x = tkw.IndexMapping(
        num_iterators=2,
        inputs={N: image, H: row + j // (C * WF), W: column + j // C % WF, C: j % C},
        outputs={pixels: i, taps: j},
    )
    read_f = tkw.IndexMapping(
        num_iterators=2,
        inputs={HF: j // (C * WF), WF: j // C % WF, C: j % C, NF: i},
        outputs={NF: i, taps: j},
    )
    write_y = tkw.IndexMapping(
        num_iterators=2,
        inputs={pixels: i, NF: j},
        outputs={N: image, H_OUT: row, W_OUT: column, NF: j},
    )

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(pixels, BLOCK_M, 0),
            tkw.WorkgroupConstraint(NF, BLOCK_N, 1),
            tkw.TilingConstraint(taps, BLOCK_K),
            tkw.WaveConstraint(pixels, BLOCK_M),
            tkw.WaveConstraint(NF, BLOCK_N),
        ]
    )
    def convolution(
        x: tkl.Memory[N, H, W, C, GLOBAL, tkl.f16],
        f: tkl.Memory[HF, WF, C, NF, GLOBAL, tkl.f16],
        y: tkl.Memory[N, H_OUT, W_OUT, NF, GLOBAL, tkl.f32],
    ):
        zero = tkl.Register[pixels, NF, tkl.f32](0.0)

        @tkw.iterate(taps, init_args=[zero])
        def product(acc):
            return tkw.mma(tkw.read(x, mapping=read_x), tkw.read(f, mapping=read_f), acc)

        tkw.write(product, y, mapping=write_y)

    n, size, c, filters = 4, 58, 64, 128
    out = size - 2

    def with_numpy(x, f):
        near = [(h, w) for h in range(3) for w in range(3)]
        return sum(x[:, h : h + out, w : w + out, :] @ f[h, w] for h, w in near)

    def with_torch(torch, x, f):
        last = torch.channels_last  # the fastest memory format for its convolutions, and ours
        x, f = x.permute(0, 3, 1, 2), f.permute(3, 2, 0, 1).contiguous(memory_format=last)
        return lambda: torch.nn.functional.conv2d(x, f).permute(0, 2, 3, 1)

    subs = {N: n, H: size, W: size, C: c, HF: 3, WF: 3, NF: filters}
    sizes = tiles([BLOCK_M, BLOCK_N, BLOCK_K], (256, 128, 64), (64, 64, 32))
    inputs = [half(n, size, size, c), half(3, 3, c, filters)]
    result = np.zeros((n, out, out, filters), np.float32)
    operations = 2.0 * result.size * 9 * c
    return Case(convolution, subs, sizes, inputs, result, with_numpy, with_torch, operations, 2e-3)


def attention():
    """Softmax(Q Kᵀ) V in one pass over 1000 keys, three values carried."""
    i, j, k = (tkw.IndexMapping.iterator(n) for n in range(3))
    transposed = tkw.IndexMapping(
        num_iterators=3, inputs={B: i, N: j, M: k}, outputs={B: i, M: k, N: j}
    )
    log2e, head = 1.4426950408889634, 64

    @tkw.wave(
        [
            tkw.HardwareConstraint(
                threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16, vector_shapes={B: 0}
            ),
            tkw.WorkgroupConstraint(M, BLOCK_M, 0),
            tkw.WorkgroupConstraint(N, BLOCK_N, 1),
            tkw.WorkgroupConstraint(B, BLOCK_B, 2),
            tkw.TilingConstraint(K2, BLOCK_K2),
            tkw.WaveConstraint(M, BLOCK_M / 2),
            tkw.WaveConstraint(N, BLOCK_N),
        ]
    )
    def attention(
        q: tkl.Memory[B, M, K1, GLOBAL, tkl.f16],
        keys: tkl.Memory[B, K2, K1, GLOBAL, tkl.f16],
        values: tkl.Memory[B, N, K2, GLOBAL, tkl.f16],
        out: tkl.Memory[B, M, N, GLOBAL, tkl.f32],
    ):
        scale = tkl.Register[B, M, K2, tkl.f32](log2e * head**-0.5)
        zero = tkl.Register[M, K2, tkl.f32](0.0)
        hidden = tkl.Register[M, K2, tkl.f32](-1e6)
        largest = tkl.Register[B, M, tkl.f32](-1e6)
        total = tkl.Register[B, M, tkl.f32](0.0)
        acc = tkl.Register[B, N, M, tkl.f32](0.0)

        @tkw.iterate(K2, init_args=[largest, total, acc])
        def scan(largest, total, acc):
            s = tkw.mma(tkw.read(keys), tkw.read(q), tkl.Register[B, K2, M, tkl.f32](0.0))
            s = tkw.permute(s, target_shape=[B, M, K2]) * scale
            real = tkw.apply_expr(tkw.self_index(K2, tkl.i32), lambda x: x < K2)
            real = tkw.cast(tkw.broadcast(real, target_shape=[M, K2]), tkw.i1)
            s = s + tkw.select(real, zero, hidden)
            new = tkw.max(s, largest, dim=K2)
            shrink = tkw.exp2(largest - new)
            p = tkw.exp2(s - new)
            total = tkw.sum(p, total * shrink, dim=K2)
            acc = tkw.mma(tkw.read(values), tkw.cast(p, tkl.f16), acc * shrink)
            return new, total, acc

        largest, total, acc = scan
        tkw.write(acc / total, out, mapping=transposed)

    heads, queries, count = 8, 512, 1000

    def with_numpy(q, keys, values):
        s = q @ keys.transpose(0, 2, 1) * q.dtype.type(head**-0.5)
        p = np.exp(s - s.max(axis=2, keepdims=True))
        return p / p.sum(axis=2, keepdims=True) @ values.transpose(0, 2, 1)

    def with_torch(torch, q, keys, values):
        values = values.transpose(1, 2).contiguous()
        fused = torch.nn.functional.scaled_dot_product_attention
        return lambda: fused(q[None], keys[None], values[None])[0]

    subs = {B: heads, M: queries, N: head, K1: head, K2: count}
    subs |= {BLOCK_B: 1, BLOCK_N: head}
    sizes = tiles([BLOCK_M, BLOCK_K2], (128, 128), (64, 32))
    inputs = [half(heads, queries, head), half(heads, count, head), half(heads, head, count)]
    result = np.zeros((heads, queries, head), np.float32)
    operations = 4.0 * heads * queries * count * head
    return Case(attention, subs, sizes, inputs, result, with_numpy, with_torch, operations, 2e-3)


KERNELS = [copy, softmax, gemm, convolution, attention]
