"""The tensors that ops take and make: NumPy's, PyTorch's, and others on the host through DLPack."""

from __future__ import annotations

import math
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Iterator, Sequence

from wave_lang.kernel._support.tensor_types import name_elsewhere, wave_dtype
from wave_lang.kernel.lang import DataType

FLOATS = ("f16", "bf16", "f32")
_shapes_only: ContextVar[bool] = ContextVar("shapes_only", default=False)


@contextmanager
def shapes_only() -> Iterator[None]:
    """Within it, ops check their arguments and make their results, and compute nothing: tensors may
    have no memory, and extents no numbers."""
    before = _shapes_only.set(True)
    try:
        yield
    finally:
        _shapes_only.reset(before)


def has_shapes_only() -> bool:
    return _shapes_only.get()


def tensor(name: str, x: Any) -> Any:
    """The argument as a tensor of NumPy or PyTorch, in place."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return x
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.ndarray):
        return x
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"`{name}` is a {type(x).__name__}, expected a tensor")
    import numpy

    return numpy.from_dlpack(x)


def element_type(name: str, x: Any, allowed: Sequence[str]) -> DataType:
    """The element type of an argument, which must be among those allowed."""
    found = known_dtype(x.dtype)
    if not isinstance(found, DataType) or found.name not in allowed:
        raise TypeError(f"`{name}` has elements of type {found}, expected {' or '.join(allowed)}")
    return found


def known_dtype(dtype: Any) -> Any:
    """The element type that `dtype` means, or `dtype` if it means none."""
    try:
        return wave_dtype(dtype)
    except ValueError:
        return dtype


def expect_shape(name: str, x: Any, shape: Sequence[int]) -> None:
    if tuple(x.shape) != tuple(shape):
        raise ValueError(f"`{name}` has the shape {tuple(x.shape)}, expected {tuple(shape)}")


def result_type(given: Any, default: DataType) -> DataType:
    """The argument `out_dtype`, checked, or what it is by default."""
    found = default if given is None else known_dtype(given)
    if not isinstance(found, DataType) or found.name not in FLOATS:
        raise TypeError(f"`out_dtype` is {found}, expected {' or '.join(FLOATS)}")
    return found


def checked_bias(bias: Any, columns: int, dtype: DataType) -> Any:
    """A bias with an element for each column, or None."""
    if bias is None:
        return None
    bias = tensor("bias", bias)
    element_type("bias", bias, (dtype.name,))
    expect_shape("bias", bias, (columns,))
    return bias


def present(*tensors: Any) -> list[Any]:
    """Optional arguments that are given."""
    return [x for x in tensors if x is not None]


def _is_torch(x: Any) -> bool:
    return not hasattr(x, "__array_interface__")


def new_tensor(like: Any, shape: Sequence[int], dtype: DataType) -> Any:
    """A tensor of the same library on the same device; its contents are undefined."""
    if _is_torch(like):
        import torch

        return like.new_empty(tuple(shape), dtype=getattr(torch, name_elsewhere(dtype) or ""))
    import numpy

    name = name_elsewhere(dtype, in_numpy=True)
    if name is None:
        import ml_dtypes

        return numpy.empty(tuple(shape), getattr(ml_dtypes, name_elsewhere(dtype) or ""))
    return numpy.empty(tuple(shape), name)


def result(
    name: str, out: Any, like: Any, shape: Sequence[int], dtype: DataType, *inputs: Any
) -> Any:
    """`out`, checked, or a new tensor. `out` must not share memory with an input."""
    if out is None:
        return new_tensor(like, shape, dtype)
    found = tensor(name, out)
    expect_shape(name, found, shape)
    element_type(name, found, (dtype.name,))
    for other in (like, *inputs):
        if other is not None and overlap(found, other):
            raise ValueError(f"`{name}` shares memory with an input")
    return found


def _bounds(x: Any) -> tuple[int, int]:
    """The first byte of a tensor and the one after its last."""
    if _is_torch(x):
        first, width, strides = x.data_ptr(), x.element_size(), x.stride()
        unit = width
    else:
        first, width, strides, unit = x.__array_interface__["data"][0], x.itemsize, x.strides, 1
    low = high = 0
    for n, stride in zip(x.shape, strides):
        if stride < 0:
            low += (n - 1) * stride
        else:
            high += (n - 1) * stride
    return first + low * unit, first + high * unit + width


def overlap(a: Any, b: Any) -> bool:
    """Whether the bytes of two tensors lie between each other's: strided views may overlap without
    sharing an element, and are treated as if they did."""
    if is_empty(a) or is_empty(b) or _is_torch(a) != _is_torch(b):
        return False
    (first, end), (other_first, other_end) = _bounds(a), _bounds(b)
    return first < other_end and other_first < end


def is_start(a: Any, b: Any) -> bool:
    """Whether the rows of `a` are the first elements of those of `b`, in the same memory."""
    if has_shapes_only() or is_empty(a) or tuple(a.shape[:-1]) != tuple(b.shape[:-1]):
        return False
    same = strides_of(a) == strides_of(b) and a.dtype == b.dtype
    return same and a.shape[-1] <= b.shape[-1] and _bounds(a)[0] == _bounds(b)[0]


def rows_of(name: str, x: Any, columns: int | None = None) -> Any:
    """A tensor as rows: [everything else, last dimension], without a copy."""
    if len(x.shape) == 0:
        raise ValueError(f"`{name}` has no dimension, expected at least one")
    if columns is not None and x.shape[-1] != columns:
        raise ValueError(f"`{name}` has rows of {x.shape[-1]} elements, expected {columns}")
    if len(x.shape) == 2:
        return x
    return _viewed(name, x, (math.prod(x.shape[:-1]), x.shape[-1]))


def flat(name: str, x: Any) -> Any:
    """A tensor with one dimension, without a copy."""
    return x if len(x.shape) == 1 else _viewed(name, x, (math.prod(x.shape),))


def merged(x: Any, dim: int) -> Any:
    """A tensor of which this dimension and the next are one, without a copy; None if their strides
    do not allow it."""
    shape = tuple(x.shape)
    try:
        return _viewed("x", x, (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))
    except ValueError:
        return None


def _viewed(name: str, x: Any, shape: tuple[int, ...]) -> Any:
    try:
        if _is_torch(x):
            return x.view(shape)
        view = x.view()
        view.shape = shape
        return view
    except (AttributeError, RuntimeError):
        raise ValueError(
            f"`{name}` cannot be viewed as rows, with strides {strides_of(x)}: make it contiguous"
        ) from None


def strides_of(x: Any) -> tuple[int, ...]:
    return tuple(x.stride() if _is_torch(x) else x.strides)


def is_empty(x: Any) -> bool:
    """Whether there is nothing to compute: no element, or only a shape."""
    return _shapes_only.get() or 0 in tuple(x.shape)


def repeated(x: Any, shape: Sequence[int]) -> Any:
    """A view in which one element, or each element, is as often as `shape` says."""
    if _is_torch(x):
        return x.expand(tuple(shape))
    import numpy

    return numpy.broadcast_to(x, tuple(shape))


def bytes_of(x: Any) -> Any:
    """A tensor of elements of one byte as integers, without a copy."""
    if _is_torch(x):
        import torch

        return x.view(torch.int8)
    return x.view("i1")
