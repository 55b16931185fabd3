"""Kernel templates."""

from .attention_common import AttentionShape

__all__ = ["AttentionShape"]
