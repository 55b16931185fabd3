"""Ops that only some workgroups execute, and ops that depend on threads."""

import numpy as np

from .case import EXACT, Statement
from .draw_values import pick


def branch(case, into):
    """A conditional with an else, as `build_else` writes it: it differs between workgroups."""
    a = pick(case, into, case.r.choice((("M",), ("M", "N"), ("N", "M"))))
    b = pick(case, into, a.dims, a.dtype)
    out = case.fresh(a.dims, a.dtype, max(a.most, b.most))
    limit, tile, axis = case.r.randint(0, 2), case.tile["M"], a.dims.index("M")
    text = (
        f"@outz = fill 0 : {out.type()}\n"
        f"@outa = if ($WG0 < {limit}) carry @oute = @outz {{\n"
        "@outx = maximum @0, @1\nyield @outx\n}\n"
        f"@out = if ($WG0 >= {limit}) carry @outf = @outa {{\n"
        "@outy = minimum @0, @1\nyield @outy\n}"
    )

    def compute(env, at, x, y):
        here = np.arange(x.shape[axis]) // tile < limit
        here = here.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        return np.where(here, np.maximum(x, y), np.minimum(x, y))

    case.add(into, Statement(out, [a, b], text, compute))


def some_groups(case, into):
    """Workgroups for which a condition on their id holds double the value; the others keep it."""
    a = pick(case, into, case.r.choice((("M",), ("M", "N"))))
    if 2 * a.most > EXACT[a.dtype]:
        return
    which = case.r.choice(("$WG0 < 1", "$WG0 > 0", "Eq($WG0, 1)"))
    holds = {"$WG0 < 1": lambda g: g < 1, "$WG0 > 0": lambda g: g > 0, "Eq($WG0, 1)": lambda g: g == 1}
    out, tile = case.fresh(a.dims, a.dtype, 2 * a.most), case.tile["M"]
    text = f"@out = if ({which}) carry @oute = @0 {{\n  @outy = add @oute, @0\n  yield @outy\n}}"

    def compute(env, at, x):
        rows = holds[which](np.arange(x.shape[0]) // tile)
        return np.where(rows.reshape(-1, *[1] * (x.ndim - 1)), x + x, x)

    case.add(into, Statement(out, [a], text, compute))


def observe(case, into):
    """Adds the number of a thread and subtracts it again."""
    a = pick(case, into, dtype=case.r.choice(("i32", "f32")), most=2**20)
    number = case.r.choice(("$T0", "Mod($T0, 8)", "floor($T0/64)"))
    text = f"@outt = scalar {number} : {a.dtype}\n@outs = add @0, @outt\n@out = sub @outs, @outt"
    out = case.fresh(a.dims, a.dtype, a.most)
    case.observable = True
    case.add(into, Statement(out, [a], text, lambda env, at, x: x))
    into[-1].observes = True
