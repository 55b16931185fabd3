"""How the weights of a layer with experts are stored: what `fused_experts` takes for each format,
and the kernels that it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

from . import moe_layer_kernels as layer
from . import moe_packed_kernels as packed
from . import moe_scaled_kernels as scaled
from .programs import program
from .quantize import MX_GROUP, quantize_fp8
from .tensors import *


@dataclass(frozen=True)
class Rows:
    """Rows in the order of their experts, in blocks, and tiles of their products."""

    slots: Any
    expert_ids: Any
    experts: int
    top: int
    block: int
    columns: int

    def new(self, like: Any, columns: int) -> Any:
        return new_tensor(like, (self.slots.shape[0], columns), wave_dtype(like.dtype))


@dataclass(frozen=True)
class Weights:
    """w1 and w2, with their scales and zeros, if they have any."""

    values: tuple[Any, Any]
    scales: tuple[Any, ...] = ()
    zeros: tuple[Any, Any] = (None, None)
    group: int = 0  # elements along K that share a scale

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows of w2, and half of those of w1."""
        return self.values[1].shape[1], self.values[0].shape[1] // 2

    def tensors(self) -> list[Any]:
        return [*self.values, *self.scales, *present(*self.zeros)]


def _plain(kind: str, rows: Rows, activation: Any, x: Any, weights: Weights) -> Any:
    """The results of each row's expert."""
    dtype, (size, inner), (w1, w2) = wave_dtype(x.dtype), weights.sizes, weights.values
    active, parts = rows.new(x, inner), rows.new(x, size)
    key = (dtype, activation, rows.block, rows.columns // 2, rows.top, rows.experts, inner, size)
    program(layer.gated, *key)(x, w1, rows.slots, rows.expert_ids, active)
    key = (dtype, rows.block, rows.columns, rows.experts, size, inner)
    program(layer.expanded, *key)(active, w2, rows.expert_ids, parts)
    return parts


def _of_blocks(kind: str, rows: Rows, activation: Any, x: Any, weights: Weights) -> Any:
    """The same with weights of 8 bits that have scales of blocks."""
    dtype, (size, inner), (w1, w2) = wave_dtype(x.dtype), weights.sizes, weights.values
    active, parts = rows.new(x, inner), rows.new(x, size)
    given = quantize_fp8(x, "group", group=scaled.GROUP)
    key = (dtype, activation, rows.block, scaled.GATED, rows.top, rows.experts, inner, size)
    order = (rows.slots, rows.expert_ids)
    program(scaled.gated_blocks, *key)(*given, w1, weights.scales[0], *order, active)
    given = quantize_fp8(active, "group", group=scaled.GROUP)
    key = (dtype, rows.block, scaled.EXPANDED, rows.experts, size, inner)
    program(scaled.expanded_blocks, *key)(*given, w2, weights.scales[1], rows.expert_ids, parts)
    return parts


def _of_groups(kind: str, rows: Rows, activation: Any, x: Any, weights: Weights) -> Any:
    """The same with weights of 4 bits that have scales of groups."""
    dtype, (size, inner), (w1, w2) = wave_dtype(x.dtype), weights.sizes, weights.values
    active, parts = rows.new(x, inner), rows.new(x, size)
    scales = [bytes_of(s) if s.dtype.itemsize == 1 else s for s in weights.scales]
    zeros = [s if z is None else z for s, z in zip(scales, weights.zeros)]  # not read if None
    keys = [
        (kind, dtype, wave_dtype(s.dtype), z is not None) for s, z in zip(scales, weights.zeros)
    ]
    more = (activation, rows.block, weights.group, rows.top, rows.experts, inner, size)
    order = (rows.slots, rows.expert_ids)
    program(packed.gated_groups, *keys[0], *more)(x, w1, scales[0], zeros[0], *order, active)
    more = (rows.block, weights.group, rows.experts, size, inner)
    given = (active, w2, scales[1], zeros[1], rows.expert_ids)
    program(packed.expanded_groups, *keys[1], *more)(*given, parts)
    return parts


@dataclass(frozen=True)
class Format:
    """The types of x, of weights and of their scales (None: that of x)."""

    run: Callable[..., Any] = _plain
    inputs: tuple[str, ...] = FLOATS
    stored: str | None = None
    scales: tuple[str | None, ...] = ()
    packed: int = 1  # weights in an element
    unit: int = 1  # what sizes are a multiple of
    group: int = 0  # elements along K that share a scale
    rows: int = 1  # rows that do
    any_group: bool = False  # whether it may be another
    large_tiles: bool = True


_HALF = {"inputs": ("f16", "bf16"), "stored": "u8", "packed": 2, "large_tiles": False}
FORMATS = {
    None: Format(),
    "fp8_block": Format(
        _of_blocks, stored="f8e4m3fn", scales=("f32",), unit=128, group=scaled.GROUP, rows=128
    ),
    "w4": Format(_of_groups, scales=(None, "f32"), unit=2, group=128, any_group=True, **_HALF),
    "mxfp4": Format(
        _of_groups, scales=("u8", "f8e8m0fnu"), unit=MX_GROUP, group=MX_GROUP, **_HALF
    ),
}


def format_of(quant: str | None) -> Format:
    if quant not in FORMATS:
        raise ValueError(f"`quant` is {quant!r}, expected one of {list(FORMATS)}")
    return FORMATS[quant]


def _checked_group(quant: str | None, group: int | None) -> int:
    usual = FORMATS[quant].group
    if group is None or group == usual:
        return usual
    if not FORMATS[quant].any_group:
        expected = usual or None
        raise ValueError(f"`group` is {group}, expected {expected}, as `quant` is {quant!r}")
    if group < 32 or group % 32:
        raise ValueError(f"`group` is {group}, expected a multiple of 32")
    return group


def _checked_numbers(name: str, x: Any, types: list[str], w: Any, form: Format, group: int) -> Any:
    """Scales or zeros of the weights w."""
    x = tensor(name, x)
    element_type(name, x, types)
    columns = -(-w.shape[2] * form.packed // group)
    expect_shape(name, x, (w.shape[0], w.shape[1] // form.rows, columns))
    return x


def checked_weights(
    quant: str | None, dtype: Any, w: tuple, scales: tuple, zeros: tuple, group: int | None
) -> Weights:
    """Weights of this format, for an x of the type `dtype`."""
    form, each = FORMATS[quant], _checked_group(quant, group)
    types = [name or dtype.name for name in form.scales]
    made: list[list[Any]] = [[], []]
    for number, (name, weight) in enumerate(zip(("w1", "w2"), w)):
        scale, zero = scales[number], zeros[number]
        if scale is not None and not types:
            raise ValueError(f"`{name}_scale` is given, but `quant` is None")
        if scale is None and types:
            raise ValueError(f"`{name}_scale` is None, expected scales, as `quant` is {quant!r}")
        if types:
            made[0].append(_checked_numbers(f"{name}_scale", scale, types, weight, form, each))
        if zero is not None and quant != "w4":
            raise ValueError(f"`{name}_zero` is given, but `quant` is {quant!r}")
        if zero is not None:
            zero = _checked_numbers(f"{name}_zero", zero, [dtype.name], weight, form, each)
        made[1].append(zero)
    return Weights(w, tuple(made[0]), (made[1][0], made[1][1]), each)
