#!/usr/bin/env python3
"""Random kernels on random machines: lanes, tiles and NumPy must agree.

    tests/fuzz/fuzz_kernels.py [--seed N] [--count N] [--seconds N] [--shard I/N] [--keep DIR]
                               [--ways eval,sim,cpu,lanes] [--targets sm_80,sm_90a,gfx942]
                               [--only FEATURE] [--stats] [--json FILE]

A case is a list of statements over tiles of M, N and K, with random sizes, tiles, waves, dtypes and
a machine. It is computed in NumPy on whole padded tensors, and then in up to four ways:

    eval    by the reference evaluator, if its result does not depend on threads
    sim     by the simulator lane by lane with all its checks
    cpu     by machine code for this processor, if there is a libLLVM
    lanes   by machine code of the program that lanes of the machine would run, likewise

Reductions and products run over ragged edges, of operands whose padding is anything: NumPy takes only
what exists, whatever the tiles are.

Some tensors have a free layout: they are larger or smaller than their symbols say, and only what
both have is read and written. In some kernels all tensors may disagree, and the smallest counts.

Some kernels make assumptions, true and false of the sizes they are run with: what is false must not
change the result.

Loops run while a condition holds, also one in another: as often as a number, the workgroup, memory or
the loop itself says. Tables say which rows are read, written and combined, and hold anything.
Memory may have a dimension of another name and extent in place of the tile's, or beside it.

Results are written, also to tensors with dimensions that they lack, or combined with memory atomically,
by name or where a table says; often all lanes hold what is added.

Numbers are small integers, so that every way of adding them up is exact and results must be equal.
Some kernels add the number of a thread and take it away again: that makes threads observable, and
the declared waves are run as they stand. Some have tiles for instructions of several waves, of all
widths and divided in all ways; operands of products lie in any order, or rows of them are picked by
a table.

Cases run in a child process: one that crashes or hangs is a finding like any other. A failing case is
shrunk, statement by statement and size by size, and printed as text that wavec runs. --stats says how
often each feature of the language was drawn, and accepted by each way. The last line is
`N passed, M failed`.

`kernels/` is how.
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

BATCH = 20  # cases of a child: LLVM is loaded once for them


def batches(args):
    """Cases in lists, until the count or the time is reached; of a shard every N-th seed."""
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
    parser.add_argument("--ways", default=",".join(WAYS), help="which of the ways to go")
    parser.add_argument("--targets", help="simulate these machines, and not the one that is drawn")
    parser.add_argument("--keep", help="write shrunk failures into this folder")
    parser.add_argument("--stats", action="store_true", help="say how often each feature is drawn and run")
    parser.add_argument("--only", choices=ROWS, metavar="FEATURE", help="leave out kernels without this one")
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
