"""Scripts that must not leak, each in a separate process."""

import os
from pathlib import Path

import pytest

from kernel_utils import run_python

SCRIPTS = sorted((Path(__file__).parent / "isolated").glob("*.py"))


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="ASan keeps freed memory")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_leaks(script):
    done = run_python(str(script))
    assert done.returncode == 0, done.stdout + done.stderr
