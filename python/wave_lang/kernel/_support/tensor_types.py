"""Element types under the names of PyTorch and NumPy."""

from __future__ import annotations

from typing import Any

from . import dtype as _dtypes
from .dtype import DataType

# ours -> theirs; NumPy lacks those of the second group.
NUMPY_NAMES = {
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
}
TORCH_NAMES = {
    **NUMPY_NAMES,
    "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz",
}


def element_type(name: str) -> DataType | None:
    """The element type that PyTorch or NumPy calls `name`; None when there is none."""
    for ours, theirs in TORCH_NAMES.items():
        if theirs == name:
            return getattr(_dtypes, ours)
    return None


def torch_table() -> dict[Any, DataType]:
    """{torch dtype: element type}."""
    import torch

    return {getattr(torch, name): getattr(_dtypes, ours) for ours, name in TORCH_NAMES.items()}


def torch_dtype_to_wave(torch_dtype: Any) -> DataType:
    """The element type of a torch dtype; ValueError when there is none."""
    found = torch_table().get(torch_dtype)
    if found is None:
        raise ValueError(f"{torch_dtype} has no corresponding element type")
    return found


def wave_dtype_to_torch(wave_dtype: DataType) -> Any:
    """The torch dtype of an element type; ValueError when there is none."""
    for theirs, ours in torch_table().items():
        if ours == wave_dtype:
            return theirs
    raise ValueError(f"{wave_dtype} has no torch dtype")


__all__ = ["TORCH_NAMES", "element_type", "torch_dtype_to_wave", "torch_table", "wave_dtype_to_torch"]
