"""Sampling: what is kept, which token a number gives, and how often."""

import functools
import os

import numpy as np
import pytest

from library_utils import BF16, draw, on_targets
from test_philox import philox
from wave_lang import ops
from wave_lang.ops import sampling

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
    check_tokens(found, x, seed, offset, options)


def check_tokens(found, x, seed, offset, options):
    """The tokens are those at which the sums of what is kept pass the random numbers."""
    assert found.dtype == np.int32 and found.shape == (len(x),)
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


# ---- long rows, which many workgroups share ------------------------------------------------------

ONE_WORKGROUP = 2**31


@pytest.fixture
def divided(monkeypatch):
    """Rows of any length are divided, into short parts, and few values fit into lists. A call of
    the fixture gives what one workgroup for each row computes."""
    small = functools.partial(sampling.Form, part=256, parts=2, bins=128, room=32, few=8)
    monkeypatch.setattr(sampling, "Form", small)
    monkeypatch.setattr(sampling, "LONG", 0)

    def undivided(call):
        with monkeypatch.context() as inner:
            inner.setattr(sampling, "LONG", ONE_WORKGROUP)
            return call()

    return undivided


# rows, tokens, type, options
DIVIDED = [
    (3, 1100, "f4", {"temperature": 0.7, "top_k": 300, "top_p": 0.9, "min_p": 0.002}),
    (2, 1072, BF16, {}),
    (2, 1300, "f2", {"min_p": 0.01}),
    (2, 768, "f4", {"top_k": 40}),
    (2, 900, "f4", {"top_p": 0.8}),
    (2, 1, "f4", {"top_k": 1, "top_p": 0.1}),
]


@on_targets(DIVIDED)
def test_divided_rows(case, target, divided):
    rows, tokens, dtype, options = case
    x = draw(np.random.default_rng(63), dtype, rows, tokens, scale=2.0)
    with ops.on_target(target):
        found = ops.sample(x, seed=5, offset=2**33, **options)
    check_tokens(found, x, 5, 2**33, options)


def kinds_of_rows(rng, tokens):
    """Logits for which bins are wide, narrow, one value each, or have too many values to list."""
    x = rng.standard_normal(tokens)
    masked = np.where(rng.random(tokens) < 0.9, -np.inf, x)
    kinds = [2 * x, x * 1e-3, x * 1e-6, np.round(x), 0 * x, masked, 60 * x, np.round(40 * x)]
    kinds.append(np.where(x > 2.5, x + 25, x))
    return np.stack(kinds).astype("f4")


# top_k, top_p, min_p, temperature
LIMITS = [
    (0, 1, 0, 1),
    (1, 1, 0, 1),
    (0, 0, 0, 1),
    (100, 0.5, 0, 1.5),
    (399, 0.999, 0, 1),
    (5000, 0.9, 0.5, 1),
    (0, 0.3, 1, 0.5),
    (200, 1, 0.1, 0),
]


@pytest.mark.parametrize("target", ["cpu", "sim:sm_90a", "sim:gfx942"])
def test_divided_rows_give_the_same_tokens(target, divided):
    few = target != "cpu"
    x = kinds_of_rows(np.random.default_rng(64), 600 if few else 1000)
    limits = LIMITS[3:5] if few else LIMITS
    rows = np.concatenate([x] * len(limits))
    columns = np.repeat(np.array(limits, "f4"), len(x), 0).T
    top_k, top_p, min_p, heat = columns[0].astype("i4"), *(c.copy() for c in columns[1:])
    named = dict(top_k=top_k, top_p=top_p, min_p=min_p, temperature=heat)
    with ops.on_target(target):
        found = ops.sample(rows, seed=3, **named)
        wanted = divided(lambda: ops.sample(rows, seed=3, **named))
    assert np.array_equal(found, wanted)
    none = top_p == 0
    assert np.array_equal(rows[none].max(1), rows[none, found[none]])


@pytest.mark.parametrize("target, dtype", [("cpu", "f4"), ("sim:sm_90a", "f2")])
def test_divided_rows_renormalised(target, dtype, divided):
    x = kinds_of_rows(np.random.default_rng(65), 600)
    p = softmax(x.astype(float)).astype(dtype)
    top_k = np.array([0, 1, 7, 30, 40, 50, 60, 300, 900], "i4")
    top_p = np.array([1e-6, 0.1, 0.4, 0.5, 0.6, 0.9, 0.99, 0.999, 1], "f4")
    rounding = 2**-9 if dtype == "f2" else 1e-6
    for call in (
        lambda: ops.top_k_renorm_probs(p, top_k),
        lambda: ops.top_p_renorm_probs(p, top_p),
    ):
        with ops.on_target(target):
            found, wanted = call(), divided(call)
        assert np.array_equal(found > 0, wanted > 0)
        np.testing.assert_allclose(
            found.astype(float), wanted.astype(float), rtol=rounding, atol=1e-7
        )


def test_divided_rows_of_their_own(divided):
    """A row does not depend on the others, and NaN is not drawn."""
    x = kinds_of_rows(np.random.default_rng(66), 700)
    limits = dict(top_k=90, top_p=0.9, min_p=0.0)
    found = ops.sample(x, **limits)
    assert np.array_equal(found, ops.sample(x, **limits))
    assert np.array_equal(found[:3], ops.sample(x[:3], **limits))
    x[:, ::2] = np.nan
    found = ops.sample(x, **limits)
    assert (0 <= found).all() and (found < 700).all()


def test_frequencies_of_divided_rows(divided):
    x = np.linspace(0, 2, 9).astype("f4")
    rows = np.broadcast_to(x, (DRAWS // 10, 9))
    found = ops.sample(rows, seed=1, top_k=5, top_p=0.8, min_p=0.0)
    chi, freedom = statistic(found, kept(softmax(x.astype(float)), top_k=5, top_p=0.8))
    assert chi < freedom + 7 * np.sqrt(2 * freedom) + 14, (chi, freedom)


def test_a_large_vocabulary(monkeypatch):
    """The sizes that are used; thousands of values are equal in two of the rows."""
    x = np.random.default_rng(67).standard_normal((3, 40000)).astype("f4")
    x[1], x[2] = np.round(x[1]), 0
    named = dict(top_k=20000, top_p=0.9, seed=8)
    found = ops.sample(x, **named)
    monkeypatch.setattr(sampling, "LONG", ONE_WORKGROUP)
    assert np.array_equal(found, ops.sample(x, **named))


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
    assert ops.sample(x, top_p=0.0, seed=3)[1] == 1  # at least one is kept
    tokens = {ops.sample(x, top_k=1, seed=seed)[0] for seed in range(20)}
    assert tokens == {0, 1}  # both of two equal ones
    assert ops.sample(x, top_k=2**40, temperature=0).tolist() == [0, 1, 1]
    assert ops.sample(x[:0]).shape == (0,) and ops.top_p_renorm_probs(x[:0], 0.5).shape == (0, 3)


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize("longest", [None, 64], ids=["one workgroup", "divided"])
def test_infinite_logits(dtype, longest, monkeypatch):
    """Nothing is as likely as +inf, at any temperature and with any limit."""
    if longest:
        monkeypatch.setattr(sampling, "LONG", longest)
    x = np.full((4, 70), -np.inf, dtype)
    x[:, 3], x[0, 60], x[1, [9, 40]], x[2, 8] = 60000, np.inf, np.inf, -60000
    for named in ({}, {"top_k": 1}, {"top_k": 2, "top_p": 0.5}, {"top_p": 0.0}, {"min_p": 0.1}):
        first, both, *others = zip(*(ops.sample(x, seed=n, **named).tolist() for n in range(20)))
        assert set(first) == {60} and set(both) == {9, 40} and set(others[0] + others[1]) == {3}
        assert ops.sample(x, temperature=0, **named).tolist() == [60, 9, 3, 3]


def test_temperatures_without_a_reciprocal():
    """1 / temperature is too large for f32, or 0."""
    x = np.array([[0, 1, 2], [-np.inf, 3, -np.inf]], "f4")
    for heat in (1e-30, 1e-38, 1e-42, 1e-50):
        assert ops.sample(x, temperature=heat).tolist() == [2, 1]
    assert all(ops.sample(x, temperature=np.inf, seed=seed)[1] == 1 for seed in range(9))


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
        (TypeError, "`top_k`", lambda: ops.sample(x, top_k=2.5)),
        (ValueError, "`top_p`", lambda: ops.sample(x, top_p=1.5)),
        (TypeError, "`top_p`", lambda: ops.sample(x, top_p="most")),
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
