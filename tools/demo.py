#!/usr/bin/env python3
"""The demo: compiles real kernels for the devices of this machine, runs them and compares them with
other libraries.

    make demo        or: PYTHONPATH=python tools/demo.py [--kernel NAME] [--target NAME] [--show]

Every kernel is compiled, run and compared with NumPy in float64; its time is shown beside NumPy's
and, if it is installed, PyTorch's, on the same device and with as many threads. A page with plots
and the kernels' sources is written as well. Targets are `cpu`, the CPU of this machine, `cuda` if
there is a GPU (and PyTorch, for its tensors), and `eval`, the reference evaluator, if no libLLVM
can be loaded.
"""

import argparse
import inspect
import math
import os
import sys
import time

os.environ["WAVE_CACHE_ON"] = "0"  # kernels are compiled here, not taken from a cache

try:
    import numpy as np
except ImportError:
    sys.exit("the demo needs NumPy: run `make setup`, or pip install numpy")

from demo_kernels import KERNELS
from wave_lang import _wave
from wave_lang.kernel.wave.compile import WaveCompileOptions, wave_compile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def find_torch():
    try:
        import torch
    except ImportError:
        return None
    return torch


def devices_here(torch):
    """The targets of this machine, with a description of each."""
    found = {}
    for device in _wave.devices():
        if device.kind == "cpu" or (torch and torch.cuda.is_available()):
            found.setdefault(device.kind, device.name)
    return found or {"eval": "the reference evaluator: there is no libLLVM here"}


# ---- measuring ----


def once(function):
    """The result of the call, and milliseconds."""
    start = time.perf_counter()
    result = function()
    return result, 1e3 * (time.perf_counter() - start)


def fastest(calls, seconds, rounds=3):
    """The fastest run of each, in milliseconds. They take turns, so that other load on the machine
    affects all of them; each turn is several runs, so that the threads of the previous one have
    gone to sleep.
    """
    best = {name: math.inf for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            end = time.perf_counter() + seconds / rounds / len(calls)
            while True:
                best[name] = min(best[name], once(call)[1])
                if time.perf_counter() > end:
                    break
    return best


def close(a, b):
    return np.abs(np.asarray(a, np.float64) - b).max() <= 0.05 * np.abs(b).max()


def torch_call(torch, case, exact, device, single):
    """PyTorch's call, in the kernel's own types or in f32; None if it computes something else."""
    tensors = [torch.from_numpy(a).to(device) for a in case.inputs]
    call = case.torch(torch, *(t.float() for t in tensors) if single else tensors)
    return call if close(call().float().cpu().numpy(), exact) else None


def prefers_single(torch):
    """Whether a matmul of f16 is slower here than one of f32: on most CPUs it is, by far."""
    times = {}
    for dtype in torch.float16, torch.float32:
        a = torch.ones(192, 192, dtype=dtype)
        times[dtype] = min(once(lambda: a @ a)[1] for _ in range(3))
    return times[torch.float16] > times[torch.float32]


def cpu_times(case, kernel, args, exact, torch, seconds):
    """Milliseconds by name: ours is "Wave"."""
    single = [a.astype(np.float32) for a in case.inputs]
    calls = {"Wave": lambda: kernel(*args), "NumPy": lambda: case.numpy(*single)}
    rival = torch and torch_call(torch, case, exact, "cpu", prefers_single(torch))
    if rival:
        calls["PyTorch"] = rival
    return fastest(calls, seconds)


def gpu_times(case, kernel, args, exact, torch, seconds):
    """The same on a GPU, by events; the rival uses the kernel's own types."""
    from wave_lang.benchmark import bench

    times = {"Wave": bench(kernel, args, budget_ms=1e3 * seconds / 4).median / 1e3}
    rival = torch_call(torch, case, exact, "cuda", single=False)
    if rival:
        times["PyTorch"] = bench(rival, budget_ms=1e3 * seconds / 4).median / 1e3
    return times


def program_of(kernel):
    """The program of one thread; if LLVM or a driver took part, the milliseconds it took."""
    program = kernel.program
    if program is None:
        return None, 0.0
    first = program.variants[0]
    return program.text("ir"), first.llvm_ms + first.load_ms


def source_of(make, kernel):
    """The lines of a case up to the end of its kernel, and the number of the first."""
    lines, first = inspect.getsourcelines(make)
    inner, at = inspect.getsourcelines(kernel.__wrapped__)
    return "".join(lines[: at - first + len(inner)]), first


def measure(make, case, target, torch, seconds):
    """One kernel on one target: a row of the page."""
    options = WaveCompileOptions(subs=case.symbols(target), target=target)
    kernel, compile_ms = once(lambda: wave_compile(options, case.kernel))
    args = [*case.inputs, case.result]
    case.result.fill(np.nan)
    if target == "cuda":
        args = [torch.from_numpy(a).cuda() for a in args]
    _, first_ms = once(lambda: kernel(*args))
    result = args[-1].cpu().numpy() if target == "cuda" else case.result
    exact = case.numpy(*(a.astype(np.float64) for a in case.inputs))
    error = float(np.abs(result.astype(np.float64) - exact).max())
    if target == "eval":
        times = {"Wave": first_ms}
    else:
        clock = gpu_times if target == "cuda" else cpu_times
        times = clock(case, kernel, args, exact, torch, seconds)
    text, code_ms = program_of(kernel)
    source, first = source_of(make, case.kernel)
    return {
        "kernel": make.__name__,
        "about": make.__doc__,
        "target": target,
        "arguments": " ".join("x".join(map(str, a.shape)) for a in args),
        "compile_ms": max(compile_ms - code_ms, 0.0),
        "code_ms": code_ms,
        "run_ms": times.pop("Wave"),
        "rivals": list(times.items()),
        "error": error,
        "allowed": float(case.allowed),
        "operations": float(case.operations),
        "bytes": float(sum(a.nbytes for a in [*case.inputs, case.result])),
        "source": source,
        "file": os.path.relpath(inspect.getsourcefile(make), ROOT),
        "line": first,
        "remarks": [(d.code, d.message, d.line) for d in kernel.remarks],
        "program": text,
    }


# ---- showing ----


def time_text(ms):
    return (
        f"{ms / 1e3:.3g} s" if ms >= 1e3 else f"{ms:.3g} ms" if ms >= 0.1 else f"{1e3 * ms:.3g} us"
    )


def ratio_text(row, name):
    ms = dict(row["rivals"]).get(name)
    return f"{ms / row['run_ms']:.2f}x" if ms else "-"


def is_right(row):
    return row["error"] <= row["allowed"]


class Table:
    """Prints rows as they come; on a terminal, also which one is running."""

    HEAD = "kernel", "arguments", "target", "compile", "run"

    def __init__(self, torch):
        self.rivals = ["NumPy", *(["PyTorch"] if torch else [])]
        self.form = "{:12s} {:41s} {:6s} {:>8s} {:>8s}"
        self.form += " {:>8s}" * len(self.rivals) + " {:>8s}  {}"
        self.progress = sys.stdout.isatty()
        print(self.form.format(*self.HEAD, *(f"/{r}" for r in self.rivals), "error", ""))

    def begin(self, name, target, number, of):
        if self.progress:
            print(f"{name} on {target}: {number} of {of} ...", end="", flush=True)

    def row(self, row):
        cells = [row["kernel"], row["arguments"], row["target"]]
        cells += [time_text(row["compile_ms"] + row["code_ms"]), time_text(row["run_ms"])]
        cells += [ratio_text(row, r) for r in self.rivals] + [f"{row['error']:.1e}"]
        start = "\r\x1b[K" if self.progress else ""
        print(start + self.form.format(*cells, "ok" if is_right(row) else "WRONG"), flush=True)


def machine_lines(targets, torch):
    peers = f"NumPy {np.__version__}" + (f", PyTorch {torch.__version__}" if torch else "")
    stamp = time.strftime("%Y-%m-%d %H:%M")
    lines = [f"{target}: {what}" for target, what in targets.items()]
    return [*lines, f"compared with {peers}, with as many threads; Wave {_wave.__version__}, {stamp}"]


def run_all(kernels, targets, torch, options):
    """The rows, in order."""
    rows, table = [], Table(torch)
    for make in kernels:
        case = make()
        for target in targets:
            table.begin(make.__name__, target, len(rows) + 1, len(kernels) * len(targets))
            rows.append(measure(make, case, target, torch, options.seconds))
            table.row(rows[-1])
            if options.show:
                print(rows[-1]["program"])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kernel", help="only this kernel: " + ", ".join(k.__name__ for k in KERNELS))
    parser.add_argument("--target", help="run only on this target: cpu, cuda, eval")
    parser.add_argument("--show", action="store_true", help="print one thread's program of each")
    parser.add_argument("--seconds", type=float, default=0.8, help="measuring time for each row")
    parser.add_argument(
        "--html", default="demo-report.html", help="file for the report; '': none"
    )
    args = parser.parse_args()
    kernels = [k for k in KERNELS if args.kernel in (None, k.__name__)]
    if not kernels:
        parser.error(f"unknown kernel `{args.kernel}`")
    torch = find_torch()
    targets = {args.target: "requested"} if args.target else devices_here(torch)
    machine = machine_lines(targets, torch)
    print("\n".join(machine) + "\n")
    rows = run_all(kernels, targets, torch, args)
    wrong = [f"{row['kernel']} on {row['target']}" for row in rows if not is_right(row)]
    if wrong:
        print(f"\nWRONG: {', '.join(wrong)}")
    else:
        print(f"\nAll {len(rows)} agree with NumPy in float64. `/NumPy`: its time divided by ours.")
    if args.html:
        with open(args.html, "w", encoding="utf-8") as page:
            page.write(_wave.measurements_html("Wave on this machine", machine, rows))
        print(f"Plots, sources and remarks: file://{os.path.abspath(args.html)}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
