"""generate_iree_ref: reference results that tests take from IREE.

IREE compiles the matmul for the same matrix instructions, so the tests compare with a tolerance
that sums in another order exceed (docs/compatibility.md). Here matmuls of 16-bit floats are
computed by a plain kernel for the device that the tensors are on; the rest by PyTorch."""

from __future__ import annotations

import functools
from typing import Any, Sequence

from wave_lang.kernel import lang as tkl
from wave_lang.kernel.ops.wave_ops import iterate, mma, read, write
from wave_lang.kernel.wave.compile import WaveCompileOptions, wave_compile
from wave_lang.kernel.wave.constraints import HardwareConstraint, MMAType, TilingConstraint
from wave_lang.kernel.wave.constraints import WaveConstraint, WorkgroupConstraint
from wave_lang.kernel.wave.wave import wave


@functools.cache
def _plain_product(name: str) -> Any:
    """c[m, n] = sum over k of a[m, k] b[n, k], by tiles in the order of k; elements of a and b as named."""
    M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
    SPACE = tkl.global_symbols.GLOBAL_ADDRESS_SPACE
    dtype = getattr(tkl, name)
    instruction = {"f16": MMAType.F32_16x16x16_F16, "bf16": MMAType.F32_16x16x32_BF16}[name]

    @wave([
        HardwareConstraint(threads_per_wave=64, mma_type=instruction),
        WorkgroupConstraint(M, 64, 0),
        WorkgroupConstraint(N, 64, 1),
        TilingConstraint(K, 32),
        WaveConstraint(M, 32),
        WaveConstraint(N, 32),
    ])
    def product(
        a: tkl.Memory[M, K, SPACE, dtype],
        b: tkl.Memory[N, K, SPACE, dtype],
        c: tkl.Memory[M, N, SPACE, tkl.f32],
    ):
        @iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def sums(acc):
            return mma(read(a), read(b), acc)

        write(sums, c)

    return wave_compile(WaveCompileOptions(dynamic_symbols=[M, N, K]), product)


def _mmt(inputs: Sequence[Any]) -> Any:
    import torch

    a, b = inputs[:2]
    name = {torch.float16: "f16", torch.bfloat16: "bf16"}.get(a.dtype)
    if name is None or b.dtype != a.dtype:
        return a.float() @ b.float().transpose(-1, -2)
    c = torch.empty(*a.shape[:-1], b.shape[-2], dtype=torch.float32, device=a.device)
    rows = [(a, b, c)] if a.dim() == 2 else zip(a, b, c)
    for tensors in rows:
        _plain_product(name)(*tensors)
    return c


def _chain(inputs: Sequence[Any], through: Any) -> Any:
    q, k, v = inputs[:3]
    return _mmt([v, _mmt([q, k]).to(through)])


def _conv(kind: str, inputs: Sequence[Any], stride: int) -> Any:
    import torch

    x, w = inputs[0].float(), inputs[1].float()
    if "nhwc" in kind:
        x, w = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)
    y = torch.nn.functional.conv2d(x, w, stride=stride)
    return y.permute(0, 2, 3, 1) if "nhwc" in kind else y


def generate_iree_ref(
    kind: str, inputs: Sequence[Any], outputs: Sequence[Any], options: Any = None, **kwargs: Any
) -> None:
    """Fills outputs[0] with the result of a named kernel."""
    import torch

    f8 = torch.float8_e4m3fnuz
    if kind in ("mmt", "bmmt"):
        result = _mmt(inputs)
    elif kind == "mmt_f8":
        result = _mmt([x.to(f8) for x in inputs])
    elif kind == "chain_mmt":
        result = _chain(inputs, inputs[0].dtype)
    elif kind == "chain_mmt_f8":
        result = _chain([x.to(f8) for x in inputs], f8)
    elif kind.startswith("conv_2d"):
        result = _conv(kind, inputs, kwargs["stride"])
    else:
        raise ValueError(f"no reference kernel `{kind}`")
    outputs[0].copy_(result.to(outputs[0].dtype))
