"""Gradients of functions for which no Wave kernel computes them."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.autograd.function import once_differentiable


class _Recomputed(torch.autograd.Function):
    """The value of `run`, the gradients of `reference`, which the backward pass computes again."""

    @staticmethod
    def forward(ctx: Any, run: Any, reference: Any, *tensors: Any) -> Any:
        ctx.reference = reference
        ctx.save_for_backward(*tensors)
        return run(*tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Any) -> Any:
        with torch.enable_grad():
            inputs = [x.detach().requires_grad_(n) for x, n in _needed(ctx)]
            wanted = [x for x in inputs if x.requires_grad]
            found = iter(torch.autograd.grad(ctx.reference(*inputs), wanted, dy))
        return None, None, *(next(found) if x.requires_grad else None for x in inputs)


def _needed(ctx: Any) -> list[tuple[Any, bool]]:
    return list(zip(ctx.saved_tensors, ctx.needs_input_grad[2:]))


def recomputed(run: Callable[..., Any], reference: Callable[..., Any], *tensors: Any) -> Any:
    """`run(*tensors)`, for which no Wave kernel computes gradients: those of `reference`, a
    function of PyTorch with the same value, are used. Only the tensors are kept until then. In
    torch.compile, which cannot do that, the value is that of `reference` too."""
    if not torch.is_grad_enabled() or not any(x.requires_grad for x in tensors):
        with torch.no_grad():
            return run(*tensors)
    if torch.compiler.is_compiling():
        return reference(*tensors)
    return _Recomputed.apply(run, reference, *tensors)
