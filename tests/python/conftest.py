"""Tests run against the package in the tree, or an installed one when there is no build here."""

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

if not any(device.kind == "cuda" for device in _wave.devices()):
    collect_ignore_glob = ["test_gpu_*.py"]  # `make test-gpu` runs them without pytest


def pytest_collection_modifyitems(items):
    """TEST_PART=2/16 runs the second of 16 parts: for whole tables, on a machine with many cores."""
    part, parts = map(int, os.environ.get("TEST_PART", "1/1").split("/"))
    items[:] = items[part - 1 :: parts]
