"""Sums over workgroups: P is divided over them, one element each. What they add up is read along P, computed
from that, or a value that they all have."""

import numpy as np

from .case import EXACT, Statement
from .draw_sums import together
from .draw_values import pick, read, spoil

DTYPES = ("i32", "f32", "f32", "i64")


def group_sum(case, into):
    """A sum over workgroups; what is drawn later may use it, but nothing that differs between them."""
    r = case.r
    if any("set_symbol" in s.text for s in into):
        return  # symbols do not keep their values where workgroups meet
    dims = r.choice((("M",), ("M", "N"), ("N", "M"), ()))
    dtype = r.choice(DTYPES)
    others, case.values, before = case.values, [], len(into)
    a = what_is_added(case, into, dims, dtype, others)
    case.values = others
    most, args = a.most * max(1, case.size["P"]), [a]
    if most > EXACT[dtype]:
        del into[before:]  # P has no value without a sum
        return
    start = pick(case, into, dims, dtype, EXACT[dtype] // 4) if dims and r.random() < 0.4 else None
    if start and most + start.most <= EXACT[dtype]:
        args.append(start)
        most += start.most
    add(case, into, args, dims, most)


def add(case, into, args, dims, most):
    """The sum; a number becomes a tile again, since others need one."""
    a = args[0]
    axis = a.dims.index("P")
    out = case.fresh(dims or ("M",), a.dtype, most)
    text = f"sum {', '.join('@%d' % i for i in range(len(args)))} {{dim = P, grid}}"
    text = f"@out = {text}" if dims else f"@outs = {text}\n@out = broadcast @outs : {out.type()}"

    def compute(env, at, x, init=None):
        total = together("sum", env.existing(x, axis, "P"), axis)
        total = total if dims else np.full(env.extent["M"], total)
        return total if init is None else total + init

    case.add(into, Statement(out, args, text, compute))


def what_is_added(case, into, dims, dtype, others):
    r, at = case.r, case.r.randint(0, len(dims))
    wide = (*dims[:at], "P", *dims[at:])
    same = [v for v in others if v.dims == dims and v.dtype == dtype]
    if same and r.random() < 0.3:
        return along_groups(case, into, r.choice(same), wide, at)
    rows = dims == ("M",) and not case.cut_n and r.random() < 0.4
    a = spoil(case, into, read(case, into, (*wide, "N") if rows else wide, dtype))
    return row_sum(case, into, a) if rows else a


def along_groups(case, into, v, wide, at):
    out = case.fresh(wide, v.dtype, v.most)
    compute = lambda env, _, x: np.repeat(np.expand_dims(x, at), env.extent["P"], at)  # noqa: E731
    return case.add(into, Statement(out, [v], f"@out = broadcast @0 : {out.type()}", compute))


def row_sum(case, into, a):
    """Along N, of what each workgroup has."""
    axis = a.dims.index("N")
    out = case.fresh(tuple(d for d in a.dims if d != "N"), a.dtype, a.most * max(1, case.size["N"]))
    block = ", block" if case.waves_n > 1 else ""
    compute = lambda env, at, x: together("sum", env.existing(x, axis, "N"), axis)  # noqa: E731
    return case.add(into, Statement(out, [a], f"@out = sum @0 {{dim = N{block}}}", compute))
