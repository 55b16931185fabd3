"""Attention as printed in the talks: plain, causal, and with the boundary mask of the listing."""

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from cases_gemm import INSTRUCTIONS, SPACES
from sim_cases import Case, Tensor
from wave_lang.kernel.lang.global_symbols import *

B, M, N, K1, K2 = (getattr(tkl.sym, s) for s in "B M N K1 K2".split())
BM, BN, BK2, SPACE = tkl.sym.BM, tkl.sym.BN, tkl.sym.BK2, tkl.sym.SPACE
G = GLOBAL_ADDRESS_SPACE
LOW = -1e6


def masked(x, mask):
    """Scores of masked keys become very small, by an addition as in the listing."""
    if mask == "none":
        return x
    zero, low = tkl.Register[M, K2, tkl.f32](0.0), tkl.Register[M, K2, tkl.f32](LOW)
    key = tkw.self_index(K2, tkl.i64)
    inside = tkw.broadcast(tkw.apply_expr(key, lambda i: i < K2), target_shape=[M, K2])
    inside = tkw.cast(inside, tkw.i1)
    if mask == "causal":
        query = tkw.broadcast(tkw.self_index(M, tkl.i64), target_shape=[M, K2])
        inside = inside & (query >= tkw.broadcast(key, target_shape=[M, K2]))
    return x + tkw.select(inside, zero, low)


def attention(mask, mma, space, tile, waves=2, dynamic=False, machine=None, keys=1):
    """`keys`: the number of waves that share the keys of each iteration."""
    bm, bn, k1, bk2 = tile
    instruction, lanes, (m, n, _) = INSTRUCTIONS[mma]

    def make():
        i, j, k = (tkw.IndexMapping.iterator(d) for d in range(3))
        out = tkw.IndexMapping(
            num_iterators=3, inputs={B: i, N: j, M: k}, outputs={B: i, M: k, N: j}
        )
        turned = tkw.IndexMapping(
            num_iterators=3, inputs={B: i, K2: k, N: j}, outputs={B: i, N: j, K2: k}
        )
        header = [
            tkw.WorkgroupConstraint(M, BM, 0),
            tkw.WorkgroupConstraint(N, BN, 1),
            tkw.WorkgroupConstraint(B, 1, 2),
            tkw.TilingConstraint(K2, BK2),
            tkw.WaveConstraint(M, BM / waves),
            tkw.WaveConstraint(N, BN),
            *([tkw.WaveConstraint(K2, BK2 / keys)] if keys > 1 else []),
            tkw.HardwareConstraint(
                threads_per_wave=lanes, mma_type=instruction, vector_shapes={B: 0, M: m, N: n}
            ),
        ]

        @tkw.wave(header)
        def attention(
            q: tkl.Memory[B, M, K1, G, tkl.f16],
            k: tkl.Memory[B, K2, K1, SPACE, tkl.f16],
            v: tkl.Memory[B, K2, N, SPACE, tkl.f16],
            c: tkl.Memory[B, M, N, G, tkl.f32],
        ):
            carried = [
                tkl.Register[B, M, tkl.f32](LOW),
                tkl.Register[B, M, tkl.f32](0.0),
                tkl.Register[B, N, M, tkl.f32](0.0),
            ]

            @tkw.iterate(K2, init_args=carried)
            def loop(largest, total, acc):
                inner = tkl.Register[B, K2, M, tkl.f32](0.0)
                s = tkw.mma(tkw.read(k), tkw.read(q), inner, instruction)
                x = masked(tkw.permute(s, target_shape=[B, M, K2]), mask)
                larger = tkw.max(x, largest, dim=K2)
                kept = tkw.exp2(largest - larger)
                e = tkw.exp2(x - larger)
                total = tkw.sum(e, total * kept, dim=K2)
                p = tkw.cast(e, tkl.f16)
                return larger, total, tkw.mma(tkw.read(v, mapping=turned), p, acc * kept)

            _, total, result = loop
            tkw.write(result * tkw.reciprocal(total), c, mapping=out)

        return attention

    def reference(q, k, v, **_):
        s = q @ k.transpose(0, 2, 1)
        if mask == "causal":
            rows, keys = s.shape[1:]
            s = np.where(np.arange(rows)[:, None] >= np.arange(keys), s, -np.inf)
        p = np.exp2(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        return p @ v, p @ np.abs(v) + 2**-6

    return Case(
        f"attention_{mask}_{mma}_t{'x'.join(map(str, tile))}_{space}"
        + f"_keys{keys}" * (keys > 1)
        + "_dynamic" * dynamic,
        make,
        around={B: 1, M: bm, N: bn, K1: k1, K2: bk2},
        subs={BM: bm, BN: bn, BK2: bk2, SPACE: SPACES[space]},
        inputs=(
            Tensor("f16", (B, M, K1)),
            Tensor("f16", (B, K2, K1)),
            Tensor("f16", (B, K2, N)),
        ),
        outputs=(Tensor("f32", (B, M, N)),),
        reference=reference,
        tolerance=2**-9,  # of the weights, which are rounded to f16
        dynamic=(B, M, N, K2) if dynamic else (),
        machine=machine,
    )


CASES = [
    attention("none", "16x16x16", "shared", (32, 16, 16, 16)),
    attention("none", "16x16x16", "global", (16, 32, 16, 32), 1),
    attention("boundary", "16x16x16", "shared", (32, 16, 16, 16)),
    attention("boundary", "16x16x16", "global", (16, 16, 32, 16), 1),
    attention("causal", "16x16x16", "shared", (32, 16, 16, 32)),
    attention("causal", "32x32x8", "global", (32, 32, 8, 32), 1),
    attention("causal", "sync_f16", "shared", (32, 16, 16, 16)),
    attention("boundary", "32x32x8", "shared", (64, 32, 16, 32)),
    attention("boundary", "16x16x16", "shared", (48, 16, 16, 48), 3),
    attention("causal", "16x16x16", "shared", (32, 16, 16, 16), dynamic=True),
    attention("causal", "16x16x16", "shared", (16, 32, 16, 64), 1, keys=2),
    attention("boundary", "16x16x16", "global", (32, 16, 16, 96), 2, True, keys=3),
    # Instructions of several waves; heads that two warpgroups share in parts that are not whole
    # swizzle spans.
    attention("causal", "16x16x16", "shared", (64, 48, 32, 64), 4, machine="sm_90a"),
    attention("boundary", "16x16x16", "shared", (64, 96, 32, 64), 4, True, machine="sm_90a"),
    attention("causal", "16x16x16", "global", (128, 80, 16, 32), 4, machine="sm_90a"),
]
