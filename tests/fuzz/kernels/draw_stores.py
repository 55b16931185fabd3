"""Results: written, also to tensors with dims that they lack, or combined with memory."""

from .case import EXACT
from .draw_tables import Place, new_table
from .draw_values import pick
from .model import ATOMIC, BITWISE, SWAP


class Resize:
    """`set_symbol` gives a dim the size `made`, unless that is None, then a tile is made, then the dim gets the
    size `stored`, and the tile is stored. Other dims that have grown get their sizes back before the tile is made:
    otherwise it would have elements that its operands lack."""

    def __init__(self, case, dim):
        r, size = case.r, case.size[dim]
        self.dim = dim
        self.made = r.choice((None, 0, size // 2, max(0, size - 1), size))
        self.stored = r.choice((0, size // 2, size, size + 1, 2 * size + case.tile[dim]))
        sizes = {other.dim: other.stored for other in case.resized.values()}
        grown = [d for d, n in sizes.items() if d != dim and n > case.size[d]]
        self.shrunk = grown if self.made is not None else []

    def text(self, case, name, v):
        """Lines, and the stored value."""
        made, lines = v.name, [f"{name}s = scalar {self.stored} : i32", f"set_symbol {self.dim} {name}s"]
        if self.made is not None:
            made, least = f"{name}v", min(self.made, case.size[self.dim])
            first = [f"{name}m = scalar {least} : i32", f"set_symbol {self.dim} {name}m"]
            for d in self.shrunk:
                first += [f"{name}{d} = scalar {case.size[d]} : i32", f"set_symbol {d} {name}{d}"]
            lines = [*first, f"{made} = maximum {v.name}, {v.name}", *lines]
        return lines, made


def store(case):
    """One more output, perhaps of a tile that was made while a dim had another size."""
    before = len(case.outputs)
    output(case)
    name, _, v = case.outputs[before]
    cut = [d for d in v.dims if d in ("MN" if case.cut_n else "M")]
    if cut and not case.shares and case.r.random() < 0.2 and not is_observed(case, v):
        case.resized[name] = Resize(case, case.r.choice(cut))


def output(case):
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
    """Rows are written to indices from a table, no two to the same one; False: not possible."""
    r, name = case.r, f"%o{len(case.outputs)}"
    if not set(cut) <= set(v.dims) or is_observed(case, v):
        return False
    row, place = r.choice(v.dims), Place(r)
    case.how[name] = ("write", new_table(case, row, "once"), place)
    order = v.dims if r.random() < 0.7 else tuple(reversed(v.dims))
    case.outputs.append((name, tuple("T" if d == row else d for d in order), v))
    return True


def combine(case, v):
    """An output with other dimensions than the value, or an atomic; False: not possible."""
    r, name = case.r, f"%o{len(case.outputs)}"
    lacks = [d for d in "MN" if d not in v.dims]
    if v.dtype == "i1" or is_observed(case, v):
        return False  # each thread would act on its own
    spread = bool(lacks) and r.random() < 0.5
    order = (*v.dims, *lacks) if spread else v.dims
    order = order if r.random() < 0.7 else tuple(reversed(order))
    if spread and r.random() < 0.5:
        case.outputs.append((name, order, v))
        return True
    if case.shares and case.seed % 8:
        return False  # no atomic may follow the sum of several workgroups
    table = place = None
    if not spread and r.random() < 0.6:
        row = r.choice(v.dims)
        table, place = new_table(case, row, r.choice(("rows", "wild"))), Place(r)
        order = tuple("T" if d == row else d for d in order)
    most = v.most * case.size["M"] * case.size["N"] * case.size.get("P", 1)
    ops = list(ATOMIC) if most <= EXACT[v.dtype] else ["atomic_min", "atomic_max"]
    op = r.choice(ops + (list(BITWISE) if v.dtype[0] != "f" else []) + ([SWAP] if not table else []))
    case.how[name] = (op, table, place)
    case.outputs.append((name, order, v))
    return True


def is_observed(case, v):
    """Whether it depends on something that mentions threads."""
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
