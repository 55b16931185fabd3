"""Reference results that older tests take from IREE; computed with PyTorch here."""

from __future__ import annotations

from typing import Any, Sequence


def _mmt(inputs: Sequence[Any]) -> Any:
    a, b = inputs[0].float(), inputs[1].float()
    return a @ b.transpose(-1, -2)


def _chain(inputs: Sequence[Any], through: Any) -> Any:
    q, k, v = inputs[:3]
    inner = (k.float() @ q.float().transpose(-1, -2)).to(through)
    return v.float() @ inner.float()


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
