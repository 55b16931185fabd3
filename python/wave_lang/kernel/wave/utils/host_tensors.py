"""Tensors made of what the host received, in the library the caller uses."""

from __future__ import annotations

import sys
from typing import Any, Sequence

_NUMPY = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
    "i1": "bool",
    "index": "int64",
}
_TORCH = {
    **_NUMPY,
    "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz",
}


def log_tensor(dtype: str, shape: Sequence[int], data: bytes, like: Sequence[Any]) -> Any:
    """Bytes as a tensor: of PyTorch, and where its first tensor lies, when the call used PyTorch;
    else of NumPy, else a memoryview. Elements neither library knows stay bytes."""
    torch: Any = sys.modules.get("torch")
    first = next((a for a in like if torch is not None and isinstance(a, torch.Tensor)), None)
    if first is not None:
        flat = torch.empty(0, dtype=torch.uint8)
        if data:  # frombuffer refuses empty ones
            flat = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        kind = getattr(torch, _TORCH.get(dtype, "uint8"), torch.uint8)
        made = flat.view(kind).reshape(*shape, *([-1] if kind == torch.uint8 else []))
        return made.to(first.device)
    try:
        import numpy
    except ImportError:
        return memoryview(data)
    kind = _NUMPY.get(dtype, f"uint{8 * len(data) // max(_count(shape), 1)}")
    return numpy.frombuffer(data, dtype=kind).reshape(shape).copy()


def _count(shape: Sequence[int]) -> int:
    n = 1
    for extent in shape:
        n *= extent
    return n
