"""Element types under the names of PyTorch and NumPy, as the extension has them for arguments."""

from __future__ import annotations

import functools
from typing import Any

from ... import _wave
from ..._wave import DataType


@functools.lru_cache(maxsize=64)
def element_type(name: str) -> DataType | None:
    """The element type that PyTorch or NumPy calls `name`; None when there is none."""
    return next((ours for theirs, ours, _ in _wave.tensor_dtypes if theirs == name), None)


def name_elsewhere(dtype: DataType, in_numpy: bool = False) -> str | None:
    """What PyTorch, or NumPy, calls an element type; None when they have none."""
    names = (t for t, ours, numpy in _wave.tensor_dtypes if ours is dtype and (numpy or not in_numpy))
    return next(names, None)


def torch_table() -> dict[Any, DataType]:
    """{torch dtype: element type}."""
    import torch

    rows = ((getattr(torch, theirs, None), ours) for theirs, ours, _ in _wave.tensor_dtypes)
    return {theirs: ours for theirs, ours in rows if theirs is not None}


def torch_dtype_to_wave(torch_dtype: Any) -> DataType:
    """The element type of a torch dtype; ValueError when there is none."""
    found = torch_table().get(torch_dtype)
    if found is None:
        raise ValueError(f"{torch_dtype} has no corresponding element type")
    return found


def wave_dtype(dtype: Any) -> DataType:
    """The element type that `dtype` means: one of ours, of PyTorch's, or of NumPy's (ml_dtypes')."""
    if isinstance(dtype, DataType):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    found = element_type(name.removeprefix("torch."))
    if found is None:
        raise ValueError(f"{dtype} has no corresponding element type")
    return found


def wave_dtype_to_torch(wave_dtype: DataType) -> Any:
    """The torch dtype of an element type; ValueError when there is none."""
    import torch

    found = getattr(torch, name_elsewhere(wave_dtype) or "", None)
    if found is None:
        raise ValueError(f"{wave_dtype} has no torch dtype")
    return found


__all__ = ["element_type", "name_elsewhere", "torch_dtype_to_wave", "torch_table", "wave_dtype", "wave_dtype_to_torch"]
