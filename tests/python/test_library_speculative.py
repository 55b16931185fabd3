"""The template of speculative sampling, compared with a walk in Python."""

import numpy as np
import pytest

from library_utils import compiled, on_targets
from wave_lang.kernel.wave.templates.speculative_decoding import get_speculative_sampling_kernel


class Batch:
    """Random trees: node n hangs below an earlier one; children are in order of their number."""

    def __init__(self, rng, batch, nodes, vocabulary, spec):
        self.spec, self.vocabulary = spec, vocabulary
        self.coins = rng.random((batch, nodes)).astype("f4")
        self.final = rng.random(batch).astype("f4")
        logits = rng.standard_normal((batch, nodes, vocabulary)) * 2
        self.target = (np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)).astype("f4")
        self.draft = np.zeros_like(self.target)
        self.candidates = rng.integers(0, vocabulary, (batch, nodes)).astype("i4")
        self.index = rng.permutation(batch * nodes).reshape(batch, nodes).astype("i4")
        self.token = np.full((batch, nodes), -1, "i4")
        self.sibling = np.full((batch, nodes), -1, "i4")
        for b in range(batch):
            last = {}
            for n in range(1, nodes):
                parent = rng.integers(max(0, n - 3), n)
                if parent in last:
                    self.sibling[b, last[parent]] = n
                else:
                    self.token[b, parent] = n
                last[parent] = n
        self.predicts = np.full(batch * nodes, -1, "i4")
        self.accepted = np.full((batch, spec), -1, "i4")
        self.count = np.full(batch, -1, "i4")

    def arguments(self):
        return (
            *(self.coins, self.final, self.target, self.draft, self.candidates, self.index),
            *(self.token, self.sibling, self.spec, self.predicts, self.count, self.accepted),
        )

    def expect(self, acc, single):
        """Does in Python what the kernel does."""
        for b in range(len(self.coins)):
            parent, count, mass, coin = 0, 0, 0.0, self.coins[b, 0]
            last = self.accepted[b, 0] = self.index[b, 0]
            node = self.token[b, 0]
            while node >= 0 and count < self.spec - 1:
                word = self.candidates[b, node]
                p = float(self.target[b, parent, word])
                mass += p
                if coin * acc <= mass or p >= single:
                    self.predicts[last], count = word, count + 1
                    self.accepted[b, count] = last = self.index[b, node]
                    parent, coin, mass, node = node, self.coins[b, node], 0.0, self.token[b, node]
                else:
                    self.draft[b, parent, word], node = p, self.sibling[b, node]
            self.count[b] = count
            draft = self.draft[b, parent] if count < self.spec - 1 else 0
            extra = np.maximum(self.target[b, parent].astype(float) - draft, 0)
            passed = np.flatnonzero(np.cumsum(extra) > self.final[b] * extra.sum())
            self.predicts[last] = passed[0] if len(passed) else self.vocabulary - 1


# batch, nodes, vocabulary, tokens, threshold_acc, threshold_single
CASES = [
    (5, 7, 100, 4, 1.0, 1.0),
    (3, 6, 1500, 6, 0.5, 0.02),
    (4, 1, 3, 1, 1.0, 1.0),
    (4, 9, 5, 4, 0.0, 0.0),
]


@on_targets(CASES)
def test_sampling(case, target):
    batch, nodes, vocabulary, spec, acc, single = case
    ours, theirs = (Batch(np.random.default_rng(18), batch, nodes, vocabulary, spec) for _ in "12")
    kernel = get_speculative_sampling_kernel(
        batch, spec, acc, single, nodes, vocabulary, batch * nodes
    )
    compiled(target, *kernel)(*ours.arguments())
    theirs.expect(acc, single)
    for name in ("count", "accepted", "predicts", "draft"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), name)


def test_the_last_token_follows_the_distribution():
    """Without draft tokens, tokens are drawn from the target: chi-square of 4000 draws."""
    batch, weights = 4000, np.array([0.5, 0, 0.25, 0.125, 0.125])
    drawn = Batch(np.random.default_rng(19), batch, 1, 5, 1)
    drawn.target[:] = weights
    kernel = get_speculative_sampling_kernel(batch, 1, 1.0, 1.0, 1, 5, batch)
    compiled("cpu", *kernel)(*drawn.arguments())
    count, likely = np.bincount(drawn.predicts, minlength=5), weights > 0
    expected = weights[likely] * batch
    assert count[1] == 0 and ((count[likely] - expected) ** 2 / expected).sum() < 16.3  # p = 0.001


def test_wrong_arguments():
    for name, sizes in (
        ("vocab_size", (1, 1, 1.0, 1.0, 1, 0, 1)),
        ("threshold_acc", (1, 1, -1.0, 1.0, 1, 5, 1)),
    ):
        with pytest.raises(ValueError, match=name):
            get_speculative_sampling_kernel(*sizes)
