"""Failures do not leak: texts that do not parse, kernels that do not compile, launches that are
rejected, simulations with findings. FAILURES is how many of each (default 1500); arguments name
those that are run (`bad_launch bad_program`), default all."""

import os
import resource
import sys

import numpy as np

from wave_lang import CompileError, LaunchError, _wave
from wave_lang.testing import simulate

COUNT = int(os.environ.get("FAILURES", "1500"))
# An allocator may keep some memory, whatever the count. FAILURES=100000 finds a leak of 13 bytes;
# tests/unit/test_context_memory.c finds any in a context.
MOST = 1 << 20

TEXT = """kernel @k(%a: mem<M, f32>, %b: mem<M, f32>)
  workgroup M by 64 on 0
  hardware threads 64, vector {M: 64}
  dynamic M
{
  %x = read %a
  write %x, %b
}
"""
RACE = """thread kernel @race(%a: mem<64, f32>)
  launch grid (1) block (64) wave 32
{
  %at = expr 63 - $T0 : index
  %own = expr $T0 : index
  %x = load %a, %at : f32
  store %x, %a, %own
}
"""


def bad_text():
    _wave.parse(TEXT.replace("read %a", "read %nothing"), "k")


def bad_kernel():
    kernel = _wave.parse(TEXT.replace("hardware threads 64, vector {M: 64}", ""), "k")[0]
    kernel.run_passes(target="sm_90a")


def bad_call():
    GOOD.eval((np.zeros(4, "f4"), np.zeros(5, "f4")))


def bad_launch():
    COMPILED(np.zeros(4, "f4"), np.zeros(5, "f4"))


def bad_program():
    simulate(RACE, np.zeros(64, "f4"), target="sim:sm_90a")


def resident():
    """The memory of the process, in bytes."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:  # not Linux: the peak
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Compiled(_wave.Launchable):
    def __init__(self, kernel):
        self._bind(kernel)
        self._use(kernel.compile(target="cpu", cache=-1))


GOOD = _wave.parse(TEXT, "k")[0]
FAILING = [bad_text, bad_kernel, bad_call, bad_program]
if any(device.kind == "cpu" for device in _wave.devices()):
    COMPILED = Compiled(GOOD)
    FAILING.append(bad_launch)
for fails in [f for f in FAILING if f.__name__ in (sys.argv[1:] or f.__name__)]:
    for i in range(COUNT):
        if i == COUNT // 5:
            before = resident()  # the first ones filled caches
        try:
            fails()
        except (CompileError, LaunchError):
            continue
        sys.exit(f"{fails.__name__} did not fail")
    grown = resident() - before
    print(f"{fails.__name__}: {COUNT} failures, {grown} bytes more")
    if grown > MOST:
        sys.exit(f"{fails.__name__}: {grown} bytes more after {COUNT} failures")
