"""Gradients of normalised rows: RMSNorm, layer norm and softmax.

Gradients of weights are sums over all rows: a workgroup adds those of its rows, and a second kernel
the parts of all workgroups, in order, so that they have the same bits on every run.
"""

from __future__ import annotations

import math
from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL

from .operators import Gradient, operator
from .programs import *
from .tensors import *

PART, EACH = sym.PART, sym.EACH  # workgroups, and the rows of each
MOST_PARTS = 264  # unless there are more rows than MOST_ROWS for each; an H200 holds two on an SM
MOST_ROWS = 128  # few enough to be added by plain sums of f32; parts are added without drift
STEP, LINE = sym.STEP, sym.LINE  # parts that a wave adds up one after another, and waves
LINES, PARTS_AT_ONCE = 16, 8

_i, _j, _k = (tkw.IndexMapping.iterator(n) for n in range(3))


def added_to(value: Any, total: Any, excess: Any) -> tuple[Any, Any]:
    """The total with one more value, and by how much rounding made it exceed the sum: so much is
    subtracted from the next value (Kahan). An infinite total exceeds nothing."""
    value = value - excess
    larger = total + value
    excess = (larger - total) - value
    return larger, tkw.select(tkw.abs(excess) < math.inf, excess, 0.0)


def within(value: Any, lead: list[Any], number: Any, count: Any) -> Any:
    """A value of the rows `number(indices of the dimensions in lead)`, and 0 from row `count` on:
    those rows are read as zeros, which have no finite scale if eps is 0."""
    at = [tkw.broadcast(tkw.self_index(dim, tkl.i32), lead) for dim in lead]
    known = tkw.apply_expr(at, number) < tkw.register(lead, tkl.i32, count)
    none = tkw.register(value.shape, tkl.f32, 0.0)
    return tkw.select(tkw.broadcast(known, value.shape), value, none)


def _norm_backward(
    dtype: Any, weight: Any, columns: int | None, gemma: bool, centred: bool, added: bool
) -> Any:
    """`norm(dy, x, w, eps, each, dx, dw parts, …)`: of layer norm if `centred`, then with parts of
    db; with `added`, more is added to dx."""
    here, there = {PART: _i, EACH: _j, N: _k}, {M: _i * EACH + _j, N: _k}
    row_of = tkw.IndexMapping(3, inputs=there, outputs=here)
    to_row = tkw.IndexMapping(3, inputs=here, outputs=there)
    row, parts = tkl.Memory[M, N, GLOBAL, dtype], tkl.Memory[PART, N, GLOBAL, tkl.f32]
    weights = tkl.Memory[N, GLOBAL, weight]
    all_dims, rows = [PART, EACH, N], [PART, EACH]
    each = EACH  # the symbol; in the kernel, the name is that of the parameter

    def mean_of(value: Any) -> Any:
        return tkw.sum(value, dim=N, block=True) / tkw.register(rows, tkl.f32, N)

    def mean(value: Any) -> Any:
        return tkw.broadcast(mean_of(value), all_dims)

    def step(dy: Any, x: Any, factor: Any, eps: Any, more: Any, dx: Any) -> tuple[Any, Any]:
        """Writes the gradient of a row; those of its weights and its bias."""
        value, slope = f32_of(x, row_of), f32_of(dy, row_of)
        value = value - mean(value) if centred else value
        product = slope * tkw.broadcast(factor, all_dims)
        # Means that do not depend on the scale: waves exchange them together.
        square, slant = mean_of(value * value), mean_of(product * value)
        scale = tkw.rsqrt(square + tkw.broadcast(eps, rows))
        scale = within(scale, rows, lambda i, j: i * each + j, M)
        slant, scale = (tkw.broadcast(x, all_dims) for x in (slant * scale, scale))
        unit = value * scale
        change = product - unit * slant
        change = (change - mean(product) if centred else change) * scale
        change = change if more is None else change + f32_of(more, row_of)
        tkw.write(tkw.cast(change, dtype), dx, mapping=to_row)
        return slope * unit, slope

    def run(dy: Any, x: Any, w: Any, eps: Any, more: Any, dx: Any, *sums: Any) -> None:
        factor = f32_of(w) + 1.0 if gemma else f32_of(w)

        @tkw.iterate(EACH, init_args=[tkl.Register[PART, N, tkl.f32](0.0) for _ in sums])
        def loop(*totals):
            found = step(dy, x, factor, eps, more, dx)
            return [tkw.sum(value, total, dim=EACH) for value, total in zip(found, totals)]

        for total, out in zip([loop] if len(sums) == 1 else loop, sums):
            tkw.write(total, out)

    @tkw.wave(_part_constraints(columns))
    def rms(
        dy: row, x: row, w: weights, eps: tkl.f32, EACH: tkl.SymbolBind[tkl.i32], dx: row, dw: parts
    ):
        run(dy, x, w, eps, None, dx, dw)

    @tkw.wave(_part_constraints(columns))
    def add_rms(
        dy: row,
        x: row,
        w: weights,
        eps: tkl.f32,
        EACH: tkl.SymbolBind[tkl.i32],
        dx: row,
        dw: parts,
        more: row,
    ):
        run(dy, x, w, eps, more, dx, dw)

    @tkw.wave(_part_constraints(columns))
    def layer(
        dy: row,
        x: row,
        w: weights,
        eps: tkl.f32,
        EACH: tkl.SymbolBind[tkl.i32],
        dx: row,
        dw: parts,
        db: parts,
    ):
        run(dy, x, w, eps, None, dx, dw, db)

    subs, dynamic = row_symbols(columns)
    return (layer if centred else add_rms if added else rms), subs, [*dynamic, PART]


def _part_constraints(columns: int | None) -> list[Any]:
    waves, each = waves_of(columns)
    return [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={PART: 0, EACH: 0, N: each}),
        tkw.WorkgroupConstraint(PART, 1, 0),
        tkw.WorkgroupConstraint(N, waves * each, 1),
        tkw.TilingConstraint(EACH, 1),
        *([tkw.WaveConstraint(N, each)] if waves > 1 else []),
    ]


def _column_sums(dtype: Any) -> Any:
    """`column_sums(parts, step, sums)`: 32 columns for each workgroup, whose waves share the parts;
    each of them loads several at once."""
    constraints = [
        tkw.HardwareConstraint(
            threads_per_wave=32, vector_shapes={STEP: PARTS_AT_ONCE, LINE: 1, N: 32}
        ),
        tkw.WorkgroupConstraint(N, 32, 0),
        tkw.WorkgroupConstraint(LINE, LINES, 1),
        tkw.TilingConstraint(STEP, PARTS_AT_ONCE),
        tkw.WaveConstraint(LINE, 1),
    ]
    part_of = tkw.IndexMapping(
        3, inputs={PART: _i * LINES + _j, N: _k}, outputs={STEP: _i, LINE: _j, N: _k}
    )

    def total_of(parts: Any) -> Any:
        @tkw.iterate(STEP, init_args=[tkl.Register[LINE, N, tkl.f32](0.0)] * 2)
        def loop(total, excess):
            return added_to(tkw.sum(tkw.read(parts, mapping=part_of), dim=STEP), total, excess)

        return tkw.sum(loop[0], dim=LINE, block=True)

    @tkw.wave(constraints)
    def column_sums(
        parts: tkl.Memory[PART, N, GLOBAL, tkl.f32],
        STEP: tkl.SymbolBind[tkl.i32],
        sums: tkl.Memory[N, GLOBAL, dtype],
    ):
        tkw.write(tkw.cast(total_of(parts), dtype), sums)

    return column_sums, {LINE: LINES}, [PART, N]


def column_sums(parts: Any, sums: Any, dtype: Any) -> None:
    """sums [N] of parts [P, N], in f32 until they are rounded."""
    program(_column_sums, dtype)(parts, -(-parts.shape[0] // LINES), sums)


def _run(dy: Any, x: Any, w: Any, eps: float, gemma: bool, more: Any, sums: dict, dx: Any) -> Any:
    """Checks the arguments and computes dx and, into `sums`, the gradients of weights."""
    dy, x, w = tensor("dy", dy), tensor("x", x), tensor("w", w)
    dtype, rows = element_type("x", x, FLOATS), rows_of("x", x)
    element_type("dy", dy, (dtype.name,))
    expect_shape("dy", dy, x.shape)
    weight = element_type("w", w, FLOATS)
    expect_shape("w", w, rows.shape[1:])
    added = []
    if more is not None:
        more = tensor("dtotal", more)
        element_type("dtotal", more, (dtype.name,))
        expect_shape("dtotal", more, x.shape)
        added.append(rows_of("dtotal", more))
    dx = result("dx", dx, x, x.shape, dtype, dy, w, more)
    outs = [result(n, out, x, rows.shape[1:], weight, dy, w, more, dx) for n, out in sums.items()]
    if is_empty(x):
        for out in outs:
            out[...] = 0
        return dx, *outs
    number, columns = rows.shape
    each = min(-(-number // MOST_PARTS), MOST_ROWS)
    parts = [new_tensor(x, (-(-number // each), columns), tkl.f32) for _ in outs]
    key = (dtype, weight, length_class(columns), gemma, len(outs) > 1, more is not None)
    kernel = program(_norm_backward, *key)
    kernel(rows_of("dy", dy), rows, w, eps, each, rows_of("dx", dx), *parts, *added)
    for part, out in zip(parts, outs):
        column_sums(part, out, weight)
    return dx, *outs


@operator(
    "rms_norm_backward(Tensor dy, Tensor x, Tensor w, float eps=1e-6,"
    " Tensor? dtotal=None, *, bool gemma=False) -> (Tensor dx, Tensor dw)"
)
def rms_norm_backward(
    dy: Any,
    x: Any,
    w: Any,
    eps: float = 1e-6,
    dtotal: Any = None,
    *,
    gemma: bool = False,
    dx: Any = None,
    dw: Any = None,
) -> tuple[Any, Any]:
    """(dx, dw) of `rms_norm` for the gradient dy of its result. For `add_rms_norm`, x is the total,
    whose own gradient `dtotal` is added to dx."""
    return _run(dy, x, w, eps, gemma, dtotal, {"dw": dw}, dx)


@operator(
    "layer_norm_backward(Tensor dy, Tensor x, Tensor w, float eps=1e-5)"
    " -> (Tensor dx, Tensor dw, Tensor db)"
)
def layer_norm_backward(
    dy: Any,
    x: Any,
    w: Any,
    eps: float = 1e-5,
    *,
    dx: Any = None,
    dw: Any = None,
    db: Any = None,
) -> tuple[Any, Any, Any]:
    """(dx, dw, db) of `layer_norm` for the gradient dy of its result."""
    return _run(dy, x, w, eps, False, None, {"dw": dw, "db": db}, dx)


def _softmax_backward(dtype: Any, columns: int | None) -> Any:
    row = tkl.Memory[M, N, GLOBAL, dtype]

    @tkw.wave(row_constraints(columns))
    def softmax_backward(dy: row, y: row, scale: tkl.f32, dx: row):
        slope, value = f32_of(dy), f32_of(y)
        mean = tkw.sum(slope * value, dim=N, block=True)
        change = (slope - per_row(mean)) * value * per_row(tkw.broadcast(scale, [M]))
        tkw.write(tkw.cast(change, dtype), dx)

    return softmax_backward, *row_symbols(columns)


def _long_softmax_backward(dtype: Any) -> Any:
    """The same for rows that are not held: they are read twice."""
    row = tkl.Memory[M, N, GLOBAL, dtype]

    @tkw.wave(loop_constraints())
    def long_softmax_backward(dy: row, y: row, scale: tkl.f32, dx: row):
        @tkw.iterate(N, init_args=[tkw.register([M], tkl.f32, 0.0)])
        def mean(total):
            return tkw.sum(f32_of(dy) * f32_of(y), total, dim=N, block=True)

        @tkw.iterate(N, init_args=[])
        def store():
            change = (f32_of(dy) - per_row(mean)) * f32_of(y)
            change = change * per_row(tkw.broadcast(scale, [M]))
            tkw.write(tkw.cast(change, dtype), dx)

    return long_softmax_backward, {}, [M, N]


@operator("softmax_backward(Tensor dy, Tensor y, *, float scale=1.0) -> (Tensor dx)")
def softmax_backward(dy: Any, y: Any, *, scale: float = 1.0, dx: Any = None) -> Any:
    """dx of `softmax` for its result y and the gradient dy of that."""
    dy, y = tensor("dy", dy), tensor("y", y)
    dtype, rows = element_type("y", y, FLOATS), rows_of("y", y)
    element_type("dy", dy, (dtype.name,))
    expect_shape("dy", dy, y.shape)
    dx = result("dx", dx, y, y.shape, dtype, dy)
    if not is_empty(y):
        columns = rows.shape[1]
        if is_held(columns):
            kernel = program(_softmax_backward, dtype, length_class(columns))
        else:
            kernel = program(_long_softmax_backward, dtype)
        kernel(rows_of("dy", dy), rows, scale, rows_of("dx", dx))
    return dx


def _save_norm(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = {}) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.eps, ctx.options = inputs[-1], keyword_only_inputs


def _rms_norm_gradient(ctx: Any, dy: Any) -> tuple[Any, ...]:
    return *rms_norm_backward(dy.contiguous(), *ctx.saved_tensors, ctx.eps, **ctx.options), None


def _layer_norm_gradient(ctx: Any, dy: Any) -> tuple[Any, ...]:
    return *layer_norm_backward(dy.contiguous(), *ctx.saved_tensors, ctx.eps), None


def _save_sum(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any) -> None:
    ctx.save_for_backward(output[1], inputs[2])
    ctx.eps, ctx.options = inputs[3], keyword_only_inputs


def _add_rms_norm_gradient(ctx: Any, dy: Any, dtotal: Any) -> tuple[Any, ...]:
    given = (dy.contiguous(), *ctx.saved_tensors, ctx.eps, dtotal.contiguous())
    dx, dw = rms_norm_backward(*given, **ctx.options)
    return dx, dx, dw, None


def _save_softmax(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any) -> None:
    ctx.save_for_backward(output)
    ctx.options = keyword_only_inputs


def _softmax_gradient(ctx: Any, dy: Any) -> Any:
    return softmax_backward(dy.contiguous(), *ctx.saved_tensors, **ctx.options)


rms_norm = Gradient(_save_norm, _rms_norm_gradient)
add_rms_norm = Gradient(_save_sum, _add_rms_norm_gradient)
layer_norm = Gradient(_save_norm, _layer_norm_gradient)
softmax = Gradient(_save_softmax, _softmax_gradient)
