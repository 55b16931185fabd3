"""Matmuls of layers, compared with float64."""

import math
import sys

import numpy as np
import pytest

from library_utils import ml_dtypes  # isort: skip
from library_utils import BF16, check, draw, on_targets
from wave_lang import ops
from wave_lang.ops import matmul
from wave_lang.ops.matmul import quantized_matmul

erf = np.vectorize(math.erf)
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


@pytest.mark.parametrize("batch", [(), (2,)])
def test_transposed_views_are_read_as_stored(batch, monkeypatch):
    """By programs for transposed operands."""
    module, orders = sys.modules[quantized_matmul.__module__], []
    program = module.program
    monkeypatch.setattr(module, "program", lambda *key: orders.append(key[4]) or program(*key))
    rng = np.random.default_rng(51)
    a = draw(rng, "f4", *batch, 70, 12).swapaxes(-1, -2)
    b = draw(rng, "f4", *batch, 30, 70).swapaxes(-1, -2)
    for right in (b, b.copy()):
        check(matmul(a, right), a.astype(float) @ b.astype(float), "f4")
    assert [tuple(order[-2:] for order in both) for both in orders] == [("KM", "NK"), ("KM", "KN")]


@pytest.mark.parametrize("trans_a, trans_b", [(False, True), (False, False), (True, False), (True, True)])
def test_tiles_of_large_results(trans_a, trans_b, monkeypatch):
    """Those that are chosen for large sizes, with workgroups that stay."""
    module = sys.modules[quantized_matmul.__module__]
    monkeypatch.setattr(module, "size_class", lambda size, least: 8192)
    test_matmul((264, 72, 136, "f2", trans_a, trans_b, True), "sim:sm_90a")


def test_sizes_that_tiles_are_chosen_for():
    """Rows that begin in the middle of cache lines count as such, unless a launch copies them."""
    sizes = sys.modules[quantized_matmul.__module__]._sizes_of
    with ops.on_target("sm_90a"):
        assert sizes(BF16, "KKN", 1000, 1000, 1000) == (1024, 1016, 1016)
        assert sizes(BF16, "MNN", 1000, 1000, 1000) == (1016, 1016, 1024)
        assert sizes(BF16, "KKN", 1024, 960, 1001) == (1024, 1024, 1024)
        assert sizes(BF16, "KKN", 3, 40, 64, 40) == (3, 48, 64, 48)  # shorter than a line


def test_no_rows_no_columns_no_sum():
    a, b = np.ones((3, 0), "f4"), np.ones((0, 4), "f4")
    assert np.array_equal(matmul(a, b), np.zeros((3, 4)))
    assert np.array_equal(matmul(a, b, bias=np.arange(4, dtype="f4"))[2], np.arange(4))
    assert matmul(a[:0], b).shape == (0, 4)
    more = np.ones((2, 3, 4), "f4")
    bias = np.arange(-1, 3, dtype="f4")
    found = matmul(np.ones((2, 3, 0), "f4"), b, bias, more, activation="relu")
    assert np.array_equal(found, more + [0, 0, 1, 2])
    assert matmul(np.ones((0, 3, 2), "f4"), np.ones((2, 5), "f4")).shape == (0, 3, 5)


ACTIVATIONS = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + erf(x / 2**0.5)) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh((x + 0.044715 * x**3) * (2 / np.pi) ** 0.5)) / 2,
}
# shapes of a and b, type, type of the result and of the residual, is a transposed, is b, activation
EPILOGUES = [
    ((3, 33, 20), (3, 20, 70), "f2", "f4", "f2", False, False, "silu"),
    ((2, 5, 7), (7, 9), "f4", None, None, False, False, "relu"),
    ((40, 6), (2, 3, 40), BF16, "f4", "f4", True, True, None),
    ((2, 40, 6), (2, 3, 40), "f2", None, "f4", True, True, "gelu"),
    ((1, 3), (3, 5), "f4", "f2", "f4", False, False, "gelu_tanh"),
]


@on_targets(EPILOGUES)
def test_batches_and_epilogues(case, target):
    a_shape, b_shape, dtype, kept, more, trans_a, trans_b, activation = case
    rng = np.random.default_rng(52)
    a, b = draw(rng, dtype, *a_shape), draw(rng, dtype, *b_shape)
    options = {"trans_a": trans_a, "trans_b": trans_b, "activation": activation}
    turn = lambda x, trans: x.astype(float).swapaxes(-1, -2) if trans else x.astype(float)
    total = turn(a, trans_a) @ turn(b, trans_b)
    bias = draw(rng, dtype, total.shape[-1])
    residual = None if more is None else draw(rng, more, *total.shape)
    dy = draw(rng, kept or dtype, *total.shape)
    function, total = ACTIVATIONS[activation], total + bias.astype(float)
    slope = (function(total + 1e-5) - function(total - 1e-5)) / 2e-5
    with ops.on_target(target):
        found = matmul(a, b, bias, residual, out_dtype=kept and np.dtype(kept), **options)
        if activation:
            change = ops.matmul_slopes(dy, a, b, bias, **options)
            check(change, dy.astype(float) * slope, dtype, 2.0)
    assert found.dtype == np.dtype(kept or dtype)
    more = 0 if residual is None else residual.astype(float)
    check(found, function(total) + more, kept or dtype, 2.0)


def test_gemm():
    rng = np.random.default_rng(53)
    a, b, bias, residual = (draw(rng, "f4", *shape) for shape in ((3, 4), (5, 4), (5,), (3, 5)))
    found = ops.gemm(a, b, bias=bias, activation="relu", residual=residual, trans=True)
    check(found, np.maximum(a.astype(float) @ b.T + bias, 0) + residual, "f4")


def test_strided_batches():
    """Every second matrix, columns of wider rows, and heads that are not the first dimension."""
    rng = np.random.default_rng(54)
    a, b = draw(rng, "f4", 6, 5, 16)[::2, :, 3:11], draw(rng, "f4", 8, 3, 7).swapaxes(0, 1)
    check(matmul(a, b), a.astype(float) @ b, "f4")
    check(matmul(a, b[1]), a.astype(float) @ b[1], "f4")
    whole = a.copy()
    out = np.zeros((3, 5, 14), "f4")[..., ::2]
    assert matmul(whole, b[1], residual=out.copy(), out=out) is out
    check(out, whole.astype(float) @ b[1], "f4")


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
    (lambda: matmul(A[None, None], B), ValueError, "`a`"),
    (lambda: matmul(np.ones((2, 2, 3), "f4"), np.ones((3, 3, 4), "f4")), ValueError, "`b`"),
    (lambda: matmul(A, B, residual=A), ValueError, "`residual`"),
    (lambda: matmul(A, B, residual=np.ones((2, 4), "i4")), TypeError, "`residual`"),
    (lambda: matmul(A, B, activation="tanh"), ValueError, "`activation`"),
    (lambda: matmul(A, B, out_dtype=np.int8), TypeError, "`out_dtype`"),
    (lambda: ops.matmul_slopes(A, A, B, activation="relu"), ValueError, "`dy`"),
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
    with pytest.raises(ValueError, match="`out` shares memory"):
        matmul(square, square, residual=(residual := np.ones((4, 4), "f4")), out=residual)
