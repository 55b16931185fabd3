"""Tensor copies in im2col mode: texts of kernels, and their expected results."""

import os

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as SHARED

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def columns(x, at, taps, pixels, channels, lowest, highest, steps):
    """The pixels from `at` = (image, ...) on, one after another; zeros outside x."""
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
    """One lane copies the pixels to shared memory, 32 lanes write them."""
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
    """The convolution of x[n, h, w, c] with f[k, r, s, c], in float64."""
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


# ---- from Python ----

N, H, W, C, KF, R, S, P, Q = (getattr(tkl.sym, s) for s in "N H W C KF R S P Q".split())


def conv_kernel(step, pad, tile):
    """Images [N, H, W, C] convolved with filters [KF, R, S, C], as one matmul with index
    mappings."""
    bm, bn, bk = tile
    rows, depth = N * P * Q, R * S * C
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    row, column = (i % (P * Q)) // Q, i % Q
    patches = tkw.IndexMapping(
        num_iterators=2,
        inputs={
            N: i // (P * Q),
            H: row * step - pad + j // (C * S),
            W: column * step - pad + (j // C) % S,
            C: j % C,
        },
        outputs={rows: i, depth: j},
    )
    taps = tkw.IndexMapping(
        num_iterators=2,
        inputs={KF: i, R: j // (C * S), S: (j // C) % S, C: j % C},
        outputs={KF: i, depth: j},
    )
    images = tkw.IndexMapping(
        num_iterators=2,
        inputs={rows: i, KF: j},
        outputs={N: i // (P * Q), P: row, Q: column, KF: j},
    )

    @tkw.wave(
        [
            tkw.WorkgroupConstraint(rows, bm, 0),
            tkw.WorkgroupConstraint(KF, bn, 1),
            tkw.WaveConstraint(rows, bm // 4),
            tkw.WaveConstraint(KF, bn),
            tkw.TilingConstraint(depth, bk),
            tkw.HardwareConstraint(threads_per_wave=32, mma_type=tkw.MMAType.F32_16x16x16_F16),
        ]
    )
    def conv(
        x: tkl.Memory[N, H, W, C, SHARED, tkl.f16],
        f: tkl.Memory[KF, R, S, C, SHARED, tkl.f16],
        y: tkl.Memory[N, P, Q, KF, GLOBAL, tkl.f32],
    ):
        @tkw.iterate(depth, init_args=[tkl.Register[rows, KF, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(x, mapping=patches), tkw.read(f, mapping=taps), acc)

        tkw.write(loop, y, mapping=images)

    return conv


def conv_sizes(n, h, w, c, k, window, step, pad):
    p, q = (h + 2 * pad - window) // step + 1, (w + 2 * pad - window) // step + 1
    return {N: n, H: h, W: w, C: c, KF: k, R: window, S: window, P: p, Q: q}


CONVOLUTIONS = [
    # n, h, w, c, filters, window, step, pad, tile
    (2, 6, 7, 32, 64, 3, 1, 1, (64, 64, 32)),
    (3, 9, 11, 64, 70, 3, 2, 1, (64, 64, 32)),
    (1, 12, 5, 64, 64, 5, 1, 2, (64, 64, 64)),
    (2, 8, 8, 64, 64, 1, 1, 0, (64, 64, 64)),
    (2, 8, 8, 64, 64, 2, 3, 0, (64, 64, 64)),
]
