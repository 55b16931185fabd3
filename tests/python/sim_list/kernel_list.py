"""The kernels that must give the right result, the machines they run on, and what does not work
yet.

`make test` runs a sample: a few sizes of each kernel, rotated over the kernels of a family so that
every position in the list of sizes and every machine is covered. `make test-full` (TEST_FULL=1)
runs all combinations.
"""

import itertools
import os
from fnmatch import fnmatch

import pytest

import cases_atomics
import cases_attention
import cases_edges
import cases_flow
import cases_gemm
import cases_inline
import cases_launch
import cases_open
import cases_rows

FULL = bool(os.environ.get("TEST_FULL"))
TARGETS = ("gfx942", "sm_80", "sm_90a", "toy8")
# These differ only in data: one size each.
OTHER_CHIPS = ("gfx90a", "gfx950", "gfx1100", "gfx1201", "gfx1250", "sm_86", "sm_89")
SCHEDULES = ("round", "reverse", "random")
EVERY_CASE = [
    *cases_rows.CASES,
    *cases_edges.CASES,
    *cases_flow.CASES,
    *cases_atomics.CASES,
    *cases_gemm.CASES,
    *cases_inline.CASES,
    *cases_attention.CASES,
    *cases_launch.CASES,
    *cases_open.CASES,
]
CASES = [case for case in EVERY_CASE if FULL or not case.full]

# What does not work: patterns of case and target, the diagnostic's code, the reason, and the
# affected sizes, if not all. A row fails the test if the case it names passes.
TOO_SMALL = "the tiles are larger than the machine's shared memory"
REFUSED_BY_PASSES = [
    ("gemm_nt_f16_16x16x16_t64x128x64_shared", "toy8", "E0613", TOO_SMALL),
    ("gemm_tn_f16_16x16x16_t96x80x48_shared", "toy8", "E0613", TOO_SMALL),
    ("gemm_nn_f16_16x16x16_t64x112x48_shared", "toy8", "E0613", TOO_SMALL),
    ("gemm_tn_bf16_16x16x16_t64x112x64_shared", "toy8", "E0613", TOO_SMALL),
    ("gemm_tn_f16_16x16x16_t64x128x64_shared", "toy8", "E0613", TOO_SMALL),
    ("gemm_nn_f16_16x16x16_t64x128x64_shared_dynamic", "toy8", "E0613", TOO_SMALL),
    ("gemm_nn_f16_wgmma_n32_t64x192x32_shared", "toy8", "E0613", TOO_SMALL),
    ("gemm_tn_bf16_wgmma_n24_t64x96x48_shared_dynamic", "toy8", "E0613", TOO_SMALL),
    ("gemm_nn_f16_16x16x16_t128x160x32_shared", "toy8", "E0613", TOO_SMALL),
    ("attention_causal_16x16x16_t64x48x32x64_shared", "toy8", "E0613", TOO_SMALL, "*x67x65"),
    ("attention_boundary_16x16x16_t64x96x32x64_shared_dynamic", "toy8", "E0613", TOO_SMALL),
]
NOT_LOWERED = [*REFUSED_BY_PASSES]


def refusal(table, case, sizes, target):
    """The code that a table expects of a case on a target, or None."""
    for name, machine, code, _, *only in table:
        if fnmatch(case.name, name) and fnmatch(target, machine):
            if any(fnmatch(case.label(sizes), pattern) for pattern in only or "*"):
                return code
    return None


def family(case):
    return case.name.split("_")[0]


def sampled(per_case, shift=0, full=FULL):
    """(case, sizes, target, schedule), `per_case` of each kernel; all of them in `make
    test-full`."""
    seen = {}
    for case in CASES:
        place = seen[family(case)] = seen.get(family(case), -1) + 1
        if full:
            for sizes, target in itertools.product(case.shapes, TARGETS):
                yield case, sizes, target, SCHEDULES[(place + len(target)) % 3]
            continue
        for i in range(per_case):
            turn = place * per_case + i + shift
            target = case.machine or TARGETS[turn % 4]
            yield case, case.shapes[turn % len(case.shapes)], target, SCHEDULES[turn % 3]


def runs(per_case, *parts, shift=0, full=FULL):
    """Parameters for pytest: "case", "sizes", and further `parts` of the rows of `sampled`."""
    made = {}
    for case, sizes, target, schedule in sampled(per_case, shift, full):
        run = {"case": case, "sizes": sizes, "target": target, "schedule": schedule}
        words = [case.name, case.label(sizes), *(run[p] for p in parts[2:])]
        made["-".join(words)] = [run[p] for p in parts]
    values = [pytest.param(*v, id=name) for name, v in made.items()]
    return pytest.mark.parametrize(",".join(parts), values)
