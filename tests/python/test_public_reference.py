"""What public tests compare with: its values, and how much memory it takes."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.overrides import TorchFunctionMode

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL
from wave_lang.kernel.wave.constraints import MMAType
from wave_lang.kernel.wave.iree_utils import generate_iree_ref
from wave_lang.kernel.wave.utils.reference_kernel_utils import scaled_dot_product_attention_bhsd

HAS_CPU = any(d.kind == "cpu" for d in _wave.devices())
BATCHES, HEADS, ROWS, KEYS, D = 2, 3, 8, 12, 4


def tensors(kv_heads, dtype=torch.float16):
    g = torch.Generator().manual_seed(0)
    shapes = (HEADS, ROWS), (kv_heads, KEYS), (kv_heads, KEYS)
    return [torch.randn(BATCHES, h, n, D, generator=g).to(dtype) for h, n in shapes]


def expected(q, k, v, hidden):
    """Softmax in f64, with 0 for rows without keys."""
    q, k, v = (x.double().numpy() for x in (q, k, v))
    scores = np.where(hidden, 0, np.exp(q @ np.swapaxes(k, -1, -2) / D**0.5))
    return scores @ v / np.maximum(scores.sum(-1, keepdims=True), 1e-300)


@pytest.mark.parametrize("kv_heads", [HEADS, 1])
@pytest.mark.parametrize("window", [None, -1, 2])
def test_causal_and_windows(kv_heads, window):
    q, k, v = tensors(kv_heads)
    behind = np.arange(ROWS)[:, None] - np.arange(KEYS)
    hidden = np.zeros_like(behind, bool) if window is None else behind < 0
    if window == 2:
        hidden |= behind > window
    causal = {} if window is None else {"is_causal": True, "sliding_window": window}
    out = scaled_dot_product_attention_bhsd(q, k, v, **causal)
    assert out.dtype == torch.float32
    np.testing.assert_allclose(out, expected(q, k, v, hidden), rtol=1e-5, atol=1e-6)


def test_masked_rows_are_zero():
    q, k, v = tensors(HEADS)
    mask = (torch.arange(BATCHES * ROWS).reshape(BATCHES, ROWS) % 3 == 0).to(torch.int8)
    hidden = mask.bool().numpy()[:, None, :, None]
    out = scaled_dot_product_attention_bhsd(q, k, v, custom_mask=mask)
    np.testing.assert_allclose(out, expected(q, k, v, hidden), rtol=1e-5, atol=1e-6)
    assert not out[0, :, 0].any()


@pytest.mark.parametrize("kv_heads", [HEADS, 1])
def test_scores_of_one_head_at_a_time(kv_heads):
    """Those of every head at once do not fit the memory of a machine: 8000 keys, 32 heads."""
    sizes = []

    class Sizes(TorchFunctionMode):
        def __torch_function__(self, fn, types, args=(), kwargs=None):
            out = fn(*args, **(kwargs or {}))
            sizes.append(out.shape.numel() if isinstance(out, torch.Tensor) else 0)
            return out

    with Sizes():
        scaled_dot_product_attention_bhsd(*tensors(kv_heads), is_causal=True)
    assert max(sizes) <= max(ROWS * KEYS, BATCHES * HEADS * KEYS * D)


@pytest.mark.skipif(not HAS_CPU, reason="no libLLVM")
def test_chained_matmuls_have_the_bits_of_a_kernel():
    """The public test of chained matmuls compares without a tolerance."""
    M, N, K1, K2 = (getattr(tkl.sym, s) for s in ("M", "N", "K1", "K2"))

    @tkw.wave([
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=MMAType.F32_32x32x8_F16),
        tkw.WorkgroupConstraint(M, 64, 0),
        tkw.WorkgroupConstraint(N, 64, 1),
        tkw.TilingConstraint(K2, 32),
        tkw.WaveConstraint(M, 32),
        tkw.WaveConstraint(N, 32),
    ])
    def chained(
        q: tkl.Memory[M, K1, GLOBAL, tkl.f16],
        k: tkl.Memory[K2, K1, GLOBAL, tkl.f16],
        v: tkl.Memory[N, K2, GLOBAL, tkl.f16],
        c: tkl.Memory[N, M, GLOBAL, tkl.f32],
    ):
        @tkw.iterate(K2, init_args=[tkl.Register[N, M, tkl.f32](0.0)])
        def sums(acc):
            inner = tkw.mma(tkw.read(q), tkw.read(k), tkl.Register[M, K2, tkl.f32](0.0))
            return tkw.mma(tkw.read(v), tkw.cast(inner, tkl.f16), acc)

        tkw.write(sums, c)

    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, n, d, generator=g).half() for n, d in ((64, 64), (512, 64), (64, 512)))
    out, reference = torch.zeros(1, 64, 64), torch.zeros(1, 64, 64)
    options = WaveCompileOptions(subs={M: 64, N: 64, K1: 64, K2: 512}, target="cpu")
    wave_compile(options, chained)(q[0], k[0], v[0], out[0])
    generate_iree_ref("chain_mmt", [q, k, v], [reference])
    assert torch.equal(out, reference)
