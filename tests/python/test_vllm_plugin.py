"""The plugin of vLLM, driven as vLLM does, beside float64. With VLLM_SOURCE=CHECKOUT, the registry,
base classes and batches are vLLM's, otherwise stand-ins. test_gpu_serving.py runs it on a GPU."""

import functools
import os
import types

import pytest

import serving_standins
from exact_attention import expected
from serving_standins import Captured, host

SOURCE = os.environ.get("VLLM_SOURCE")

torch = pytest.importorskip("torch")
import numpy as np


H, HK, D, BLOCK = 4, 2, 16, 4
NEAR = {"rtol": 1e-5, "atol": 1e-5}
LIMITS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}


@pytest.fixture
def framework(monkeypatch):
    from wave_lang.integrations import vllm

    if SOURCE:
        chosen, ops = serving_standins.vllm_source(SOURCE)
    else:
        chosen, ops = serving_standins.vllm(monkeypatch)
    vllm.register()
    vllm.register()  # each process does, some twice
    return chosen, ops


@pytest.fixture
def backend(framework):
    assert framework[0]() == "wave_lang.integrations.vllm_backend.WaveBackend"
    from wave_lang.integrations.vllm_backend import WaveBackend

    return WaveBackend


def batch_class():
    if not SOURCE:
        return types.SimpleNamespace
    from vllm.v1.attention.backend import CommonAttentionMetadata

    return CommonAttentionMetadata


class Server:
    """Sequences whose tokens come in steps, a cache that is NaN where no token is stored, and the
    keys and values of all tokens so far in float64."""

    heads, kv_heads, size, query_size = H, HK, D, D

    def __init__(self, backend, order="HND", dtype=torch.float32, cache="auto", **options):
        self.begin(backend, dtype, cache)
        if "sinks" in options:
            options["sinks"] = options["sinks"].to(self.device)
        self.impl = backend.get_impl_cls()(H, D, 0.3, HK, None, kv_cache_dtype=cache, **options)
        shape = (32, HK, BLOCK, 2 * D) if order == "HND" else (32, BLOCK, HK, 2 * D)
        self.cache = self.empty(shape)
        if order == "NHD":
            self.cache = self.cache.transpose(1, 2)
        scales = (torch.tensor(number, device=self.device) for number in (0.5, 0.25))
        self.layer = types.SimpleNamespace(**dict(zip(("_k_scale", "_v_scale"), scales)))

    def begin(self, backend, dtype, cache):
        self.rng, self.device = torch.Generator().manual_seed(3), serving_standins.DEVICE
        config = types.SimpleNamespace(model_config=types.SimpleNamespace(max_model_len=64))
        self.builder = backend.get_builder_cls()(None, ["layer"], config, self.device)
        self.dtype, self.fp8 = dtype, cache.startswith("fp8")
        self.free, self.pages, self.past = list(range(31, -1, -1)), {}, {}

    def empty(self, shape):
        """A cache of NaN; vLLM's 8-bit caches are bytes."""
        made = torch.full(shape, float("nan"), device=self.device)
        return made.to(torch.float8_e4m3fn).view(torch.uint8) if self.fp8 else made.to(self.dtype)

    def draw(self, *shape):
        return torch.randn(*shape, generator=self.rng).to(self.dtype).to(self.device)

    def whole(self, numbers, dtype=torch.int32):
        return torch.tensor(numbers, dtype=dtype, device=self.device)

    def batch(self, new, causal=True, padding=0):
        """{sequence: how many tokens it gets}: vLLM's batch, (q, k, v), and the result."""
        total = sum(new.values())
        q = self.draw(total + padding, self.heads, self.query_size)
        k, v = (self.draw(total, self.kv_heads, self.size) for _ in range(2))
        slots, wanted, at = [], [], 0
        for name, count in new.items():
            pages = self.pages.setdefault(name, [])
            past = self.past.setdefault(name, [[], []])
            for t in range(count):
                place = len(past[0])
                if place % BLOCK == 0:
                    pages.append(self.free.pop())
                slots.append(pages[place // BLOCK] * BLOCK + place % BLOCK)
                past[0].append(self.stored(k[at + t], self.layer._k_scale))
                past[1].append(self.stored(v[at + t], self.layer._v_scale))
            keys, values = (np.array(x).reshape(-1, self.kv_heads, self.size) for x in past)
            wanted.append(self.exact(q[at : at + count], keys, values, causal))
            at += count
        table = self.whole(np.full((len(new) + 1, 16), 10**6))
        for row, name in enumerate(new):
            table[row, : len(self.pages[name])] = self.whole(self.pages[name])
        lengths = self.whole([len(self.past[name][0]) for name in new] + [0])
        starts = self.whole([0, *np.cumsum(list(new.values())), total])
        common = batch_class()(
            query_start_loc=starts,
            query_start_loc_cpu=starts.cpu(),
            seq_lens=lengths,
            num_reqs=len(new),
            num_actual_tokens=total,
            max_query_len=max(new.values(), default=0),
            max_seq_len=64,
            block_table_tensor=table,
            slot_mapping=self.whole(slots, torch.int64),
            causal=causal,
        )
        return common, (q, k, v), np.concatenate(wanted)

    def run(self, data, q, k, v):
        """What vLLM calls in each layer."""
        self.impl.do_kv_cache_update(self.layer, k, v, self.cache, data.slot_mapping)
        out = torch.full(q.shape, 7.0, dtype=self.dtype, device=self.device)
        found = self.impl.forward(self.layer, q, k, v, self.cache, data, out)
        assert found is out
        return out

    def step(self, new, causal=True, padding=0):
        """The result and what it should be."""
        common, given, wanted = self.batch(new, causal, padding)
        out, total = self.run(self.builder.build(0, common), *given), len(wanted)
        assert bool((out[total:] == 7).all())
        return host(out[:total]), wanted

    def stored(self, x, scale):
        if not self.fp8:
            return host(x)
        return host((x.float() / scale).to(torch.float8_e4m3fn).double() * scale.double())

    def exact(self, q, keys, values, causal):
        sinks = None if self.impl.sinks is None else host(self.impl.sinks)
        window = (self.impl.left, -1)
        cap = self.impl.softcap
        return expected(host(q), keys, values, causal, window, sinks, self.impl.scale, cap)[0]


def near(found, wanted, dtype):
    assert np.abs(found - wanted).max() <= LIMITS[dtype] * max(np.abs(wanted).max(), 1)


def serve(server):
    """Prompts in chunks and decoding, in the same batches."""
    steps = [{"a": 5, "b": 1}, {"b": 1, "c": 9}, {"a": 1, "b": 1, "c": 6}, {"c": 1, "b": 1}]
    for number, new in enumerate(steps):
        near(*server.step(new, padding=number), server.dtype)


FORMS = [
    {},
    {"order": "NHD", "sliding_window": 3, "sinks": torch.linspace(-1, 2, H).bfloat16()},
    {"logits_soft_cap": 2.0, "dtype": torch.bfloat16},
    {"cache": "fp8", "dtype": torch.float16},
]


@pytest.mark.parametrize("form", FORMS)
def test_prompts_in_chunks_and_decoding_in_one_batch(backend, form):
    serve(Server(backend, **form))


def test_sinks_are_loaded_after_layers_are_made(backend):
    server = Server(backend, sinks=torch.zeros(H))
    server.impl.sinks += torch.linspace(-1, 2, H, device=server.device)
    found, wanted = server.step({"a": 5, "b": 2})
    assert np.abs(found - wanted).max() < 1e-5


def test_not_causal(backend):
    server = Server(backend)
    found, wanted = server.step({"a": 5, "b": 2}, causal=False)
    assert np.abs(found - wanted).max() < 1e-5


def test_padded_slots_are_not_written(backend):
    server = Server(backend)
    slots = server.whole([-1, 5], torch.int64)
    k, v = server.draw(2, HK, D), server.draw(2, HK, D)
    server.impl.do_kv_cache_update(server.layer, k, v, server.cache, slots)
    written = ~server.cache.isnan().any(-1).any(1)
    assert written.nonzero().tolist() == [[1, 1]]


def test_profiling_and_graphs(backend):
    server = Server(backend)
    out = torch.full((3, H, D), 7.0, device=server.device)
    assert not server.impl.forward(server.layer, out, None, None, None, None, out).any()
    assert server.builder._cudagraph_support.name == "ALWAYS"
    common = types.SimpleNamespace(
        query_start_loc=0, seq_lens=1, num_actual_tokens=2, max_query_len=3, max_seq_len=4,
        block_table_tensor=5, slot_mapping=6, causal=True,
    )  # fmt: skip
    made = server.builder.build_for_cudagraph_capture(common)
    assert made.max_seq_len == 64  # replays have any length
    other = server.builder.update_block_table(made, 8, 9)
    assert (other.block_table, other.slot_mapping, made.block_table) == (8, 9, 5)


def replay(server):
    """A prompt, a chunk of one and decoding in a graph, which is replayed with other lengths:
    inputs and metadata have the same addresses."""
    graph = None
    server.step({"a": 3, "b": 6, "c": 2, "d": 7})
    for new in ({"e": 4, "a": 1, "b": 3}, {"d": 2, "c": 5, "a": 1}, {"a": 1, "b": 1, "c": 6}):
        common, given, wanted = server.batch(new)
        names = ("query_start_loc", "seq_lens", "block_table_tensor", "slot_mapping")
        inputs = (*given, *(getattr(common, name) for name in names))
        if graph is None:
            common.max_query_len = 8
            data = server.builder.build_for_cudagraph_capture(common)
            graph = Captured(functools.partial(server.run, data, *given), *inputs)
        near(host(graph.again(*inputs)), wanted, server.dtype)


@pytest.mark.parametrize("form", FORMS)
def test_replays(backend, form):
    replay(Server(backend, **form))


def test_what_it_supports(backend):
    assert [size.base for size in backend.get_supported_kernel_block_sizes()] == [1]
    assert backend.get_name() == "CUSTOM" and not backend.is_mla()
    assert backend.supports_sink() and backend.supports_sliding_window()
    assert not backend.supports_attn_type("encoder")
    assert backend.supports_compute_capability(types.SimpleNamespace(major=9))
    assert not backend.supports_compute_capability(types.SimpleNamespace(major=8))


@pytest.mark.skipif(not SOURCE, reason="VLLM_SOURCE is not set")
def test_the_backend_is_chosen(backend):
    """vLLM's own check of what a backend supports."""
    from vllm.platforms.interface import DeviceCapability

    asked = dict(head_size=128, dtype=torch.bfloat16, kv_cache_dtype="fp8", block_size=16)
    asked |= dict(use_mla=False, has_sink=True, use_sparse=False, use_mm_prefix=False)
    asked |= dict(use_per_head_quant_scales=False, device_capability=DeviceCapability(9, 0))
    asked |= dict(attn_type="decoder", has_sliding_window=True, use_batch_invariant=True)
    assert backend.validate_configuration(**asked) == []
    assert backend.validate_configuration(**asked | {"use_mla": True}) == ["MLA not supported"]


REFUSED = [
    ({"alibi_slopes": [1.0] * H}, NotImplementedError, "`alibi_slopes`"),
    ({"attn_type": "encoder"}, NotImplementedError, "`attn_type` encoder"),
    ({"kv_cache_dtype": "int8_per_token_head"}, NotImplementedError, "`kv_cache_dtype` int8"),
    ({"chunk_lookback": 3}, NotImplementedError, "`chunk_lookback`"),
    ({"num_kv_heads": 3}, ValueError, "`num_heads`"),
    ({"sinks": torch.ones(3)}, ValueError, "`sinks`"),
]


@pytest.mark.parametrize("options, kind, word", REFUSED)
def test_refused(backend, options, kind, word):
    with pytest.raises(kind, match=word):
        backend.get_impl_cls()(H, D, 0.3, **{"num_kv_heads": HK} | options)


def test_refused_in_a_batch(backend):
    server = Server(backend, sliding_window=3)
    with pytest.raises(NotImplementedError, match="`sliding_window` without `causal`"):
        server.step({"a": 2}, causal=False)
    with pytest.raises(NotImplementedError, match="`causal` as a tensor"):
        server.step({"b": 2}, causal=torch.tensor([True]))
    with pytest.raises(NotImplementedError, match="`output_scale`"):
        server.impl.forward(None, None, None, None, None, None, None, torch.ones(()))


def draw(*shape, generator):
    return torch.randn(*shape, generator=generator).to(serving_standins.DEVICE)


def test_norms(framework):
    ops = framework[1]
    numbers = torch.Generator().manual_seed(1)
    x, residual, w = (draw(n, generator=numbers) for n in (70, 70, 7))
    x, residual = x.view(2, 5, 7), residual.view(2, 5, 7)
    wanted = torch.nn.functional.rms_norm(x.double(), (7,), w.double(), 1e-5)
    found = ops.rms_norm.impls["wave"].impl_fn(x, w, 1e-5)
    torch.testing.assert_close(found.double(), wanted, **NEAR)
    before = residual.clone()
    y, total = ops.fused_add_rms_norm.impls["wave"].impl_fn(x, residual, w, 1e-5)
    wanted = torch.nn.functional.rms_norm((x + residual).double(), (7,), w.double(), 1e-5)
    torch.testing.assert_close(y.double(), wanted, **NEAR)
    torch.testing.assert_close(total, x + residual)
    assert torch.equal(residual, before)
    accepts = ops.rms_norm.impls["wave"].supports_args
    assert accepts(x, w, 1e-5) and not accepts(x, None, 1e-5) and not accepts(x, w, 1e-5, 4)


def gated(x, function):
    left, right = x.double().chunk(2, -1)
    return function(left) * right


def test_activations(framework):
    """As a provider, in releases that have the op."""
    op = getattr(framework[1], "silu_and_mul", None)
    if op is None:
        pytest.skip("this vLLM has no op for activations")
    x = draw(2, 5, 14, generator=torch.Generator().manual_seed(2))
    found = op.impls["wave"].impl_fn(x)
    torch.testing.assert_close(found.double(), gated(x, torch.nn.functional.silu), **NEAR)


def test_layers_of_activations(framework, monkeypatch):
    """Layers are replaced only on request, and vLLM's `custom_ops` still turns them on and off."""
    from wave_lang.integrations import vllm

    switches = ["none", "+silu_and_mul", "+gelu_and_mul"]
    layers_of = serving_standins.vllm_source_layers if SOURCE else serving_standins.vllm_layers
    layers = layers_of(monkeypatch, switches)
    vllm.register()
    assert type(layers.SiluAndMul()) is layers.SiluAndMul
    monkeypatch.setenv("WAVE_VLLM_ACTIVATIONS", "1")
    vllm.register()
    vllm.register()
    x = draw(3, 4, 22, generator=torch.Generator().manual_seed(3))
    gelu = torch.nn.functional.gelu
    for layer, function in (
        (layers.SiluAndMul(), torch.nn.functional.silu),
        (layers.GeluAndMul(), gelu),
        (layers.GeluAndMul("tanh"), lambda t: gelu(t, approximate="tanh")),
    ):
        assert type(layer).__module__ == "wave_lang.integrations.vllm_activations"
        torch.testing.assert_close(layer(x).double(), gated(x, function), **NEAR)
    del switches[1:]
    off = layers.SiluAndMul()
    assert (off._forward_method.__name__ if SOURCE else off(x)) in ("forward_native", "PyTorch")
