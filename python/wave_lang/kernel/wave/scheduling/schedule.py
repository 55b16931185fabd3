"""Scheduling strategies (see schedule_enums)."""

from .schedule_enums import SchedulingType

__all__ = ["SchedulingType"]
