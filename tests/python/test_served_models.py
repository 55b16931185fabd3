"""Small models with random weights, served through the plugins of SGLang and vLLM: a Llama with
shared heads, and one with latent keys (MLA) and experts. Logits are compared with float64."""

import copy
import types

import pytest

import serving_standins
from serving_standins import Layer, Mode, Pool
from test_vllm_mla import OPTIONS
from test_vllm_plugin import SOURCE, batch_class

torch = pytest.importorskip("torch")
from torch import nn
from torch.nn import functional as F

import wave_lang
import wave_lang.nn as wave_nn

HIDDEN, HEADS, LAYERS, WORDS, CONTEXT = 32, 4, 2, 41, 32
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def rotated(x, positions):
    """x [tokens, heads, size]."""
    half = torch.arange(x.shape[-1] // 2, dtype=x.dtype, device=x.device)
    rate = 50.0 ** -(half / (x.shape[-1] // 2))
    angle = positions[:, None, None].to(x.dtype) * rate
    left, right = x.chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)


def linear(rows, columns):
    return nn.Linear(columns, rows, bias=False)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = linear(48, HIDDEN), linear(48, HIDDEN)
        self.down_proj = linear(HIDDEN, 48)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Experts(nn.Module):
    def __init__(self, count=4, top=2):
        super().__init__()
        self.gate, self.top = linear(count, HIDDEN), top
        self.experts = nn.ModuleList(MLP() for _ in range(count))

    def forward(self, x):
        weights, ids = self.gate(x).softmax(-1).topk(self.top)
        weights = weights / weights.sum(-1, keepdim=True)
        every = torch.stack([expert(x) for expert in self.experts], 1)
        chosen = every.gather(1, ids[..., None].expand(*ids.shape, HIDDEN))
        return (weights[..., None] * chosen).sum(1)


class Shared(nn.Module):
    """Attention with two query heads for each key head."""

    heads, kv_heads, size, columns, scale = HEADS, 2, 8, 8, 8**-0.5

    def __init__(self):
        super().__init__()
        self.qkv, self.out = linear((HEADS + 4) * 8, HIDDEN), linear(HIDDEN, HEADS * 8)

    def forward(self, x, positions, attend):
        q, k, v = self.qkv(x).view(len(x), -1, 8).split([HEADS, 2, 2], 1)
        o = attend(rotated(q, positions), rotated(k, positions), v.contiguous())
        return self.out(o.reshape(len(x), -1))


class Latent(nn.Module):
    """Keys and values are one vector of 16 + 4 for all heads; queries are moved into its space."""

    heads, kv_heads, size, columns, scale = HEADS, 1, 20, 16, 12**-0.5

    def __init__(self):
        super().__init__()
        self.q, self.kv, self.norm = linear(HEADS * 12, HIDDEN), linear(20, HIDDEN), nn.RMSNorm(16)
        self.up_k, self.up_v = (nn.Parameter(torch.randn(HEADS, 8, 16) / 4) for _ in range(2))
        self.out = linear(HIDDEN, HEADS * 8)

    def forward(self, x, positions, attend):
        plain, turned = self.q(x).view(-1, HEADS, 12).split([8, 4], -1)
        latent, key = self.kv(x).split([16, 4], -1)
        latent = self.norm(latent)
        plain = torch.einsum("thd,hdc->thc", plain, self.up_k)
        q = torch.cat([plain, rotated(turned, positions)], -1)
        k = torch.cat([latent, rotated(key[:, None], positions)[:, 0]], -1)[:, None]
        o = attend(q, k, k[..., :16]).reshape(-1, HEADS, 16)
        return self.out(torch.einsum("thc,hdc->thd", o, self.up_v).flatten(1))


class Model(nn.Module):
    def __init__(self, attention, mlp):
        super().__init__()
        self.table, self.head = nn.Embedding(WORDS, HIDDEN), linear(WORDS, HIDDEN)
        self.attention = nn.ModuleList(attention() for _ in range(LAYERS))
        self.mlp = nn.ModuleList(mlp() for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.RMSNorm(HIDDEN, eps=1e-5) for _ in range(2 * LAYERS + 1))

    def forward(self, tokens, positions, attend):
        x = self.table(tokens)
        for n in range(LAYERS):
            ask = lambda q, k, v, n=n: attend(n, q, k, v)
            x = x + self.attention[n](self.norms[2 * n](x), positions, ask)
            x = x + self.mlp[n](self.norms[2 * n + 1](x))
        return self.head(self.norms[-1](x))


def alone(model, tokens):
    """The logits of a sequence, computed by PyTorch at once."""

    def attend(n, q, k, v):
        heads = [x.transpose(0, 1)[None] for x in (q, k, v)]
        scale = model.attention[n].scale
        o = F.scaled_dot_product_attention(*heads, is_causal=True, scale=scale, enable_gqa=True)
        return o[0].transpose(0, 1)

    with torch.no_grad():
        return model(whole(tokens), whole(range(len(tokens))), attend)


def whole(numbers):
    return torch.tensor(numbers, device=serving_standins.DEVICE)


class SGLang:
    """The plugin's backend, with a cache for each layer."""

    def __init__(self, monkeypatch, model, drafts):
        backends = serving_standins.sglang(monkeypatch, drafts=drafts, topk=1)
        from wave_lang.integrations import sglang

        sglang.register()
        a = model.attention[0]
        sizes = (a.kv_heads, a.size, a.columns)
        self.pools = [
            Pool(torch, 65, *sizes, torch.float32, latent=sizes[1] != sizes[2])
            for _ in range(LAYERS)
        ]
        self.layers = [Layer(a.heads, *sizes, a.scale, layer_id=n) for n in range(LAYERS)]
        self.model, device = model, serving_standins.DEVICE
        self.table = torch.zeros(4, CONTEXT, dtype=torch.int32, device=device)
        self.free, self.lengths = torch.randperm(64).tolist(), {}
        self.backend = backends["wave"](
            types.SimpleNamespace(
                token_to_kv_pool=self,
                device=device,
                req_to_token_pool=types.SimpleNamespace(req_to_token=self.table, size=4),
                model_config=types.SimpleNamespace(context_len=CONTEXT),
                server_args=types.SimpleNamespace(),
            )
        )

    def get_key_buffer(self, n):
        return self.pools[n].keys

    def get_value_buffer(self, n):
        return self.pools[n].values

    def set_kv_buffer(self, layer, *args):
        self.pools[layer.layer_id].set_kv_buffer(layer, *args)

    def step(self, mode, new):
        """{request: tokens}: the logits of all of them."""
        before = [self.lengths.get(r, 0) for r in new]
        places, positions = [], []
        for (request, tokens), length in zip(new.items(), before):
            for t in range(length, length + len(tokens)):
                self.table[request, t] = self.free.pop() + 1
                places.append(int(self.table[request, t]))
                positions.append(t)
            self.lengths[request] = length + len(tokens)
        after = [self.lengths[r] for r in new]
        lengths = whole(before if mode is Mode.TARGET_VERIFY else after)
        counts = [len(tokens) for tokens in new.values()]
        batch = types.SimpleNamespace(
            forward_mode=mode,
            batch_size=len(new),
            input_ids=whole(sum(new.values(), [])),
            req_pool_indices=whole(list(new)),
            seq_lens=lengths,
            seq_lens_cpu=lengths.cpu(),
            out_cache_loc=whole(places),
            extend_seq_lens=whole(counts),
            extend_seq_lens_cpu=counts,
            extend_prefix_lens=whole(before),
            extend_prefix_lens_cpu=before,
            spec_info=None,
        )
        self.backend.init_forward_metadata(batch)
        forward = self.backend.forward_extend
        forward = self.backend.forward_decode if mode is Mode.DECODE else forward

        def attend(n, q, k, v):
            return forward(q.flatten(1), k, v, self.layers[n], batch)

        with torch.no_grad():
            logits = self.model(batch.input_ids, whole(positions), attend)
        return dict(zip(new, logits.split(counts)))

    def forget(self, request, length):
        """Drafts after this length were not accepted."""
        self.lengths[request] = length


class VLLM:
    """The same for vLLM, whose batches with drafts are like those with chunks of prompts."""

    block = 4

    def __init__(self, monkeypatch, model, drafts):
        if SOURCE:
            serving_standins.vllm_source(SOURCE)
        else:
            serving_standins.vllm(monkeypatch)
        from wave_lang.integrations import vllm_backend, vllm_mla

        a, self.model, self.device = model.attention[0], model, serving_standins.DEVICE
        self.latent = a.size != a.columns
        backend = vllm_mla.WaveMLABackend if self.latent else vllm_backend.WaveBackend
        shape = (16, a.kv_heads, self.block, 2 * a.size)
        shape = (16, self.block, a.size) if self.latent else shape
        options = {"num_heads": a.heads, "head_size": a.size, "scale": a.scale}
        options |= {"num_kv_heads": a.kv_heads}
        if self.latent:
            options = OPTIONS | options | {"kv_lora_rank": a.columns}
        self.impls = [backend.get_impl_cls()(**options) for _ in range(LAYERS)]
        self.caches = [torch.full(shape, float("nan"), device=self.device) for _ in range(LAYERS)]
        config = types.SimpleNamespace(model_config=types.SimpleNamespace(max_model_len=CONTEXT))
        self.builder = backend.get_builder_cls()(None, ["layer"], config, self.device)
        self.layer = types.SimpleNamespace(_k_scale=torch.ones((), device=self.device))
        self.free, self.pages, self.lengths = torch.randperm(16).tolist(), {}, {}

    def step(self, mode, new):
        """{request: tokens}: the logits of all of them."""
        slots, positions, counts = [], [], [len(tokens) for tokens in new.values()]
        table = torch.full((len(new), CONTEXT // self.block), 10**6, dtype=torch.int32)
        for row, request in enumerate(new):
            pages, length = self.pages.setdefault(request, []), self.lengths.get(request, 0)
            for t in range(length, length + counts[row]):
                if t // self.block == len(pages):
                    pages.append(self.free.pop())
                slots.append(pages[t // self.block] * self.block + t % self.block)
                positions.append(t)
            table[row, : len(pages)] = torch.tensor(pages)
            self.lengths[request] = length + counts[row]
        starts = torch.tensor([0, *counts]).cumsum(0).int()
        data = self.builder.build(
            0,
            batch_class()(
                query_start_loc=starts.to(self.device),
                query_start_loc_cpu=starts,
                seq_lens=whole([self.lengths[r] for r in new]).int(),
                num_reqs=len(new),
                num_actual_tokens=len(slots),
                max_query_len=max(counts),
                max_seq_len=CONTEXT,
                block_table_tensor=table.to(self.device),
                slot_mapping=whole(slots),
                causal=True,
            ),
        )

        def attend(n, q, k, v):
            impl, cache, slots = self.impls[n], self.caches[n], data.slot_mapping
            if self.latent:
                rank = impl.kv_lora_rank
                given = (k[:, 0, :rank], k[..., rank:], cache, slots, "auto", self.layer._k_scale)
                impl.do_kv_cache_update(*given)
                return impl.forward_mqa(q, cache, data, self.layer)[0]
            impl.do_kv_cache_update(self.layer, k, v, cache, slots)
            return impl.forward(self.layer, q, k, v, cache, data, torch.empty_like(q))

        with torch.no_grad():
            logits = self.model(whole(sum(new.values(), [])), whole(positions), attend)
        return dict(zip(new, logits.split(counts)))

    def forget(self, request, length):
        self.lengths[request] = length


def near(found, model, exact, tokens):
    """The error is at most 1.5 times that of PyTorch, or a few roundings; and the best word is the
    same where it is clearly the best."""
    wanted = alone(exact, tokens)[-len(found) :]
    theirs = alone(model, tokens)[-len(found) :]
    least = 2e-6 * max(wanted.abs().max().item(), 1)
    limit = max(1.5 * (theirs - wanted).abs().max().item(), 8 * least)
    assert (found - wanted).abs().max() <= limit
    best = wanted.topk(2).values
    clear = best[:, 0] - best[:, 1] > 2 * limit
    assert torch.equal(found.argmax(-1)[clear], wanted.argmax(-1)[clear])


@pytest.mark.parametrize("served_by", [SGLang, VLLM])
@pytest.mark.parametrize("attention, mlp", [(Shared, MLP), (Latent, Experts)])
def test_models(monkeypatch, attention, mlp, served_by):
    torch.manual_seed(7)
    model = Model(attention, mlp).to(serving_standins.DEVICE)
    exact, served = copy.deepcopy(model).double(), copy.deepcopy(model)
    if mlp is Experts:
        for n, layer in enumerate(served.mlp):
            served.mlp[n] = wave_nn.MoE.from_experts(layer.gate, layer.experts, layer.top)
    kept = [row for row in wave_lang.replace(served, verbose=False) if row.new is None]
    assert {row.old for row in kept} <= {"Embedding", "Latent", "MoE", "Linear"}
    server = served_by(monkeypatch, served, drafts=3)
    texts = {0: [5, 3, 9, 1, 7], 2: [4]}
    for request, logits in server.step(Mode.EXTEND, dict(texts)).items():
        near(logits, model, exact, texts[request])
        texts[request] = texts[request] + [int(logits[-1].argmax())]
    texts[1] = [8, 8, 2]  # joins: prompts and single tokens in one batch
    new = {0: texts[0][-1:], 1: texts[1], 2: texts[2][-1:]}
    for request, logits in server.step(Mode.EXTEND, new).items():
        near(logits, model, exact, texts[request])
        texts[request] = texts[request] + [int(logits[-1].argmax())]
    for _ in range(2):
        new = {r: text[-1:] for r, text in texts.items()}
        for request, logits in server.step(Mode.DECODE, new).items():
            near(logits, model, exact, texts[request])
            texts[request] = texts[request] + [int(logits[-1].argmax())]
    speculate(server, model, exact, texts)


def speculate(server, model, exact, texts):
    """Drafts of which the second or third is wrong: what is accepted are the greedy tokens."""
    greedy = {}
    for request, text in texts.items():
        longer = list(text)
        for _ in range(2):
            longer.append(int(alone(exact, longer)[-1].argmax()))
        greedy[request] = longer
    new = {}
    for request, text in texts.items():
        wrong = (greedy[request][len(text)] + 1) % WORDS
        guess = [greedy[request][len(text)] if request else wrong, greedy[request][len(text) + 1]]
        new[request] = [text[-1], *guess]
    for request, logits in server.step(Mode.TARGET_VERIFY, new).items():
        text = texts[request]
        near(logits, model, exact, [*text, *new[request][1:]])
        chosen, accepted = logits.argmax(-1).tolist(), [int(logits[0].argmax())]
        while len(accepted) < 3 and new[request][len(accepted)] == accepted[-1]:
            accepted.append(chosen[len(accepted)])
        assert len(accepted) == (3 if request else 1)
        assert accepted[:2] == greedy[request][len(text) :][: len(accepted)]
        server.forget(request, len(text) + len(accepted) - 1)
