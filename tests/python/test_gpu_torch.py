"""Kernels as operators of PyTorch on a GPU: opcheck, torch.compile, CUDA graphs."""

import torch

from test_torch_op import accumulate, dynamic, scaled_add
from wave_lang.torch_op import torch_op


def random(*shape):
    return torch.randn(*shape, device="cuda")


def test_opcheck():
    add = torch_op("wave_gpu::add", scaled_add(), dynamic())
    x, y, z = (random(5, 70) for _ in range(3))
    torch.library.opcheck(add.default, (x, y, 2.0))
    torch.library.opcheck(add.out, (x, y, z, 2.0))
    total = torch_op("wave_gpu::total", accumulate(), dynamic())
    torch.library.opcheck(total.default, (x, y))


def test_compiled_with_graphs():
    add = torch_op("wave_gpu::step", scaled_add(), dynamic())

    def step(x, y):
        return add(x.relu(), y, 3.0) * 2

    for options in ({"backend": "aot_eager"}, {"mode": "reduce-overhead"}):
        torch._dynamo.reset()
        compiled = torch.compile(step, fullgraph=True, **options)
        for _ in range(4):
            x, y = random(64, 300), random(64, 300)
            assert torch.allclose(compiled(x, y), step(x, y))


def test_captured_by_hand():
    add = torch_op("wave_gpu::captured", scaled_add(), dynamic())
    x, y = random(64, 300), random(64, 300)
    add(x, y, 2.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = add(x, y, 2.0)
    x.normal_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.allclose(z, x + 2 * y)


def test_host_and_device_tensors():
    add = torch_op("wave_gpu::both", scaled_add(), dynamic())
    x, y = random(4, 30), random(4, 30)
    assert torch.allclose(add(x, y, 2.0).cpu(), add(x.cpu(), y.cpu(), 2.0))
