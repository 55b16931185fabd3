"""Layers with experts."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl

from . import moe_gradient_kernels as gradient_kernels
from . import moe_kernels as kernels
from . import moe_layer_kernels as layer
from . import moe_order_kernels as order
from .activation_values import gelu, silu
from .moe_formats import Rows, checked_weights, format_of
from .operators import Gradient, dtype_for, operator
from .programs import has_warpgroups, program
from .tensors import *

ACTIVATIONS = {"silu": silu, "gelu": gelu}


@operator(
    "topk_gate(Tensor logits, int k, Tensor? correction_bias=None, *, str scoring='softmax',"
    " bool renormalize=False, int? groups=None, int? topk_groups=None, float scale=1.0)"
    " -> (Tensor weights, Tensor ids)"
)
def topk_gate(
    logits: Any,
    k: int,
    correction_bias: Any = None,
    *,
    scoring: str = "softmax",
    renormalize: bool = False,
    groups: int | None = None,
    topk_groups: int | None = None,
    scale: float = 1.0,
    weights: Any = None,
    ids: Any = None,
) -> tuple[Any, Any]:
    """(weights, ids): the `k` experts with the largest scores of each row of logits [T, E], in
    descending order; of equal scores the lowest id.

    Scores are a softmax over all experts, or sigmoids. `correction_bias` [E] counts in the choice
    and not in the weights. With `renormalize`, the weights of a token add up to `scale`.

    With `groups`, experts are in as many groups of the same size, one after the other, and a token
    goes only to experts of its best `topk_groups`. A group has the score of its best expert or,
    with a correction bias, the sum of its best two, as in DeepSeek's models.
    """
    logits = tensor("logits", logits)
    dtype = element_type("logits", logits, FLOATS)
    if len(logits.shape) != 2:
        raise ValueError(f"`logits` has {len(logits.shape)} dimensions, expected 2")
    tokens, experts = logits.shape
    if not 1 <= k <= experts:
        raise ValueError(f"`k` is {k}, expected 1 to the number of experts, {experts}")
    if scoring not in ("softmax", "sigmoid"):
        raise ValueError(f"`scoring` is {scoring!r}, expected 'softmax' or 'sigmoid'")
    choice = _checked_groups(experts, k, groups, topk_groups)
    bias = new_tensor(logits, (experts,), tkl.f32)  # not read unless it is given
    if correction_bias is not None:
        bias = tensor("correction_bias", correction_bias)
        element_type("correction_bias", bias, ("f32",))
        expect_shape("correction_bias", bias, (experts,))
    weights = result("weights", weights, logits, (tokens, k), tkl.f32, bias)
    ids = result("ids", ids, logits, (tokens, k), tkl.i32, bias, weights)
    if not is_empty(logits):
        key = (dtype, experts, k, scoring == "sigmoid", correction_bias is not None, renormalize)
        program(kernels.gate, *key, *choice)(logits, bias, scale, weights, ids)
    return weights, ids


def _checked_groups(
    experts: int, k: int, groups: int | None, topk_groups: int | None
) -> tuple[int, int]:
    """How many groups experts are in, and how many of them a token may choose."""
    if groups is None and topk_groups is None:
        return 1, 1
    for name, value in (("groups", groups), ("topk_groups", topk_groups)):
        if value is None:
            raise ValueError(f"`{name}` is None, expected a number, as the other one is given")
    if groups < 1 or experts % groups:
        raise ValueError(f"`groups` is {groups}, expected a divisor of the experts, {experts}")
    if not 1 <= topk_groups <= groups:
        raise ValueError(f"`topk_groups` is {topk_groups}, expected 1 to `groups`, {groups}")
    if k > topk_groups * (experts // groups):
        most = topk_groups * (experts // groups)
        raise ValueError(f"`k` is {k}, expected at most the experts of `topk_groups`, {most}")
    return (groups, topk_groups) if topk_groups < groups else (1, 1)


@operator(
    "moe_align(Tensor ids, int experts, int block)"
    " -> (Tensor sorted_ids, Tensor expert_ids, Tensor total)"
)
def moe_align(
    ids: Any,
    experts: int,
    block: int,
    *,
    sorted_ids: Any = None,
    expert_ids: Any = None,
    total: Any = None,
) -> tuple[Any, Any, Any]:
    """(sorted_ids, expert_ids, num_tokens_post_pad): positions in `ids` in the order of their
    experts, each of which has a multiple of `block` slots.

    Slots that are left have the number of ids, blocks that are left the expert -1. The order is
    stable. `sorted_ids` has room for every distribution: its size does not depend on data.
    """
    ids = tensor("ids", ids)
    element_type("ids", ids, ("i32",))
    if experts < 1:
        raise ValueError(f"`experts` is {experts}, expected at least 1")
    if block < 1:
        raise ValueError(f"`block` is {block}, expected at least 1")
    flat = rows_of("ids", ids).reshape(-1)
    blocks = _most_blocks(flat.shape[0], experts, block)
    slots = result("sorted_ids", sorted_ids, ids, (blocks * block,), tkl.i32)
    expert_ids = result("expert_ids", expert_ids, ids, (blocks,), tkl.i32, slots)
    total = result("total", total, ids, (1,), tkl.i32, slots, expert_ids)
    _align(flat, experts, block, slots, expert_ids, total)
    return slots, expert_ids, total


def _most_blocks(number: int, experts: int, block: int) -> int:
    """Blocks that this many ids need if as many as possible are of different experts."""
    return -(-(number + min(number, experts) * (block - 1)) // block)


def _align(
    ids: Any, experts: int, block: int, slots: Any, expert_ids: Any, total: Any, lowest: int = 0
) -> Any:
    """Fills the results of `moe_align`; how many ids each expert has, where its slots begin, and
    the slot of each id. The first expert has the id `lowest`."""
    counts = new_tensor(ids, (experts, order.CHUNKS), tkl.i32)
    sizes, first = (new_tensor(ids, (experts,), tkl.i32) for _ in range(2))
    found = (sizes, first, new_tensor(ids, ids.shape, tkl.i32))
    program(order.tally, experts, lowest)(ids, counts, slots, expert_ids)
    program(order.place, experts, block, lowest)(ids, counts, slots, expert_ids, total, *found)
    return found


@operator(
    "moe_align_block_size(Tensor topk_ids, int num_experts, int block_size,"
    " Tensor(a!) sorted_token_ids, Tensor(b!) experts_ids, Tensor(c!) num_tokens_post_pad,"
    " Tensor cumsum_buffer, bool pad_sorted_token_ids=False) -> ()"
)
def moe_align_block_size(
    topk_ids: Any,
    num_experts: int,
    block_size: int,
    sorted_token_ids: Any,
    experts_ids: Any,
    num_tokens_post_pad: Any,
    cumsum_buffer: Any,
    pad_sorted_token_ids: bool = False,
) -> None:
    """`moe_align` as SGLang calls it: `num_experts` is one more than there are, as ids of -1, which
    are of experts elsewhere, come first and have blocks of their own, of the expert -1.

    Results have the sizes that they are given; slots and blocks that are left are always filled.
    `cumsum_buffer` is not needed.
    """
    ids = tensor("topk_ids", topk_ids)
    element_type("topk_ids", ids, ("i32",))
    for name, value in (("num_experts", num_experts), ("block_size", block_size)):
        if value < 1:
            raise ValueError(f"`{name}` is {value}, expected at least 1")
    written = []
    for name, x in (
        ("sorted_token_ids", sorted_token_ids),
        ("experts_ids", experts_ids),
        ("num_tokens_post_pad", num_tokens_post_pad),
    ):
        x = tensor(name, x)
        if len(x.shape) != 1:
            raise ValueError(f"`{name}` has {len(x.shape)} dimensions, expected 1")
        written.append(result(name, x, ids, x.shape, tkl.i32, *written))
    expect_shape("num_tokens_post_pad", written[2], (1,))
    flat = rows_of("topk_ids", ids).reshape(-1)
    _align(flat, num_experts, block_size, *written, lowest=-1)


def _aligned(ids: Any, experts: int, block: int) -> tuple[Any, ...]:
    """slots, expert_ids and what `_align` finds."""
    blocks = _most_blocks(ids.shape[0] * ids.shape[1], experts, block)
    made = [new_tensor(ids, (n,), tkl.i32) for n in (blocks * block, blocks, 1)]
    return *made[:2], *_align(rows_of("ids", ids).reshape(-1), experts, block, *made)


def _block_of(number: int, experts: int) -> int:
    """Rows of a block, so that few of them are padding."""
    return 64 if number >= 32 * experts else 16


def _tile(number: int, groups: int, form: Any, dtype: Any) -> tuple[int, int]:
    """Rows and columns of a workgroup, for a product of this many rows in all."""
    if form.large_blocks and number >= 96 * groups and has_warpgroups():
        many = form.in_order and dtype.bitwidth() == 16 and number >= 1024 * groups
        return (layer.MANY, 128) if many else (128, 256)
    return _block_of(number, groups), 128


def _product(
    a: Any, w: Any, at: Any, block: int, rows: int, each: int, out: Any, trans: bool = True
) -> Any:
    """Row p // `each` of a, for each of `rows` p, times the weights of its expert, as `out`."""
    n, k = w.shape[1:] if trans else w.shape[:0:-1]
    c = new_tensor(a, (rows, n), out)
    key = (wave_dtype(a.dtype), out, block, each, w.shape[0], n, k, trans)
    program(kernels.gathered, *key)(a, w, *at, c)
    return c


def _checked(
    x: Any, w1: Any, w2: Any, weights: Any, ids: Any, activation: str, quant: str | None = None
) -> tuple[Any, ...]:
    """The arguments of a layer with experts, whose weights have the format `quant`."""
    form = format_of(quant)
    x, w1, w2 = tensor("x", x), tensor("w1", w1), tensor("w2", w2)
    weights, ids = tensor("weights", weights), tensor("ids", ids)
    dtype = element_type("x", x, form.inputs)
    for name, w in (("w1", w1), ("w2", w2)):
        element_type(name, w, (form.stored or dtype.name,))
        if len(w.shape) != 3:
            raise ValueError(f"`{name}` has {len(w.shape)} dimensions, expected 3")
    element_type("weights", weights, ("f32",))
    element_type("ids", ids, ("i32",))
    if activation not in ACTIVATIONS:
        raise ValueError(f"`activation` is {activation!r}, expected one of {list(ACTIVATIONS)}")
    if len(x.shape) != 2 or len(ids.shape) != 2:
        raise ValueError("`x` and `ids` have two dimensions: tokens first")
    (tokens, size), (experts, double, _) = x.shape, w1.shape
    if size % form.unit:
        raise ValueError(f"`x` has rows of {size} elements, expected a multiple of {form.unit}")
    if double // 2 % form.unit:
        each = 2 * form.unit
        raise ValueError(f"`w1` has {double} rows for an expert, expected a multiple of {each}")
    expect_shape("w1", w1, (experts, double // 2 * 2, size // form.packed))
    expect_shape("w2", w2, (experts, size, double // 2 // form.packed))
    expect_shape("ids", ids, (tokens, ids.shape[1]))
    expect_shape("weights", weights, ids.shape)
    return x, w1, w2, weights, ids


@operator(
    "fused_experts_backward(Tensor dy, Tensor x, Tensor w1, Tensor w2, Tensor weights, Tensor ids,"
    " *, str activation='silu') -> (Tensor dx, Tensor dw1, Tensor dw2, Tensor dweights)"
)
def fused_experts_backward(
    dy: Any,
    x: Any,
    w1: Any,
    w2: Any,
    weights: Any,
    ids: Any,
    *,
    activation: str = "silu",
    dx: Any = None,
    dw1: Any = None,
    dw2: Any = None,
    dweights: Any = None,
) -> tuple[Any, ...]:
    """(dx, dw1, dw2, dweights) of `fused_experts` for the gradient dy of its result. What is
    between the two products is computed again."""
    x, w1, w2, weights, ids = _checked(x, w1, w2, weights, ids, activation)
    dy, dtype = tensor("dy", dy), wave_dtype(x.dtype)
    element_type("dy", dy, (dtype.name,))
    expect_shape("dy", dy, x.shape)
    made: list[Any] = []
    for name, out, like in (
        ("dx", dx, x),
        ("dw1", dw1, w1),
        ("dw2", dw2, w2),
        ("dweights", dweights, weights),
    ):
        inputs = (x, w1, w2, weights, ids, *made)
        made.append(result(name, out, dy, like.shape, wave_dtype(like.dtype), *inputs))
    if is_empty(x) or is_empty(ids) or is_empty(w1):
        for out in made:
            out[...] = 0
    else:
        _run_backward(dy, x, w1, w2, weights, ids, activation, *made)
    return tuple(made)


def _run_backward(
    dy: Any,
    x: Any,
    w1: Any,
    w2: Any,
    weights: Any,
    ids: Any,
    activation: str,
    dx: Any,
    dw1: Any,
    dw2: Any,
    dweights: Any,
) -> None:
    dtype, experts, top = wave_dtype(x.dtype), w1.shape[0], ids.shape[1]
    number, inner = x.shape[0] * top, w2.shape[2]
    block, each = _block_of(number, experts), rows_of("ids", ids).reshape(-1)
    slots, expert_ids, counts, starts, _ = _aligned(ids, experts, block)
    at = (slots, expert_ids)
    hidden = _product(x, w1, at, block, number, top, tkl.f32)
    change = _product(dy, w2, at, block, number, top, tkl.f32, trans=False)
    dhidden = new_tensor(x, hidden.shape, dtype)
    active = new_tensor(x, (number, inner), dtype)
    program(gradient_kernels.slopes, ACTIVATIONS[activation], dtype)(
        *(change, hidden, weights.reshape(-1), each, experts, dhidden, active),
        flat("dweights", dweights),
    )
    parts = _product(dhidden, w1, at, block, number, 1, tkl.f32, trans=False)
    program(kernels.summed, dtype, top, x.shape[1])(parts, ids, experts, dx)
    rows = (slots, counts, starts)
    program(gradient_kernels.outer, dtype, 1, top)(dhidden, x, *rows, dw1)
    program(gradient_kernels.outer, dtype, top, 1)(dy, active, *rows, dw2)


def _save(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    options = dict(keyword_only_inputs)
    ctx.quant, _ = options.pop("quant"), options.pop("group")
    ctx.save_for_backward(*inputs[:5])
    ctx.options = options


def _backward(ctx: Any, dy: Any) -> Any:
    if ctx.quant is not None:
        raise NotImplementedError("wave::fused_experts has no gradient with `quant`")
    given = fused_experts_backward(dy.contiguous(), *ctx.saved_tensors, **ctx.options)
    return *given, *[None] * 5


@operator(
    "fused_experts(Tensor x, Tensor w1, Tensor w2, Tensor weights, Tensor ids,"
    " Tensor? w1_scale=None, Tensor? w2_scale=None, Tensor? w1_zero=None, Tensor? w2_zero=None, *,"
    " str activation='silu', str? quant=None, int? group=None) -> (Tensor out)",
    Gradient(_save, _backward),
)
def fused_experts(
    x: Any,
    w1: Any,
    w2: Any,
    weights: Any,
    ids: Any,
    w1_scale: Any = None,
    w2_scale: Any = None,
    w1_zero: Any = None,
    w2_zero: Any = None,
    *,
    activation: str = "silu",
    quant: str | None = None,
    group: int | None = None,
    out: Any = None,
) -> Any:
    """The sum over a token's experts of weight * w2 · (act(gate) * up), where gate and up are the
    halves of w1 · x: x [T, K], w1 [E, 2N, K], w2 [E, K, N], weights and ids [T, top].

    Ids that are negative or too large count as no expert.

    With `quant="fp8_block"`, w1 and w2 are 8-bit floats (e4m3fn), with a scale for each 128 x 128
    of them: w1_scale [E, 2N / 128, K / 128], w2_scale [E, K / 128, N / 128]. The other operands of
    products are quantised by 128 elements of a row.

    With "w4" and "mxfp4", w1 [E, 2N, K / 2] and w2 [E, K, N / 2] have two weights of 4 bits in a
    byte, the first in the low bits. x is f16 or bf16, and nothing else is quantised: what is
    between the two products has the type of x. The products of a group of weights along a row are
    added in f32, and then multiplied by its scale.

    "w4" are integers as `gemm_w4a16` takes them, less 8 or, if there are zeros, the zero of their
    group. Scales have the type of x or are f32, zeros have the type of x: w1_scale and w1_zero
    [E, 2N, K / group], w2_scale and w2_zero [E, K, N / group], where the last group of a row may be
    smaller. `group`, 128 by default, is a multiple of 32.

    "mxfp4" are MX numbers (e2m1) as `quantize_mx` makes them: scales, w1_scale [E, 2N, K / 32] and
    w2_scale [E, K, N / 32], are bytes, or of the type e8m0.
    """
    x, w1, w2, weights, ids = _checked(x, w1, w2, weights, ids, activation, quant)
    dtype, form = wave_dtype(x.dtype), format_of(quant)
    first = checked_weights("w1", w1, w1_scale, w1_zero, group, quant, dtype)
    second = checked_weights("w2", w2, w2_scale, w2_zero, group, quant, dtype)
    inputs = (weights, ids, *first.tensors(), *second.tensors())
    out = result("out", out, x, x.shape, dtype, *inputs)
    if is_empty(x) or is_empty(ids) or is_empty(w1):
        out[...] = 0
        return out
    top, experts = ids.shape[1], w1.shape[0]
    block, columns = _tile(x.shape[0] * top, experts, form, dtype)
    slots, expert_ids, _, _, places = _aligned(ids, experts, block)
    rows = Rows(slots, expert_ids, experts, top, block, columns)
    parts = form.run(rows, ACTIVATIONS[activation], x, first, second)
    program(layer.combined, dtype, top, x.shape[1])(parts, weights, places.reshape(ids.shape), out)
    return out


def grouped_gemm(
    a: Any, w: Any, offs: Any, *, trans: bool = False, out_dtype: Any = None, out: Any = None
) -> Any:
    """Rows `offs[e - 1]` to `offs[e]` of a [T, K] times w[e], for w [E, K, N], or [E, N, K] with
    `trans`. `offs` [E] does not decrease; groups may be empty, and rows after the last keep what
    `out` has. Products are added in f32."""
    return _grouped(a, w, offs, trans=trans, out_dtype=dtype_for(a, out_dtype), out=out)


def _group_tile(rows: int) -> tuple[int, int]:
    """Rows and columns of a tile for groups of that many rows, on average."""
    if rows < 96 or not has_warpgroups():
        return 64, 128
    return (256, 128) if rows >= 192 else (128, 256)


@operator(
    "grouped_gemm(Tensor a, Tensor w, Tensor offs, *, bool trans=False,"
    " ScalarType? out_dtype=None) -> (Tensor out)"
)
def _grouped(
    a: Any, w: Any, offs: Any, *, trans: bool = False, out_dtype: Any = None, out: Any = None
) -> Any:
    a, w, offs = tensor("a", a), tensor("w", w), tensor("offs", offs)
    dtype = element_type("a", a, FLOATS)
    element_type("w", w, (dtype.name,))
    element_type("offs", offs, ("i32",))
    if len(a.shape) != 2 or len(w.shape) != 3:
        raise ValueError("`a` has two dimensions and `w` three")
    groups, n, k = (w.shape[0], *(w.shape[1:] if trans else w.shape[:0:-1]))
    expect_shape("a", a, (a.shape[0], k))
    expect_shape("offs", offs, (groups,))
    kept = result_type(out_dtype, dtype)
    out = result("out", out, a, (a.shape[0], n), kept, w, offs)
    if not is_empty(out) and groups:
        block = _group_tile(a.shape[0] // groups)
        program(kernels.grouped, dtype, kept, groups, n, k, trans, block)(a, w, offs, out)
    return out
