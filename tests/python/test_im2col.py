"""Tensor copies in im2col mode: they copy what NumPy gathers, and invalid ones are reported."""

import numpy as np
import pytest

from im2col_cases import (
    KF,
    N,
    P,
    Q,
    CONVOLUTIONS,
    WALKS,
    conv_kernel,
    conv_sizes,
    convolution,
    convolution_case,
    copy_text,
    walk_case,
)
from wave_lang import SimulationError, WaveCompileOptions, wave_compile
from wave_lang.testing import simulate


@pytest.mark.parametrize("walk", WALKS, ids=str)
def test_pixels(walk):
    text, (x, y), expected = walk_case(walk)
    simulate(text, x, y, target="sim:sm_90a")
    assert (y == expected).all()


def found(text, shape, pixels, channels):
    x, y = np.ones(shape, "f2"), np.zeros((pixels, channels), "f2")
    with pytest.raises(SimulationError) as error:
        simulate(text, x, y, target="sim:sm_90a")
    return str(error.value)


def test_what_is_no_walk_is_found():
    shape = (2, 5, 6, 8)
    good = [(0, 0, 0, 0), (0, 0), 16, 8, (0, 0), (0, 0), (1, 1)]

    def with_(i, value):
        args = list(good)
        args[i] = value
        return found(copy_text(np.ones(shape, "f2"), *args), shape, args[2], args[3])

    assert "starts at a pixel outside the im2col corners" in with_(0, (0, -1, 0, 0))
    assert "starts at a pixel outside the im2col corners" in with_(0, (0, 0, 6, 0))
    assert "starts at a pixel outside the im2col corners" in with_(5, (0, -7))  # no pixel
    assert "a tap of -1 pixels" in with_(1, (0, -1))
    assert "a tap of 256 pixels" in with_(1, (256, 0))
    assert "rows of a box are 8 bytes" in with_(3, 4)


def joined_text(first):
    """A box of 8 rows, from row 3 of all rows of all images."""
    return f"""
thread kernel @rows(%x: mem<5, 3, 4, 16, f16>)
  launch grid (1) block (32) wave 32 shared 256
{{
  %s = alloc {{base = 0}} : mem<8, 16, f16, shared>
  %z = scalar 0 : i32
  %first = scalar {first} : i32
  %row = scalar 3 : i32
  %one = scalar 1.0 : f16
  for I with {{trips = 4}} {{
    %at = expr 32*$ARGI + $T0 : i32
    store %one, %s, %at
  }}
  fence_proxy
  barrier workgroup
  if ($T0 < 1) {{
    tma_store %s, %z, %x, %first, %z, %row, %z {{box = [1, 1, 8, 16], joined = 2}}
    bulk_commit
    bulk_wait 0
  }}
}}
"""


def test_joined_dims():
    x = np.zeros((5, 3, 4, 16), "f2")
    simulate(joined_text(0), x, target="sim:sm_90a")
    rows = x.reshape(60, 16)
    assert (rows[3:11] == 1).all() and rows.sum() == 8 * 16
    with pytest.raises(SimulationError, match="a coordinate along dimension 0 of `x`"):
        simulate(joined_text(1), x, target="sim:sm_90a")


def test_bytes_that_are_not_awaited():
    x = np.ones((2, 5, 6, 8), "f2")
    args = [(0, 0, 0, 0), (0, 0), 16, 8, (0, 0), (0, 0), (1, 1)]
    text = copy_text(x, *args).replace("{bytes = 256}", "{bytes = 240}")
    assert "E08" in found(text, x.shape, 16, 8)


def test_convolution():
    text, (x, f, y), expected = convolution_case()
    simulate(text, x, f, y, target="sim:sm_90a")
    assert np.abs(y - expected).max() < 1e-3


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolutions_from_python(case):
    """Patches and filters are copied in im2col mode: the compiler recognises them."""
    n, h, w, c, k, window, step, pad, tile = case
    sizes = conv_sizes(n, h, w, c, k, window, step, pad)
    options = WaveCompileOptions(subs=sizes, target="sim:sm_90a")
    kernel = wave_compile(options, conv_kernel(step, pad, tile))
    rng = np.random.default_rng(7)
    x = rng.standard_normal((n, h, w, c)).astype("f2")
    f = rng.standard_normal((k, window, window, c)).astype("f2")
    exact = convolution(x, f, step, pad)
    y = np.full([sizes[s] for s in (N, P, Q, KF)], np.nan, "f4")
    kernel(x, f, y)
    assert np.abs(y.reshape(exact.shape) - exact).max() < 2e-3
    assert sum("(im2col)" in r.message for r in kernel.remarks) == 2, kernel.remarks


def test_no_clusters():
    """Workgroups that walk over pixels do not wait for each other."""
    sizes = conv_sizes(5, 9, 11, 64, 128, 3, 2, 1)
    options = WaveCompileOptions(subs=sizes, target="sm_90a", persistent_workgroups=2)
    text = wave_compile(options, conv_kernel(2, 1, (64, 64, 64))).ir_after("persist")
    assert "persist 2" in text and "raster" in text and "peers" not in text
