"""Ops as operators of PyTorch: `wave::name`, with an overload `out`, a function for fake tensors
and, where there is one, a gradient.

They are defined at the first call with a tensor of PyTorch, when the package is imported after
PyTorch, or by define_operators(). A call with tensors of other libraries calls the function itself.
"""

from __future__ import annotations

import functools
import re
import sys
from dataclasses import dataclass
from typing import Any, Callable, TypeVar

from wave_lang.kernel._support.tensor_types import wave_dtype_to_torch
from wave_lang.kernel.lang import DataType

from .schemas import checked_value, expect_places, is_written, kinds_of
from .tensors import known_dtype, shapes_only

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Gradient:
    """`save(ctx, inputs, output, keyword_only_inputs)` and `backward(ctx, *gradients)` are those of
    torch.library.register_autograd; without keywords, the last is missing."""

    save: Callable[..., None]
    backward: Callable[..., Any]


@dataclass(frozen=True)
class _Row:
    schema: str
    function: Callable[..., Any]
    gradient: Gradient | None

    @property
    def name(self) -> str:
        return self.schema.partition("(")[0]


_rows: dict[str, _Row] = {}
_defined: set[str] = set()


def define_operators() -> None:
    """Defines the operators that are not defined yet, and imports PyTorch first.

    Only programs that name operators before the first call of a function need it: those that import
    this package before PyTorch, and then use torch.ops.wave or load an exported graph.
    """
    if len(_defined) == len(_rows):
        return
    from wave_lang.torch_op import function_op

    for row in _rows.values():
        if row.name in _defined:
            continue
        gradient = row.gradient
        if gradient is None and "!" not in row.schema:
            gradient = _no_gradient(row.name)
        function_op(
            f"wave::{row.schema}",
            row.function,
            _shapes_of(row.function),
            save=gradient and gradient.save,
            backward=gradient and gradient.backward,
        )
        _defined.add(row.name)


# torch.compile runs the function when it traces a call of it, as if it were marked by
# torch.compiler.assume_constant_result, which cannot be called before PyTorch is imported.
define_operators._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _shapes_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, without what it computes."""

    @functools.wraps(function)
    def fake(*args: Any, **named: Any) -> Any:
        with shapes_only():
            return function(*args, **named)

    return fake


def _no_gradient(name: str) -> Gradient:
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError(f"wave::{name} has no gradient: call it under torch.no_grad()")

    return Gradient(lambda **named: None, backward)


def is_torch(*args: Any) -> bool:
    """Whether a tensor of PyTorch is among the arguments."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        for x in args:  # each call of an operator comes here several times
            if isinstance(x, torch.Tensor):
                return True
    return False


def dtype_for(x: Any, dtype: Any) -> Any:
    """An element type as operators take it: PyTorch's, if `x` is a tensor of PyTorch."""
    if dtype is None or not is_torch(x) or isinstance(dtype, sys.modules["torch"].dtype):
        return dtype
    found = known_dtype(dtype)
    return wave_dtype_to_torch(found) if isinstance(found, DataType) else found


def needs_gradient(*args: Any) -> bool:
    """Whether PyTorch records what is computed from these arguments."""
    torch: Any = sys.modules["torch"]
    return torch.is_grad_enabled() and any(
        isinstance(x, torch.Tensor) and x.requires_grad for x in args
    )


def operator(schema: str, gradient: Gradient | None = None) -> Callable[[_Function], _Function]:
    """A function that is an operator as well: with tensors of PyTorch, it calls the operator.

    The schema is PyTorch's, `name(…) -> (Tensor name, …)`. The parameters of the function have the
    same names; those named like the results are keywords, with the default None.
    """
    results = re.findall(r"Tensor (\w+)", schema.rpartition(") -> ")[2])
    kinds = kinds_of(schema)
    written = [*results, *(name for name, kind in kinds.items() if is_written(kind))]

    def wrap(function: _Function) -> _Function:
        row = _Row(schema, function, gradient)
        _rows[row.name] = row

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            given = dict(zip(kinds, args)) | named
            if not is_torch(*given.values()):
                _check_places(given, written)
                if len(given) == len(args) + len(named):
                    given = {n: checked_value(n, kinds.get(n, ""), x) for n, x in given.items()}
                    return function(**given)
                return function(*args, **named)
            define_operators()
            outs = {name: named.pop(name, None) for name in results}
            inputs = dict(zip(kinds, args)) | named
            _check(row.name, inputs, kinds)
            packet = getattr(sys.modules["torch"].ops.wave, row.name)
            if sys.modules["torch"].compiler.is_compiling():
                return _call_packet(row, packet, args, named, outs)
            _check_tangents(row.name, inputs)
            _check_places(given, written)
            try:
                return _call_packet(row, packet, args, named, outs)
            except RuntimeError:
                for name, value in inputs.items():
                    checked_value(name, kinds[name], value)
                raise

        return call  # type: ignore[return-value]

    return wrap


def _check(op: str, given: dict[str, Any], kinds: dict[str, str]) -> None:
    """PyTorch raises a RuntimeError for mistakes that are TypeErrors."""
    for name, value in given.items():
        if name not in kinds:
            raise TypeError(f"`{name}` is not an argument of {op}")
        if not kinds[name].startswith("Tensor") or value is None:
            continue
        if not is_torch(value):
            found = type(value).__name__
            raise TypeError(f"`{name}` is a {found}, expected a tensor of PyTorch like the others")
        if value.layout is not sys.modules["torch"].strided:
            raise TypeError(f"`{name}` is sparse, expected a tensor with strides")


def _check_tangents(op: str, given: dict[str, Any]) -> None:
    """Operators that are defined in Python drop tangents, which would be zeros in a result."""
    forward: Any = sys.modules["torch"].autograd.forward_ad
    if forward._current_level < 0:
        return
    for name, value in given.items():
        if is_torch(value) and forward.unpack_dual(value).tangent is not None:
            raise NotImplementedError(
                f"wave::{op} has no derivative in forward mode, but `{name}` has a tangent"
            )


def _check_places(given: dict[str, Any], written: list[str]) -> None:
    for name in written:
        if hasattr(given.get(name), "shape"):
            expect_places(name, given[name])


def _call_packet(row: _Row, packet: Any, args: Any, named: dict, outs: dict[str, Any]) -> Any:
    if all(out is None for out in outs.values()):
        return packet.default(*args, **named)
    return _call_out(row, packet, args, named, outs)


def _call_out(row: _Row, packet: Any, args: Any, named: dict, outs: dict[str, Any]) -> Any:
    torch: Any = sys.modules["torch"]
    first = next(name for name, out in outs.items() if out is not None)
    if needs_gradient(*args, *named.values()):
        raise ValueError(f"`{first}` is given, but an input needs a gradient")
    for name, out in outs.items():
        if out is not None and not is_torch(out):
            raise TypeError(f"`{name}` is a {type(out).__name__}, expected a tensor of PyTorch")
    if any(out is None for out in outs.values()):
        if torch.compiler.is_compiling():  # which removes copies by itself
            made = packet.default(*args, **named)
            for out, value in zip(outs.values(), made):
                if out is not None:
                    out.copy_(value)
            return tuple(value if out is None else out for out, value in zip(outs.values(), made))
        made = _shapes_of(row.function)(*args, **named)
        outs = {n: value if out is None else out for (n, out), value in zip(outs.items(), made)}
    packet.out(*args, **named, **outs)
    return tuple(outs.values()) if len(outs) > 1 else outs[first]
