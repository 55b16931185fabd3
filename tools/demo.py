#!/usr/bin/env python3
"""The demo: compiles real kernels for the devices of this machine, runs them and compares with NumPy.

make demo        or: PYTHONPATH=python tools/demo.py [--kernel NAME] [--target NAME] [--show]

Targets are `cpu`, this machine's processor, `cuda` where there is a GPU (and PyTorch, for its
tensors), and `eval`, the reference evaluator, where no libLLVM can be loaded.
"""

import argparse
import math
import sys
import time

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import _wave
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave.compile import WaveCompileOptions, wave_compile

B, M, N, K, K1, K2 = (tkl.sym.B, tkl.sym.M, tkl.sym.N, tkl.sym.K, tkl.sym.K1, tkl.sym.K2)
BLOCK_M, BLOCK_N, BLOCK_K = tkl.sym.BLOCK_M, tkl.sym.BLOCK_N, tkl.sym.BLOCK_K
BLOCK_B, BLOCK_K2 = tkl.sym.BLOCK_B, tkl.sym.BLOCK_K2
GLOBAL = GLOBAL_ADDRESS_SPACE
rng = np.random.default_rng(1)


def half(*shape):
    return rng.standard_normal(shape).astype(np.float16)


def exact(x):
    return x.astype(np.float64)


def single(x):
    return x.astype(np.float32)


class Case:
    """A kernel, values for its symbols, arguments (the result is the last), the same in NumPy, in
    any precision, and how far from float64 a result may be."""

    def __init__(self, kernel, subs, args, compute, tolerance):
        self.kernel, self.subs, self.args = kernel, subs, args
        self.compute, self.tolerance = compute, tolerance


# ---- the kernels ----


def copy():
    """A masked copy: no tile size divides 1111 x 813."""

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

    a = half(1111, 813)
    subs = {M: 1111, N: 813, BLOCK_M: 1, BLOCK_N: 256}
    return Case(copy, subs, [a, np.zeros_like(a)], lambda to: to(a), 0)


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

    a = rng.standard_normal((1024, 1024)).astype(np.float32)

    def compute(to):
        e = np.exp(to(a) - to(a).max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return Case(softmax, {M: 1024, N: 1024}, [a, np.zeros_like(a)], compute, 1e-6)


def gemm():
    """A matrix product with edges: 500 x 390 x 300 in tiles of 64 x 64 x 64."""

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

    a, b = half(500, 300), half(390, 300)
    subs = {M: 500, N: 390, K: 300, BLOCK_M: 64, BLOCK_N: 64, BLOCK_K: 64}
    args = [a, b, np.zeros((500, 390), np.float32)]
    return Case(gemm, subs, args, lambda to: to(a) @ to(b).T, 1e-3)


def convolution():
    """A 3 x 3 convolution as one matrix product: 4-D tensors read through index mappings."""
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

    x, f = half(2, 30, 30, 32), half(3, 3, 32, 64)

    def compute(to):
        wide, taps = to(x), [(h, w) for h in range(3) for w in range(3)]
        return sum(wide[:, h : h + 28, w : w + 28, :] @ to(f)[h, w] for h, w in taps)

    subs = {N: 2, H: 30, W: 30, C: 32, HF: 3, WF: 3, NF: 64}
    subs |= {BLOCK_M: 64, BLOCK_N: 64, BLOCK_K: 32}
    args = [x, f, np.zeros((2, 28, 28, 64), np.float32)]
    return Case(convolution, subs, args, compute, 1e-3)


def attention():
    """Softmax(Q Kᵀ) V in one pass over 500 keys in tiles of 32, three values carried."""
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

    q, keys, values = half(8, 256, head), half(8, 500, head), half(8, head, 500)

    def compute(to):
        s = to(q) @ to(keys).transpose(0, 2, 1) * to(np.array(head**-0.5))
        p = np.exp(s - s.max(axis=2, keepdims=True))
        return p / p.sum(axis=2, keepdims=True) @ to(values).transpose(0, 2, 1)

    subs = {B: 8, M: 256, N: head, K1: head, K2: 500}
    subs |= {BLOCK_B: 1, BLOCK_M: 32, BLOCK_N: head, BLOCK_K2: 32}
    args = [q, keys, values, np.zeros((8, 256, head), np.float32)]
    return Case(attention, subs, args, compute, 2e-3)


KERNELS = [copy, softmax, gemm, convolution, attention]


# ---- the table ----

ROW = "{:12s} {:34s} {:6s} {:>10s} {:>10s} {:>10s} {:>9s}  {}"
HEAD = "kernel", "arguments", "target", "compile", "run", "NumPy f32", "error", ""


def devices_here():
    """Targets of this machine and what they are in words."""
    found = {}
    for device in _wave.devices():
        if device.kind == "cpu" or (device.kind == "cuda" and has_torch()):
            found.setdefault(device.kind, device.name)
    return found or {"eval": "the reference evaluator: there is no libLLVM here"}


def has_torch():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def milliseconds(function):
    start = time.perf_counter()
    result = function()
    return result, 1e3 * (time.perf_counter() - start)


def best_of(function, seconds=0.3):
    """The quickest of some runs, in milliseconds."""
    best, end = math.inf, time.perf_counter() + seconds
    while best == math.inf or time.perf_counter() < end:
        best = min(best, milliseconds(function)[1])
    return best


def call_of(kernel, case, target):
    """A call with all arguments that waits for its result, and where that lies."""
    if target != "cuda":
        return lambda: kernel(*case.args), lambda: case.args[-1]
    import torch

    args = [torch.from_numpy(a).cuda() for a in case.args]

    def call():
        kernel(*args)
        torch.cuda.synchronize()

    return call, lambda: args[-1].cpu().numpy()


def show(name, case, target, with_ir):
    """One row of the table; true when the kernel is right."""
    options = WaveCompileOptions(subs=case.subs, target=target)
    kernel, compile_ms = milliseconds(lambda: wave_compile(options, case.kernel))
    call, result = call_of(kernel, case, target)
    case.args[-1].fill(np.nan)
    call()
    error = np.abs(exact(result()) - case.compute(exact)).max()
    right = error <= case.tolerance
    run_ms = best_of(call) if target != "eval" else milliseconds(call)[1]
    times = [compile_ms, run_ms, best_of(lambda: case.compute(single))]
    shapes = " ".join("x".join(map(str, a.shape)) for a in case.args)
    cells = *(f"{t:.3g} ms" for t in times), f"{error:.1e}", "ok" if right else "WRONG"
    print(ROW.format(name, shapes, target, *cells), flush=True)
    if with_ir:
        print(kernel.ir)
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kernel", help="only this one")
    parser.add_argument("--target", help="only this one: cpu, cuda, eval")
    parser.add_argument("--show", action="store_true", help="print the IR of each kernel")
    args = parser.parse_args()
    chosen = [k for k in KERNELS if args.kernel in (None, k.__name__)]
    targets = {args.target: "asked for"} if args.target else devices_here()
    for target, what in targets.items():
        print(f"target `{target}`: {what}")
    print("\n" + ROW.format(*HEAD))
    wrong, ran = [], 0
    for make in chosen:
        case = make()
        for target in targets:
            ran += 1
            if not show(make.__name__, case, target, args.show):
                wrong.append(f"{make.__name__} on {target}")
    print(f"\nWRONG: {', '.join(wrong)}" if wrong else f"\nAll {ran} agree with NumPy in float64.")
    return bool(wrong) or not chosen


if __name__ == "__main__":
    sys.exit(main())
