"""Verification of draft tokens, compared with walks in Python."""

import numpy as np
import pytest

from library_utils import on_targets
from test_library_speculative import Batch
from wave_lang import ops


def tree_arguments(data):
    links = (data.candidates, data.index, data.token, data.sibling)
    return (data.predicts, data.accepted, data.count, *links)


def widened(data):
    for name in ("candidates", "index", "token", "sibling"):
        setattr(data, name, getattr(data, name).astype("i8"))
    return data


# batch, nodes, vocabulary, tokens, threshold_acc, threshold_single, i64
TREES = [
    (5, 7, 100, 4, 1.0, 1.0, True),
    (3, 6, 1500, 6, 0.5, 0.02, False),
    (4, 1, 3, 1, 1.0, 1.0, True),
    (4, 9, 5, 4, 0.0, 0.0, False),
]


@on_targets(TREES)
def test_tree_sampling(case, target):
    batch, nodes, vocabulary, spec, acc, single, wide = case
    ours, theirs = (Batch(np.random.default_rng(18), batch, nodes, vocabulary, spec) for _ in "12")
    ours = widened(ours) if wide else ours
    with ops.on_target(target):
        found = ops.tree_sampling_target_only(
            *(*tree_arguments(ours), ours.coins, ours.final, ours.target, ours.draft),
            threshold_single=single,
            threshold_acc=acc,
        )
    assert found is None
    theirs.expect(acc, single)
    for name in ("count", "accepted", "predicts", "draft"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), name)


def expect_greedy(data, wanted):
    for b in range(len(data.coins)):
        count, node = 0, data.token[b, 0]
        last = data.accepted[b, 0] = data.index[b, 0]
        while node >= 0 and count < data.spec - 1:
            if data.candidates[b, node] == wanted[last]:
                data.predicts[last], count = wanted[last], count + 1
                last = data.accepted[b, count] = data.index[b, node]
                node = data.token[b, node]
            else:
                node = data.sibling[b, node]
        data.count[b], data.predicts[last] = count, wanted[last]


@on_targets([(6, 9, 3, 4, True), (3, 5, 2, 5, False), (2, 1, 4, 1, True)])
def test_tree_greedy(case, target):
    batch, nodes, vocabulary, spec, wide = case
    ours, theirs = (Batch(np.random.default_rng(20), batch, nodes, vocabulary, spec) for _ in "12")
    ours = widened(ours) if wide else ours
    rng = np.random.default_rng(21)
    wanted = rng.integers(0, vocabulary, (batch, nodes)).astype("i8" if wide else "i4")
    with ops.on_target(target):
        assert ops.verify_tree_greedy(*tree_arguments(ours), wanted) is None
    expect_greedy(theirs, wanted.ravel())
    assert theirs.count.max() > 0 or nodes == 1
    for name in ("count", "accepted", "predicts"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), name)


def probabilities(rng, *shape):
    p = np.exp(rng.standard_normal(shape))
    return (p / p.sum(-1, keepdims=True)).astype("f4")


@on_targets([(9, 4, 50, "i4"), (3, 1, 1500, "i8"), (2, 0, 7, "i4")])
def test_chain_sampling(case, target):
    batch, number, vocabulary, index = case
    rng = np.random.default_rng(22)
    q, p = (probabilities(rng, batch, n, vocabulary) for n in (number, number + 1))
    drafts = rng.integers(0, vocabulary, (batch, number)).astype(index)
    coins, final = (rng.random(s).astype("f4") for s in ((batch, number), batch))
    wanted, count = np.full((batch, number + 1), -1), np.zeros(batch, int)
    for b in range(batch):
        n = 0
        while n < number and coins[b, n] * q[b, n, drafts[b, n]] < p[b, n, drafts[b, n]]:
            wanted[b, n] = drafts[b, n]
            n += 1
        extra = np.maximum(p[b, n].astype(float) - (q[b, n] if n < number else 0), 0)
        wanted[b, n] = np.flatnonzero(np.cumsum(extra) > final[b] * extra.sum())[0]
        count[b] = n
    with ops.on_target(target):
        tokens, accepted = ops.chain_sampling(q, drafts, p, coins, final)
    assert np.array_equal(tokens, wanted) and np.array_equal(accepted, count)


def test_chains_follow_the_target():
    """The first token is distributed as the target's, whatever the draft is: chi-square."""
    batch, rng = 20000, np.random.default_rng(23)
    p, q = np.array([0.5, 0.05, 0.25, 0.1, 0.1]), np.array([0.1, 0.6, 0.1, 0.1, 0.1])
    drafts = rng.choice(5, (batch, 1), p=q).astype("i4")
    rows = [np.broadcast_to(x.astype("f4"), (batch, n, 5)) for x, n in ((q, 1), (p, 2))]
    coins, final = (rng.random(s).astype("f4") for s in ((batch, 1), batch))
    tokens, accepted = ops.chain_sampling(rows[0], drafts, rows[1], coins, final)
    count = np.bincount(tokens[:, 0], minlength=5)
    assert ((count - p * batch) ** 2 / (p * batch)).sum() < 18.5  # p = 0.001
    share = np.minimum(p, q).sum()
    assert abs(accepted.mean() - share) < 5 * np.sqrt(share / batch)
    second = np.bincount(tokens[accepted == 1, 1], minlength=5)
    whole = second.sum() * p
    assert ((second - whole) ** 2 / whole).sum() < 18.5


@on_targets([(3, 7), (1, 1), (2, 40)])
def test_build_tree(case, target):
    batch, nodes = case
    rng = np.random.default_rng(24)
    parents = np.full((batch, nodes), -1, "i4")
    for n in range(1, nodes):
        parents[:, n] = rng.integers(max(0, n - 4), n, batch)
    token, sibling = np.full_like(parents, -1), np.full_like(parents, -1)
    depths, mask = np.zeros_like(parents), np.zeros((batch, nodes, nodes), "i1")
    for b in range(batch):
        for n in range(nodes):
            children = np.flatnonzero(parents[b] == n)
            token[b, n] = children[0] if len(children) else -1
            beside = [m for m in range(n + 1, nodes) if parents[b, m] == parents[b, n]]
            sibling[b, n] = beside[0] if beside else -1
            at = n
            while at >= 0:
                mask[b, n, at], at = 1, parents[b, at]
            depths[b, n] = mask[b, n].sum() - 1
    with ops.on_target(target):
        found = ops.build_tree(parents)
    wanted = (np.arange(batch * nodes).reshape(batch, nodes), token, sibling, depths, mask)
    for one, two in zip(found, wanted):
        np.testing.assert_array_equal(one, two)


def test_nothing_to_do():
    none = np.zeros((0, 3), "i4")
    assert [x.shape for x in ops.build_tree(none)] == [(0, 3)] * 4 + [(0, 3, 3)]
    p, f = np.ones((0, 4, 5), "f4"), np.ones(0, "f4")
    tokens, count = ops.chain_sampling(p[:, :3], none, p, p[:, :3, 0], f)
    assert tokens.shape == (0, 4) and count.shape == (0,)


def test_wrong_arguments():
    data = Batch(np.random.default_rng(25), 2, 4, 6, 3)
    names = "predicts accepted count candidates index token sibling coins final target draft"
    good = {name: getattr(data, name) for name in names.split()}
    tree = lambda options={}, **changes: ops.tree_sampling_target_only(
        *(good | changes).values(), **options
    )
    greedy = lambda wanted: ops.verify_tree_greedy(*tree_arguments(data), wanted)
    chain = lambda p=data.target, q=data.target[:, :3], tokens=data.candidates[:, :3]: (
        ops.chain_sampling(q, tokens, p, data.coins[:, :3], data.final)
    )
    for kind, name, run in (
        (ValueError, "`retrive_index`", lambda: tree(index=data.index[:1])),
        (TypeError, "`retrive_next_token`", lambda: tree(token=data.token.astype("i8"))),
        (TypeError, "`candidates`", lambda: tree(candidates=data.coins)),
        (ValueError, "`candidates`", lambda: tree(candidates=data.candidates[:, :0])),
        (TypeError, "`predicts`", lambda: tree(predicts=data.predicts.astype("i8"))),
        (ValueError, "`accept_token_num`", lambda: tree(count=data.count[:1])),
        (ValueError, "`accept_index`", lambda: tree(accepted=data.accepted[:, :0])),
        (ValueError, "`target_probs`", lambda: tree(target=data.target[:, :2])),
        (ValueError, "`draft_probs`", lambda: tree(draft=data.draft[..., :2])),
        (ValueError, "`draft_probs` shares", lambda: tree(draft=data.target)),
        (ValueError, "`uniform_final`", lambda: tree(final=data.coins)),
        (ValueError, "`threshold_acc`", lambda: tree({"threshold_acc": -1.0})),
        (ValueError, "`target_predict`", lambda: greedy(data.candidates[:, :2])),
        (ValueError, "`target_probs`", lambda: chain(p=data.target[:, :3])),
        (ValueError, "`draft_probs`", lambda: chain(q=data.target[:, :2])),
        (TypeError, "`draft_tokens`", lambda: chain(tokens=data.coins[:, :3])),
        (TypeError, "`parents`", lambda: ops.build_tree(data.coins)),
        (ValueError, "`parents`", lambda: ops.build_tree(data.predicts)),
    ):
        with pytest.raises(kind, match=name):
            run()
