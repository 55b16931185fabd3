"""A matmul whose workgroups take tiles in an order for caches."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_tiles import check_sizes
from .gemm_tiles import *


def get_reordered_matmul(
    m_size: int,
    n_size: int,
    k_size: int,
    block_m_size: int,
    block_n_size: int,
    block_k_size: int,
    group_m_size: int,
    mfma_variant: Any,
    input_dtype: Any = tkl.f16,
    output_dtype: Any = tkl.f32,
) -> tuple[Any, dict[Any, Any]]:
    """`gemm(a, b, c)`: a [M, K], b [N, K], c [M, N]. Workgroups follow each other down
    `group_m_size` rows of tiles."""
    check_sizes(group_m_size=group_m_size)
    block = (block_m_size, block_n_size, block_k_size)
    tiles = Tiles((m_size, n_size, k_size), block, None, 64, mfma_variant)
    dtype = operand_type("input_dtype", input_dtype)
    out = operand_type("output_dtype", output_dtype)
    number = WORKGROUP_1 * tiles.down() + WORKGROUP_0
    row, column = down_rows(number, tiles.down(), tiles.across(), group_m_size)
    order = [tkw.ReorderingConstraint(row, 0), tkw.ReorderingConstraint(column, 1)]

    @tkw.wave([*tiles.constraints(), *order])
    def gemm(
        a: tkl.Memory[M, K, SHARED, dtype],
        b: tkl.Memory[N, K, SHARED, dtype],
        c: tkl.Memory[M, N, GLOBAL, out],
    ):
        tkw.write(tkw.cast(product(a, b), out), c)

    return gemm, tiles.hyperparams()
