"""Seeded faults in one lane's programs: the hand-written ones of tests/run/sim_*.wave.

A missing barrier, wait or bound is reported by a check of the simulator; a shifted index is
reported or changes the result. Survivors are listed here with the reason. The unchanged programs
have no findings under any schedule.
"""

import itertools
import re
from pathlib import Path

import pytest

from compiler_steps import kernel, simulated
from kernel_list import SCHEDULES
from thread_faults import (
    conjuncts,
    faults,
    is_found,
    made_arguments,
    outcome,
    parameters,
    without_each,
)
from wave_lang import SimulationError

RUN = Path(__file__).resolve().parents[2] / "run"
FILES = sorted(RUN.glob("sim_*.wave"))
WRONG = "# RUN: not "  # programs with intended faults
PROGRAMS = [
    path.stem
    for path in FILES
    if "\nthread kernel" in path.read_text() and WRONG not in path.read_text()
]

ONE_OWNER = "every lane stores the same bits, or reads what is there: the condition only saves work"
SURVIVORS = {
    ("sim_flag", "%first = expr $T0 <= 0 : i1"): ONE_OWNER,
    ("sim_reduce", "%first = expr Eq(Mod($T0, 32), 0) : i1"): ONE_OWNER,
    ("sim_reduce", "if ($T0 <= 0) {"): ONE_OWNER,
    ("sim_wgmma", "%keep = expr $ARGQ >= 1 : i1"): "the accumulator that is kept holds zeros",
}


def program(name):
    """The program as it is printed, and the machine it is written for."""
    source = (RUN / f"{name}.wave").read_text()
    target = re.search(r"(?:--sim=|--target sim:)(\w+)", source)
    return str(kernel(source)), target[1] if target else "sm_80"


def results(name, schedule="round"):
    text, target = program(name)
    arguments = made_arguments(text)
    return arguments, simulated(text, arguments, target, schedule)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_false_alarm(name):
    _, first = results(name)
    for schedule in (*SCHEDULES, "random:7"):
        _, again = results(name, schedule)
        assert [a.tobytes() for _, a in first] == [a.tobytes() for _, a in again]


@pytest.mark.parametrize("name", PROGRAMS)
def test_faults_are_found(name):
    text, target = program(name)
    arguments, expected = results(name)
    seeded = list(faults(text))
    assert seeded
    unexpected, survived = [], set()
    for fault, schedule in itertools.product(seeded, SCHEDULES):
        found = outcome(fault.text, arguments, expected, target, schedule)
        line = fault.what.split("  (")[0]
        if found == "survived" and (name, line) in SURVIVORS:
            survived.add((name, line))
        elif not is_found(fault, found):
            unexpected.append(f"{found}: {fault}")
    assert not unexpected, "\n".join(unexpected)
    assert survived == {key for key in SURVIVORS if key[0] == name}, "a survivor was detected"


# ---- the engine itself ---------------------------------------------------------------------------

SMALL = """thread kernel @small(%a: mem<N, f32>, %b: mem<N, f32>)
  launch grid (1, 1, 1) block (16, 1, 1) wave 8 shared 64
  bind N = 13
{
  %s = alloc {base = 0} : mem<16, f32, shared>
  %at = expr $T0 : index
  %in = expr ($T0 < N) & ($T0 <= 12) & (($T0 >= 1) | ($T0 <= 0)) : i1
  %x = load %a, %at, %in : f32
  store %x, %s, %at
  barrier workgroup
  %from = expr Mod($T0 + 8, 16) : index
  %y = load %s, %from {imm = 0} : f32
  %count = expr 3*$T0 : i32
  if (($WG0 <= 0) & ($T0 < N)) {
    store %y, %b, %at
  }
}
"""


def test_every_fault_is_seeded_once():
    found = [(f.kind, f.what.rpartition("  (")[2][:-1]) for f in faults(SMALL)]
    assert found == [
        ("index", "plus 1"),
        ("bound", "without ($T0 < N)"),
        ("bound", "without ($T0 <= 12)"),
        ("bound", "without (($T0 >= 1) | ($T0 <= 0))"),
        ("barrier", "removed"),
        ("index", "plus 1"),
        ("index", "imm plus 1"),
        ("bound", "without ($WG0 <= 0)"),
        ("bound", "without ($T0 < N)"),
    ]


def test_a_fault_changes_one_line():
    for fault in faults(SMALL):
        before, after = SMALL.splitlines(), fault.text.splitlines()
        if len(after) < len(before):
            assert fault.kind in ("barrier", "wait")
            after.insert(fault.line - 1, "")
        changed = [i + 1 for i, (a, b) in enumerate(zip(before, after)) if a != b]
        assert changed == [fault.line], str(fault)
        kernel(fault.text)


def test_waits_are_weakened_and_removed():
    text, _ = program("sim_copy_async")
    waits = [f for f in faults(text) if f.kind == "wait"]
    assert [f.what for f in waits] == ["async_wait 1  (removed)", "async_wait 1  (one less)"]
    assert "async_wait 2" in waits[1].text and "async_wait" not in waits[0].text


def test_conditions_are_taken_apart():
    assert conjuncts("($T0 < N) & ((A | B) & C)") == ["($T0 < N)", "((A | B) & C)"]
    assert list(without_each("A < 3")) == [("A < 3", "True")]


def test_arguments_of_a_program():
    assert parameters(SMALL) == [("a", "f32", (13,), False), ("b", "f32", (13,), True)]


def test_outcomes():
    arguments = made_arguments(SMALL)
    expected = simulated(SMALL, arguments, "toy8")
    assert outcome(SMALL, arguments, expected, "toy8") == "survived"
    assert outcome(SMALL.replace("%y, %b", "%x, %b"), arguments, expected, "toy8") == "result"
    assert outcome(SMALL.replace("barrier workgroup", ""), arguments, expected, "toy8").startswith(
        "E0803"
    )
    wrong = SMALL.replace("(($WG0 <= 0) & ($T0 < N))", "($WG0 <= 0)")
    assert outcome(wrong, arguments, expected, "toy8") == "E0801"
    with pytest.raises(SimulationError):
        simulated(wrong, arguments, "toy8")
