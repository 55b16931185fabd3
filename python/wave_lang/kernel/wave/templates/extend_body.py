"""Attention of new tokens to a prefix in a cache, through a table of its tokens, and to each other:
what the kernels of extend attention share.

A workgroup has rows of the query heads that share a head of keys: row r is token r // group and head
r % group of them. So a few tokens of several heads fill a tile, and keys are read once for all of them.
"""

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
MAX_EXTEND_SEQ_LEN = tkl.sym.MAX_EXTEND_SEQ_LEN
Q_START, KV_START = tkl.sym.Q_START, tkl.sym.KV_START
PREFIX, NEW = tkl.sym.PREFIX, tkl.sym.NEW  # the lengths of the two parts of a sequence
ROW, BLOCK_ROW = tkl.sym.ROW, tkl.sym.BLOCK_ROW
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE

_i, _j, _k = (tkw.IndexMapping.iterator(n) for n in range(3))
_next = tkw.IndexMapping(1, inputs={ENDS: _i + 1}, outputs={ENDS: _i})
_table_of = tkw.IndexMapping(1, inputs={TABLE: _i + KV_START}, outputs={N_KV: _i})


def _constraints(group: int, num_waves: int, instruction: Any) -> list[Any]:
    tiles = tkl.ceiling(MAX_EXTEND_SEQ_LEN * group / BLOCK_ROW)
    return [
        tkw.WorkgroupConstraint(ROW, BLOCK_ROW, 0, iters=tiles),
        tkw.WorkgroupConstraint(D_KV, BLOCK_D_KV, 1),
        tkw.WorkgroupConstraint(H_KV, 1, 2),
        tkw.WorkgroupConstraint(ENDS, 1, 3, iters=ENDS - 1),
        tkw.TilingConstraint(N_KV, BLOCK_N_KV),
        tkw.WaveConstraint(ROW, BLOCK_ROW / num_waves),
        tkw.WaveConstraint(D_KV, BLOCK_D_KV),
        tkw.HardwareConstraint(
            threads_per_wave=64, mma_type=instruction, vector_shapes={H_KV: 0, ENDS: 0}
        ),
    ]


def _rows_of(group: int) -> tuple[Any, Any]:
    """Where the rows of queries and results are."""
    here, place = {H_KV: _i, ROW: _j}, {N_Q: Q_START + _j // group, H: _i * group + _j % group}
    return (
        tkw.IndexMapping(3, inputs={**place, D_Q: _k}, outputs={**here, D_Q: _k}),
        tkw.IndexMapping(3, inputs={**here, D_KV: _k}, outputs={**place, D_KV: _k}),
    )


def _gathered(columns: Any) -> Any:
    """Where keys or values in the cache are, by the tokens of a table."""
    return tkw.IndexMapping(
        3,
        inputs={POOL: tkw.IndexMapping.dynamic_val(0), H_KV: _i, columns: _k},
        outputs={H_KV: _i, N_KV: _j, columns: _k},
        dynamic_val_mappings={N_KV: _j},
    )


def _following(columns: Any) -> Any:
    """Where keys or values of new tokens are."""
    return tkw.IndexMapping(
        3,
        inputs={N_KV: _j + Q_START, H_KV: _i, columns: _k},
        outputs={H_KV: _i, N_KV: _j, columns: _k},
    )


def _length(ends: Any, start: Any, length: Any) -> None:
    """Sets the symbols of where a sequence starts and how long it is."""
    first = tkw.read(ends)
    tkw.set_symbol(start, first)
    tkw.set_symbol(length, tkw.read(ends, mapping=_next) - first)


class Types:
    """The types of the parameters that the kernels have in common."""

    def __init__(self, dtype: Any, index: Any, out: Any):
        self.q = tkl.Memory[N_Q, H, D_Q, GLOBAL, dtype, any_tokens(H, D_Q)]
        self.k = tkl.Memory[N_KV, H_KV, D_Q, SHARED, dtype, any_tokens(H_KV, D_Q)]
        self.v = tkl.Memory[N_KV, H_KV, D_KV, SHARED, dtype, any_tokens(H_KV, D_KV)]
        self.k_cache = tkl.Memory[POOL, H_KV, D_Q, SHARED, dtype]
        self.v_cache = tkl.Memory[POOL, H_KV, D_KV, SHARED, dtype]
        self.ends = tkl.Memory[ENDS, GLOBAL, index]
        self.table = tkl.Memory[TABLE, GLOBAL, tkl.i32]
        self.c = tkl.Memory[N_Q, H, D_KV, GLOBAL, out, any_tokens(H, D_KV)]


class Body:
    """A kernel's types and constraints, and its body."""

    def __init__(
        self,
        shape: AttentionShape,
        mfma_variant: Any,
        shapes: dict[str, tuple[int, ...]],
        types: tuple[Any, Any, Any],
        scores: Any,
        is_causal: bool,
        num_waves: int,
    ):
        """`shapes` by the names of arguments; `types`: of inputs, of results, and of offsets."""
        check_sizes(num_waves=num_waves)
        self.shape, self.num_waves, self.is_causal = shape, num_waves, is_causal
        self.group = group_size(shape.num_query_heads, shape.num_kv_heads)
        self.columns = shapes["v_shape"][-1]
        for name, given in shapes.items():
            heads = shape.num_query_heads if name in ("q_shape", "o_shape") else shape.num_kv_heads
            of_keys = name in ("q_shape", "k_shape", "k_cache_shape")
            check_shape(name, given, heads, shape.head_size if of_keys else self.columns)
        self.longest = shape.max_seq_len or shapes["q_shape"][0]
        self.dtype = float_type("input_dtype", types[0])
        self.out = float_type("output_dtype", types[1])
        self.index = size_type("size_dtype", types[2])
        self.types = Types(self.dtype, self.index, self.out)
        first, self.instruction = instructions(mfma_variant)
        self.attention = Attention([H_KV], ROW, N_KV, D_KV, self.dtype, first, **scores)

    def constraints(self) -> list[Any]:
        return _constraints(self.group, self.num_waves, self.instruction)

    def hyperparams(self) -> dict[Any, Any]:
        shape, columns = self.shape, columns_of(self.columns)
        return {
            H: shape.num_query_heads,
            H_KV: shape.num_kv_heads,
            D_Q: shape.head_size,
            D_KV: self.columns,
            BLOCK_ROW: rows_of(self.longest * self.group, self.num_waves, self.instruction),
            BLOCK_N_KV: keys_of(shape.head_size, columns, self.dtype),
            BLOCK_D_KV: columns,
        }

    def prefix(self, rows: Any, cache: tuple[Any, Any], table: Any, visible: Any, bias: Any) -> Any:
        k_of, v_of = _gathered(D_Q), _gathered(D_KV)
        end = keys_visited(PREFIX, WORKGROUP_0 * BLOCK_ROW, NEW * self.group)
        tkw.set_symbol(N_KV, tkw.scalar(end, self.index))

        @tkw.iterate(N_KV, init_args=self.attention.start())
        def over_prefix(*state):
            token = tkw.read(table, mapping=_table_of)
            keys = tkw.read(cache[0], mapping=k_of, mapping_dynamic_vals=(token,))
            values = tkw.read(cache[1], mapping=v_of, mapping_dynamic_vals=(token,))
            return self.attention.step(state, rows, keys, values, visible(0), bias(0))

        return over_prefix

    def new(self, rows: Any, state: Any, k: Any, v: Any, visible: Any, bias: Any) -> Any:
        k_of, v_of = _following(D_Q), _following(D_KV)
        last = ((WORKGROUP_0 + 1) * BLOCK_ROW - 1) // self.group + 1
        last = tkl.Min(NEW, last) if self.is_causal else NEW
        end = keys_visited(last, WORKGROUP_0 * BLOCK_ROW, NEW * self.group)
        tkw.set_symbol(N_KV, tkw.scalar(end, self.index))

        until = self.attention.seen_until(self.group) if self.is_causal else None

        @tkw.iterate(N_KV, init_args=list(state), until=until)
        def over_new(*state):
            seen = self.attention.within(group=self.group) if self.is_causal else visible(PREFIX)
            keys, values = tkw.read(k, mapping=k_of), tkw.read(v, mapping=v_of)
            return self.attention.step(state, rows, keys, values, seen, bias(PREFIX))

        return over_new

    def __call__(
        self,
        q,
        k,
        v,
        k_cache,
        v_cache,
        qo_indptr,
        kv_indptr,
        table,
        c,
        visible=lambda first_key: None,
        bias=lambda first_key: None,
    ):
        """`visible` and `bias` make tiles over rows and keys, of which the first key has this
        position."""
        _length(qo_indptr, Q_START, NEW)
        _length(kv_indptr, KV_START, PREFIX)
        tkw.set_symbol(ROW, tkw.scalar(NEW * self.group, self.index))
        q_of, c_of = _rows_of(self.group)
        rows = tkw.read(q, mapping=q_of)
        state = self.prefix(rows, (k_cache, v_cache), table, visible, bias)
        state = self.new(rows, state, k, v, visible, bias)
        tkw.write(tkw.cast(self.attention.result(state), self.out), c, mapping=c_of)
