"""Wrong arguments of templates: the error names the argument, and nothing is compiled."""

import numpy as np
import pytest

from wave_lang import LaunchError
from library_utils import compiled
from wave_lang.kernel.wave.constraints import MMAType
from wave_lang.kernel.wave.templates.attention_common import AttentionShape
from wave_lang.kernel.wave.templates.extend_attention import get_extend_attention_kernel
from wave_lang.kernel.wave.templates.paged_decode_attention import (
    get_paged_decode_attention_kernels,
    paged_decode_attention_shape,
)
from wave_lang.kernel.wave.templates.prefill_attention import get_prefill_attention_kernel

MMA = (MMAType.F32_16x16x16_F16, MMAType.F32_16x16x16_F16)
SHAPE = AttentionShape(4, 2, 16, 16, max_seq_len=8)
Q, KV = (9, 4, 16), (9, 2, 16)


def decode(mma=MMA, splits=2, q_heads=4, **more):
    shape = paged_decode_attention_shape(q_heads, 2, 16, 16, 1, 3)
    return get_paged_decode_attention_kernels(shape, mma, splits, **more)


def prefill(shape=SHAPE, mma=MMA, q=Q, k=KV, v=KV, o=Q, **more):
    return get_prefill_attention_kernel(shape, mma, q, k, v, o, **more)


def extend(shape=SHAPE, q=Q, k=KV, v=KV, k_cache=KV, v_cache=KV, o=Q, **more):
    return get_extend_attention_kernel(shape, MMA, q, k, v, k_cache, v_cache, o, **more)


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: decode(q_heads=3), "num_query_heads"),
        (lambda: decode(splits=0), "num_kv_splits"),
        (lambda: decode(mma=MMA * 2), "mfma_variant"),
        (lambda: decode(input_dtype=np.int32), "input_dtype"),
        (lambda: decode(output_dtype="float7"), "float7"),
        (lambda: decode(logit_cap=-1.0), "logit_cap"),
        (lambda: prefill(AttentionShape(4, 0, 16, 16)), "num_kv_heads"),
        (lambda: prefill(q=(9, 4, 15)), "q_shape"),
        (lambda: prefill(k=(9, 4, 16)), "k_shape"),
        (lambda: prefill(v=(2, 16)), "v_shape"),
        (lambda: prefill(o=(9, 4, 17)), "o_shape"),
        (lambda: prefill(size_dtype=np.int8), "size_dtype"),
        (lambda: extend(k_cache=(9, 2, 8)), "k_cache_shape"),
        (lambda: extend(v_cache=(9, 2, 8)), "v_cache_shape"),
        (lambda: extend(logit_cap=float("nan")), "logit_cap"),
        (lambda: extend(use_custom_mask=True, mask_offset_dtype=np.float32), "mask_offset_dtype"),
    ],
)
def test_wrong_arguments(call, name):
    with pytest.raises(ValueError, match=name):
        call()


def test_wrong_tensors():
    """Scratch memory for other splits, a cache with other heads, offsets of another type."""
    phase_0, _, subs, _, dynamic, _ = decode()
    kernel = compiled("eval", phase_0, subs, dynamic)
    q, k, v = np.ones((1, 4, 16), "f2"), np.ones((5, 2, 16), "f2"), np.ones((5, 2, 16), "f2")
    ends, table = np.array([0, 5], "i4"), np.arange(5, dtype="i4")
    parts, sums = np.ones((2, 1, 4, 16), "f4"), np.ones((2, 1, 4), "f4")
    for name, args in (
        ("output", (q, k, v, ends, table, parts[:1], sums)),
        ("`k`", (q, k[:, :1], v, ends, table, parts, sums)),
        ("`v`", (q, k, v[:4], ends, table, parts, sums)),
        ("request_indices", (q, k, v, ends.astype("i8"), table, parts, sums)),
    ):
        with pytest.raises(LaunchError, match=name):
            kernel(*args)
    assert (parts == 1).all() and (sums == 1).all()


def test_wrong_tables():
    """Tokens outside the cache read as 0 and offsets that go back give empty sequences: nothing
    outside the tensors is read."""
    phase_0, phase_1, subs_0, subs_1, dynamic_0, dynamic_1 = decode()
    q, k, v = np.ones((2, 4, 16), "f2"), np.ones((5, 2, 16), "f2"), np.ones((5, 2, 16), "f2")
    ends, table = np.array([2, 0, 4], "i4"), np.array([0, 9, -1, 2**31 - 1], "i4")
    parts, sums = np.ones((2, 2, 4, 16), "f4"), np.ones((2, 2, 4), "f4")
    out = np.ones((2, 4, 16), "f2")
    compiled("sim:sm_90a", phase_0, subs_0, dynamic_0)(q, k, v, ends, table, parts, sums)
    compiled("sim:sm_90a", phase_1, subs_1, dynamic_1)(parts, sums, ends, out)
    assert (out[0] == 0).all() and np.isfinite(out).all()
