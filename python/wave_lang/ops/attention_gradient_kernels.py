"""Kernels of the gradients of attention over keys that are not in pages.

Weights are computed again, from the log-sum-exp of each row. One kernel has workgroups of rows and
visits keys, for the gradient of q; another has workgroups of keys and visits rows, for those of k
and v. Rows are those of attention_kernels.py, so that a key head gets the sum over the query heads
that share it, and nothing is added by atomics: results have the same bits on every run.

With weights p, the gradient of a product is p * (dO · v - delta), where delta is the sum of dO * O
over a row, less the gradient of its log-sum-exp.
"""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave.templates.attention_loop import LOG2_E, LOWEST

from .attention_kernels import *
from .programs import f32_of

MAX_K = sym.MAX_K

_i, _j, _k, _l = (tkw.IndexMapping.iterator(n) for n in range(4))


def deltas(dtype: Any, heads: int, columns: int, dense: bool, given: bool) -> Any:
    """`deltas(dout, out, [dlse,] delta)`: with `given`, less the gradient of log-sum-exps."""
    outer = [ENDS] if dense else []
    each = tkl.Memory[(*outer, TOKEN, H, GLOBAL, tkl.f32)]
    memory = tkl.Memory[(*outer, TOKEN, H, D_KV, GLOBAL, dtype)]
    constraints = [
        tkw.WorkgroupConstraint(TOKEN, 4, 0),
        tkw.WorkgroupConstraint(H, 1, 1),
        *(tkw.WorkgroupConstraint(d, 1, 2) for d in outer),
        tkw.WaveConstraint(TOKEN, 1),
        tkw.HardwareConstraint(
            threads_per_wave=32, vector_shapes={TOKEN: 1, D_KV: D_KV, H: 0, ENDS: 0}
        ),
    ]

    def sums(dout: Any, out: Any) -> Any:
        return tkw.sum(f32_of(dout) * f32_of(out), dim=D_KV)

    @tkw.wave(constraints)
    def deltas(dout: memory, out: memory, delta: each):
        tkw.write(sums(dout, out), delta)

    @tkw.wave(constraints)
    def deltas_less(dout: memory, out: memory, dlse: each, delta: each):
        tkw.write(sums(dout, out) - tkw.read(dlse), delta)

    return deltas_less if given else deltas, {H: heads, D_KV: columns}, [*outer, TOKEN]


def sink_gradients(heads: int, index: Any) -> Any:
    """`sink_gradients(sinks, lse, delta, q_ends, dsinks)`, of the tokens that sequences have. A
    sink has no value, so that its product with dO is 0. Without `index`, there are no ends, and
    dsinks has a row for each sequence."""
    outer = [] if index else [ENDS]
    visited = {"iters": tkl.ceiling((TOKEN - FIRST) / 256), "start": FIRST} if index else {}
    constraints = [
        tkw.WorkgroupConstraint(H, 1, 0),
        *(tkw.WorkgroupConstraint(d, 1, 1) for d in outer),
        tkw.TilingConstraint(TOKEN, 256, **visited),
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={H: 0, ENDS: 0, TOKEN: 256}),
    ]
    each = tkl.Memory[(*outer, TOKEN, H, GLOBAL, tkl.f32)]
    per_head = tkl.Memory[H, GLOBAL, tkl.f32]
    first_of, last_of = (
        tkw.IndexMapping(1, inputs={ENDS: end}, outputs={H: _i}) for end in (_i * 0, ENDS - 1)
    )

    def run(sinks: Any, lse: Any, delta: Any, dsinks: Any) -> None:
        sink = tkw.read(sinks)

        @tkw.iterate(TOKEN, init_args=[tkw.register([*outer, H], tkl.f32, 0.0)])
        def loop(total):
            log = tkw.read(lse)  # -inf: a row without a key or a sink
            none = tkw.register(log.shape, tkl.f32, LOWEST)
            weight = tkw.exp(tkw.broadcast(sink, [*outer, TOKEN, H]) - log)
            weight = tkw.select(log >= none, weight, none * 0.0)
            return tkw.sum(-weight * tkw.read(delta), total, dim=TOKEN)

        tkw.write(loop, dsinks)

    @tkw.wave(constraints)
    def dense(
        sinks: per_head, lse: each, delta: each, dsinks: tkl.Memory[ENDS, H, GLOBAL, tkl.f32]
    ):
        run(sinks, lse, delta, dsinks)

    @tkw.wave(constraints)
    def packed(
        sinks: per_head,
        lse: each,
        delta: each,
        q_ends: tkl.Memory[ENDS, GLOBAL, index or tkl.i32],
        dsinks: per_head,
    ):
        tkw.set_symbol(FIRST, tkw.read(q_ends, mapping=first_of))
        tkw.set_symbol(TOKEN, tkw.read(q_ends, mapping=last_of))
        run(sinks, lse, delta, dsinks)

    return packed if index else dense, {H: heads}, [TOKEN, ENDS]


def _row_constraints(form: Form) -> list[Any]:
    visited = tkl.ceiling((N_KV - FIRST) / BLOCK_N_KV)
    return [
        tkw.WorkgroupConstraint(
            ROW, BLOCK_ROW, 0, iters=tkl.ceiling(MAX_Q * form.group / BLOCK_ROW)
        ),
        tkw.WorkgroupConstraint(H_KV, 1, 1),
        tkw.WorkgroupConstraint(ENDS, 1, 2, iters=ENDS if form.dense else ENDS - 1),
        tkw.TilingConstraint(N_KV, BLOCK_N_KV, iters=visited, start=FIRST),
        tkw.WaveConstraint(ROW, BLOCK_ROW / 4),
        tkw.HardwareConstraint(
            threads_per_wave=64, mma_type=MMA, vector_shapes={H_KV: 0, ENDS: 0}
        ),
    ]


def key_constraints(form: Form, *outer: Any) -> list[Any]:
    """`outer`: dimensions that loops around that over rows visit one by one."""
    visited = tkl.ceiling((ROW - FIRST) / BLOCK_ROW)
    single = {H_KV: 0, ENDS: 0} | {d: 0 for d in outer}
    return [
        tkw.WorkgroupConstraint(N_KV, BLOCK_N_KV, 0, iters=tkl.ceiling(MAX_K / BLOCK_N_KV)),
        tkw.WorkgroupConstraint(H_KV, 1, 1),
        tkw.WorkgroupConstraint(ENDS, 1, 2, iters=ENDS if form.dense else ENDS - 1),
        *(tkw.TilingConstraint(d, 1) for d in outer),
        tkw.TilingConstraint(ROW, BLOCK_ROW, iters=visited, start=FIRST),
        tkw.WaveConstraint(N_KV, BLOCK_N_KV / 4),
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=MMA, vector_shapes=single),
    ]


def take_rows(form: Form) -> None:
    """Sets FIRST and ROW to the first row that sees a key of this workgroup, and the one after the
    last."""
    first_key, last_key = WORKGROUP_0 * BLOCK_N_KV, (WORKGROUP_0 + 1) * BLOCK_N_KV - 1
    before = LENGTH - Q_LENGTH
    first, end = 0, Q_LENGTH
    if form.right >= 0:
        first = tkl.Min(tkl.Max(first_key - before - form.right, 0), Q_LENGTH)
    if form.left >= 0:
        end = tkl.Max(first, tkl.Min(last_key - before + form.left + 1, Q_LENGTH))
    end = end_of_loop(form, first, end, first_key < LENGTH)
    tkw.set_symbol(FIRST, tkw.scalar(first * form.group, form.index))
    tkw.set_symbol(ROW, tkw.scalar(end * form.group, form.index))


class Step:
    """What happens to a tile of rows and keys. `outer` is the dimension that the workgroup has,
    `inner` that of the loop."""

    def __init__(self, form: Form, outer: Any, inner: Any):
        self.form, self.outer, self.inner = form, outer, inner
        self.dims = [H_KV, outer, inner]
        self.extra = Extra(form, self.dims, WORKGROUP_2)

    def products(self, looped: Any, held: Any) -> Any:
        zero = tkw.register([H_KV, self.inner, self.outer], tkl.f32, 0.0)
        return tkw.permute(tkw.mma(looped, held, zero, MMA), target_shape=self.dims)

    def all_of(self, value: Any) -> Any:
        return tkw.broadcast(value, self.dims)

    def weights(self, products: Any, scale: Any, lse: Any, more: Any) -> tuple[Any, Any]:
        """Those of `weights_of`, for log-sum-exps. A row that sees no key has the logarithm -inf, which
        must not be subtracted from -inf."""
        finite = tkw.maximum(lse, tkw.register(lse.shape, tkl.f32, LOWEST))
        return self.weights_of(products, scale, finite * LOG2_E, more)

    def weights_of(self, products: Any, scale: Any, less: Any, more: Any) -> tuple[Any, Any]:
        """The weights, and the slope of a soft cap or None. `less` is the exponent of 2 that a row is
        divided by, `more` the slopes of ALiBi, a bias and a mask."""
        form, slope = self.form, None
        if form.cap:
            share = bent(products * self.all_of(scale * (1 / form.cap)), form.rough)
            slope = -(share * share) + 1.0
            scores = share * (form.cap * LOG2_E)
        else:
            scores = products * self.all_of(scale * LOG2_E)
        slopes, bias, mask = more
        added = self.extra.added(slopes, bias)
        scores = scores if added is None else scores + added
        weights = tkw.exp2(scores - self.all_of(less))
        seen = self.extra.visible(mask, form.left >= 0 or form.right >= 0)
        if seen is not None:
            weights = tkw.select(seen, weights, tkw.register(self.dims, tkl.f32, 0.0))
        return weights, slope

    def slopes(self, weights: Any, by_values: Any, delta: Any) -> Any:
        """The gradients of scores."""
        return weights * (by_values - self.all_of(delta))

    def bent(self, change: Any, slope: Any) -> Any:
        """The gradients of products, without the scale, in the type of q."""
        return tkw.cast(change if slope is None else change * slope, self.form.dtype)

    def scaled(self, total: Any, scale: Any, columns: Any) -> Any:
        factor = tkw.broadcast(scale, [H_KV, columns, self.outer])
        return tkw.cast(total * factor, self.form.dtype)


class Places:
    """Where the elements of tensors are, and the types of these."""

    def __init__(self, form: Form):
        token, head = Q_START + _j // form.group, _i * form.group + _j % form.group
        outer = {ENDS: WORKGROUP_2} if form.dense else {}
        here, first = {**outer, TOKEN: token, H: head}, list(outer)
        each = {H_KV: _i, ROW: _j}
        self.sum_of = tkw.IndexMapping(2, inputs=here, outputs=each)
        self.row_of, self.to_row, self.key_of, self.to_key = {}, {}, {}, {}
        for d in (D, D_KV):
            there, row, key = {**here, d: _k}, {**each, d: _k}, {H_KV: _i, N_KV: _j, d: _k}
            self.row_of[d] = tkw.IndexMapping(3, inputs=there, outputs=row)
            self.to_row[d] = tkw.IndexMapping(3, inputs=row, outputs=there)
            place = key_place(form, d, WORKGROUP_2)
            self.key_of[d] = tkw.IndexMapping(3, inputs=place, outputs=key)
            self.to_key[d] = tkw.IndexMapping(3, inputs=key, outputs=place)
        self.rows = lambda d, space: tkl.Memory[(*first, TOKEN, H, d, space, form.dtype)]
        self.keys = lambda d, space: key_memory(form, d, space)
        self.sums = lambda space: tkl.Memory[(*first, TOKEN, H, space, tkl.f32)]
        self.ends = tkl.Memory[ENDS, GLOBAL, form.index]
        self.heads = tkl.Memory[H, GLOBAL, tkl.f32]
        self.bias = lambda dtype: tkl.Memory[ENDS, H, TOKEN, KEY, GLOBAL, dtype or tkl.f32]


def _tile_of(form: Form) -> tuple[int, Any]:
    """How many rows or keys an iteration reads, and where the compiler puts them: both orders of
    them, for the two products that they are in, have to fit into 60 KiB of shared memory."""
    if form.dtype == tkl.f32:  # without a matrix instruction, a thread holds all of them
        return 16, GLOBAL
    each = 2 * (form.size + form.columns) * form.dtype.bitwidth() // 8
    return next((n for n in (64, 32) if n * each <= 60 * 1024), 16), SHARED


def of_queries(form: Form, of_bias: bool, large: bool) -> Any:
    """`of_queries(q, k, v, dout, lse, delta, slopes, q_ends, k_ends, max_q, scale, dq)`, or, of
    dense attention, `bias, mask, max_q, scale, dq, dbias` after the slopes; dbias is written if
    `of_bias`. Tiles are `large` where a machine has room for them."""
    p, step = Places(form), Step(form, ROW, N_KV)
    visited, space = _tile_of(form)
    tile = (128, 128) if large and not of_bias else (64, visited)
    rows, keys = p.rows(D, GLOBAL), p.keys(D, space)
    slopes, values, sums = p.rows(D_KV, GLOBAL), p.keys(D_KV, space), p.sums(GLOBAL)

    def run(q, k, v, dout, lse, delta, q_ends, k_ends, more, scale, dq, dbias):
        take_queries(form, q_ends)
        take_packed(form, k_ends)
        tkw.set_symbol(ROW, tkw.scalar(Q_LENGTH * form.group, form.index))
        take_keys(form, form.index)
        row, slope = tkw.read(q, mapping=p.row_of[D]), tkw.read(dout, mapping=p.row_of[D_KV])
        log, less = tkw.read(lse, mapping=p.sum_of), tkw.read(delta, mapping=p.sum_of)

        start = [tkw.register([H_KV, D, ROW], tkl.f32, 0.0)]

        @tkw.iterate(N_KV, init_args=start, until=seen_until(form))
        def loop(total):
            key, value = tkw.read(k, mapping=p.key_of[D]), tkw.read(v, mapping=p.key_of[D_KV])
            scores, by_values = step.products(key, row), step.products(value, slope)
            weights, bend = step.weights(scores, scale, log, more)
            change = step.slopes(weights, by_values, less)
            if of_bias:
                tkw.write(change, dbias, mapping=step.extra.to)
            return tkw.mma(key, step.bent(change, bend), total)

        tkw.write(step.scaled(loop, scale, D), dq, mapping=p.to_row[D])

    @tkw.wave(_row_constraints(form))
    def attention_dq(
        q: rows,
        k: keys,
        v: values,
        dout: slopes,
        lse: sums,
        delta: sums,
        slopes: p.heads,
        bias: p.bias(form.bias),
        mask: p.bias(tkl.i8),
        MAX_Q: tkl.SymbolBind[tkl.i32],
        scale: tkl.f32,
        dq: rows,
        dbias: p.bias(tkl.f32),
    ):
        run(q, k, v, dout, lse, delta, None, None, (slopes, bias, mask), scale, dq, dbias)

    @tkw.wave(_row_constraints(form))
    def packed_attention_dq(
        q: rows,
        k: keys,
        v: values,
        dout: slopes,
        lse: sums,
        delta: sums,
        slopes: p.heads,
        q_ends: p.ends,
        k_ends: p.ends,
        MAX_Q: tkl.SymbolBind[tkl.i32],
        scale: tkl.f32,
        dq: rows,
    ):
        more = (slopes, None, None)
        run(q, k, v, dout, lse, delta, q_ends, k_ends, more, scale, dq, None)

    made = attention_dq if form.dense else packed_attention_dq
    return made, _symbols(form, *tile), [TOKEN, KEY, ENDS]


def of_keys(form: Form, large: bool) -> Any:
    """`of_keys(q, k, v, dout, lse, delta, slopes, q_ends, k_ends, max_k, scale, dk, dv)`, or, of
    dense attention, `bias, mask` instead of the ends."""
    p, step = Places(form), Step(form, N_KV, ROW)
    visited, space = _tile_of(form)
    rows, keys = p.rows(D, space), p.keys(D, GLOBAL)
    slopes, values, sums = p.rows(D_KV, space), p.keys(D_KV, GLOBAL), p.sums(space)

    def run(q, k, v, dout, lse, delta, q_ends, k_ends, more, scale, dk, dv):
        take_queries(form, q_ends)
        take_packed(form, k_ends)
        tkw.set_symbol(N_KV, tkw.scalar(LENGTH, form.index))
        take_rows(form)
        key, value = tkw.read(k, mapping=p.key_of[D]), tkw.read(v, mapping=p.key_of[D_KV])
        start = [tkw.register([H_KV, d, N_KV], tkl.f32, 0.0) for d in (D, D_KV)]

        @tkw.iterate(ROW, init_args=start)
        def loop(total_k, total_v):
            row, slope = tkw.read(q, mapping=p.row_of[D]), tkw.read(dout, mapping=p.row_of[D_KV])
            log, less = tkw.read(lse, mapping=p.sum_of), tkw.read(delta, mapping=p.sum_of)
            weights, bend = step.weights(step.products(row, key), scale, log, more)
            total_v = tkw.mma(slope, tkw.cast(weights, form.dtype), total_v)
            change = step.slopes(weights, step.products(slope, value), less)
            return tkw.mma(row, step.bent(change, bend), total_k), total_v

        tkw.write(step.scaled(loop[0], scale, D), dk, mapping=p.to_key[D])
        tkw.write(tkw.cast(loop[1], form.dtype), dv, mapping=p.to_key[D_KV])

    @tkw.wave(key_constraints(form))
    def attention_dk_dv(
        q: rows,
        k: keys,
        v: values,
        dout: slopes,
        lse: sums,
        delta: sums,
        slopes: p.heads,
        bias: p.bias(form.bias),
        mask: p.bias(tkl.i8),
        MAX_K: tkl.SymbolBind[tkl.i32],
        scale: tkl.f32,
        dk: keys,
        dv: values,
    ):
        run(q, k, v, dout, lse, delta, None, None, (slopes, bias, mask), scale, dk, dv)

    @tkw.wave(key_constraints(form))
    def packed_attention_dk_dv(
        q: rows,
        k: keys,
        v: values,
        dout: slopes,
        lse: sums,
        delta: sums,
        slopes: p.heads,
        q_ends: p.ends,
        k_ends: p.ends,
        MAX_K: tkl.SymbolBind[tkl.i32],
        scale: tkl.f32,
        dk: keys,
        dv: values,
    ):
        more = (slopes, None, None)
        run(q, k, v, dout, lse, delta, q_ends, k_ends, more, scale, dk, dv)

    made = attention_dk_dv if form.dense else packed_attention_dk_dv
    return made, _symbols(form, visited, 128 if large else 64), [TOKEN, KEY, ENDS]


def _symbols(form: Form, rows: int, keys: int) -> dict[Any, Any]:
    return {
        H: form.heads,
        H_KV: form.kv_heads,
        D: form.size,
        D_KV: form.columns,
        BLOCK_ROW: rows,
        BLOCK_N_KV: keys,
    }
