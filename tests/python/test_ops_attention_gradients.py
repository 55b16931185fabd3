"""Gradients of attention, compared with float64."""

import numpy as np
import pytest

from library_utils import BF16, draw, on_targets, starts_of
from wave_lang import ops

# What a gradient may differ by, relative to its norm: weights and their gradients are rounded.
ROUNDING = {"f2": 2**-10, BF16: 2**-7, "f4": 2**-19}


def gradients(
    q,
    k,
    v,
    do,
    dlse,
    causal=False,
    window=(-1, -1),
    sinks=None,
    scale=None,
    softcap=0.0,
    added=0.0,
    mask=True,
    **_,
):
    """(dq, dk, dv, dsinks, gradients of scores, size of the terms of dsinks) of one sequence: q
    [rows, H, D], k and v [keys, Hk, D]. What is added to scores and a mask are [H, rows, keys]."""
    group = q.shape[1] // k.shape[1]
    q, k, v, do, dlse = (np.asarray(x, float) for x in (q, k, v, do, dlse))
    k, v = (np.repeat(x, group, 1) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    s, bend = np.einsum("ihd,jhd->hij", q, k) * scale, 1.0
    if softcap:
        bent = np.tanh(s / softcap)
        s, bend = softcap * bent, 1 - bent**2
    s = s + added
    i, j = np.arange(len(q))[:, None] + len(k) - len(q), np.arange(len(k))
    left, right = window[0], 0 if causal else window[1]
    seen = mask & ((left < 0) | (j >= i - left)) & ((right < 0) | (j <= i + right))
    sink = np.full(q.shape[1], -np.inf) if sinks is None else np.asarray(sinks, float)
    most = np.maximum(np.max(np.where(seen, s, -1e300), -1, initial=-1e300), sink[:, None])
    p = np.exp(np.where(seen, s - most[..., None], -np.inf))
    rest = np.exp(sink[:, None] - most)
    total = p.sum(-1) + rest
    total = np.where(total > 0, total, 1)
    p, rest = p / total[..., None], rest / total
    o = np.einsum("hij,jhd->ihd", p, v)
    delta = ((do * o).sum(-1) - dlse).T
    change = p * (np.einsum("ihd,jhd->hij", do, v) - delta[..., None])
    ds = change * bend * scale
    shared = lambda x: x.reshape(len(x), x.shape[1] // group, group, x.shape[-1]).sum(2)
    dk, dv = np.einsum("hij,ihd->jhd", ds, q), np.einsum("hij,ihd->jhd", p, do)
    dq = np.einsum("hij,jhd->ihd", ds, k)
    terms = rest * delta
    return dq, shared(dk), shared(dv), -terms.sum(1), change, abs(terms).sum(1)


def near(found, wanted, dtype, terms=None):
    """terms: the sizes of those of dsinks, which are computed from rounded outputs and may cancel."""
    for name, one, two in zip(("dq", "dk", "dv", "dsinks", "dbias"), found, wanted):
        assert one.shape == two.shape and not np.isnan(one.astype(float)).any(), name
        sized = two if name != "dsinks" or terms is None else terms
        error, size = np.linalg.norm(one.astype(float) - two), np.linalg.norm(sized)
        assert error <= ROUNDING[dtype] * size + 1e-30, (name, error / size)


# B, queries, keys, H, Hk, D, Dv, type, options
DENSE = [
    (2, 70, 50, 4, 2, 16, 16, "f2", {"window": (20, 3), "softcap": 3.0, "layout": "bhsd"}),
    (1, 20, 90, 6, 2, 80, 80, BF16, {"causal": True, "scale": 0.3}),
    (2, 1, 1, 2, 1, 64, 64, "f4", {"causal": True}),
    (1, 9, 3, 4, 2, 16, 16, "f2", {"window": (20, 3), "softcap": 3.0, "layout": "bhsd"}),
    (1, 33, 40, 2, 2, 24, 40, "f2", {}),
    (1, 65, 130, 1, 1, 128, 128, BF16, {"causal": True, "window": (70, -1)}),
    (1, 70, 140, 4, 2, 128, 128, "f2", {"causal": True}),
    (2, 40, 70, 2, 1, 72, 72, BF16, {"causal": True}),  # large tiles on Hopper, head by head
]


@on_targets(DENSE)
def test_dense(case, target):
    """Sinks, and gradients of log-sum-exps; rows that see no key; heads first."""
    b, rows, keys, h, hk, d, dv, dtype, options = case
    rng = np.random.default_rng(80)
    q, k = draw(rng, dtype, b, rows, h, d), draw(rng, dtype, b, keys, hk, d)
    v, do = draw(rng, dtype, b, keys, hk, dv), draw(rng, dtype, b, rows, h, dv)
    dlse = draw(rng, "f4", b, rows, h)
    sinks = draw(rng, "f4", h) if "window" in options else None
    order = (lambda x: x.swapaxes(1, 2)) if "layout" in options else (lambda x: x)
    each = [gradients(q[s], k[s], v[s], do[s], dlse[s], sinks=sinks, **options) for s in range(b)]
    wanted = [np.stack(x) for x in zip(*each)]
    wanted[3] = wanted[3].sum(0) if sinks is not None else np.zeros(0)
    with ops.on_target(target):
        given = [order(x) for x in (q, k, v)]
        o, lse = ops.attention(*given, sinks=sinks, return_lse=True, **options)
        more = (o, lse, sinks, order(dlse))
        found = ops.attention_backward(order(do), *given, *more, **options)
    near([*(order(x) for x in found[:3]), found[3]], wanted[:4], dtype, wanted[5].sum(0))


# query lengths, key lengths, H, Hk, D, Dv, type, options
VARLEN = [
    ((33, 0, 1, 70), (33, 5, 9, 70), 4, 2, 16, 16, "f2", {"causal": True}),
    ((20, 3), (70, 0), 2, 1, 48, 24, BF16, {"window": (7, 2), "softcap": 3.0, "scale": 0.3}),
    ((40, 3, 64), (9, 0, 65), 2, 1, 16, 16, "f4", {"causal": True}),
    # Head by head on Hopper.
    ((65, 3), (30, 0), 2, 2, 96, 128, "f2", {"window": (40, 2), "softcap": 3.0, "scale": 0.3}),
    ((66, 0, 2), (70, 5, 9), 2, 1, 72, 72, BF16, {"causal": True}),
]


@on_targets(VARLEN)
def test_varlen(case, target):
    """What no sequence has does not show, and has no gradient."""
    q_len, k_len, h, hk, d, dv, dtype, options = case
    rng = np.random.default_rng(81)
    q, k = draw(rng, dtype, sum(q_len) + 3, h, d), draw(rng, dtype, sum(k_len) + 3, hk, d)
    v, do = draw(rng, dtype, len(k), hk, dv), draw(rng, dtype, len(q), h, dv)
    sinks = draw(rng, "f4", h) if h == 4 else None
    cu_q, cu_k = starts_of(q_len, "i8"), starts_of(k_len, "i8")
    wanted = [np.zeros(x.shape) for x in (q, k, v)] + [np.zeros(h if h == 4 else 0)]
    terms = np.zeros(h)
    for s in range(len(q_len)):
        rows, keys = slice(cu_q[s], cu_q[s + 1]), slice(cu_k[s], cu_k[s + 1])
        none = np.zeros((rows.stop - rows.start, h))
        found = gradients(q[rows], k[keys], v[keys], do[rows], none, sinks=sinks, **options)
        wanted[0][rows], wanted[1][keys], wanted[2][keys] = found[:3]
        wanted[3] += found[3][: len(wanted[3])]
        terms += found[5]
    for x in (q, do):
        x[cu_q[-1] :] = np.nan
    for x in (k, v):
        x[cu_k[-1] :] = np.nan
    out, lse = np.full((len(q), h, dv), np.nan, dtype), np.full((len(q), h), np.nan, "f4")
    ends = (cu_q, cu_k, max(q_len), max(k_len))
    with ops.on_target(target):
        ops.attention_varlen(q, k, v, *ends, sinks=sinks, out=out, lse=lse, **options)
        found = ops.attention_varlen_backward(do, q, k, v, out, lse, *ends, sinks, **options)
        again = ops.attention_varlen_backward(do, q, k, v, out, lse, *ends, sinks, **options)
    assert all(np.array_equal(a, b) for a, b in zip(found, again))
    near(found, wanted, dtype, terms)


def test_nothing_to_do():
    """No query, no key, no sequence: gradients are 0."""
    for rows, keys in ((0, 3), (3, 0), (0, 0)):
        q, k = np.ones((2, rows, 2, 8), "f2"), np.ones((2, keys, 1, 8), "f2")
        found = ops.attention_backward(q, q, k, k, q, np.ones((2, rows, 2), "f4"), of_bias=True)
        assert [x.shape for x in found] == [q.shape, k.shape, k.shape, (0,), (2, 2, rows, keys)]
        assert not any(x.any() for x in found)
    q, lse, ends = np.ones((3, 2, 8), "f2"), np.ones((3, 2), "f4"), np.zeros(1, "i4")
    found = ops.attention_varlen_backward(q, q, q, q, q, lse, ends, ends, 0, 0)
    assert not any(x.any() for x in found)


def test_wrong_arguments():
    q, k, lse = np.ones((2, 3, 4, 8), "f2"), np.ones((2, 5, 2, 8), "f2"), np.ones((2, 3, 4), "f4")
    ends = np.arange(3, dtype="i4")
    good = dict(dout=q, q=q, k=k, v=k, out=q, lse=lse)
    call = lambda options={}, **changes: ops.attention_backward(
        *(good | changes).values(), **options
    )
    packed = lambda cu_q=ends, do=q[0]: ops.attention_varlen_backward(
        do, q[0], k[0], k[0], q[0], lse[0], cu_q, ends, 2, 2
    )
    for kind, name, run in (
        (ValueError, "`dout`", lambda: call(dout=q[:, :2])),
        (TypeError, "`dout`", lambda: call(dout=q.astype("f4"))),
        (ValueError, "`out`", lambda: call(out=q[..., :4])),
        (TypeError, "`lse`", lambda: call(lse=lse.astype("f8"))),
        (ValueError, "`lse`", lambda: call(lse=lse[:1])),
        (ValueError, "`dlse`", lambda: call({"dlse": lse[:1]})),
        (ValueError, "`k`", lambda: call(k=k[:1], v=k[:1])),
        (ValueError, "`sinks`", lambda: call({"sinks": np.ones(3, "f4")})),
        (ValueError, "`dq`", lambda: call({"dq": q})),
        (ValueError, "`dv`", lambda: call({"dv": k[:1]})),
        (TypeError, "`splits`", lambda: call({"splits": 2})),
        (ValueError, "`cu_q`", lambda: packed(ends[:2])),
        (TypeError, "`cu_q`", lambda: packed(ends.astype("f4"))),
        (ValueError, "`dout`", lambda: packed(do=q[0, :2])),
    ):
        with pytest.raises(kind, match=name):
            run()
