"""Seeded faults in the kernels of the list, as the compiler lowers them.

Each barrier, wait and bound is removed and each index shifted: a check reports it, the result
changes, or there is a reason that is checked (fault_reasons.py). `make test` tries a few faults of
each kernel on one machine; `make test-full` all of them on all machines, in parts of a few seconds,
and lists the survivors with their reasons in $BUILD/survivors.txt.
"""

import itertools
import math
import os
from pathlib import Path

import pytest

import fault_reasons as why
from compiler_steps import simulated
from fault_reasons import Program, reason
from kernel_list import CASES, FULL, NOT_LOWERED, TARGETS, refusal
from survivors import Survivors
from thread_faults import KINDS, Fault, faults, is_found, made_arguments, outcome

ROOT = Path(__file__).resolve().parents[3]


def chosen(every, turn, part, parts):
    """The faults of a kernel that a test tries; in `make test` one of each kind, in turn."""
    if FULL:
        return every[part::parts]
    kinds = [[f for f in every if f.kind == kind] for kind in KINDS]
    return [found[turn * 7 % len(found)] for found in kinds if found]


def parts_of(sizes, target):
    """How many tests share the faults of a kernel, so that each takes a few seconds: smaller waves
    give longer programs, and more of them."""
    work = math.prod(sizes.values()) * (6 if target == "toy8" else 1)
    return min(1 + work // 60_000, 40) if FULL else 1


def places():
    """(turn, case, sizes, target, part, parts) of the kernels that are lowered. Sizes one more than
    the tiles reach most of a kernel: whole tiles, their edges and two iterations of loops. One less
    reaches the rest. If accesses depend on a table, expressions do not show what a fault changes.
    """
    for turn, case in enumerate(CASES):
        if any(tensor.span for tensor in case.inputs):
            continue
        targets = TARGETS if FULL else [TARGETS[turn % 4]]
        tried = case.shapes[1:3] if FULL else case.shapes[2:3]
        for target, sizes in itertools.product(targets, tried):
            if case.roomy or not case.lanes_alone or refusal(NOT_LOWERED, case, sizes, target):
                continue
            parts = parts_of(sizes, target)
            for part in range(parts):
                name = f"{case.name}-{case.label(sizes)}-{target}" + f"-{part}" * (parts > 1)
                yield pytest.param(turn, case, sizes, target, part, parts, id=name)


@pytest.fixture(scope="module")
def survivors():
    build = ROOT / os.environ.get("BUILD", "build")
    found = Survivors(build / "survivors.txt")
    yield found
    if FULL and build.is_dir():
        found.write()


@pytest.mark.parametrize("turn, case, sizes, target, part, parts", list(places()))
def test_faults_are_found(turn, case, sizes, target, part, parts, survivors):
    arguments = case.arguments(sizes)
    text = case.lanes(sizes, target)
    expected = simulated(text, arguments, target)
    case.check(sizes, arguments, expected)
    place = f"{case.name} {case.label(sizes)} {target}"
    every = list(faults(text))
    tried = chosen(every, turn, part, parts)
    survivors.take(place, every, tried)
    unknown = []
    for fault in tried:
        found = outcome(fault.text, arguments, expected, target)
        if is_found(fault, found):
            continue
        because = reason(fault, text, sizes, target)
        if found != "survived" or because is None:
            unknown.append(f"{found}: {fault}")
        survivors.add(place, fault, because)
    assert not unknown, "\n".join(unknown)


def test_parts_are_a_whole():
    every = list(range(23))
    if not FULL:
        pytest.skip("parts are of `make test-full`")
    assert sorted(f for part in range(4) for f in chosen(every, 0, part, 4)) == every


def test_the_list_of_survivors_is_exact(tmp_path):
    """Two runs that share a kernel; a kernel that changes; one that is not tried again."""
    path = tmp_path / "survivors.txt"

    def run(place, every, tried, found):
        survivors = Survivors(path)
        survivors.take(place, every, tried)
        for fault in found:
            survivors.add(place, fault, f"because of {fault}")
        survivors.write()
        return path.read_text().splitlines()[::2]

    run("other 1 toy8", "pq", "pq", "q")
    assert run("gemm 1 toy8", "abcd", "ac", "a") == ["gemm 1 toy8: a", "other 1 toy8: q"]
    both = run("gemm 1 toy8", "abcd", "bd", "bd")
    assert both == [f"gemm 1 toy8: {f}" for f in "abd"] + ["other 1 toy8: q"]
    assert run("gemm 1 toy8", "abcd", "ab", "b") == [
        "gemm 1 toy8: b",
        "gemm 1 toy8: d",
        "other 1 toy8: q",
    ]
    assert run("gemm 1 toy8", "bxy", "x", "") == ["gemm 1 toy8: b", "other 1 toy8: q"]
    assert "    because of b\n" in path.read_text()


# ---- the reasons ---------------------------------------------------------------------------------

PROGRAM = """thread kernel @p(%a: mem<N, f32>, %b: mem<N, f32>)
  bind N = 20
  launch grid (2, 1, 1) block (16, 1, 1) wave 8 shared 64
{
  %s = alloc {base = 0} : mem<16, f32, shared>
  %at = expr 16*$WG0 + $T0 : index
  %own = expr $T0 : index
  if ($WG0 <= 0) {
    %x = load %a, %at : f32
    store %x, %s, %own
    barrier workgroup
    %y = load %s, %own : f32
    store %y, %b, %at
  }
  if ($WG0 >= 1) {
    %in = expr (signed($APPLY_EXPR_ARG_0) < N) & ($T0 < 8) & ($T0 < 12) %at : i1
    %z = load %a, %at, %in : f32
    %never = expr $T0 >= 16 : i1
    store %z, %b, %at, %never {imm = 1}
    store %z, %b, %at, %in
  }
}
"""


def one_fault(kind, part, text=PROGRAM):
    (found,) = [f for f in faults(text) if f.kind == kind and part in f.what]
    return found


@pytest.mark.parametrize(
    "kind, part, expected",
    [
        ("bound", "without ($T0 < 12)", why.IMPLIED),
        ("bound", "without ($T0 < 8)", why.IMPLIED),
        ("bound", "without $WG0 >= 1", why.AGAIN),
        ("index", "{imm = 1}", why.NEVER),
        ("barrier", "workgroup", why.SAME_THREAD),
    ],
)
def test_reasons(kind, part, expected):
    fault = one_fault(kind, part)
    arguments = made_arguments(PROGRAM)
    results = simulated(PROGRAM, arguments, "toy8")
    assert outcome(fault.text, arguments, results, "toy8") == "survived"
    assert reason(fault, PROGRAM, {}, "toy8") == expected


def test_there_is_no_reason_for_what_should_be_found():
    """What the simulator reports is not explained away, with a few exceptions."""
    arguments = made_arguments(PROGRAM)
    results = simulated(PROGRAM, arguments, "toy8")
    found = [
        f for f in faults(PROGRAM) if outcome(f.text, arguments, results, "toy8") != "survived"
    ]
    assert {f.kind for f in found} == {"bound", "index"}
    for fault in found:
        harmless = (why.SAME_BITS, why.UNUSED)  # given for masks only after a run without findings
        assert reason(fault, PROGRAM, {}, "toy8") in (None, *harmless), str(fault)


LOOP = """thread kernel @loop(%a: mem<M, f32>)
  launch grid (1, 1, 1) block (8, 1, 1) wave 8 shared 32
  dynamic M, K
{
  %s = alloc {base = 0} : mem<8, f32, shared>
  %0 = expr $T0 : i32
  %1 = expr 7 - $T0 : i32
  for K with {trips = K} {
    barrier workgroup
    %2 = load %a, %0 : f32
    store %2, %s, %0
    barrier workgroup
    %3 = load %s, %1 : f32
    store %3, %a, %0
    yield
  }
}
"""


@pytest.mark.parametrize("rounds, expected", [(1, why.FIRST), (2, None)])
def test_a_barrier_of_the_first_round(rounds, expected):
    first, second = (f for f in faults(LOOP) if f.kind == "barrier")
    assert reason(first, LOOP, {"M": 8, "K": rounds}, "toy8") == expected
    assert reason(second, LOOP, {"M": 8, "K": rounds}, "toy8") is None


def test_a_barrier_between_threads_has_no_reason():
    text = PROGRAM.replace("%y = load %s, %own", "%y = load %s, %turned").replace(
        "  if ($WG0 <= 0) {", "  %turned = expr 15 - $T0 : index\n  if ($WG0 <= 0) {"
    )
    assert reason(one_fault("barrier", "workgroup", text), text, {}, "toy8") is None


def test_a_barrier_within_waves():
    """Lanes swap values inside their wave: this needs nothing on a machine that runs in lockstep, a
    barrier on others."""
    text = PROGRAM.replace("%y = load %s, %own", "%y = load %s, %turned").replace(
        "  if ($WG0 <= 0) {",
        "  %turned = expr 8*floor($T0/8) + 7 - Mod($T0, 8) : index\n  if ($WG0 <= 0) {",
    )
    fault = one_fault("barrier", "workgroup", text)
    assert reason(fault, text, {}, "gfx942") == why.SAME_WAVE
    assert reason(fault, text, {}, "toy8") is None


def test_lanes_in_step_need_no_barrier():
    text = PROGRAM.replace("barrier workgroup", "barrier wave").replace("- $T0", "$T0")
    fault = one_fault("barrier", "wave", text)
    assert reason(fault, text, {}, "gfx942") == why.LOCKSTEP
    assert reason(fault, text, {}, "sm_80") == why.SAME_THREAD


def test_conditions_in_loops_are_tried_in_every_round():
    text = PROGRAM.replace(
        "    %in = expr (signed($APPLY_EXPR_ARG_0) < N) & ($T0 < 8) & ($T0 < 12) %at : i1\n",
        "    for K with {trips = N/5} {\n      %in = expr $ARGK <= 2 : i1\n    }\n",
    )
    program = Program(text, {})
    line = next(i for i, l in enumerate(program.lines) if l.startswith("%in"))
    symbols = program.space(line)
    assert sorted(set(symbols["$ARGK"])) == [0, 1, 2, 3] and symbols["thread"].size == 4 * 32
    assert symbols["reached"].sum() == 4 * 16
    assert program.value("$ARGK <= 3", symbols).all()
    assert not program.value("$ARGK <= 2", symbols).all()


def test_an_unknown_value_is_no_reason():
    fault = Fault("bound", 15, "%in = ...", PROGRAM.replace("< 8", "< $MYSTERY"))
    assert reason(fault, PROGRAM, {}, "toy8") is None
