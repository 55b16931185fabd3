"""Tiles, constraints and orders of tiles that the matmuls share."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel._support.tensor_types import wave_dtype
from wave_lang.kernel.lang.global_symbols import *

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
BLOCK_M, BLOCK_N, BLOCK_K = tkl.sym.BLOCK_M, tkl.sym.BLOCK_N, tkl.sym.BLOCK_K
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE


def operand_type(name: str, dtype: Any) -> Any:
    """The element type of an operand, whose products are added in f32."""
    found = wave_dtype(dtype)
    if not found.is_float_asm():
        raise ValueError(f"`{name}` is {found}, expected a float")
    return found


def product(a: Any, b: Any, a_of: Any = None, b_of: Any = None) -> Any:
    """The sum over K, in f32."""

    @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
    def loop(acc):
        return tkw.mma(tkw.read(a, mapping=a_of), tkw.read(b, mapping=b_of), acc)

    return loop


class Tiles:
    """The sizes of a matmul and how it is divided."""

    def __init__(
        self,
        shape: tuple[int, ...],
        block_shape: tuple[int, ...] | None,
        waves_per_block: tuple[int, ...] | None,
        threads_per_wave: int,
        instruction: Any,
    ):
        self.shape, self.block = tuple(shape), tuple(block_shape or (128, 128, 64))
        self.waves = tuple(waves_per_block or (2, 2))
        self.threads, self.instruction = threads_per_wave, instruction
        for name, given, most in (("shape", self.shape, 3), ("block_shape", self.block, 3)):
            if len(given) != most or min(given) < 1:
                raise ValueError(f"`{name}` is {given}, expected three positive numbers")
        if len(self.waves) < 2 or min(self.waves) < 1:
            raise ValueError(f"`waves_per_block` is {self.waves}, expected positive numbers")

    def constraints(self, loop: Any = None, n_service_waves: int = 0) -> list[Any]:
        return [
            tkw.WorkgroupConstraint(M, BLOCK_M, 0),
            tkw.WorkgroupConstraint(N, BLOCK_N, 1),
            loop or tkw.TilingConstraint(K, BLOCK_K),
            tkw.WaveConstraint(M, BLOCK_M / self.waves[0]),
            tkw.WaveConstraint(N, BLOCK_N / self.waves[1]),
            tkw.HardwareConstraint(
                threads_per_wave=self.threads,
                mma_type=self.instruction,
                n_service_waves=n_service_waves,
            ),
        ]

    def hyperparams(self) -> dict[Any, Any]:
        return dict(zip((M, N, K, BLOCK_M, BLOCK_N, BLOCK_K), (*self.shape, *self.block)))

    def with_dynamic(self, dynamic_dims: Any) -> tuple[dict[Any, Any], list[Any]]:
        """The values of symbols, and the symbols that are dynamic instead."""
        each = [dynamic_dims] * 3 if isinstance(dynamic_dims, bool) else list(dynamic_dims)
        if len(each) != 3:
            raise ValueError(f"`dynamic_dims` has {len(each)} entries, expected one for M, N and K")
        dynamic = [d for d, is_dynamic in zip((M, N, K), each) if is_dynamic]
        return {d: v for d, v in self.hyperparams().items() if d not in dynamic}, dynamic

    def down(self) -> int:
        return -(-self.shape[0] // self.block[0])

    def across(self) -> int:
        return -(-self.shape[1] // self.block[1])

    def count(self) -> int:
        return self.down() * self.across()


def down_rows(tile: Any, down: int, across: int, rows: int) -> tuple[Any, Any]:
    """The row and column of a tile if tiles are counted down `rows` rows, then along them."""
    group, inside = tile // (rows * across), tile % (rows * across)
    here = tkl.Min(rows, down - group * rows)
    return group * rows + inside % here, inside // here


def by_dies(tile: Any, count: int, dies: int, chunk: int) -> Any:
    """The number of a tile such that `chunk` consecutive ones are on one of `dies` dies, to which
    workgroups go in turn. Tiles after the last whole round keep their number."""
    whole = count // (dies * chunk) * dies * chunk
    die, turn = tile % dies, tile // dies
    moved = turn // chunk * (dies * chunk) + die * chunk + turn % chunk
    return tkl.Piecewise((moved, tile < whole), (tile, True))
