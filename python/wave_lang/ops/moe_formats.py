"""How the weights of a layer with experts are stored: what `fused_experts` takes for each format,
and the kernels that it runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
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

    def in_order(self, x: Any) -> Any:
        """The rows of x, in their order: the copy engine brings a block of them as one box."""
        rows = self.new(x, x.shape[1])
        key = (wave_dtype(x.dtype), self.top, x.shape[1])
        program(layer.in_order, *key)(x, self.slots, rows)
        return rows


@dataclass(frozen=True)
class Weights:
    """w1 or w2, with its scales and zeros, if it has any."""

    values: Any
    scales: Any = None
    zeros: Any = None
    group: int = 0  # elements along K that share a scale

    def tensors(self) -> list[Any]:
        return present(self.values, self.scales, self.zeros)


# What a format adds to the key of a kernel, and the operands of a product, for x and weights.
def _plain(x: Any, w: Weights) -> tuple[tuple, list[Any]]:
    return (wave_dtype(x.dtype),), [x, w.values]


def _of_blocks(x: Any, w: Weights) -> tuple[tuple, list[Any]]:
    small = quantize_fp8(x, "group", group=scaled.GROUP)
    return (wave_dtype(x.dtype),), [*small, w.values, w.scales]


def _of_groups(kind: str, x: Any, w: Weights) -> tuple[tuple, list[Any]]:
    scales = bytes_of(w.scales) if kind == "mxfp4" else w.scales
    zeros = scales if w.zeros is None else w.zeros  # not read if there are none
    key = (kind, wave_dtype(x.dtype), wave_dtype(scales.dtype), w.zeros is not None, w.group)
    return key, [x, w.values, scales, zeros]


@dataclass(frozen=True)
class Format:
    """The types of x, of weights, of their scales and zeros (None: that of x), and kernels."""

    inputs: tuple[str, ...] = FLOATS
    stored: str | None = None
    scales: tuple[str | None, ...] = ()
    zeros: tuple[str | None, ...] = ()
    packed: int = 1  # weights in an element
    unit: int = 1  # what sizes are a multiple of
    group: int = 0  # elements along K that share a scale
    rows: int = 1  # rows that do
    any_group: bool = False  # whether it may be another
    operands: Callable[..., tuple[tuple, list[Any]]] = _plain
    gated: Callable[..., Any] = layer.gated
    expanded: Callable[..., Any] = layer.expanded
    columns: tuple[int, int] | None = None  # of a workgroup in each product; None: those of rows
    large_blocks: bool = True
    in_order: bool = False  # whether many rows are put in order first

    def run(self, rows: Rows, activation: Any, x: Any, w1: Weights, w2: Weights) -> Any:
        """The results of each row's expert."""
        size, inner = w2.values.shape[1], w1.values.shape[1] // 2
        first, second = self.columns or (rows.columns // 2, rows.columns)
        active, parts = rows.new(x, inner), rows.new(x, size)
        key, given = self.operands(x, w1)
        tile, sizes = (activation, rows.block, first), (rows.experts, inner, size)
        if rows.block >= layer.MANY:
            given = [rows.in_order(x), w1.values, rows.expert_ids]
            program(layer.gated_in_order, *key, *tile, *sizes)(*given, active)
        else:
            at = (rows.slots, rows.expert_ids)
            program(self.gated, *key, *tile, rows.top, *sizes)(*given, *at, active)
        key, given = self.operands(active, w2)
        more = (rows.block, second, rows.experts, size, inner)
        program(self.expanded, *key, *more)(*given, rows.expert_ids, parts)
        return parts


_FOUR_BITS = {
    "inputs": ("f16", "bf16"),
    "stored": "u8",
    "packed": 2,
    "gated": packed.gated_groups,
    "expanded": packed.expanded_groups,
    "columns": (packed.GATED, packed.EXPANDED),
    "large_blocks": False,
}
FORMATS = {
    None: Format(in_order=True),
    "fp8_block": Format(
        stored="f8e4m3fn",
        scales=("f32",),
        unit=scaled.GROUP,
        group=scaled.GROUP,
        rows=scaled.GROUP,
        operands=_of_blocks,
        gated=scaled.gated_blocks,
        expanded=scaled.expanded_blocks,
        columns=(scaled.GATED, scaled.EXPANDED),
    ),
    "w4": Format(
        scales=(None, "f32"),
        zeros=(None,),
        unit=2,
        group=128,
        any_group=True,
        operands=partial(_of_groups, "w4"),
        **_FOUR_BITS,
    ),
    "mxfp4": Format(
        scales=("u8", "f8e8m0fnu"),
        unit=MX_GROUP,
        group=MX_GROUP,
        operands=partial(_of_groups, "mxfp4"),
        **_FOUR_BITS,
    ),
}


def format_of(quant: str | None) -> Format:
    if quant not in FORMATS:
        raise ValueError(f"`quant` is {quant!r}, expected one of {list(FORMATS)}")
    return FORMATS[quant]


def _checked_group(quant: str | None, group: int | None) -> int:
    usual = FORMATS[quant].group
    if group is None or (usual and group == usual):
        return usual
    if not FORMATS[quant].any_group:
        expected = usual or None
        raise ValueError(f"`group` is {group}, expected {expected}, as `quant` is {quant!r}")
    if group < 32 or group % 32:
        raise ValueError(f"`group` is {group}, expected a multiple of 32")
    return group


def checked_weights(
    name: str, w: Any, scales: Any, zeros: Any, group: int | None, quant: str | None, dtype: Any
) -> Weights:
    """The weights `name`, of the format `quant`, for an x of the type `dtype`."""
    form, each = FORMATS[quant], _checked_group(quant, group)
    if scales is None and form.scales:
        raise ValueError(f"`{name}_scale` is None, expected scales, as `quant` is {quant!r}")
    given = []
    for word, x, types in (("scale", scales, form.scales), ("zero", zeros, form.zeros)):
        if x is not None and not types:
            raise ValueError(f"`{name}_{word}` is given, but `quant` is {quant!r}")
        if x is not None:
            x = tensor(f"{name}_{word}", x)
            element_type(f"{name}_{word}", x, [kind or dtype.name for kind in types])
            groups = -(-w.shape[2] * form.packed // each)
            expect_shape(f"{name}_{word}", x, (w.shape[0], w.shape[1] // form.rows, groups))
        given.append(x)
    return Weights(w, *given, each)
