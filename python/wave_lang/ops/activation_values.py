"""Activation functions inside kernels: of x in f32, the value, and a function that computes the derivative.

`narrow` says that the result will be rounded to 16 bits or fewer. Then the functions take about a
third of the instructions, and their relative error, 2^-18, is far less than the rounding: what follows
a product takes as long as its instructions do.
"""

from __future__ import annotations

import math
from typing import Any, Callable

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw

from .programs import LOG2_E

Values = tuple[Any, Callable[[], Any]]
Activation = Callable[[Any, bool], Values]

# log2(P(X > a)) of the normal distribution as a polynomial in a, lowest power first: minimax up to 5.5,
# where the probability is 2^-26. Beyond that, the polynomial falls at least until the result is 0.
NORMAL_TAIL = (
    -0.9999954700469971,
    -1.1512467861175537,
    -0.45848050713539124,
    -0.053937848657369614,
    0.00849375780671835,
    -0.0009260292281396687,
    6.090419992688112e-05,
    -1.7934564766619587e-06,
)


def is_narrow(dtype: Any) -> bool:
    """Whether results of this type have 16 bits or fewer."""
    return dtype.bitwidth() <= 16


def relu(x: Any, narrow: bool) -> Values:
    none = tkw.register(x.shape, tkl.f32, 0.0)
    value = tkw.select(x <= none, none, x)  # NaN stays NaN
    return value, lambda: tkw.cast(x > none, tkl.f32)


def _logistic(x: Any, times: float, narrow: bool) -> Any:
    """1 / (1 + exp(-times * x))."""
    if narrow:
        return tkw.reciprocal_approx(tkw.exp2(x * (-times * LOG2_E)) + 1.0)
    return tkw.reciprocal(tkw.exp(x * -times) + 1.0)


def silu(x: Any, narrow: bool) -> Values:
    share = _logistic(x, 1.0, narrow)
    return x * share, lambda: share * (x * (1.0 - share) + 1.0)


def _normal(x: Any, narrow: bool) -> Any:
    """The normal distribution's probability of less than x."""
    if not narrow:
        return (tkw.erf(x * math.sqrt(0.5)) + 1.0) * 0.5
    far, power = tkw.abs(x), NORMAL_TAIL[-1]
    for coefficient in reversed(NORMAL_TAIL[:-1]):
        power = far * power + coefficient
    beyond = tkw.exp2(power)
    return tkw.select(x < tkw.register(x.shape, tkl.f32, 0.0), beyond, 1.0 - beyond)


def gelu(x: Any, narrow: bool) -> Values:
    share = _normal(x, narrow)

    def slope() -> Any:
        density = tkw.exp2(x * x * (-0.5 * LOG2_E)) * (1 / math.sqrt(2 * math.pi))
        return share + x * density

    return x * share, slope


def gelu_tanh(x: Any, narrow: bool) -> Values:
    root = math.sqrt(2 / math.pi)
    if narrow:
        share = _logistic(x * (x * x * (root * 0.044715) + root), 2.0, narrow)
    else:
        share = (tkw.tanh((x + x * x * x * 0.044715) * root) + 1.0) * 0.5

    def slope() -> Any:
        inner = (x * x * (3 * 0.044715) + 1.0) * root
        return share + x * share * (1.0 - share) * inner * 2.0

    return x * share, slope
