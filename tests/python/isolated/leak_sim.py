"""Run as a child process: simulating, failing and reporting does not leak memory."""

import numpy as np

from leak_utils import assert_no_leak
from wave_lang import CompileError, SimulationError
from wave_lang.testing import simulate

TURN = """
thread kernel @turn(%a: mem<M, f32>, %b: mem<M, f32>)
  launch grid (2) block (32) wave 32 shared 256
  bind M = 64
{
  %s = alloc : mem<32, f32, shared>
  %i = expr 32*$WG0 + $T0 : index
  %x = load %a, %i : f32
  %j = expr $T0 : index
  store %x, %s, %j
  barrier workgroup
  %k = expr 31 - $T0 : index
  %y = load %s, %k : f32
  store %y, %b, %i
}
"""
RACE = TURN.replace("  barrier workgroup\n", "")
A, B = np.arange(64, dtype="f4"), np.zeros(64, "f4")


def good():
    report = simulate(TURN, A, B)
    assert report.json() and report.html() and report.lines and not report.findings


def bad():
    try:
        simulate(RACE, A, B)
    except SimulationError as error:
        assert error.findings and error.report.html()


def refused():
    for given in ({"target": "sim:nowhere"}, {"schedule": "never"}):
        try:
            simulate(TURN, A, B, **given)
        except CompileError:
            continue
        raise AssertionError("the mistake was not found")
    try:
        simulate(TURN, A, 3)
    except TypeError:
        return
    raise AssertionError("the mistake was not found")


def every_way():
    good()
    bad()
    refused()


assert_no_leak(every_way, calls=100, most_kib=4096)
