"""Matmuls over the pixels of images on the CPU, whose elements are contiguous for a few at a time;
and results that are written across the buffer that holds them."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import rng
from wave_lang import WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

pytestmark = pytest.mark.skipif(
    not any(d.kind == "cpu" for d in _wave.devices()), reason="there is no libLLVM"
)
B, C, H, W, F, S, M, N, K = (getattr(tkl.sym, name) for name in "B C H W F S M N K".split())
UNIT = {"threads_per_wave": 64, "mma_type": tkw.MMAType.F32_16x16x16_F16}
i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)


def compiled(kernel, **options):
    return wave_compile(WaveCompileOptions(target="cpu", strict=True, **options), kernel)


def convolution(sizes, tile):
    """Stride 1, no padding, channels before rows; filters of S x S."""
    rows, columns = H - S + 1, W - S + 1
    pixels, taps = B * rows * columns, C * S * S
    image, row, column = i // (rows * columns), i // columns % rows, i % columns
    channel, down, right = j // (S * S), j // S % S, j % S
    of_x = tkw.IndexMapping(
        num_iterators=2,
        inputs={B: image, C: channel, H: row + down, W: column + right},
        outputs={pixels: i, taps: j},
    )
    of_out = tkw.IndexMapping(
        num_iterators=2,
        inputs={pixels: i, F: j},
        outputs={B: image, F: j, rows: row, columns: column},
    )
    bm, bn, bk = tile

    @tkw.wave(
        [
            tkw.HardwareConstraint(**UNIT),
            tkw.WorkgroupConstraint(pixels, bm, 0),
            tkw.WorkgroupConstraint(F, bn, 1),
            tkw.TilingConstraint(taps, bk),
            tkw.WaveConstraint(pixels, bm),
            tkw.WaveConstraint(F, bn),
        ]
    )
    def convolution(
        x: tkl.Memory[B, C, H, W, G, tkl.f32],
        f: tkl.Memory[F, taps, G, tkl.f32],
        out: tkl.Memory[B, F, rows, columns, G, tkl.f32],
    ):
        @tkw.iterate(taps, init_args=[tkl.Register[pixels, F, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(x, mapping=of_x), tkw.read(f), acc)

        tkw.write(product, out, mapping=of_out)

    return compiled(convolution, subs=dict(zip((B, C, H, W, F, S), sizes)))


# Rows of 8, 16, 12 and 7 pixels: panels begin within rows of the last two.
@pytest.mark.parametrize("columns, tile", [(8, 64), (16, 48), (12, 64), (7, 48)])
@pytest.mark.parametrize("window, channels", [(3, 8), (2, 5)])
def test_convolutions(columns, tile, window, channels):
    batch, height, width, filters = 3, 9, columns + window - 1, 21
    sizes = batch, channels, height, width, filters, window
    x = rng(1).standard_normal((batch, channels, height, width)).astype("f4")
    f = rng(2).standard_normal((filters, channels, window, window)).astype("f4")
    rows = height - window + 1
    expected = sum(
        np.einsum("bchw,fc->bfhw", x[:, :, p : p + rows, q : q + columns], f[:, :, p, q])
        for p in range(window)
        for q in range(window)
    )
    out = np.full(expected.shape, np.nan, "f4")
    convolution(sizes, (tile, 32, 24))(x, f.reshape(filters, -1), out)
    np.testing.assert_allclose(out, expected, atol=2e-4)


# ---- results across their buffers ----

SIZES = [(1, 1, 1), (7, 9, 5), (32, 48, 64), (100, 37, 20), (129, 3, 70), (3, 200, 9), (77, 65, 130)]


def test_products_that_are_turned():
    @tkw.wave(
        [
            tkw.HardwareConstraint(**UNIT),
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 48, 1),
            tkw.TilingConstraint(K, 64),
            tkw.WaveConstraint(M, 32),
            tkw.WaveConstraint(N, 48),
        ]
    )
    def turned(
        a: tkl.Memory[M, K, G, tkl.f32],
        b: tkl.Memory[N, K, G, tkl.f32],
        c: tkl.Memory[N, M, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(tkw.permute(product, target_shape=[N, M]), c)

    kernel = compiled(turned, dynamic_symbols=[M, N, K])
    for m, n, k in SIZES:
        a, b = (rng(m).standard_normal(s).astype("f4") for s in ((m, k), (n, k)))
        c = np.full((n, m), np.nan, "f4")
        kernel(a, b, c)
        np.testing.assert_allclose(c, b @ a.T, atol=2e-4)


@pytest.mark.parametrize("dtype, name", [(tkl.f32, "f4"), (tkl.f16, "f2"), (tkl.i8, "i1")])
def test_copies_that_are_turned(dtype, name):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 32, N: 48}),
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 48, 1),
            tkw.WaveConstraint(M, 32),
            tkw.WaveConstraint(N, 48),
        ]
    )
    def turned(a: tkl.Memory[M, N, G, dtype], b: tkl.Memory[N, M, G, dtype]):
        tkw.write(tkw.permute(tkw.read(a), target_shape=[N, M]), b)

    kernel = compiled(turned, dynamic_symbols=[M, N])
    for m, n, _ in SIZES:
        a, b = (50 * rng(m).standard_normal((m, n))).astype(name), np.zeros((n, m), name)
        kernel(a, b)
        np.testing.assert_array_equal(a.T, b)
