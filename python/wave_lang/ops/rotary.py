"""Rotary position embedding, in place."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL

from .programs import f32_of, program
from .tensors import *

T, H, D, PAIRS, POSITIONS, TABLE = (
    getattr(sym, name) for name in "T H D PAIRS POSITIONS TABLE".split()
)
HEADS = 8  # of a workgroup


def _rope(dtype: Any, table: Any, index: Any, pairs: int, interleaved: bool) -> Any:
    i, j, k = (tkw.IndexMapping.iterator(n) for n in range(3))
    first, second = (2 * k, 2 * k + 1) if interleaved else (k, k + PAIRS)
    here = {T: i, H: j, PAIRS: k}
    reads = [tkw.IndexMapping(3, inputs={T: i, H: j, D: d}, outputs=here) for d in (first, second)]
    writes = [tkw.IndexMapping(3, inputs=here, outputs={T: i, H: j, D: d}) for d in (first, second)]
    cos_of, sin_of = (
        tkw.IndexMapping(
            2,
            inputs={POSITIONS: tkw.IndexMapping.dynamic_val(0), TABLE: d},
            outputs={T: i, PAIRS: j},
            dynamic_val_mappings=({T: i},),
        )
        for d in (j, j + PAIRS)
    )
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={T: 0}),
        tkw.WorkgroupConstraint(T, 1, 0),
        tkw.WorkgroupConstraint(H, HEADS, 1),
    ]

    @tkw.wave(constraints)
    def rope(
        x: tkl.Memory[T, H, D, GLOBAL, dtype],
        cos_sin: tkl.Memory[POSITIONS, TABLE, GLOBAL, table],
        positions: tkl.Memory[T, GLOBAL, index],
    ):
        at = tkw.read(positions)
        cos, sin = (
            tkw.broadcast(tkw.cast(value, tkl.f32), [T, H, PAIRS])
            for value in (
                tkw.read(cos_sin, mapping=cos_of, mapping_dynamic_vals=(at,)),
                tkw.read(cos_sin, mapping=sin_of, mapping_dynamic_vals=(at,)),
            )
        )
        a, b = f32_of(x, reads[0]), f32_of(x, reads[1])
        tkw.write(tkw.cast(a * cos - b * sin, dtype), x, mapping=writes[0])
        tkw.write(tkw.cast(b * cos + a * sin, dtype), x, mapping=writes[1])

    return rope, {PAIRS: pairs}, [T, H, D, POSITIONS, TABLE]


def rope(
    q: Any,
    k: Any,
    cos_sin: Any,
    positions: Any,
    *,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> None:
    """Rotates pairs of elements of q [T, H, D] and, unless it is None, k [T, Hk, D], in place.

    Row p of `cos_sin` [positions, rotary_dim] has the cosines of position p, then the sines. The
    pairs are elements i and i + rotary_dim/2 of a head, or 2i and 2i + 1 (`interleaved`).
    """
    cos_sin, positions = tensor("cos_sin", cos_sin), tensor("positions", positions)
    table = element_type("cos_sin", cos_sin, FLOATS)
    index = element_type("positions", positions, ("i32", "i64"))
    if len(cos_sin.shape) != 2:
        raise ValueError(f"`cos_sin` has {len(cos_sin.shape)} dimensions, expected 2")
    size = cos_sin.shape[1] if rotary_dim is None else rotary_dim
    if size < 2 or size % 2 or size != cos_sin.shape[1]:
        raise ValueError(
            f"`rotary_dim` is {size}, expected an even number, the length of the rows of `cos_sin`"
        )
    given = {"q": q} if k is None else {"q": q, "k": k}
    tensors = {name: tensor(name, x) for name, x in given.items()}
    for name, x in tensors.items():
        element_type(name, x, FLOATS)
        if len(x.shape) != 3 or x.shape[2] < size:
            found = tuple(x.shape)
            raise ValueError(f"`{name}` has the shape {found}, expected (T, H, D) with D >= {size}")
        expect_shape("positions", positions, x.shape[:1])
    if k is not None and not _apart(**tensors):
        raise ValueError("`k` shares memory with `q`")
    for x in tensors.values():
        if not is_empty(x):
            key = (wave_dtype(x.dtype), table, index, size // 2, interleaved)
            program(_rope, *key)(x, cos_sin, positions)


def _apart(q: Any, k: Any) -> bool:
    """Whether q and k share no element: they may be columns of one tensor, whose rows have the same
    stride and do not overlap."""
    columns = strides_of(q) == strides_of(k) and not overlap(q[:1], k[:1])
    return columns or not overlap(q, k)
