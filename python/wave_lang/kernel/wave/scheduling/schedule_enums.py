"""How the ops of a loop are overlapped. No choice changes results."""

from enum import Enum


class SchedulingType(Enum):
    """The scheduling strategy of a loop."""

    NONE = 0x00
    MODULO = 0x10
    PREFETCH = 0x20
    FOUR_STAGE = 0x21
    PREFETCH_ATTENTION = 0x22
    MANUAL = 0x30
