"""Quantisation of rows: 8-bit numbers, and the scales that they are to be multiplied by."""

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
GROUPS, GROUP = sym.GROUPS, sym.GROUP


def nearest(value: Any, dtype: Any) -> Any:
    """The nearest number of an 8-bit type; those beyond the largest become the largest."""
    most = LARGEST[dtype]
    every = tkw.register(value.shape, tkl.f32, most)
    value = tkw.maximum(tkw.minimum(value, every), -every)
    return tkw.cast(tkw.roundeven(value) if dtype == tkl.i8 else value, dtype)


def _scale(largest: Any, dtype: Any) -> Any:
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
        scale = _scale(tkw.max(tkw.abs(value), dim=N, block=True), small)
        tkw.write(nearest(value / per_row(scale), small), q)
        tkw.write(scale, scales)

    return by_row, *row_symbols(columns)


def _by_group(dtype: Any, small: Any, group: int) -> Any:
    """Rows of whole groups: their dimension is `GROUPS * GROUP`."""
    i, j, k = (tkw.IndexMapping.iterator(n) for n in range(3))
    here, place = {M: i, GROUPS: j, GROUP: k}, {M: i, GROUPS * GROUP: j * GROUP + k}
    x_of = tkw.IndexMapping(3, inputs=place, outputs=here)
    q_of = tkw.IndexMapping(3, inputs=here, outputs=place)
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 0, GROUP: GROUP}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(GROUPS, 4, 1),
    ]

    @tkw.wave(constraints)
    def by_group(
        x: tkl.Memory[M, GROUPS * GROUP, GLOBAL, dtype],
        q: tkl.Memory[M, GROUPS * GROUP, GLOBAL, small],
        scales: tkl.Memory[M, GROUPS, GLOBAL, tkl.f32],
    ):
        value = f32_of(x, x_of)
        scale = _scale(tkw.max(tkw.abs(value), dim=GROUP), small)
        every = tkw.broadcast(scale, [M, GROUPS, GROUP])
        tkw.write(nearest(value / every, small), q, mapping=q_of)
        tkw.write(scale, scales)

    return by_group, {GROUP: group}, [M, GROUPS]


def _largest(dtype: Any, columns: int | None) -> Any:
    @tkw.wave(row_constraints(columns))
    def largest(x: tkl.Memory[M, N, GLOBAL, dtype], y: tkl.Memory[M, GLOBAL, tkl.f32]):
        tkw.write(tkw.max(tkw.abs(f32_of(x)), dim=N, block=True), y)

    return largest, *row_symbols(columns)


def _whole_scale(small: Any) -> Any:
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={N: 1}),
        tkw.WorkgroupConstraint(N, 1, 0),
        tkw.TilingConstraint(M, 1024),
    ]

    @tkw.wave(constraints)
    def whole_scale(x: tkl.Memory[M, GLOBAL, tkl.f32], scale: tkl.Memory[N, GLOBAL, tkl.f32]):
        @tkw.iterate(M, init_args=[tkl.Register[N, tkl.f32](0.0)])
        def loop(most):
            return tkw.max(tkw.broadcast(tkw.read(x), [N, M]), most, dim=M)

        tkw.write(_scale(loop, small), scale)

    return whole_scale, {N: 1}, [M]


def _with_scale(dtype: Any, small: Any) -> Any:
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: 512}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(N, 512, 1),
    ]
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    same = tkw.IndexMapping(2, inputs={GROUPS: 0}, outputs={M: i, N: j})

    @tkw.wave(constraints)
    def with_scale(
        x: tkl.Memory[M, N, GLOBAL, dtype],
        scale: tkl.Memory[GROUPS, GLOBAL, tkl.f32],
        q: tkl.Memory[M, N, GLOBAL, small],
    ):
        tkw.write(nearest(f32_of(x) / tkw.read(scale, mapping=same), small), q)

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
        program(_by_group, dtype, small, group)(rows, q_rows, rows_of("scale_out", scales))
    return q, scales


def _quantize_whole(rows: Any, dtype: Any, small: Any, q: Any, scale: Any) -> None:
    largest = new_tensor(rows, rows.shape[:1], tkl.f32)
    if not is_empty(rows):
        program(_largest, dtype, length_class(rows.shape[1]))(rows, largest)
    program(_whole_scale, small)(largest[: 0 if is_empty(rows) else None], scale)
    if not is_empty(rows):
        program(_with_scale, dtype, small)(rows, scale, q)


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
