#!/usr/bin/env python3
"""Runs every fuzzer in rounds with new seeds until the time is up; at least 1000000 expressions.

    BUILD=build tools/fuzz.py [--seconds 600] [--seed N]

A fuzzer is a program `tests/fuzz/fuzz_*`, in C or Python, that takes --seed and --count. On a
failure the command that repeats it is printed and its output is kept in fuzz-out/.
"""

import argparse
import glob
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEAST = {"fuzz_sym": 1_000_000}  # regardless of the time


def command(program):
    return [sys.executable, program] if program.endswith(".py") else [program]


def campaign(program, seconds, seed):
    """One fuzzer until its time is up: (cases, failed)."""
    name, began, cases, count = os.path.basename(program), time.time(), 0, 500
    while time.time() - began < seconds or cases < LEAST.get(name, 0):
        start = time.time()
        done = subprocess.run(
            command(program) + ["--seed", str(seed), "--count", str(count)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if done.returncode != 0:
            os.makedirs(os.path.join(ROOT, "fuzz-out"), exist_ok=True)
            log = f"fuzz-out/{name}-{seed}.log"
            open(os.path.join(ROOT, log), "wb").write(done.stdout)
            sys.stdout.write(done.stdout[-2000:].decode(errors="replace"))
            print(f"FAILED: {program} --seed {seed} --count {count}   (log: {log})")
            return cases, 1
        cases, seed = cases + count, seed + count  # a fuzzer may use up a seed per case
        if time.time() - start < 5:
            count *= 2
        print(f"{name:12s} {cases:10d} cases {time.time() - began:7.1f} s", flush=True)
    return cases, 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    build = os.path.join(ROOT, os.environ.get("BUILD", "build"), "tests")
    fuzzers = sorted(
        p for p in glob.glob(f"{build}/fuzz_*") if os.path.isfile(p) and os.access(p, os.X_OK)
    )
    fuzzers += sorted(glob.glob(f"{ROOT}/tests/fuzz/fuzz_*.py"))
    failed = sum(campaign(p, args.seconds / len(fuzzers), args.seed)[1] for p in fuzzers)
    print(f"{len(fuzzers) - failed} passed, {failed} failed")
    return failed != 0 or not fuzzers


if __name__ == "__main__":
    sys.exit(main())
