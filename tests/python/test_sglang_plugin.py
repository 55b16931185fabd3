"""SGLang: the plugin's backend, driven as SGLang does, beside float64. With SGLANG_SOURCE=CHECKOUT,
SGLang's own `wave` backend is driven as well. test_gpu_serving.py runs all of it on a GPU."""

import functools
import os
import types

import numpy as np
import pytest

import serving_standins
from exact_attention import expected
from serving_standins import Captured, Layer, Mode, Pool, host

torch = pytest.importorskip("torch")

CONTEXT, TOKENS = 64, 128
SOURCE = os.environ.get("SGLANG_SOURCE")


class Server:
    """A runner, a cache, requests whose tokens are anywhere in it, and float64."""

    def __init__(self, monkeypatch, h=4, hk=2, d=16, dv=16, page=1, dtype=torch.float32, **more):
        spec = {n: more.pop(n) for n in ("drafts", "topk", "dcp") if n in more}
        tokens, context = more.pop("tokens", TOKENS), more.pop("context", CONTEXT)
        if more.pop("source", False):
            create = serving_standins.sglang_backend(monkeypatch, SOURCE, **spec)
        else:
            backends = serving_standins.sglang(monkeypatch, **spec)
            from wave_lang.integrations import sglang

            sglang.register()
            sglang.register()
            create = backends["wave"]
        self.rng, self.page = torch.Generator().manual_seed(5), page
        self.latent, self.dtype = more.pop("latent", False), dtype
        cache = more.pop("cache", dtype)
        self.pool = Pool(torch, tokens + page, hk, d, dv, cache, self.latent)
        self.device = serving_standins.DEVICE
        self.table = torch.full((8, context), 10**6, dtype=torch.int32, device=self.device)
        runner = types.SimpleNamespace(
            token_to_kv_pool=self.pool,
            device=self.device,
            req_to_token_pool=types.SimpleNamespace(req_to_token=self.table, size=8),
            page_size=page,
            model_config=types.SimpleNamespace(
                context_len=context, num_attention_heads=h, get_num_kv_heads=lambda size: hk
            ),
            server_args=types.SimpleNamespace(
                enable_deterministic_inference=False, triton_attention_num_kv_splits=4
            ),
            ps=types.SimpleNamespace(tp_rank=0),
            gpu_id=0,
        )
        for name in ("token_to_kv_pool_allocator", "skip_prefill"):
            if name in more:
                setattr(runner, name, more.pop(name))
        self.layer = Layer(h, hk, d, dv, 0.3)
        self.sinks = self.there(more.pop("sinks", None))
        for name, value in more.items():
            setattr(self.layer, name, self.there(value))
        self.backend = create(runner)
        self.free = torch.randperm(tokens // page, generator=self.rng).tolist()
        self.past = {}

    def there(self, value):
        """A tensor on the device of the tests; all else as it is."""
        return value.to(self.device) if isinstance(value, torch.Tensor) else value

    def whole(self, numbers):
        return torch.tensor(numbers, dtype=torch.int64, device=self.device)

    def draw(self, *shape):
        return torch.randn(*shape, generator=self.rng).to(self.dtype).to(self.device)

    def add(self, request, count):
        """Tokens for a request: places in the cache. Random keys and values are remembered."""
        length, places = len(self.past.setdefault(request, ([], []))[0]), []
        for t in range(length, length + count):
            if t % self.page == 0:
                self.table[request, t] = (self.free.pop() + 1) * self.page
            else:
                self.table[request, t] = self.table[request, t - 1] + 1
            places.append(int(self.table[request, t]))
        layer = self.layer
        k = self.draw(count, layer.tp_k_head_num, layer.qk_head_dim)
        v = self.draw(count, layer.tp_k_head_num, layer.v_head_dim)
        v = k[..., : layer.v_head_dim] if self.latent else v
        self.past[request][0].extend(self.stored(k, layer.k_scale))
        scale = layer.k_scale if self.latent else layer.v_scale
        self.past[request][1].extend(self.stored(v, scale))
        return places, k, v

    def stored(self, x, scale):
        if self.pool.keys.dtype == self.dtype:
            return host(x)
        scale = torch.ones((), device=self.device) if scale is None else scale
        return host((x / scale).to(self.pool.keys.dtype).double() * scale.double())

    def batch(self, mode, new, **more):
        """(batch, q, k, v) with this many new tokens for each request."""
        before = {r: len(self.past.get(r, ([],))[0]) for r in new}
        parts = [self.add(r, n) for r, n in new.items()]
        places = [p for part in parts for p in part[0]]
        empty = self.draw(0, self.layer.tp_k_head_num, self.layer.qk_head_dim)
        k = torch.cat([part[1] for part in parts]) if parts else empty
        v = torch.cat([part[2] for part in parts]) if parts else empty
        q = self.draw(len(places), self.layer.tp_q_head_num, self.layer.qk_head_dim)
        after = [len(self.past[r][0]) for r in new]
        lengths = list(before.values()) if mode is Mode.TARGET_VERIFY else after
        made = types.SimpleNamespace(
            forward_mode=mode,
            batch_size=len(new),
            input_ids=torch.zeros(len(places)),
            req_pool_indices=self.whole(list(new)),
            seq_lens=self.whole(lengths),
            seq_lens_cpu=torch.tensor(lengths, dtype=torch.int64),
            seq_lens_sum=sum(lengths),
            out_cache_loc=self.whole(places),
            extend_seq_lens=self.whole(list(new.values())),
            extend_seq_lens_cpu=list(new.values()),
            extend_prefix_lens=self.whole(list(before.values())),
            extend_prefix_lens_cpu=list(before.values()),
            spec_info=None,
        )
        for name, value in more.items():
            setattr(made, name, value)
        return made, q, k, v

    def run(self, batch, q, k, v, **more):
        function = self.backend.forward_extend
        if batch.forward_mode is Mode.DECODE:
            function = self.backend.forward_decode
        more = more or {"sinks": self.sinks}
        return function(q.flatten(1), k, v, self.layer, batch, **more)

    def wanted(self, q, new):
        layer, at, rows = self.layer, 0, []
        for request, count in new.items():
            k, v = (np.array(x).reshape(-1, *x[0].shape) for x in self.past[request])
            rows.append(
                expected(
                    host(q[at : at + count]),
                    k,
                    v,
                    layer.attn_type == "decoder",
                    (layer.sliding_window_size, -1),
                    None if self.sinks is None else host(self.sinks),
                    layer.scaling,
                    layer.logit_cap,
                )[0]
            )
            at += count
        return np.concatenate(rows).reshape(at, -1)

    def step(self, mode, new, **more):
        batch, q, k, v = self.batch(mode, new, **more)
        self.backend.init_forward_metadata(batch)
        return self.run(batch, q, k, v), self.wanted(q, new)


def near(found, wanted, dtype=torch.float32):
    limit = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}[dtype]
    assert found.shape == wanted.shape and found.dtype == dtype
    assert np.abs(host(found) - wanted).max() <= limit * max(np.abs(wanted).max(), 1)


FORMS = [
    {},
    {"page": 4, "dtype": torch.float16},
    {"sliding_window_size": 3, "sinks": torch.linspace(-1, 2, 4).bfloat16(), "logit_cap": 2.0},
    {
        "page": 4,
        "cache": torch.float8_e4m3fn,
        "k_scale": torch.tensor(0.5),
        "v_scale": torch.tensor(0.25),
    },
    {"h": 8, "hk": 1, "d": 40, "dv": 24, "latent": True, "dtype": torch.bfloat16},  # MLA
    {"attn_type": "encoder_only"},
]


@pytest.mark.parametrize("form", FORMS)
def test_prompts_and_decoding(monkeypatch, form):
    server = Server(monkeypatch, **form)
    near(*server.step(Mode.EXTEND, {2: 5, 0: 1, 5: 9}), server.dtype)
    if "attn_type" in form:
        return
    near(*server.step(Mode.EXTEND, {5: 4, 1: 3}), server.dtype)
    for new in ({0: 1, 1: 1}, {5: 1, 2: 1, 0: 1}):
        near(*server.step(Mode.DECODE, new), server.dtype)
    near(*server.step(Mode.DECODE, {1: 1}, seq_lens_cpu=None), server.dtype)


@pytest.mark.skipif(not SOURCE, reason="SGLANG_SOURCE is not set")
@pytest.mark.parametrize("h, hk, d, dtype", [(4, 2, 32, torch.float16), (2, 2, 16, torch.bfloat16)])
def test_the_backend_of_sglang_itself(monkeypatch, h, hk, d, dtype):
    """Its class, unchanged: prompts, decoding, and replays with scratch for the largest batch. It
    passes no scale to decoding."""
    server = Server(monkeypatch, h, hk, d, d, dtype=dtype, source=True, scaling=d**-0.5)
    backend = server.backend

    def step(mode, new):
        batch, q, k, v = server.batch(mode, new)
        backend.init_forward_metadata(batch)
        found = server.run(batch, q, k, v, save_kv_cache=True)
        near(found, server.wanted(q, new), dtype)

    step(Mode.EXTEND, {2: 5, 0: 1, 5: 9})
    step(Mode.EXTEND, {5: 4, 1: 3})
    step(Mode.DECODE, {0: 1, 1: 1, 5: 1})
    backend.init_cuda_graph_state(6, 6)
    steps = ({5: 1, 2: 1}, {0: 1, 1: 1}, {2: 1, 0: 1})
    replay(server, Mode.DECODE, steps, "forward_metadata", save_kv_cache=True)


@pytest.mark.skipif(not SOURCE, reason="SGLANG_SOURCE is not set")
@pytest.mark.parametrize("causal", [False, True])
def test_the_prompts_of_sglang_itself(monkeypatch, causal):
    """Its wrapper of the kernel for prompts without a prefix. It ignores `is_causal`."""
    serving_standins.sglang_source(monkeypatch, SOURCE)
    from sglang.srt.layers.attention.wave_ops.prefill_attention import prefill_attention_wave

    rng, lengths, device = torch.Generator().manual_seed(4), (5, 1, 9), serving_standins.DEVICE
    q, k, v = (torch.randn(15, h, 32, generator=rng).half().to(device) for h in (4, 2, 2))
    starts = np.cumsum([0, *lengths])
    o = torch.full_like(q, float("nan"))
    given = [torch.tensor(x, device=device) for x in (starts[:-1], lengths)]
    prefill_attention_wave(q, k, v, o, *given, max(lengths), is_causal=causal)
    for first, last in zip(starts, starts[1:]):
        exact = expected(*(host(x[first:last]) for x in (q, k, v)), scale=32**-0.5)[0]
        near(o[first:last], exact, torch.float16)


def test_chains_of_drafts(monkeypatch):
    server = Server(monkeypatch, drafts=3, topk=1)
    server.step(Mode.EXTEND, {2: 5, 0: 1})
    info = types.SimpleNamespace(custom_mask=None)
    near(*server.step(Mode.TARGET_VERIFY, {0: 3, 2: 3}, spec_info=info))


def masked(server, q, k, v, new, masks):
    """What drafts see, one row after the other, in float64. Drafts are not rounded to 8 bits."""
    rows, at, layer = [], 0, server.layer
    sinks = None if server.sinks is None else host(server.sinks)
    for (request, count), mask in zip(new.items(), masks):
        keys, values = (np.array(x) for x in server.past[request])
        keys[-count:], values[-count:] = (host(x[at : at + count]) for x in (k, v))
        for i in range(count):
            seen = mask[i].copy()
            if layer.sliding_window_size >= 0:
                seen[: max(len(keys) - count + i - layer.sliding_window_size, 0)] = False
            one = host(q[at + i : at + i + 1])
            given = {"scale": layer.scaling, "softcap": layer.logit_cap, "sinks": sinks}
            rows.append(expected(one, keys[seen], values[seen], **given)[0])
        at += count
    return np.concatenate(rows).reshape(at, -1)


def tree_batch(server, new):
    """Drafts that see the prefix, the first draft and themselves."""
    masks = []
    for request, count in new.items():
        prefix = len(server.past[request][0])
        tree = np.eye(count, dtype=bool)
        tree[:, 0] = True
        masks.append(np.concatenate([np.ones((count, prefix), bool), tree], 1))
    flat = server.there(torch.tensor(np.concatenate([m.ravel() for m in masks])))
    info = types.SimpleNamespace(custom_mask=flat)
    return masks, server.batch(Mode.TARGET_VERIFY, new, spec_info=info)


@pytest.mark.parametrize("form", FORMS[:5])
def test_trees_of_drafts(monkeypatch, form):
    """Also of a request without a prefix."""
    form = form | ({"sliding_window_size": 5} if "sliding_window_size" in form else {})
    server = Server(monkeypatch, drafts=4, topk=2, **form)
    server.step(Mode.EXTEND, {2: 9, 0: 1})
    server.past[3] = ([], [])
    new = {0: 4, 2: 4, 3: 4}
    masks, (batch, q, k, v) = tree_batch(server, new)
    server.backend.init_forward_metadata(batch)
    near(server.run(batch, q, k, v), masked(server, q, k, v, new, masks), server.dtype)


def replay(server, mode, steps, name="metadata", **more):
    """Captures a call with the first batch, and replays it with each. A captured launch reads the
    same memory in each replay, so batches are written into the metadata called `name`."""
    backend, graph = server.backend, None
    for new in steps:
        if mode is Mode.TARGET_VERIFY:
            masks, (batch, q, k, v) = tree_batch(server, new)
            wanted = masked(server, q, k, v, new, masks)
        else:
            batch, q, k, v = server.batch(mode, new, encoder_lens=None)
            wanted = server.wanted(q, new)
        backend.init_forward_metadata_out_graph(batch, in_capture=graph is None)
        inputs = (q, k, v, batch.out_cache_loc)
        if graph is None:
            captured = getattr(backend, name)
            graph = Captured(functools.partial(server.run, batch, q, k, v, **more), *inputs)
        assert getattr(backend, name) is captured
        near(graph.again(*inputs), wanted, server.dtype)


def test_graphs(monkeypatch):
    """Scratch is for the largest batch."""
    server = Server(monkeypatch, page=4, drafts=4, topk=2)
    server.step(Mode.EXTEND, {n: 2 + n for n in range(4)})
    server.backend.init_cuda_graph_state(6, 24)
    assert server.backend.get_cuda_graph_seq_len_fill_value() == 1
    replay(server, Mode.DECODE, ({1: 1, 2: 1}, {3: 1, 0: 1}, {2: 1, 3: 1}))
    replay(server, Mode.TARGET_VERIFY, ({3: 4, 1: 4}, {0: 4, 2: 4}))
    with pytest.raises(NotImplementedError, match="graphs of"):
        server.backend.init_forward_metadata_out_graph(server.batch(Mode.EXTEND, {0: 1})[0])


def test_prompts_with_keys_for_each_head(monkeypatch):
    """MLA's prompts: the cache has latent vectors, the call has keys and values of all heads."""
    server = Server(monkeypatch, h=4, hk=1, d=40, dv=24, latent=True)
    batch, _, latent, _ = server.batch(Mode.EXTEND, {2: 5, 0: 1})
    server.backend.init_forward_metadata(batch)
    server.layer = Layer(4, 4, 24, 16, 0.3)
    q, k, v = server.draw(6, 4, 24), server.draw(6, 4, 24), server.draw(6, 4, 16)
    found = server.backend.forward_extend(q, k, v, server.layer, batch, save_kv_cache=False)
    parts = [slice(0, 5), slice(5, 6)]
    exact = [
        expected(*(host(x[p]) for x in (q, k, v)), causal=True, scale=0.3)[0]
        for p in parts
    ]
    near(found, np.concatenate(exact).reshape(6, -1))
    batch.extend_prefix_lens_cpu = [1, 0]
    with pytest.raises(NotImplementedError, match="MLA with a prefix"):
        server.backend.forward_extend(q, k, v, server.layer, batch, save_kv_cache=False)


def test_no_request(monkeypatch):
    server = Server(monkeypatch)
    batch, q, k, v = server.batch(Mode.EXTEND, {})
    server.backend.init_forward_metadata(batch)
    assert server.run(batch, q, k, v).shape == (0, 64)


REFUSED = [
    ({"is_cross_attention": True}, "`is_cross_attention`"),
    ({"attn_type": "decoder_bidirectional"}, "`attn_type` decoder_bidirectional"),
    ({"dcp": 2}, "`attn_dcp_size`"),
    (
        {"token_to_kv_pool_allocator": types.SimpleNamespace(translate_kv_loc=len)},
        "a unified pool",
    ),
]


@pytest.mark.parametrize("form, word", REFUSED)
def test_refused(monkeypatch, form, word):
    with pytest.raises(NotImplementedError, match=word):
        Server(monkeypatch, **form).step(Mode.EXTEND, {0: 2})


def test_refused_in_a_batch(monkeypatch):
    server = Server(monkeypatch, drafts=4, topk=2)
    with pytest.raises(NotImplementedError, match="DLLM_EXTEND"):
        server.step(Mode.DLLM_EXTEND, {0: 2})
    info = types.SimpleNamespace(kv_indptr=torch.zeros(2))
    with pytest.raises(NotImplementedError, match="drafting"):
        server.step(Mode.DECODE, {0: 1}, spec_info=info)
    masks, (batch, q, k, v) = tree_batch(server, {0: 4})
    server.backend.init_forward_metadata(batch)
    server.layer.sliding_window_size = 3
    with pytest.raises(NotImplementedError, match="`sliding_window_size` 3 with 4 drafts"):
        server.run(batch, q, k, v)
    with pytest.raises(NotImplementedError, match="whose `k` is None"):
        server.backend.forward_extend(q, None, None, server.layer, batch)
    batch.spec_info.custom_mask = None
    with pytest.raises(ValueError, match="`custom_mask`"):
        server.backend.init_forward_metadata(batch)
    with pytest.raises(NotImplementedError, match="`score_mod`"):
        server.backend.forward_decode(q, k, v, server.layer, batch, score_mod=len)
    with pytest.raises(NotImplementedError, match="drafting"):
        type(server.backend)(None, skip_prefill=True)
