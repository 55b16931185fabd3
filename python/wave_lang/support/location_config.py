"""How much of the user's call stack is recorded with each op."""

from dataclasses import dataclass
from enum import IntEnum


class LocationCaptureLevel(IntEnum):
    """What is recorded."""

    NONE = 0
    FILE_LINE_COL = 1
    STACK_TRACE = 2
    STACK_TRACE_WITH_SYSTEM = 3


@dataclass
class LocationCaptureConfig:
    """Accepted for compatibility: file, line and column are always recorded."""

    level: LocationCaptureLevel = LocationCaptureLevel.FILE_LINE_COL
