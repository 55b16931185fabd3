"""The template of extend attention, compared with float64."""

import numpy as np

from exact_attention import heads
from library_utils import BF16, check, compiled, draw, on_targets, starts_of
from wave_lang.kernel.wave.constraints import MMAType
from wave_lang.kernel.wave.templates.attention_common import AttentionShape
from wave_lang.kernel.wave.templates.extend_attention import get_extend_attention_kernel
from wave_lang.kernel.wave.templates.extend_attention_rpe import get_extend_attention_rpe_kernel

MMA = (MMAType.F32_16x16x32_K8_F16, MMAType.F32_16x16x16_F16)

# query heads, key heads, head sizes, prefixes, new tokens, type, options
CASES = [
    (4, 2, 32, 32, (70, 0, 1, 9), (17, 33, 1, 0), "f2", {"is_causal": True, "logit_cap": 4.0}),
    (2, 1, 40, 24, (20, 3), (5, 70), BF16, {"is_causal": False, "layer_scaling": 0.2}),
    (2, 2, 32, 16, (66, 2), (7, 3), "f2", {"use_custom_mask": True, "mask_offset_dtype": np.int64}),
]


@on_targets(CASES)
def test_extend(case, target):
    """Tokens of the cache are out of order; those that no sequence has are NaN."""
    h, hk, d, dv, before, new, dtype, options = case
    rng = np.random.default_rng(3)
    pool, tokens = sum(before) + 5, sum(new)
    q, k, v = (draw(rng, dtype, tokens, *s) for s in ((h, d), (hk, d), (hk, dv)))
    k_cache, v_cache = draw(rng, dtype, pool, hk, d), draw(rng, dtype, pool, hk, dv)
    qo, kv = starts_of(new), starts_of(before)
    table = rng.permutation(pool).astype("i4")
    masks = [rng.random((n, p + n)) < 0.5 for p, n in zip(before, new)]
    masks[-1][-1:] = False  # this token sees nothing
    expected = np.zeros((tokens, h, dv))
    for s, (p, n) in enumerate(zip(before, new)):
        at, part = table[kv[s] : kv[s + 1]], slice(qo[s], qo[s + 1])
        seen = np.tri(n, p + n, p) > 0 if options.get("is_causal") else None
        seen = masks[s] if "use_custom_mask" in options else seen
        keys = np.concatenate([k_cache[at], k[part]])
        values = np.concatenate([v_cache[at], v[part]])
        more = {"cap": options.get("logit_cap", 0.0), "scale": options.get("layer_scaling")}
        expected[part] = heads(q[part], keys, values, visible=seen, **more)[0]
    k_cache[table[kv[-1] :]], v_cache[table[kv[-1] :]] = np.nan, np.nan
    c = np.full((tokens, h, dv), np.nan, "f4")
    shape = AttentionShape(h, hk, d, dv, num_seqs=len(new), max_seq_len=max(new))
    shapes = (x.shape for x in (q, k, v, k_cache, v_cache, c))
    kernel, subs, dynamic = get_extend_attention_kernel(
        shape, MMA, *shapes, input_dtype=np.dtype(dtype), output_dtype=np.float32, **options
    )
    mask = []
    if "use_custom_mask" in options:
        bytes_ = np.concatenate([m.ravel() for m in masks])
        mask = [bytes_, starts_of([m.size for m in masks], "i8")]
    compiled(target, kernel, subs, dynamic)(
        q, k, v, k_cache, v_cache, qo, kv, table, *mask, max(new), c
    )
    check(c, expected, dtype)


@on_targets([((10, 0), (5, 20), 7)])
def test_extend_with_biases(case, target):
    """Biases count in the prefix as well."""
    (before, new, most), rng = case, np.random.default_rng(13)
    pool, tokens, d = sum(before), sum(new), 16
    q, k, v, k_cache, v_cache = (draw(rng, "f2", n, 1, d) for n in [tokens] * 3 + [pool] * 2)
    qo, kv, table = starts_of(new), starts_of(before), rng.permutation(pool).astype("i4")
    rpe = draw(rng, "f4", most + 1)
    expected = np.zeros((tokens, 1, d))
    for s, (p, n) in enumerate(zip(before, new)):
        at, part = table[kv[s] : kv[s + 1]], slice(qo[s], qo[s + 1])
        keys = np.concatenate([k_cache[at], k[part]])[:, 0].astype(float)
        values = np.concatenate([v_cache[at], v[part]])[:, 0].astype(float)
        back = p + np.arange(n)[:, None] - np.arange(p + n)
        scores = q[part, 0] @ keys.T / 4 + rpe[np.where((back >= 0) & (back < most), back, most)]
        weights = np.exp(np.where(back >= 0, scores, -np.inf))
        expected[part, 0] = weights @ values / weights.sum(1, keepdims=True)
    c = np.full((tokens, 1, d), np.nan, "f4")
    shape = AttentionShape(1, 1, d, d, max_seq_len=max(new))
    shapes = (x.shape for x in (q, k, v, k_cache, v_cache, c))
    kernel, subs, dynamic = get_extend_attention_rpe_kernel(
        shape, MMA, *shapes, is_causal=True, max_rpe_context_length=most
    )
    compiled(target, kernel, subs, dynamic)(
        q, k, v, k_cache, v_cache, qo, kv, table, rpe, max(new), c
    )
    check(c, expected, "f2")
