"""Gradients of attention in PyTorch, beside those of float64 and of PyTorch in the same type."""

import pytest

torch = pytest.importorskip("torch")
from wave_lang import ops

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NEG = float("-inf")


def random(*shape, dtype=torch.float32, seed=0):
    made = torch.Generator().manual_seed(100 * seed + sum(shape))
    return torch.randn(shape, generator=made).to(dtype).to(DEVICE)


def reference(
    q,
    k,
    v,
    sinks=None,
    bias=None,
    causal=False,
    window=(-1, -1),
    scale=None,
    softcap=0.0,
    mask=True,
):
    """(o, lse) of [B, S, H, D] by PyTorch's own operators."""
    rows, keys, group = q.shape[1], k.shape[1], q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(group, 2) for x in (k, v))
    s = torch.einsum("bihd,bjhd->bhij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = softcap * torch.tanh(s / softcap) if softcap else s
    s = s if bias is None else s + bias
    i = torch.arange(rows, device=DEVICE)[:, None] + keys - rows
    j = torch.arange(keys, device=DEVICE)
    left, right = window[0], 0 if causal else window[1]
    seen = mask & ((j >= i - left) | (left < 0)) & ((j <= i + right) | (right < 0))
    s = s.masked_fill(~seen, NEG)
    if sinks is not None:
        extra = sinks.to(s.dtype).view(1, -1, 1, 1).expand(*s.shape[:3], 1)
        s = torch.cat([s, extra], -1)
    lse = s.logsumexp(-1)
    p = s.softmax(-1)[..., :keys].masked_fill(~seen, 0)  # rows that see no key are NaN
    return torch.einsum("bhij,bjhd->bihd", p, v), lse.transpose(1, 2)


def differentiated(function, inputs):
    """The result, and the gradients of a weighted sum with log-sum-exps that are not -inf."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    o, lse = function(*inputs)
    kept = torch.where(lse.detach() == NEG, torch.zeros_like(lse), lse)
    total = (o * random(*o.shape, seed=8).to(o.dtype)).sum()
    total = total + (kept * random(*lse.shape, seed=9).to(kept.dtype)).sum()
    return [o.detach(), *torch.autograd.grad(total, inputs)]


def near(name, found, same, exact, dtype):
    """At most 1.5 times the error of PyTorch, or a rounding of the inputs' type. In f32, that is
    eight: the weights of a row are computed from its log-sum-exp, which is rounded to f32."""
    for number, (one, two, wanted) in enumerate(zip(found, same, exact)):
        assert one.shape == wanted.shape and not one.isnan().any()
        error, other = ((x.double() - wanted).norm().item() for x in (one, two))
        unit = torch.finfo(dtype).eps / 2 * wanted.norm().item()
        print(f"{name} {number}: {error:.3g}, PyTorch {other:.3g}, a rounding {unit:.3g}")
        assert error <= max(1.5 * other, unit * (8 if dtype == torch.float32 else 1))


TYPES = (torch.float32, torch.bfloat16, torch.float16)
# B, queries, keys, H, Hk, D, Dv, sinks, options
CASES = [
    (2, 70, 70, 4, 2, 64, 64, False, {"causal": True}),
    (1, 33, 130, 6, 2, 80, 80, True, {"scale": 0.2, "softcap": 4.0}),
    (2, 1, 2, 2, 2, 96, 96, False, {"causal": True}),
    (1, 129, 65, 2, 1, 128, 128, False, {"causal": True}),
    (1, 100, 100, 2, 1, 128, 64, True, {"window": (20, 3)}),
]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_dense(case, dtype):
    b, rows, keys, h, hk, d, dv, with_sinks, options = CASES[case]
    q, k = random(b, rows, h, d, dtype=dtype), random(b, keys, hk, d, dtype=dtype, seed=1)
    v, sinks = random(b, keys, hk, dv, dtype=dtype, seed=2), random(h, seed=3)
    inputs = (q, k, v, sinks) if with_sinks else (q, k, v)

    def ours(q, k, v, sinks=None):
        return ops.attention(q, k, v, sinks=sinks, return_lse=True, **options)

    theirs = lambda *args: reference(*args, **options)
    found, same = (differentiated(f, inputs) for f in (ours, theirs))
    exact = differentiated(theirs, [x.double() for x in inputs])
    if rows > keys:  # the gradients of rows that see nothing are NaN there
        same, exact = ([x.nan_to_num() for x in group] for group in (same, exact))
    near(f"{CASES[case]} {dtype}", found, same, exact, dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(2, 4, 20, 33), (1, 4, 1, 33), (2, 1, 20, 1)], ids=str)
def test_bias(shape, dtype):
    """The gradient of a bias is that of all scores that it is added to."""
    q, k = random(2, 20, 4, 32, dtype=dtype), random(2, 33, 2, 32, dtype=dtype, seed=1)
    v, bias = random(2, 33, 2, 32, dtype=dtype, seed=2), random(*shape, dtype=dtype, seed=3)
    mask = random(2, 1, 20, 33, seed=4) > -1

    def ours(q, k, v, bias):
        return ops.attention(q, k, v, bias=bias, mask=mask, causal=True, return_lse=True)

    def theirs(q, k, v, bias):
        return reference(q, k, v, bias=bias, mask=mask, causal=True)

    inputs = (q, k, v, bias)
    found, same = (differentiated(f, inputs) for f in (ours, theirs))
    exact = differentiated(theirs, [x.double() for x in inputs])
    near(f"bias {shape} {dtype}", found, same, exact, dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_varlen(dtype):
    """Lengths 0 and 1, and tokens that no sequence has."""
    q_len, k_len, options = (40, 0, 1, 7), (40, 3, 9, 0), {"causal": True, "softcap": 5.0}
    q, k = random(50, 4, 64, dtype=dtype), random(55, 2, 64, dtype=dtype, seed=1)
    v = random(55, 2, 32, dtype=dtype, seed=2)
    ends = [torch.tensor((0, *n)).cumsum(0).int().to(DEVICE) for n in (q_len, k_len)]
    for x, at in ((q, 48), (k, 52), (v, 52)):
        x[at:] = torch.nan

    def ours(q, k, v):
        o, lse = ops.attention_varlen(q, k, v, *ends, 40, 40, **options)
        return o[:48], lse[:48]

    def theirs(q, k, v):
        parts = []
        for s in range(4):
            rows, keys = (slice(e[s].item(), e[s + 1].item()) for e in ends)
            parts.append(reference(q[None, rows], k[None, keys], v[None, keys], **options))
        return [torch.cat([p[n][0] for p in parts]) for n in range(2)]

    found, same = (differentiated(f, (q, k, v)) for f in (ours, theirs))
    exact = differentiated(theirs, [x.double() for x in (q, k, v)])
    for x in found[1:]:
        assert not x.isnan().any()
    near(f"varlen {dtype}", found, *([x.nan_to_num() for x in g] for g in (same, exact)), dtype)


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_compiled(layout):
    """Forward and backward in one graph; only one of the results is used; strided inputs."""
    order = (lambda x: x.transpose(1, 2)) if layout == "bhsd" else (lambda x: x)
    q, k, v = (order(random(2, n, h, 32, seed=h)) for n, h in ((9, 4), (12, 2), (12, 2)))

    def step(q, k, v):
        return ops.attention(q, k, v, causal=True, layout=layout) * 2

    torch.compiler.reset()
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    both = []
    for f in (compiled, step):
        inputs = [x.detach().requires_grad_() for x in (q, k, v)]
        f(*inputs).sum().backward()
        both.append([x.grad for x in inputs])
    assert all(torch.equal(a, b) for a, b in zip(*both))
    inputs = [x.detach().requires_grad_() for x in (q, k, v)]
    _, lse = ops.attention(*inputs, causal=True, layout=layout, return_lse=True)
    lse.sum().backward()
    assert not inputs[2].grad.any() and inputs[0].grad.any()
