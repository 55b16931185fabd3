"""Tests run against the package in the tree, or an installed one if there is no build here."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1] / "python"
sys.path[:0] = [str(HERE), str(HERE / "sim_list")]  # kernel_utils, kernel_list
if any((TREE / "wave_lang").glob("_wave*.so")):
    sys.path.insert(0, str(TREE))

pytest.importorskip("numpy")

from wave_lang import _wave


class LeftOut(pytest.File):
    """A test file that is not imported: it counts as one skipped test."""

    reason = ""

    def collect(self):
        yield LeftOutItem.from_parent(self, name="device")


class LeftOutItem(pytest.Item):
    def runtest(self):
        pytest.skip(self.parent.reason)


def pytest_pycollect_makemodule(module_path, parent):
    """GPU tests run if there is a GPU and `--run-e2e` is given. `make test-gpu` also runs them,
    without pytest."""
    if not module_path.name.startswith("test_gpu_"):
        return None
    if not parent.config.getoption("--run-e2e"):
        reason = "runs on a GPU: --run-e2e"
    elif not any(device.kind in ("cuda", "hip") for device in _wave.devices()):
        reason = "there is no GPU here"
    else:
        return None
    file = LeftOut.from_parent(parent, path=module_path)
    file.reason = reason
    return file


def pytest_configure(config):
    from feature_record import Recorder

    config.pluginmanager.register(Recorder(config.getoption("--record-features", False)))


def pytest_collection_modifyitems(items):
    """TEST_PART=2/16 runs the second of 16 parts: for whole tables, on a machine with many cores."""
    part, parts = map(int, os.environ.get("TEST_PART", "1/1").split("/"))
    items[:] = items[part - 1 :: parts]
