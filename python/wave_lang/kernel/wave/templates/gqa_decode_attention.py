"""Attention of one query per batch in two phases, in which query heads share key heads."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_common import *
from .attention_loop import Attention, combine_splits, scores_of
from .attention_tiles import *
from .decode_attention import split_loop, take_split

U = tkl.sym.U
HEAD, BLOCK_HEAD = tkl.sym.HEAD, tkl.sym.BLOCK_HEAD  # a query head, among those of a key head
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE


def _phase_0(variants: tuple[Any, Any], group: int, scores: Any) -> Any:
    attention = Attention([B, H_KV], HEAD, N_KV, D_KV, tkl.f16, variants[0], scores)
    many = group > 16
    constraints = [
        tkw.WorkgroupConstraint(HEAD, BLOCK_HEAD, 0),
        tkw.WorkgroupConstraint(U, 1, 1),
        tkw.WorkgroupConstraint(D_KV, BLOCK_D_KV, 2),
        tkw.WorkgroupConstraint(B, 1, 3),
        tkw.WorkgroupConstraint(H_KV, 1, 4),
        split_loop(N_KV, BLOCK_N_KV),
        # Waves share the keys of an iteration, unless there are heads for each of them.
        tkw.WaveConstraint(HEAD, 32) if many else tkw.WaveConstraint(N_KV, BLOCK_N_KV / 2),
        tkw.HardwareConstraint(
            threads_per_wave=64, mma_type=variants[1], vector_shapes={B: 0, H_KV: 0, U: 0}
        ),
    ]
    i, j, k_, l_ = (tkw.IndexMapping.iterator(n) for n in range(4))
    q_of = tkw.IndexMapping(
        4,
        inputs={B: i, H_Q: j * group + k_, D_Q: l_},
        outputs={B: i, H_KV: j, HEAD: k_, D_Q: l_},
    )
    result_of = tkw.IndexMapping(
        4,
        inputs={B: i, H_KV: j, D_KV: k_, HEAD: l_},
        outputs={U: WORKGROUP_1, B: i, D_KV: k_, H_Q: j * group + l_},
    )
    sum_of = tkw.IndexMapping(
        3, inputs={B: i, H_KV: j, HEAD: k_}, outputs={U: WORKGROUP_1, B: i, H_Q: j * group + k_}
    )

    @tkw.wave(constraints)
    def phase_0(
        q: tkl.Memory[B, H_Q, D_Q, GLOBAL, tkl.f16],
        k: tkl.Memory[B, N_KV, H_KV, D_Q, SHARED, tkl.f16],
        v: tkl.Memory[B, N_KV, H_KV, D_KV, SHARED, tkl.f16],
        output: tkl.Memory[U, B, D_KV, H_Q, GLOBAL, tkl.f32],
        output_max: tkl.Memory[U, B, H_Q, GLOBAL, tkl.f32],
    ):
        take_split(N_KV, WORKGROUP_1, U)
        rows = tkw.read(q, mapping=q_of)

        @tkw.iterate(N_KV, init_args=attention.start())
        def loop(*state):
            return attention.step(state, rows, tkw.read(k), tkw.read(v))

        tkw.write(attention.result(loop), output, mapping=result_of)
        tkw.write(attention.log_sum(loop), output_max, mapping=sum_of)

    return phase_0


def _phase_1() -> Any:
    constraints = [
        tkw.WorkgroupConstraint(H_Q, 16, 0),
        tkw.WorkgroupConstraint(D_KV, 64, 1),
        tkw.WorkgroupConstraint(B, 1, 2),
        tkw.TilingConstraint(U, 1),
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={B: 0, U: 0}),
    ]

    @tkw.wave(constraints)
    def phase_1(
        logits: tkl.Memory[U, B, D_KV, H_Q, GLOBAL, tkl.f32],
        logits_max: tkl.Memory[U, B, H_Q, GLOBAL, tkl.f32],
        output: tkl.Memory[B, H_Q, D_KV, GLOBAL, tkl.f16],
    ):
        mean, _ = combine_splits(logits, logits_max, U, [B, H_Q], [B, D_KV, H_Q])
        tkw.write(tkw.cast(mean, tkl.f16), output)

    return phase_1


def get_gqa_decode_attention_kernels(
    shape: AttentionShape,
    mfma_variant: Any,
    num_kv_splits: int,
    k_shape: tuple[int, ...],
    v_shape: tuple[int, ...],
    layer_scaling: float | None = None,
) -> tuple[Any, Any, dict[Any, Any], dict[Any, Any]]:
    """`phase_0(q, k, v, results, log_sums)`, `phase_1(results, log_sums, output)`, and the values
    of their symbols.

    q is [batches, query heads, head size], k and v [batches, keys, key heads, head size], the
    results [splits, batches, head size, query heads], and the logarithms to base 2 of their sums
    [splits, batches, query heads].
    """
    group = group_size(shape.num_query_heads, shape.num_kv_heads)
    check_sizes(num_kv_splits=num_kv_splits, head_size=shape.head_size)
    for name, given, size in (
        ("k_shape", k_shape, shape.head_size),
        ("v_shape", v_shape, shape.head_size_kv),
    ):
        expected = (k_shape[0], k_shape[1], shape.num_kv_heads, size)
        if tuple(given) != expected:
            raise ValueError(f"`{name}` is {tuple(given)}, expected {expected}")
    columns = columns_of(shape.head_size_kv)
    sizes = {B: k_shape[0], H_Q: shape.num_query_heads, D_KV: shape.head_size_kv, U: num_kv_splits}
    symbols_0 = {
        **sizes,
        H_KV: shape.num_kv_heads,
        HEAD: group,
        N_KV: k_shape[1],
        D_Q: shape.head_size,
        BLOCK_HEAD: 16 if group <= 16 else min(round_up(group, 32), 64),
        BLOCK_N_KV: keys_of(shape.head_size, columns, tkl.f16),
        BLOCK_D_KV: columns,
    }
    scores = scores_of(shape.head_size, layer_scaling, 0.0)
    phase_0 = _phase_0(instructions(mfma_variant), group, scores)
    return phase_0, _phase_1(), symbols_0, sizes
