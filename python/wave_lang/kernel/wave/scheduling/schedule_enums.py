"""SchedulingType, under the name that kernels import."""

from ..option_types import SchedulingType

__all__ = ["SchedulingType"]
