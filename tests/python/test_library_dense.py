"""Templates of attention over whole tensors, compared with float64."""

import numpy as np
import pytest

from exact_attention import attend
from library_utils import BF16, check, compiled, draw, on_targets
from wave_lang.kernel.wave.constraints import MMAType
from wave_lang.kernel.wave.templates.attention_common import AttentionShape
from wave_lang.kernel.wave.templates.gqa_vanilla_attention import get_gqa_bshd_attention_kernel
from wave_lang.kernel.wave.templates.vanilla_attention import (
    get_bhsd_attention_kernel,
    get_bshd_attention_kernel,
    get_vanilla_attention_kernel,
)

MMA = (MMAType.F32_16x16x16_F16, MMAType.F32_16x16x16_F16)
WIDE = (MMAType.F32_32x32x16_K8_F16, MMAType.F32_32x32x8_F16)
ORDERS = {"BHSD": (0, 1, 2, 3), "BSHD": (0, 2, 1, 3)}


def reference(q, k, v, causal=False, window=-1, hidden=None, **more):
    """Attention of [B, H, S, D]; `hidden` [B, S] says which queries see nothing."""
    out = np.zeros((*q.shape[:3], v.shape[3]))
    i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])
    for b, h in np.ndindex(q.shape[:2]):
        seen = ((j <= i) & ((window < 0) | (j >= i - window))) | (not causal)
        seen = seen if hidden is None else seen & ~hidden[b][:, None]
        at = h // (q.shape[1] // k.shape[1])
        out[b, h] = attend(q[b, h], k[b, at], v[b, at], visible=seen, **more)[0]
    return out


def sizes(b, h, hk, rows, keys, d, dv):
    return (b, h, rows, d), (b, hk, keys, d), (b, hk, keys, dv)


def shape_of(b, h, hk, rows, keys, d, dv):
    return AttentionShape(h, hk, d, dv, batch_size=b, query_seq_len=rows, kv_seq_len=keys)


VANILLA = [
    ((1, 2, 2, 70, 45, 32, 48), MMA, {"is_causal": True, "sliding_window_size": 20}, False),
    ((1, 2, 2, 70, 45, 32, 48), MMA, {"is_causal": True, "sliding_window_size": 20}, True),
    ((1, 1, 1, 65, 130, 40, 32), WIDE, {"is_v_transposed": True, "scale": 0.3}, False),
    ((1, 2, 1, 1, 1, 16, 16), MMA, {"is_causal": True}, True),
]


@on_targets(VANILLA)
def test_vanilla(case, target):
    size, mma, options, dynamic = case
    q, k, v = (draw(np.random.default_rng(4), "f2", *s) for s in sizes(*size))
    kernel = get_vanilla_attention_kernel(shape_of(*size), mma, dynamic, **options)
    given = v[0].transpose(0, 2, 1) if options.get("is_v_transposed") else v[0]
    c = np.full((*q.shape[1:3], v.shape[3]), np.nan, "f4")
    compiled(target, *kernel)(q[0], k[0], given, c)
    more = {"scale": options.get("scale"), "window": options.get("sliding_window_size", -1)}
    check(c, reference(q, k, v, options.get("is_causal"), **more)[0], "f2")


BATCHES = [
    ((2, 2, 1, 33, 70, 32, 16), "BSHD", {"is_custom_mask": True}, False),
    ((2, 2, 2, 33, 40, 32, 16), "BHSD", {"is_causal": True}, True),
    ((2, 1, 1, 20, 20, 32, 16), "BHSD", {"is_custom_mask": True}, False),
    ((1, 2, 1, 70, 70, 16, 16), "BSHD", {"is_causal": True, "num_waves": 2}, False),
]


@on_targets(BATCHES)
def test_batches(case, target):
    size, order, options, dynamic = case
    rng = np.random.default_rng(5)
    q, k, v = (draw(rng, "f2", *s) for s in sizes(*size))
    make = {"BSHD": get_bshd_attention_kernel, "BHSD": get_bhsd_attention_kernel}[order]
    kernel = make(shape_of(*size), MMA, dynamic, **options)
    hidden = rng.random((size[0], size[3])) < 0.5 if "is_custom_mask" in options else None
    masks = [] if hidden is None else [hidden.astype("i1")]
    turned = [x.transpose(ORDERS[order]).copy() for x in (q, k, v)]
    c = np.full((*q.shape[:3], v.shape[3]), np.nan, "f4").transpose(ORDERS[order]).copy()
    compiled(target, *kernel)(*turned, *masks, c)
    expected = reference(q, k, v, options.get("is_causal"), hidden=hidden)
    check(c.transpose(ORDERS[order]), expected, "f2")


GQA = [
    ((2, 4, 2, 33, 70, 32, 16), "f2", {"is_causal": True, "sliding_window_size": 8}),
    ((1, 6, 2, 70, 70, 40, 48), BF16, {"is_causal": True, "layer_scaling": 0.1}),
    ((1, 2, 1, 40, 250, 16, 16), "f2", {}),
]


@on_targets(GQA)
def test_gqa(case, target):
    size, dtype, options = case
    q, k, v = (draw(np.random.default_rng(6), dtype, *s) for s in sizes(*size))
    made = get_gqa_bshd_attention_kernel(shape_of(*size), MMA, np.dtype(dtype), **options)
    c = np.full((size[0], size[3], size[1], size[6]), np.nan, "f4")
    compiled(target, *made)(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)), c)
    more = {"scale": options.get("layer_scaling"), "window": options.get("sliding_window_size", -1)}
    expected = reference(q, k, v, options.get("is_causal"), **more)
    check(c.transpose(0, 2, 1, 3), expected, dtype)


@on_targets([((1, 2, 1, 40, 70, 32, 32),)])
def test_gqa_fp8(case, target):
    """Whole numbers up to 15, which the 8-bit type has; only the weights are rounded."""
    rng, scales = np.random.default_rng(7), {"q_scale": 0.03, "k_scale": 0.04, "v_scale": 0.02}
    q, k, v = (rng.integers(-15, 16, s).astype("f2") for s in sizes(*case[0]))
    made = get_gqa_bshd_attention_kernel(
        shape_of(*case[0]),
        (MMAType.F32_16x16x32_F8, MMAType.F32_16x16x32_K4_F8),
        is_causal=True,
        use_fp8=True,
        **scales,
    )
    c = np.full((1, 40, 2, 32), np.nan, "f4")
    compiled(target, *made)(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)), c)
    scaled = (x.astype(float) * s for x, s in zip((q, k, v), scales.values()))
    expected = reference(*scaled, causal=True)
    assert np.abs(c.transpose(0, 2, 1, 3) - expected).max() < 2**-4 * np.abs(expected).max()


def test_wrong_arguments():
    shape = shape_of(1, 3, 2, 8, 8, 16, 16)
    with pytest.raises(ValueError, match="num_query_heads"):
        get_vanilla_attention_kernel(shape, MMA, False)
    shape = shape_of(1, 2, 2, 8, 8, 16, 16)
    with pytest.raises(ValueError, match="is_custom_mask"):
        get_bshd_attention_kernel(shape, MMA, False, is_causal=True, is_custom_mask=True)
    with pytest.raises(ValueError, match="num_waves"):
        get_bshd_attention_kernel(shape, MMA, False, num_waves=0)
    with pytest.raises(ValueError, match="input_dtype"):
        get_gqa_bshd_attention_kernel(shape, MMA, np.int8)
