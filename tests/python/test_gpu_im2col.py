"""Tensor copies that walk over pixels, on a GPU that has them."""

import torch

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from im2col_cases import WALKS, convolution_case, walk_case
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

M = tkl.sym.M


def run(text, arrays):
    """What the last argument of the text's kernel holds; None on a machine without tensor copies."""
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
