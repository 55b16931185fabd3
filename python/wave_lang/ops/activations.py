"""Gated activations: the first half of each row is activated and multiplied by the second."""

from __future__ import annotations

import math
from typing import Any, Callable

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL

from .programs import M, N, f32_of, program
from .tensors import *

BLOCK = sym.BLOCK


def _silu(x: Any) -> Any:
    return x / (tkw.exp(-x) + 1.0)


def _gelu(x: Any) -> Any:
    return x * (tkw.erf(x * math.sqrt(0.5)) + 1.0) * 0.5


def _gelu_tanh(x: Any) -> Any:
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * (tkw.tanh(inner) + 1.0) * 0.5


def _gated(activation: Callable[[Any], Any], dtype: Any) -> Any:
    """x has rows of 2 N elements: its dimension is `2 * N`, a name of its own."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    up_of = tkw.IndexMapping(2, inputs={M: i, 2 * N: j + N}, outputs={M: i, N: j})
    gate_of = tkw.IndexMapping(2, inputs={M: i, 2 * N: j}, outputs={M: i, N: j})
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: BLOCK}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(N, BLOCK, 1),
    ]

    @tkw.wave(constraints)
    def gated(x: tkl.Memory[M, 2 * N, GLOBAL, dtype], y: tkl.Memory[M, N, GLOBAL, dtype]):
        value = activation(f32_of(x, gate_of)) * f32_of(x, up_of)
        tkw.write(tkw.cast(value, dtype), y)

    return gated, {BLOCK: 512}, [M, N]


def _run(activation: Callable[[Any], Any], x: Any, out: Any) -> Any:
    x = tensor("x", x)
    dtype, rows = element_type("x", x, FLOATS), rows_of("x", x)
    if rows.shape[1] % 2:
        raise ValueError(f"`x` has rows of {rows.shape[1]} elements, expected an even number")
    out = result("out", out, x, (*x.shape[:-1], rows.shape[1] // 2), dtype)
    if not is_empty(x):
        program(_gated, activation, dtype)(rows, rows_of("out", out))
    return out


def silu_and_mul(x: Any, *, out: Any = None) -> Any:
    """g / (1 + exp(-g)) * u for x [..., 2 N], whose rows are g, then u; computed in f32."""
    return _run(_silu, x, out)


def gelu_and_mul(x: Any, *, out: Any = None) -> Any:
    """g * (1 + erf(g / sqrt(2))) / 2 * u for x [..., 2 N], whose rows are g, then u."""
    return _run(_gelu, x, out)


def gelu_tanh_and_mul(x: Any, *, out: Any = None) -> Any:
    """The same with the approximation of erf by a tanh."""
    return _run(_gelu_tanh, x, out)
