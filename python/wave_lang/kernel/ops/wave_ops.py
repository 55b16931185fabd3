"""The ops of a kernel. Each appends to the kernel being traced and returns the new value.

Operators on values do the same: + - * / % // & | ^ ~ << >> and comparisons. Python numbers beside a value
take its element type. Every op takes `tag=`: a name, or a set of names, that schedules refer to.
"""

from __future__ import annotations

import builtins
import inspect
import itertools
from enum import Enum, IntFlag
from numbers import Real
from typing import Any, Callable, Iterable, Mapping, Sequence

from ... import _wave
from ..._wave import DataType, Expr, Value, emit as _emit
from .._support.tracing import DebugLog as _DebugLogRecord, current_logs as _current_logs
from ..lang.global_symbols import SHARED_ADDRESS_SPACE
from ..lang.wave_types import IndexMapping
from ..wave.constraints import mma_spec as _mma_spec
from . import constants as _constants, elementwise as _elementwise
from . import op_classes as _op_classes, reductions as _reductions
from .constants import *
from .elementwise import *
from .elementwise import _need_value
from .loop_arguments import need_carried, need_promise
from .op_classes import *
from .reductions import *

Tag = Any
Dims = Sequence[Any]


class Operation(Enum):
    """A class of instructions, for scheduling hints."""

    NOOP = 0
    ALU = 0x1
    VALU = 0x2
    SALU = 0x4
    MMA = 0x8
    READ_GLOBAL = 0x20
    WRITE_GLOBAL = 0x40
    READ_SHARED = 0x100
    WRITE_SHARED = 0x200


class MemoryAccessFlags(IntFlag):
    """How an access treats caches."""

    NONE = 0
    VOLATILE = 1
    NONTEMPORAL = 2


def _values(v: Any) -> tuple:
    return (v,) if isinstance(v, Value) else tuple(v)


# ---- values ----------------------------------------------------------------------------------


def allocate(
    shape: Dims,
    distributed_shape: Dims,
    dtype: DataType,
    address_space: Any = SHARED_ADDRESS_SPACE,
    *,
    tag: Tag = None,
) -> Value:
    """Scratch memory of a workgroup: `shape` names the dimensions, `distributed_shape` is its
    physical size."""
    return _emit(
        "alloc",
        (),
        {"physical": tuple(distributed_shape), "tag": tag},
        (tuple(shape), dtype, address_space, None),
    )


def self_index(
    dim: Any,
    dtype: DataType = _wave.dtypes["i32"],
    elements_per_thread: Any = None,
    *,
    tag: Tag = None,
) -> Value:
    """The coordinate of each element along `dim`."""
    return _emit(
        "self_index", (), {"dim": dim, "ept": elements_per_thread, "tag": tag}, ((dim,), dtype)
    )


def apply_expr(
    register_: Value | Sequence[Value], expr: Callable[..., Any], *, tag: Tag = None
) -> Value:
    """`expr` on each element: a function of one symbol per register that returns an expression.
    A condition gives truth values (i1)."""
    values = _values(register_)
    symbols = [_wave.symbol(f"$APPLY_EXPR_ARG_{i}", False) for i in range(len(values))]
    return _emit("apply_expr", values, {"expr": Expr(expr(*symbols)), "tag": tag})


def set_symbol(symbol: Any, register_: Any) -> None:
    """From here on, in this region, the value of `symbol` is that of the register."""
    value = register_ if isinstance(register_, Value) else scalar(register_, _wave.dtypes["i32"])
    _emit("set_symbol", (value,), {"symbol": symbol})


# ---- memory ----------------------------------------------------------------------------------


def _access_attrs(elements_per_thread, mapping, bounds, flags, tag) -> dict[str, Any]:
    return {
        "ept": elements_per_thread,
        "mapping": mapping,
        "bounds": bounds,
        "tag": tag,
        "volatile": builtins.bool(flags & MemoryAccessFlags.VOLATILE),
        "nontemporal": builtins.bool(flags & MemoryAccessFlags.NONTEMPORAL),
    }


def _by_coordinates(value, memory, source, target, attrs, op: str) -> Any:
    if source is None or target is None:
        _wave.report(
            "E0314",
            f"`{op}` needs both source= and target=",
            "give the coordinates on both sides, using the iterators of IteratorBindings",
        )
    return _wave.current(op).access(value, memory, source, target, attrs)


def read(
    memory: Value,
    elements_per_thread: Any = None,
    mapping: IndexMapping | None = None,
    mapping_dynamic_vals: Sequence[Value] | Value = (),
    bounds: Mapping[Any, Any] | None = None,
    flags: MemoryAccessFlags = MemoryAccessFlags.NONE,
    source: Sequence[Any] | None = None,
    target: Sequence[Any] | None = None,
    *,
    other: Any = None,
    tag: Tag = None,
) -> Value:
    """The elements of a tensor; `other`, or 0, where a mapping or `bounds` lead outside it.

    `mapping` maps coordinates; `source`/`target` do the same with the iterators of an
    IteratorBindings constraint. `bounds={}` turns masks off.
    """
    attrs = _access_attrs(elements_per_thread, mapping, bounds, flags, tag) | {"other": other}
    if source is not None or target is not None:
        return _by_coordinates(None, memory, source, target, attrs, "read")
    return _emit("read", (memory, *_values(mapping_dynamic_vals)), attrs)


def write(
    register_: Value,
    memory: Value,
    elements_per_thread: Any = None,
    mapping: IndexMapping | None = None,
    mapping_dynamic_vals: Sequence[Value] | Value = (),
    bounds: Mapping[Any, Any] | None = None,
    flags: MemoryAccessFlags = MemoryAccessFlags.NONE,
    source: Sequence[Any] | None = None,
    target: Sequence[Any] | None = None,
    *,
    tag: Tag = None,
) -> None:
    """Stores a register in a tensor; elements outside the tensor are dropped."""
    attrs = _access_attrs(elements_per_thread, mapping, bounds, flags, tag)
    if source is not None or target is not None:
        _by_coordinates(register_, memory, source, target, attrs, "write")
    else:
        _emit("write", (register_, memory, *_values(mapping_dynamic_vals)), attrs)


def atomic_add(
    lhs: Value,
    rhs: Value,
    elements_per_thread: Any = None,
    mapping: IndexMapping | None = None,
    mapping_dynamic_vals: Sequence[Value] | Value = (),
    *,
    tag: Tag = None,
) -> Value:
    """Adds a register to memory atomically, element by element; returns the old values.

    Each element is added once, however many threads hold it. With `elements_per_thread`, each
    thread adds that many of the elements it holds, even if other threads hold the same ones.
    """
    attrs = {"ept": elements_per_thread, "mapping": mapping, "tag": tag}
    return _emit("atomic_add", (lhs, rhs, *_values(mapping_dynamic_vals)), attrs)


def atomic_min(
    lhs: Value,
    rhs: Value,
    elements_per_thread: Any = None,
    mapping: IndexMapping | None = None,
    mapping_dynamic_vals: Sequence[Value] | Value = (),
    *,
    tag: Tag = None,
) -> Value:
    """Stores the minimum of a register and memory in memory, atomically; returns the old values.
    Performed once per element, like `atomic_add`."""
    attrs = {"ept": elements_per_thread, "mapping": mapping, "tag": tag}
    return _emit("atomic_min", (lhs, rhs, *_values(mapping_dynamic_vals)), attrs)


def atomic_max(
    lhs: Value,
    rhs: Value,
    elements_per_thread: Any = None,
    mapping: IndexMapping | None = None,
    mapping_dynamic_vals: Sequence[Value] | Value = (),
    *,
    tag: Tag = None,
) -> Value:
    """Stores the maximum of a register and memory in memory, atomically; returns the old values.
    Performed once per element, like `atomic_add`."""
    attrs = {"ept": elements_per_thread, "mapping": mapping, "tag": tag}
    return _emit("atomic_max", (lhs, rhs, *_values(mapping_dynamic_vals)), attrs)


def atomic_and(
    lhs: Value,
    rhs: Value,
    elements_per_thread: Any = None,
    mapping: IndexMapping | None = None,
    mapping_dynamic_vals: Sequence[Value] | Value = (),
    *,
    tag: Tag = None,
) -> Value:
    """Stores the bitwise and of a register and memory in memory, atomically; returns the old
    values. Performed once per element, like `atomic_add`."""
    attrs = {"ept": elements_per_thread, "mapping": mapping, "tag": tag}
    return _emit("atomic_and", (lhs, rhs, *_values(mapping_dynamic_vals)), attrs)


def atomic_or(
    lhs: Value,
    rhs: Value,
    elements_per_thread: Any = None,
    mapping: IndexMapping | None = None,
    mapping_dynamic_vals: Sequence[Value] | Value = (),
    *,
    tag: Tag = None,
) -> Value:
    """Stores the bitwise or of a register and memory in memory, atomically; returns the old
    values. Performed once per element, like `atomic_add`."""
    attrs = {"ept": elements_per_thread, "mapping": mapping, "tag": tag}
    return _emit("atomic_or", (lhs, rhs, *_values(mapping_dynamic_vals)), attrs)


def atomic_xor(
    lhs: Value,
    rhs: Value,
    elements_per_thread: Any = None,
    mapping: IndexMapping | None = None,
    mapping_dynamic_vals: Sequence[Value] | Value = (),
    *,
    tag: Tag = None,
) -> Value:
    """Stores the exclusive or of a register and memory in memory, atomically; returns the old
    values. Performed once per element, like `atomic_add`."""
    attrs = {"ept": elements_per_thread, "mapping": mapping, "tag": tag}
    return _emit("atomic_xor", (lhs, rhs, *_values(mapping_dynamic_vals)), attrs)


def atomic_exchange(
    lhs: Value,
    rhs: Value,
    elements_per_thread: Any = None,
    mapping: IndexMapping | None = None,
    mapping_dynamic_vals: Sequence[Value] | Value = (),
    *,
    tag: Tag = None,
) -> Value:
    """Stores a register in memory and returns the old values, in one atomic step. Performed once
    per element, like `atomic_add`."""
    attrs = {"ept": elements_per_thread, "mapping": mapping, "tag": tag}
    return _emit("atomic_exchange", (lhs, rhs, *_values(mapping_dynamic_vals)), attrs)


def atomic_compare_exchange(
    lhs: Value,
    rhs: Value,
    expected: Any,
    elements_per_thread: Any = None,
    mapping: IndexMapping | None = None,
    mapping_dynamic_vals: Sequence[Value] | Value = (),
    *,
    tag: Tag = None,
) -> Value:
    """Stores a register in memory where the memory holds `expected`, a register of the same type or
    a number, and returns the old values: an element was stored if its old value is the expected
    one. Bits are compared: -0.0 is not 0.0. Performed once per element, like `atomic_add`."""
    if isinstance(expected, Real):
        shape, dtype = _need_value(lhs, "atomic_compare_exchange").shape, lhs.dtype
        expected = register(shape, dtype, expected) if shape else scalar(expected, dtype)
    attrs = {"ept": elements_per_thread, "mapping": mapping, "tag": tag}
    operands = (lhs, rhs, expected, *_values(mapping_dynamic_vals))
    return _emit("atomic_compare_exchange", operands, attrs)


def scatter_add(
    register_src: Value,
    register_idx: Value,
    dim: int,
    memory: Value,
    mapping: IndexMapping,
    elements_per_thread: Any = None,
    bounds: Mapping[Any, Any] | None = None,
    *,
    tag: Tag = None,
) -> None:
    """Adds each element to memory at its mapped position, with coordinate number `dim` taken from
    the index register. Performed once per element, unless `elements_per_thread` says how many of
    its elements each thread adds."""
    _emit(
        "scatter_add",
        (register_src, register_idx, memory),
        {"pos": dim, "mapping": mapping, "ept": elements_per_thread, "bounds": bounds, "tag": tag},
    )


# ---- contraction -----------------------------------------------------------------------------


def mma(lhs: Value, rhs: Value, acc: Value, mma_type: Any = None, *, tag: Tag = None) -> Value:
    """acc[m, n] + sum over k of lhs[m, k] * rhs[n, k]. Dimensions are matched by name."""
    return _emit("mma", (lhs, rhs, acc), {"mma": _mma_spec(mma_type), "tag": tag})


def scaled_mma(
    lhs: Value,
    lhs_scale: Value,
    rhs: Value,
    rhs_scale: Value,
    acc: Value,
    mma_type: Any = None,
    *,
    tag: Tag = None,
) -> Value:
    """mma with a scale for each block of elements along k; the shapes give the block length."""
    return _emit(
        "scaled_mma",
        (lhs, lhs_scale, rhs, rhs_scale, acc),
        {"mma": _mma_spec(mma_type), "tag": tag},
    )


# ---- choices and conversions -----------------------------------------------------------------


def select(cond: Value, if_true: Any, if_false: Any, *, tag: Tag = None) -> Value:
    """if_true where cond holds, else if_false. One branch may be a number."""
    if not isinstance(if_true, Value) and not isinstance(if_false, Value):
        _wave.report(
            "E0315",
            "both branches of `select` are numbers, so they have no dtype",
            "make one of them a `Register` or `scalar` of the dtype you mean",
        )
    return _emit("select", (cond, if_true, if_false), {"tag": tag})


def cast(arg: Value, dtype: DataType, *, tag: Tag = None) -> Value:
    """Converts each element."""
    return _emit("cast", (arg,), {"tag": tag}, (_need_value(arg, "cast").shape, dtype))


def inline_ptx(
    text: str,
    inputs: Sequence[Value] | Value,
    result: DataType | Sequence[DataType],
    meaning: Callable[..., Any] | None = None,
    *,
    volatile: builtins.bool = False,
    tag: Tag = None,
) -> Any:
    """What PTX instructions compute for each element. In `text`, `$0` is the element of the result,
    and `$1`, `$2`, ... are those of `inputs`; the text is enclosed in its own braces.

    If `result` is a list of types, there are as many results, `$0`, `$1`, ...; `inputs` follow, and a
    tuple is returned. `meaning(*inputs)` computes the same result (or tuple) with ops; it runs on
    targets without PTX. `volatile` keeps the instructions where they are and executes them as often
    as the kernel says.
    """
    values = _values(inputs)
    several = isinstance(result, (list, tuple))
    types = tuple(result) if several else (result,)
    shape: list[Any] = []
    for value in sorted(values, key=lambda v: len(_need_value(v, "inline_ptx").shape), reverse=True):
        shape += [dim for dim in value.shape if dim not in shape]
    attrs = {"ptx": text, "volatile": volatile, "meaning": meaning is not None, "tag": tag}
    said = meaning(*values) if meaning else ()
    said = said if several or not meaning else (said,)
    if meaning and (not isinstance(said, (list, tuple)) or len(said) != len(types)):
        raise TypeError(f"inline_ptx: the meaning must return {len(types)} values, one for each result")
    shaped = [_as_shaped(one, tuple(shape), t) for one, t in zip(said, types)]
    results = []
    for i, t in enumerate(types):
        own = {"types": " ".join(map(str, types)), "which": i} if several else {}
        operands = (*values, *shaped[i : i + 1])
        results.append(_emit("inline_ptx", operands, attrs | own, (tuple(shape), t)))
    return tuple(results) if several else results[0]


def _as_shaped(value: Any, shape: tuple, dtype: DataType) -> Value:
    """What a meaning returned, with the dimensions of its op."""
    if not isinstance(value, Value):
        return register(shape, dtype, value) if shape else scalar(value, dtype)
    if tuple(value.shape) == shape:
        return value
    same = len(value.shape) == len(shape)
    return permute(value, shape) if same else broadcast(value, shape)


def bitcast(arg: Value, dtype: DataType, *, tag: Tag = None) -> Value:
    """The same bits as elements of another type; the last dimension changes with the width."""
    shape = _need_value(arg, "bitcast").shape
    if shape:
        shape = (*shape[:-1], shape[-1] * arg.dtype.bitwidth() / dtype.bitwidth())
    return _emit("bitcast", (arg,), {"tag": tag}, (shape, dtype))


# ---- random numbers --------------------------------------------------------------------------


def philox(
    counter: Value | Sequence[Value | int], key: Value | int | Sequence[Value | int], *, tag: Tag = None
) -> tuple[Value, Value, Value, Value]:
    """Philox4x32-10: four words of random bits (u32) for each element, the same on every target.

    They depend only on up to four words of `counter` and two of `key` (u32 values or numbers;
    omitted words are 0). If the counter differs from element to element, as `self_index(N, u32)`
    does, every element gets its own numbers, whichever thread computes it.
    """
    words = [*(counter if isinstance(counter, (tuple, list)) else (counter,))]
    keys = [*(key if isinstance(key, (tuple, list)) else (key,))]
    words += [0] * (4 - len(words))
    keys += [0] * (2 - len(keys))
    return _emit("philox", (*words, *keys), {"tag": tag})


# ---- shape -----------------------------------------------------------------------------------


def broadcast(arg: Value, target_shape: Dims, *, tag: Tag = None) -> Value:
    """Repeats along the dimensions that `target_shape` adds."""
    return _emit(
        "broadcast",
        (arg,),
        {"tag": tag},
        (tuple(target_shape), _need_value(arg, "broadcast").dtype),
    )


def permute(arg: Value, target_shape: Dims, *, tag: Tag = None) -> Value:
    """The same elements with the dimensions in another order."""
    return _emit(
        "permute", (arg,), {"tag": tag}, (tuple(target_shape), _need_value(arg, "permute").dtype)
    )


def extract(register_: Value, offset: Any, *, tag: Tag = None) -> Value:
    """Element `offset` of what each thread holds."""
    return _emit("extract", (register_,), {"offset": offset, "tag": tag})


def extract_slice(
    register_: Value, offset: Any, size: Any, stride: Any, *, tag: Tag = None
) -> Value:
    """A part of what each thread holds."""
    return _emit(
        "extract_slice",
        (register_,),
        {"offset": offset, "size": size, "stride": stride, "tag": tag},
    )


def reshape(args: Value | Sequence[Value], target_vector_shape: Any, *, tag: Tag = None) -> Value:
    """Joins or splits what each thread holds."""
    target = target_vector_shape
    if isinstance(target, Mapping):
        target = list(target.values())
    return _emit("reshape", _values(args), {"target": target, "tag": tag})


# ---- control flow ----------------------------------------------------------------------------


def _name_arguments(body: Callable[..., Any], carried: tuple[Value, ...]) -> None:
    """Carried values take the names of the parameters; there must be one for each."""
    code = body.__code__
    takes, varargs = code.co_argcount, code.co_flags & inspect.CO_VARARGS
    if takes != len(carried) and not varargs:
        _wave.report(
            "E0404",
            f"`{body.__name__}` takes {takes} argument{'' if takes == 1 else 's'}, but "
            f"{len(carried)} value{' is' if len(carried) == 1 else 's are'} carried",
            "give it one parameter per value of init_args (or else_return)",
            (code.co_filename, code.co_firstlineno, 0, 0),
        )
    tracer = _wave.current("iterate")
    for value, name in zip(carried, code.co_varnames[:takes]):
        tracer.name(value, name)


def _run_body(
    body: Callable[..., Any], carried: tuple[Value, ...], optional: builtins.bool
) -> tuple:
    """What `body` returns, traced in the open region. `optional`: it may take and return
    nothing."""
    if body.__code__.co_flags & inspect.CO_GENERATOR:
        _wave.report(
            "E0408",
            f"`{body.__name__}` has a `yield`: calling it does not run its body",
            "return values with `return`",
        )
    if optional and body.__code__.co_argcount == 0:
        returned = body()
    else:
        _name_arguments(body, carried)
        returned = body(*carried)
    if returned is None:
        returned = carried if optional else ()
    elif not isinstance(returned, (tuple, list)):
        returned = (returned,)
    return tuple(returned)


def _trace_body(
    body: Callable[..., Any],
    op: str,
    operands: tuple,
    attrs: dict[str, Any],
    optional: builtins.bool,
    otherwise: Callable[[], Any] | None = None,
) -> Any:
    """Opens a region, runs `body` in it, closes it; then another one for `otherwise`."""
    tracer = _wave.current(op)
    carried = tracer.begin(op, operands, attrs)
    returned = _run_body(body, carried, optional)
    if otherwise is not None:
        tracer.otherwise(returned, body.__code__)
        body, returned = otherwise, _run_body(otherwise, (), optional)
    return tracer.end(returned, body.__code__)


def iterate(
    axis: Any,
    init_args: Iterable[Any] = (),
    *,
    start: Any = None,
    condition: Any = None,
    step: int = 1,
    until: Mapping[Any, Any] | None = None,
    tag: Tag = None,
) -> Callable[[Callable[..., Any]], Any]:
    """A loop over the tiles of `axis`, carrying `init_args`.

    Decorates the body, which is traced immediately; its name then refers to the result: the value
    of the last iteration, or a tuple of values. With `start` and `condition` it is a while loop whose body
    sets the next position with `set_symbol(axis, ...)`.
    `until={M: end}` promises that iterations from position `end` on leave the results for each index of
    M as they are, so that waves may skip them; in `end`, `IndexMapping.iterator(0)` is the index.
    """
    carried = (init_args,) if isinstance(init_args, Value) else tuple(init_args)
    need_carried(carried, "init_args")
    need_promise(until, condition is not None)
    attrs: dict[str, Any] = {"axis": axis, "until": until, "tag": tag}
    if condition is not None and start is None:
        _wave.report(
            "E0406",
            "an `iterate` with condition= also needs start=",
            "give the first position: start=scalar(0, i32)",
        )
    if isinstance(start, float):
        _wave.report("E0406", f"`start` is {start}, not an integer", "give a position along the axis")
    if start is not None and not isinstance(start, Value):
        start = scalar(start, _wave.dtypes["i32"])
    if condition is not None:
        op, attrs["expr"] = "while", condition
    else:
        op, attrs["from"], attrs["step"] = "for", start is not None, None if step == 1 else step
    operands = carried if start is None else (start, *carried)

    def run(body: Callable[..., Any]) -> Any:
        return _trace_body(body, op, operands, attrs, optional=False)

    return run


reduction = iterate


def conditional(
    condition: Any,
    *,
    else_return: Sequence[Any] | None = None,
    otherwise: Callable[[], Any] | None = None,
    tag: Tag = None,
) -> Callable[[Callable[..., Any]], Any]:
    """Runs the body if `condition` holds: an expression, or a value of one element.

    With `else_return`, the body returns as many values as `else_return` has, which is the result
    if the condition does not hold. `otherwise` is a function without parameters that runs in that
    case instead; its results have the same types as the body's.
    """
    if otherwise is not None and else_return is not None:
        _wave.report(
            "E0404",
            "a `conditional` takes else_return= or otherwise=, not both",
            "return the values from the function given as otherwise=",
        )
    carried = (else_return,) if isinstance(else_return, Value) else tuple(else_return or ())
    need_carried(carried, "else_return")
    attrs: dict[str, Any] = {"tag": tag}
    if isinstance(condition, Value):
        operands = (condition, *carried)
    else:
        operands, attrs["expr"] = carried, Expr(condition)

    def run(body: Callable[..., Any]) -> Any:
        return _trace_body(body, "if", operands, attrs, optional=True, otherwise=otherwise)

    return run


# ---- synchronisation and hints ---------------------------------------------------------------


def workgroup_barrier(*, tag: Tag = None) -> None:
    """All threads of the workgroup arrive before any continues."""
    _emit("workgroup_barrier", (), {"tag": tag})


def shared_memory_barrier(
    wait_async_ops: builtins.bool = False, tensor_wait: builtins.bool = False, *, tag: Tag = None
) -> None:
    """A workgroup barrier that also orders shared memory."""
    _emit(
        "shared_barrier", (), {"wait_async": wait_async_ops, "wait_tensor": tensor_wait, "tag": tag}
    )


def shared_memory_barrier_signal(
    barId: int = 0,
    tensor_wait: builtins.bool = False,
    ds_wait: builtins.bool = True,
    *,
    tag: Tag = None,
) -> None:
    """The first half of a split barrier."""
    _emit(
        "barrier_signal",
        (),
        {"bar": int(barId), "wait_tensor": tensor_wait, "no_ds_wait": not ds_wait, "tag": tag},
    )


def shared_memory_barrier_wait(barId: int = 0, *, tag: Tag = None) -> None:
    """The second half of a split barrier."""
    _emit("barrier_wait", (), {"bar": int(barId), "tag": tag})


def _counters(load, store, ds, exp) -> dict[str, int]:
    given = {"load": load, "store": store, "ds": ds, "exp": exp}
    return {name: count for name, count in given.items() if count is not None}


def memory_counter_wait(
    load: int | None = None,
    store: int | None = None,
    ds: int | None = None,
    exp: int | None = None,
    *,
    tag: Tag = None,
) -> None:
    """Waits until the memory counters are at most these values."""
    _emit("counter_wait", (), {"counters": _counters(load, store, ds, exp), "tag": tag})


def memory_counter_wait_barrier(
    load: int | None = None,
    store: int | None = None,
    ds: int | None = None,
    exp: int | None = None,
    *,
    tag: Tag = None,
) -> None:
    """memory_counter_wait, then a workgroup barrier."""
    _emit("counter_barrier", (), {"counters": _counters(load, store, ds, exp), "tag": tag})


def tensor_counter_wait(count: int = 0, *, tag: Tag = None) -> None:
    """Waits until at most `count` tensor copies are outstanding."""
    _emit("counter_wait", (), {"counters": {"tensor": count}, "tag": tag})


def set_wave_prio(priority: int, *, tag: Tag = None) -> None:
    """A hint: the priority of this wave."""
    _emit("wave_prio", (), {"prio": priority, "tag": tag})


def scheduling_barrier(operations: Iterable[Operation] = (), *, tag: Tag = None) -> None:
    """A hint: the instruction scheduler moves only these classes across."""
    _emit("sched_barrier", (), {"classes": {o.name: 1 for o in operations}, "tag": tag})


def scheduling_group_barrier(
    instructions: Mapping[Operation, int], sync_id: int = 0, *, tag: Tag = None
) -> None:
    """A hint: the instruction scheduler groups this many instructions of each class."""
    _emit(
        "sched_group",
        (),
        {"classes": {o.name: n for o, n in instructions.items()}, "sync": sync_id, "tag": tag},
    )


def tag(value: Value, name: str) -> Value:
    """Names the op that made `value`, for schedules; returns it."""
    return _wave.current("tag").tag(_need_value(value, "tag"), name)


# ---- debugging -------------------------------------------------------------------------------


def _own_label(label: str, taken: set[str]) -> str:
    numbered = (f"{label}.{n}" for n in itertools.count(2))
    return next(name for name in itertools.chain([label], numbered) if name not in taken)


def debug_log(
    register_: Value,
    label: str | None = None,
    extra_iteration_dimensions: Sequence[tuple[Any, Any, Any]] | None = None,
    mapping: IndexMapping | None = None,
    mapping_dynamic_vals: Sequence[Value] | Value = (),
    printer: Callable[[str, Any], Any] | None = print,
    handler: Callable[[dict], Any] | None = None,
    *,
    tag: Tag = None,
) -> None:
    """Records a register. After a call of the kernel, `printer(label, tensor)` and then
    `handler(all_logs)` run; `kernel(..., debug_logs={})` receives all logs.

    `extra_iteration_dimensions=[(symbol, loop axis, count)]` keeps one record per iteration.
    A second log with the same label is called `label.2`, and so on.
    """
    logs = _current_logs.get([])
    label = _own_label(label or f"debug_log_output_{len(logs)}", {log.label for log in logs})
    extra = tuple(extra_iteration_dimensions or ())
    _emit(
        "debug_log",
        (register_, *_values(mapping_dynamic_vals)),
        {
            "label": label,
            "mapping": mapping,
            "tag": tag,
            "iters": [e for entry in extra for e in entry] or None,
        },
    )
    dims = mapping.output_shape if mapping else register_.shape
    iterations = [Expr(symbol) for symbol, _, _ in extra]
    logs.append(_DebugLogRecord(label, (*iterations, *dims), iterations, printer, handler))


def device_assert(cond: Value, message: str = "", *values: Value, tag: Tag = None) -> None:
    """Raises DeviceAssertError from the launch unless every element of `cond` that exists is true.

    The error has the line, the message, the positions of the first failures, and `values` at those
    positions; without `values` it shows what `cond` compares. The kernel runs to its end. A launch
    of such a kernel waits for it and cannot be captured into a graph."""
    _emit("device_assert", (cond, *values), {"label": message, "tag": tag})


# Everything defined here or imported from the other modules of this layer.
__all__ = (
    _constants.__all__
    + _elementwise.__all__
    + _op_classes.__all__
    + _reductions.__all__
    + [
        name
        for name, value in globals().items()
        if getattr(value, "__module__", None) == __name__ and not name.startswith("_")
    ]
)
