"""The plugin of vLLM for models with MLA, beside float64. With VLLM_SOURCE=CHECKOUT, vLLM's own
layer drives it, otherwise a stand-in. test_gpu_serving.py runs it on a GPU."""

import types

import pytest

import serving_standins
from exact_attention import expected
from serving_standins import host
from test_vllm_plugin import BLOCK, SOURCE, Server, framework, near, replay, serve  # noqa: F401

torch = pytest.importorskip("torch")
import numpy as np

H, PLAIN, TURNED, RANK, COLUMNS = 4, 8, 4, 16, 8  # sizes of a head; of a latent vector; of a result
OPTIONS = dict(
    num_heads=H,
    head_size=RANK + TURNED,
    scale=0.3,
    num_kv_heads=1,
    alibi_slopes=None,
    sliding_window=None,
    kv_cache_dtype="auto",
    logits_soft_cap=None,
    attn_type="decoder",
    kv_sharing_target_layer_name=None,
    q_lora_rank=None,
    kv_lora_rank=RANK,
    qk_nope_head_dim=PLAIN,
    qk_rope_head_dim=TURNED,
    qk_head_dim=PLAIN + TURNED,
    v_head_dim=COLUMNS,
    kv_b_proj=None,
    indexer=None,
)


@pytest.fixture
def backend(monkeypatch, framework):  # noqa: F811
    from wave_lang.integrations import vllm

    monkeypatch.setenv("WAVE_VLLM_MLA", "1")
    vllm.register()
    assert framework[0]() == "wave_lang.integrations.vllm_mla.WaveMLABackend"
    from wave_lang.integrations.vllm_mla import WaveMLABackend

    yield WaveMLABackend
    monkeypatch.setenv("WAVE_VLLM_MLA", "0")
    vllm.register()


@pytest.fixture
def layer_class(monkeypatch):
    return serving_standins.vllm_source_mla(monkeypatch) if SOURCE else serving_standins.MLALayer


class LatentServer(Server):
    """The same for MLA: the keys of a token are one latent vector for all heads."""

    heads, kv_heads, size, query_size = H, 1, RANK + TURNED, PLAIN + TURNED

    def __init__(self, backend, layer_class, dtype=torch.float32, cache="auto", **options):
        self.begin(backend, dtype, cache)
        self.cache = self.empty((32, BLOCK, RANK + TURNED))
        self.layer = layer_class.__new__(layer_class)
        if SOURCE:
            torch.nn.Module.__init__(self.layer)
        for name, value in OPTIONS.items():
            setattr(self.layer, name, value)
        self.impl = backend.get_impl_cls()(**OPTIONS | {"kv_cache_dtype": cache} | options)
        self.layer.impl, self.layer.kv_cache_dtype = self.impl, cache
        self.layer._k_scale = self.layer._v_scale = torch.tensor(0.5, device=self.device)
        self.layer.W_UK_T, self.layer.W_UV = self.draw(H, PLAIN, RANK), self.draw(H, RANK, COLUMNS)
        for name in ("use_pcp", "is_amx_bmm_enabled"):
            setattr(self.layer, name, False)
        for kind in ("fp4", "fp8"):
            setattr(self.layer, f"is_aiter_triton_{kind}_bmm_enabled", False)
        self.layer.q_pad_num_heads = self.layer.prefill_backend = None

    def run(self, data, q, k, v):
        latent, turned = k[:, 0, :RANK], k[..., RANK:]
        slots, scale = data.slot_mapping, self.layer._k_scale
        kind = self.impl.kv_cache_dtype
        self.impl.do_kv_cache_update(latent, turned, self.cache, slots, kind, scale)
        out = torch.full((len(q), H * COLUMNS), 7.0, dtype=self.dtype, device=self.device)
        return self.layer.forward_impl(q, latent, turned, self.cache, data, out)

    def exact(self, q, keys, values, causal):
        up, down = (host(x) for x in (self.layer.W_UK_T, self.layer.W_UV))
        q = host(q)
        latent = np.einsum("thp,hpl->thl", q[..., :PLAIN], up)
        q, window = np.concatenate([latent, q[..., PLAIN:]], -1), (self.impl.left, -1)
        values = keys[..., :RANK]
        o = expected(q, keys, values, True, window, None, self.impl.scale, self.impl.softcap)[0]
        return np.einsum("thl,hlv->thv", o, down).reshape(len(q), -1)


FORMS = [
    {},
    {"sliding_window": 3, "logits_soft_cap": 2.0},
    {"dtype": torch.bfloat16},
    {"cache": "fp8", "dtype": torch.float16},
]


@pytest.mark.parametrize("form", FORMS)
def test_prompts_in_chunks_and_decoding_in_one_batch(backend, layer_class, form):
    serve(LatentServer(backend, layer_class, **form))


@pytest.mark.parametrize("form", FORMS[::3])
def test_replays(backend, layer_class, form):
    replay(LatentServer(backend, layer_class, **form))


def test_what_it_supports(backend):
    assert backend.is_mla() and backend.supports_head_size(576)
    assert not backend.supports_sink() and not backend.supports_non_causal()
    impl = backend.get_impl_cls()(**OPTIONS)
    impl.do_kv_cache_update(None, None, torch.tensor([]), None, "auto", None)  # not allocated yet


@pytest.mark.skipif(not SOURCE, reason="VLLM_SOURCE is not set")
def test_the_backend_is_chosen(backend):
    """vLLM's own check of what a backend supports."""
    from vllm.platforms.interface import DeviceCapability

    asked = dict(head_size=576, dtype=torch.bfloat16, kv_cache_dtype="fp8", block_size=64)
    asked |= dict(use_mla=True, has_sink=False, use_sparse=False, use_mm_prefix=False)
    asked |= dict(use_per_head_quant_scales=False, device_capability=DeviceCapability(9, 0))
    asked |= dict(attn_type="decoder", has_sliding_window=False, use_batch_invariant=True)
    assert backend.validate_configuration(**asked) == []
    assert backend.validate_configuration(**asked | {"use_mla": False}) == ["non-MLA not supported"]


REFUSED = [
    ({"alibi_slopes": [1.0] * H}, "`alibi_slopes`"),
    ({"attn_type": "encoder"}, "`attn_type` encoder"),
    ({"kv_cache_dtype": "fp8_e5m2"}, "`kv_cache_dtype` fp8_e5m2"),
    ({"indexer": object()}, "`indexer`"),
    ({"kv_sharing_target_layer_name": "other"}, "`kv_sharing_target_layer_name`"),
]


@pytest.mark.parametrize("options, word", REFUSED)
def test_refused(backend, options, word):
    with pytest.raises(NotImplementedError, match=word):
        backend.get_impl_cls()(**OPTIONS | options)


def test_refused_in_a_batch(backend):
    config = types.SimpleNamespace(model_config=types.SimpleNamespace(max_model_len=64))
    made = backend.get_builder_cls()(None, ["layer"], config, "cpu")
    with pytest.raises(NotImplementedError, match="not causal"):
        made.build(0, types.SimpleNamespace(causal=False))
