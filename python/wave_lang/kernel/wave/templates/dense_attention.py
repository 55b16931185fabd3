"""Attention over whole tensors, which the kernels of several modules share: the order of dimensions
and what is added to scores differ.

The order of a tensor's dimensions is a word: B batch, H head, S position, D element of a head.
"""

from collections.abc import Callable
from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_common import *
from .attention_loop import Attention
from .attention_tiles import *

GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
_QUERY = {"B": B, "H": H, "S": N_Q, "D": D_Q}
_RESULT = {**_QUERY, "D": D_KV}
_KEY = {"B": B, "H": H_KV, "S": N_KV, "D": D_Q}
_VALUE = {**_KEY, "D": D_KV}


def shared_heads(dims: list[Any], group: int) -> Any:
    """Keys or values as each query head sees them."""
    at = [tkw.IndexMapping.iterator(n) for n in range(len(dims))]
    places = {d: i // group if d == H_KV else i for d, i in zip(dims, at)}
    results = {H if d == H_KV else d: i for d, i in zip(dims, at)}
    return tkw.IndexMapping(len(dims), inputs=places, outputs=results)


def keys_seen(is_causal: bool, window: int) -> dict[str, Any]:
    """Where the loop over keys begins and how many iterations it has: only tiles with keys that a
    row of the workgroup sees."""
    if not is_causal:
        return {}
    end = tkl.Min(N_KV, (WORKGROUP_0 + 1) * BLOCK_N_Q)
    before = tkl.Max(WORKGROUP_0 * BLOCK_N_Q - window, 0) if window >= 0 else 0
    first = tkl.Min(before, N_KV) // BLOCK_N_KV if window >= 0 else 0
    return {"iters": tkl.ceiling(end / BLOCK_N_KV) - first, "start": first * BLOCK_N_KV}


class Dense:
    """A kernel's types and constraints, and its body."""

    def __init__(
        self,
        shape: AttentionShape,
        mfma_variant: Any,
        order: str,
        *,
        dtype: Any,
        out_dtype: Any = tkl.f32,
        scores: Callable[[Any], Any],
        product_dtype: Any = None,
        v_order: str | None = None,
        is_causal: bool = False,
        window: int = -1,
        num_waves: int = 4,
        shift: int = 0,
    ):
        self.shape, self.out_dtype, self.num_waves = shape, out_dtype, num_waves
        self.dtype, self.product_dtype = dtype, product_dtype or dtype
        self.is_causal, self.window = is_causal, window if is_causal else -1
        self.group = group_size(shape.num_query_heads, shape.num_kv_heads)
        check_sizes(head_size=shape.head_size, head_size_kv=shape.head_size_kv, num_waves=num_waves)
        self.batch = [B, H] if "B" in order else [H]
        first, self.instruction = instructions(mfma_variant)
        self.attention = Attention(
            self.batch, N_Q, N_KV, D_KV, self.product_dtype, first, scores, shift
        )
        self.k_dims = [_KEY[d] for d in order]
        self.v_dims = [_VALUE[d] for d in v_order or order]
        c_dims = [_RESULT[d] for d in order]
        self.q = tkl.Memory[(*(_QUERY[d] for d in order), GLOBAL, dtype)]
        self.k = tkl.Memory[(*self.k_dims, SHARED, dtype)]
        self.v = tkl.Memory[(*self.v_dims, SHARED, dtype)]
        self.c = tkl.Memory[(*c_dims, GLOBAL, out_dtype)]

    def constraints(self) -> list[Any]:
        return [
            tkw.WorkgroupConstraint(N_Q, BLOCK_N_Q, 0),
            tkw.WorkgroupConstraint(D_KV, BLOCK_D_KV, 1),
            *(tkw.WorkgroupConstraint(d, 1, 2 + n) for n, d in enumerate(self.batch)),
            tkw.TilingConstraint(N_KV, BLOCK_N_KV, **keys_seen(self.is_causal, self.window)),
            tkw.WaveConstraint(N_Q, BLOCK_N_Q / self.num_waves),
            tkw.WaveConstraint(D_KV, BLOCK_D_KV),
            tkw.HardwareConstraint(
                threads_per_wave=64,
                mma_type=self.instruction,
                vector_shapes={d: 0 for d in self.batch},
            ),
        ]

    def _operand(self, memory: Any, mapping: Any = None) -> Any:
        value = tkw.read(memory, mapping=mapping)
        return value if self.product_dtype == self.dtype else tkw.cast(value, self.product_dtype)

    def run(self, q: Any, k: Any, v: Any, c: Any, visible=None, bias=None, factor: float = 1.0):
        """The body. `visible` and `bias` make a tile over rows and keys in each iteration; the
        result is multiplied by `factor`."""
        rows = self._operand(q)
        k_of, v_of = (shared_heads(dims, self.group) for dims in (self.k_dims, self.v_dims))

        until = None if visible or not self.is_causal else self.attention.seen_until()

        @tkw.iterate(N_KV, init_args=self.attention.start(), until=until)
        def loop(*state):
            keys, values = self._operand(k, k_of), self._operand(v, v_of)
            seen = self.attention.within(self.window) if self.is_causal else None
            seen = visible() if visible else seen
            return self.attention.step(state, rows, keys, values, seen, bias and bias())

        result = self.attention.result(loop)
        result = result if factor == 1 else result * factor
        tkw.write(tkw.cast(result, self.out_dtype), c)

    def hyperparams(self) -> dict[Any, Any]:
        shape, columns = self.shape, columns_of(self.shape.head_size_kv)
        rows = rows_of(shape.query_seq_len or 1 << 30, self.num_waves, self.instruction)
        sizes = {
            B: shape.batch_size or shape.num_seqs or 1,
            H: shape.num_query_heads,
            H_KV: shape.num_kv_heads,
            N_Q: shape.query_seq_len,
            N_KV: shape.kv_seq_len,
            D_Q: shape.head_size,
            D_KV: shape.head_size_kv,
            BLOCK_N_Q: rows,
            BLOCK_N_KV: keys_of(shape.head_size, columns, self.dtype),
            BLOCK_D_KV: columns,
        }
        return sizes

    def returned(self, kernel: Any, dynamic_dims: bool) -> tuple[Any, dict[Any, Any], list[Any]]:
        """What templates return. With `dynamic_dims`, the numbers of batches and positions are
        those of the tensors."""
        dynamic = [B] * (B in self.batch) + [N_Q, N_KV] if dynamic_dims else []
        sizes = self.hyperparams().items()
        subs = {d: v for d, v in sizes if d not in dynamic and v is not None}
        return kernel, subs, dynamic
