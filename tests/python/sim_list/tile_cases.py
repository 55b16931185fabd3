"""Register tiles as lower_tiles uses them, one after another: a loop that adds products of panels
to a block. Values are chosen so that every sum is exact."""

from dataclasses import dataclass, field

import numpy as np

from number_formats import decode, encode
from wave_lang import _wave

STEPS = 3
# Steps of k per instruction of a form, and the type of its sums.
FORMS = {
    ("tile", "f32"): (1, "f32"),
    ("tile", "f64"): (1, "f64"),
    ("tile", "i32"): (1, "i32"),
    ("idot", "i8"): (4, "i32"),
    ("bfdot", "bf16"): (2, "f32"),
    ("immla", "i8"): (8, "i32"),
    ("bfmmla", "bf16"): (4, "f32"),
}
SQUARES = ("immla", "bfmmla")

TEXT = """
thread kernel @tile(%a: mem<{a}, {t}>, %b: mem<{b}, {t}>, %c: mem<{c}, {s}>)
  launch grid (1) block (1) wave 1
{{
  %zero = scalar 0 : index
  %start = load %c, %zero : vec<{c}, {s}>
  %r = for K with {{trips = {steps}}} carry %acc = %start {{
    %i = expr $ARGK*{ma} : index
    %j = expr $ARGK*{nb} : index
    %x = load %a, %i : vec<{ma}, {t}>
    %y = load %b, %j : vec<{nb}, {t}>
    %s = wave_mma {form}_{m}x{n}x{k} %x, %y, %acc
    yield %s
  }}
  store %r, %c, %zero
}}
"""


class Lanes(_wave.Launchable):
    """One lane's program, compiled."""

    def __init__(self, text, target, device):
        (lanes,) = _wave.parse(text, "tile.wave")
        self._bind(lanes)
        self.program = lanes.compile(target=target, device=device, cache=1)
        self._use(self.program)


@dataclass(frozen=True)
class TileCase:
    """A form, a type of operands, and blocks."""

    form: str
    dtype: str
    shapes: tuple = field(default=((8, 24), (5, 7), (2, 10)))

    @property
    def name(self):
        return f"tile_{self.form}_{self.dtype}"

    def keep(self, sizes, row):
        """Compiles into the cache."""
        Lanes(self.text(sizes), row, -1)

    def compile(self, sizes, row):
        return Lanes(self.text(sizes), row, 0)

    def text(self, sizes):
        (m, n), (k, sums) = sizes, FORMS[self.form, self.dtype]
        values = {"m": m, "n": n, "k": k, "ma": m * k, "nb": n * k, "c": m * n, "steps": STEPS}
        values |= {"form": self.form, "t": self.dtype, "s": sums}
        return TEXT.format(a=STEPS * m * k, b=STEPS * n * k, **values)

    def arguments(self, sizes):
        (m, n), (k, sums) = sizes, FORMS[self.form, self.dtype]
        rng = np.random.default_rng(m * n)
        counts = ((self.dtype, STEPS * m * k), (self.dtype, STEPS * n * k), (sums, m * n))
        numbers = [(t, rng.integers(-128, 128, count)) for t, count in counts]
        scale = {"f": 16, "b": 16, "i": 1}
        return [(t, encode(t, v / scale[t[0]])) for t, v in numbers]

    def check(self, sizes, before, after):
        (m, n), (k, _) = sizes, FORMS[self.form, self.dtype]
        a, b, c = (decode(dtype, array) for dtype, array in before)
        exact = self.rows(sizes, c) + np.einsum(
            "smk,snk->mn", a.reshape(STEPS, m, k), b.reshape(STEPS, n, k)
        )
        assert np.array_equal(self.rows(sizes, decode(*after[2])), exact)

    def rows(self, sizes, sums):
        """A block in its memory layout, as a matrix."""
        m, n = sizes
        if self.form not in SQUARES or m % 2 or n % 2:
            return sums.reshape(m, n)
        return sums.reshape(m // 2, n // 2, 2, 2).swapaxes(1, 2).reshape(m, n)


CASES = [TileCase(form, dtype) for form, dtype in FORMS]


def has_form(row, case):
    return case.form in ("tile", "idot") or row in ("cpu_neon_mm", "cpu_sve256")
