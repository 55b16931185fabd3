"""Sampling: what is kept, which token a number gives, and how often."""

import os

import numpy as np
import pytest

from library_utils import BF16, draw, on_targets
from test_philox import philox
from wave_lang import ops

DRAWS = 1_000_000 if os.environ.get("TEST_FULL") else 20_000


def kept(p, top_k=None, top_p=None, min_p=None):
    """A row of probabilities without what is not kept, in float64; equal ones are kept together."""
    level = 0.0
    order = -np.sort(-p)
    if top_k:
        level = order[min(top_k, len(p)) - 1]
    if top_p is not None and top_p < 1:
        left = order[order >= level]
        level = max(level, left[np.searchsorted(np.cumsum(left), top_p * left.sum())])
    if min_p is not None:
        level = max(level, min_p * order[0])
    return np.where(p >= level, p, 0)


def softmax(x, temperature=1.0):
    e = np.exp((x - x.max(-1, keepdims=True)) / temperature)
    return e / e.sum(-1, keepdims=True)


def number(seed, offset, row):
    """The random number of a row."""
    words = lambda x: [x & 0xFFFFFFFF, x >> 32 & 0xFFFFFFFF]
    return (philox([row, 0, *words(offset)], words(seed))[0] >> 8) * 2.0**-24


# rows, tokens, type, options
SAMPLES = [
    (3, 5000, "f4", {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "min_p": 0.02}),
    (4, 70, BF16, {"top_p": 0.5}),
    (5, 33, "f2", {"top_k": 3}),
    (2, 1, "f4", {"top_k": 1, "top_p": 0.1}),
    (6, 129, "f4", {}),
    (3, 40, "f4", {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 2.5}),
]


@on_targets(SAMPLES)
def test_the_inverse_of_the_distribution(case, target):
    rows, tokens, dtype, options = case
    x = draw(np.random.default_rng(60), dtype, rows, tokens, scale=2.0)
    seed, offset = -(2**40) - 3, 2**35 + 7
    with ops.on_target(target):
        found = ops.sample(x, seed=seed, offset=offset, **options)
    assert found.dtype == np.int32 and found.shape == (rows,)
    limits = {name: options[name] for name in options if name != "temperature"}
    for row, token in enumerate(found):
        p = softmax(x[row].astype(float), options.get("temperature", 1.0))
        p = kept(p, **limits)
        after = np.cumsum(p) / p.sum()
        at = number(seed, offset, row)
        before = after[token] - p[token] / p.sum()
        assert p[token] > 0 and before - 1e-5 <= at <= after[token] + 1e-5


@on_targets([(3, 70, "f4"), (2, 5000, "f2")])
def test_renormalised(case, target):
    rows, tokens, dtype = case
    x = draw(np.random.default_rng(61), "f4", rows, tokens)
    p = softmax(x.astype(float)).astype(dtype)
    p[0, :3] = p[0].max() * 2  # equal ones
    with ops.on_target(target):
        by_k, by_p = ops.top_k_renorm_probs(p, 2), ops.top_p_renorm_probs(p, 0.5)
        each = ops.top_k_renorm_probs(p, np.arange(rows, dtype="i4"))
    for row, wide in enumerate(p.astype(float)):
        for found, limits in (
            (by_k[row], {"top_k": 2}),
            (by_p[row], {"top_p": 0.5}),
            (each[row], {"top_k": row}),
        ):
            wanted = kept(wide, **limits)
            assert found.dtype == p.dtype and np.array_equal(found > 0, wanted > 0)
            rounding = 2**-9 if dtype == "f2" else 1e-6
            np.testing.assert_allclose(
                found.astype(float), wanted / wanted.sum(), rtol=rounding, atol=1e-7
            )
    assert (by_k[0] > 0).sum() == 3


def statistic(found, p):
    """Chi-square of the counts, divided by the degrees of freedom."""
    counts, some = np.bincount(found, minlength=len(p)), p > 0
    assert not counts[~some].any()
    wanted = p[some] / p.sum() * len(found)
    return ((counts[some] - wanted) ** 2 / wanted).sum(), some.sum() - 1


@pytest.mark.parametrize("limits", [{}, {"top_k": 5}, {"top_p": 0.7}, {"min_p": 0.3}], ids=str)
def test_frequencies(limits):
    """Draws of one row: a correct sampler exceeds this bound once in about 10⁶ seeds."""
    x = np.linspace(0, 2, 9).astype("f4")
    found = ops.sample(np.broadcast_to(x, (DRAWS, 9)), temperature=0.8, seed=1, **limits)
    chi, freedom = statistic(found, kept(softmax(x.astype(float), 0.8), **limits))
    assert chi < freedom + 7 * np.sqrt(2 * freedom) + 14, (chi, freedom)
    p = kept(softmax(x.astype(float), 0.9), **limits)  # so many draws tell these apart
    assert statistic(found, p)[0] > 2 * chi


def test_offsets_and_seeds_draw_anew():
    x = np.zeros((200, 1000), "f4")
    first = ops.sample(x, seed=1, offset=0)
    assert np.array_equal(first, ops.sample(x, seed=1, offset=0))
    for other in (ops.sample(x, seed=1, offset=1), ops.sample(x, seed=2, offset=0)):
        assert (first != other).mean() > 0.98
    assert len(np.unique(first)) > 150  # rows are independent
    seeds, offsets = np.full(200, 1, "i8"), np.zeros(200, "i8")
    assert np.array_equal(first, ops.sample(x, seed=seeds, offset=offsets))


def test_a_number_for_each_row():
    x = draw(np.random.default_rng(62), "f4", 4, 2 * 50)[:, ::2]
    heat = np.array([0, 1, 1, 1], "f4")
    top_k, top_p = np.array([0, 1, 0, 0], "i4"), np.array([1, 1, 1e-6, 1], "f4")
    min_p = np.array([0, 0, 0, 1], "f4")
    out = np.zeros(4, "i4")
    named = dict(temperature=heat, top_k=top_k, top_p=top_p, min_p=min_p, out=out)
    assert ops.sample(x, seed=9, **named) is out
    assert np.array_equal(out, x.argmax(1))


def test_edges():
    x = np.array([[1, 1, 0], [-np.inf, 2, -np.inf], [-np.inf, -1, -1]], "f4")
    for seed in range(5):
        assert ops.sample(x, temperature=0, seed=seed).tolist() == [0, 1, 1]  # the first of equals
        assert ops.sample(x, seed=seed)[1] == 1 and ops.sample(x, seed=seed)[2] > 0
    tokens = {ops.sample(x, top_k=1, seed=seed)[0] for seed in range(20)}
    assert tokens == {0, 1}  # both of two equal ones
    assert ops.sample(x[:0]).shape == (0,) and ops.top_p_renorm_probs(x[:0], 0.5).shape == (0, 3)


def test_wrong_arguments():
    x, p = np.ones((4, 8), "f4"), np.ones((4, 8), "f4") / 8
    for kind, name, call in (
        (ValueError, "`logits`", lambda: ops.sample(x[0])),
        (ValueError, "`logits`", lambda: ops.sample(x[:, :0])),
        (TypeError, "`logits`", lambda: ops.sample(x.astype("i4"))),
        (ValueError, "`temperature`", lambda: ops.sample(x, temperature=-1.0)),
        (TypeError, "`temperature`", lambda: ops.sample(x, temperature=np.ones(4, "i4"))),
        (ValueError, "`top_k`", lambda: ops.sample(x, top_k=-1)),
        (ValueError, "`top_k`", lambda: ops.sample(x, top_k=np.ones(3, "i4"))),
        (ValueError, "`top_p`", lambda: ops.sample(x, top_p=1.5)),
        (ValueError, "`min_p`", lambda: ops.sample(x, min_p=float("nan"))),
        (TypeError, "`seed`", lambda: ops.sample(x, seed=np.ones(4, "i4"))),
        (ValueError, "`offset`", lambda: ops.sample(x, offset=2**63)),
        (TypeError, "`out`", lambda: ops.sample(x, out=np.ones(4, "i8"))),
        (ValueError, "`probs`", lambda: ops.top_k_renorm_probs(p[0], 2)),
        (ValueError, "`top_p`", lambda: ops.top_p_renorm_probs(p, -0.5)),
        (ValueError, "`out`", lambda: ops.top_p_renorm_probs(p, 0.5, out=p)),
    ):
        with pytest.raises(kind, match=name):
            call()
