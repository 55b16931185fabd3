#!/usr/bin/env python3
"""Random kernels on random machines: lanes, tiles and NumPy must agree.

    tests/fuzz/fuzz_kernels.py [--seed N] [--count N] [--seconds N] [--shard I/N] [--keep DIR]
                               [--ways eval,sim,cpu,lanes]

A case is a list of statements over tiles of M, N and K, with random sizes, tiles, waves, dtypes and
a machine. It is computed in NumPy on whole padded tensors, and then in up to four ways:

    eval    by the reference evaluator, if its result does not depend on threads
    sim     by the simulator lane by lane with all its checks
    cpu     by machine code for this processor, if there is a libLLVM
    lanes   by machine code of the program that lanes of the machine would run, likewise

Reductions and products run over ragged edges, of operands whose padding is anything: NumPy takes only
what exists, whatever the tiles are.

Some tensors have a free layout: they are larger or smaller than their symbols say, and only what
both have is read and written. In some kernels all tensors may disagree, and the smallest counts.

Some kernels make assumptions, true and false of the sizes they are run with: what is false must not
change the result.

Results are written, also to tensors with dimensions that they lack, or combined with memory atomically,
by name or where a table says; often all lanes hold what is added.

Numbers are small integers, so that every way of adding them up is exact and results must be equal.
Some kernels add the number of a thread and take it away again: that makes threads observable, and
the declared waves are run as they stand. Some have tiles for instructions of several waves, of all
widths and divided in all ways; operands of products lie in any order, or rows of them are picked by
a table. Cases run in a child process: one that crashes or hangs is
a finding like any other. A failing case is shrunk, statement by statement and size by size, and
printed as text that wavec runs. The last line is `N passed, M failed`.

This file is long because each kind of statement stands with its text and its meaning in NumPy.
"""

import argparse
import os
import random
import re
import select
import signal
import sys
import time

import numpy as np

sys.path.append(os.path.join(os.path.dirname(__file__), "../../python"))

from wave_lang import _wave  # noqa: E402
from wave_lang.testing import simulate  # noqa: E402

TARGETS = ("gfx942", "sm_80", "sm_90a", "toy8", "gfx1100", "gfx90a", "cpu", "cpu_neon")
SCHEDULES = ("round", "reverse", "random:3")
NUMPY = {"i32": np.int32, "f32": np.float32, "f16": np.float16, "i8": np.int8, "u32": np.uint32}
EXACT = {"i32": 2**30, "u32": 2**30, "f32": 2**22, "f16": 2**10, "i8": 2**6}  # larger integers are not made
REDUCE = {"sum": np.sum, "max": np.max, "min": np.min}
BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
ATOMIC = {"atomic_add": np.add, "atomic_min": np.minimum, "atomic_max": np.maximum}
BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
# Of whole numbers these are what they were; halves are taken apart in front.
ROUND = {
    "floor": np.floor,
    "ceil": np.ceil,
    "roundeven": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}
WIDTHS = (8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 120, 128, 144, 160, 192, 224)
NO_ASYNC = ("toy8", "gfx1100", "gfx1201")  # what their lanes do a processor can do, too
WAYS = ("eval", "sim", "cpu", "lanes")
HAS_CPU = any(device.kind == "cpu" for device in _wave.devices())
NOT_LOWERED = ("E0601", "E0608", "E0610", "E0611", "E0612", "E0613", "E0616")  # refused, and said so


def rows_first(value, x, row):
    return (x if value.dims[0] == row else x.T).astype(np.float64)


class Value:
    def __init__(self, name, dims, dtype, most):
        self.name, self.dims, self.dtype, self.most = name, dims, dtype, most

    def type(self):
        return f"tile<{', '.join(self.dims)}, {self.dtype}>"


class Statement:
    """`text` as IR with @0, @1 for operands and @out; `compute` the same in NumPy."""

    def __init__(self, out, args, text, compute, body=None, carried=None, yielded=None):
        self.out, self.args, self.text, self.compute = out, args, text, compute
        self.body, self.carried, self.yielded = body, carried, yielded  # of a loop
        self.observes = False


class Case:
    def __init__(self, seed):
        self.seed = seed
        self.r = random.Random(seed)
        r = self.r
        self.tile = {d: r.choice((1, 2, 3, 4, 5, 8, 12, 16, 16, 24, 32)) for d in "MN"}
        self.tile["K"] = r.choice((1, 3, 4, 8, 16, 16))
        self.size = {d: self._size(self.tile[d]) for d in "MNK"}
        self.cut_n = r.random() < 0.4  # by workgroups; else a workgroup holds all of N
        if not self.cut_n:
            self.tile["N"] = self.size["N"]
        self.waves_m = r.choice([w for w in (1, 1, 2, 4) if self.tile["M"] % w == 0])
        self.waves_n, self.threads, self.mma = 1, 64, "F32_16x16x16_F16"
        self.dynamic = r.random() < 0.5
        self.target = r.choice(TARGETS)
        self.wide = r.random() < 0.2
        if self.wide:
            self._widen()
        self.size["T"] = r.choice((1, 7, 40))
        self.schedule = r.choice(SCHEDULES)
        self.observable, self.ways = False, WAYS
        self.params, self.outputs, self.statements = [], [], []
        self.tables = []  # parameters whose elements number rows
        self.how = {}  # outputs that are not just written: an atomic, and a table or None
        self.values, self.names = [], 0
        self._generate()
        self.assumed = []
        if r.random() < 0.3:
            self.assumed = [self._claim() for _ in range(r.randint(1, 3))]
        self.spare = {}  # tensors with a free layout: by how much each dim is larger
        self.disagree = r.random() < 0.1  # without a free layout
        if self.disagree or r.random() < 0.3:
            for name, order, *_ in (*self.params, *self.outputs):
                if r.random() < 0.4:
                    self.spare[name] = {d: r.choice((-1, 0, 0, 1, 6)) for d in order}
        wishes = (f"stages {r.randrange(5)}", "boxes 0", "swizzle 0", "overlap 0")
        self.wishes = [row for row in wishes if r.random() < 0.2]  # as compile options ask

    def _size(self, tile):
        return self.r.choice((1, max(1, tile - 1), tile, tile + 1, 2 * tile + 3))

    def _widen(self):
        """Tiles that wgmma takes: 64 rows or more, any number of columns; one to four groups of waves."""
        r = self.r
        self.tile = {"M": r.choice((64, 64, 128)), "N": r.choice(WIDTHS), "K": r.choice((16, 32, 48, 64))}
        self.size = {d: self._size(self.tile[d]) for d in "MNK"}
        self.size["K"] = r.choice((self.size["K"], 3 * self.tile["K"]))
        self.cut_n = True
        self.threads = r.choice((32, 64, 128))
        waves = r.choice((1, 2, 2, 4)) * 128 // self.threads
        splits = [w for w in (1, 2, 4, 8, 16) if waves % w == 0 and self.tile["M"] % w == 0]
        self.waves_m = r.choice([w for w in splits if self.tile["N"] % (waves // w) == 0] or [1])
        self.waves_n = waves // self.waves_m if self.tile["N"] % (waves // self.waves_m) == 0 else 1
        self.target = r.choice(("sm_90a", "sm_90a", "sm_90a", "sm_80", "gfx942", "cpu"))
        if r.random() < 0.4:  # narrower than a group's part: several instructions, side by side
            self.mma = f"wgmma_m64n{r.choice([n for n in WIDTHS if self.tile['N'] % n == 0])}k16_f32_f16"

    def _claim(self):
        """A condition on sizes, as often true as false."""
        r, d = self.r, self.r.choice("MNK")
        n = self.size[d]
        return r.choice(
            (
                f"Eq(Mod({d}, {self.tile[d]}), 0)",
                f"Eq(Mod({d}, 4), 0)",
                f"{d} < {n + r.choice((0, 1))}",
                f"{d} >= {n + r.choice((0, 1))}",
                f"Eq({d}, {r.choice((n, self.tile[d]))})",
                f"M + {d} > {r.choice((3, 30))}",
                "$WG0 < 1",  # nothing that a launch could check
            )
        )

    # ---- making values

    def fresh(self, dims, dtype, most):
        self.names += 1
        return Value(f"%v{self.names}", dims, dtype, most)

    def add(self, into, statement):
        into.append(statement)
        self.values.append(statement.out)
        return statement.out

    def pick(self, into, dims=None, dtype=None, most=None):
        fits = [
            v
            for v in self.values
            if (dims is None or v.dims == dims)
            and (dtype is None or v.dtype == dtype)
            and (most is None or v.most <= most)
        ]
        if fits and self.r.random() < 0.9:
            return self.r.choice(fits)
        dims = dims or self.r.choice((("M",), ("M", "N"), ("N",)))
        return self.read(into, dims, dtype or self.r.choice(("i32", "f32", "i32", "f32", "u32")))

    # ---- statements

    def read(self, into, dims, dtype):
        r = self.r
        order = dims if r.random() < 0.8 else tuple(reversed(dims))
        space = ", shared" if r.random() < 0.4 else ""
        name = f"%a{len(self.params)}"
        most = {"i8": 3, "f16": 3}.get(dtype, 7)
        self.params.append((name, order, dtype, space))
        out = self.fresh(order, dtype, most)
        shift, text = {}, "@out = read " + name
        if r.random() < 0.25:
            shift = {r.choice(order): r.choice((1, 2, -1))}
            memory = ", ".join(
                f"{d}: $index{i}" + (f" + {shift[d]}" if d in shift else "").replace("+ -", "- ")
                for i, d in enumerate(order)
            )
            tile = ", ".join(f"{d}: $index{i}" for i, d in enumerate(order))
            text += f" {{mapping = map {len(order)} {{{memory}}} -> {{{tile}}}}}"
        compute = lambda env, at: env.read(name, order, shift, at)  # noqa: E731
        value = self.add(into, Statement(out, [], text, compute))
        return value if order == dims else self.permute(into, value, dims)

    def permute(self, into, v, dims):
        out = self.fresh(dims, v.dtype, v.most)
        axes = [v.dims.index(d) for d in dims]
        return self.add(
            into,
            Statement(
                out,
                [v],
                f"@out = permute @0 : {out.type()}",
                lambda env, at, x: x.transpose(axes),
            ),
        )

    def binary(self, into):
        a = self.pick(into)
        b = self.pick(into, a.dims, a.dtype)
        op = self.r.choice([op for op in BINARY if op != "sub" or a.dtype != "u32"])
        most = a.most * b.most if op == "mul" else a.most + b.most
        if most > EXACT[a.dtype]:
            op, most = "minimum", max(a.most, b.most)
        out = self.fresh(a.dims, a.dtype, most)
        fn = BINARY[op]
        self.add(into, Statement(out, [a, b], f"@out = {op} @0, @1", lambda env, at, x, y: fn(x, y)))

    def bits(self, into):
        """Of two integers, or one of them shifted by what fits."""
        a = self.pick(into, dtype=self.r.choice(("i32", "u32")))
        if self.r.random() < 0.5:
            by, left = self.r.randint(0, 3), self.r.random() < 0.5
            if a.most << by > EXACT[a.dtype]:
                left = False
            out = self.fresh(a.dims, a.dtype, a.most << by if left else a.most)
            text = f"@outb = scalar {by} : {a.dtype}\n@out = {'shl' if left else 'shr'} @0, @outb"
            shift = np.left_shift if left else np.right_shift
            self.add(into, Statement(out, [a], text, lambda env, at, x: shift(x, NUMPY[a.dtype](by))))
            return
        b = self.pick(into, a.dims, a.dtype)
        op = self.r.choice(list(BITS))
        most = 2 * max(a.most, b.most, 1)
        out = self.fresh(a.dims, a.dtype, min(most, 2**31))
        fn = BITS[op]
        self.add(into, Statement(out, [a, b], f"@out = {op} @0, @1", lambda env, at, x, y: fn(x, y)))

    def rounded(self, into):
        """Half of a float, to a whole number."""
        a = self.pick(into, dtype="f32", most=2**20)
        op = self.r.choice(list(ROUND))
        out, fn = self.fresh(a.dims, a.dtype, a.most), ROUND[op]
        text = f"@outh = scalar 0.5 : f32\n@outs = mul @0, @outh\n@out = {op} @outs"
        half = np.float32(0.5)
        self.add(into, Statement(out, [a], text, lambda env, at, x: fn(x * half).astype(x.dtype)))

    def select(self, into):
        a = self.pick(into)
        b = self.pick(into, a.dims, a.dtype)
        out = self.fresh(a.dims, a.dtype, max(a.most, b.most))
        text = "@outc = lt @0, @1\n@out = select @outc, @1, @0"
        self.add(into, Statement(out, [a, b], text, lambda env, at, x, y: np.where(x < y, y, x)))

    def branch(self, into):
        """A conditional with an else, as `build_else` writes it: workgroups differ."""
        a = self.pick(into, self.r.choice((("M",), ("M", "N"), ("N", "M"))))
        b = self.pick(into, a.dims, a.dtype)
        out = self.fresh(a.dims, a.dtype, max(a.most, b.most))
        limit, tile, axis = self.r.randint(0, 2), self.tile["M"], a.dims.index("M")
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

        self.add(into, Statement(out, [a, b], text, compute))

    def cast(self, into):
        a = self.pick(into)
        kinds = [t for t in ("i32", "f32", "f16") if t != a.dtype and a.most <= EXACT[t]]
        if not kinds:
            return
        out = self.fresh(a.dims, self.r.choice(kinds), a.most)
        to = NUMPY[out.dtype]
        self.add(into, Statement(out, [a], f"@out = cast @0 : {out.type()}", lambda env, at, x: x.astype(to)))

    def observe(self, into):
        """What is added and taken away again is the number of a thread."""
        a = self.pick(into, dtype=self.r.choice(("i32", "f32")), most=2**20)
        number = self.r.choice(("$T0", "Mod($T0, 8)", "floor($T0/64)"))
        text = f"@outt = scalar {number} : {a.dtype}\n@outs = add @0, @outt\n@out = sub @outs, @outt"
        out = self.fresh(a.dims, a.dtype, a.most)
        self.observable = True
        self.add(into, Statement(out, [a], text, lambda env, at, x: x))
        into[-1].observes = True

    def some_groups(self, into):
        """Workgroups for which a condition on their id holds double the value; the others keep it."""
        a = self.pick(into, self.r.choice((("M",), ("M", "N"))))
        if 2 * a.most > EXACT[a.dtype]:
            return
        which = self.r.choice(("$WG0 < 1", "$WG0 > 0", "Eq($WG0, 1)"))
        holds = {"$WG0 < 1": lambda g: g < 1, "$WG0 > 0": lambda g: g > 0, "Eq($WG0, 1)": lambda g: g == 1}
        out, tile = self.fresh(a.dims, a.dtype, 2 * a.most), self.tile["M"]
        text = f"@out = if ({which}) carry @oute = @0 {{\n  @outy = add @oute, @0\n  yield @outy\n}}"

        def compute(env, at, x):
            rows = holds[which](np.arange(x.shape[0]) // tile)
            return np.where(rows.reshape(-1, *[1] * (x.ndim - 1)), x + x, x)

        self.add(into, Statement(out, [a], text, compute))

    def index(self, into):
        dim = self.r.choice("MN")
        out = self.fresh((dim,), "i32", self.size[dim] + 64)
        self.add(
            into,
            Statement(out, [], f"@out = self_index {dim} : {out.type()}", lambda env, at: env.index(dim)),
        )

    def broadcast(self, into):
        a = self.pick(into, self.r.choice((("M",), ("N",))))
        dims = self.r.choice((("M", "N"), ("N", "M")))
        out = self.fresh(dims, a.dtype, a.most)
        axis = 1 - dims.index(a.dims[0])
        shape = lambda env: tuple(env.extent[d] for d in dims)  # noqa: E731
        self.add(
            into,
            Statement(
                out,
                [a],
                f"@out = broadcast @0 : {out.type()}",
                lambda env, at, x: np.broadcast_to(np.expand_dims(x, axis), shape(env)),
            ),
        )

    def spoil(self, into, v):
        """Elementwise ops after which padding is not 0."""
        r = self.r
        for _ in range(r.choice((0, 1, 1, 2))):
            by, along = r.randint(1, 3), v.dims[-1]
            how = r.choice(("add", "sub", "neg", "index" if v.dtype in ("i32", "f32") else "add"))
            how = "add" if v.dtype == "u32" else how  # below 0 it begins again
            if how == "neg":
                most, text, fn = v.most, "@out = neg @0", lambda env, at, x: -x
            elif how == "index":
                most = v.most + self.size[along] + self.tile[along]
                text = f"@outi = self_index {along} : tile<{along}, {v.dtype}>\n@out = add @0, @outi"
                fn = lambda env, at, x, d=along: x + env.place(d, at).astype(x.dtype)  # noqa: E731
            else:
                most, sign = v.most + by, by if how == "add" else -by
                text = f"@outf = fill {by} : {v.type()}\n@out = {how} @0, @outf"
                fn = lambda env, at, x, c=sign: x + x.dtype.type(c)  # noqa: E731
            if most > EXACT[v.dtype]:
                break
            v = self.add(into, Statement(self.fresh(v.dims, v.dtype, most), [v], text, fn))
        return v

    def reduce(self, into):
        if self.cut_n and self.size["N"] > self.tile["N"]:
            return
        a = self.spoil(into, self.pick(into, self.r.choice((("M", "N"), ("N", "M")))))
        op = self.r.choice(list(REDUCE))
        most = a.most * (self.tile["N"] if op == "sum" else 1)
        if most > EXACT[a.dtype]:
            return
        args, init = [a], self.r.random() < 0.3
        if init:
            args.append(self.pick(into, ("M",), a.dtype, EXACT[a.dtype] // 4))
            most += args[1].most
        out = self.fresh(("M",), a.dtype, most)
        axis, fn = a.dims.index("N"), REDUCE[op]
        both = {"sum": np.add, "max": np.maximum, "min": np.minimum}[op]

        def compute(env, at, x, y=None):
            total = fn(env.existing(x, axis, "N").astype(np.float64), axis=axis).astype(x.dtype)
            return total if y is None else both(total, y)

        block = ", block" if self.waves_n > 1 else ""
        text = f"@out = {op} {', '.join('@%d' % i for i in range(len(args)))} {{dim = N{block}}}"
        self.add(into, Statement(out, args, text, compute))

    def operand(self, before, into, dims, dtype):
        """What a product takes: as it lies, turned by a mapping, or rows that a table picks."""
        r = self.r
        how = r.choice(("read", "read", "turned", "turned", "mapped", "gathered"))
        if how == "read":
            return self.read(into, dims, dtype)
        row, space = dims[0], ", shared" if r.random() < 0.4 else ""
        name = f"%a{len(self.params)}"
        order = dims if r.random() < 0.5 else dims[::-1]
        if how == "turned":
            self.params.append((name, dims[::-1], dtype, space))
            out = self.fresh(dims[::-1], dtype, 3)
            compute = lambda env, at: env.read(name, dims[::-1], {}, at)  # noqa: E731
            return self.add(into, Statement(out, [], "@out = read " + name, compute))
        out = self.fresh(dims, dtype, 3)
        tile = f"{{{row}: $index0, K: $index1}}"
        if how == "mapped":
            self.params.append((name, dims[::-1], dtype, space))
            text = f"@out = read {name} {{mapping = map 2 {{K: $index1, {row}: $index0}} -> {tile}}} : {out.type()}"
            compute = lambda env, at: env.read(name, dims[::-1], {}, at).T  # noqa: E731
            return self.add(into, Statement(out, [], text, compute))
        memory = tuple("T" if d == row else d for d in order)
        self.params.append((name, memory, dtype, space))
        table = f"%a{len(self.params)}"
        self.params.append((table, (row,), "i32", ""))
        self.tables.append(table)
        rows = self.fresh((row,), "i32", 99)
        where = r.choice((before, into))
        where.append(Statement(rows, [], "@out = read " + table, lambda env, at: env.read(table, (row,), {}, at)))
        of = ", ".join(f"{d}: {'$dynamic_val0' if d == 'T' else '$index1'}" for d in memory)
        text = f"@out = read {name}, @0 {{mapping = map 2 {{{of}}} -> {tile} with {{{row}: $index0}}}} : {out.type()}"
        compute = lambda env, at, found: env.gather(name, memory, row, found, at)  # noqa: E731
        return self.add(into, Statement(out, [rows], text, compute))

    def product(self, into):
        """acc[M, N] += over K of x[M, K] * y[N, K], as a loop with one matrix product."""
        kinds = [("f16", "f32")] + ([("i8", "i32")] if self.r.random() < 0.3 else [])
        small, large = self.r.choice(kinds)
        start = self.pick(into, ("M", "N"), large, EXACT[large] // 4)
        most = start.most + 81 * self.size["K"]
        outer, body = self.values, []
        self.values = []
        acc = self.fresh(("M", "N"), large, most)
        x = self.operand(into, body, ("M", "K"), small)
        y = self.operand(into, body, ("N", "K"), small)
        if self.r.random() < 0.4:
            x = self.spoil(body, x)
        if self.r.random() < 0.3:
            y = self.spoil(body, y)
        new = self.fresh(("M", "N"), large, most)
        body.append(
            Statement(
                new,
                [x, y, acc],
                "@out = mma @0, @1, @2",
                lambda env, at, p, q, c: c + env.multiply(rows_first(x, p, "M"), rows_first(y, q, "N"), at).astype(c.dtype),
            )
        )
        self.values = outer
        self._loop(into, start, acc, new, body, most)

    def accumulate(self, into):
        """A reduction over K of what is computed there, carried by the loop."""
        dtype = self.r.choice(("i32", "f32"))
        start = self.pick(into, ("M",), dtype, EXACT[dtype] // 4)
        op = self.r.choice(list(REDUCE))
        most = start.most + 64 * (self.size["K"] + self.tile["K"]) ** 2
        outer, body = self.values, []
        self.values = []
        acc = self.fresh(("M",), dtype, most)
        x = self.spoil(body, self.read(body, ("M", "K"), dtype))
        new = self.fresh(("M",), dtype, most)
        fn, both = REDUCE[op], {"sum": np.add, "max": np.maximum, "min": np.minimum}[op]
        text = f"@out = {op} @0, @1 {{dim = K}}"
        compute = lambda env, at, p, q: both(fn(env.existing(p, 1, "K", at), axis=1).astype(p.dtype), q)  # noqa: E731
        if self.r.random() < 0.3:  # the same in two steps
            text = f"@outp = {op} @0 {{dim = K}}\n@out = {both.__name__ if op != 'sum' else 'add'} @outp, @1"
        body.append(Statement(new, [x, acc], text, compute))
        self.values = outer
        self._loop(into, start, acc, new, body, most)

    def _loop(self, into, start, acc, new, body, most):
        out = self.fresh(start.dims, start.dtype, most)
        self.add(into, Statement(out, [start], "", None, body, acc, new))

    def _generate(self):
        kinds = [self.binary, self.binary, self.select, self.cast, self.index, self.broadcast]
        kinds += [self.bits, self.rounded, self.branch]
        kinds += [self.reduce, self.reduce, self.product, self.accumulate, self.some_groups]
        if self.r.random() < 0.25:
            kinds += [self.observe] * 3
        if self.wide:
            self.product(self.statements)
        for _ in range(self.r.randint(0, 3) if self.wide else self.r.randint(1, 9)):
            self.r.choice(kinds)(self.statements)
        cut = [d for d in "MN" if self.size[d] > self.tile[d]]
        for _ in range(self.r.randint(1, 2)):
            v = self.pick(self.statements)
            if self.wide and not self.outputs:
                v = self.pick(self.statements, ("M", "N"))
            if self.r.random() < 0.4 and self._combine(v):
                continue
            if not set(cut) <= set(v.dims):  # several workgroups would write the same elements
                v = self.pick(self.statements, ("M", "N"))
            order = v.dims if self.r.random() < 0.8 else tuple(reversed(v.dims))
            self.outputs.append((f"%o{len(self.outputs)}", order, v))

    def _combine(self, v):
        """An output with other dimensions than the value, or an atomic; False: it cannot be."""
        r, name = self.r, f"%o{len(self.outputs)}"
        lacks = [d for d in "MN" if d not in v.dims]
        if v.dtype not in ("i32", "f32") or self._is_observed(v):
            return False  # each thread would act for itself
        spread = bool(lacks) and r.random() < 0.5
        order = (*v.dims, *lacks) if spread else v.dims
        order = order if r.random() < 0.7 else tuple(reversed(order))
        if spread and r.random() < 0.5:
            self.outputs.append((name, order, v))
            return True
        table = None
        if not spread and r.random() < 0.6:
            table, row = f"%a{len(self.params)}", r.choice(v.dims)
            self.params.append((table, (row,), "i32", ""))
            self.tables.append(table)
            order = tuple("T" if d == row else d for d in order)
        most = v.most * self.size["M"] * self.size["N"]
        op = r.choice(list(ATOMIC) if most <= EXACT[v.dtype] else ("atomic_min", "atomic_max"))
        self.how[name] = (op, table)
        self.outputs.append((name, order, v))
        return True

    def _is_observed(self, v):
        """Made of something that mentions threads."""
        made = {s.out.name: s for s in self.statements}
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

    # ---- sizes

    def symbols(self):
        """Those that take their value from tensors."""
        whole = () if self.cut_n else "N"
        return [d for d in "MNKT" if self.dynamic and d not in whole and self._sized(d)]

    def shape(self, name, order):
        """Where only free layouts say how large a symbol is, the smallest of them has that size."""
        tensors = [(p[0], p[1]) for p in self.used] + [(o[0], o[1]) for o in self.outputs]
        sizes = []
        for d in order:
            those = [n for n, dims in tensors if d in dims]
            own = 0 if self.disagree else None  # of a tensor that has no other size than its symbols
            spare = {n: self.spare.get(n, {}).get(d, own) for n in those}
            if self.disagree and (d not in self.symbols() or len(those) < 2):
                spare = dict.fromkeys(those, 0)
            least = min(spare.values()) if d in self.symbols() and None not in spare.values() else 0
            more = spare.get(name)
            sizes.append(self.size[d] + (least if more is None else more) - least)
        return sizes

    # ---- as text

    def text(self):
        lines = []
        self._write(self.statements, lines, "  ")
        for name, order, v in self.outputs:
            lines += self._store(name, order, v)
        body = "\n".join(lines)
        used = [p for p in self.params if re.search(rf"{p[0]}\b", body)]
        self.used = used
        params = [f"{n}: mem<{', '.join(d)}, {t}{s}{self._layout(n, d)}>" for n, d, t, s in used]
        params += [
            f"{n}: mem<{', '.join(d)}, {v.dtype}{self._layout(n, d)}>" for n, d, v in self.outputs
        ]
        t, head = self.tile, []
        head.append(f"  workgroup M by {t['M']} on 0; tile K by {t['K']}")
        if self.cut_n:
            head.append(f"  workgroup N by {t['N']} on 1")
        head.append(f"  wave M by {t['M'] // self.waves_m}")
        if self.waves_n > 1:
            head.append(f"  wave N by {t['N'] // self.waves_n}")
        vector = f"vector {{M: {t['M']}, N: {t['N']}}}"
        head.append(f"  hardware threads {self.threads}, mma {self.mma}, {vector}")
        head += [f"  {row}" for row in self.wishes]
        for d in "MNKT" if self._sized("T") else "MNK":
            free = d in self.symbols()
            head.append(f"  dynamic {d}" if free else f"  bind {d} = {self.size[d]}")
        head += [f"  assume {claim}" for claim in self.assumed]
        return f"kernel @k({', '.join(params)})\n" + "\n".join(head) + "\n{\n" + body + "\n}\n"

    def _store(self, name, order, v):
        op, table = self.how.get(name, ("write", None))
        if op == "write":
            return [f"  write {v.name}, {name}"]
        result = f"  {name}r = {op} {v.name}, {name}"
        if not table:
            return [result]
        row = next(p[1][0] for p in self.params if p[0] == table)
        at = {d: f"$index{i}" for i, d in enumerate(v.dims)}
        memory = ", ".join(f"{d}: {'signed($dynamic_val0)' if d == 'T' else at[d]}" for d in order)
        tile = ", ".join(f"{d}: {i}" for d, i in at.items())
        mapping = f"map {len(at)} {{{memory}}} -> {{{tile}}} with {{{row}: {at[row]}}}"
        return [f"  {name}t = read {table}", f"{result}, {name}t {{mapping = {mapping}}}"]

    def _layout(self, name, dims):
        if self.disagree:
            return ""
        return f", layout({', '.join('_' for _ in dims)})" if name in self.spare else ""

    def _sized(self, d):
        return any(d in p[1] for p in self.used) or any(d in o[1] for o in self.outputs)

    def _write(self, statements, lines, indent):
        for s in statements:
            if s.body is None:
                text = s.text.replace("@out", s.out.name)
                for i, a in enumerate(s.args):
                    text = text.replace(f"@{i}", a.name)
                lines += [indent + part for part in text.split("\n")]
                continue
            lines.append(f"{indent}{s.out.name} = for K carry {s.carried.name} = {s.args[0].name} {{")
            self._write(s.body, lines, indent + "  ")
            lines.append(f"{indent}  yield {s.yielded.name}")
            lines.append(indent + "}")


class Numpy:
    """Tensors padded to whole tiles: what a tile holds past the end of a dim is 0 when read."""

    def __init__(self, case, data):
        self.case, self.data, self.found = case, data, {}
        self.extent = {d: -(-case.size[d] // case.tile[d]) * case.tile[d] for d in "MNK"}

    def read(self, name, order, shift, at):
        x, out = self.data[name], None
        start = [at if d == "K" else 0 for d in order]
        extent = [self.case.tile[d] if d == "K" else self.extent[d] for d in order]
        out = np.zeros(extent, x.dtype)
        index = [np.arange(s, s + n) for s, n in zip(start, extent)]
        inside = [i < self.case.size[d] for i, d in zip(index, order)]  # the tile's own bounds
        moved = [i + shift.get(d, 0) for i, d in zip(index, order)]
        inside = [a & (m >= 0) & (m < n) for a, m, n in zip(inside, moved, x.shape)]
        out[np.ix_(*[np.flatnonzero(a) for a in inside])] = x[np.ix_(*[m[a] for m, a in zip(moved, inside)])]
        return out

    def gather(self, name, memory, row, table, at):
        """Rows of memory [T, K], or columns of [K, T], that the table picks; 0 where there is none."""
        x = self.data[name] if memory[0] == "T" else self.data[name].T
        k = np.arange(at, at + self.case.tile["K"])
        rows = (np.arange(len(table)) < self.case.size[row]) & (table >= 0) & (table < len(x))
        columns = (k < self.case.size["K"]) & (k < x.shape[1])
        out = np.zeros((len(table), len(k)), x.dtype)
        out[np.ix_(rows, columns)] = x[np.ix_(table[rows], k[columns])]
        return out

    def index(self, dim):
        return np.arange(self.extent[dim], dtype=np.int32)

    def place(self, dim, at):
        """The coordinates of a tile, which is all but for K."""
        return np.arange(at, at + self.case.tile["K"]) if dim == "K" else self.index(dim)

    def existing(self, x, axis, dim, at=0):
        """The elements along a dimension that are inside of it."""
        return x.take(range(min(x.shape[axis], self.case.size[dim] - at)), axis)

    def multiply(self, x, y, at):
        return self.existing(x, 1, "K", at) @ self.existing(y, 1, "K", at).T

    def run(self, statements, at=0):
        for s in statements:
            args = [self.found[a.name] for a in s.args]
            if s.body is None:
                self.found[s.out.name] = s.compute(self, at, *args)
                continue
            value = args[0]
            for k in range(0, self.case.size["K"], self.case.tile["K"]):
                self.found[s.carried.name] = value
                self.run(s.body, k)
                value = self.found[s.yielded.name]
            self.found[s.out.name] = value


def expected(case, data):
    env = Numpy(case, data)
    with np.errstate(over="ignore"):
        env.run(case.statements)
    results = outputs(case)
    for (name, order, v), out in zip(case.outputs, results):
        store(case, data, case.how.get(name, ("write", None)), order, v, env.found[v.name], out)
    return results


def store(case, data, how, order, v, x, out):
    """Every element that exists, once for each workgroup that has it; along dimensions that the
    value lacks, everywhere."""
    op, table = how
    dims = (*v.dims, *(d for d in order if d not in (*v.dims, "T")))
    at = dict(zip(dims, np.indices([case.size[d] for d in dims])))
    values = x[tuple(at[d] for d in v.dims)].astype(NUMPY[v.dtype])
    if table:
        row = next(p[1][0] for p in case.params if p[0] == table)
        rows, known = data[table], at[row] < len(data[table])
        at["T"] = np.where(known, rows[np.minimum(at[row], len(rows) - 1)] if len(rows) else 0, 0)
    inside = np.ones(values.shape, bool)
    for d, n in zip(order, out.shape):
        inside &= (at[d] >= 0) & (at[d] < n)
    place = tuple(at[d][inside] for d in order)
    if op == "write":
        out[place] = values[inside]
        return
    cut = "MN" if case.cut_n else "M"
    times = np.prod([-(-case.size[d] // case.tile[d]) for d in cut if d not in dims] or [1])
    ATOMIC[op].at(out, place, values[inside] * NUMPY[v.dtype](times if op == "atomic_add" else 1))


def arguments(case):
    r = np.random.default_rng(case.seed)
    data = {}
    for name, order, dtype, _ in case.params:
        most = 3 if dtype in ("i8", "f16") else 7
        if name in case.tables:
            most = case.size["T"] + 2
        shape = case.shape(name, order)
        least = 0 if dtype == "u32" else -most
        data[name] = r.integers(least, most + 1, shape).astype(NUMPY[dtype])
    return data


def outputs(case):
    return [np.zeros(case.shape(name, order), NUMPY[v.dtype]) for name, order, v in case.outputs]


def refused(case, error):
    """It is said that this is not possible; products of any width are."""
    codes = [code for code in NOT_LOWERED if code != "E0601" or not case.wide]
    return any(f"[{code}]" in str(error) for code in codes)


class Compiled(_wave.Launchable):
    """A kernel as machine code; nothing of it is kept in a cache."""

    def __init__(self, kernel):
        self._bind(kernel)
        self._use(kernel.compile(target="cpu", cache=-1))


def run(way, case, text, args):
    kernel = _wave.parse(text, "case.wave")[0]
    if case.disagree:
        kernel.free_sizes()
        text = str(kernel)
    if way == "eval":
        kernel.eval(args)
    elif way == "sim":
        target = f"sim:{case.target}"
        simulate(text, *args, target=target, schedule=case.schedule, name="case.wave")
    else:
        if way == "lanes":
            kernel.assume("ignore")  # lanes that made use of them need them
            kernel.lower(case.target if case.target in NO_ASYNC else NO_ASYNC[case.seed % 3])
            kernel = _wave.parse(str(kernel), "lanes.wave")[0]
        Compiled(kernel)(*args)
    _wave.take_diagnostics()


def ways_of(case):
    """Those that can be gone here; whose threads are observable no tile evaluator runs."""
    here = [w for w in case.ways if w in ("eval", "sim") or HAS_CPU]
    return [w for w in here if w != "eval" or not case.observable]


def problem_here(case):
    """What is wrong with the case: None, "refused", or a description."""
    text = case.text()
    data = arguments(case)
    right = expected(case, data)
    args = [data[p[0]] for p in case.used]
    went = False
    for way in ways_of(case):
        out = outputs(case)
        try:
            run(way, case, text, (*args, *out))
        except Exception as error:  # whatever it is, it is the finding
            _wave.take_diagnostics()
            if way != "eval" and refused(case, error):
                continue
            return f"{way}: {type(error).__name__}: {error}"
        went |= way != "eval"
        for (name, _, _), got, want in zip(case.outputs, out, right):
            if not np.array_equal(got, want):
                at = np.argwhere(got != want)[0]
                return f"{way}: {name}{list(map(int, at))} is {got[tuple(at)]}, NumPy says {want[tuple(at)]}"
    return None if went else "refused"


# ---- children


def child(cases, out):
    for case in cases:
        os.write(out, b"\x01")  # it begins
        found = (problem_here(case) or "").encode(errors="replace")[:4000]
        os.write(out, found.replace(b"\x01", b"?").replace(b"\x02", b"?") + b"\x02")


def read_results(pipe, timeout):
    """What a child says, piece by piece; None when it has not said anything for too long."""
    while True:
        ready, _, _ = select.select([pipe], [], [], timeout)
        piece = os.read(pipe, 65536) if ready else None
        yield piece
        if not piece:
            return


def problems(cases, timeout=120):
    """problem_here of each, in a child process; after a crash the rest runs in another one."""
    results = []
    while len(results) < len(cases):
        sys.stdout.flush()
        pipe, out = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(pipe)
            try:
                child(cases[len(results) :], out)
            finally:
                os._exit(0)
        os.close(out)
        said, hung = b"", False
        for piece in read_results(pipe, timeout):
            hung = piece is None
            said += piece or b""
        os.close(pipe)
        if hung:
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        done = [r.lstrip(b"\x01").decode(errors="replace") for r in said.split(b"\x02")[:-1]]
        results += [r or None for r in done]
        if len(results) < len(cases):
            results.append("hang: no answer" if hung else f"crash: a child ended with status {status}")
    return results


def problem(case):
    return problems([case])[0]


# ---- shrinking


def without(case, i):
    """The case less statement i, when nothing needs it."""
    s = case.statements[i]
    needed = {a.name for t in case.statements for a in t.args} | {v.name for _, _, v in case.outputs}
    for t in case.statements:
        needed |= {a.name for u in t.body or [] for a in u.args}
    return None if s.out.name in needed else i


def shrink(case):
    """Smaller cases that fail in the same way."""
    kind = problem(case).split(":")[0]
    same = lambda: (p := problem(case)) not in (None, "refused") and p.split(":")[0] == kind  # noqa: E731
    changed = True
    while changed:
        changed = False
        for i in range(len(case.outputs) - 1, -1, -1):
            if len(case.outputs) > 1:
                gone = case.outputs.pop(i)
                if same():
                    changed = True
                else:
                    case.outputs.insert(i, gone)
        for v in [s.out for s in case.statements]:  # an output of something earlier
            if len(case.outputs) == 1 and v is not case.outputs[0][2] and not case.how:
                before = case.outputs[0]
                if case.statements.index(next(s for s in case.statements if s.out is v)) < next(
                    (i for i, s in enumerate(case.statements) if s.out is before[2]), 0
                ):
                    case.outputs[0] = (before[0], v.dims, v)
                    if same():
                        changed = True
                    else:
                        case.outputs[0] = before
        for i in range(len(case.statements) - 1, -1, -1):
            if without(case, i) is not None:
                gone = case.statements.pop(i)
                if same():
                    changed = True
                else:
                    case.statements.insert(i, gone)
        for row in list(case.wishes):
            case.wishes.remove(row)
            if same():
                changed = True
            else:
                case.wishes.append(row)
        for i in range(len(case.assumed) - 1, -1, -1):
            gone = case.assumed.pop(i)
            if same():
                changed = True
            else:
                case.assumed.insert(i, gone)
        for d in "MNK":
            for smaller in (1, case.tile[d], case.size[d] - 1):
                before = case.size[d]
                if 0 < smaller < before and (d != "N" or case.cut_n):
                    case.size[d] = smaller
                    if same():
                        changed = True
                        break
                    case.size[d] = before
    return case


# ---- all of them

BATCH = 20  # cases of a child: LLVM is loaded once for them


def batches(args):
    """Cases in lists, until the count or the time is reached; of a shard every N-th seed."""
    shard, shards = map(int, args.shard.split("/"))
    began, n = time.time(), shard
    while (time.time() - began < args.seconds) if args.seconds else n < args.count:
        most = n + BATCH * shards if args.seconds else min(n + BATCH * shards, args.count)
        cases = [Case(args.seed + i) for i in range(n, most, shards)]
        for case in cases:
            case.ways = args.ways.split(",")
        yield cases
        n += BATCH * shards


def report(case, keep):
    seed = case.seed
    case = shrink(case)
    text = f"# seed {seed} on {case.target}, schedule {case.schedule}\n"
    text += f"# {problem(case)}\n".replace("\n", "\n# ").rstrip("# ") + case.text()
    print(text, flush=True)
    if keep:
        os.makedirs(keep, exist_ok=True)
        with open(os.path.join(keep, f"kernel{seed}.wave"), "w") as file:
            file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--shard", default="0/1", help="I/N: every N-th seed, from the I-th")
    parser.add_argument("--ways", default=",".join(WAYS), help="which of the ways to go")
    parser.add_argument("--keep", help="write shrunk failures into this folder")
    args = parser.parse_args()
    if not set(args.ways.split(",")) <= set(WAYS):
        parser.error(f"ways are {', '.join(WAYS)}")
    began, passed, failed, skipped = time.time(), 0, 0, 0
    for cases in batches(args):
        for case, found in zip(cases, problems(cases)):
            skipped += found == "refused"
            passed += found is None
            if found not in (None, "refused"):
                failed += 1
                report(case, args.keep)
        if failed >= 5:
            break
    n = passed + failed + skipped
    seconds = max(time.time() - began, 1e-9)
    print(f"{skipped} of {n} kernels were refused as not lowered; {n / seconds:.1f} a second")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
