"""Small enumerations of options."""

from enum import Enum


class CoalescingType(Enum):
    """How global loads are spread over threads; a hint."""

    LINEAR = 0
    WAVE_TILE_ALIGNED = 0x10
