"""The types of compile options whose values are neither numbers nor texts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum


class SchedulingType(Enum):
    """How the ops of a loop are overlapped. No choice changes results."""

    NONE = 0x00
    MODULO = 0x10
    MODULO_MULTI_BUFFERED = 0x11  # an older name: buffers are counted for every kind
    PREFETCH = 0x20
    FOUR_STAGE = 0x21
    GEMM_FOUR_STAGE = FOUR_STAGE
    PREFETCH_ATTENTION = 0x22
    MANUAL = 0x30


class CoalescingType(Enum):
    """How global loads are spread over threads; a hint."""

    LINEAR = 0
    WAVE_TILE_ALIGNED = 0x10


class LocationCaptureLevel(IntEnum):
    """What is recorded of the user's call stack with each op."""

    NONE = 0
    FILE_LINE_COL = 1
    STACK_TRACE = 2
    STACK_TRACE_WITH_SYSTEM = 3


@dataclass
class LocationCaptureConfig:
    """Accepted for compatibility: file, line and column are always recorded."""

    level: LocationCaptureLevel = LocationCaptureLevel.FILE_LINE_COL


__all__ = ["CoalescingType", "LocationCaptureConfig", "LocationCaptureLevel", "SchedulingType"]
