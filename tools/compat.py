#!/usr/bin/env python3
"""Runs the numeric tests of the public Wave package with this one: tools/compat.py CHECKOUT.

CHECKOUT is a checkout of that package. Its tests run unchanged, and so does its library of kernels
(`templates`, `schedules`, `nn`); everything else they import is ours. With `--library ours`, the
modules of the library that this package has are ours as well. They run in a separate process, which is restarted after a test that hangs or crashes. Needs
pytest and PyTorch. Tests that are normally skipped because they need another machine run as well: a
kernel means the same everywhere.
"""

from __future__ import annotations

import argparse
import collections
import importlib.abc
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# The kernel library, which comes from the checkout.
LIBRARY = tuple(f"wave_lang.kernel.wave.{name}" for name in ("templates", "schedules", "nn"))

# Files that test the other compiler rather than kernels: its IR, passes, tools, caches.
FOREIGN = {
    "kernel/wave/water_e2e_test.py": "its other back end",
    "kernel/wave/test_subprocess_protocol.py": "its other back end",
    "kernel/test_water.py": "its other back end",
    "kernel/roundtrip_test.py": "its IR",
    "kernel/visualization_test.py": "its IR",
    "kernel/wave_utils_test.py": "its expressions and graphs",
    "kernel/runtime/cache_test.py": "its cache's files",
    "kernel/jupyter_test.py": "runs notebooks with nbconvert",
}


class Library(importlib.abc.MetaPathFinder):
    """Finds modules of the kernel library in a checkout, except those that `package` has."""

    def __init__(self, checkout: Path, package: Path | None):
        self.checkout = checkout
        self.package = package

    def is_ours(self, name):
        base = self.package and self.package.joinpath(*name.split("."))
        return base and (base.is_dir() or base.with_suffix(".py").exists())

    def find_spec(self, name, path=None, target=None):
        if not name.startswith(LIBRARY) or self.is_ours(name):
            return None
        base = self.checkout.joinpath(*name.split("."))
        for file, inner in ((base / "__init__.py", [str(base)]), (base.with_suffix(".py"), None)):
            if file.exists():
                return importlib.util.spec_from_file_location(
                    name, file, submodule_search_locations=inner
                )
        return None


def reason_of(error: BaseException) -> str:
    """Why a test failed, short enough to count by."""
    code = re.search(r"error\[(E\d+)\]: (.*)", str(error))
    if code:
        return f"{code[1]} {code[2]}"
    if isinstance(error, AssertionError):
        text = str(error).strip().split("\n")[0]
        return f"wrong: {text}"
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"


def without_cuda() -> None:
    """Makes PyTorch put tensors on the host that tests put on a GPU which is not there."""
    import torch
    from torch.overrides import TorchFunctionMode

    if torch.cuda.is_available():
        return

    def host(value):
        return "cpu" if isinstance(value, (str, torch.device)) and "cuda" in str(value) else value

    class OnHost(TorchFunctionMode):
        def __torch_function__(self, fn, types, args=(), kwargs=None):
            if fn in (torch.Tensor.cuda, torch.Tensor.to):
                args = tuple(map(host, args))
            if fn is torch.Tensor.cuda:
                return args[0]
            return fn(*args, **{k: host(v) for k, v in (kwargs or {}).items()})

    OnHost().__enter__()
    torch.cuda.synchronize = lambda *_: None


class Plugin:
    """A pytest plugin: what one process does differently, and the record of its results."""

    def __init__(self, args):
        self.record = open(args.record, "a", buffering=1)
        self.done = set(Path(args.done).read_text().splitlines()) if args.done else set()
        self.sample = args.sample
        self.target = args.target
        self.part, self.parts = map(int, args.part.split("/"))

    def say(self, what, **more):
        self.record.write(json.dumps({"what": what, **more}) + "\n")

    def pytest_configure(self, config):
        from wave_lang.kernel.wave.compile_options import WaveCompileOptions

        checked = WaveCompileOptions._checked  # what every compile calls first

        def with_ours(options):
            options.target = self.target or options.target
            options.sizes = "smallest"  # the paged decode template passes S + 1 offsets as Memory[S]
            return checked(options)

        WaveCompileOptions._checked = with_ours

    def pytest_collection_modifyitems(self, config, items):
        for item in items:
            for node in item.listchain():
                node.own_markers = [m for m in node.own_markers if not self.asks_for_machine(m)]
        groups = collections.defaultdict(list)
        for item in items:
            groups[item.originalname, item.get_closest_marker("skip") is not None].append(item)
        chosen = []
        for group in groups.values():
            step = max(1, len(group) / self.sample) if self.sample else 1
            chosen += [group[int(i * step)] for i in range(int(len(group) / step + 1e-9))]
        items[:] = [i for i in chosen[self.part :: self.parts] if i.nodeid not in self.done]

    @staticmethod
    def asks_for_machine(mark):
        return mark.name == "skipif" and "architecture is not" in mark.kwargs.get("reason", "")

    def pytest_collectreport(self, report):
        if report.failed:
            self.say(
                "end",
                id=report.nodeid,
                outcome="failed",
                reason=f"import: {report.longrepr}"[-300:],
            )

    def pytest_runtest_logstart(self, nodeid, location):
        self.say("start", id=nodeid)

    def pytest_runtest_makereport(self, item, call):
        self.error = call.excinfo.value if call.excinfo else getattr(self, "error", None)

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "xfail"
            self.say(
                "end", id=report.nodeid, outcome="skipped", reason=reason.removeprefix("Skipped: ")
            )
        elif report.failed:
            reason = reason_of(self.error) if self.error else str(report.longrepr)[-200:]
            self.say("end", id=report.nodeid, outcome="failed", reason=reason, s=report.duration)
        elif report.when == "call":
            self.say("end", id=report.nodeid, outcome="passed", reason="", s=report.duration)


def child(args) -> int:
    import pytest

    checkout = Path(args.checkout).resolve()
    sys.path.insert(0, args.package)
    import wave_lang  # before the checkout's conftest prepends it to the path

    without_cuda()
    ours = Path(args.package).resolve() if args.library == "ours" else None
    sys.meta_path.insert(0, Library(checkout, ours))
    os.environ.setdefault("WAVE_DEFAULT_ARCH", args.arch)
    options = [
        "-q",
        "-x" if args.stop else "-q",
        "--run-e2e",
        "-p",
        "no:cacheprovider",
        "--continue-on-collection-errors",
    ]
    options += ["-k", args.k] if args.k else []
    options += ["--tb=short"] if args.verbose else ["--tb=no", "--no-header", "--no-summary"]
    options += ["-s"] if args.verbose else []
    options += ["--run-expensive-tests"] if args.expensive else []
    return pytest.main([*options, *args.files], plugins=[Plugin(args)])


def read_record(file: Path) -> tuple[dict, str | None]:
    """Results by test, and the test that was started but did not finish."""
    results, begun = {}, None
    for line in file.read_text().splitlines():
        row = json.loads(line)
        if row["what"] == "start":
            begun = row["id"]
        else:
            results[row["id"]] = row
            begun = None if row["id"] == begun else begun
    return results, begun


def run_part(args, part: int, scratch: Path) -> dict:
    """Results by test of every `jobs`th test; continues after one that crashes or takes too
    long."""
    record = scratch / f"record{part}"
    record.write_text("")
    while True:
        results, _ = read_record(record)
        done = scratch / f"done{part}"
        done.write_text("\n".join(results))
        command = [sys.executable, sys.argv[0], args.checkout, "--child", "--record", str(record)]
        command += ["--done", str(done), "--sample", str(args.sample), "--arch", args.arch]
        command += ["--package", args.package, "--library", args.library]
        command += ["--target", args.target, *(["-k", args.k] if args.k else [])]
        command += (
            ["--part", f"{part}/{args.jobs}"]
            + ["-v"] * args.verbose
            + ["--expensive"] * args.expensive
            + tests_of(args)
        )
        log = None if args.verbose else subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=log, stderr=log)
        why = wait(process, record, args)
        results, begun = read_record(record)
        if begun is None or time.time() > args.until:
            return results
        with record.open("a") as out:
            row = {
                "what": "end",
                "id": begun,
                "outcome": "failed",
                "reason": why,
                "s": args.timeout,
            }
            out.write(json.dumps(row) + "\n")


def wait(process, record: Path, args) -> str:
    """Waits for a process, as long as it keeps recording results; says how it ended."""
    size, since, grace = record.stat().st_size, time.time(), 120  # to load PyTorch and the tests
    while process.poll() is None:
        now = record.stat().st_size
        if now != size:
            size, since, grace = now, time.time(), 0
        if time.time() > min(args.until, since + args.timeout + grace):
            process.kill()
            process.wait()
            return f"took more than {args.timeout:.0f} s"
        time.sleep(0.05)
    return f"crashed with status {process.returncode}"


def tests_of(args) -> list[str]:
    """The requested files, or every file of numeric tests."""
    if args.files:
        return args.files
    base = Path(args.checkout) / "tests"
    found = sorted(p for p in base.glob("kernel/**/*.py") if "test_" in p.name or "_test" in p.name)
    names = [p for p in found if not p.name.startswith("_")]
    return [
        str(p) for p in names if str(p.relative_to(base)) not in FOREIGN and "asm" not in p.parts
    ]


def parent(args) -> int:
    began = time.time()
    for name in args.files:
        if not Path(name.partition("::")[0]).exists():
            print(f"compat: there is no {name}", file=sys.stderr)
            return 2
    args.until = began + args.budget
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(args.jobs) as pool:
        parts = pool.map(lambda part: run_part(args, part, Path(scratch)), range(args.jobs))
        results = {test: row for part in parts for test, row in part.items()}
    if args.json:
        Path(args.json).write_text(json.dumps(results, indent=1))
    files = collections.defaultdict(list)
    for test, row in results.items():
        files[test.partition("::")[0]].append(row)
    for file, rows in sorted(files.items()):
        count = collections.Counter(row["outcome"] for row in rows)
        print(
            f"{file:50} {count['passed']:5} passed {count['failed']:5} failed"
            f" {count['skipped']:5} skipped {sum(row.get('s', 0) for row in rows):7.1f} s"
        )
        reasons = collections.Counter(r["reason"] for r in rows if r["outcome"] == "failed")
        for reason, n in reasons.most_common(args.reasons):
            print(f"    {n:5} {reason[:200]}")
    total = collections.Counter(row["outcome"] for row in results.values())
    print(
        f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped"
        f" in {time.time() - began:.0f} s"
    )
    return 1 if total["failed"] else 0


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("checkout")
    p.add_argument("files", nargs="*")
    p.add_argument(
        "--package", default=str(ROOT / "python"), help="the folder that holds wave_lang"
    )
    p.add_argument(
        "--library",
        choices=("checkout", "ours"),
        default="checkout",
        help="whose kernels are tested, where both have them",
    )
    p.add_argument("--target", default="", help="where kernels run: cpu, eval, sim:gfx942, ...")
    p.add_argument("--arch", default="gfx950", help="the architecture reported to tests")
    p.add_argument(
        "--sample", type=int, default=0, help="run at most this many parameter sets of each test"
    )
    p.add_argument("--timeout", type=float, default=60, help="seconds per test")
    p.add_argument("--expensive", action="store_true", help="include tests marked expensive")
    p.add_argument("--budget", type=float, default=1e9, help="seconds for all tests")
    p.add_argument("--jobs", type=int, default=1, help="number of parallel processes")
    p.add_argument("--reasons", type=int, default=5, help="number of failure reasons to show")
    p.add_argument("--json", help="write every result to this file")
    p.add_argument("-k", default="", help="select tests, as in pytest")
    p.add_argument("-v", "--verbose", action="store_true")
    p.add_argument("--stop", action="store_true")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--record", help=argparse.SUPPRESS)
    p.add_argument("--done", help=argparse.SUPPRESS)
    p.add_argument("--part", default="0/1", help=argparse.SUPPRESS)
    args = p.parse_intermixed_args()
    return child(args) if args.child else parent(args)


if __name__ == "__main__":
    sys.exit(main())
