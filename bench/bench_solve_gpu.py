"""Loops whose schedules are solved (`kind modulo`) beside those of the compiler's rules, on the GPU of
this machine: bench_solve_gpu.py. Results must be equal, bit for bit. Medians of rounds in turn, after
one that only warms the GPU up: what runs first on a cool GPU is faster. `same code`: the PTX of both
is equal, so the times show the noise."""

import statistics
import sys
from pathlib import Path

import torch

from wave_lang import CompileError, _wave
from wave_lang.benchmark import bench

FOLDER = Path(__file__).parent / "kernels"
ROUNDS = 5


class Run(_wave.Launchable):
    def __init__(self, text):
        kernel = _wave.parse(text, "kernel.wave")[0]
        self._bind(kernel)
        program = kernel.compile(target="sm_90a", cache=-1)
        self._use(program)
        self.code = program.text("ptx")
        self.said = [d.message for d in _wave.take_diagnostics() if d.code == "R0618"]


def drawn(*shape, dtype=torch.float16):
    return (torch.randn(*shape, device="cuda") * 0.5).to(dtype)


def zeros(*shape):
    return torch.zeros(*shape, device="cuda")


def scales(rows, columns):
    return torch.randint(121, 134, (rows, columns), device="cuda", dtype=torch.uint8)


def gradients(n):
    """q, g, their transposes, keys, values, row sums, deltas, results"""
    q, g = drawn(n, 64), drawn(n, 64)
    rows = [torch.full((n,), 9.0, device="cuda"), drawn(n, dtype=torch.float32)]
    return [q, q.T.contiguous(), g, g.T.contiguous(), drawn(n, 64), drawn(n, 64), *rows, zeros(n, 64), zeros(n, 64)]


def scaled(n):
    eight = torch.float8_e4m3fn
    x, y = (drawn(n, n).to(eight) for _ in range(2))
    p, q = (scales(n, n // 32).view(torch.float8_e8m0fnu) for _ in range(2))
    return [x, p, y, q, zeros(n, n)]


# file: the loop, sizes, arguments, and how many of them are results
CASES = {
    "gemm": ("K", "M 4096 N 4096 K 4096", lambda: [drawn(4096, 4096), drawn(4096, 4096), zeros(4096, 4096)], 1),
    "attention": (
        "K2",
        "B 32 M 4096 K2 4096",
        lambda: [drawn(32, 4096, 64), drawn(32, 4096, 64), drawn(32, 64, 4096), zeros(32, 4096, 64)],
        1,
    ),
    "attention_backward": ("M", "M 16384 L 16384", lambda: gradients(16384), 2),
    "convolution": (
        '"C*HF*WF"',
        "N 8 H 58 W 58 C 64 NF 128",
        lambda: [drawn(8, 58, 58, 64), drawn(3, 3, 64, 128), zeros(8, 56, 56, 128)],
        1,
    ),
    "scaled": ("K", "M 4096 N 4096 K 4096", lambda: scaled(4096), 1),
}


def results(run, args, n):
    for out in args[-n:]:
        out.zero_()
    run(*args)
    torch.cuda.synchronize()
    return [out.clone() for out in args[-n:]]


def same_code(a, b):
    """Apart from the numbers of source lines."""
    lines = ([x for x in run.code.splitlines() if ".loc" not in x] for run in (a, b))
    return next(lines) == next(lines)


def measure(name):
    loop, sizes, make, n = CASES[name]
    words, args = sizes.split(), make()
    binds = "".join(f"\n  bind {s} = {v}" for s, v in zip(words[::2], words[1::2]))
    text = (FOLDER / f"{name}.wave").read_text().replace("\n{", binds + "\n{", 1)
    rules, solved = Run(text), Run(text.replace("\n{", f"\n  schedule {loop} kind modulo\n{{", 1))
    same = all(map(torch.equal, results(rules, args, n), results(solved, args, n)))
    times = [[bench(run, tuple(args)).median for run in (rules, solved)] for _ in range(ROUNDS + 1)]
    by_rules, by_solver = map(statistics.median, zip(*times[1:]))
    print(
        f"{name:20} rules {by_rules:9.1f} us  solved {by_solver:9.1f} us  {by_rules / by_solver:6.3f}  "
        f"{'equal' if same else 'DIFFERENT'}{', same code' * same_code(rules, solved)}  {'; '.join(solved.said)}",
        flush=True,
    )
    return same


if __name__ == "__main__":
    ok = True
    for case in CASES:
        try:
            ok &= measure(case)
        except CompileError as error:
            print(f"{case:20} {error}")
    sys.exit(not ok)
