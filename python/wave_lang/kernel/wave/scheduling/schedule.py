"""SchedulingType, under the name that tests import."""

from ..option_types import SchedulingType

__all__ = ["SchedulingType"]
