"""Templates of attention in two phases, compared with float64."""

import numpy as np
import pytest

from exact_attention import attend, heads
from library_utils import BF16, check, compiled, draw, on_targets, starts_of
from wave_lang.kernel.wave.constraints import GenericDot, MMAOperand, MMAType
from wave_lang.kernel.wave.templates import attention_tiles
from wave_lang.kernel.wave.templates.attention_common import AttentionShape
from wave_lang.kernel.wave.templates.decode_attention import get_decode_attention_kernels
from wave_lang.kernel.wave.templates.gqa_decode_attention import get_gqa_decode_attention_kernels
from wave_lang.kernel.wave.templates.paged_decode_attention import (
    get_paged_decode_attention_kernels,
    get_paged_decode_intermediate_arrays_shapes,
    paged_decode_attention_shape,
)

MMA = (MMAType.F32_16x16x16_F16, MMAType.F32_16x16x16_F16)
DOTS = (
    GenericDot(along_dim=MMAOperand.M, k_vec_size=4, k_mult=1),
    GenericDot(along_dim=MMAOperand.M, k_vec_size=1, k_mult=64),
)

# query heads, key heads, head sizes, lengths, splits, type, instructions, options
CASES = [
    (8, 2, 64, 64, (70, 0, 1, 130), 4, "f2", MMA, {}),
    (2, 2, 40, 24, (5, 3), 8, BF16, DOTS, {"logit_cap": 5.0}),
    (20, 1, 48, 32, (37,), 1, "f2", MMA, {"layer_scaling": 0.3}),
]


@on_targets(CASES)
def test_decode(case, target):
    check_decode(case, target)


def check_decode(case, target, first_columns=False):
    """Tokens are out of order; tokens that no sequence has, and scratch memory, which is for more
    sequences, are NaN. With `first_columns`, values are those of keys. Returns phase 0."""
    h, hk, d, dv, lengths, splits, dtype, mma, options = case
    rng = np.random.default_rng(2)
    pool, count = sum(lengths) + 7, len(lengths)
    q = draw(rng, dtype, count, h, d)
    k = draw(rng, dtype, pool, hk, d)
    v = k[..., :dv] if first_columns else draw(rng, dtype, pool, hk, dv)
    ends, table = starts_of(lengths), rng.permutation(pool).astype("i4")
    expected = np.zeros((count, h, dv))
    for s in range(count):
        at = table[ends[s] : ends[s + 1]]
        more = {"cap": options.get("logit_cap", 0.0), "scale": options.get("layer_scaling")}
        expected[s] = heads(q[s : s + 1], k[at], v[at], **more)[0][0]
    k[table[ends[-1] :]], v[table[ends[-1] :]] = np.nan, np.nan
    shape = paged_decode_attention_shape(h, hk, d, dv, 1, count + 2)
    phase_0, phase_1, subs_0, subs_1, dynamic_0, dynamic_1 = get_paged_decode_attention_kernels(
        shape, mma, splits, input_dtype=np.dtype(dtype), output_dtype=np.dtype(dtype), **options
    )
    shapes = get_paged_decode_intermediate_arrays_shapes(shape, splits)
    scratch = [np.full(s, np.nan, "f4") for s in shapes]
    out = np.full((count, h, dv), np.nan, dtype)
    first = compiled(target, phase_0, subs_0, dynamic_0)
    first(q, k, v, ends, table, *scratch)
    compiled(target, phase_1, subs_1, dynamic_1)(*scratch, ends, out)
    check(out, expected, dtype)
    return first


@pytest.mark.parametrize("target, first_columns", [("cpu", True), ("cpu", False), ("sim:sm_90a", True)])
def test_latent_keys(target, first_columns, monkeypatch):
    """On Hopper a workgroup has all columns of values, and reads those that are the first ones of keys
    once."""
    monkeypatch.setattr(attention_tiles, "target_named", lambda: "sm_90a")
    case = (64, 1, 336, 320, (70, 3), 2, "f2", MMA, {})
    kernel = check_decode(case, target, first_columns)
    if target == "cpu" and first_columns:
        ran = [v.facts for v in kernel.program.variants if v.compiled]
        assert any("first columns" in facts for facts in ran)


def test_few_splits_for_many_sequences():
    """Only as many splits are used as give all compute units work."""
    shape = paged_decode_attention_shape(8, 8, 16, 16, 1, 40)
    phase_0, _, subs, _, dynamic, _ = get_paged_decode_attention_kernels(shape, MMA, 16)
    kernel = compiled("cpu", phase_0, subs, dynamic)
    used = {}
    for count in (1, 4, 20, 40):
        q, k = np.zeros((count, 8, 16), "f2"), np.zeros((count * 64, 8, 16), "f2")
        ends, table = starts_of([64] * count), np.arange(count * 64, dtype="i4")
        parts = [
            np.full(s, np.nan, "f4") for s in get_paged_decode_intermediate_arrays_shapes(shape, 16)
        ]
        kernel(q, k, k, ends, table, *parts)
        written = ~np.isnan(parts[1]).any((1, 2)) if count == 40 else ~np.isnan(parts[1][:, 0, 0])
        used[count] = int(written.sum())
    assert used == {1: 16, 4: 9, 20: 2, 40: 1}


@on_targets([((2, 20, 24, 32, 300), False), ((1, 1, 16, 16, 5), True)])
def test_dense_decode(case, target):
    (b, m, n, k1, k2), dynamic = case
    rng = np.random.default_rng(11)
    q, k, v = (draw(rng, "f2", b, *s) for s in ((m, k1), (k2, k1), (k2, n)))
    made = get_decode_attention_kernels(case[0], MMA[0], dynamic)
    phase_0, phase_1, subs_0, subs_1, dynamic_0, dynamic_1, splits = made
    parts, sums = np.full((splits, b, n, m), np.nan, "f4"), np.full((splits, b, m), np.nan, "f4")
    out = np.full((b, m, n), np.nan, "f4")
    scaled = q * np.float16(k1**-0.5 * 1.4426950408889634)
    turned = v.transpose(0, 2, 1).copy()
    compiled(target, phase_0, subs_0, dynamic_0)(scaled, k, turned, parts, sums)
    compiled(target, phase_1, subs_1, dynamic_1)(parts, sums, out)
    expected = [attend(*x, scale=1 / 1.4426950408889634)[0] for x in zip(scaled, k, v)]
    check(out, np.stack(expected), "f2")


@on_targets([(6, 2, 32, 24, 70, 3), (40, 1, 16, 16, 9, 16)])
def test_gqa_decode(case, target):
    """Some splits have no keys."""
    h, hk, d, dv, keys, splits = case
    rng, b = np.random.default_rng(12), 2
    q = draw(rng, "f2", b, h, d)
    k, v = draw(rng, "f2", b, keys, hk, d), draw(rng, "f2", b, keys, hk, dv)
    shape = AttentionShape(h, hk, d, dv)
    made = get_gqa_decode_attention_kernels(shape, MMA, splits, k.shape, v.shape)
    parts, sums = np.full((splits, b, dv, h), np.nan, "f4"), np.full((splits, b, h), np.nan, "f4")
    out = np.full((b, h, dv), np.nan, "f2")
    compiled(target, made[0], made[2])(q, k, v, parts, sums)
    compiled(target, made[1], made[3])(parts, sums, out)
    expected = [heads(q[n : n + 1], k[n], v[n])[0][0] for n in range(b)]
    check(out, np.stack(expected), "f2")


def test_wrong_arguments():
    with pytest.raises(ValueError, match="shape"):
        get_decode_attention_kernels((1, 2, 3, 4), MMA[0])
    shape = AttentionShape(4, 2, 16, 8)
    for name, k_shape, v_shape in (
        ("k_shape", (1, 9, 2, 8), (1, 9, 2, 8)),
        ("v_shape", (1, 9, 2, 16), (1, 8, 2, 8)),
    ):
        with pytest.raises(ValueError, match=name):
            get_gqa_decode_attention_kernels(shape, MMA, 2, k_shape, v_shape)
