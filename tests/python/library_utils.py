"""What tests of the kernel library share: targets, random tensors, attention in float64."""

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


def attend(q, k, v, visible=None, scale=None, cap=0.0):
    """(result, log-sum-exp) of one head: q [rows, D], k [keys, D], v [keys, Dv]; `visible` is
    [rows, keys]. Rows that see no key are 0 and -inf."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    s = q @ k.T * (q.shape[1] ** -0.5 if scale is None else scale)
    s = cap * np.tanh(s / cap) if cap else s
    s = s if visible is None else np.where(visible, s, -np.inf)
    most = np.max(s, 1, keepdims=True, initial=-1e300)
    p = np.exp(s - most)
    total = p.sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        return p @ v / np.where(total > 0, total, 1), (most + np.log(total))[:, 0]


def heads(q, k, v, **more):
    """`attend` for each head of [tokens, heads, D]; query heads share key heads."""
    group = q.shape[1] // k.shape[1]
    parts = [attend(q[:, h], k[:, h // group], v[:, h // group], **more) for h in range(q.shape[1])]
    return np.stack([p[0] for p in parts], 1), np.stack([p[1] for p in parts], 1)


def check(found, expected, dtype, scale=1.0):
    """Compares with float64; NaN marks what must not have been written."""
    found = np.asarray(found, np.float64)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    error = np.nanmax(np.abs(found - expected), initial=0.0)
    most = np.nanmax(np.abs(expected), initial=1.0)
    assert error <= ROUNDING[np.dtype(dtype)] * most * scale, (error, most)
