#!/usr/bin/env python3
"""Runs every fuzzer on many cores for a number of minutes and writes a summary as JSON.

    BUILD=build tools/fuzz_long.py --minutes 15 --jobs 16 --json out.json [--seed N] [--keep fuzz-out]

A job is one process at a time of one fuzzer, with seeds that no other process has. Kernels get two
jobs in three, the others share the rest; a C fuzzer built with sanitizers (build-san) is preferred.
It needs only Python, NumPy and the build: without libLLVM kernels are not compiled for the CPU, and
the counts say so.

The summary has the cases, seconds and findings of each fuzzer, the sums of what fuzzers count in a
line "counts {...}", and how often each feature of kernels was drawn and accepted. It is written
again after every process, so that a run that is killed leaves one. A process still running when the minutes are over is stopped and counts nothing.
The output of failures, and kernels that were shrunk, are in the folder --keep. The exit status is 0
if nothing was found.
"""

import argparse
import glob
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KERNELS = os.path.join(ROOT, "tests/fuzz/fuzz_kernels.py")
MISUSE = os.path.join(ROOT, "tests/fuzz/fuzz_python.py")
ROUND = 60  # seconds that a process of the kernel fuzzer runs
COUNTS = {"fuzz_sym": 10000, "fuzz_parse": 2000, "fuzz_passes": 500, "fuzz_faults": 30,
          "fuzz_calls": 5000, "fuzz_orders": 1000, "fuzz_cache": 200000, "fuzz_amd": 20000,
          "fuzz_numbers": 2000, "fuzz_python": 400}  # of one process  # fmt: skip
ENVIRONMENT = {"WAVE_NUM_THREADS": "2", **os.environ}  # of each process: there is one per core
SPARE = 20  # seconds before the end in which no process is started: the running ones must finish
HANG = 600  # seconds after which a process is a finding


def programs(build):
    """The fuzzers other than that of kernels; C fuzzers with sanitizers if these were built."""
    found = {"fuzz_python": MISUSE}
    for folder in (f"{build}-san", build):
        for path in sorted(glob.glob(os.path.join(ROOT, folder, "tests/fuzz_*"))):
            if os.path.isfile(path) and os.access(path, os.X_OK):
                found.setdefault(os.path.basename(path), path)
    return found


class Campaign:
    """State shared by the jobs."""

    def __init__(self, args):
        self.args, self.lock = args, threading.Lock()
        self.end = time.time() + 60 * args.minutes
        self.seed, self.began, self.stopped = args.seed, time.time(), 0
        self.programs = programs(os.environ.get("BUILD", "build"))
        self.fuzzers, self.findings, self.features, self.counts = {}, [], {}, {}

    def next_seed(self, n):
        with self.lock:
            self.seed += n
            return self.seed - n

    def left(self):
        return self.end - time.time()

    def note(self, name, cases, seconds, failed, what):
        with self.lock:
            row = self.fuzzers.setdefault(name, {"cases": 0, "core_seconds": 0.0, "findings": 0})
            row["cases"] += cases
            row["core_seconds"] = round(row["core_seconds"] + seconds, 1)
            row["findings"] += failed
            self.findings += what
            self.write()

    def summary(self):
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        core = sum(row["core_seconds"] for row in self.fuzzers.values())
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "commit": head.stdout.strip(),
            "wall_seconds": round(time.time() - self.began, 1),
            "core_hours": round(core / 3600, 2),
            "cpu_hours": round((used.ru_utime + used.ru_stime) / 3600, 2),
            "jobs": self.args.jobs,
            "stopped": self.stopped,
            "programs": {name: os.path.relpath(path, ROOT) for name, path in self.programs.items()},
            "fuzzers": self.fuzzers,
            "findings": self.findings,
            "features": self.features,
            "counts": self.counts,
        }

    def write(self):
        if self.args.json:
            with open(self.args.json, "w") as file:
                file.write(json.dumps(self.summary(), indent=1) + "\n")

    def note_counts(self, name, table):
        with self.lock:
            self.counts[name] = added(self.counts.get(name), table)

    def note_features(self, table):
        with self.lock:
            for name, row in table.items():
                own = self.features.setdefault(name, {})
                for key, n in row.items():
                    own[key] = own.get(key, 0) + n


def added(sums, counts):
    """Numbers, or objects of them with any names."""
    if not isinstance(counts, dict):
        return (sums or 0) + counts
    sums = sums or {}
    return {**sums, **{name: added(sums.get(name), n) for name, n in counts.items()}}


def execute(campaign, name, command, seed):
    """Runs it to its end; (output, seconds, finding), or None if the campaign ended first."""
    began = time.time()
    ended = None
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            process.wait(min(HANG, max(campaign.left(), 1)))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            ended = "hang" if time.time() - began >= HANG else "stopped"
        out.seek(0)
        text = out.read().decode(errors="replace")
    if ended == "stopped":
        campaign.stopped += 1
        return None
    status = ended or process.returncode
    if status == 0:
        return text, time.time() - began, None
    log = os.path.join(campaign.args.keep, f"{name}-{seed}.log")
    with open(log, "w") as file:
        file.write(f"# {' '.join(command)}\n# status {status}\n{text}")
    return text, time.time() - began, {"fuzzer": name, "command": command, "status": status, "log": log}


def counted(text):
    """(passed, failed) from the last line that has them."""
    found = re.findall(r"^(\d+) passed, (\d+) failed$", text, re.M)
    return tuple(map(int, found[-1])) if found else (0, 0)


def run_other(campaign, name, path):
    seed, count = campaign.next_seed(COUNTS.get(name, 1000)), COUNTS.get(name, 1000)
    command = [sys.executable, path] if path.endswith(".py") else [path]
    command += ["--seed", str(seed), "--count", str(count)]
    ran = execute(campaign, name, command, seed)
    if not ran:
        return
    text, seconds, finding = ran
    for line in re.findall(r"^counts (\{.*\})$", text, re.M):
        campaign.note_counts(name, json.loads(line))
    passed, failed = counted(text)
    campaign.note(name, passed + failed, seconds, max(failed, 1) if finding else 0, [finding] if finding else [])


def run_kernels(campaign):
    seed = campaign.next_seed(100000)
    seconds = max(5, min(ROUND, campaign.left() - SPARE))
    with tempfile.TemporaryDirectory() as folder:
        counts = os.path.join(folder, "counts.json")
        command = [sys.executable, KERNELS, "--seed", str(seed), "--seconds", f"{seconds:.0f}"]
        command += ["--keep", campaign.args.keep, "--json", counts]
        ran = execute(campaign, "fuzz_kernels", command, seed)
        if not ran:
            return
        text, seconds, finding = ran
        if os.path.exists(counts):
            with open(counts) as file:
                campaign.note_features(json.load(file)["features"])
    passed, failed = counted(text)
    refused = re.search(r"^(\d+) of (\d+) kernels were refused", text, re.M)
    cases = int(refused.group(2)) if refused else passed + failed
    campaign.note("fuzz_kernels", cases, seconds, max(failed, 1) if finding else 0, [finding] if finding else [])


def job(campaign, i, others):
    """Two of three jobs run kernels; the third cycles through the other fuzzers."""
    names, n = list(others), i
    while campaign.left() > SPARE:
        if i % 3 != 2 or not names:
            run_kernels(campaign)
        else:
            name = names[n % len(names)]
            run_other(campaign, name, others[name])
            n += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", default=os.path.join(ROOT, "fuzz-out"))
    parser.add_argument("--json", help="also write the summary to this file")
    args = parser.parse_args()
    args.keep = os.path.abspath(args.keep)
    os.makedirs(args.keep, exist_ok=True)
    campaign = Campaign(args)
    jobs = [threading.Thread(target=job, args=(campaign, i, campaign.programs)) for i in range(args.jobs)]
    for thread in jobs:
        thread.start()
    for thread in jobs:
        thread.join()
    campaign.write()
    print(json.dumps(campaign.summary(), indent=1))
    return bool(campaign.findings)


if __name__ == "__main__":
    sys.exit(main())
