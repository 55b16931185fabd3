"""Modules that replace PyTorch's: the same parameters and arguments, computed by Wave kernels.

Importing this package imports PyTorch.
"""

from . import functional
from .modules import (
    GatedMLP,
    GeGLU,
    LayerNorm,
    Linear,
    MoE,
    MultiheadAttention,
    RMSNorm,
    SwiGLU,
)
from .replacement import Replacement, replace

__all__ = [
    "GatedMLP",
    "GeGLU",
    "LayerNorm",
    "Linear",
    "MoE",
    "MultiheadAttention",
    "RMSNorm",
    "Replacement",
    "SwiGLU",
    "functional",
    "replace",
]
