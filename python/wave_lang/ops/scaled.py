"""Matmuls of 8-bit and 4-bit numbers that have scales."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl

from . import scaled_kernels as kernels
from .operators import dtype_for, operator
from .programs import has_warpgroups, program
from .quantize import MX_GROUP
from .tensors import *

FLOATS_8 = ("f8e4m3fn", "f8e5m2")


def _matrices(
    a: Any, b: Any, a_types: Any, b_types: Any, b_name: str = "b"
) -> tuple[Any, Any, tuple[Any, Any]]:
    """a [M, K] and b [N, K], and the types of their elements."""
    a, b = tensor("a", a), tensor(b_name, b)
    types = element_type("a", a, a_types), element_type(b_name, b, b_types)
    for name, x in (("a", a), (b_name, b)):
        if len(x.shape) != 2:
            raise ValueError(f"`{name}` has {len(x.shape)} dimensions, expected 2")
    return a, b, types


def _scale(name: str, x: Any, types: Any = ("f32",)) -> Any:
    x = tensor(name, x)
    element_type(name, x, types)
    return x


def _is_one(scale: Any) -> bool:
    return tuple(scale.shape) in ((), (1,), (1, 1))


def _row_scales(sa: Any, sb: Any, m: int, n: int) -> tuple[Any, Any]:
    """Scales of the rows of a and b as vectors, or with one element."""
    if not _is_one(sa):
        expect_shape("sa", sa, (m, 1))
    if not _is_one(sb):
        expect_shape("sb", sb, (1, n))
    return sa.reshape(1) if _is_one(sa) else sa[:, 0], sb.reshape(1) if _is_one(sb) else sb[0]


def _has_no_terms(terms: int, bias: Any, out: Any) -> bool:
    """Whether there is nothing to multiply; then sums without terms are written."""
    if not is_empty(out) and terms == 0:
        out[...] = 0 if bias is None else bias
    return is_empty(out) or terms == 0


def _multiply(
    a: Any, b: Any, sa: Any, sb: Any, bias: Any, out: Any, promote: bool, blocks: bool
) -> None:
    (m, k), n = a.shape, b.shape[0]
    if _has_no_terms(k, bias, out):
        return
    types = wave_dtype(a.dtype), wave_dtype(b.dtype)
    shape = (bias is not None, kernels.row_class(m), n, k)
    if blocks:
        turned = strides_of(sa)[0] < strides_of(sa)[1]  # its columns are contiguous
        sa = sa.T if turned else sa
        kernel = program(kernels.by_blocks, types, wave_dtype(out.dtype), turned, *shape)
    else:
        alone = _is_one(sa), _is_one(sb)
        kernel = program(kernels.by_rows, types, wave_dtype(out.dtype), alone, promote, *shape)
    kernel(a, b, sa, sb, *present(bias), out)


def gemm_fp8(
    a: Any,
    b: Any,
    sa: Any,
    sb: Any,
    bias: Any = None,
    *,
    out_dtype: Any = None,
    fast_accum: bool = False,
    out: Any = None,
) -> Any:
    """a [M, K] times b [N, K] transposed, for 8-bit floats (e4m3fn or e5m2), each times its scale,
    plus bias [N], which has the type of the result: bf16, or `out_dtype`.

    The shapes of the scales, in f32, say what each belongs to: sa is one number or that of each
    row, [M, 1]; sb is one number or that of each row of b, [1, N]. Or sa [M, K / 128] has a scale
    for each 128 elements of a row, and sb [N / 128, K / 128] for each block of 128 x 128, where
    the last in a row or column may be smaller. Products are added in f32. Hopper's instructions
    keep about 14 bits of sums, so that those of each 128 products are added by others, unless
    `fast_accum`.
    """
    options = {"fast_accum": fast_accum, "out": out}
    return _fp8(a, b, sa, sb, bias, out_dtype=dtype_for(a, out_dtype), **options)


@operator(
    "gemm_fp8(Tensor a, Tensor b, Tensor sa, Tensor sb, Tensor? bias=None, *,"
    " ScalarType? out_dtype=None, bool fast_accum=False) -> (Tensor out)"
)
def _fp8(
    a: Any,
    b: Any,
    sa: Any,
    sb: Any,
    bias: Any = None,
    *,
    out_dtype: Any = None,
    fast_accum: bool = False,
    out: Any = None,
) -> Any:
    a, b, _ = _matrices(a, b, FLOATS_8, FLOATS_8)
    (m, k), n = a.shape, b.shape[0]
    expect_shape("b", b, (n, k))
    dtype, sa, sb = result_type(out_dtype, tkl.bf16), _scale("sa", sa), _scale("sb", sb)
    bias = checked_bias(bias, n, dtype)
    blocks = tuple(-(-size // kernels.BLOCK) for size in (n, k))
    by_blocks = tuple(sb.shape) == blocks and not _is_one(sb)
    if blocks == (1, n):  # sb may be of rows, too; sa shows which is meant
        by_blocks = by_blocks and tuple(sa.shape) == (m, n)
    if by_blocks:
        expect_shape("sa", sa, (m, blocks[1]))
    else:
        sa, sb = _row_scales(sa, sb, m, n)
    out = result("out", out, a, (m, n), dtype, b, sa, sb, bias)
    _multiply(a, b, sa, sb, bias, out, not fast_accum and has_warpgroups(), by_blocks)
    return out


def gemm_w8a8(
    a: Any, b: Any, sa: Any, sb: Any, bias: Any = None, *, out_dtype: Any = None, out: Any = None
) -> Any:
    """a [M, K] times b [N, K] transposed, for integers of 8 bits, plus bias [N], which has the type
    of the result: bf16, or `out_dtype`. Products are added in i32, and the sums multiplied by
    scales in f32: sa is one number or [M, 1], sb one number or [1, N]."""
    return _w8a8(a, b, sa, sb, bias, out_dtype=dtype_for(a, out_dtype), out=out)


@operator(
    "gemm_w8a8(Tensor a, Tensor b, Tensor sa, Tensor sb, Tensor? bias=None, *,"
    " ScalarType? out_dtype=None) -> (Tensor out)"
)
def _w8a8(
    a: Any,
    b: Any,
    sa: Any,
    sb: Any,
    bias: Any = None,
    *,
    out_dtype: Any = None,
    out: Any = None,
) -> Any:
    a, b, _ = _matrices(a, b, ("i8",), ("i8",))
    (m, k), n = a.shape, b.shape[0]
    expect_shape("b", b, (n, k))
    dtype, sa, sb = result_type(out_dtype, tkl.bf16), _scale("sa", sa), _scale("sb", sb)
    bias = checked_bias(bias, n, dtype)
    sa, sb = _row_scales(sa, sb, m, n)
    out = result("out", out, a, (m, n), dtype, b, sa, sb, bias)
    _multiply(a, b, sa, sb, bias, out, False, False)
    return out


def gemm_mx(
    a: Any, sa: Any, b: Any, sb: Any, bias: Any = None, *, out_dtype: Any = None, out: Any = None
) -> Any:
    """a [M, K] times b [N, K] transposed, for MX numbers such as those of `quantize_mx`, plus bias
    [N], which has the type of the result: bf16, or `out_dtype`.

    Elements are 8-bit floats (e4m3fn or e5m2) or, in bytes [.., K / 2], two of 4 bits (e2m1), the
    first in the low bits; a and b may differ in type. Scales, sa [M, K / 32] and sb [N, K / 32],
    are bytes, or of the type e8m0. A scale of NaN, 255, makes its row or column NaN.
    """
    return _mx(a, sa, b, sb, bias, out_dtype=dtype_for(a, out_dtype), out=out)


@operator(
    "gemm_mx(Tensor a, Tensor sa, Tensor b, Tensor sb, Tensor? bias=None, *,"
    " ScalarType? out_dtype=None) -> (Tensor out)"
)
def _mx(
    a: Any,
    sa: Any,
    b: Any,
    sb: Any,
    bias: Any = None,
    *,
    out_dtype: Any = None,
    out: Any = None,
) -> Any:
    a, b, found = _matrices(a, b, (*FLOATS_8, "u8"), (*FLOATS_8, "u8"))
    types = tuple(tkl.f4e2m1fn if dtype == tkl.u8 else dtype for dtype in found)
    m, n, k = a.shape[0], b.shape[0], a.shape[1] * (2 if found[0] == tkl.u8 else 1)
    if k % MX_GROUP:
        raise ValueError(f"`a` has rows of {k} elements, expected a multiple of {MX_GROUP}")
    expect_shape("b", b, (n, k // 2 if found[1] == tkl.u8 else k))
    sa, sb = _scale("sa", sa, ("u8", "f8e8m0fnu")), _scale("sb", sb, ("u8", "f8e8m0fnu"))
    for name, scale, rows in (("sa", sa, m), ("sb", sb, n)):
        expect_shape(name, scale, (rows, k // MX_GROUP))
    dtype = result_type(out_dtype, tkl.bf16)
    bias = checked_bias(bias, n, dtype)
    out = result("out", out, a, (m, n), dtype, b, sa, sb, bias)
    if _has_no_terms(k, bias, out):
        return out
    shape = (bias is not None, kernels.row_class(m), n, k)
    kernel = program(kernels.by_powers, types, dtype, *shape)
    kernel(a, bytes_of(sa), b, bytes_of(sb), *present(bias), out)
    return out


@operator(
    "gemm_w4a16(Tensor a, Tensor b_packed, Tensor scales, Tensor? zeros=None, int group=128,"
    " Tensor? bias=None) -> (Tensor out)"
)
def gemm_w4a16(
    a: Any,
    b_packed: Any,
    scales: Any,
    zeros: Any = None,
    group: int = 128,
    bias: Any = None,
    *,
    out: Any = None,
) -> Any:
    """a [M, K], in f16 or bf16, times weights [N, K] of 4 bits transposed, plus bias [N].

    b_packed [N, K / 2] has two weights in a byte, that of the even k in the low bits. A weight is
    an integer from 0 to 15, less 8 or, if there are `zeros`, the zero of its group, rounded to the
    type of a, and then times the scale of its group. Scales and zeros are [N, K / group], where the
    last group of a row may be smaller: zeros have the type of a, scales that type or f32. `group`
    is a multiple of 32. Products are added in f32.
    """
    a, b, (dtype, _) = _matrices(a, b_packed, ("f16", "bf16"), ("u8",), "b_packed")
    m, n, k = a.shape[0], b.shape[0], 2 * b.shape[1]
    expect_shape("a", a, (m, k))
    if group < 32 or group % 32:
        raise ValueError(f"`group` is {group}, expected a multiple of 32")
    scales, groups = _scale("scales", scales, (dtype.name, "f32")), -(-k // group)
    expect_shape("scales", scales, (n, groups))
    if zeros is not None:
        zeros = _scale("zeros", zeros, (dtype.name,))
        expect_shape("zeros", zeros, (n, groups))
    bias = checked_bias(bias, n, dtype)
    out = result("out", out, a, (m, n), dtype, b, scales, zeros, bias)
    if not _has_no_terms(k, bias, out):
        _add_groups(a, b, scales, zeros, bias, group, out)
    return out


def _add_groups(a: Any, b: Any, scales: Any, zeros: Any, bias: Any, group: int, out: Any) -> None:
    m, n, k = a.shape[0], b.shape[0], a.shape[1]
    few = kernels.few_class(m)
    key = (wave_dtype(a.dtype), wave_dtype(scales.dtype), zeros is not None, bias is not None)
    if few:
        kernel = program(kernels.by_waves, *key, few, n, k, group)
    else:
        form = kernels.groups_form(kernels.row_class(m), n, k, group)
        kernel = program(kernels.by_groups, *key, n, k, group, form)
    kernel(a, b, scales, *present(zeros), *present(bias), out)
