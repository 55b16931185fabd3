"""Matmuls of numbers with scales, compared with float64 and with the same computation in f32."""

import re

import numpy as np
import pytest

from library_utils import ml_dtypes  # isort: skip
from library_utils import BF16, draw, on_targets
from wave_lang import ops
from wave_lang.kernel import lang as tkl
from wave_lang.ops import scaled_kernels as kernels
from wave_lang.ops.programs import program

E4M3, E5M2, F4 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.dtype("f4")
FOUR_BITS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def ceil(size, part):
    return -(-size // part)


def padded(x):
    """The same elements, inside a larger tensor of NaN, or of the lowest integers."""
    nothing = np.nan if x.dtype.kind in "fV" else np.iinfo(x.dtype).min
    room = np.full((x.shape[0] + 3, x.shape[1] + 32), np.float32(nothing)).astype(x.dtype)
    room[2:-1, 16:-16] = x
    return room[2:-1, 16:-16]


def check(found, a, b, bias=None):
    """`found` is a bᵀ + bias, for float64. Its error is at most that of f32 sums in another order,
    and of one rounding of the result."""
    exact = a @ b.T + (0 if bias is None else bias.astype(float))
    most = np.abs(a) @ np.abs(b).T + (0 if bias is None else np.abs(bias.astype(float)))
    last = {"f4": 2**-24, "f2": 2**-11}.get(found.dtype.str[1:], 2**-8) * np.abs(exact)
    plain = np.abs((a.astype("f4") @ b.T.astype("f4")) - a @ b.T).max(initial=0)
    error = np.abs(found.astype(float) - exact)
    assert found.shape == exact.shape and np.isfinite(error).all()
    assert (error <= last + np.maximum(plain, 2**-21 * most)).all(), error.max()


def wide(x, *parts):
    """Each scale as often as there are elements in its block."""
    for dim, part in enumerate(parts):
        x = np.repeat(x, part, dim)
    return x.astype(float)


# m, n, k, the types of a, b and the result, the scales, has it a bias
FP8 = [
    (5, 70, 40, E4M3, E4M3, BF16, "rows", True),
    (1, 130, 300, E4M3, E4M3, F4, "blocks", False),
    (20, 33, 7, E5M2, E4M3, "f2", "one", True),
    (70, 129, 256, E4M3, E5M2, F4, "blocks", True),
    (100, 17, 130, E4M3, E4M3, F4, "row and one", False),
    (300, 40, 128, E4M3, E4M3, BF16, "blocks", False),
    (17, 260, 384, E4M3, E4M3, F4, "blocks", False),
    (261, 130, 300, E4M3, E4M3, BF16, "blocks", True),
    (260, 30, 150, E5M2, E5M2, F4, "rows", True),
    (7, 2, 256, E4M3, E4M3, F4, "blocks", False),  # sb has the shape of scales of rows, too
    (7, 2, 256, E4M3, E4M3, F4, "rows", False),
]


def scales(rng, kind, m, n, k):
    ones = lambda *shape: rng.uniform(0.25, 4, shape).astype("f4")
    if kind == "blocks":  # those of rows in columns for some
        sa = ones(m, ceil(k, 128))
        return np.asfortranarray(sa) if m % 2 else sa, ones(ceil(n, 128), ceil(k, 128))
    if kind == "row and one":
        return ones(m, 1), ones(1)
    return (ones(m, 1), ones(1, n)) if kind == "rows" else (ones(), ones(1, 1))


def in_full(a, b, sa, sb, kind):
    a, b = a.astype(float), b.astype(float)
    if kind != "blocks":
        return a * sa.astype(float), b * sb.T.astype(float)
    return a * wide(sa, 1, 128)[:, : a.shape[1]], b * wide(sb, 128, 128)[: len(b), : a.shape[1]]


@on_targets(FP8)
def test_fp8(case, target):
    m, n, k, a_type, b_type, dtype, kind, has_bias = case
    rng = np.random.default_rng(120)
    a, b = padded(draw(rng, a_type, m, k)), padded(draw(rng, b_type, n, k))
    sa, sb = scales(rng, kind, m, n, k)
    bias = draw(rng, dtype, n) if has_bias else None
    out = np.full((m, 2 * n), np.nan, dtype)[:, n:]  # the second half of rows
    with ops.on_target(target):
        found = ops.gemm_fp8(a, b, sa, sb, bias=bias, out_dtype=np.dtype(dtype), out=out)
        fast = ops.gemm_fp8(a, b, sa, sb, bias=bias, out_dtype=np.dtype(dtype), fast_accum=True)
    assert found is out and np.isnan(out.base[:, :n].astype(float)).all()
    for x in (found, fast):
        check(x, *in_full(a, b, sa, sb, kind), bias)


# m, n, k, the type of the result, the scales, has it a bias
W8A8 = [
    (5, 70, 40, BF16, "rows", True),
    (70, 33, 300, F4, "one", False),
    (1, 9, 5, F4, "rows", False),
    (260, 70, 129, "f2", "row and one", True),
]


@on_targets(W8A8)
def test_w8a8(case, target):
    m, n, k, dtype, kind, has_bias = case
    rng = np.random.default_rng(121)
    a, b = (padded(rng.integers(-128, 128, (rows, k)).astype("i1")) for rows in (m, n))
    sa, sb = (np.asarray(x / 1000, "f4") for x in scales(rng, kind, m, n, k))
    bias = draw(rng, dtype, n) if has_bias else None
    with ops.on_target(target):
        found = ops.gemm_w8a8(a, b, sa, sb, bias=bias, out_dtype=np.dtype(dtype))
    check(found, *in_full(a, b, sa, sb, kind), bias)


def test_sums_of_integers_are_exact():
    a, one = np.full((2, 2048), 127, "i1"), np.ones((), "f4")
    a[1, 0] = 126
    found = ops.gemm_w8a8(a, a, one, one, out_dtype=F4)
    exact = a.astype("i4") @ a.astype("i4").T
    assert np.array_equal(found, exact.astype("f4"))


def four_bits(x):
    """The numbers of bytes that have two each."""
    codes = np.stack([x & 15, x >> 4], -1).reshape(len(x), -1)
    return np.where(codes & 8, -1, 1) * FOUR_BITS[codes & 7]


# m, n, k, the types of a and b, the type of the result, has it a bias
MX = [
    (5, 70, 64, "e2m1", "e2m1", BF16, True),
    (70, 20, 96, "e4m3", "e2m1", F4, False),
    (1, 33, 160, "e4m3", "e5m2", F4, True),
    (260, 17, 32, "e5m2", "e5m2", "f2", False),
    (20, 130, 320, "e2m1", "e4m3", F4, False),
]


@on_targets(MX)
def test_mx(case, target):
    m, n, k, a_type, b_type, dtype, has_bias = case
    rng = np.random.default_rng(122)
    a, sa = ops.quantize_mx(draw(rng, "f4", m, k), a_type)
    b, sb = ops.quantize_mx(draw(rng, "f4", n, k), b_type)
    bias = draw(rng, dtype, n) if has_bias else None
    full = [
        (four_bits(x) if x.dtype == "u1" else x.astype(float))
        * wide(2.0 ** (s.astype(float) - 127), 1, 32)
        for x, s in ((a, sa), (b, sb))
    ]
    with ops.on_target(target):
        found = ops.gemm_mx(a, sa, b, sb, bias=bias, out_dtype=np.dtype(dtype))
        sa = sa.view(ml_dtypes.float8_e8m0fnu)
        same = ops.gemm_mx(a, sa, b, sb, bias=bias, out_dtype=np.dtype(dtype))
    check(found, *full, bias)
    assert np.array_equal(found, same)


def test_scale_of_nan():
    q, scale = ops.quantize_mx(np.ones((3, 64), "f4"))
    scale[1, 0] = 255
    found = ops.gemm_mx(q, scale, q[:2], scale[[0, 2]], out_dtype=F4)
    assert np.array_equal(np.isnan(found), [[0, 0], [1, 1], [0, 0]]) and found[0, 0] == 64


# m, n, k, group, the types of a and of scales, has it zeros, has it a bias
W4A16 = [
    (5, 70, 1088, 64, BF16, F4, True, True),
    (1, 33, 70, 32, "f2", "f2", False, False),
    (40, 130, 1280, 160, "f2", "f2", True, False),
    (70, 20, 300, 128, BF16, BF16, False, True),
    (260, 33, 192, 96, "f2", F4, True, True),
    (17, 9, 2048, 128, BF16, BF16, True, True),
    (9, 35, 2208, 32, BF16, F4, True, False),  # on Hopper, 16 waves take two iterations each
    (2, 4230, 320, 32, "f2", "f2", False, True),  # ... and 8, since there are many workgroups
]


@on_targets(W4A16)
def test_w4a16(case, target):
    m, n, k, group, dtype, scale_type, has_zeros, has_bias = case
    rng, groups = np.random.default_rng(123), ceil(k, group)
    a, b = padded(draw(rng, dtype, m, k)), rng.integers(0, 256, (n, k // 2)).astype("u1")
    scale = rng.uniform(0.25, 4, (n, groups)).astype(scale_type)
    zeros = rng.integers(0, 16, (n, groups)).astype(dtype) if has_zeros else None
    bias = draw(rng, dtype, n) if has_bias else None
    out = np.full((m, 2 * n), np.nan, dtype)[:, n:]  # the second half of rows
    with ops.on_target(target):
        found = ops.gemm_w4a16(a, padded(b), scale, zeros, group, bias=bias, out=out)
    assert found is out and np.isnan(out.base[:, :n].astype(float)).all()
    zero = wide(zeros, 1, group)[:, :k] if has_zeros else 8.0
    weight = np.stack([b & 15, b >> 4], -1).reshape(n, k) - zero
    check(found, a.astype(float), weight * wide(scale, 1, group)[:, :k], bias)


def test_zeros_between_integers():
    """Weights less their zeros are rounded to the type of a."""
    b, zeros = np.arange(16, dtype="u1")[None], np.full((1, 1), 7.3, "f2")
    a, scale = np.eye(32, dtype="f2"), np.full((1, 1), 0.5, "f2")
    exact = np.stack([np.arange(16) & 15, np.arange(16) >> 4], -1).ravel() - float(zeros[0, 0])
    found = ops.gemm_w4a16(a, b, scale, zeros, 32)[:, 0]
    assert np.abs(found - 0.5 * exact).max() <= 2**-9 * 4


F8, HALF = (tkl.f8e4m3fn, tkl.f8e4m3fn), (tkl.bf16, tkl.bf16)
# What makes a kernel, with which arguments, and its instruction on sm_90a.
HOPPER = [
    (kernels.by_rows, (F8, tkl.bf16, (False, False), True, False, 0), "m64n128k32.f32.e4m3.e4m3"),
    (kernels.by_blocks, (F8, tkl.bf16, False, False, 0), "m64n128k32.f32.e4m3.e4m3"),
    (kernels.by_rows, ((tkl.i8,) * 2, tkl.bf16, (True, True), False, False, 0), "k32.s32.s8.s8"),
]


@pytest.mark.parametrize("turned", [False, True])
def test_scales_of_blocks_are_loaded_during_products(turned):
    """Three groups of waves have two sets of sums each, and wait for scales and products together.
    Those of a row of blocks, if they are contiguous, come with the tiles."""
    with ops.on_target("sm_90a"):
        text = program(kernels.by_blocks, F8, tkl.bf16, turned, False, 0, 4096, 4096).ptx
    assert ".maxntid 512" in text and "setmaxnreg.inc.sync.aligned.u32 160" in text
    loop = text[: text.index("wgmma.wait_group")].rpartition("\n$loop")[2]
    assert loop.count("ld.global") == (1 if turned else 3)
    assert loop.rindex("wgmma.commit") < loop.index("ld.global")
    assert text.count("cp.async.bulk.tensor") == (5 if turned else 4)


@pytest.mark.parametrize("make, key, instruction", HOPPER)
def test_copies_and_products_of_hopper(make, key, instruction):
    """Tiles are copied by TMA: if there are many rows, by waves that only copy."""
    with ops.on_target("sm_90a"):
        text = program(make, *key, 4096, 4096).ptx
    assert re.search(rf"wgmma\.mma_async\.sync\.aligned\.\w*{instruction}", text)
    assert "cp.async.bulk.tensor" in text and "cp.async.ca" not in text and "setmaxnreg" in text


@pytest.mark.parametrize("most, n, splits", [(64, 4096, 2), (64, 8192, 1), (256, 4096, 1)])
def test_groups_of_hopper(most, n, splits):
    """Few tiles: the workgroups of a cluster share the sums. Many rows: waves that only copy."""
    with ops.on_target("sm_90a"):
        form = kernels.groups_form(most, n, 4096, 128)
        text = program(kernels.by_groups, *HALF, True, False, n, 4096, 128, form).ptx
    assert form.splits == splits and ("st.async" in text) == (splits > 1)
    assert "wgmma.mma_async.sync.aligned.m64n" in text
    assert "cp.async.bulk.tensor" in text and "cp.async.ca" not in text
    assert ("setmaxnreg" in text) == (most == 256)
    assert splits == 1 or ("acquire.cluster" not in text and "atom." not in text)


@pytest.mark.parametrize("most", [8, 16])
def test_few_rows_of_hopper(most):
    """Each wave loads its part of the weights, 16 bytes at a time, before it waits for any of them."""
    with ops.on_target("sm_90a"):
        text = program(kernels.by_waves, *HALF, True, False, most, 4096, 4096, 128).ptx
    loads, _, products = text.partition("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
    assert products and ".maxntid 512," in text and "ld.global.u8" not in text
    before = loads.partition("bar.sync")[0]
    assert before.count("ld.global.v4.b32") == 8 and before.count("ld.global.b16") == 16


def test_nothing_to_add():
    one, bias = np.ones((), "f4"), np.arange(4, dtype="f4")
    for call, dtype in ((ops.gemm_fp8, E4M3), (ops.gemm_w8a8, "i1")):
        a, b = np.ones((3, 0), dtype), np.ones((4, 0), dtype)
        assert np.array_equal(call(a, b, one, one, out_dtype=F4), np.zeros((3, 4)))
        assert np.array_equal(call(a, b, one, one, out_dtype=F4, bias=bias)[2], bias)
        assert call(a[:0], b, one, one).shape == (0, 4)
        assert call(np.ones((2, 5), dtype), np.ones((0, 5), dtype), one, one).shape == (2, 0)
    a, b, none = np.ones((3, 0), "f2"), np.ones((4, 0), "u1"), np.ones((4, 0), "f2")
    assert np.array_equal(ops.gemm_w4a16(a, b, none, bias=bias.astype("f2"))[1], bias)
    assert ops.gemm_w4a16(a[:0], b, none).shape == (0, 4)
    empty = np.ones((2, 0), "u1")
    assert np.array_equal(ops.gemm_mx(empty, empty, empty, empty, out_dtype=F4), np.zeros((2, 2)))
    assert ops.gemm_mx(empty[:0], empty[:0], empty, empty).shape == (0, 2)


A8, B8 = np.ones((3, 256), E4M3), np.ones((200, 256), E4M3)
AI, BI = np.ones((3, 40), "i1"), np.ones((5, 40), "i1")
ONE, RA, RB = np.ones((), "f4"), np.ones((3, 1), "f4"), np.ones((1, 200), "f4")
GA, GB = np.ones((3, 2), "f4"), np.ones((2, 2), "f4")
MA, MS = np.ones((3, 32), "u1"), np.ones((3, 2), "u1")
A4, B4, S4 = np.ones((3, 128), "f2"), np.ones((5, 64), "u1"), np.ones((5, 1), "f2")
BAD = [
    (lambda: ops.gemm_w4a16(A4.astype("f4"), B4, S4), TypeError, "`a`"),
    (lambda: ops.gemm_w4a16(A4[:, :64], B4, S4), ValueError, "`a`"),
    (lambda: ops.gemm_w4a16(A4, B4.view("i1"), S4), TypeError, "`b_packed`"),
    (lambda: ops.gemm_w4a16(A4, B4[0], S4), ValueError, "`b_packed`"),
    (lambda: ops.gemm_w4a16(A4, B4, S4.astype(BF16)), TypeError, "`scales`"),
    (lambda: ops.gemm_w4a16(A4, B4, S4, group=64), ValueError, "`scales`"),
    (lambda: ops.gemm_w4a16(A4, B4, S4, S4[:4]), ValueError, "`zeros`"),
    (lambda: ops.gemm_w4a16(A4, B4, S4, S4.astype("f4")), TypeError, "`zeros`"),
    (lambda: ops.gemm_w4a16(A4, B4, S4, group=48), ValueError, "`group`"),
    (lambda: ops.gemm_w4a16(A4, B4, S4, bias=S4), ValueError, "`bias`"),
    (lambda: ops.gemm_fp8([1], B8, ONE, ONE), TypeError, "`a`"),
    (lambda: ops.gemm_fp8(A8.astype("f4"), B8, ONE, ONE), TypeError, "`a`"),
    (lambda: ops.gemm_fp8(A8, B8.astype("f2"), ONE, ONE), TypeError, "`b`"),
    (lambda: ops.gemm_fp8(A8[0], B8, ONE, ONE), ValueError, "`a`"),
    (lambda: ops.gemm_fp8(A8, B8.T, ONE, ONE), ValueError, "`b`"),
    (lambda: ops.gemm_fp8(A8, B8, 1.0, ONE), TypeError, "`sa`"),
    (lambda: ops.gemm_fp8(A8, B8, ONE.astype("f8"), ONE), TypeError, "`sa`"),
    (lambda: ops.gemm_fp8(A8, B8, RA[:2], RB), ValueError, "`sa`"),
    (lambda: ops.gemm_fp8(A8, B8, RA, RB[:, :7]), ValueError, "`sb`"),
    (lambda: ops.gemm_fp8(A8, B8, RA, RB.T), ValueError, "`sb`"),
    (lambda: ops.gemm_fp8(A8, B8, RA, GB), ValueError, "`sa`"),
    (lambda: ops.gemm_fp8(A8, B8, GA, GB[:1]), ValueError, "`sa`"),
    (lambda: ops.gemm_fp8(A8, B8, ONE, ONE, bias=np.ones(200, "f4")), TypeError, "`bias`"),
    (lambda: ops.gemm_fp8(A8, B8, ONE, ONE, bias=np.ones(3, BF16)), ValueError, "`bias`"),
    (lambda: ops.gemm_fp8(A8, B8, ONE, ONE, out_dtype=E4M3), TypeError, "`out_dtype`"),
    (lambda: ops.gemm_fp8(A8, B8, ONE, ONE, out=np.ones((3, 200), "f4")), TypeError, "`out`"),
    (lambda: ops.gemm_w8a8(AI.astype("u1"), BI, ONE, ONE), TypeError, "`a`"),
    (lambda: ops.gemm_w8a8(AI, BI, np.ones((3, 2), "f4"), ONE), ValueError, "`sa`"),
    (lambda: ops.gemm_w8a8(AI, BI[:, :3], ONE, ONE), ValueError, "`b`"),
    (lambda: ops.gemm_mx(MA[:, :9], MS, MA, MS), ValueError, "`a`"),
    (lambda: ops.gemm_mx(MA, MS, A8, MS), ValueError, "`b`"),
    (lambda: ops.gemm_mx(MA, MS[:2], MA, MS), ValueError, "`sa`"),
    (lambda: ops.gemm_mx(MA, MS, MA, MS.astype("f4")), TypeError, "`sb`"),
]


@pytest.mark.parametrize("call, kind, word", BAD)
def test_mistakes(call, kind, word):
    with pytest.raises(kind, match=word):
        call()
