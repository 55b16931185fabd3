"""What tests of code for AMD GPUs need."""

import functools

from kernel_list import CASES
from wave_lang import _wave


@functools.cache
def has_llvm():
    """Whether libLLVM compiles for AMD GPUs."""
    try:
        case = CASES[0]
        case.compile(case.shapes[0], "emu:gfx90a")
        return True
    except _wave.CompileError:
        return False
