"""The list of kernels as PTX: every text is assembled, for sm_90a and for another NVIDIA target."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_list import CASES, FULL

ROOT = Path(__file__).parents[3]
WAVEC = ROOT / os.environ.get("BUILD", "build") / "wavec"
sys.path.append(str(ROOT / "tools"))

import ptxas  # noqa: E402

TARGETS = ptxas.targets()


def targets_of(place):
    """sm_90a, and one of the others in turn: their texts differ in little."""
    others = [target for target in TARGETS if target != "sm_90a"]
    return TARGETS if FULL else ["sm_90a", others[place % len(others)]]


def runs():
    """One size of each kernel, in rotation; in `make test-full` all, on every machine."""
    for place, case in enumerate(CASES):
        for turn, target in enumerate(targets_of(place)):
            shapes = case.shapes if FULL else [case.shapes[(place + turn) % len(case.shapes)]]
            for sizes in shapes:
                yield pytest.param(case, sizes, target, id=f"{case.name}-{case.label(sizes)}-{target}")


@pytest.mark.skipif(not ptxas.find(), reason="no ptxas: `make setup` installs one if it can")
@pytest.mark.parametrize("case,sizes,target", runs())
def test_assembles(case, sizes, target):
    done = subprocess.run(
        [WAVEC, "-", "--target", target, "--passes=all", "--emit=ptx"],
        input=case.text(sizes),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    result = ptxas.assemble(done.stdout)
    assert result.ok, result.log
    serial = [a for a in result.advices if a.code.startswith("C75")]
    assert not serial, serial
