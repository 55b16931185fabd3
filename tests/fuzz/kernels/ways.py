"""A case run by Wave, in several ways, and compared with NumPy."""

import functools
import os
import re
import sys
from pathlib import Path

import numpy as np

sys.path.append(os.path.join(os.path.dirname(__file__), "../../../python"))

from wave_lang import _wave  # noqa: E402
from wave_lang.testing import simulate  # noqa: E402

from .model import arguments, expected, outputs  # noqa: E402
from .text import text_of  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
WAYS = ("eval", "sim", "cpu", "lanes", "emu")
NO_ASYNC = ("toy8", "gfx1100", "gfx1201")  # a CPU can execute their lanes
HAS_CPU = any(device.kind == "cpu" for device in _wave.devices())
UNORDERED = (" are not ordered", " are in the wrong order", " waits for itself")
# Not supported, or (E0813) too large for the simulator.
NOT_LOWERED = ("E0601", "E0608", "E0610", "E0611", "E0612", "E0613", "E0616", "E0813")


@functools.cache
def chips():
    """AMD's chips whose machine code is executed: one of each generation that LLVM knows."""
    table = (ROOT / "src/target/chips.def").read_text()
    names = [a for a, like in re.findall(r"^CHIP\((\w+),\s*(\w+),", table, re.M) if a == like]
    kernel = """kernel @k(%a: mem<M, i32>)
  workgroup M by 64 on 0; hardware threads 64, vector {M: 64}; bind M = 64
{
  %x = fill 1 : tile<M, i32>
  write %x, %a
}
"""

    def compiles(name):
        try:
            Compiled(_wave.parse(kernel, "k.wave")[0], f"emu:{name}", False)
        except _wave.CompileError as error:
            if "E0901" not in str(error):
                raise
            return False
        return True

    return [name for name in names if compiles(name)]


def refused(case, error):
    """Whether the error says that this is not supported. Matmuls of any width are."""
    codes = [code for code in NOT_LOWERED if code != "E0601" or not case.wide or case.shares]
    codes += ["E0620"] if case.pins else []  # a schedule that the loop or the machine forbids
    return any(f"[{code}]" in str(error) for code in codes)


class Compiled(_wave.Launchable):
    """A kernel as machine code; nothing of it is kept in a cache."""

    def __init__(self, kernel, target, fast_math):
        self._bind(kernel)
        self._use(kernel.compile(target=target, cache=-1, fast_math=fast_math))


def prove(kernel, target):
    """Loops order their accesses for any number of iterations, not only for those of this run."""
    kernel.run_passes(target=target, stop_after="sync")
    wrong = [line for line in kernel.proof().text.splitlines() if line.endswith(UNORDERED)]
    assert not wrong, "\n".join(wrong)


def run(way, case, text, args):
    kernel = _wave.parse(text, "case.wave")[0]
    if case.disagree:
        kernel.free_sizes()
        text = str(kernel)
    if way == "eval":
        kernel.eval(args)
    elif way.startswith("sim:"):
        simulate(text, *args, target=way, schedule=case.schedule, name="case.wave")
        if not kernel.is_open:
            prove(kernel, way.removeprefix("sim:"))
    elif way.startswith("emu:"):
        Compiled(kernel, way, case.fast_math)(*args)
    else:
        if way == "lanes":
            kernel.assume("ignore")  # lane programs that use assumptions need them
            kernel = kernel.fit({_wave.symbol(d): n for d, n in case.size.items()})
            kernel.lower(case.target if case.target in NO_ASYNC else NO_ASYNC[case.seed % 3])
            kernel = _wave.parse(str(kernel), "lanes.wave")[0]
        Compiled(kernel, "cpu", case.fast_math)(*args)
    _wave.take_diagnostics()


def ways_of(case):
    """The ways that apply to the case; a tile evaluator cannot run kernels that observe threads. A
    lane's program was lowered for row-major tensors."""
    here = {"eval": not case.observable, "sim": True, "cpu": HAS_CPU}
    here["lanes"] = HAS_CPU and not any(case.views.values())
    m, n, k = (case.tile[d] for d in "MNK")
    small = m * n <= 4096 and max(m, n) * k <= 32768  # LLVM takes longer than everything else
    seldom = "= scaled_mma " in text_of(case)  # few are drawn, and most chips expand them
    here["emu"] = small and (seldom or case.seed % 3 == 0) and bool(chips())
    every = {"sim": [f"sim:{target}" for target in case.targets or (case.target,)]}
    if here["emu"]:
        every["emu"] = [f"emu:{chips()[case.seed // 3 % len(chips())]}"]
    return [w for way in case.ways if here[way] for w in every.get(way, [way])]


def problem_here(case):
    """What is wrong with the case, None if nothing is; and the ways by which it was run."""
    text = text_of(case)
    data = arguments(case)
    right = expected(case, data)
    args = [data[p[0]] for p in case.used]
    gone = []
    for way in ways_of(case):
        out = outputs(case)
        try:
            run(way, case, text, (*args, *out))
        except Exception as error:  # any exception is a finding
            _wave.take_diagnostics()
            if way != "eval" and refused(case, error):
                continue
            return f"{way}: {type(error).__name__}: {error}", gone
        gone.append(way)
        for (name, _, _), got, want in zip(case.outputs, out, right):
            if not np.array_equal(got, want):
                at = np.argwhere(got != want)[0]
                return f"{way}: {name}{list(map(int, at))} is {got[tuple(at)]}, NumPy has {want[tuple(at)]}", gone
    return None, gone
