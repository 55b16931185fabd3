"""Layers with experts whose weights have 4 bits, compared with float64."""

import re

import numpy as np
import pytest

from library_utils import ml_dtypes  # isort: skip
from library_utils import BF16, check, draw, on_targets
from wave_lang import ops
from wave_lang.kernel import lang as tkl
from wave_lang.ops import moe, moe_formats
from wave_lang.ops import moe_packed_kernels as kernels
from wave_lang.ops.activations import silu
from wave_lang.ops.programs import program

F4, E8M0 = np.dtype("f4"), ml_dtypes.float8_e8m0fnu
FOUR_BITS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def padded(x):
    """The same elements, inside a larger tensor of NaN, or of the largest integers."""
    nothing = np.nan if x.dtype.kind in "fV" else np.iinfo(x.dtype).max
    room = np.full([n + 3 for n in x.shape[:-1]] + [x.shape[-1] + 32], nothing).astype(x.dtype)
    inside = tuple(slice(2, -1) for _ in x.shape[:-1]) + (slice(16, -16),)
    room[inside] = x
    return room[inside]


def codes(pairs):
    return np.stack([pairs & 15, pairs >> 4], -1).reshape(*pairs.shape[:-1], -1)


def wide(numbers, group, size):
    """Each number as often as its group has elements."""
    return np.repeat(numbers.astype(float), group, -1)[..., :size]


class Integers:
    """Weights with scales and, perhaps, zeros, of about the same size as those of a real layer."""

    def __init__(self, rng, experts, rows, columns, group, dtype, scale_type, has_zeros):
        shape = (experts, rows, -(-columns // group))
        self.pairs = rng.integers(0, 256, (experts, rows, columns // 2)).astype("u1")
        self.scale = (rng.uniform(0.05, 0.2, shape) * columns**-0.5).astype(scale_type)
        self.zero = rng.integers(0, 16, shape).astype(dtype) if has_zeros else None
        zero = wide(self.zero, group, columns) if has_zeros else 8.0
        self.real = (codes(self.pairs) - zero) * wide(self.scale, group, columns)


class Floats:
    """Weights as `quantize_mx` makes them."""

    zero = None

    def __init__(self, rng, experts, rows, columns, scale_type="u1"):
        real = draw(rng, "f4", experts, rows, columns, scale=columns**-0.5)
        self.pairs, scale = ops.quantize_mx(real, "e2m1")
        code = codes(self.pairs)
        value = np.where(code & 8, -1, 1) * FOUR_BITS[code & 7]
        self.real = value * wide(2.0 ** (scale.astype(float) - 127), 32, columns)
        self.scale = scale.view(scale_type)


def layer(x, w1, w2, weights, ids):
    """In float64; ids that are not those of an expert count as none."""
    wanted = np.zeros(x.shape)
    for t, j in np.ndindex(ids.shape):
        if 0 <= ids[t, j] < len(w1):
            gate, up = np.split(w1[ids[t, j]] @ x[t].astype(float), 2)
            wanted[t] += weights[t, j] * (w2[ids[t, j]] @ (gate / (1 + np.exp(-gate)) * up))
    return wanted


def run(rng, target, quant, x, w1, w2, experts, top, **options):
    """Compares a call with float64; the last expert has no tokens."""
    tokens = len(x)
    weights = rng.random((tokens, top)).astype("f4")
    ids = rng.integers(0, max(experts - 1, 1), (tokens, top)).astype("i4")
    ids[-1, 0] = experts if tokens > 1 else 0  # no expert
    numbers = {"w1_scale": w1.scale, "w2_scale": w2.scale, "w1_zero": w1.zero, "w2_zero": w2.zero}
    given = {name: padded(value) for name, value in numbers.items() if value is not None}
    pairs = [padded(w.pairs) for w in (w1, w2)]
    out = np.full((tokens, 2 * x.shape[1]), np.nan, x.dtype)[:, x.shape[1] :]
    with ops.on_target(target):
        y = ops.fused_experts(
            padded(x), *pairs, weights, ids, quant=quant, out=out, **given, **options
        )
    assert y is out and np.isnan(out.base[:, : x.shape[1]].astype(float)).all()
    check(y, layer(x, w1.real, w2.real, weights, ids), x.dtype, 2.0)


@pytest.fixture(autouse=True)
def scratch_of_nan(monkeypatch):
    """What ops allocate has NaN, or large integers, where nothing is written."""
    for module in (moe, moe_formats):
        plain = module.new_tensor

        def filled(like, shape, dtype, plain=plain):
            made = plain(like, shape, dtype)
            made[...] = np.nan if made.dtype.kind in "fV" else np.iinfo(made.dtype).max
            return made

        monkeypatch.setattr(module, "new_tensor", filled)


# tokens, experts, top, K, N, group, the types of x and of scales, has it zeros
W4 = [
    (5, 3, 2, 192, 96, 32, BF16, F4, True),
    (65, 2, 1, 200, 72, 128, "f2", F4, True),  # groups that are not whole
    (37, 3, 2, 320, 192, 64, BF16, BF16, True),  # blocks of 64 slots
    (1, 4, 1, 128, 64, 64, "f2", "f2", False),
    (9, 2, 2, 256, 160, 160, BF16, BF16, False),
    (130, 2, 2, 128, 130, 96, "f2", "f2", False),
]


@on_targets(W4)
def test_w4(case, target):
    tokens, experts, top, size, inner, group, dtype, scale_type, has_zeros = case
    rng = np.random.default_rng(130)
    x, more = draw(rng, dtype, tokens, size), (group, dtype, scale_type, has_zeros)
    w1 = Integers(rng, experts, 2 * inner, size, *more)
    w2 = Integers(rng, experts, size, inner, *more)
    run(rng, target, "w4", x, w1, w2, experts, top, group=group)


# tokens, experts, top, K, N, the types of x and of scales
MX = [
    (5, 3, 2, 96, 64, BF16, "u1"),
    (130, 2, 1, 288, 160, "f2", "u1"),
    (37, 3, 2, 160, 96, BF16, E8M0),  # blocks of 64 slots
    (1, 4, 1, 32, 32, "f2", E8M0),
]


@on_targets(MX)
def test_mxfp4(case, target):
    tokens, experts, top, size, inner, dtype, scale_type = case
    rng = np.random.default_rng(131)
    x = draw(rng, dtype, tokens, size)
    w1 = Floats(rng, experts, 2 * inner, size, scale_type)
    w2 = Floats(rng, experts, size, inner, scale_type)
    run(rng, target, "mxfp4", x, w1, w2, experts, top)


@on_targets([0])
def test_scales_that_f16_does_not_have(case, target):
    """2 to the power of 40 and of -127, and NaN, which stays with its expert."""
    x, ids = np.full((4, 32), 2.0**-14, "f2"), np.array([[0], [1], [2], [1]], "i4")
    pairs = np.full((3, 64, 16), 0x22, "u1"), np.full((3, 32, 16), 0x22, "u1")  # ones
    up, down = np.full((3, 64, 1), 127 + 9, "u1"), np.full((3, 32, 1), 127, "u1")
    up[0, 32:], down[0] = 127 + 40, 127 - 35
    up[1, 32:], down[1] = 0, 254
    up[2, 5] = 255
    with ops.on_target(target):
        y = ops.fused_experts(x, *pairs, np.ones((4, 1), "f4"), ids, up, down, quant="mxfp4")
    # The gate is 2 to the power of 0: 32 terms of -14 + 9; what it multiplies, of -9 + 40 or less.
    assert np.array_equal(np.isnan(y).any(1), [False, False, True, False])
    assert y[0].min() == y[0].max() and not y[1].any() and not y[3].any()


def test_weights_in_order():
    """The first weight of a byte belongs to the first element of x, the first half of w1 is the
    gate's."""
    x, pairs = np.zeros((1, 32), "f2"), np.full((1, 4, 16), 0x88, "u1")
    x[0, 6] = 1
    pairs[0, :, 3] = 0x8A, 0x8C, 0x8B, 0x8D  # element 6: 2 and 4, then 3 and 5
    w2 = np.full((1, 32, 1), 0xA9, "u1")  # 1 and 2
    one, ids = np.ones((1, 1), "f4"), np.zeros((1, 1), "i4")
    up, down = np.ones((1, 4, 1), "f2"), np.ones((1, 32, 1), "f2")
    y = ops.fused_experts(x, pairs, w2, one, ids, up, down, quant="w4")
    gate = np.array([2, 4])
    wanted = (gate / (1 + np.exp(-gate)) * (3, 5)) @ (1, 2)
    assert np.abs(y.astype(float) - wanted).max() < 2**-9 * wanted
    up[:], zero = 0.5, np.full((1, 4, 1), 9.5, "f2")
    less = ops.fused_experts(x, pairs, w2, one, ids, up, down, zero, quant="w4", group=32)
    gate = np.array([0.5, 2.5]) / 2
    wanted = (gate / (1 + np.exp(-gate)) * np.array([1.5, 3.5]) / 2) @ (1, 2)
    assert np.abs(less.astype(float) - wanted).max() < 2**-9 * wanted


# The type of scales, has it zeros, the group
KINDS = {"w4": (tkl.bf16, True, 128), "mxfp4": (tkl.i8, False, 32)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", (16, 64))
def test_copies_and_products_of_hopper(kind, block):
    """Weights are copied by TMA; rows of tokens, which are not next to each other, by cp.async."""
    number, zeros, group = KINDS[kind]
    key = (kind, tkl.bf16, number, zeros, group)
    with ops.on_target("sm_90a"):
        gated = program(kernels.gated_groups, *key, silu, block, 64, 4, 8, 768, 2880).ptx
        expanded = program(kernels.expanded_groups, *key, block, 128, 8, 2880, 768).ptx
    for text in (gated, expanded):
        loops = re.findall(r"^(\$loop\d+):(.*?)bra \1;", text, re.M | re.S)
        assert loops and "mma.sync" not in text
        for _, loop in loops:  # tiles at the end of a dimension may have one of their own
            assert f"wgmma.mma_async.sync.aligned.m64n{block}k16.f32.bf16.bf16" in loop
            assert "cp.async.bulk.tensor" in loop
            assert bool(re.search(r"cp\.async\.c[ag]", loop)) == (text is gated)


X, IDS, SHARE = np.ones((3, 64), "f2"), np.zeros((3, 2), "i4"), np.ones((3, 2), "f4")
W1, W2 = np.ones((2, 128, 32), "u1"), np.ones((2, 64, 32), "u1")
S1, S2 = np.ones((2, 128, 2), "f2"), np.ones((2, 64, 2), "f2")
B1, B2 = S1.astype("u1"), S2.astype("u1")
H1, H2 = np.ones((2, 128, 64), "f2"), np.ones((2, 64, 64), "f2")
SHARED = B1.view("f2").ravel()[:192].reshape(3, 64)  # bytes of scales


def call(quant, s1, s2, *zeros, x=X, w1=W1, w2=W2, **options):
    return ops.fused_experts(x, w1, w2, SHARE, IDS, s1, s2, *zeros, quant=quant, **options)


BAD = [
    (ValueError, "`quant`", lambda: call("w5", S1, S2)),
    (TypeError, "`x`", lambda: call("w4", S1, S2, x=X.astype("f4"), group=32)),
    (TypeError, "`x`", lambda: call("mxfp4", B1, B2, x=X.astype("f4"))),
    (TypeError, "`w1`", lambda: call("w4", S1, S2, w1=W1.view("i1"), group=32)),
    (TypeError, "`w2`", lambda: call("mxfp4", B1, B2, w2=W2.astype("f2"))),
    (ValueError, "`w1`", lambda: call("w4", S1, S2, w1=W1[:, :, :31], group=32)),
    (ValueError, "`w1`", lambda: call("w4", S1, S2, w1=W1[:, :126], group=32)),
    (ValueError, "`w1`", lambda: call("mxfp4", B1, B2, w1=W1[:, :96])),
    (ValueError, "`w2`", lambda: call("w4", S1, S2, w2=W2[:, :, :16], group=32)),
    (ValueError, "`x`", lambda: call("w4", S1, S2, x=X[:, :63], group=32)),
    (ValueError, "`x`", lambda: call("mxfp4", B1, B2, x=X[:, :48])),
    (ValueError, "`w1_scale`", lambda: call("w4", None, S2, group=32)),
    (ValueError, "`w2_scale`", lambda: call("mxfp4", B1, None)),
    (ValueError, "`w1_scale`", lambda: call("w4", S1, S2)),
    (ValueError, "`w2_scale`", lambda: call("w4", S1, S2[:, :, :1], group=32)),
    (TypeError, "`w1_scale`", lambda: call("w4", S1.astype(BF16), S2, group=32)),
    (TypeError, "`w2_scale`", lambda: call("mxfp4", B1, S2)),
    (TypeError, "`w1_zero`", lambda: call("w4", S1, S2, S1.astype("f4"), group=32)),
    (ValueError, "`w2_zero`", lambda: call("w4", S1, S2, S1, S1, group=32)),
    (ValueError, "`w1_zero`", lambda: call("mxfp4", B1, B2, B1)),
    (ValueError, "`group`", lambda: call("w4", S1, S2, group=48)),
    (ValueError, "`group`", lambda: call("w4", S1, S2, group=0)),
    (ValueError, "`group`", lambda: call("mxfp4", B1, B2, group=64)),
    (ValueError, "`group`", lambda: call(None, None, None, w1=H1, w2=H2, group=32)),
    (ValueError, "`w2_zero`", lambda: call(None, None, None, None, H2, w1=H1, w2=H2)),
    (ValueError, "`out`", lambda: call("w4", S1, S2, group=32, out=X)),
    (ValueError, "`out`", lambda: call("mxfp4", B1, B2, out=SHARED)),
]


@pytest.mark.parametrize("kind, word, run", BAD)
def test_mistakes(kind, word, run, monkeypatch):
    """Nothing is compiled or launched."""
    nothing = lambda *key: pytest.fail("a kernel is launched")
    monkeypatch.setattr(moe, "program", nothing)
    monkeypatch.setattr(moe_formats, "program", nothing)
    with pytest.raises(kind, match=word):
        run()


def test_nothing_to_do():
    none = ops.fused_experts(X[:0], W1, W2, SHARE[:0], IDS[:0], S1, S2, quant="w4", group=32)
    assert none.shape == (0, 64)
    y = ops.fused_experts(X, W1[:0], W2[:0], SHARE, IDS, B1[:0], B2[:0], quant="mxfp4")
    assert y.shape == X.shape and not y.any()
