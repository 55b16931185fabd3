"""Stand-ins for the parts of SGLang and vLLM that the plugins use, so that plugins can be tested
without the frameworks: base classes, registries, caches of tokens, batches and layers."""

import contextlib
import enum
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
import types
from dataclasses import dataclass
from typing import Any
from unittest.mock import MagicMock

DEVICE = "cpu"  # where tensors of the tests are


@contextlib.contextmanager
def on(device):
    """Within it, tests run on this device."""
    global DEVICE
    before, DEVICE = DEVICE, device
    try:
        yield
    finally:
        DEVICE = before


def host(tensor):
    return tensor.detach().double().cpu().numpy()


class Captured:
    """A call without arguments and the tensors that it reads: on a GPU a graph, elsewhere the call
    itself. `again` copies other tensors there first."""

    def __init__(self, call, *inputs):
        self.call, self.inputs = call, inputs
        if DEVICE == "cpu":
            return
        import torch

        call()  # compiles
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = call()

        def replay():
            made.fill_(float("nan"))
            graph.replay()
            torch.cuda.synchronize()
            return made

        self.call = replay

    def again(self, *inputs):
        for there, new in zip(self.inputs, inputs, strict=True):
            there.copy_(new)
        return self.call()


def module(monkeypatch, name, **members):
    """Makes a module importable, and the packages around it."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        inner = ".".join(parts[:i])
        if inner not in sys.modules:
            made = types.ModuleType(inner)
            made.__path__ = []
            monkeypatch.setitem(sys.modules, inner, made)
            if i > 1:
                setattr(sys.modules[".".join(parts[: i - 1])], parts[i - 1], made)
    for key, value in members.items():
        setattr(sys.modules[name], key, value)
    return sys.modules[name]


class Mode(enum.Enum):
    EXTEND = "extend"
    DECODE = "decode"
    IDLE = "idle"
    TARGET_VERIFY = "verify"
    DLLM_EXTEND = "dllm"

    def is_decode_or_idle(self):
        return self in (Mode.DECODE, Mode.IDLE)

    def is_decode(self):
        return self is Mode.DECODE

    def is_target_verify(self):
        return self is Mode.TARGET_VERIFY

    def is_dllm_extend(self):
        return self is Mode.DLLM_EXTEND


class SGLangBase:
    def __init__(self):
        pass


def sglang(monkeypatch, drafts=None, topk=None, dcp=1):
    """SGLang's modules. Returns its registry of backends."""
    for name in [n for n in sys.modules if n == "sglang" or n.startswith("sglang.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "wave_lang.integrations.sglang_backend", raising=False)
    backends = {}

    def register(name):
        def keep(function):
            backends[name] = function
            return function

        return keep

    attention = "sglang.srt.layers.attention"
    module(monkeypatch, f"{attention}.attention_registry", register_attention_backend=register)
    module(monkeypatch, f"{attention}.base_attn_backend", AttentionBackend=SGLangBase)
    spec = types.SimpleNamespace(speculative_num_draft_tokens=drafts, speculative_eagle_topk=topk)
    parallel = types.SimpleNamespace(attn_tp_size=1, attn_dcp_size=dcp)
    module(
        monkeypatch,
        "sglang.srt.runtime_context",
        get_spec=lambda: spec,
        get_parallel=lambda: parallel,
    )
    return backends


class Launched:
    """A function that is launched like a kernel of Triton."""

    def __init__(self, function):
        self.function = function

    def __getitem__(self, grid):
        return self.function


def _kv_indices(table, requests, lengths, ends, starts, out, stride):
    for n, (request, length) in enumerate(zip(requests.tolist(), lengths.tolist())):
        first = int(ends[n])
        out[first : first + length] = table[request, :length]


# Packages of SGLang whose modules are imported without what their `__init__` imports.
SGLANG_PACKAGES = (
    "sglang sglang.kernels sglang.kernels.ops sglang.kernels.ops.attention"
    " sglang.kernels.ops.kvcache sglang.srt sglang.srt.layers sglang.srt.layers.attention"
    " sglang.test sglang.test.ci"
).split()


def _core_count(device):
    import torch

    return torch.cuda.get_device_properties(0).multi_processor_count if DEVICE == "cuda" else 0


def sglang_source(monkeypatch, checkout, drafts=None, topk=None):
    """SGLang's own modules, from a checkout: its `wave` backend, and on a GPU its Triton kernels.
    Stand-ins are what asks for the machine, batches, and the server's arguments."""
    sglang(monkeypatch, drafts, topk)
    for name in SGLANG_PACKAGES:
        module(monkeypatch, name).__path__ = [os.path.join(checkout, "python", *name.split("."))]
    monkeypatch.delitem(sys.modules, "sglang.srt.layers.attention.base_attn_backend")
    batches = "sglang.srt.model_executor.forward_batch_info"
    module(monkeypatch, batches, ForwardBatch=object, ForwardMode=Mode)
    cuda = DEVICE == "cuda"
    module(
        monkeypatch,
        "sglang.srt.utils",
        get_bool_env_var=lambda *args: False,
        get_device=lambda: DEVICE,
        get_device_core_count=_core_count,
        is_cuda=lambda: cuda,
        is_gfx95_supported=lambda: False,
        is_hip=lambda: False,
    )
    module(monkeypatch, "sglang.srt.utils.common", is_npu=lambda: False)
    if not cuda:
        metadata = "sglang.kernels.ops.attention.metadata"
        module(monkeypatch, metadata, get_num_kv_splits_triton=Launched(lambda *a, **k: None))
        indices = "sglang.kernels.ops.kvcache.kv_indices"
        module(monkeypatch, indices, create_flashinfer_kv_indices_triton=Launched(_kv_indices))
        if importlib.util.find_spec("triton") is None:
            module(monkeypatch, "triton")


def sglang_backend(monkeypatch, checkout, **spec):
    """The class of SGLang's own `wave` backend."""
    sglang_source(monkeypatch, checkout, **spec)
    from sglang.srt.layers.attention.wave_backend import WaveAttnBackend

    return WaveAttnBackend


class Pool:
    """Keys and values of tokens; what no token was stored in is NaN."""

    def __init__(self, torch, tokens, heads, size, columns, dtype, latent=False):
        kept = dtype if dtype.itemsize > 1 else torch.float32
        made = {"dtype": kept, "device": DEVICE}
        self.keys = torch.full((tokens, heads, size), float("nan"), **made).to(dtype)
        self.values = self.keys[..., :columns]
        self.latent = latent
        if not latent:
            self.values = torch.full((tokens, heads, columns), float("nan"), **made).to(dtype)

    def set_kv_buffer(self, layer, places, k, v, k_scale=None, v_scale=None):
        for cache, given, scale in ((self.keys, k, k_scale), (self.values, v, v_scale)):
            if cache is self.values and self.latent:
                continue
            given = given.view(-1, *cache.shape[1:])
            given = given if scale is None else given.div_(scale)
            cache[places] = given.to(cache.dtype)

    def get_key_buffer(self, layer_id):
        return self.keys

    def get_value_buffer(self, layer_id):
        return self.values


@dataclass
class Layer:
    tp_q_head_num: int
    tp_k_head_num: int
    qk_head_dim: int
    v_head_dim: int
    scaling: float
    layer_id: int = 0
    logit_cap: float = 0.0
    sliding_window_size: int = -1
    k_scale: Any = None
    v_scale: Any = None
    is_cross_attention: bool = False
    attn_type: str = "decoder"


class AttentionType:
    DECODER, ENCODER, ENCODER_ONLY = "decoder", "encoder", "encoder_only"


class GraphSupport(enum.Enum):
    ALWAYS = 3
    NEVER = 0


class VllmBuilder:
    _cudagraph_support = GraphSupport.NEVER

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        self.device = device


class MultipleOf:
    def __init__(self, base):
        self.base = base


class IrOp:
    """An op of vLLM with several implementations."""

    def __init__(self):
        self.impls = {}

    def register_impl(self, provider, *, supported=True, supports_args=None, inplace=False):
        def keep(function):
            assert provider not in self.impls
            sys.modules["torch"].library.infer_schema(function, mutates_args=[])
            made = types.SimpleNamespace(impl_fn=function, supports_args=supports_args)
            self.impls[provider] = made
            return function

        return keep


def vllm(monkeypatch):
    """vLLM's modules. Returns its overrides of backends and its ops."""
    for name in [n for n in sys.modules if n == "vllm" or n.startswith("vllm.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("backend", "mla"):
        monkeypatch.delitem(sys.modules, f"wave_lang.integrations.vllm_{name}", raising=False)
    overrides = {}
    names = ("rms_norm", "fused_add_rms_norm", "silu_and_mul")
    ops = types.SimpleNamespace(**{name: IrOp() for name in names})
    module(
        monkeypatch,
        "vllm.v1.attention.backends.registry",
        AttentionBackendEnum=types.SimpleNamespace(CUSTOM="CUSTOM"),
        register_backend=overrides.__setitem__,
    )
    plain = type("AttentionBackend", (), {"is_mla": classmethod(lambda cls: False)})
    module(
        monkeypatch,
        "vllm.v1.attention.backend",
        AttentionBackend=plain,
        AttentionCGSupport=GraphSupport,
        AttentionImpl=type("AttentionImpl", (), {}),
        AttentionMetadata=type("AttentionMetadata", (), {}),
        AttentionMetadataBuilder=VllmBuilder,
        AttentionType=AttentionType,
        MLAAttentionImpl=type("MLAAttentionImpl", (), {}),
        MultipleOf=MultipleOf,
    )
    module(monkeypatch, "vllm.ir.ops", **vars(ops))
    module(monkeypatch, "vllm.envs", VLLM_BATCH_INVARIANT=False)
    return lambda: overrides["CUSTOM"], ops


def vllm_layers(monkeypatch, switches):
    """vLLM's layers of activations; `switches`: its `custom_ops`."""
    import torch

    replaced = {}

    class CustomOp(torch.nn.Module):
        def __new__(cls, *args, **kwargs):
            return super().__new__(replaced.get(cls.__name__, cls))

        def forward(self, x):
            return self.forward_cuda(x) if f"+{self.name}" in switches else self.forward_native(x)

        @classmethod
        def register_oot(cls, ours):
            assert cls.__name__ not in replaced
            ours.name = cls.__name__
            replaced[cls.__name__] = ours

    class SiluAndMul(CustomOp):
        name = "silu_and_mul"

        def forward_native(self, x):
            return "PyTorch"

    class GeluAndMul(SiluAndMul):
        name = "gelu_and_mul"

        def __init__(self, approximate="none"):
            super().__init__()
            self.approximate = approximate

    module(monkeypatch, "vllm.model_executor.custom_op", op_registry_oot=replaced)
    layers = {"SiluAndMul": SiluAndMul, "GeluAndMul": GeluAndMul}
    return module(monkeypatch, "vllm.model_executor.layers.activation", **layers)


# Packages that modules of vLLM import and the plugin does not need.
DUMMIES = set(
    "aiohttp blake3 cachetools cbor2 cloudpickle compressed_tensors cpuinfo depyf diskcache einops"
    " fastapi gguf huggingface_hub lark mistral_common msgspec numba openai opentelemetry PIL"
    " prometheus_client psutil pybase64 pydantic pydantic_core ray regex requests safetensors scipy"
    " sentencepiece setproctitle tokenizers torchvision tqdm transformers urllib3 uvloop xxhash"
    " yaml zmq".split()
)


class Dummy(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {}) if name[0].isupper() else MagicMock(name=name)
        setattr(self, name, made)
        return made


class Dummies(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes modules of packages that are not installed."""

    def find_spec(self, name, path=None, target=None):
        package = name.split(".")[0]
        installed = package in sys.modules and not isinstance(sys.modules[package], Dummy)
        if package in DUMMIES and not installed:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return re if spec.name == "regex" else Dummy(spec.name)

    def exec_module(self, module):
        pass


def vllm_source(checkout):
    """vLLM's own registry, base classes and ops, from a checkout without its compiled parts. They
    stay until the process ends: PyTorch's operators are registered once."""
    if "vllm" not in sys.modules:
        sys.meta_path.append(Dummies())
        package = sys.modules["vllm"] = types.ModuleType("vllm")
        package.__path__, package.__version__ = [os.path.join(checkout, "vllm")], "0"
        import vllm.platforms as platforms
        from vllm.platforms.interface import UnspecifiedPlatform

        platforms._current_platform = UnspecifiedPlatform()  # those of GPUs have compiled parts
    import vllm.ir.ops as ops
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    def chosen():
        made = AttentionBackendEnum.CUSTOM.get_class()
        return f"{made.__module__}.{made.__qualname__}"

    return chosen, ops


def vllm_source_layers(monkeypatch, switches):
    """The same from the checkout of `vllm_source`, on a machine of no kind that it knows."""
    root = sys.modules["vllm"].__path__[0]
    for name in ("model_executor", "model_executor.layers"):
        package = types.ModuleType(f"vllm.{name}")
        package.__path__ = [os.path.join(root, *name.split("."))]
        monkeypatch.setitem(sys.modules, f"vllm.{name}", package)
    kinds = "cuda cuda_alike cpu xpu rocm tpu out_of_tree".split()
    platform = types.SimpleNamespace(**{f"is_{kind}": lambda: False for kind in kinds})
    config = types.SimpleNamespace(
        custom_ops=switches, enabled_custom_ops=set(), disabled_custom_ops=set(), mode=0
    )
    for name, members in {
        "config": {"get_cached_compilation_config": lambda: config},
        "config.compilation": {"CompilationMode": types.SimpleNamespace(NONE=0)},
        "model_executor.utils": {},
        "platforms": {"current_platform": platform},
    }.items():
        dummy = Dummy(f"vllm.{name}")
        vars(dummy).update(members)
        monkeypatch.setitem(sys.modules, f"vllm.{name}", dummy)
    for name in ("custom_op", "layers.activation"):
        monkeypatch.delitem(sys.modules, f"vllm.model_executor.{name}", raising=False)
    return importlib.import_module("vllm.model_executor.layers.activation")


class MLALayer:
    """vLLM's layer of MLA: queries go into the space of latent vectors, and results out of it."""

    def forward_impl(self, q, latent, turned, cache, data, output):
        import torch

        if self.kv_cache_dtype.startswith("fp8"):
            cache = cache.view(torch.float8_e4m3fn)
        assert data.num_decode_tokens == data.num_actual_tokens and not data.num_prefills
        plain, turned = q[: data.num_actual_tokens].split(
            [self.qk_nope_head_dim, self.qk_rope_head_dim], -1
        )
        moved = torch.einsum("thp,hpl->thl", plain, self.W_UK_T)
        o, _ = self.impl.forward_mqa((moved, turned), cache, data, self)
        out = torch.einsum("thl,hlv->thv", o, self.W_UV)
        output[: data.num_actual_tokens] = out.flatten(1)
        return output


# What vLLM's module of MLA imports, and what of it must be more than a dummy.
MLA_IMPORTS = {
    "_aiter_ops": {},
    "_custom_ops": {},
    "compilation.breakable_cudagraph": {"eager_break_during_capture": lambda function: function},
    "config": {},
    "config.cache": {},
    "forward_context": {},
    "model_executor.custom_op": {"CustomOp": MagicMock()},
    "model_executor.layers.attention.attention": {},
    "model_executor.layers.attention.kv_transfer_utils": {
        "maybe_transfer_kv_layer": lambda function: function
    },
    "model_executor.layers.attention_layer_base": {},
    "model_executor.layers.linear": {},
    "model_executor.layers.quantization.input_quant_fp8": {
        "QuantFP8": type(
            "QuantFP8", (), dict.fromkeys(f"forward_{on}" for on in ("native", "cuda", "hip"))
        )
    },
    "model_executor.utils": {},
    "utils.flashinfer": {},
    "v1.attention.backends.mla.prefill": {},
    "v1.attention.backends.utils": {},
    "v1.attention.ops.dcp": {},
    "v1.attention.ops.merge_attn_states": {},
    "v1.attention.ops.pcp": {},
    "v1.attention.selector": {},
}


def vllm_source_mla(monkeypatch):
    """vLLM's own layer of MLA, from the checkout of `vllm_source`."""
    name, root = "vllm.model_executor.layers.attention", sys.modules["vllm"].__path__[0]
    package = types.ModuleType(name)
    package.__path__ = [os.path.join(root, *name.split(".")[1:])]
    monkeypatch.setitem(sys.modules, name, package)
    for inner, members in MLA_IMPORTS.items():
        dummy = Dummy(f"vllm.{inner}")
        vars(dummy).update(members)
        monkeypatch.setitem(sys.modules, f"vllm.{inner}", dummy)
    from vllm.utils import torch_utils

    monkeypatch.setattr(torch_utils, "direct_register_custom_op", lambda **named: None)
    found = importlib.import_module(f"{name}.mla_attention")
    monkeypatch.setitem(sys.modules, found.__name__, sys.modules.pop(found.__name__))
    return found.MLAAttention
