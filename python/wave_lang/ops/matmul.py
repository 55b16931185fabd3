"""Matmuls of layers: of batches, operands in either order, with what follows them in a layer, and
products of 8-bit floats."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import *

from .activation_values import gelu, gelu_tanh, is_narrow, relu, silu
from .operators import Gradient, dtype_for, operator
from .programs import f32_of, has_warpgroups, is_cpu, program, size_class
from .tensors import *

BATCH, M, N, K = sym.BATCH, sym.M, sym.N, sym.K
BLOCK_M, BLOCK_N, BLOCK_K = sym.BLOCK_M, sym.BLOCK_N, sym.BLOCK_K
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
PART_M = sym.PART_M  # rows of a wave
LINE, PIECE = 64, 8  # elements of 16 bits in a cache line, and in rows that the copy engine takes


ACTIVATIONS = {"relu": relu, "silu": silu, "gelu": gelu, "gelu_tanh": gelu_tanh}


def _constraints(instruction: Any, *batch: Any) -> list[Any]:
    """Without an instruction, waves are those of Hopper's, and the compiler chooses all sizes."""
    waves = (BLOCK_M / 2, BLOCK_N / 2, 64) if instruction else (PART_M, BLOCK_N, 128)
    return [
        *(tkw.WorkgroupConstraint(dim, 1, 2) for dim in batch),
        tkw.WorkgroupConstraint(M, BLOCK_M, 0),
        tkw.WorkgroupConstraint(N, BLOCK_N, 1),
        tkw.TilingConstraint(K, BLOCK_K),
        tkw.WaveConstraint(M, waves[0]),
        tkw.WaveConstraint(N, waves[1]),
        tkw.HardwareConstraint(
            threads_per_wave=waves[2], mma_type=instruction, vector_shapes={dim: 0 for dim in batch}
        ),
    ]


def _product(
    dtype: Any,
    out: Any,
    sizes: tuple[int, ...],
    orders: tuple[str, str],
    bias: bool,
    activation: str | None,
    slope: bool,
    residual: Any,
) -> Any:
    """`product(a, b, [bias,] [residual,] c)`: orders are those of the dimensions in memory, such as
    "MK", or "BMK" for batches; `sizes` are those of `_sizes_of`. With `slope`, c is the residual
    times the activation's slope."""
    symbol = {"B": BATCH, "M": M, "N": N, "K": K}
    a_dims, b_dims = ([symbol[d] for d in order] for order in orders)
    lead = [BATCH] if "B" in orders[0] + orders[1] else []
    left, right = (tkl.Memory[(*dims, SHARED, dtype)] for dims in (a_dims, b_dims))
    added, result = (tkl.Memory[(*lead, M, N, GLOBAL, kind)] for kind in (residual or out, out))
    factors = tkl.Memory[N, GLOBAL, dtype]

    def in_order(dims: list[Any], *last: Any) -> Any:
        """Reads with this order of dimensions, the batch first."""
        wanted = [*(d for d in dims if d == BATCH), *last]
        here = {dim: tkw.IndexMapping.iterator(n) for n, dim in enumerate(wanted)}
        return tkw.IndexMapping(len(wanted), inputs=here, outputs=here)

    a_of, b_of = in_order(a_dims, M, K), in_order(b_dims, N, K)

    def total(a: Any, b: Any) -> Any:
        @tkw.iterate(K, init_args=[tkw.register([*lead, M, N], tkl.f32, 0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(a, mapping=a_of), tkw.read(b, mapping=b_of), acc)

        return loop

    def finish(a: Any, b: Any, given: Any, more: Any, c: Any) -> None:
        value = total(a, b)
        value = value if given is None else value + tkw.broadcast(f32_of(given), value.shape)
        if activation:
            value, slope_of = ACTIVATIONS[activation](value, is_narrow(out))
            value = slope_of() if slope else value
        if more is not None:
            value = value * f32_of(more) if slope else value + f32_of(more)
        tkw.write(tkw.cast(value, out), c)

    is_chosen = len(sizes) > 2  # by the compiler, for these sizes
    constraints = _constraints(None if is_chosen else tkw.MMAType.F32_16x16x16_F16, *lead)

    @tkw.wave(constraints)
    def product(a: left, b: right, c: result):
        finish(a, b, None, None, c)

    @tkw.wave(constraints)
    def product_with_bias(a: left, b: right, bias: factors, c: result):
        finish(a, b, bias, None, c)

    @tkw.wave(constraints)
    def product_with_residual(a: left, b: right, residual: added, c: result):
        finish(a, b, None, residual, c)

    @tkw.wave(constraints)
    def product_with_both(a: left, b: right, bias: factors, residual: added, c: result):
        finish(a, b, bias, residual, c)

    with_bias, without = (product_with_both, product_with_bias), (product_with_residual, product)
    kernel = (with_bias if bias else without)[residual is None]
    dims = [*lead, M, N, K]
    if is_chosen:
        return kernel, {}, dims, {"expected_sizes": dict(zip(dims, sizes))}
    return kernel, {BLOCK_M: sizes[0], BLOCK_N: sizes[1], BLOCK_K: 64}, dims


def _sizes_of(dtype: Any, rows: str, *sizes: int) -> tuple[int, ...]:
    """What a program is compiled for: on Hopper and on CPUs [B,] M, N and K, for which the compiler
    chooses tiles; elsewhere the rows and columns of a tile. The sizes that `rows` names are those of
    rows in memory: if these begin in the middle of cache lines, other tiles suit them."""
    if is_cpu():  # of all sizes above 1024 the tiles are the same
        return tuple(min(1 << max(n - 1, 7).bit_length(), 1024) for n in sizes)
    if not has_warpgroups() or dtype == tkl.f32:
        return (32 if sizes[-3] <= 32 else 128), 128
    dims = "BMNK"[-len(sizes) :]
    found = (size_class(n, 1 if dim == "B" else 16) for dim, n in zip(dims, sizes))
    crosses = (
        dim in rows and n > LINE and n % LINE and n % PIECE == 0 for dim, n in zip(dims, sizes)
    )
    return tuple(n - PIECE if across else n for n, across in zip(found, crosses))


def _without_batch(*tensors: Any) -> tuple[Any, ...]:
    """All rows of a batch as those of one matrix, so that they fill tiles; the tensors themselves
    if the strides of one do not allow it."""
    found = tuple(None if x is None else merged(x, 0) for x in tensors)
    fit = all(x is None or y is not None for x, y in zip(tensors, found))
    return found if fit else tensors


def _as_stored(x: Any, trans: bool) -> tuple[Any, bool]:
    """A matrix, or its transpose if its columns are contiguous: kernels read rows by vectors."""
    across, along = strides_of(x)[-2:]
    return (x.swapaxes(-1, -2), not trans) if 0 < across < along else (x, trans)


def product(
    a: Any,
    b: Any,
    out: Any,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    bias: Any = None,
    activation: str | None = None,
    residual: Any = None,
    slope: bool = False,
) -> None:
    """`matmul` of checked arguments into `out`, which may have another type. With `slope`, `out` is
    the residual times the slope of the activation."""
    if 0 in tuple(a.shape):  # sums without terms
        (m, n), dtype = out.shape[-2:], wave_dtype(a.dtype)
        a, b = (new_tensor(a, shape, dtype) for shape in ((m, 1), (1, n)))
        a[...], b[...], trans_a, trans_b = 0, 0, False, False
        a = repeated(a, (*out.shape[:-2], m, 1))
    (a, trans_a), (b, trans_b) = _as_stored(a, trans_a), _as_stored(b, trans_b)
    if len(a.shape) == 3 and len(b.shape) == 2 and not trans_a:
        a, out, residual = _without_batch(a, out, residual)
    orders = ("KM" if trans_a else "MK", "NK" if trans_b else "KN")
    orders = tuple("B" * (len(x.shape) - 2) + order for x, order in zip((a, b), orders))
    rows = "".join(order[-1] for order in (*orders, "MN"))
    sizes = _sizes_of(wave_dtype(a.dtype), rows, *out.shape, a.shape[-2 if trans_a else -1])
    kind = None if residual is None else wave_dtype(residual.dtype)
    key = (wave_dtype(a.dtype), wave_dtype(out.dtype), sizes, orders, bias is not None)
    program(_product, *key, activation, slope, kind)(a, b, *present(bias, residual), out)


def _checked(
    a: Any, b: Any, bias: Any, trans_a: bool, trans_b: bool, activation: str | None
) -> tuple[Any, ...]:
    """The tensors, and the shape of the result."""
    a, b = tensor("a", a), tensor("b", b)
    dtype = element_type("a", a, FLOATS)
    element_type("b", b, (dtype.name,))
    for name, x in (("a", a), ("b", b)):
        if len(x.shape) not in (2, 3):
            raise ValueError(f"`{name}` has {len(x.shape)} dimensions, expected 2 or 3")
    m, k = a.shape[-2:][:: -1 if trans_a else 1]
    n = b.shape[-2] if trans_b else b.shape[-1]
    both = len(a.shape) == len(b.shape) == 3
    batch = a.shape[:-2] if both else b.shape[:-2]
    expect_shape("b", b, (*batch, *((n, k) if trans_b else (k, n))))
    bias = checked_bias(bias, n, dtype)
    if activation is not None and activation not in ACTIVATIONS:
        names = ", ".join(map(repr, ACTIVATIONS))
        raise ValueError(f"`activation` is {activation!r}, expected None or one of {names}")
    return a, b, bias, (*(a if len(a.shape) == 3 else b).shape[:-2], m, n)


@operator(
    "matmul_slopes(Tensor dy, Tensor a, Tensor b, Tensor? bias=None, *, str activation,"
    " bool trans_a=False, bool trans_b=False) -> (Tensor out)"
)
def matmul_slopes(
    dy: Any,
    a: Any,
    b: Any,
    bias: Any = None,
    *,
    activation: str,
    trans_a: bool = False,
    trans_b: bool = False,
    out: Any = None,
) -> Any:
    """dy times the slope of the activation at a b + bias: the gradient of what `matmul` activates,
    for the gradient dy of its result. The product is computed again."""
    a, b, bias, shape = _checked(a, b, bias, trans_a, trans_b, activation)
    dy = tensor("dy", dy)
    element_type("dy", dy, FLOATS)
    expect_shape("dy", dy, shape)
    out = result("out", out, a, shape, wave_dtype(a.dtype), b, bias, dy)
    if not is_empty(out):
        given = {"bias": bias, "activation": activation, "residual": dy, "slope": True}
        product(a, b, out, trans_a=trans_a, trans_b=trans_b, **given)
    return out


def _save(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.residual_type = None if inputs[3] is None else inputs[3].dtype
    ctx.options = keyword_only_inputs


def _as_rows(x: Any, turned: bool) -> Any:
    """The rows, or the columns, of all matrices of a batch."""
    x = x.transpose(1, 2) if turned else x
    return x.flatten(0, -2)  # also of no elements


def _left_gradient(dy: Any, a: Any, b: Any, trans_a: bool, trans_b: bool) -> Any:
    if len(a.shape) < len(dy.shape):  # the sum over a batch, as one product
        dy, b, trans_b = _as_rows(dy, True), _as_rows(b, not trans_b), False
        return matmul(b, dy, trans_a=True) if trans_a else matmul(dy, b, trans_a=True)
    if trans_a:
        return matmul(b, dy, trans_a=trans_b, trans_b=True)
    return matmul(dy, b, trans_b=not trans_b)


def _right_gradient(dy: Any, a: Any, b: Any, trans_a: bool, trans_b: bool) -> Any:
    if len(b.shape) < len(dy.shape):
        dy, a, trans_a = _as_rows(dy, False), _as_rows(a, trans_a), False
    if trans_b:
        return matmul(dy, a, trans_a=True, trans_b=trans_a)
    return matmul(a, dy, trans_a=not trans_a)


def _backward(ctx: Any, dy: Any) -> Any:
    (a, b, bias), dy = ctx.saved_tensors, dy.contiguous()
    given = len(ctx.needs_input_grad)  # without those left out at the end
    needed = (*ctx.needs_input_grad, False, False)
    options = {name: ctx.options[name] for name in ("trans_a", "trans_b")}
    activation = ctx.options["activation"]
    if activation is None:
        change = dy.to(a.dtype)
    else:
        change = matmul_slopes(dy, a, b, bias, activation=activation, **options)
    da = _left_gradient(change, a, b, **options) if needed[0] else None
    db = _right_gradient(change, a, b, **options) if needed[1] else None
    of_bias = _as_rows(change, False).sum(0) if needed[2] else None
    of_residual = dy.to(ctx.residual_type) if needed[3] else None
    return (da, db, of_bias, of_residual)[:given]


def matmul(
    a: Any,
    b: Any,
    bias: Any = None,
    residual: Any = None,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    activation: str | None = None,
    out_dtype: Any = None,
    out: Any = None,
) -> Any:
    """a [M, K] times b [K, N], plus bias [N]; with `trans_a`, a is [K, M], and likewise b. Products
    are added in f32, and the sum is rounded once.

    The activation, "relu", "silu", "gelu" or "gelu_tanh", applies to the sum with the bias; the
    residual [M, N] is added after it. Either of a and b, or both, may be a batch, [B, …], as the
    result and the residual are then. The result has the type of a, or `out_dtype`.
    """
    options = {"activation": activation, "out_dtype": dtype_for(a, out_dtype), "out": out}
    return _matmul(a, b, bias, residual, trans_a=trans_a, trans_b=trans_b, **options)


def gemm(
    a: Any,
    b: Any,
    *,
    bias: Any = None,
    activation: str | None = None,
    residual: Any = None,
    out_dtype: Any = None,
    trans: bool = False,
    out: Any = None,
) -> Any:
    """`matmul` with b [K, N], or [N, K] with `trans`."""
    options = {"activation": activation, "out_dtype": out_dtype, "out": out}
    return matmul(a, b, bias, residual, trans_b=trans, **options)


@operator(
    "matmul(Tensor a, Tensor b, Tensor? bias=None, Tensor? residual=None, *, bool trans_a=False,"
    " bool trans_b=False, str? activation=None, ScalarType? out_dtype=None) -> (Tensor out)",
    Gradient(_save, _backward),
)
def _matmul(
    a: Any,
    b: Any,
    bias: Any = None,
    residual: Any = None,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    activation: str | None = None,
    out_dtype: Any = None,
    out: Any = None,
) -> Any:
    a, b, bias, shape = _checked(a, b, bias, trans_a, trans_b, activation)
    kept = result_type(out_dtype, wave_dtype(a.dtype))
    if residual is not None:
        residual = tensor("residual", residual)
        element_type("residual", residual, FLOATS)
        expect_shape("residual", residual, shape)
    out = result("out", out, a, shape, kept, b, bias, residual)
    if not is_empty(out):
        given = {"bias": bias, "activation": activation, "residual": residual}
        product(a, b, out, trans_a=trans_a, trans_b=trans_b, **given)
    return out


def _quantized(dtype: Any, small: Any, largest: float, bias: bool) -> Any:
    """`quantized(a, b, 1 / scale of a, 1 / scale of b, both scales, [bias,] c)` for b [N, K]: a and
    b are rounded to 8 bits before they are multiplied."""

    def rounded(memory: Any, factor: Any) -> Any:
        value = f32_of(memory)
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
        value = total(a, b, fa, fb, scale) + tkw.broadcast(f32_of(bias), [M, N])
        tkw.write(tkw.cast(value, dtype), c)

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
        kernel(a, b, 1 / a_scale, 1 / b_scale, a_scale * b_scale, *present(bias), out)
    return out
