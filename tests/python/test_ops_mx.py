"""Quantisation to MX numbers, compared with NumPy."""

import numpy as np
import pytest

from library_utils import ml_dtypes  # isort: skip
from library_utils import BF16, draw, on_targets
from wave_lang import ops

FOUR_BITS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
TYPES = {"e4m3": (ml_dtypes.float8_e4m3fn, 8, 448), "e5m2": (ml_dtypes.float8_e5m2, 15, 57344)}


def coded(value):
    """Codes of 4 bits of the nearest numbers; of two that are as near, the even code."""
    far = np.abs(np.abs(value)[..., None] - FOUR_BITS)
    near = far == far.min(-1, keepdims=True)
    even = near & (np.arange(8) % 2 == 0)
    code = np.where(even.any(-1), even.argmax(-1), near.argmax(-1))
    return code | np.where(np.signbit(value), 8, 0)


def expected(x, dtype):
    """(q, bytes of scales) in float64."""
    groups = x.astype(float).reshape(*x.shape[:-1], -1, 32)
    most = np.abs(groups).max(-1)
    exponent = np.floor(np.log2(np.where(most > 0, most, 1)))
    least = TYPES[dtype][1] if dtype in TYPES else 2
    byte = np.where(most >= 2.0**-126, np.maximum(exponent + 127 - least, 0), 0)
    value = groups * 2.0 ** (127 - byte)[..., None]
    if dtype in TYPES:
        small, _, largest = TYPES[dtype]
        return value.clip(-largest, largest).astype(small).reshape(x.shape), byte
    code = coded(value).reshape(*x.shape[:-1], -1, 2)
    return code[..., 0] | (code[..., 1] << 4), byte


CASES = [("e2m1", (3, 5, 64), "f2"), ("e4m3", (2, 96), BF16), ("e5m2", (32,), "f4")]


@on_targets(CASES + [("e2m1", (4, 320), "f4"), ("e4m3", (300, 32), "f4")])
def test_random(case, target):
    dtype, shape, kind = case
    rng = np.random.default_rng(110)
    x = draw(rng, "f4", *shape) * np.exp2(rng.integers(-9, 9, (*shape[:-1], 1))).astype("f4")
    x = x.astype(kind)
    with ops.on_target(target):
        q, scale = ops.quantize_mx(x, dtype)
    wanted, byte = expected(x, dtype)
    assert scale.dtype == np.uint8 and np.array_equal(scale, byte)
    assert q.shape == wanted.shape and np.array_equal(q.astype(float), wanted.astype(float))


@on_targets([("e2m1",), ("e4m3",)])
def test_special_numbers(case, target):
    """Middles between two numbers, zeros with a sign, the smallest and the largest, NaN."""
    x = np.zeros((6, 32), "f4")
    x[0, :16] = np.repeat([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0], 2) * np.tile([1, -1], 8)
    x[1, 3], x[1, 4] = 7.9, -0.0
    x[2, 0], x[2, 1] = 1e-40, -3e38
    x[3] = 2.0**-130
    with ops.on_target(target):
        q, scale = ops.quantize_mx(x, *case)
    wanted, byte = expected(x, *case)
    assert np.array_equal(scale, byte) and scale[5, 0] == 0
    assert np.array_equal(q.astype(float), wanted.astype(float))
    x[1, 0], x[4, 0] = np.nan, np.inf
    with ops.on_target(target):
        found = ops.quantize_mx(x, *case)[1][:, 0]
    assert found[1] == found[4] == 255 and (found[[0, 2, 3, 5]] < 255).all()


def test_nothing_to_do_and_wrong_arguments():
    x = np.ones((2, 64), "f4")
    q, scale = ops.quantize_mx(x[:0], "e2m1")
    assert q.shape == (0, 32) and scale.shape == (0, 2)
    for kind, name, call in (
        (ValueError, "`dtype`", lambda: ops.quantize_mx(x, "e3m2")),
        (ValueError, "`x`", lambda: ops.quantize_mx(x[:, :33])),
        (TypeError, "`x`", lambda: ops.quantize_mx(x.astype("i4"))),
        (ValueError, "`out`", lambda: ops.quantize_mx(x, "e2m1", out=np.ones((2, 64), "u1"))),
        (TypeError, "`scale_out`", lambda: ops.quantize_mx(x, scale_out=np.ones((2, 2), "f4"))),
    ):
        with pytest.raises(kind, match=name):
            call()
