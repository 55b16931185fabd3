"""vLLM's attention backend for MLA: keys are latent vectors, which all heads share, and their first
columns are the values.

vLLM's layer moves queries of tokens that decode into the space of latent vectors, and results out
of it. Here all tokens are such tokens, also those of prompts, so that any batch can be captured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from vllm import envs
from vllm.v1.attention.backend import AttentionType, MLAAttentionImpl

from wave_lang import ops

from .vllm_backend import FP8, WaveBackend, WaveBuilder, WaveMetadata, unsupported


class WaveMLABackend(WaveBackend):
    """What the kernels can do for MLA."""

    # vLLM's layer reads every 8-bit cache as e4m3.
    supported_kv_cache_dtypes: ClassVar[list[Any]] = [
        name for name in WaveBackend.supported_kv_cache_dtypes if name != "fp8_e5m2"
    ]

    @staticmethod
    def get_impl_cls() -> type[WaveMLAImpl]:
        return WaveMLAImpl

    @staticmethod
    def get_builder_cls() -> type[WaveMLABuilder]:
        return WaveMLABuilder

    @classmethod
    def is_mla(cls) -> bool:
        return True

    @classmethod
    def supports_sink(cls) -> bool:
        return False

    @classmethod
    def supports_non_causal(cls) -> bool:
        return False


@dataclass
class WaveMLAMetadata(WaveMetadata):
    """A batch whose tokens all decode, as far as vLLM's layer is concerned."""

    num_prefills: ClassVar[int] = 0
    prefill: ClassVar[None] = None

    @property
    def num_decodes(self) -> int:
        return int(self.seq_lens.shape[0])

    @property
    def num_decode_tokens(self) -> int:
        return self.num_actual_tokens

    @property
    def decode(self) -> WaveMLAMetadata:
        return self


class WaveMLABuilder(WaveBuilder):
    metadata_class = WaveMLAMetadata

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False):
        if common_attn_metadata.causal is False:
            raise unsupported("MLA that is not causal")
        return super().build(common_prefix_len, common_attn_metadata, fast_build)


class WaveMLAImpl(MLAAttentionImpl):
    """A layer."""

    can_return_lse_for_decode = True
    lse_base_on_e = True
    supports_quant_query_input = False
    supports_dcp = False
    supports_pcp = False

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int,
        alibi_slopes: list[float] | None,
        sliding_window: int | None,
        kv_cache_dtype: str,
        logits_soft_cap: float | None,
        attn_type: str,
        kv_sharing_target_layer_name: str | None,
        kv_lora_rank: int,
        indexer: Any = None,
        q_pad_num_heads: int | None = None,
        **more: Any,  # sizes and weights that the layer uses
    ) -> None:
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads, self.kv_cache_dtype = num_kv_heads, kv_cache_dtype
        self.kv_lora_rank, self.q_pad_num_heads = kv_lora_rank, q_pad_num_heads
        self.left = -1 if sliding_window is None else sliding_window - 1
        self.softcap = float(logits_soft_cap or 0.0)
        for name, given in (
            ("alibi_slopes", alibi_slopes),
            ("kv_sharing_target_layer_name", kv_sharing_target_layer_name),
            ("indexer", indexer),
            ("topk_indices_buffer", more.get("topk_indices_buffer")),
        ):
            if given is not None:
                raise unsupported(f"`{name}` with MLA")
        if attn_type != AttentionType.DECODER:
            raise unsupported(f"`attn_type` {attn_type}")
        if kv_cache_dtype not in WaveMLABackend.supported_kv_cache_dtypes:
            raise unsupported(f"`kv_cache_dtype` {kv_cache_dtype} with MLA")
        if getattr(self, "dcp_world_size", 1) > 1:
            raise unsupported("context parallelism in decoding (`dcp_world_size`) with MLA")

    def _cache(self, kv_cache: Any) -> Any:
        small = FP8.get(self.kv_cache_dtype)
        return kv_cache if small in (None, kv_cache.dtype) else kv_cache.view(small)

    def _scales(self, scale: Any) -> dict[str, Any]:
        if self.kv_cache_dtype not in FP8:
            return {}
        return {"k_scale": scale.float(), "v_scale": scale.float()}

    def do_kv_cache_update(
        self,
        kv_c_normed: Any,
        k_pe: Any,
        kv_cache: Any,
        slot_mapping: Any,
        kv_cache_dtype: str,
        k_scale: Any,
    ) -> None:
        """Stores new latent vectors; those with a negative slot are padding."""
        if kv_cache.numel() == 0:
            return
        slots = slot_mapping.flatten()
        count, cache = slots.shape[0], self._cache(kv_cache)[:, :, None]
        given = (x[:count].reshape(count, 1, -1) for x in (kv_c_normed, k_pe))
        parts = cache[..., : self.kv_lora_rank], cache[..., self.kv_lora_rank :]
        ops.kv_append(*given, *parts, slots, **self._scales(k_scale))

    def forward_mqa(
        self, q: Any, kv_c_and_k_pe_cache: Any, attn_metadata: WaveMLAMetadata, layer: Any
    ) -> tuple[Any, Any]:
        """(o, lse) of queries [tokens, heads, size], also in two parts."""
        q = torch.cat(q, -1) if isinstance(q, tuple) else q
        data = attn_metadata
        return ops.mla_decode(
            q,
            self._cache(kv_c_and_k_pe_cache),
            data.block_table,
            data.seq_lens,
            data.query_start_loc,
            data.max_query_len,
            data.max_seq_len,
            dv=self.kv_lora_rank,
            causal=True,
            window=(self.left, -1),
            scale=self.scale,
            softcap=self.softcap,
            batch_invariant=bool(getattr(envs, "VLLM_BATCH_INVARIANT", False)),
            out=q.new_zeros(*q.shape[:2], self.kv_lora_rank),  # padding is not computed
            **self._scales(layer._k_scale),
        )
