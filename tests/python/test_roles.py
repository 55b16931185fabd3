"""Roles: waves that copy, and waves that compute, with barriers for full and empty slots.

Results are those of the kernel without roles, bit for bit and without a finding, for any number of
iterations and in any order of waves. Both judges notice a wait, an arrival or a count that is wrong.
"""

import os
import re

import numpy as np
import pytest

import role_forms
import role_kernels as kernels
from role_kernels import without_roles
from wave_lang import SimulationError, WaveCompileOptions, _wave, wave_compile

ORDERED = re.compile(r"^  all \d+ conflicting pairs of accesses are ordered$", re.M)
ORDERS = ("round", "last", "reverse", "first", "random:7")
TRIPS = (0, 1, 2, 3, 4, 5, 6, 9)
DTYPES = {"f16": "f2", "f32": "f4"}


def bound(text, sizes):
    """With rings that a few iterations fill again."""
    return kernels.bound(text, sizes).replace("\n{\n", "\n  stages 4\n{\n", 1)


def orders_of(trips):
    """Half of the orders, in turn; in `make test-full` all."""
    return ORDERS if os.environ.get("TEST_FULL") else ORDERS[trips % 2 :: 2]


def parsed(text):
    (kernel,) = _wave.parse(text, "roles.wave")
    return kernel


def lowered(text, target="sm_90a"):
    kernel = parsed(text)
    kernel.run_passes(target=target)
    return str(kernel)


def synced(text):
    kernel = parsed(text)
    kernel.run_passes(target="sm_90a", stop_after="sync")
    return str(kernel)


def arguments(text, sizes):
    """An array for each parameter, with numbers that differ."""
    rng = np.random.default_rng(3)
    head = text[: text.index("\n{\n")]
    for dims, dtype in re.findall(r"mem<([\w, ]+), (f16|f32)(?:, shared)?>", head):
        shape = [sizes[dim.strip()] for dim in dims.split(",")]
        yield rng.uniform(-1, 1, shape).astype(DTYPES[dtype])


def simulated(text, args, order="round"):
    args = [array.copy() for array in args]
    parsed(text).sim(tuple(args), "sim:sm_90a", order)
    return args[-1]


def gemm(trips):
    """Two workgroups: a whole tile and a ragged one along M or, if `trips` is odd, along N."""
    return kernels.GEMM, {"K": 32 * trips, **({"M": 120, "N": 72} if trips % 2 else {"M": 136, "N": 64})}


def attention(trips):
    return kernels.ATTENTION, {"B": 1, "M": 130, "K1": 64, "N": 64, "K2": 32 * trips}


def two_loops(trips):
    return kernels.TWO_LOOPS, {"M": 128, "N": 64, "K": 32 * trips, "L": 64 * ((trips + 2) % 4)}


def fetched(trips):
    return kernels.FETCHED, {"M": 64, "N": 64, "K": 32 * trips}


def row_sums(trips):
    return kernels.ROW_SUMS, {"M": 70, "K": 32 * trips - 4 * (trips > 1)}


def normalised(trips):
    return kernels.NORMALISED, {"M": 70, "N": 128, "K": 64 * trips}


def three_rings(trips):
    """Two workgroups: of two batches, or of which one is ragged."""
    return kernels.THREE_RINGS, {"M": 192, "K": 32 * trips, **({"B": 2, "N": 48} if trips % 2 else {"B": 1, "N": 50})}


ALL = (gemm, attention, two_loops, fetched, row_sums, normalised, three_rings)
TIGHT = ALL[:-1]  # of rings of different lengths, the shortest one orders the copies of all


@pytest.mark.parametrize("case", ALL)
def test_results_are_those_without_roles(case):
    obeyed = 0
    for trips in TRIPS:
        text, sizes = case(trips)
        if not all(sizes.values()) and case is attention:
            continue  # 0/0
        text = bound(text, sizes)
        args = list(arguments(text, sizes))
        expected = simulated(lowered(without_roles(text)), args)
        program = lowered(text)
        obeyed += "mbar_wait %empty" in program
        for order in orders_of(trips):
            got = simulated(program, args, order)
            assert np.array_equal(got.view("u1"), expected.view("u1")), (sizes, order)
    assert obeyed >= len(TRIPS) - 2  # a loop that runs once copies nothing ahead


@pytest.mark.parametrize("case", ALL)
def test_loops_are_proved(case):
    text = synced(bound(*case(6)))
    assert 'role = "' in text
    assert len(ORDERED.findall(parsed(text).proof().text)) == text.count("= for ")
    for _, body in re.findall(r"^( +)%.* = for .*\n((?:.*\n)*?)\1\}$", text, re.M):
        assert "role = " not in body or "barrier workgroup" not in body


def without(text, pattern):
    """(line, text without it) for each line that has the pattern."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if re.search(pattern, line):
            yield line.strip(), "\n".join(lines[:i] + lines[i + 1 :])


def is_of_last_iteration(line, text):
    """Whether it follows a loop whose last iteration runs apart. Slots that are released then are not filled again."""
    before = text[: text.index(line)]
    return before.rfind("yield") > before.rfind("= for ")


def recounted(text):
    for count in re.findall(r"mbar_init %empty\S* \{count = (\d+)\}", text):
        for wrong in (int(count) - 1, int(count) + 1):
            yield f"{wrong} arrivals", re.sub(
                r"(mbar_init %empty.*count = )\d+", rf"\g<1>{wrong}", text
            )


def faults(text):
    yield from without(text, "mbar_wait|mbar_arrive %empty")
    yield from recounted(text)
    for old in set(re.findall(r"Mod\(floor\(\$ARG\w+/\d+\) \+ 1, 2\)", text)):
        yield f"not {old}", text.replace(old, old.replace(" + 1", ""))


@pytest.mark.parametrize("case", TIGHT)
def test_proof_notices_faults(case):
    text = synced(bound(*case(6)))
    loops = text.count("= for ")
    found = list(faults(text))
    assert len(found) >= 6
    for what, fault in found:
        assert len(ORDERED.findall(parsed(fault).proof().text)) < loops, what


@pytest.mark.parametrize("case", TIGHT)
def test_simulator_notices_faults(case):
    text, sizes = case(6)
    text = bound(text, sizes)
    args = list(arguments(text, sizes))
    program = lowered(text)
    for what, fault in faults(program):
        if "mbar_arrive" in what and is_of_last_iteration(what, program):
            continue
        with pytest.raises(SimulationError):
            for order in ORDERS:
                simulated(fault, args, order)
            pytest.fail(what)


@pytest.mark.parametrize("target", ["sm_80", "gfx942", "gfx950", "gfx1250"])
def test_other_machines_say_so_once(target):
    text, sizes = gemm(4)
    text = bound(text.replace("roles K", "roles K"), sizes)
    kernel = parsed(text)
    kernel.run_passes(target=target)
    program = str(kernel)
    assert "mbar_" not in program
    args = list(arguments(text, sizes))
    got = [array.copy() for array in args]
    parsed(program).sim(tuple(got), f"sim:{target}", "round")
    expected = [array.copy() for array in args]
    parsed(lowered(without_roles(text), target)).sim(tuple(expected), f"sim:{target}", "round")
    assert np.array_equal(got[-1], expected[-1])


@pytest.mark.parametrize("make, arguments_of", role_forms.FORMS)
def test_files_of_users(make, arguments_of, tmp_path):
    """Rows in a file that options name: rings of their own, and copies that stay where they were."""
    for text in role_forms.ROWS:
        path = tmp_path / "roles.schedule"
        path.write_text(text)
        for m, n, k in ((130, 66, 200), (128, 64, 32), (5, 3, 0)):
            args, sizes, want = arguments_of(np.random.default_rng(k), m, n, k)
            options = WaveCompileOptions(subs=sizes, target="sim:sm_90a", override_schedule=str(path))
            compiled = wave_compile(options, make())
            compiled(*args)
            np.testing.assert_array_equal(args[-1], want, err_msg=text)


@pytest.mark.parametrize("text", role_forms.ROWS)
def test_few_iterations_are_proved(text, tmp_path):
    """In a loop of two iterations a wait may always be for the last one."""
    path = tmp_path / "roles.schedule"
    path.write_text(text)
    for make, arguments_of in role_forms.FORMS:
        for k in (40, 64):
            args, sizes, want = arguments_of(np.random.default_rng(k), 70, 40, k)
            options = {"target": "sim:sm_90a", "override_schedule": str(path)}
            wave_compile(WaveCompileOptions(subs=sizes, **options), make())(*args)
            np.testing.assert_array_equal(args[-1], want)
