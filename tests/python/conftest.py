"""Tests run against the package in the tree, or an installed one when there is no build here."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1] / "python"
sys.path[:0] = [str(HERE), str(HERE / "sim_list")]  # kernel_utils, kernel_list
if any((TREE / "wave_lang").glob("_wave*.so")):
    sys.path.insert(0, str(TREE))

pytest.importorskip("numpy")
