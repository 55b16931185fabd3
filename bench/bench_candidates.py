"""The best schedules that `kernel.schedules(n)` lists, timed on the GPU of this machine.

    bench_candidates.py [--only WORD] [--n 16] [--seconds 200] [--rounds 5] [--json FILE] [--dry]
                        [--target sm_90a] [--small]

For each kernel: the schedule of the compiler's rules, that of `kind modulo`, the candidates, schedules with
roles and turns as a user would write them, and the peer (cuBLAS, cuDNN, PyTorch's flash attention), in one process.
Results must equal those of the rules, bit for bit. Every round times all of them in turn (medians
with cold caches, from CUDA graphs: wave_lang/benchmark.py), and what is compared is the median of
the rounds. All kernels together take `--seconds`, compilation included: those that rank last are
left out if there is not enough time.

What is printed, one line for each schedule and a summary for each kernel:

    kernel          schedule     predicted   load     time us   by rules  what
    gemm 4096 ...   rules             1047   1047       221.3      1.000
    gemm 4096 ...   candidate 1       1046   1046       219.9      0.994  roles load 4, math 8; slots 4
    gemm 4096 ...   cuBLAS               -      -       210.8      0.953
    gemm 4096 ...   best candidate 1: 0.994 of rules, 1.043 of cuBLAS; rank correlation 0.91 of 9

`predicted` is cycles of an iteration of one workgroup; `load` those in which a compute unit
completes one, with as many workgroups as it holds (candidates are ranked by it); `by rules` is the
time divided by that of the rules. The rank correlation is Spearman's, between load and time of the
candidates. `--json` writes the same: a list of {kernel, schedule, predicted, load, us, ratio, rows},
and {kernel, best, ratio, peers: {name: ratio}, correlation, n} for each summary. The exit status is
1 if a result differs or a schedule does not compile.

`--dry` only compiles and predicts. `--target sim:sm_90a --small` runs everything on the simulator, with
small sizes: that tests this script, and says nothing about time.
"""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time

import numpy as np

import gpu_kernels as kernels
import wave_lang.kernel.lang as tkl
from wave_lang import CompileError
from wave_lang.benchmark import bench

DTYPES = {"bf16": tkl.bf16, "f16": tkl.f16}


class Case:
    """A kernel, its arguments, and what users would write for it."""

    def __init__(self, name, loop, dtype, make, shapes, peers):
        self.name, self.loop, self.dtype, self.make = name, loop, dtype, make
        self.shapes, self.peers = shapes, peers

    def pins(self):
        roles = f"roles {self.loop} load 4, math 8\n"
        return {
            "solved": f"schedule {self.loop} kind modulo\n",
            "roles": roles,
            "roles, turns": roles + f"turns {self.loop} 2 mma\n",
        }


def gemm(size, tile, dtype="bf16"):
    def make(target, **options):
        return kernels.gemm(
            size, size, size, tile, (2, 1), kernels.WGMMA, target, DTYPES[dtype], **options
        )

    name = f"gemm {size} {dtype} {'x'.join(map(str, tile))}"
    return Case(name, "K", dtype, make, [(size, size)] * 3, gemm_peers)


def attention(heads, length, depth, dtype="f16"):
    def make(target, **options):
        tile = (128, 128 if depth > 64 else 64)
        return kernels.attention(
            heads, length, length, depth, tile, 2, kernels.WGMMA, target, **options
        )

    name = f"attention {heads}x{length}x{depth} {dtype}"
    return Case(name, "K2", dtype, make, [(heads, length, depth)] * 4, attention_peers)


def cases(small):
    if small:
        return [gemm(256, (128, 256, 64)), attention(1, 256, 128)]
    return [
        gemm(4096, (128, 256, 64)),
        gemm(4096, (128, 128, 64)),
        gemm(8192, (128, 256, 64)),
        attention(64, 4096, 128),
        attention(64, 4096, 64),
        attention(16, 1024, 128),
    ]


# ---- peers -----------------------------------------------------------------------------------------


def gemm_peers(args):
    import torch

    return {"cuBLAS": (lambda x, y: torch.matmul(x, y.T), args[:2])}


def attention_peers(args):
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    inputs = [x[None] for x in args[:3]]

    def by(backend):
        def call(q, k, v):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, scale=0.6931471805599453)

        return call

    return {
        "cuDNN": (by(SDPBackend.CUDNN_ATTENTION), inputs),
        "flash": (by(SDPBackend.FLASH_ATTENTION), inputs),
    }


def peers_of(case, args):
    """Those that run here."""
    found = {}
    for name, (call, inputs) in case.peers(args).items():
        try:
            call(*inputs)
            found[name] = (call, inputs)
        except RuntimeError as error:
            print(f"{case.name:36} {name} does not run: {str(error).splitlines()[0][:80]}")
    return found


# ---- schedules -------------------------------------------------------------------------------------


def number(text, word):
    found = re.search(rf"^# {word}: (\d+)", text, re.M)
    return int(found[1]) if found else None


def summary(text):
    """Roles, turns and slots of a schedule, in a few words."""
    roles = re.findall(r"^roles \S+ (.*?)(?: on \S+)?$", text, re.M)[:1]
    turns = re.findall(r"^turns \S+ (\d+)", text, re.M)[:1]
    slots = re.findall(r"^ring .* slots (\d+)", text, re.M)
    depth = re.findall(r"^schedule .* depth (\d+)", text, re.M)[:1]
    words = [f"roles {r}" for r in roles] + [f"turns {t}" for t in turns]
    words += [f"slots {' '.join(slots)}"] if slots else []
    return "; ".join(words + [f"depth {d}" for d in depth])


def compiled(case, target, text, folder):
    path = os.path.join(folder, f"{len(os.listdir(folder))}.schedule")
    with open(path, "w") as file:
        file.write(text)
    return case.make(target, override_schedule=path)


class Row:
    def __init__(self, name, text, kernel=None):
        self.name, self.text, self.kernel, self.us = name, text, kernel, []
        self.predicted = number(text, "predicted")
        self.load = number(text, "load") or self.predicted

    def median(self):
        return statistics.median(self.us) if self.us else None


def schedules(case, target, n, deadline, folder):
    """A row for the rules, for each candidate and for each pin, until the time is spent; and how many
    do not compile."""
    rules = case.make(target)
    rows, failed = [Row("rules", str(rules.schedule()), rules)], 0
    wanted = [(name, text) for name, text in case.pins().items()]
    wanted += [(f"candidate {i + 1}", text) for i, text in enumerate(rules.schedules(n))]
    for name, text in wanted:
        if time.perf_counter() > deadline:
            print(f"{case.name:36} no time for {name} and what follows")
            break
        try:
            kernel = compiled(case, target, text, folder)
        except CompileError as error:
            failed += 1
            print(f"{case.name:36} {name} FAILED {str(error).splitlines()[0][:90]}")
            continue
        rows.append(Row(name, text if "candidate" in name else str(kernel.schedule()), kernel))
    return rows, failed


# ---- measuring -------------------------------------------------------------------------------------


def tensors(case, target):
    rng = np.random.default_rng(1)
    arrays = [(rng.integers(-8, 9, s) / 16).astype("f4") for s in case.shapes[:-1]]
    out = np.zeros(case.shapes[-1], "f4")
    if ":" in target:
        if case.dtype == "bf16":
            import ml_dtypes

            return [a.astype(ml_dtypes.bfloat16) for a in arrays] + [out]
        return [a.astype("f2") for a in arrays] + [out]
    import torch

    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[case.dtype]
    return [torch.from_numpy(a).cuda().to(dtype) for a in arrays] + [torch.from_numpy(out).cuda()]


def as_bytes(array):
    return array.cpu().numpy().tobytes() if hasattr(array, "cpu") else array.tobytes()


def differs(row, args, expected):
    args[-1][...] = 0
    row.kernel(*args)
    return as_bytes(args[-1]) != expected


def rank_correlation(x, y):
    """Spearman's: that of ranks, of which equal values share the mean; None if one is constant."""

    def ranks(values):
        return [
            sum(w < v for w in values) + (sum(w == v for w in values) - 1) / 2 for v in values
        ]

    a, b = ranks(x), ranks(y)
    return statistics.correlation(a, b) if len(set(a)) > 1 and len(set(b)) > 1 else None


def time_all(rows, peers, args, rounds, deadline, runs):
    """Rounds until the time is spent, and at least one. A GPU's clock depends on what it did before: each
    round begins with another schedule."""
    times = {name: [] for name in peers}
    timed = [(row.us, row.kernel, args) for row in rows]
    timed += [(times[name], call, inputs) for name, (call, inputs) in peers.items()]
    bench(rows[0].kernel, args, budget_ms=60, **runs)  # not the first one that runs
    for n in range(rounds):
        if n and time.perf_counter() > deadline:
            break
        first = n * len(timed) // rounds
        for us, call, inputs in timed[first:] + timed[:first]:
            us.append(bench(call, inputs, budget_ms=60, **runs).median)
    return {name: statistics.median(us) for name, us in times.items()}


def shown(value, form):
    return format(value, form) if value is not None else "-"


def show(case, row, base):
    us = row.median()
    ratio = us / base if us and base else None
    what = summary(row.text)
    print(
        f"{case.name:36} {row.name:14} {shown(row.predicted, 'd'):>9} {shown(row.load, 'd'):>8} "
        f"{shown(us, '.1f'):>9} {shown(ratio, '.3f'):>8}  {what}",
        flush=True,
    )
    return {
        "kernel": case.name,
        "schedule": row.name,
        "predicted": row.predicted,
        "load": row.load,
        "us": us,
        "ratio": ratio,
        "rows": row.text,
    }


def conclude(case, rows, base, peers):
    ranked = [row for row in rows if row.name.startswith("candidate") and row.load and row.us]
    if not ranked:
        return []
    best = min(ranked, key=Row.median)
    correlation = rank_correlation([r.load for r in ranked], [r.median() for r in ranked])
    beside = {name: best.median() / us for name, us in peers.items()}
    words = "".join(f", {ratio:.3f} of {name}" for name, ratio in beside.items())
    print(
        f"{case.name:36} best {best.name}: {best.median() / base:.3f} of rules{words}; "
        f"rank correlation {shown(correlation, '.2f')} of {len(ranked)}",
        flush=True,
    )
    said = {"best": best.name, "ratio": best.median() / base, "peers": beside}
    return [{"kernel": case.name, **said, "correlation": correlation, "n": len(ranked)}]


def measure(case, given, deadline, folder):
    """What is written, and how many schedules failed."""
    begin = time.perf_counter()
    compile_until = begin + 0.6 * (deadline - begin)
    rows, failed = schedules(case, given.target, given.n, compile_until, folder)
    if given.dry:
        return [show(case, row, None) for row in rows], failed
    args = tensors(case, given.target)
    rows[0].kernel(*args)
    expected = as_bytes(args[-1])
    for row in [row for row in rows if differs(row, args, expected)]:
        failed += 1
        print(f"{case.name:36} {row.name} DIFFERS from the rules")
    simulated = ":" in given.target
    peers = {} if simulated else peers_of(case, args)
    runs = {"runs": 1, "calls": 1, "cold": False} if simulated else {}
    times = time_all(rows, peers, args, given.rounds, deadline, runs)
    base = rows[0].median()
    out = [show(case, row, base) for row in rows]
    for name, us in times.items():
        print(f"{case.name:36} {name:14} {'-':>9} {'-':>8} {us:9.1f} {us / base:8.3f}", flush=True)
        out.append({"kernel": case.name, "schedule": name, "us": us, "ratio": us / base})
    return out + conclude(case, rows, base, times), failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only kernels whose name contains this")
    parser.add_argument("--n", type=int, default=16, help="candidates of a kernel")
    parser.add_argument("--seconds", type=float, default=200, help="for all kernels")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="writes all rows there")
    parser.add_argument("--dry", action="store_true", help="compiles and predicts only")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--small", action="store_true", help="small sizes, for the simulator")
    given = parser.parse_args()
    wanted = [case for case in cases(given.small) if given.only in case.name]
    end, rows, failed = time.perf_counter() + given.seconds, [], 0
    heads = f"{'predicted':>9} {'load':>8} {'time us':>9} {'by rules':>8}"
    print(f"{'kernel':36} {'schedule':14} {heads}  what")
    with tempfile.TemporaryDirectory() as folder:
        for i, case in enumerate(wanted):
            now = time.perf_counter()
            more, bad = measure(case, given, now + (end - now) / (len(wanted) - i), folder)
            rows, failed = rows + more, failed + bad
    if given.json:
        with open(given.json, "w") as file:
            json.dump(rows, file, indent=1)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
