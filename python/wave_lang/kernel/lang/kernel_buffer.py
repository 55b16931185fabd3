"""The address spaces and memory layouts of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Sequence

from ..._wave import Expr
from .global_symbols import GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE


class AddressSpace(Enum):
    """Where a tensor is placed. The symbols of global_symbols mean the same."""

    REGISTER = 0
    SHARED_MEMORY = 1
    GLOBAL_MEMORY = 2

    @property
    def __wave_expr__(self) -> Expr:
        if self is AddressSpace.REGISTER:
            raise TypeError("memory cannot be placed in registers")
        return SHARED_ADDRESS_SPACE if self is AddressSpace.SHARED_MEMORY else GLOBAL_ADDRESS_SPACE


class KernelBufferUsage(Enum):
    """How a kernel uses a tensor. The compiler determines it and ignores what the author wrote."""

    NONE = 0
    INPUT = 1
    OUTPUT = 2
    TEMPORARY = 3


@dataclass(frozen=True)
class MemoryLayout:
    """The physical shape of a tensor, if it differs from the logical one.

    Entries are numbers or expressions; None takes the tensor's own extent at the call.
    """

    shape: Sequence[Any]

    def __post_init__(self):
        object.__setattr__(self, "shape", tuple(None if d is None else Expr(d) for d in self.shape))


__all__ = ["AddressSpace", "KernelBufferUsage", "MemoryLayout"]
