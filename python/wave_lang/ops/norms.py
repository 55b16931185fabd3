"""Normalisation of rows: RMSNorm, also of a sum with a residual, layer norm and softmax."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL

from . import norm_gradients as gradients
from .operators import is_torch, needs_gradient, operator
from .programs import *
from .quantize import nearest, scale_of
from .tensors import *

QUANTS = {"fp8 token": tkl.f8e4m3fn, "int8 token": tkl.i8}


def _row(dtype: Any) -> Any:
    return tkl.Memory[M, N, GLOBAL, dtype]


def _normalised(x: Any, w: Any, eps: Any, gemma: bool) -> Any:
    mean = tkw.sum(x * x, dim=N, block=True) / tkl.Register[M, tkl.f32](N)
    scale = tkw.rsqrt(mean + tkw.broadcast(eps, [M]))
    factor = f32_of(w) + 1.0 if gemma else f32_of(w)
    return x * per_row(scale) * per_row(factor)


def _rms_norm(dtype: Any, weight: Any, columns: int | None, gemma: bool, total: str) -> Any:
    """`total`: what becomes of the sum with a residual. "": there is none."""
    scales = tkl.Memory[N, GLOBAL, weight]

    def normalised(x: Any, w: Any, eps: Any) -> Any:
        return tkw.cast(_normalised(x, w, eps, gemma), dtype)

    def add(x: Any, r: Any, w: Any, eps: Any, s: Any, y: Any) -> None:
        total = f32_of(x) + f32_of(r)
        tkw.write(tkw.cast(total, dtype), s)
        tkw.write(normalised(total, w, eps), y)

    @tkw.wave(row_constraints(columns))
    def rms_norm(x: _row(dtype), w: scales, eps: tkl.f32, y: _row(dtype)):
        tkw.write(normalised(f32_of(x), w, eps), y)

    @tkw.wave(row_constraints(columns))
    def add_rms_norm_(x: _row(dtype), r: _row(dtype), w: scales, eps: tkl.f32, y: _row(dtype)):
        add(x, r, w, eps, r, y)

    @tkw.wave(row_constraints(columns))
    def add_rms_norm(
        x: _row(dtype), r: _row(dtype), w: scales, eps: tkl.f32, s: _row(dtype), y: _row(dtype)
    ):
        add(x, r, w, eps, s, y)

    kernel = {"": rms_norm, "stored": add_rms_norm_, "made": add_rms_norm}[total]
    return kernel, *row_symbols(columns)


def _quantized_rms_norm(
    dtype: Any, weight: Any, columns: int | None, gemma: bool, added: bool, small: Any
) -> Any:
    """`rms_norm(x, [r,] w, eps, q, scales)`: rows are quantised as they are normalised. With
    `added`, r is added to x before that, and the sum stored in r."""
    factors, scales = tkl.Memory[N, GLOBAL, weight], tkl.Memory[M, GLOBAL, tkl.f32]

    def store(x: Any, w: Any, eps: Any, q: Any, scales: Any) -> None:
        value = _normalised(x, w, eps, gemma)
        scale = scale_of(tkw.max(tkw.abs(value), dim=N, block=True), small)
        tkw.write(nearest(value / per_row(scale), small), q)
        tkw.write(scale, scales)

    @tkw.wave(row_constraints(columns))
    def rms_norm(x: _row(dtype), w: factors, eps: tkl.f32, q: _row(small), s: scales):
        store(f32_of(x), w, eps, q, s)

    @tkw.wave(row_constraints(columns))
    def add_rms_norm_(
        x: _row(dtype), r: _row(dtype), w: factors, eps: tkl.f32, q: _row(small), s: scales
    ):
        total = f32_of(x) + f32_of(r)
        tkw.write(tkw.cast(total, dtype), r)
        store(total, w, eps, q, s)

    return add_rms_norm_ if added else rms_norm, *row_symbols(columns)


def _checked_rows(x: Any, **weights: Any) -> tuple[Any, Any, Any]:
    """x, its rows, and its element type; weights have an element for each column."""
    x = tensor("x", x)
    dtype, rows = element_type("x", x, FLOATS), rows_of("x", x)
    for name, w in weights.items():
        element_type(name, w, FLOATS)
        expect_shape(name, w, rows.shape[1:])
    return x, rows, dtype


def rms_norm(
    x: Any,
    w: Any,
    eps: float = 1e-6,
    *,
    residual: Any = None,
    gemma: bool = False,
    quant: str | None = None,
    out: Any = None,
    scale_out: Any = None,
) -> Any:
    """x / sqrt(mean(x²) + eps) * w for each row of x [..., N], computed in f32.

    With `residual`, x + residual is normalised instead, and stored in `residual`. With `gemma`, the
    weights are 1 + w. With `quant`, "fp8 token" or "int8 token", the result is quantised in the
    same launch, and is (q, scale) as of `quantize_fp8` or `quantize_int8`; it has no gradient.
    """
    if quant is not None:
        given = {"gemma": gemma, "quant": quant, "out": out, "scale_out": scale_out}
        if residual is None:
            return _quantized(x, w, eps, **given)
        if is_torch(x) and needs_gradient(x, w, residual):
            raise NotImplementedError(
                "rms_norm with `quant` has no gradient: call it under torch.no_grad()"
            )
        return _quantized_sum(x, residual, w, eps, **given)
    if scale_out is not None:
        raise ValueError("`scale_out` is given without `quant`")
    if residual is None:
        return _plain(x, w, eps, gemma=gemma, out=out)
    if out is None and is_torch(x) and needs_gradient(x, w, residual):
        # Operators of PyTorch that write to an argument have no gradients.
        out, total = add_rms_norm(x, residual, w, eps, gemma=gemma)
        residual.copy_(total)
        return out
    return _stored(x, residual, w, eps, gemma=gemma, out=out)


@operator(
    "rms_norm(Tensor x, Tensor w, float eps=1e-6, *, bool gemma=False) -> (Tensor out)",
    gradients.rms_norm,
)
def _plain(x: Any, w: Any, eps: float = 1e-6, *, gemma: bool = False, out: Any = None) -> Any:
    w = tensor("w", w)
    x, rows, dtype = _checked_rows(x, w=w)
    out = result("out", out, x, x.shape, dtype, w)
    if not is_empty(x):
        key = (dtype, wave_dtype(w.dtype), length_class(rows.shape[1]), gemma, "")
        program(_rms_norm, *key)(rows, w, eps, rows_of("out", out))
    return out


def _checked_sum(x: Any, residual: Any, w: Any) -> tuple[Any, ...]:
    residual, w = tensor("residual", residual), tensor("w", w)
    x, rows, dtype = _checked_rows(x, w=w)
    expect_shape("residual", residual, x.shape)
    element_type("residual", residual, (dtype.name,))
    return x, residual, w, rows, dtype


def _checked_stored(x: Any, residual: Any, w: Any) -> tuple[Any, ...]:
    """The same if the sum is stored in the residual."""
    given = _checked_sum(x, residual, w)
    for name, other in (("x", given[0]), ("w", given[2])):
        if overlap(given[1], other):
            raise ValueError(f"`residual` shares memory with `{name}`")
    return given


@operator(
    "add_rms_norm_(Tensor x, Tensor(a!) residual, Tensor w, float eps=1e-6, *, bool gemma=False)"
    " -> (Tensor out)"
)
def _stored(
    x: Any, residual: Any, w: Any, eps: float = 1e-6, *, gemma: bool = False, out: Any = None
) -> Any:
    x, residual, w, rows, dtype = _checked_stored(x, residual, w)
    out = result("out", out, x, x.shape, dtype, w, residual)
    if not is_empty(x):
        key = (dtype, wave_dtype(w.dtype), length_class(rows.shape[1]), gemma, "stored")
        added = rows_of("residual", residual)
        program(_rms_norm, *key)(rows, added, w, eps, rows_of("out", out))
    return out


def _quant_type(quant: str) -> Any:
    if quant not in QUANTS:
        names = " or ".join(map(repr, QUANTS))
        raise ValueError(f"`quant` is {quant!r}, expected None, {names}")
    return QUANTS[quant]


@operator(
    "rms_norm_quant(Tensor x, Tensor w, float eps=1e-6, *, bool gemma=False,"
    " str quant='fp8 token') -> (Tensor out, Tensor scale_out)"
)
def _quantized(
    x: Any,
    w: Any,
    eps: float = 1e-6,
    *,
    gemma: bool = False,
    quant: str = "fp8 token",
    out: Any = None,
    scale_out: Any = None,
) -> tuple[Any, Any]:
    small, w = _quant_type(quant), tensor("w", w)
    x, rows, dtype = _checked_rows(x, w=w)
    out = result("out", out, x, x.shape, small, w)
    scale_out = result("scale_out", scale_out, x, (*x.shape[:-1], 1), tkl.f32, w, out)
    if not is_empty(x):
        key = (dtype, wave_dtype(w.dtype), length_class(rows.shape[1]), gemma, False, small)
        scales = rows_of("scale_out", scale_out)[:, 0]
        program(_quantized_rms_norm, *key)(rows, w, eps, rows_of("out", out), scales)
    return out, scale_out


@operator(
    "add_rms_norm_quant_(Tensor x, Tensor(a!) residual, Tensor w, float eps=1e-6, *,"
    " bool gemma=False, str quant='fp8 token') -> (Tensor out, Tensor scale_out)"
)
def _quantized_sum(
    x: Any,
    residual: Any,
    w: Any,
    eps: float = 1e-6,
    *,
    gemma: bool = False,
    quant: str = "fp8 token",
    out: Any = None,
    scale_out: Any = None,
) -> tuple[Any, Any]:
    small = _quant_type(quant)
    x, residual, w, rows, dtype = _checked_stored(x, residual, w)
    out = result("out", out, x, x.shape, small, w, residual)
    scale_out = result("scale_out", scale_out, x, (*x.shape[:-1], 1), tkl.f32, w, residual, out)
    if not is_empty(x):
        key = (dtype, wave_dtype(w.dtype), length_class(rows.shape[1]), gemma, True, small)
        given = (rows, rows_of("residual", residual), w, eps, rows_of("out", out))
        program(_quantized_rms_norm, *key)(*given, rows_of("scale_out", scale_out)[:, 0])
    return out, scale_out


@operator(
    "add_rms_norm(Tensor x, Tensor residual, Tensor w, float eps=1e-6, *, bool gemma=False)"
    " -> (Tensor out, Tensor total)",
    gradients.add_rms_norm,
)
def add_rms_norm(
    x: Any,
    residual: Any,
    w: Any,
    eps: float = 1e-6,
    *,
    gemma: bool = False,
    out: Any = None,
    total: Any = None,
) -> tuple[Any, Any]:
    """(y, total): the sum x + residual, and `rms_norm` of it; nothing is changed in place."""
    x, residual, w, rows, dtype = _checked_sum(x, residual, w)
    out = result("out", out, x, x.shape, dtype, w, residual)
    total = result("total", total, x, x.shape, dtype, w, residual, out)
    if not is_empty(x):
        key = (dtype, wave_dtype(w.dtype), length_class(rows.shape[1]), gemma, "made")
        added, stored = rows_of("residual", residual), rows_of("total", total)
        program(_rms_norm, *key)(rows, added, w, eps, stored, rows_of("out", out))
    return out, total


def _layer_norm(dtype: Any, weight: Any, columns: int | None) -> Any:
    @tkw.wave(row_constraints(columns))
    def layer_norm(
        x: _row(dtype),
        w: tkl.Memory[N, GLOBAL, weight],
        b: tkl.Memory[N, GLOBAL, weight],
        eps: tkl.f32,
        y: _row(dtype),
    ):
        value, length = f32_of(x), tkl.Register[M, tkl.f32](N)
        mean = tkw.sum(value, dim=N, block=True) / length
        centred = value - per_row(mean)
        variance = tkw.sum(centred * centred, dim=N, block=True) / length
        scale = tkw.rsqrt(variance + tkw.broadcast(eps, [M]))
        scaled = centred * per_row(scale) * per_row(f32_of(w)) + per_row(f32_of(b))
        tkw.write(tkw.cast(scaled, dtype), y)

    return layer_norm, *row_symbols(columns)


@operator(
    "layer_norm(Tensor x, Tensor w, Tensor b, float eps=1e-5) -> (Tensor out)",
    gradients.layer_norm,
)
def layer_norm(x: Any, w: Any, b: Any, eps: float = 1e-5, *, out: Any = None) -> Any:
    """(x - mean(x)) / sqrt(variance(x) + eps) * w + b for each row of x [..., N], in f32."""
    w, b = tensor("w", w), tensor("b", b)
    x, rows, dtype = _checked_rows(x, w=w, b=b)
    element_type("b", b, (wave_dtype(w.dtype).name,))
    out = result("out", out, x, x.shape, dtype, w, b)
    if not is_empty(x):
        kernel = program(_layer_norm, dtype, wave_dtype(w.dtype), length_class(rows.shape[1]))
        kernel(rows, w, b, eps, rows_of("out", out))
    return out


def _softmax(dtype: Any, columns: int | None) -> Any:
    """Results of 16 bits are powers of two: exp2 takes a quarter of the instructions of exp, and its
    error, |x| units of f32, is far below theirs. The largest x times LOG2_E may be infinite."""
    exact = dtype == tkl.f32

    @tkw.wave(row_constraints(columns))
    def softmax(x: _row(dtype), scale: tkl.f32, y: _row(dtype)):
        value = f32_of(x) * per_row(tkw.broadcast(scale, [M]))
        below = value - per_row(tkw.max(value, dim=N, block=True))
        weights = tkw.exp(below) if exact else tkw.exp2(below * LOG2_E)
        total = tkw.sum(weights, dim=N, block=True)
        tkw.write(tkw.cast(weights * per_row(tkw.reciprocal(total)), dtype), y)

    return softmax, *row_symbols(columns)


def _long_softmax(dtype: Any) -> Any:
    """`long_softmax(x, scale, y)` for rows that are not held: they are read twice."""

    @tkw.wave(loop_constraints())
    def long_softmax(x: _row(dtype), scale: tkl.f32, y: _row(dtype)):
        zero = tkw.register([M], tkl.f32, 0.0)
        value = lambda: f32_of(x) * per_row(tkw.broadcast(scale, [M]))

        @tkw.iterate(N, init_args=[zero + LOWEST, zero])
        def sums(most, total):
            here = value()
            larger = tkw.max(here, most, dim=N, block=True)
            weights = tkw.exp(here - per_row(larger))
            kept = total * tkw.exp(most - larger)
            return [larger, tkw.sum(weights, kept, dim=N, block=True)]

        largest, factor = sums[0], tkw.reciprocal(sums[1])

        @tkw.iterate(N, init_args=[])
        def store():
            weights = tkw.exp(value() - per_row(largest))
            tkw.write(tkw.cast(weights * per_row(factor), dtype), y)

    return long_softmax, {}, [M, N]


@operator("softmax(Tensor x, *, float scale=1.0) -> (Tensor out)", gradients.softmax)
def softmax(x: Any, *, scale: float = 1.0, out: Any = None) -> Any:
    """exp(scale * x) of each row of x [..., N], divided by its sum, computed in f32."""
    x, rows, dtype = _checked_rows(x)
    out = result("out", out, x, x.shape, dtype)
    if not is_empty(x):
        columns = rows.shape[1]
        if is_held(columns):
            kernel = program(_softmax, dtype, length_class(columns))
        else:
            kernel = program(_long_softmax, dtype)
        kernel(rows, scale, rows_of("out", out))
    return out
