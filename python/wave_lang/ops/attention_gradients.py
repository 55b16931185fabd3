"""Gradients of attention over sequences of the same length, and over packed ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wave_lang.kernel import lang as tkl

from . import attention_gradient_kernels as kernels
from .attention_call import Call, dense_call, in_order, packed_call
from .norm_gradients import column_sums
from .operators import Gradient, operator
from .programs import program
from .tensors import *

OPTIONS = (
    "Tensor? sinks=None, Tensor? dlse=None, *, bool causal=False, int[2] window=[-1, -1],"
    " float? scale=None, float softcap=0.0"
)
RESULTS = "(Tensor dq, Tensor dk, Tensor dv, Tensor dsinks)"


def _call_options(sinks: Any, given: dict[str, Any]) -> dict[str, Any]:
    for name in given:
        if name not in ("causal", "window", "scale", "softcap"):
            raise TypeError(f"`{name}` is not an argument of the gradients of attention")
    return given | dict(sinks=sinks)


def _checked(call: Call, order: Any, given: dict[str, Any]) -> dict[str, Any]:
    """dout, out, lse and dlse, in the order of kernels."""
    if wave_dtype(call.k.dtype).name not in FLOATS:
        raise TypeError(f"`k` has elements of type {wave_dtype(call.k.dtype)}, without a gradient")
    shape, dtype = tuple(call.q.shape[:-1]), wave_dtype(call.q.dtype)
    found = {}
    for name, x in given.items():
        if x is None:
            found[name] = None
            continue
        x = order(tensor(name, x))
        narrow = name in ("lse", "dlse")
        element_type(name, x, ("f32" if narrow else dtype.name,))
        expect_shape(name, x, shape if narrow else (*shape, call.v.shape[-1]))
        found[name] = x
    return found


def _results(call: Call, layout: str, inputs: Any, dq: Any, dk: Any, dv: Any, ds: Any) -> list[Any]:
    """The tensors for gradients, in the layout of the arguments."""
    dtype, made = wave_dtype(call.q.dtype), []
    inputs = [call.k, call.v, *inputs]
    for name, out, like in (("dq", dq, call.q), ("dk", dk, call.k), ("dv", dv, call.v)):
        shape = tuple(in_order(layout, like).shape)
        made.append(result(name, out, call.q, shape, dtype, *inputs, *made))
    heads = 0 if call.sinks is None else call.heads[0]
    return [*made, result("dsinks", ds, call.q, (heads,), tkl.f32, *inputs, *made)]


def _run(call: Call, given: dict[str, Any], ends: tuple[Any, ...], made: list[Any]) -> None:
    """Launches the kernels; `made` is in their order."""
    dq, dk, dv, dsinks = made
    if has_shapes_only():
        return
    if ends or is_empty(call.q) or is_empty(call.k):  # tokens that no sequence has
        for x in made:
            x[...] = 0
    if is_empty(call.q) or (ends and (call.max_q == 0 or ends[0].shape[0] < 2)):
        return
    form = replace(call.form(False, 0), rows=0, single=False, sinks=False, scales=False)
    less = [] if given["dlse"] is None else [given["dlse"]]
    delta = new_tensor(call.q, call.q.shape[:-1], tkl.f32)
    key = (form.dtype, form.heads, form.columns, form.dense, bool(less))
    program(kernels.deltas, *key)(given["dout"], given["out"], *less, delta)
    scale = call.q.shape[-1] ** -0.5 if call.scale is None else call.scale
    same = (call.q, call.k, call.v, given["dout"], given["lse"], delta, *ends)
    program(kernels.of_queries, form)(*same, call.max_q, scale, dq)
    if not is_empty(call.k) and call.max_k:
        program(kernels.of_keys, form)(*same, call.max_k, scale, dk, dv)
    if call.sinks is not None:
        _of_sinks(call, given["lse"], delta, dsinks)


def _of_sinks(call: Call, lse: Any, delta: Any, dsinks: Any) -> None:
    if call.q_ends is not None:
        kernel = program(kernels.sink_gradients, call.heads[0], wave_dtype(call.q_ends.dtype))
        kernel(call.sinks, lse, delta, call.q_ends, dsinks)
        return
    parts = new_tensor(call.q, (call.q.shape[0], call.heads[0]), tkl.f32)
    program(kernels.sink_gradients, call.heads[0], None)(call.sinks, lse, delta, parts)
    program(column_sums, tkl.f32)(parts, dsinks)


@operator(
    "attention_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse,"
    f" {OPTIONS}, str layout='bshd') -> {RESULTS}"
)
def attention_backward(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    sinks: Any = None,
    dlse: Any = None,
    *,
    layout: str = "bshd",
    dq: Any = None,
    dk: Any = None,
    dv: Any = None,
    dsinks: Any = None,
    **options: Any,
) -> tuple[Any, ...]:
    """(dq, dk, dv, dsinks) of `attention` for its results `out` and `lse`, and the gradients of
    these, `dout` and `dlse` (None: 0). Without sinks, `dsinks` has no element."""
    call = dense_call(q, k, v, layout, _call_options(sinks, options))
    order = lambda x: in_order(layout, x)
    given = _checked(call, order, dict(dout=dout, out=out, lse=lse, dlse=dlse))
    made = _results(call, layout, given.values(), dq, dk, dv, dsinks)
    _run(call, given, (), [*(order(x) for x in made[:3]), made[3]])
    return tuple(made)


@operator(
    "attention_varlen_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse,"
    f" Tensor cu_q, Tensor cu_k, SymInt max_q, SymInt max_k, {OPTIONS}) -> {RESULTS}"
)
def attention_varlen_backward(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    cu_q: Any,
    cu_k: Any,
    max_q: int,
    max_k: int,
    sinks: Any = None,
    dlse: Any = None,
    *,
    dq: Any = None,
    dk: Any = None,
    dv: Any = None,
    dsinks: Any = None,
    **options: Any,
) -> tuple[Any, ...]:
    """The same of `attention_varlen`. Gradients of tokens that no sequence has are 0."""
    numbers = (max_q, max_k, _call_options(sinks, options))
    call, cu_k = packed_call(q, k, v, cu_q, cu_k, *numbers)
    given = _checked(call, lambda x: x, dict(dout=dout, out=out, lse=lse, dlse=dlse))
    inputs = (*given.values(), call.q_ends, cu_k)
    made = _results(call, "bshd", inputs, dq, dk, dv, dsinks)
    _run(call, given, (call.q_ends, cu_k), made)
    return tuple(made)


def _save(count: int) -> Any:
    """Keeps q, k, v, the results, and `count` numbers and tensors after v."""

    def save(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        q, k, v, *more = inputs[: 3 + count]
        sinks, k_scale, v_scale = inputs[3 + count : 6 + count]
        ctx.set_materialize_grads(False)
        ctx.has_scales = k_scale is not None or v_scale is not None
        ctx.numbers = more[2:]
        ctx.save_for_backward(q, k, v, *output, *more[:2], *([] if sinks is None else [sinks]))
        kept = ("causal", "window", "scale", "softcap", "layout")
        ctx.options = {n: x for n, x in keyword_only_inputs.items() if n in kept}
        ctx.count = count

    return save


def _backward(ctx: Any, dout: Any, dlse: Any) -> Any:
    if ctx.has_scales:
        raise NotImplementedError("attention with `k_scale` and `v_scale` has no gradient")
    q, k, v, out, lse, *more = ctx.saved_tensors
    ends, sinks = more[: min(ctx.count, 2)], (more[min(ctx.count, 2) :] or [None])[0]
    dout = out.new_zeros(out.shape) if dout is None else dout.contiguous()
    dlse = None if dlse is None else dlse.contiguous()
    function = attention_varlen_backward if ends else attention_backward
    given = (dout, q, k, v, out, lse, *ends, *ctx.numbers, sinks, dlse)
    dq, dk, dv, dsinks = function(*given, **ctx.options)
    return dq, dk, dv, *[None] * ctx.count, None if sinks is None else dsinks, None, None


dense = Gradient(_save(0), _backward)
packed = Gradient(_save(4), _backward)
