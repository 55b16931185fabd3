"""RMSNorm of each head of queries and keys, then a rotary position embedding, and their gradients.

A head is read in pieces: the two elements of each pair, and what is not rotated. The gradients of
weights are sums over all heads: a workgroup adds those of its heads, and a second kernel the parts
of all workgroups, in order, so that they have the same bits on every run.
"""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL

from .norm_gradients import MOST_PARTS, PART, added_to, column_sums, within
from .operators import Gradient, is_torch, needs_gradient, operator
from .programs import f32_of, program
from .rotary import HEADS, checked_heads, checked_table, share_nothing
from .tensors import *

T, H, HK, D, PAIRS, REST, POSITIONS, TABLE, STEP, ROW = (
    getattr(sym, name) for name in "T H HK D PAIRS REST POSITIONS TABLE STEP ROW".split()
)
ROWS = 16  # heads that a workgroup adds at a time
WAVES = 4

_i, _j, _k = (tkw.IndexMapping.iterator(n) for n in range(3))
_x = tkw.IndexMapping.dynamic_val(0)


class _Head:
    """The pieces of a head: their dimensions, and which elements they have. `lead` are the
    dimensions of heads in registers, `place` is where such a head is in memory, and `token` are
    the dimensions of `lead` that its token depends on."""

    def __init__(self, lead: Any, place: Any, token: Any, rest: int, interleaved: bool) -> None:
        step, apart = (2, 1) if interleaved else (1, PAIRS)
        self.pieces = [(PAIRS, lambda i: step * i), (PAIRS, lambda i: step * i + apart)]
        self.pieces += [(REST, lambda i: i + 2 * PAIRS)] if rest else []
        self.lead, self.dims = list(lead), [dim for dim, _ in self.pieces]
        count, at = len(lead) + 1, tkw.IndexMapping.iterator(len(lead))
        both = [({**place, D: d(at)}, {**lead, dim: at}) for dim, d in self.pieces]
        self.of = [tkw.IndexMapping(count, inputs=x, outputs=here) for x, here in both]
        self.to = [tkw.IndexMapping(count, inputs=here, outputs=x) for x, here in both]
        self.place_of = tkw.IndexMapping(len(token), inputs={T: place[T]}, outputs=token)
        pair = tkw.IndexMapping.iterator(len(token))
        self.table_of = [
            tkw.IndexMapping(
                len(token) + 1,
                inputs={POSITIONS: _x, TABLE: d},
                outputs={**token, PAIRS: pair},
                dynamic_val_mappings=(token,),
            )
            for d in (pair, pair + PAIRS)
        ]

    def every(self, value: Any, dim: Any) -> Any:
        return tkw.broadcast(value, [*self.lead, dim])

    def read(self, x: Any) -> list[Any]:
        return [f32_of(x, mapping) for mapping in self.of]

    def write(self, values: list[Any], x: Any, dtype: Any) -> None:
        for value, mapping in zip(values, self.to):
            tkw.write(tkw.cast(value, dtype), x, mapping=mapping)

    def weights(self, w: Any) -> list[Any]:
        mappings = [tkw.IndexMapping(1, inputs={D: d(_i)}, outputs={n: _i}) for n, d in self.pieces]
        return [f32_of(w, mapping) for mapping in mappings]

    def mean(self, values: list[Any]) -> Any:
        sums = [tkw.sum(value, dim=dim) for value, dim in zip(values, self.dims)]
        return sum(sums[1:], sums[0]) / tkw.register(self.lead, tkl.f32, D)

    def scale(self, values: list[Any], eps: Any) -> Any:
        """What normalises a head."""
        mean = self.mean([value * value for value in values])
        return tkw.rsqrt(mean + tkw.broadcast(eps, self.lead))

    def times(self, values: list[Any], factors: list[Any]) -> list[Any]:
        """Factors are those of the elements of a head, or one of each head."""
        return [v * self.every(f, dim) for v, f, dim in zip(values, factors, self.dims)]

    def rotated(self, values: list[Any], cos_sin: Any, positions: Any, back: bool) -> list[Any]:
        at = tkw.read(positions, mapping=self.place_of)
        cos, sin = (
            tkw.cast(tkw.read(cos_sin, mapping=mapping, mapping_dynamic_vals=(at,)), tkl.f32)
            for mapping in self.table_of
        )
        cos, sin = self.every(cos, PAIRS), self.every(-sin if back else sin, PAIRS)
        a, b, *rest = values
        return [a * cos - b * sin, b * cos + a * sin, *rest]


def _norm_rope(
    dtype: Any,
    weight: Any,
    table: Any,
    index: Any,
    size: int,
    pairs: int,
    k_heads: int,
    interleaved: bool,
    stored: bool,
) -> Any:
    """`norm_rope(q, k, q_weight, k_weight, cos_sin, positions, eps)` in place or, unless `stored`,
    also with two outputs. A workgroup has `HEADS` heads of q and `k_heads` of k."""
    rest = size - 2 * pairs
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={T: 0, PAIRS: PAIRS, REST: REST}),
        tkw.WorkgroupConstraint(T, 1, 0),
        tkw.WorkgroupConstraint(H, HEADS, 1),
        tkw.WorkgroupConstraint(HK, k_heads, 1, primary=False),
    ]
    q_heads, k_heads_type = (tkl.Memory[T, dim, D, GLOBAL, dtype] for dim in (H, HK))
    factors = tkl.Memory[D, GLOBAL, weight]
    angles, places = tkl.Memory[POSITIONS, TABLE, GLOBAL, table], tkl.Memory[T, GLOBAL, index]

    def run(x: Any, dim: Any, w: Any, cos_sin: Any, positions: Any, eps: Any, y: Any) -> None:
        head = _Head({T: _i, dim: _j}, {T: _i, dim: _j}, {T: _i}, rest, interleaved)
        values = head.read(x)
        values = head.times(values, [head.scale(values, eps)] * len(values))
        values = head.times(values, head.weights(w))
        head.write(head.rotated(values, cos_sin, positions, False), y, dtype)

    @tkw.wave(constraints)
    def norm_rope_(
        q: q_heads,
        k: k_heads_type,
        q_weight: factors,
        k_weight: factors,
        cos_sin: angles,
        positions: places,
        eps: tkl.f32,
    ):
        run(q, H, q_weight, cos_sin, positions, eps, q)
        run(k, HK, k_weight, cos_sin, positions, eps, k)

    @tkw.wave(constraints)
    def norm_rope(
        q: q_heads,
        k: k_heads_type,
        q_weight: factors,
        k_weight: factors,
        cos_sin: angles,
        positions: places,
        eps: tkl.f32,
        q_out: q_heads,
        k_out: k_heads_type,
    ):
        run(q, H, q_weight, cos_sin, positions, eps, q_out)
        run(k, HK, k_weight, cos_sin, positions, eps, k_out)

    subs = {D: size, PAIRS: pairs, REST: rest}
    return norm_rope_ if stored else norm_rope, subs, [T, H, HK, POSITIONS, TABLE]


def _norm_rope_backward(
    dtype: Any, weight: Any, table: Any, index: Any, size: int, pairs: int, interleaved: bool
) -> Any:
    """`backward(dy, x, w, cos_sin, positions, eps, steps, dx, dw parts)`: a workgroup visits
    `steps` times `ROWS` heads, which are numbered over all tokens."""
    rest = size - 2 * pairs
    number = (_i * STEP + _j) * ROW + _k
    lead = {PART: _i, STEP: _j, ROW: _k}
    head = _Head(lead, {T: number // H, H: number % H}, lead, rest, interleaved)
    steps = STEP  # the symbol; in the kernel, the name is that of the parameter
    heads, factors = tkl.Memory[T, H, D, GLOBAL, dtype], tkl.Memory[D, GLOBAL, weight]
    angles, places = tkl.Memory[POSITIONS, TABLE, GLOBAL, table], tkl.Memory[T, GLOBAL, index]
    sums_to = [
        tkw.IndexMapping(2, inputs={PART: _i, dim: _j}, outputs={PART: _i, D: d(_j)})
        for dim, d in head.pieces
    ]
    constraints = [
        tkw.HardwareConstraint(
            threads_per_wave=32,
            vector_shapes={PART: 0, STEP: 0, PAIRS: PAIRS, REST: REST},
        ),
        tkw.WorkgroupConstraint(PART, 1, 0),
        tkw.WorkgroupConstraint(ROW, ROW, 1),
        tkw.WaveConstraint(ROW, ROW / WAVES),
        tkw.TilingConstraint(STEP, 1),
    ]

    def step(dy: Any, x: Any, w: Any, cos_sin: Any, positions: Any, eps: Any, dx: Any) -> Any:
        """Writes the gradients of heads; those of weights."""
        value = head.read(x)
        each = [head.scale(value, eps)] * len(value)
        unit, slope = head.times(value, each), head.rotated(head.read(dy), cos_sin, positions, True)
        product = head.times(slope, head.weights(w))
        mean = head.mean([p * u for p, u in zip(product, unit)])
        less = head.times(unit, [mean] * len(unit))
        head.write(head.times([p - m for p, m in zip(product, less)], each), dx, dtype)
        mine = lambda i, j, k: (i * steps + j) * ROW + k
        return [within(s * u, head.lead, mine, T * H) for s, u in zip(slope, unit)]

    @tkw.wave(constraints)
    def backward(
        dy: heads,
        x: heads,
        w: factors,
        cos_sin: angles,
        positions: places,
        eps: tkl.f32,
        STEP: tkl.SymbolBind[tkl.i32],
        dx: heads,
        dw: tkl.Memory[PART, D, GLOBAL, tkl.f32],
    ):
        zeros = [tkw.register([PART, ROW, dim], tkl.f32, 0.0) for dim in head.dims]

        @tkw.iterate(steps, init_args=[zero for zero in zeros for _ in range(2)])
        def loop(*totals):
            found = step(dy, x, w, cos_sin, positions, eps, dx)
            found = [tkw.sum(value, dim=steps) for value in found]
            return [s for each in zip(found, totals[::2], totals[1::2]) for s in added_to(*each)]

        for total, mapping in zip(loop[::2], sums_to):
            tkw.write(tkw.sum(total, dim=ROW, block=True), dw, mapping=mapping)

    subs = {D: size, PAIRS: pairs, REST: rest, ROW: ROWS}
    return backward, subs, [T, H, PART, POSITIONS, TABLE]


def _checked(
    q: Any, k: Any, q_weight: Any, k_weight: Any, cos_sin: Any, positions: Any
) -> tuple[Any, ...]:
    """The arguments, and how many elements of a head are rotated."""
    cos_sin, positions, size = checked_table(cos_sin, positions, None)
    q, k = checked_heads("q", q, positions, size), checked_heads("k", k, positions, size)
    element_type("k", k, (wave_dtype(q.dtype).name,))
    expect_shape("k", k, (*k.shape[:2], q.shape[2]))
    q_weight, k_weight = tensor("q_weight", q_weight), tensor("k_weight", k_weight)
    kind = element_type("q_weight", q_weight, FLOATS)
    element_type("k_weight", k_weight, (kind.name,))
    for name, w in (("q_weight", q_weight), ("k_weight", k_weight)):
        expect_shape(name, w, q.shape[2:])
    return q, k, q_weight, k_weight, cos_sin, positions, size


def _key(x: Any, w: Any, cos_sin: Any, positions: Any, size: int) -> tuple[Any, ...]:
    types = (wave_dtype(t.dtype) for t in (x, w, cos_sin, positions))
    return *types, x.shape[2], size // 2


def _run(
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    cos_sin: Any,
    positions: Any,
    size: int,
    eps: float,
    interleaved: bool,
    outs: tuple[Any, ...],
) -> None:
    """Into `outs`, or in place if there are none."""
    if is_empty(q) and is_empty(k):
        return
    if k.shape[1] > q.shape[1]:  # the heads of q decide how many workgroups there are
        q, k, q_weight, k_weight, outs = k, q, k_weight, q_weight, outs[::-1]
    workgroups = -(-q.shape[1] // HEADS)
    k_heads = max(-(-k.shape[1] // workgroups), 1)
    key = _key(q, q_weight, cos_sin, positions, size)
    kernel = program(_norm_rope, *key, k_heads, interleaved, not outs)
    kernel(q, k, q_weight, k_weight, cos_sin, positions, eps, *outs)


def qk_norm_rope(
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    cos_sin: Any,
    positions: Any,
    eps: float = 1e-6,
    *,
    interleaved: bool = False,
) -> None:
    """`rms_norm` of each head of q [T, H, D] and k [T, Hk, D] with the weights q_weight and
    k_weight [D], then `rope`, in place and in one launch; computed in f32 and rounded once.

    q and k may be columns of one tensor.
    """
    given = (q_weight, k_weight, cos_sin, positions, eps)
    if is_torch(q) and needs_gradient(q, k, q_weight, k_weight):
        # Operators of PyTorch that write to an argument have no gradients. The gradients here are
        # computed from the heads as they were.
        before = (q.clone(), k.clone())
        for x, y in zip((q, k), apply_qk_norm_rope(*before, *given, interleaved=interleaved)):
            x.copy_(y)
    else:
        _in_place(q, k, *given, interleaved=interleaved)


@operator(
    "qk_norm_rope(Tensor(a!) q, Tensor(b!) k, Tensor q_weight, Tensor k_weight, Tensor cos_sin,"
    " Tensor positions, float eps=1e-6, *, bool interleaved=False) -> ()"
)
def _in_place(
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    cos_sin: Any,
    positions: Any,
    eps: float = 1e-6,
    *,
    interleaved: bool = False,
) -> None:
    given = _checked(q, k, q_weight, k_weight, cos_sin, positions)
    if not share_nothing(*given[:2]):
        raise ValueError("`k` shares memory with `q`")
    _run(*given, eps, interleaved, ())


@operator(
    "qk_norm_rope_backward(Tensor dq_out, Tensor dk_out, Tensor q, Tensor k, Tensor q_weight,"
    " Tensor k_weight, Tensor cos_sin, Tensor positions, float eps=1e-6, *, bool interleaved=False)"
    " -> (Tensor dq, Tensor dk, Tensor dq_weight, Tensor dk_weight)"
)
def qk_norm_rope_backward(
    dq_out: Any,
    dk_out: Any,
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    cos_sin: Any,
    positions: Any,
    eps: float = 1e-6,
    *,
    interleaved: bool = False,
    dq: Any = None,
    dk: Any = None,
    dq_weight: Any = None,
    dk_weight: Any = None,
) -> tuple[Any, Any, Any, Any]:
    """(dq, dk, dq_weight, dk_weight) of `apply_qk_norm_rope` for the gradients of its results."""
    *inputs, size = _checked(q, k, q_weight, k_weight, cos_sin, positions)
    q, k, q_weight, k_weight, *table = inputs
    dq_out, dk_out = tensor("dq_out", dq_out), tensor("dk_out", dk_out)
    for name, change, x in (("dq_out", dq_out, q), ("dk_out", dk_out, k)):
        element_type(name, change, (wave_dtype(x.dtype).name,))
        expect_shape(name, change, x.shape)
    outs = {"dq": (dq, q), "dk": (dk, k)}
    outs |= {"dq_weight": (dq_weight, q_weight), "dk_weight": (dk_weight, k_weight)}
    made: list[Any] = []
    for name, (out, like) in outs.items():
        others = (dq_out, dk_out, *inputs, *made)
        made.append(result(name, out, like, like.shape, wave_dtype(like.dtype), *others))
    for change, x, w, dx, dw in zip((dq_out, dk_out), (q, k), (q_weight, k_weight), made, made[2:]):
        if is_empty(x):
            dw[...] = 0
            continue
        rows = x.shape[0] * x.shape[1]
        steps = -(-rows // (MOST_PARTS * ROWS))
        parts = new_tensor(x, (-(-rows // (steps * ROWS)), x.shape[2]), tkl.f32)
        kernel = program(_norm_rope_backward, *_key(x, w, *table, size), interleaved)
        kernel(change, x, w, *table, eps, steps, dx, parts)
        column_sums(parts, dw, wave_dtype(w.dtype))
    return tuple(made)  # type: ignore[return-value]


def _save(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any) -> None:
    ctx.save_for_backward(*inputs[:6])
    ctx.eps, ctx.options = inputs[6], keyword_only_inputs


def _backward(ctx: Any, dq_out: Any, dk_out: Any) -> tuple[Any, ...]:
    given = (dq_out.contiguous(), dk_out.contiguous(), *ctx.saved_tensors, ctx.eps)
    return *qk_norm_rope_backward(*given, **ctx.options), None, None, None


@operator(
    "apply_qk_norm_rope(Tensor q, Tensor k, Tensor q_weight, Tensor k_weight, Tensor cos_sin,"
    " Tensor positions, float eps=1e-6, *, bool interleaved=False)"
    " -> (Tensor q_out, Tensor k_out)",
    Gradient(_save, _backward),
)
def apply_qk_norm_rope(
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    cos_sin: Any,
    positions: Any,
    eps: float = 1e-6,
    *,
    interleaved: bool = False,
    q_out: Any = None,
    k_out: Any = None,
) -> tuple[Any, Any]:
    """(q, k) as `qk_norm_rope` changes them, in new tensors."""
    given = _checked(q, k, q_weight, k_weight, cos_sin, positions)
    q, k, *others = given[:6]
    dtype = wave_dtype(q.dtype)
    q_out = result("q_out", q_out, q, q.shape, dtype, k, *others)
    k_out = result("k_out", k_out, k, k.shape, dtype, q, *others, q_out)
    _run(*given, eps, interleaved, (q_out, k_out))
    return q_out, k_out
