"""Gradients of layers with experts, compared with float64."""

import math

import numpy as np
import pytest

from library_utils import BF16, draw, on_targets
from wave_lang import ops

# What a gradient may differ by, relative to its norm: what is between the products is rounded.
ROUNDING = {"f2": 2**-9, BF16: 2**-6, "f4": 2**-19}


def activated(gate, activation):
    """The value and the derivative."""
    if activation == "silu":
        share = 1 / (1 + np.exp(-gate))
        return gate * share, share * (1 + gate * (1 - share))
    share = (1 + np.vectorize(math.erf)(gate / np.sqrt(2))) / 2
    return gate * share, share + gate * np.exp(-gate * gate / 2) / np.sqrt(2 * np.pi)


def gradients(dy, x, w1, w2, weights, ids, activation):
    dy, x, w1, w2, weights = (a.astype(float) for a in (dy, x, w1, w2, weights))
    dx, dw1, dw2, dweights = (np.zeros(a.shape) for a in (x, w1, w2, weights))
    for t, j in np.ndindex(ids.shape):
        e = ids[t, j]
        if not 0 <= e < len(w1):
            continue
        gate, up = np.split(w1[e] @ x[t], 2)
        value, slope = activated(gate, activation)
        change = w2[e].T @ dy[t]
        dweights[t, j] = (value * up) @ change
        dw2[e] += weights[t, j] * np.outer(dy[t], value * up)
        dhidden = weights[t, j] * np.concatenate([change * up * slope, change * value])
        dw1[e] += np.outer(dhidden, x[t])
        dx[t] += w1[e].T @ dhidden
    return dx, dw1, dw2, dweights


# tokens, experts, top, K, N, type, activation
CASES = [
    (9, 4, 2, 48, 40, "f2", "silu"),
    (70, 2, 2, 32, 16, BF16, "gelu"),
    (3, 5, 1, 24, 20, "f4", "silu"),
    (1, 1, 1, 16, 600, "f4", "gelu"),
]


@on_targets(CASES)
def test_fused_experts(case, target):
    """Some ids are of no expert, and the last expert has no token."""
    tokens, experts, top, size, inner, dtype, activation = case
    rng = np.random.default_rng(90)
    x, dy = draw(rng, dtype, tokens, size), draw(rng, dtype, tokens, size)
    w1 = draw(rng, dtype, experts, 2 * inner, size, scale=size**-0.5)
    w2 = draw(rng, dtype, experts, size, inner, scale=inner**-0.5)
    weights = rng.random((tokens, top)).astype("f4")
    ids = rng.integers(0, max(experts - 1, 1), (tokens, top)).astype("i4")
    if tokens > 1:
        ids[0, 0], ids[1, -1] = -1, experts
    wanted = gradients(dy, x, w1, w2, weights, ids, activation)
    with ops.on_target(target):
        given = (dy, x, w1, w2, weights, ids)
        found = ops.fused_experts_backward(*given, activation=activation)
        again = ops.fused_experts_backward(*given, activation=activation)
    assert all(np.array_equal(a, b) for a, b in zip(found, again))
    for name, one, two in zip(("dx", "dw1", "dw2", "dweights"), found, wanted):
        assert one.shape == two.shape and not np.isnan(one.astype(float)).any(), name
        error, most = np.linalg.norm(one.astype(float) - two), np.linalg.norm(two)
        assert error <= ROUNDING[dtype] * most, (name, error / most)


def test_nothing_to_do():
    x, w1, w2 = np.ones((0, 8), "f4"), np.ones((2, 8, 8), "f4"), np.ones((2, 8, 4), "f4")
    ids = np.ones((0, 2), "i4")
    found = ops.fused_experts_backward(x, x, w1, w2, ids.astype("f4"), ids)
    assert [a.shape for a in found] == [x.shape, w1.shape, w2.shape, ids.shape]
    assert not any(a.any() for a in found)


def test_wrong_arguments():
    x, w1, w2 = np.ones((3, 8), "f4"), np.ones((2, 8, 8), "f4"), np.ones((2, 8, 4), "f4")
    ids = np.ones((3, 2), "i4")
    good = dict(dy=x, x=x, w1=w1, w2=w2, weights=ids.astype("f4"), ids=ids)
    call = lambda options={}, **changes: ops.fused_experts_backward(
        *(good | changes).values(), **options
    )
    for kind, name, run in (
        (ValueError, "`dy`", lambda: call(dy=x[:2])),
        (TypeError, "`dy`", lambda: call(dy=x.astype("f2"))),
        (ValueError, "`w2`", lambda: call(w2=w2[:1])),
        (TypeError, "`ids`", lambda: call(ids=ids.astype("i8"))),
        (ValueError, "`activation`", lambda: call({"activation": "relu"})),
        (ValueError, "`dw1`", lambda: call({"dw1": w1})),
        (ValueError, "`dweights`", lambda: call({"dweights": np.ones((3, 1), "f4")})),
    ):
        with pytest.raises(kind, match=name):
            run()
