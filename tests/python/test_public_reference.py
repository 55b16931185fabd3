"""The attention that public tests compare with: its values, and how much memory it takes."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.overrides import TorchFunctionMode

from wave_lang.kernel.wave.utils.reference_kernel_utils import scaled_dot_product_attention_bhsd

BATCHES, HEADS, ROWS, KEYS, D = 2, 3, 8, 12, 4


def tensors(kv_heads, dtype=torch.float16):
    g = torch.Generator().manual_seed(0)
    shapes = (HEADS, ROWS), (kv_heads, KEYS), (kv_heads, KEYS)
    return [torch.randn(BATCHES, h, n, D, generator=g).to(dtype) for h, n in shapes]


def expected(q, k, v, hidden):
    """Softmax in f64, with 0 for rows without keys."""
    q, k, v = (x.double().numpy() for x in (q, k, v))
    scores = np.where(hidden, 0, np.exp(q @ np.swapaxes(k, -1, -2) / D**0.5))
    return scores @ v / np.maximum(scores.sum(-1, keepdims=True), 1e-300)


@pytest.mark.parametrize("kv_heads", [HEADS, 1])
@pytest.mark.parametrize("window", [None, -1, 2])
def test_causal_and_windows(kv_heads, window):
    q, k, v = tensors(kv_heads)
    behind = np.arange(ROWS)[:, None] - np.arange(KEYS)
    hidden = np.zeros_like(behind, bool) if window is None else behind < 0
    if window == 2:
        hidden |= behind > window
    causal = {} if window is None else {"is_causal": True, "sliding_window": window}
    out = scaled_dot_product_attention_bhsd(q, k, v, **causal)
    assert out.dtype == torch.float32
    np.testing.assert_allclose(out, expected(q, k, v, hidden), rtol=1e-5, atol=1e-6)


def test_masked_rows_are_zero():
    q, k, v = tensors(HEADS)
    mask = (torch.arange(BATCHES * ROWS).reshape(BATCHES, ROWS) % 3 == 0).to(torch.int8)
    hidden = mask.bool().numpy()[:, None, :, None]
    out = scaled_dot_product_attention_bhsd(q, k, v, custom_mask=mask)
    np.testing.assert_allclose(out, expected(q, k, v, hidden), rtol=1e-5, atol=1e-6)
    assert not out[0, :, 0].any()


@pytest.mark.parametrize("kv_heads", [HEADS, 1])
def test_scores_of_one_head_at_a_time(kv_heads):
    """Those of every head at once do not fit the memory of a machine: 8000 keys, 32 heads."""
    sizes = []

    class Sizes(TorchFunctionMode):
        def __torch_function__(self, fn, types, args=(), kwargs=None):
            out = fn(*args, **(kwargs or {}))
            sizes.append(out.shape.numel() if isinstance(out, torch.Tensor) else 0)
            return out

    with Sizes():
        scaled_dot_product_attention_bhsd(*tensors(kv_heads), is_causal=True)
    assert max(sizes) <= max(ROWS * KEYS, BATCHES * HEADS * KEYS * D)
