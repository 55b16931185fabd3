"""Modules like PyTorch's, with the same parameters, arguments and names in a state dictionary.

They extend those modules and replace `forward`. A call that no kernel computes, such as one with a
dropout, is computed by PyTorch, as before.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from . import functional as WF


class Linear(nn.Linear):
    """torch.nn.Linear."""

    def forward(self, input: Any) -> Any:
        return WF.linear(input, self.weight, self.bias)


class RMSNorm(nn.RMSNorm):
    """torch.nn.RMSNorm."""

    def forward(self, x: Any) -> Any:
        return WF.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class LayerNorm(nn.LayerNorm):
    """torch.nn.LayerNorm."""

    def forward(self, input: Any) -> Any:
        return WF.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class MultiheadAttention(nn.MultiheadAttention):
    """torch.nn.MultiheadAttention. Calls with masks other than a causal one, with `need_weights`,
    or with dropout while training are computed by PyTorch."""

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> Any:
        masks = key_padding_mask is not None or (attn_mask is not None and not is_causal)
        extra = self.bias_k is not None or self.add_zero_attn
        if masks or extra or need_weights or (self.training and self.dropout):
            return super().forward(
                query,
                key,
                value,
                key_padding_mask,
                need_weights,
                attn_mask,
                average_attn_weights,
                is_causal,
            )
        batched = query.dim() == 3
        tensors = [x if batched else x[None] for x in (query, key, value)]
        if batched and not self.batch_first:
            tensors = [x.transpose(0, 1) for x in tensors]
        heads = [self._heads(x, *part) for x, part in zip(tensors, self._projections())]
        o = WF.scaled_dot_product_attention(*heads, is_causal=is_causal)
        o = o.transpose(1, 2).reshape(*tensors[0].shape[:2], self.embed_dim)
        o = WF.linear(o, self.out_proj.weight, self.out_proj.bias)
        o = o if self.batch_first or not batched else o.transpose(0, 1)
        return (o if batched else o[0]), None

    def _projections(self) -> list[tuple[Any, Any]]:
        """The weights and biases of queries, keys and values."""
        if self.in_proj_weight is not None:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return list(zip(weights, biases))

    def _heads(self, x: Any, weight: Any, bias: Any) -> Any:
        y = WF.linear(x, weight, bias)
        return y.view(*y.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)


def _only_multiplies(layer: Any) -> bool:
    """Whether a call of the layer is a product with its weight: adapters and quantised layers are
    other classes, and what changes calls of a module sets hooks or its `forward`."""
    if type(layer) not in (Linear, nn.Linear) or layer.bias is not None:
        return False
    hooks = (layer._forward_hooks, layer._forward_pre_hooks)
    more = (layer._backward_hooks, layer._backward_pre_hooks)
    return "forward" not in layer.__dict__ and not any([len(h) for h in (*hooks, *more)])


class GatedMLP(nn.Module):
    """down_proj(act(gate_proj(x)) * up_proj(x)), with the names of Llama's layers."""

    _wave_activation = "silu"  # no name that a model may use itself

    def __init__(
        self, hidden_size: int, intermediate_size: int, device: Any = None, dtype: Any = None
    ):
        super().__init__()
        made = {"bias": False, "device": device, "dtype": dtype}
        self.gate_proj = Linear(hidden_size, intermediate_size, **made)
        self.up_proj = Linear(hidden_size, intermediate_size, **made)
        self.down_proj = Linear(intermediate_size, hidden_size, **made)

    def forward(self, x: Any) -> Any:
        layers = self.gate_proj, self.up_proj, self.down_proj
        if not all([_only_multiplies(layer) for layer in layers]):
            return self._call_layers(x)
        return WF.gated_mlp(x, *[layer.weight for layer in layers], self._wave_activation)

    def _call_layers(self, x: Any) -> Any:
        both = torch.cat([self.gate_proj(x), self.up_proj(x)], -1)
        return self.down_proj(WF.gated(both, self._wave_activation))


class SwiGLU(GatedMLP):
    """A gated MLP with silu."""


class GeGLU(GatedMLP):
    """A gated MLP with gelu."""

    _wave_activation = "gelu"


def _copy_layer(name: str, layer: Any, to: Any) -> None:
    """Copies the weights of a layer, which are all that it may have."""
    if getattr(layer, "bias", None) is not None:
        raise ValueError(f"`{name}` has a bias, expected a layer without one")
    if layer.weight.shape != to.shape:
        found, expected = tuple(layer.weight.shape), tuple(to.shape)
        raise ValueError(f"`{name}.weight` has the shape {found}, expected {expected}")
    to.copy_(layer.weight)


class MoE(nn.Module):
    """A layer with experts: a token is the sum of its `top_k` experts, weighted by a gate.

    Weights: `gate` [experts, hidden], `w1` [experts, 2 intermediate, hidden] (gate, then up), `w2`
    [experts, hidden, intermediate].
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        experts: int,
        top_k: int,
        *,
        activation: str = "silu",
        scoring: str = "softmax",
        renormalize: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        if not 1 <= top_k <= experts:
            raise ValueError(f"`top_k` is {top_k}, expected 1 to the number of experts, {experts}")
        if activation not in ("silu", "gelu"):
            raise ValueError(f"`activation` is {activation!r}, expected 'silu' or 'gelu'")
        if scoring not in ("softmax", "sigmoid"):
            raise ValueError(f"`scoring` is {scoring!r}, expected 'softmax' or 'sigmoid'")
        made = {"device": device, "dtype": dtype}
        self.top_k, self.activation = top_k, activation
        self.scoring, self.renormalize = scoring, renormalize
        self.gate = Linear(hidden_size, experts, bias=False, **made)
        self.w1 = nn.Parameter(torch.empty(experts, 2 * intermediate_size, hidden_size, **made))
        self.w2 = nn.Parameter(torch.empty(experts, hidden_size, intermediate_size, **made))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for w in (self.w1, self.w2):
            bound = 1 / math.sqrt(max(w.shape[2], 1))
            nn.init.uniform_(w, -bound, bound)

    @classmethod
    def from_experts(cls, gate: Any, experts: Any, top_k: int, **options: Any) -> MoE:
        """A layer with copies of the weights of `gate`, a linear layer, and of `experts`, modules
        with `gate_proj`, `up_proj` and `down_proj`."""
        experts = list(experts)
        if not experts:
            raise ValueError("`experts` has no modules, expected at least one")
        first = experts[0].up_proj.weight
        made = cls(
            first.shape[1],
            first.shape[0],
            len(experts),
            top_k,
            device=first.device,
            dtype=first.dtype,
            **options,
        )
        with torch.no_grad():
            _copy_layer("gate", gate, made.gate.weight)
            for e, expert in enumerate(experts):
                half, name = first.shape[0], f"experts[{e}]"
                _copy_layer(f"{name}.gate_proj", expert.gate_proj, made.w1[e, :half])
                _copy_layer(f"{name}.up_proj", expert.up_proj, made.w1[e, half:])
                _copy_layer(f"{name}.down_proj", expert.down_proj, made.w2[e])
        return made

    def forward(self, x: Any) -> Any:
        rows = x.reshape(-1, x.shape[-1])
        weights, ids = WF.gate(
            self.gate(rows), self.top_k, scoring=self.scoring, renormalize=self.renormalize
        )
        return WF.experts(rows, self.w1, self.w2, weights, ids, self.activation).view(x.shape)

    def extra_repr(self) -> str:
        return f"experts={self.w1.shape[0]}, top_k={self.top_k}, activation={self.activation}"
