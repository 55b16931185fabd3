"""The tests of the tools do not need pytest (tools/test.py runs them), but also run with it."""

import pytest


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path)
