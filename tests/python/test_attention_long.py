"""Tiles of 192 rows by 128 keys, which `ops.attention` has for long sequences of small heads: three groups of waves
whose registers hold one result of the first product. Here sequences are short, of odd lengths, on a simulated H100.
"""

import numpy as np
import pytest

from wave_lang import ops
from wave_lang.ops import attention_call, programs

TARGET = "sim:sm_90a"


@pytest.fixture(autouse=True)
def long_sequences(monkeypatch):
    monkeypatch.setattr(attention_call.Call, "is_long", lambda call: True)
    monkeypatch.setattr(attention_call.Call, "fills_machine", lambda call, rows: True)


def attention(q, k, v, causal, window):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    row = np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    key = np.arange(k.shape[2])[None]
    seen = np.ones(scores.shape[2:], bool)
    if causal:
        seen &= key <= row
    if window is not None:
        seen &= (key >= row - window[0]) & (key <= row + window[1])
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - np.max(scores, -1, keepdims=True, where=seen, initial=-1e30))
    return np.einsum("bhqk,bhkd->bhqd", weights, v) / np.maximum(weights.sum(-1), 1e-30)[..., None]


@pytest.mark.parametrize(
    "rows, keys, head, causal, window",
    [
        (385, 385, 64, False, None),
        (300, 300, 64, True, None),
        (260, 517, 64, True, None),
        (257, 129, 40, False, None),
        (390, 390, 32, True, (100, 0)),
        (258, 640, 64, False, (65, 130)),
    ],
)
def test_long(rows, keys, head, causal, window):
    rng = np.random.default_rng(rows)
    q = rng.standard_normal((1, 1, rows, head)).astype(np.float16)
    k, v = rng.standard_normal((2, 1, 1, keys, head)).astype(np.float16)
    options = {"causal": causal} if window is None else {"causal": causal, "window": window}
    with programs.on_target(TARGET):
        found = ops.attention(q, k, v, layout="bhsd", **options)
        again = ops.attention(q, k, v, layout="bhsd", **options)
    want = attention(q, k, v, causal, window)
    assert np.linalg.norm(found - want) <= 2e-3 * np.linalg.norm(want)
    np.testing.assert_array_equal(found, again)


def test_first_product_is_early(monkeypatch):
    made = []
    monkeypatch.setattr(programs, "wave_compile", lambda options, kernel: made.append((options, kernel)) or 1 / 0)
    x = np.zeros((1, 2, 400, 64), np.float16)
    with programs.on_target(TARGET), pytest.raises(ZeroDivisionError):
        ops.attention(x, x[:, :, :399], x[:, :, :399], layout="bhsd", bias=None, softcap=0.0)
    monkeypatch.undo()
    options, kernel = made[0]
    options.target = "sm_90a"
    compiled = programs.wave_compile(options, kernel)
    texts = [remark.message for remark in compiled.remarks]
    assert any("does all but its second mma one iteration early" in text for text in texts), texts
    assert "setmaxnreg.inc.sync.aligned.u32 160" in compiled.ptx
