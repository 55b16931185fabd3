#!/usr/bin/env python3
"""Runs the kernel list and the launch tests on the GPU of this machine: `make test-gpu`.

    tools/test_gpu.py [--jobs N] [--targets sm_80,sm_90a] [--only WORD] [--sample N] [--seed N]
    tools/test_gpu.py --list --targets cpu,sim:cpu [--part 1/4]     without a GPU

The list (tests/python/sim_list) runs with every shape and target, fresh random inputs, outputs
filled with garbage before the call, and guards around every tensor; each result is compared with
NumPy in float64. Kernels are compiled by many processes at once. Then come
tests/python/test_gpu_*.py, which do not need pytest, and, if it is installed, compute-sanitizer on
a sample. Ends with one line `N passed, M failed`. Needs PyTorch, NumPy, and the package built
beside its sources. Targets may also be `cpu`, the CPU of this machine, and simulated machines:
`--list` leaves out the tests that need a GPU.
"""

import argparse
import collections
import concurrent.futures
import glob
import importlib
import json
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATHS = [os.path.join(ROOT, p) for p in ("python", "tests/python", "tests/python/sim_list")]
sys.path[:0] = PATHS


# ---- without pytest ------------------------------------------------------------------------------


def stand_in_for_pytest():
    """The parts of pytest that the test files need in order to be imported."""
    import types

    class Mark:
        def __getattr__(self, name):
            def mark(*args, **named):
                def decorate(function):
                    kept = types.SimpleNamespace(name=name, args=args, kwargs=named)
                    function.pytestmark = [kept, *getattr(function, "pytestmark", [])]
                    return function

                return decorate

            return mark

    def skip(reason):
        raise unittest.SkipTest(reason)

    module = types.ModuleType("pytest")
    module.skip = skip
    module.mark = Mark()
    module.param = lambda *values, **named: values
    module.fixture = lambda *args, **named: args[0] if args else lambda function: function
    module.importorskip = importlib.import_module
    module.raises = importlib.import_module("gpu_utils").raises
    sys.modules["pytest"] = module


try:
    import pytest  # noqa: F401
except ImportError:
    PYTEST = False
else:
    PYTEST = True


# ---- the list ------------------------------------------------------------------------------------


def every_case():
    import cases_attention
    import cases_gemm
    import cases_rows

    return [*cases_rows.CASES, *cases_gemm.CASES, *cases_attention.CASES]


# Memory layouts of tensors: as PyTorch makes them; padded rows; padded and aligned to one element
# only.
PLACES = ((0, 0), (3, 0), (1, 1))


def is_simulated(target):
    """Whether arguments are NumPy arrays: by the simulator, or by the executor of machine code."""
    return target.startswith(("sim:", "emu:"))


def run_once(kernel, target, arguments, pad, shift):
    """The results of a call, in copies of the arguments."""
    if is_simulated(target):
        after = [(dtype, array.copy()) for dtype, array in arguments]
        kernel(*(array for _, array in after))
        return after
    import gpu_utils

    if target.startswith("cpu"):  # the evaluator would give the right result as well
        assert kernel.compile_for("cpu"), "\n".join(map(str, kernel.remarks))
    gpu = target.startswith(("sm_", "cuda", "gfx", "hip"))  # PyTorch calls all of them `cuda`
    device = "cuda" if gpu else "cpu"
    return gpu_utils.run_guarded(kernel, arguments, pad, shift, device)


def machine_error(kernel, target):
    """Hopper's wgmma of f8 keeps about 14 bits of a sum (docs/numerics.md)."""
    if not target.startswith("sm_90"):
        return 0.0
    words = re.findall(r"wgmma\.mma_async\S*", kernel.ptx)
    return 2.0**-12 if any("e4m3" in w or "e5m2" in w for w in words) else 0.0


def run_case(item):
    """One case, one shape, one target. Returns why it failed, or None."""
    index, shape, target, seed, places = item
    case = every_case()[index]
    sizes = case.shapes[shape]
    try:
        kernel = case.compile(sizes, target)
        arguments = case.arguments(sizes, seed)
        for pad, shift in places[:1] if is_simulated(target) else places:
            after = run_once(kernel, target, arguments, pad, shift)
            case.check(sizes, arguments, after, machine_error(kernel, target))
    except Exception as error:
        return item, case.name, case.label(sizes), f"{type(error).__name__}: {error}"
    return item, case.name, case.label(sizes), None


def list_items(options):
    """Every third item also runs with tensors of another memory layout."""
    items = []
    for index, case in enumerate(every_case()):
        if options.only not in case.name:
            continue
        for shape in range(len(case.shapes)):
            for target in options.targets:
                places = PLACES if len(items) % 3 == 0 else PLACES[:1]
                items.append((index, shape, target, options.seed + len(items), places))
    if options.sample and options.sample < len(items):
        return random.Random(options.seed).sample(items, options.sample)
    part, parts = map(int, options.part.split("/"))
    return items[part - 1 :: parts]


class Worker:
    """A process that runs cases one after another. If it crashes or hangs it is replaced, and the
    case it was running is a failure."""

    SECONDS = 120

    def __init__(self):
        self.process = None

    def start(self):
        self.errors = tempfile.TemporaryFile("w+")
        command = [sys.executable, os.path.abspath(__file__), "--worker"]
        # Many processes share the CPU: two threads each, so that kernels still run on more than
        # one.
        threads = {"WAVE_NUM_THREADS": "2", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**threads, **os.environ},
        )

    def stop(self):
        """Why it ended: its last words."""
        self.process.kill()
        self.process.wait()
        self.errors.seek(0)
        words = self.errors.read().strip().splitlines()[-3:]
        status, self.process = self.process.returncode, None
        return f"the process ended ({status}): {' | '.join(words)}"

    def run(self, item):
        if self.process is None:
            self.start()
        timer = threading.Timer(self.SECONDS, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps(item) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line:
            return json.loads(line)
        return [*describe(item), self.stop()]


def describe(item):
    case = every_case()[item[0]]
    return item, case.name, case.label(case.shapes[item[1]])


def work():
    """What a Worker's process does: an item on a line, its result on a line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # printed text must not be mistaken for a result
    for line in sys.stdin:
        answers.write(json.dumps(run_case(json.loads(line))) + "\n")
        answers.flush()
    return 0


def run_items(items, jobs):
    """The results, in no particular order."""
    todo, found = queue.SimpleQueue(), []
    for item in items:
        todo.put(item)

    def loop():
        worker = Worker()
        while True:
            try:
                item = todo.get_nowait()
            except queue.Empty:
                break
            found.append(worker.run(item))
        if worker.process:
            worker.stop()

    threads = [threading.Thread(target=loop) for _ in range(jobs)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return found


def run_list(options):
    """(passed, failures) of the list."""
    items, begin = list_items(options), time.time()
    failures = [f for f in run_items(items, options.jobs) if f[3]]
    reasons = collections.Counter((f[3].splitlines()[0][:160], f[0][2]) for f in failures)
    for (reason, target), count in reasons.most_common(options.show):
        first = next(f for f in failures if f[3].startswith(reason) and f[0][2] == target)
        print(f"  {count:4} x {target}: {reason}\n         first {first[1]} {first[2]}")
    for target in options.targets:
        mine = [i for i in items if i[2] == target]
        wrong = [f for f in failures if f[0][2] == target]
        print(f"list on {target:8} {len(mine) - len(wrong)} passed, {len(wrong)} failed")
    print(f"list took {time.time() - begin:.0f} s with {options.jobs} processes", flush=True)
    return len(items) - len(failures), failures


# ---- the other tests -----------------------------------------------------------------------------


def run_test(place):
    """Runs one test, `file.py::name`, in this process; prints why it fails. Exit status for a child."""
    if not PYTEST:
        stand_in_for_pytest()
    path, name = place.split("::")
    try:
        module = importlib.import_module(os.path.splitext(os.path.basename(path))[0])
        getattr(module, name)()
    except unittest.SkipTest as reason:
        print(f"SKIPPED {reason}")
    except Exception:
        last = traceback.format_exc().strip().splitlines()
        print("    " + "\n    ".join(last[-8:]))
        return 1
    return 0


def tests_of(path):
    """The names of the tests of a file, which is not imported."""
    with open(path, encoding="utf-8") as source:
        return re.findall(r"^def (test_\w+)\(", source.read(), re.MULTILINE)


def run_tests(options):
    """The tests of all files, each in a process of its own, several at a time."""
    places = [
        f"{os.path.basename(path)}::{name}"
        for path in sorted(glob.glob(os.path.join(ROOT, "tests/python/test_gpu_*.py")))
        if options.files in os.path.basename(path)
        for name in tests_of(path)
    ]

    def run(place):
        begin = time.time()
        command = [sys.executable, __file__, "--test", place]
        done = subprocess.run(command, capture_output=True, text=True)
        return place, done, time.time() - begin

    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for waiting in concurrent.futures.as_completed([pool.submit(run, p) for p in places]):
            place, done, seconds = waiting.result()
            good = done.returncode == 0
            passed, failed = passed + good, failed + (not good)
            print(f"{place:64} {'passed' if good else 'FAILED'}  {seconds:.0f} s", flush=True)
            said = done.stdout if good else done.stdout[-4000:] + done.stderr[-3000:]
            print(said, end="" if said.endswith("\n") or not said else "\n")
    return passed, failed


def run_sanitizer(options):
    """memcheck, racecheck, initcheck and synccheck on a few kernels of every kind."""
    tool = shutil.which("compute-sanitizer") or shutil.which(
        "/usr/local/cuda/bin/compute-sanitizer"
    )
    if tool is None:
        print("compute-sanitizer is not installed: not run")
        return 0, 0
    passed = failed = 0
    for check in ("memcheck", "racecheck", "initcheck", "synccheck"):
        command = [tool, f"--tool={check}", "--error-exitcode=9", sys.executable, __file__]
        command += ["--in-process", "--sample", str(options.checked)]
        command += ["--targets", ",".join(options.targets), "--seed", str(options.seed)]
        begin = time.time()
        done = subprocess.run(command, capture_output=True, text=True)
        good = done.returncode == 0
        passed, failed = passed + good, failed + (not good)
        words = "clean" if good else (done.stdout + done.stderr)[-6000:]
        print(f"compute-sanitizer {check:10} {time.time() - begin:.0f} s {words}", flush=True)
    return passed, failed


def what_is_missing(targets):
    """Why the tests cannot run here, or None."""
    simulated = all(map(is_simulated, targets))
    for module in ("numpy", *([] if simulated else ["torch"]), "wave_lang._wave"):
        try:
            importlib.import_module(module)
        except ImportError as error:
            return f"{module} cannot be imported: {error}"
    if simulated:
        return None
    import torch

    if any(t.startswith("sm_") for t in targets) and not torch.cuda.is_available():
        return "PyTorch finds no GPU"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 16))
    parser.add_argument("--targets", default="sm_80,sm_90a")
    parser.add_argument("--only", default="", help="run only list cases whose name contains this")
    parser.add_argument("--sample", type=int, default=0, help="run a sample of this many list cases")
    parser.add_argument("--checked", type=int, default=24, help="number of runs under compute-sanitizer")
    parser.add_argument("--no-sanitizer", action="store_true")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    parser.add_argument("--show", type=int, default=25, help="number of failure reasons to show")
    parser.add_argument("--no-list", action="store_true", help="skip the list")
    parser.add_argument("--list", action="store_true", help="run only the list")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="run part I of N of the list")
    parser.add_argument("--files", default="", help="run only test files whose name contains this")
    parser.add_argument("--test", help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.test:
        return run_test(options.test)
    if options.worker:
        return work()
    options.targets = options.targets.split(",")
    if options.in_process:
        found = []
        for item in list_items(options):
            print("at", item[2], *describe(item)[1:], flush=True)  # for the sanitizer's log
            found.append(run_case(item))
        print("\n".join(f"{f[1]} {f[2]}: {f[3]}" for f in found if f[3]))
        return 1 if any(f[3] for f in found) else 0
    missing = what_is_missing(options.targets)
    if missing:
        print(f"the GPU tests need PyTorch, NumPy, a GPU and the built package: {missing}")
        return 2
    print(f"seed {options.seed}")
    passed, failures = (0, []) if options.no_list else run_list(options)
    failed = len(failures)
    if not options.only and not options.list:
        for part in (run_tests,) if options.no_sanitizer else (run_tests, run_sanitizer):
            good, bad = part(options)
            passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
