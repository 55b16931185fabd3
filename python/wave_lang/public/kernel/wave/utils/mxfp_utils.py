"""Data in MX formats for tests: packed fp4 with one power-of-two scale per 32 elements."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel.wave.utils.torch_utils import get_default_device

SCALE_GROUP_SIZE = 32


def mxfp4_to_f32(x: Any) -> Any:
    """Packed fp4, two per byte with the low nibble first, as f32 with the last dim doubled."""
    import torch

    codes = torch.stack([x & 0xF, x >> 4], dim=-1).flatten(-2)
    magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    table = torch.tensor(magnitudes + [-m for m in magnitudes], device=x.device)
    return table[codes.long()]


def e8m0_to_f32(x: Any) -> Any:
    """Scales 2 ** (x - 127); 255 is NaN."""
    import torch

    values = torch.exp2(x.to(torch.float32) - 127.0)
    return torch.where(x == 255, torch.full_like(values, float("nan")), values)


def generate_gemm_afp4wfp4_inputs(shape: tuple[int, int, int], device: Any = None) -> tuple:
    """Random x[M, K/2], w[K/2, N] (a transposed view), scales x[M, K/32] and w[N, K/32]."""
    import torch

    m, n, k = shape
    device = device or get_default_device()
    torch.manual_seed(5)

    def packed(rows: int) -> Any:
        low = torch.randint(0, 16, (rows, k // 2), dtype=torch.uint8)
        high = torch.randint(0, 16, (rows, k // 2), dtype=torch.uint8)
        return (low | high << 4).to(device)

    def scales(rows: int) -> Any:
        return torch.randint(124, 128, (rows, k // SCALE_GROUP_SIZE), dtype=torch.uint8).to(device)

    return packed(m), packed(n).T, scales(m), scales(n)


def torchScaledGemmMXFP4(x: Any, w: Any, x_scales: Any, w_scales: Any) -> Any:
    """The matmul of scaled fp4 matrices, in f32."""
    import torch

    a = mxfp4_to_f32(x) * e8m0_to_f32(x_scales.repeat_interleave(SCALE_GROUP_SIZE, dim=1))
    b = mxfp4_to_f32(w.T) * e8m0_to_f32(w_scales.repeat_interleave(SCALE_GROUP_SIZE, dim=1))
    return torch.mm(a, b.T)


def b_preshuffle(b: Any) -> Any:
    """[N, Kp] in the order in which lanes read it."""
    n, k = b.shape
    return b.view(n // 16, 16, k // 32, 2, 16).permute(0, 2, 3, 1, 4).contiguous().view(n, k)


def e8m0_shuffle(scale: Any) -> Any:
    """Scales in the order in which lanes read them."""
    import torch

    m, n = scale.shape
    padded = torch.zeros(
        (-(-m // 256) * 256, -(-n // 8) * 8), dtype=scale.dtype, device=scale.device
    )
    padded[:m, :n] = scale
    pm, pn = padded.shape
    order = padded.view(pm // 32, 2, 16, pn // 8, 2, 4).permute(0, 3, 5, 2, 4, 1).contiguous()
    return order.view(pm, pn)[:m, :n].contiguous()
