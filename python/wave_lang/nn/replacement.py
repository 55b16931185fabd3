"""Replaces the modules of a model by those of this package, in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator

import torch
from torch import nn

from wave_lang import ops

from . import functional as WF
from .modules import GatedMLP, LayerNorm, Linear, MoE, MultiheadAttention, RMSNorm

SAME = {
    nn.Linear: Linear,
    nn.RMSNorm: RMSNorm,
    nn.LayerNorm: LayerNorm,
    nn.MultiheadAttention: MultiheadAttention,
}
UNKNOWN = "no module of wave_lang.nn corresponds to its class"
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-4}


class _LikeRMSNorm:
    """RMSNorm as models define it themselves. What becomes of an input whose type is not that of the
    weights differs between models, so it is left to them."""

    def forward(self: Any, x: Any) -> Any:
        return self._norm(x) if x.dtype == self.weight.dtype else super().forward(x)  # type: ignore[misc]

    def _norm(self: Any, x: Any) -> Any:
        return WF.rms_norm(x, self.weight.shape, self.weight, _eps_of(self))


class _LikeGemmaRMSNorm(_LikeRMSNorm):
    """The same with weights that are 1 + `weight`."""

    def _norm(self: Any, x: Any) -> Any:
        rows = x.reshape(-1, x.shape[-1])
        return ops.rms_norm(rows, self.weight, _eps_of(self), gemma=True).view(x.shape)


class _LikeSwiGLU:
    _wave_activation = "silu"
    forward = GatedMLP.forward

    def _call_layers(self: Any, x: Any) -> Any:
        return super().forward(x)  # type: ignore[misc]


class _LikeGeGLU(_LikeSwiGLU):
    _wave_activation = "gelu"


class _LikeGeGLUTanh(_LikeSwiGLU):
    _wave_activation = "gelu_tanh"


OURS = (*SAME.values(), GatedMLP, MoE, _LikeRMSNorm, _LikeSwiGLU)


@dataclass(frozen=True)
class Replacement:
    """What became of a module: `new` is the name of its class now, or None, and `reason` why."""

    name: str
    old: str
    new: str | None
    reason: str

    def __str__(self) -> str:
        if self.new is None:
            return f"{self.name}: {self.old} is kept: {self.reason}"
        return f"{self.name}: {self.old} -> {self.new}"


def _eps_of(module: Any) -> float | None:
    names = ("variance_epsilon", "eps")
    return next((getattr(module, name) for name in names if hasattr(module, name)), None)


def _candidates(module: Any) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """Classes that a module of an unknown class may compute the same as, with the shape of an
    input."""
    parts, own = dict(module.named_children()), dict(module.named_parameters(recurse=False))
    if not parts and set(own) == {"weight"} and module.weight.dim() == 1 and _eps_of(module):
        for norm in (_LikeRMSNorm, _LikeGemmaRMSNorm):
            yield norm, (3, module.weight.shape[0])
    gated = ("gate_proj", "up_proj", "down_proj")
    layers = [parts.get(name) for name in gated]
    if all(isinstance(x, nn.Linear) and x.bias is None for x in layers) and not own:
        for made in (_LikeSwiGLU, _LikeGeGLU, _LikeGeGLUTanh):
            yield made, (3, layers[0].in_features)  # type: ignore[union-attr]


def _unsuitable(module: Any) -> str | None:
    """Why a module of a known class cannot be replaced."""
    for name, p in module.named_parameters():
        if p.dtype not in WF.DTYPES:
            return f"`{name}` is {p.dtype}, expected float16, bfloat16 or float32"
        if p.device.type not in ("cpu", "cuda"):
            return f"`{name}` is on the device {p.device}"
    if isinstance(module, nn.MultiheadAttention) and module.bias_k is not None:
        return "it has `bias_k`, a key that is not in its input"
    if isinstance(module, nn.MultiheadAttention) and module.add_zero_attn:
        return "it has `add_zero_attn`, a key that is not in its input"
    return None


def _sample(module: Any, shape: tuple[int, ...]) -> Any:
    """Random rows: one of usual size, one so small that `eps` counts, and one so large that limits
    of activations do."""
    like, eps = next(module.parameters()), _eps_of(module) or 1e-6
    numbers = torch.Generator().manual_seed(0)
    sizes = torch.tensor([[1.0], [eps**0.5], [30.0]], device="cpu")
    x = torch.randn(shape, generator=numbers, device="cpu") * sizes
    return x.to(like.device, like.dtype)


def _agree(module: Any, made: type, shape: tuple[int, ...]) -> bool:
    """Whether the module computes the same with another class, for random inputs: in evaluation,
    and in training, where it may drop elements."""
    modes, x = [(part, part.training) for part in module.modules()], _sample(module, shape)
    with torch.no_grad(), torch.random.fork_rng([x.device] if x.is_cuda else []):
        try:
            return _agree_in(False, module, made, x) and _agree_in(True, module, made, x)
        finally:
            for part, training in modes:
                part.training = training


def _agree_in(training: bool, module: Any, made: type, x: Any) -> bool:
    for part in module.modules():
        part.training = training
    try:
        expected = module.forward(x)  # without its hooks
    except Exception:  # the input is not what it takes
        return False
    if not isinstance(expected, torch.Tensor) or expected.shape != x.shape:
        return False
    before, module.__class__ = type(module), made
    try:
        found = module.forward(x)
    finally:
        module.__class__ = before
    finite = expected.isfinite()
    most = torch.where(finite, expected, 0).abs().amax(-1, keepdim=True).clamp(min=1e-3)
    near = (found - expected).abs() <= TOLERANCE[x.dtype] * most
    return bool((near | ~finite).all())


def _has_hidden_forward(module: Any) -> bool:
    """Whether the forward that runs is not that of the module's class."""
    return "forward" in vars(module) or type(module).__call__ is not nn.Module.__call__


def _own(module: Any, made: type) -> type:
    """A class that computes like `made` and is otherwise the module's."""
    return type(f"Wave{type(module).__name__}", (made, type(module)), {})


def _like(module: Any) -> tuple[type | None, str]:
    """The class that a module of an unknown class gets, or why it gets none."""
    candidates = list(_candidates(module))
    if not candidates:
        return None, UNKNOWN
    reason = _unsuitable(module)
    if reason:
        return None, reason
    for form, shape in candidates:
        made = _own(module, form)
        if _agree(module, made, shape):
            return made, ""
    names = " or ".join(form.__name__.removeprefix("_Like") for form, _ in candidates)
    return None, f"it looks like {names}, but computes something else"


def _class_for(module: Any) -> tuple[type | None, str]:
    if isinstance(module, OURS):
        return None, "it is a module of wave_lang.nn already"
    if _has_hidden_forward(module):
        return None, "its `forward` was replaced before"
    made = SAME.get(type(module))
    if made is None:
        return _like(module)
    return (None, reason) if (reason := _unsuitable(module)) else (made, "")


def replace(model: nn.Module, *, verbose: bool = True) -> list[Replacement]:
    """Replaces the modules of a model that have a counterpart in `wave_lang.nn`, in place, and
    prints (unless `verbose` is false) and returns what it replaced, and why not the rest.

    Parameters, hooks and names remain: the modules get another class. Modules of other classes that
    look like an RMSNorm or a gated MLP are replaced if both compute the same for random inputs.
    Containers, whose parts are treated one by one, are not mentioned.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"`model` is a {type(model).__name__}, expected a torch.nn.Module")
    rows: list[Replacement] = []
    inner: set[int] = set()  # parts whose parent uses their weights and never calls them
    for name, module in list(model.named_modules()):
        old = type(module).__name__
        made, reason = (None, "") if id(module) in inner else _class_for(module)
        if made is not None:
            module.__class__ = made
            new = f"wave_lang.nn.{made.__name__}" if made in OURS else made.__name__
            rows.append(Replacement(name or "(model)", old, new, ""))
        elif id(module) not in inner and not (reason == UNKNOWN and _is_container(module)):
            rows.append(Replacement(name or "(model)", old, None, reason))
        if isinstance(module, nn.MultiheadAttention):
            inner.add(id(module.out_proj))
    if verbose:
        print("\n".join(map(str, rows)))
    return rows


def _is_container(module: Any) -> bool:
    """Whether a module has parts and no parameters of its own."""
    parts = next(module.children(), None) is not None
    return parts and next(module.parameters(recurse=False), None) is None
