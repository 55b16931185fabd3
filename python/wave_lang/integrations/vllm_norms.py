"""Norms that vLLM may choose: the provider `wave` of its ops. vLLM derives schemas from the types
of parameters."""

from typing import Any, Optional

from torch import Tensor

PROVIDER = "wave"


def _plain(x: Any, weight: Any, epsilon: Any, variance_size: Any = None) -> bool:
    """Whether all of a row is normalised, with weights."""
    return weight is not None and variance_size is None


def _plain_sum(
    x: Any, x_residual: Any, weight: Any, epsilon: Any, variance_size: Any = None
) -> bool:
    return _plain(x, weight, epsilon, variance_size)


def rms_norm(
    x: Tensor, weight: Optional[Tensor], epsilon: float, variance_size: Optional[int] = None
) -> Tensor:
    from wave_lang import ops  # compiles nothing before it is called

    rows = x.reshape(-1, x.shape[-1])
    return ops.rms_norm(rows, weight, epsilon).view(x.shape)


def fused_add_rms_norm(
    x: Tensor,
    x_residual: Tensor,
    weight: Optional[Tensor],
    epsilon: float,
    variance_size: Optional[int] = None,
) -> tuple[Tensor, Tensor]:
    from wave_lang import ops

    total = x_residual.reshape(-1, x.shape[-1]).clone()  # becomes the sum
    y = ops.rms_norm(x.reshape(-1, x.shape[-1]), weight, epsilon, residual=total)
    return y.view(x.shape), total.view(x.shape)


def register(ir_ops: Any) -> None:
    """Registers the norms with vLLM's ops, once."""
    if PROVIDER not in ir_ops.rms_norm.impls:
        ir_ops.rms_norm.register_impl(PROVIDER, supports_args=_plain)(rms_norm)
        added = ir_ops.fused_add_rms_norm
        added.register_impl(PROVIDER, supports_args=_plain_sum)(fused_add_rms_norm)
