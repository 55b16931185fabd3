"""Helpers for kernel tests: compile for the evaluator, check the round trip, run."""

import os
import subprocess
import sys

import numpy as np

from wave_lang import WaveCompileOptions, _wave, wave_compile


def build(kernel, subs, **options):
    """Compiles for the evaluator. The IR must verify, print, parse and compare equal."""
    compiled = wave_compile(WaveCompileOptions(subs=subs, target="eval", **options), kernel)
    again = _wave.parse(compiled.asm)
    assert len(again) == 1 and again[0] == compiled.ir and str(again[0]) == compiled.asm
    compiled.ir.verify()
    return compiled


def run(kernel, subs, *args, **options):
    build(kernel, subs, **options)(*args)


def rng(seed=0):
    return np.random.default_rng(seed)


def halfs(shape, seed=0, scale=1.0):
    return (rng(seed).standard_normal(shape) * scale).astype(np.float16)


def f64(x):
    return np.asarray(x, np.float64)


def run_python(*args, **env):
    """Runs a Python process that finds the same packages; returns its result."""
    base = {k: v for k, v in os.environ.items() if not k.startswith("WAVE_")}
    return subprocess.run(
        [sys.executable, *args],
        capture_output=True,
        text=True,
        env={**base, "PYTHONPATH": os.pathsep.join(sys.path), **env},
    )
