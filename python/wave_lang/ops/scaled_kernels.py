"""Matmuls c = a bᵀ of numbers that have scales, for a [M, K] and b [N, K]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import *

from .packed_loops import GROUPS, Packed, packed_sums, step_of, unpacked
from .programs import MULTIPROCESSORS, f32_of, f32_value, has_warpgroups
from .quantize import MX_GROUP
from .scaled_loops import AHEAD, Scales, scaled_sums

M, N, K, ONE, N_BLOCKS, K_BLOCKS, SPLIT, SPLITS, WAVE, STEPS = (
    getattr(sym, name) for name in "M N K ONE N_BLOCKS K_BLOCKS SPLIT SPLITS WAVE STEPS".split()
)
BLOCK_M, BLOCK_N, BLOCK_K, PART_M, PART_N = (
    getattr(sym, name) for name in "BLOCK_M BLOCK_N BLOCK_K PART_M PART_N".split()
)
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
BLOCK = 128  # elements along K, or along K and N, that share a scale
WORKGROUPS = 2 * MULTIPROCESSORS
FEW_ROWS = 16
MOST_STEPS = 32  # times rows: whose weights, 8 registers each, one of 16 waves holds at once

_i, _j, _l = (tkw.IndexMapping.iterator(number) for number in range(3))


def row_class(rows: int) -> int:
    """The most rows that a program is for; 0: any number."""
    return next((most for most in (FEW_ROWS, 64, 256) if rows <= most), 0)


def _tiles(most: int) -> dict[Any, Any]:
    """The tiles for up to `most` rows: narrow ones, so that every compute unit has one. For
    any number of rows the compiler chooses them."""
    if most == FEW_ROWS:
        return {BLOCK_M: 16, BLOCK_N: 64, PART_N: 32}
    return {BLOCK_M: 64, PART_M: 32, BLOCK_N: 32 if most == 64 else 64} if most else {}


def _options(most: int) -> dict[str, Any]:
    """Few workgroups share Hopper's shared memory, so that rings may be long, which the compiler
    cannot know if the number of rows is not."""
    return {"multi_buffer_count": 8} if most in (FEW_ROWS, 64) and has_warpgroups() else {}


def _constraints(instruction: Any, most: int, *more: Any, **vectors: int) -> list[Any]:
    """Few rows are the columns of matrix instructions, which have fewer of these than rows."""
    few = most == FEW_ROWS
    return [
        tkw.WorkgroupConstraint(M, BLOCK_M, 1 if few else 0),
        tkw.WorkgroupConstraint(N, BLOCK_N, 0 if few else 1),
        tkw.TilingConstraint(K, BLOCK_K),
        tkw.WaveConstraint(N, PART_N) if few else tkw.WaveConstraint(M, PART_M),
        tkw.HardwareConstraint(
            threads_per_wave=64,
            mma_type=instruction,
            vector_shapes={getattr(sym, name): size for name, size in vectors.items()},
        ),
        *more,
    ]


def _finished(total: Any, bias: Any, out: Any) -> Any:
    """The sum, in f32, with a bias unless it is None, as a result."""
    if bias is not None:
        total = total + tkw.broadcast(f32_of(bias), total.shape)
    return total if out == tkl.f32 else tkw.cast(total, out)


def _sum_along(parts: Any, dim: Any, count: int, dims: tuple[Any, Any]) -> Any:
    """The sum over the first dimension of a memory, in order."""
    here = dict(zip(dims, (_i, _j)))
    of = [tkw.IndexMapping(2, inputs={dim: n, **here}, outputs=here) for n in range(count)]
    added = tkw.read(parts, mapping=of[0])
    for mapping in of[1:]:
        added = added + tkw.read(parts, mapping=mapping)
    return added


def by_rows(
    types: tuple[Any, Any],
    out: Any,
    alone: tuple[bool, bool],
    promote: bool,
    bias: bool,
    most: int,
    n: int,
    k: int,
) -> Any:
    """`product(a, b, sa, sb, [bias,] c)`: scales of rows of a and of b, or one for all of them.

    With `promote`, each 128 products are added apart from the sum of all: Hopper's matrix
    instructions keep few bits of a sum of 8-bit floats.
    """
    kind = tkl.i32 if types[0] == tkl.i8 else tkl.f32
    instruction = tkw.MMAType.I32_16x16x32_I8 if kind == tkl.i32 else tkw.MMAType.F32_16x16x32_F8
    dims = [N, M] if most == FEW_ROWS else [M, N]
    left, right = tkl.Memory[M, K, SHARED, types[0]], tkl.Memory[N, K, SHARED, types[1]]
    sides = [(ONE if one else dim) for one, dim in zip(alone, (M, N))]
    a_scale, b_scale = (tkl.Memory[side, GLOBAL, tkl.f32] for side in sides)
    result = tkl.Memory[M, N, GLOBAL, out]

    def scale_of(memory: Any, dim: Any, one: bool) -> Any:
        return tkw.read(
            memory, mapping=tkw.IndexMapping(1, inputs={ONE: 0}, outputs={dim: _i}) if one else None
        )

    def finished(a: Any, b: Any, sa: Any, sb: Any, bias: Any) -> Any:
        @tkw.iterate(K, init_args=[tkl.Register[(*dims, kind)](0)])
        def loop(acc):
            operands = [tkw.read(a), tkw.read(b)]
            if most == FEW_ROWS:
                operands.reverse()
            if not promote:
                return tkw.mma(*operands, acc)
            return acc + tkw.mma(*operands, tkl.Register[(*dims, kind)](0))

        scales = scale_of(sa, M, alone[0]), scale_of(sb, N, alone[1])
        total = loop if kind == tkl.f32 else tkw.cast(loop, tkl.f32)
        for scale in scales:
            total = total * tkw.broadcast(scale, total.shape)
        return _finished(total, bias, out)

    @tkw.wave(_constraints(instruction, most))
    def product(a: left, b: right, sa: a_scale, sb: b_scale, c: result):
        tkw.write(finished(a, b, sa, sb, None), c)

    @tkw.wave(_constraints(instruction, most))
    def product_with_bias(
        a: left, b: right, sa: a_scale, sb: b_scale, bias: tkl.Memory[N, GLOBAL, out], c: result
    ):
        tkw.write(finished(a, b, sa, sb, bias), c)

    tiles = _tiles(most)
    if promote and not tiles:  # twice the registers of other sums
        tiles = {BLOCK_M: 192, PART_M: 32, BLOCK_N: 128}
    subs = {ONE: 1, N: n, K: k} | tiles | ({BLOCK_K: BLOCK} if tiles else {})
    return product_with_bias if bias else product, subs, [M], _options(most)


def by_blocks(
    types: tuple[Any, Any], out: Any, turned: bool, bias: bool, most: int, n: int, k: int
) -> Any:
    """`product(a, b, sa, sb, [bias,] c)`: scales of each 128 elements of a's rows, and of blocks of
    128 x 128 elements of b. Each 128 products are added, and then multiplied by their scales. If
    `turned`, sa is [K / 128, M], of which the copy engine can bring a tile's part (H200, 8192³: 826 us;
    loaded by those who multiply, 1008)."""
    # Many of Hopper's waves load scales while its products run, and others have products meanwhile.
    few, late = most == FEW_ROWS, not most and has_warpgroups()
    tiles = _tiles(most) or {BLOCK_M: 192 if late else 128, PART_M: 32, BLOCK_N: BLOCK}
    if most == 64 and has_warpgroups():  # H200, 64 x 7168 x 2048: 10.0 us, 11.0 with 32 columns
        tiles = tiles | {BLOCK_N: BLOCK}
    each = BLOCK // tiles[BLOCK_N]  # workgroups with columns of the same block
    block_of = (lambda number: number // each) if each > 1 else None
    dims, where = ([N, M], 0) if few else ([M, N], 1)
    constraints = _constraints(
        tkw.MMAType.F32_16x16x32_F8,
        most,
        tkw.WorkgroupConstraint(N_BLOCKS, 1, where, apply_fn=block_of, primary=False),
        tkw.SymbolicAlias(K_BLOCKS, K, lambda size: tkl.ceiling(size / BLOCK)),
        N_BLOCKS=0,
        K_BLOCKS=0,
    )
    left, right = tkl.Memory[M, K, SHARED, types[0]], tkl.Memory[N, K, SHARED, types[1]]
    order = (K_BLOCKS, M) if turned else (M, K_BLOCKS)
    a_scale = tkl.Memory[(*order, SHARED if turned and late else GLOBAL, tkl.f32)]
    b_scale = tkl.Memory[N_BLOCKS, K_BLOCKS, GLOBAL, tkl.f32]
    result = tkl.Memory[M, N, GLOBAL, out]

    def factor_of(scales: Any) -> Any:
        down, across = (tkw.broadcast(scale, [M, N_BLOCKS, *scale.shape[1:]]) for scale in scales)
        return down * across

    def total(a: Any, b: Any, sa: Any, sb: Any) -> Any:
        def products(scales: Any) -> Any:
            factor = None if late else factor_of(scales())
            operands = (tkw.read(b), tkw.read(a)) if few else (tkw.read(a), tkw.read(b))
            part = tkw.mma(*operands, none())
            yield part, factor_of(scales()) if late else factor

        none = lambda: tkl.Register[(*dims, tkl.f32)](0.0)
        sides = [Scales(memory, dim, {dim: _i}) for memory, dim in ((sa, M), (sb, N_BLOCKS))]
        return scaled_sums([none()], sides, products, ahead=0 if late else AHEAD)[0]

    @tkw.wave(constraints)
    def product(a: left, b: right, sa: a_scale, sb: b_scale, c: result):
        tkw.write(_finished(total(a, b, sa, sb), None, out), c)

    @tkw.wave(constraints)
    def product_with_bias(
        a: left, b: right, sa: a_scale, sb: b_scale, bias: tkl.Memory[N, GLOBAL, out], c: result
    ):
        tkw.write(_finished(total(a, b, sa, sb), bias, out), c)

    sizes = {N: n, K: k, N_BLOCKS: -(-n // BLOCK), K_BLOCKS: -(-k // BLOCK), BLOCK_K: BLOCK}
    return product_with_bias if bias else product, sizes | tiles, [M], _options(most)


def by_powers(types: tuple[Any, Any], out: Any, bias: bool, most: int, n: int, k: int) -> Any:
    """`product(a, sa, b, sb, [bias,] c)` of MX numbers: scales, of each 32 elements of a row, are
    bytes with the exponents of powers of two. Elements of a type of 4 bits are two in a byte."""
    few = most == FEW_ROWS
    dims = [N, M] if few else [M, N]
    four = [dtype == tkl.f4e2m1fn for dtype in types]
    left, right = (
        tkl.Memory[dim, K / 2, SHARED, tkl.i8] if packed else tkl.Memory[dim, K, SHARED, dtype]
        for dim, packed, dtype in zip((M, N), four, types)
    )
    a_scale, b_scale = (tkl.Memory[dim, K / MX_GROUP, SHARED, tkl.i8] for dim in (M, N))
    result = tkl.Memory[M, N, GLOBAL, out]
    constraints = _constraints(tkw.ScaledMMAType.F32_16x16x128_F8F6F4, most)

    def operand(x: Any, scale: Any, packed: bool) -> tuple[Any, Any]:
        value = tkw.bitcast(tkw.read(x), tkl.f4e2m1fn) if packed else tkw.read(x)
        return value, tkw.bitcast(tkw.read(scale), tkl.f8e8m0fnu)

    def total(a: Any, sa: Any, b: Any, sb: Any) -> Any:
        @tkw.iterate(K, init_args=[tkl.Register[(*dims, tkl.f32)](0.0)])
        def loop(acc):
            rows, columns = operand(a, sa, four[0]), operand(b, sb, four[1])
            return tkw.scaled_mma(*(columns + rows if few else rows + columns), acc)

        return loop

    @tkw.wave(constraints)
    def product(a: left, sa: a_scale, b: right, sb: b_scale, c: result):
        tkw.write(_finished(total(a, sa, b, sb), None, out), c)

    @tkw.wave(constraints)
    def product_with_bias(
        a: left, sa: a_scale, b: right, sb: b_scale, bias: tkl.Memory[N, GLOBAL, out], c: result
    ):
        tkw.write(_finished(total(a, sa, b, sb), bias, out), c)

    tiles = _tiles(most) or {BLOCK_M: 128, PART_M: 32, BLOCK_N: 128}
    return product_with_bias if bias else product, {N: n, K: k, BLOCK_K: 128} | tiles, [M]


def few_class(rows: int) -> int:
    """The most rows that a program of `by_waves` is for; 0: it is for fewer."""
    return next((most for most in (8, FEW_ROWS) if rows <= most), 0) if has_warpgroups() else 0


def by_waves(
    dtype: Any, scale: Any, zeros: bool, bias: bool, most: int, n: int, k: int, group: int
) -> Any:
    """`product(a, b, scales, [zeros,] [bias,] c)`, as by_groups, for so few rows that reading b is
    what takes time: 16 waves divide K, so that a workgroup has all of it and loads what its
    compute unit needs at once. If there are more workgroups than units, 8 waves do, so that one
    loads while another computes. Rows of b are those of matrix instructions.

    A wave has `each` elements of K, and takes several steps of them in an iteration.
    """
    down, step = 32, step_of(group)
    waves = 16 if -(-n // down) <= WORKGROUPS // 2 else 8
    steps = -(-k // (waves * step))
    rounds = -(-steps // (MOST_STEPS * waves // (16 * most)))
    parts = range(-(-steps // rounds))
    each = rounds * len(parts) * step
    constraints = [
        tkw.WorkgroupConstraint(N, down, 0),
        tkw.WorkgroupConstraint(M, most, 1),
        tkw.WorkgroupConstraint(WAVE, waves, 2),
        tkw.WaveConstraint(WAVE, 1),
        tkw.TilingConstraint(STEPS, step),
        tkw.SymbolicAlias(K_BLOCKS, STEPS, lambda size: tkl.ceiling(size / step)),
        tkw.HardwareConstraint(
            threads_per_wave=32,
            mma_type=tkw.MMAType.F32_16x16x16_F16,
            vector_shapes={WAVE: 1, K_BLOCKS: 0},
        ),
    ]
    left, right = tkl.Memory[M, K, GLOBAL, dtype], tkl.Memory[N, K / 2, GLOBAL, tkl.u8]
    of_groups, of_zeros = (tkl.Memory[N, GROUPS, GLOBAL, x] for x in (scale, dtype))
    of_columns, result = tkl.Memory[N, GLOBAL, dtype], tkl.Memory[M, N, GLOBAL, dtype]

    def begin(number: Any, part: int) -> Any:
        """Where a part of a wave's iteration begins, along K."""
        return _i * each + (number * len(parts) + part) * step

    def along_k(dim: Any, part: int, packed: int) -> Any:
        size = step // packed
        here = {dim: _j, K / packed: begin(_l // size, part) / packed + _l % size}
        outputs = {WAVE: _i, dim: _j, STEPS / packed: _l}
        return tkw.IndexMapping(3, inputs=here, outputs=outputs)

    def of_group(part: int) -> Any:
        here = {N: _j, GROUPS: begin(_l, part) // group}
        return tkw.IndexMapping(3, inputs=here, outputs={WAVE: _i, N: _j, K_BLOCKS: _l})

    sums_of = tkl.Register[WAVE, N, M, tkl.f32]

    def total(a: Any, b: Any, *groups: Any) -> Any:
        @tkw.iterate(STEPS, init_args=[sums_of(0.0)])
        def loop(acc):
            packed = [tkw.read(b, mapping=along_k(N, part, 2)) for part in parts]
            values = [[tkw.read(x, mapping=of_group(part)) for x in groups] for part in parts]
            tkw.workgroup_barrier()  # ptxas would load scales when b has arrived, and they are used
            rows = [tkw.read(a, mapping=along_k(M, part, 1)) for part in parts]
            for part in parts:
                factor, *zero = (tkw.sum(f32_value(x), dim=K_BLOCKS) for x in values[part])
                less = [tkw.cast(x, dtype) for x in zero]
                weight = unpacked("w4", packed[part], dtype, *less)
                sums = tkw.mma(weight, rows[part], sums_of(0.0))
                acc = acc + sums * tkw.broadcast(factor, [WAVE, N, M])
            return acc

        return _added(loop)

    def _added(sums: Any) -> Any:
        """The sum of what the waves have, in order, divided among all threads."""
        parts = tkw.allocate((WAVE, N, M), (waves, down, most), tkl.f32)
        tkw.write(sums, parts)
        return _sum_along(parts, WAVE, waves, (N, M))

    @tkw.wave(constraints)
    def product(a: left, b: right, scales: of_groups, c: result):
        tkw.write(_finished(total(a, b, scales), None, dtype), c)

    @tkw.wave(constraints)
    def product_with_zeros(a: left, b: right, scales: of_groups, zeros: of_zeros, c: result):
        tkw.write(_finished(total(a, b, scales, zeros), None, dtype), c)

    @tkw.wave(constraints)
    def product_with_bias(a: left, b: right, scales: of_groups, bias: of_columns, c: result):
        tkw.write(_finished(total(a, b, scales), bias, dtype), c)

    @tkw.wave(constraints)
    def product_with_both(
        a: left, b: right, scales: of_groups, zeros: of_zeros, bias: of_columns, c: result
    ):
        tkw.write(_finished(total(a, b, scales, zeros), bias, dtype), c)

    forms = (product, product_with_bias, product_with_zeros, product_with_both)
    subs = {N: n, K: k, WAVE: waves, STEPS: rounds * step, K_BLOCKS: rounds}
    return forms[2 * zeros + bias], subs | {GROUPS: -(-k // group)}, [M]


@dataclass(frozen=True)
class GroupsForm:
    """A program of `by_groups`: how much of N and of M a workgroup has, how many share a sum over
    K, how many tiles rings have (0: the compiler decides), and whether workgroups stay, so that
    waves that do nothing else copy."""

    down: int
    across: int
    splits: int = 1
    slots: int = 0
    stays: bool = False


def groups_form(most: int, n: int, k: int, group: int) -> GroupsForm:
    """What is fastest on an H200 for up to `most` rows; 0: for any number. Few tiles of 64 rows are
    divided between the two workgroups of a cluster, so that all compute units have work."""
    down, across = {FEW_ROWS: (64, 16), 64: (128, 64), 256: (128, 64), 0: (128, 128)}[most]
    if not has_warpgroups() or not most:
        return GroupsForm(down, across)
    unit = -(-BLOCK // group) * group
    if most == 64 and -(-n // 64) <= WORKGROUPS // 4 and k >= 2 * 4 * unit:
        return GroupsForm(64, across, 2, 8)
    slots = _options(most).get("multi_buffer_count", 0)
    return GroupsForm(down, across, 1, slots, most == 256)


def _sum_of_splits(sums: Any, dims: list[Any]) -> Any:
    """The sum of what workgroups have that share a sum."""
    return tkw.sum(tkw.broadcast(sums, [SPLITS, *dims]), dim=SPLITS, grid=True)


def by_groups(
    dtype: Any, scale: Any, zeros: bool, bias: bool, n: int, k: int, group: int, form: GroupsForm
) -> Any:
    """`product(a, b, scales, [zeros,] [bias,] c)`: b [N, K / 2] has numbers of 4 bits, less 8 or
    the zero of their group, times its scale. Each group's products are added, and then multiplied
    by the scale.

    Rows of b are those of matrix instructions, which take them from registers. Several workgroups
    may have a part of K each; what they have is added.
    """
    step, splits = step_of(group), form.splits
    unit = -(-BLOCK // group) * group
    each = -(-k // (splits * unit)) * unit
    part = tkl.Max(tkl.Min(SPLIT, K - WORKGROUP_2 * SPLIT), 0)
    divided = [
        tkw.WorkgroupConstraint(SPLITS, 1, 2),
        tkw.TilingConstraint(K, step, None, tkl.ceiling(part / step), WORKGROUP_2 * SPLIT),
    ]
    constraints = [
        tkw.WorkgroupConstraint(N, form.down, 0),
        tkw.WorkgroupConstraint(M, form.across, 1),
        *(divided if splits > 1 else [tkw.TilingConstraint(K, step)]),
        tkw.SymbolicAlias(K_BLOCKS, K, lambda size: tkl.ceiling(size / step)),
        tkw.WaveConstraint(N, 32),
        tkw.HardwareConstraint(
            threads_per_wave=64,
            mma_type=tkw.MMAType.F32_16x16x16_F16,
            vector_shapes={K_BLOCKS: 0},
        ),
    ]
    left, right = tkl.Memory[M, K, SHARED, dtype], tkl.Memory[N, K / 2, SHARED, tkl.u8]
    of_groups, of_zeros = (tkl.Memory[N, GROUPS, GLOBAL, x] for x in (scale, dtype))
    of_columns, result = tkl.Memory[N, GLOBAL, dtype], tkl.Memory[M, N, GLOBAL, dtype]
    begin = WORKGROUP_2 * (SPLIT // step) if splits > 1 else 0

    def total(a: Any, b: Any, *groups: Any) -> Any:
        rows = Packed(lambda: tkw.read(b), {N: _i}, *groups)
        sums = packed_sums("w4", dtype, group, [rows], lambda: tkw.read(a), M, begin)[0]
        return _sum_of_splits(sums, [N, M]) if splits > 1 else sums

    @tkw.wave(constraints)
    def product(a: left, b: right, scales: of_groups, c: result):
        tkw.write(_finished(total(a, b, scales), None, dtype), c)

    @tkw.wave(constraints)
    def product_with_zeros(a: left, b: right, scales: of_groups, zeros: of_zeros, c: result):
        tkw.write(_finished(total(a, b, scales, zeros), None, dtype), c)

    @tkw.wave(constraints)
    def product_with_bias(a: left, b: right, scales: of_groups, bias: of_columns, c: result):
        tkw.write(_finished(total(a, b, scales), bias, dtype), c)

    @tkw.wave(constraints)
    def product_with_both(
        a: left, b: right, scales: of_groups, zeros: of_zeros, bias: of_columns, c: result
    ):
        tkw.write(_finished(total(a, b, scales, zeros), bias, dtype), c)

    forms = (product, product_with_bias, product_with_zeros, product_with_both)
    subs = {N: n, K: k, GROUPS: -(-k // group), K_BLOCKS: -(-k // step)}
    if splits > 1:
        subs |= {SPLIT: each, SPLITS: splits}
    options = {"multi_buffer_count": form.slots} if form.slots else {}
    if form.stays:
        options["persistent_workgroups"] = MULTIPROCESSORS
    return forms[2 * zeros + bias], subs, [M], options
