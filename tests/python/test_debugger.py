"""A debugger shows the user's source lines for code that was compiled in the process."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wave_lang.kernel.wave.machine import devices

pytestmark = [
    pytest.mark.skipif(not devices("cpu"), reason="there is no libLLVM"),
    pytest.mark.skipif(not shutil.which("gdb"), reason="there is no gdb"),
    pytest.mark.skipif(
        "asan" in os.environ.get("LD_PRELOAD", ""), reason="gdb takes minutes with the sanitizer"
    ),
]

KERNEL = """
import numpy as np
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

M = tkl.sym.M

@tkw.wave([
    tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 64}),
    tkw.WorkgroupConstraint(M, 64, 0),
])
def twice(x: tkl.Memory[M, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
    value = tkw.read(x)
    tkw.write(value + value, y)   # here

y = np.zeros(64, "f4")
wave_compile(WaveCompileOptions(subs={M: 64}, target="cpu"), twice)(np.ones(64, "f4"), y)
assert (y == 2).all()
"""


def test_gdb_knows_kernel_and_line(tmp_path):
    file = tmp_path / "twice_kernel.py"
    file.write_text(KERNEL)
    line = KERNEL.splitlines().index("    tkw.write(value + value, y)   # here") + 1
    commands = ["set breakpoint pending on", f"break twice_kernel.py:{line}", "run", "bt 1"]
    arguments = [word for c in commands for word in ("-ex", c)]
    paths = os.pathsep.join([str(Path(__file__).parents[2] / "python"), *sys.path])
    done = subprocess.run(
        ["gdb", "-nx", "-batch", *arguments, "--args", sys.executable, str(file)],
        env={**os.environ, "PYTHONPATH": paths, "WAVE_NUM_THREADS": "1", "WAVE_CACHE_ON": "0"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        pytest.skip("this process may not be debugged")
    found = re.search(r"^#0 .*\bwave_twice \(.*\) at .*twice_kernel\.py:(\d+)", done.stdout, re.M)
    assert found and int(found[1]) == line, done.stdout + done.stderr
