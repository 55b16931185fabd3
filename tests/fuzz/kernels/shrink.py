"""Smaller cases that fail in the same way: fewer outputs, statements and rows, smaller sizes."""

from .children import problem


def shrink(case):
    """The case itself, made smaller for as long as that is possible."""
    kind = problem(case).split(":")[0]
    same = lambda: (problem(case) or "").split(":")[0] == kind  # noqa: E731
    steps = (outputs, earlier_outputs, statements, wishes, pins, claims, sizes)
    while any([step(case, same) for step in steps]):
        pass
    return case


def drop(rows, i, same):
    """Whether it still fails without that row, which is then gone."""
    gone = rows.pop(i)
    if same():
        return True
    rows.insert(i, gone)
    return False


def backwards(rows):
    return range(len(rows) - 1, -1, -1)


def outputs(case, same):
    return any([len(case.outputs) > 1 and drop(case.outputs, i, same) for i in backwards(case.outputs)])


def earlier_outputs(case, same):
    """Something that was computed earlier becomes the only output."""
    changed = False
    for i, s in enumerate(list(case.statements)):
        if len(case.outputs) != 1 or case.how:
            break
        name, _, now = before = case.outputs[0]
        made = next((j for j, t in enumerate(case.statements) if t.out is now), 0)
        if i >= made:
            break
        case.outputs[0] = (name, s.out.dims, s.out)
        if same():
            changed = True
        else:
            case.outputs[0] = before
    return changed


def statements(case, same):
    return any([not is_needed(case, i) and drop(case.statements, i, same) for i in backwards(case.statements)])


def is_needed(case, i):
    needed = {a.name for t in case.statements for a in t.args} | {v.name for _, _, v in case.outputs}
    for t in case.statements:
        needed |= {a.name for u in t.body or [] for a in u.args}
    return case.statements[i].out.name in needed


def wishes(case, same):
    return any([drop(case.wishes, i, same) for i in backwards(case.wishes)])


def pins(case, same):
    return any([drop(case.pins, i, same) for i in backwards(case.pins)])


def claims(case, same):
    return any([drop(case.assumed, i, same) for i in backwards(case.assumed)])


def sizes(case, same):
    changed = False
    for d in case.cut + "K":
        for smaller in (1, case.tile[d], case.size[d] - 1):
            before = case.size[d]
            if 0 < smaller < before:
                case.size[d] = smaller
                if same():
                    changed = True
                    break
                case.size[d] = before
    return changed
