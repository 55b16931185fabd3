"""A case as text IR, which wavec can run."""

from .model import SWAP
from .pins import pin_rows


def text_of(case):
    lines = []
    write(case, case.statements, lines, "  ")
    asserted = [v for _, _, v in case.outputs if case.asserts and v.most < 2**24]
    for i, v in enumerate(asserted):
        lines += assertion(i, v)
    for name, order, v in case.outputs:
        lines += store(case, name, order, v)
    body = "\n".join(lines)
    params = [f"{n}: mem<{', '.join(d)}, {t}{s}{layout(case, n, d)}>" for n, d, t, s in case.used]
    params += [
        f"{n}: mem<{', '.join(d)}, {v.dtype}{layout(case, n, d)}>" for n, d, v in case.outputs
    ]
    head = header(case) + [f"  {row}" for row in pin_rows(case, body)]
    if asserted:
        sites = "".join(f"assert\t{v.name}:{i + 1}:1:0\t\t\\n" for i, v in enumerate(asserted))
        params.append(f'%failures: mem<W, i64> report "{sites}"')
        head.append(f"  bind W = {192 * len(asserted)}")
    return f"kernel @k({', '.join(params)})\n" + "\n".join(head) + "\n{\n" + body + "\n}\n"


def assertion(i, v):
    """An assertion about every element that exists: it is within its bound."""
    most = f"{v.most}.0" if v.dtype[0] == "f" else v.most
    at = ", ".join(f"{d}: $index{n}" for n, d in enumerate(v.dims))
    return [
        f"  %most{i} = fill {most} : {v.type()}",
        f"  %fine{i} = le {v.name}, %most{i}",
        f"  report %fine{i}, %failures {{mapping = map {len(v.dims)} {{W: {192 * i}}} -> {{{at}}}}}",
    ]


def position(ends, row):
    slope, first = ends
    return f"{slope}*{row} {'+-'[first < 0]} {abs(first)}"


def loops(statements):
    found = [s for s in statements if s.body is not None]
    return found + [inner for s in found for inner in loops(s.body)]


def short_loop(case):
    """The loop that has only iterations that a workgroup needs, if it is the only one."""
    found = loops(case.statements)
    return found[0] if len(found) == 1 and found[0].short else None


def before(case):
    """Iterations before the first that changes a row of the workgroup; "": the loop has these, too."""
    loop, m, k = short_loop(case), case.tile["M"], case.tile["K"]
    if not loop or not loop.begins:
        return ""
    return f"Max(0, floor(({position(loop.begins, f'({m}*$WG0)')})/{k}))"


def iterations(case):
    loop, m, k = short_loop(case), case.tile["M"], case.tile["K"]
    if before(case):
        left = f"ceiling(K/{k})" if loop.even else f"Max(0, ceiling(K/{k}) - {before(case)})"
        return f" from {k}*{before(case)} iters {left}"
    if not loop or not loop.ends:
        return ""
    last = position(loop.ends, f"({m}*$WG0 + {m - 1})")
    return f" iters Max(0, Min(ceiling(K/{k}), ceiling(({last})/{k})))"


def header(case):
    t, head = case.tile, []
    head.append(f"  workgroup M by {t['M']} on 0; tile K by {t['K']}{iterations(case)}")
    if case.cut_n:
        head.append(f"  workgroup N by {t['N']} on 1")
    if case.shares:
        head.append(f"  workgroup P by 1 on {1 + case.cut_n}; bind P = {case.size['P']}")
    head.append(f"  wave M by {t['M'] // case.waves_m}")
    if case.waves_n > 1:
        head.append(f"  wave N by {t['N'] // case.waves_n}")
    if case.waves_k > 1:
        head.append(f"  wave K by {t['K'] // case.waves_k}")
    sizes = {"M": t["M"], "N": t["N"], **dict.fromkeys(sorted(case.axes & {"I", "J"}), 0)}
    vector = f"vector {{{', '.join(f'{d}: {n}' for d, n in sizes.items())}}}"
    head.append(f"  hardware threads {case.threads}, mma {case.mma}, {vector}")
    head += [f"  tile {d}" for d in sorted(case.axes & {"I", "J"})]
    head += [f"  {row}" for row in case.wishes]
    for d in "MNKT" if case.has("T") else "MNK":
        free = d in case.symbols()
        head.append(f"  dynamic {d}" if free else f"  bind {d} = {case.size[d]}")
    head += [f"  bind {d} = 1" for d in sorted(case.axes - {"I", "J"})]
    head += [f"  assume {claim}" for claim in case.assumed]
    return head


def store(case, name, order, v):
    op, table, place = case.how.get(name, ("write", None, None))
    lines, stored = case.resized[name].text(case, name, v) if name in case.resized else ([], v.name)
    lines = [f"  {line}" for line in lines]
    result = f"  write {stored}, {name}" if op == "write" else f"  {name}r = {op} {stored}, {name}"
    if op == SWAP:
        zero = f"{name}e = fill {'0.0' if v.dtype[0] == 'f' else '0'} : {v.type()}"
        return [*lines, f"  {zero}", f"{result}, {name}e"]
    if not table:
        return [*lines, result]
    row = next(p[1][0] for p in case.params if p[0] == table)
    at = {d: f"$index{i}" for i, d in enumerate(v.dims)}
    memory = ", ".join(f"{d}: {place.text() if d == 'T' else at[d]}" for d in order)
    tile = ", ".join(f"{d}: {i}" for d, i in at.items())
    memory, tile = (tile, memory) if op == "write" else (memory, tile)  # atomics: as for reads
    mapping = f"map {len(at)} {{{memory}}} -> {{{tile}}} with {{{row}: {at[row]}}}"
    return [*lines, f"  {name}t = read {table}", f"{result}, {name}t {{mapping = {mapping}}}"]


def layout(case, name, dims):
    if case.disagree:
        return ""
    return f", layout({', '.join('_' for _ in dims)})" if name in case.spare else ""


def write(case, statements, lines, indent):
    for s in statements:
        if s.body is None:
            origin = f" + {case.tile['K']}*{before(case)}" if before(case) else ""
            text = s.text.replace("@out", s.out.name).replace("@from", origin)
            for i, a in enumerate(s.args):
                text = text.replace(f"@{i}", a.name)
            lines += [indent + part for part in text.split("\n")]
            continue
        first = f" from {s.out.name}s" if s.first else ""
        if s.first:
            lines.append(f"{indent}{s.out.name}s = scalar {s.first} : i32")
        if s.ends:
            first += f" with {{until = {{M: {position(s.ends, '$index0')}}}}}"
        lines.append(f"{indent}{s.out.name} = for K{first} carry {s.carried.name} = {s.args[0].name} {{")
        write(case, s.body, lines, indent + "  ")
        lines.append(f"{indent}  yield {s.yielded.name}")
        lines.append(indent + "}")
