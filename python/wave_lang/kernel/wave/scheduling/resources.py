"""Instruction classes of the scheduler hints, with their masks."""

from enum import Enum


class Operation(Enum):
    """A class of instructions."""

    NOOP = 0
    ALU = 0x1
    VALU = 0x2
    SALU = 0x4
    MMA = 0x8
    READ_GLOBAL = 0x20
    WRITE_GLOBAL = 0x40
    READ_SHARED = 0x100
    WRITE_SHARED = 0x200
