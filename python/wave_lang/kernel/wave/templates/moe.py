"""Kernels of a layer with experts: the matmul of one expert, and its activation."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_tiles import check_sizes, float_type
from .gemm_tiles import *


def get_gemm_kernel(
    m: int, k: int, n: int, mfma_variant: Any, datatype: Any
) -> tuple[Any, dict[Any, Any]]:
    """`gemm(a, b, c)`: a [M, K], b [N, K], c [M, N] in f32."""
    tiles = Tiles((m, n, k), None, None, 64, mfma_variant)
    dtype = float_type("datatype", datatype)

    @tkw.wave(tiles.constraints())
    def gemm(
        a: tkl.Memory[M, K, SHARED, dtype],
        b: tkl.Memory[N, K, SHARED, dtype],
        c: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        tkw.write(product(a, b), c)

    return gemm, tiles.hyperparams()


def get_silu_and_mul_kernel(m: int, n: int, datatype: Any) -> tuple[Any, dict[Any, Any]]:
    """`silu_and_mul(x1, x2, out)`: x1 / (1 + exp(-x1)) * x2 over [M, N], computed in f32."""
    check_sizes(m=m, n=n)
    dtype = float_type("datatype", datatype)
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 512}),
        tkw.WorkgroupConstraint(M, 1, 1),
        tkw.WorkgroupConstraint(N, 512, 0),
    ]

    @tkw.wave(constraints)
    def silu_and_mul(
        x1: tkl.Memory[M, N, GLOBAL, dtype],
        x2: tkl.Memory[M, N, GLOBAL, dtype],
        out: tkl.Memory[M, N, GLOBAL, dtype],
    ):
        gate, up = tkw.cast(tkw.read(x1), tkl.f32), tkw.cast(tkw.read(x2), tkl.f32)
        tkw.write(tkw.cast(gate / (tkw.exp(-gate) + 1.0) * up, dtype), out)

    return silu_and_mul, {M: m, N: n}
