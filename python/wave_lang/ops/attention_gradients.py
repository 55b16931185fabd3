"""Gradients of attention over sequences of the same length, and over packed ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wave_lang.kernel import lang as tkl

from . import attention_gradient_heads as by_heads
from . import attention_gradient_kernels as kernels
from .attention_call import (
    Call,
    Extra,
    dense_call,
    extra_of,
    folded,
    in_order,
    packed_call,
    scores_shape,
)
from .norm_gradients import column_sums
from .operators import Gradient, operator
from .programs import has_warpgroups, program
from .tensors import *

OPTIONS = (
    "*, bool causal=False, int[2] window=[-1, -1], float? scale=None, float softcap=0.0"
)
RESULTS = "Tensor dq, Tensor dk, Tensor dv, Tensor dsinks"


def _call_options(sinks: Any, alibi: Any, given: dict[str, Any]) -> dict[str, Any]:
    for name in given:
        if name not in ("causal", "window", "scale", "softcap"):
            raise TypeError(f"`{name}` is not an argument of the gradients of attention")
    return given | dict(sinks=sinks, alibi=alibi)


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


def _run(call: Call, given: dict[str, Any], extra: Extra, ends: Any, made: list[Any]) -> None:
    """Launches the kernels; `made` is in their order, with dbias if it is needed."""
    dq, dk, dv, dsinks, *dbias = made
    if has_shapes_only():
        return
    # Tokens that no sequence has, and scores that no kernel visits.
    whole = ends or is_empty(call.q) or is_empty(call.k)
    for x in made if whole else dbias:
        x[...] = 0
    if is_empty(call.q) or (ends and (call.max_q == 0 or ends[0].shape[0] < 2)):
        return
    form = extra.of_form(call.form(False, 0))
    form = replace(form, rows=0, single=False, sinks=False, scales=False)
    delta = new_tensor(call.q, call.q.shape[:-1], tkl.f32)
    flat = _flat(form, call, given)
    rows = _deltas(form, flat or given, merged(delta, 0) if flat and form.dense else delta, bool(flat))
    _, scale, *_, slopes = call.numbers()
    more = (given["dout"], given["lse"], delta, slopes, *(ends or extra.given(call)))
    last = [] if ends else dbias or [Extra(None, None).given(call)[0]]
    large = _prefers_large_tiles(form, bool(flat))
    if not is_empty(call.k):
        fold, k, v = folded(call.k, call.v) if form.dense else ("", call.k, call.v)
        of_queries = program(kernels.of_queries, replace(form, fold=fold), bool(dbias), large)
        of_queries(call.q, k, v, *more, call.max_q, scale, dq, *last)
    if not is_empty(call.k) and call.max_k and flat:
        where = ends or (call.q.shape[1],)
        of_keys = program(by_heads.of_keys, form)
        of_keys(flat["q"], call.k, call.v, flat["dout"], rows, *where, call.max_k, scale, dk, dv)
    elif not is_empty(call.k) and call.max_k:
        of_keys = program(kernels.of_keys, form, large)
        of_keys(call.q, call.k, call.v, *more, call.max_k, scale, dk, dv)
    if call.sinks is not None:
        _of_sinks(call, given["lse"], delta, dsinks)


def _flat(form: kernels.Form, call: Call, given: dict[str, Any]) -> dict[str, Any] | None:
    """Tensors over queries, those of all sequences one after another, if one head is visited after
    another; None if a kernel for rows of several heads is to be used."""
    found = {"q": call.q, **{n: x for n, x in given.items() if x is not None}}
    if not _prefers_large_tiles(form, True) or not by_heads.is_for(form):
        return None
    if form.dense:
        found = {n: merged(x, 0) for n, x in found.items()}
    return None if any(x is None for x in found.values()) else found


def _deltas(form: kernels.Form, given: dict[str, Any], delta: Any, by_head: bool) -> Any:
    """Writes them. If dk and dv are computed head by head, returns what they need of each row."""
    dlse = given.get("dlse")
    less = [] if dlse is None else [dlse]
    if not by_head:
        key = (form.dtype, form.heads, form.columns, form.dense, bool(less))
        program(kernels.deltas, *key)(given["dout"], given["out"], *less, delta)
        return None
    rows = new_tensor(delta, by_heads.rows_shape(*delta.shape), tkl.f32)
    of_rows = program(by_heads.of_rows, form.dtype, form.heads, form.columns, bool(less))
    of_rows(given["dout"], given["out"], given["lse"], *less, delta, rows)
    return rows


def _prefers_large_tiles(form: kernels.Form, by_head: bool) -> bool:
    """Whether tiles with 128 keys are faster (H200, 4 x 4096 tokens, 32/8 heads of 64: all gradients
    take 5467 us with 64 keys, 3442 with 128 head by head)."""
    size = max(form.size, form.columns)
    return has_warpgroups() and form.dtype != tkl.f32 and (32 if by_head else 64) < size <= 128


def _of_sinks(call: Call, lse: Any, delta: Any, dsinks: Any) -> None:
    if call.q_ends is not None:
        kernel = program(kernels.sink_gradients, call.heads[0], wave_dtype(call.q_ends.dtype))
        kernel(call.sinks, lse, delta, call.q_ends, dsinks)
        return
    parts = new_tensor(call.q, (call.q.shape[0], call.heads[0]), tkl.f32)
    program(kernels.sink_gradients, call.heads[0], None)(call.sinks, lse, delta, parts)
    column_sums(parts, dsinks, tkl.f32)


@operator(
    "attention_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse,"
    " Tensor? sinks=None, Tensor? dlse=None, Tensor? alibi=None, Tensor? bias=None,"
    f" Tensor? mask=None, {OPTIONS}, str layout='bshd', bool of_bias=False)"
    f" -> ({RESULTS}, Tensor dbias)"
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
    alibi: Any = None,
    bias: Any = None,
    mask: Any = None,
    *,
    layout: str = "bshd",
    of_bias: bool = False,
    dq: Any = None,
    dk: Any = None,
    dv: Any = None,
    dsinks: Any = None,
    dbias: Any = None,
    **options: Any,
) -> tuple[Any, ...]:
    """(dq, dk, dv, dsinks, dbias) of `attention` for its results `out` and `lse`, and the gradients
    of these, `dout` and `dlse` (None: 0). Without sinks, `dsinks` has no element. With `of_bias`,
    `dbias` is the gradient of every score, in f32 [B, H, S, keys]; otherwise it has no element."""
    call = dense_call(q, k, v, layout, _call_options(sinks, alibi, options))
    extra = extra_of(call, bias, mask)
    order = lambda x: in_order(layout, x)
    given = _checked(call, order, dict(dout=dout, out=out, lse=lse, dlse=dlse))
    inputs = (*given.values(), extra.bias, extra.mask)
    made = _results(call, layout, inputs, dq, dk, dv, dsinks)
    shape = scores_shape(call) if of_bias else (0, 0, 0, 0)
    dbias = result("dbias", dbias, call.q, shape, tkl.f32, call.k, call.v, *inputs, *made)
    of_scores = [dbias] if of_bias else []
    _run(call, given, extra, (), [*(order(x) for x in made[:3]), made[3], *of_scores])
    return *made, dbias


@operator(
    "attention_varlen_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse,"
    " Tensor cu_q, Tensor cu_k, SymInt max_q, SymInt max_k, Tensor? sinks=None,"
    f" Tensor? dlse=None, Tensor? alibi=None, {OPTIONS}) -> ({RESULTS})"
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
    alibi: Any = None,
    *,
    dq: Any = None,
    dk: Any = None,
    dv: Any = None,
    dsinks: Any = None,
    **options: Any,
) -> tuple[Any, ...]:
    """The first four of these, of `attention_varlen`. Gradients of tokens that no sequence has are
    0."""
    numbers = (max_q, max_k, _call_options(sinks, alibi, options))
    call, cu_k = packed_call(q, k, v, cu_q, cu_k, *numbers)
    given = _checked(call, lambda x: x, dict(dout=dout, out=out, lse=lse, dlse=dlse))
    inputs = (*given.values(), call.q_ends, cu_k)
    made = _results(call, "bshd", inputs, dq, dk, dv, dsinks)
    _run(call, given, Extra(None, None), (call.q_ends, cu_k), made)
    return tuple(made)


def _save(names: str) -> Any:
    """Keeps the inputs, which have these names, and the results."""
    names = names.split()

    def save(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        given = dict(zip(names, inputs))
        ctx.set_materialize_grads(False)
        ctx.names = names
        ctx.has_scales = any(given.pop(n) is not None for n in ("k_scale", "v_scale"))
        ctx.numbers = {n: given.pop(n) for n in ("max_q", "max_k") if n in given}
        ctx.kept = [n for n, x in given.items() if x is not None]
        ctx.save_for_backward(*output, *(given[n] for n in ctx.kept))
        kept = ("causal", "window", "scale", "softcap", "layout")
        ctx.options = {n: x for n, x in keyword_only_inputs.items() if n in kept}

    return save


def _backward(ctx: Any, dout: Any, dlse: Any) -> Any:
    if ctx.has_scales:
        raise NotImplementedError("attention with `k_scale` and `v_scale` has no gradient")
    needed = dict(zip(ctx.names, ctx.needs_input_grad))
    if needed.get("alibi"):  # arguments that are left out are not there
        raise NotImplementedError("`alibi` of attention has no gradient")
    out, lse, *saved = ctx.saved_tensors
    given = dict(zip(ctx.kept, saved)) | ctx.numbers | ctx.options
    bias = given.get("bias")
    if needed.get("bias"):
        given["of_bias"] = True
    dout = out.new_zeros(out.shape) if dout is None else dout.contiguous()
    given |= dict(dout=dout, out=out, lse=lse, dlse=None if dlse is None else dlse.contiguous())
    function = attention_varlen_backward if ctx.numbers else attention_backward
    dq, dk, dv, dsinks, *dbias = function(**given)
    found = dict(q=dq, k=dk, v=dv)
    if "sinks" in given:
        found["sinks"] = dsinks
    if needed.get("bias"):
        dims = [i for i, n in enumerate(bias.shape) if n == 1]
        total = dbias[0].sum(dims, keepdim=True) if dims else dbias[0]
        found["bias"] = total.to(bias.dtype)
    return tuple(found.get(name) for name in ctx.names)


dense = Gradient(_save("q k v sinks k_scale v_scale alibi bias mask"), _backward)
packed = Gradient(
    _save("q k v cu_q cu_k max_q max_k sinks k_scale v_scale alibi"), _backward
)
