"""Every PTX text that the tests emit is assembled by ptxas, where there is one."""

import glob
import os
import re
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WAVEC = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")
FILES = sorted(glob.glob(os.path.join(ROOT, "tests/ptx/*.wave")))


def ptxas():
    """On the path, of the CUDA toolkit, or of the PyPI package nvidia-cuda-nvcc."""
    places = [shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas"]
    places += glob.glob(os.path.join(sys.prefix, "lib/python*/site-packages/nvidia/*/bin/ptxas"))
    return next((p for p in places if p and os.access(p, os.X_OK)), None)


@pytest.mark.skipif(not ptxas(), reason="no ptxas: pip install nvidia-cuda-nvcc-cu12")
@pytest.mark.parametrize("file", FILES, ids=os.path.basename)
def test_assembles(file, tmp_path):
    first = open(file, encoding="utf-8").readline()
    if first.startswith("# RUN: not"):
        pytest.skip("refused on purpose")
    target = re.search(r"--target (\w+)", first).group(1)
    ptx = tmp_path / "kernel.ptx"
    emit = [WAVEC, file, "--target", target, "--passes=all", "--emit=ptx", "-o", str(ptx)]
    subprocess.run(emit, check=True, capture_output=True)
    done = subprocess.run(
        [ptxas(), f"-arch={target}", "-v", str(ptx), "-o", str(tmp_path / "kernel.cubin")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert " 0 bytes spill stores" in done.stderr, done.stderr
