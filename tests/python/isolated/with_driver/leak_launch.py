"""Run as a child process with the fake driver: compiling, launching and failing does not leak
memory."""

import gc
import resource
import sys

from test_compile import compile_scale
from wave_lang import LaunchError
from wave_lang.kernel.wave import cache


class Array:
    __cuda_array_interface__ = property(lambda self: self.fields)

    def __init__(self, *shape, typestr="<f4"):
        self.fields = {"shape": shape, "typestr": typestr, "data": (1 << 20, False), "version": 3}


A, B, WRONG = Array(4, 70), Array(4, 70), Array(4, 70, typestr="<f2")
KERNEL = compile_scale(target="cuda")


def launches():
    for _ in range(200):
        KERNEL(A, B)
        KERNEL.launch(A, B, stream=7)


def mistakes():
    for call in (lambda: KERNEL(A, WRONG), lambda: KERNEL(A), lambda: KERNEL(A, 3)):
        try:
            call()
        except (LaunchError, TypeError):
            continue
        raise AssertionError("the mistake was not found")


def compiles():
    cache.reset_cache_manager()
    made = compile_scale(target="cuda")
    made(A, B)
    assert made.ptx and made.resources and made.program.variants


def after(work, rounds):
    for _ in range(rounds):
        work()
    gc.collect()
    return sys.getallocatedblocks(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


for work in (launches, mistakes, compiles):
    blocks, peak = after(work, 500)  # fills the interpreter's caches
    later_blocks, later_peak = after(work, 200)
    assert later_blocks - blocks < 100, f"{later_blocks - blocks} objects leaked by {work.__name__}"
    assert later_peak - peak < 2048, f"{work.__name__} made memory grow {later_peak - peak} KiB"
