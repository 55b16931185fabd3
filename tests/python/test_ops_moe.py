"""Ops of layers with experts, compared with NumPy."""

import numpy as np
import pytest

from library_utils import ml_dtypes  # isort: skip
from library_utils import BF16, check, draw, on_targets
from wave_lang import ops

# tokens, experts, k, type, options
GATES = [
    (5, 24, 4, "f2", {}),
    (3, 130, 8, "f4", {"scoring": "sigmoid", "renormalize": True, "scale": 2.5, "bias": True}),
    (2, 3, 3, BF16, {"renormalize": True}),
    (1, 1, 1, "f4", {"scoring": "sigmoid"}),
    (3, 12, 3, "f4", {"bias": True}),
    (6, 32, 5, BF16, {"groups": 4, "topk_groups": 2}),
    (4, 64, 6, "f4", {"scoring": "sigmoid", "groups": 8, "topk_groups": 3, "bias": True}),
    (3, 6, 2, "f2", {"groups": 6, "topk_groups": 2, "bias": True}),
]


def best_groups(ranked, groups, topk, bias):
    """The ranks of experts in the best groups, and -inf for the others."""
    each = np.sort(ranked.reshape(len(ranked), groups, -1), 2)
    total = each[..., -2:].sum(2) if bias else each[..., -1]
    best = np.argsort(-total, 1, kind="stable")[:, :topk]
    kept = np.zeros((len(ranked), groups), bool)
    np.put_along_axis(kept, best, True, 1)
    return np.where(kept.repeat(ranked.shape[1] // groups, 1), ranked, -np.inf)


@on_targets(GATES)
def test_topk_gate(case, target):
    tokens, experts, k, dtype, given = case
    options = {name: value for name, value in given.items() if name != "bias"}
    rng = np.random.default_rng(40)
    logits = draw(rng, dtype, tokens, experts)
    logits[0] = logits[0, 0]  # of equal ones, the first
    bias = draw(rng, "f4", experts) if "bias" in given else None
    with ops.on_target(target):
        weights, ids = ops.topk_gate(logits, k, correction_bias=bias, **options)
    x = logits.astype(float)
    e = np.exp(x - x.max(1, keepdims=True))
    score = 1 / (1 + np.exp(-x)) if "scoring" in options else e / e.sum(1, keepdims=True)
    ranked = score if bias is None else score + bias
    if "groups" in options:
        ranked = best_groups(ranked, options["groups"], options["topk_groups"], bias is not None)
    chosen = np.argsort(-ranked, 1, kind="stable")[:, :k]
    wanted = np.take_along_axis(score, chosen, 1)
    wanted = wanted / wanted.sum(1, keepdims=True) if options.get("renormalize") else wanted
    assert ids.dtype == np.int32 and np.array_equal(ids, chosen)
    np.testing.assert_allclose(weights, wanted * options.get("scale", 1.0), rtol=2e-6)


@on_targets([0])
def test_experts_outside_the_best_groups_are_never_chosen(case, target):
    """Even before one that a bias excludes."""
    bias = np.array([0, 0, 0, 5, 5, -np.inf], "f4")
    with ops.on_target(target):
        _, ids = ops.topk_gate(
            np.zeros((1, 6), "f4"), 3, bias, scoring="sigmoid", groups=2, topk_groups=1
        )
    assert ids.tolist() == [[3, 4, 5]]


# shape of ids, experts, block
ALIGNED = [
    ((40, 3), 6, 16),
    ((1, 1), 4, 8),
    ((700, 2), 3, 5),
    ((0, 2), 3, 4),
    ((1031, 1), 130, 64),  # several chunks
    ((65, 8), 600, 1),
    ((66000, 1), 5, 128),  # chunks of several tiles
]


@on_targets(ALIGNED)
def test_moe_align(case, target):
    """Some experts have no tokens, and some tokens no expert."""
    shape, experts, block = case
    ids = np.random.default_rng(41).integers(-1, max(experts - 1, 1), shape).astype("i4")
    ids[:1] = experts if ids.size > 1 else 0
    with ops.on_target(target):
        slots, expert_ids, total = ops.moe_align(ids, experts, block)
    wanted, owners = [], []
    for e in range(experts):
        mine = np.flatnonzero(ids.ravel() == e).tolist()
        mine += [ids.size] * (-len(mine) % block)
        wanted += mine
        owners += [e] * (len(mine) // block)
    assert total[0] == len(wanted) and slots[: len(wanted)].tolist() == wanted
    assert expert_ids[: len(owners)].tolist() == owners
    assert (slots[len(wanted) :] == ids.size).all() and (expert_ids[len(owners) :] == -1).all()


@on_targets([((50, 3), 6, 16), ((700, 1), 3, 7), ((0, 2), 3, 4)])
def test_moe_align_block_size(case, target):
    """Ids of -1 come first, in blocks of the expert -1."""
    shape, experts, block = case
    ids = np.random.default_rng(45).integers(-1, experts, shape).astype("i4")
    most = ids.size + (experts + 1) * (block - 1)
    slots, owners, total = (np.full(n, -7, "i4") for n in (most, -(-most // block), 1))
    with ops.on_target(target):
        ops.moe_align_block_size(ids, experts + 1, block, slots, owners, total, np.zeros(1, "i4"))
    wanted, blocks = [], []
    for e in range(-1, experts):
        mine = np.flatnonzero(ids.ravel() == e).tolist()
        wanted += mine + [ids.size] * (-len(mine) % block)
        blocks += [e] * -(-len(mine) // block)
    assert total[0] == len(wanted) and slots.tolist() == wanted + [ids.size] * (most - len(wanted))
    assert owners.tolist() == blocks + [-1] * (len(owners) - len(blocks))


# tokens, experts, top, K, N, type
LAYERS = [
    (5, 4, 2, 48, 40, "f2"),
    (70, 2, 2, 32, 16, BF16),
    (1, 3, 1, 16, 16, "f4"),
    (70, 7, 2, 24, 150, "f2"),
    (130, 2, 2, 136, 72, BF16),  # tiles of 128 x 256 on Hopper
    (520, 1, 2, 72, 40, "f2"),  # rows are put in order, and have tiles of 256 x 128
    (40, 3, 3, 17, 9, "f4"),
]


@on_targets(LAYERS)
def test_fused_experts(case, target):
    tokens, experts, top, size, inner, dtype = case
    rng = np.random.default_rng(42)
    x = draw(rng, dtype, tokens, size)
    w1 = draw(rng, dtype, experts, 2 * inner, size, scale=size**-0.5)
    w2 = draw(rng, dtype, experts, size, inner, scale=inner**-0.5)
    weights = rng.random((tokens, top)).astype("f4")
    ids = rng.integers(0, experts, (tokens, top)).astype("i4")
    ids[0, 0] = -1  # no expert
    with ops.on_target(target):
        y = ops.fused_experts(x, w1, w2, weights, ids)
    wanted = np.zeros((tokens, size))
    for t, j in np.ndindex(tokens, top):
        if ids[t, j] >= 0:
            hidden = w1[ids[t, j]].astype(float) @ x[t].astype(float)
            gate, up = np.split(hidden, 2)
            active = gate / (1 + np.exp(-gate)) * up
            wanted[t] += weights[t, j] * (w2[ids[t, j]].astype(float) @ active)
    check(y, wanted, dtype, 2.0 if dtype != "f4" else 16.0)


def quantized(w):
    """8-bit floats, with a scale for each 128 x 128 of them, and what they mean."""
    e, n, k = w.shape
    blocks = w.reshape(e, n // 128, 128, k // 128, 128)
    scale = np.abs(blocks).max((2, 4)) / 448
    wide = scale[:, :, None, :, None]
    q = (blocks / wide).astype(ml_dtypes.float8_e4m3fn)
    return q.reshape(w.shape), scale.astype("f4"), (q.astype(float) * wide).reshape(w.shape)


def rounded(x):
    """Rows as they are after quantisation by 128 elements."""
    q, scale = ops.quantize_fp8(x, "group")
    return (q.astype(float).reshape(*scale.shape, 128) * scale[..., None]).reshape(x.shape)


# tokens, experts, top, K, N, type
QUANTIZED = [(5, 3, 2, 256, 128, BF16), (40, 2, 2, 128, 256, "f2"), (130, 2, 2, 256, 128, BF16)]


@on_targets(QUANTIZED)
def test_fused_experts_of_blocks(case, target):
    tokens, experts, top, size, inner, dtype = case
    rng = np.random.default_rng(44)
    x = draw(rng, dtype, tokens, size)
    w1, s1, real1 = quantized(rng.standard_normal((experts, 2 * inner, size)) * size**-0.5)
    w2, s2, real2 = quantized(rng.standard_normal((experts, size, inner)) * inner**-0.5)
    weights = rng.random((tokens, top)).astype("f4")
    ids = rng.integers(0, experts, (tokens, top)).astype("i4")
    ids[0, 0] = experts  # no expert
    with ops.on_target(target):
        y = ops.fused_experts(x, w1, w2, weights, ids, w1_scale=s1, w2_scale=s2, quant="fp8_block")
    wanted, given = np.zeros((tokens, size)), rounded(x)
    for t, j in np.ndindex(tokens, top):
        if ids[t, j] < experts:
            gate, up = np.split(real1[ids[t, j]] @ given[t], 2)
            active = (gate / (1 + np.exp(-gate)) * up).astype(dtype)
            wanted[t] += weights[t, j] * (real2[ids[t, j]] @ rounded(active[None])[0])
    # If a sum is rounded differently, an activation may become its other neighbour, a 16th away. Hopper
    # aligns products to the largest and truncates them to 13 fraction bits before it adds them: an H200
    # is off by 1.9 % of the largest result, a CPU by 0.5 %. Emulating the truncation gives the same 1.9 %.
    check(y, wanted, BF16, 2.0)


# lengths of groups, rows, K, N, type, trans
GROUPS = [
    ((70, 0, 1, 33), 110, 40, 50, "f2", True),
    ((0, 64, 3), 67, 32, 16, BF16, False),
    ((0, 0), 5, 16, 16, "f4", True),
    ((130, 129, 0, 200), 460, 72, 264, "f2", True),  # tiles of 128 x 256 on Hopper
]


@on_targets(GROUPS)
def test_grouped_gemm(case, target):
    """Rows that no group has stay as they are."""
    lengths, rows, k, n, dtype, trans = case
    rng = np.random.default_rng(43)
    a, w = draw(rng, dtype, rows, k), draw(rng, dtype, len(lengths), k, n)
    offs = np.cumsum(lengths).astype("i4")
    wanted = np.full((rows, n), np.nan)
    for e, end in enumerate(offs):
        part = slice(end - lengths[e], end)
        wanted[part] = a[part].astype(float) @ w[e].astype(float)
    a[offs[-1] :] = np.nan
    out = np.full((rows, n), np.nan, "f4")
    given = w.swapaxes(1, 2).copy() if trans else w
    with ops.on_target(target):
        assert ops.grouped_gemm(a, given, offs, trans=trans, out_dtype=np.float32, out=out) is out
    check(out, wanted, "f4")


def test_nothing_to_do():
    empty, w, offs = np.ones((0, 8), "f4"), np.ones((2, 8, 4), "f4"), np.ones(2, "i4")
    assert ops.grouped_gemm(empty, w, offs).shape == (0, 4)
    none = np.ones((0, 8), "f4")
    assert ops.topk_gate(none, 2)[1].shape == (0, 2)
    w1, w2 = np.ones((2, 8, 8), "f4"), np.ones((2, 8, 4), "f4")
    ids = np.ones((0, 2), "i4")
    assert ops.fused_experts(none, w1, w2, ids.astype("f4"), ids).shape == (0, 8)
    one = np.zeros((1, 2), "i4")
    y = ops.fused_experts(np.ones((1, 8), "f4"), w1[:0], w2[:0], one.astype("f4"), one)
    assert not y.any()


def test_wrong_arguments():
    x, w1, w2 = np.ones((3, 8), "f4"), np.ones((2, 8, 8), "f4"), np.ones((2, 8, 4), "f4")
    ids, weights = np.ones((3, 2), "i4"), np.ones((3, 2), "f4")
    fused, align, flat = ops.fused_experts, ops.moe_align_block_size, np.zeros(6, "i4")
    for kind, name, run in (
        (ValueError, "`k`", lambda: ops.topk_gate(x, 9)),
        (ValueError, "`scoring`", lambda: ops.topk_gate(x, 2, scoring="tanh")),
        (ValueError, "`topk_groups`", lambda: ops.topk_gate(x, 2, groups=4)),
        (ValueError, "`groups`", lambda: ops.topk_gate(x, 2, topk_groups=4)),
        (ValueError, "`groups`", lambda: ops.topk_gate(x, 2, groups=3, topk_groups=1)),
        (ValueError, "`topk_groups`", lambda: ops.topk_gate(x, 2, groups=4, topk_groups=5)),
        (ValueError, "`k`", lambda: ops.topk_gate(x, 3, groups=4, topk_groups=1)),
        (ValueError, "`correction_bias`", lambda: ops.topk_gate(x, 2, correction_bias=x[0, :7])),
        (TypeError, "`ids`", lambda: ops.moe_align(weights, 2, 16)),
        (ValueError, "`block`", lambda: ops.moe_align(ids, 2, 0)),
        (ValueError, "`experts_ids`", lambda: align(ids, 3, 4, flat[:4], flat[2:], flat[5:], flat)),
        (TypeError, "`sorted_token_ids`", lambda: align(ids, 3, 4, x[0], flat, flat[5:], flat)),
        (ValueError, "`num_experts`", lambda: align(ids, 0, 4, flat, flat, flat, flat)),
        (ValueError, "`w2`", lambda: ops.fused_experts(x, w1, w2[:, :, :3], weights, ids)),
        (ValueError, "`weights`", lambda: ops.fused_experts(x, w1, w2, weights[:2], ids)),
        (ValueError, "`activation`", lambda: fused(x, w1, w2, weights, ids, activation="x")),
        (ValueError, "`out`", lambda: ops.fused_experts(x, w1, w2, weights, ids, out=x)),
        (ValueError, "`quant`", lambda: fused(x, w1, w2, weights, ids, quant="fp7")),
        (ValueError, "`w1_scale`", lambda: fused(x, w1, w2, weights, ids, w1_scale=x)),
        (TypeError, "`w1`", lambda: fused(x, w1, w2, weights, ids, quant="fp8_block")),
        (ValueError, "`a`", lambda: ops.grouped_gemm(x[:, :7], w1, ids[:2, 0])),
        (ValueError, "`offs`", lambda: ops.grouped_gemm(x, w1, ids[:1, 0])),
        (TypeError, "`out_dtype`", lambda: ops.grouped_gemm(x, w1, ids[:2, 0], out_dtype=np.int8)),
    ):
        with pytest.raises(kind, match=name):
            run()
