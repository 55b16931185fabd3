"""Loops of matmuls of numbers that have scales: the products of an iteration, which have the same
scales, are added, and then multiplied by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterable

from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym

K, K_BLOCKS = sym.K, sym.K_BLOCKS  # an iteration has one of the blocks along K
AHEAD = 2  # iterations before which scales are loaded

_i, _j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)


@dataclass(frozen=True)
class Scales:
    """Numbers for each element of `dim` and each block along K, in a memory with the coordinates
    `place` and, for those of a block, `along(its number)`. If `place` looks up an index, `rows` has
    it."""

    memory: Any
    dim: Any
    place: dict[Any, Any]
    along: Callable[[Any], dict[Any, Any]] = lambda block: {K_BLOCKS: block}
    rows: tuple[Any, ...] = ()

    def _read(self, block: Any, dims: dict[Any, Any]) -> Any:
        looked_up = {"dynamic_val_mappings": ({self.dim: _i},)} if self.rows else {}
        mapping = tkw.IndexMapping(
            len(dims), inputs=self.place | self.along(block), outputs=dims, **looked_up
        )
        return tkw.read(self.memory, mapping=mapping, mapping_dynamic_vals=self.rows)

    def first(self, block: Any) -> Any:
        """Those of a block, before the loop."""
        return self._read(block, {self.dim: _i})

    def later(self, ahead: int) -> Any:
        """In the loop, those of an iteration that is `ahead`."""
        return self._read(_j + ahead, {self.dim: _i, K_BLOCKS: _j})


def scaled_sums(
    nothing: list[Any],
    scales: list[Scales],
    products: Callable[[Callable[[], Any]], Iterable[tuple[Any, Any]]],
    begin: Any = 0,
    ahead: int = AHEAD,
) -> list[Any]:
    """The sums over K of `products(values)`, each of which is a sum of an iteration's products and
    its factor; `values()` has the scales of the iteration. `nothing` has what sums begin with; the
    first block along K is `begin`. Scales that are not loaded `ahead` are when `values` is called.
    """
    count, every = len(nothing), len(scales)
    first = [scale.first(begin + block) for block in range(ahead) for scale in scales]

    @tkw.iterate(K, init_args=[*nothing, *first])
    def loop(*carried):
        totals, loaded = carried[:count], carried[count:]
        load = lambda: [scale.later(ahead) for scale in scales]
        new = load() if ahead else []  # before the products begin
        parts = zip(totals, products((lambda: loaded[:every]) if ahead else load))
        return *(total + part * factor for total, (part, factor) in parts), *loaded[every:], *new

    return list(loop)[:count] if count + len(first) > 1 else [loop]
