"""A sample of the list on other AArch64 CPUs, in qemu-aarch64: matmuls with SMMLA and BFMMLA, and
everything with SVE of both lengths. `emulated.py ROW --every` runs all of it.
"""

import os
import platform
import re
import shutil
from pathlib import Path

import pytest

import emulated
from wave_lang.kernel.wave.machine import devices

TABLE = Path(__file__).parents[3] / "src/target/targets.def"
NATIVE = ("cpu_neon", "cpu_neon_dot")  # every current machine has these itself


def why_not():
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        return "the sanitizer's shadow memory takes more than 20 GB in qemu-aarch64"
    if platform.machine() != "aarch64":
        return "Python itself is emulated, which needs one for AArch64"
    if not shutil.which("qemu-aarch64"):
        return "qemu-aarch64 is not installed (Debian: qemu-user)"
    return None if devices("cpu") else "there is no libLLVM"


@pytest.mark.skipif(bool(why_not()), reason=str(why_not()))
@pytest.mark.parametrize("row", [row for row in emulated.QEMU_CPUS if row not in NATIVE])
def test_emulated(row):
    items = emulated.items_of(row, every=False)
    passed, wrong = emulated.check_row(row, items)
    assert not wrong, "\n".join(wrong)
    assert passed == len(items) > 30


def test_every_row_is_emulated():
    rows = re.findall(r"^CPU\((\w+),.*AARCH64", TABLE.read_text(), re.MULTILINE)
    assert rows == [*emulated.QEMU_CPUS]
