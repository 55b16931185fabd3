"""A case: a list of statements over tiles of M, N and K, and everything around them."""

import random
import re

import numpy as np

NUMPY = {"i32": np.int32, "f32": np.float32, "f16": np.float16, "i8": np.int8}
NUMPY |= {"u32": np.uint32, "u8": np.uint8, "i16": np.int16, "i64": np.int64}
EXACT = {"i32": 2**30, "u32": 2**30, "f32": 2**22, "f16": 2**10, "i8": 2**6}  # larger integers are not made
EXACT |= {"u8": 2**7, "i16": 2**14, "i64": 2**52}

SMALL = {"i8": 3, "f16": 3, "u8": 3, "i16": 5}  # the largest value read of these types; of others 7


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
        self.first = 0  # iteration of a loop
        self.begins = None  # where its iterations begin to change a row: so much for each row, and for the first
        self.ends = None  # where they no longer do
        self.short = False  # the loop has no iterations that change no row of the workgroup,
        self.even = False  # but if it begins later, as many beyond the end of K
        self.observes = False


class Case:
    """Filled by `draw`. Everything is drawn from `r`, so that a seed determines it."""

    def __init__(self, seed):
        self.seed = seed
        self.r = random.Random(seed)
        self.tile, self.size = {}, {}  # of a workgroup or an iteration; of the whole dim
        self.asserts = False  # results are asserted to be as small as they must be
        self.cut_n = True  # divided over workgroups; else a workgroup holds all of N
        self.open = False  # and N may be known only at the call: the kernel is compiled then
        self.waves_m, self.waves_n, self.threads, self.mma = 1, 1, 64, "F32_16x16x16_F16"
        self.waves_k = 1  # that share each tile of the loop over K
        self.dynamic = self.wide = self.stays = self.observable = False
        self.meets = 0  # before which statement workgroups share a sum, if P is divided over them
        self.crowded = False  # its tiles fill the registers of its waves
        self.target, self.schedule = "cpu", "round"
        self.ways, self.targets = (), ()  # requested; targets: instead of the one that is drawn
        self.params, self.outputs, self.statements = [], [], []
        self.tables = {}  # parameters with row numbers, and their contents (draw_tables)
        self.packed = set()  # parameters whose bytes have two numbers each
        self.axes, self.loops = set(), []  # symbols of while loops; their end conditions
        self.how = {}  # outputs that are not just written: an op, a table or None, and a Place
        self.resized = {}  # outputs between whose making and storing a dim gets another size (draw_stores)
        self.values, self.names, self.versions = [], 0, 0
        self.assumed, self.wishes = [], []  # rows of the header
        self.pins = []  # of the schedule: a kind, a number, and which read (pins.py)
        self.spare = {}  # tensors with a free layout: by how much each dim is larger
        self.disagree = False  # without a free layout
        self.fast_math = False
        self.views = {}  # arguments that are not row-major

    @property
    def used(self):
        """The parameters that something reads."""
        found, left = {self.how[o[0]][1] for o in self.outputs if o[0] in self.how}, [*self.statements]
        while left:
            s = left.pop()
            found.update(re.findall(r"%a\d+", s.text))
            left += s.body or []
        return [p for p in self.params if p[0] in found]

    def param(self, dims, dtype, space=""):
        self.params.append((f"%a{len(self.params)}", dims, dtype, space))
        return self.params[-1][0]

    def version(self):
        """A new number for versions of symbols."""
        self.versions += 10
        return self.versions

    def fresh(self, dims, dtype, most):
        self.names += 1
        return Value(f"%v{self.names}", dims, dtype, most)

    def add(self, into, statement):
        into.append(statement)
        self.values.append(statement.out)
        return statement.out

    # ---- sizes

    @property
    def cut(self):
        """The dimensions that are divided over workgroups."""
        return "M" + "N" * self.cut_n + "P" * self.shares

    @property
    def shares(self):
        """Whether workgroups share a sum."""
        return any(", grid}" in s.text for s in self.statements)

    def symbols(self):
        """Those that take their value from tensors."""
        whole = () if self.cut_n or self.open else "N"
        return [d for d in "MNKT" if self.dynamic and d not in whole and self.has(d)]

    def shape(self, name, order):
        """If only free layouts define the size of a symbol, the smallest of them has that size."""
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
            if d == "K/2" and all(n in self.spare for n, dims in tensors if "K" in dims):
                more = 0  # else K could follow from this size
            size = self.size["K"] // 2 if d == "K/2" else self.size[d]
            sizes.append(max(0, size + (least if more is None else more) - least))
        return sizes

    def has(self, d):
        return any(d in p[1] for p in self.used) or any(d in o[1] for o in self.outputs)
