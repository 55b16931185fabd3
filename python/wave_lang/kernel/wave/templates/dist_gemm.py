"""A matmul whose rows and columns several devices divide."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_tiles import check_sizes
from .gemm_tiles import *

DEVICE_M, DEVICE_N = tkl.sym.DEVICE_M, tkl.sym.DEVICE_N


def get_dist_gemm_kernel(
    shape: tuple[int, int, int],
    dynamic_dims: bool | tuple[bool, bool, bool],
    mfma_variant: Any,
    dtype: Any = tkl.f16,
    device_m: int = 1,
    device_n: int = 1,
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """`gemm(a, b, c)`: a [M, K], b [N, K], c [M, N] in f32, on device_m x device_n devices. The
    compiler rejects more than one device (E0215)."""
    check_sizes(device_m=device_m, device_n=device_n)
    tiles = Tiles(shape, None, None, 64, mfma_variant)
    element = operand_type("dtype", dtype)
    devices = [tkw.DeviceConstraint(M, DEVICE_M, 0), tkw.DeviceConstraint(N, DEVICE_N, 1)]

    @tkw.wave([*devices, *tiles.constraints()])
    def gemm(
        a: tkl.Memory[M, K, SHARED, element],
        b: tkl.Memory[N, K, SHARED, element],
        c: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        tkw.write(product(a, b), c)

    subs, dynamic = tiles.with_dynamic(dynamic_dims)
    parts = {DEVICE_M: -(-shape[0] // device_m), DEVICE_N: -(-shape[1] // device_n)}
    return gemm, subs | parts, dynamic
