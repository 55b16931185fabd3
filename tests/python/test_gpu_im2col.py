"""Tensor copies in im2col mode, on a GPU that has them."""

import torch

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from im2col_cases import CONVOLUTIONS, WALKS, conv_kernel, conv_sizes, convolution_case, walk_case
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

M = tkl.sym.M


def run(text, arrays):
    """The contents of the last argument of the kernel; None on a machine without tensor copies."""
    if torch.cuda.get_device_capability() != (9, 0):
        return None
    constraints = [tkw.HardwareConstraint(threads_per_wave=32), tkw.WorkgroupConstraint(M, 1, 0)]

    @tkw.wave(constraints)
    def two(a: tkl.Memory[M, G, tkl.f16], b: tkl.Memory[M, G, tkl.f16]):
        pass

    @tkw.wave(constraints)
    def three(
        a: tkl.Memory[M, G, tkl.f16], b: tkl.Memory[M, G, tkl.f16], c: tkl.Memory[M, G, tkl.f16]
    ):
        pass

    options = WaveCompileOptions(subs={M: 1}, target="sm_90a", override_mlir=text)
    kernel = wave_compile(options, two if len(arrays) == 2 else three)
    tensors = [torch.from_numpy(a).cuda() for a in arrays]
    kernel(*tensors)
    return tensors[-1].cpu().numpy()


def test_pixels():
    for walk in WALKS:
        text, arrays, expected = walk_case(walk)
        found = run(text, arrays)
        assert found is None or (found == expected).all(), f"{walk}: {found - expected}"


def test_convolution():
    text, arrays, expected = convolution_case()
    found = run(text, arrays)
    assert found is None or abs(found - expected).max() < 1e-3


def test_convolutions_from_python():
    large = [
        (4, 56, 56, 64, 128, 3, 1, 1, (128, 128, 64)),
        (4, 57, 55, 128, 200, 3, 2, 1, (128, 128, 64)),
    ]
    for n, h, w, c, k, window, step, pad, tile in CONVOLUTIONS + large:
        sizes = conv_sizes(n, h, w, c, k, window, step, pad)
        kernel = wave_compile(WaveCompileOptions(subs=sizes), conv_kernel(step, pad, tile))
        x = torch.randn(n, h, w, c, device="cuda").half()
        f = torch.randn(k, window, window, c, device="cuda").half()
        exact = torch.nn.functional.conv2d(
            x.double().permute(0, 3, 1, 2), f.double().permute(0, 3, 1, 2), stride=step, padding=pad
        ).permute(0, 2, 3, 1)
        y = torch.full(exact.shape, torch.nan, device="cuda")
        kernel(x, f, y)
        assert (y - exact).abs().max() < 0.02, (n, h, w, c, k, window, step, pad)
