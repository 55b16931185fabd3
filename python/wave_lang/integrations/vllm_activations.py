"""Activations for vLLM: the provider `wave` of its ops, and layers that replace its own.

A layer that is registered with vLLM replaces its own in every model, so that happens only if
WAVE_VLLM_ACTIVATIONS is 1. vLLM still decides whether its layers run kernels (`custom_ops`).
"""

from typing import Any

from torch import Tensor

PROVIDER = "wave"


def silu_and_mul(x: Tensor) -> Tensor:
    from wave_lang import ops  # compiles nothing before it is called

    return ops.silu_and_mul(x)


def register(ir_ops: Any) -> None:
    """Registers the activation with vLLM's ops, once; not all releases have it there."""
    op = getattr(ir_ops, "silu_and_mul", None)
    if op is not None and PROVIDER not in op.impls:
        op.register_impl(PROVIDER)(silu_and_mul)


def replace_layers() -> None:
    """Has vLLM make our layers instead of its own, once."""
    from vllm.model_executor import custom_op
    from vllm.model_executor.layers import activation

    class WaveSiluAndMul(activation.SiluAndMul):  # type: ignore[misc]
        def forward_cuda(self, x: Tensor) -> Tensor:
            return silu_and_mul(x)

        forward_cpu = forward_cuda

    class WaveGeluAndMul(activation.GeluAndMul):  # type: ignore[misc]
        def forward_cuda(self, x: Tensor) -> Tensor:
            from wave_lang import ops

            exact = self.approximate == "none"
            return ops.gelu_and_mul(x) if exact else ops.gelu_tanh_and_mul(x)

        forward_cpu = forward_cuda

    for ours in (WaveSiluAndMul, WaveGeluAndMul):
        theirs = ours.__base__
        if theirs.__name__ not in custom_op.op_registry_oot:
            switch = theirs.name  # of `custom_ops`; registering changes it
            theirs.register_oot(ours)
            ours.name = switch
