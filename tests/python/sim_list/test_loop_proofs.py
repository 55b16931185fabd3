"""Waits and barriers of loops: `Kernel.proof` finds all accesses in order, and says what is not in
order without any one of them.

`sync` leaves no barrier that is not needed, so none can be removed, and no wait made weaker, without
a finding. What the simulator would report is in test_seeded_faults.py; this proof holds for any
number of iterations.
"""

import re

import pytest

from compiler_steps import kernel
from kernel_list import CASES, FULL, NOT_LOWERED, TARGETS, refusal

ORDERED = re.compile(r"^  all \d+ conflicting pairs of accesses are ordered$")
WAIT = re.compile(r"async_wait (\d+)|pending = (\d+)")


def loops(text):
    """What the proof says of each loop."""
    found = []
    for line in kernel(text).proof().text.splitlines():
        if line.startswith("loop "):
            found.append([])
        elif found and line.startswith("  "):
            found[-1].append(line)
    return found


def before_loops(lines):
    """For each line: whether it is outside all regions, and a loop outside all regions follows."""
    follows, depth, found = False, 0, []
    for line in reversed(lines):
        words = line.split()
        depth += (words == ["}"]) - line.endswith("{")
        follows |= depth == 1 and line.endswith("{") and ("for" in words or "while" in words)
        found.append(follows and depth == 1 and not line.endswith("{"))
    return found[::-1]


def weakened(text):
    """(what, text) of each barrier or wait in a loop, or before one, that is removed or weaker by one."""
    lines, inside = text.split("\n"), []
    before = before_loops(lines)
    for i, line in enumerate(lines):
        words = line.split()
        if line.endswith("{"):
            inside.append("for" in words or "while" in words)
        elif words == ["}"] and inside:
            inside.pop()
        if not before[i] and (not inside or not inside[-1]):
            continue
        if words[0] in ("barrier", "mbar_wait", "async_wait"):
            yield f"without {line.strip()}", "\n".join(lines[:i] + lines[i + 1 :])
        wait = WAIT.search(line)
        if wait:
            more = wait[0].replace(wait[1] or wait[2], str(int(wait[1] or wait[2]) + 1))
            yield f"with {more}", "\n".join([*lines[:i], line.replace(wait[0], more), *lines[i + 1 :]])


def places():
    for turn, case in enumerate(CASES):
        sizes = case.shapes[min(2, len(case.shapes) - 1)]
        for target in TARGETS if FULL else [TARGETS[turn % len(TARGETS)]]:
            if not refusal(NOT_LOWERED, case, sizes, target):
                yield pytest.param(case, sizes, target, id=f"{case.name}-{target}")


@pytest.mark.parametrize("case, sizes, target", list(places()))
def test_loops_are_ordered(case, sizes, target):
    staged = kernel(case.text(sizes))
    staged.run_passes(target=target, stop_after="sync")
    text = str(staged)
    for found in loops(text):
        assert len(found) == 1 and ORDERED.match(found[0]), "\n".join(found)
    for what, fault in weakened(text):
        assert any(not ORDERED.match(line) for found in loops(fault) for line in found), what


def test_compiled_kernels_have_proofs():
    case = next(case for case in CASES if case.name.startswith("gemm_nt_f16") and case.name.endswith("_shared"))
    compiled = case.compile(case.shapes[-1], "sim:sm_80")
    assert "loop " not in compiled.proof().text
    found = compiled.proof(after="sync").text.splitlines()
    assert any(ORDERED.match(line) for line in found)
