"""The tests of the tools need no pytest (tools/test.py runs them); with it they run as well."""

import pytest


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path)
