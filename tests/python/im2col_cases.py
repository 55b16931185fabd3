"""Tensor copies that walk over pixels: texts of kernels, and what they must give."""

import os

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def columns(x, at, taps, pixels, channels, lowest, highest, steps):
    """The pixels from `at` = (image, ...) on, one after another; zeros outside of x."""
    out = np.zeros((pixels, channels), x.dtype)
    at = list(at)
    for row in out:
        where = [at[0]] + [a + t for a, t in zip(at[1:-1], taps)]
        if all(0 <= w < size for w, size in zip(where, x.shape)):
            there = x[tuple(where)][at[-1] : at[-1] + channels]
            row[: len(there)] = there
        for d in range(len(taps), 0, -1):
            at[d] += steps[d - 1]
            if at[d] < x.shape[d] + highest[d - 1]:
                break
            at[d] = lowest[d - 1]
        else:
            at[0] += 1
    return out


def copy_text(x, at, taps, pixels, channels, lowest, highest, steps, swizzle=0):
    """One lane brings the pixels, 32 lanes write them."""
    dims = ", ".join(map(str, x.shape))
    numbers = list(at) + list(taps)
    scalars = "\n".join(f"  %i{i} = scalar {v} : i32" for i, v in enumerate(numbers))
    coords = ", ".join(f"%i{i}" for i in range(len(numbers)))
    return f"""
thread kernel @walk(%x: mem<{dims}, f16>, %y: mem<{pixels}, {channels}, f16>)
  launch grid (1) block (32) wave 32 shared {2 * pixels * channels + 8}
{{
  %s = alloc {{base = 0}} : mem<{pixels}, {channels}, f16, shared>
  %bar = alloc {{base = {2 * pixels * channels}}} : mem<1, i64, shared>
  %z = scalar 0 : i32
{scalars}
  if ($T0 < 1) {{
    mbar_init %bar, %z {{count = 1}}
    mbar_arrive %bar, %z {{bytes = {2 * pixels * channels}}}
    tma_load %s, %z, %bar, %z, %x, {coords} {{box = [{pixels}, {channels}], im2col = {list(lowest) + list(highest)}, steps = {list(steps)}}}
  }}
  barrier workgroup
  mbar_wait %bar, %z, %z
  for I with {{trips = {pixels * channels // 32}}} {{
    %at = expr 32*$ARGI + $T0 : i32
    %v = load %s, %at : f16
    store %v, %y, %at
  }}
}}
"""


WALKS = [
    # shape, first (image, pixel, channel), taps, pixels, channels, lowest, highest, steps
    ((3, 7, 16), (0, 0, 0), (0,), 16, 16, (0,), (0,), (1,)),
    ((3, 7, 16), (1, -2, 8), (5,), 24, 8, (-2,), (-3,), (3,)),
    ((2, 5, 6, 8), (0, -1, -1, 0), (2, 1), 64, 8, (-1, -1), (-1, -1), (1, 1)),
    ((2, 5, 6, 24), (1, 3, 1, 16), (0, 2), 32, 16, (-1, -1), (-1, -1), (2, 2)),  # past the channels
    ((4, 9, 11, 8), (0, 1, 0, 0), (3, 0), 96, 8, (1, 0), (-5, 2), (2, 3)),
    ((2, 3, 4, 5, 8), (0, 0, -1, 0, 0), (1, 2, 0), 64, 8, (0, -1, 0), (-1, -1, -2), (1, 1, 2)),
    ((1, 1, 1, 8), (0, 0, 0, 0), (0, 0), 4, 8, (0, 0), (0, 0), (1, 1)),  # then there is no image
    ((1, 4, 4, 8), (-1, 0, 0, 0), (0, 0), 32, 8, (0, 0), (0, 0), (1, 1)),  # from before the first
]


def convolution(x, f, step, pad):
    """x[n, h, w, c] by f[k, r, s, c], in float64."""
    n, h, w, _ = x.shape
    k, r, s, _ = f.shape
    p, q = (h + 2 * pad - r) // step + 1, (w + 2 * pad - s) // step + 1
    padded = np.pad(x.astype("f8"), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    y = np.zeros((n, p, q, k))
    for i in range(r):
        for j in range(s):
            part = padded[:, i : i + step * p : step, j : j + step * q : step][:, :p, :q]
            y += part @ f[:, i, j].astype("f8").T
    return y.reshape(n * p * q, k)


def convolution_case():
    """The kernel of tests/ptx, which is assembled there; its arguments, and the result."""
    with open(os.path.join(ROOT, "tests/ptx/im2col.wave"), encoding="utf-8") as file:
        text = file.read()
    rng = np.random.default_rng(4)
    x = rng.standard_normal((5, 9, 11, 64)).astype("f2")
    f = rng.standard_normal((64, 3, 3, 64)).astype("f2")
    return text, (x, f, np.full((150, 64), np.nan, "f4")), convolution(x, f, 2, 1)


def walk_case(walk):
    shape, *rest = walk
    x = np.arange(1, 1 + np.prod(shape)).reshape(shape).astype("f2")
    y = np.full((rest[2], rest[3]), np.nan, "f2")
    return copy_text(x, *rest), (x, y), columns(x, *rest)
