"""What LLVM makes of the loops that matter on AMD GPUs: how many instructions they have for each
matrix instruction, and none that only move accumulators. bench/NOTES.md says why."""

import collections
import os
import re
import subprocess

import pytest
from test_cpu_llvm import ROOT, WAVEC, installed


def assembly(name, target, library):
    file = ROOT / "tests" / "llvm" / f"{name}.wave"
    done = subprocess.run(
        [WAVEC, file, f"--target={target}", "--passes=all", "--emit=asm"],
        capture_output=True,
        text=True,
        env={**os.environ, "WAVE_LLVM": library},
        check=False,
    )
    if "E0901" in done.stderr:
        pytest.skip("this libLLVM does not compile for the chip")
    assert done.returncode == 0, done.stderr
    return done.stdout


def main_loop(text):
    """The instructions of the loop with the most matrix instructions."""
    label, names, best = {}, [], []
    for line in text.splitlines():
        if at := re.match(r"(\.LBB\w+):", line):
            label[at[1]] = len(names)
        elif word := re.match(r"\t([a-z]\w+)(.*)", line):
            names.append(word[1])
            back = re.search(r"\.LBB\w+", word[2])
            if "branch" in word[1] and back and back[0] in label:
                best = max(best, names[label[back[0]] :], key=lambda loop: matrices(loop))
    return best


def matrices(loop):
    return sum("mfma" in name for name in loop)


def kind(name):
    if "mfma" in name:
        return "matrix"
    if name.startswith("v_accvgpr"):
        return "copies"
    return "valu" if name.startswith("v_") else name


# Most instructions and most VALU instructions for each matrix instruction; barriers of an
# iteration, of which two are unrolled where there are two stages.
LOOPS = [
    ("amd_attention", "gfx942", 64, 560 / 64, 5.5, 2),
    ("amd_stages", "gfx942", 64, 2.1, 0.15, 2),
]


@pytest.mark.parametrize("version", [v for v in sorted(installed()) if v >= 19] or [None])
@pytest.mark.parametrize("name, target, count, most, valu, barriers", LOOPS)
def test_main_loop(name, target, count, most, valu, barriers, version):
    if version is None:
        pytest.skip("there is no libLLVM of version 19 or newer")
    text = assembly(name, target, installed()[version])
    loop = main_loop(text)
    kinds = collections.Counter(map(kind, loop))
    assert kinds["matrix"] == count
    assert len(loop) <= most * count and kinds["valu"] <= valu * count
    assert not kinds["copies"] and kinds["s_barrier"] == barriers
    assert ".vgpr_spill_count: 0" in text
