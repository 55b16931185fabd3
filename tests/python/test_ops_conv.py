"""Convolution and its gradients, compared with float64."""

import numpy as np
import pytest

from library_utils import BF16, check, draw, on_targets
from wave_lang import ops

TURNS = {"nchw": None, "nhwc": ((0, 2, 3, 1), (2, 3, 1, 0))}  # of images, and of filters


def sizes(x_shape, w_shape, stride, padding, dilation):
    """Rows and columns of the result."""
    reach = [(w_shape[2 + n] - 1) * dilation[n] for n in (0, 1)]
    room = [x_shape[2 + n] + 2 * padding[n] - reach[n] - 1 for n in (0, 1)]
    return [room[n] // stride[n] + 1 for n in (0, 1)]


def windows(x, w, stride, padding, dilation):
    """For each element of a filter, the pixels that it meets: views of the padded image, which is
    the last of each tuple."""
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    size = sizes(x.shape, w.shape, stride, (0, 0), dilation)
    for i, j in np.ndindex(*w.shape[2:]):
        first = (i * dilation[0], j * dilation[1])
        rows, columns = (
            slice(first[n], first[n] + (size[n] - 1) * stride[n] + 1, stride[n]) for n in (0, 1)
        )
        yield i, j, x[:, :, rows, columns], x


def result_of(x, w, steps):
    """With channels before rows."""
    return sum(
        np.einsum("nchw,fc->nfhw", part, w[:, :, i, j]) for i, j, part, _ in windows(x, w, *steps)
    )


def reference(x, w, dy, steps):
    """(y, dx, dw), all with channels before rows."""
    y, dw = result_of(x, w, steps), np.zeros_like(w)
    for i, j, part, _ in windows(x, w, *steps):
        dw[:, :, i, j] = np.einsum("nchw,nfhw->fc", part, dy)
    for i, j, part, total in windows(np.zeros_like(x), w, *steps):
        part += np.einsum("nfhw,fc->nchw", dy, w[:, :, i, j])
    (up, left), (height, width) = steps[1], x.shape[2:]
    return y, total[:, :, up : up + height, left : left + width], dw


# image, filters, stride, padding, dilation, layout, type
CASES = [
    ((2, 3, 8, 9), (5, 3, 3, 2), (2, 1), (1, 2), (1, 2), "nhwc", "f4"),
    ((2, 16, 7, 7), (40, 16, 3, 3), (1, 1), (1, 1), (1, 1), "nhwc", "f2"),
    ((1, 17, 6, 7), (33, 17, 1, 1), (3, 2), (0, 0), (1, 1), "nchw", BF16),
    ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (0, 0), (1, 1), "nchw", "f2"),
    ((3, 2, 5, 5), (4, 2, 5, 5), (2, 3), (4, 3), (2, 1), "nchw", "f4"),
    ((1, 3, 11, 4), (2, 3, 4, 3), (3, 5), (2, 7), (1, 3), "nhwc", "f4"),
]


@on_targets(CASES)
def test_conv2d(case, target):
    """The image is part of a larger one, the result part of a larger tensor."""
    x_shape, w_shape, *steps, layout, dtype = case
    rng = np.random.default_rng(60)
    x, w, bias = (draw(rng, dtype, *shape) for shape in (x_shape, w_shape, w_shape[:1]))
    whole = np.full((*x_shape[:3], x_shape[3] + 3), np.nan, dtype)
    whole[..., 1:-2] = x
    dy = draw(rng, dtype, x_shape[0], w_shape[0], *sizes(x_shape, w_shape, *steps))
    y, dx, dw = reference(*(a.astype(float) for a in (x, w, dy)), steps)
    y = y + bias.astype(float)[:, None, None]
    given, filters, change = whole[..., 1:-2], w, dy
    if TURNS[layout]:
        image, filter = TURNS[layout]
        given, change = given.transpose(image), dy.transpose(image)
        filters = w.transpose(filter).copy()
        y, dx, dw = y.transpose(image), dx.transpose(image), dw.transpose(filter)
    options = dict(zip(("stride", "padding", "dilation"), steps), layout=layout)
    out = np.full((*y.shape[:3], 2 * y.shape[3]), np.nan, dtype)[..., ::2]
    with ops.on_target(target):
        assert ops.conv2d(given, filters, bias, out=out, **options) is out
        found = ops.conv2d_backward(change, given, filters, **options)
    assert np.isnan(out.base[..., 1::2].astype(float)).all()
    check(out, y, dtype)
    check(found[0], dx, dtype)
    check(found[1], dw, dtype)


# image [N, H, W, C], filters, window, stride, padding, dilation, whether the result is dense
NHWC = [
    ((3, 7, 9, 64), 72, (3, 3), (1, 1), (1, 1), (1, 1), True),
    ((2, 9, 6, 32), 130, (3, 2), (2, 1), (1, 0), (2, 3), True),
    ((5, 5, 7, 96), 64, (1, 3), (2, 3), (0, 2), (1, 1), True),
    ((1, 8, 11, 40), 8, (5, 4), (1, 2), (2, 1), (1, 2), False),
    ((3, 6, 5, 24), 33, (1, 1), (1, 1), (0, 0), (1, 1), True),
    ((3, 6, 5, 24), 40, (1, 1), (1, 1), (0, 0), (4, 1), False),
    ((2, 7, 6, 16), 24, (1, 1), (2, 1), (1, 0), (1, 1), True),
]


@on_targets(NHWC)
@pytest.mark.parametrize("dtype", ["f2", BF16])
def test_channels_last(case, target, dtype):
    """Dense images: on Hopper the copy engine reads them and, where it can, writes the result."""
    shape, filters, window, *steps, dense = case
    rng = np.random.default_rng(62)
    x = draw(rng, dtype, *shape)
    w, bias = draw(rng, dtype, *window, shape[3], filters), draw(rng, dtype, filters)
    image, turned = x.astype(float).transpose(0, 3, 1, 2), w.astype(float).transpose(3, 2, 0, 1)
    size = sizes(image.shape, turned.shape, *steps)
    y = reference(image, turned, np.zeros((shape[0], filters, *size)), steps)[0]
    y = y.transpose(0, 2, 3, 1) + bias.astype(float)
    out = np.full((*y.shape[:2], y.shape[2] + (not dense), filters), np.nan, dtype)
    with ops.on_target(target):
        ops.conv2d(x, w, bias, *steps, layout="nhwc", out=out[:, :, : y.shape[2]])
    check(out[:, :, : y.shape[2]], y, dtype)
    assert np.isnan(out[:, :, y.shape[2] :].astype(float)).all()


def test_numbers_for_both_directions():
    rng = np.random.default_rng(61)
    x, w = draw(rng, "f4", 1, 2, 6, 6), draw(rng, "f4", 3, 2, 3, 3)
    steps, dy = [(2, 2), (1, 1), (2, 2)], np.zeros((1, 3, 2, 2))
    wanted = reference(x.astype(float), w.astype(float), dy, steps)
    check(ops.conv2d(x, w, None, 2, 1, 2), wanted[0], "f4")


def test_nothing_to_do():
    x, w, bias = np.ones((2, 3, 5, 5), "f4"), np.ones((4, 3, 2, 2), "f4"), np.arange(4, dtype="f4")
    assert ops.conv2d(x[:0], w).shape == (0, 4, 4, 4)
    assert ops.conv2d(x, w[:0]).shape == (2, 0, 4, 4)
    assert np.array_equal(ops.conv2d(x[:, :0], w[:, :0], bias)[1, :, 2, 3], bias)
    dx, dw = ops.conv2d_backward(np.ones((0, 4, 4, 4), "f4"), x[:0], w)
    assert dx.shape == (0, 3, 5, 5) and not dw.any() and dw.shape == w.shape


def test_wrong_arguments():
    x, w = np.ones((2, 3, 5, 5), "f4"), np.ones((4, 3, 2, 2), "f4")
    for kind, name, call in (
        (TypeError, "`x`", lambda: ops.conv2d(x.astype("i4"), w)),
        (ValueError, "`x`", lambda: ops.conv2d(x[0], w)),
        (TypeError, "`w`", lambda: ops.conv2d(x, w.astype("f2"))),
        (ValueError, "`w`", lambda: ops.conv2d(x, w[:, :2])),
        (ValueError, "`w` reaches over 6", lambda: ops.conv2d(x, w, dilation=5)),
        (ValueError, "`w`", lambda: ops.conv2d(x, w[:, :, :0])),
        (ValueError, "`bias`", lambda: ops.conv2d(x, w, w[0, 0, 0])),
        (TypeError, "`bias`", lambda: ops.conv2d(x, w, np.ones(4, "f2"))),
        (ValueError, "`stride`", lambda: ops.conv2d(x, w, stride=0)),
        (ValueError, "`stride`", lambda: ops.conv2d(x, w, stride=(1, 1, 1))),
        (ValueError, "`padding`", lambda: ops.conv2d(x, w, padding=(0, -1))),
        (ValueError, "`dilation`", lambda: ops.conv2d(x, w, dilation=0)),
        (ValueError, "`layout`", lambda: ops.conv2d(x, w, layout="chwn")),
        (NotImplementedError, "`groups`", lambda: ops.conv2d(x, w, groups=3)),
        (ValueError, "`out`", lambda: ops.conv2d(x, w, out=x)),
        (ValueError, "`dy`", lambda: ops.conv2d_backward(x, x, w)),
    ):
        with pytest.raises(kind, match=name):
            call()


# images, channels, pixels of a row, filters, window, stride, padding
PIXELS = [
    (2, 5, 24, 40, 3, 1, 1),  # runs of eight pixels
    (1, 33, 12, 70, 3, 1, 1),  # of four
    (3, 4, 7, 50, 3, 1, 1),  # of one
    (2, 3, 16, 9, 1, 1, 0),
    (1, 3, 20, 65, 5, 2, 2),
    (2, 12, 9, 33, 3, 1, 1),  # with channels last, runs of four channels
    (1, 64, 9, 48, 2, 1, 1),
]


@pytest.mark.parametrize("target", ["cpu", "sim:cpu_avx512", "sim:cpu_amx", "sim:cpu_neon"])
@pytest.mark.parametrize("dtype", ["f4", BF16])
@pytest.mark.parametrize("layout", TURNS)
@pytest.mark.parametrize("case", PIXELS)
def test_runs_of_pixels_and_channels(case, layout, dtype, target):
    """Packed by vectors, on CPUs; small integers, which are exact."""
    n, channels, side, filters, window, stride, padding = case
    rng = np.random.default_rng(63)
    x = rng.integers(-2, 3, (n, channels, side - 1, side)).astype(dtype)
    w = rng.integers(-1, 2, (filters, channels, window, window)).astype(dtype)
    steps = ((stride,) * 2, (padding,) * 2, (1, 1))
    exact = result_of(x.astype(float), w.astype(float), steps)
    given, filter = x, w
    if TURNS[layout]:
        given, filter = (a.transpose(turn).copy() for a, turn in zip((x, w), TURNS[layout]))
        exact = exact.transpose(TURNS[layout][0])
    with ops.on_target(target):
        found = ops.conv2d(given, filter, stride=stride, padding=padding, layout=layout)
    np.testing.assert_array_equal(found, exact.astype(dtype))
