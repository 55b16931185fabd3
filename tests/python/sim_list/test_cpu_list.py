"""The list of kernels on the CPU of this machine: compiled by LLVM, compared with NumPy in
float64."""

import pytest

from compiler_steps import copied, kernel
from kernel_list import CASES, FULL, NOT_LOWERED, refusal, runs
from wave_lang import LaunchError, _wave
from wave_lang.kernel.wave.machine import devices

pytestmark = pytest.mark.skipif(not devices("cpu"), reason="there is no libLLVM")
WITHOUT_ASYNC = ("toy8", "gfx1100", "gfx1201")  # a CPU can execute what their lanes do


@runs(1, "case", "sizes")
def test_cpu(case, sizes):
    arguments = case.arguments(sizes)
    after = copied(arguments)
    kernel = case.compile(sizes, "cpu")
    assert kernel.compile_for("cpu"), "\n".join(map(str, kernel.remarks))
    kernel(*(array for _, array in after))
    case.check(sizes, arguments, after)


class Program(_wave.Launchable):
    """One lane's program as machine code that runs all lanes."""

    def __init__(self, text):
        lanes = kernel(text)
        self._bind(lanes)
        self._use(lanes.compile(target="cpu", cache=-1))


@pytest.mark.parametrize("place", range(0, len(CASES), 1 if FULL else 5))
def test_lanes(place):
    """The lanes of a GPU's program, executed by this CPU thread by thread."""
    case, target = CASES[place], WITHOUT_ASYNC[place % 3]
    sizes = case.shapes[(2 * place + 1) % len(case.shapes)]
    if refusal(NOT_LOWERED, case, sizes, target):
        pytest.skip(f"{target} does not run it")
    arguments = case.arguments(sizes)
    after = copied(arguments)
    program = Program(case.lanes(sizes, target))
    try:
        program(*(array for _, array in after))
    except LaunchError as error:
        if error.diagnostics[0].code != "E0709":
            raise
        pytest.skip("this text is the code for launches that fulfil its assumptions")
    case.check(sizes, arguments, after)
