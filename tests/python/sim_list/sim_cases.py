"""The class of a row of the kernel list, and the sizes it runs with."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Callable, Mapping

import numpy as np

from number_formats import TOLERANCE, decode, encode, sample, unwritten
from wave_lang import WaveCompileOptions, _wave, wave_compile
from wave_lang._wave import Expr


@dataclass(frozen=True)
class Tensor:
    """An argument: its element type and its extents, expressions in the dimensions of the case.

    span    an input holds integers from span[0] up to, not including, span[1]
    start   the contents of an output before the run; without it, a value that no kernel writes
    """

    dtype: str
    dims: tuple
    span: tuple | None = None
    start: float | None = None

    def shape(self, values):
        return tuple(int(Expr(d).subs(values)) for d in self.dims)

    def sampled(self, values, rng):
        shape = self.shape(values)
        if self.span is None:
            return sample(self.dtype, shape, rng)
        low, high = (int(Expr(e).subs(values)) for e in self.span)
        return encode(self.dtype, rng.integers(low, high, shape))

    def before(self, values):
        shape = self.shape(values)
        if self.start is None:
            return unwritten(self.dtype, shape)
        return encode(self.dtype, np.full(shape, self.start))


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel, the tiles around which its sizes vary, and its expected result.

    make        the kernel; traced again for each compile
    around      each dimension and the tile around which its sizes vary
    inputs, outputs   tensors in the order of the parameters
    reference   from the inputs in float64 (and `sizes` by name): the outputs, each an array or
                (array, sums of magnitudes, for the tolerance)
    subs        values of the other symbols; `derived` gives those that depend on the sizes
    dynamic     dimensions whose sizes are taken from the tensors at the call
    fit         the nearest sizes that the kernel is written for
    exact       no rounding at all is expected
    roomy       tensors extend beyond the sizes: a read without its bound is not a visible fault
    lanes_alone one lane's program runs alone; one that uses assumptions may not
    open        it is compiled when it is called
    options     further fields of WaveCompileOptions
    """

    name: str
    make: Callable[[], Any]
    around: Mapping[Any, int]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    reference: Callable[..., Any]
    subs: Mapping[Any, Any] = field(default_factory=dict)
    derived: Callable[[dict], dict] = lambda sizes: {}
    dynamic: tuple = ()
    fit: Callable[[dict], dict] = lambda sizes: sizes
    exact: bool = False
    roomy: bool = False
    lanes_alone: bool = True
    open: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float | None = None
    full: bool = False  # only in `make test-full`
    machine: str | None = None  # the target whose instructions it tests: samples run it there

    @cached_property
    def shapes(self):
        """Each dimension in turn around its tile, the others one more than theirs; three corner
        cases."""
        dims = list(self.around.items())
        above = {d: t + 1 for d, t in dims}
        sizes = [{d: 1 for d, _ in dims}, {d: t - 1 for d, t in dims}, above]
        for d, t in dims:
            sizes += [{**above, d: n} for n in (1, t - 1, t, t + 1, 2 * t + 3)]
        fitting = [self.fit(s) for s in sizes if min(s.values()) > 0]
        return list({tuple(s.values()): s for s in fitting}.values())

    def label(self, sizes):
        return "x".join(str(n) for n in sizes.values())

    def symbols(self, sizes):
        """`subs` for a compile."""
        values = {**sizes, **self.derived(sizes), **self.subs}
        return {symbol: v for symbol, v in values.items() if symbol not in self.dynamic}

    def compile(self, sizes, target="eval"):
        options = WaveCompileOptions(
            subs=self.symbols(sizes),
            target=target,
            dynamic_symbols=list(self.dynamic),
            **self.options,
        )
        return wave_compile(options, self.make())

    def text(self, sizes):
        """The kernel that passes run on: as traced, or specialised for a call with these sizes."""
        kernel = self.compile(sizes).ir
        return str(kernel.fit(sizes) if kernel.is_open else kernel)

    def lanes(self, sizes, target):
        """One lane's program for a machine."""
        kernel = self.compile(sizes, f"sim:{target}").lowered
        if kernel.is_open:
            kernel = kernel.fit(sizes)
            kernel.lower(target)
            _wave.take_diagnostics()
        return str(kernel)

    def arguments(self, sizes, seed=0):
        """(dtype, array) of each parameter."""
        rng = np.random.default_rng(seed)
        values = {**sizes, **self.derived(sizes)}
        made = [(t.dtype, t.sampled(values, rng)) for t in self.inputs]
        return made + [(t.dtype, t.before(values)) for t in self.outputs]

    def expected(self, sizes, arguments):
        """(exact result, magnitudes) of each output."""
        inputs = [decode(dtype, array) for dtype, array in arguments[: len(self.inputs)]]
        found = self.reference(*inputs, **{str(d): n for d, n in sizes.items()})
        found = found if isinstance(found, list) else [found]
        return [f if isinstance(f, tuple) else (f, np.abs(f)) for f in found]

    def check(self, sizes, before, after, least=0.0):
        """Checks that `after` a run the outputs are what the kernel should compute from the inputs
        `before` it.

        `least`: the tolerance of floats on a machine that rounds more than the language says."""
        n = len(self.inputs)
        for (_, old), (_, new) in zip(before[:n], after[:n]):
            assert old.tobytes() == new.tobytes(), "an input was written"
        for (dtype, array), (exact, scale) in zip(after[n:], self.expected(sizes, before)):
            result = decode(dtype, array)
            loose = self.tolerance or TOLERANCE.get(dtype, 0)
            loose = 0 if self.exact or dtype[0] in "iu" else max(loose, least)
            bound = np.broadcast_to(loose * scale, exact.shape)
            wrong = ~(np.abs(result - exact) <= bound)
            if wrong.any():
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                raise AssertionError(
                    f"{wrong.sum()} of {wrong.size} elements are wrong, the first at {at}: "
                    f"{result[at]} instead of {exact[at]}, which may differ by {bound[at]:.1e}"
                )
