"""Templates of attention with biases or 8-bit products, compared with float64."""

import numpy as np
import pytest

from exact_attention import attend
from library_utils import ml_dtypes  # isort: skip
from library_utils import BF16, check, compiled, draw, on_targets
from wave_lang.kernel import lang as tkl
from wave_lang.kernel.wave.constraints import MMAType
from wave_lang.kernel.wave.templates.alibi_attention import get_alibi_attention_kernel
from wave_lang.kernel.wave.templates.attention_common import AttentionShape
from wave_lang.kernel.wave.templates.evoformer import get_evoformer_kernel
from wave_lang.kernel.wave.templates.quantized_attention import (
    get_brevitas_pertensor_fp8_attention_kernel,
)
from wave_lang.kernel.wave.templates.t5_rpe_attention import get_t5_rpe_attention_kernel

MMA = (MMAType.F32_16x16x16_F16, MMAType.F32_16x16x16_F16)
LOG2_E = 1.4426950408889634


def tensors(h, rows, keys, d, dv, dtype="f2", scale=1.0):
    rng = np.random.default_rng(8)
    return (draw(rng, dtype, h, *s, scale=scale) for s in ((rows, d), (keys, d), (keys, dv)))


def shape_of(h, rows, keys, d, dv):
    return AttentionShape(h, h, d, dv, query_seq_len=rows, kv_seq_len=keys)


def biased(q, k, v, bias):
    """Attention of each head, whose scores are exponents of 2."""
    s = np.float64(q) @ np.float64(k).swapaxes(-1, -2) + bias
    p = np.exp2(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ np.float64(v)


def distances(rows, keys):
    return np.arange(rows)[:, None] - np.arange(keys)


@on_targets([((2, 40, 70, 32, 16), False), ((1, 1, 33, 16, 16), True)])
def test_alibi(case, target):
    size, dynamic = case
    q, k, v = tensors(*size)
    slopes = np.array([0.5, 0.03][: size[0]], "f4")
    c = np.full((*q.shape[:2], v.shape[2]), np.nan, "f4")
    kernel = get_alibi_attention_kernel(shape_of(*size), MMA, dynamic)
    compiled(target, *kernel)(q, k, v.transpose(0, 2, 1).copy(), slopes, c)
    bias = slopes[:, None, None] * np.minimum(-distances(*size[1:3]), 0)
    check(c, biased(q, k, v, bias), "f2")


@on_targets([((2, 40, 70, 32, 16), 10), ((1, 17, 5, 16, 16), 0)])
def test_t5(case, target):
    size, most = case
    q, k, v = tensors(*size)
    rpe = draw(np.random.default_rng(9), "f4", most + 1)
    c = np.full((*q.shape[:2], v.shape[2]), np.nan, "f4")
    kernel = get_t5_rpe_attention_kernel(shape_of(*size), MMA, False, most)
    compiled(target, *kernel)(q, k, v.transpose(0, 2, 1).copy(), rpe, c)
    back = distances(*size[1:3])
    check(c, biased(q, k, v, rpe[np.where((back >= 0) & (back < most), back, most)]), "f2")


@on_targets(
    [
        ((2, 40, 70, 32, 16), "f2", ml_dtypes.float8_e4m3fnuz, True),
        ((1, 20, 33, 32, 16), ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fn, False),
    ]
)
def test_quantized(case, target):
    """The operands have few bits, so that only the weights are rounded to 8 bits."""
    size, dtype, product, causal = case
    q, k, v = (np.round(x.clip(-3, 3) * 4) for x in tensors(*size, dtype="f4"))
    scales = {"q_scale": 0.2, "k_scale": 0.3, "v_scale": 0.1}
    kernel = get_brevitas_pertensor_fp8_attention_kernel(
        shape_of(*size),
        (MMAType.F32_16x16x32_F8, MMAType.F32_16x16x32_K4_F8),
        np.dtype(dtype),
        np.dtype(product),
        is_causal=causal,
        **scales,
    )
    c = np.full((*q.shape[:2], v.shape[2]), np.nan, "f4")
    compiled(target, *kernel)(*(x.astype(dtype) for x in (q, k, v)), c)
    seen = distances(*size[1:3]) >= 0 if causal else None
    for h in range(size[0]):
        expected = attend(q[h] * 0.2, k[h] * 0.3, v[h] * 0.1, visible=seen)[0]
        assert np.abs(c[h] - expected).max() < 2**-4 * np.abs(expected).max()


@on_targets([("f2", MMAType.F32_32x32x8_F16, 70), (BF16, MMAType.F32_16x16x16_F16, 5)])
def test_evoformer(case, target):
    """Keys are hidden by a mask of -inf (f16) or of a large number (bf16)."""
    dtype, mma, rows = case
    b, n, keys, h, d, dv = 2, 2, 40, 2, 16, 8
    rng = np.random.default_rng(10)
    q, k, v = (draw(rng, dtype, b, n, *s) for s in ((rows, h, d), (keys, h, d), (keys, h, dv)))
    hidden = rng.random((b, n, keys)) < 0.3
    mask = np.where(hidden, -np.inf if dtype == "f2" else -1e9, 0).astype(dtype)
    bias = draw(rng, dtype, b, h, rows, keys)
    sizes = ((b, 1), (n, 1), (keys, 32), (h, 1), (d, None), (rows, 64), (dv, 16))
    kernel, subs = get_evoformer_kernel(*sizes, mma, np.dtype(dtype))
    c = np.full((b, n, rows, h, dv), np.nan, dtype)
    compiled(target, kernel, subs)(q, k, v.transpose(0, 1, 4, 3, 2).copy(), mask, bias, c)
    turned = (x.swapaxes(2, 3) for x in (q, k, v))
    added = np.float64(mask)[:, :, None, None] + np.float64(bias)[:, None]
    check(c, biased(*turned, added).swapaxes(2, 3), dtype)


def test_wrong_arguments():
    shape, pairs = shape_of(2, 8, 8, 16, 16), [(8, 8)] * 7
    fp8 = get_brevitas_pertensor_fp8_attention_kernel
    for name, call in (
        ("max_rpe_context_length", lambda: get_t5_rpe_attention_kernel(shape, MMA, False, -1)),
        ("f8_dtype", lambda: fp8(shape, MMA, f8_dtype=tkl.f16)),
        ("logit_dtype", lambda: fp8(shape, MMA, tkl.i8)),
        ("heads", lambda: get_evoformer_kernel(*pairs[:3], (0, 1), *pairs[:3], MMA[0], tkl.f16)),
        ("datatype", lambda: get_evoformer_kernel(*pairs, MMA[0], tkl.i8)),
    ):
        with pytest.raises(ValueError, match=name):
            call()
