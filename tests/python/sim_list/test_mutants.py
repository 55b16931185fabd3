"""Mutants of one lane's programs: a sample of what `make mutants` tries, and the engine itself."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

import mutant_reasons as why
import mutants as tool
from compiler_steps import simulated
from mutant_reasons import Judge, Program
from mutations import MUTATIONS, mutants
from thread_faults import made_arguments, outcome

PLACES = [
    (name, tool.MACHINES[turn % len(tool.MACHINES)])
    for turn, (name, _) in enumerate(tool.KERNELS)
]


@pytest.mark.parametrize("name, target", PLACES)
def test_sample(name, target):
    """One mutant of each kind, of each kernel on one machine."""
    program = tool.Program(name, target)
    by_kind = {}
    for mutant in program.mutants:
        by_kind.setdefault(mutant.kind, []).append(mutant)
    for found in by_kind.values():
        mutant = found[-1]
        assert program.verdict(mutant)[0] != "unexplained", str(mutant)


RING = """thread kernel @ring(%a: mem<N, f32>, %b: mem<N, f32>)
  bind N = 64
  launch grid (1, 1, 1) block (64, 1, 1) wave 32 shared 512
{
  %s = alloc {base = 0} : mem<64, f32, shared>
  %full = alloc {base = 256} : mem<1, i64, shared>
  %zero = scalar 0 : i32
  if ($T0 <= 0) {
    mbar_init %full, %zero {count = 64}
  }
  barrier workgroup
  %at = expr $T0 : i32
  %from = expr 63 - $T0 : i32
  %in = expr ($T0 < 64) & ($T0 < N) : i1
  %all = expr True : i1
  %x = load %a, %at, %in : f32
  %y = shuffle xor %x {by = 1} : f32
  %unused = shuffle xor %x {by = 2} : f32
  store %x, %s, %at, %all
  mbar_arrive %full, %zero
  mbar_wait %full, %zero, %zero
  %z = load %s, %from : f32
  %t = add %z, %y : f32
  %sum = for K with {trips = 2} carry %acc = %t : f32 {
    %first = expr $ARGK < 1 : i1
    %more = select %first, %y, %t : f32
    %more.1 = maximum %more, %acc : f32
    yield %more.1
  }
  %even = expr Mod($T0, 2) < 2 : i1
  store %sum, %b, %at, %even
  if ($T0 >= 64) {
    store %t, %b, %at
  }
}
"""


@pytest.fixture(scope="module")
def ring():
    runs = []
    for seed in range(3):
        arguments = made_arguments(RING, seed)
        runs.append((arguments, simulated(RING, arguments, "sm_90a")))
    return Judge(RING, runs, {}, "sm_90a")


def one_mutant(words, what, text=RING):
    (found,) = [m for m in mutants(text) if words in m.what and m.what.endswith(f"({what})")]
    return found


@pytest.mark.parametrize(
    "words, what",
    [
        ("barrier workgroup", "removed"),
        ("barrier workgroup", "of the wave only"),
        ("mbar_arrive", "removed"),
        ("count = 64", "count one more"),
        ("count = 64", "count one less"),
        ("mbar_wait", "removed"),
        ("mbar_wait", "flipped"),
        ("mbar_wait", "next slot"),
        ("%x = load", "one less"),
        ("store %x, %s", "removed"),
        ("%y = shuffle", "up"),
        ("%y = shuffle", "none"),
        ("%y = shuffle", "one lane more"),
    ],
)
def test_a_fault_is_found(ring, words, what):
    mutant = one_mutant(words, what)
    found = outcome(mutant.text, *ring.runs[0], "sm_90a")
    assert found != "survived" and (found != "result" or mutant.kind not in tool.ORDER)


@pytest.mark.parametrize(
    "words, what, expected",
    [
        ("%unused = shuffle", "one lane more", why.UNUSED),
        ("%in = expr", "without ($T0 < 64)", why.SAME),
        ("%x = load", "mask removed", why.SAME),
        ("store %x, %s, %at, %all", "mask removed", why.SAME),
        ("store %t, %b", "removed", why.NEVER),
        ("%even = expr", "< is <=", why.SAME),
        ("if ($T0 >= 64)", ">= is >", why.SAME),
        ("trips = 2", "one more", why.IDLE),
    ],
)
def test_reasons(ring, words, what, expected):
    mutant = one_mutant(words, what)
    assert outcome(mutant.text, *ring.runs[0], "sm_90a") == "survived"
    assert ring.reason(mutant) == expected


def test_what_is_found_has_no_reason(ring):
    """Probes do not explain away what the simulator or the results show. (That other threads store
    the same value also follows from survival, and is checked for survivors only.)"""
    kinds = ("shuffle", "trips", "index", "offset")
    tried = [m for m in mutants(RING) if m.kind in kinds and ": store" not in str(m)]
    found = [m for m in tried if outcome(m.text, *ring.runs[0], "sm_90a") != "survived"]
    assert len(found) > 5
    for mutant in found:
        assert ring.reason(mutant) is None, str(mutant)


def test_every_row_of_the_table_applies_somewhere():
    lines = """mbar_expect %f, %i {bytes = 32}
copy_async %s, %at, %a, %from, %m {bytes = 16}
tma_load %s, %at, %f, %i, %a, %x, %y {box = [8, 8]}
counter_wait {counters = {load: 1}}
async_commit
%v = shuffle_idx %x, %lane : f32
%w = shuffle down %x {by = 1} : f32
%r = wgmma wgmma_m64n8k16_f32_f16 %acc, %a, %p, %b, %q {desc_a = [1, 2, 3, 0]} : vec<4, f32>
%old = atomic add %x, %b, %at, %m : i32
%c = expr ($T0 <= 3) & ($T0 > 1) : i1
%g = expr $T0 > 1 : i1
if ($T0 >= 64) {"""
    text = RING + "\n".join(f"  {line}" for line in lines.splitlines())
    seen = {(m.kind, m.what.rpartition("  (")[2][:-1]) for m in mutants(text)}
    assert {(row.kind, row.what) for row in MUTATIONS} <= seen


def test_a_probe_that_is_no_program_is_an_error(ring):
    with pytest.raises(AssertionError, match="not understood"):
        ring.is_quiet(RING.replace("%t = add %z, %y : f32", "%t = nonsense %z"))


def test_types_of_values():
    program = Program(RING, 12)
    assert program.type_of("%x") == (0, "f32") and program.type_of("%sum") == (0, "f32")
    assert program.type_of("%acc") is None


def test_the_tool_counts_and_samples(tmp_path):
    import json
    import subprocess

    report = tmp_path / "mutants.json"
    words = ["--only", "atomic_histogram_96_w1 sm_80", "--sample", "5", "--jobs", "1"]
    command = [sys.executable, ROOT / "tools/mutants.py", *words, "--json", report]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("5 passed, 0 failed\n")
    rows = json.loads(report.read_text())
    assert len(rows) == 5 and {row["verdict"] for row in rows} <= set(tool.VERDICTS)
