"""The matmuls that are measured on CPUs, as users write them for GPUs: only the tiles are chosen.
Kernels over rows are those of gpu_kernels.py."""

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import WORKGROUP_0

B, M, N, K, K1, K2, D = (getattr(tkl.sym, name) for name in "B M N K K1 K2 D".split())
UNIT = {"threads_per_wave": 64, "mma_type": tkw.MMAType.F32_16x16x16_F16}


def compiled(kernel, subs=None, dynamic=()):
    options = WaveCompileOptions(
        subs=subs or {}, dynamic_symbols=list(dynamic), target="cpu", strict=True
    )
    return wave_compile(options, kernel)


def gemm(dtype=tkl.f32, out=tkl.f32, form="nt", tile=(128, 192, 256)):
    """c = a bᵀ (nt: both have k last) or a b (nn), of any size."""
    bm, bn, bk = tile
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    turned = tkw.IndexMapping(num_iterators=2, inputs={K: j, N: i}, outputs={N: i, K: j})
    shape, mapping = ((N, K), None) if form == "nt" else ((K, N), turned)

    @tkw.wave(
        [
            tkw.HardwareConstraint(**UNIT),
            tkw.WorkgroupConstraint(M, bm, 0),
            tkw.WorkgroupConstraint(N, bn, 1),
            tkw.TilingConstraint(K, bk),
            tkw.WaveConstraint(M, bm),
            tkw.WaveConstraint(N, bn),
        ]
    )
    def gemm(
        a: tkl.Memory[M, K, G, dtype],
        b: tkl.Memory[shape[0], shape[1], G, dtype],
        c: tkl.Memory[M, N, G, out],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, out](0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b, mapping=mapping), acc)

        tkw.write(product, c)

    return compiled(gemm, dynamic=(M, N, K))


def bmm(dtype=tkl.f32, form="nn", tile=(128, 192, 256)):
    """A matmul for each of B pairs of matrices, of any size."""
    bm, bn, bk = tile
    i, j, k = (tkw.IndexMapping.iterator(d) for d in range(3))
    turned = tkw.IndexMapping(
        num_iterators=3, inputs={B: i, K: k, N: j}, outputs={B: i, N: j, K: k}
    )
    shape, mapping = ((B, N, K), None) if form == "nt" else ((B, K, N), turned)

    @tkw.wave(
        [
            tkw.HardwareConstraint(**UNIT, vector_shapes={B: 0, M: 16, N: 16}),
            tkw.WorkgroupConstraint(M, bm, 0),
            tkw.WorkgroupConstraint(N, bn, 1),
            tkw.WorkgroupConstraint(B, 1, 2),
            tkw.TilingConstraint(K, bk),
            tkw.WaveConstraint(M, bm),
            tkw.WaveConstraint(N, bn),
        ]
    )
    def bmm(
        a: tkl.Memory[B, M, K, G, dtype],
        b: tkl.Memory[shape[0], shape[1], shape[2], G, dtype],
        c: tkl.Memory[B, M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[B, M, N, tkl.f32](0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b, mapping=mapping), acc)

        tkw.write(product, c)

    return compiled(bmm, dynamic=(B, M, N, K))


def attention(heads, queries, keys, depth, causal=False, dtype=tkl.f32, tile=(128, 128)):
    """Scores are powers of 2: the caller has scaled q by log2(e)/sqrt(depth). The causal one loops
    over the keys up to the last query of its tile."""
    bm, bk2 = tile
    steps = ((WORKGROUP_0 + 1) * bm + bk2 - 1) // bk2 if causal else None
    i, j, k = (tkw.IndexMapping.iterator(d) for d in range(3))
    out = tkw.IndexMapping(num_iterators=3, inputs={B: i, D: j, M: k}, outputs={B: i, M: k, D: j})
    turned = tkw.IndexMapping(
        num_iterators=3, inputs={B: i, K2: k, D: j}, outputs={B: i, D: j, K2: k}
    )

    def masked(x):
        """Scores of later keys become very small, by an addition."""
        if not causal:
            return x
        zero, low = tkl.Register[M, K2, tkl.f32](0.0), tkl.Register[M, K2, tkl.f32](-1e6)
        key = tkw.broadcast(tkw.self_index(K2, tkl.i64), target_shape=[M, K2])
        query = tkw.broadcast(tkw.self_index(M, tkl.i64), target_shape=[M, K2])
        return x + tkw.select(query >= key, zero, low)

    @tkw.wave(
        [
            tkw.HardwareConstraint(**UNIT, vector_shapes={B: 0, M: 16, D: 16}),
            tkw.WorkgroupConstraint(M, bm, 0),
            tkw.WorkgroupConstraint(D, D, 1),
            tkw.WorkgroupConstraint(B, 1, 2),
            tkw.TilingConstraint(K2, bk2, iters=steps),
            tkw.WaveConstraint(M, bm),
            tkw.WaveConstraint(D, D),
        ]
    )
    def attention(
        q: tkl.Memory[B, M, K1, G, dtype],
        k: tkl.Memory[B, K2, K1, G, dtype],
        v: tkl.Memory[B, K2, D, G, dtype],
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
            x = masked(tkw.permute(scores, target_shape=[B, M, K2]))
            larger = tkw.max(x, largest, dim=K2)
            kept = tkw.exp2(largest - larger)
            e = tkw.exp2(x - larger)
            total = tkw.sum(e, total * kept, dim=K2)
            return (
                larger,
                total,
                tkw.mma(tkw.read(v, mapping=turned), tkw.cast(e, dtype), acc * kept),
            )

        _, total, result = loop
        tkw.write(result * tkw.reciprocal(total), c, mapping=out)

    return compiled(attention, {B: heads, M: queries, K2: keys, K1: depth, D: depth})


def convolution(n, h, w, c, hf, wf, nf, form="nhwc", dtype=tkl.f32, tile=(256, 128, 64)):
    """Stride 1, no padding. nhwc with filters hwcf, nchw with filters fchw."""
    H, W, C, HF, WF, NF = (getattr(tkl.sym, s) for s in "H W C HF WF NF".split())
    bm, bn, bk = tile
    h_out, w_out = H - HF + 1, W - WF + 1
    size, last = h_out * w_out, form == "nhwc"
    pixels, taps = N * size, HF * WF * C
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    image, row, column = i // size, i % size // w_out, i % size % w_out
    # The innermost reduced dim is the one that is contiguous in the filters.
    tap = (j // (C * WF), j // C % WF, j % C) if last else (j // WF % HF, j % WF, j // (WF * HF))
    x_mapping = tkw.IndexMapping(
        num_iterators=2,
        inputs={N: image, H: row + tap[0], W: column + tap[1], C: tap[2]},
        outputs={pixels: i, taps: j},
    )
    f_mapping = tkw.IndexMapping(
        num_iterators=2,
        inputs={HF: tap[0], WF: tap[1], C: tap[2], NF: i},
        outputs={NF: i, taps: j},
    )
    out_mapping = tkw.IndexMapping(
        num_iterators=2,
        inputs={pixels: i, NF: j},
        outputs={N: image, h_out: row, w_out: column, NF: j},
    )
    of_x, of_f, of_out = (
        ((N, H, W, C), (HF, WF, C, NF), (N, h_out, w_out, NF))
        if last
        else ((N, C, H, W), (NF, C, HF, WF), (N, NF, h_out, w_out))
    )

    @tkw.wave(
        [
            tkw.HardwareConstraint(**UNIT),
            tkw.WorkgroupConstraint(pixels, bm, 0),
            tkw.WorkgroupConstraint(NF, bn, 1),
            tkw.TilingConstraint(taps, bk),
            tkw.WaveConstraint(pixels, bm),
            tkw.WaveConstraint(NF, bn),
        ]
    )
    def convolution(
        x: tkl.Memory[*of_x, G, dtype],
        f: tkl.Memory[*of_f, G, dtype],
        out: tkl.Memory[*of_out, G, tkl.f32],
    ):
        @tkw.iterate(taps, init_args=[tkl.Register[pixels, NF, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(x, mapping=x_mapping), tkw.read(f, mapping=f_mapping), acc)

        tkw.write(product, out, mapping=out_mapping)

    return compiled(convolution, dict(zip((N, H, W, C, HF, WF, NF), (n, h, w, c, hf, wf, nf))))
