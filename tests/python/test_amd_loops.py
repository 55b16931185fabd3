"""What LLVM makes of the loops that matter on AMD GPUs: how many instructions they have for each
matrix instruction, and none that only move accumulators. bench/NOTES.md says why."""

import os
import re
import subprocess

import pytest
from test_cpu_llvm import ROOT, WAVEC, installed


def loops(name, target, library):
    """What `wavec loops` prints."""
    file = ROOT / "tests" / "llvm" / f"{name}.wave"
    done = subprocess.run(
        [WAVEC, "loops", file, f"--target={target}"],
        capture_output=True,
        text=True,
        env={**os.environ, "WAVE_LLVM": library},
        check=False,
    )
    if "E0901" in done.stderr:
        pytest.skip("this libLLVM does not compile for the chip")
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(text):
    """The counts of its only loop with matrix instructions, by kind."""
    assert text.count("  loop ") == 1, text
    found = re.findall(r"^    ([A-Za-z ]+?) +(\d+) +[\d.]+", text, re.M)
    return {kind: int(n) for kind, n in found}


# Most instructions and most VALU instructions for each matrix instruction; barriers of an
# iteration, of which two are unrolled where there are two stages; the least share of the matrix
# unit in the bound.
LOOPS = [
    ("amd_attention", "gfx942", 64, 560 / 64, 5.5, 2, 0.85),
    ("amd_stages", "gfx942", 64, 2.1, 0.15, 2, 0.9),
    ("amd_dynamic", "gfx942", 64, 2.25, 0.2, 2, 0.9),
    ("amd_columns", "gfx950", 32, 3.5, 0.1, 2, 1.0),
    ("amd_sums", "gfx950", 128, 1.9, 0.15, 2, 0.9),
]


@pytest.mark.parametrize("version", [v for v in sorted(installed()) if v >= 19] or [None])
@pytest.mark.parametrize("name, target, count, most, valu, barriers, least", LOOPS)
def test_main_loop(name, target, count, most, valu, barriers, least, version):
    if version is None:
        pytest.skip("needs libLLVM 19 or newer")
    text = loops(name, target, installed()[version])
    found = rows(text)
    assert found["matrix"] == count
    assert found["all"] <= most * count and found["VALU"] <= valu * count, text
    assert " 0 accumulator copies" in text and found["barriers"] == barriers
    assert "spills: 0 vector, 0 scalar" in text
    share = float(re.search(r"matrix share ([\d.]+)", text)[1])
    assert share >= least, text


@pytest.mark.parametrize("version", [v for v in sorted(installed()) if v >= 19] or [None])
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_loads_stay_in_flight(target, version):
    """The barriers of a loop do not wait for the next tiles."""
    if version is None:
        pytest.skip("needs libLLVM 19 or newer")
    file = ROOT / "tests" / "llvm" / "amd_stages.wave"
    done = subprocess.run(
        [WAVEC, file, f"--target={target}", "--passes=all", "--emit=asm"],
        capture_output=True,
        text=True,
        env={**os.environ, "WAVE_LLVM": installed()[version]},
        check=False,
    )
    if "E0901" in done.stderr:
        pytest.skip("this libLLVM does not compile for the chip")
    code = re.sub(r"s_barrier_wait", "", done.stdout)
    waits = [re.findall(r"s_wait\w* .*", part)[-1] for part in code.split("s_barrier")[:-1]]
    assert len(waits) == 2 and not any("vmcnt" in x or "load" in x for x in waits), waits


@pytest.mark.parametrize("version", [v for v in sorted(installed()) if v >= 19] or [None])
@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_stores_of_a_loop_are_waited_for(target, version):
    """LLVM 22 drops the wait before the barrier, unless it is the program's own."""
    if version is None:
        pytest.skip("needs libLLVM 19 or newer")
    file = ROOT / "tests" / "isa" / "loop_stores.wave"
    sizes = [f"--set={size}" for size in ("M=6", "N=17", "K=7")]
    done = subprocess.run(
        [WAVEC, "run", file, "--target", f"emu:{target}", *sizes],
        capture_output=True,
        text=True,
        env={**os.environ, "WAVE_LLVM": installed()[version]},
        check=False,
    )
    if "E0901" in done.stderr:
        pytest.skip("this libLLVM does not compile for the chip")
    assert done.returncode == 0, done.stderr
