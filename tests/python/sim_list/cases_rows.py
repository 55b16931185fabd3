"""Kernels without a matmul: copies, elementwise code, casts, transposes, rows."""

import math

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from number_formats import FP8, STORAGE, decode, encode, wave_type
from sim_cases import Case, Tensor
from wave_lang.kernel.lang.global_symbols import *

M, N, P = tkl.sym.M, tkl.sym.N, tkl.sym.P
BM, BN = tkl.sym.BM, tkl.sym.BN
SPACE = tkl.sym.SPACE
G = GLOBAL_ADDRESS_SPACE
SPACES = {"global": GLOBAL_ADDRESS_SPACE, "shared": SHARED_ADDRESS_SPACE}


def tiles(waves=1, threads=64, vector=True):
    """Tiles of BM x BN; the waves divide N."""
    shapes = {M: BM, N: BN / waves} if vector else None
    return [
        tkw.HardwareConstraint(threads_per_wave=threads, vector_shapes=shapes),
        tkw.WorkgroupConstraint(M, BM, 1),
        tkw.WorkgroupConstraint(N, BN, 0),
        tkw.WaveConstraint(M, BM),
        tkw.WaveConstraint(N, BN / waves),
    ]


def around(bm, bn):
    """The dimensions of a case, and the values of its tile symbols."""
    return {"around": {M: bm, N: bn}, "subs": {BM: bm, BN: bn}}


# ---- copy ----------------------------------------------------------------------------------------


def copy(dtype, bm, bn, space="global", waves=1, dynamic=False):
    t = wave_type(dtype)

    def make():
        @tkw.wave(tiles(waves, vector=False))
        def copy(a: tkl.Memory[M, N, SPACE, t], b: tkl.Memory[M, N, G, t]):
            tkw.write(tkw.read(a), b)

        return copy

    case = around(bm, bn)
    case["subs"][SPACE] = SPACES[space]
    return Case(
        f"copy_{dtype}_{bm}x{bn}_{space}" + f"_w{waves}" * (waves > 1) + "_dynamic" * dynamic,
        make,
        inputs=(Tensor(dtype, (M, N)),),
        outputs=(Tensor(dtype, (M, N)),),
        reference=lambda a, **_: a,
        exact=True,
        dynamic=(M, N) if dynamic else (),
        **case,
    )


# ---- elementwise, broadcast, cast ----------------------------------------------------------------


def elementwise(dtype, bm, bn, waves=1):
    t = wave_type(dtype)

    def make():
        @tkw.wave(tiles(waves))
        def elementwise(
            a: tkl.Memory[M, N, G, t], b: tkl.Memory[M, N, G, t], c: tkl.Memory[M, N, G, t]
        ):
            x, y = tkw.read(a), tkw.read(b)
            tkw.write(tkw.select(x < y, x * y + x, tkw.maximum(x - y, -y)), c)

        return elementwise

    def reference(a, b, **_):
        exact = np.where(a < b, a * b + a, np.maximum(a - b, -b))
        return exact, np.abs(a * b) + np.abs(a) + np.abs(b)

    return Case(
        f"elementwise_{dtype}_{bm}x{bn}" + f"_w{waves}" * (waves > 1),
        make,
        inputs=(Tensor(dtype, (M, N)), Tensor(dtype, (M, N))),
        outputs=(Tensor(dtype, (M, N)),),
        reference=reference,
        **around(bm, bn),
    )


def functions(bm, bn):
    """The functions of one operand that a row kernel may need."""

    def make():
        @tkw.wave(tiles())
        def functions(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
            x = tkw.read(a)
            y = tkw.exp2(x) + tkw.sqrt(tkw.abs(x)) + tkw.tanh(x)
            tkw.write(y + tkw.reciprocal(x * x + 1.0) + tkw.sin(x), c)

        return functions

    def reference(a, **_):
        parts = [np.exp2(a), np.sqrt(np.abs(a)), np.tanh(a), 1 / (a * a + 1), np.sin(a)]
        return sum(parts), sum(map(np.abs, parts))

    return Case(
        f"functions_f32_{bm}x{bn}",
        make,
        inputs=(Tensor("f32", (M, N)),),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
        **around(bm, bn),
    )


def activations(bm, bn, waves=1):
    """GELU, SiLU and a logarithm; NaN elements are left out."""
    erf = np.vectorize(math.erf, otypes=["f8"])

    def make():
        @tkw.wave(tiles(waves))
        def activations(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
            x = tkw.read(a)
            gelu = 0.5 * x * (1.0 + tkw.erf(x * math.sqrt(0.5)))
            silu = x * tkw.sigmoid(x)
            log = tkw.log(x)
            log = tkw.select(tkw.isnan(log), tkw.floor(x) - tkw.ceil(x), log)
            tkw.write(gelu + silu + log, c)

        return activations

    def reference(a, **_):
        known = np.log(np.where(a > 0, a, 1))
        log = np.where(a > 0, known, np.floor(a) - np.ceil(a))
        parts = [0.5 * a * (1 + erf(a * math.sqrt(0.5))), a / (1 + np.exp(-a)), log]
        return sum(parts), sum(map(np.abs, parts)) + np.abs(a) + 1

    return Case(
        f"activations_f32_{bm}x{bn}" + f"_w{waves}" * (waves > 1),
        make,
        inputs=(Tensor("f32", (M, N)),),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
        **around(bm, bn),
    )


def hashed(bm, bn):
    """The bits of integers, mixed."""

    def make():
        @tkw.wave(tiles())
        def hashed(a: tkl.Memory[M, N, G, tkl.i32], c: tkl.Memory[M, N, G, tkl.i32]):
            x = tkw.read(a)
            x = x ^ (x << 13)
            x = x ^ ((x >> 17) & 0x7FFF)
            tkw.write((x ^ (x << 5)) | (~x & 1), c)

        return hashed

    def reference(a, **_):
        x = a.astype(np.int64).astype(np.int32)
        x = x ^ (x << 13)
        x = x ^ ((x >> 17) & 0x7FFF)
        x = (x ^ (x << 5)) | (~x & 1)
        return x.astype(np.float64), np.zeros(x.shape)

    return Case(
        f"hashed_i32_{bm}x{bn}",
        make,
        inputs=(Tensor("i32", (M, N)),),
        outputs=(Tensor("i32", (M, N)),),
        reference=reference,
        **around(bm, bn),
    )


def counted(bm, bn, dtype):
    """Unsigned integers: a row's elements divided by their largest, and its sum."""

    def make():
        T = wave_type(dtype)

        @tkw.wave(tiles())
        def counted(a: tkl.Memory[M, N, G, T], c: tkl.Memory[M, N, G, T]):
            x = tkw.read(a)
            low = tkw.minimum(x, ~x)
            tkw.write(((x >> 3) // (low | 1)) ^ (x % 7), c)

        return counted

    def reference(a, **_):
        x = a.astype(STORAGE[dtype])
        low = np.minimum(x, ~x)
        return (((x >> 3) // (low | 1)) ^ (x % 7)).astype(np.float64), np.zeros(x.shape)

    return Case(
        f"counted_{dtype}_{bm}x{bn}",
        make,
        inputs=(Tensor(dtype, (M, N)),),
        outputs=(Tensor(dtype, (M, N)),),
        reference=reference,
        **around(bm, bn),
    )


def broadcast(bm, bn, waves=1):
    """A row and a column are broadcast to a matrix."""

    def make():
        @tkw.wave(tiles(waves))
        def broadcast(
            a: tkl.Memory[M, N, G, tkl.f32],
            row: tkl.Memory[N, G, tkl.f32],
            column: tkl.Memory[M, G, tkl.f32],
            c: tkl.Memory[M, N, G, tkl.f32],
        ):
            scale = tkw.broadcast(tkw.read(column), [M, N])
            tkw.write(tkw.read(a) * scale + tkw.broadcast(tkw.read(row), [M, N]), c)

        return broadcast

    def reference(a, row, column, **_):
        product = a * column[:, None]
        return product + row, np.abs(product) + np.abs(row)

    return Case(
        f"broadcast_f32_{bm}x{bn}" + f"_w{waves}" * (waves > 1),
        make,
        inputs=(Tensor("f32", (M, N)), Tensor("f32", (N,)), Tensor("f32", (M,))),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
        **around(bm, bn),
    )


def rows_of_one(bm, bn, dynamic=False):
    """A row is written to a matrix: to every row of it, whatever the tiles."""

    def make():
        @tkw.wave(tiles())
        def rows_of_one(row: tkl.Memory[N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
            tkw.write(tkw.read(row), c)

        return rows_of_one

    return Case(
        f"rows_of_one_f32_{bm}x{bn}" + "_dynamic" * dynamic,
        make,
        inputs=(Tensor("f32", (N,)),),
        outputs=(Tensor("f32", (M, N)),),
        reference=lambda row, M, **_: np.broadcast_to(row, (M, row.size)),
        exact=True,
        dynamic=(M, N) if dynamic else (),
        **around(bm, bn),
    )


def cast(source, target, bm, bn):
    s, t = wave_type(source), wave_type(target)

    def make():
        @tkw.wave(tiles())
        def cast(a: tkl.Memory[M, N, G, s], b: tkl.Memory[M, N, G, t]):
            tkw.write(tkw.cast(tkw.read(a), t), b)

        return cast

    return Case(
        f"cast_{source}_{target}_{bm}x{bn}",
        make,
        inputs=(Tensor(source, (M, N)),),
        outputs=(Tensor(target, (M, N)),),
        reference=lambda a, **_: decode(target, encode(target, a)),
        exact=True,
        **around(bm, bn),
    )


# ---- transpose -----------------------------------------------------------------------------------


def transpose(dtype, bm, bn, side="read", space="global"):
    """b[M, N] = a[N, M]: the mapping is at the read or at the write."""
    t = wave_type(dtype)
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    there = tkw.IndexMapping(num_iterators=2, inputs={N: j, M: i}, outputs={M: i, N: j})
    back = tkw.IndexMapping(num_iterators=2, inputs={N: i, M: j}, outputs={M: j, N: i})

    def make():
        @tkw.wave(tiles())
        def transpose(a: tkl.Memory[N, M, SPACE, t], b: tkl.Memory[M, N, G, t]):
            if side == "read":
                tkw.write(tkw.read(a, mapping=there), b)
            else:
                tkw.write(tkw.read(a), b, mapping=back)

        return transpose

    case = around(bm, bn)
    case["subs"][SPACE] = SPACES[space]
    return Case(
        f"transpose_{dtype}_{bm}x{bn}_{side}_{space}",
        make,
        inputs=(Tensor(dtype, (N, M)),),
        outputs=(Tensor(dtype, (M, N)),),
        reference=lambda a, **_: a.T,
        exact=True,
        **case,
    )


def renamed(dtype, bm, bn, dynamic=False):
    """Rows of a tensor whose dimension has another name, with more or fewer rows."""
    t = wave_type(dtype)
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    rows = tkw.IndexMapping(num_iterators=2, inputs={P: i, N: j}, outputs={M: i, N: j})

    def make():
        @tkw.wave(tiles())
        def renamed(a: tkl.Memory[P, N, G, t], b: tkl.Memory[M, N, G, t]):
            tkw.write(tkw.read(a, mapping=rows, other=1.0), b)

        return renamed

    def reference(a, M, P, **_):
        return np.concatenate([a[:M], np.ones((max(M - P, 0), a.shape[1]))])

    case = around(bm, bn)
    case["around"][P] = bm
    return Case(
        f"renamed_{dtype}_{bm}x{bn}" + "_dynamic" * dynamic,
        make,
        inputs=(Tensor(dtype, (P, N)),),
        outputs=(Tensor(dtype, (M, N)),),
        reference=reference,
        exact=True,
        dynamic=(M, N, P) if dynamic else (),
        **case,
    )


# ---- rows: a workgroup holds whole rows
# ------------------------------------------------------------


def whole_rows(bm):
    """N is the tile: rows of any length, held by one wave."""
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: bm, N: N}),
        tkw.WorkgroupConstraint(M, bm, 1),
        tkw.WorkgroupConstraint(N, N, 0),
        tkw.WaveConstraint(M, bm),
        tkw.WaveConstraint(N, N),
    ]


def softmax_of(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax(dtype, bm, row):
    t = wave_type(dtype)

    def make():
        @tkw.wave(whole_rows(bm))
        def softmax(a: tkl.Memory[M, N, G, t], b: tkl.Memory[M, N, G, t]):
            x = tkw.cast(tkw.read(a), tkl.f32) if dtype != "f32" else tkw.read(a)
            e = tkw.exp(x - tkw.broadcast(tkw.max(x, dim=N), [M, N]))
            y = e / tkw.broadcast(tkw.sum(e, dim=N), [M, N])
            tkw.write(tkw.cast(y, t) if dtype != "f32" else y, b)

        return softmax

    return Case(
        f"softmax_{dtype}_{bm}x{row}",
        make,
        around={M: bm, N: row},
        inputs=(Tensor(dtype, (M, N)),),
        outputs=(Tensor(dtype, (M, N)),),
        reference=lambda a, **_: (softmax_of(a), softmax_of(a) + 2**-14),
    )


def best(bm, row):
    """The positions of the largest and the smallest element of a row, and a product along it."""

    def make():
        @tkw.wave(whole_rows(bm))
        def best(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]):
            x = tkw.read(a)
            high, place = tkw.argmax(x, dim=N)
            low, other = tkw.argmin(x, dim=N)
            share = tkw.prod(1.0 + (x - high) * 0.001, dim=N)
            tkw.write(tkw.cast(place * 100 + other, tkl.f32) + share, c)

        return best

    def reference(a, **_):
        share = (1 + (a - a.max(1, keepdims=True)) * 0.001).prod(1)
        exact = a.argmax(1) * 100 + a.argmin(1) + share
        return exact, np.abs(exact) + 1

    return Case(
        f"best_f32_{bm}x{row}",
        make,
        around={M: bm, N: row},
        inputs=(Tensor("f32", (M, N)),),
        outputs=(Tensor("f32", (M,)),),
        reference=reference,
    )


def log_add_exp(a, b):
    high = tkw.maximum(a, b)
    return high + tkw.log(tkw.exp(a - high) + tkw.exp(b - high))


def combined_rows(bm, row):
    """A reduction and a scan whose functions have no neutral element, in one wave."""

    def make():
        @tkw.wave(whole_rows(bm))
        def combined(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
            x = tkw.read(a)
            total = tkw.reduce(x, log_add_exp, -20.0, dim=N)
            peaks = tkw.scan(x, lambda p, q: tkw.maximum(tkw.abs(p), tkw.abs(q)), 0.0, dim=N)
            tkw.write(peaks - tkw.broadcast(total, [M, N]), c)

        return combined

    def reference(a, **_):
        total = np.logaddexp(np.logaddexp.reduce(a, 1, keepdims=True), -20)
        peaks = np.maximum.accumulate(np.abs(a), 1)
        return peaks - total, peaks + np.abs(total)

    return Case(
        f"combined_f32_{bm}x{row}",
        make,
        around={M: bm, N: row},
        inputs=(Tensor("f32", (M, N)),),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
    )


def combined_block(dtype, waves, per_wave):
    """The same with several waves and integers: some of the waves have nothing to combine."""
    t, step = wave_type(dtype), waves * per_wave

    def make():
        @tkw.wave(tiles(waves))
        def combined_block(a: tkl.Memory[M, N, G, t], b: tkl.Memory[M, G, t]):
            x = tkw.read(a)
            last = tkw.scan(x, lambda p, q: tkw.select(q > 0, q, p), 0, dim=N, block=True)
            mixed = tkw.reduce(last ^ x, lambda p, q: (p & 3) + (q & 3) & 3, 2, dim=N, block=True)
            tkw.write(mixed + tkw.reduce(x, lambda p, q: p ^ q, 5, dim=N, block=True), b)

        return combined_block

    def reference(a, **_):
        a = a.astype(np.int64)
        where = np.maximum.accumulate(np.where(a > 0, np.arange(a.shape[1]), -1), 1)
        last = np.where(where < 0, 0, np.take_along_axis(a, np.maximum(where, 0), 1))
        right = ((last ^ a).sum(1) + 2) % 4 + (np.bitwise_xor.reduce(a, 1) ^ 5)
        return right % 256 if dtype == "u8" else right

    return Case(
        f"combined_block_{dtype}_w{waves}x{per_wave}",
        make,
        around={M: 1, N: step},
        subs={BM: 1},
        derived=lambda sizes: {BN: -(-sizes[N] // step) * step},
        inputs=(Tensor(dtype, (M, N)),),
        outputs=(Tensor(dtype, (M,)),),
        reference=reference,
        exact=True,
    )


def rows_in_tiles(waves=1):
    """Some rows per workgroup, N in tiles, which waves may share."""
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: BN}),
        tkw.WorkgroupConstraint(M, BM, 0),
        tkw.TilingConstraint(N, BN),
        *([tkw.WaveConstraint(N, BN / waves)] if waves > 1 else []),
    ]


def online_softmax(bn, waves=1):
    """One row per workgroup, N in tiles: the kernel masks what is beyond the row."""

    def make():
        @tkw.wave(rows_in_tiles(waves))
        def online_softmax(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, N, G, tkl.f32]):
            low, zero = tkl.Register[M, tkl.f32](-1e6), tkl.Register[M, tkl.f32](0.0)

            @tkw.iterate(N, init_args=[low, zero])
            def totals(largest, total):
                x = tkw.read(a)
                inside = tkw.apply_expr(tkw.self_index(N, tkl.i32), lambda i: i < N)
                inside = tkw.broadcast(tkw.cast(inside, tkw.i1), [M, N])
                x = tkw.select(inside, x, tkl.Register[M, N, tkl.f32](-1e6))
                larger = tkw.max(x, largest, dim=N)
                kept = total * tkw.exp(largest - larger)
                return larger, tkw.sum(tkw.exp(x - larger), kept, dim=N)

            largest, total = totals

            @tkw.iterate(N, init_args=[])
            def rows():
                tkw.write(tkw.exp(tkw.read(a) - largest) / total, b)

        return online_softmax

    return Case(
        f"online_softmax_f32_{bn}" + f"_shared{waves}" * (waves > 1),
        make,
        around={M: 1, N: bn},
        subs={BM: 1, BN: bn},
        inputs=(Tensor("f32", (M, N)),),
        outputs=(Tensor("f32", (M, N)),),
        reference=lambda a, **_: softmax_of(a),
    )


EPSILON = 1e-3


def layer_norm(bm, row):
    def make():
        @tkw.wave(whole_rows(bm))
        def layer_norm(
            a: tkl.Memory[M, N, G, tkl.f32],
            weight: tkl.Memory[N, G, tkl.f32],
            bias: tkl.Memory[N, G, tkl.f32],
            b: tkl.Memory[M, N, G, tkl.f32],
        ):
            x = tkw.read(a)
            length = tkl.Register[M, tkl.f32](N)
            centred = x - tkw.broadcast(tkw.sum(x, dim=N) / length, [M, N])
            variance = tkw.sum(centred * centred, dim=N) / length
            scale = tkw.rsqrt(variance + tkl.Register[M, tkl.f32](EPSILON))
            y = centred * tkw.broadcast(scale, [M, N]) * tkw.broadcast(tkw.read(weight), [M, N])
            tkw.write(y + tkw.broadcast(tkw.read(bias), [M, N]), b)

        return layer_norm

    def reference(a, weight, bias, **_):
        centred = a - a.mean(1, keepdims=True)
        scale = 1 / np.sqrt((centred**2).mean(1, keepdims=True) + EPSILON)
        magnitude = (np.abs(a) + np.abs(a).mean(1, keepdims=True)) * scale * np.abs(weight)
        return centred * scale * weight + bias, magnitude + np.abs(bias)

    return Case(
        f"layer_norm_f32_{bm}x{row}",
        make,
        around={M: bm, N: row},
        inputs=(Tensor("f32", (M, N)), Tensor("f32", (N,)), Tensor("f32", (N,))),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
    )


def rms_norm(dtype, bn):
    """N in tiles, read twice: elements outside a row count as 0."""
    t = wave_type(dtype)

    def make():
        @tkw.wave(rows_in_tiles())
        def rms_norm(
            a: tkl.Memory[M, N, G, t],
            weight: tkl.Memory[N, G, t],
            b: tkl.Memory[M, N, G, tkl.f32],
        ):
            @tkw.iterate(N, init_args=[tkl.Register[M, tkl.f32](0.0)])
            def squares(total):
                x = tkw.cast(tkw.read(a), tkl.f32)
                return tkw.sum(x * x, total, dim=N)

            mean = squares / tkl.Register[M, tkl.f32](N)
            scale = tkw.rsqrt(mean + tkl.Register[M, tkl.f32](EPSILON))

            @tkw.iterate(N, init_args=[])
            def rows():
                x = tkw.cast(tkw.read(a), tkl.f32) * scale
                tkw.write(x * tkw.cast(tkw.read(weight), tkl.f32), b)

        return rms_norm

    def reference(a, weight, **_):
        return a / np.sqrt((a**2).mean(1, keepdims=True) + EPSILON) * weight

    return Case(
        f"rms_norm_{dtype}_{bn}",
        make,
        around={M: 1, N: bn},
        subs={BM: 1, BN: bn},
        inputs=(Tensor(dtype, (M, N)), Tensor(dtype, (N,))),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
    )


def block_reduction(what, dtype, waves, per_wave):
    """Several waves share a row: `block=True` combines them. The row is rounded up to the waves."""
    t = wave_type(dtype)
    step = waves * per_wave

    def make():
        @tkw.wave(tiles(waves))
        def block_reduction(a: tkl.Memory[M, N, G, t], b: tkl.Memory[M, G, t]):
            x = tkw.read(a)
            if what == "sum":
                tkw.write(tkw.sum(x, dim=N, block=True), b)
                return
            inside = tkw.apply_expr(tkw.self_index(N, tkl.i32), lambda i: i < N)
            inside = tkw.broadcast(tkw.cast(inside, tkw.i1), [M, N])
            x = tkw.select(inside, x, tkl.Register[M, N, t](-100000))
            tkw.write(tkw.max(x, dim=N, block=True), b)

        return block_reduction

    def reference(a, **_):
        return (a.sum(1), np.abs(a).sum(1)) if what == "sum" else a.max(1)

    return Case(
        f"block_{what}_{dtype}_w{waves}x{per_wave}",
        make,
        around={M: 1, N: step},
        subs={BM: 1},
        derived=lambda sizes: {BN: -(-sizes[N] // step) * step},
        inputs=(Tensor(dtype, (M, N)),),
        outputs=(Tensor(dtype, (M,)),),
        reference=reference,
        exact=what == "max",
    )


def rms_norm_block(waves, per_wave):
    """The same as rms_norm, with the row in the registers of several waves."""
    step = waves * per_wave

    def make():
        @tkw.wave(tiles(waves))
        def rms_norm_block(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, N, G, tkl.f32]):
            x = tkw.read(a)
            total = tkw.sum(x * x, dim=N, block=True)
            mean = total / tkl.Register[M, tkl.f32](N)
            scale = tkw.rsqrt(mean + tkl.Register[M, tkl.f32](EPSILON))
            tkw.write(x * tkw.broadcast(scale, [M, N]), b)

        return rms_norm_block

    return Case(
        f"rms_norm_block_f32_w{waves}x{per_wave}",
        make,
        around={M: 1, N: step},
        subs={BM: 1},
        derived=lambda sizes: {BN: -(-sizes[N] // step) * step},
        inputs=(Tensor("f32", (M, N)),),
        outputs=(Tensor("f32", (M, N)),),
        reference=lambda a, **_: a / np.sqrt((a**2).mean(1, keepdims=True) + EPSILON),
    )


CASTS = [
    ("f32", "f16"),
    ("f16", "f32"),
    ("f32", "bf16"),
    ("bf16", "f32"),
    ("i32", "f32"),
    ("i32", "bf16"),
    ("i8", "f32"),
    ("f32", "i32"),
    *(("f32", name) for name in FP8),
    *((name, "f32") for name in FP8),
]
ROWS = (192, 768, 1536)

CASES = [
    copy("f16", 4, 64),
    copy("f32", 2, 32, "shared"),
    copy("i8", 2, 48, waves=2),
    copy("f16", 3, 80),
    copy("bf16", 1, 96, dynamic=True),
    *(copy("f16", 1, row) for row in ROWS),
    elementwise("f32", 2, 64),
    elementwise("f16", 4, 32, waves=2),
    elementwise("i32", 3, 48),
    elementwise("f32", 1, 768),
    functions(2, 64),
    activations(2, 64),
    activations(3, 40, waves=2),
    hashed(2, 48),
    counted(2, 48, "u32"),
    counted(3, 64, "u8"),
    best(2, 70),
    combined_rows(2, 70),
    combined_rows(1, 192),
    combined_block("i32", 4, 64),
    combined_block("u8", 3, 96),
    broadcast(4, 32),
    broadcast(8, 96, waves=2),
    rows_of_one(4, 64),
    rows_of_one(3, 80, dynamic=True),
    *(cast(s, t, 2, 32) for s, t in CASTS),
    transpose("f32", 8, 32),
    transpose("f16", 16, 16, "write"),
    transpose("f32", 16, 32, "read", "shared"),
    transpose("f16", 48, 16),
    renamed("f32", 4, 64),
    renamed("f16", 3, 48, dynamic=True),
    softmax("f32", 1, 64),
    softmax("f16", 2, 32),
    *(softmax("f32", 1, row) for row in ROWS),
    online_softmax(64),
    online_softmax(192),
    online_softmax(128, 2),
    online_softmax(96, 3),
    layer_norm(1, 64),
    layer_norm(2, 96),
    layer_norm(1, 768),
    rms_norm("f16", 64),
    rms_norm("bf16", 192),
    rms_norm_block(4, 64),
    block_reduction("sum", "f32", 2, 64),
    block_reduction("sum", "i32", 4, 64),
    block_reduction("max", "f32", 3, 64),
    block_reduction("max", "f16", 2, 192),
]
