"""Layers with experts."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel._support.tensor_types import wave_dtype_to_torch

from . import moe_kernels as kernels
from .activations import gelu_and_mul, silu_and_mul
from .operators import is_torch, is_torch_dtype, operator
from .programs import program
from .tensors import *

ACTIVATIONS = {"silu": silu_and_mul, "gelu": gelu_and_mul}


@operator(
    "topk_gate(Tensor logits, int k, Tensor? correction_bias=None, *, str scoring='softmax',"
    " bool renormalize=False, float scale=1.0) -> (Tensor weights, Tensor ids)"
)
def topk_gate(
    logits: Any,
    k: int,
    correction_bias: Any = None,
    *,
    scoring: str = "softmax",
    renormalize: bool = False,
    scale: float = 1.0,
    weights: Any = None,
    ids: Any = None,
) -> tuple[Any, Any]:
    """(weights, ids): the `k` experts with the largest scores of each row of logits [T, E], in
    descending order; of equal scores the lowest id.

    Scores are a softmax over all experts, or sigmoids. `correction_bias` [E] counts in the choice
    and not in the weights. With `renormalize`, the weights of a token add up to `scale`.
    """
    logits = tensor("logits", logits)
    dtype = element_type("logits", logits, FLOATS)
    if len(logits.shape) != 2:
        raise ValueError(f"`logits` has {len(logits.shape)} dimensions, expected 2")
    tokens, experts = logits.shape
    if not 1 <= k <= experts:
        raise ValueError(f"`k` is {k}, expected 1 to the number of experts, {experts}")
    if scoring not in ("softmax", "sigmoid"):
        raise ValueError(f"`scoring` is {scoring!r}, expected 'softmax' or 'sigmoid'")
    bias = new_tensor(logits, (experts,), tkl.f32)  # not read unless it is given
    if correction_bias is not None:
        bias = tensor("correction_bias", correction_bias)
        element_type("correction_bias", bias, ("f32",))
        expect_shape("correction_bias", bias, (experts,))
    weights = result("weights", weights, logits, (tokens, k), tkl.f32, bias)
    ids = result("ids", ids, logits, (tokens, k), tkl.i32, bias, weights)
    if not is_empty(logits):
        key = (dtype, experts, k, scoring == "sigmoid", correction_bias is not None, renormalize)
        program(kernels.gate, *key)(logits, bias, scale, weights, ids)
    return weights, ids


@operator(
    "moe_align(Tensor ids, int experts, int block)"
    " -> (Tensor sorted_ids, Tensor expert_ids, Tensor total)"
)
def moe_align(
    ids: Any,
    experts: int,
    block: int,
    *,
    sorted_ids: Any = None,
    expert_ids: Any = None,
    total: Any = None,
) -> tuple[Any, Any, Any]:
    """(sorted_ids, expert_ids, num_tokens_post_pad): positions in `ids` in the order of their
    experts, each of which has a multiple of `block` slots.

    Slots that are left have the number of ids, blocks that are left the expert -1. The order is
    stable. `sorted_ids` has room for every distribution: its size does not depend on data.
    """
    ids = tensor("ids", ids)
    element_type("ids", ids, ("i32",))
    if experts < 1:
        raise ValueError(f"`experts` is {experts}, expected at least 1")
    if block < 1:
        raise ValueError(f"`block` is {block}, expected at least 1")
    flat = rows_of("ids", ids).reshape(-1)
    number = flat.shape[0]
    blocks = -(-(number + min(number, experts) * (block - 1)) // block)
    slots = result("sorted_ids", sorted_ids, ids, (blocks * block,), tkl.i32)
    expert_ids = result("expert_ids", expert_ids, ids, (blocks,), tkl.i32, slots)
    total = result("total", total, ids, (1,), tkl.i32, slots, expert_ids)
    slots[...], expert_ids[...] = number, -1
    counts, first = (new_tensor(ids, (experts,), tkl.i32) for _ in range(2))
    program(kernels.count)(flat, counts)
    program(kernels.starts, experts)(counts, block, first, total)
    if number:
        program(kernels.place)(flat, counts, first, block, slots, expert_ids)
    return slots, expert_ids, total


def _product(a: Any, w: Any, slots: Any, experts: Any, block: int, rows: int, each: int) -> Any:
    """Rows of a, each times the weights of its expert, in f32 or, with weights for two halves, in
    a's type."""
    dtype = wave_dtype(a.dtype)
    out = dtype if each > 0 else tkl.f32
    c = new_tensor(a, (rows, w.shape[1]), out)
    key = (dtype, out, block, max(each, 1), w.shape[1], w.shape[2])
    program(kernels.gathered, *key)(a, w, slots, experts, c)
    return c


@operator(
    "fused_experts(Tensor x, Tensor w1, Tensor w2, Tensor weights, Tensor ids, *,"
    " str activation='silu') -> (Tensor out)"
)
def fused_experts(
    x: Any, w1: Any, w2: Any, weights: Any, ids: Any, *, activation: str = "silu", out: Any = None
) -> Any:
    """The sum over a token's experts of weight * w2 · (act(gate) * up), where gate and up are the
    halves of w1 · x: x [T, K], w1 [E, 2N, K], w2 [E, K, N], weights and ids [T, top].

    Ids that are negative or too large count as no expert.
    """
    x, w1, w2 = tensor("x", x), tensor("w1", w1), tensor("w2", w2)
    weights, ids = tensor("weights", weights), tensor("ids", ids)
    dtype = element_type("x", x, FLOATS)
    for name, w in (("w1", w1), ("w2", w2)):
        element_type(name, w, (dtype.name,))
        if len(w.shape) != 3:
            raise ValueError(f"`{name}` has {len(w.shape)} dimensions, expected 3")
    element_type("weights", weights, ("f32",))
    element_type("ids", ids, ("i32",))
    if activation not in ACTIVATIONS:
        raise ValueError(f"`activation` is {activation!r}, expected one of {list(ACTIVATIONS)}")
    if len(x.shape) != 2 or len(ids.shape) != 2:
        raise ValueError("`x` and `ids` have two dimensions: tokens first")
    (tokens, size), (experts, double, _) = x.shape, w1.shape
    expect_shape("w1", w1, (experts, double // 2 * 2, size))
    expect_shape("w2", w2, (experts, size, double // 2))
    expect_shape("ids", ids, (tokens, ids.shape[1]))
    expect_shape("weights", weights, ids.shape)
    out = result("out", out, x, x.shape, dtype, w1, w2, weights, ids)
    if is_empty(x) or is_empty(ids):
        out[...] = 0
        return out
    number, top = tokens * ids.shape[1], ids.shape[1]
    block = 64 if number >= 32 * experts else 16
    slots, expert_ids, _ = moe_align(ids, experts, block)
    hidden = _product(x, w1, slots, expert_ids, block, number, top)
    active = ACTIVATIONS[activation](hidden)
    parts = _product(active, w2, slots, expert_ids, block, number, 0)
    program(kernels.weighted, dtype, top, size)(parts, weights, ids, experts, out)
    return out


def grouped_gemm(
    a: Any, w: Any, offs: Any, *, trans: bool = False, out_dtype: Any = None, out: Any = None
) -> Any:
    """Rows `offs[e - 1]` to `offs[e]` of a [T, K] times w[e], for w [E, K, N], or [E, N, K] with
    `trans`. `offs` [E] does not decrease; groups may be empty, and rows after the last keep what
    `out` has. Products are added in f32."""
    if out_dtype is not None and is_torch(a) and not is_torch_dtype(out_dtype):
        out_dtype = wave_dtype_to_torch(wave_dtype(out_dtype))
    return _grouped(a, w, offs, trans=trans, out_dtype=out_dtype, out=out)


@operator(
    "grouped_gemm(Tensor a, Tensor w, Tensor offs, *, bool trans=False,"
    " ScalarType? out_dtype=None) -> (Tensor out)"
)
def _grouped(
    a: Any, w: Any, offs: Any, *, trans: bool = False, out_dtype: Any = None, out: Any = None
) -> Any:
    a, w, offs = tensor("a", a), tensor("w", w), tensor("offs", offs)
    dtype = element_type("a", a, FLOATS)
    element_type("w", w, (dtype.name,))
    element_type("offs", offs, ("i32",))
    if len(a.shape) != 2 or len(w.shape) != 3:
        raise ValueError("`a` has two dimensions and `w` three")
    groups, n, k = (w.shape[0], *(w.shape[1:] if trans else w.shape[:0:-1]))
    expect_shape("a", a, (a.shape[0], k))
    expect_shape("offs", offs, (groups,))
    kept = dtype if out_dtype is None else wave_dtype(out_dtype)
    if kept.name not in FLOATS:
        raise TypeError(f"`out_dtype` is {kept}, expected {' or '.join(FLOATS)}")
    out = result("out", out, a, (a.shape[0], n), kept, w, offs)
    if not is_empty(out) and groups:
        program(kernels.grouped, dtype, kept, groups, n, k, trans)(a, w, offs, out)
    return out
