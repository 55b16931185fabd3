"""Indices from memory: elements of a table say which row is read, written or combined.

A table contains indices in range, out of range on either side, and the largest integers: 2*v of
these overflows, and must not become an index in range.
"""

import numpy as np

from .case import NUMPY, Statement

FACTORS = (1, 1, 1, 1, 2, 3, -1)
SHIFTS = (0, 0, 0, 1, -2, 5)


class Place:
    """factor*v + shift, for element v of a table."""

    def __init__(self, r):
        self.factor, self.shift = r.choice(FACTORS), r.choice(SHIFTS)

    def text(self):
        value = "signed($dynamic_val0)"
        value = value if self.factor == 1 else f"{self.factor}*{value}"
        return f"{value} + {self.shift}".replace("+ -", "- ") if self.shift else value

    def of(self, table):
        """As unbounded integers."""
        return np.array([self.factor * int(v) + self.shift for v in table], object)


def new_table(case, dim, kind):
    """A parameter with row numbers: `rows` are near the range, `wild` anywhere, `once` none twice
    in range."""
    name = case.param((dim,), case.r.choice(("i32", "i32", "i64")))
    case.tables[name] = kind
    return name


def numbers(case, r, name, n, dtype):
    """The elements of a table."""
    kind, most = case.tables[name], case.size["T"]
    if kind == "small":
        return r.integers(0, 4, n)
    if kind == "once":
        found = np.arange(-3, max(most, n) + 3)
        return r.permutation(found)[:n]
    found = r.integers(-most - 2, most + 3, n)
    limits = np.iinfo(NUMPY[dtype])
    extremes = [limits.max, limits.min, limits.max - 1, limits.max // 2 + 1, limits.min // 2, limits.max // 3 + 1]
    if kind == "wild":
        for i in range(n):
            if r.random() < 0.3:
                found[i] = extremes[r.integers(len(extremes))]
    return found


def rename(case, into):
    """Memory whose dimension has another name and extent than the tile's; perhaps a diagonal."""
    r = case.r
    dims = r.choice((("M",), ("N",), ("M", "N"), ("N", "M")))
    row, dtype = r.choice(dims), r.choice(("i32", "f32"))
    twice = r.random() < 0.3
    memory = (*dims, "T") if twice else tuple("T" if d == row else d for d in dims)
    memory = memory if r.random() < 0.7 else memory[::-1]
    name, out = case.param(memory, dtype), case.fresh(dims, dtype, 7)
    at = {d: f"$index{i}" for i, d in enumerate(dims)}
    of = ", ".join(f"{d}: {at[row if d == 'T' else d]}" for d in memory)
    tile = ", ".join(f"{d}: {i}" for d, i in at.items())
    text = f"@out = read {name} {{mapping = map {len(dims)} {{{of}}} -> {{{tile}}}}} : {out.type()}"
    compute = lambda env, at: env.pick(name, memory, dims, row, range(env.extent[row]))  # noqa: E731
    case.add(into, Statement(out, [], text, compute))


def looked_up(case, row, index):
    """The position in the table of an element's row number: mostly its own, else elsewhere in the
    tile. As text, and as a function of coordinates."""
    t = case.tile[row]
    first = f"{t}*floor({index}/{t})"
    ways = [(index, lambda x: x)] * 4
    ways.append((f"{first} + floor(Mod({index}, {t})/2)", lambda x: x // t * t + x % t // 2))
    ways.append((f"{first} + {t - 1} - Mod({index}, {t})", lambda x: x // t * t + t - 1 - x % t))
    return case.r.choice(ways)


def gather(case, into):
    """Rows of memory gathered through a table."""
    r = case.r
    dims = r.choice((("M",), ("N",), ("M", "N"), ("N", "M")))
    row, dtype = r.choice(dims), r.choice(("i32", "f32"))
    memory = tuple("T" if d == row else d for d in (dims if r.random() < 0.7 else dims[::-1]))
    name, table = case.param(memory, dtype), new_table(case, row, r.choice(("rows", "wild", "wild")))
    kept = next(p[2] for p in case.params if p[0] == table)
    place, found = Place(r), case.fresh((row,), kept, 2**62)
    into.append(Statement(found, [], "@out = read " + table, lambda env, at: env.read(table, (row,), {}, at)))
    at = {d: f"$index{i}" for i, d in enumerate(dims)}
    of = ", ".join(f"{d}: {place.text() if d == 'T' else at[d]}" for d in memory)
    tile = ", ".join(f"{d}: {i}" for d, i in at.items())
    out, (where, moved) = case.fresh(dims, dtype, 7), looked_up(case, row, at[row])
    text = f"@out = read {name}, @0 {{mapping = map {len(dims)} {{{of}}} -> {{{tile}}} with {{{row}: {where}}}}} : {out.type()}"
    compute = lambda env, at, rows: env.pick(name, memory, dims, row, place.of(rows[moved(np.arange(len(rows)))]))  # noqa: E731
    case.add(into, Statement(out, [found], text, compute))
