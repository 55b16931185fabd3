#!/usr/bin/env python3
"""The kernels of docs/gallery.md, as printed there, compared with NumPy and PyTorch: the page's
numbers.

PYTHONPATH=python bench/bench_gallery.py [--seconds N]
"""

import argparse
import contextlib
import io
import linecache
import os
import re
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools"))

from demo import close, devices_here, find_torch, quickest, ratio_text, time_text


def page():
    """What the listings of the page define."""
    with open(os.path.join(ROOT, "docs/gallery.md"), encoding="utf-8") as file:
        listings = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
    names = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for number, listing in enumerate(listings):
            run_listing(listing, f"gallery{number}.py", names)
    return names


def run_listing(text, name, names):
    """Kernels are traced from their sources: those of the listings are registered with Python."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), names)


def layer(floats):
    x, w, bias = floats(1024, 1024), floats(1024, 1024), floats(1024)

    def with_numpy():
        h = x @ w.T + bias
        return 0.5 * h * (1 + np.tanh(0.7978845608028654 * (h + 0.044715 * h * h * h)))

    def with_torch(torch, x, w, bias):
        linear, gelu = torch.nn.functional.linear, torch.nn.functional.gelu
        return lambda: gelu(linear(x, w, bias), approximate="tanh")

    return [x, w, bias, floats(1024, 1024)], with_numpy, with_torch


def norm(floats):
    x, weight = floats(1024, 4096), floats(4096)
    with_numpy = lambda: x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * weight

    def with_torch(torch, x, weight):
        return lambda: torch.nn.functional.rms_norm(x, (4096,), weight, 1e-6)

    return [x, weight, floats(1024, 4096)], with_numpy, with_torch


def embedding(floats):
    words, table = np.random.default_rng(1).integers(0, 20000, 8192, "i4"), floats(20000, 1024)

    def with_torch(torch, words, table):
        return lambda: torch.nn.functional.embedding(words, table)

    return [words, table, floats(8192, 1024)], lambda: table[words], with_torch


def transpose(floats):
    x = floats(3000, 4000)
    with_torch = lambda torch, x: lambda: x.T.contiguous()
    return [x, floats(4000, 3000)], lambda: np.ascontiguousarray(x.T), with_torch


def swiglu(floats):
    gate, up = floats(512, 4096), floats(512, 4096)
    with_torch = lambda torch, gate, up: lambda: torch.nn.functional.silu(gate) * up
    return [gate, up, floats(512, 4096)], lambda: gate * up / (1 + np.exp(-gate)), with_torch


def rotary(floats):
    x, angle = floats(1024, 16, 2, 64), floats(1024, 64)
    c, s = np.cos(angle), np.sin(angle)

    def turned(stack, x, c, s):
        a, b, c, s = x[:, :, 0], x[:, :, 1], c[:, None], s[:, None]
        return stack((a * c - b * s, b * c + a * s), 2)

    with_torch = lambda torch, *args: lambda: turned(torch.stack, *args)
    return [x, c, s, floats(1024, 16, 2, 64)], lambda: turned(np.stack, x, c, s), with_torch


def entropy(floats):
    x, word = floats(64, 32000), np.random.default_rng(1).integers(0, 32000, 64, "i4")

    def with_numpy():
        largest = x.max(axis=1)
        total = np.exp(x - largest[:, None]).sum(axis=1)
        return np.log(total) + largest - x[np.arange(64), word]

    def with_torch(torch, x, word):
        word = word.long()
        return lambda: torch.nn.functional.cross_entropy(x, word, reduction="none")

    return [x, word, floats(64)], with_numpy, with_torch


def measure(kernel, case, torch, seconds):
    args, with_numpy, with_torch = case
    kernel(*args)
    exact = with_numpy()
    assert close(args[-1], exact)
    calls = {"Wave": lambda: kernel(*args), "NumPy": with_numpy}
    if torch:
        calls["PyTorch"] = with_torch(torch, *map(torch.from_numpy, args[:-1]))
        assert close(calls["PyTorch"]().numpy(), exact)
    times = quickest(calls, seconds)
    return {"run_ms": times.pop("Wave"), "rivals": list(times.items())}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.8, help="of measuring, for each kernel")
    seconds = parser.parse_args().seconds
    torch, names = find_torch(), page()
    print(devices_here(None))
    print(f"{'kernel':10s} {'arguments':38s} {'run':>8s} {'/NumPy':>8s} {'/PyTorch':>8s}")
    for make in (layer, norm, swiglu, rotary, entropy, embedding, transpose):
        case = make(names["floats"])
        row = measure(names[f"run_{make.__name__}"], case, torch, seconds)
        shapes = " ".join("x".join(map(str, a.shape)) for a in case[0])
        ratios = [ratio_text(row, rival) for rival in ("NumPy", "PyTorch")]
        print(f"{make.__name__:10s} {shapes:38s} {time_text(row['run_ms']):>8s}", end=" ")
        print(" ".join(f"{ratio:>8s}" for ratio in ratios), flush=True)


if __name__ == "__main__":
    sys.exit(main())
