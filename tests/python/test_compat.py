"""tools/compat.py runs the tests of a checkout as its options say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

TOOL = Path(__file__).parents[2] / "tools" / "compat.py"

CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--run-e2e", action="store_true")
"""

TEST = """
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL
from wave_lang.kernel.wave.compile import WaveCompileOptions, wave_compile

M = tkl.sym.M


def test_options():
    @tkw.wave([
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 64}),
        tkw.WorkgroupConstraint(M, 64, 0),
        tkw.WaveConstraint(M, 64),
    ])
    def copy(a: tkl.Memory[M, GLOBAL, tkl.f32], b: tkl.Memory[M, GLOBAL, tkl.f32]):
        tkw.write(tkw.read(a), b)

    options = WaveCompileOptions(subs={M: 64})
    wave_compile(options, copy)
    assert (options.target, options.sizes) == ("sim:gfx942", "smallest")
"""


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "tests" / "kernel"
    folder.mkdir(parents=True)
    (tmp_path / "tests" / "conftest.py").write_text(CONFTEST)
    (folder / "options_test.py").write_text(TEST)
    return tmp_path


def run(checkout, *more):
    """The results by test, and the process."""
    record = checkout / "results.json"
    command = [sys.executable, TOOL, checkout, "--json", record, *more]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    return json.loads(record.read_text()) if record.exists() else {}, done


def test_the_target_and_the_smallest_sizes(checkout):
    results, done = run(checkout, "--target", "sim:gfx942")
    assert [row["outcome"] for row in results.values()] == ["passed"], (results, done.stderr)


def test_a_file_that_does_not_exist(checkout):
    results, done = run(checkout, "tests/kernel/missing_test.py")
    assert done.returncode != 0 and "missing_test.py" in done.stderr and not results
