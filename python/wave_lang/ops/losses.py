"""Cross entropy of rows of logits, and its gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL

from .operators import Gradient, operator
from .programs import LOG2_E, LOWEST, M, N, f32_of, loop_constraints, per_row, program
from .tensors import *

ONE, BLOCK, PART = sym.ONE, sym.BLOCK, sym.PART  # elements of a workgroup, and of a wave
TILE = 8192  # elements of a row at a time: two exchanges between waves for each tile cost little
REDUCTIONS = ("mean", "sum", "none")

_i, _j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)


@dataclass(frozen=True)
class Form:
    """What a kernel is compiled for."""

    dtype: Any
    index: Any
    cap: bool
    smoothing: bool
    z_loss: bool
    each: bool = True  # backward: each row has a gradient of its own


def _power(x: Any) -> Any:
    """exp(x), with an error of |x| units in the last place: less than those of `exp` where results
    are added to some that are close to 1, or rounded to 16 bits. It takes a quarter of the
    instructions."""
    return tkw.exp2(x * LOG2_E)


def _capped(x: Any, cap: Any, dims: list[Any]) -> tuple[Any, Any]:
    """cap * tanh(x / cap), and the tanh."""
    every = tkw.broadcast(cap, dims)
    bent = tkw.tanh(x / every)
    return bent * every, bent


def forward(form: Form) -> Any:
    """`forward(x, target, ignored, smoothing, z, cap, loss, lse)`"""
    target_of = tkw.IndexMapping(
        1,
        inputs={M: _i, N: tkw.IndexMapping.dynamic_val(0)},
        outputs={M: _i},
        dynamic_val_mappings=({M: _i},),
    )
    each = tkl.Memory[M, GLOBAL, tkl.f32]

    def value(x: Any, cap: Any, dims: list[Any], **where: Any) -> Any:
        found = tkw.cast(tkw.read(x, **where), tkl.f32)
        return _capped(found, cap, dims)[0] if form.cap else found

    @tkw.wave(loop_constraints(tile=TILE))
    def cross_entropy(
        x: tkl.Memory[M, N, GLOBAL, form.dtype],
        target: tkl.Memory[M, GLOBAL, form.index],
        ignored: form.index,
        smoothing: tkl.f32,
        z: tkl.f32,
        cap: tkl.f32,
        loss: each,
        lse: each,
    ):
        zero = tkw.register([M], tkl.f32, 0.0)
        start = [tkw.register([M], tkl.f32, LOWEST), zero] + [zero] * form.smoothing

        @tkw.iterate(N, init_args=start)
        def loop(most, total, *sums):
            here = value(x, cap, [M, N])
            larger = tkw.max(here, most, dim=N, block=True)
            weights = _power(here - per_row(larger))
            total = tkw.sum(weights, total * _power(most - larger), dim=N, block=True)
            return [larger, total, *(tkw.sum(here, s, dim=N, block=True) for s in sums)]

        at, none = tkw.read(target), tkw.broadcast(ignored, [M])
        count = tkw.register([M], form.index, N)
        chosen = value(x, cap, [M], mapping=target_of, mapping_dynamic_vals=(at,))
        most, logarithm = loop[0], tkw.log(loop[1])
        whole = most + logarithm
        own = (most - chosen) + logarithm
        if form.smoothing:
            mean = loop[2] / tkw.register([M], tkl.f32, N)
            share = tkw.broadcast(smoothing, [M])
            own = own * (1.0 - share) + (most - mean + logarithm) * share
        if form.z_loss:
            own = own + whole * whole * tkw.broadcast(z, [M])
        known = (at >= at * 0) & (at < count)
        own = tkw.select(known, own, tkw.register([M], tkl.f32, math.nan))
        tkw.write(tkw.select(at == none, zero, own), loss)
        tkw.write(whole, lse)

    return cross_entropy, {}, [M, N]


def reduce(index: Any, mean: bool) -> Any:
    """`reduce(losses, target, ignored, loss, count)`: the sum or the mean of the losses, and what
    it is divided by."""
    each = [ONE, M]
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={ONE: 1, M: 1024}),
        tkw.WorkgroupConstraint(ONE, 1, 0),
        tkw.TilingConstraint(M, 1024),
    ]
    single = tkl.Memory[ONE, GLOBAL, tkl.f32]

    @tkw.wave(constraints)
    def reduce_losses(
        losses: tkl.Memory[M, GLOBAL, tkl.f32],
        target: tkl.Memory[M, GLOBAL, index],
        ignored: index,
        loss: single,
        count: single,
    ):
        zero = tkl.Register[ONE, tkl.f32](0.0)

        @tkw.iterate(M, init_args=[zero, zero])
        def loop(total, number):
            counts = tkw.cast(tkw.read(target) != tkw.broadcast(ignored, [M]), tkl.f32)
            value = tkw.broadcast(tkw.read(losses), each)
            return tkw.sum(value, total, dim=M), tkw.sum(tkw.broadcast(counts, each), number, dim=M)

        by = loop[1] if mean else zero + 1.0
        tkw.write(loop[0] / by, loss)
        tkw.write(by, count)

    return reduce_losses, {ONE: 1}, [M]


def backward(form: Form) -> Any:
    """`backward(dloss, count, dlse, x, target, lse, ignored, smoothing, z, cap, dx)`"""
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: PART}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(N, BLOCK, 1),
        tkw.WaveConstraint(N, PART),
    ]
    power = tkw.exp if form.dtype == tkl.f32 else _power
    same = tkw.IndexMapping(1, inputs={ONE: 0}, outputs={M: _i})
    row, each = tkl.Memory[M, N, GLOBAL, form.dtype], tkl.Memory[M, GLOBAL, tkl.f32]
    single = tkl.Memory[ONE, GLOBAL, tkl.f32]

    @tkw.wave(constraints)
    def cross_entropy_backward(
        dloss: each if form.each else single,
        count: single,
        dlse: each,
        x: row,
        target: tkl.Memory[M, GLOBAL, form.index],
        lse: each,
        ignored: form.index,
        smoothing: tkl.f32,
        z: tkl.f32,
        cap: tkl.f32,
        dx: row,
    ):
        value = f32_of(x)
        value, bent = _capped(value, cap, [M, N]) if form.cap else (value, None)
        # All that is read is on its way before the division, which ends in a branch.
        whole, at, more = tkw.read(lse), tkw.read(target), tkw.read(dlse)
        if form.each:
            slope = tkw.read(dloss)
        else:
            slope = tkw.read(dloss, mapping=same) / tkw.read(count, mapping=same)
        none, zero = tkw.broadcast(ignored, [M]), tkw.register([M], tkl.f32, 0.0)
        slope = tkw.select(at == none, zero, slope)
        share = tkw.broadcast(smoothing, [M]) if form.smoothing else zero
        # Of the probabilities: what z and the gradient of the log-sum-exp add to the loss's.
        factor = slope + slope * whole * 2.0 * tkw.broadcast(z, [M]) if form.z_loss else slope
        change = power(value - per_row(whole)) * per_row(factor + more)
        # Indices of 32 bits suffice for columns, not for any target.
        known = (at >= at * 0) & (at < tkw.register([M], form.index, N))
        at = tkw.select(known, tkw.cast(at, tkl.i32), tkw.register([M], tkl.i32, -1))
        mine = tkw.broadcast(tkw.self_index(N, tkl.i32), [M, N]) == per_row(at)
        change = change - tkw.select(mine, per_row(slope * (1.0 - share)), per_row(zero))
        if form.smoothing:
            change = change - per_row(slope * share / tkw.register([M], tkl.f32, N))
        change = change * (1.0 - bent * bent) if form.cap else change
        tkw.write(tkw.cast(change, form.dtype), dx)

    return cross_entropy_backward, {BLOCK: 2048, PART: 512, ONE: 1}, [M, N]


def form_of(dtype: Any, target: Any, options: dict[str, Any]) -> tuple[Form, tuple[Any, ...]]:
    """The form of the kernels, and the numbers that they take, from checked options."""
    index = element_type("target", target, ("i32", "i64"))
    smoothing, z_loss, softcap = (options[k] for k in ("label_smoothing", "z_loss", "softcap"))
    if not 0 <= smoothing <= 1:
        raise ValueError(f"`label_smoothing` is {smoothing}, expected 0 to 1")
    if not 0 <= softcap < math.inf:
        raise ValueError(f"`softcap` is {softcap}, expected a finite number of at least 0")
    if options["reduction"] not in REDUCTIONS:
        raise ValueError(f"`reduction` is {options['reduction']!r}, expected one of {REDUCTIONS}")
    bits = 31 if index.name == "i32" else 63
    if not -(2**bits) <= options["ignore_index"] < 2**bits:
        raise ValueError(f"`ignore_index` is {options['ignore_index']}, which `target` cannot have")
    form = Form(dtype, index, softcap > 0, smoothing > 0, z_loss != 0)
    return form, (options["ignore_index"], smoothing, z_loss, softcap)


def _checked(logits: Any, target: Any, options: dict[str, Any]) -> tuple[Any, ...]:
    """Logits and targets as rows, the form of their kernels, and its numbers."""
    logits, target = tensor("logits", logits), tensor("target", target)
    dtype, rows = element_type("logits", logits, FLOATS), rows_of("logits", logits)
    expect_shape("target", target, logits.shape[:-1])
    if rows.shape[1] == 0:
        raise ValueError("`logits` has rows without elements, expected one for each class")
    return rows, flat("target", target), *form_of(dtype, target, options)


def checked_gradients(
    shape: Any, each: bool, dloss: Any, dlse: Any, lse: Any, count: Any
) -> list[Any]:
    """The gradients of results and what else they are computed from, each with one dimension."""
    shape, tensors = tuple(shape), []
    shapes = {"dloss": shape if each else (), "dlse": shape, "lse": shape, "count": (1,)}
    for (name, wanted), x in zip(shapes.items(), (dloss, dlse, lse, count)):
        x = tensor(name, x)
        element_type(name, x, ("f32",))
        expect_shape(name, x, wanted)
        tensors.append(flat(name, x))
    return tensors


OPTIONS = (
    "int ignore_index=-100, float label_smoothing=0.0, float z_loss=0.0, float softcap=0.0,"
    " str reduction='mean'"
)


def _save(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any) -> None:
    ctx.save_for_backward(*inputs, *output[1:])
    ctx.options = keyword_only_inputs
    ctx.mark_non_differentiable(output[2])


def _gradient(ctx: Any, dloss: Any, dlse: Any, dcount: Any) -> tuple[Any, None]:
    given = (dloss.contiguous(), dlse.contiguous(), *ctx.saved_tensors)
    return cross_entropy_backward(*given, **ctx.options), None


@operator(
    f"cross_entropy(Tensor logits, Tensor target, *, {OPTIONS})"
    " -> (Tensor out, Tensor lse, Tensor count)",
    Gradient(_save, _gradient),
)
def _cross_entropy(
    logits: Any, target: Any, *, out: Any = None, lse: Any = None, count: Any = None, **given: Any
) -> tuple[Any, Any, Any]:
    options = defaults(given)
    rows, targets, form, numbers = _checked(logits, target, options)
    each = options["reduction"] == "none"
    shape = tuple(target.shape)
    out = result("out", out, rows, shape if each else (), tkl.f32, target)
    lse = result("lse", lse, rows, shape, tkl.f32, target, out)
    count = result("count", count, rows, (1,), tkl.f32, target, out, lse)
    losses = flat("out", out) if each else new_tensor(rows, targets.shape, tkl.f32)
    logs = flat("lse", lse)
    if not is_empty(targets):
        program(forward, form)(rows, targets, *numbers, losses, logs)
    if not each:
        kernel = program(reduce, form.index, options["reduction"] == "mean")
        kernel(losses, targets, numbers[0], flat("out", out), count)
    return out, lse, count


def defaults(given: dict[str, Any]) -> dict[str, Any]:
    known = dict(ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=0.0, reduction="mean")
    for name in given:
        if name not in known:
            raise TypeError(f"`{name}` is not an argument of cross_entropy")
    return known | given


@operator(
    "cross_entropy_backward(Tensor dloss, Tensor dlse, Tensor logits, Tensor target, Tensor lse,"
    f" Tensor count, *, {OPTIONS}) -> (Tensor dx)"
)
def cross_entropy_backward(
    dloss: Any,
    dlse: Any,
    logits: Any,
    target: Any,
    lse: Any,
    count: Any,
    *,
    dx: Any = None,
    **given: Any,
) -> Any:
    """The gradient of logits, from those of the loss and of the log-sum-exp; `lse` and `count` are
    results of the operator `wave::cross_entropy`, and options are its options."""
    options = defaults(given)
    rows, targets, form, numbers = _checked(logits, target, options)
    logits, each = tensor("logits", logits), options["reduction"] == "none"
    tensors = checked_gradients(logits.shape[:-1], each, dloss, dlse, lse, count)
    dx = result("dx", dx, logits, logits.shape, form.dtype, target, *tensors)
    if not is_empty(logits):
        dloss, dlse, lse, count = tensors
        form = replace(form, each=each)
        kernel = program(backward, form)
        kernel(dloss, count, dlse, rows, targets, lse, *numbers, rows_of("dx", dx))
    return dx


def cross_entropy(
    logits: Any,
    target: Any,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float = 0.0,
    reduction: str = "mean",
    return_lse: bool = False,
) -> Any:
    """log(sum(exp(x))) - x[target] for each row x of logits [..., V], in f32, and of that the mean
    or the sum over rows whose target is not `ignore_index`; with "none", all of them.

    Logits become softcap * tanh(logits / softcap) first. `label_smoothing` s divides a part s of
    each target among all classes; `z_loss` times the square of the logarithm is added. A target
    that is not a class gives NaN. With `return_lse`, the result is (loss, logarithms [...]).
    """
    options = dict(ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss)
    found = _cross_entropy(logits, target, softcap=softcap, reduction=reduction, **options)
    return found[:2] if return_lse else found[0]
