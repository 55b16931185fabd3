"""The rows of bench_library.py in their full sizes: every kernel that they launch compiles for an H200."""

import sys

import numpy as np
import pytest

from test_docs import ROOT

sys.path.insert(0, f"{ROOT}/bench")
import library_rows  # noqa: E402
from library_utils import BF16  # noqa: E402
import wave_lang.kernel.lang as tkl  # noqa: E402
from wave_lang import ops, wave_compile  # noqa: E402
from wave_lang.ops import programs  # noqa: E402

ROWS = {row.name: row for row in library_rows.all_rows(library_rows.FULL) if not row.needs_torch}


class Shapes(library_rows.Maker):
    """Makes tensors whose elements nobody reads or writes: they take no memory."""

    def __init__(self):
        super().__init__()
        self.half = tkl.bf16

    def random(self, *shape):
        return np.empty(shape, BF16)

    def single(self, *shape):
        return np.empty(shape, np.float32)

    def array(self, values, dtype=np.int32):
        return np.asarray(values).astype(dtype)


@pytest.fixture
def launches(monkeypatch):
    """What is compiled, for the GPU, in place of being launched."""
    found = []

    def record(options, kernel):
        options.target = "sm_90a"
        found.append(wave_compile(options, kernel))
        return lambda *args: None

    for module in (library_rows, library_rows.kernels, programs):
        monkeypatch.setattr(module, "wave_compile", record)
    programs._compiled.cache_clear()
    yield found
    programs._compiled.cache_clear()


@pytest.mark.parametrize("name", ROWS)
def test_row_compiles(name, launches):
    row = ROWS[name]
    with ops.on_target("sm_90a"):
        case = row.build(Shapes(), *row.args)
        case.call(*case.args)
    assert launches and all(".entry" in kernel.asm for kernel in launches)
