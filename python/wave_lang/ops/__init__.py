"""Functions on tensors, computed by Wave kernels on the device that the tensors are on.

Tensors are NumPy's (with `ml_dtypes` for bf16 and 8-bit floats), PyTorch's, or others on the host
through DLPack. Kernels are compiled at the first call with a kind of argument, and kept. With
tensors of PyTorch, functions are operators: `torch.ops.wave.softmax` is `softmax`.
"""

import sys

from .activations import (
    gelu_and_mul,
    gelu_and_mul_backward,
    gelu_tanh_and_mul,
    gelu_tanh_and_mul_backward,
    silu_and_mul,
    silu_and_mul_backward,
)
from .attention import (
    attention,
    attention_paged,
    attention_varlen,
    kv_append,
    merge_state,
    mla_decode,
)
from .attention_gradients import attention_backward, attention_varlen_backward
from .conv import conv2d, conv2d_backward
from .extend import attention_extend, extend_attention
from .linear_loss import linear_cross_entropy, linear_cross_entropy_backward
from .losses import cross_entropy, cross_entropy_backward
from .matmul import gemm, matmul, matmul_slopes
from .moe import (
    fused_experts,
    fused_experts_backward,
    grouped_gemm,
    moe_align,
    moe_align_block_size,
    topk_gate,
)
from .norm_gradients import layer_norm_backward, rms_norm_backward, softmax_backward
from .norms import add_rms_norm, layer_norm, rms_norm, softmax
from .operators import define_operators
from .programs import on_target
from .qk_norm import apply_qk_norm_rope, qk_norm_rope, qk_norm_rope_backward
from .quantize import quantize_fp8, quantize_int8, quantize_mx
from .rotary import apply_rope, rope
from .sampling import sample, top_k_renorm_probs, top_p_renorm_probs
from .scaled import gemm_fp8, gemm_mx, gemm_w4a16, gemm_w8a8
from .speculative import (
    build_tree,
    chain_sampling,
    tree_sampling_target_only,
    verify_tree_greedy,
)

if "torch" in sys.modules:
    define_operators()

__all__ = [
    "add_rms_norm",
    "apply_qk_norm_rope",
    "apply_rope",
    "attention",
    "attention_backward",
    "attention_extend",
    "attention_paged",
    "attention_varlen",
    "attention_varlen_backward",
    "build_tree",
    "chain_sampling",
    "conv2d",
    "conv2d_backward",
    "cross_entropy",
    "cross_entropy_backward",
    "define_operators",
    "extend_attention",
    "fused_experts",
    "fused_experts_backward",
    "gelu_and_mul",
    "gelu_and_mul_backward",
    "gelu_tanh_and_mul",
    "gelu_tanh_and_mul_backward",
    "gemm",
    "gemm_fp8",
    "gemm_mx",
    "gemm_w4a16",
    "gemm_w8a8",
    "grouped_gemm",
    "kv_append",
    "layer_norm",
    "layer_norm_backward",
    "linear_cross_entropy",
    "linear_cross_entropy_backward",
    "matmul",
    "matmul_slopes",
    "merge_state",
    "mla_decode",
    "moe_align",
    "moe_align_block_size",
    "on_target",
    "qk_norm_rope",
    "qk_norm_rope_backward",
    "quantize_fp8",
    "quantize_int8",
    "quantize_mx",
    "rms_norm",
    "rms_norm_backward",
    "rope",
    "sample",
    "silu_and_mul",
    "silu_and_mul_backward",
    "softmax",
    "softmax_backward",
    "top_k_renorm_probs",
    "top_p_renorm_probs",
    "topk_gate",
    "tree_sampling_target_only",
    "verify_tree_greedy",
]
