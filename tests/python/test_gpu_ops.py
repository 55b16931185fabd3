"""Every op as an operator of PyTorch on a GPU: opcheck, torch.compile, no synchronisation, CUDA graphs
that are replayed with other data and lengths, gradients."""

import contextlib
import traceback

import torch

import test_ops_attention_torch
import test_ops_torch
from test_ops_torch import CASES, DIFFERENTIABLE, function_of, pages, random
from wave_lang import ops


def each(names, check):
    """Runs a check for all names; those that fail are listed together."""
    failed = []
    for name in names:
        try:
            check(name)
        except Exception:
            failed.append(f"{name}: {traceback.format_exc().strip().splitlines()[-1]}")
    assert not failed, "\n".join(failed)


@contextlib.contextmanager
def without_waiting():
    """Within it, PyTorch raises if the host waits for the GPU."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def mirrored(x):
    """Other data of the same kind: for offsets of sequences, the same lengths in the opposite
    order."""
    if x.dim() != 1 or x.is_floating_point():
        return x.flip(0) if x.dim() else x.clone()
    steps = x.diff()
    if x.numel() < 2 or x[0] < 0 or bool((steps < 0).any()):
        return x.flip(0)
    if x[0] > 0:  # ends without the first start
        return torch.cat([x[-1] - x[:-1].flip(0), x[-1:]])
    return x[-1] - x.flip(0)


def tensors(values):
    return [x for x in values if isinstance(x, torch.Tensor)]


def listed(made):
    return list(made) if isinstance(made, (tuple, list)) else tensors([made])


def same_bits(found, expected):
    for number, (one, two) in enumerate(zip(found, expected, strict=True)):
        bits = [x.detach().contiguous().flatten().view(torch.uint8) for x in (one, two)]
        assert one.shape == two.shape and torch.equal(*bits), f"tensor {number} differs"


def replayed(function, make):
    """Captures a call of `function(*args)` with the tensors that `make()` gives, replays it with
    mirrored ones, and compares with a call outside the graph. Nothing may wait for the GPU once
    kernels are compiled."""
    function(*make())
    args = make()
    others = [mirrored(x) if isinstance(x, torch.Tensor) else x for x in make()]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = listed(function(*args))
    for there, new in zip(tensors(args), tensors(others), strict=True):
        there.detach().copy_(new)
    torch.cuda.synchronize()
    with without_waiting():
        graph.replay()
        expected = listed(function(*others))
    torch.cuda.synchronize()
    same_bits(found + tensors(args), expected + tensors(others))


def test_opcheck():
    each(CASES, test_ops_torch.test_opcheck)


def test_compiled():
    each(CASES, test_ops_torch.test_compiled)


def test_replayed():
    def check(name):
        named = CASES[name]()[1]
        moving = [key for key, value in named.items() if isinstance(value, torch.Tensor)]
        fixed = {key: value for key, value in named.items() if key not in moving}
        function = function_of(name)

        def call(*args):
            first = len(args) - len(moving)
            return function(*args[:first], **dict(zip(moving, args[first:])), **fixed)

        def make():
            args, named = CASES[name]()
            return [*args, *(named[key] for key in moving)]

        with torch.no_grad():
            replayed(call, make)

    each(CASES, check)


def test_gradients_replayed():
    """The forward and the backward pass in one graph."""

    def check(name):
        function, count = function_of(name), DIFFERENTIABLE[name]
        named = CASES[name]()[1]

        def call(*args):
            inputs = [x.detach().requires_grad_() for x in args[:count]]
            made = listed(function(*inputs, *args[count:], **named))
            total = sum(x.float().square().sum() for x in made)
            return [*made, *torch.autograd.grad(total, inputs)]

        replayed(call, lambda: CASES[name]()[0])

    each(DIFFERENTIABLE, check)


def test_forms_without_an_operator_replayed():
    """What calls the operator of another form, and numbers instead of tensors."""
    q, k, _, *more = pages()
    forms = {
        "mla_decode": (
            lambda q, cache, *more: ops.mla_decode(q, cache, *more, 2, 5, dv=16),
            lambda: [q.clone(), k[:, :, 0].clone(), *(x.clone() for x in more[:3])],
        ),
        "sample": (
            lambda x: ops.sample(x, temperature=0.7, top_k=5, top_p=0.9, min_p=0.01, seed=3),
            lambda: [random(5, 300)],
        ),
        "sample of long rows": (
            lambda x: ops.sample(x, temperature=0.7, top_k=500, top_p=0.9, seed=3),
            lambda: [random(3, 40000)],
        ),
        "top_k_renorm_probs": (
            lambda x: ops.top_k_renorm_probs(x, 3),
            lambda: [random(5, 70).softmax(-1)],
        ),
    }
    each(forms, lambda name: replayed(*forms[name]))


def test_gradients():
    """Beside float64, as on a CPU."""
    types = (torch.float32, torch.bfloat16, torch.float16)
    every = [(name, dtype) for name in test_ops_torch.GRADIENTS for dtype in types]
    each(every, lambda case: test_ops_torch.test_gradients(*case))


def test_gradients_of_attention():
    both = test_ops_attention_torch
    every = [(case, dtype) for case in range(len(both.CASES)) for dtype in both.TYPES]
    each(every, lambda case: both.test_dense(*case))
    shapes = [(2, 4, 20, 33), (1, 4, 1, 33), (2, 1, 20, 1)]
    each([(s, t) for s in shapes for t in both.TYPES], lambda case: both.test_bias(*case))
    each(both.TYPES, both.test_varlen)
    each(("bshd", "bhsd"), both.test_compiled)


def test_a_training_step():
    for backend in ("aot_eager", "inductor"):
        test_ops_torch.test_a_compiled_training_step(backend)
