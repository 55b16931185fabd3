"""Waits in the inner loops of schedules on AMD GPUs, beside an independent count (wait_counts.py).

Of the two-cluster GEMM, the triple-buffer GEMM and attention: each wait of the machine code is for
as many operations as its loop allows, or is listed here; barriers and priorities are where the
program of one lane has them. That program's waits for direct copies are judged by the simulator.
"""

import os
import re
import subprocess
from functools import cache

import numpy as np
import pytest

import wait_counts
from test_cpu_llvm import ROOT, WAVEC, installed
from test_roles import parsed
from test_turns import simulated
from wait_counts import LGKM, VM, Barrier

NAMES = ("two_clusters", "triple_buffer", "attention_clusters")
CHIPS = ("gfx942", "gfx950")
FILES = {name: ROOT / f"tests/isa/{name}.wave" for name in NAMES}


def lanes(name, chip):
    one = parsed(FILES[name].read_text())
    one.run_passes(target=chip)
    return str(one)


@cache
def code(name, chip, llvm):
    done = subprocess.run(
        [WAVEC, FILES[name], f"--target={chip}", "--passes=all", "--emit=asm"],
        capture_output=True,
        text=True,
        env={**os.environ, "WAVE_LLVM": llvm},
        check=True,
    )
    return done.stdout


# ---- the program of one lane ----

LOOP = re.compile(r"^( *)%.* = for .*\n((?:.*\n)*?)\1\}$", re.M)


def repeated(events):
    """The part of which they are repetitions: a loop may be unrolled."""
    for n in range(1, len(events) + 1):
        if events[:n] * (len(events) // n) == events:
            return events[:n]
    return events


def events_of(program):
    """Barriers and priorities of the first loop, in their order."""
    events, direct = [], None
    for line in map(str.strip, LOOP.search(program)[2].splitlines()):
        if line.startswith("counter_wait"):
            direct = int(re.fullmatch(r"counter_wait \{counters = \{load: (\d+)\}\}", line)[1])
        elif line.startswith("wave_prio"):
            events.append(f"s_setprio {re.search(r'prio = (.)', line)[1]}")
        elif line in ("shared_barrier", "barrier workgroup", "workgroup_barrier"):
            events.append(Barrier(line != "workgroup_barrier", direct))
            direct = None
    return repeated(events)


# ---- the machine code ----


def newest():
    return installed()[max(installed())] if max(installed(), default=0) >= 22 else None


def marks(loop):
    return [x.text for x in loop if x.name in ("s_barrier", "s_setprio")]


def in_flight(loop, at, counter):
    """Whether an operation of the counter can be in flight at an instruction."""
    for x in reversed([*loop[at:], *loop[:at]]):
        if x.counter == counter or counter in x.waits:
            return x.counter == counter or x.waits[counter] > 0
    return False


def judged(loop, barriers):
    """What each wait that could be weaker waits for, and whether it ends at once."""
    for i, counter, n, most in wait_counts.limits(loop, barriers):
        if most > n:
            yield counter, n, most, in_flight(loop, i, counter)


# A barrier that waits for shared memory has this wait, whatever is in flight: LLVM would drop the
# wait of a fence where it should not (amd_sync.c). Nothing is, since the products have waited for
# all reads.
AT_ONCE = (LGKM, 0, wait_counts.MOST[LGKM] + 1, False)
COULD_BE_WEAKER = {
    "two_clusters": set(),
    "triple_buffer": {AT_ONCE},
    "attention_clusters": {AT_ONCE},
}


@pytest.mark.skipif(not newest(), reason="needs libLLVM 22: older ones wait for all direct copies")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chip", CHIPS)
def test_waits_are_as_weak_as_they_can_be(name, chip):
    events = events_of(lanes(name, chip))
    barriers = [x for x in events if isinstance(x, Barrier)]
    found = list(wait_counts.loops(code(name, chip, newest())))
    assert found and len(barriers) >= 2
    for loop in found:
        times = marks(loop).count("s_barrier") // len(barriers)
        expected = ["s_barrier" if isinstance(x, Barrier) else x for x in events] * times
        assert marks(loop) == expected
        weaker = set(judged(loop, barriers * times))
        assert weaker == COULD_BE_WEAKER[name]
        assert sum(bool(x.waits) for x in loop) >= 2 * times
        if any(x.direct for x in loop):  # some copies are always in flight
            assert all(x.waits.get(VM, 1) > 0 for x in loop)
        check_products(loop)


def check_products(loop):
    """All at high priority, between the barriers of a turn."""
    prio = 0
    for x in loop:
        prio = int(x.text[-1]) if x.name == "s_setprio" else prio
        assert prio == 1 or not x.name.startswith("v_mfma")


@pytest.mark.skipif(max(installed(), default=0) != 22, reason="needs libLLVM 22")
@pytest.mark.parametrize("name", NAMES)
def test_documented_loops(name):
    """docs/amd.md has the shortest loop of each: others are unrolled."""
    text = (ROOT / "docs/amd.md").read_text()
    shown = re.search(rf"<!-- loop: {name} -->\n```text\n(.*?)```\n", text, re.S)[1]
    loop = min(wait_counts.loops(code(name, "gfx942", newest())), key=len)
    assert shown.splitlines() == wait_counts.summary(loop)


@pytest.mark.skipif(19 not in installed(), reason="needs libLLVM 19")
def test_older_llvm():
    """Without direct copies it counts as well; after a barrier it repeats the wait before it."""
    barriers = [x for x in events_of(lanes(NAMES[0], "gfx942")) if isinstance(x, Barrier)]
    (loop, *_) = wait_counts.loops(code(NAMES[0], "gfx942", installed()[19]))
    times = marks(loop).count("s_barrier") // len(barriers)
    assert set(judged(loop, barriers * times)) == {AT_ONCE}


# ---- direct copies ----

# Loads that stay in flight at the wait of an iteration: what is copied after the first operand that
# it needs, here V, which has two loads, belongs to the next group.
DIRECT = {"triple_buffer": 16, "attention_clusters": 2}


@pytest.mark.parametrize("name", DIRECT)
def test_waits_for_direct_copies(name):
    """The largest count without a finding in the simulator."""
    program, rng = lanes(name, "gfx942"), np.random.default_rng(1)
    shapes = ((128, 32), (256, 32), (32, 256)) if "attention" in name else ((128, 448),) * 2
    args = [rng.uniform(-1, 1, shape).astype("f2") for shape in shapes]
    args.append(np.zeros((128, 32 if "attention" in name else 128), "f4"))
    loop = LOOP.search(program)
    wait = re.compile(r"load: (\d+)").search(program, loop.start(2))
    most = DIRECT[name]
    assert int(wait[1]) == most
    simulated(program, args, "gfx942")
    wrong = f"{program[: wait.start(1)]}{most + 1}{program[wait.end(1) :]}"
    with pytest.raises(Exception, match="E0803"):
        simulated(wrong, args, "gfx942")


@cache
def wider(chip, llvm):
    """The triple-buffer GEMM with instructions that read 16 bytes of an operand."""
    text = FILES["triple_buffer"].read_text().replace("F32_16x16x16_F16", "F32_16x16x32_F16")
    done = subprocess.run(
        [WAVEC, "-", f"--target={chip}", "--passes=all", "--emit=asm"],
        capture_output=True,
        text=True,
        input=text,
        env={**os.environ, "WAVE_LLVM": llvm},
        check=True,
    )
    return done.stdout, done.stderr


@pytest.mark.skipif(not newest(), reason="needs libLLVM 22")
def test_width_of_direct_copies():
    asm, said = wider("gfx950", newest())
    assert "`a` is copied by 16-byte loads to shared memory\n" in said
    loop = min(wait_counts.loops(asm), key=len)
    direct = [x.name for x in loop if x.direct]
    assert direct and set(direct) <= {"buffer_load_dwordx4", "global_load_lds_dwordx4"}
    times = sum(x.name == "s_barrier" for x in loop) // 4
    assert len(direct) == 4 * times  # of 8 KB each: 16 by 4-byte loads
    waits = [x.waits[VM] for x in loop if VM in x.waits]
    assert waits == [4] * times


# ---- the count itself ----

SMALL = """\
.LBB0_1:
  ds_read_b64 v[0:1], v9
  ds_read_b64 v[2:3], v9
  s_waitcnt lgkmcnt(1)
  v_mfma_f32_16x16x16_f16 v[4:7], v[0:1], v[0:1], v[4:7]
  s_waitcnt lgkmcnt(0)
  v_mfma_f32_16x16x16_f16 v[4:7], v[2:3], v[2:3], v[4:7]
  ds_write_b64 v9, v[4:5]
  s_waitcnt lgkmcnt(0)
  s_barrier
  s_cbranch_scc1 .LBB0_1
"""


def small(text=SMALL):
    (loop,) = wait_counts.loops(text)
    return loop


def test_count():
    waits, bare = [Barrier(True, None)], [Barrier(False, None)]
    assert [(n, most) for _, _, n, most in wait_counts.limits(small(), waits)] == [
        (1, 1),
        (0, 0),
        (0, 0),
    ]
    assert [most for *_, most in wait_counts.limits(small(), bare)] == [1, 0, 16]
    for wait in ("lgkmcnt(1)", "lgkmcnt(0)"):
        assert not wait_counts.is_right(small(SMALL.replace(wait, "vmcnt(0)", 1)), waits)
    strict = small(SMALL.replace("lgkmcnt(1)", "lgkmcnt(0)"))
    assert set(judged(strict, waits)) == {(LGKM, 0, 1, True), (LGKM, 0, 16, False)}


def test_count_of_direct_copies():
    copy = "  buffer_load_dword v8, s[0:3], s4 offen lds\n"
    before, after = SMALL.rsplit("  s_waitcnt lgkmcnt(0)", 1)
    loop = small(f"{before}{copy}{copy}  s_waitcnt vmcnt(2) lgkmcnt(0){after}")
    assert wait_counts.is_right(loop, [Barrier(True, 2)])
    assert not wait_counts.is_right(loop, [Barrier(True, 1)])
    found = wait_counts.limits(loop, [Barrier(True, 2)])
    assert [most for _, counter, _, most in found if counter == VM] == [2]
