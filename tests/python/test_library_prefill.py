"""The template of prefill attention, compared with float64."""

import numpy as np

from exact_attention import heads
from library_utils import BF16, check, compiled, draw, on_targets, starts_of
from wave_lang.kernel.wave.constraints import MMAType
from wave_lang.kernel.wave.templates.attention_common import AttentionShape
from wave_lang.kernel.wave.templates.prefill_attention import get_prefill_attention_kernel

MMA = (MMAType.F32_16x16x16_F16, MMAType.F32_16x16x16_F16)
LOG2_E = 1.4426950408889634


def template(query_heads, kv_heads, size, kv_size, longest, tokens, **more):
    shape = AttentionShape(query_heads, kv_heads, size, kv_size, max_seq_len=longest)
    sizes = (query_heads, size), (kv_heads, size), (kv_heads, kv_size), (query_heads, kv_size)
    return get_prefill_attention_kernel(shape, MMA, *((tokens, *s) for s in sizes), **more)


# query heads, key heads, head sizes, lengths, input, output, lengths' type, causal
CASES = [
    (4, 2, 32, 32, (70, 0, 1, 33), "f2", "f4", "i4", False),
    (2, 1, 48, 80, (130, 1, 0), BF16, BF16, "i8", True),
    (2, 2, 13, 5, (3, 65), "f4", "f4", "i8", True),
]


@on_targets(CASES)
def test_prefill(case, target):
    """Packed in another order, with tokens between them that no sequence has: these are NaN."""
    h, hk, d, dv, lengths, dtype, out, index, causal = case
    rng = np.random.default_rng(1)
    tokens = sum(lengths) + 9
    q, k, v = (draw(rng, dtype, tokens, *s) for s in ((h, d), (hk, d), (hk, dv)))
    begin = starts_of(lengths, index)[:-1] + np.arange(len(lengths), dtype=index)
    expected = np.full((tokens, h, dv), np.nan)
    used = np.zeros(tokens, bool)
    scaled = (q.astype("f4") * np.float32(d**-0.5 * LOG2_E)).astype(dtype)
    for s, n in zip(begin, lengths):
        part = slice(s, s + n)
        seen = np.tri(n) > 0 if causal else None
        rows = heads(scaled[part], k[part], v[part], visible=seen, scale=1 / LOG2_E)
        expected[part], used[part] = rows[0], True
    for x in (scaled, k, v):
        x[~used] = np.nan
    kernel, subs = template(
        h,
        hk,
        d,
        dv,
        max(lengths),
        tokens,
        input_dtype=np.dtype(dtype),
        output_dtype=np.dtype(out),
        size_dtype=np.dtype(index),
        is_causal=causal,
    )
    c = np.full((tokens, h, dv), np.nan, out)
    compiled(target, kernel, subs)(scaled, k, v, begin, np.array(lengths, index), c)
    check(c, expected, BF16 if out is BF16 else dtype)
