#!/usr/bin/env python3
"""Mutation testing of the simulator: which mistakes in one lane's program does it miss?

    tools/mutants.py [--jobs N] [--minutes M] [--sample N] [--seed N] [--only WORD] [--json FILE]

Twelve kernels of the list are lowered for five machines, and each barrier, wait, commit, arrival,
phase, shuffle, mask, bound, loop and offset of their programs is dropped, weakened or shifted, one at
a time (tests/python/sim_list/mutations.py is the table). A mutant is

    refused      by the verifier, before anything runs
    reported     by a check of the simulator
    result       found by its results, which differ for some data
    equivalent   the same program, for a reason that probes have checked (mutant_reasons.py)
    unexplained  none of these: a hole in the simulator, or in the reasons

Missing synchronisation between threads must be reported: if only a result shows it, that is luck,
and counts as unexplained. The last line is `N passed, M failed`, where the unexplained ones failed.
"""

import argparse
import collections
import functools
import json
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [f"{ROOT}/tests/python/sim_list", f"{ROOT}/tests/python", f"{ROOT}/python"]

from compiler_steps import simulated  # noqa: E402
from kernel_list import CASES  # noqa: E402
from mutant_reasons import Judge  # noqa: E402
from mutations import mutants  # noqa: E402
from number_formats import decode, encode  # noqa: E402
from thread_faults import outcome  # noqa: E402

# A case of the list and its sizes; None: one more than the tile, in every dimension.
KERNELS = (
    ("transpose_f32_16x32_read_shared", None),
    ("softmax_f16_2x32", None),
    ("rms_norm_block_f32_w4x64", None),
    ("ragged_softmax_f32_64", None),
    ("window_f32_64", None),
    ("best_f32_2x70", None),
    ("atomic_histogram_96_w1", None),
    ("gemm_nt_f16_16x16x16_t32x32x16_shared", None),
    ("gemm_nn_f16_16x16x16_t64x64x32_shared", (64, 64, 160)),
    ("gemm_nt_i8_16x16x32_i8_t16x16x32_shared", None),
    ("conv_3x3_stride1_16x16x16_t16x16x16_shared", None),
    ("attention_causal_16x16x16_t32x16x16x32_shared", (1, 64, 32, 32, 48)),
)
MACHINES = ("gfx942", "gfx1250", "sm_80", "sm_90a", "toy8")
VERDICTS = ("refused", "reported", "result", "equivalent", "unexplained")
ORDER = ("barrier", "wait", "commit", "phase")
FIRST_DATA, ALL_DATA = 3, 200
CHUNK = 20  # mutants that a process checks before it reports


class Program:
    """A kernel lowered for a machine, its expected result, and its mutants."""

    def __init__(self, name, target):
        (self.case,) = (case for case in CASES if case.name == name)
        sizes = dict(KERNELS)[name]
        self.sizes = dict(zip(self.case.around, sizes)) if sizes else self.case.shapes[2]
        self.target = target
        self.text = self.case.lanes(self.sizes, target)
        self.mutants = list(mutants(self.text))
        self.runs = []
        first = [self.run(i) for i in range(FIRST_DATA)]
        self.case.check(self.sizes, *first[0])
        self.judge = Judge(self.text, first, self.sizes, target)

    def run(self, number):
        """Arguments and results, one of many. Every other one has a large range: if a maximum is
        not the largest element, the exponential of the difference overflows."""
        while len(self.runs) <= number:
            seed = len(self.runs)
            arguments = self.case.arguments(self.sizes, seed)
            if seed % 2:
                inputs = self.case.inputs
                arguments[: len(inputs)] = map(louder, inputs, arguments)
            self.runs.append((arguments, simulated(self.text, arguments, self.target)))
        return self.runs[number]

    def found(self, mutant, numbers):
        """What the simulator or a result shows about a mutant, for the first data that reveal
        it."""
        for i in numbers:
            found = outcome(mutant.text, *self.run(i), self.target)
            if found != "survived":
                return found
        return None

    def verdict(self, mutant):
        """(verdict, the codes or the reason)."""
        found = self.found(mutant, range(FIRST_DATA))
        why = None if found else self.judge.reason(mutant)
        if why:
            return "equivalent", why
        found = found or self.found(mutant, range(FIRST_DATA, ALL_DATA))
        if found and found != "result":
            simulator = any(code.startswith("E08") for code in found.split())
            return ("reported" if simulator else "refused"), found
        lucky = mutant.kind in ORDER
        return ("result", "") if found and not lucky else ("unexplained", found or "survived")


def louder(tensor, argument):
    dtype, array = argument
    if dtype not in ("f16", "bf16", "f32", "f64") or tensor.span:
        return argument
    return dtype, encode(dtype, 1000 * decode(dtype, array))


@functools.lru_cache(maxsize=2)
def program(name, target):
    return Program(name, target)


def judged(task):
    """Rows (kernel, machine, kind, mutant, verdict, why) of some mutants of a program."""
    name, target, numbers = task
    tried = program(name, target)
    rows = []
    for number in numbers:
        mutant = tried.mutants[number]
        rows.append((name, target, mutant.kind, str(mutant), *tried.verdict(mutant)))
    return rows


def counted(place):
    return place, len(program(*place).mutants)


def tasks_of(counts, args):
    """Chunks of each program's mutants, all of them or a sample, in random order."""
    chance, made = random.Random(args.seed), []
    for (name, target), count in counts:
        numbers = list(range(count))
        if args.sample:
            numbers = sorted(chance.sample(numbers, min(args.sample, count)))
        made += [(name, target, numbers[i : i + CHUNK]) for i in range(0, len(numbers), CHUNK)]
    if args.minutes:
        chance.shuffle(made)
    return made


def judge_all(args):
    places = [(k, m) for k, _ in KERNELS for m in MACHINES if args.only in f"{k} {m}"]
    deadline = time.time() + 60 * args.minutes if args.minutes else None
    rows, left = [], 0
    with ProcessPoolExecutor(args.jobs) as pool:
        counts = list(pool.map(counted, places))
        waiting = {pool.submit(judged, task): task for task in tasks_of(counts, args)}
        for done in as_completed(waiting):
            if done.cancelled():
                left += len(waiting[done][2])
                continue
            rows += done.result()
            for late in waiting if deadline and time.time() > deadline else ():
                late.cancel()
    return rows, sum(count for _, count in counts), left


def print_table(rows):
    kinds = collections.Counter((row[2], row[4]) for row in rows)
    print(f"{'':12s}" + "".join(f"{word:>13s}" for word in ("mutants", *VERDICTS)))
    kinds.update(collections.Counter(("all", row[4]) for row in rows))
    for kind in sorted({kind for kind, _ in kinds}, key=lambda kind: (kind == "all", kind)):
        found = [kinds[kind, verdict] for verdict in VERDICTS]
        print(f"{kind:12s}" + "".join(f"{n:13d}" for n in (sum(found), *found)))
    reasons = collections.Counter(row[5] for row in rows if row[4] == "equivalent")
    for why, count in reasons.most_common():
        print(f"{count:6d}  {why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, help="start no new program after this time")
    parser.add_argument("--sample", type=int, help="number of random mutants of each program")
    parser.add_argument("--seed", type=int, default=1, help="seed for --sample")
    parser.add_argument("--only", default="", help="only programs whose name contains this: a kernel, a machine")
    parser.add_argument("--json", help="write every mutant, its verdict and the reason to this file")
    args = parser.parse_args()
    began = time.time()
    rows, all_, left = judge_all(args)
    names = ("kernel", "machine", "kind", "mutant", "verdict", "why")
    if args.json:
        with open(args.json, "w") as file:
            json.dump([dict(zip(names, row)) for row in rows], file, indent=1)
    print_table(rows)
    unexplained = [row for row in rows if row[4] == "unexplained"]
    for name, target, _, mutant, _, why in sorted(unexplained):
        print(f"unexplained ({why}): {name} {target} {mutant}")
    late = f", {left} not begun in time" if left else ""
    print(f"{len(rows)} of {all_} mutants in {time.time() - began:.0f} s{late}")
    print(f"{len(rows) - len(unexplained)} passed, {len(unexplained)} failed")
    return bool(unexplained) or not rows


if __name__ == "__main__":
    sys.exit(main())
