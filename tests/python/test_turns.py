"""Turns: groups of waves execute ops one after another, and everything else at the same time.

Results are those of the kernel without turns, bit for bit and without a finding, for any number of
iterations and in any order of waves. Both judges notice a turn that is not opened, taken, passed or
closed.
"""

import re

import numpy as np
import pytest

import role_forms
import test_roles
import turn_kernels as kernels
from role_kernels import bound
from test_roles import ORDERED, ORDERS, arguments, orders_of, parsed, without
from turn_kernels import without_turns
from wave_lang import WaveCompileOptions, wave_compile

TRIPS = (0, 1, 2, 3, 4, 5)


def gemm(trips):
    return kernels.GEMM, test_roles.gemm(trips)[1]


def attention(trips):
    return kernels.ATTENTION, {"B": 1, "M": 130, "K1": 64, "N": 64, "K2": 32 * trips}


def two_loops(trips):
    return kernels.TWO_LOOPS, {"M": 128, "N": 64, "K": 32 * trips, "L": 64 * ((trips + 2) % 4)}


def three_groups(trips):
    return kernels.THREE_GROUPS, test_roles.three_rings(trips)[1]


def normalised(trips):
    return kernels.NORMALISED, {"M": 70, "N": 128, "K": 64 * trips}


def all_copy(trips):
    sizes = {"M": 100, "N": 70} if trips % 2 else {"M": 129, "N": 64}
    return kernels.ALL_COPY, {**sizes, "K": 32 * trips - 8 * (trips > 2)}


def all_copy_attention(trips):
    return kernels.ALL_COPY_ATTENTION, attention(trips)[1]


def nested(trips):
    return kernels.NESTED, {"M": 128, "N": 60, "T": (trips + 1) % 4, "K": 32 * trips}


def fetched(trips):
    return kernels.FETCHED, {"M": 70, "N": 64, "K": 32 * trips - 2 * (trips > 1)}


def smoothed(trips):
    return kernels.STENCIL, {"M": 70, "K": 32 * trips - 4 * (trips > 1)}


HOPPER = (gemm, attention, two_loops, three_groups, normalised, all_copy, all_copy_attention, nested)
CASES = [(case, "sm_90a") for case in HOPPER]
CASES += [(fetched, "sm_80"), (fetched, "gfx1250")]
CASES += [(smoothed, target) for target in ("sm_80", "sm_90a", "gfx1250")]


def lowered(text, target):
    kernel = parsed(text)
    kernel.run_passes(target=target)
    return str(kernel)


def with_turns(text, target):
    kernel = parsed(text)
    kernel.run_passes(target=target, stop_after="turns")
    return str(kernel)


def simulated(program, args, target, order="round"):
    args = [array.copy() for array in args]
    parsed(program).sim(tuple(args), f"sim:{target}", order)
    return args[-1]


def dynamic(text):
    """Sizes of what is divided are those of the tensors when the kernel is called."""
    names = sorted(set(re.findall(r"(?:workgroup|tile) (\w+) by", text)))
    text = re.sub(rf"  bind (?:{'|'.join(names)}) = .*\n", "", text)
    return text.replace("\n{\n", f"\n  dynamic {', '.join(names)}\n{{\n", 1)


def has_quotients(case, sizes):
    """Without an iteration attention divides 0 by 0."""
    return case in (attention, all_copy_attention) and not all(sizes.values())


def check_results(text, sizes, target, known, orders):
    """The program with turns, whose results are those without."""
    text = bound(text, sizes)
    args = list(arguments(text, sizes))
    text = text if known else dynamic(text)
    expected = simulated(lowered(without_turns(text), target), args, target)
    program = lowered(text, target)
    for order in orders:
        got = simulated(program, args, target, order)
        assert np.array_equal(got.view("u1"), expected.view("u1")), (sizes, order)
    return program


def check_proved(text):
    modes = re.findall(r"\bturn (\w+) \{", text)
    assert modes.count("take") == modes.count("pass") >= 1
    assert modes.count("open") == modes.count("close") >= 1
    proof = parsed(text).proof().text
    assert "waits for" not in proof and ORDERED.search(proof)


@pytest.mark.parametrize("case, target", CASES)
@pytest.mark.parametrize("known", [True, False])
def test_results_are_those_without_turns(case, target, known):
    for trips in TRIPS:
        text, sizes = case(trips)
        if has_quotients(case, sizes):
            continue
        program = check_results(text, sizes, target, known, orders_of(trips + known))
        assert known or "barrier named" in program


@pytest.mark.parametrize("case, target", CASES)
def test_turns_are_proved(case, target):
    check_proved(with_turns(bound(*case(6)), target))


def faults(text, but=""):
    """Programs of which one turn is missing, too many or in the wrong place. `but`: a pattern of
    modes that are left alone."""
    yield from without(text, rf"^ +turn {but}")
    for line in re.findall(rf"^ +turn {but}.*\n", text, re.M):
        yield f"twice {line.strip()}", text.replace(line, line + line, 1)
    yield "passed first", re.sub(
        r"turn (take|pass)", lambda m: f"turn {'pass' if m[1] == 'take' else 'take'}", text
    )


def check_noticed(found):
    assert len(found) >= 9
    for what, fault in found:
        assert "waits for" in parsed(fault).proof().text, what


@pytest.mark.parametrize("case, target", CASES)
def test_proof_notices_faults(case, target):
    text = with_turns(bound(*case(6)), target)
    check_noticed(list(faults(text)))


def barrier_faults(program):
    yield from without(program, r"barrier named .*member")
    yield from without(program, r"barrier named \{bar = \d+, count = \d+, arrive\}")


@pytest.mark.parametrize("case, target", CASES)
def test_simulator_notices_faults(case, target):
    text, sizes = case(5)
    text = bound(text, sizes)
    args = list(arguments(text, sizes))
    found = list(barrier_faults(lowered(text, target)))
    assert len(found) >= 3
    for what, fault in found:
        with pytest.raises(Exception, match="E08"):
            for order in ORDERS:
                simulated(fault, args, target, order)
            pytest.fail(what)


def test_barrier_inside_a_turn_waits_for_itself():
    text = with_turns(bound(*all_copy(6)), "sm_90a")
    line = re.search(r"^ +turn pass .*\n", text, re.M)[0]
    fault = text.replace(line, "    barrier workgroup\n" + line)
    assert "waits for itself" in parsed(fault).proof().text


@pytest.mark.parametrize("make, arguments_of", role_forms.FORMS)
def test_files_of_users(make, arguments_of, tmp_path):
    """Rows in a file, and in the file that the compiler then writes."""
    path, again = tmp_path / "turns.schedule", tmp_path / "again.schedule"
    path.write_text("turns K 2 mma\nroles K load 4, math 8\n")
    args, sizes, want = arguments_of(np.random.default_rng(3), 130, 66, 200)
    for file in (path, again):
        options = WaveCompileOptions(subs=sizes, target="sim:sm_90a", override_schedule=str(file))
        if file is path:
            options.dump_schedule = str(again)
        compiled = wave_compile(options, make())
        got = [array.copy() for array in args]
        compiled(*got)
        np.testing.assert_array_equal(got[-1], want)
    assert "turns K 2 mma on sm_90a" in again.read_text()
