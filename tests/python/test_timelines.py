"""`kernel.timeline(...)`: results stay as they are, and every op of a loop is measured."""

import json
import os

import numpy as np
import pytest

from schedule_kernels import K, M, N, gemm
from test_launch_fake import FAKE, check
from test_schedules import compiled
from wave_lang._wave import ArgumentError, CompileError
from wave_lang.support import sympy_shim

SIZES = {M: 40, N: 24, K: 400}
MACHINES = ["sim:sm_80", "sim:sm_90a", "sim:gfx942", "sim:gfx950", "sim:gfx1250"]
MACHINES += [f"emu:gfx{chip}" for chip in ("942", "950", "1100", "1201", "1250")]


def arguments():
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-8, 9, s) / 8 for s in ((40, 400), (24, 400)))
    return a.astype("f2"), b.astype("f2"), np.zeros((40, 24), "f4")


def waits(text):
    """The ops that order others, of a kernel as text."""
    words = ("barrier", "async_wait", "mbar_", "async_commit", "wgmma_")
    found = [line.split("{")[0].split() for line in text.splitlines()]
    kept = [line for line in found if line and line[0].startswith(words)]
    return [[word for word in line if word[0] != "%"] for line in kept]


@pytest.mark.parametrize("target", MACHINES)
def test_results_stay_as_they_are(target):
    kernel = compiled(gemm(), target, SIZES)
    a, b, c = arguments()
    timeline = kernel.timeline(a, b, c)
    assert np.array_equal(c, a.astype("f8") @ b.astype("f8").T)
    data = timeline.data
    (loop,) = data["loops"]
    assert data["unit"] == "instructions" and loop["iterations"] == 25 - 4
    assert loop["measured"] > 0 and loop["with_stamps"] > loop["measured"]
    schedule = kernel.schedule().data["loops"][0]
    assert loop["predicted"] == schedule["cycles"]
    issued = {op["name"] for op in schedule["ops"] if op["lane"] == 0 and op["kind"] == "issues"}
    assert issued <= {op["name"] for op in loop["ops"]}
    assert sum(op["predicted"] for op in loop["ops"]) == loop["predicted"]
    starts = [op["start"] for op in loop["ops"]]
    assert starts == sorted(starts)
    assert str(timeline).startswith("loop k_loop of product on")
    assert "<svg" in timeline._repr_html_()
    assert repr(timeline).startswith("<timeline of product on")


@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_90a", "sim:gfx942"])
def test_stamps_change_no_wait(target):
    kernel = compiled(gemm(), target, SIZES).ir.clone()
    stamped = kernel.clone()
    stamped.constrain([{"kind": "timeline", "size": 0}])
    for one in (kernel, stamped):
        one.lower(target.removeprefix("sim:"))
    assert waits(str(kernel)) == waits(str(stamped))
    assert "clock" not in str(kernel) and str(stamped).count(" = clock ") >= 8


@pytest.mark.parametrize("size", [400, 4000])
@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_90a", "sim:gfx942"])
def test_stamps_in_turn(target, size):
    """As on a GPU: an iteration has the first stamp and few others, and every op is measured."""
    kernel = compiled(gemm(), target, SIZES | {K: size})
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-8, 9, s) / 8 for s in ((40, size), (24, size)))
    c = np.zeros((40, 24), "f4")
    stamped = kernel.ir.clone()
    stamped.constrain([{"kind": "timeline", "size": 4}])
    stamps = kernel._stamps(stamped, (a.astype("f2"), b.astype("f2"), c), None)
    assert np.array_equal(c, a @ b.T)
    loop = json.loads(stamped.timeline_as(target, "json", stamps))["loops"][0]
    assert loop["iterations"] == {400: 21, 4000: 62}[size]  # the longer loop: every fourth
    assert 0 < loop["measured"] and loop["stamp"] > 0
    assert loop["with_stamps"] - loop["measured"] >= (2 * loop["stamp"] if size == 400 else 0)
    starts = [op["start"] for op in loop["ops"]] + [loop["measured"]]
    assert starts[0] == 0 and all(x < y for x, y in zip(starts, starts[1:]))


def test_a_later_first_iteration():
    kernel = compiled(gemm(), "sim:sm_80", SIZES)
    assert kernel.timeline(*arguments(), first=0).data["loops"][0]["iterations"] == 25
    assert kernel.timeline(*arguments(), first=20).data["loops"][0]["iterations"] == 5
    assert kernel.timeline(*arguments(), first=24).data["loops"][0]["measured"] == 0
    none = kernel.timeline(*arguments(), first=25)
    assert none.data["loops"] == [] and "no loop was measured" in str(none) + none.svg
    with pytest.raises(CompileError, match="0 or more, not -1"):
        kernel.timeline(*arguments(), first=-1)


def test_a_cpu_measures_nothing_and_says_so():
    kernel = compiled(gemm(), "cpu", SIZES)
    a, b, c = arguments()
    timeline = kernel.timeline(a, b, c)
    assert np.array_equal(c, a.astype("f8") @ b.astype("f8").T)
    if kernel.machine.kind == "cpu":
        assert timeline.data["loops"] == []
        assert [r.code for r in kernel.remarks if getattr(r, "code", "") == "R0615"] == ["R0615"]


@pytest.mark.skipif(not os.path.exists(FAKE), reason="the fake driver is not built")
def test_a_launch_on_a_gpu(tmp_path):
    """The fake driver runs nothing, so that no time is recorded."""
    check(
        """
from schedule_kernels import K, M, N, gemm
from test_schedules import compiled
for target in ("", "sm_90a", "sm_80"):
    kernel = compiled(gemm(), target, {M: 40, N: 24, K: 400})
    arrays = [Array(40, 400, typestr="<f2"), Array(24, 400, typestr="<f2"), Array(40, 24)]
    timeline = kernel.timeline(*arrays)
    assert "no loop was measured" in str(timeline), timeline
    assert timeline.data["unit"] == "cycles"
    assert "clock64" not in kernel.ptx  # calls after it are not measured
    kernel(*arrays)
""",
        tmp_path,
    )


def test_bad_calls():
    with pytest.raises(ValueError, match="was compiled for eval, which measures no time"):
        compiled(gemm(), "eval", SIZES).timeline(*arguments())
    kernel = compiled(gemm(), "sim:sm_80", SIZES)
    with pytest.raises((ArgumentError, CompileError, TypeError)):
        kernel.timeline(*arguments()[:2])
    with pytest.raises(CompileError, match="a timeline has no form `png`"):
        kernel.ir.timeline_as("sm_80", "png", b"")
    assert "no loop was measured" in kernel.ir.timeline_as("sm_80", "text", b"12345678" * 3)
    with pytest.raises(CompileError, match="E0105") as e:  # remarks are left, and do not matter
        sympy_shim.Piecewise((1, M < 2))
    assert e.value.diagnostics[0].file == __file__
