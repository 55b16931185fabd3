"""Operation: the classes of instructions that scheduling hints name."""

from wave_lang.kernel.ops.wave_ops import Operation

__all__ = ["Operation"]
