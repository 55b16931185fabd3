"""Ops as operators of PyTorch: opcheck, torch.compile, gradients beside those of float64."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from wave_lang import ops

ops.define_operators()  # a test file without PyTorch may have imported `ops` first
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")
F = torch.nn.functional
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def random(*shape, dtype=torch.float32, scale=1.0, seed=0):
    made = torch.Generator().manual_seed(100 * seed + sum(shape))
    return (torch.randn(shape, generator=made) * scale).to(dtype).to(DEVICE)


def integers(*values, dtype=torch.int32):
    return torch.tensor(values, dtype=dtype, device=DEVICE)


def pages(dtype=torch.float16):
    """q, caches, table, lengths, where queries begin: sequences of 5, 0 and 2 tokens."""
    q, k, v = random(4, 4, 32, dtype=dtype), random(3, 4, 2, 32), random(3, 4, 2, 32) * 2
    table = torch.tensor([[2, 0], [1, 1], [1, 0]], dtype=torch.int32, device=DEVICE)
    return q, k.to(dtype), v.to(dtype), table, integers(5, 0, 2), integers(0, 2, 2, 4), 2, 5


def packed(dtype=torch.float16):
    q, k, v = random(5, 4, 32, dtype=dtype), random(9, 2, 32), random(9, 2, 16)
    ends, key_ends = integers(0, 3, 3, 5), integers(0, 6, 6, 9)
    return q, k.to(dtype), v.to(dtype), ends, key_ends, 3, 6


def angles(count=6, size=8):
    at = torch.arange(count)[:, None] * 10.0 ** -torch.arange(size // 2)
    return torch.cat([at.cos(), at.sin()], 1).to(DEVICE)


def heads():
    """Queries, keys and the weights of their norms."""
    return random(3, 2, 12), random(3, 1, 12), random(12), random(12) + 1


def experts():
    return random(3, 8), random(2, 16, 8), random(2, 8, 8), random(3, 2), torch.stack(
        [integers(0, 1, 1), integers(1, 0, 1)], 1
    )


def packed_experts(quant, dtype=torch.bfloat16):
    """A layer of 4-bit weights, with scales and, for integers, zeros of each 32."""
    x, (_, _, _, weights, ids) = random(3, 64, dtype=dtype), experts()
    w1, w2 = random(2, 64, 64), random(2, 64, 32)
    if quant == "mxfp4":
        (w1, s1), (w2, s2) = (ops.quantize_mx(w, "e2m1") for w in (w1, w2))
        return [x, w1, w2, weights, ids, s1, s2], {"quant": quant}
    pairs = ((w.abs() * 40).to(torch.uint8)[..., ::2].contiguous() for w in (w1, w2))
    numbers = [(random(2, 64, n) * 0.1, random(2, 64, n).abs().to(dtype)) for n in (2, 1)]
    (s1, z1), (s2, z2) = numbers
    return [x, *pairs, weights, ids, s1, s2, z1, z2], {"quant": quant, "group": 32}


def targets():
    return torch.tensor([[0, 69], [-100, 5], [1, 2]], device=DEVICE)


def tree():
    """A root with two children, the second with one: places and links of two such trees."""
    links = [integers(*n, *n) for n in ((1, -1, 3, -1), (-1, 2, -1, -1))]
    nodes = (integers(0, 3, 5, 1, 0, 2, 2, 4), integers(*range(8)), *links)
    made = (integers(*[-1] * 8), integers(*[-1] * 6).view(2, 3), integers(-1, -1))
    return *made, *(x.view(2, 4) for x in nodes)


X, W = (3, 5, 24), (24,)
E4M3 = torch.float8_e4m3fn
POSITIONS = (4, 1, 5)
# Every operator: name, arguments, keywords, names of the results (for the overload `out`). What
# comes after the name of an operator distinguishes its cases.
CASES = {
    "rms_norm": lambda: ([random(*X), random(*W)], {"gemma": True}),
    "rms_norm_backward": lambda: ([random(*X), random(*X) * 2, random(*W), 1e-3, random(*X)], {}),
    "add_rms_norm": lambda: ([random(*X), random(*X) * 2, random(*W)], {}),
    "add_rms_norm_": lambda: ([random(*X), random(*X) * 2, random(*W), 1e-3], {}),
    "rms_norm_quant": lambda: ([random(*X), random(*W)], {"quant": "int8 token"}),
    "add_rms_norm_quant_": lambda: (
        [random(*X), random(*X) * 2, random(*W), 1e-3],
        {"quant": "int8 token"},
    ),
    "layer_norm": lambda: ([random(*X), random(*W), random(*W) * 2], {}),
    "layer_norm_backward": lambda: ([random(*X), random(*X) * 2, random(*W)], {}),
    "softmax": lambda: ([random(*X)], {"scale": 0.5}),
    "softmax_backward": lambda: ([random(*X), random(*X).softmax(-1)], {}),
    "silu_and_mul": lambda: ([random(*X)], {}),
    "silu_and_mul_backward": lambda: ([random(3, 5, 12), random(*X)], {}),
    "gelu_and_mul": lambda: ([random(*X)], {}),
    "gelu_and_mul_backward": lambda: ([random(3, 5, 12), random(*X)], {}),
    "gelu_tanh_and_mul": lambda: ([random(*X)], {}),
    "gelu_tanh_and_mul_backward": lambda: ([random(3, 5, 12), random(*X)], {}),
    "cross_entropy": lambda: (
        [random(3, 2, 70), targets()],
        {"label_smoothing": 0.1, "z_loss": 0.01, "softcap": 5.0},
    ),
    "cross_entropy_backward": lambda: (
        [random(3, 2), random(3, 2), random(3, 2, 70), targets(), random(3, 2) + 5, random(1)],
        {"reduction": "none"},
    ),
    "linear_cross_entropy": lambda: (
        [random(6, 16), random(70, 16), targets().flatten()],
        {"reduction": "sum", "rows": 4},
    ),
    "linear_cross_entropy_backward": lambda: (
        [*(random(n) for n in (6, 6)), random(6, 16), random(70, 16), targets().flatten()]
        + [random(6) + 5, random(1)],
        {"reduction": "none"},
    ),
    "rope": lambda: ([random(3, 2, 8), random(3, 1, 8), angles(), integers(*POSITIONS)], {}),
    "apply_rope": lambda: ([random(3, 2, 12), angles(), integers(*POSITIONS)], {"inverse": True}),
    "qk_norm_rope": lambda: ([*heads(), angles(), integers(*POSITIONS), 1e-3], {}),
    "apply_qk_norm_rope": lambda: (
        [*heads(), angles(), integers(*POSITIONS)],
        {"interleaved": True},
    ),
    "qk_norm_rope_backward": lambda: (
        [random(3, 2, 12) / 2, random(3, 1, 12) / 2, *heads(), angles(), integers(*POSITIONS)],
        {},
    ),
    "quantize_fp8": lambda: ([random(*X), "group"], {"group": 8}),
    "quantize_int8": lambda: ([random(*X), "tensor"], {}),
    "quantize_mx": lambda: ([random(3, 64), "e2m1"], {}),
    "sample": lambda: (
        [random(3, 70), random(3).abs(), *(torch.tensor([5, 6, n]).to(DEVICE) for n in (7, 8))],
        {"top_p": random(3).sigmoid()},
    ),
    "top_k_renorm_probs": lambda: ([random(3, 70).softmax(-1), integers(4)], {}),
    "top_p_renorm_probs": lambda: ([random(3, 70).softmax(-1), random(3).sigmoid()], {}),
    "tree_sampling_target_only": lambda: (
        [*tree(), random(2, 4).sigmoid(), random(2).sigmoid(), random(2, 4, 6).softmax(-1)]
        + [torch.zeros(2, 4, 6, device=DEVICE)],
        {"threshold_acc": 0.5},
    ),
    "verify_tree_greedy": lambda: ([*tree(), tree()[3].flip(1).contiguous()], {}),
    "chain_sampling": lambda: (
        [random(2, 3, 6).softmax(-1), integers(1, 5, 0, 2, 2, 3).view(2, 3)]
        + [random(2, 4, 6).softmax(-1), random(2, 3).sigmoid(), random(2).sigmoid()],
        {},
    ),
    "build_tree": lambda: ([integers(-1, 0, 0, 1, -1, 0, 1, 2).view(2, 4)], {}),
    "topk_gate": lambda: (
        [random(5, 9), 3, random(9)],
        {"scoring": "sigmoid", "groups": 3, "topk_groups": 2},
    ),
    "moe_align": lambda: ([experts()[4], 2, 4], {}),
    "moe_align_block_size": lambda: (
        [experts()[4], 3, 4, *(integers(*[0] * n) for n in (24, 6, 1, 4))],
        {},
    ),
    "fused_experts": lambda: (list(experts()), {"activation": "gelu"}),
    "fused_experts w4": lambda: packed_experts("w4"),
    "fused_experts mxfp4": lambda: packed_experts("mxfp4"),
    "fused_experts_backward": lambda: ([random(3, 8) / 2, *experts()], {}),
    "gemm_fp8": lambda: (
        [random(5, 130, dtype=E4M3), random(7, 130, dtype=E4M3), random(5, 2), random(1, 2)]
        + [random(7)],
        {"out_dtype": torch.float32},
    ),
    "gemm_w8a8": lambda: (
        [random(5, 40, dtype=torch.int8, scale=50), random(7, 40, dtype=torch.int8, scale=50)]
        + [random(5, 1), random(1, 7)],
        {"out_dtype": torch.float16},
    ),
    "gemm_mx": lambda: (
        [*ops.quantize_mx(random(5, 64), "e2m1"), *ops.quantize_mx(random(7, 64), "e2m1")],
        {},
    ),
    "gemm_w4a16": lambda: (
        [random(5, 64, dtype=torch.float16), random(7, 32, scale=99).to(torch.uint8)]
        + [random(7, 2, dtype=torch.float16), None, 32, random(7, dtype=torch.float16)],
        {},
    ),
    "grouped_gemm": lambda: (
        [random(5, 8), random(2, 8, 6), integers(2, 5)],
        {"out_dtype": torch.float32},
    ),
    "attention": lambda: (
        [random(2, 5, 4, 16), random(2, 7, 2, 16), random(2, 7, 2, 8), random(4), None, None]
        + [random(4).abs(), random(1, 4, 5, 7), random(2, 1, 5, 7) > 0],
        {"causal": True},
    ),
    "attention_backward": lambda: (
        [random(2, 5, 4, 8), random(2, 5, 4, 16), random(2, 7, 2, 16), random(2, 7, 2, 8)]
        + [random(2, 5, 4, 8), random(2, 5, 4), random(4), random(2, 5, 4), random(4).abs()]
        + [random(1, 4, 5, 7), random(2, 1, 5, 7) > 0],
        {"causal": True, "of_bias": True},
    ),
    "attention_varlen_backward": lambda: (
        [random(5, 4, 16).half(), *packed()[:3], random(5, 4, 16).half(), random(5, 4)]
        + [*packed()[3:]],
        {"softcap": 3.0},
    ),
    "matmul": lambda: (
        [random(2, 8, 3), random(6, 8), random(6), random(2, 3, 6)],
        {"trans_a": True, "trans_b": True, "activation": "silu", "out_dtype": torch.float32},
    ),
    "matmul_slopes": lambda: (
        [random(3, 6), random(3, 8), random(8, 6), random(6)],
        {"activation": "gelu"},
    ),
    "conv2d": lambda: (
        [random(2, 3, 6, 5), random(4, 3, 3, 2), random(4)],
        {"stride": [2, 1], "padding": [1, 1]},
    ),
    "conv2d_backward": lambda: (
        [random(2, 4, 3, 4), random(2, 6, 5, 3), random(3, 3, 3, 4)[:, ::2].contiguous()],
        {"layout": "nhwc", "dilation": [1, 2]},
    ),
    "attention_extend": lambda: (
        [*packed()[:1], random(5, 2, 32).half(), random(5, 2, 16).half()]
        + [random(9, 2, 32).half(), random(9, 2, 16).half(), packed()[3], integers(0, 2, 2, 3)]
        + [integers(8, 1, 5), 3],
        {"window": [3, 0]},
    ),
    "attention_varlen": lambda: ([*packed(), random(4)], {"causal": True, "window": [3, 0]}),
    "attention_paged": lambda: ([*pages(), random(4)], {"splits": 2}),
    "merge_state": lambda: ([random(5, 2, 8), random(5, 2), random(5, 2, 8), random(5, 2)], {}),
    "kv_append": lambda: (
        [*(random(3, 2, 8) for _ in "kv"), *(random(2, 4, 2, 8) for _ in "kv")]
        + [integers(5, -1, 0)],
        {},
    ),
}
# Operators with a gradient, and how many of their arguments have one.
DIFFERENTIABLE = {
    "attention": 4,
    "attention_varlen": 3,
    "fused_experts": 4,
    "matmul": 4,
    "rms_norm": 2,
    "add_rms_norm": 3,
    "layer_norm": 3,
    "softmax": 1,
    "silu_and_mul": 1,
    "gelu_and_mul": 1,
    "gelu_tanh_and_mul": 1,
    "apply_rope": 1,
    "apply_qk_norm_rope": 4,
    "conv2d": 3,
    "cross_entropy": 1,
    "linear_cross_entropy": 2,
}


def operator_of(name):
    """The operator that a case is of."""
    return getattr(torch.ops.wave, name.partition(" ")[0])


def results(packet, args, named):
    """The results by name; none for operators that only write to arguments."""
    made = packet.default(*args, **named)
    made = made if isinstance(made, tuple) else (made,)
    return {r.name: t for r, t in zip(packet.default._schema.returns, made)}


def test_every_operator_has_a_case():
    assert {name.partition(" ")[0] for name in CASES} == set(ops.operators._rows)


# The parts of opcheck that do not multiply arguments: PyTorch cannot, if they are 8-bit floats.
WITHOUT_PRODUCTS = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


@pytest.mark.parametrize("name", CASES)
def test_opcheck(name):
    args, named = CASES[name]()
    packet = operator_of(name)
    made = results(packet, args, named)
    if made:
        args, named = CASES[name]()
        outs = {n: torch.zeros_like(t) for n, t in made.items()}
        if name not in ("quantize_fp8", "gemm_fp8"):
            torch.library.opcheck(packet.out, tuple(args), {**named, **outs})
        packet.out(*args, **named, **outs)
        assert all(torch.equal(outs[n], t) for n, t in made.items())
    args, named = CASES[name]()
    for x in args[: DIFFERENTIABLE.get(name, 0)]:
        x.requires_grad_()
    options = {"test_utils": WITHOUT_PRODUCTS} if name == "gemm_fp8" else {}
    torch.library.opcheck(packet.default, tuple(args), named, **options)


def function_of(name):
    """The function of `ops` that calls an operator with the arguments of its case."""
    if name == "attention":
        names = ("sinks", "k_scale", "v_scale", "alibi", "bias", "mask")
        return lambda *args, **named: ops.attention(
            *args[:3], **dict(zip(names, args[3:])), return_lse=True, **named
        )
    if name == "sample":
        return lambda x, t, s, o, **more: ops.sample(x, temperature=t, seed=s, offset=4, **more)
    if name == "add_rms_norm_":
        return lambda x, r, *more: ops.rms_norm(x, *more, residual=r)
    if name == "rms_norm_quant":
        return ops.rms_norm
    if name == "add_rms_norm_quant_":
        return lambda x, r, *more, **named: ops.rms_norm(x, *more, residual=r, **named)
    return getattr(ops, name.partition(" ")[0])


@pytest.mark.parametrize("name", CASES)
def test_compiled(name):
    """In a graph, with any sizes, a function gives what it gives outside."""
    function = function_of(name)

    def step(args, named):
        made = function(*args, **named)
        made = made if isinstance(made, tuple) else (made,)
        return [t.float() + 1 for t in (*made, *args) if isinstance(t, torch.Tensor)]

    torch.compiler.reset()
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=True)
    with torch.no_grad():
        for found, expected in zip(compiled(*CASES[name]()), step(*CASES[name]())):
            assert torch.equal(found, expected)


def rotated(x, table, at, pairs=4):
    cos, sin = (t[:, None] for t in table.to(x.dtype)[at.long()].chunk(2, 1))
    a, b = x[..., :pairs], x[..., pairs : 2 * pairs]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, x[..., 2 * pairs :]], -1)


def rotated_norms(q, k, v, w):
    return tuple(
        rotated(F.rms_norm(x, weight.shape, weight, 1e-3), angles(), PLACES)
        for x, weight in ((q, v), (k, w))
    )


def summed(x, r, w):
    return F.rms_norm(x + r, w.shape, w, 1e-3), x + r


def loss(x, target):
    x = 5 * torch.tanh(x / 5)
    return F.cross_entropy(x, target, label_smoothing=0.1) + (
        0.01 * x.logsumexp(-1)[target >= 0] ** 2
    ).mean()


CHOSEN = torch.tensor([[0, 2], [1, 0], [3, 3], [0, 1], [-1, 0], [1, 4], [0, 0]]).int().to(DEVICE)


def routed(x, w1, w2, weights):
    """A layer of three experts; the ids 3, 4 and -1 are those of none."""
    total = torch.zeros(x.shape, dtype=weights.dtype, device=DEVICE)
    for t in range(7):
        for j in range(2):
            if 0 <= (e := CHOSEN[t, j].item()) < 3:
                gate, up = (w1[e] @ x[t]).chunk(2)
                part = (w2[e] @ (F.silu(gate) * up)).to(weights.dtype) * weights[t, j]
                total = total.index_add(0, torch.tensor([t], device=DEVICE), part[None])
    return total.to(x.dtype)


TARGET = torch.tensor([3, -100, 68, 0, 1, 1, 2], device=DEVICE)
PLACES = integers(4, 1, 5, 0, 0, 3, 2)
LOSS = {"label_smoothing": 0.1, "z_loss": 0.01, "softcap": 5.0}
# The function, PyTorch's, and the shapes of what has a gradient.
GRADIENTS = {
    "rms": (lambda x, w: ops.rms_norm(x, w, 1e-3), lambda x, w: F.rms_norm(x, w.shape, w, 1e-3)),
    "gemma": (
        lambda x, w: ops.rms_norm(x, w, 1e-3, gemma=True),
        lambda x, w: F.rms_norm(x, w.shape, 1 + w, 1e-3),
    ),
    "add": (lambda x, r, w: ops.add_rms_norm(x, r, w, 1e-3), summed),
    "layer": (ops.layer_norm, lambda x, w, b: F.layer_norm(x, w.shape, w, b)),
    "softmax": (lambda x: ops.softmax(x, scale=0.5), lambda x: (x * 0.5).softmax(-1)),
    "silu": (ops.silu_and_mul, lambda x: F.silu(x[..., :35]) * x[..., 35:]),
    "gelu": (ops.gelu_and_mul, lambda x: F.gelu(x[..., :35]) * x[..., 35:]),
    "tanh": (
        ops.gelu_tanh_and_mul,
        lambda x: F.gelu(x[..., :35], approximate="tanh") * x[..., 35:],
    ),
    "rope": (
        lambda x: ops.apply_rope(x, angles(), PLACES),
        lambda x: rotated(x, angles(), PLACES),
    ),
    "heads": (
        lambda q, k, v, w: ops.apply_qk_norm_rope(q, k, v, w, angles(), PLACES, 1e-3),
        rotated_norms,
    ),
    "linear": (
        lambda x, w: ops.linear_cross_entropy(x, w, TARGET, rows=3, **LOSS),
        lambda x, w: loss(x @ w.t(), TARGET),
    ),
    "nn": (lambda a, b, c: ops.matmul(a, b, c), lambda a, b, c: a @ b + c),
    "nt": (lambda a, b, c: ops.matmul(a, b, c, trans_b=True), lambda a, b, c: a @ b.t() + c),
    "tn": (lambda a, b, c: ops.matmul(a, b, c, trans_a=True), lambda a, b, c: a.t() @ b + c),
    "tt": (
        lambda a, b, c: ops.matmul(a, b, c, trans_a=True, trans_b=True),
        lambda a, b, c: a.t() @ b.t() + c,
    ),
    "epilogue": (
        lambda a, b, c, r: ops.matmul(a, b, c, r, activation="silu"),
        lambda a, b, c, r: F.silu(a @ b + c) + r,
    ),
    "wide": (  # b is the same for all, and the result has another type
        lambda a, b, c, r: ops.matmul(a, b, c, r, activation="gelu", trans_b=True)
        + ops.matmul(a, b, trans_b=True, out_dtype=torch.float32).to(a.dtype),
        lambda a, b, c, r: F.gelu(a @ b.t() + c) + r + a @ b.t(),
    ),
    "turned": (  # a is the same for all
        lambda a, b, c, r: ops.matmul(a, b, c, r, activation="gelu_tanh", trans_a=True),
        lambda a, b, c, r: F.gelu(a.t() @ b + c, approximate="tanh") + r,
    ),
    "batch": (
        lambda a, b, c, r: ops.matmul(a, b, c, r, activation="relu", trans_a=True, trans_b=True),
        lambda a, b, c, r: F.relu(a.mT @ b.mT + c) + r,
    ),
    "images": (
        lambda x, w, b: ops.conv2d(x, w, b, 2, 1),
        lambda x, w, b: F.conv2d(x, w, b, 2, 1),
    ),
    "experts": (
        lambda x, w1, w2, weights: ops.fused_experts(x, w1, w2, weights.float(), CHOSEN),
        lambda x, w1, w2, weights: routed(
            x, w1, w2, weights.double() if x.dtype == torch.float64 else weights.float()
        ),
    ),
    "loss": (lambda x: ops.cross_entropy(x, TARGET, **LOSS), lambda x: loss(x, TARGET)),
}
SHAPES = {
    "rms": [(7, 70), (70,)],
    "gemma": [(7, 70), (70,)],
    "add": [(7, 70), (7, 70), (70,)],
    "layer": [(7, 70), (70,), (70,)],
    "rope": [(7, 3, 12)],
    "heads": [(7, 3, 12), (7, 2, 12), (12,), (12,)],
    "experts": [(7, 24), (3, 40, 24), (3, 24, 20), (7, 2)],
    "linear": [(7, 24), (70, 24)],
    "nn": [(7, 24), (24, 10), (10,)],
    "nt": [(7, 24), (10, 24), (10,)],
    "tn": [(24, 7), (24, 10), (10,)],
    "tt": [(24, 7), (10, 24), (10,)],
    "images": [(2, 3, 7, 6), (4, 3, 3, 3), (4,)],
    "epilogue": [(3, 7, 24), (3, 24, 10), (10,), (3, 7, 10)],
    "wide": [(3, 7, 24), (10, 24), (10,), (3, 7, 10)],
    "turned": [(24, 7), (3, 24, 10), (10,), (3, 7, 10)],
    "batch": [(3, 24, 7), (3, 10, 24), (10,), (3, 7, 10)],
}


def differentiated(function, inputs):
    """The results of a function and the gradients of a sum of them, with weights."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    made = function(*inputs)
    made = made if isinstance(made, tuple) else (made,)
    total = sum((t * random(*t.shape, seed=9).to(t.dtype)).sum() for t in made)
    return *(t.detach() for t in made), *torch.autograd.grad(total, inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, dtype):
    """As near to float64 as PyTorch's of the same type."""
    ours, theirs = GRADIENTS[name]
    shapes = SHAPES.get(name, [(7, 70)])
    inputs = [random(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]
    exact = differentiated(theirs, [x.double() for x in inputs])
    found, same = differentiated(ours, inputs), differentiated(theirs, inputs)
    for number, (one, two, wanted) in enumerate(zip(found, same, exact)):
        error, other = ((x.double() - wanted).norm().item() for x in (one, two))
        unit = torch.finfo(one.dtype).eps / 2 * wanted.norm().item()
        print(f"{name} {dtype} {number}: {error:.3g}, PyTorch {other:.3g}")
        # An expert's and a filter's products are added in order, PyTorch's by vectors.
        units = 4 if name in ("experts", "images") and dtype == torch.float32 else 1
        assert error <= max(1.5 * other, units * unit)


@pytest.mark.parametrize("rows, columns", [(0, 8), (1, 1), (700, 3), (300, 64)])
def test_gradients_of_weights(rows, columns):
    """Many rows, or none; the same bits each time."""
    x, w, b = random(rows, columns), random(columns), random(columns) / 2
    for ours, theirs, inputs in (
        (*GRADIENTS["rms"], (x, w)),
        (*GRADIENTS["layer"], (x, w, b)),
    ):
        found, again = (differentiated(ours, inputs) for _ in range(2))
        wanted = differentiated(theirs, [t.double() for t in inputs])
        for one, two, right in zip(found, again, wanted):
            assert torch.equal(one, two)
            assert torch.allclose(one.double(), right, rtol=1e-4, atol=1e-4)


def test_gradients_of_what_is_changed_in_place():
    x, r, w = random(4, 8), random(4, 8) / 2, random(8)
    q, k, at = random(7, 2, 12), random(7, 1, 12), PLACES
    v = random(12)

    def ours(x, r, w, q, k, v):
        r = r * 1
        both, one, two = torch.cat([q, k], 1), q * 1, k * 1
        y = ops.rms_norm(x, w, 1e-3, residual=r)
        ops.rope(one, two, angles(), at)
        ops.qk_norm_rope(both[:, :2], both[:, 2:], v, v * 2, angles(), at, 1e-3)
        return y, r, one, two, both

    def theirs(x, r, w, q, k, v):
        both = torch.cat(rotated_norms(q, k, v, v * 2), 1)
        return *summed(x, r, w), rotated(q, angles(), at), rotated(k, angles(), at), both

    found, wanted = (differentiated(f, (x, r, w, q, k, v)) for f in (ours, theirs))
    for one, two in zip(found, wanted):
        assert torch.allclose(one, two, atol=1e-5)


@pytest.mark.parametrize("backend", ["aot_eager"] + ["inductor"] * ("TEST_FULL" in os.environ))
def test_a_compiled_training_step(backend):
    """A block with the ops that have gradients, in one graph, with several lengths."""
    w, matrix = random(24), random(24, 48, scale=0.2)

    def step(x, w, matrix, target):
        y = ops.rms_norm(x, w)
        y = ops.silu_and_mul(y @ matrix)
        y = ops.layer_norm(ops.softmax(x + y), w, w)
        return ops.cross_entropy(y, target)

    torch.compiler.reset()
    compiled = torch.compile(step, backend=backend, fullgraph=True, dynamic=True)
    for rows in (3, 5):
        x, target = random(rows, 24), torch.arange(rows, device=DEVICE)
        both = []
        for f in (compiled, step):
            inputs = [t.detach().requires_grad_() for t in (x, w, matrix)]
            f(*inputs, target).backward()
            both.append([t.grad for t in inputs])
        for one, two in zip(*both):
            assert torch.allclose(one, two, atol=1e-5)


def test_no_gradient_is_an_error():
    q, *more = pages(torch.float32)
    o, _ = ops.attention_paged(q.requires_grad_(), *more)
    with pytest.raises(NotImplementedError, match="attention_paged has no gradient"):
        o.sum().backward()
    q, k = random(1, 2, 1, 8).requires_grad_(), random(1, 2, 1, 8).to(torch.float8_e4m3fn)
    each = torch.ones(1, device=DEVICE)
    x, w = random(2, 8).requires_grad_(), random(8)
    with pytest.raises(NotImplementedError, match="`quant` has no gradient"):
        ops.rms_norm(x, w, residual=random(2, 8), quant="fp8 token")
    with pytest.raises(NotImplementedError, match="rms_norm_quant has no gradient"):
        ops.rms_norm(x, w, quant="fp8 token")[1].sum().backward()
    slopes = torch.ones(1, device=DEVICE, requires_grad=True)
    with pytest.raises(NotImplementedError, match="`alibi`"):
        ops.attention(q, q, q, alibi=slopes).sum().backward()
    with pytest.raises(NotImplementedError, match="`k_scale`"):
        ops.attention(q, k, k, k_scale=each, v_scale=each).sum().backward()


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda x: ops.softmax(x), "x"),
        (lambda x: ops.rms_norm(random(3, 8), x[0]), "w"),
        (lambda x: ops.quantize_fp8(x), "x"),
    ],
)
def test_a_tangent_is_an_error(call, name):
    """The result would have none, as if it did not depend on the input."""
    x, dual = random(3, 8), torch.autograd.forward_ad
    match = f"has no derivative in forward mode, but `{name}` has a tangent"
    with dual.dual_level():
        with pytest.raises(NotImplementedError, match=match):
            call(dual.make_dual(x, x))
        call(x)
    with pytest.raises(NotImplementedError, match=match):
        torch.func.jvp(call, (x,), (x,))


def test_results_given_in_part():
    """A result that is not given is made."""
    args = packed()
    wanted = ops.attention_varlen(*args)
    for name in ("out", "lse"):
        given = torch.full_like(wanted[name == "lse"], torch.nan)

        def run(given):
            return ops.attention_varlen(*args, **{name: given})

        torch.compiler.reset()
        for f in (run, torch.compile(run, backend="aot_eager", fullgraph=True)):
            given.fill_(torch.nan)
            found = f(given)
            assert torch.equal(given, wanted[name == "lse"])
            assert all(torch.equal(a, b) for a, b in zip(found, wanted))


def test_strided_views():
    x = random(6, 4, 48).transpose(0, 1)[:, :, ::2]
    with pytest.raises(ValueError, match="`x` cannot be viewed as rows"):
        ops.softmax(x)
    rows = random(9, 48)[::2, 1::3].requires_grad_()
    y = ops.rms_norm(rows, torch.ones(16, device=DEVICE))
    y.t().sum().backward()
    assert rows.grad.shape == (5, 16)


def test_mistakes():
    x, w = random(3, 8), random(8)
    for kind, text, call in (
        (TypeError, "`w` is a ndarray", lambda: ops.rms_norm(x, np.ones(8, "f4"))),
        (TypeError, "`epsilon` is not an argument", lambda: ops.layer_norm(x, w, w, epsilon=1)),
        (TypeError, "`out` is a ndarray", lambda: ops.softmax(x, out=np.ones((3, 8), "f4"))),
        (ValueError, "`w` has the shape", lambda: ops.rms_norm(x, w[:7])),
        (ValueError, "`out` shares memory", lambda: ops.softmax(x, out=x)),
        (
            ValueError,
            "`out` is given, but",
            lambda: ops.softmax(x.clone().requires_grad_(), out=torch.empty_like(x)),
        ),
    ):
        with pytest.raises(kind, match=text):
            call()
    with pytest.raises(ValueError, match="`w` has the shape"):
        ops.rms_norm(x.to("meta"), w[:7].to("meta"))
    assert ops.rms_norm(x.to("meta"), w.to("meta")).shape == x.shape


def test_order_of_imports():
    """The package does not import PyTorch. If a program does so later, operators are defined at the
    first call, also in a graph, or by `define_operators`."""
    code = """if True:
        import sys
        from wave_lang import ops
        assert "torch" not in sys.modules and "wave_lang.torch_op" not in sys.modules
        import torch
        f = torch.compile(lambda x: ops.softmax(x) * 2, backend="eager", fullgraph=True)
        assert torch.allclose(f(torch.ones(2, 4)), torch.full((2, 4), 0.5))
        assert torch.ops.wave.softmax(torch.ones(2, 4)).sum() == 2
    """
    after = """if True:
        import sys, torch
        from wave_lang import ops
        assert torch.ops.wave.softmax(torch.ones(2, 4)).sum() == 2
        assert "sympy.core" not in sys.modules
    """
    asked = """if True:
        from wave_lang import ops
        import torch
        assert not hasattr(torch.ops.wave, "softmax")
        ops.define_operators()
        assert torch.ops.wave.softmax(torch.ones(2, 4)).sum() == 2
        ops.define_operators()
    """
    for program in (code, after, asked):
        subprocess.run([sys.executable, "-c", program], check=True)


def test_the_listings_of_the_document():
    page = (Path(__file__).parents[2] / "docs/library.md").read_text()
    listings = re.findall(r"^```py\n(.*?)^```$", page, re.M | re.S)
    assert listings
    torch.compiler.reset()
    for code in listings:
        exec(code, {})
