"""Functions on tensors, computed by Wave kernels on the device that the tensors are on.

Tensors are NumPy's (with `ml_dtypes` for bf16 and 8-bit floats), PyTorch's, or others on the host
through DLPack. Kernels are compiled at the first call with a kind of argument, and kept.
"""

from .activations import gelu_and_mul, gelu_tanh_and_mul, silu_and_mul
from .attention import attention_paged, attention_varlen, kv_append, merge_state
from .moe import fused_experts, grouped_gemm, moe_align, topk_gate
from .norms import layer_norm, rms_norm, softmax
from .programs import on_target
from .quantize import quantize_fp8, quantize_int8
from .rotary import rope

__all__ = [
    "attention_paged",
    "attention_varlen",
    "fused_experts",
    "gelu_and_mul",
    "gelu_tanh_and_mul",
    "grouped_gemm",
    "kv_append",
    "layer_norm",
    "merge_state",
    "moe_align",
    "on_target",
    "quantize_fp8",
    "quantize_int8",
    "rms_norm",
    "rope",
    "silu_and_mul",
    "softmax",
    "topk_gate",
]
