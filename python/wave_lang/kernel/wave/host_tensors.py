"""Tensors made from data that the host received, in the library that the caller uses."""

from __future__ import annotations

import sys
from typing import Any, Sequence

from .._support.tensor_types import NUMPY_NAMES, TORCH_NAMES


def log_tensor(dtype: str, shape: Sequence[int], data: bytes, like: Sequence[Any]) -> Any:
    """Bytes as a tensor: of PyTorch, on the device of the call's first tensor, if the call used
    PyTorch; else of NumPy, else a memoryview. Elements of a type that the library lacks stay
    bytes."""
    dtype = "i64" if dtype == "index" else dtype
    torch: Any = sys.modules.get("torch")
    first = next((a for a in like if torch is not None and isinstance(a, torch.Tensor)), None)
    if first is not None:
        flat = torch.empty(0, dtype=torch.uint8)
        if data:  # frombuffer rejects empty ones
            flat = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        kind = getattr(torch, TORCH_NAMES.get(dtype, "uint8"), torch.uint8)
        made = flat.view(kind).reshape(*shape, *([-1] if kind == torch.uint8 else []))
        return made.to(first.device)
    try:
        import numpy
    except ImportError:
        return memoryview(data)
    kind = NUMPY_NAMES.get(dtype, f"uint{8 * len(data) // max(_count(shape), 1)}")
    return numpy.frombuffer(data, dtype=kind).reshape(shape).copy()


def _count(shape: Sequence[int]) -> int:
    n = 1
    for extent in shape:
        n *= extent
    return n
