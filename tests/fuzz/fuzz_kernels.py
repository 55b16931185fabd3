#!/usr/bin/env python3
"""Random kernels on random machines: lanes, tiles and NumPy must agree.

    tests/fuzz/fuzz_kernels.py [--seed N] [--count N] [--seconds N] [--shard I/N] [--keep DIR]
                               [--ways eval,sim,cpu,lanes,emu] [--targets sm_80,sm_90a,gfx942]
                               [--only FEATURE] [--stats] [--json FILE]

A case is a list of statements over tiles of M, N and K, with random sizes, tiles, waves, dtypes and
a machine. It is computed in NumPy on whole padded tensors, and then in up to five ways:

    eval    by the reference evaluator, if its result does not depend on threads
    sim     by the simulator lane by lane with all its checks; loops are proved to be in order
    cpu     by machine code for this CPU, if there is a libLLVM
    lanes   by machine code of the machine's lane program, if there is a libLLVM
    emu     by machine code of an AMD GPU, executed here: every third case and those with scaled
            products, if their tiles are small

Reductions and matmuls have ragged edges, and operands with arbitrary padding: NumPy uses only
elements that exist, whatever the tiles are.

Some tensors have a free layout: they are larger or smaller than their symbols say, and only common
elements are read and written. In some kernels all tensors may disagree, and the smallest size
counts.

Some kernels make assumptions, true and false for the sizes they run with: a false one must not
change the result.

While loops, also nested ones, run as often as a number, the workgroup, memory or the loop itself
says. Tables, with arbitrary contents, say which rows are read, written and combined. Memory may
have a dimension of another name and extent instead of the tile's, or in addition to it.

In some kernels several workgroups share each tile: each reads its own elements of P, and they meet at sums
along P, before anything else is drawn or in the middle of it.

Results are written, also to tensors with dimensions that they lack, or combined with memory
atomically, by name or at indices from a table; often all lanes hold the value that is added.

Numbers are small integers, so that sums are exact in any order and results must be equal.
Some arithmetic is done in f16, bf16 or i16, and some integers saturate.
Some kernels add the number of a thread and subtract it again: that makes threads observable, and
the declared waves run as written. Some have tiles for instructions of several waves, of all widths
and divided in all ways; operands of matmuls are stored in any order, or their rows are gathered
through a table. Some have tiles that do not fit the registers of their waves, and are divided.

Cases run in a child process: one that crashes or hangs is a finding like any other. A failing case is
shrunk, statement by statement and size by size, and printed as text that wavec runs. --stats prints
how often each feature of the language was drawn, and accepted by each way. The last line is
`N passed, M failed`.

The implementation is in `kernels/`.
"""

import argparse
import json
import os
import sys
import time

from kernels.children import problem, problems
from kernels.draw import draw
from kernels.features import ROWS, Stats, features
from kernels.shrink import shrink
from kernels.text import text_of
from kernels.ways import WAYS

BATCH = 20  # cases per child: LLVM is loaded once for them


def batches(args):
    """Cases in lists, until the count or the time is reached; a shard takes every N-th seed."""
    shard, shards = map(int, args.shard.split("/"))
    began, n = time.time(), shard
    while (time.time() - began < args.seconds) if args.seconds else n < args.count:
        most = n + BATCH * shards if args.seconds else min(n + BATCH * shards, args.count)
        cases = [draw(args.seed + i) for i in range(n, most, shards)]
        cases = [case for case in cases if not args.only or args.only in features(case)]
        for case in cases:
            case.ways = args.ways.split(",")
            case.targets = args.targets.split(",") if args.targets else ()
        yield cases
        n += BATCH * shards


def report(case, keep):
    seed = case.seed
    case = shrink(case)
    text = f"# seed {seed} on {case.target}, schedule {case.schedule}\n"
    text += f"# {problem(case)}\n".replace("\n", "\n# ").rstrip("# ") + text_of(case)
    print(text, flush=True)
    if keep:
        os.makedirs(keep, exist_ok=True)
        with open(os.path.join(keep, f"kernel{seed}.wave"), "w") as file:
            file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--shard", default="0/1", help="I/N: every N-th seed, from the I-th")
    parser.add_argument("--ways", default=",".join(WAYS), help="which of the ways to run")
    parser.add_argument("--targets", help="simulate these machines, not the drawn one")
    parser.add_argument("--keep", help="write shrunk failures into this folder")
    parser.add_argument("--stats", action="store_true", help="print how often features are drawn and run")
    parser.add_argument("--only", choices=ROWS, metavar="FEATURE", help="only kernels with this feature")
    parser.add_argument("--json", help="write the counts into this file")
    args = parser.parse_args()
    if not set(args.ways.split(",")) <= set(WAYS):
        parser.error(f"ways are {', '.join(WAYS)}")
    began, passed, failed, skipped, stats = time.time(), 0, 0, 0, Stats()
    for cases in batches(args):
        for case, (found, gone) in zip(cases, problems(cases)):
            stats.add(case, sorted({way.split(":")[0] for way in gone} | set(gone)))
            refused = not found and not set(gone) - {"eval"}
            skipped += refused
            passed += not found and not refused
            if found:
                failed += 1
                report(case, args.keep)
        if failed >= 5:
            break
    n = passed + failed + skipped
    if args.stats:
        stats.print()
    if args.json:
        counts = {"passed": passed, "failed": failed, "refused": skipped, "features": stats.table()}
        with open(args.json, "w") as file:
            json.dump(counts, file, indent=1)
    seconds = max(time.time() - began, 1e-9)
    print(f"{skipped} of {n} kernels were refused as not lowered; {n / seconds:.1f} a second")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
