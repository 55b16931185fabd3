"""Tiles, constraints and checks of arguments that the attention kernels share."""

from collections.abc import Sequence
from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel._support.tensor_types import wave_dtype
from wave_lang.kernel.wave.machine import target_named

MOST_COLUMNS = 256  # of the values that one workgroup accumulates


def round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def columns_of(head_size: int) -> int:
    """How many columns of the values a workgroup has: all of them, unless they are very many."""
    return min(round_up(head_size, 16), MOST_COLUMNS)


def is_latent(size: int, columns: int, dtype: Any) -> bool:
    """Whether a workgroup has all columns of values that are the first ones of keys: if this
    machine has room for both, as Hopper does."""
    fit = 256 < columns <= 512 and columns % 64 == 0
    fit = fit and columns <= size <= 576 and (size - columns) % 16 == 0
    return fit and dtype.bitwidth() == 16 and target_named().startswith("sm_90")


def rows_of(longest: int, num_waves: int, instruction: Any) -> int:
    """How many rows of queries a workgroup has: 32 per wave, or 16 if no sequence has more."""
    rows = 32 if longest > 16 * num_waves or "32x32" in str(instruction) else 16
    return rows * num_waves


def most_keys(head_size: int) -> int:
    """The most keys that pay: with 128, products of heads of 128 or more are long enough to hide the
    rest, where shared memory has room for them."""
    return 128 if head_size >= 128 and target_named().startswith("sm_") else 64


def keys_of(head_size: int, columns: int, dtype: Any, most: int = 64, machine: str = "") -> int:
    """How many keys an iteration has: `most`, or fewer if keys and values would exceed 64 KiB. That is
    all that AMD GPUs have, and waves need part of it to exchange values."""
    row = (head_size + columns) * dtype.bitwidth() // 8
    room = 7 << 13 if (machine or target_named()).startswith("gfx") else 1 << 16
    while most > 16 and most * row > room:
        most //= 2
    return most


def keys_visited(end: Any, first_row: Any, rows: Any) -> Any:
    """The end of a workgroup's loop over keys: none if the sequence has no such row. There are
    workgroups for the longest one."""
    return tkl.Piecewise((end, first_row < rows), (0, True))


def instructions(mfma_variant: Any) -> tuple[Any, Any]:
    """The instructions of the two products. One that is not a matrix instruction is replaced: rows
    of a single query are padded."""
    pair = mfma_variant if isinstance(mfma_variant, (tuple, list)) else (mfma_variant,) * 2
    if len(pair) != 2:
        raise ValueError(f"`mfma_variant` has {len(pair)} instructions, expected one or two")
    usual = tkw.MMAType.F32_16x16x16_F16
    first, second = (usual if isinstance(p, tkw.GenericDot) else p for p in pair)
    return first, second


def group_size(query_heads: int, kv_heads: int) -> int:
    """The number of query heads that share a head of keys and values."""
    if kv_heads < 1 or query_heads < 1 or query_heads % kv_heads:
        raise ValueError(
            f"`num_query_heads` is {query_heads}, expected a positive multiple of `num_kv_heads`, "
            f"which is {kv_heads}"
        )
    return query_heads // kv_heads


def check_sizes(**sizes: int) -> None:
    """Raises if a size is not positive."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"`{name}` is {size}, expected at least 1")


def check_shape(name: str, shape: Sequence[int], heads: int, size: int) -> None:
    """Raises if a tensor is not [tokens, heads, size]."""
    if len(shape) != 3 or tuple(shape[1:]) != (heads, size):
        raise ValueError(f"`{name}` is {tuple(shape)}, expected (tokens, {heads}, {size})")


def float_type(name: str, dtype: Any) -> Any:
    """The element type of an argument that must be a float of at least 16 bits."""
    found = wave_dtype(dtype)
    if found not in (tkl.f16, tkl.bf16, tkl.f32):
        raise ValueError(f"`{name}` is {found}, expected f16, bf16 or f32")
    return found


def size_type(name: str, dtype: Any) -> Any:
    """The element type of an argument that holds lengths or offsets."""
    found = wave_dtype(dtype)
    if found not in (tkl.i32, tkl.i64):
        raise ValueError(f"`{name}` is {found}, expected i32 or i64")
    return found


def any_tokens(*others: Any) -> tkl.MemoryLayout:
    """The layout of a tensor with any number of tokens, so that a kernel is compiled once."""
    return tkl.MemoryLayout(shape=[None, *others])
