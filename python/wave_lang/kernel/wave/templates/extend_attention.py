"""Attention of new tokens to a prefix in a cache, through a table of its tokens, and to each
other."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_common import *
from .attention_loop import Attention, scores_of
from .attention_tiles import *

ENDS = tkl.sym.ENDS  # one more than there are sequences
POOL = tkl.sym.POOL  # tokens in the cache
TABLE = tkl.sym.TABLE
MASK = tkl.sym.MASK
MAX_EXTEND_SEQ_LEN = tkl.sym.MAX_EXTEND_SEQ_LEN
Q_START, KV_START, MASK_START = tkl.sym.Q_START, tkl.sym.KV_START, tkl.sym.MASK_START
PREFIX, NEW = tkl.sym.PREFIX, tkl.sym.NEW  # the lengths of the two parts of a sequence
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE

_i, _j, _k = (tkw.IndexMapping.iterator(n) for n in range(3))
_next = tkw.IndexMapping(1, inputs={ENDS: _i + 1}, outputs={ENDS: _i})
_q_of = tkw.IndexMapping(
    3, inputs={N_Q: _j + Q_START, H: _i, D_Q: _k}, outputs={H: _i, N_Q: _j, D_Q: _k}
)
_c_of = tkw.IndexMapping(
    3, inputs={H: _i, D_KV: _j, N_Q: _k}, outputs={N_Q: _k + Q_START, H: _i, D_KV: _j}
)
_table_of = tkw.IndexMapping(1, inputs={TABLE: _i + KV_START}, outputs={N_KV: _i})


def _constraints(num_waves: int, instruction: Any) -> list[Any]:
    tiles = tkl.ceiling(MAX_EXTEND_SEQ_LEN / BLOCK_N_Q)
    return [
        tkw.WorkgroupConstraint(N_Q, BLOCK_N_Q, 0, iters=tiles),
        tkw.WorkgroupConstraint(D_KV, BLOCK_D_KV, 1),
        tkw.WorkgroupConstraint(H, 1, 2),
        tkw.WorkgroupConstraint(ENDS, 1, 3, iters=ENDS - 1),
        tkw.TilingConstraint(N_KV, BLOCK_N_KV),
        tkw.WaveConstraint(N_Q, BLOCK_N_Q / num_waves),
        tkw.WaveConstraint(D_KV, BLOCK_D_KV),
        tkw.HardwareConstraint(
            threads_per_wave=64, mma_type=instruction, vector_shapes={H: 0, ENDS: 0}
        ),
    ]


def _gathered(group: int) -> tuple[Any, Any]:
    """Mappings of the keys and values in the cache, at the tokens of a table."""
    token = tkw.IndexMapping.dynamic_val(0)
    k_of = tkw.IndexMapping(
        3,
        inputs={POOL: token, H_KV: _i // group, D_Q: _k},
        outputs={H: _i, N_KV: _j, D_Q: _k},
        dynamic_val_mappings={N_KV: _j},
    )
    v_of = tkw.IndexMapping(
        3,
        inputs={POOL: token, H_KV: _i // group, D_KV: _j},
        outputs={H: _i, D_KV: _j, N_KV: _k},
        dynamic_val_mappings={N_KV: _k},
    )
    return k_of, v_of


def _following(group: int) -> tuple[Any, Any]:
    """Mappings of the keys and values of new tokens."""
    k_of = tkw.IndexMapping(
        3,
        inputs={N_KV: _j + Q_START, H_KV: _i // group, D_Q: _k},
        outputs={H: _i, N_KV: _j, D_Q: _k},
    )
    v_of = tkw.IndexMapping(
        3,
        inputs={N_KV: _k + Q_START, H_KV: _i // group, D_KV: _j},
        outputs={H: _i, D_KV: _j, N_KV: _k},
    )
    return k_of, v_of


def _mask_of(first_key: Any) -> Any:
    """The mask has a row of PREFIX + NEW bytes for each query of a sequence."""
    place = MASK_START + _i * (PREFIX + NEW) + first_key + _j
    return tkw.IndexMapping(2, inputs={MASK: place}, outputs={N_Q: _i, N_KV: _j})


def _length(ends: Any, start: Any, length: Any) -> None:
    """Sets the symbols of where a sequence starts and how long it is."""
    first = tkw.read(ends)
    tkw.set_symbol(start, first)
    tkw.set_symbol(length, tkw.read(ends, mapping=_next) - first)


class _Body:
    """What the kernels with and without a mask have in common."""

    def __init__(self, attention: Attention, group: int, is_causal: bool, index: Any, out: Any):
        self.attention, self.group, self.is_causal = attention, group, is_causal
        self.index, self.out = index, out

    def prefix(self, rows: Any, cache: tuple[Any, Any], table: Any, visible: Any) -> Any:
        k_of, v_of = _gathered(self.group)
        tkw.set_symbol(N_KV, tkw.scalar(PREFIX, self.index))

        @tkw.iterate(N_KV, init_args=self.attention.start())
        def over_prefix(*state):
            token = tkw.read(table, mapping=_table_of)
            keys = tkw.read(cache[0], mapping=k_of, mapping_dynamic_vals=(token,))
            values = tkw.read(cache[1], mapping=v_of, mapping_dynamic_vals=(token,))
            return self.attention.step(state, rows, keys, values, visible(0))

        return over_prefix

    def new(self, rows: Any, state: Any, k: Any, v: Any, visible: Any) -> Any:
        k_of, v_of = _following(self.group)
        last = tkl.Min(NEW, (WORKGROUP_0 + 1) * BLOCK_N_Q) if self.is_causal else NEW
        tkw.set_symbol(N_KV, tkw.scalar(last, self.index))

        @tkw.iterate(N_KV, init_args=list(state))
        def over_new(*state):
            seen = self.attention.not_after() if self.is_causal else visible(PREFIX)
            keys, values = tkw.read(k, mapping=k_of), tkw.read(v, mapping=v_of)
            return self.attention.step(state, rows, keys, values, seen)

        return over_new

    def __call__(self, q, k, v, k_cache, v_cache, qo_indptr, kv_indptr, table, c, visible):
        _length(qo_indptr, Q_START, NEW)
        _length(kv_indptr, KV_START, PREFIX)
        tkw.set_symbol(N_Q, tkw.scalar(NEW, self.index))
        rows = tkw.read(q, mapping=_q_of)
        state = self.prefix(rows, (k_cache, v_cache), table, visible)
        state = self.new(rows, state, k, v, visible)
        tkw.write(tkw.cast(self.attention.result(state), self.out), c, mapping=_c_of)


class _Types:
    """The types of the parameters that both kernels have."""

    def __init__(self, dtype: Any, index: Any, out: Any):
        self.q = tkl.Memory[N_Q, H, D_Q, GLOBAL, dtype, any_tokens(H, D_Q)]
        self.k = tkl.Memory[N_KV, H_KV, D_Q, SHARED, dtype, any_tokens(H_KV, D_Q)]
        self.v = tkl.Memory[N_KV, H_KV, D_KV, SHARED, dtype, any_tokens(H_KV, D_KV)]
        self.k_cache = tkl.Memory[POOL, H_KV, D_Q, SHARED, dtype]
        self.v_cache = tkl.Memory[POOL, H_KV, D_KV, SHARED, dtype]
        self.ends = tkl.Memory[ENDS, GLOBAL, index]
        self.table = tkl.Memory[TABLE, GLOBAL, tkl.i32]
        self.c = tkl.Memory[N_Q, H, D_KV, GLOBAL, out, any_tokens(H, D_KV)]


def _without_mask(body: _Body, constraints: list[Any], t: _Types) -> Any:
    @tkw.wave(constraints)
    def extend_attention(
        q: t.q,
        k: t.k,
        v: t.v,
        k_cache: t.k_cache,
        v_cache: t.v_cache,
        qo_indptr: t.ends,
        kv_indptr: t.ends,
        kv_indices: t.table,
        MAX_EXTEND_SEQ_LEN: tkl.SymbolBind[tkl.i32],
        c: t.c,
    ):
        body(q, k, v, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, c, lambda first: None)

    return extend_attention


def _with_mask(body: _Body, constraints: list[Any], t: _Types, mask_index: Any) -> Any:
    @tkw.wave(constraints)
    def extend_attention_custom_mask(
        q: t.q,
        k: t.k,
        v: t.v,
        k_cache: t.k_cache,
        v_cache: t.v_cache,
        qo_indptr: t.ends,
        kv_indptr: t.ends,
        kv_indices: t.table,
        custom_mask: tkl.Memory[MASK, GLOBAL, tkl.i8],
        mask_offsets: tkl.Memory[ENDS, GLOBAL, mask_index],
        MAX_EXTEND_SEQ_LEN: tkl.SymbolBind[tkl.i32],
        c: t.c,
    ):
        tkw.set_symbol(MASK_START, tkw.read(mask_offsets))

        def visible(first_key):
            return tkw.cast(tkw.read(custom_mask, mapping=_mask_of(first_key)), tkl.i1)

        body(q, k, v, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, c, visible)

    return extend_attention_custom_mask


def get_extend_attention_kernel(
    shape: AttentionShape,
    mfma_variant: Any,
    q_shape: tuple[int, ...],
    k_shape: tuple[int, ...],
    v_shape: tuple[int, ...],
    k_cache_shape: tuple[int, ...],
    v_cache_shape: tuple[int, ...],
    o_shape: tuple[int, ...],
    input_dtype: Any = tkl.f16,
    output_dtype: Any = tkl.f32,
    size_dtype: Any = tkl.i32,
    is_causal: bool = False,
    logit_cap: float = 0.0,
    layer_scaling: float | None = None,
    num_waves: int = 4,
    use_custom_mask: bool = False,
    mask_offset_dtype: Any = tkl.i32,
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """`extend_attention(q, k, v, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, max_len, c)`,
    the values of its symbols, and its dynamic symbols.

    Sequence s has the new tokens from `qo_indptr[s]` to `qo_indptr[s + 1]`, after those at
    `kv_indices[kv_indptr[s]:kv_indptr[s + 1]]` in the cache. With `use_custom_mask`,
    `custom_mask, mask_offsets` follow `kv_indices`, and the mask decides instead of `is_causal`:
    from `mask_offsets[s]` on, a byte for each new token and each token of the sequence.
    """
    q_heads, kv_heads, columns = shape.num_query_heads, shape.num_kv_heads, v_shape[-1]
    group = group_size(q_heads, kv_heads)
    check_shape("q_shape", q_shape, q_heads, shape.head_size)
    check_shape("k_shape", k_shape, kv_heads, shape.head_size)
    check_shape("k_cache_shape", k_cache_shape, kv_heads, shape.head_size)
    check_shape("v_shape", v_shape, kv_heads, columns)
    check_shape("v_cache_shape", v_cache_shape, kv_heads, columns)
    check_shape("o_shape", o_shape, q_heads, columns)
    dtype, out = float_type("input_dtype", input_dtype), float_type("output_dtype", output_dtype)
    index = size_type("size_dtype", size_dtype)
    first, second = instructions(mfma_variant)
    scores = scores_of(shape.head_size, layer_scaling, logit_cap)
    attention = Attention([H], N_Q, N_KV, D_KV, dtype, first, scores)
    body = _Body(attention, group, is_causal and not use_custom_mask, index, out)
    constraints, types = _constraints(num_waves, second), _Types(dtype, index, out)
    dynamic_symbols = [ENDS, POOL, TABLE]
    if use_custom_mask:
        mask_index = size_type("mask_offset_dtype", mask_offset_dtype)
        kernel = _with_mask(body, constraints, types, mask_index)
        dynamic_symbols.append(MASK)
    else:
        kernel = _without_mask(body, constraints, types)
    hyperparams = {
        H: q_heads,
        H_KV: kv_heads,
        D_Q: shape.head_size,
        D_KV: columns,
        BLOCK_N_Q: rows_of(shape.max_seq_len or q_shape[0], num_waves, second),
        BLOCK_N_KV: keys_of(shape.head_size, columns_of(columns), dtype),
        BLOCK_D_KV: columns_of(columns),
    }
    return kernel, hyperparams, dynamic_symbols
