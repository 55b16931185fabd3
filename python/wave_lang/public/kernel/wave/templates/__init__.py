"""AttentionShape under a shorter path. The kernel templates come from the public package."""

from wave_lang.kernel.wave.templates.attention_common import AttentionShape

__all__ = ["AttentionShape"]
