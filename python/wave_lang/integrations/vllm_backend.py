"""vLLM's attention backend: decoding, chunks of prompts, and both in one batch, as paged attention.

Lengths and tables stay on the device, so that any batch can be captured in a graph. What is not
supported is refused when the backend is chosen, or raises NotImplementedError with its name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from vllm import envs
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionCGSupport,
    AttentionImpl,
    AttentionMetadata,
    AttentionMetadataBuilder,
    AttentionType,
    MultipleOf,
)

from wave_lang import ops

FP8 = {
    "fp8": torch.float8_e4m3fn,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}


def unsupported(what: str) -> NotImplementedError:
    return NotImplementedError(f"the wave backend does not support {what}")


class WaveBackend(AttentionBackend):
    """What the kernels can do. ALiBi and encoders are not among it; `vllm_mla` has MLA."""

    supported_dtypes: ClassVar[list[Any]] = [torch.float16, torch.bfloat16, torch.float32]
    supported_kv_cache_dtypes: ClassVar[list[Any]] = ["auto", "float16", "bfloat16", *FP8]
    forward_includes_kv_cache_update = False

    @staticmethod
    def get_supported_kernel_block_sizes() -> list[Any]:
        return [MultipleOf(1)]

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type[WaveImpl]:
        return WaveImpl

    @staticmethod
    def get_builder_cls() -> type[WaveBuilder]:
        return WaveBuilder

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        return head_size >= 1

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_non_causal(cls) -> bool:
        return True

    @classmethod
    def supports_batch_invariance(cls) -> bool:
        return True

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        return attn_type == AttentionType.DECODER

    @classmethod
    def supports_compute_capability(cls, capability: Any) -> bool:
        return capability is None or capability.major >= 9


@dataclass
class WaveMetadata(AttentionMetadata):
    """A batch: where queries start, lengths, pages, and upper bounds."""

    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int
    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor
    causal: bool


class WaveBuilder(AttentionMetadataBuilder):
    """Makes a batch from vLLM's; nothing is read on the host or computed."""

    _cudagraph_support = AttentionCGSupport.ALWAYS
    supports_update_block_table = True
    metadata_class: ClassVar[type[WaveMetadata]] = WaveMetadata

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: Any):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self.longest = int(vllm_config.model_config.max_model_len)

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False):
        common = common_attn_metadata
        if not isinstance(common.causal, bool):
            raise unsupported("`causal` as a tensor, one for each request")
        return self.metadata_class(
            num_actual_tokens=common.num_actual_tokens,
            max_query_len=common.max_query_len,
            max_seq_len=common.max_seq_len,
            query_start_loc=common.query_start_loc,
            seq_lens=common.seq_lens,
            block_table=common.block_table_tensor,
            slot_mapping=common.slot_mapping,
            causal=common.causal,
        )

    def build_for_cudagraph_capture(self, common_attn_metadata: Any) -> WaveMetadata:
        made = self.build(0, common_attn_metadata)
        made.max_seq_len = self.longest
        return made

    def update_block_table(
        self, metadata: WaveMetadata, blk_table: Any, slot_mapping: Any
    ) -> WaveMetadata:
        return replace(metadata, block_table=blk_table, slot_mapping=slot_mapping)


class WaveImpl(AttentionImpl):
    """A layer."""

    lse_base_on_e = True
    supports_quant_query_input = False

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        sinks: Any = None,
        **more: Any,
    ) -> None:
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.kv_cache_dtype, self.attn_type = kv_cache_dtype, attn_type
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.left = -1 if sliding_window is None else sliding_window - 1
        self.softcap = float(logits_soft_cap or 0.0)
        self.sinks = sinks  # a parameter, which is loaded later
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"`num_heads` is {num_heads}, expected a multiple of `num_kv_heads`, {num_kv_heads}"
            )
        if self.sinks is not None and tuple(self.sinks.shape) != (num_heads,):
            raise ValueError(f"`sinks` has the shape {tuple(sinks.shape)}, expected ({num_heads},)")
        self._check(alibi_slopes, more)

    def _check(self, alibi_slopes: Any, more: dict[str, Any]) -> None:
        if alibi_slopes is not None:
            raise unsupported("`alibi_slopes`")
        if self.attn_type != AttentionType.DECODER:
            raise unsupported(f"`attn_type` {self.attn_type}")
        if self.kv_cache_dtype not in WaveBackend.supported_kv_cache_dtypes:
            raise unsupported(f"`kv_cache_dtype` {self.kv_cache_dtype}")
        for name, value in more.items():
            if value not in (None, False, -1):
                raise unsupported(f"`{name}`")

    def _caches(self, kv_cache: Any) -> tuple[Any, Any]:
        """Keys and values [blocks, tokens of a block, heads, size] of [blocks, heads, tokens, 2
        size]; whichever is next to which in memory."""
        small = FP8.get(self.kv_cache_dtype)
        if small is not None and kv_cache.dtype != small:
            kv_cache = kv_cache.view(small)
        keys, values = kv_cache.transpose(1, 2).split(self.head_size, -1)
        return keys, values

    def _scales(self, layer: Any) -> dict[str, Any]:
        if self.kv_cache_dtype not in FP8:
            return {}
        return {"k_scale": layer._k_scale.float(), "v_scale": layer._v_scale.float()}

    def do_kv_cache_update(
        self, layer: Any, key: Any, value: Any, kv_cache: Any, slot_mapping: Any
    ) -> None:
        """Stores new keys and values; those with a negative slot are padding."""
        count = slot_mapping.shape[0]
        given = key[:count], value[:count]
        ops.kv_append(*given, *self._caches(kv_cache), slot_mapping, **self._scales(layer))

    def forward(
        self,
        layer: Any,
        query: Any,
        key: Any,
        value: Any,
        kv_cache: Any,
        attn_metadata: WaveMetadata | None,
        output: Any,
        output_scale: Any = None,
        output_block_scale: Any = None,
    ) -> Any:
        for name, given in (
            ("output_scale", output_scale),
            ("output_block_scale", output_block_scale),
        ):
            if given is not None:
                raise unsupported(f"`{name}`, quantised results")
        if attn_metadata is None:  # memory is measured
            return output.fill_(0)
        if self.left >= 0 and not attn_metadata.causal:
            raise unsupported("`sliding_window` without `causal`")
        data, count = attn_metadata, attn_metadata.num_actual_tokens
        shape = (-1, self.num_heads, self.head_size)
        ops.attention_paged(
            query[:count].view(shape),
            *self._caches(kv_cache),
            data.block_table,
            data.seq_lens,
            data.query_start_loc,
            data.max_query_len,
            data.max_seq_len,
            causal=data.causal,
            window=(self.left, -1),
            scale=self.scale,
            softcap=self.softcap,
            sinks=None if self.sinks is None else self.sinks.float(),
            batch_invariant=bool(getattr(envs, "VLLM_BATCH_INVARIANT", False)),
            out=output[:count].view(shape),
            **self._scales(layer),
        )
        return output
