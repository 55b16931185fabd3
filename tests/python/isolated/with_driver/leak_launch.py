"""Run as a child process with the fake driver: compiling, launching and failing does not leak
memory."""

from leak_utils import assert_no_leak
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


for work in (launches, mistakes, compiles):
    assert_no_leak(work, calls=200, most_kib=2048)
