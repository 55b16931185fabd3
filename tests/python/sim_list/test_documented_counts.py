"""Numbers of kernels that documents give: those of the list."""

import re
from pathlib import Path

from kernel_list import CASES, NOT_LOWERED, TARGETS, refusal
from same_bits import why_bits_may_differ

DOCS = Path(__file__).resolve().parents[3] / "docs"


def numbers(document, pattern):
    found = re.search(pattern, " ".join((DOCS / document).read_text().split()))
    assert found, f"docs/{document} does not say {pattern}"
    return [int(n) for n in found.groups()]


def test_programs_with_proofs():
    """test_loop_proofs.py takes all of them with TEST_FULL=1."""
    programs = sum(
        not refusal(NOT_LOWERED, case, case.shapes[min(2, len(case.shapes) - 1)], target) for case in CASES for target in TARGETS
    )
    assert numbers("testing.md", r"toy8 \(\S+, (\d+) programs\)") == [programs]


def test_kernels_with_the_same_bits():
    same = [not why_bits_may_differ(case.lanes(case.shapes[place % len(case.shapes)], "gfx942")) for place, case in enumerate(CASES)]
    assert numbers("numerics.md", r"on gfx942, (\d+) of (\d+) must be equal") == [sum(same), len(CASES)]
