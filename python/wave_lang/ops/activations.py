"""Gated activations: the first half of each row is activated and multiplied by the second."""

from __future__ import annotations

from typing import Any, Callable

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL

from .activation_values import Activation, gelu, gelu_tanh, is_narrow, silu
from .operators import Gradient, operator
from .programs import M, N, f32_of, program
from .tensors import *

BLOCK, BOTH = sym.BLOCK, sym.BOTH


def _gated(activation: Activation, dtype: Any, backward: bool) -> Any:
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    here, gate, up = {M: i, N: j}, {M: i, BOTH: j}, {M: i, BOTH: j + N}
    gate_of, up_of = (tkw.IndexMapping(2, inputs=half, outputs=here) for half in (gate, up))
    to_gate, to_up = (tkw.IndexMapping(2, inputs=here, outputs=half) for half in (gate, up))
    both, one = tkl.Memory[M, BOTH, GLOBAL, dtype], tkl.Memory[M, N, GLOBAL, dtype]
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: BLOCK}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(N, BLOCK, 1),
        tkw.Assumption(tkl.Eq(BOTH, 2 * N)),
    ]

    @tkw.wave(constraints)
    def gated(x: both, y: one):
        value = activation(f32_of(x, gate_of), is_narrow(dtype))[0] * f32_of(x, up_of)
        tkw.write(tkw.cast(value, dtype), y)

    @tkw.wave(constraints)
    def gated_backward(dy: one, x: both, dx: both):
        value, slope = activation(f32_of(x, gate_of), is_narrow(dtype))
        change = f32_of(dy)
        tkw.write(tkw.cast(change * f32_of(x, up_of) * slope(), dtype), dx, mapping=to_gate)
        tkw.write(tkw.cast(change * value, dtype), dx, mapping=to_up)

    return gated_backward if backward else gated, {BLOCK: 512}, [M, N, BOTH]


def _checked(x: Any) -> tuple[Any, Any, Any]:
    """x, its rows, and its element type."""
    x = tensor("x", x)
    dtype, rows = element_type("x", x, FLOATS), rows_of("x", x)
    if rows.shape[1] % 2:
        raise ValueError(f"`x` has rows of {rows.shape[1]} elements, expected an even number")
    return x, rows, dtype


def _run(activation: Activation, x: Any, out: Any) -> Any:
    x, rows, dtype = _checked(x)
    out = result("out", out, x, (*x.shape[:-1], rows.shape[1] // 2), dtype)
    if not is_empty(x):
        program(_gated, activation, dtype, False)(rows, rows_of("out", out))
    return out


def _run_backward(activation: Activation, dy: Any, x: Any, dx: Any) -> Any:
    x, rows, dtype = _checked(x)
    dy = tensor("dy", dy)
    element_type("dy", dy, (dtype.name,))
    expect_shape("dy", dy, (*x.shape[:-1], rows.shape[1] // 2))
    dx = result("dx", dx, x, x.shape, dtype, dy)
    if not is_empty(x):
        kernel = program(_gated, activation, dtype, True)
        kernel(rows_of("dy", dy), rows, rows_of("dx", dx))
    return dx


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _gradient(backward: Callable[..., Any]) -> Gradient:
    return Gradient(_save, lambda ctx, dy: backward(dy.contiguous(), *ctx.saved_tensors))


@operator("silu_and_mul_backward(Tensor dy, Tensor x) -> (Tensor dx)")
def silu_and_mul_backward(dy: Any, x: Any, *, dx: Any = None) -> Any:
    """dx of `silu_and_mul` for the gradient dy of its result."""
    return _run_backward(silu, dy, x, dx)


@operator("gelu_and_mul_backward(Tensor dy, Tensor x) -> (Tensor dx)")
def gelu_and_mul_backward(dy: Any, x: Any, *, dx: Any = None) -> Any:
    """dx of `gelu_and_mul` for the gradient dy of its result."""
    return _run_backward(gelu, dy, x, dx)


@operator("gelu_tanh_and_mul_backward(Tensor dy, Tensor x) -> (Tensor dx)")
def gelu_tanh_and_mul_backward(dy: Any, x: Any, *, dx: Any = None) -> Any:
    """dx of `gelu_tanh_and_mul` for the gradient dy of its result."""
    return _run_backward(gelu_tanh, dy, x, dx)


@operator("silu_and_mul(Tensor x) -> (Tensor out)", _gradient(silu_and_mul_backward))
def silu_and_mul(x: Any, *, out: Any = None) -> Any:
    """g / (1 + exp(-g)) * u for x [..., 2 N], whose rows are g, then u; computed in f32."""
    return _run(silu, x, out)


@operator("gelu_and_mul(Tensor x) -> (Tensor out)", _gradient(gelu_and_mul_backward))
def gelu_and_mul(x: Any, *, out: Any = None) -> Any:
    """g * (1 + erf(g / sqrt(2))) / 2 * u for x [..., 2 N], whose rows are g, then u."""
    return _run(gelu, x, out)


@operator("gelu_tanh_and_mul(Tensor x) -> (Tensor out)", _gradient(gelu_tanh_and_mul_backward))
def gelu_tanh_and_mul(x: Any, *, out: Any = None) -> Any:
    """The same with the approximation of erf by a tanh."""
    return _run(gelu_tanh, x, out)
