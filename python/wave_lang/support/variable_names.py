"""Which variable a result is assigned to: the printed IR then says `%acc` instead of `%17`."""

from __future__ import annotations

import dis
from types import CodeType

_STORES = ("STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_GLOBAL")


def assigned_names(code: CodeType) -> dict[int, str | tuple[str, ...]]:
    """{bytecode offset: the variable, or variables, that the result there is stored in}."""
    found: dict[int, str | tuple[str, ...]] = {}
    steps = list(dis.get_instructions(code))
    for i, (step, following) in enumerate(zip(steps, steps[1:])):
        names = None
        if following.opname in _STORES:
            names = following.argval
        elif following.opname == "UNPACK_SEQUENCE":
            stores = steps[i + 2 : i + 2 + (following.arg or 0)]
            if all(s.opname in _STORES for s in stores):
                names = tuple(s.argval for s in stores)
        if names is not None:  # an instruction is followed by its caches
            found.update(dict.fromkeys(range(step.offset, following.offset, 2), names))
    return found
