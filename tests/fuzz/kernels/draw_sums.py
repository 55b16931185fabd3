"""Reductions and matmuls over ragged edges, and the loops around them.

Elements beyond the edge are spoiled before they are summed: they must not count.
"""

import random

import numpy as np

from .case import EXACT, Statement
from .draw_tables import new_table
from .draw_values import pick, read, spoil

BOTH = {"sum": np.add, "max": np.maximum, "min": np.minimum}
REDUCE = list(BOTH)


def together(op, x, axis):
    """Reduces all elements along an axis; if there are none, the neutral element."""
    if x.dtype.kind == "f":
        lowest, highest = -np.inf, np.inf
    else:
        lowest, highest = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    first = {"sum": 0, "max": lowest, "min": highest}[op]
    return BOTH[op].reduce(x, axis=axis, initial=first, dtype=x.dtype)


def rows_first(value, x, row):
    return (x if value.dims[0] == row else x.T).astype(np.float64)


def reduce(case, into):
    if case.cut_n and case.size["N"] > case.tile["N"]:
        return
    a = spoil(case, into, pick(case, into, case.r.choice((("M", "N"), ("N", "M")))))
    op = case.r.choice(REDUCE)
    most = a.most * (case.tile["N"] if op == "sum" else 1)
    if most > EXACT[a.dtype]:
        return
    args, init = [a], case.r.random() < 0.3
    if init:
        args.append(pick(case, into, ("M",), a.dtype, EXACT[a.dtype] // 4))
        most += args[1].most
    if case.size["N"] == 0 and op != "sum":
        most = 2**62  # the lowest or highest number, which is infinite
    out = case.fresh(("M",), a.dtype, most)
    axis, both = a.dims.index("N"), BOTH[op]

    def compute(env, at, x, y=None):
        total = together(op, env.existing(x, axis, "N"), axis)
        return total if y is None else both(total, y)

    block = ", block" if case.waves_n > 1 else ""
    text = f"@out = {op} {', '.join('@%d' % i for i in range(len(args)))} {{dim = N{block}}}"
    case.add(into, Statement(out, args, text, compute))


def multiply(case, into):
    """The product of elements along N: of integers, which wrap in the same way everywhere."""
    if case.cut_n and case.size["N"] > case.tile["N"]:
        return
    a = spoil(case, into, pick(case, into, case.r.choice((("M", "N"), ("N", "M"))), "i32"))
    out, axis = case.fresh(("M",), "i32", 2**62), a.dims.index("N")
    block = ", block" if case.waves_n > 1 else ""

    def compute(env, at, x):
        return np.multiply.reduce(env.existing(x, axis, "N"), axis=axis, dtype=np.int32)

    case.add(into, Statement(out, [a], f"@out = prod @0 {{dim = N{block}}}", compute))


def place_of_best(case, into):
    """argmax and argmin, as the front ends write them; -1 if no element exists."""
    if case.cut_n and case.size["N"] > case.tile["N"]:
        return
    a = spoil(case, into, pick(case, into, case.r.choice((("M", "N"), ("N", "M")))))
    op, dims = case.r.choice(("max", "min")), ", ".join(a.dims)
    out, axis = case.fresh(("M",), "i32", 2**31), a.dims.index("N")
    block = ", block" if case.waves_n > 1 else ""
    text = f"""@outm = {op} @0 {{dim = N{block}}}
@outb = broadcast @outm : tile<{dims}, {a.dtype}>
@oute = eq @0, @outb
@outi = self_index N : tile<N, i32>
@outj = broadcast @outi : tile<{dims}, i32>
@outn = fill 2147483647 : tile<{dims}, i32>
@outs = select @oute, @outj, @outn
@outf = min @outs {{dim = N{block}}}
@outq = fill 2147483647 : tile<M, i32>
@outx = eq @outf, @outq
@outz = fill -1 : tile<M, i32>
@out = select @outx, @outz, @outf"""

    def compute(env, at, x):
        x = env.existing(x, axis, "N")
        if x.shape[axis] == 0:
            return np.full(x.shape[1 - axis], -1, np.int32)
        return (x.argmax(axis) if op == "max" else x.argmin(axis)).astype(np.int32)

    case.add(into, Statement(out, [a], text, compute))


def some_sums(case, into):
    """A reduction in only some workgroups, of a value that others may need later."""
    r = case.r
    if case.cut_n and case.size["N"] > case.tile["N"]:
        return
    a = pick(case, into, r.choice((("M", "N"), ("N", "M"))), r.choice(("i32", "f32")), 2**12)
    start = pick(case, into, ("M",), a.dtype, 2**12)
    limit, axis, tile = r.randint(0, 2), a.dims.index("N"), case.tile["M"]
    out = case.fresh(("M",), a.dtype, start.most + a.most * case.tile["N"])
    block = ", block" if case.waves_n > 1 else ""
    text = (
        f"@out = if ($WG0 < {limit}) carry @oute = @1 {{\n"
        f"@outs = sum @0, @oute {{dim = N{block}}}\nyield @outs\n}}"
    )

    def compute(env, at, x, y):
        rows = np.arange(len(y)) // tile < limit
        return np.where(rows, y + together("sum", env.existing(x, axis, "N"), axis), y)

    case.add(into, Statement(out, [a, start], text, compute))


def scan(case, into):
    """Prefix sums along N."""
    if case.cut_n and case.size["N"] > case.tile["N"]:
        return
    a = spoil(case, into, pick(case, into, case.r.choice((("M", "N"), ("N", "M")))))
    most = a.most * case.tile["N"]
    if most > EXACT[a.dtype]:
        return
    out, axis = case.fresh(a.dims, a.dtype, most), a.dims.index("N")
    block = ", block" if case.waves_n > 1 else ""
    compute = lambda env, at, x: np.cumsum(x, axis=axis, dtype=x.dtype)  # noqa: E731
    case.add(into, Statement(out, [a], f"@out = cumsum @0 {{dim = N{block}}}", compute))


# A function of two elements in steps, and the same in NumPy.
COMBINE = {
    "xor $0 $1 : i32": np.bitwise_xor,
    "mul $0 $1 : i32, add $0 $1 : i32, add $2 $3 : i32": lambda a, b: a * b + a + b,
    "not $0 : i32, not $1 : i32, or $2 $3 : i32, not $4 : i32": np.bitwise_and,
}
KEEP_ORDER = {
    "scalar 0 : i32, ne $1 $2 : i1, select $3 $1 $0 : i32": lambda a, b: np.where(b != 0, b, a),
    "cast $1 : i32": lambda a, b: b,
}


def combine(case, into):
    """A reduction or a scan of i32, which wraps in the same way everywhere, with a combine
    function."""
    if case.cut_n and case.size["N"] > case.tile["N"]:
        return
    a = spoil(case, into, pick(case, into, case.r.choice((("M", "N"), ("N", "M"))), "i32"))
    op, axis = case.r.choice(("reduce", "scan")), a.dims.index("N")
    functions = COMBINE if op == "reduce" else COMBINE | KEEP_ORDER
    steps = case.r.choice(list(functions))
    init = pick(case, into, ("M",), "i32", 2**62)
    out = case.fresh(("M",) if op == "reduce" else a.dims, "i32", 2**62)
    block = ", block" if case.waves_n > 1 else ""
    text = f"@out = {op} @0, @1 {{combine = [{steps}], dim = N{block}}}"

    def compute(env, at, x, y):
        taken = env.existing(x, axis, "N") if op == "reduce" else x
        seen, y = [], y.astype(np.int32)
        with np.errstate(over="ignore"):
            for i in range(taken.shape[axis]):
                y = functions[steps](y, np.take(taken, i, axis)).astype(np.int32)
                seen.append(y)
        return y if op == "reduce" else np.stack(seen, axis) if seen else x

    case.add(into, Statement(out, [a, init], text, compute))


def operand(case, before, into, dims, dtype):
    """An operand of a matmul: row-major, transposed by a mapping, or rows gathered through a
    table."""
    r = case.r
    how = r.choice(("read", "read", "turned", "turned", "mapped", "gathered"))
    if how == "read":
        return read(case, into, dims, dtype)
    row, space = dims[0], ", shared" if r.random() < 0.4 else ""
    name = f"%a{len(case.params)}"
    order = dims if r.random() < 0.5 else dims[::-1]
    if how == "turned":
        case.params.append((name, dims[::-1], dtype, space))
        out = case.fresh(dims[::-1], dtype, 3)
        compute = lambda env, at: env.read(name, dims[::-1], {}, at)  # noqa: E731
        return case.add(into, Statement(out, [], "@out = read " + name, compute))
    out = case.fresh(dims, dtype, 3)
    tile = f"{{{row}: $index0, K: $index1}}"
    if how == "mapped":
        case.params.append((name, dims[::-1], dtype, space))
        text = f"@out = read {name} {{mapping = map 2 {{K: $index1, {row}: $index0}} -> {tile}}} : {out.type()}"
        compute = lambda env, at: env.read(name, dims[::-1], {}, at).T  # noqa: E731
        return case.add(into, Statement(out, [], text, compute))
    memory = tuple("T" if d == row else d for d in order)
    case.params.append((name, memory, dtype, space))
    table = new_table(case, row, r.choice(("rows", "wild")))
    rows = case.fresh((row,), next(p[2] for p in case.params if p[0] == table), 2**62)
    where = r.choice((before, into))
    where.append(Statement(rows, [], "@out = read " + table, lambda env, at: env.read(table, (row,), {}, at)))
    of = ", ".join(f"{d}: {'$dynamic_val0' if d == 'T' else '$index1'}" for d in memory)
    text = f"@out = read {name}, @0 {{mapping = map 2 {{{of}}} -> {tile} with {{{row}: $index0}}}} : {out.type()}"
    compute = lambda env, at, found: env.gather(name, memory, row, found, at)  # noqa: E731
    return case.add(into, Statement(out, [rows], text, compute))


# Two integers of 4 bits in a byte, less 8, as the last bits of 16-bit floats.
UNPACK = """@outb = read {name}
@outw = cast @outb : tile<{row}, K/2, i32>
@outf = fill 4097 : tile<{row}, K/2, i32>
@outp = mul @outw, @outf
@outm = fill 983055 : tile<{row}, K/2, i32>
@outl = and @outp, @outm
@outh = fill 1677747200 : tile<{row}, K/2, i32>
@outo = or @outl, @outh
@outv = bitcast @outo : tile<{row}, K, f16>
@oute = fill 1032.0 : tile<{row}, K, f16>
@out = sub @outv, @oute"""


def packed_operand(case, into, dims):
    """An operand of a matmul with two elements in a byte."""
    row, name = dims[0], f"%a{len(case.params)}"
    case.params.append((name, (row, "K/2"), "u8", ", shared" if case.r.random() < 0.5 else ""))
    case.packed.add(name)

    def compute(env, at):
        x, tile = env.data[name], case.tile["K"]
        both = np.stack([x & 15, x >> 4], -1).reshape(len(x), 2 * x.shape[1]).astype(np.float16) - 8
        out = np.full((env.extent[row], tile), -8, np.float16)  # bytes that do not exist are 0
        part = both[: case.size[row], at : at + tile]
        out[: part.shape[0], : part.shape[1]] = part
        return out

    text = UNPACK.format(name=name, row=row)
    return case.add(into, Statement(case.fresh(dims, "f16", 8), [], text, compute))


def scale_of(value, arg, name, row, block):
    """Text that converts an operand to small floats, `x`, and makes scales, `s`: 2 and 1 in turn
    along K, one for `block` elements."""
    k, e8 = f"K/{block}", "f8e8m0fnu"
    return f"""@out{name}x = cast {arg} : tile<{", ".join(value.dims)}, f8e4m3fn>
@out{name}i = self_index {k} : tile<{k}, i32>
@out{name}b = fill 2 : tile<{k}, i32>
@out{name}m = mod @out{name}i, @out{name}b
@out{name}z = fill 0 : tile<{k}, i32>
@out{name}e = eq @out{name}m, @out{name}z
@out{name}t = fill 2.0 : tile<{k}, {e8}>
@out{name}o = fill 1.0 : tile<{k}, {e8}>
@out{name}r = select @out{name}e, @out{name}t, @out{name}o
@out{name}s = broadcast @out{name}r : tile<{row}, {k}, {e8}>
"""


def scaled_product(case, x, y, acc, new):
    """The same with scales, if the tiles and sizes are whole blocks; None: they are not."""
    whole = np.gcd(case.size["K"], case.tile["K"])
    blocks = [b for b in (2, 3, 4, 8, 12, 16, 32) if whole and whole % b == 0]
    if not blocks:
        return None
    p, q = case.r.choice(blocks), case.r.choice(blocks)
    text = scale_of(x, "@0", "p", "M", p) + scale_of(y, "@1", "q", "N", q)
    text += "@out = scaled_mma @outpx, @outps, @outqx, @outqs, @2"

    def compute(env, at, left, right, c):
        k = env.place("K", at)
        left = rows_first(x, left, "M") * (2 - k // p % 2)
        right = rows_first(y, right, "N") * (2 - k // q % 2)
        return c + env.multiply(left, right, at).astype(c.dtype)

    return Statement(new, [x, y, acc], text, compute)


def product(case, into):
    """acc[M, N] += over K of x[M, K] * y[N, K], as a loop with one matmul."""
    kinds = [("f16", "f32")] + ([("i8", "i32")] if case.r.random() < 0.3 else [])
    small, large = case.r.choice(kinds)
    start = pick(case, into, ("M", "N"), large, EXACT[large] // 4)
    most = start.most + 4 * 81 * case.size["K"]
    outer, body = case.values, []
    case.values = []
    acc = case.fresh(("M", "N"), large, most)
    x = operand(case, into, body, ("M", "K"), small)
    even = small == "f16" and case.size["K"] % 2 == 0 and case.tile["K"] % 2 == 0
    packed = even and case.r.random() < 0.2
    y = packed_operand(case, body, ("N", "K")) if packed else operand(case, into, body, ("N", "K"), small)
    if case.r.random() < 0.4:
        x = spoil(case, body, x)
    if case.r.random() < 0.3:
        y = spoil(case, body, y)
    new = case.fresh(("M", "N"), large, most)
    scaled = small == "f16" and not packed and case.r.random() < 0.5
    body.append((scaled and scaled_product(case, x, y, acc, new)) or matmul(x, y, acc, new))
    case.values = outer
    loop(case, into, start, acc, new, body, most)


def matmul(x, y, acc, new):
    compute = lambda env, at, p, q, c: (  # noqa: E731
        c + env.multiply(rows_first(x, p, "M"), rows_first(y, q, "N"), at).astype(c.dtype)
    )
    return Statement(new, [x, y, acc], "@out = mma @0, @1, @2", compute)


def boxed_product(case, into):
    """A product of tiles that the copy engine can bring: whole rows, in one order or the other."""
    start = pick(case, into, ("M", "N"), "f32", EXACT["f32"] // 4)
    most = start.most + 4 * 81 * case.size["K"]
    outer, body = case.values, []
    case.values = []
    acc, new = (case.fresh(("M", "N"), "f32", most) for _ in range(2))
    x, y = (boxed(case, body, (d, "K")) for d in "MN")
    body.append(matmul(x, y, acc, new))
    case.values = outer
    loop(case, into, start, acc, new, body, most)


def boxed(case, into, dims):
    name, stored = f"%a{len(case.params)}", case.r.choice((dims, dims, dims[::-1]))
    case.params.append((name, stored, "f16", ", shared"))
    out, text, row = case.fresh(dims, "f16", 3), "@out = read " + name, dims[0]
    if stored == dims:
        return case.add(into, Statement(out, [], text, lambda env, at: env.read(name, dims, {}, at)))
    text += f" {{mapping = map 2 {{K: $index1, {row}: $index0}} -> {{{row}: $index0, K: $index1}}}} : {out.type()}"
    return case.add(into, Statement(out, [], text, lambda env, at: env.read(name, stored, {}, at).T))


def accumulate(case, into):
    """A reduction over K of computed values, carried by the loop."""
    dtype = case.r.choice(("i32", "f32"))
    start = pick(case, into, ("M",), dtype, EXACT[dtype] // 4)
    op = case.r.choice(REDUCE)
    flips = op == "sum" and random.Random(f"flips {case.seed} {len(into)}").random() < 0.4
    if flips:
        zero = lambda env, at: np.zeros(env.extent["M"], {"i32": np.int32, "f32": np.float32}[dtype])  # noqa: E731
        text = f"@out = fill 0 : tile<M, {dtype}>"
        start = case.add(into, Statement(case.fresh(("M",), dtype, 0), [], text, zero))
    most = start.most + 64 * (case.size["K"] + case.tile["K"]) ** 2
    outer, body = case.values, []
    case.values = []
    acc = case.fresh(("M",), dtype, most)
    x = spoil(case, body, read(case, body, ("M", "K"), dtype))
    new = case.fresh(("M",), dtype, most)
    both, text = BOTH[op], f"@out = {op} @0, @1 {{dim = K}}"
    compute = lambda env, at, p, q: both(together(op, env.existing(p, 1, "K", at), 1), q)  # noqa: E731
    if case.r.random() < 0.3:  # the same in two steps
        text = f"@outp = {op} @0 {{dim = K}}\n@out = {both.__name__} @outp, @1"
    if flips:  # what the loop carries changes its sign
        text = f"@outf = fill -1 : tile<M, {dtype}>\n@outm = mul @1, @outf\n@out = sum @0, @outm {{dim = K}}"
        compute = lambda env, at, p, q: together(op, env.existing(p, 1, "K", at), 1) - q  # noqa: E731
    body.append(Statement(new, [x, acc], text, compute))
    case.values = outer
    loop(case, into, start, acc, new, body, most)


def loop(case, into, start, acc, new, body, most):
    """Some loops have a start, some yield what a conditional gives, and some begin or are over for rows at
    different positions. Drawn apart, so that other seeds give the same cases with and without this."""
    r = random.Random(f"loop {case.seed} {len(into)}")
    if r.random() < 0.2:
        new = keep_some(case, r, acc, new, body)
    late = random.Random(f"until {case.seed} {len(into)}")
    early = random.Random(f"begin {case.seed} {len(into)}")
    begins = ends = None
    if late.random() < 0.25:
        new, ends = keep_rows(case, late, acc, new, body, "lt")
    elif early.random() < 0.2:
        new, begins = keep_rows(case, early, acc, new, body, "ge")
    out = case.fresh(start.dims, start.dtype, most)
    statement = Statement(out, [start], "", None, body, acc, new)
    statement.first = 0 if begins else r.choice((0, 0, 0, 0, 0, 0, 1, 2))
    statement.begins, statement.ends = begins, ends
    statement.even = early.random() < 0.5
    statement.short = late.random() < 0.5
    case.add(into, statement)


def keep_rows(case, r, acc, new, body, op):
    """Rows keep what they carry from a position of K on, which `until` tells (lt), or up to it, before which the
    loop need not begin (ge): so much for each row, and so much for the first."""
    slope, first, dims = r.randint(0, 3), r.randint(-8, case.size["K"] + 8), ", ".join(acc.dims)
    out = case.fresh(acc.dims, acc.dtype, new.most)
    text = f"""@outi = self_index M : tile<M, i32>
@outs = fill {slope} : tile<M, i32>
@outm = mul @outi, @outs
@outf = fill {first} : tile<M, i32>
@oute = add @outm, @outf
@outk = scalar {case.tile["K"]}*$ARGK@from : i32
@outb = broadcast @outk : tile<M, i32>
@outc = {op} @outb, @oute
@outd = broadcast @outc : tile<{dims}, i1>
@out = select @outd, @1, @0"""
    axis = acc.dims.index("M")

    def compute(env, at, x, y):
        here = (at < slope * env.index("M") + first) == (op == "lt")
        return np.where(here.reshape([-1 if i == axis else 1 for i in range(x.ndim)]), y, x)

    body.append(Statement(out, [acc, new], text, compute))
    return out, (slope, first)


def keep_some(case, r, acc, new, body):
    """Workgroups for which a condition does not hold keep what they carry."""
    limit, tile, axis = r.randint(0, 2), case.tile["M"], acc.dims.index("M")
    out = case.fresh(acc.dims, acc.dtype, new.most)
    text = f"@out = if ($WG0 < {limit}) carry @oute = @0 {{\n  yield @1\n}}"

    def compute(env, at, x, y):
        here = np.arange(x.shape[axis]) // tile < limit
        return np.where(here.reshape([-1 if i == axis else 1 for i in range(x.ndim)]), y, x)

    body.append(Statement(out, [acc, new], text, compute))
    return out
