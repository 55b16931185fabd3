"""The kernels that are measured, as users write them: only tiles and waves are chosen."""

import sympy
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S
from wave_lang.kernel.lang.global_symbols import WORKGROUP_0, WORKGROUP_1

B, M, N, K, K1, K2 = (getattr(tkl.sym, name) for name in "B M N K K1 K2".split())
BM, BN, BK = tkl.sym.BM, tkl.sym.BN, tkl.sym.BK
EPSILON = 1e-6


def compiled(kernel, subs, target="", **options):
    return wave_compile(WaveCompileOptions(subs=subs, target=target, **options), kernel)


# ---- rows: a workgroup has one, which its waves divide -------------------------------------


def waves_of(columns, per_thread=16):
    """As many waves as hold a row with about this many elements per thread; they divide it."""
    most = min(max(columns // (32 * per_thread), 1), 16)
    return next(waves for waves in range(most, 0, -1) if columns % waves == 0)


def row_constraints(columns):
    waves = waves_of(columns)
    return [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: N / waves}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(N, N, 1),
        tkw.WaveConstraint(N, N / waves),
    ]


def copy(rows, columns, dtype=tkl.f16, target=""):
    @tkw.wave(row_constraints(columns))
    def copy(a: tkl.Memory[M, N, G, dtype], b: tkl.Memory[M, N, G, dtype]):
        tkw.write(tkw.read(a), b)

    return compiled(copy, {M: rows, N: columns}, target)


def softmax(rows, columns, dtype=tkl.f16, target=""):
    @tkw.wave(row_constraints(columns))
    def softmax(a: tkl.Memory[M, N, G, dtype], b: tkl.Memory[M, N, G, dtype]):
        x = tkw.cast(tkw.read(a), tkl.f32)
        largest = tkw.max(x, dim=N, block=True)
        e = tkw.exp(x - tkw.broadcast(largest, [M, N]))
        total = tkw.sum(e, dim=N, block=True)
        tkw.write(tkw.cast(e * tkw.broadcast(tkw.reciprocal(total), [M, N]), dtype), b)

    return compiled(softmax, {M: rows, N: columns}, target)


def rms_norm(rows, columns, dtype=tkl.f16, target=""):
    @tkw.wave(row_constraints(columns))
    def rms_norm(
        a: tkl.Memory[M, N, G, dtype],
        weight: tkl.Memory[N, G, dtype],
        b: tkl.Memory[M, N, G, dtype],
    ):
        x = tkw.cast(tkw.read(a), tkl.f32)
        mean = tkw.sum(x * x, dim=N, block=True) / tkl.Register[M, tkl.f32](N)
        scale = tkw.rsqrt(mean + tkl.Register[M, tkl.f32](EPSILON))
        w = tkw.broadcast(tkw.cast(tkw.read(weight), tkl.f32), [M, N])
        tkw.write(tkw.cast(x * tkw.broadcast(scale, [M, N]) * w, dtype), b)

    return compiled(rms_norm, {M: rows, N: columns}, target)


def layer_norm(rows, columns, dtype=tkl.f16, target=""):
    @tkw.wave(row_constraints(columns))
    def layer_norm(
        a: tkl.Memory[M, N, G, dtype],
        weight: tkl.Memory[N, G, dtype],
        bias: tkl.Memory[N, G, dtype],
        b: tkl.Memory[M, N, G, dtype],
    ):
        x = tkw.cast(tkw.read(a), tkl.f32)
        length = tkl.Register[M, tkl.f32](N)
        mean = tkw.sum(x, dim=N, block=True) / length
        centred = x - tkw.broadcast(mean, [M, N])
        variance = tkw.sum(centred * centred, dim=N, block=True) / length
        scale = tkw.rsqrt(variance + tkl.Register[M, tkl.f32](EPSILON))
        w = tkw.broadcast(tkw.cast(tkw.read(weight), tkl.f32), [M, N])
        y = centred * tkw.broadcast(scale, [M, N]) * w
        y = y + tkw.broadcast(tkw.cast(tkw.read(bias), tkl.f32), [M, N])
        tkw.write(tkw.cast(y, dtype), b)

    return compiled(layer_norm, {M: rows, N: columns}, target)


# ---- moves ---------------------------------------------------------------------------------------


def permute(order, dtype=tkl.f16, target=""):
    """Dims in another order: a tile spans those that are contiguous in a and in b. A tile has
    64 batches at most, where it spans them: there are fewer of them than rows."""
    dims = (B, M, N)[-len(order) :]
    turned = [dims[d] for d in order]
    rows = next(d for d in (turned[-1], M) if d != N)
    others = [d for d in dims if d not in (rows, N)]
    tile = 64 if rows == B else 128
    constraints = [
        tkw.HardwareConstraint(
            threads_per_wave=32, vector_shapes={rows: tile // 8, N: 128} | {d: 0 for d in others}
        ),
        tkw.WorkgroupConstraint(N, 128, 0),
        tkw.WorkgroupConstraint(rows, tile, 1),
        tkw.WaveConstraint(rows, tile // 8),
    ] + [tkw.WorkgroupConstraint(d, 1, 2) for d in others]

    @tkw.wave(constraints)
    def permute(a: tkl.Memory[*dims, G, dtype], b: tkl.Memory[*turned, G, dtype]):
        tkw.write(tkw.permute(tkw.read(a), turned), b)

    return wave_compile(WaveCompileOptions(dynamic_symbols=list(dims), target=target), permute)


# ---- products ------------------------------------------------------------------------------------


# The instruction a matmul is written for: threads of its wave, its name (None: the machine's).
SYNC = (32, "mma_m16n8k16_f32_f16")
WGMMA = (128, None)
MFMA = (64, "F32_16x16x16_F16")  # of an MI300X


def grouped(rows):
    """Workgroups in the order of their numbers compute `rows` tiles along M, then go on along N, so
    that those which run at the same time share operands in the cache."""
    across, down = sympy.ceiling(N / BN), sympy.ceiling(M / BM)
    number = WORKGROUP_0 + WORKGROUP_1 * down
    first = (number // (rows * across)) * rows
    height = sympy.Min(down - first, rows)
    inside = number % (rows * across)
    return [
        tkw.ReorderingConstraint(first + inside % height, 0),
        tkw.ReorderingConstraint(inside // height, 1),
    ]


def gemm(
    m,
    n,
    k,
    tile=(128, 128, 64),
    waves=(2, 2),
    unit=SYNC,
    target="",
    dtype=tkl.f16,
    out=tkl.f32,
    rows=None,
    **options,
):
    """c = a bᵀ; `rows`: of tiles that are computed at the same time; `tile` None: the compiler chooses it."""
    PART = tkl.sym.PART_M

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=unit[0], mma_type=unit[1] if tile else None),
            tkw.WorkgroupConstraint(M, BM, 0),
            tkw.WorkgroupConstraint(N, BN, 1),
            tkw.TilingConstraint(K, BK),
            tkw.WaveConstraint(M, BM / waves[0] if tile else PART),
            tkw.WaveConstraint(N, BN / waves[1]),
        ]
        + (grouped(rows) if rows else [])
    )
    def gemm(
        a: tkl.Memory[M, K, S, dtype],
        b: tkl.Memory[N, K, S, dtype],
        c: tkl.Memory[M, N, G, out],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product if out == tkl.f32 else tkw.cast(product, out), c)

    sizes = {M: m, N: n, K: k} | (dict(zip((BM, BN, BK), tile)) if tile else {})
    return compiled(gemm, sizes, target, **options)


def attention_kernel(rows):
    """Scores are powers of 2: the caller has scaled q by log2(e)/sqrt(depth)."""
    D = tkl.sym.D
    i, j, k = (tkw.IndexMapping.iterator(d) for d in range(3))
    out = tkw.IndexMapping(num_iterators=3, inputs={B: i, D: j, M: k}, outputs={B: i, M: k, D: j})
    turned = tkw.IndexMapping(
        num_iterators=3, inputs={B: i, K2: k, D: j}, outputs={B: i, D: j, K2: k}
    )

    @tkw.wave(rows)
    def attention(
        q: tkl.Memory[B, M, K1, G, tkl.f16],
        k: tkl.Memory[B, K2, K1, S, tkl.f16],
        v: tkl.Memory[B, K2, D, S, tkl.f16],
        c: tkl.Memory[B, M, D, G, tkl.f32],
    ):
        carried = [
            tkl.Register[B, M, tkl.f32](-1e6),
            tkl.Register[B, M, tkl.f32](0.0),
            tkl.Register[B, D, M, tkl.f32](0.0),
        ]

        @tkw.iterate(K2, init_args=carried)
        def loop(largest, total, acc):
            scores = tkw.mma(tkw.read(k), tkw.read(q), tkl.Register[B, K2, M, tkl.f32](0.0))
            x = tkw.permute(scores, target_shape=[B, M, K2])
            larger = tkw.max(x, largest, dim=K2)
            kept = tkw.exp2(largest - larger)
            e = tkw.exp2(x - larger)
            total = tkw.sum(e, total * kept, dim=K2)
            p = tkw.cast(e, tkl.f16)
            return larger, total, tkw.mma(tkw.read(v, mapping=turned), p, acc * kept)

        _, total, result = loop
        tkw.write(result * tkw.reciprocal(total), c, mapping=out)

    return attention


def attention(heads, queries, keys, depth, tile=(128, 64), waves=4, unit=SYNC, target="", **options):
    BK2, D = tkl.sym.BK2, tkl.sym.D
    rows = [
        tkw.HardwareConstraint(
            threads_per_wave=unit[0],
            mma_type=unit[1],
            vector_shapes={B: 0, M: 16, D: 8} if unit == SYNC else {B: 0},
        ),
        tkw.WorkgroupConstraint(M, BM, 0),
        tkw.WorkgroupConstraint(D, D, 1),
        tkw.WorkgroupConstraint(B, 1, 2),
        tkw.TilingConstraint(K2, BK2),
        tkw.WaveConstraint(M, BM / waves),
        tkw.WaveConstraint(D, D),
    ]
    sizes = {B: heads, M: queries, K2: keys, K1: depth, D: depth, BM: tile[0], BK2: tile[1]}
    return compiled(attention_kernel(rows), sizes, target, **options)


def convolution(n, h, w, c, hf, wf, nf, tile=(128, 64, 32), waves=(2, 2), target=""):
    """NHWC with HWCF filters, stride 1, f16 in, f32 out: a matmul whose reads are mapped."""
    H, W, C, HF, WF, NF = (getattr(tkl.sym, s) for s in "H W C HF WF NF".split())
    H_OUT, W_OUT = H - HF + 1, W - WF + 1
    SIZE = H_OUT * W_OUT
    ROWS, STEPS = N * SIZE, HF * WF * C
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    x_mapping = tkw.IndexMapping(
        num_iterators=2,
        inputs={
            N: i // SIZE,
            H: (i % SIZE) // W_OUT + (j // C) // WF,
            W: (i % SIZE) % W_OUT + (j // C) % WF,
            C: j % C,
        },
        outputs={ROWS: i, STEPS: j},
    )
    w_mapping = tkw.IndexMapping(
        num_iterators=2,
        inputs={HF: (j // C) // WF, WF: (j // C) % WF, C: j % C, NF: i},
        outputs={NF: i, STEPS: j},
    )
    out_mapping = tkw.IndexMapping(
        num_iterators=2,
        inputs={ROWS: i, NF: j},
        outputs={N: i // SIZE, H_OUT: (i % SIZE) // W_OUT, W_OUT: (i % SIZE) % W_OUT, NF: j},
    )

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, mma_type="mma_m16n8k16_f32_f16"),
            tkw.WorkgroupConstraint(ROWS, BM, 0),
            tkw.WorkgroupConstraint(NF, BN, 1),
            tkw.TilingConstraint(STEPS, BK),
            tkw.WaveConstraint(ROWS, BM / waves[0]),
            tkw.WaveConstraint(NF, BN / waves[1]),
        ]
    )
    def convolution(
        x: tkl.Memory[N, H, W, C, S, tkl.f16],
        f: tkl.Memory[HF, WF, C, NF, S, tkl.f16],
        out: tkl.Memory[N, H_OUT, W_OUT, NF, G, tkl.f32],
    ):
        @tkw.iterate(STEPS, init_args=[tkl.Register[ROWS, NF, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(x, mapping=x_mapping), tkw.read(f, mapping=w_mapping), acc)

        tkw.write(product, out, mapping=out_mapping)

    sizes = dict(zip((N, H, W, C, HF, WF, NF, BM, BN, BK), (n, h, w, c, hf, wf, nf, *tile)))
    return compiled(convolution, sizes, target)
