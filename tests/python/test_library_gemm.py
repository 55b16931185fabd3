"""Templates of matmuls and convolution, compared with float64."""

import numpy as np
import pytest

from library_utils import BF16, check, compiled, draw, on_targets
from wave_lang import CompileError
from wave_lang.kernel import lang as tkl
from wave_lang.kernel.wave.constraints import MMAType, ScaledMMAType
from wave_lang.kernel.wave.templates import gemm, moe
from wave_lang.kernel.wave.templates.conv import get_igemm_conv2d
from wave_lang.kernel.wave.templates.dist_gemm import get_dist_gemm_kernel
from wave_lang.kernel.wave.templates.reordered_gemm import get_reordered_matmul

MMA = MMAType.F32_16x16x16_F16


def plain(shape, dtype):
    dynamic = (False, True, False)
    return gemm.get_gemm_kernel(shape, dynamic, MMA, np.dtype(dtype), block_shape=(32, 64, 32))


def transposed(shape, dtype):
    return gemm.get_gemm_kernel_transpose_a_b(shape, True, MMA, np.dtype(dtype))


def split(shape, dtype):
    return gemm.get_splitk_gemm_kernel(shape, 3, MMA, np.dtype(dtype), block_shape=(32, 64, 16))


def persistent(shape, dtype):
    return gemm.get_persistent_gemm_kernel(
        shape, MMA, block_shape=(32, 32, 16), waves_per_block=(2, 1), num_ctas=2
    )


def persistent_in_order(shape, dtype):
    return gemm.get_persistent_reordering_kernel(
        shape, MMA, block_shape=(16, 16, 16), waves_per_block=(1, 1), num_ctas=5, num_xcds=3
    )


def reordered(shape, dtype):
    return get_reordered_matmul(*shape, 32, 32, 32, 2, MMA, np.dtype(dtype), np.float32)


def distributed(shape, dtype):
    return get_dist_gemm_kernel(shape, False, MMA, np.dtype(dtype))


def of_expert(shape, dtype):
    m, n, k = shape
    return moe.get_gemm_kernel(m, k, n, MMA, np.dtype(dtype))


GEMMS = [
    (plain, (70, 33, 50), "f2"),
    (transposed, (33, 70, 50), BF16),
    (split, (33, 70, 100), "f2"),
    (persistent, (70, 100, 40), "f2"),
    (persistent_in_order, (70, 100, 20), "f2"),
    (reordered, (100, 70, 40), BF16),
    (distributed, (1, 1, 1), "f2"),
    (of_expert, (5, 70, 33), BF16),
]


@on_targets(GEMMS)
def test_gemm(case, target):
    make, (m, n, k), dtype = case
    rng = np.random.default_rng(14)
    a, b = draw(rng, dtype, m, k), draw(rng, dtype, n, k)
    c = np.zeros((m, n), "f4")
    given = (a.T, b.T) if make is transposed else (a, b)
    compiled(target, *make((m, n, k), dtype))(*given, c)
    check(c, a.astype(float) @ b.astype(float).T, "f4")


@on_targets([((40, 33, 160),)])
def test_scaled_gemm(case, target):
    (m, n, k), rng = case[0], np.random.default_rng(15)
    numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    codes = [rng.integers(0, 16, (rows, k)).astype("u1") for rows in (m, n)]
    scales = [rng.integers(120, 130, (rows, k // 32)).astype("u1") for rows in (m, n)]
    a, b = (numbers[x] * np.repeat(2.0 ** (s - 127.0), 32, 1) for x, s in zip(codes, scales))
    packed = [x[:, 0::2] | x[:, 1::2] << 4 for x in codes]
    c = np.zeros((m, n), "f4")
    kernel = gemm.get_scaled_gemm_kernel(case[0], ScaledMMAType.F32_16x16x128_F8F6F4, (32, 32, 128))
    compiled(target, *kernel)(packed[0], scales[0], packed[1], scales[1], c)
    check(c, a @ b.T, "f4")


@on_targets([("f2", (3, 100)), (BF16, (2, 513)), ("f4", (1, 1))])
def test_silu_and_mul(case, target):
    """For gates of both signs, where the sigmoid is neither 0 nor 1, and for very large ones."""
    dtype, shape = case
    rng = np.random.default_rng(16)
    gate, up = draw(rng, dtype, *shape, scale=3), draw(rng, dtype, *shape)
    gate.flat[0] = -1e4
    out = np.full(shape, np.nan, dtype)
    compiled(target, *moe.get_silu_and_mul_kernel(*shape, np.dtype(dtype)))(gate, up, out)
    x = gate.astype(float)
    with np.errstate(over="ignore"):
        check(out, x / (1 + np.exp(-x)) * up.astype(float), dtype)


@on_targets([("nhwc_hwcf", (2, 9, 8, 5, 3, 2, 7, 2)), ("nchw_fchw", (1, 6, 7, 16, 3, 3, 20, 1))])
def test_conv(case, target):
    layout, (n, h, w, c, hf, wf, nf, stride) = case
    rng = np.random.default_rng(17)
    x, f = draw(rng, "f2", n, h, w, c), draw(rng, "f2", hf, wf, c, nf)
    ho, wo = (h - hf) // stride + 1, (w - wf) // stride + 1
    out = np.zeros((n, ho, wo, nf))
    for i, j in np.ndindex(ho, wo):
        part = x[:, i * stride :, j * stride :][:, :hf, :wf].astype(float)
        out[:, i, j] = np.einsum("nhwc,hwcf->nf", part, f.astype(float))
    kernel = get_igemm_conv2d(layout, n, h, w, c, hf, wf, nf, stride, tkl.f16, tkl.f32)
    if layout == "nchw_fchw":
        x, f, out = x.transpose(0, 3, 1, 2), f.transpose(3, 2, 0, 1), out.transpose(0, 3, 1, 2)
    found = np.full(out.shape, np.nan, "f4")
    compiled(target, *kernel)(x, f, found)
    check(found, out, "f4")


def test_wrong_arguments():
    shape = (64, 64, 64)
    for name, call in (
        ("shape", lambda: gemm.get_gemm_kernel((64, 64), False, MMA)),
        ("dynamic_dims", lambda: gemm.get_gemm_kernel(shape, (True, False), MMA)),
        ("dtype", lambda: gemm.get_gemm_kernel(shape, False, MMA, np.int32)),
        ("waves_per_block", lambda: gemm.get_persistent_gemm_kernel(shape, MMA, 64, None, (0, 1))),
        ("shape", lambda: gemm.get_scaled_gemm_kernel((64, 64, 40), MMA)),
        ("num_splits", lambda: gemm.get_splitk_gemm_kernel(shape, 0, MMA)),
        ("num_ctas", lambda: gemm.get_persistent_gemm_kernel(shape, MMA, num_ctas=-1)),
        ("num_xcds", lambda: gemm.get_persistent_reordering_kernel(shape, MMA, num_xcds=0)),
        ("group_m_size", lambda: get_reordered_matmul(*shape, *shape, 0, MMA)),
        ("device_n", lambda: get_dist_gemm_kernel(shape, False, MMA, device_n=0)),
        ("datatype", lambda: moe.get_silu_and_mul_kernel(3, 4, tkl.i8)),
        ("layout", lambda: get_igemm_conv2d("chwn", *[9] * 8, tkl.f16, tkl.f32)),
        ("hf", lambda: get_igemm_conv2d("nhwc_hwcf", 1, 2, 2, 3, 3, 3, 4, 1, tkl.f16, tkl.f32)),
    ):
        with pytest.raises(ValueError, match=name):
            call()
    kernel, subs, dynamic = get_dist_gemm_kernel(shape, False, MMA, device_m=2)
    with pytest.raises(CompileError, match="E0215"):
        compiled("cpu", kernel, subs, dynamic)
