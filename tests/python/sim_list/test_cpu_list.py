"""The list of kernels on this machine's processor: compiled by LLVM, against NumPy in float64."""

import pytest

from compiler_steps import copied
from kernel_list import runs
from wave_lang.kernel.wave.machine import devices

pytestmark = pytest.mark.skipif(not devices("cpu"), reason="there is no libLLVM")


@runs(1, "case", "sizes")
def test_processor(case, sizes):
    arguments = case.arguments(sizes)
    after = copied(arguments)
    kernel = case.compile(sizes, "cpu")
    assert kernel.compile_for("cpu"), "\n".join(map(str, kernel.remarks))
    kernel(*(array for _, array in after))
    case.check(sizes, arguments, after)
