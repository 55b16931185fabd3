"""Ops on rows, compared with float64."""

import math

import numpy as np
import pytest

from library_utils import ml_dtypes  # isort: skip
from library_utils import BF16, TARGETS, draw, on_targets
from wave_lang import ops

HALF = {"f2": 2**-11, BF16: 2**-8, "f4": 2**-22}  # half a unit in the last place, or a bit more


def near(found, expected, dtype, more=0.0):
    """Within the rounding of the result, and `more` for what is computed in f32."""
    assert found.dtype == np.dtype(dtype) and found.shape == expected.shape
    error = np.abs(found.astype(float) - expected)
    assert (error <= np.abs(expected) * (HALF[dtype] * 1.01 + 2**-18) + more).all(), error.max()


def rms(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


# shape, type, type of weights, gemma, residual
NORMS = [
    ((3, 5, 64), "f2", "f2", False, True),
    ((2, 2048), BF16, "f4", True, False),
    ((7, 33), "f4", "f4", False, False),
    ((1,), "f2", "f4", False, True),
]


@on_targets(NORMS)
def test_rms_norm(case, target):
    shape, dtype, weight, gemma, add = case
    rng = np.random.default_rng(20)
    x, w = draw(rng, dtype, *shape), draw(rng, weight, shape[-1])
    r = draw(rng, dtype, *shape) if add else None
    total = x.astype(float) + (r.astype(float) if add else 0)
    with ops.on_target(target):
        apart = ops.add_rms_norm(x, r, w, 1e-3, gemma=gemma) if add else ()
        y = ops.rms_norm(x, w, 1e-3, residual=r, gemma=gemma)
    near(y, rms(total, w.astype(float) + gemma, 1e-3), dtype)
    if add:
        near(r, total, dtype)
        assert np.array_equal(apart[0], y) and np.array_equal(apart[1], r)


# shape, type, type of weights, gemma, residual, what it becomes
QUANTISED = [
    ((3, 5, 64), "f2", "f2", False, True, "fp8 token"),
    ((7, 33), "f4", "f4", True, False, "int8 token"),
    ((2, 2048), BF16, "f4", False, True, "int8 token"),
    ((1,), "f4", "f4", False, False, "fp8 token"),
]


@on_targets(QUANTISED)
def test_rms_norm_to_8_bits(case, target):
    shape, dtype, weight, gemma, add, quant = case
    rng = np.random.default_rng(28)
    x, w = draw(rng, dtype, *shape), draw(rng, weight, shape[-1])
    r = draw(rng, dtype, *shape) if add else None
    total = x.astype(float) + (r.astype(float) if add else 0)
    if len(shape) > 1:
        total[-1] = x[-1] = 0
        if add:
            r[-1] = 0
    wanted = rms(total, w.astype(float) + gemma, 1e-3)
    with ops.on_target(target):
        q, scale = ops.rms_norm(x, w, 1e-3, residual=r, gemma=gemma, quant=quant)
    top, kind = (448, ml_dtypes.float8_e4m3fn) if "fp8" in quant else (127, np.int8)
    assert q.dtype == kind and q.shape == shape and scale.shape == (*shape[:-1], 1)
    most = np.abs(wanted).max(-1, keepdims=True)
    np.testing.assert_allclose(scale, np.maximum(most / top, 1e-10), rtol=2e-6)
    error = np.abs(q.astype(float) * scale - wanted)
    step = np.maximum(np.abs(wanted) * 2**-4, scale * 2**-9) if top == 448 else scale / 2
    assert (error <= step * 1.001).all()
    if add:
        near(r, total, dtype)


@on_targets([((3, 64), "f2"), ((5, 30), BF16), ((1, 1000), "f4")])
def test_layer_norm_and_softmax(case, target):
    shape, dtype = case
    rng = np.random.default_rng(21)
    x, w, b = draw(rng, dtype, *shape), draw(rng, dtype, shape[-1]), draw(rng, dtype, shape[-1])
    wide = x.astype(float)
    centred = wide - wide.mean(-1, keepdims=True)
    with ops.on_target(target):
        y, p = ops.layer_norm(x, w, b), ops.softmax(x, scale=2.0)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    near(y, normal * w.astype(float) + b.astype(float), dtype, 2**-18)
    e = np.exp(2 * (wide - wide.max(-1, keepdims=True)))
    near(p, e / e.sum(-1, keepdims=True), dtype, 2**-24)


@on_targets([(64, "f4"), (20000, "f4"), (33, BF16), (64, "f2")])
def test_rows_of_the_lowest_number(case, target):
    """It is what masks add to logits that do not count; rows may consist of it."""
    columns, dtype = case
    x = np.full((2, columns), ml_dtypes.finfo(dtype).min, dtype)
    x[1, 5] = 0
    with ops.on_target(target):
        p = ops.softmax(x)
        loss = ops.cross_entropy(x, np.array([3, 5]), reduction="none")
        tokens = ops.sample(x, temperature=np.array([0, 1], "f4"))
        drawn = [ops.sample(x, seed=seed)[0] for seed in range(4)]
    near(p, np.stack([np.full(columns, 1 / columns), np.arange(columns) == 5]), dtype)
    np.testing.assert_allclose(loss, [np.log(columns), 0], rtol=1e-6)
    assert tokens.tolist() == [0, 5] and len(set(drawn)) > 1


def gelu(x):
    return x * np.vectorize(math.erfc)(-x / math.sqrt(2)) / 2


def gelu_tanh(x):
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


GATED = {
    "silu_and_mul": lambda x: x / (1 + np.exp(-x)),
    "gelu_and_mul": gelu,
    "gelu_tanh_and_mul": gelu_tanh,
}


@on_targets([((3, 2, 100), "f2"), ((2, 1200), BF16), ((5, 2), "f4")])
def test_gated(case, target):
    shape, dtype = case
    x = draw(np.random.default_rng(22), dtype, *shape, scale=2)
    gate, up = np.split(x.astype(float), 2, -1)
    for op, reference in GATED.items():
        with ops.on_target(target):
            y = getattr(ops, op)(x)
        near(y, reference(gate) * up, dtype, 2**-18)


@on_targets(["f2", BF16])
def test_activations_of_every_number(case, target):
    """Of all numbers of 16 bits up to 30, beyond which functions are x or 0 (some of them in the
    simulator), and of infinity and NaN."""
    with np.errstate(invalid="ignore"):  # some are signalling NaNs
        numbers = np.arange(1 << 16, dtype=np.uint16).view(case).astype(float)
    numbers = numbers[np.abs(numbers) <= 30][:: 37 if target.startswith("sim") else 1]
    x = np.concatenate([numbers, [np.inf, np.nan]]).astype(case)
    with ops.on_target(target):
        found = {op: getattr(ops, op)(np.stack([x, np.ones_like(x)], 1))[:, 0] for op in GATED}
    least = float(ml_dtypes.finfo(case).smallest_subnormal)
    for op, y in found.items():
        near(y[:-2], GATED[op](numbers), case, max(0.51 * least, 2**-33))
        assert y[-2] == np.inf and np.isnan(y[-1])


@on_targets([("f2", 32, 32, False, "i8"), (BF16, 40, 24, True, "i4"), ("f4", 2, 2, False, "i4")])
def test_rope(case, target):
    """q and k are columns of one tensor; elements from the rotary size on stay."""
    dtype, size, rotary, interleaved, index = case
    rng = np.random.default_rng(23)
    both = draw(rng, dtype, 5, 9 + 2, size)
    q, k, angles = both[:, :9], both[:, 9:], rng.random((50, rotary // 2)) * 6
    cos_sin = np.concatenate([np.cos(angles), np.sin(angles)], 1).astype("f4")
    at = rng.integers(0, 50, 5).astype(index)
    expected = both.astype(float)
    pairs = np.arange(rotary // 2)
    one, two = (2 * pairs, 2 * pairs + 1) if interleaved else (pairs, pairs + rotary // 2)
    cos, sin = (x[at][:, None].astype(float) for x in np.split(cos_sin, 2, axis=1))
    a, b = expected[..., one], expected[..., two]
    expected[..., one], expected[..., two] = a * cos - b * sin, b * cos + a * sin
    with ops.on_target(target):
        assert ops.rope(q, k, cos_sin, at, interleaved=interleaved) is None
    near(both, expected, dtype, 2**-18)


@on_targets([("token", "f2", (3, 2, 64)), ("group", BF16, (3, 384)), ("tensor", "f4", (5, 30))])
def test_quantize(case, target):
    by, dtype, shape = case
    x = draw(np.random.default_rng(24), dtype, *shape, scale=5)
    x[..., -1, :] = 0
    wide = x.astype(float)
    group = {"tensor": x.size, "token": shape[-1], "group": 128}[by]
    most = np.abs(wide.reshape(-1, group)).max(1)
    most = most.reshape(() if by == "tensor" else (*shape[:-1], -1))
    for op, top, kind in (
        (ops.quantize_fp8, 448, ml_dtypes.float8_e4m3fn),
        (ops.quantize_int8, 127, np.int8),
    ):
        with ops.on_target(target):
            q, scale = op(x, by)
        assert q.dtype == kind and q.shape == x.shape and scale.shape == most.shape
        np.testing.assert_allclose(scale, np.maximum(most / top, 1e-10), rtol=1e-6)
        each = np.repeat(scale, 128, -1) if by == "group" else scale
        error = np.abs(q.astype(float) * each - wide)
        step = np.maximum(np.abs(wide) * 2**-4, each * 2**-9) if top == 448 else each / 2
        assert (error <= step * 1.001).all()


@on_targets([((2, 16385), "f4"), ((1, 20000), "f2")])
def test_long_rows(case, target):
    """Rows that no workgroup holds."""
    shape, dtype = case
    rng = np.random.default_rng(27)
    x, dy = draw(rng, dtype, *shape, scale=3.0), draw(rng, dtype, *shape)
    e = np.exp(x.astype(float) * 0.5)
    with ops.on_target(target):
        y = ops.softmax(x, scale=0.5)
        dx = ops.softmax_backward(dy, y, scale=0.5)
    near(y, e / e.sum(1, keepdims=True), dtype, 2**-24)
    wide, slope = y.astype(float), dy.astype(float)
    wanted = 0.5 * wide * (slope - (slope * wide).sum(1, keepdims=True))
    near(dx, wanted, dtype, 2**-24)


def test_nothing_to_do():
    for shape in ((0, 8), (3, 0), (0,)):
        x, w = np.ones(shape, "f2"), np.ones(shape[-1], "f2")
        assert ops.rms_norm(x, w).shape == shape and ops.layer_norm(x, w, w).shape == shape
        assert ops.rms_norm(x, w, quant="fp8 token")[1].shape == (*shape[:-1], 1)
        assert ops.softmax(x).shape == shape and ops.quantize_fp8(x)[0].shape == shape
    assert ops.silu_and_mul(np.ones((0, 8), "f2")).shape == (0, 4)
    assert ops.quantize_int8(np.ones((0, 8), "f2"), "tensor")[1] == np.float32(1e-10)
    q, table = np.ones((0, 2, 8), "f2"), np.ones((4, 8), "f4")
    ops.rope(q, None, table, np.ones(0, "i8"))


def test_out_and_views():
    """Results go where `out` says; rows may be apart, and other libraries' tensors are read."""
    x, w = draw(np.random.default_rng(25), "f4", 6, 32), np.ones(8, "f4")
    part, out = x[::2, 8:16], np.zeros((3, 16), "f4")[:, ::2]
    assert ops.rms_norm(part, w, out=out) is out
    near(out, rms(part.astype(float), 1, 1e-6), "f4")

    class Foreign:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **more):
            return self.array.__dlpack__(**more)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    near(ops.rms_norm(Foreign(x), np.ones(32, "f4")), rms(x.astype(float), 1, 1e-6), "f4")


def test_wrong_arguments():
    x, w = np.ones((4, 8), "f2"), np.ones(8, "f2")
    table, at = np.ones((9, 4), "f4"), np.ones(4, "i4")
    heads = np.ones((4, 2, 8), "f2")
    for kind, name, call in (
        (TypeError, "`x`", lambda: ops.rms_norm([1.0], w)),
        (TypeError, "`x`", lambda: ops.softmax(x.astype("i4"))),
        (ValueError, "`x`", lambda: ops.softmax(np.array(1, "f4"))),
        (ValueError, "`x`", lambda: ops.softmax(np.ones((2, 4, 8), "f2")[:, ::3])),
        (ValueError, "`w`", lambda: ops.rms_norm(x, w[:7])),
        (TypeError, "`w`", lambda: ops.rms_norm(x, w.astype("i8"))),
        (ValueError, "`residual`", lambda: ops.rms_norm(x, w, residual=x)),
        (ValueError, "`residual`", lambda: ops.rms_norm(x, w, residual=np.ones((4, 7), "f2"))),
        (ValueError, "`quant`", lambda: ops.rms_norm(x, w, quant="fp8")),
        (ValueError, "`residual`", lambda: ops.rms_norm(x, w, residual=x, quant="fp8 token")),
        (ValueError, "`scale_out`", lambda: ops.rms_norm(x, w, scale_out=np.ones((4, 1), "f4"))),
        (TypeError, "`out`", lambda: ops.rms_norm(x, w, quant="int8 token", out=x)),
        (TypeError, "`b`", lambda: ops.layer_norm(x, w, w.astype("f4"))),
        (ValueError, "`out`", lambda: ops.softmax(x, out=x)),
        (ValueError, "`out`", lambda: ops.softmax(x, out=np.ones((4, 7), "f2"))),
        (TypeError, "`out`", lambda: ops.softmax(x, out=np.ones((4, 8), "f4"))),
        (ValueError, "`x`", lambda: ops.silu_and_mul(np.ones((2, 3), "f2"))),
        (ValueError, "`by`", lambda: ops.quantize_fp8(x, "row")),
        (ValueError, "`group`", lambda: ops.quantize_fp8(x, "group", group=3)),
        (ValueError, "`positions`", lambda: ops.rope(heads, None, table, at[:3])),
        (TypeError, "`positions`", lambda: ops.rope(heads, None, table, at.astype("f4"))),
        (ValueError, "`rotary_dim`", lambda: ops.rope(heads, None, table, at, rotary_dim=3)),
        (ValueError, "`q`", lambda: ops.rope(heads[..., :2], None, table, at)),
        (ValueError, "`k`", lambda: ops.rope(heads, heads, table, at)),
    ):
        with pytest.raises(kind, match=name):
            call()


@pytest.mark.parametrize("target", TARGETS)
def test_programs_are_kept(target):
    """Rows of other numbers, or of other odd lengths, use the same program."""
    with ops.on_target(target):
        before = ops.programs._compiled.cache_info().misses
        for shape in ((2, 30), (3, 29), (5, 30)):
            x = draw(np.random.default_rng(26), "f4", *shape)
            e = np.exp(x.astype(float))
            near(ops.softmax(x), e / e.sum(1, keepdims=True), "f4", 2**-20)
        assert ops.programs._compiled.cache_info().misses <= before + 1
