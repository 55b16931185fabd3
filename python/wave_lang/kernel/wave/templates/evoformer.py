"""Attention of the Evoformer: a bias for each key of a batch, and one for each row and key of a
head."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_loop import Attention
from .attention_tiles import check_sizes, float_type, round_up

B, BN, H, M, N, K1, K2 = (getattr(tkl.sym, name) for name in "B BN H M N K1 K2".split())
BLOCK_M, BLOCK_N, BLOCK_K2 = tkl.sym.BLOCK_M, tkl.sym.BLOCK_N, tkl.sym.BLOCK_K2
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE


def _constraints(instruction: Any, num_waves: int) -> list[Any]:
    return [
        tkw.WorkgroupConstraint(M, BLOCK_M, 0),
        tkw.WorkgroupConstraint(N, BLOCK_N, 1),
        tkw.WorkgroupConstraint(B, 1, 2),
        tkw.WorkgroupConstraint(BN, 1, 3),
        tkw.WorkgroupConstraint(H, 1, 4),
        tkw.TilingConstraint(K2, BLOCK_K2),
        tkw.WaveConstraint(M, BLOCK_M / num_waves),
        tkw.WaveConstraint(N, BLOCK_N),
        tkw.HardwareConstraint(
            threads_per_wave=64, mma_type=instruction, vector_shapes={B: 0, BN: 0, H: 0}
        ),
    ]


def get_evoformer_kernel(
    batch: tuple[int, int],
    n: tuple[int, int],
    kv_seq_len: tuple[int, int],
    heads: tuple[int, int],
    head_dim: tuple[int, int],
    q_seq_len: tuple[int, int],
    v_dim: tuple[int, int],
    mfma_variant: Any,
    datatype: Any,
) -> tuple[Any, dict[Any, Any]]:
    """`evoformer_fwd(q, k, v, mask, bias, c)`. Each size is a pair with the size of its tile.

    q is [batch, n, q_seq_len, heads, head_dim], v [batch, n, v_dim, heads, kv_seq_len], and the
    result [batch, n, q_seq_len, heads, v_dim]. `mask` [batch, n, kv_seq_len] and `bias` [batch,
    heads, q_seq_len, kv_seq_len] are added to the scores, which are exponents of 2: the caller has
    multiplied q and bias by log2(e), and q by the scale.
    """
    sizes = {"batch": batch, "n": n, "kv_seq_len": kv_seq_len, "heads": heads}
    sizes |= {"head_dim": head_dim, "q_seq_len": q_seq_len, "v_dim": v_dim}
    check_sizes(**{name: pair[0] for name, pair in sizes.items()})
    dtype = float_type("datatype", datatype)
    attention = Attention([B, BN, H], M, K2, N, dtype, mfma_variant)
    rows = 32 if "32x32" in str(mfma_variant) else 16
    num_waves = 2 if q_seq_len[1] >= 2 * rows else 1

    @tkw.wave(_constraints(mfma_variant, num_waves))
    def evoformer_fwd(
        q: tkl.Memory[B, BN, M, H, K1, GLOBAL, dtype],
        k: tkl.Memory[B, BN, K2, H, K1, SHARED, dtype],
        v: tkl.Memory[B, BN, N, H, K2, SHARED, dtype],
        mask: tkl.Memory[B, BN, K2, GLOBAL, dtype],
        bias: tkl.Memory[B, H, M, K2, GLOBAL, dtype],
        c: tkl.Memory[B, BN, M, H, N, GLOBAL, dtype],
    ):
        rows = tkw.read(q)

        @tkw.iterate(K2, init_args=attention.start())
        def loop(*state):
            added = tkw.cast(tkw.read(bias), tkl.f32) + tkw.cast(tkw.read(mask), tkl.f32)
            return attention.step(state, rows, tkw.read(k), tkw.read(v), bias=added)

        tkw.write(tkw.cast(attention.result(loop), dtype), c)

    symbols = {B: batch[0], BN: n[0], H: heads[0], K1: head_dim[0]}
    for dim, block, (size, tile), unit in (
        (M, BLOCK_M, q_seq_len, rows * num_waves),
        (N, BLOCK_N, v_dim, 16),
        (K2, BLOCK_K2, kv_seq_len, 16),
    ):
        symbols |= {dim: size, block: round_up(tile, unit)}
    return evoformer_fwd, symbols
