"""Functions with the arguments of those in torch.nn.functional, computed by Wave kernels."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from wave_lang import ops

from .gradients import recomputed

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
ACTIVATIONS = {
    "silu": ops.silu_and_mul,
    "gelu": ops.gelu_and_mul,
    "gelu_tanh": ops.gelu_tanh_and_mul,
}


def _in_autocast(*tensors: Any) -> list[Any]:
    """What autocast makes of the arguments of a matmul."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return list(tensors)
    dtype = torch.get_autocast_dtype(device)
    return [x if x is None else x.to(dtype) for x in tensors]


def _expect(name: str, x: Any, dtype: torch.dtype | None = None) -> None:
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"`{name}` is a {type(x).__name__}, expected a tensor")
    if x.dtype not in DTYPES if dtype is None else x.dtype != dtype:
        wanted = "float16, bfloat16 or float32" if dtype is None else str(dtype)
        raise TypeError(f"`{name}` has elements of type {x.dtype}, expected {wanted}")


def _merged(x: Any, kept: int) -> Any:
    """A tensor whose dimensions before the last `kept` are one, also if it has no element."""
    first = x.dim() - kept
    return x.reshape(math.prod(x.shape[:first]), *x.shape[first:])


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """input [..., K] times weight [N, K] transposed, plus bias [N]."""
    input, weight, bias = _in_autocast(input, weight, bias)
    _expect("input", input)
    _expect("weight", weight, input.dtype)
    if input.dim() == 0 or weight.dim() != 2 or input.shape[-1] != weight.shape[1]:
        found, given = tuple(input.shape), tuple(weight.shape)
        raise ValueError(f"`input` has the shape {found}, expected (..., K) for `weight` {given}")
    result = ops.matmul(_merged(input, 1), weight, bias, trans_b=True)
    return result.view(*input.shape[:-1], weight.shape[0])


def _same_type(input: Any, *weights: Any) -> None:
    _expect("input", input)
    for name, w in zip(("weight", "bias"), weights):
        if w is not None:
            _expect(name, w)


def _normalized(input: Any, shape: tuple[int, ...]) -> Any:
    """A tensor as rows of its last dimensions."""
    if len(shape) == 0 or tuple(input.shape[-len(shape) :]) != shape:
        found = tuple(input.shape)
        raise ValueError(f"`input` has the shape {found}, expected {('...', *shape)}")
    return _merged(input, len(shape)).flatten(1)


def rms_norm(
    input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Any:
    """RMSNorm over the last dimensions, which are `normalized_shape`."""
    shape = tuple(normalized_shape)
    _same_type(input, weight)
    rows = _normalized(input, shape)
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    given = input.new_ones(shape) if weight is None else weight
    return ops.rms_norm(rows, given.reshape(-1), eps).view(input.shape)


def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Layer norm over the last dimensions, which are `normalized_shape`."""
    shape = tuple(normalized_shape)
    _same_type(input, weight, bias)
    rows = _normalized(input, shape)
    w = input.new_ones(shape) if weight is None else weight
    b = w.new_zeros(shape) if bias is None else bias
    return ops.layer_norm(rows, w.reshape(-1), b.reshape(-1), eps).view(input.shape)


def gated(input: Any, activation: str = "silu") -> Any:
    """act(first half) * second half of each row of input [..., 2 N]."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"`activation` is {activation!r}, expected one of {list(ACTIVATIONS)}")
    _expect("input", input)
    if input.dim() == 0 or input.shape[-1] % 2:
        raise ValueError(f"`input` has the shape {tuple(input.shape)}, expected (..., 2 N)")
    return ACTIVATIONS[activation](input.contiguous())


def gated_mlp(x: Any, gate: Any, up: Any, down: Any, activation: str = "silu") -> Any:
    """down · (act(gate · x) * (up · x)) for weights [N, K], [N, K] and [K, N]."""
    recorded = torch.is_grad_enabled() and any(t.requires_grad for t in (x, gate, up, down))
    compiling = torch.compiler.is_compiling()  # which takes no half of a tensor as a result
    if recorded or compiling or torch.is_autocast_enabled(x.device.type):
        both = torch.cat([linear(x, gate), linear(x, up)], -1)
        return linear(gated(both, activation), down)
    for name, w in (("x", x), ("gate", gate), ("up", up), ("down", down)):
        _expect(name, w, x.dtype if name != "x" else None)
    rows, size = _merged(x, 1), gate.shape[0]
    both = rows.new_empty(rows.shape[0], 2 * size)
    ops.matmul(rows, gate, trans_b=True, out=both[:, :size])
    ops.matmul(rows, up, trans_b=True, out=both[:, size:])
    result = ops.matmul(gated(both, activation), down, trans_b=True)
    return result.view(*x.shape[:-1], down.shape[0])


def _attend(
    q: Any, k: Any, v: Any, is_causal: bool, scale: float | None, mask: dict[str, Any]
) -> Any:
    """q [B, H, L, D], k and v [B, Hk, S, D]. Row i sees key j if j <= i, also if L is not S."""
    rows, keys, window = q.shape[2], k.shape[2], (-1, -1)
    if is_causal and keys > rows:  # the others are not seen
        k, v, keys = k[:, :, :rows], v[:, :, :rows], rows
    if is_causal:
        window = (-1, rows - keys)
    return ops.attention(q, k, v, layout="bhsd", window=window, scale=scale, **mask)


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention over [..., heads, positions, head size], as torch.nn.functional has it."""
    if attn_mask is not None and is_causal:
        raise ValueError("`attn_mask` and `is_causal` are given: a mask decides alone")
    if dropout_p:
        raise NotImplementedError(f"`dropout_p` is {dropout_p}: dropout has no kernel")
    query, key, value = _in_autocast(query, key, value)
    _expect("query", query)
    _expect("key", key, query.dtype)
    _expect("value", value, query.dtype)
    _check_attention(query, key, value, enable_gqa)

    whole = [_merged(x if x.dim() > 2 else x[None], 3) for x in (query, key, value)]
    mask = {} if attn_mask is None else _mask_of(attn_mask, query, key)
    found = _attend(*whole, is_causal, scale, mask)
    return found.reshape(*query.shape[:-1], value.shape[-1])


def _mask_of(mask: Any, query: Any, key: Any) -> dict[str, Any]:
    """A mask of bools, or a bias, as an argument of attention."""
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"`attn_mask` is a {type(mask).__name__}, expected a tensor")
    shape = (*query.shape[:-1], key.shape[-2])
    if mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise TypeError(
            f"`attn_mask` has elements of type {mask.dtype}, expected bool or {query.dtype}"
        )
    lead = (1,) * (query.dim() - mask.dim())
    sizes = (*lead, *mask.shape)
    if mask.dim() > query.dim() or any(n not in (1, m) for n, m in zip(sizes, shape)):
        raise ValueError(f"`attn_mask` has the shape {tuple(mask.shape)}, expected {shape}")
    if query.dim() > 4:  # more than one dimension of sequences
        whole = _merged(mask.expand(shape), 3)
    else:
        whole = mask.reshape((1,) * (4 - len(sizes)) + sizes)
    return {"mask" if mask.dtype == torch.bool else "bias": whole}


def _heads_of(x: Any) -> tuple[int, ...]:
    return tuple(x.shape[-3:]) if x.dim() >= 3 else (1, *x.shape)


def _check_attention(query: Any, key: Any, value: Any, enable_gqa: bool) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() < 2 or x.dim() != query.dim():
            found = tuple(x.shape)
            raise ValueError(f"`{name}` has the shape {found}, expected (..., positions, size)")
        if x.shape[:-3] != query.shape[:-3]:
            expected = (*query.shape[:-3], "heads", "positions", "size")
            raise ValueError(f"`{name}` has the shape {tuple(x.shape)}, expected {expected}")
    heads, shared = _heads_of(query)[0], _heads_of(key)[0]
    if heads != shared and (not enable_gqa or shared == 0 or heads % shared):
        raise ValueError(
            f"`key` has {shared} heads, expected {heads}, or with `enable_gqa` a divisor of that"
        )
    if key.shape[-1] != query.shape[-1]:
        raise ValueError(f"`key` has heads of {key.shape[-1]}, expected {query.shape[-1]}")
    if value.shape[:-1] != key.shape[:-1]:
        found = tuple(value.shape)
        raise ValueError(f"`value` has the shape {found}, expected {(*key.shape[:-1], 'size')}")


def experts(x: Any, w1: Any, w2: Any, weights: Any, ids: Any, activation: str = "silu") -> Any:
    """The sum over the experts of each row of x [T, K]; see `wave_lang.ops.fused_experts`."""
    return ops.fused_experts(x, w1, w2, weights, ids, activation=activation)


def gate(logits: Any, k: int, *, scoring: str = "softmax", renormalize: bool = True) -> Any:
    """(weights, ids) of the `k` experts of each row of logits; see `wave_lang.ops.topk_gate`."""
    with torch.no_grad():
        weights, ids = ops.topk_gate(logits, k, scoring=scoring, renormalize=renormalize)

    def reference(logits: Any) -> Any:
        scores = logits.float().softmax(-1) if scoring == "softmax" else logits.float().sigmoid()
        found = scores.gather(-1, ids.long())
        return found / found.sum(-1, keepdim=True) if renormalize else found

    return recomputed(lambda logits: weights, reference, logits), ids
