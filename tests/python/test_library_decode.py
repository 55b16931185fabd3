"""The template of paged decode attention: both phases, compared with float64."""

import numpy as np

from library_utils import BF16, check, compiled, draw, heads, on_targets, starts_of
from wave_lang.kernel.wave.constraints import GenericDot, MMAOperand, MMAType
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
    """Tokens are out of order; tokens that no sequence has, and scratch memory, which is for more
    sequences, are NaN."""
    h, hk, d, dv, lengths, splits, dtype, mma, options = case
    rng = np.random.default_rng(2)
    pool, count = sum(lengths) + 7, len(lengths)
    q = draw(rng, dtype, count, h, d)
    k, v = draw(rng, dtype, pool, hk, d), draw(rng, dtype, pool, hk, dv)
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
    compiled(target, phase_0, subs_0, dynamic_0)(q, k, v, ends, table, *scratch)
    compiled(target, phase_1, subs_1, dynamic_1)(*scratch, ends, out)
    check(out, expected, dtype)
