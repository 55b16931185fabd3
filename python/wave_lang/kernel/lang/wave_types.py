"""The types of a kernel's arguments and values, and index mappings."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ... import _wave
from ..._wave import DataType, Expr
from ..ops.constants import register
from .global_symbols import GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
from .kernel_buffer import AddressSpace, KernelBufferUsage, MemoryLayout


def _dims(kind: str, entries: Sequence[Any]) -> tuple[Expr, ...]:
    """The dimensions of a type: given one by one, or as one tuple."""
    if len(entries) == 1 and isinstance(entries[0], (tuple, list)):
        entries = entries[0]
    if not entries:
        raise TypeError(f"{kind} needs at least one dimension")
    for d in entries:
        if isinstance(d, (DataType, AddressSpace, str)):
            raise TypeError(f"{kind}: expected a dimension, got {d!r}")
    dims = tuple(Expr(d) for d in entries)
    for n, d in enumerate(dims):
        if d in dims[:n]:
            raise TypeError(f"{kind}: dimension `{d}` is given twice: give one of them another name")
    return dims


def _dtype(kind: str, dtype: Any) -> DataType:
    if not isinstance(dtype, DataType):
        raise TypeError(f"{kind}: expected an element type such as f32 at the end, got {dtype!r}")
    return dtype


def _named(values: Sequence[Any]) -> str:
    return ", ".join(map(repr, values))


class Memory:
    """A tensor argument: `Memory[M, K, ADDRESS_SPACE, f16]`, then optionally a MemoryLayout.

    Dimensions are symbols or expressions (`K / 2`). If the address space resolves to
    SHARED_ADDRESS_SPACE, the tensor is staged through shared memory.
    """

    symbolic_shape: tuple[Expr, ...]
    address_space: Expr
    dtype: DataType
    physical_layout: MemoryLayout | None
    usage: KernelBufferUsage

    def __class_getitem__(cls, params: Any) -> "Memory":
        entries = list(params) if isinstance(params, tuple) else [params]
        self = object.__new__(cls)
        self.physical_layout, self.usage = None, KernelBufferUsage.NONE
        while entries and isinstance(entries[-1], (MemoryLayout, KernelBufferUsage)):
            last = entries.pop()
            if isinstance(last, MemoryLayout):
                self.physical_layout = last
            else:
                self.usage = last
        if len(entries) < 3:
            raise TypeError("expected Memory[dimensions..., address_space, dtype]")
        self.dtype = _dtype("Memory", entries.pop())
        space = entries.pop()
        if isinstance(space, (DataType, int)) or space is AddressSpace.REGISTER:
            raise TypeError(f"Memory: {space!r} is not an address space for memory")
        self.address_space = Expr(space)
        self.symbolic_shape = _dims("Memory", entries)
        return self

    def __init__(self, *args: Any):
        raise TypeError("Memory is an argument type: write Memory[dimensions..., space, dtype]")

    @property
    def shape(self) -> tuple[Expr, ...]:
        return self.symbolic_shape

    @property
    def rank(self) -> int:
        return len(self.symbolic_shape)

    def _spec(self) -> tuple:
        layout = self.physical_layout.shape if self.physical_layout else None
        return (self.symbolic_shape, self.dtype, self.address_space, layout)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memory) and self._spec() == other._spec()

    def __hash__(self) -> int:
        return hash(self._spec())

    def __repr__(self) -> str:
        layout = f", {self.physical_layout}" if self.physical_layout else ""
        return f"Memory[{_named(self.symbolic_shape)}, {self.address_space}, {self.dtype}{layout}]"


class Register:
    """The type of a distributed tensor: `Register[M, N, f32]`. Calling it makes a register with
    every element set: `Register[M, N, f32](0.0)`."""

    symbolic_shape: tuple[Expr, ...]
    dtype: DataType

    def __class_getitem__(cls, params: Any) -> "Register":
        entries = list(params) if isinstance(params, tuple) else [params]
        if len(entries) < 2:
            raise TypeError("expected Register[dimensions..., dtype]")
        self = object.__new__(cls)
        self.dtype = _dtype("Register", entries.pop())
        self.symbolic_shape = _dims("Register", entries)
        return self

    def __init__(self, *args: Any):
        raise TypeError("Register is a type: write Register[dimensions..., dtype](value)")

    def __call__(self, value: Any, *, tag: Any = None) -> "_wave.Value":
        """A register in which every element is `value`: a number or an index expression."""
        return register(self.symbolic_shape, self.dtype, value, tag=tag)

    @property
    def shape(self) -> tuple[Expr, ...]:
        return self.symbolic_shape

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Register)
            and self.symbolic_shape == other.symbolic_shape
            and self.dtype == other.dtype
        )

    def __hash__(self) -> int:
        return hash((self.symbolic_shape, self.dtype))

    def __repr__(self) -> str:
        return f"Register[{_named(self.symbolic_shape)}, {self.dtype}]"


class SymbolBind:
    """A scalar argument that also gives the symbol of its name a value: `N: SymbolBind[i32]`."""

    dtype: DataType

    def __class_getitem__(cls, dtype: Any) -> "SymbolBind":
        self = object.__new__(cls)
        self.dtype = _dtype("SymbolBind", dtype)
        return self

    def __init__(self, *args: Any):
        raise TypeError("SymbolBind is an argument type: write SymbolBind[dtype]")

    def __repr__(self) -> str:
        return f"SymbolBind[{self.dtype}]"


Coordinates = Mapping[Expr, Any]


class IndexMapping:
    """How register coordinates become memory coordinates.

    For all iterators: out[outputs] = in[inputs]. For a read, `inputs` are coordinates in memory and
    `outputs` name the register's dimensions; for a write the other way round. `dynamic_val(i)` is
    the i-th of `mapping_dynamic_vals`, which `dynamic_val_mappings[i]` looks up.
    """

    def __init__(
        self,
        num_iterators: int,
        inputs: Coordinates,
        outputs: Coordinates,
        dynamic_val_mappings: Coordinates | Sequence[Coordinates] = (),
    ):
        dynamic = dynamic_val_mappings
        if isinstance(dynamic, Mapping):
            dynamic = (dynamic,)
        self.num_iterators = num_iterators
        self.input_mapping = {Expr(k): Expr(v) for k, v in inputs.items()}
        self.output_mapping = {Expr(k): Expr(v) for k, v in outputs.items()}
        self.dynamic_val_mappings = tuple({Expr(k): Expr(v) for k, v in d.items()} for d in dynamic)
        _wave.check_mapping(self)

    @staticmethod
    def iterator(i: int) -> Expr:
        """The i-th iterator."""
        return _wave.symbol(f"$index{i}")

    @staticmethod
    def dynamic_val(i: int) -> Expr:
        """The i-th dynamic value."""
        return _wave.symbol(f"$dynamic_val{i}", False)

    @property
    def iters(self) -> dict[Expr, int]:
        return {self.iterator(i): i for i in range(self.num_iterators)}

    @property
    def num_dynamic_vals(self) -> int:
        return len(self.dynamic_val_mappings)

    @property
    def input_shape(self) -> tuple[Expr, ...]:
        """The dimensions of `inputs`, in order."""
        return tuple(self.input_mapping)

    @property
    def output_shape(self) -> tuple[Expr, ...]:
        """The dimensions of `outputs`, in order."""
        return tuple(self.output_mapping)

    def is_identity(self) -> bool:
        """Whether it maps every coordinate to itself."""
        return self.input_mapping == self.output_mapping and self.is_output_identity()

    def is_input_identity(self) -> bool:
        """Whether the inputs are the iterators in order."""
        return list(self.input_mapping.values()) == list(self.iters)

    def is_output_identity(self) -> bool:
        """Whether the outputs are the iterators in order."""
        return list(self.output_mapping.values()) == list(self.iters)

    def substitute(self, subs: Mapping[Any, Any]) -> "IndexMapping":
        """The mapping with symbols replaced, keys included."""

        def replace(d: Coordinates) -> dict[Expr, Expr]:
            return {Expr(k).subs(subs): Expr(v).subs(subs) for k, v in d.items()}

        return IndexMapping(
            self.num_iterators,
            replace(self.input_mapping),
            replace(self.output_mapping),
            tuple(replace(d) for d in self.dynamic_val_mappings),
        )

    def _key(self) -> tuple:
        return (
            self.num_iterators,
            self.input_mapping,
            self.output_mapping,
            self.dynamic_val_mappings,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexMapping) and self._key() == other._key()

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        dynamic = (
            f", dynamic_val_mappings={self.dynamic_val_mappings}"
            if self.dynamic_val_mappings
            else ""
        )
        return (
            f"IndexMapping(num_iterators={self.num_iterators}, inputs={self.input_mapping}, "
            f"outputs={self.output_mapping}{dynamic})"
        )


__all__ = [
    "AddressSpace",
    "DataType",
    "GLOBAL_ADDRESS_SPACE",
    "IndexMapping",
    "KernelBufferUsage",
    "Memory",
    "MemoryLayout",
    "Register",
    "SHARED_ADDRESS_SPACE",
    "SymbolBind",
]
