"""Copies of the kernels of the list in another context are the same kernels: test_clone.c, which
has its own kernels as text, checks them."""

import os
import subprocess
from pathlib import Path

import pytest

from kernel_list import CASES

ROOT = Path(__file__).resolve().parents[3]
CHECKER = ROOT / os.environ.get("BUILD", "build") / "tests/test_clone"


@pytest.mark.skipif(not CHECKER.exists(), reason="the unit tests are not built")
def test_clones(tmp_path):
    for case in CASES:
        text = case.text(case.shapes[0])
        (tmp_path / f"{case.name}.wave").write_text(text)
    done = subprocess.run([CHECKER, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"\n{len(CASES)} passed, 0 failed" in done.stdout, done.stdout[-4000:]
