"""What tests of the kernel library share: targets, random tensors, comparisons."""

import os

import numpy as np
import pytest

try:
    import ml_dtypes
except ImportError:
    pytest.skip("ml_dtypes is not installed", allow_module_level=True)

from wave_lang import WaveCompileOptions, wave_compile

TARGETS = ("cpu", "sim:sm_90a", "sim:gfx942")
BF16 = ml_dtypes.bfloat16
# What a result may differ by, relative to the largest value: the weights are rounded to this type.
ROUNDING = {np.dtype("f2"): 2**-9, np.dtype(BF16): 2**-6, np.dtype("f4"): 2**-18}


def on_targets(cases):
    """Parametrises a test with (case, target): the first case on all targets, each other one on one
    of them; with TEST_FULL=1, all on all."""
    rows = []
    for number, case in enumerate(cases):
        every = number == 0 or os.environ.get("TEST_FULL")
        for target in TARGETS if every else TARGETS[number % 3 :][:1]:
            rows.append(pytest.param(case, target, id=f"{number}-{target}"))
    return pytest.mark.parametrize("case, target", rows)


def compiled(target, kernel, subs, dynamic_symbols=(), **options):
    given = WaveCompileOptions(
        subs=subs, dynamic_symbols=list(dynamic_symbols), target=target, **options
    )
    return wave_compile(given, kernel)


def draw(rng, dtype, *shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(dtype)


def starts_of(lengths, dtype="i4"):
    """Where packed sequences begin, and where the last one ends."""
    return np.cumsum([0, *lengths]).astype(dtype)


def check(found, expected, dtype, scale=1.0):
    """Compares with float64; NaN marks what must not have been written."""
    found = np.asarray(found, np.float64)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    error = np.nanmax(np.abs(found - expected), initial=0.0)
    most = np.nanmax(np.abs(expected), initial=1.0)
    assert error <= ROUNDING[np.dtype(dtype)] * most * scale, (error, most)
