"""The kernel library: functions that return a kernel, the values of its symbols and, for some, its
dynamic symbols. The caller compiles the kernel."""

from .attention_common import AttentionShape

__all__ = ["AttentionShape"]
