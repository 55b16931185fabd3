"""Quantisation of rows: numbers of 8 or 4 bits, and scales that they are to be multiplied by."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL

from .operators import operator
from .programs import *
from .tensors import *

LEAST_SCALE = 1e-10
LARGEST = {tkl.f8e4m3fn: 448.0, tkl.f8e5m2: 57344.0, tkl.i8: 127.0}
GROUPS, GROUP, HALF = sym.GROUPS, sym.GROUP, sym.HALF


def nearest(value: Any, dtype: Any) -> Any:
    """The nearest number of an 8-bit type; those beyond the largest become the largest."""
    most = LARGEST[dtype]
    every = tkw.register(value.shape, tkl.f32, most)
    value = tkw.maximum(tkw.minimum(value, every), -every)
    return tkw.cast(tkw.roundeven(value) if dtype == tkl.i8 else value, dtype)


def scale_of(largest: Any, dtype: Any) -> Any:
    """The scale of numbers of an 8-bit type, the largest of which has this magnitude."""
    least = tkw.register(largest.shape, tkl.f32, LEAST_SCALE)
    return tkw.maximum(largest * (1 / LARGEST[dtype]), least)


def _by_row(dtype: Any, small: Any, columns: int | None) -> Any:
    @tkw.wave(row_constraints(columns))
    def by_row(
        x: tkl.Memory[M, N, GLOBAL, dtype],
        q: tkl.Memory[M, N, GLOBAL, small],
        scales: tkl.Memory[M, GLOBAL, tkl.f32],
    ):
        value = f32_of(x)
        scale = scale_of(tkw.max(tkw.abs(value), dim=N, block=True), small)
        tkw.write(nearest(value * per_row(tkw.reciprocal(scale)), small), q)
        tkw.write(scale, scales)

    return by_row, *row_symbols(columns)


WAVE = 512  # elements of a row that a wave of one of these kernels has, 16 per thread


def waves_for(columns: int) -> int:
    """The waves of a workgroup. An SM holds at most 32 workgroups, which would be too few of one
    wave for the bytes that must be on their way."""
    return 4 if columns > 2 * WAVE else 1


def _group_constraints(each: Any, group: int, waves: int) -> list[Any]:
    groups = max(WAVE // group, 1)
    return [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 0, each: each}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(GROUPS, groups * waves, 1),
        *([tkw.WaveConstraint(GROUPS, groups)] if waves > 1 else []),
    ]


def _by_group(dtype: Any, small: Any, group: int, waves: int) -> Any:
    """Rows of whole groups: their dimension is `GROUPS * GROUP`."""
    i, j, k = (tkw.IndexMapping.iterator(n) for n in range(3))
    here, place = {M: i, GROUPS: j, GROUP: k}, {M: i, GROUPS * GROUP: j * GROUP + k}
    x_of = tkw.IndexMapping(3, inputs=place, outputs=here)
    q_of = tkw.IndexMapping(3, inputs=here, outputs=place)

    @tkw.wave(_group_constraints(GROUP, group, waves))
    def by_group(
        x: tkl.Memory[M, GROUPS * GROUP, GLOBAL, dtype],
        q: tkl.Memory[M, GROUPS * GROUP, GLOBAL, small],
        scales: tkl.Memory[M, GROUPS, GLOBAL, tkl.f32],
    ):
        value = f32_of(x, x_of)
        scale = scale_of(tkw.max(tkw.abs(value), dim=GROUP), small)
        every = tkw.broadcast(tkw.reciprocal(scale), [M, GROUPS, GROUP])
        tkw.write(nearest(value * every, small), q, mapping=q_of)
        tkw.write(scale, scales)

    return by_group, {GROUP: group}, [M, GROUPS]


def _largest(dtype: Any, columns: int | None) -> Any:
    @tkw.wave(row_constraints(columns))
    def largest(x: tkl.Memory[M, N, GLOBAL, dtype], y: tkl.Memory[M, GLOBAL, tkl.f32]):
        tkw.write(tkw.max(tkw.abs(f32_of(x)), dim=N, block=True), y)

    return largest, *row_symbols(columns)


def _whole_scale(small: Any) -> Any:
    """One workgroup: 16 waves, so that the values of 16384 rows are loaded at once."""
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={N: 1, M: 1024}),
        tkw.WorkgroupConstraint(N, 1, 0),
        tkw.TilingConstraint(M, 16384),
        tkw.WaveConstraint(M, 1024),
    ]

    @tkw.wave(constraints)
    def whole_scale(x: tkl.Memory[M, GLOBAL, tkl.f32], scale: tkl.Memory[N, GLOBAL, tkl.f32]):
        @tkw.iterate(M, init_args=[tkl.Register[N, tkl.f32](0.0)])
        def loop(most):
            return tkw.max(tkw.broadcast(tkw.read(x), [N, M]), most, dim=M, block=True)

        tkw.write(scale_of(loop, small), scale)

    return whole_scale, {N: 1}, [M]


def _with_scale(dtype: Any, small: Any, waves: int) -> Any:
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: WAVE}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(N, WAVE * waves, 1),
        *([tkw.WaveConstraint(N, WAVE)] if waves > 1 else []),
    ]
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    same = tkw.IndexMapping(1, inputs={GROUPS: 0}, outputs={M: i})
    # From the last row to the first: those that were read last are still in the cache.
    here, place = {M: i, N: j}, {M: M - 1 - i, N: j}
    x_of = tkw.IndexMapping(2, inputs=place, outputs=here)
    q_of = tkw.IndexMapping(2, inputs=here, outputs=place)

    @tkw.wave(constraints)
    def with_scale(
        x: tkl.Memory[M, N, GLOBAL, dtype],
        scale: tkl.Memory[GROUPS, GLOBAL, tkl.f32],
        q: tkl.Memory[M, N, GLOBAL, small],
    ):
        value = f32_of(x, x_of)  # on its way before the reciprocal, which has a branch
        factor = tkw.reciprocal(tkw.read(scale, mapping=same))
        tkw.write(nearest(value * per_row(factor), small), q, mapping=q_of)

    return with_scale, {GROUPS: 1}, [M, N]


def _quantize(x: Any, small: Any, by: str, group: int, out: Any, scale_out: Any) -> tuple[Any, Any]:
    x = tensor("x", x)
    dtype, rows = element_type("x", x, FLOATS), rows_of("x", x)
    if by not in ("tensor", "token", "group"):
        raise ValueError(f"`by` is {by!r}, expected 'tensor', 'token' or 'group'")
    columns = rows.shape[1]
    if by == "group" and (group < 1 or columns % group):
        raise ValueError(f"`group` is {group}, expected a divisor of the rows' length, {columns}")
    lead = tuple(x.shape[:-1])
    shape = {"tensor": (), "token": (*lead, 1), "group": (*lead, columns // max(group, 1))}[by]
    q = result("out", out, x, x.shape, small)
    scales = result("scale_out", scale_out, x, shape, tkl.f32, q)
    q_rows = rows_of("out", q)
    if by == "tensor":
        _quantize_whole(rows, dtype, small, q_rows, scales.reshape(1))
    elif is_empty(x):
        pass
    elif by == "token":
        kernel = program(_by_row, dtype, small, length_class(columns))
        kernel(rows, q_rows, rows_of("scale_out", scales)[:, 0])
    else:
        kernel = program(_by_group, dtype, small, group, waves_for(columns))
        kernel(rows, q_rows, rows_of("scale_out", scales))
    return q, scales


def _quantize_whole(rows: Any, dtype: Any, small: Any, q: Any, scale: Any) -> None:
    largest = new_tensor(rows, rows.shape[:1], tkl.f32)
    if not is_empty(rows):
        program(_largest, dtype, length_class(rows.shape[1]))(rows, largest)
    program(_whole_scale, small)(largest[: 0 if is_empty(rows) else None], scale)
    if not is_empty(rows):
        kernel = program(_with_scale, dtype, small, waves_for(rows.shape[1]))
        kernel(rows, scale, q)


@operator(
    "quantize_fp8(Tensor x, str by='token', *, int group=128) -> (Tensor out, Tensor scale_out)"
)
def quantize_fp8(
    x: Any, by: str = "token", *, group: int = 128, out: Any = None, scale_out: Any = None
) -> tuple[Any, Any]:
    """(q, scale): x [..., N] as 8-bit floats (e4m3fn), with x ≈ q * scale.

    A scale is that of the whole tensor ([]), of each row ([..., 1]), or of each `group` elements of
    a row ([..., N / group]): its largest magnitude / 448, at least 1e-10.
    """
    return _quantize(x, tkl.f8e4m3fn, by, group, out, scale_out)


@operator(
    "quantize_int8(Tensor x, str by='token', *, int group=128) -> (Tensor out, Tensor scale_out)"
)
def quantize_int8(
    x: Any, by: str = "token", *, group: int = 128, out: Any = None, scale_out: Any = None
) -> tuple[Any, Any]:
    """The same with integers from -127 to 127, rounded to nearest even."""
    return _quantize(x, tkl.i8, by, group, out, scale_out)


MX_GROUP = 32
# The type of elements (None: two of 4 bits in a byte), and the exponent of its largest number.
MX_TYPES = {"e4m3": (tkl.f8e4m3fn, 8), "e5m2": (tkl.f8e5m2, 15), "e2m1": (None, 2)}
# Numbers of 4 bits are 0, 0.5, 1, 1.5, 2, 3, 4, 6. These are the middles between them, and whether
# the middle itself is rounded up, to an even code.
MIDDLES = ((0.25, 0), (0.75, 1), (1.25, 0), (1.75, 1), (2.5, 0), (3.5, 1), (5.0, 0))


def _mx_scale(largest: Any, exponent: int) -> tuple[Any, Any]:
    """The byte of a scale, and what numbers are multiplied by: the scale is 2 to the power of the
    byte - 127, so that the largest number has the largest exponent of its type."""
    field = (tkw.bitcast(largest, tkl.i32) >> 23) & 255
    none = tkw.register(largest.shape, tkl.i32, 0)
    byte = tkw.maximum(field - exponent, none)
    byte = tkw.select(field < none + 255, byte, none + 255)  # of NaN and infinity: NaN
    factor = tkw.bitcast((254 - tkw.minimum(byte, none + 254)) << 23, tkl.f32)
    return byte, factor


def _mx_code(value: Any) -> Any:
    """The nearest number of 4 bits, as an integer."""
    size, code = tkw.abs(value), tkw.register(value.shape, tkl.i32, 0)
    for middle, up in MIDDLES:
        level = tkw.register(value.shape, tkl.f32, middle)
        code = code + tkw.cast(size >= level if up else size > level, tkl.i32)
    return code | ((tkw.bitcast(value, tkl.i32) >> 28) & 8)


def _mx(dtype: Any, small: Any, exponent: int, waves: int) -> Any:
    """`mx(x, q, scales)`: with `small`, 32 bytes for a group, otherwise 16."""
    i, j, k = (tkw.IndexMapping.iterator(n) for n in range(3))
    each, parts = (GROUP, 1) if small else (HALF, 2)
    here = {M: i, GROUPS: j, each: k}
    x_of = [
        tkw.IndexMapping(
            3, inputs={M: i, GROUPS * GROUP: j * GROUP + k * parts + n}, outputs=here
        )
        for n in range(parts)
    ]
    q_of = tkw.IndexMapping(3, inputs=here, outputs={M: i, GROUPS * each: j * each + k})

    @tkw.wave(_group_constraints(each, MX_GROUP, waves))
    def mx(
        x: tkl.Memory[M, GROUPS * GROUP, GLOBAL, dtype],
        q: tkl.Memory[M, GROUPS * each, GLOBAL, small or tkl.u8],
        scales: tkl.Memory[M, GROUPS, GLOBAL, tkl.u8],
    ):
        values = [f32_of(x, mapping) for mapping in x_of]
        sizes = [tkw.abs(value) for value in values]
        largest = tkw.max(sizes[0] if small else tkw.maximum(*sizes), dim=each)
        byte, factor = _mx_scale(largest, exponent)
        every = tkw.broadcast(factor, [M, GROUPS, each])
        if small:
            tkw.write(nearest(values[0] * every, small), q, mapping=q_of)
        else:
            low, high = (_mx_code(value * every) for value in values)
            tkw.write(tkw.cast(low | (high << 4), tkl.u8), q, mapping=q_of)
        tkw.write(tkw.cast(byte, tkl.u8), scales)

    return mx, {GROUP: MX_GROUP, HALF: MX_GROUP // 2}, [M, GROUPS]


@operator("quantize_mx(Tensor x, str dtype='e4m3') -> (Tensor out, Tensor scale_out)")
def quantize_mx(
    x: Any, dtype: str = "e4m3", *, out: Any = None, scale_out: Any = None
) -> tuple[Any, Any]:
    """(q, scale): x [..., N] as MX numbers, each 32 of which share a scale, a power of two.

    With the dtype "e4m3" or "e5m2", q [..., N] has 8-bit floats; with "e2m1", bytes [..., N / 2]
    have two numbers, the first in the low bits. The bytes of scales [..., N / 32] are exponents
    plus 127: of the largest magnitude of 32, less that of the type's largest number. Numbers are
    rounded to nearest even; those beyond the largest become the largest. 255 is a scale of NaN, of
    numbers that are not all finite.
    """
    x = tensor("x", x)
    kind, rows = element_type("x", x, FLOATS), rows_of("x", x)
    if dtype not in MX_TYPES:
        raise ValueError(f"`dtype` is {dtype!r}, expected one of {list(MX_TYPES)}")
    columns, lead = rows.shape[1], tuple(x.shape[:-1])
    if columns % MX_GROUP:
        raise ValueError(f"`x` has rows of {columns} elements, expected a multiple of {MX_GROUP}")
    small, exponent = MX_TYPES[dtype]
    shape = tuple(x.shape) if small else (*lead, columns // 2)
    q = result("out", out, x, shape, small or tkl.u8)
    scales = result("scale_out", scale_out, x, (*lead, columns // MX_GROUP), tkl.u8, q)
    if not is_empty(x):
        given = (rows_of("out", q), rows_of("scale_out", scales))
        program(_mx, kind, small, exponent, waves_for(columns))(rows, *given)
    return q, scales
