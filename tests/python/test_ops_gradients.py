"""Gradients of ops on rows, and cross entropy, compared with float64."""

import math

import numpy as np
import pytest

from library_utils import BF16, draw, on_targets
from wave_lang import ops

UNIT = {"f2": 2**-11, BF16: 2**-8, "f4": 2**-24}


def near(found, expected, dtype, scale=1.0):
    """The error of a result as a whole: a rounding of each element, and `scale` times one of f32
    for what is computed before that."""
    assert found.dtype == np.dtype(dtype) and found.shape == np.shape(expected)
    error = np.linalg.norm(np.ravel(found.astype(float) - expected))
    size = np.linalg.norm(np.ravel(expected))
    assert error <= size * (UNIT[dtype] * (dtype != "f4") + scale * 2**-22) + 1e-30, error / size


def norm_gradient(dy, x, w, eps, centred):
    """(dx, dw, db) of layer norm, or of RMSNorm."""
    mean = lambda value: value.mean(-1, keepdims=True)
    x = x - mean(x) if centred else x
    scale = 1 / np.sqrt(mean(x * x) + eps)
    unit, product = x * scale, dy * w
    dx = (product - unit * mean(product * unit) - centred * mean(product)) * scale
    return dx, (dy * unit).reshape(-1, x.shape[-1]).sum(0), dy.reshape(-1, x.shape[-1]).sum(0)


# shape, type, type of weights, gemma, gradient of the total
NORMS = [
    ((3, 5, 64), "f2", "f2", False, True),
    ((2, 2048), BF16, "f4", True, False),
    ((600, 3), "f4", "f4", False, True),
    ((1,), "f2", "f4", False, False),
]


@on_targets(NORMS)
def test_norms(case, target):
    shape, dtype, weight, gemma, added = case
    rng = np.random.default_rng(50)
    dy, x, more = (draw(rng, dtype, *shape) for _ in range(3))
    w = draw(rng, weight, shape[-1])
    given = [a.astype(float) for a in (dy, x, w)]
    with ops.on_target(target):
        total = more if added else None
        dx, dw = ops.rms_norm_backward(dy, x, w, 1e-3, total, gemma=gemma)
        found = ops.layer_norm_backward(dy, x, w, 1e-3)
    wanted = norm_gradient(*given[:2], given[2] + gemma, 1e-3, False)
    near(dx, wanted[0] + (more.astype(float) if added else 0), dtype, 2.0)
    near(dw, wanted[1], weight, 2.0)
    if shape[-1] > 1:  # otherwise all values are 0, and so is the gradient
        wanted, types = norm_gradient(*given, 1e-3, True), (dtype, weight, weight)
        for one, two, kind in zip(found, wanted, types):
            near(one, two, kind, 4.0)


@on_targets([1.0])
def test_sums_over_many_rows(case, target):
    """Rounding errors of a sum do not add up, and an infinite one is not NaN."""
    rng = np.random.default_rng(51)
    dy, x = rng.uniform(0, case, (700, 4)).astype("f4"), draw(rng, "f4", 700, 4)
    dy[2, 0] = np.inf
    w = np.ones(4, "f4")
    with ops.on_target(target):
        _, _, db = ops.layer_norm_backward(dy, x, w)
    wanted = dy.astype(float).sum(0)
    assert db[0] == np.inf
    assert np.all(np.abs(db[1:] - wanted[1:]) <= np.spacing(db[1:]))


def test_sums_of_many_parts():
    """More rows than a workgroup for each of the usual number adds up: there are more parts."""
    rng = np.random.default_rng(53)
    dy, x = rng.uniform(0, 1, (34000, 4)).astype("f4"), draw(rng, "f4", 34000, 4)
    with ops.on_target("cpu"):
        _, dw, db = ops.layer_norm_backward(dy, x, np.ones(4, "f4"))
    _, of_weight, of_bias = norm_gradient(*(a.astype(float) for a in (dy, x)), 1.0, 1e-5, True)
    assert np.all(np.abs(db - of_bias) <= 2 * np.spacing(db))  # the last additions, of waves, round
    near(dw, of_weight, "f4", 16.0)


@on_targets([0.0])
def test_rows_that_are_left_do_not_count(case, target):
    """300 rows are not a multiple of what a workgroup adds, and eps is 0."""
    rng = np.random.default_rng(55)
    dy, x, w = draw(rng, "f4", 300, 4), draw(rng, "f4", 300, 4), np.ones(4, "f4")
    wide = [a.astype(float) for a in (dy, x, w)]
    for op, centred in ((ops.rms_norm_backward, False), (ops.layer_norm_backward, True)):
        with ops.on_target(target):
            found = op(dy, x, w, case)[1]
        near(found, norm_gradient(*wide, case, centred)[1], "f4", 8.0)


def rotated(x, table, at, interleaved, back):
    """The first columns of x [T, H, D] in pairs, as many as a row of the table has."""
    pairs = np.arange(table.shape[1] // 2)
    one, two = (2 * pairs, 2 * pairs + 1) if interleaved else (pairs, pairs + len(pairs))
    cos, sin = (t[at][:, None].astype(float) for t in np.split(table, 2, axis=1))
    y, sin = x.copy(), -sin if back else sin
    y[..., one] = x[..., one] * cos - x[..., two] * sin
    y[..., two] = x[..., two] * cos + x[..., one] * sin
    return y


# tokens, heads, key heads, size, rotary size, type, type of weights, interleaved, eps
NORMED = [
    (5, 9, 2, 32, 32, "f2", "f2", False, 1e-3),
    (3, 2, 4, 40, 24, BF16, "f4", True, 1e-3),
    (700, 3, 3, 4, 4, "f4", "f4", False, 0.0),
    (1, 1, 1, 2, 2, "f4", "f2", True, 1e-3),
    (2, 17, 3, 80, 80, "f4", "f4", False, 1e-6),
]


@on_targets(NORMED)
def test_qk_norm_rope(case, target):
    """q and k are columns of one tensor, and all forms agree with float64."""
    tokens, heads, key_heads, size, rotary, dtype, weight, interleaved, eps = case
    rng = np.random.default_rng(56)
    both = draw(rng, dtype, tokens, heads + key_heads + 1, size)
    q, k = both[:, :heads], both[:, heads:-1]
    changes = [draw(rng, dtype, *x.shape) for x in (q, k)]
    weights = [draw(rng, weight, size) for _ in "qk"]
    angles = rng.random((9, rotary // 2)) * 6
    table = np.concatenate([np.cos(angles), np.sin(angles)], 1).astype("f4")
    at, kept = rng.integers(0, 9, tokens), both.copy()
    given = (q, k, *weights, table, at, eps)
    with ops.on_target(target):
        made = ops.apply_qk_norm_rope(*given, interleaved=interleaved)
        gradients = ops.qk_norm_rope_backward(*changes, *given, interleaved=interleaved)
        again = ops.qk_norm_rope_backward(*changes, *given, interleaved=interleaved)
        assert np.array_equal(both, kept)
        assert ops.qk_norm_rope(*given, interleaved=interleaved) is None
    assert all(np.array_equal(a, b) for a, b in zip(gradients, again))
    assert np.array_equal(both[:, -1], kept[:, -1])
    inputs, results = np.split(kept[:, :-1], [heads], axis=1), (gradients[:2], gradients[2:])
    for x, y, stored, dy, w, dx, dw in zip(inputs, made, (q, k), changes, weights, *results):
        wide, w, dy = x.astype(float), w.astype(float), dy.astype(float)
        unit = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + eps)
        near(y, rotated(unit * w, table, at, interleaved, False), dtype, 2.0)
        assert np.array_equal(y, stored)
        wanted = norm_gradient(rotated(dy, table, at, interleaved, True), wide, w, eps, False)
        near(dx, wanted[0], dtype, 4.0)
        near(dw, wanted[1], weight, 4.0)


@on_targets([((3, 64), "f2"), ((2, 3, 30), BF16), ((1, 1000), "f4")])
def test_softmax_and_gates(case, target):
    shape, dtype = case
    rng = np.random.default_rng(51)
    x, dy, half = draw(rng, dtype, *shape), draw(rng, dtype, *shape), draw(rng, dtype, *shape)
    half = np.ascontiguousarray(half[..., : shape[-1] // 2])
    y = np.exp(x.astype(float))
    y = (y / y.sum(-1, keepdims=True)).astype(dtype)
    with ops.on_target(target):
        soft = ops.softmax_backward(dy, y, scale=0.5)
        silu, tanh = ops.silu_and_mul_backward(half, x), ops.gelu_tanh_and_mul_backward(half, x)
        gelu = ops.gelu_and_mul_backward(half, x)
    wide, slope = y.astype(float), dy.astype(float)
    near(soft, 0.5 * wide * (slope - (slope * wide).sum(-1, keepdims=True)), dtype, 2.0)
    (g, u), d = np.split(x.astype(float), 2, axis=-1), half.astype(float)
    s = 1 / (1 + np.exp(-g))
    near(silu, np.concatenate([d * u * s * (1 + g * (1 - s)), d * g * s], -1), dtype, 2.0)
    share = (1 + np.vectorize(math.erf)(g * np.sqrt(0.5))) / 2
    change = share + g * np.exp(-g * g / 2) / np.sqrt(2 * np.pi)
    near(gelu, np.concatenate([d * u * change, d * g * share], -1), dtype, 2.0)
    root = np.sqrt(2 / np.pi)
    t = np.tanh(root * (g + 0.044715 * g**3))
    change = (1 + t) / 2 + g * (1 - t * t) * root * (1 + 3 * 0.044715 * g * g) / 2
    near(tanh, np.concatenate([d * u * change, d * g * (1 + t) / 2], -1), dtype, 2.0)


@on_targets([(8, 12, False, "f2"), (6, 6, True, BF16)])
def test_rope_and_back(case, target):
    rotary, size, interleaved, dtype = case
    rng = np.random.default_rng(52)
    x, angles = draw(rng, dtype, 5, 3, size), rng.random((9, rotary // 2)) * 6
    table = np.concatenate([np.cos(angles), np.sin(angles)], 1).astype("f4")
    at = rng.integers(0, 9, 5).astype("i4")
    kept, same = x.copy(), x.copy()
    with ops.on_target(target):
        y = ops.apply_rope(x, table, at, interleaved=interleaved)
        ops.rope(same, None, table, at, interleaved=interleaved)
        back = ops.apply_rope(y, table, at, interleaved=interleaved, inverse=True)
    assert np.array_equal(x, kept) and np.array_equal(y, same)
    near(back, x.astype(float), dtype, 2.0 if dtype == "f4" else 2**13)


def losses(x, target, smoothing=0.0, z=0.0, cap=0.0, ignored=-100):
    """(losses, logarithms, gradients of the losses) of each row, in float64."""
    x = x.astype(float)
    value = cap * np.tanh(x / cap) if cap else x
    lse = np.log(np.exp(value - value.max(-1, keepdims=True)).sum(-1)) + value.max(-1)
    used, rows = target != ignored, np.arange(len(x))
    at = np.where(used, target, 0)
    chosen = (1 - smoothing) * value[rows, at] + smoothing * value.mean(-1)
    loss = lse - chosen + z * lse**2
    p = np.exp(value - lse[:, None])
    change = p * (1 + 2 * z * lse)[:, None] - smoothing / x.shape[1]
    change[rows, at] -= 1 - smoothing
    change = change * (1 - (value / cap) ** 2 if cap else 1)
    return loss * used, lse, change * used[:, None], p


# rows, classes, types, options
LOSSES = [
    (3, 5000, "f2", "i8", {}),
    (4, 70, BF16, "i4", {"label_smoothing": 0.1, "z_loss": 0.01, "softcap": 5.0}),
    (5, 33, "f4", "i8", {"reduction": "sum", "ignore_index": 2}),
    (2, 1, "f4", "i4", {"reduction": "none"}),
    (1, 4096, "f4", "i8", {"reduction": "none", "softcap": 3.0}),
]


@on_targets(LOSSES)
def test_cross_entropy(case, target):
    rows, classes, dtype, index, options = case
    rng = np.random.default_rng(53)
    x = draw(rng, dtype, rows, classes, scale=3.0)
    ignored = options.get("ignore_index", -100)
    chosen = rng.integers(0, classes, rows).astype(index)
    if rows > 3:
        chosen[1] = ignored
    numbers = (options.get(k, 0.0) for k in ("label_smoothing", "z_loss", "softcap"))
    loss, lse, change, p = losses(x, chosen, *numbers, ignored)
    how = options.get("reduction", "mean")
    count = (chosen != ignored).sum() if how == "mean" else 1
    dloss = draw(rng, "f4", rows) if how == "none" else np.array(0.5, "f4")
    dlse = draw(rng, "f4", rows)
    with ops.on_target(target):
        found, logs = ops.cross_entropy(x, chosen, return_lse=True, **options)
        number = np.full(1, count, "f4")
        dx = ops.cross_entropy_backward(dloss, dlse, x, chosen, logs, number, **options)
    near(found, loss if how == "none" else loss.sum() / count, "f4")
    near(logs, lse, "f4", 0.5)
    dlse = dlse.astype(float)[:, None] * p
    cap = options.get("softcap", 0.0)
    dlse *= 1 - np.tanh(x.astype(float) / cap) ** 2 if cap else 1
    near(dx, change * (dloss.reshape(-1, 1) / count) + dlse, dtype, 16.0)


# rows, K, classes, type, rows at a time, options
LINEAR = [
    (5, 24, 70, "f4", 2, {}),
    (3, 16, 33, BF16, None, {"softcap": 5.0, "reduction": "none"}),
    (4, 8, 16, "f2", 3, {"reduction": "sum", "label_smoothing": 0.1}),
]


@on_targets(LINEAR)
def test_linear_cross_entropy(case, target):
    """As `cross_entropy` of all logits; those of the parts are rounded in the same way."""
    rows, size, classes, dtype, part, options = case
    rng = np.random.default_rng(54)
    x, w = draw(rng, dtype, rows, size), draw(rng, dtype, classes, size, scale=size**-0.5)
    chosen = rng.integers(0, classes, rows)
    chosen[1] = -100
    logits = x.astype(float) @ w.astype(float).T
    numbers = (options.get(k, 0.0) for k in ("label_smoothing", "z_loss", "softcap"))
    loss, lse, change, _ = losses(logits, chosen, *numbers)
    how = options.get("reduction", "mean")
    count = (rows - 1) if how == "mean" else 1
    dloss = draw(rng, "f4", rows) if how == "none" else np.array(0.5, "f4")
    with ops.on_target(target):
        found, logs = ops.linear_cross_entropy(x, w, chosen, rows=part, return_lse=True, **options)
        given = (dloss, np.zeros(rows, "f4"), x, w, chosen, logs, np.full(1, count, "f4"))
        dx, dw = ops.linear_cross_entropy_backward(*given, rows=part, **options)
    rounding = 2.0 if dtype == "f4" else 2**23 * UNIT[dtype]  # of logits
    near(found, loss if how == "none" else loss.sum() / count, "f4", rounding)
    near(logs, lse, "f4", rounding)
    change = change * (dloss.reshape(-1, 1) / count)
    near(dx, change @ w.astype(float), dtype, 2 * rounding)
    near(dw, change.T @ x.astype(float), dtype, 2 * rounding)


def test_losses_without_rows_or_classes():
    none = np.ones((0, 4), "f4"), np.ones(0, "i8")
    assert np.isnan(ops.cross_entropy(*none)) and ops.cross_entropy(*none, reduction="sum") == 0
    assert ops.cross_entropy(*none, reduction="none").shape == (0,)
    x = np.ones((2, 4), "f4")
    assert np.isnan(ops.cross_entropy(x, np.full(2, -100)))  # the mean of nothing, as in PyTorch
    found = ops.cross_entropy(x, np.array([4, -1]), reduction="none")
    assert np.isnan(found).all()  # no such classes
    empty, w = np.ones((0, 3), "f4"), np.ones((4, 3), "f4")
    assert np.isnan(ops.linear_cross_entropy(empty, w, none[1]))
    found = ops.linear_cross_entropy(np.ones((2, 0), "f4"), w[:, :0], np.zeros(2, "i8"))
    assert np.allclose(found, np.log(4))
    low = np.array([[-np.inf, 0.0, -np.inf]], "f4")
    found = [ops.cross_entropy(low, np.array([t])) for t in (0, 1)]
    assert found == [np.inf, 0]
    view = np.ones((3, 8), "f4")[:, ::2]
    assert np.allclose(ops.cross_entropy(view, np.zeros(3, "i4")), np.log(4))


def test_nothing_to_do():
    x, w = np.ones((0, 8), "f2"), np.ones(8, "f2")
    for found, shape in zip(ops.layer_norm_backward(x, x, w), ((0, 8), (8,), (8,))):
        assert found.shape == shape and not found.any()
    assert ops.softmax_backward(x, x).shape == (0, 8)
    assert ops.silu_and_mul_backward(x[:, :4], x).shape == (0, 8)


def test_no_tokens_or_no_heads():
    table, at, w = np.ones((4, 8), "f4"), np.zeros(2, "i8"), np.ones(8, "f4")
    q, k = np.ones((2, 0, 8), "f4"), np.ones((2, 3, 8), "f4")
    made = ops.apply_qk_norm_rope(q, k, w, w, table, at)
    assert made[0].shape == q.shape and np.allclose(made[1][..., :4], 0)
    found = ops.qk_norm_rope_backward(q, k, q, k, w, w, table, at)
    assert not found[2].any() and found[3].any()
    ops.qk_norm_rope(q[:0], k[:0], w, w, table, at[:0])


def test_wrong_arguments_of_qk_norm_rope():
    table, at, w = np.ones((4, 8), "f4"), np.zeros(2, "i8"), np.ones(8, "f4")
    q, k = np.ones((2, 4, 8), "f4"), np.ones((2, 3, 8), "f4")
    run, back = ops.apply_qk_norm_rope, ops.qk_norm_rope_backward
    for kind, name, call in (
        (ValueError, "`q`", lambda: run(q[0], k, w, w, table, at)),
        (TypeError, "`k`", lambda: run(q, k.astype("f2"), w, w, table, at)),
        (ValueError, "`k`", lambda: run(q, np.ones((2, 3, 10), "f4"), w, w, table, at)),
        (ValueError, "`q_weight`", lambda: run(q, k, w[:7], w, table, at)),
        (TypeError, "`k_weight`", lambda: run(q, k, w, w.astype("f2"), table, at)),
        (ValueError, "`positions`", lambda: run(q, k, w, w, table, at[:1])),
        (ValueError, "`rotary_dim`", lambda: run(q, k, w, w, table[:, :3], at)),
        (ValueError, "`q_out`", lambda: run(q, k, w, w, table, at, q_out=q)),
        (ValueError, "`k_out`", lambda: run(q, k, w, w, table, at, k_out=k[:, :2])),
        (ValueError, "`k`", lambda: ops.qk_norm_rope(q, q[:, 1:], w, w, table, at)),
        (ValueError, "`dk_out`", lambda: back(q, q, q, k, w, w, table, at)),
        (ValueError, "`dk`", lambda: back(q, k, q, k, w, w, table, at, dk=k)),
    ):
        with pytest.raises(kind, match=name):
            call()


def test_wrong_arguments():
    x, w = np.ones((4, 8), "f2"), np.ones(8, "f2")
    target, each = np.zeros(4, "i8"), np.ones(4, "f4")
    one = np.ones(1, "f4")
    for kind, name, call in (
        (ValueError, "`dy`", lambda: ops.rms_norm_backward(x[:3], x, w)),
        (TypeError, "`dy`", lambda: ops.layer_norm_backward(x.astype("f4"), x, w)),
        (ValueError, "`dtotal`", lambda: ops.rms_norm_backward(x, x, w, 1e-6, x[:2])),
        (ValueError, "`dx`", lambda: ops.softmax_backward(x, x, dx=x)),
        (ValueError, "`dy`", lambda: ops.silu_and_mul_backward(x, x)),
        (ValueError, "`target`", lambda: ops.cross_entropy(x, target[:3])),
        (TypeError, "`target`", lambda: ops.cross_entropy(x, each)),
        (TypeError, "`logits`", lambda: ops.cross_entropy(x.astype("i4"), target)),
        (ValueError, "`reduction`", lambda: ops.cross_entropy(x, target, reduction="max")),
        (ValueError, "`softcap`", lambda: ops.cross_entropy(x, target, softcap=-1.0)),
        (ValueError, "`softcap`", lambda: ops.cross_entropy(x, target, softcap=float("inf"))),
        (ValueError, "`label_smoothing`", lambda: ops.cross_entropy(x, target, label_smoothing=2)),
        (
            ValueError,
            "`ignore_index`",
            lambda: ops.cross_entropy(x, target.astype("i4"), ignore_index=2**31),
        ),
        (
            ValueError,
            "`dloss`",
            lambda: ops.cross_entropy_backward(each, each, x, target, each, one),
        ),
        (ValueError, "`logits`", lambda: ops.cross_entropy(x[:, :0], target)),
        (ValueError, "`w`", lambda: ops.linear_cross_entropy(x, x[:0], target)),
        (ValueError, "`w`", lambda: ops.linear_cross_entropy(x, x[:, :7], target)),
        (TypeError, "`w`", lambda: ops.linear_cross_entropy(x, x.astype("f4"), target)),
        (ValueError, "`target`", lambda: ops.linear_cross_entropy(x, x, target[:2])),
        (ValueError, "`rows`", lambda: ops.linear_cross_entropy(x, x, target, rows=0)),
        (ValueError, "`x`", lambda: ops.apply_rope(x, np.ones((2, 4), "f4"), target)),
        (ValueError, "`residual`", lambda: ops.add_rms_norm(x, x[:3], w)),
        (ValueError, "`total`", lambda: ops.add_rms_norm(x, x, w, total=x)),
    ):
        with pytest.raises(kind, match=name):
            call()
