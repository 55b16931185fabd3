"""SGLang's `wave` backend: decoding, prompts in chunks, and verification, all as paged attention.

New keys and values are stored in the cache first; then a batch is sequences whose last tokens are
queries. A tree of drafts, which needs a mask, sees its prefix first, then itself. What is not
supported raises NotImplementedError with its name. Lengths and tables stay on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.runtime_context import get_parallel, get_spec

from wave_lang import ops

from .drafts import Drafts

FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


@dataclass
class Metadata:
    """A batch: the pages and lengths of sequences, where their queries start, and upper bounds. The
    lengths of sequences with a tree of drafts are those of their prefixes."""

    table: torch.Tensor
    lengths: torch.Tensor
    starts: torch.Tensor
    max_q: int
    max_k: int
    tree: Drafts | None = None


def _unsupported(what: str, hint: str = "") -> NotImplementedError:
    return NotImplementedError(f"the wave backend does not support {what}{hint and ': ' + hint}")


class WaveBackend(AttentionBackend):
    """Attention by Wave kernels: page sizes, 8-bit caches, windows, sinks, MLA, verification of
    chains and trees, and graphs."""

    needs_cpu_seq_lens = False  # they only make bounds tighter
    extend_dummy_seqs_capped_by_req_pool = True

    def __init__(self, runner: Any, skip_prefill: bool = False):
        super().__init__()
        if skip_prefill:
            raise _unsupported("drafting", "choose another --speculative-draft-attention-backend")
        self.pool, self.device = runner.token_to_kv_pool, runner.device
        self.req_to_token = runner.req_to_token_pool.req_to_token
        self.page_size = getattr(runner, "page_size", 1) or 1
        self.context = int(runner.model_config.context_len)
        spec = get_spec()
        self.drafts = spec.speculative_num_draft_tokens or 0
        self.topk = getattr(spec, "speculative_eagle_topk", None) or 0
        self.batch_invariant = bool(
            getattr(runner.server_args, "enable_deterministic_inference", False)
        )
        self.metadata: Metadata | None = None
        self._check_pools(runner)

    def _check_pools(self, runner: Any) -> None:
        allocator = getattr(runner, "token_to_kv_pool_allocator", None)
        if hasattr(self.pool, "translate_loc_from_full_to_swa"):
            raise _unsupported("a separate pool for sliding windows", "--disable-hybrid-swa-memory")
        if getattr(allocator, "translate_kv_loc", None) is not None:
            raise _unsupported("a unified pool, whose tokens have virtual numbers")
        if getattr(get_parallel(), "attn_dcp_size", 1) > 1:
            raise _unsupported("context parallelism in decoding (`attn_dcp_size`)")

    # Batches

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """A batch outside graphs: tensors are made for it."""
        lengths, starts, max_q = self._lengths(forward_batch)
        max_k = self._max_k(forward_batch, max_q)
        columns = -(-max_k // self.page_size)
        table = self._pages(forward_batch.req_pool_indices, columns)
        self.metadata = Metadata(table, lengths, starts, max_q, max_k)
        if self._is_tree(forward_batch):
            self.metadata.tree = Drafts.make(forward_batch.batch_size, max_q, self.device)
            self.metadata.tree.fill(lengths, forward_batch.spec_info.custom_mask)

    def _lengths(self, batch: Any) -> tuple[Any, Any, int]:
        """(lengths, where queries start, the most of them)."""
        mode, count = batch.forward_mode, batch.batch_size
        if mode.is_decode_or_idle():
            spec = batch.spec_info
            if spec is not None and getattr(spec, "kv_indptr", None) is not None:
                raise _unsupported(
                    "drafting", "choose another --speculative-draft-attention-backend"
                )
            return batch.seq_lens.to(torch.int32), self._every(count, 1), 1
        if mode.is_target_verify():
            each = getattr(batch.spec_info, "draft_token_num", None) or self.drafts
            lengths = batch.seq_lens if self._is_tree(batch) else batch.seq_lens + each
            return lengths.to(torch.int32), self._every(count, each), each
        if getattr(mode, "is_dllm_extend", lambda: False)():
            raise _unsupported("diffusion models (DLLM_EXTEND)")
        new = batch.extend_seq_lens
        starts = torch.zeros(count + 1, dtype=torch.int32, device=new.device)
        torch.cumsum(new, 0, dtype=torch.int32, out=starts[1:])
        given = batch.extend_seq_lens_cpu
        most = max(given, default=0) if given is not None else batch.input_ids.shape[0]
        return (batch.extend_prefix_lens + new).to(torch.int32), starts, int(most)

    def _every(self, count: int, each: int) -> Any:
        return torch.arange(count + 1, dtype=torch.int32, device=self.device) * each

    def _max_k(self, batch: Any, max_q: int) -> int:
        known = batch.seq_lens_cpu
        if known is None or len(known) == 0:
            return self.context + max_q
        return int(known.max()) + max_q

    def _pages(self, requests: Any, columns: int) -> Any:
        """The pages of requests. Tokens of a page are consecutive: the first gives its number."""
        rows = self.req_to_token[:, : columns * self.page_size : self.page_size]
        return (rows[requests.long()] // self.page_size).to(torch.int32)

    def _is_tree(self, batch: Any) -> bool:
        return batch.forward_mode.is_target_verify() and self.topk > 1

    # Graphs

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """Allocates what graphs read: their addresses do not change."""
        columns = -(-self.req_to_token.shape[1] // self.page_size)
        made = {"dtype": torch.int32, "device": self.device}
        self.graph_table = torch.zeros(max_bs, columns, **made)
        self.graph_lengths = torch.ones(max_bs, **made)
        self.graph_starts = {each: self._every(max_bs, each) for each in {1, max(self.drafts, 1)}}
        self.graph_tree = None
        if self.topk > 1:
            self.graph_tree = Drafts.make(max_bs, self.drafts, self.device)

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        """Writes a batch into the tensors that graphs read."""
        mode, count = forward_batch.forward_mode, forward_batch.batch_size
        if not (mode.is_decode_or_idle() or mode.is_target_verify()):
            raise _unsupported(f"graphs of {mode}", "prompts run outside graphs")
        lengths, _, max_q = self._lengths(forward_batch)
        self.graph_lengths[:count].copy_(lengths[:count])
        pages = self._pages(forward_batch.req_pool_indices[:count], self.req_to_token.shape[1])
        self.graph_table[:count].copy_(pages[:, : self.graph_table.shape[1]])
        tree = None
        if self._is_tree(forward_batch):
            tree = self.graph_tree.of(count)
            tree.fill(lengths[:count], forward_batch.spec_info.custom_mask)
        if in_capture:
            self.metadata = Metadata(
                self.graph_table[:count],
                self.graph_lengths[:count],
                self.graph_starts[max_q][: count + 1],
                max_q,
                self.context + max_q,
                tree,
            )

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        return 1

    # Layers

    def forward_decode(
        self,
        q: Any,
        k: Any,
        v: Any,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        sinks: Any = None,
        **more: Any,
    ) -> Any:
        return self._forward(q, k, v, layer, forward_batch, save_kv_cache, sinks, more)

    def forward_extend(
        self,
        q: Any,
        k: Any,
        v: Any,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        sinks: Any = None,
        **more: Any,
    ) -> Any:
        return self._forward(q, k, v, layer, forward_batch, save_kv_cache, sinks, more)

    def _forward(
        self, q: Any, k: Any, v: Any, layer: Any, batch: Any, save: bool, sinks: Any, more: dict
    ) -> Any:
        _check_layer(layer, more)
        heads, size, columns = layer.tp_q_head_num, layer.qk_head_dim, layer.v_head_dim
        rows = q.reshape(-1, heads, size)
        o = rows.new_zeros(rows.shape[0], heads, columns)  # padding is not computed
        if save and k is not None:
            self._store(layer, batch.out_cache_loc, k, v)
        if self.metadata.tree is not None:
            self._over_tree(rows, k, v, layer, sinks, o)
        elif self._has_keys_of_its_own(layer):
            self._over_new(rows, k, v, layer, batch, sinks, o)
        else:
            self._cached(rows, layer, self._options(layer, sinks) | {"out": o})
        return o.view(rows.shape[0], heads * columns)

    def _store(self, layer: Any, places: Any, k: Any, v: Any) -> None:
        if layer.k_scale is None:
            self.pool.set_kv_buffer(layer, places, k, v)
        elif self._is_latent(layer):
            self.pool.set_kv_buffer(layer, places, k / layer.k_scale, v)
        else:  # the pool divides its arguments in place
            scales = (layer.k_scale, layer.v_scale)
            self.pool.set_kv_buffer(layer, places, k.clone(), v.clone(), *scales)

    def _is_latent(self, layer: Any) -> bool:
        """Whether values are columns of keys, as in MLA."""
        return layer.v_head_dim < layer.qk_head_dim and layer.tp_k_head_num == 1

    def _has_keys_of_its_own(self, layer: Any) -> bool:
        """MLA's prompts have keys and values for each head, which are not what the cache has."""
        cache = self.pool.get_key_buffer(layer.layer_id)
        return tuple(cache.shape[1:]) != (layer.tp_k_head_num, layer.qk_head_dim)

    def _options(self, layer: Any, sinks: Any) -> dict[str, Any]:
        kind = _kind_of(layer)
        window = layer.sliding_window_size
        window = -1 if window is None or window < 0 else window
        return {
            "causal": kind == "decoder",
            "window": (window, 0) if kind == "decoder" else (window, window),
            "scale": layer.scaling,
            "softcap": float(layer.logit_cap or 0.0),
            "sinks": None if sinks is None else sinks.float(),
            "batch_invariant": self.batch_invariant,
        }

    def _paged(self, buffer: Any) -> Any:
        """A cache of tokens as pages."""
        if self.page_size == 1:
            return buffer[:, None]
        whole = buffer.shape[0] // self.page_size
        return buffer[: whole * self.page_size].view(whole, self.page_size, *buffer.shape[1:])

    def _cached(self, q: Any, layer: Any, options: dict[str, Any]) -> tuple[Any, Any]:
        """(o, lse) over what is in the cache."""
        keys = self.pool.get_key_buffer(layer.layer_id)
        values = self.pool.get_value_buffer(layer.layer_id)
        if keys.dtype in FP8:
            one = torch.ones((), device=keys.device)
            options["k_scale"] = one if layer.k_scale is None else layer.k_scale.float()
            scale = layer.k_scale if self._is_latent(layer) else layer.v_scale
            options["v_scale"] = one if scale is None else scale.float()
        caches, data = (self._paged(keys), self._paged(values)), self.metadata
        batch = (data.table, data.lengths, data.starts, data.max_q, data.max_k)
        return ops.attention_paged(q, *caches, *batch, **options)

    def _over_new(self, q: Any, k: Any, v: Any, layer: Any, batch: Any, sinks: Any, o: Any) -> None:
        given = getattr(batch, "extend_prefix_lens_cpu", None)
        if given is None or any(given):
            raise _unsupported("MLA with a prefix in keys and values of each head")
        k = k.reshape(-1, layer.tp_k_head_num, layer.qk_head_dim)
        v = v.reshape(-1, layer.tp_k_head_num, layer.v_head_dim)
        data = self.metadata
        most = (data.max_q, data.max_q)
        options = self._options(layer, sinks)
        ops.attention_varlen(q, k, v, data.starts, data.starts, *most, out=o, **options)

    def _over_tree(self, q: Any, k: Any, v: Any, layer: Any, sinks: Any, o: Any) -> None:
        """The prefix, which all drafts see, then the drafts."""
        if k is None:
            raise _unsupported("a tree of drafts whose `k` is None")
        options, data = self._options(layer, sinks), self.metadata
        left = options["window"][0]
        if 0 <= left < data.max_q:
            raise _unsupported(f"`sliding_window_size` {left} with {data.max_q} drafts, a tree")
        scores = {"scale": options["scale"], "softcap": options["softcap"]}
        options["causal"] = False
        # A prefix is followed by drafts, while the op has queries at its end.
        options["window"] = (left - data.max_q if left >= 0 else -1, -1)
        k = k.reshape(-1, layer.tp_k_head_num, layer.qk_head_dim)
        v = v.reshape(-1, layer.tp_k_head_num, layer.v_head_dim)
        prefix = self._cached(q, layer, options)
        ops.merge_state(*prefix, *data.tree.attend(q, k, v, data.starts, **scores), out=o)


def _kind_of(layer: Any) -> str:
    kind = getattr(layer, "attn_type", "decoder")
    return getattr(kind, "value", kind)


def _check_layer(layer: Any, more: dict[str, Any]) -> None:
    if layer.is_cross_attention:
        raise _unsupported("`is_cross_attention`")
    if _kind_of(layer) not in ("decoder", "encoder_only"):
        raise _unsupported(f"`attn_type` {_kind_of(layer)}")
    if getattr(layer, "logit_capping_method", "tanh") != "tanh":
        raise _unsupported(f"`logit_capping_method` {layer.logit_capping_method}")
    for name, value in more.items():
        if value is not None:
            raise _unsupported(f"`{name}`")
