"""device_assert on a GPU: the same reports as the evaluator, on any stream; not in a capture."""

import torch

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from gpu_utils import raises
from wave_lang import DeviceAssertError, LaunchError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G, WORKGROUP_1

M, N = tkl.sym.M, tkl.sym.N


def asserting(**options):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: 128}),
            tkw.WorkgroupConstraint(M, 2, 1),
            tkw.WorkgroupConstraint(N, 256, 0),
            tkw.WaveConstraint(N, 128),
        ]
    )
    def kernel(x: tkl.Memory[M, N, G, tkl.f32], limit: tkl.f32):
        v = tkw.read(x)
        tkw.device_assert(v < tkw.broadcast(limit, [M, N]), "below the limit")
        row = tkw.max(v, dim=N, block=True)
        tkw.device_assert(row > -100.0, "of a row")
        tkw.device_assert(tkw.scalar(WORKGROUP_1, tkl.i32) < 40, "of a workgroup")
        tkw.write(v + 1.0, x)

    return wave_compile(WaveCompileOptions(dynamic_symbols=[M, N], **options), kernel)


def reported(kernel, *args, **named):
    try:
        kernel(*args, **named)
    except DeviceAssertError as error:
        found = [d for d in error.diagnostics if d.code == "E0714"]
        return [(d.message, [n.message for n in d.notes]) for d in found]
    return []


def test_reports_are_the_evaluators():
    kernel, reference = asserting(), asserting(target="eval")
    for shape in ((1, 1), (5, 70), (3, 255), (64, 256), (0, 3), (86, 1000)):
        x = torch.rand(*shape, device="cuda")
        expected = reported(reference, x.cpu().clone(), 2.0)
        wanted = x + 1
        assert reported(kernel, x, 2.0, stream=torch.cuda.current_stream()) == expected
        assert torch.equal(x, wanted)
        if x.numel() < 2:
            continue
        x[-1, -1], x[0, 1] = 3.5, -0.0
        x[shape[0] // 2] = -200.0
        expected = reported(reference, x.cpu().clone(), 2.0)
        assert expected and reported(kernel, x.clone(), 2.0) == expected
        other = torch.cuda.Stream()
        other.wait_stream(torch.cuda.current_stream())
        assert reported(kernel, x.clone(), 2.0, stream=other) == expected


def test_more_failures_than_rows():
    x = torch.ones(64, 4000, device="cuda")
    found = dict(reported(asserting(), x, 0.5))
    assert f"assertion failed: below the limit ({64 * 4000} times)" in found


def test_captures():
    """An error; without assertions the same kernel can be captured."""
    kernel, x = asserting(), torch.rand(4, 300, device="cuda")
    kernel(x, 1e6)
    with raises(LaunchError, "E0905", "has assertions"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            kernel(x, 1e6)
    plain = asserting(device_asserts=False)
    plain(x, 1e6)
    torch.cuda.synchronize()
    before, graph = x.clone(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plain(x, 0.0)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(x, before + 1)
