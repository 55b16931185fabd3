"""Rotary position embedding, in place or into a new tensor."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL

from .operators import Gradient, is_torch, needs_gradient, operator
from .programs import f32_of, program
from .tensors import *

T, H, K, D, PAIRS, POSITIONS, TABLE = (
    getattr(sym, name) for name in "T H K D PAIRS POSITIONS TABLE".split()
)
TOKENS = 4  # of a workgroup, which has a wave for each
HEADS, MOST_HEADS = 8, 32  # of a workgroup, at least and at most
MOST_BYTES = 10240  # of all heads of a wave: more would not fit into registers


def _heads_of(heads: int, keys: int, size: int) -> tuple[int, int]:
    """How many heads of q and of k a workgroup has, whose rotated part has `size` bytes. Many of them
    share the angles of a token."""
    found = MOST_HEADS
    while True:
        groups = -(-heads // found)
        fits = heads % found == 0 and (found + -(-keys // groups)) * size <= MOST_BYTES
        if fits or found == HEADS:
            return found, -(-keys // groups)
        found //= 2


def _rope(
    dtype: Any,
    table: Any,
    index: Any,
    pairs: int,
    interleaved: bool,
    inverse: bool,
    apart: bool,
    count: int,
    keys: int,
) -> Any:
    """`rope(x, cos_sin, positions)` in place or, with `apart`, also with an output, where a
    workgroup has `count` heads; with `keys`, `rope(q, k, cos_sin, positions)`, and as many of k."""
    i, j, k = (tkw.IndexMapping.iterator(n) for n in range(3))
    first, second = (2 * k, 2 * k + 1) if interleaved else (k, k + PAIRS)

    def halves(heads: Any) -> tuple[list[Any], list[Any]]:
        """How the first and the second elements of pairs are read, and written."""
        here = {T: i, heads: j, PAIRS: k}
        there = [{T: i, heads: j, D: d} for d in (first, second)]
        reads = [tkw.IndexMapping(3, inputs=x, outputs=here) for x in there]
        return reads, [tkw.IndexMapping(3, inputs=here, outputs=x) for x in there]

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
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={T: 1}),
        tkw.WorkgroupConstraint(T, TOKENS, 0),
        tkw.WaveConstraint(T, 1),
        tkw.WorkgroupConstraint(H, count, 1),
        *([tkw.WorkgroupConstraint(K, keys, 1, primary=False)] if keys else []),
    ]
    heads, key_heads = (tkl.Memory[T, n, D, GLOBAL, dtype] for n in (H, K))
    angles, places = tkl.Memory[POSITIONS, TABLE, GLOBAL, table], tkl.Memory[T, GLOBAL, index]

    def rotate(cos_sin: Any, positions: Any, **tensors: tuple[Any, Any, Any]) -> None:
        """Of each tensor: it, its dimension of heads, and its output."""
        pairs = [[f32_of(x, half) for half in halves(n)[0]] for x, n, _ in tensors.values()]
        at = tkw.read(positions)
        tkw.scheduling_barrier()  # ptxas would load a part of x when angles have arrived
        turns = [
            tkw.cast(tkw.read(cos_sin, mapping=of, mapping_dynamic_vals=(at,)), tkl.f32)
            for of in (cos_of, sin_of)
        ]
        for (a, b), (_, n, y) in zip(pairs, tensors.values()):
            cos, sin = (tkw.broadcast(value, [T, n, PAIRS]) for value in turns)
            sin = -sin if inverse else sin
            _, writes = halves(n)
            tkw.write(tkw.cast(a * cos - b * sin, dtype), y, mapping=writes[0])
            tkw.write(tkw.cast(b * cos + a * sin, dtype), y, mapping=writes[1])

    @tkw.wave(constraints)
    def rope(x: heads, cos_sin: angles, positions: places):
        rotate(cos_sin, positions, x=(x, H, x))

    @tkw.wave(constraints)
    def rope_both(q: heads, k: key_heads, cos_sin: angles, positions: places):
        rotate(cos_sin, positions, q=(q, H, q), k=(k, K, k))

    @tkw.wave(constraints)
    def rope_apart(x: heads, cos_sin: angles, positions: places, y: heads):
        rotate(cos_sin, positions, x=(x, H, y))

    kernel = rope_both if keys else rope_apart if apart else rope
    return kernel, {PAIRS: pairs}, [T, H, *([K] if keys else []), D, POSITIONS, TABLE]


def checked_table(cos_sin: Any, positions: Any, rotary_dim: int | None) -> tuple[Any, Any, int]:
    """The table, the positions, and how many elements of a head are rotated."""
    cos_sin, positions = tensor("cos_sin", cos_sin), tensor("positions", positions)
    element_type("cos_sin", cos_sin, FLOATS)
    element_type("positions", positions, ("i32", "i64"))
    if len(cos_sin.shape) != 2:
        raise ValueError(f"`cos_sin` has {len(cos_sin.shape)} dimensions, expected 2")
    size = cos_sin.shape[1] if rotary_dim is None else rotary_dim
    if size < 2 or size % 2 or size != cos_sin.shape[1]:
        raise ValueError(
            f"`rotary_dim` is {size}, expected an even number, the length of the rows of `cos_sin`"
        )
    return cos_sin, positions, size


def checked_heads(name: str, x: Any, positions: Any, size: int) -> Any:
    x = tensor(name, x)
    element_type(name, x, FLOATS)
    if len(x.shape) != 3 or x.shape[2] < size:
        found = tuple(x.shape)
        raise ValueError(f"`{name}` has the shape {found}, expected (T, H, D) with D >= {size}")
    expect_shape("positions", positions, x.shape[:1])
    return x


def _kernel(x: Any, k: Any, cos_sin: Any, positions: Any, size: int, *key: Any) -> Any:
    """For x and, unless it is None, k."""
    types = [wave_dtype(t.dtype) for t in (x, cos_sin, positions)]
    keys = 0 if k is None else k.shape[1]
    counts = _heads_of(x.shape[1], keys, size * types[0].bitwidth() // 8)
    return program(_rope, *types, size // 2, *key, *counts)


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
    if is_torch(q) and needs_gradient(q, k):
        # Operators of PyTorch that write to an argument have no gradients.
        checked_table(cos_sin, positions, rotary_dim)
        for x in (q,) if k is None else (q, k):
            x.copy_(apply_rope(x, cos_sin, positions, interleaved=interleaved))
    else:
        options = {"interleaved": interleaved, "rotary_dim": rotary_dim}
        _in_place(q, k, cos_sin, positions, **options)


@operator(
    "rope(Tensor(a!) q, Tensor(b!)? k, Tensor cos_sin, Tensor positions, *,"
    " bool interleaved=False, int? rotary_dim=None) -> ()"
)
def _in_place(
    q: Any,
    k: Any,
    cos_sin: Any,
    positions: Any,
    *,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> None:
    cos_sin, positions, size = checked_table(cos_sin, positions, rotary_dim)
    given = {"q": q} if k is None else {"q": q, "k": k}
    tensors = {name: checked_heads(name, x, positions, size) for name, x in given.items()}
    if k is not None and not share_nothing(**tensors):
        raise ValueError("`k` shares memory with `q`")
    key = (cos_sin, positions, size, interleaved, False, False)
    some = [x for x in tensors.values() if not is_empty(x)]
    heads = [x.shape[1] for x in some]
    if len(some) == 2 and some[0].dtype == some[1].dtype and heads[1] <= heads[0]:
        _kernel(*some, *key)(*some, cos_sin, positions)
    else:
        for x in some:
            _kernel(x, None, *key)(x, cos_sin, positions)


def _save(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any) -> None:
    ctx.save_for_backward(*inputs[1:])
    ctx.options = keyword_only_inputs


def _backward(ctx: Any, dy: Any) -> tuple[Any, ...]:
    options = {**ctx.options, "inverse": not ctx.options["inverse"]}
    return apply_rope(dy.contiguous(), *ctx.saved_tensors, **options), None, None


@operator(
    "apply_rope(Tensor x, Tensor cos_sin, Tensor positions, *, bool interleaved=False,"
    " bool inverse=False) -> (Tensor out)",
    Gradient(_save, _backward),
)
def apply_rope(
    x: Any,
    cos_sin: Any,
    positions: Any,
    *,
    interleaved: bool = False,
    inverse: bool = False,
    out: Any = None,
) -> Any:
    """x [T, H, D] rotated as by `rope`, in a new tensor; with `inverse`, back."""
    cos_sin, positions, size = checked_table(cos_sin, positions, None)
    x = checked_heads("x", x, positions, size)
    out = result("out", out, x, x.shape, wave_dtype(x.dtype), cos_sin, positions)
    if not is_empty(x):
        kernel = _kernel(x, None, cos_sin, positions, size, interleaved, inverse, True)
        kernel(x, cos_sin, positions, out)
        out[..., size:] = x[..., size:]
    return out


def share_nothing(q: Any, k: Any) -> bool:
    """Whether q and k share no element: they may be columns of one tensor, whose rows have the same
    stride and do not overlap."""
    if is_empty(q) or is_empty(k):
        return True
    columns = strides_of(q) == strides_of(k) and not overlap(q[:1], k[:1])
    return columns or not overlap(q, k)
