"""Loops that run while a condition holds, also one inside another.

The number of iterations is a constant, depends on the workgroup, comes from memory, or is
determined in the loop: a flag that it carries ends it. An inner loop may also run as often as the
outer one says.
"""

import numpy as np

from .case import EXACT, Statement
from .draw_values import pick

LIMITS = ("fixed", "group", "memory", "flag")
MOST = 4  # iterations of a loop that a flag ends
STEPS = 6 * (1 + 8)  # at most, of two nested loops: from -2 to below 4, and to below 3 + the outer counter


class Loop:
    """`axis` counts from `start`; `limit` is the number of iterations, as `how` defines it."""

    def __init__(self, case, axis, names, outer=None):
        r = case.r
        self.axis, self.name, self.outer = axis, f"@out{names}", outer
        self.how = r.choice(LIMITS + (("outer", "outer") if outer else ()))
        self.start, self.limit = r.choice((0, 0, 0, 1, -2)), r.randint(-1, 3)
        self.table, self.version = None, case.version()
        if self.how == "memory":
            self.table = case.param(("T",), "i32")
            case.tables[self.table] = "small"

    def rounds(self, env, group, outer):
        """The number of iterations in a workgroup."""
        if self.how == "memory":
            table = env.data[self.table]
            return max(0, (int(table[group]) if group < len(table) else 0) - self.start)
        if self.how == "flag":
            return min(max(0, self.limit - self.start) + 1, MOST)
        more = {"group": group % 2, "outer": outer}.get(self.how, 0)
        return max(0, self.limit + more - self.start)

    def counter(self):
        return f"signed({self.axis}.{self.version})"

    def condition(self):
        here = self.counter()
        return {
            "fixed": f"{here} < {self.limit}",
            "group": f"{here} < {self.limit} + Mod($WG0, 2)",
            "memory": f"{here} < signed(L{self.axis})",
            "flag": f"({here} < {self.start + MOST}) & Eq(signed($GET_ITER_ARG_0), 0)",
            "outer": f"{here} < {self.limit} + {self.outer.counter() if self.outer else ''}",
        }[self.how]

    def text(self, result, value, kind, body):
        """`body` maps the names of the counter and of the carried value to lines and the next value."""
        n, lines = self.name, []
        if self.how == "memory":
            where = "{T: $WG0} -> {U: $index0}"
            lines += [f"{n}l = read {self.table} {{mapping = map 1 {where}}} : tile<U, i32>"]
            lines += [f"set_symbol L{self.axis} {n}l"]
        lines += [f"{n}s = scalar {self.start} : i32", f"{n}one = scalar 1 : i32", f"{n}none = scalar 0 : i32"]
        flag = (f"{n}f, ", f"{n}g = {n}none, ", "i32, ") if self.how == "flag" else ("", "", "")
        lines += [
            f"{flag[0]}{result} = while {self.axis} as {self.counter()} ({n}w) from {n}s cond "
            f"{self.condition()} carry {flag[1]}{n}c = {value} : {flag[2]}{kind} {{",
            f"{n}i = scalar {self.counter()} : i32",
        ]
        inner, following = body(f"{n}i", f"{n}c")
        lines += inner + [f"{n}n = add {n}i, {n}one", f"set_symbol {self.axis} {n}n"]
        if self.how == "flag":
            lines += [f"{n}m = scalar {self.limit} : i32", f"{n}h = ge {n}i, {n}m", f"{n}d = select {n}h, {n}one, {n}g"]
            return [*lines, f"yield {n}n, {n}d, {following}", "}"]
        return [*lines, f"yield {n}n, {following}", "}"]


def steps(case, v):
    """What an iteration does with the value: (text, NumPy), and how large it becomes."""
    found = [("maximum", 0), ("minimum", 0)]
    if v.most + STEPS * 8 <= EXACT[v.dtype]:
        found += [("add", STEPS * 7), ("count", STEPS * 8), ("row", STEPS * 7)]
    return case.r.choice(found)


def repeat(case, into):
    """A while loop over a tile with rows of M, perhaps with another one in it."""
    r = case.r
    v = pick(case, into, r.choice((("M",), ("M", "N"), ("N", "M"))), r.choice(("i32", "f32")))
    by = pick(case, into, v.dims, v.dtype, 7)
    op, more = steps(case, v)
    outer = Loop(case, "I", "a")
    inner = Loop(case, "J", "b", outer) if r.random() < 0.5 else None
    out = case.fresh(v.dims, v.dtype, v.most + more + by.most)
    kind, axis, tile = v.type(), v.dims.index("M"), case.tile["M"]

    name, shift = case.param(("T", *v.dims), v.dtype) if op == "row" else None, r.choice((0, 0, -1, 2))
    own = ", ".join(f"{d}: $index{i}" for i, d in enumerate(v.dims))

    def step(counter, carried, to):
        if op == "row":  # of a memory, by the loop's counter: out of range on both sides
            at = (inner if inner and to == "@outy" else outer).counter()
            mapping = f"map {len(v.dims)} {{T: {at} + {shift}, {own}}} -> {{{own}}}"
            return [f"{to}r = read {name} {{mapping = {mapping}}} : {kind}", f"{to} = add {carried}, {to}r"]
        if op != "count":
            return [f"{to} = {op} {carried}, @1"]
        cast = [] if v.dtype == "i32" else [f"{to}t = cast {counter} : {v.dtype}"]
        return [*cast, f"{to} = add {carried}, {counter if v.dtype == 'i32' else to + 't'}"]

    def body(counter, carried):
        lines = step(counter, carried, "@outx")
        if inner is None:
            return lines, "@outx"
        deeper = lambda c, x: (step(c, x, "@outy"), "@outy")  # noqa: E731
        return lines + inner.text("@outz", "@outx", kind, deeper), "@outz"

    def compute(env, at, x, y):
        result = np.array(x)
        for g in range(-(-x.shape[axis] // tile)):
            rows = tuple(slice(g * tile, (g + 1) * tile) if i == axis else slice(None) for i in range(x.ndim))
            now = result[rows]
            for i in range(outer.rounds(env, g, 0)):
                now = once(env, now, y, rows, outer.start + i)
                for j in range(inner.rounds(env, g, outer.start + i) if inner else 0):
                    now = once(env, now, y, rows, inner.start + j)
            result[rows] = now
        return result

    def once(env, x, y, rows, i):
        if op == "count":
            return x + x.dtype.type(i)
        if op == "row":
            return x + env.row(name, v.dims, i + shift)[rows]
        return {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}[op](x, y[rows])

    text = "\n".join(outer.text("@out", "@0", kind, body))
    case.axes |= {"I", *("J" if inner else "")}
    for loop in (outer, inner):
        case.axes |= {"U", "L" + loop.axis} if loop and loop.how == "memory" else set()
    case.loops.append("nested " + inner.how if inner else outer.how)
    case.add(into, Statement(out, [v, by], text, compute))
