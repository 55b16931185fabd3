"""Softmax attention over the keys of a loop, which the attention kernels share.

Scores are exponents of 2. The score of a key that a row does not see is -inf, while the running
maximum begins at the lowest finite number: a row that sees no key then has the sum 0 and the result
0, and -inf is never subtracted from -inf.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw

LOG2_E = math.log2(math.e)
LOWEST = -3.4028234663852886e38  # the lowest finite f32
MOST_ROUGH = 1024.0  # the largest cap of which 2^-21 is less than f16's rounding of weights


def no_change(scores: Any) -> Any:
    return scores


@dataclass(frozen=True)
class Scores:
    """What happens to a product of a query and a key: `scale`, then a cap of `cap` (0: none)."""

    scale: float = 1.0
    cap: float = 0.0

    def __call__(self, products: Any) -> Any:
        """The scores as exponents of 2."""
        if self.cap == 0:
            return products * (self.scale * LOG2_E)
        tanh = tkw.tanh_approx if self.cap <= MOST_ROUGH else tkw.tanh
        return tanh(products * (self.scale / self.cap)) * (self.cap * LOG2_E)


def capped(cap: float, exponents: Callable[[Any], Any]) -> dict[str, Any]:
    """The arguments of `Attention` for scores with a cap of at most MOST_ROUGH that are multiplied
    in 16 bits, whose error may be 2^-21 of the cap. `exponents` multiplies products by their scale
    and -2 * LOG2_E / cap: tanh(x) is 2 / (1 + exp(-2 * x)) - 1, of which the division depends on
    the product."""
    share = lambda products: tkw.reciprocal_approx(tkw.exp2(exponents(products)) + 1.0)
    return {"scores": share, "factor": 2 * cap * LOG2_E, "offset": -cap * LOG2_E}


def scores_of(head_size: int, layer_scaling: float | None, logit_cap: float) -> Scores:
    """Scores with the scale of a template's arguments: by default 1/sqrt(head_size)."""
    if not 0 <= logit_cap < math.inf:
        raise ValueError(f"`logit_cap` is {logit_cap}: it must be positive, or 0 for none")
    return Scores(1 / math.sqrt(head_size) if layer_scaling is None else layer_scaling, logit_cap)


def scaled_by(scores: Scores, dtype: Any) -> dict[str, Any]:
    """The arguments of `Attention` for these scores of products of this type: a factor, where that
    is the same. In f32 the difference of two rounded products would be seen, and a large factor
    would make the lowest number infinite."""
    factor = scores.scale * LOG2_E
    if dtype == tkl.f32:
        return {"scores": scores}
    if scores.cap > MOST_ROUGH:
        return {"scores": scores}
    if scores.cap:
        return capped(scores.cap, lambda products: products * (-2 * factor / scores.cap))
    return {"factor": factor} if 0 < factor <= 1 else {"scores": scores}


def combine_splits(results: Any, log_sums: Any, splits: Any, rows: list[Any], every: list[Any]):
    """The result for all keys, and the logarithm of its sum, from those of the splits: `results` by
    splits and `every` dimension, `log_sums` by splits and `rows`. Splits without keys do not
    count."""
    zero = tkw.register(rows, tkl.f32, 0.0)
    state = [tkw.register(rows, tkl.f32, LOWEST), zero, tkw.register(every, tkl.f32, 0.0)]

    @tkw.iterate(splits, init_args=state)
    def loop(largest, total, acc):
        log_sum, part = tkw.read(log_sums), tkw.read(results)
        larger = tkw.maximum(log_sum, largest)
        kept, weight = tkw.exp2(largest - larger), tkw.exp2(log_sum - larger)
        return larger, total * kept + weight, acc * kept + part * weight

    largest, total, acc = loop
    mean = acc * tkw.select(total > zero, tkw.reciprocal(total), zero)
    return mean, largest + tkw.log2(total)


@dataclass(frozen=True)
class Attention:
    """The dimensions of attention: `batch` (each with one element), rows of queries, keys, and
    columns of values; the element type of the values; and what becomes of products.

    With a `factor`, a positive number, what `scores` returns is multiplied by it when the maximum is
    subtracted, which takes one instruction instead of two: the running maximum is that before the
    multiplication. A factor that is not known is at most 1. `offset` is the rest of every score, which
    only the logarithm of the sum needs."""

    batch: Sequence[Any]
    rows: Any
    keys: Any
    columns: Any
    dtype: Any
    mma_type: Any = None  # of the product of queries and keys
    scores: Callable[[Any], Any] = no_change
    shift: int = 0  # weights are at most 2**shift, for types with few small numbers
    factor: Any = None
    offset: float = 0.0

    def _register(self, dims: Sequence[Any], value: float) -> Any:
        return tkw.register([*self.batch, *dims], tkl.f32, value)

    def _exponent(self, score: Any) -> Any:
        return score if self.factor is None else score * self.factor

    def before_factor(self, score: Any) -> Any:
        """What `scores` returns for this score, where the factor is a number."""
        if self.offset == 0 and self.factor is None:
            return score
        return score * (1 / self.factor) - self.offset / self.factor

    @property
    def lowest(self) -> float:
        """Where the maximum begins: finite, also times the factor."""
        known = isinstance(self.factor, float) and self.factor > 1
        return LOWEST / 2 / self.factor if known else LOWEST

    def start(self) -> list[Any]:
        """The maximum, the sum and the weighted values before the first key."""
        return [
            self._register([self.rows], self.lowest),
            self._register([self.rows], 0.0),
            self._register([self.columns, self.rows], 0.0),
        ]

    def step(
        self, state: Sequence[Any], q: Any, k: Any, v: Any, visible: Any = None, bias: Any = None
    ) -> Any:
        """The state after the keys `k` with the values `v`. `visible` is a tile over rows and keys,
        or a list of tiles all of which must be true; None: every row sees them. `bias` is added to the scores. Queries and keys may be lists
        of tiles, for parts of their columns."""
        largest, total, acc = state
        x = self._register([self.keys, self.rows], 0.0)
        for keys, rows in zip(k, q) if isinstance(k, list) else ((k, q),):
            x = tkw.mma(keys, rows, x, self.mma_type)
        x = self.scores(tkw.permute(x, target_shape=[*self.batch, self.rows, self.keys]))
        x = x if bias is None else x + bias
        each = visible if isinstance(visible, list) else [] if visible is None else [visible]
        for seen in each:  # one by one: a mask of positions is tested once for most tiles
            x = tkw.select(seen, x, self._register([self.rows, self.keys], -math.inf))
        larger = tkw.max(x, largest, dim=self.keys)
        # Exactly 1 where nothing is larger: fused, the difference of products is their rounding.
        kept = tkw.exp2(self._exponent(largest - larger))
        base = self._exponent(larger)
        weights = tkw.exp2(self._exponent(x) - (base - float(self.shift) if self.shift else base))
        total = tkw.sum(weights, total * kept, dim=self.keys)
        return larger, total, tkw.mma(v, tkw.cast(weights, self.dtype), acc * kept)

    def result(self, state: Sequence[Any]) -> Any:
        """The weighted mean of the values, by columns and rows: 0 for rows that see no key."""
        _, total, acc = state
        zero = self._register([self.rows], 0.0)
        return acc * tkw.select(total > zero, tkw.reciprocal(total), zero)

    def log_sum(self, state: Sequence[Any]) -> Any:
        """The logarithm to base 2 of the sum of the powers: -inf for rows that see no key."""
        largest, total, _ = state
        return self._exponent(largest) + tkw.log2(total) + (self.offset - self.shift)

    def seen_until(self, group: int = 1) -> dict[Any, Any]:
        """Where the keys begin that a row does not see in causal attention, for `until`."""
        return {self.rows: tkw.IndexMapping.iterator(0) // group + 1}

    def within(self, window: int = -1, group: int = 1) -> Any:
        """`visible` of causal attention: token i sees key j if j <= i and, with a window,
        j >= i - window. A token has as many rows as a `group` has heads."""
        both = [self.rows, self.keys]
        row = tkw.self_index(self.rows, tkl.i32)
        row = tkw.broadcast(row if group == 1 else row // group, both)
        key = tkw.broadcast(tkw.self_index(self.keys, tkl.i32), both)
        return key <= row if window < 0 else (key <= row) & (key >= row - window)
