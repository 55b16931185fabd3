"""Roles of loops inside others: slots and phases continue from one run of a loop to the next.

Results are those without rows, bit for bit and without a finding, for any number of runs and
iterations, known or not, and in any order of waves. Both judges notice a wait, an arrival or a count
that is wrong, and slots that are counted from the start in each run.
"""

import random
import re

import numpy as np
import pytest

import nested_kernels as kernels
from nested_kernels import bound, without_rows
from test_roles import ORDERED, ORDERS, arguments, lowered, parsed, recounted, simulated, synced
from test_roles import orders_of, without
from test_turns import dynamic
from wave_lang import CompileError, SimulationError

RUNS_AND_TRIPS = [(0, 3), (1, 0), (1, 1), (1, 5), (2, 7), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4)]


def persistent(runs, trips):
    """Two workgroups, of which one is ragged, or one that is."""
    return kernels.PERSISTENT, {"M": 136 if trips % 2 else 120, "N": 64 * runs - 8 * (runs > 1), "K": 32 * trips}


def carried(runs, trips):
    return kernels.CARRIED, {"M": 128, "N": 60, "T": runs, "K": 32 * trips}


def heads(runs, trips):
    return kernels.HEADS, {"B": runs, "M": 128, "K1": 64, "N": 64, "K2": 32 * trips}


def exchanged(runs, trips):
    return kernels.EXCHANGED, {"M": 64, "N": 128, "T": runs, "K": 64 * trips - 8 * (trips > 2)}


def deep(runs, trips):
    sizes = {"T": runs, "M": 64, "N": 64 * ((runs + trips) % 3), "K": 32 * trips}
    return kernels.DEEP, {**sizes, "L": 32 * ((trips + 2) % 8)}


def growing(runs, trips):
    return kernels.GROWING, {**persistent(runs, trips)[1], "K": 32 * trips + 8}


def early(runs, trips):
    return kernels.EARLY, {"M": 64, "N": 64 * runs, "K": 32 * trips}


def lengths(runs, trips):
    return kernels.LENGTHS, persistent(runs, trips)[1]


ALL = (persistent, carried, heads, exchanged, deep, growing, early, lengths)
TIGHT = ALL[:-2]  # where there are several rings in a loop, one may order the copies of all


def is_defined(case, sizes):
    """Attention without keys divides 0 by 0."""
    return case is not heads or sizes["K2"]


def aligned(text):
    """Rows of tensors are multiples of 16 bytes, so that the copy engine can read them."""
    lengths = [name for name in ("K", "K2", "L") if re.search(rf"tile {name} by", text)]
    rows = "".join(f"  assume Eq(Mod({name}, 8), 0)\n" for name in lengths)
    return text.replace("\n{\n", f"\n{rows}{{\n", 1)


@pytest.mark.parametrize("case", ALL)
@pytest.mark.parametrize("known", [True, False])
def test_results_are_those_without_rows(case, known):
    obeyed = 0
    for runs, trips in RUNS_AND_TRIPS:
        text, sizes = case(runs, trips)
        if not is_defined(case, sizes):
            continue
        text = bound(text, sizes)
        args = list(arguments(text, sizes))
        text = text if known else aligned(dynamic(text))
        expected = simulated(lowered(without_rows(text)), args)
        program = lowered(text)
        obeyed += "mbar_wait %empty" in program
        for order in orders_of(trips + known) if runs > 1 else ORDERS[:1]:
            got = simulated(program, args, order)
            assert np.array_equal(got.view("u1"), expected.view("u1")), (sizes, order)
    assert obeyed >= 4  # a loop that is known to run once copies nothing ahead


def served(text):
    """The names of loops for which service waves copy."""
    return re.findall(r"iteration = \{(\S+): [^}]*\}, role = ", text)


def proved(text):
    """Those that are proved."""
    loops = re.findall(r"^loop (\S+) .*\n  (.*)$", parsed(text).proof().text, re.M)
    return [name for name, said in loops if name in served(text) and ORDERED.match(f"  {said}")]


@pytest.mark.parametrize("case", ALL)
def test_loops_are_proved(case):
    text = synced(bound(*case(3, 5)))
    assert 'role = "' in text
    names = "|".join(re.escape(name) for name in set(served(text)))
    assert len(proved(text)) == len(re.findall(rf"(?:= | )for (?:{names}) ", text))


def faults(text):
    yield from without(text, "mbar_wait|mbar_arrive %empty")
    yield from recounted(text)


@pytest.mark.parametrize("case", TIGHT)
def test_proof_notices_faults(case):
    text = synced(bound(*case(3, 5)))
    found = list(faults(text))
    assert len(found) >= 5
    for what, fault in found:
        assert len(proved(fault)) < len(proved(text)), what


def slack(case):
    """Runs and iterations in which every wait matters: a queue of two tiles for each head is filled again while the
    rings of the loop inside still have room."""
    return (5, 1) if case is heads else (2, 5)


@pytest.mark.parametrize("case", TIGHT)
def test_simulator_notices_faults(case):
    text, sizes = case(*slack(case))
    text = bound(text, sizes)
    args = list(arguments(text, sizes))
    for what, fault in faults(lowered(text)):
        with pytest.raises(SimulationError):
            for order in ORDERS:
                simulated(fault, args, order)
            pytest.fail(what)


def test_slots_of_each_run_are_noticed():
    """Slots and phases as if each run were the first: with 7 iterations and 4 slots, they are others."""
    text, sizes = persistent(3, 7)
    text = bound(text, sizes)
    args = list(arguments(text, sizes))
    faults = [made.replace("7*$ARGN", "0*$ARGN") for made in (synced(text), lowered(text))]
    assert "0*$ARGN" in faults[0] and "0*$ARGN" in faults[1]
    assert proved(synced(text)) and not proved(faults[0])
    with pytest.raises(SimulationError):
        simulated(faults[1], args)


def drawn(r, text):
    """Rows that no test names: rings, copies of the waves that compute, stages, turns, steps."""
    loop = "K2" if "tile K2" in text else "K"
    inner = text[text.index(f"for {loop} ") :].split("yield")[0]
    reads = re.findall(r"%(\w+) = read %\w", inner)
    rows = [f"ring {loop} {x} slots {r.randint(2, 6)}" for x in reads[:2] if r.random() < 0.5]
    rows += [f"in {loop} math {r.choice(reads)}.copy"] * (r.random() < 0.3)
    rows += [f"schedule {loop} depth {r.randint(2, 5)} drain peeled"] * (r.random() < 0.3)
    rows += [f"turns {loop} 2 mma"] * ("turns" not in text and "math 8" in text and r.random() < 0.3)
    step = r.choice((1, 1, 2, 3))
    text = re.sub(r"for (N|T|B)\b( carry| \{)", rf"for \1 with {{step = {step}}}\2", text)
    return text.replace("\n{\n", "\n" + "".join(f"  {row}\n" for row in rows) + "{\n", 1)


@pytest.mark.parametrize("seed", range(24))
def test_drawn_rows(seed):
    r = random.Random(seed)
    case = r.choice(TIGHT)
    text, sizes = case(r.randint(1, 4), r.randint(1, 9))
    text = bound(drawn(r, text), sizes)
    args = list(arguments(text, sizes))
    text = text if r.random() < 0.5 else aligned(dynamic(text))
    plain = "".join(x + "\n" for x in without_rows(text).splitlines() if not x.startswith("  in "))
    expected = simulated(lowered(plain), args)
    try:
        program = lowered(text)
    except CompileError as error:
        assert "E0620" in str(error)  # rows that contradict each other, or need too many slots
        return
    for order in (r.choice(ORDERS), f"random:{seed}"):
        got = simulated(program, args, order)
        assert np.array_equal(got.view("u1"), expected.view("u1")), (text, order)
