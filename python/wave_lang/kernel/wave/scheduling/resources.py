"""Operation: the classes of instructions that scheduling hints name."""

from ...ops.wave_ops import Operation

__all__ = ["Operation"]
