"""Attention with ALiBi, a bias or a mask, and its gradients, compared with float64."""

import numpy as np
import pytest

from exact_attention import attend
from library_utils import BF16, draw, on_targets, starts_of
from test_ops_attention import Pages, compare
from test_ops_attention_gradients import gradients, near
from wave_lang import ops


def slopes_of(heads):
    return (2.0 ** -np.arange(1, heads + 1)).astype("f4")


def behind(slopes, rows, keys):
    """What ALiBi adds to scores [H, rows, keys]."""
    i, j = np.arange(rows)[:, None] + keys - rows, np.arange(keys)
    return -slopes[:, None, None].astype(float) * np.abs(i - j)


def expected(q, k, v, added=0.0, mask=True, causal=False, scale=None, softcap=0.0, **_):
    """(o, lse) of one sequence."""
    i, j = np.arange(len(q))[:, None] + len(k) - len(q), np.arange(len(k))
    group, every = q.shape[1] // k.shape[1], []
    shape = (q.shape[1], len(q), len(k))
    added = np.broadcast_to(added, shape)
    seen = np.broadcast_to(mask & ((j <= i) | (not causal)), shape)
    for h in range(q.shape[1]):
        s = q[:, h].astype(float) @ k[:, h // group].astype(float).T
        s = s * (q.shape[-1] ** -0.5 if scale is None else scale)
        s = (softcap * np.tanh(s / softcap) if softcap else s) + added[h]
        every.append(attend(s, np.eye(len(k)), v[:, h // group], seen[h], scale=1.0))
    return [np.stack(x, 1) for x in zip(*every)]


# B, queries, keys, H, Hk, D, type, shape of a bias and of a mask (None: not given), options
DENSE = [
    (2, 20, 40, 4, 2, 16, "f2", (2, 4, 20, 40), (2, 1, 20, 40), {"layout": "bhsd"}),
    (1, 70, 33, 2, 1, 24, BF16, (1, 2, 1, 33), None, {"causal": True, "softcap": 3.0}),
    (2, 1, 70, 4, 1, 16, "f4", (1, 1, 1, 70), (2, 4, 1, 1), {"causal": True}),
]


@on_targets(DENSE)
def test_dense(case, target):
    """Biases and masks repeated over dimensions; a row that sees no key."""
    b, rows, keys, h, hk, d, dtype, bias_shape, mask_shape, options = case
    rng = np.random.default_rng(100)
    q, do = draw(rng, dtype, b, rows, h, d), draw(rng, dtype, b, rows, h, d)
    k, v = draw(rng, dtype, b, keys, hk, d), draw(rng, dtype, b, keys, hk, d)
    alibi = slopes_of(h) if h == 4 else None
    whole = (b, h, rows, keys)
    bias = draw(rng, dtype if hk == 2 else "f4", *bias_shape) if bias_shape else None
    mask = rng.random(mask_shape) > 0.4 if mask_shape else None
    if mask is not None:
        mask[0, 0, 0] = False
    added = np.zeros(whole) + (0 if bias is None else bias.astype(float))
    added = added + (0 if alibi is None else behind(alibi, rows, keys))
    seen = np.broadcast_to(True if mask is None else mask, whole)
    wanted = [
        expected(q[s], k[s], v[s], added=added[s], mask=seen[s], **options) for s in range(b)
    ]
    order = (lambda x: x.swapaxes(1, 2)) if "layout" in options else (lambda x: x)
    more = {"alibi": alibi, "bias": bias, "mask": mask, **options}
    with ops.on_target(target):
        given = [order(x) for x in (q, k, v)]
        o, lse = ops.attention(*given, return_lse=True, **more)
        found = ops.attention_backward(order(do), *given, o, lse, of_bias=True, **more)
    compare([order(x) for x in (o, lse)], [np.stack(x) for x in zip(*wanted)], dtype)
    none = np.zeros((rows, h))
    each = [
        gradients(q[s], k[s], v[s], do[s], none, added=added[s], mask=seen[s], **options)
        for s in range(b)
    ]
    wanted = [np.stack(x) for x in zip(*each)]
    found = [*(order(x) for x in found[:3]), found[4]]
    near(found, wanted[:3] + wanted[4:], dtype)


@on_targets([("f2", (20, 0, 1), (33, 4, 9)), (BF16, (70,), (70,))])
def test_packed_sequences_with_alibi(case, target):
    dtype, q_len, k_len = case
    rng, h, hk, d = np.random.default_rng(101), 4, 2, 16
    q, do = draw(rng, dtype, sum(q_len), h, d), draw(rng, dtype, sum(q_len), h, d)
    k, v = draw(rng, dtype, sum(k_len), hk, d), draw(rng, dtype, sum(k_len), hk, d)
    cu_q, cu_k, alibi = starts_of(q_len), starts_of(k_len), slopes_of(h)
    ends, more = (cu_q, cu_k, max(q_len), max(k_len)), {"causal": True, "alibi": alibi}
    with ops.on_target(target):
        found = ops.attention_varlen(q, k, v, *ends, **more)
        grads = ops.attention_varlen_backward(do, q, k, v, *found, *ends, **more)
    for s in range(len(q_len)):
        rows, keys = slice(cu_q[s], cu_q[s + 1]), slice(cu_k[s], cu_k[s + 1])
        mine, added = (q[rows], k[keys], v[keys]), behind(alibi, q_len[s], k_len[s])
        compare([x[rows] for x in found], expected(*mine, added=added, causal=True), dtype)
        none = np.zeros((q_len[s], h))
        wanted = gradients(*mine, do[rows], none, added=added, causal=True)
        near([grads[0][rows], grads[1][keys], grads[2][keys]], wanted[:3], dtype)


@on_targets([(3,), (1,)])
def test_pages_and_prefixes_with_alibi(case, target):
    """Two splits of keys in pages; and the same keys in a prefix and in new tokens."""
    alibi = slopes_of(4)
    data = Pages((1, 2), (70, 9), 4, 2, 32, 32, case[0], "f2", "f2")
    with ops.on_target(target):
        found = ops.attention_paged(*data.arguments(), causal=True, alibi=alibi, splits=2)
        for s, (k, v) in enumerate(data.keys):
            rows = slice(data.starts[s], data.starts[s + 1])
            added = behind(alibi, rows.stop - rows.start, len(k))
            wanted = expected(data.q[rows], k, v, added=added, causal=True)
            compare([x[rows] for x in found], wanted, "f2")
            new = rows.stop - rows.start
            extended = ops.attention_extend(
                *(data.q[rows], k[-new:], v[-new:], k, v, np.array([0, new], "i4")),
                *(np.array([0, len(k) - new], "i4"), np.arange(len(k), dtype="i4"), new),
                alibi=alibi,
            )
            compare(extended, wanted, "f2")


def test_a_tree_of_drafts():
    """A mask of bytes over a tree: each token sees its ancestors."""
    parents = [-1, 0, 0, 1, 2]
    tree = np.eye(5, dtype="u1")
    for t, parent in enumerate(parents):
        if parent >= 0:
            tree[t] |= tree[parent]
    rng = np.random.default_rng(102)
    q, k, v = (draw(rng, "f2", 1, 5, 2, 16) for _ in range(3))
    path = [0, 2, 4]
    with ops.on_target("sim:gfx942"):
        found = ops.attention(q, k, v, mask=tree[None, None])
        alone = ops.attention(q[:, path], k[:, path], v[:, path], causal=True)
    np.testing.assert_allclose(found[0, 4].astype(float), alone[0, -1].astype(float), atol=2e-3)


def test_wrong_arguments():
    q, k, lse = np.ones((2, 3, 4, 8), "f2"), np.ones((2, 5, 2, 8), "f2"), np.ones((2, 3, 4), "f4")
    bias, mask = np.ones((2, 4, 3, 5), "f2"), np.ones((2, 4, 3, 5), bool)
    call = lambda **more: ops.attention(q, k, k, **more)
    back = lambda **more: ops.attention_backward(q, q, k, k, q, lse, **more)
    for kind, name, run in (
        (ValueError, "`alibi`", lambda: call(alibi=np.ones(2, "f4"))),
        (TypeError, "`alibi`", lambda: call(alibi=np.ones(4, "f2"))),
        (ValueError, "`bias`", lambda: call(bias=bias[0])),
        (ValueError, "`bias`", lambda: call(bias=bias[:, :2])),
        (TypeError, "`bias`", lambda: call(bias=bias.astype("i4"))),
        (ValueError, "`mask`", lambda: call(mask=mask[..., :4])),
        (TypeError, "`mask`", lambda: call(mask=bias)),
        (TypeError, "`mask`", lambda: call(mask=3)),
        (ValueError, "`bias`", lambda: back(bias=bias[..., :2])),
        (ValueError, "`dbias`", lambda: back(of_bias=True, dbias=np.ones((2, 4, 3, 4), "f4"))),
        (TypeError, "`bias`", lambda: ops.attention_varlen(*[q[0]] * 3, lse, lse, 3, 3, bias=bias)),
    ):
        with pytest.raises(kind, match=name):
            run()
