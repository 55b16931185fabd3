"""The kernel of attention of new tokens to a prefix in a cache, and to each other.

It has the rows of the kernels in attention_kernels.py, and two loops: over the tokens of the
prefix, which a table lists, and over the new ones.
"""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave.templates.attention_loop import LOG2_E, Attention

from .attention_kernels import *

TABLE, POOL, PREFIX, MASK, MASK_START = (
    getattr(sym, name) for name in "TABLE POOL PREFIX MASK MASK_START".split()
)
_i, _j, _k = (tkw.IndexMapping.iterator(n) for n in range(3))
_next = tkw.IndexMapping(1, inputs={ENDS: _i + 1}, outputs={ENDS: _i})
_table_of = tkw.IndexMapping(1, inputs={TABLE: K_START + _i}, outputs={N_KV: _i})


def _cached(size: Any) -> Any:
    """Where the keys, or the values, of a prefix are."""
    return tkw.IndexMapping(
        3,
        inputs={POOL: tkw.IndexMapping.dynamic_val(0), H_KV: _i, size: _k},
        outputs={H_KV: _i, N_KV: _j, size: _k},
        dynamic_val_mappings=({N_KV: _j},),
    )


def _new(size: Any) -> Any:
    return tkw.IndexMapping(
        3,
        inputs={KEY: _j + Q_START, H_KV: _i, size: _k},
        outputs={H_KV: _i, N_KV: _j, size: _k},
    )


def _take(form: Form, before: Any, length: Any) -> None:
    """Sets FIRST and N_KV to the first of `length` keys that this workgroup's rows see, and the one
    after the last; `before` keys come before the first row's own."""
    first_token = WORKGROUP_0 * BLOCK_ROW // form.group
    last_token = ((WORKGROUP_0 + 1) * BLOCK_ROW - 1) // form.group
    first, end = 0, length
    if form.left >= 0:
        first = tkl.Min(tkl.Max(before + first_token - form.left, 0), length)
    if form.right >= 0:
        end = tkl.Max(first, tkl.Min(before + last_token + form.right + 1, length))
    end = end_of_loop(form, first, end, first_token < Q_LENGTH)
    tkw.set_symbol(FIRST, tkw.scalar(first, form.index))
    tkw.set_symbol(N_KV, tkw.scalar(end, form.index))


def extend(form: Form, mask: Any, mask_prefix: bool) -> Any:
    """`extend(q, k, v, k_cache, v_cache, q_ends, ends, table, mask, mask starts, max_q, scale,
    sinks, slopes, out, sums)`; `mask` is the type of the mask's offsets, or None without a mask. It
    is read for new tokens that the form lets be seen and, if `mask_prefix`, for those of the prefix."""
    body, t = Body(form), Types(form)
    cached, new = ({d: of(d) for d in (D, D_KV)} for of in (_cached, _new))

    def bytes_of(first_key: Any) -> Any:
        """The mask has a row of PREFIX + Q_LENGTH bytes for each new token of a sequence."""
        place = MASK_START + _i // form.group * (PREFIX + Q_LENGTH) + first_key + _j
        return tkw.IndexMapping(2, inputs={MASK: place}, outputs={ROW: _i, N_KV: _j})

    @tkw.wave(constraints_of(form))
    def attention_extend(
        q: t.q,
        k: tkl.Memory[KEY, H_KV, D, SHARED, form.dtype],
        v: tkl.Memory[KEY, H_KV, D_KV, SHARED, form.dtype],
        k_cache: tkl.Memory[POOL, H_KV, D, SHARED, form.dtype],
        v_cache: tkl.Memory[POOL, H_KV, D_KV, SHARED, form.dtype],
        q_ends: t.ends,
        ends: t.ends,
        table: tkl.Memory[TABLE, GLOBAL, tkl.i32],
        seen: tkl.Memory[MASK, GLOBAL, tkl.i8],
        mask_starts: tkl.Memory[ENDS, GLOBAL, mask or tkl.i32],
        MAX_Q: tkl.SymbolBind[tkl.i32],
        scale: tkl.f32,
        sinks: t.sinks,
        slopes: t.sinks,
        out: t.out,
        sums: t.sums,
    ):
        for offsets, start, length in ((q_ends, Q_START, Q_LENGTH), (ends, K_START, PREFIX)):
            first = tkw.read(offsets)
            tkw.set_symbol(start, first)
            tkw.set_symbol(length, tkw.read(offsets, mapping=_next) - first)
        if mask:
            tkw.set_symbol(MASK_START, tkw.read(mask_starts))
        tkw.set_symbol(ROW, tkw.scalar(Q_LENGTH * form.group, form.index))
        scores = body.scores(scale, None)
        attention = Attention([H_KV], ROW, N_KV, D_KV, form.dtype, MMA, **scores)
        rows = tkw.read(q, mapping=body.q_of[0])

        added = lambda: body.extra.added(slopes, None)

        def visible(first_key: Any, by_bytes: bool, by_place: bool) -> list[Any]:
            given = []
            if by_bytes:
                given.append(tkw.cast(tkw.read(seen, mapping=bytes_of(first_key)), tkl.i1))
            if by_place:
                given.append(visible_keys(form))
            return given

        tkw.set_symbol(LENGTH, tkw.scalar(PREFIX + Q_LENGTH, form.index))
        _take(form, PREFIX, PREFIX)

        @tkw.iterate(N_KV, init_args=body.start(attention, sinks))
        def over_prefix(*state):
            number = tkw.read(table, mapping=_table_of)
            keys, values = (
                tkw.read(memory, mapping=cached[d], mapping_dynamic_vals=(number,))
                for d, memory in ((D, k_cache), (D_KV, v_cache))
            )
            seen_here = visible(0, bool(mask) and mask_prefix, form.left >= 0)
            return attention.step(state, rows, keys, values, seen_here, added())

        tkw.set_symbol(LENGTH, tkw.scalar(Q_LENGTH, form.index))
        _take(form, 0, Q_LENGTH)

        @tkw.iterate(N_KV, init_args=list(over_prefix), until=seen_until(form))
        def over_new(*state):
            keys, values = tkw.read(k, mapping=new[D]), tkw.read(v, mapping=new[D_KV])
            seen_here = visible(PREFIX, bool(mask), form.masked)
            return attention.step(state, rows, keys, values, seen_here, added())

        result = attention.result(over_new)
        tkw.write(tkw.cast(result, form.dtype), out, mapping=body.out_of)
        body.write_sums(attention.log_sum(over_new) / LOG2_E, sums)

    return attention_extend, symbols_of(form), [TOKEN, KEY, ENDS, POOL, TABLE, MASK]
