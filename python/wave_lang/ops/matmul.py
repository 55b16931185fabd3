"""Matmuls of layers: with a bias, operands in either order, and products of 8-bit floats."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import *

from .operators import Gradient, operator
from .programs import program
from .tensors import *

M, N, K = sym.M, sym.N, sym.K
BLOCK_M, BLOCK_N, BLOCK_K = sym.BLOCK_M, sym.BLOCK_N, sym.BLOCK_K
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE


def _constraints(instruction: Any) -> list[Any]:
    return [
        tkw.WorkgroupConstraint(M, BLOCK_M, 0),
        tkw.WorkgroupConstraint(N, BLOCK_N, 1),
        tkw.TilingConstraint(K, BLOCK_K),
        tkw.WaveConstraint(M, BLOCK_M / 2),
        tkw.WaveConstraint(N, BLOCK_N / 2),
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=instruction),
    ]


def _add_bias(value: Any, bias: Any) -> Any:
    given = tkw.read(bias)
    given = given if given.dtype == tkl.f32 else tkw.cast(given, tkl.f32)
    return value + tkw.broadcast(given, [M, N])


def _product(dtype: Any, out: Any, rows: int, a_order: str, b_order: str, bias: bool) -> Any:
    """`product(a, b, [bias,] c)`: orders are those of the dimensions in memory, such as "MK"."""
    symbol = {"M": M, "N": N, "K": K}
    a_dims, b_dims = ([symbol[d] for d in order] for order in (a_order, b_order))
    left = tkl.Memory[(*a_dims, SHARED, dtype)]
    right = tkl.Memory[(*b_dims, SHARED, dtype)]
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    a_of = tkw.IndexMapping(2, inputs={M: i, K: j}, outputs={M: i, K: j})
    b_of = tkw.IndexMapping(2, inputs={N: i, K: j}, outputs={N: i, K: j})

    def total(a: Any, b: Any) -> Any:
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(a, mapping=a_of), tkw.read(b, mapping=b_of), acc)

        return loop

    @tkw.wave(_constraints(tkw.MMAType.F32_16x16x16_F16))
    def product(a: left, b: right, c: tkl.Memory[M, N, GLOBAL, out]):
        tkw.write(tkw.cast(total(a, b), out), c)

    @tkw.wave(_constraints(tkw.MMAType.F32_16x16x16_F16))
    def product_with_bias(
        a: left, b: right, bias: tkl.Memory[N, GLOBAL, dtype], c: tkl.Memory[M, N, GLOBAL, out]
    ):
        tkw.write(tkw.cast(_add_bias(total(a, b), bias), out), c)

    blocks = {BLOCK_M: rows, BLOCK_N: 128, BLOCK_K: 64}
    return product_with_bias if bias else product, blocks, [M, N, K]


def product(
    a: Any, b: Any, out: Any, *, trans_a: bool = False, trans_b: bool = False, bias: Any = None
) -> None:
    """`matmul` of checked arguments into `out`, which may have another type."""
    if 0 in tuple(a.shape):
        out[...] = 0 if bias is None else bias
        return
    orders = ("KM" if trans_a else "MK", "NK" if trans_b else "KN")
    rows = 32 if out.shape[0] <= 32 else 128
    key = (wave_dtype(a.dtype), wave_dtype(out.dtype), rows, *orders, bias is not None)
    program(_product, *key)(a, b, *([] if bias is None else [bias]), out)


def _save(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.trans_a, ctx.trans_b = keyword_only_inputs["trans_a"], keyword_only_inputs["trans_b"]


def _backward(ctx: Any, dy: Any) -> Any:
    (a, b), needed, dy = ctx.saved_tensors, ctx.needs_input_grad, dy.contiguous()
    da = db = None
    if needed[0] and ctx.trans_a:
        da = matmul(b, dy, trans_a=ctx.trans_b, trans_b=True)
    elif needed[0]:
        da = matmul(dy, b, trans_b=not ctx.trans_b)
    if needed[1] and ctx.trans_b:
        db = matmul(dy, a, trans_a=True, trans_b=ctx.trans_a)
    elif needed[1]:
        db = matmul(a, dy, trans_a=not ctx.trans_a)
    return da, db, *(dy.sum(0) if n else None for n in needed[2:])  # a bias may be left out


@operator(
    "matmul(Tensor a, Tensor b, Tensor? bias=None, *, bool trans_a=False, bool trans_b=False)"
    " -> (Tensor out)",
    Gradient(_save, _backward),
)
def matmul(
    a: Any,
    b: Any,
    bias: Any = None,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    out: Any = None,
) -> Any:
    """a [M, K] times b [K, N], plus bias [N]; with `trans_a`, a is [K, M], and likewise b. Products
    are added in f32, and the sum is rounded once."""
    a, b = tensor("a", a), tensor("b", b)
    dtype = element_type("a", a, FLOATS)
    element_type("b", b, (dtype.name,))
    for name, x in (("a", a), ("b", b)):
        if len(x.shape) != 2:
            raise ValueError(f"`{name}` has {len(x.shape)} dimensions, expected 2")
    (m, k), (_, n) = a.shape[:: -1 if trans_a else 1], b.shape[:: -1 if trans_b else 1]
    expect_shape("b", b, (n, k) if trans_b else (k, n))
    if bias is not None:
        bias = tensor("bias", bias)
        element_type("bias", bias, (dtype.name,))
        expect_shape("bias", bias, (n,))
    out = result("out", out, a, (m, n), dtype, b, bias)
    if not is_empty(out):
        product(a, b, out, trans_a=trans_a, trans_b=trans_b, bias=bias)
    return out


def _quantized(dtype: Any, small: Any, largest: float, bias: bool) -> Any:
    """`quantized(a, b, 1 / scale of a, 1 / scale of b, both scales, [bias,] c)` for b [N, K]: a and
    b are rounded to 8 bits before they are multiplied."""

    def rounded(memory: Any, factor: Any) -> Any:
        value = tkw.read(memory)
        value = value if value.dtype == tkl.f32 else tkw.cast(value, tkl.f32)
        value = value * tkw.broadcast(factor, value.shape)
        most = tkw.register(value.shape, tkl.f32, largest)
        return tkw.cast(tkw.maximum(tkw.minimum(value, most), -most), small)

    def total(a: Any, b: Any, a_factor: Any, b_factor: Any, scale: Any) -> Any:
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(rounded(a, a_factor), rounded(b, b_factor), acc)

        return loop * tkw.broadcast(scale, [M, N])

    left, right = tkl.Memory[M, K, SHARED, dtype], tkl.Memory[N, K, SHARED, dtype]
    result = tkl.Memory[M, N, GLOBAL, dtype]

    @tkw.wave(_constraints(tkw.MMAType.F32_16x16x32_F8))
    def quantized(a: left, b: right, fa: tkl.f32, fb: tkl.f32, scale: tkl.f32, c: result):
        tkw.write(tkw.cast(total(a, b, fa, fb, scale), dtype), c)

    @tkw.wave(_constraints(tkw.MMAType.F32_16x16x32_F8))
    def quantized_with_bias(
        a: left,
        b: right,
        fa: tkl.f32,
        fb: tkl.f32,
        scale: tkl.f32,
        bias: tkl.Memory[N, GLOBAL, dtype],
        c: result,
    ):
        tkw.write(tkw.cast(_add_bias(total(a, b, fa, fb, scale), bias), dtype), c)

    blocks = {BLOCK_M: 64, BLOCK_N: 64, BLOCK_K: 64}
    return quantized_with_bias if bias else quantized, blocks, [M, N, K]


def quantized_matmul(
    a: Any, b: Any, a_scale: float, b_scale: float, small: Any, largest: float, bias: Any = None
) -> Any:
    """a [M, K] times b [N, K] transposed, plus bias [N]. Both are divided by their scales and
    rounded to the 8-bit type `small`, whose largest number is `largest`."""
    a, b = tensor("a", a), tensor("b", b)
    dtype = element_type("a", a, FLOATS)
    element_type("b", b, (dtype.name,))
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise ValueError("`a` and `b` have two dimensions")
    expect_shape("b", b, (b.shape[0], a.shape[1]))
    out = new_tensor(a, (a.shape[0], b.shape[0]), dtype)
    if not is_empty(out):
        kernel = program(_quantized, dtype, wave_dtype(small), largest, bias is not None)
        given = [] if bias is None else [bias]
        kernel(a, b, 1 / a_scale, 1 / b_scale, a_scale * b_scale, *given, out)
    return out
