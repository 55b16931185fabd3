"""Convolution of images, and its gradients, as matmuls with mapped operands: nothing is copied.

What a filter reads outside the image is outside the tensor, and read as 0. With a stride, the
gradient of an image has terms that no result depends on: they are mapped to places outside too.
"""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import *

from .operators import Gradient, operator
from .programs import f32_of, has_warpgroups, is_cpu, program, size_class
from .schemas import integer_pair
from .tensors import *

N, C, H, W, HF, WF, F, HO, WO = (getattr(sym, name) for name in "N C H W HF WF F HO WO".split())
BLOCK_M, BLOCK_N, BLOCK_K = sym.BLOCK_M, sym.BLOCK_N, sym.BLOCK_K
PART_M = sym.PART_M  # rows of a wave
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE

# The order of the dimensions of the image, of the filters, and of the result.
LAYOUTS = {
    "nchw": ((N, C, H, W), (F, C, HF, WF), (N, F, HO, WO)),
    "nhwc": ((N, H, W, C), (HF, WF, C, F), (N, HO, WO, F)),
}
_i, _j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)


def _divided(index: Any, *dims: Any) -> dict[Any, Any]:
    """The indices of dimensions that are one, the last of them fastest."""
    found = {}
    for dim in reversed(dims[1:]):
        found[dim], index = index % dim, index // dim
    return {**found, dims[0]: index}


def _size(*dims: Any) -> Any:
    total = dims[0]
    for dim in dims[1:]:
        total = total * dim
    return total


def _constraints(rows: Any, columns: Any, terms: Any, chosen: bool) -> list[Any]:
    """If the compiler chooses all sizes, waves are those of Hopper's."""
    waves = (PART_M, BLOCK_N, 128) if chosen else (BLOCK_M / 2, BLOCK_N / 2, 64)
    instruction = None if chosen else tkw.MMAType.F32_16x16x16_F16
    return [
        tkw.WorkgroupConstraint(rows, BLOCK_M, 0),
        tkw.WorkgroupConstraint(columns, BLOCK_N, 1),
        tkw.TilingConstraint(terms, BLOCK_K),
        tkw.WaveConstraint(rows, waves[0]),
        tkw.WaveConstraint(columns, waves[1]),
        tkw.HardwareConstraint(threads_per_wave=waves[2], mma_type=instruction),
    ]


def _mapped(
    dtype: Any,
    sizes: tuple[tuple[Any, int], ...],
    dims: tuple[Any, Any, Any],
    kept: tuple[Any, Any, Any],
    at: tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]],
    bias: bool,
    images: int = 0,
) -> Any:
    """`product(left, right, [bias,] c)`: `dims` are those in memory of the operands and of the
    result, `kept` the rows, columns and terms of the product, and `at` is where the operands
    (row or column, term) and the result (row, column) are in memory. The compiler chooses the tiles
    for that many images; 0: it does not."""
    rows, columns, terms = kept
    ends = ({rows: _i, terms: _j}, {columns: _i, terms: _j}, {rows: _i, columns: _j})
    places = [{dim: place[dim] for dim in order} for order, place in zip(dims, at)]
    left_of, right_of = (tkw.IndexMapping(2, inputs=places[n], outputs=ends[n]) for n in range(2))
    result_of = tkw.IndexMapping(2, inputs=ends[2], outputs=places[2])
    left, right = (tkl.Memory[(*order, SHARED, dtype)] for order in dims[:2])
    result = tkl.Memory[(*dims[2], GLOBAL, dtype)]
    constraints = _constraints(rows, columns, terms, images > 0)

    def total(a: Any, b: Any) -> Any:
        @tkw.iterate(terms, init_args=[tkw.register([rows, columns], tkl.f32, 0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(a, mapping=left_of), tkw.read(b, mapping=right_of), acc)

        return loop

    @tkw.wave(constraints)
    def product(a: left, b: right, c: result):
        tkw.write(tkw.cast(total(a, b), dtype), c, mapping=result_of)

    @tkw.wave(constraints)
    def product_with_bias(a: left, b: right, bias: tkl.Memory[columns, GLOBAL, dtype], c: result):
        value = total(a, b) + tkw.broadcast(f32_of(bias), [rows, columns])
        tkw.write(tkw.cast(value, dtype), c, mapping=result_of)

    kernel = product_with_bias if bias else product
    if images:
        return kernel, dict(sizes), [N], {"expected_sizes": {N: images}}
    return kernel, {**dict(sizes), BLOCK_M: 64, BLOCK_N: 64, BLOCK_K: 32}, [N]


def _steps(stride: tuple, padding: tuple, dilation: tuple, out: Any, filter: Any) -> dict[Any, Any]:
    """The pixel that an element of a filter meets, for an element of the result."""
    return {
        dim: out[o] * stride[n] + filter[f] * dilation[n] - padding[n]
        for n, (dim, o, f) in enumerate(((H, HO, HF), (W, WO, WF)))
    }


def _forward(dtype: Any, layout: str, steps: tuple, sizes: tuple, bias: bool, images: int) -> Any:
    x_dims, w_dims, y_dims = LAYOUTS[layout]
    out = _divided(_i, N, HO, WO)
    # Elements that are next to each other in memory are next to each other as terms.
    order = (C, HF, WF) if layout == "nchw" else (HF, WF, C)
    filter = _divided(_j, *order)
    pixel = {N: out[N], C: filter[C], **_steps(*steps, out, filter)}
    at = (pixel, {F: _i, **filter}, {F: _j, **out})
    kept = (_size(N, HO, WO), F, _size(*order))
    return _mapped(dtype, sizes, (x_dims, w_dims, y_dims), kept, at, bias, images)


def _image_gradient(dtype: Any, layout: str, steps: tuple, sizes: tuple) -> Any:
    x_dims, w_dims, y_dims = LAYOUTS[layout]
    image, term = _divided(_i, N, H, W), _divided(_j, HF, WF, F)
    stride, padding, dilation = steps
    of = {N: image[N], F: term[F]}
    for n, (dim, o, f) in enumerate(((H, HO, HF), (W, WO, WF))):
        ahead = image[dim] + padding[n] - term[f] * dilation[n]
        of[o] = ahead // stride[n]
        if stride[n] > 1:  # no result begins between: a place before the first
            of[o] = of[o] - (ahead % stride[n]) * (dim + padding[n])
    at = (of, {C: _i, **term}, {C: _j, **image})
    kept = (_size(N, H, W), C, _size(HF, WF, F))
    return _mapped(dtype, sizes, (y_dims, w_dims, x_dims), kept, at, False)


def _filter_gradient(dtype: Any, layout: str, steps: tuple, sizes: tuple) -> Any:
    x_dims, w_dims, y_dims = LAYOUTS[layout]
    order = (C, HF, WF) if layout == "nchw" else (HF, WF, C)
    out, filter = _divided(_j, N, HO, WO), _divided(_i, *order)
    pixel = {N: out[N], C: filter[C], **_steps(*steps, out, filter)}
    at = ({F: _i, **out}, pixel, {F: _i, **_divided(_j, *order)})
    kept = (F, _size(*order), _size(N, HO, WO))
    return _mapped(dtype, sizes, (y_dims, x_dims, w_dims), kept, at, False)


def _pair(name: str, value: Any, least: int) -> tuple[int, int]:
    pair = integer_pair(name, value)
    pair = pair * 2 if len(pair) == 1 else pair
    if len(pair) != 2 or any(n < least for n in pair):
        raise ValueError(f"`{name}` is {value}, expected one or two numbers of at least {least}")
    return pair


class _Call:
    """The checked arguments of a convolution."""

    def __init__(
        self, x: Any, w: Any, stride: Any, padding: Any, dilation: Any, layout: str
    ) -> None:
        if layout not in LAYOUTS:
            raise ValueError(f"`layout` is {layout!r}, expected 'nchw' or 'nhwc'")
        self.x, self.w, self.layout = tensor("x", x), tensor("w", w), layout
        self.dtype = element_type("x", self.x, FLOATS)
        element_type("w", self.w, (self.dtype.name,))
        for name, t in (("x", self.x), ("w", self.w)):
            if len(t.shape) != 4:
                raise ValueError(f"`{name}` has {len(t.shape)} dimensions, expected 4")
        self.steps = (
            _pair("stride", stride, 1),
            _pair("padding", padding, 0),
            _pair("dilation", dilation, 1),
        )
        x_dims, w_dims, self.y_dims = LAYOUTS[layout]
        size = dict(zip(x_dims, self.x.shape))
        filters = dict(zip(w_dims, self.w.shape))
        expect_shape("w", self.w, [{**filters, C: size[C]}[dim] for dim in w_dims])
        size = {**filters, **size}
        for n, (dim, o, f) in enumerate(((H, HO, HF), (W, WO, WF))):
            stride, padding, dilation = (step[n] for step in self.steps)
            padded, reach = size[dim] + 2 * padding, (size[f] - 1) * dilation + 1
            if size[f] < 1 or reach > padded:
                raise ValueError(
                    f"`w` reaches over {reach} pixels, expected 1 to those of the padded image,"
                    f" {padded}"
                )
            size[o] = (padded - reach) // stride + 1
        self.size, self.y_shape = size, tuple(size[dim] for dim in self.y_dims)

    def key(self) -> tuple[Any, ...]:
        sizes = tuple((dim, n) for dim, n in self.size.items() if dim != N)
        return self.dtype, self.layout, self.steps, sizes


@operator(
    "conv2d_backward(Tensor dy, Tensor x, Tensor w, *, int[2] stride=1, int[2] padding=0,"
    " int[2] dilation=1, str layout='nchw') -> (Tensor dx, Tensor dw)"
)
def conv2d_backward(
    dy: Any,
    x: Any,
    w: Any,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    layout: str = "nchw",
    dx: Any = None,
    dw: Any = None,
) -> tuple[Any, Any]:
    """(dx, dw) of `conv2d` for the gradient dy of its result."""
    call = _Call(x, w, stride, padding, dilation, layout)
    x, w, dy, dtype = call.x, call.w, tensor("dy", dy), call.dtype
    element_type("dy", dy, (dtype.name,))
    expect_shape("dy", dy, call.y_shape)
    dx = result("dx", dx, x, x.shape, dtype, dy, w)
    dw = result("dw", dw, x, w.shape, dtype, dy, w, dx)
    if is_empty(dy) or is_empty(x):
        dx[...], dw[...] = 0, 0
    else:
        program(_image_gradient, *call.key())(dy, w, dx)
        program(_filter_gradient, *call.key())(dy, x, dw)
    return dx, dw


def _save(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.options = keyword_only_inputs


def _backward(ctx: Any, dy: Any) -> Any:
    dx, dw = conv2d_backward(dy.contiguous(), *ctx.saved_tensors, **ctx.options)
    others = (0, 2, 3) if ctx.options["layout"] == "nchw" else (0, 1, 2)
    return dx, dw, *(dy.sum(others) if n else None for n in ctx.needs_input_grad[2:])


def conv2d(
    x: Any,
    w: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    layout: str = "nchw",
    out: Any = None,
) -> Any:
    """The convolution of images x with filters w, plus bias [F], as PyTorch defines it: x
    [N, C, H, W] and w [F, C, HF, WF] give [N, F, HO, WO]. With the layout "nhwc", x [N, H, W, C]
    and w [HF, WF, C, F] give [N, HO, WO, F].

    Strides, padding with zeros and dilation are numbers, or pairs of them (rows, columns). Products
    are added in f32, and the sum is rounded once.
    """
    if groups != 1:
        raise NotImplementedError(f"`groups` is {groups}: only 1 is implemented")
    steps = {"stride": _pair("stride", stride, 1), "padding": _pair("padding", padding, 0)}
    steps["dilation"] = _pair("dilation", dilation, 1)
    return _conv2d(x, w, bias, **steps, layout=layout, out=out)


@operator(
    "conv2d(Tensor x, Tensor w, Tensor? bias=None, *, int[2] stride=1, int[2] padding=0,"
    " int[2] dilation=1, str layout='nchw') -> (Tensor out)",
    Gradient(_save, _backward),
)
def _conv2d(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    layout: str = "nchw",
    out: Any = None,
) -> Any:
    call = _Call(x, w, stride, padding, dilation, layout)
    x, w, dtype = call.x, call.w, call.dtype
    bias = checked_bias(bias, call.size[F], dtype)
    out = result("out", out, x, call.y_shape, dtype, w, bias)
    if is_empty(out):
        return out
    if is_empty(x):  # no channels
        out[...] = 0 if bias is None else bias.reshape(-1, *([1, 1] if layout == "nchw" else []))
        return out
    whole = layout == "nhwc" and dtype != tkl.f32 and call.size[C] % 8 == 0  # pixels of 16 bytes
    chosen = is_cpu() or (whole and has_warpgroups())
    images = size_class(call.size[N]) if chosen else 0
    program(_forward, *call.key(), bias is not None, images)(x, w, *present(bias), out)
    return out
