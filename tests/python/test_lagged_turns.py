"""Turns on machines with one barrier: half of the waves runs one barrier after the other half.

Results are those of the kernel without turns, bit for bit and without a finding, for any number of
iterations and in any order of waves. Both judges notice a barrier that is missing or too weak.
"""

import re

import numpy as np
import pytest

import test_roles
import test_turns
import turn_kernels as kernels
from role_kernels import bound
from test_named_barriers import Compiled
from test_roles import ORDERS, arguments, orders_of, parsed, without
from test_turns import dynamic, simulated, with_turns
from turn_kernels import without_turns
from wave_lang import LaunchError

TRIPS = (0, 1, 2, 3, 4, 5)
CDNA = ("gfx90a", "gfx942", "gfx950")
GEMMS = {"halves": kernels.HALVES, "handed_over": kernels.HANDED_OVER, "one_slot": kernels.ONE_SLOT}
GEMMS |= {"deep": kernels.DEEP, "no_ahead": kernels.NO_AHEAD, "fetched": kernels.HALVES_FETCHED}


def gemm_of(text):
    return lambda trips: (text, {"M": 70, "N": 60, "K": 32 * trips - 4 * (trips > 1)})


def attention(trips):
    return kernels.HALVES_ATTENTION, {"B": 1, "M": 130, "K1": 64, "N": 64, "K2": 32 * trips}


def two_loops(trips):
    sizes = {"M": 128, "N": 64, "K": 32 * trips, "L": 64 * ((trips + 2) % 4)}
    return kernels.HALVES_TWO_LOOPS, sizes


def three_rings(trips):
    return kernels.HALVES_THREE_RINGS, test_roles.three_rings(trips)[1]


def normalised(trips):
    return kernels.HALVES_NORMALISED, {"M": 70, "N": 128, "K": 64 * trips}


def nested(trips):
    return kernels.HALVES_NESTED, {"M": 128, "N": 60, "T": (trips + 1) % 4, "K": 32 * trips}


def smoothed(trips):
    return kernels.STENCIL, {"M": 70, "K": 32 * trips - 4 * (trips > 1)}


CASES = {name: gemm_of(text) for name, text in GEMMS.items()}
OTHERS = (attention, two_loops, three_rings, normalised, nested, smoothed)
CASES |= {case.__name__: case for case in OTHERS}
EACH = pytest.mark.parametrize("name", CASES)


def check_results(name, target, known, trips, orders):
    text, sizes = CASES[name](trips)
    if name == "attention" and not all(sizes.values()):
        return  # 0/0
    program = test_turns.check_results(text, sizes, target, known, orders)
    assert known or "shared_barrier" in program


@EACH
@pytest.mark.parametrize("trips", TRIPS)
def test_results_are_those_without_turns(name, trips):
    check_results(name, "gfx942", False, trips, orders_of(trips))
    check_results(name, "gfx942", True, trips, ORDERS[trips % 4 :][:1])


@EACH
@pytest.mark.parametrize("target", ["gfx90a", "gfx950", "gfx1100", "gfx1201"])
def test_other_machines(name, target):
    check_results(name, target, False, 4, ORDERS[-1:])


@EACH
@pytest.mark.parametrize("target", CDNA)
def test_turns_are_proved(name, target):
    test_turns.check_proved(with_turns(bound(*CASES[name](6)), target))


def mid_turns(text):
    return re.findall(r"^ +turn (?:take|pass|meet) .*\n", text, re.M)


def weakened(text):
    """Barriers that no longer wait for shared memory."""
    for line in mid_turns(text):
        if "no_ds_wait" not in line:
            weak = line.replace("{", "{no_ds_wait, ")
            yield f"weak {line.strip()}", text.replace(line, weak, 1)


def unbalanced(text):
    """Turns that are missing, too many or in the wrong order."""
    return test_turns.faults(text, but="(?!meet)")


@EACH
def test_proof_notices_turns(name):
    text = with_turns(bound(*CASES[name](6)), "gfx942")
    test_turns.check_noticed(list(unbalanced(text)))


@EACH
def test_proof_notices_barriers(name):
    """No barrier is needless, and none waits without need."""
    text = with_turns(bound(*CASES[name](6)), "gfx942")
    for what, fault in [*without(text, r"^ +turn meet"), *weakened(text)]:
        assert "not ordered" in parsed(fault).proof().text, what


def after_turns(text, target):
    kernel = parsed(text)
    kernel.run_passes(target=target, start_after="turns")
    return str(kernel)


def count_findings(text):
    """A loop inside another one is only part of its proof."""
    return parsed(text).proof().text.count("not ordered")


# In `smoothed` a wave copies what it reads itself, which the proof does not know.
@pytest.mark.parametrize("name", [name for name in CASES if name != "smoothed"])
def test_simulator_notices_faults(name):
    """What the proof finds out of order, and waves that wait for ever."""
    text, sizes = CASES[name](5)
    text = bound(text, sizes)
    args = list(arguments(text, sizes))
    staged = with_turns(text, "gfx942")
    found = [*without(staged, r"^ +turn "), *weakened(staged)]
    found += [x for x in unbalanced(staged) if re.match("twice turn (open|close)", x[0])]
    known, reported = count_findings(staged), 0
    for what, fault in found:
        ends = re.search("turn (open|close)", what)
        if not ends and count_findings(fault) == known:
            assert re.match("turn (take|pass)", what)  # out of turn, but in order
            continue
        program = after_turns(fault, "gfx942")
        with pytest.raises(Exception, match="E08"):
            for order in ORDERS:
                simulated(program, args, "gfx942", order)
            pytest.fail(what)
        reported += 1
    assert reported >= 6


# ---- machine code ----


def emulated(kernel, args):
    args = [array.copy() for array in args]
    kernel(*args)
    return args[-1]


@EACH
@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
def test_machine_code(name, chip):
    text, sizes = CASES[name](4)
    kernel = Compiled(dynamic(bound(text, sizes)), f"emu:{chip}")
    plain = Compiled(dynamic(bound(without_turns(text), sizes)), f"emu:{chip}")
    for trips in TRIPS:
        text, sizes = CASES[name](trips)
        if not all(sizes.values()):
            continue  # a launch without elements
        args = list(arguments(bound(text, sizes), sizes))
        got, expected = emulated(kernel, args), emulated(plain, args)
        assert np.array_equal(got.view("u1"), expected.view("u1")), sizes


@pytest.mark.parametrize("name", ["halves", "handed_over", "deep", "attention"])
@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
def test_machine_code_without_a_barrier(name, chip):
    """Waves wait for ever, or touch what others have not finished with; or they are only out of turn."""
    text, sizes = CASES[name](5)
    sizes |= {"K": 160} if "K" in sizes else {}  # rows of whole words: the first variant
    args = list(arguments(bound(text, sizes), sizes))
    kernel = Compiled(dynamic(bound(text, sizes)), f"emu:{chip}")
    expected = emulated(kernel, args)
    found = 0
    for i, (_, line, executed, _) in enumerate(kernel.program.test_instructions(0)):
        if not (line.startswith("s_barrier") and executed):
            continue
        kernel.program.test_remove(i, 0)
        try:
            got = emulated(kernel, args)
        except LaunchError:
            found += 1
        else:
            assert np.array_equal(got.view("u1"), expected.view("u1"))
        kernel.program.test_remove(-1, 0)
    assert found >= 3
