"""Matmuls: every form, element type and instruction; batches, chains, convolutions."""

import itertools

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from number_formats import FP8, decode, encode, wave_type
from sim_cases import Case, Tensor
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave.constraints import GenericDot, MMAOperand, MMAType, ScaledMMAType

B, M, N, K = tkl.sym.B, tkl.sym.M, tkl.sym.N, tkl.sym.K
BM, BN, BK = tkl.sym.BM, tkl.sym.BN, tkl.sym.BK
SPACE = tkl.sym.SPACE
G = GLOBAL_ADDRESS_SPACE
SPACES = {"global": GLOBAL_ADDRESS_SPACE, "shared": SHARED_ADDRESS_SPACE}

# name: instruction, lanes of the wave it is declared for, and its m, n, k
INSTRUCTIONS = {
    "16x16x16": (MMAType.F32_16x16x16_F16, 64, (16, 16, 16)),
    "32x32x8": (MMAType.F32_32x32x8_F16, 64, (32, 32, 8)),
    "16x16x32_k8": (MMAType.F32_16x16x32_K8_F16, 64, (16, 16, 32)),
    "32x32x16_k8": (MMAType.F32_32x32x16_K8_F16, 64, (32, 32, 16)),
    "16x16x4_f32": ("mfma_16x16x4_f32_f32", 64, (16, 16, 4)),
    "32x32x2_f32": ("mfma_32x32x2_f32_f32", 64, (32, 32, 2)),
    "16x16x16_i8": (MMAType.I32_16x16x16_I8, 64, (16, 16, 16)),
    "32x32x8_i8": (MMAType.I32_32x32x8_I8, 64, (32, 32, 8)),
    "16x16x32_i8": (MMAType.I32_16x16x32_I8, 64, (16, 16, 32)),
    "32x32x16_i8": (MMAType.I32_32x32x16_I8, 64, (32, 32, 16)),
    "16x16x32_f8": (MMAType.F32_16x16x32_F8, 64, (16, 16, 32)),
    "32x32x16_f8": (MMAType.F32_32x32x16_F8, 64, (32, 32, 16)),
    "16x16x32_k4_f8": (MMAType.F32_16x16x32_K4_F8, 64, (16, 16, 32)),
    "sync_f16": ("mma_m16n8k16_f32_f16", 32, (16, 8, 16)),
    "sync_bf16": ("mma_m16n8k16_f32_bf16", 32, (16, 8, 16)),
    "sync_k8_f16": ("mma_m16n8k8_f32_f16", 32, (16, 8, 8)),
    "sync_i8": ("mma_m16n8k32_i32_i8", 32, (16, 8, 32)),
    "sync_f8": ("mma_m16n8k32_f32_f8", 32, (16, 8, 32)),
    "wgmma_n32": ("wgmma_m64n32k16_f32_f16", 64, (64, 32, 16)),
    "wgmma_n24": ("wgmma_m64n24k16_f32_bf16", 64, (64, 24, 16)),
    "dot": (GenericDot(k_vec_size=4, k_mult=1, along_dim=MMAOperand.N), 64, (1, 64, 4)),
    "dot_m": (GenericDot(k_vec_size=4, k_mult=16, along_dim=MMAOperand.M), 64, (4, 1, 64)),
}


def constraints(mma, waves, *more, vector=None):
    """The numbers of waves along M and N and, if there is a third number, of waves that share each
    tile of K."""
    instruction, lanes, _ = INSTRUCTIONS[mma]
    return [
        tkw.WorkgroupConstraint(M, BM, 0),
        tkw.WorkgroupConstraint(N, BN, 1),
        tkw.TilingConstraint(K, BK),
        tkw.WaveConstraint(M, BM / waves[0]),
        tkw.WaveConstraint(N, BN / waves[1]),
        *(tkw.WaveConstraint(K, BK / n) for n in waves[2:]),
        tkw.HardwareConstraint(threads_per_wave=lanes, mma_type=instruction, vector_shapes=vector),
        *more,
    ]


def accumulator(dtype):
    return "i32" if dtype == "i8" else "f32"


def swapped(a, b):
    """Memory [b, a] read as a register [a, b]."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    return tkw.IndexMapping(num_iterators=2, inputs={b: j, a: i}, outputs={a: i, b: j})


def product(a, b):
    """a bᵀ and the sums of the magnitudes of its terms."""
    b = np.swapaxes(b, -1, -2)
    return a @ b, np.abs(a) @ np.abs(b)


def gemm(form, dtypes, mma, space, tile, waves=(1, 1), dynamic=False, full=False, machine=None):
    """c = a bᵀ in the letters of BLAS: N is a[M, K] or b[K, N], T is a[K, M] or b[N, K]."""
    left, right = dtypes if isinstance(dtypes, tuple) else (dtypes, dtypes)
    acc = accumulator(left)
    tl, tr, ta = wave_type(left), wave_type(right), wave_type(acc)
    a_dims = (M, K) if form[0] == "N" else (K, M)
    b_dims = (N, K) if form[1] == "T" else (K, N)

    def make():
        @tkw.wave(constraints(mma, waves))
        def gemm(
            a: tkl.Memory[(*a_dims, SPACE, tl)],
            b: tkl.Memory[(*b_dims, SPACE, tr)],
            c: tkl.Memory[M, N, G, ta],
        ):
            @tkw.iterate(K, init_args=[tkl.Register[M, N, ta](0)])
            def loop(acc):
                x = tkw.read(a) if form[0] == "N" else tkw.read(a, mapping=swapped(M, K))
                y = tkw.read(b) if form[1] == "T" else tkw.read(b, mapping=swapped(N, K))
                return tkw.mma(x, y, acc)

            tkw.write(loop, c)

        return gemm

    def reference(a, b, **_):
        return product(a if form[0] == "N" else a.T, b if form[1] == "T" else b.T)

    kind = left if left == right else f"{left}_{right}"
    tiles = "x".join(map(str, tile))
    return Case(
        f"gemm_{form.lower()}_{kind}_{mma}_t{tiles}_{space}"
        + "".join(f"_shared{n}" for n in waves[2:])
        + "_dynamic" * dynamic,
        make,
        around=dict(zip((M, N, K), tile)),
        subs={**dict(zip((BM, BN, BK), tile)), SPACE: SPACES[space]},
        inputs=(Tensor(left, a_dims), Tensor(right, b_dims)),
        outputs=(Tensor(acc, (M, N)),),
        reference=reference,
        dynamic=(M, N, K) if dynamic else (),
        full=full,
        machine=machine,
    )


def wide(form, tile, waves, dtype="f16", mma="16x16x16", dynamic=False):
    """For instructions of several waves that read shared memory: rows of 64, many waves."""
    return gemm(form, dtype, mma, "shared", tile, waves, dynamic, machine="sm_90a")


def gathered(side, dtype, mma, tile, waves=(1, 1), dynamic=False):
    """Rows of an operand are gathered through a table, like the tokens of an expert."""
    T, acc = tkl.sym.T, accumulator(dtype)
    t, ta = wave_type(dtype), wave_type(acc)
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    row = M if side == "a" else N
    picked = tkw.IndexMapping(
        num_iterators=2,
        inputs={T: tkw.IndexMapping.dynamic_val(0), K: j},
        outputs={row: i, K: j},
        dynamic_val_mappings={row: i},
    )

    def make():
        @tkw.wave(constraints(mma, waves))
        def gathered(
            a: tkl.Memory[T if side == "a" else M, K, G, t],
            b: tkl.Memory[T if side == "b" else N, K, G, t],
            table: tkl.Memory[row, G, tkl.i32],
            c: tkl.Memory[M, N, G, ta],
        ):
            rows = tkw.read(table)

            @tkw.iterate(K, init_args=[tkl.Register[M, N, ta](0)])
            def loop(acc):
                pick = {"mapping": picked, "mapping_dynamic_vals": (rows,)}
                x = tkw.read(a, **pick) if side == "a" else tkw.read(a)
                y = tkw.read(b, **pick) if side == "b" else tkw.read(b)
                return tkw.mma(x, y, acc)

            tkw.write(loop, c)

        return gathered

    def reference(a, b, table, **_):
        source = a if side == "a" else b
        inside = (table >= 0) & (table < len(source))  # out of bounds reads give 0
        rows = np.where(inside[:, None], source[np.where(inside, table, 0).astype(int)], 0)
        return product(rows, b) if side == "a" else product(a, rows)

    return Case(
        f"gathered_{side}_{dtype}_{mma}_t{'x'.join(map(str, tile))}_w{waves[0]}x{waves[1]}"
        + "_dynamic" * dynamic,
        make,
        around=dict(zip((M, N, K), tile)),
        derived=lambda s: {T: 1 + s[row] // 2},
        subs=dict(zip((BM, BN, BK), tile)),
        inputs=(
            Tensor(dtype, (T if side == "a" else M, K)),
            Tensor(dtype, (T if side == "b" else N, K)),
            Tensor("i32", (row,), span=(-3, T + 3)),
        ),
        outputs=(Tensor(acc, (M, N)),),
        reference=reference,
        dynamic=(M, N, K, T) if dynamic else (),
        machine="sm_90a",
    )


def batched(mma, space, tile, waves=(1, 1)):
    def make():
        batches = tkw.WorkgroupConstraint(B, 1, 2)

        @tkw.wave(constraints(mma, waves, batches, vector={B: 0}))
        def batched(
            a: tkl.Memory[B, M, K, SPACE, tkl.f16],
            b: tkl.Memory[B, N, K, SPACE, tkl.f16],
            c: tkl.Memory[B, M, N, G, tkl.f32],
        ):
            @tkw.iterate(K, init_args=[tkl.Register[B, M, N, tkl.f32](0.0)])
            def loop(acc):
                return tkw.mma(tkw.read(a), tkw.read(b), acc)

            tkw.write(loop, c)

        return batched

    return Case(
        f"batched_gemm_f16_{mma}_t{'x'.join(map(str, tile))}_{space}",
        make,
        around={B: 1, **dict(zip((M, N, K), tile))},
        subs={**dict(zip((BM, BN, BK), tile)), SPACE: SPACES[space]},
        inputs=(Tensor("f16", (B, M, K)), Tensor("f16", (B, N, K))),
        outputs=(Tensor("f32", (B, M, N)),),
        reference=lambda a, b, **_: product(a, b),
    )


def chained(first, second, space, tile, waves=2):
    """c = (q kᵀ) vᵀ: the result of one matmul is an operand of the next."""
    K1, K2, BK2 = tkl.sym.K1, tkl.sym.K2, tkl.sym.BK2

    def make():
        header = [
            tkw.WorkgroupConstraint(M, BM, 0),
            tkw.WorkgroupConstraint(N, BN, 1),
            tkw.WorkgroupConstraint(B, 1, 2),
            tkw.TilingConstraint(K2, BK2),
            tkw.WaveConstraint(M, BM / waves),
            tkw.WaveConstraint(N, BN),
            tkw.HardwareConstraint(
                threads_per_wave=INSTRUCTIONS[second][1],
                mma_type=INSTRUCTIONS[second][0],
                vector_shapes={B: 0},
            ),
        ]

        @tkw.wave(header)
        def chained(
            q: tkl.Memory[B, M, K1, G, tkl.f16],
            k: tkl.Memory[B, K2, K1, SPACE, tkl.f16],
            v: tkl.Memory[B, N, K2, SPACE, tkl.f16],
            c: tkl.Memory[B, M, N, G, tkl.f32],
        ):
            @tkw.iterate(K2, init_args=[tkl.Register[B, M, N, tkl.f32](0.0)])
            def loop(acc):
                inner = tkl.Register[B, K2, M, tkl.f32](0.0)
                s = tkw.mma(tkw.read(k), tkw.read(q), inner, INSTRUCTIONS[first][0])
                p = tkw.cast(tkw.permute(s, target_shape=[B, M, K2]), tkl.f16)
                return tkw.mma(p, tkw.read(v), acc)

            tkw.write(loop, c)

        return chained

    def reference(q, k, v, **_):
        s, magnitude = product(q, k)
        p = decode("f16", encode("f16", s))
        rounding = 2**-8 * magnitude  # of s to f16, 1024 times what the tolerance of f32 allows
        return p @ v.transpose(0, 2, 1), (np.abs(p) + rounding) @ np.abs(v).transpose(0, 2, 1)

    bm, bn, k1, bk2 = tile
    return Case(
        f"chained_gemm_{first}_{second}_t{'x'.join(map(str, tile))}_{space}",
        make,
        around={B: 1, M: bm, N: bn, K1: k1, K2: bk2},
        subs={BM: bm, BN: bn, BK2: bk2, SPACE: SPACES[space]},
        inputs=(
            Tensor("f16", (B, M, K1)),
            Tensor("f16", (B, K2, K1)),
            Tensor("f16", (B, N, K2)),
        ),
        outputs=(Tensor("f32", (B, M, N)),),
        reference=reference,
        tolerance=2**-9,
    )


H, W, C, HF, WF, NF = (getattr(tkl.sym, s) for s in "H W C HF WF NF".split())
HO, WO = tkl.sym.HO, tkl.sym.WO


def convolution(mma, space, tile, window, stride):
    """NHWC times HWCF as [N*HO*WO, HF*WF*C] times [HF*WF*C, NF]: by index mappings."""
    h_out, w_out = (H - HF) // stride + 1, (W - WF) // stride + 1
    per_image, rows, depth = h_out * w_out, N * h_out * w_out, HF * WF * C
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    patches = tkw.IndexMapping(
        num_iterators=2,
        inputs={
            N: i // per_image,
            H: (i % per_image) // w_out * stride + (j // C) // WF,
            W: (i % per_image) % w_out * stride + (j // C) % WF,
            C: j % C,
        },
        outputs={rows: i, depth: j},
    )
    weights = tkw.IndexMapping(
        num_iterators=2,
        inputs={HF: (j // C) // WF, WF: (j // C) % WF, C: j % C, NF: i},
        outputs={NF: i, depth: j},
    )
    images = tkw.IndexMapping(
        num_iterators=2,
        inputs={rows: i, NF: j},
        outputs={
            N: i // per_image,
            h_out: (i % per_image) // w_out,
            w_out: (i % per_image) % w_out,
            NF: j,
        },
    )

    def make():
        header = [
            tkw.WorkgroupConstraint(rows, BM, 1),
            tkw.WorkgroupConstraint(NF, BN, 0),
            tkw.WaveConstraint(rows, BM),
            tkw.WaveConstraint(NF, BN),
            tkw.TilingConstraint(depth, BK),
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=INSTRUCTIONS[mma][0]),
        ]

        @tkw.wave(header)
        def convolution(
            x: tkl.Memory[N, H, W, C, SPACE, tkl.f16],
            f: tkl.Memory[HF, WF, C, NF, SPACE, tkl.f16],
            out: tkl.Memory[N, h_out, w_out, NF, G, tkl.f32],
        ):
            @tkw.iterate(depth, init_args=[tkl.Register[rows, NF, tkl.f32](0.0)])
            def loop(acc):
                return tkw.mma(tkw.read(x, mapping=patches), tkw.read(f, mapping=weights), acc)

            tkw.write(loop, out, mapping=images)

        return convolution

    def reference(x, f, HO, WO, **_):
        exact, scale = 0, 0
        for p, q in itertools.product(range(window), range(window)):
            part = x[:, p::stride, q::stride][:, :HO, :WO]
            exact, scale = exact + part @ f[p, q], scale + np.abs(part) @ np.abs(f[p, q])
        return exact, scale

    bm, bn, bk = tile
    return Case(
        f"conv_{window}x{window}_stride{stride}_{mma}_t{bm}x{bn}x{bk}_{space}",
        make,
        around={N: 1, HO: 1, WO: bm, NF: bn, C: -(-bk // window**2)},
        derived=lambda s: {
            H: (s[HO] - 1) * stride + window,
            W: (s[WO] - 1) * stride + window,
            HF: window,
            WF: window,
        },
        subs={BM: bm, BN: bn, BK: bk, SPACE: SPACES[space]},
        inputs=(Tensor("f16", (N, H, W, C)), Tensor("f16", (HF, WF, C, NF))),
        outputs=(Tensor("f32", (N, HO, WO, NF)),),
        reference=reference,
    )


FP4_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
FP6_MAGNITUDES = [c / 8 if c < 8 else (8 + c % 8) / 8 * 2.0 ** (c // 8 - 1) for c in range(32)]
FP6_VALUES = np.array([*FP6_MAGNITUDES, *(-x for x in FP6_MAGNITUDES)])


def scaled(
    dtypes,
    blocks,
    space,
    tile,
    waves=(1, 1),
    dynamic=False,
    scale="f8e8m0fnu",
    mma="F32_16x16x128_F8F6F4",
):
    """c = a bᵀ, where `block` elements along k share a scale; two elements of f4 are one byte, and
    one of f6 is, or four of them are three bytes (`packed_f6`)."""
    types = dtypes if isinstance(dtypes, tuple) else (dtypes, dtypes)
    blocks = blocks if isinstance(blocks, tuple) else (blocks, blocks)
    powers = scale == "f8e8m0fnu"

    def columns(dtype):
        return {"f4e2m1fn": K / 2, "packed_f6": 3 * K / 4}.get(dtype, K)

    def operand(row, dtype):
        if dtype == "f6e2m3fn":
            return Tensor("u8", (row, K), span=(0, 64))
        is_packed = dtype in ("f4e2m1fn", "packed_f6")
        return Tensor("u8" if is_packed else dtype, (row, columns(dtype)))

    def scales(row, block):
        return Tensor("u8", (row, K / block), span=(121, 134) if powers else (1, 120))

    def values(x, s, dtype, block):
        if dtype == "f4e2m1fn":
            codes = x.astype(int)
            x = FP4_VALUES[np.stack([codes & 15, codes >> 4], -1).reshape(len(x), -1)]
        if dtype == "packed_f6":
            bits = np.unpackbits(x.astype(np.uint8), axis=-1, bitorder="little")
            x = bits.reshape(len(x), -1, 6) @ (1 << np.arange(6))
        if dtype in ("f6e2m3fn", "packed_f6"):
            x = FP6_VALUES[x.astype(int)]
        factors = 2.0 ** (s - 127) if powers else decode(scale, s.astype(np.uint8))
        return x * np.repeat(factors, block, -1)

    def make():
        def memory(row, dtype):
            element = tkl.f6e2m3fn if dtype == "f6e2m3fn" else tkl.i8
            return tkl.Memory[row, columns(dtype), SPACE, element]

        @tkw.wave(
            [
                tkw.WorkgroupConstraint(M, BM, 0),
                tkw.WorkgroupConstraint(N, BN, 1),
                tkw.TilingConstraint(K, BK),
                tkw.WaveConstraint(M, BM / waves[0]),
                tkw.WaveConstraint(N, BN / waves[1]),
                tkw.HardwareConstraint(64, mma_type=ScaledMMAType[mma]),
            ]
        )
        def scaled(
            a: memory(M, types[0]),
            a_scale: tkl.Memory[M, K / blocks[0], SPACE, tkl.i8],
            b: memory(N, types[1]),
            b_scale: tkl.Memory[N, K / blocks[1], SPACE, tkl.i8],
            c: tkl.Memory[M, N, G, tkl.f32],
        ):
            def read(memory, dtype):
                if dtype == "f6e2m3fn":
                    return tkw.read(memory)
                element = tkl.f6e2m3fn if dtype == "packed_f6" else wave_type(dtype)
                return tkw.bitcast(tkw.read(memory), element)

            @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
            def loop(acc):
                x, y = read(a, types[0]), read(b, types[1])
                return tkw.scaled_mma(x, read(a_scale, scale), y, read(b_scale, scale), acc)

            tkw.write(loop, c)

        return scaled

    def reference(a, a_scale, b, b_scale, **_):
        left = values(a, a_scale, types[0], blocks[0])
        return product(left, values(b, b_scale, types[1], blocks[1]))

    whole = np.lcm.reduce([4, *blocks])
    words = [*dict.fromkeys(types), *(["32x32"] if "32x32" in mma else [])]
    name = "_".join(["scaled", *words, f"b{blocks[0]}", str(blocks[1])])
    return Case(
        f"{name}_t{'x'.join(map(str, tile))}_{space}"
        + "_mantissa" * (not powers)
        + "_dynamic" * dynamic,
        make,
        around=dict(zip((M, N, K), tile)),
        subs={**dict(zip((BM, BN, BK), tile)), SPACE: SPACES[space]},
        fit=lambda s: {**s, K: int(-(-s[K] // whole) * whole)},
        inputs=(
            operand(M, types[0]),
            scales(M, blocks[0]),
            operand(N, types[1]),
            scales(N, blocks[1]),
        ),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
        dynamic=(M, N, K) if dynamic else (),
    )


def _instruction_cases():
    """Each instruction with its types, NT; operands alternately in shared memory and not."""
    spaces = itertools.cycle(("shared", "global"))
    for mma, dtype in [
        ("16x16x16", "f16"),
        ("32x32x8", "f16"),
        ("16x16x16", "bf16"),
        ("32x32x8", "bf16"),
        ("16x16x32_k8", "f16"),
        ("32x32x16_k8", "bf16"),
        ("16x16x4_f32", "f32"),
        ("32x32x2_f32", "f32"),
        ("16x16x16_i8", "i8"),
        ("32x32x8_i8", "i8"),
        ("16x16x32_i8", "i8"),
        ("32x32x16_i8", "i8"),
        *(("16x16x32_f8", name) for name in FP8),
        *(("32x32x16_f8", name) for name in FP8),
        ("16x16x32_f8", ("f8e4m3fn", "f8e5m2")),
        ("16x16x32_f8", ("f8e5m2fnuz", "f8e4m3fnuz")),
        ("16x16x32_k4_f8", "f8e4m3fnuz"),
        ("sync_f16", "f16"),
        ("sync_bf16", "bf16"),
        ("sync_k8_f16", "f16"),
        ("sync_i8", "i8"),
        ("sync_f8", "f8e4m3fn"),
        ("sync_f8", ("f8e5m2", "f8e4m3fn")),
        ("dot", "f16"),
        ("dot", "f32"),
        ("dot_m", "f32"),
        ("dot_m", "f16"),
        ("dot", "i8"),
        ("dot_m", "bf16"),
    ]:
        m, n, k = INSTRUCTIONS[mma][2]
        tile = (max(m, 8), max(n, 8), max(k, 16))
        yield gemm("NT", dtype, mma, next(spaces), tile)


CASES = [
    *_instruction_cases(),
    gemm("NT", "f16", "16x16x16", "shared", (32, 32, 16), (2, 2)),
    gemm("NT", "f16", "16x16x16", "global", (32, 32, 16), (2, 1)),
    gemm("NN", "f16", "16x16x16", "shared", (32, 16, 16), (2, 1)),
    gemm("NN", "f16", "16x16x16", "global", (16, 32, 16), (1, 2)),
    gemm("TN", "f16", "16x16x16", "shared", (16, 32, 32), (1, 1)),
    gemm("TN", "f16", "32x32x8", "global", (32, 32, 16)),
    gemm("TT", "f16", "16x16x16", "shared", (16, 16, 16)),
    gemm("NN", "f32", "16x16x4_f32", "shared", (16, 16, 8)),
    gemm("TN", "f32", "16x16x4_f32", "global", (32, 16, 8), (2, 1)),
    gemm("NN", "f32", "dot", "shared", (8, 64, 8)),
    gemm("TN", "f32", "dot", "global", (4, 64, 8)),
    gemm("NN", "bf16", "16x16x16", "shared", (16, 16, 32)),
    gemm("TN", "bf16", "32x32x8", "shared", (32, 32, 8)),
    gemm("NN", "i8", "16x16x32_i8", "shared", (16, 16, 32)),
    gemm("TN", "i8", "16x16x32_i8", "global", (16, 16, 32)),
    gemm("NN", "f8e4m3fnuz", "16x16x32_f8", "shared", (16, 16, 32)),
    gemm("TN", "f8e4m3fn", "16x16x32_f8", "global", (16, 16, 32)),
    gemm("NN", "f16", "sync_f16", "shared", (32, 16, 16), (2, 2)),
    gemm("TN", "f16", "sync_f16", "shared", (16, 16, 16)),
    gemm("NT", "f16", "16x16x16", "shared", (32, 32, 16), (2, 2), dynamic=True),
    gemm("NN", "f32", "16x16x4_f32", "global", (16, 16, 8), dynamic=True),
    # Waves that share the tile of the loop; if a wave's share is not a whole number of
    # instructions, they do not share it.
    gemm("NT", "f16", "16x16x16", "shared", (16, 16, 64), (1, 1, 2)),
    gemm("NN", "bf16", "16x16x16", "global", (32, 16, 64), (2, 1, 2), dynamic=True),
    gemm("TN", "i8", "16x16x32_i8", "shared", (16, 16, 96), (1, 1, 3)),
    gemm("TN", "f32", "dot", "global", (4, 64, 16), (1, 1, 4)),
    gemm("NT", "f16", "sync_f16", "shared", (16, 24, 40), (1, 1, 2)),
    # Tiles that are not powers of two.
    gemm("NT", "f16", "16x16x16", "shared", (48, 80, 32), (3, 1)),
    gemm("NT", "f16", "16x16x16", "global", (96, 48, 16), (2, 3)),
    gemm("NN", "bf16", "16x16x16", "shared", (80, 48, 48)),
    gemm("NT", "f16", "32x32x8", "shared", (96, 96, 24), (3, 1)),
    gemm("NT", "f16", "16x16x16", "shared", (64, 128, 64), (2, 2), full=True),
    gemm("NT", "f16", "32x32x8", "shared", (128, 128, 32), (2, 2), full=True),
    gemm("TN", "f16", "16x16x16", "shared", (96, 80, 48), (2, 1), full=True),
    # Parts per warpgroup that are whole swizzle spans, and parts that are not.
    wide("NN", (64, 64, 32), (4, 1)),
    wide("NN", (64, 48, 64), (4, 1)),
    wide("NN", (64, 96, 32), (2, 2), dynamic=True),
    wide("NN", (64, 80, 32), (4, 1), dynamic=True),
    wide("NN", (64, 112, 48), (2, 1)),
    wide("NN", (64, 72, 32), (4, 1)),
    wide("NN", (128, 48, 32), (4, 2), "bf16"),
    wide("TN", (64, 112, 64), (4, 1), "bf16"),
    wide("NT", (64, 80, 48), (4, 1)),
    wide("TT", (64, 40, 64), (4, 1), dynamic=True),
    wide("NN", (64, 48, 32), (4, 1), "f8e4m3fn", "16x16x32_f8"),
    wide("NT", (64, 48, 64), (2, 1), "i8", "16x16x32_i8"),
    # Warpgroups that begin inside a box of the copy engine: at its half, at a third, in turns.
    wide("TN", (64, 128, 64), (2, 4)),
    wide("NN", (64, 128, 64), (2, 4), dynamic=True),
    wide("NN", (64, 192, 32), (2, 2), mma="wgmma_n32"),
    wide("TN", (64, 96, 48), (2, 2), mma="wgmma_n24", dtype="bf16", dynamic=True),
    wide("NN", (128, 160, 32), (2, 4)),
    # Tiles that threads copy, next to a ring.
    gathered("a", "f16", "16x16x16", (64, 128, 32), (2, 2)),
    gathered("a", "f16", "16x16x16", (64, 64, 64), (2, 1), dynamic=True),
    gathered("a", "bf16", "16x16x16", (128, 48, 32), (4, 1)),
    gathered("a", "f8e4m3fn", "16x16x32_f8", (64, 64, 64), (2, 1)),
    gathered("b", "f16", "16x16x16", (64, 64, 32), (2, 1)),
    gathered("b", "f16", "16x16x16", (128, 96, 32), (4, 1), dynamic=True),
    gathered("a", "f16", "16x16x16", (32, 16, 16), (2, 1)),
    # Scaled matmuls: packed f4 and f8, blocks that several lanes share and blocks that are split
    # between them.
    scaled("f4e2m1fn", 32, "shared", (32, 32, 128), (2, 2)),
    scaled("f4e2m1fn", 32, "global", (32, 32, 128), (2, 1), dynamic=True),
    scaled("f4e2m1fn", 32, "shared", (64, 32, 256), (2, 2), dynamic=True),
    scaled("f8e5m2", 32, "shared", (32, 32, 64), (2, 2), dynamic=True),
    scaled("f8e4m3fn", 32, "shared", (32, 16, 128), (2, 1)),
    scaled(("f8e4m3fn", "f8e5m2"), 32, "global", (32, 32, 64), mma="F32_32x32x64_F8F6F4"),
    scaled("f6e2m3fn", 32, "shared", (16, 16, 128)),
    scaled("f6e2m3fn", 32, "global", (32, 32, 64), dynamic=True, mma="F32_32x32x64_F8F6F4"),
    scaled("packed_f6", 32, "shared", (32, 16, 128), (2, 1)),
    scaled("packed_f6", 32, "global", (32, 32, 64), mma="F32_32x32x64_F8F6F4"),
    scaled(("packed_f6", "f4e2m1fn"), 32, "shared", (16, 32, 128), dynamic=True),
    scaled("f4e2m1fn", 32, "shared", (32, 32, 64), mma="F32_32x32x64_F8F6F4"),
    scaled(("f6e2m3fn", "f4e2m1fn"), 32, "shared", (32, 16, 128), (2, 1)),
    scaled(("f8e4m3fn", "f6e2m3fn"), 32, "global", (16, 16, 128)),
    scaled("f8e4m3fn", 16, "global", (32, 16, 64), (2, 1)),
    scaled(("f4e2m1fn", "f8e4m3fn"), (16, 64), "shared", (16, 32, 64)),
    scaled("f4e2m1fn", 12, "shared", (16, 16, 48)),
    scaled("f4e2m1fn", 16, "shared", (48, 32, 64), (1, 2), scale="f8e4m3fn", dynamic=True),
    batched("16x16x16", "shared", (16, 16, 16)),
    batched("16x16x16", "global", (32, 16, 16), (2, 1)),
    batched("sync_f16", "shared", (16, 16, 16)),
    chained("16x16x16", "16x16x16", "shared", (32, 16, 16, 16)),
    chained("16x16x16", "16x16x16", "global", (16, 32, 16, 32), 1),
    chained("32x32x8", "32x32x8", "shared", (32, 32, 8, 32), 1),
    chained("32x32x8", "16x16x16", "global", (32, 16, 16, 32), 1),  # fragments do not match
    *(
        convolution("16x16x16", space, (16, 16, 16), window, stride)
        for (window, stride), space in zip(
            [(1, 1), (1, 2), (3, 1), (3, 2)], ("shared", "global", "shared", "global")
        )
    ),
    convolution("16x16x16", "global", (48, 16, 16), 3, 1),
    convolution("32x32x8", "shared", (32, 32, 24), 3, 2),
]
