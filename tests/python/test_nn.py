"""Modules that replace PyTorch's: values and gradients beside float64, and what `replace` says."""

import copy
import re
import subprocess
import sys
from pathlib import Path

import pytest

import serving_standins
import wave_lang

torch = pytest.importorskip("torch")
from torch import nn
from torch.nn import functional as F

import wave_lang.kernel.wave.nn as public_nn
import wave_lang.nn as wave_nn
import wave_lang.nn.functional as WF
from wave_lang import ops

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
STEP = {torch.float16: 2**-11, torch.bfloat16: 2**-8, torch.float32: 2**-24}


def draw(*shape, dtype=torch.float32, seed=0, grad=False):
    numbers = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=numbers).to(dtype).requires_grad_(grad)


def error(found, exact):
    return (found.double() - exact).abs().max().item() if exact.numel() else 0.0


def near(found, theirs, exact, steps=4):
    """The error is at most 1.5 times that of PyTorch in the same type, or a few roundings."""
    assert found.dtype == theirs.dtype and found.shape == theirs.shape
    assert not found.isnan().any()
    least = STEP[found.dtype] * steps * max(exact.abs().max().item() if exact.numel() else 0, 1)
    assert error(found, exact) <= max(1.5 * error(theirs, exact), least)


def doubled(module):
    """The same module in float64."""
    return copy.deepcopy(module).double()


def compare(mine, theirs, *inputs, **options):
    """Value and gradients of a module and of PyTorch's, which share parameters."""
    exact = doubled(theirs)
    results = []
    for module, args in (
        (mine, inputs),
        (theirs, inputs),
        (exact, [x.double() for x in inputs]),
    ):
        args = [x.detach().clone().requires_grad_() for x in args]
        module.zero_grad()
        y = module(*args, **options)
        y = y[0] if isinstance(y, tuple) else y
        y.backward(torch.ones_like(y) * 0.5 + y.detach() * 0.25)
        grads = [x.grad for x in args] + [p.grad.clone() for p in module.parameters()]
        results.append([y.detach(), *grads])
    for found, other, wanted in zip(*results):
        near(found, other, wanted, steps=32)


LINEAR = [
    ((), 7, 5, True, torch.float32),
    ((1,), 64, 33, True, torch.float32),
    ((3, 43), 70, 130, False, torch.bfloat16),
    ((0,), 8, 8, True, torch.float32),
]


@pytest.mark.parametrize("batch, k, n, bias, dtype", LINEAR)
def test_linear(batch, k, n, bias, dtype):
    theirs = nn.Linear(k, n, bias=bias, dtype=dtype)
    mine = wave_nn.Linear(k, n, bias=bias, dtype=dtype)
    mine.load_state_dict(theirs.state_dict())
    compare(mine, theirs, draw(*batch, k, dtype=dtype))


@pytest.mark.parametrize("trans_a, trans_b", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gradients_of_matmuls(trans_a, trans_b):
    """Both operands in both orders."""
    a = draw(7, 5, seed=1, grad=True) if trans_a else draw(5, 7, seed=1, grad=True)
    b = draw(6, 7, seed=2, grad=True) if trans_b else draw(7, 6, seed=2, grad=True)
    dy = draw(5, 6, seed=3)
    found = ops.matmul(a, b, trans_a=bool(trans_a), trans_b=bool(trans_b))
    wanted = (a.mT if trans_a else a) @ (b.mT if trans_b else b)
    grads = [torch.autograd.grad(y, [a, b], dy) for y in (found, wanted)]
    for mine, theirs in zip([found, *grads[0]], [wanted, *grads[1]]):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("m, n, k", [(0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 4)])
def test_gradients_of_matmuls_without_elements(m, n, k):
    for lead in ((), (3,)):
        a, b, bias = draw(*lead, m, k, grad=True), draw(k, n, grad=True), draw(n, grad=True)
        made = ops.matmul(a, b, bias)
        assert torch.equal(made, torch.zeros(*lead, m, n) + bias)
        found = torch.autograd.grad(made.sum(), (a, b, bias))
        exact = torch.autograd.grad((a @ b + bias).sum(), (a, b, bias))
        assert all(torch.equal(x, y) for x, y in zip(found, exact))


def test_tensors_without_elements():
    empty = draw(2, 3, 0)
    for x, w in ((empty, draw(5, 0)), (draw(0, 3, 4), draw(5, 4)), (empty[:, :0], draw(5, 0))):
        assert torch.equal(WF.linear(x, w), F.linear(x, w))
    for x, shape in ((empty, (0,)), (empty, (3, 0)), (draw(0, 4), (4,))):
        assert WF.layer_norm(x, shape).shape == WF.rms_norm(x, shape).shape == x.shape
    for rows, keys in ((0, 4), (4, 0), (0, 0)):
        q, k = draw(2, 3, rows, 8), draw(2, 3, keys, 8)
        for causal in (False, True):
            found = WF.scaled_dot_product_attention(q, k, k, is_causal=causal)
            assert torch.equal(found, torch.zeros_like(q))
    none = draw(2, 0, 8)
    made = wave_nn.MultiheadAttention(8, 2, batch_first=True)(none, none, none, need_weights=False)
    assert made[0].shape == none.shape


def test_linear_of_a_strided_input_and_autocast():
    mine = wave_nn.Linear(20, 6)
    x = draw(40, 9).T[:, ::2]
    torch.testing.assert_close(mine(x), F.linear(x, mine.weight, mine.bias))
    with torch.autocast("cpu", torch.bfloat16):
        assert mine(x).dtype == torch.bfloat16


NORMS = [
    (nn.RMSNorm, wave_nn.RMSNorm, (48,), {}, torch.float32),
    (nn.RMSNorm, wave_nn.RMSNorm, (5, 7), {"eps": 1e-5}, torch.bfloat16),
    (nn.RMSNorm, wave_nn.RMSNorm, (33,), {"elementwise_affine": False}, torch.float16),
    (nn.LayerNorm, wave_nn.LayerNorm, (48,), {}, torch.float32),
    (nn.LayerNorm, wave_nn.LayerNorm, (33,), {"bias": False}, torch.float16),
    (nn.LayerNorm, wave_nn.LayerNorm, (3, 1), {"elementwise_affine": False}, torch.float32),
]


@pytest.mark.parametrize("theirs, mine, shape, options, dtype", NORMS)
def test_norms(theirs, mine, shape, options, dtype):
    theirs, mine = (made(shape, dtype=dtype, **options) for made in (theirs, mine))
    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(draw(*p.shape, dtype=dtype))
    mine.load_state_dict(theirs.state_dict())
    for batch in ((1,), (2, 3), (0, 4)):
        compare(mine, theirs, draw(*batch, *shape, dtype=dtype) + 1)


ATTENTION = [
    ((2, 4, 33, 16), 4, 33, 16, False, torch.float16),
    ((1, 4, 20, 24), 2, 20, 24, True, torch.bfloat16),
    ((3, 2, 1, 16), 1, 40, 8, True, torch.float32),  # fewer rows than keys
    ((2, 2, 40, 16), 2, 7, 16, True, torch.float32),  # more
    ((9, 16), 1, 9, 16, False, torch.float32),
]


@pytest.mark.parametrize("q, heads, keys, columns, causal, dtype", ATTENTION)
def test_attention(q, heads, keys, columns, causal, dtype):
    """PyTorch aligns causal attention at the first row and key."""
    lead = (*q[:-3], heads) if len(q) > 2 else ()
    args = [
        draw(*q, dtype=dtype, grad=True),
        draw(*lead, keys, q[-1], dtype=dtype, seed=1, grad=True),
        draw(*lead, keys, columns, dtype=dtype, seed=2, grad=True),
    ]
    options = {"is_causal": causal, "scale": 0.3, "enable_gqa": len(q) > 2}
    exact = F.scaled_dot_product_attention(*(x.double() for x in args), **options)
    theirs = F.scaled_dot_product_attention(*args, **options)
    found = WF.scaled_dot_product_attention(*args, **options)
    near(found, theirs, exact)
    weights = draw(*found.shape, dtype=dtype)
    grads = [torch.autograd.grad((y * weights).sum(), args) for y in (found, theirs, exact)]
    for mine, other, wanted in zip(*grads):
        near(mine, other, wanted.double(), steps=32)


@pytest.mark.parametrize("shape", [(9, 20), (2, 1, 9, 20), (3, 1, 4, 9, 1)], ids=str)
def test_attention_with_a_mask(shape):
    """Of bools, or added to scores, which then has a gradient."""
    lead = (3, 2) if len(shape) == 5 else (2,)
    q, k, v = (draw(*lead, 4, n, 16, seed=n, grad=True) for n in (9, 20, 20))
    bias = draw(*shape, grad=True)
    for mask, wanted in ((bias, [q, k, v, bias]), (draw(*shape) > -1, [q, k, v])):
        both = []
        for f in (F.scaled_dot_product_attention, WF.scaled_dot_product_attention):
            y = f(q, k, v, attn_mask=mask)
            both.append([y, *torch.autograd.grad((y * draw(*y.shape)).sum(), wanted)])
        for one, two in zip(*both):
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


HEADS = [
    ({"batch_first": True}, (2, 9, 32), {}),
    ({"bias": False, "kdim": 20, "vdim": 12}, (9, 2, 32), {}),
    ({"batch_first": True}, (9, 32), {"is_causal": True}),
]


@pytest.mark.parametrize("options, shape, call", HEADS)
def test_multihead_attention(options, shape, call):
    theirs = nn.MultiheadAttention(32, 4, **options)
    mine = wave_nn.MultiheadAttention(32, 4, **options)
    mine.load_state_dict(theirs.state_dict())
    q = draw(*shape)
    k, v = (draw(*shape[:-1], options.get(n, 32), seed=3) for n in ("kdim", "vdim"))
    mask = nn.Transformer.generate_square_subsequent_mask(9) if call else None
    wanted = theirs(q, k, v, need_weights=False, attn_mask=mask, **call)[0]
    found, weights = mine(q, k, v, need_weights=False, attn_mask=mask, **call)
    assert weights is None
    torch.testing.assert_close(found, wanted)
    hidden = torch.zeros(9, dtype=torch.bool) if len(shape) == 2 else torch.zeros(2, 9).bool()
    hidden[..., -1] = True
    for more in ({"need_weights": True}, {"key_padding_mask": hidden}):
        for a, b in zip(mine(q, k, v, **more), theirs(q, k, v, **more)):
            torch.testing.assert_close(a, b)  # PyTorch's own


class Gated(nn.Module):
    """A gated MLP as models write it."""

    def __init__(self, act, size=24, inner=40, dtype=torch.float32):
        super().__init__()
        made = {"bias": False, "dtype": dtype}
        self.gate_proj, self.up_proj = (nn.Linear(size, inner, **made) for _ in range(2))
        self.down_proj, self.act_fn = nn.Linear(inner, size, **made), act

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


@pytest.mark.parametrize(
    "made, act, dtype",
    [
        (wave_nn.SwiGLU, nn.SiLU(), torch.float32),
        (wave_nn.GeGLU, nn.GELU(), torch.float16),
    ],
)
def test_gated_mlp(made, act, dtype):
    theirs, mine = Gated(act, dtype=dtype), made(24, 40, dtype=dtype)
    mine.load_state_dict(theirs.state_dict())
    x = draw(2, 5, 24, dtype=dtype)
    compare(mine, theirs, x)
    with torch.no_grad():  # no copy of both halves
        near(mine(x), theirs(x), doubled(theirs)(x.double()), steps=16)


COMPILED = {
    "linear": lambda: (wave_nn.Linear(24, 9), True),
    "rms_norm": lambda: (wave_nn.RMSNorm(24), True),
    "layer_norm": lambda: (wave_nn.LayerNorm(24), True),
    "gated": lambda: (wave_nn.SwiGLU(24, 40), True),
    "gated_without": lambda: (wave_nn.SwiGLU(24, 40), False),
    "attention": lambda: (attend, True),
    "attention_without": lambda: (attend, False),
    "experts": lambda: (wave_nn.MoE(24, 40, 4, 2), True),
    "experts_without": lambda: (wave_nn.MoE(24, 40, 4, 2), False),
}


def attend(x):
    return WF.scaled_dot_product_attention(x, x, x, is_causal=True)


@pytest.mark.parametrize("name", COMPILED)
def test_compiled(name):
    """With and without gradients, in one graph."""
    function, grad = COMPILED[name]()
    x = draw(2, 5, 24, grad=True)
    torch.compiler.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    with torch.set_grad_enabled(grad):
        found, wanted = compiled(x), function(x)
        torch.testing.assert_close(found, wanted)
        if grad:
            mine, theirs = (torch.autograd.grad(y.square().sum(), x)[0] for y in (found, wanted))
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


class Routed(nn.Module):
    """Experts, one token at a time."""

    def __init__(self, experts, top_k, scoring="softmax"):
        super().__init__()
        self.gate = nn.Linear(24, experts, bias=False)
        self.experts = nn.ModuleList(Gated(nn.SiLU()) for _ in range(experts))
        self.top_k, self.scoring = top_k, scoring

    def forward(self, x):
        logits = self.gate(x)
        scores = logits.softmax(-1) if self.scoring == "softmax" else logits.sigmoid()
        weights, ids = scores.topk(self.top_k)
        weights = weights / weights.sum(-1, keepdim=True)
        rows = []
        for t in range(len(x)):
            parts = [w * self.experts[e](x[t]) for w, e in zip(weights[t], ids[t].tolist())]
            rows.append(sum(parts))
        return torch.stack(rows) if rows else x


@pytest.mark.parametrize("tokens, top_k, scoring", [(9, 2, "softmax"), (1, 3, "sigmoid")])
def test_moe(tokens, top_k, scoring):
    theirs = Routed(4, top_k, scoring)
    mine = wave_nn.MoE.from_experts(theirs.gate, theirs.experts, top_k, scoring=scoring)
    x, exact = draw(tokens, 24, grad=True), doubled(theirs)
    near(mine(x), theirs(x), exact(x.double()), steps=64)
    found = torch.autograd.grad(mine(x).square().sum(), [x, mine.gate.weight, mine.w2])
    wanted = torch.autograd.grad(theirs(x).square().sum(), [x, theirs.gate.weight])
    for a, b in zip(found, wanted):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert found[2].abs().sum() > 0
    assert mine(x[:0]).shape == (0, 24)


def test_experts_that_a_layer_with_experts_cannot_hold():
    """Nothing of theirs is left out, and no weight is broadcast."""
    gate, experts = nn.Linear(24, 3, bias=False), [Gated(nn.SiLU()) for _ in range(3)]
    make = lambda: wave_nn.MoE.from_experts(gate, experts, 2)
    make()
    gate.bias = nn.Parameter(torch.zeros(3))
    with pytest.raises(ValueError, match="`gate` has a bias"):
        make()
    gate = nn.Linear(24, 1, bias=False)
    with pytest.raises(ValueError, match=r"`gate.weight` has the shape \(1, 24\), expected \(3, 24\)"):
        make()
    gate, experts[1] = nn.Linear(24, 3, bias=False), Gated(nn.SiLU(), inner=20)
    with pytest.raises(ValueError, match=r"`experts\[1\].gate_proj.weight` has the shape \(20, 24"):
        make()
    experts[1] = Gated(nn.SiLU())
    experts[1].down_proj.bias = nn.Parameter(torch.zeros(24))
    with pytest.raises(ValueError, match=r"`experts\[1\].down_proj` has a bias"):
        make()
    experts = []
    with pytest.raises(ValueError, match="`experts`"):
        make()


class Norm(nn.Module):
    """RMSNorm as models write it; with `power` 3, something else."""

    def __init__(self, size, power=2, more=0.0):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(draw(size)), 1e-5
        self.power, self.more = power, more

    def forward(self, x):
        mean = x.float().abs().pow(self.power).mean(-1, keepdim=True)
        unit = (x.float() * torch.rsqrt(mean + self.variance_epsilon)).to(x.dtype)
        return unit * (self.weight + self.more)


@pytest.mark.parametrize("more", [0.0, 1.0])
def test_inputs_of_another_type_than_the_weights(more):
    """The result has the type that the model gives it, here that of the weights."""
    x, norm = draw(3, 24, dtype=torch.bfloat16), Norm(24, more=more)
    expected = norm(x)
    assert wave_nn.replace(norm, verbose=False)[0].new
    found = norm(x)
    assert found.dtype == torch.float32 and torch.equal(found, expected)


def model():
    block = nn.TransformerEncoderLayer(24, 2, 40, dropout=0.0, batch_first=True)
    return nn.ModuleDict(
        {
            "block": block,
            "norm": Norm(24),
            "gemma": Norm(24, more=1.0),
            "other": Norm(24, power=3),
            "mlp": Gated(nn.SiLU()),
            "relu": Gated(nn.ReLU()),
            "wide": nn.Linear(24, 3, dtype=torch.float64),
            "table": nn.Embedding(5, 24),
        }
    )


def test_replace(capsys):
    theirs, mine = model(), model()
    mine.load_state_dict(theirs.state_dict())
    names = {n for n, _ in mine.named_parameters()}
    weight = mine["block"].linear1.weight
    rows = {row.name: row for row in wave_lang.replace(mine)}
    assert capsys.readouterr().out.splitlines() == [str(row) for row in rows.values()]
    assert {n for n, _ in mine.named_parameters()} == names  # and so are the states
    assert mine["block"].linear1.weight is weight
    assert str(rows["block.linear1"]) == "block.linear1: Linear -> wave_lang.nn.Linear"
    assert rows["block.self_attn"].new == "wave_lang.nn.MultiheadAttention"
    assert rows["norm"].new == rows["gemma"].new == "WaveNorm" and rows["mlp"].new == "WaveGated"
    assert "computes something else" in rows["other"].reason
    assert "computes something else" in rows["relu"].reason
    assert rows["relu.gate_proj"].new == "wave_lang.nn.Linear"
    assert "float64" in rows["wide"].reason
    assert rows["table"].reason == "no module of wave_lang.nn corresponds to its class"
    assert "block.self_attn.out_proj" not in rows
    x = draw(2, 9, 24)
    for name in ("block", "norm", "gemma", "other", "mlp", "relu"):
        torch.testing.assert_close(mine[name](x), theirs[name](x), rtol=1e-4, atol=1e-5)
    again = wave_lang.replace(mine, verbose=False)
    assert all(row.new is None for row in again if row.name in ("block.linear1", "mlp.up_proj"))
    assert capsys.readouterr().out == ""


class Clamped(Gated):
    """As GPT-OSS limits its activations: it differs for large inputs only."""

    def forward(self, x):
        up = self.up_proj(x).clamp(-7, 7)
        return self.down_proj(self.act_fn(self.gate_proj(x)).clamp(max=7) * up)


class Dropped(Gated):
    """Two kinds of dropout, which differ in training only."""

    def __init__(self, functional):
        super().__init__(nn.SiLU())
        self.drop = nn.Identity() if functional else nn.Dropout(0.1)
        self.functional = functional

    def forward(self, x):
        inner = self.act_fn(self.gate_proj(x)) * self.up_proj(x)
        inner = nn.functional.dropout(inner, 0.1, self.training and self.functional)
        return self.down_proj(self.drop(inner))


class NormBeside(nn.Module):
    """Its `eps` is added to the root, which shows in small inputs only."""

    def __init__(self, size):
        super().__init__()
        self.weight, self.eps = nn.Parameter(draw(size)), 1e-6

    def forward(self, x):
        return self.weight * x / (x.pow(2).mean(-1, keepdim=True).sqrt() + self.eps)


@pytest.mark.parametrize(
    "made",
    [
        lambda: Clamped(nn.SiLU()),
        lambda: Dropped(False),
        lambda: Dropped(True),
        lambda: NormBeside(24),
    ],
)
@pytest.mark.parametrize("training", [False, True])
def test_what_computes_the_same_for_some_inputs_only_is_kept(made, training):
    module = made().train(training)
    next(module.modules()).training = not training  # a mode of its own
    modes = [m.training for m in module.modules()]
    state = torch.random.get_rng_state()
    row = wave_lang.replace(module, verbose=False)[0]
    assert row.new is None and "computes something else" in row.reason
    assert [m.training for m in module.modules()] == modes
    assert torch.equal(torch.random.get_rng_state(), state)


class Adapted(nn.Linear):
    """A layer with an adapter that is zero at first."""

    def __init__(self, columns, rows):
        super().__init__(columns, rows, bias=False)
        self.left, self.right = nn.Parameter(draw(2, columns)), nn.Parameter(torch.zeros(rows, 2))

    def forward(self, x):
        return super().forward(x) + x @ self.left.T @ self.right.T


def scaled_by_two(module, given, found):
    return found * 2


@pytest.mark.parametrize("how", ["class", "later class", "hook", "pre-hook", "bias", "forward"])
@pytest.mark.parametrize("made", ["replaced", "made"])
def test_layers_of_a_gated_mlp_that_do_more_than_multiply(made, how):
    """Adapters, hooks and quantised layers, from before the replacement or after it."""
    theirs = Gated(nn.SiLU())

    def change(mlp):
        if "class" in how:
            mlp.up_proj = Adapted(24, 40)
            with torch.no_grad():
                mlp.up_proj.weight.fill_(0.1)
                mlp.up_proj.left.fill_(0.3)
        elif how == "bias":
            mlp.up_proj.bias = nn.Parameter(torch.ones(40))
        elif how == "forward":
            mlp.up_proj.forward = lambda x: torch.ones(*x.shape[:-1], 40)
        elif how == "hook":
            mlp.up_proj.register_forward_hook(scaled_by_two)
        else:
            mlp.up_proj.register_forward_pre_hook(lambda module, given: (given[0] * 2,))

    mine = wave_nn.SwiGLU(24, 40) if made == "made" else Gated(nn.SiLU())
    mine.load_state_dict(theirs.state_dict())
    early = made == "replaced" and how in ("class", "hook")
    if early:
        change(mine)
    if made == "replaced":
        wave_lang.replace(mine, verbose=False)
    if not early:
        change(mine)
    change(theirs)
    for mlp in (mine, theirs):
        if "class" in how:
            with torch.no_grad():
                mlp.up_proj.right.fill_(0.2)
    x = draw(3, 24)
    torch.testing.assert_close(mine(x), theirs(x), rtol=1e-4, atol=1e-5)


def test_a_gated_mlp_with_an_attribute_of_our_name():
    class Named(Gated):
        def __init__(self):
            super().__init__(nn.SiLU())
            self.activation = nn.functional.silu

        def forward(self, x):
            return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))

    mine, x = Named(), draw(3, 24)
    expected = mine(x)
    assert wave_lang.replace(mine, verbose=False)[0].new == "WaveNamed"
    torch.testing.assert_close(mine(x), expected, rtol=1e-4, atol=1e-5)
    mine.up_proj.register_forward_hook(scaled_by_two)
    torch.testing.assert_close(mine(x), expected * 2, rtol=1e-4, atol=1e-5)


def test_replace_within_the_context_of_a_device():
    """What tries modules out is drawn on the host, wherever new tensors go."""
    mine = model()
    with torch.device("meta"):
        rows = {row.name: row for row in wave_lang.replace(mine, verbose=False)}
    assert rows["norm"].new == "WaveNorm" and rows["mlp"].new == "WaveGated"


def test_replaced_modules_keep_hooks_and_ties():
    one = nn.Linear(8, 8)
    seen = []
    one.register_forward_hook(lambda *args: seen.append(1))
    tied = nn.Sequential(one, one)
    wave_lang.replace(tied, verbose=False)
    assert tied[0] is tied[1] and isinstance(tied[0], wave_nn.Linear)
    tied(draw(2, 8))
    assert seen == [1, 1]


def test_public_attention():
    for shape in ((33, 32), (2, 3, 20, 16), (2, 0, 16)):
        q, k, v = (draw(*shape, dtype=torch.float16, seed=n) for n in range(3))
        for causal in (False, True):
            exact = F.scaled_dot_product_attention(
                q.double(), k.double(), v.double(), is_causal=causal
            )
            found = public_nn.functional.wave_sdpa(q, k, v, is_causal=causal)
            assert found.dtype == torch.float32 and error(found, exact) < 1e-3
    found = public_nn.functional.wave_sdpa(q, k, v.mT.contiguous(), is_v_transposed=True)
    assert found.shape == (2, 0, 16)
    q, k, v = (draw(3, 20, 16, seed=n) for n in range(3))
    scales = (0.03, 0.02, 0.01)
    exact = [x.double() * s for x, s in zip((q, k, v), scales)]
    found = public_nn.functional.wave_sdpa_fp8(q, k, v, *scales)
    assert error(found, F.scaled_dot_product_attention(*exact)) < 1e-3


def test_public_linear():
    assert public_nn.WaveLinear(8, 4).weight.dtype == torch.float16
    scale = {"weight_scale": torch.tensor([0.004]), "weight_scale_shape": []}
    scale |= {"input_scale": torch.tensor(0.02), "input_scale_shape": [1]}
    scale["qdtype"] = torch.float8_e4m3fnuz
    layer = public_nn.WaveQuantLinear(40, 9, scale, dtype=torch.float32)
    x = draw(2, 5, 40)

    def rounded(value, by):
        return (value / by).clamp(-240, 240).to(scale["qdtype"]).double() * by

    exact = rounded(x, 0.02) @ rounded(layer.weight.detach(), 0.004).mT + layer.bias.double()
    assert error(layer(x), exact) < 1e-4


BAD = [
    (lambda: WF.linear(draw(2, 3), draw(4, 5)), ValueError, "`input`"),
    (lambda: WF.linear(draw(2, 5).double(), draw(4, 5)), TypeError, "`input`"),
    (lambda: WF.linear(draw(2, 5), draw(4, 5).half()), TypeError, "`weight`"),
    (lambda: WF.rms_norm(draw(2, 5), (4,)), ValueError, "`input`"),
    (lambda: WF.layer_norm([1.0], (1,)), TypeError, "`input`"),
    (lambda: WF.gated(draw(2, 5)), ValueError, "`input`"),
    (lambda: WF.gated(draw(2, 4), "relu"), ValueError, "`activation`"),
    (
        lambda: WF.scaled_dot_product_attention(*[draw(1, 1, 2, 4)] * 3, attn_mask=draw(3, 2)),
        ValueError,
        "`attn_mask`",
    ),
    (
        lambda: WF.scaled_dot_product_attention(*[draw(2, 4)] * 3, draw(2, 2).int()),
        TypeError,
        "`attn_mask`",
    ),
    (
        lambda: WF.scaled_dot_product_attention(*[draw(2, 4)] * 3, draw(2, 2), is_causal=True),
        ValueError,
        "`attn_mask`",
    ),
    (
        lambda: WF.scaled_dot_product_attention(*[draw(1, 1, 2, 4)] * 3, dropout_p=0.1),
        NotImplementedError,
        "`dropout_p`",
    ),
    (
        lambda: WF.scaled_dot_product_attention(draw(1, 4, 2, 4), *[draw(1, 2, 2, 4)] * 2),
        ValueError,
        "`key`",
    ),
    (
        lambda: WF.scaled_dot_product_attention(*[draw(1, 2, 2, 4)] * 2, draw(1, 2, 3, 4)),
        ValueError,
        "`value`",
    ),
    (lambda: wave_nn.MoE(8, 8, 4, 5), ValueError, "`top_k`"),
    (lambda: wave_nn.MoE(8, 8, 4, 1, activation="relu"), ValueError, "`activation`"),
    (lambda: wave_nn.MoE(8, 8, 4, 1, scoring="top"), ValueError, "`scoring`"),
    (lambda: wave_lang.replace([1]), TypeError, "`model`"),
    (lambda: public_nn.WaveLinear(8, 4, dtype=torch.float64), ValueError, "`dtype`"),
    (lambda: public_nn.WaveQuantLinear(8, 4, {}), ValueError, "`quant_params`"),
    (
        lambda: public_nn.functional.wave_sdpa(*[draw(2, 4)] * 3),
        TypeError,
        "`query`",
    ),
]


@pytest.mark.parametrize("call, kind, word", BAD)
def test_mistakes(call, kind, word):
    with pytest.raises(kind, match=word):
        call()


def listings():
    page = (Path(__file__).parents[2] / "docs/serving.md").read_text()
    return re.findall(r"^```py\n(.*?)^```$", page, re.M | re.S)


def test_the_first_listing():
    exec(listings()[0], {})


@pytest.fixture
def one_thread():
    """Small tensors are computed faster by one thread if all cores are busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_second_listing_and_200_steps(one_thread):
    """The losses of both copies of a Llama block are nearer to each other than those of two seeds
    are."""
    names, runs = {"__name__": "listing"}, []
    with torch.device(serving_standins.DEVICE):
        exec(listings()[1], names)
        assert len(listings()) == 2
        for seed, wave in ((0, False), (0, True), (1, False)):
            torch.manual_seed(seed)
            block = names["Block"]()
            if wave:
                wave_lang.replace(block, verbose=False)
                block.attend = WF.scaled_dot_product_attention
            assert block.head.weight.device.type == serving_standins.DEVICE
            runs.append(names["train"](block, 200))
    theirs, mine, other = runs
    distance, noise = (mine - theirs).abs(), (other - theirs).abs()
    assert theirs[-1] < 0.1 and mine[-1] < 0.1
    assert distance.mean() < noise.mean() and distance.max() < noise.max()


def test_torch_is_not_imported_before_it_is_needed():
    code = "import sys, wave_lang.ops; assert wave_lang.replace and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
