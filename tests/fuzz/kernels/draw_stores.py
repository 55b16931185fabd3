"""Where results go: written, also to tensors with dims that they lack, or combined with memory."""

from .case import EXACT
from .draw_tables import Place, new_table
from .draw_values import pick
from .model import ATOMIC, BITWISE, SWAP


def store(case):
    """One more output."""
    r = case.r
    cut = [d for d in "MN" if case.size[d] > case.tile[d]]
    v = pick(case, case.statements)
    if case.wide and not case.outputs:
        v = pick(case, case.statements, ("M", "N"))
    if r.random() < 0.4 and combine(case, v):
        return
    if r.random() < 0.2 and scatter(case, v, cut):
        return
    if not set(cut) <= set(v.dims):  # several workgroups would write the same elements
        v = pick(case, case.statements, ("M", "N"))
    order = v.dims if r.random() < 0.8 else tuple(reversed(v.dims))
    case.outputs.append((f"%o{len(case.outputs)}", order, v))


def scatter(case, v, cut):
    """Rows are written where a table says, no two to the same place; False: it cannot be."""
    r, name = case.r, f"%o{len(case.outputs)}"
    if not set(cut) <= set(v.dims) or is_observed(case, v):
        return False
    row, place = r.choice(v.dims), Place(r)
    case.how[name] = ("write", new_table(case, row, "once"), place)
    order = v.dims if r.random() < 0.7 else tuple(reversed(v.dims))
    case.outputs.append((name, tuple("T" if d == row else d for d in order), v))
    return True


def combine(case, v):
    """An output with other dimensions than the value, or an atomic; False: it cannot be."""
    r, name = case.r, f"%o{len(case.outputs)}"
    lacks = [d for d in "MN" if d not in v.dims]
    if v.dtype not in ("i32", "f32") or is_observed(case, v):
        return False  # each thread would act for itself
    spread = bool(lacks) and r.random() < 0.5
    order = (*v.dims, *lacks) if spread else v.dims
    order = order if r.random() < 0.7 else tuple(reversed(order))
    if spread and r.random() < 0.5:
        case.outputs.append((name, order, v))
        return True
    table = place = None
    if not spread and r.random() < 0.6:
        row = r.choice(v.dims)
        table, place = new_table(case, row, r.choice(("rows", "wild"))), Place(r)
        order = tuple("T" if d == row else d for d in order)
    most = v.most * case.size["M"] * case.size["N"]
    ops = list(ATOMIC) if most <= EXACT[v.dtype] else ["atomic_min", "atomic_max"]
    op = r.choice(ops + (list(BITWISE) if v.dtype == "i32" else []) + ([SWAP] if not table else []))
    case.how[name] = (op, table, place)
    case.outputs.append((name, order, v))
    return True


def is_observed(case, v):
    """Made of something that mentions threads."""
    made = {s.out.name: s for s in case.statements}
    seen, left = set(), [v.name]
    while left:
        s = made.get(left.pop())
        if s is None or s.out.name in seen:
            continue
        seen.add(s.out.name)
        inner = [s, *(s.body or [])]
        if any(t.observes for t in inner):
            return True
        left += [a.name for t in inner for a in t.args]
    return False
