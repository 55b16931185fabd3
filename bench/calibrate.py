"""Fits rows of src/target/units/units.def to the GPU of this machine: `make calibrate`.

    calibrate.py [--target sm_90a] [--repeat N] [--json FILE]

Each probe is a loop in which one number of the table decides what one op, or a whole iteration,
takes; kernel.timeline() measures it. A latency enters the time of an op once, so the difference
between measured and predicted is its error. A rate is wrong by the ratio of the interval, if its
unit is what limits the loop. Prints the rows to paste, with the machine and the date, and what each
number was derived from; numbers without a probe, or whose probe is limited by something else, stay.
"""

import argparse
import datetime
import json
import re
import sys
from pathlib import Path

import gpu_kernels as kernels
from bench_timeline import gemm, lone_gemm, measure

UNITS = Path(__file__).parent.parent / "src/target/units/units.def"
COLUMNS = {
    "RATES": "granule waves scalars issue lanes special cache l2".split(),
    "LATENCIES": "shared global matrix vector special barrier exchange start test".split(),
}

SYNC, WGMMA = kernels.SYNC, kernels.WGMMA
SMALL = (64, 64, 16)  # one step of the product: what it waits for is one fetch

# Latencies: the column, a loop, and the op whose time has it once.
LATENCIES = {
    "shared": (gemm(1024, 1024, 2048, SMALL, (2, 2), SYNC), "mma"),
    "barrier": (gemm(1024, 1024, 2048, SMALL, (2, 2), SYNC), "barrier"),
    "global": (  # without prefetching, the barrier is where the copies are waited for
        gemm(1024, 1024, 2048, (64, 64, 32), (2, 2), SYNC, multi_buffer_count=1),
        "barrier",
    ),
    "start": (lone_gemm((64, 64, 64), (1, 1), WGMMA), "b.copy"),  # the first one follows a barrier
    "test": (lone_gemm((128, 128, 64), (2, 2), SYNC), "mbar_wait"),  # its tiles are there long before
}

# Rates: the row and column, a loop, and the lane of kernel.schedule() that must limit it. Waves
# that multiply registers also fetch them: no loop is limited by mma.sync alone.
RATES = {
    ("RATES", "l2"): (lone_gemm((64, 128, 128), (1, 1), WGMMA), "copy"),
    ("MULTIPLIES", ("WGMMA", 16)): (lone_gemm((128, 256, 64), (2, 1), WGMMA), "matrix"),
}


# ---- the table ----


def row_of(text, kind, target):
    """The numbers of a row for a machine, or for those whose names begin like the row's."""
    for name, numbers in re.findall(rf"^{kind}\((\w+),([\d, ]+),", text, re.M):
        if target.startswith(name):
            return name, [int(n) for n in numbers.split(",")]
    raise SystemExit(f"{UNITS} has no row {kind} for {target}")


def rate_of(text, target, by, bits):
    found = re.search(rf"^MULTIPLIES\({target},\s*{by},\s*{bits},\s*(\d+),", text, re.M)
    return int(found.group(1)) if found else None


# ---- fitting ----


def fitted_latency(old, loop, op):
    """The latency with which the longest op of that name would have been predicted right."""
    found = [o for o in loop["ops"] if op in (o["name"], *re.split(r"[._]", o["name"]))]
    longest = max(found, key=lambda o: o["predicted"], default=None)
    return longest and max(1, round(old + longest["measured"] - longest["predicted"]))


def limits(schedule, lane):
    """Whether the unit of that lane is busy almost all the time in the first loop."""
    lanes = [l for l in schedule["loops"][0]["lanes"] if l["name"] == lane]
    return any(l["limits"] or l["busy_percent"] >= 95 for l in lanes)


def fitted_rate(old, loop):
    return max(1, round(old * loop["predicted"] / loop["measured"]))


def shown_row(kind, name, numbers, source):
    return f'{kind}({name}, {", ".join(str(n) for n in numbers)}, "{source}")'


def source_of(machine, date, measured, kept):
    also = f"; {', '.join(kept)}: as before" if kept else ""
    return f"measured on {machine}, {date}: {', '.join(measured)}{also}"


# ---- measuring ----


class Calibration:
    def __init__(self, target, machine, date, repeat):
        self.target, self.machine, self.date, self.repeat = target, machine, date, repeat
        self.text, self.notes, self.rows = UNITS.read_text(), [], []

    def probe(self, case):
        make, shapes = case
        loop, run = measure(make, shapes, self.target, self.repeat)
        if run is not None and run.data["unit"] != "cycles":
            raise SystemExit(f"{self.target} counts instructions: there is nothing to calibrate")
        return loop, make(self.target).schedule().data

    def fit_latencies(self):
        name, numbers = row_of(self.text, "LATENCIES", self.target)
        measured, columns = [], COLUMNS["LATENCIES"]
        for column, (case, op) in LATENCIES.items():
            at = columns.index(column)
            loop, _ = self.probe(case)
            new = fitted_latency(numbers[at], loop, op) if loop else None
            self.note(f"{column} {numbers[at]}", new, f"what `{op}` takes")
            if new is not None:
                numbers[at] = new
                measured.append(column)
        kept = [c for c in columns if c not in measured]
        if measured:
            source = source_of(self.machine, self.date, measured, kept)
            self.rows.append(shown_row("LATENCIES", self.target, numbers, source))

    def fit_rates(self):
        name, numbers = row_of(self.text, "RATES", self.target)
        for (kind, which), (case, lane) in RATES.items():
            loop, schedule = self.probe(case)
            word = which if kind == "RATES" else " ".join(map(str, which))
            at = COLUMNS["RATES"].index(which) if kind == "RATES" else None
            old = numbers[at] if kind == "RATES" else rate_of(self.text, self.target, *which)
            right = loop and loop["measured"] and old and limits(schedule, lane)
            new = fitted_rate(old, loop) if right else None
            self.note(f"{word} {old}", new, f"an iteration that only `{lane}` limits")
            if new is None:
                continue
            source = source_of(self.machine, self.date, [word], [])
            if kind == "RATES":
                numbers[at] = new
                self.rows.append(shown_row(kind, self.target, numbers, source))
            else:
                self.rows.append(shown_row(kind, self.target, [*which, new], source))

    def note(self, what, new, by):
        word = "stays: there is no such op, or something else limits the loop"
        self.notes.append(f"{what} -> {new}, by {by}" if new is not None else f"{what} {word}")


def machine_name():
    import torch

    return torch.cuda.get_device_name()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json")
    given = parser.parse_args()
    machine = given.target if ":" in given.target else machine_name()
    found = Calibration(given.target, machine, datetime.date.today().isoformat(), given.repeat)
    found.fit_latencies()
    found.fit_rates()
    for note in found.notes:
        print("#", note)
    print(*found.rows, sep="\n")
    if given.json:
        with open(given.json, "w") as file:
            json.dump({"notes": found.notes, "rows": found.rows}, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
