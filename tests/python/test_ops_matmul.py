"""Matmuls of layers, compared with float64."""

import numpy as np
import pytest

from library_utils import ml_dtypes  # isort: skip
from library_utils import BF16, check, draw, on_targets
from wave_lang import ops
from wave_lang.ops.matmul import matmul, quantized_matmul

# m, k, n, type, is a transposed, is b, has it a bias
CASES = [
    (33, 20, 70, "f2", False, True, True),
    (1, 7, 5, "f4", False, False, False),
    (5, 70, 130, BF16, True, False, False),
    (20, 64, 16, "f2", True, True, True),
]


@on_targets(CASES)
def test_matmul(case, target):
    m, k, n, dtype, trans_a, trans_b, has_bias = case
    rng = np.random.default_rng(50)
    a = draw(rng, dtype, *((k, m) if trans_a else (m, k)))
    b = draw(rng, dtype, *((n, k) if trans_b else (k, n)))
    bias = draw(rng, dtype, n) if has_bias else None
    out = np.full((m, 2 * n), np.nan, dtype)[:, n:]  # the second half of rows
    with ops.on_target(target):
        found = matmul(a, b, trans_a=trans_a, trans_b=trans_b, bias=bias, out=out)
    assert found is out
    exact = (a.T if trans_a else a).astype(float) @ (b.T if trans_b else b).astype(float)
    check(out, exact if bias is None else exact + bias.astype(float), dtype)
    assert np.isnan(out.base[:, :n].astype(float)).all()


def test_no_rows_no_columns_no_sum():
    a, b = np.ones((3, 0), "f4"), np.ones((0, 4), "f4")
    assert np.array_equal(matmul(a, b), np.zeros((3, 4)))
    assert np.array_equal(matmul(a, b, bias=np.arange(4, dtype="f4"))[2], np.arange(4))
    assert matmul(a[:0], b).shape == (0, 4)


QUANTIZED = [(9, 40, 11, "f4", ml_dtypes.float8_e4m3fnuz, 240.0), (1, 7, 3, BF16, None, 448.0)]


@on_targets(QUANTIZED)
def test_quantized(case, target):
    m, k, n, dtype, small, largest = case
    small, rng = small or ml_dtypes.float8_e4m3fn, np.random.default_rng(51)
    a, b = draw(rng, dtype, m, k), draw(rng, dtype, n, k)
    a[0, 0] = 1e4  # beyond the largest number
    scales = (0.02, 0.004)

    def rounded(x, scale):
        whole = np.clip(x.astype("f4") * np.float32(1 / scale), -largest, largest)
        return whole.astype(small).astype(float) * scale

    with ops.on_target(target):
        found = quantized_matmul(a, b, *scales, np.dtype(small), largest)
    check(found, rounded(a, scales[0]) @ rounded(b, scales[1]).T, dtype)


A, B = np.ones((2, 3), "f4"), np.ones((3, 4), "f4")
BAD = [
    (lambda: matmul([1], B), TypeError, "`a`"),
    (lambda: matmul(A.astype("f8"), B), TypeError, "`a`"),
    (lambda: matmul(A, B.astype("f2")), TypeError, "`b`"),
    (lambda: matmul(A[0], B), ValueError, "`a`"),
    (lambda: matmul(A, B.T), ValueError, "`b`"),
    (lambda: matmul(A, B, bias=A[0]), ValueError, "`bias`"),
    (lambda: matmul(A, B, out=np.ones((2, 3), "f4")), ValueError, "`out`"),
    (lambda: quantized_matmul(A, B, 1.0, 1.0, "i1", 1.0), ValueError, "`b`"),
]


@pytest.mark.parametrize("call, kind, word", BAD)
def test_mistakes(call, kind, word):
    with pytest.raises(kind, match=word):
        call()


def test_out_does_not_share_memory_with_an_input():
    square = np.ones((4, 4), "f4")
    with pytest.raises(ValueError, match="`out` shares memory"):
        matmul(square, square.copy(), out=square)
