"""Attention under the names of the public package."""

from .attention import wave_sdpa
from .quant_attention import wave_sdpa_fp8

__all__ = ["wave_sdpa", "wave_sdpa_fp8"]
