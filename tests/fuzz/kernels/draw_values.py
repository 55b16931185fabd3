"""Reads and elementwise ops. Each function draws a statement and appends it to the list it is given."""

import numpy as np

from .case import EXACT, NUMPY, SMALL, Statement

DTYPES = ("i32", "f32") * 4 + ("u32", "u32", "i64", "i16", "u8")
BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
# These do not change integers; halves are split off before.
ROUND = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "roundeven": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}


def pick(case, into, dims=None, dtype=None, most=None):
    fits = [
        v
        for v in case.values
        if (dims is None or v.dims == dims)
        and (dtype is None or v.dtype == dtype)
        and (most is None or v.most <= most)
    ]
    if fits and case.r.random() < 0.9:
        return case.r.choice(fits)
    dims = dims or case.r.choice((("M",), ("M", "N"), ("N",)))
    return read(case, into, dims, dtype or case.r.choice(DTYPES))


def read(case, into, dims, dtype):
    r = case.r
    order = dims if r.random() < 0.8 else tuple(reversed(dims))
    space = ", shared" if r.random() < 0.4 and not case.stays else ""
    name = f"%a{len(case.params)}"
    most = SMALL.get(dtype, 7)
    case.params.append((name, order, dtype, space))
    out = case.fresh(order, dtype, most)
    shift, text, attrs = {}, "@out = read " + name, []
    bounds, other = [], 0
    if r.random() < 0.1:
        d = r.choice(order)
        bounds, other = [(d, max(0, case.size[d] + r.choice((-2, -1, 0, 3))))], r.choice((0, 0, 2))
        attrs += [f"bounds = {{{d}: {bounds[0][1]}}}"] + ([f"other = {other}"] if other else [])
    if r.random() < 0.25:
        shift = {r.choice(order): r.choice((1, 2, -1))}
        memory = ", ".join(
            f"{d}: $index{i}" + (f" + {shift[d]}" if d in shift else "").replace("+ -", "- ")
            for i, d in enumerate(order)
        )
        tile = ", ".join(f"{d}: $index{i}" for i, d in enumerate(order))
        attrs += [f"mapping = map {len(order)} {{{memory}}} -> {{{tile}}}"]
    text += f" {{{', '.join(attrs)}}}" if attrs else ""
    compute = lambda env, at: env.read(name, order, shift, at, bounds, other)  # noqa: E731
    value = case.add(into, Statement(out, [], text, compute))
    return value if order == dims else permute(case, into, value, dims)


def permute(case, into, v, dims):
    out = case.fresh(dims, v.dtype, v.most)
    axes = [v.dims.index(d) for d in dims]
    return case.add(
        into,
        Statement(
            out,
            [v],
            f"@out = permute @0 : {out.type()}",
            lambda env, at, x: x.transpose(axes),
        ),
    )


def binary(case, into):
    a = pick(case, into)
    b = pick(case, into, a.dims, a.dtype)
    op = case.r.choice([op for op in BINARY if op != "sub" or a.dtype[0] != "u"])
    most = a.most * b.most if op == "mul" else a.most + b.most
    if most > EXACT[a.dtype]:
        op, most = "minimum", max(a.most, b.most)
    out = case.fresh(a.dims, a.dtype, most)
    fn = BINARY[op]
    case.add(into, Statement(out, [a, b], f"@out = {op} @0, @1", lambda env, at, x, y: fn(x, y)))


def narrow(case, into):
    """Arithmetic on elements of two bytes, of which GPUs compute two at a time. NumPy has no bf16: nothing of
    that type is read or written."""
    r = case.r
    a = pick(case, into, dtype=r.choice(("i32", "f32")), most=7)
    b, c = (pick(case, into, a.dims, a.dtype, 7) for _ in range(2))
    first, second = r.choice(list(BINARY)), r.choice([op for op in BINARY if op != "mul"])
    out = case.fresh(a.dims, a.dtype, 7 * 7 + 7)
    kind = f"tile<{', '.join(a.dims)}, {r.choice(('bf16', 'bf16', 'f16', 'i16'))}>"
    text = f"""@outx = cast @0 : {kind}
@outy = cast @1 : {kind}
@outz = cast @2 : {kind}
@outf = {first} @outx, @outy
@outs = {second} @outf, @outz
@out = cast @outs : {out.type()}"""
    compute = lambda env, at, x, y, z: BINARY[second](BINARY[first](x, y), z)  # noqa: E731
    case.add(into, Statement(out, [a, b, c], text, compute))


def difference(case, into):
    """How much a number is above another one, or 0: LLVM subtracts with saturation."""
    a = pick(case, into, dtype=case.r.choice(("u32", "u8", "i16", "i32")))
    b = pick(case, into, a.dims, a.dtype)
    if a.most + b.most > EXACT[a.dtype]:
        return
    out = case.fresh(a.dims, a.dtype, a.most + b.most)
    text = "@outm = maximum @0, @1\n@out = sub @outm, @1"
    case.add(into, Statement(out, [a, b], text, lambda env, at, x, y: np.maximum(x, y) - y))


def saturated(case, into):
    """A sum of i32 that is limited to what a smaller type holds; the upper bits of it."""
    dtype, factor, by = case.r.choice((("i16", 6000, 8), ("u8", 80, 4)))
    a = pick(case, into, dtype=dtype, most=SMALL[dtype])
    b = pick(case, into, a.dims, dtype, SMALL[dtype])
    least, most = np.iinfo(NUMPY[dtype]).min, np.iinfo(NUMPY[dtype]).max
    out = case.fresh(a.dims, dtype, (int(most) + 1) >> by)
    wide = f"tile<{', '.join(a.dims)}, i32>"
    text = f"""@outf = scalar {factor} : {dtype}
@outx = mul @0, @outf
@outy = mul @1, @outf
@outw = cast @outx : {wide}
@outv = cast @outy : {wide}
@outs = add @outw, @outv
@outl = scalar {least} : i32
@outm = scalar {most} : i32
@outg = maximum @outs, @outl
@outn = minimum @outg, @outm
@outc = cast @outn : {out.type()}
@outb = scalar {by} : {dtype}
@out = shr @outc, @outb"""

    def compute(env, at, x, y):
        x, y = x.astype(np.int32) * factor, y.astype(np.int32) * factor
        return np.clip(x + y, least, most).astype(NUMPY[dtype]) >> NUMPY[dtype](by)

    case.add(into, Statement(out, [a, b], text, compute))


def mixed(case, into):
    """Half a round of Philox: the upper half of a product of words, xored with another word."""
    a = pick(case, into, None, "u32")
    b = pick(case, into, a.dims, "u32")
    out = case.fresh(a.dims, "u32", 2**62)
    dims = ", ".join(a.dims)
    text = f"""@outw = cast @0 : tile<{dims}, u64>
@outf = fill 3528531795 : tile<{dims}, u64>
@outp = mul @outw, @outf
@outs = fill 32 : tile<{dims}, u64>
@outh = shr @outp, @outs
@outc = cast @outh : tile<{dims}, u32>
@out = xor @outc, @1"""

    def compute(env, at, x, y):
        y = y if a.dims == b.dims else y.T
        return (x.astype(np.uint64) * np.uint64(3528531795) >> np.uint64(32)).astype(np.uint32) ^ y

    case.add(into, Statement(out, [a, b], text, compute))


def limits(case, into):
    """Constants at the ends of their type, combined by ops that wrap; the top byte of the result,
    with a value's."""
    r, a = case.r, pick(case, into, dtype=case.r.choice(("i32", "u32", "i64", "i16", "u8")))
    width, signed = int(a.dtype[1:]), a.dtype[0] == "i"
    least = -(2 ** (width - 1)) if signed else 0
    least += width == 64  # what an expression can hold
    most = 2 ** (width - signed) - 1
    ends = (least, most, least // 2, max(least, least // 2 - 1), most // 2, most // 2 + 1, 1, 0, 2)
    x, y = r.choice(ends), r.choice(ends)
    op, combine = r.choice((("add", int.__add__), ("sub", int.__sub__), ("mul", int.__mul__), ("or", int.__or__)))
    number = combine(x, y) % 2**width
    text = f"""@outx = scalar {x} : {a.dtype}
@outy = scalar {y} : {a.dtype}
@outc = {op} @outx, @outy
@outm = xor @0, @outc
@outs = scalar {width - 8} : {a.dtype}
@out = shr @outm, @outs"""
    constant = np.array([number], f"u{width // 8}").astype(NUMPY[a.dtype])[0]
    fn = lambda env, at, v: (v ^ constant) >> NUMPY[a.dtype](width - 8)  # noqa: E731
    case.add(into, Statement(case.fresh(a.dims, a.dtype, 255), [a], text, fn))


def bits(case, into):
    """Bitwise ops on two integers, or a shift of one by an amount that fits."""
    a = pick(case, into, dtype=case.r.choice(("i32", "u32", "i32", "u32", "i64", "i16", "u8")))
    if case.r.random() < 0.5:
        by, left = case.r.randint(0, 3), case.r.random() < 0.5
        if a.most << by > EXACT[a.dtype]:
            left = False
        out = case.fresh(a.dims, a.dtype, a.most << by if left else a.most)
        text = f"@outb = scalar {by} : {a.dtype}\n@out = {'shl' if left else 'shr'} @0, @outb"
        shift = np.left_shift if left else np.right_shift
        case.add(into, Statement(out, [a], text, lambda env, at, x: shift(x, NUMPY[a.dtype](by))))
        return
    b = pick(case, into, a.dims, a.dtype)
    op = case.r.choice(list(BITS))
    most = 2 * max(a.most, b.most, 1)
    out = case.fresh(a.dims, a.dtype, min(most, 2**31))
    fn = BITS[op]
    case.add(into, Statement(out, [a, b], f"@out = {op} @0, @1", lambda env, at, x, y: fn(x, y)))


def rounded(case, into):
    """Half of a float, rounded to an integer."""
    a = pick(case, into, dtype="f32", most=2**20)
    op = case.r.choice(list(ROUND))
    out, fn = case.fresh(a.dims, a.dtype, a.most), ROUND[op]
    text = f"@outh = scalar 0.5 : f32\n@outs = mul @0, @outh\n@out = {op} @outs"
    half = np.float32(0.5)
    case.add(into, Statement(out, [a], text, lambda env, at, x: fn(x * half).astype(x.dtype)))


def inline(case, into):
    """Inline PTX; all machines here run its meaning, which is another operand."""
    a = pick(case, into, dtype=case.r.choice(("i32", "f32")))
    b = pick(case, into, a.dims, a.dtype)
    out = case.fresh(a.dims, a.dtype, max(a.most, b.most))
    kind = "s32" if a.dtype == "i32" else "f32"
    flags = "meaning, volatile" if case.r.random() < 0.3 else "meaning"
    code = f"max.{kind} $0, $1, $2;"
    if case.r.random() < 0.4:  # one of two results
        which = case.r.randrange(2)
        flags += f', types = "{a.dtype} {a.dtype}", which = {which}'
        code = f"max.{kind} ${which}, $2, $3; min.{kind} ${1 - which}, $2, $3;"
    text = (
        f"@outm = maximum @0, @1\n"
        f'@out = inline_ptx "{code}" @0, @1, @outm {{{flags}}} : {out.type()}'
    )
    case.add(into, Statement(out, [a, b], text, lambda env, at, x, y: np.maximum(x, y)))


def select(case, into):
    a = pick(case, into)
    b = pick(case, into, a.dims, a.dtype)
    out = case.fresh(a.dims, a.dtype, max(a.most, b.most))
    text = "@outc = lt @0, @1\n@out = select @outc, @1, @0"
    case.add(into, Statement(out, [a, b], text, lambda env, at, x, y: np.where(x < y, y, x)))


def cast(case, into):
    a = pick(case, into)
    signed = a.dtype[0] != "u"
    kinds = [t for t in EXACT if t not in (a.dtype, "i8") and a.most <= EXACT[t] and not (signed and t[0] == "u")]
    if not kinds:
        return
    out = case.fresh(a.dims, case.r.choice(kinds), a.most)
    to = NUMPY[out.dtype]
    case.add(into, Statement(out, [a], f"@out = cast @0 : {out.type()}", lambda env, at, x: x.astype(to)))


def index(case, into):
    dim = case.r.choice("MN")
    out = case.fresh((dim,), "i32", case.size[dim] + 64)
    case.add(
        into,
        Statement(out, [], f"@out = self_index {dim} : {out.type()}", lambda env, at: env.index(dim)),
    )


def broadcast(case, into):
    a = pick(case, into, case.r.choice((("M",), ("N",))))
    dims = case.r.choice((("M", "N"), ("N", "M")))
    out = case.fresh(dims, a.dtype, a.most)
    axis = 1 - dims.index(a.dims[0])
    shape = lambda env: tuple(env.extent[d] for d in dims)  # noqa: E731
    case.add(
        into,
        Statement(
            out,
            [a],
            f"@out = broadcast @0 : {out.type()}",
            lambda env, at, x: np.broadcast_to(np.expand_dims(x, axis), shape(env)),
        ),
    )


def spoil(case, into, v):
    """Elementwise ops after which padding is not 0."""
    r = case.r
    for _ in range(r.choice((0, 1, 1, 2))):
        by, along = r.randint(1, 3), v.dims[-1]
        how = r.choice(("add", "sub", "neg", "index" if v.dtype in ("i32", "f32") else "add"))
        how = "add" if v.dtype[0] == "u" else how  # below 0 it wraps
        if how == "neg":
            most, text, fn = v.most, "@out = neg @0", lambda env, at, x: -x
        elif how == "index":
            most = v.most + case.size[along] + case.tile[along]
            text = f"@outi = self_index {along} : tile<{along}, {v.dtype}>\n@out = add @0, @outi"
            fn = lambda env, at, x, d=along: x + env.place(d, at).astype(x.dtype)  # noqa: E731
        else:
            most, sign = v.most + by, by if how == "add" else -by
            text = f"@outf = fill {by} : {v.type()}\n@out = {how} @0, @outf"
            fn = lambda env, at, x, c=sign: x + x.dtype.type(c)  # noqa: E731
        if most > EXACT[v.dtype]:
            break
        v = case.add(into, Statement(case.fresh(v.dims, v.dtype, most), [v], text, fn))
    return v
