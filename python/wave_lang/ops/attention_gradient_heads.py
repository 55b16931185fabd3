"""Gradients of keys and values by workgroups that visit one query head after another.

The rows of a tile are then tokens of one head, a box of the tensor, so that the copy engine brings
them while all other waves multiply. What each row needs besides, its log-sum-exp and its delta,
comes the same way, as a row of 16 bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import index_symbol, sym
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave.templates.attention_loop import LOG2_E, LOWEST

from .attention_gradient_kernels import MAX_K, Step, key_constraints, take_rows
from .attention_kernels import *
from .programs import f32_of

MEMBER, PART, Q_SIZE = sym.MEMBER, sym.PART, sym.Q_SIZE
_MEMBER = index_symbol("$ARGMEMBER")  # the counter of the loop over heads
_PARTS = 4  # of 4 bytes: a row of them is the least that the copy engine brings
_KEYS = 128

_i, _j, _k = (tkw.IndexMapping.iterator(n) for n in range(3))


def of_rows(dtype: Any, heads: int, columns: int, given: bool) -> Any:
    """`of_rows(dout, out, lse, [dlse,] delta, rows)`: deltas, and for each row its log-sum-exp, as an
    exponent of 2, and minus its delta. A row that sees no key has weights of 0."""
    each = tkl.Memory[TOKEN, H, GLOBAL, tkl.f32]
    memory = tkl.Memory[TOKEN, H, D_KV, GLOBAL, dtype]
    parts = tkl.Memory[TOKEN, H, PART, GLOBAL, tkl.f32]
    constraints = [
        tkw.WorkgroupConstraint(TOKEN, 4, 0),
        tkw.WorkgroupConstraint(H, 1, 1),
        tkw.WaveConstraint(TOKEN, 1),
        tkw.HardwareConstraint(
            threads_per_wave=32, vector_shapes={TOKEN: 1, D_KV: D_KV, PART: PART, H: 0}
        ),
    ]

    def run(dout: Any, out: Any, lse: Any, dlse: Any, delta: Any, rows: Any) -> None:
        less = tkw.sum(f32_of(dout) * f32_of(out), dim=D_KV)
        less = less if dlse is None else less - tkw.read(dlse)
        tkw.write(less, delta)
        log, dims = tkw.read(lse), [TOKEN, H, PART]
        none = tkw.register([TOKEN, H], tkl.f32, LOWEST)
        log = tkw.select(log >= none, log * LOG2_E, -none)
        at = tkw.broadcast(tkw.self_index(PART, tkl.i32), dims)
        is_log, is_less = (at == tkw.register(dims, tkl.i32, n) for n in (0, 1))
        log, less = (tkw.broadcast(x, dims) for x in (log, -less))
        rest = tkw.select(is_less, less, tkw.register(dims, tkl.f32, 0.0))
        tkw.write(tkw.select(is_log, log, rest), rows)

    @tkw.wave(constraints)
    def of_rows(dout: memory, out: memory, lse: each, delta: each, rows: parts):
        run(dout, out, lse, None, delta, rows)

    @tkw.wave(constraints)
    def of_rows_less(dout: memory, out: memory, lse: each, dlse: each, delta: each, rows: parts):
        run(dout, out, lse, dlse, delta, rows)

    symbols = {H: heads, D_KV: columns, PART: _PARTS}
    return of_rows_less if given else of_rows, symbols, [TOKEN]


def rows_shape(tokens: int, heads: int) -> tuple[int, ...]:
    return tokens, heads, _PARTS


def is_for(form: Form) -> bool:
    """Whether the kernel below has what attention of this form needs."""
    return not (form.alibi or form.mask or form.bias is not None)


class _Heads(Step):
    """Keys are the rows of products, so that weights are operands of the next ones as they are."""

    def products(self, looped: Any, held: Any, more: Any = None) -> Any:
        more = tkw.register(self.dims, tkl.f32, 0.0) if more is None else self.all_of(more)
        return tkw.mma(held, looped, more, MMA)

    def parts(self, rows: Any) -> list[Any]:
        """What `of_rows` wrote for each row."""
        dims = [H_KV, ROW, PART]
        at = tkw.broadcast(tkw.self_index(PART, tkl.i32), dims)
        none = tkw.register(dims, tkl.f32, -0.0)  # adding it changes nothing
        chosen = (at == tkw.register(dims, tkl.i32, n) for n in (0, 1))
        return [tkw.sum(tkw.select(c, rows, none), dim=PART) for c in chosen]


def _take_rows(form: Form, one: Form, ends: Any) -> None:
    """Sets what `take_queries` and `take_rows` do. Starts are known not to be negative, so that rows are
    copied by TMA."""
    if form.dense:
        tkw.set_symbol(Q_START, tkw.scalar(WORKGROUP_2 * Q_SIZE, form.index))
        tkw.set_symbol(Q_LENGTH, tkw.scalar(Q_SIZE, form.index))
    else:
        take_queries(form, ends)
    tkw.set_symbol(Q_START, tkw.scalar(tkl.Max(Q_START, 0), form.index))
    take_rows(one)
    if form.right >= 0:
        tkw.set_symbol(SEEN, tkw.scalar(FIRST, form.index))
        tkw.set_symbol(FIRST, tkw.scalar(tkl.Max(SEEN, 0), form.index))


def of_keys(form: Form) -> Any:
    """`of_keys(q, k, v, dout, rows, q_ends, k_ends, max_k, scale, dk, dv)`, or, of dense attention,
    the number of queries of a sequence instead of the ends; q, dout and rows then have those of all
    sequences, one after another."""
    one = replace(form, heads=form.kv_heads)  # a row is a token
    step = _Heads(one, N_KV, ROW)
    head = _i * form.group + _MEMBER
    row_of, key_of, to_key = {}, {}, {}
    for d in (D, D_KV, PART):
        there, row = {TOKEN: Q_START + _j, H: head, d: _k}, {H_KV: _i, ROW: _j, d: _k}
        row_of[d] = tkw.IndexMapping(3, inputs=there, outputs=row)
    for d in (D, D_KV):
        place, key = key_place(form, d, WORKGROUP_2), {H_KV: _i, N_KV: _j, d: _k}
        key_of[d] = tkw.IndexMapping(3, inputs=place, outputs=key)
        to_key[d] = tkw.IndexMapping(3, inputs=key, outputs=place)
    keys, values = (key_memory(form, d, GLOBAL) for d in (D, D_KV))
    queries, slopes = (tkl.Memory[TOKEN, H, d, SHARED, form.dtype] for d in (D, D_KV))
    parts = tkl.Memory[TOKEN, H, PART, SHARED, tkl.f32]
    ends = tkl.Memory[ENDS, GLOBAL, form.index]

    def run(q, k, v, dout, rows, q_ends, k_ends, scale, dk, dv):
        take_packed(form, k_ends)
        tkw.set_symbol(N_KV, tkw.scalar(LENGTH, form.index))
        _take_rows(form, one, q_ends)
        key, value = tkw.read(k, mapping=key_of[D]), tkw.read(v, mapping=key_of[D_KV])
        start = [tkw.register([H_KV, d, N_KV], tkl.f32, 0.0) for d in (D, D_KV)]

        @tkw.iterate(MEMBER, init_args=start)
        def heads(of_k, of_v):
            @tkw.iterate(ROW, init_args=[of_k, of_v])
            def loop(total_k, total_v):
                row, slope = tkw.read(q, mapping=row_of[D]), tkw.read(dout, mapping=row_of[D_KV])
                log, less = step.parts(tkw.read(rows, mapping=row_of[PART]))
                # Both are in flight before the first is waited for.
                scores, changes = step.products(row, key), step.products(slope, value, less)
                weights, bend = step.weights_of(scores, scale, log, (None,) * 3)
                total_v = tkw.mma(slope, tkw.cast(weights, form.dtype), total_v)
                return tkw.mma(row, step.bent(weights * changes, bend), total_k), total_v

            return loop[0], loop[1]

        tkw.write(step.scaled(heads[0], scale, D), dk, mapping=to_key[D])
        tkw.write(tkw.cast(heads[1], form.dtype), dv, mapping=to_key[D_KV])

    @tkw.wave(key_constraints(form, MEMBER))
    def attention_dk_dv(
        q: queries,
        k: keys,
        v: values,
        dout: slopes,
        rows: parts,
        Q_SIZE: tkl.SymbolBind[tkl.i32],
        MAX_K: tkl.SymbolBind[tkl.i32],
        scale: tkl.f32,
        dk: keys,
        dv: values,
    ):
        run(q, k, v, dout, rows, None, None, scale, dk, dv)

    @tkw.wave(key_constraints(form, MEMBER))
    def packed_attention_dk_dv(
        q: queries,
        k: keys,
        v: values,
        dout: slopes,
        rows: parts,
        q_ends: ends,
        k_ends: ends,
        MAX_K: tkl.SymbolBind[tkl.i32],
        scale: tkl.f32,
        dk: keys,
        dv: values,
    ):
        run(q, k, v, dout, rows, q_ends, k_ends, scale, dk, dv)

    symbols = {
        H: form.heads,
        H_KV: form.kv_heads,
        D: form.size,
        D_KV: form.columns,
        MEMBER: form.group,
        PART: _PARTS,
        BLOCK_ROW: 64 if max(form.size, form.columns) > 64 else 96,
        BLOCK_N_KV: _KEYS,
    }
    return attention_dk_dv if form.dense else packed_attention_dk_dv, symbols, [TOKEN, KEY, ENDS]
