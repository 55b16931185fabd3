"""The list of kernels on a HIP library without a GPU (tests/fake_hip): each is compiled, linked,
loaded and launched. The arguments of the launch must be those of the code object's note; kernels do
not run."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from kernel_list import CASES, FULL

ROOT = Path(__file__).parents[3]
BUILD = ROOT / os.environ.get("BUILD", "build")
FAKE = BUILD / "tests/libfake_hip.so"
EVERY = 1 if FULL else 5  # `make test` takes a sample


def runs():
    for place, case in enumerate(CASES):
        if place % EVERY == 0:
            sizes = case.shapes[place % len(case.shapes)]
            yield pytest.param(case, sizes, id=f"{case.name}-{case.label(sizes)}")


def settings(text, sizes):
    """The sizes of all dimensions; those that only lookups use may be anything."""
    named = {str(symbol): value for symbol, value in sizes.items()}
    named.update({"T": 7} if re.search(r"mem<(\w+, )*T\b", text) else {})
    return [word for name, value in named.items() for word in ("--set", f"{name}={value}")]


@pytest.mark.skipif(not FAKE.exists(), reason="the fake library is not built")
@pytest.mark.parametrize("case,sizes", runs())
def test_launches(case, sizes):
    text = case.text(sizes)
    done = subprocess.run(
        [BUILD / "wavec", "run", "-", "--target", "hip", *settings(text, sizes)],
        input=text,
        capture_output=True,
        text=True,
        env={**os.environ, "WAVE_HIP_LIB": str(FAKE), "WAVE_CACHE_ON": "0"},
    )
    if "built without AMDGPU" in done.stderr or "needs libLLVM" in done.stderr:
        pytest.skip("there is no libLLVM for AMD GPUs")
    assert done.returncode == 0, done.stderr
