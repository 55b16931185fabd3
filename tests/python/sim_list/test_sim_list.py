"""The list of kernels, compared with NumPy in float64.

On the reference evaluator; after every tile pass, for each machine, bit for bit; on the simulator,
as lanes of a GPU and as the one thread that runs a workgroup on a CPU.
"""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from kernel_list import (
    CASES,
    EVERY_CASE,
    FULL,
    NOT_LOWERED,
    OTHER_CHIPS,
    REFUSED_BY_PASSES,
    SCHEDULES,
    TARGETS,
    refusal,
    runs,
)
from compiler_steps import after_each_pass, copied, evaluated, tile_passes
from wave_lang import CompileError


@runs(2, "case", "sizes")
def test_evaluator(case, sizes):
    arguments = case.arguments(sizes)
    after = copied(arguments)
    case.compile(sizes)(*(array for _, array in after))
    case.check(sizes, arguments, after)


def check_passes(case, sizes, target):
    """The kernel computes the same after each tile pass, bit for bit; its final masks are right. It is
    evaluated after every second pass that changes it, first or second by turns, and after the last; in
    `make test-full`, after all."""
    arguments = case.arguments(sizes)
    text = case.text(sizes)
    first = evaluated(text, arguments)
    case.check(sizes, arguments, first)
    last, changes = None, CASES.index(case)
    for name, now in after_each_pass(text, target):
        last, changed = (name, now), now != text
        text, changes = now, changes + changed
        if changed and (FULL or changes % 2):
            same_results(first, evaluated(now, arguments, check_masks=False), name)
    same_results(first, evaluated(last[1], arguments), last[0])


def same_results(first, results, name):
    """Bit for bit, until `exchange` computes sums in parts: then floats may be rounded
    differently."""
    names = tile_passes()
    exact = name in names[: names.index("exchange")]
    for (_, expected), (_, result) in zip(first, results):
        if expected.tobytes() == result.tobytes():
            continue
        assert not exact and expected.dtype.kind == "f", f"`{name}` changes the result"
        np.testing.assert_allclose(result, expected, rtol=2e-6, err_msg=f"after `{name}`")


def expect(table, case, sizes, target, check):
    """`check` passes, or fails with the diagnostic of the table."""
    code = refusal(table, case, sizes, target)
    if code is None:
        check()
        return
    with pytest.raises(CompileError) as refused:
        check()
    errors = [d.code for d in refused.value.diagnostics if d.severity == "error"]
    assert errors[0] == code, str(refused.value)


@runs(1, "case", "sizes", "target")
def test_passes(case, sizes, target):
    expect(REFUSED_BY_PASSES, case, sizes, target, lambda: check_passes(case, sizes, target))


def check_simulated(case, sizes, target, schedules):
    """What lanes compute is right, and does not depend on the order of waves."""
    arguments, first = case.arguments(sizes), None
    kernel = case.compile(sizes, f"sim:{target}")
    for schedule in schedules:
        after = copied(arguments)
        kernel.simulate(*(array for _, array in after), schedule=schedule)
        case.check(sizes, arguments, after)
        first = first or after
        same_results(first, after, f"schedule {schedule}")


@runs(1, "case", "sizes", "target", "schedule", shift=1)
def test_simulator(case, sizes, target, schedule):
    check = lambda: check_simulated(case, sizes, target, [schedule])
    expect(NOT_LOWERED, case, sizes, target, check)


@runs(1, "case", "sizes", "target", shift=2, full=False)
def test_schedules(case, sizes, target):
    """No false alarm under any schedule."""
    check = lambda: check_simulated(case, sizes, target, SCHEDULES)
    expect(NOT_LOWERED, case, sizes, target, check)


@pytest.mark.parametrize("target", OTHER_CHIPS)
@pytest.mark.parametrize("place", range(len(CASES)), ids=lambda place: CASES[place].name)
def test_other_chips(place, target):
    case = CASES[place]
    sizes = case.shapes[(place + OTHER_CHIPS.index(target)) % len(case.shapes)]
    check_simulated(case, sizes, target, ["random"])


def test_every_chip_has_its_turn():
    """One of each generation of AMD's chips stands for the others, whose rows are equal."""
    tables = Path(__file__).parents[3] / "src/target"
    text = (tables / "targets.def").read_text()
    rows = re.findall(r"^TARGET\((\w+),\s*\w+,\s*\d+,\s*(\d+)", text, re.MULTILINE)
    names = {name for name, lanes in rows if int(lanes) > 1}
    names |= set(re.findall(r"^RDNA\d\((\w+),", text, re.MULTILINE))
    chips = re.findall(r"^CHIP\((\w+),\s*(\w+),", (tables / "chips.def").read_text(), re.MULTILINE)
    assert names == {*TARGETS, *OTHER_CHIPS, *(chip for chip, like in chips if chip != like)}


@runs(2, "case", "sizes", shift=3)
def test_one_thread(case, sizes):
    """The same kernels as loops over tiles: the program for a CPU, with every check."""
    check_simulated(case, sizes, "cpu", SCHEDULES[:1])


# ---- the list itself -----------------------------------------------------------------------------


def test_names_are_unique_and_tables_name_cases():
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    for row in NOT_LOWERED:
        places = ((c, s, t) for c in EVERY_CASE for s in c.shapes for t in TARGETS)
        assert any(refusal([row], *place) for place in places), f"{row} names nothing"


def test_sizes_go_around_the_tiles():
    case = next(c for c in CASES if c.name == "gemm_nt_f16_16x16x16_t32x32x16_shared")
    sizes = {tuple(s.values()) for s in case.shapes}
    assert {(1, 1, 1), (31, 31, 15), (33, 33, 17)} <= sizes and len(sizes) == 15
    assert {(67, 33, 17), (33, 33, 35), (33, 32, 17), (1, 33, 17)} <= sizes


@pytest.mark.parametrize("fault", ["element", "unwritten", "input"])
def test_a_wrong_result_is_noticed(fault):
    case = CASES[0]
    sizes = case.shapes[2]
    before = case.arguments(sizes)
    after = copied(before)
    after[1][1][...] = after[0][1]
    case.check(sizes, before, after)
    if fault == "input":
        after[0][1][0, 0] += 1
    else:
        after[1][1][-1, -1] = np.nan if fault == "unwritten" else after[1][1][-1, -1] * 1.01
    with pytest.raises(AssertionError):
        case.check(sizes, before, after)


def test_tolerances_are_tight():
    """A matmul that leaves out one step of K is not accepted."""
    case = next(c for c in CASES if c.name == "gemm_nt_bf16_16x16x16_t16x16x16_shared")
    short = dataclasses.replace(
        case, reference=lambda a, b, **s: case.reference(a[:, :-1], b[:, :-1], **s)
    )
    sizes = case.shapes[-1]
    arguments = case.arguments(sizes)
    after = copied(arguments)
    case.compile(sizes)(*(array for _, array in after))
    with pytest.raises(AssertionError):
        short.check(sizes, arguments, after)
