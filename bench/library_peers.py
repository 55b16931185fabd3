"""What the rows of bench_library.py are compared with: PyTorch's own kernels, measured on the same
tensors. Whatever is slow to set up is set up in the first call, where an error costs one peer only.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, Callable

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

SDPA = "cuDNN" if torch and torch.cuda.is_available() else "SDPA"


@dataclass(frozen=True)
class Peer:
    """`call` is measured, with the arguments of the row unless `args` are given. Without a call, or
    if it fails, `us` or `rate` (of 1e12 a second) is used: the figure of an H200, from another run.
    `amount` is what a call does if that is not what the row does; then rates are compared."""

    name: str
    call: Callable[..., Any] | None = None
    args: tuple | None = None
    us: float | None = None
    rate: float | None = None
    amount: float | None = None
    graph: bool = True
    compiled: bool = False  # by torch.compile: --no-compile skips it

    def fixed(self, amount: float) -> float | None:
        """Microseconds of an H200 for this much."""
        return amount / self.rate / 1e6 if self.rate else self.us


def compiled(call):
    """torch.compile of it, at the first call."""

    @cache
    def made():
        import torch._functorch.config as config

        if hasattr(config, "donated_buffer"):
            config.donated_buffer = False  # backward runs more than once
        return torch.compile(call, dynamic=False)

    return lambda *args: made()(*args)


def backward(call):
    """`f(dy, *inputs)`: the backward of `call(*inputs)` alone; forward runs in the first call."""
    state = []

    def run(dy, *inputs):
        if not state:
            leaves = [x.detach().requires_grad_() for x in inputs]
            state.extend((call(*leaves), leaves))
        return torch.autograd.grad(*state, dy, retain_graph=True)

    return run


def both_passes(call):
    """`f(x, *others)`: `call` and the gradient of its first argument."""

    def run(x, *others):
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(call(leaf, *others), leaf)

    return run


def backward_peers(call, us):
    """The backward alone, eager and compiled, and what these took on an H200."""
    eager, other = us
    return [
        Peer("eager", backward(call), us=eager, graph=False),
        Peer("compile", backward(compiled(call)), us=other, graph=False, compiled=True),
    ]


def sdpa(causal):
    """cuDNN's attention of [B, H, S, D]; on a CPU, PyTorch's own."""

    def call(q, k, v):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = sdpa_kernel([SDPBackend.CUDNN_ATTENTION]) if q.is_cuda else nullcontext()
        with backend:
            shared = q.shape[1] != k.shape[1]
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=shared)

    return call


def flex(causal_window=None, softcap=0.0):
    """FlexAttention of [B, H, S, D]: causal with a window, or causal with a soft cap."""

    @cache
    def made(length, device):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        seen = causal_window or length
        capped = lambda score, b, h, i, j: softcap * torch.tanh(score / softcap)
        visible = lambda b, h, i, j: (j <= i) & (i - j < seen)
        mask = create_block_mask(visible, None, None, length, length, device=device)
        score = capped if softcap else None
        fast = torch.compile(flex_attention, dynamic=False)
        return lambda q, k, v: fast(q, k, v, score_mod=score, block_mask=mask)

    return lambda q, k, v: made(q.shape[2], q.device)(q, k, v)


def grouped_mm(a, w, offs):
    """Weights [E, N, K]."""
    call = getattr(F, "grouped_mm", None) or torch._grouped_mm
    return call(a, w.transpose(1, 2), offs=offs)


def scaled_mm(fast):
    """b [N, K]; scales of whole tensors, of rows, or of blocks of 128."""

    @cache
    def ordered(sa, sb):  # as cuBLAS wants them
        blocks = sa.ndim == 2 and sa.shape[1] > 1
        return (sa.t().contiguous().t(), sb.t()) if blocks else (sa, sb)

    def call(a, b, *scales):
        sa, sb = ordered(*scales)
        return torch._scaled_mm(
            a, b.t(), scale_a=sa, scale_b=sb, out_dtype=torch.bfloat16, use_fast_accum=fast
        )

    return call


def int_mm(a, b, *_):
    return torch._int_mm(a, b.t())


def tinygemm(group):
    """b [N, K / 2] bytes of two numbers, scales [N, K / group]."""

    @cache
    def packed(b, scales):
        both = torch.stack([scales, torch.zeros_like(scales)], -1).to(torch.bfloat16)
        tiles = torch.ops.aten._convert_weight_to_int4pack(b, 8)
        return tiles, group, both.transpose(0, 1).contiguous()

    return lambda a, *weights: torch.ops.aten._weight_int4pack_mm(a, *packed(*weights))


def gate(k):
    return lambda logits: torch.topk(torch.softmax(logits.float(), -1), k)


def drawn(probs):
    """The index of a draw from each row, without a synchronisation."""
    return torch.argmax(probs / torch.empty_like(probs).exponential_(1), -1)


def top_p_by_sort(logits, p):
    probs, order = torch.softmax(logits.float(), -1).sort(-1, descending=True)
    kept = probs.cumsum(-1) - probs < p[:, None]
    return order.gather(1, drawn(probs * kept)[:, None])


def top_k_by_topk(k):
    def call(logits, _):
        values, order = logits.float().topk(k, -1)
        return order.gather(1, drawn(torch.softmax(values, -1))[:, None])

    return call


def swiglu(x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def rms_norm(x, w):
    return F.rms_norm(x, w.shape, w, 1e-6)


def layer_norm(x, w, b):
    return F.layer_norm(x, w.shape, w, b, 1e-5)
