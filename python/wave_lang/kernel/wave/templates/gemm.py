"""Matmuls c = a bᵀ: plain, transposed, scaled, with the sum divided, and by a fixed number of
workgroups."""

from collections.abc import Callable
from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_tiles import check_sizes
from .gemm_tiles import *

SPLIT = tkl.sym.SPLIT  # how much of K a workgroup sums
TILE, ROW, COLUMN = tkl.sym.TILE, tkl.sym.ROW, tkl.sym.COLUMN


def get_gemm_kernel(
    shape: tuple[int, int, int],
    dynamic_dims: bool | tuple[bool, bool, bool],
    mfma_variant: Any,
    dtype: Any = tkl.f16,
    threads_per_wave: int = 64,
    block_shape: tuple[int, int, int] | None = None,
    waves_per_block: tuple[int, int] | None = None,
    n_service_waves: int = 0,
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """`gemm(a, b, c)`: a [M, K], b [N, K], c [M, N] in f32. `dynamic_dims` says which of M, N and K
    are those of the tensors."""
    tiles = Tiles(shape, block_shape, waves_per_block, threads_per_wave, mfma_variant)
    element = operand_type("dtype", dtype)

    @tkw.wave(tiles.constraints(n_service_waves=n_service_waves))
    def gemm(
        a: tkl.Memory[M, K, SHARED, element],
        b: tkl.Memory[N, K, SHARED, element],
        c: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        tkw.write(product(a, b), c)

    return gemm, *tiles.with_dynamic(dynamic_dims)


def get_gemm_kernel_transpose_a_b(
    shape: tuple[int, int, int],
    dynamic_dims: bool | tuple[bool, bool, bool],
    mfma_variant: Any,
    dtype: Any = tkl.f16,
    threads_per_wave: int = 64,
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """`gemm(a, b, c)`: a [K, M], b [K, N], c [M, N] in f32."""
    tiles = Tiles(shape, None, None, threads_per_wave, mfma_variant)
    element = operand_type("dtype", dtype)

    @tkw.wave(tiles.constraints())
    def gemm(
        a: tkl.Memory[K, M, SHARED, element],
        b: tkl.Memory[K, N, SHARED, element],
        c: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        tkw.write(product(a, b), c)

    return gemm, *tiles.with_dynamic(dynamic_dims)


def get_scaled_gemm_kernel(
    shape: tuple[int, int, int],
    mfma_variant: Any,
    block_shape: tuple[int, int, int] | None = None,
    waves_per_block: tuple[int, int] | None = None,
) -> tuple[Any, dict[Any, Any]]:
    """`scaled_gemm(a, a_scale, b, b_scale, c)` of numbers with 4 bits, two in a byte, each 32 of
    which have a scale that is a power of 2: a [M, K/2], a_scale [M, K/32], c [M, N] in f32."""
    if shape[2] % 32:
        raise ValueError(f"`shape` is {tuple(shape)}: its last number must be a multiple of 32")
    tiles = Tiles(shape, block_shape or (128, 128, 128), waves_per_block, 64, mfma_variant)

    def operand(x, scale):
        values = tkw.bitcast(tkw.read(x), tkl.f4e2m1fn)
        return values, tkw.bitcast(tkw.read(scale), tkl.f8e8m0fnu)

    @tkw.wave(tiles.constraints())
    def scaled_gemm(
        a: tkl.Memory[M, K / 2, SHARED, tkl.i8],
        a_scale: tkl.Memory[M, K / 32, SHARED, tkl.i8],
        b: tkl.Memory[N, K / 2, SHARED, tkl.i8],
        b_scale: tkl.Memory[N, K / 32, SHARED, tkl.i8],
        c: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.scaled_mma(*operand(a, a_scale), *operand(b, b_scale), acc)

        tkw.write(loop, c)

    return scaled_gemm, tiles.hyperparams()


def get_splitk_gemm_kernel(
    shape: tuple[int, int, int],
    num_splits: int,
    mfma_variant: Any,
    dtype: Any = tkl.f16,
    threads_per_wave: int = 64,
    block_shape: tuple[int, int, int] | None = None,
    waves_per_block: tuple[int, int] | None = None,
) -> tuple[Any, dict[Any, Any]]:
    """`splitk_gemm(a, b, c)`: `num_splits` workgroups each sum a part of K and add it to c, which
    the caller has set to 0. Atomics add the parts in any order: the last bits of c may differ from
    run to run."""
    tiles = Tiles(shape, block_shape, waves_per_block, threads_per_wave, mfma_variant)
    element = operand_type("dtype", dtype)
    check_sizes(num_splits=num_splits)
    here = tkl.Min(SPLIT, K - WORKGROUP_2 * SPLIT)
    loop = tkw.TilingConstraint(K, BLOCK_K, iters=tkl.ceiling(here / BLOCK_K))

    @tkw.wave([tkw.WorkgroupConstraint(K, SPLIT, 2), *tiles.constraints(loop)])
    def splitk_gemm(
        a: tkl.Memory[M, K, SHARED, element],
        b: tkl.Memory[N, K, SHARED, element],
        c: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        tkw.atomic_add(product(a, b), c)

    tile = tiles.block[2]
    subs = tiles.hyperparams() | {SPLIT: -(-shape[2] // (num_splits * tile)) * tile}
    return splitk_gemm, subs


def _persistent(name: str, tiles: Tiles, num_ctas: int | None, place: Callable[[Any], Any]) -> Any:
    """A kernel in which each workgroup computes every `num_ctas`th tile; `place` gives the row and
    the column, in tiles, of a tile's number."""
    count = tiles.count() if num_ctas is None else num_ctas
    check_sizes(num_ctas=count)
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    at_row, at_column = i + ROW * BLOCK_M, i + COLUMN * BLOCK_N
    a_of = tkw.IndexMapping(2, inputs={M: at_row, K: j}, outputs={M: i, K: j})
    b_of = tkw.IndexMapping(2, inputs={N: at_column, K: j}, outputs={N: i, K: j})
    c_of = tkw.IndexMapping(
        2, inputs={M: i, N: j}, outputs={M: at_row, N: j + COLUMN * BLOCK_N}
    )
    grid = [tkw.GridConstraint(count), tkw.TilingConstraint(TILE)]

    def kernel(
        a: tkl.Memory[M, K, SHARED, tkl.f16],
        b: tkl.Memory[N, K, SHARED, tkl.f16],
        c: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        first = tkw.scalar(WORKGROUP_0, tkl.i32)

        @tkw.iterate(TILE, start=first, condition=TILE < tiles.count(), init_args=[])
        def walk():
            row, column = place(TILE)
            tkw.set_symbol(ROW, tkw.scalar(row, tkl.i32))
            tkw.set_symbol(COLUMN, tkw.scalar(column, tkl.i32))
            tkw.write(product(a, b, a_of, b_of), c, mapping=c_of)
            tkw.set_symbol(TILE, tkw.scalar(TILE, tkl.i32) + count)

    kernel.__name__ = name
    return tkw.wave([*tiles.constraints(), *grid])(kernel)


def get_persistent_gemm_kernel(
    shape: tuple[int, int, int],
    mfma_variant: Any,
    threads_per_wave: int = 64,
    block_shape: tuple[int, int, int] | None = None,
    waves_per_block: tuple[int, ...] | None = None,
    num_ctas: int | None = None,
) -> tuple[Any, dict[Any, Any]]:
    """`persistent_gemm(a, b, c)` by `num_ctas` workgroups, each of which computes several tiles."""
    tiles = Tiles(shape, block_shape, waves_per_block, threads_per_wave, mfma_variant)
    across = tiles.across()
    place = lambda tile: (tile // across, tile % across)
    return _persistent("persistent_gemm", tiles, num_ctas, place), tiles.hyperparams()


def get_persistent_reordering_kernel(
    shape: tuple[int, int, int],
    mfma_variant: Any,
    threads_per_wave: int = 64,
    block_shape: tuple[int, int, int] | None = None,
    waves_per_block: tuple[int, int] | None = None,
    num_ctas: int | None = None,
    group_size_m: int = 4,
    num_xcds: int = 8,
    chunk_size: int = 2,
) -> tuple[Any, dict[Any, Any]]:
    """The same, in an order for caches: `chunk_size` consecutive tiles go to one of `num_xcds`
    dies, and tiles follow each other down `group_size_m` rows."""
    tiles = Tiles(shape, block_shape, waves_per_block, threads_per_wave, mfma_variant)
    check_sizes(group_size_m=group_size_m, num_xcds=num_xcds, chunk_size=chunk_size)

    def place(tile):
        near = by_dies(tile, tiles.count(), num_xcds, chunk_size)
        return down_rows(near, tiles.down(), tiles.across(), group_size_m)

    kernel = _persistent("persistent_gemm_reordering", tiles, num_ctas, place)
    return kernel, tiles.hyperparams()
