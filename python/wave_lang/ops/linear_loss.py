"""Cross entropy of a linear layer, without all logits in memory: those of a few rows at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Iterator

from wave_lang.kernel import lang as tkl

from . import losses
from .matmul import product
from .operators import Gradient, operator
from .programs import program
from .tensors import *

LEAST_ROWS = 128  # of a part


def _parts(x: Any, w: Any, rows: int | None) -> Iterator[slice]:
    """Rows of x whose logits are in memory together: by default they take about as much as x."""
    number, each = x.shape[0], rows
    if each is None:
        each = max(-(-number * x.shape[1] // max(w.shape[0], 1)), LEAST_ROWS)
    for first in range(0, number, each):
        yield slice(first, min(first + each, number))


def _checked(x: Any, w: Any, target: Any, rows: int | None, options: dict) -> tuple[Any, ...]:
    """x, w, the form of the kernels of the loss, and their numbers."""
    x, w, target = tensor("x", x), tensor("w", w), tensor("target", target)
    dtype = element_type("x", x, FLOATS)
    element_type("w", w, (dtype.name,))
    for name, given in (("x", x), ("w", w)):
        if len(given.shape) != 2:
            raise ValueError(f"`{name}` has {len(given.shape)} dimensions, expected 2")
    expect_shape("w", w, (w.shape[0], x.shape[1]))
    expect_shape("target", target, x.shape[:1])
    if w.shape[0] == 0:
        raise ValueError("`w` has no rows, expected one for each class")
    if rows is not None and rows < 1:
        raise ValueError(f"`rows` is {rows}, expected at least 1")
    return x, w, target, *losses.form_of(dtype, target, options)


def _logits(x: Any, w: Any, dtype: Any) -> Any:
    made = new_tensor(x, (x.shape[0], w.shape[0]), dtype)
    product(x, w, made, trans_b=True)
    return made


def _save(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any) -> None:
    ctx.save_for_backward(*inputs, *output[1:])
    ctx.options = keyword_only_inputs
    ctx.mark_non_differentiable(output[2])


def _gradient(ctx: Any, dloss: Any, dlse: Any, dcount: Any) -> tuple[Any, ...]:
    given = (dloss.contiguous(), dlse.contiguous(), *ctx.saved_tensors)
    return *linear_cross_entropy_backward(*given, **ctx.options), None


@operator(
    f"linear_cross_entropy(Tensor x, Tensor w, Tensor target, *, {losses.OPTIONS}, int? rows=None)"
    " -> (Tensor out, Tensor lse, Tensor count)",
    Gradient(_save, _gradient),
)
def _linear_cross_entropy(
    x: Any,
    w: Any,
    target: Any,
    *,
    rows: int | None = None,
    out: Any = None,
    lse: Any = None,
    count: Any = None,
    **given: Any,
) -> tuple[Any, Any, Any]:
    options = losses.defaults(given)
    x, w, target, form, numbers = _checked(x, w, target, rows, options)
    each = options["reduction"] == "none"
    out = result("out", out, x, x.shape[:1] if each else (), tkl.f32, w, target)
    lse = result("lse", lse, x, x.shape[:1], tkl.f32, w, target, out)
    count = result("count", count, x, (1,), tkl.f32, w, target, out, lse)
    found = out if each else new_tensor(x, x.shape[:1], tkl.f32)
    if not is_empty(target):
        kernel = program(losses.forward, form)
        for part in _parts(x, w, rows):
            logits = _logits(x[part], w, form.dtype)
            kernel(logits, target[part], *numbers, found[part], lse[part])
    if not each:
        kernel = program(losses.reduce, form.index, options["reduction"] == "mean")
        kernel(found, target, numbers[0], flat("out", out), count)
    return out, lse, count


@operator(
    "linear_cross_entropy_backward(Tensor dloss, Tensor dlse, Tensor x, Tensor w, Tensor target,"
    f" Tensor lse, Tensor count, *, {losses.OPTIONS}, int? rows=None) -> (Tensor dx, Tensor dw)"
)
def linear_cross_entropy_backward(
    dloss: Any,
    dlse: Any,
    x: Any,
    w: Any,
    target: Any,
    lse: Any,
    count: Any,
    *,
    rows: int | None = None,
    dx: Any = None,
    dw: Any = None,
    **given: Any,
) -> tuple[Any, Any]:
    """(dx, dw) from the gradients of the loss and of the log-sum-exp; `lse` and `count` are results
    of the operator `wave::linear_cross_entropy`, and options are its options."""
    options = losses.defaults(given)
    x, w, target, form, numbers = _checked(x, w, target, rows, options)
    each = options["reduction"] == "none"
    tensors = losses.checked_gradients(x.shape[:1], each, dloss, dlse, lse, count)
    dx = result("dx", dx, x, x.shape, form.dtype, w, target, *tensors)
    dw = result("dw", dw, w, w.shape, form.dtype, x, target, *tensors, dx)
    if is_empty(x):
        for made in (dx, dw):
            made[...] = 0
        return dx, dw
    dloss, dlse, lse, count = tensors
    kernel = program(losses.backward, replace(form, each=each))
    total, some = None, new_tensor(w, w.shape, tkl.f32)
    for part in _parts(x, w, rows):
        logits = _logits(x[part], w, form.dtype)
        slopes = new_tensor(logits, logits.shape, form.dtype)
        own = dloss[part] if each else dloss
        kernel(own, count, dlse[part], logits, target[part], lse[part], *numbers, slopes)
        product(slopes, w, dx[part])
        product(slopes, x[part], some, trans_a=True)
        if total is None:
            total, some = some, new_tensor(w, w.shape, tkl.f32)
        else:
            total += some
    dw[...] = total
    return dx, dw


def linear_cross_entropy(
    x: Any,
    w: Any,
    target: Any,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float = 0.0,
    reduction: str = "mean",
    rows: int | None = None,
    return_lse: bool = False,
) -> Any:
    """`cross_entropy` of the logits x · wᵀ for x [T, K] and w [V, K].

    Only the logits of `rows` rows are in memory at a time, in x's type; gradients compute them
    again. By default they take about as much memory as x.
    """
    options = dict(ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss)
    options |= dict(softcap=softcap, reduction=reduction, rows=rows)
    found = _linear_cross_entropy(x, w, target, **options)
    return found[:2] if return_lse else found[0]
