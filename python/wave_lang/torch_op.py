"""Kernels, and functions on tensors, as operators of PyTorch: with a schema that says what is
written and a function for fake tensors, so that they work in torch.compile, in CUDA graphs, and
under torch.library.opcheck.

    from wave_lang.torch_op import torch_op

    softmax = torch_op("mine::softmax", softmax_kernel, WaveCompileOptions(dynamic_symbols=[M, N]))
    y = softmax(x)          # makes y; also torch.ops.mine.softmax(x)
    softmax.out(x, y)       # writes y; also torch.ops.mine.softmax.out(x, y)
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import torch

from ._wave import Expr, Parameter
from .kernel._support.tensor_types import wave_dtype_to_torch
from .kernel.wave.compile import WaveCompileOptions, WaveKernel, wave_compile
from .kernel.wave.wave import LaunchableWave
from .support.expr_eval import evaluate

# A library lives as long as its definitions are used: until the name is defined again.
_libraries: dict[str, torch.library.Library] = {}

# torch.library.register_fake looks up its caller with `inspect`, which asks every loaded module for
# its file, and so executes modules that are loaded lazily, such as SymPy. It looks up what it does
# not know.
getattr(inspect, "modulesbyfile", {}).setdefault(__file__, __name__)


@dataclass(frozen=True)
class TorchOp:
    """An operator. Call it with the kernel's parameters in order, without those it allocates."""

    name: str
    kernel: WaveKernel
    schema: str
    default: Any
    out: Any  # the overload that writes into given tensors; None when nothing is made

    def __call__(self, *args: Any) -> Any:
        return self.default(*args)


def _letter(i: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[i % 26] + "'" * (i // 26)


def _type_of(param: Parameter) -> str:
    if param.dtype.is_float_asm():
        return "float"
    return "bool" if param.dtype.is_bool_asm() else "SymInt"


class _Signature:
    """The arguments and results of an operator, derived from the kernel's parameters."""

    def __init__(self, kernel: WaveKernel, mutates: Sequence[str] | None):
        self.kernel = kernel
        self.params = kernel.ir.params
        names = [p.name for p in self.params]
        unknown = [n for n in mutates or () if n not in names]
        if unknown:
            raise ValueError(f"`{unknown[0]}` is not a parameter of {kernel.name}")
        written = {p.name for p in self.params if p.is_output}
        kept = {p.name for p in self.params if p.is_output and p.is_read}
        self.mutated = kept if mutates is None else set(mutates) & written
        self.made = [p for p in self.params if p.name in written - self.mutated]
        self.given = [p for p in self.params if p not in self.made]
        self.shapes = [[self._extent(p, dim) for dim in p.shape] for p in self.made]
        self.dtypes = [wave_dtype_to_torch(p.dtype) for p in self.made]
        if self.made and not any(p.kind == "mem" for p in self.given):
            raise ValueError(f"{kernel.name} has no tensor argument to determine its device")

    def _extent(self, param: Parameter, dim: Expr) -> Callable[[Sequence[Any]], Any]:
        """An extent as a function of the given arguments; symbols are read off their shapes."""
        values = {Expr(s): v for s, v in self.kernel.options.subs.items()}
        expr = dim.subs({s: v for s, v in values.items() if isinstance(v, (int, Expr))})
        places = {symbol: self._place(symbol, param) for symbol in expr.free_symbols}

        def extent(args: Sequence[Any]) -> Any:
            sizes = {s: args[i] if d is None else args[i].shape[d] for s, (i, d) in places.items()}
            return evaluate(expr, sizes)

        return extent

    def _place(self, symbol: Expr, param: Parameter) -> tuple[int, int | None]:
        """The argument and the dimension that give a symbol its value; None: the number itself."""
        for i, other in enumerate(self.given):
            if symbol in other.shape:
                return i, other.shape.index(symbol)
            if other.kind != "mem" and other.name == symbol.name:
                return i, None
        raise ValueError(
            f"the shape of `{param.name}` needs `{symbol}`, which is not an extent of an input: "
            "give it a value in `subs`"
        )

    def _written(self, params: Sequence[Parameter], written: set[str]) -> str:
        words = []
        for i, p in enumerate(params):
            mark = f"({_letter(i)}!)" if p.name in written else ""
            words.append(f"{'Tensor' + mark if p.kind == 'mem' else _type_of(p)} {p.name}")
        return ", ".join(words)

    def schema(self) -> str:
        results = ", ".join(["Tensor"] * len(self.made))
        results = results if len(self.made) == 1 else f"({results})"
        return f"({self._written(self.given, self.mutated)}) -> {results}"

    def out_schema(self) -> str:
        written = self.mutated | {p.name for p in self.made}
        return f"({self._written(self.params, written)}) -> ()"

    def make(self, args: Sequence[Any]) -> list[Any]:
        """New tensors for the outputs that the operator allocates, for these arguments."""
        like: Any = next(a for a in args if isinstance(a, torch.Tensor)) if self.made else None
        return [
            like.new_empty([extent(args) for extent in shape], dtype=dtype)
            for shape, dtype in zip(self.shapes, self.dtypes)
        ]

    def merge(self, args: Sequence[Any], made: Sequence[Any]) -> list[Any]:
        """All arguments of the kernel, in order."""
        given, outputs = iter(args), iter(made)
        names = {p.name for p in self.made}
        return [next(outputs if p.name in names else given) for p in self.params]


def torch_op(
    name: str,
    kernel: LaunchableWave | WaveKernel,
    options: WaveCompileOptions | None = None,
    *,
    mutates: Sequence[str] | None = None,
) -> TorchOp:
    """Defines the operator `name` ("library::operator"). A name may be redefined.

    The operator allocates and returns the tensors that the kernel only writes, with the shapes
    given by their symbols. Tensors that the kernel also reads, or adds to, are changed in place.
    `mutates` lists the written tensors that the caller passes and that are changed in place. There
    is no gradient: add one with torch.library.register_autograd.
    """
    if isinstance(kernel, LaunchableWave):
        kernel = wave_compile(options or WaveCompileOptions(), kernel)
    signature = _Signature(kernel, mutates)
    packet = _define(name, _overloads(signature))
    out = packet.out if signature.made else None
    return TorchOp(name, kernel, name + signature.schema(), packet.default, out)


@dataclass(frozen=True)
class _Overload:
    name: str  # "" or "out"
    schema: str  # from the parenthesis on
    run: Callable[..., Any]
    fake: Callable[..., Any]


def _overloads(signature: _Signature) -> list[_Overload]:
    kernel, many = signature.kernel, len(signature.made)

    def results(made: list[Any]) -> Any:
        return made[0] if many == 1 else tuple(made) if many else None

    def run(*args: Any) -> Any:
        made = signature.make(args)
        kernel(*signature.merge(args, made))
        return results(made)

    def fake(*args: Any) -> Any:
        return results(signature.make(args))

    def run_out(*args: Any) -> None:
        kernel(*args)

    rows = [_Overload("", signature.schema(), run, fake)]
    if many:
        rows.append(_Overload("out", signature.out_schema(), run_out, lambda *args: None))
    return rows


def _define(name: str, overloads: Sequence[_Overload]) -> Any:
    """Defines the overloads of an operator, and returns it."""
    library, _, operator = name.partition("::")
    if not operator.isidentifier() or not library.isidentifier():
        raise ValueError(f"the name of an operator is `library::operator`, not {name!r}")
    if name in _libraries:
        _libraries.pop(name)._destroy()
    lib = _libraries[name] = torch.library.Library(library, "FRAGMENT")
    for row in overloads:
        full = "." + row.name if row.name else ""
        lib.define(operator + full + row.schema, tags=(torch.Tag.pt2_compliant_tag,))
        lib.impl(operator + full, row.run, "CompositeExplicitAutograd")
        torch.library.register_fake(name + full, row.fake, lib=lib)
    return getattr(getattr(torch.ops, library), operator)


def _result_names(schema: str) -> list[str]:
    """The names of an operator's results: a schema ends in `-> (Tensor name, …)`."""
    return re.findall(r"Tensor (\w+)", schema.partition("->")[2])


def function_op(
    schema: str,
    run: Callable[..., Any],
    fake: Callable[..., Any],
    *,
    save: Callable[..., None] | None = None,
    backward: Callable[..., Any] | None = None,
) -> Any:
    """Defines the operator of a schema ("library::operator(…) -> (Tensor name, …)"), which the
    function `run` computes and `fake` has the shapes of.

    Both take the results as keywords of their names too: that is the overload `out`. `save` and
    `backward` are those of torch.library.register_autograd.
    """
    head, results = schema.partition("(")[0], _result_names(schema)
    args, _, returns = schema[len(head) :].rpartition(" -> ")
    rows = [_Overload("", f"{args} -> {returns}", run, fake)]
    if results:
        outs = (f"Tensor({_letter(i + 16)}!) {name}" for i, name in enumerate(results))
        mark = ", " if "*," in args else ", *, "
        written = f"{args[:-1]}{mark}{', '.join(outs)}) -> ()"
        rows.append(_Overload("out", written, _without_result(run), _without_result(fake)))
    packet = _define(head, rows)
    if backward is not None:
        lib = _libraries[head]
        torch.library.register_autograd(head, backward, setup_context=save, lib=lib)
    return packet


def _without_result(function: Callable[..., Any]) -> Callable[..., None]:
    def run(*args: Any, **named: Any) -> None:
        function(*args, **named)

    return run


__all__ = ["TorchOp", "function_op", "torch_op"]
