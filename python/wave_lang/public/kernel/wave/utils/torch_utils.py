"""Torch tensors on the default device, for tests and examples.

Values are drawn on the CPU, so they do not depend on the device."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel.wave.utils import general_utils


def get_default_device() -> str:
    """ "cuda", "cuda:N" when DEFAULT_GPU_DEVICE is set, or "cpu"."""
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    number = general_utils.DEFAULT_GPU_DEVICE
    return "cuda" if number is None else f"cuda:{number}"


def to_default_device(tensor: Any) -> Any:
    """The tensor on the default device."""
    return tensor.to(get_default_device())


def _make(name: str, *args: Any, **kwargs: Any) -> Any:
    import torch

    kwargs.pop("device", None)
    return to_default_device(getattr(torch, name)(*args, **kwargs))


def device_randn(*args: Any, **kwargs: Any) -> Any:
    """torch.randn on the default device."""
    return _make("randn", *args, **kwargs)


def device_randint(*args: Any, **kwargs: Any) -> Any:
    """torch.randint on the default device."""
    return _make("randint", *args, **kwargs)


def device_randperm(*args: Any, **kwargs: Any) -> Any:
    """torch.randperm on the default device."""
    return _make("randperm", *args, **kwargs)


def device_arange(*args: Any, **kwargs: Any) -> Any:
    """torch.arange on the default device."""
    return _make("arange", *args, **kwargs)


def device_zeros(*args: Any, **kwargs: Any) -> Any:
    """torch.zeros on the default device."""
    return _make("zeros", *args, **kwargs)


def device_ones(*args: Any, **kwargs: Any) -> Any:
    """torch.ones on the default device."""
    return _make("ones", *args, **kwargs)


def device_empty(*args: Any, **kwargs: Any) -> Any:
    """torch.empty on the default device."""
    return _make("empty", *args, **kwargs)


def device_full(*args: Any, **kwargs: Any) -> Any:
    """torch.full on the default device."""
    return _make("full", *args, **kwargs)


def device_tensor(*args: Any, **kwargs: Any) -> Any:
    """torch.tensor on the default device."""
    return _make("tensor", *args, **kwargs)


def quantized_tensor(shape: Any, dtype: Any, scale: float) -> Any:
    """Whole numbers in [-scale, scale] of a torch dtype."""
    import torch

    values = torch.ceil(torch.clamp(torch.randn(shape) * scale, -scale, scale))
    return to_default_device(values.to(dtype))
