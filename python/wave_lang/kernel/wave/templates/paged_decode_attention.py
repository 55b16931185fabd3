"""Attention of one query per sequence to a cache, through a table of tokens. Phase 0 divides the
keys of each sequence into splits; phase 1 combines their results.

Callers give the number of splits that scratch memory is for. As few of them are used as give all
compute units work: what a workgroup does before and after its loop is not overlapped with it.
"""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_loop import Attention, combine_splits, scaled_by, scores_of
from .attention_tiles import *

S = tkl.sym.S  # sequences
H, H_KV = tkl.sym.H, tkl.sym.H_KV
HEAD = tkl.sym.HEAD  # a query head, among those of a key head
U = tkl.sym.U  # splits
POOL, TABLE = tkl.sym.POOL, tkl.sym.TABLE
N_KV, D_Q, D_KV = tkl.sym.N_KV, tkl.sym.D_Q, tkl.sym.D_KV
D_REST = tkl.sym.D_REST  # the columns of keys that values do not have
START, LENGTH, SPLITS = tkl.sym.START, tkl.sym.LENGTH, tkl.sym.SPLITS
BLOCK_HEAD, BLOCK_N_KV, BLOCK_D_KV = tkl.sym.BLOCK_HEAD, tkl.sym.BLOCK_N_KV, tkl.sym.BLOCK_D_KV
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE

ENOUGH = 264  # workgroups: two for each multiprocessor of a large GPU
ENOUGH_LATENT = 132  # which has room for one of these

paged_decode_attention_shape = namedtuple(
    "paged_decode_attention_shape",
    ["num_query_heads", "num_kv_heads", "head_size", "head_size_kv", "block_size", "num_seqs"],
)

_i, _j, _k, _l = (tkw.IndexMapping.iterator(n) for n in range(4))
_next = tkw.IndexMapping(1, inputs={S: _i + 1}, outputs={S: _i})
_ends = tkl.Memory[S, GLOBAL, tkl.i32, tkl.MemoryLayout(shape=[S + 1])]
_table_of = tkw.IndexMapping(1, inputs={TABLE: _i + START}, outputs={N_KV: _i})


def get_paged_decode_intermediate_arrays_shapes(
    shape: Any, num_kv_splits: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of what phase 0 leaves for phase 1, both f32: results, and the logarithms to base
    2 of their sums."""
    lse = (num_kv_splits, shape.num_seqs, shape.num_query_heads)
    return (*lse, shape.head_size_kv), lse


@dataclass(frozen=True)
class Tiles:
    """How many heads, keys and columns a workgroup has, and how many workgroups a sequence needs for
    each split."""

    group: int
    heads: int
    keys: int
    columns: int
    latent: bool  # values may be the first columns of keys: both in the same tiles of columns
    of_sequence: int

    def used(self) -> Any:
        """How many splits are used. H200, 64 sequences of 4096 keys, us: 32 heads, 8 of keys, with 16
        splits 373, 8 323, 4 295, 2 278, 1 270; latent keys, with 4 splits 282, 2 256, 1 246."""
        workgroups = tkl.Max(S, 1) * self.of_sequence
        enough = ENOUGH_LATENT // workgroups if self.latent else tkl.ceiling(ENOUGH / workgroups)
        return tkl.Min(U, tkl.Max(enough, 1))


def _tiles(shape: Any, dtype: Any) -> Tiles:
    group = group_size(shape.num_query_heads, shape.num_kv_heads)
    size, values = shape.head_size, shape.head_size_kv
    heads, columns = min(round_up(group, 16), 64), columns_of(values)
    keys = keys_of(size, columns, dtype)
    latent = heads == 64 and is_latent(size, values, dtype)
    if latent:
        columns, keys = values, 64
    number = -(-group // heads) * -(-values // columns) * shape.num_kv_heads
    return Tiles(group, heads, keys, columns, latent, number)


def _sequence(ends: Any, tiles: Tiles) -> None:
    """Sets START and LENGTH of a workgroup's sequence, and SPLITS, how many splits have keys."""
    first = tkw.read(ends)
    tkw.set_symbol(START, first)
    tkw.set_symbol(LENGTH, tkw.read(ends, mapping=_next) - first)
    tkw.set_symbol(SPLITS, tkw.scalar(tkl.Min(LENGTH, tiles.used()), tkl.i32))


def _keys_before(split: Any) -> Any:
    """How many keys the splits before this one have. From SPLITS on, splits have none."""
    return tkl.Min(LENGTH * split // tkl.Max(SPLITS, 1), LENGTH)


def _waves(tiles: Tiles) -> Any:
    """Waves share the keys of an iteration, unless there are heads for each of them: few, so that a
    compute unit has several workgroups. If the sums of all columns need the registers of all waves, they
    share keys as well."""
    if tiles.latent:
        return tkw.WaveConstraint(N_KV, BLOCK_N_KV / 4)
    many = tiles.group > 16
    return tkw.WaveConstraint(HEAD, 16) if many else tkw.WaveConstraint(N_KV, BLOCK_N_KV / 2)


def _phase_0_constraints(tiles: Tiles, instruction: Any) -> list[Any]:
    return [
        tkw.WorkgroupConstraint(S, 1, 0),
        tkw.WorkgroupConstraint(U, 1, 1, iters=tiles.used()),
        tkw.WorkgroupConstraint(HEAD, BLOCK_HEAD, 2),
        tkw.WorkgroupConstraint(H_KV, 1, 3),
        tkw.WorkgroupConstraint(D_KV, BLOCK_D_KV, 4),
        tkw.TilingConstraint(N_KV, BLOCK_N_KV),
        _waves(tiles),
        tkw.HardwareConstraint(
            threads_per_wave=64, mma_type=instruction, vector_shapes={S: 0, H_KV: 0, U: 0}
        ),
    ]


def _key_parts(tiles: Tiles, rest: int) -> dict[Any, Any]:
    """The dimensions that the columns of keys are divided into, and where they begin."""
    if not tiles.latent:
        return {D_Q: 0}
    return {D_KV: 0, D_REST: D_KV} if rest else {D_KV: 0}


def _cached(memory_columns: Any, columns: Any, first: Any = 0) -> Any:
    """Where keys or values are, by the token of each."""
    return tkw.IndexMapping(
        3,
        inputs={POOL: tkw.IndexMapping.dynamic_val(0), H_KV: _i, memory_columns: _k + first},
        outputs={H_KV: _i, N_KV: _j, columns: _k},
        dynamic_val_mappings={N_KV: _j},
    )


def _query(group: int, columns: Any, first: Any) -> Any:
    return tkw.IndexMapping(
        4,
        inputs={S: _i, H: _j * group + _k, D_Q: _l + first},
        outputs={S: _i, H_KV: _j, HEAD: _k, columns: _l},
    )


def _phase_0(tiles: Tiles, instruction: Any, attention: Attention, rest: int, splits: int) -> Any:
    """`rest`: columns of keys that values do not have."""
    parts, group, dtype = _key_parts(tiles, rest), tiles.group, attention.dtype
    q_of = [_query(group, d, first) for d, first in parts.items()]
    k_of = [_cached(D_Q, d, first) for d, first in parts.items()]
    v_of = _cached(D_KV, D_KV)
    result_of = tkw.IndexMapping(
        4,
        inputs={S: _i, H_KV: _j, D_KV: _k, HEAD: _l},
        outputs={U: WORKGROUP_1, S: _i, H: _j * group + _l, D_KV: _k},
    )
    sum_of = tkw.IndexMapping(
        3,
        inputs={S: _i, H_KV: _j, HEAD: _k},
        outputs={U: WORKGROUP_1, S: _i, H: _j * group + _k},
    )

    @tkw.wave(_phase_0_constraints(tiles, instruction))
    def phase_0(
        q: tkl.Memory[S, H, D_Q, GLOBAL, dtype],
        k: tkl.Memory[POOL, H_KV, D_Q, SHARED, dtype],
        v: tkl.Memory[POOL, H_KV, D_KV, SHARED, dtype],
        request_indices: _ends,
        kv_indices: tkl.Memory[TABLE, GLOBAL, tkl.i32],
        output: tkl.Memory[U, S, H, D_KV, GLOBAL, tkl.f32, _scratch(splits, H, D_KV)],
        output_max: tkl.Memory[U, S, H, GLOBAL, tkl.f32, _scratch(splits, H)],
    ):
        _sequence(request_indices, tiles)
        before, end = _keys_before(WORKGROUP_1), _keys_before(WORKGROUP_1 + 1)
        tkw.set_symbol(N_KV, tkw.scalar(end - before, tkl.i32))
        tkw.set_symbol(START, tkw.scalar(START + before, tkl.i32))
        rows = [tkw.read(q, mapping=of) for of in q_of]

        @tkw.iterate(N_KV, init_args=attention.start())
        def loop(*state):
            at = tkw.read(kv_indices, mapping=_table_of)
            keys = [tkw.read(k, mapping=of, mapping_dynamic_vals=(at,)) for of in k_of]
            values = tkw.read(v, mapping=v_of, mapping_dynamic_vals=(at,))
            return attention.step(state, rows, keys, values)

        tkw.write(attention.result(loop), output, mapping=result_of)
        log_sum = attention.log_sum(loop)

        # One of the workgroups that divide the columns writes them.
        @tkw.conditional(WORKGROUP_4 < 1)
        def first():
            tkw.write(log_sum, output_max, mapping=sum_of)

    return phase_0


def _scratch(splits: int, *others: Any) -> tkl.MemoryLayout:
    """The layout of scratch memory, which may be for more sequences than there are."""
    return tkl.MemoryLayout(shape=[splits, None, *others])


def _phase_1(tiles: Tiles, out_dtype: Any, splits: int) -> Any:
    constraints = [
        tkw.WorkgroupConstraint(S, 1, 0),
        tkw.WorkgroupConstraint(H, 1, 1),
        tkw.WorkgroupConstraint(D_KV, D_KV, 2),
        tkw.TilingConstraint(U, 1),
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={S: 0, H: 0, U: 0}),
    ]

    @tkw.wave(constraints)
    def phase_1(
        logits: tkl.Memory[U, S, H, D_KV, GLOBAL, tkl.f32, _scratch(splits, H, D_KV)],
        logits_max: tkl.Memory[U, S, H, GLOBAL, tkl.f32, _scratch(splits, H)],
        request_indices: _ends,
        output: tkl.Memory[S, H, D_KV, GLOBAL, out_dtype],
    ):
        _sequence(request_indices, tiles)
        tkw.set_symbol(U, tkw.scalar(SPLITS, tkl.i32))
        mean, _ = combine_splits(logits, logits_max, U, [S, H], [S, H, D_KV])
        tkw.write(tkw.cast(mean, out_dtype), output)

    return phase_1


def get_paged_decode_attention_kernels(
    shape: Any,
    mfma_variant: Any,
    num_kv_splits: int,
    input_dtype: Any = tkl.f16,
    output_dtype: Any = tkl.f16,
    layer_scaling: float | None = None,
    logit_cap: float = 0.0,
) -> tuple[Any, Any, dict[Any, Any], dict[Any, Any], list[Any], list[Any]]:
    """`phase_0(q, k, v, kv_indptr, kv_indices, results, log_sums)` and
    `phase_1(results, log_sums, kv_indptr, output)`, the values of their symbols, and their dynamic
    symbols.

    The keys of sequence s are the tokens `kv_indices[kv_indptr[s]:kv_indptr[s + 1]]` of the cache.
    Scratch memory may be for more sequences than q has, and has room for `num_kv_splits`, of which
    few are used if there are many sequences; `kv_indices` may be longer than it is used.
    """
    check_sizes(
        num_kv_splits=num_kv_splits, head_size=shape.head_size, head_size_kv=shape.head_size_kv
    )
    dtype = float_type("input_dtype", input_dtype)
    out_dtype = float_type("output_dtype", output_dtype)
    tiles, (first, instruction) = _tiles(shape, dtype), instructions(mfma_variant)
    scores = scaled_by(scores_of(shape.head_size, layer_scaling, logit_cap), dtype)
    attention = Attention([S, H_KV], HEAD, N_KV, D_KV, dtype, first, **scores)
    rest = shape.head_size - shape.head_size_kv
    phase_0 = _phase_0(tiles, instruction, attention, rest, num_kv_splits)
    phase_1 = _phase_1(tiles, out_dtype, num_kv_splits)
    heads = {H: shape.num_query_heads, D_KV: shape.head_size_kv, U: num_kv_splits}
    symbols_0 = {
        **heads,
        H_KV: shape.num_kv_heads,
        HEAD: tiles.group,
        D_Q: shape.head_size,
        **({D_REST: rest} if tiles.latent and rest else {}),
        BLOCK_HEAD: tiles.heads,
        BLOCK_N_KV: tiles.keys,
        BLOCK_D_KV: tiles.columns,
    }
    return phase_0, phase_1, symbols_0, heads, [S, POOL, TABLE], [S]
