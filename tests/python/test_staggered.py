"""Barriers written so that some waves of a workgroup run one barrier behind the others.

tests/ir/turns/public.wave is the public package's two-cluster ping-pong. The proof and the
simulator agree on it, on all variants of its four barriers, and on other waits and conditions.
"""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from test_roles import ORDERED, ORDERS, arguments, parsed
from test_turns import simulated

TEXT = (Path(__file__).parents[1] / "ir/turns/public.wave").read_text()
TEXT = TEXT.replace("bind K = 320", "bind K = 192").replace("$ARGK < 4", "$ARGK < 2")
SIZES = {"M": 64, "N": 64, "K": 192}
ARGS = list(arguments(TEXT, SIZES))
BARE, WAITING = "workgroup_barrier", "shared_barrier"
DRAINED = "counter_wait {counters = {ds: 0}}\n    workgroup_barrier"
COUNTED = "counter_barrier {counters = {ds: 0}}"
HALF_DRAINED = "counter_wait {counters = {ds: 4}}\n    workgroup_barrier"
OPEN, CLOSE = "if (floor($T0/64) >= 4) {", "if (floor($T0/64) < 4) {"


def with_barriers(kinds):
    """Of the loop, in their order."""
    head, body = TEXT.split("= for K", 1)
    pattern = rf"^    (?:{BARE}|{WAITING})(?=\n    sched)"
    kind = iter(kinds)
    body, count = re.subn(pattern, lambda _: "    " + next(kind), body, flags=re.M)
    assert count == 4
    return f"{head}= for K{body}"


def is_proved(text):
    proof = parsed(text).proof().text
    assert ("waits for" in proof or "not ordered" in proof) != bool(ORDERED.search(proof))
    return bool(ORDERED.search(proof))


def found(text, target="gfx942", orders=ORDERS[-1:]):
    """What the simulator reports in some orders of waves; otherwise results are right."""
    kernel, codes = parsed(text), []
    kernel.run_passes(target=target, start_after="prio")
    expected = ARGS[0].astype("f4") @ ARGS[1].astype("f4").T
    for order in orders:
        try:
            got = simulated(str(kernel), ARGS, target, order)
        except Exception as error:
            codes.append(re.search(r"E\d{4}", str(error)).group())
        else:
            assert np.allclose(got, expected, atol=1e-3)
    return codes


def test_public_ping_pong():
    kinds = (BARE, WAITING, BARE, WAITING)
    assert with_barriers(kinds) == TEXT
    proof = parsed(TEXT).proof().text
    for ring in ("a.1", "b.1"):  # the two pairs that are out of order, for each half of K
        assert proof.count(f"`read %{ring}` and `write %{ring}`, by another wave,") == 2
        assert proof.count(f"`write %{ring}` and `read %{ring}` of 1 iteration later") == 2
    assert found(TEXT, orders=ORDERS) == ["E0803"] * len(ORDERS)
    assert found(TEXT, "gfx950") == ["E0803"]


@pytest.mark.parametrize("kinds", list(itertools.product((BARE, WAITING), repeat=4)))
def test_judges_agree(kinds):
    text = with_barriers(kinds)
    fetched, _, stored, _ = kinds
    assert is_proved(text) == (fetched == stored == WAITING)
    assert bool(found(text)) != is_proved(text)


@pytest.mark.parametrize("kind, enough", [(DRAINED, True), (COUNTED, True), (HALF_DRAINED, False)])
def test_waits_that_are_written(kind, enough):
    for kinds in (kind, BARE, WAITING, BARE), (WAITING, BARE, kind, BARE):
        text = with_barriers(kinds)
        assert is_proved(text) == enough
        assert bool(found(text)) != enough


MOVED = with_barriers((WAITING, BARE, WAITING, BARE))


@pytest.mark.parametrize("few", ["floor($T0/64) < 3", "$T0 < 192", "Mod(floor($T0/64), 2) > 0"])
def test_other_divisions(few):
    """Any waves may be behind, if those that are not pass a barrier later."""
    text = MOVED.replace(OPEN, f"if ({few}) {{").replace(CLOSE, f"if (Not({few})) {{")
    assert text.count(few) == 2
    assert is_proved(text) and not found(text)
    text = text.replace(f"if (Not({few}))", CLOSE[:-2])
    assert not is_proved(text) and found(text)


def without_conditional(text, line):
    return re.sub(rf"^  {re.escape(line)}\n.*\n  }}\n", "", text, flags=re.M)


def test_waves_that_meet_too_often():
    meet = f"  if (Eq(0, 0)) {{\n    {BARE}\n  }}\n"  # of all waves, while they are apart
    faults = [without_conditional(MOVED, OPEN), without_conditional(MOVED, CLOSE)]
    faults += [MOVED.replace(f"  {CLOSE}", meet + f"  {CLOSE}")]
    faults += [MOVED.replace("$T0/64) < 4", "$T0/64) >= 4")]
    faults += [MOVED.replace(OPEN, "if ($T0 >= 160) {").replace(CLOSE, "if ($T0 < 160) {")]
    assert len({MOVED, *faults}) == 6
    for text in faults:
        assert "too many arrivals, or not enough" in parsed(text).proof().text
    assert all(found(text) for text in faults[:2])


def test_waves_that_are_not_apart():
    """All meet at the same barriers: the two that the public package makes wait are enough."""
    text = without_conditional(without_conditional(TEXT, OPEN), CLOSE)
    assert is_proved(text) and not found(text)


def test_accesses_before_the_loop():
    """The first half may read what the second has only begun to store."""
    text = re.sub(r"^  barrier workgroup\n", "", MOVED, flags=re.M)
    assert text != MOVED and not is_proved(text) and found(text)
    text = text.replace(f"{OPEN}\n    {BARE}", f"{OPEN}\n    {WAITING}")
    assert not is_proved(text) and found(text)
