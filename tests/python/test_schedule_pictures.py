"""Pictures of schedules: `kernel.schedule()`, and `wavec --emit=schedule-...`."""

import subprocess
import xml.etree.ElementTree as xml

import numpy as np
import pytest

from schedule_kernels import GEMM, K, M, N, gemm, whole_rows
from test_docs import WAVEC
from test_schedules import compiled
from wave_lang._wave import CompileError

MACHINES = ["sim:sm_80", "sim:sm_90a", "sim:gfx942", "sim:gfx950", "sim:gfx1250", "emu:gfx942"]


@pytest.mark.parametrize("target", MACHINES)
def test_every_form_shows_the_same_loop(target):
    schedule = compiled(gemm(), target, GEMM).schedule()
    data = schedule.data
    (loop,) = data["loops"]
    assert str(schedule) == schedule.text == data["rows"]
    assert f"# predicted: {loop['cycles']} cycles per iteration" in schedule.text
    assert repr(schedule) == f"<schedule of {data['kernel']} on {data['target']}>"
    picture = xml.fromstring(schedule.svg)
    shown = "".join(picture.itertext())
    assert f"{loop['cycles']} cycles per iteration" in shown
    for op in loop["ops"]:
        assert 0 < op["cycles"] <= loop["cycles"]
        assert op["kind"] == "waits" or op["name"] in shown
    assert "<svg" in schedule._repr_html_() and "<html" not in schedule._repr_html_()
    assert schedule.html.startswith("<!doctype html>")
    rows = [row.split() for row in schedule.text.splitlines() if row.startswith("ring ")]
    assert {r["name"]: r["slots"] for r in loop["rings"]} == {row[2]: int(row[4]) for row in rows}


def test_a_schedule_that_was_written_is_drawn(tmp_path):
    path = tmp_path / "a.schedule"
    path.write_text("ring k_loop read_a slots 6\nring k_loop right slots 3\n")
    kernel = compiled(gemm(), "sim:sm_80", {**GEMM, K: 400}, override_schedule=str(path))
    loop = kernel.schedule().data["loops"][0]
    assert {ring["name"]: ring["slots"] for ring in loop["rings"]} == {"read_a": 6, "right": 3}
    assert loop["stages"] == 6


def test_loops_without_a_prediction():
    loop = compiled(gemm(), "cpu", GEMM).schedule()
    assert loop.data["loops"] == [] or "no_prediction" in loop.data["loops"][0]
    assert "has no loop with a prediction" in loop.svg
    with pytest.raises(ValueError, match="was compiled for eval, which has no schedule"):
        compiled(gemm(), "eval", GEMM).schedule()


def test_a_kernel_whose_tiles_are_not_known():
    kernel = compiled(whole_rows(), "sim:sm_80", {}, dynamic=(M, K))
    with pytest.raises(CompileError, match="E0606"):
        kernel.schedule()


def test_unknown_forms():
    kernel = compiled(gemm(), "sim:sm_80", GEMM)
    with pytest.raises(CompileError, match="did you mean `svg`"):
        kernel.ir.schedule_as("sm_80", "sgv")
    with pytest.raises(CompileError, match="a schedule has no form `nothing like it`"):
        kernel.ir.schedule_as("sm_80", "nothing like it")
    with pytest.raises(CompileError, match="E0603"):
        kernel.ir.schedule_as("sm_99", "svg")


def test_the_report_of_a_simulation_has_it():
    kernel = compiled(gemm(), "sim:sm_80", GEMM)
    a, b = np.ones((GEMM[M], GEMM[K]), "f2"), np.ones((GEMM[N], GEMM[K]), "f2")
    c = np.zeros((GEMM[M], GEMM[N]), "f4")
    page = kernel.simulate(a, b, c).html()
    assert '<section id="loops"' in page and 'href="#loops"' in page
    assert page.count("cycles per iteration") >= 2  # the picture, and its rows


def test_command_line(tmp_path):
    path = tmp_path / "none.wave"
    rows = "hardware threads 64; workgroup 4 by 4 on 0"
    path.write_text(f"kernel @k(%a: mem<4, f32>)\n  {rows}\n{{\n}}\n")

    def wavec(*words):
        return subprocess.run([WAVEC, *words], capture_output=True, text=True)

    done = wavec(str(path), "--target=sm_80", "--emit=schedule-svg")
    assert done.returncode == 0 and "has no loop with a prediction" in done.stdout
    done = wavec(str(path), "--target=sm_80", "--emit=schedule-png")
    assert done.returncode != 0 and "schedule-" in done.stderr
