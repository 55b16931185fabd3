"""Tensors made from data that the host received, in the library that the caller uses."""

from __future__ import annotations

import math
import sys
from typing import Any, Sequence

from ..._wave import DataType
from .._support.tensor_types import name_elsewhere


def log_tensor(dtype: str, shape: Sequence[int], data: bytes, like: Sequence[Any]) -> Any:
    """Bytes as a tensor: of PyTorch, on the device of the call's first tensor, if the call used
    PyTorch; else of NumPy, else a memoryview. Elements of a type that the library lacks stay
    bytes."""
    ours = DataType("i64" if dtype == "index" else dtype)
    width = len(data) // max(math.prod(shape), 1)
    torch: Any = sys.modules.get("torch")
    first = next((a for a in like if torch is not None and isinstance(a, torch.Tensor)), None)
    if first is not None:
        flat = torch.empty(0, dtype=torch.uint8)
        if data:  # frombuffer rejects empty ones
            flat = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        theirs = getattr(torch, name_elsewhere(ours) or "", None)
        made = flat.reshape(*shape, width) if theirs is None else flat.view(theirs).reshape(shape)
        return made.to(first.device)
    try:
        import numpy
    except ImportError:
        return memoryview(data)
    kind = name_elsewhere(ours, in_numpy=True) or f"uint{8 * width}"
    return numpy.frombuffer(data, dtype=kind).reshape(shape).copy()
