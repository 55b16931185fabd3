"""A case in NumPy, on whole tensors that are padded to whole tiles."""

import numpy as np

from .case import NUMPY, SMALL
from .draw_tables import numbers

ATOMIC = {"atomic_add": np.add, "atomic_min": np.minimum, "atomic_max": np.maximum}
SWAP = "atomic_compare_exchange"  # on an output that is 0 at first: any order gives the same
BITWISE = {"atomic_or": np.bitwise_or, "atomic_xor": np.bitwise_xor}  # of integers


class Model:
    """Tensors padded to whole tiles: reads past the end of a dim give 0."""

    def __init__(self, case, data):
        self.case, self.data, self.found = case, data, {}
        self.extent = {d: -(-case.size[d] // case.tile[d]) * case.tile[d] for d in case.tile}

    def read(self, name, order, shift, at, bounds=(), other=0):
        """`bounds` of dims: elements outside them, or outside the memory, are `other`."""
        x = self.data[name]
        start = [at if d == "K" else 0 for d in order]
        extent = [self.case.tile[d] if d == "K" else self.extent[d] for d in order]
        out = np.full(extent, other, x.dtype)
        index = [np.arange(s, s + n) for s, n in zip(start, extent)]
        inside = [i < self.case.size[d] for i, d in zip(index, order)]  # the tile's own bounds
        moved = [i + shift.get(d, 0) for i, d in zip(index, order)]
        inside = [a & (i < dict(bounds).get(d, i + 1)) for a, i, d in zip(inside, index, order)]
        inside = [a & (m >= 0) & (m < n) for a, m, n in zip(inside, moved, x.shape)]
        out[np.ix_(*[np.flatnonzero(a) for a in inside])] = x[np.ix_(*[m[a] for m, a in zip(moved, inside)])]
        return out

    def gather(self, name, memory, row, table, at):
        """Rows of memory [T, K], or columns of [K, T], gathered through the table; 0 out of
        range."""
        x = self.data[name] if memory[0] == "T" else self.data[name].T
        k = np.arange(at, at + self.case.tile["K"])
        rows = (np.arange(len(table)) < self.case.size[row]) & (table >= 0) & (table < len(x))
        columns = (k < self.case.size["K"]) & (k < x.shape[1])
        out = np.zeros((len(table), len(k)), x.dtype)
        out[np.ix_(rows, columns)] = x[np.ix_(table[rows], k[columns])]
        return out

    def pick(self, name, memory, dims, row, rows):
        """The same for a whole tensor, with row numbers that are unbounded integers."""
        x, size = self.data[name], self.case.size
        at = dict(zip(dims, np.indices([self.extent[d] for d in dims])))
        inside = np.ones([self.extent[d] for d in dims], bool)
        for d in dims:
            inside &= at[d] < size[d]
        at["T"] = np.array([*rows, 0], object)[at[row]]
        for d, n in zip(memory, x.shape):
            inside &= ((at[d] >= 0) & (at[d] < n)).astype(bool)
        out = np.zeros(inside.shape, x.dtype)
        out[inside] = x[tuple(at[d][inside].astype(np.int64) for d in memory)]
        return out

    def row(self, name, dims, i):
        """Row i of memory [T, dims], 0 out of range."""
        x = self.data[name]
        out = np.zeros([self.extent[d] for d in dims], x.dtype)
        if 0 <= i < len(x):
            part = tuple(slice(min(n, self.case.size[d])) for d, n in zip(dims, x.shape[1:]))
            out[tuple(slice(p.stop) for p in part)] = x[i][part]
        return out

    def index(self, dim):
        return np.arange(self.extent[dim], dtype=np.int32)

    def place(self, dim, at):
        """The coordinates of a tile, which covers all dims except K."""
        return np.arange(at, at + self.case.tile["K"]) if dim == "K" else self.index(dim)

    def existing(self, x, axis, dim, at=0):
        """The elements along a dimension that are inside it."""
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
            tile = self.case.tile["K"]
            for k in range(s.first * tile, self.case.size["K"], tile):
                self.found[s.carried.name] = value
                self.run(s.body, k)
                value = self.found[s.yielded.name]
            self.found[s.out.name] = value


def expected(case, data):
    env = Model(case, data)
    with np.errstate(over="ignore"):
        env.run(case.statements)
    results = outputs(case)
    if any(case.size[d] == 0 for d in case.cut):
        return results  # there is no workgroup
    sizes = dict(case.size)  # in force
    for (name, order, v), out in zip(case.outputs, results):
        how, resized, exist = case.how.get(name, ("write", None, None)), case.resized.get(name), dict(case.size)
        if resized:
            sizes |= {d: case.size[d] for d in resized.shrunk} | {resized.dim: resized.stored}
            exist[resized.dim] = exist[resized.dim] if resized.made is None else resized.made
        most = {d: min(case.size[d], sizes[d], exist[d]) for d in "MN"}
        most |= {d: min(sizes[d], covered(case, d)) for d in "MN" if d not in v.dims}
        store(case, data, how, order, v, env.found[v.name], out, most)
    return results


def covered(case, dim):
    """How far the tiles of all workgroups reach."""
    size, tile = case.size[dim], case.tile[dim]
    return -(-size // tile) * tile if dim in ("MN" if case.cut_n else "M") else size


def store(case, data, how, order, v, x, out, most):
    """Every element that exists, `most` along each dim, once for each workgroup that has it; along
    dimensions that the value lacks, everywhere."""
    op, table, place = how
    dims = (*v.dims, *(d for d in order if d not in (*v.dims, "T")))
    at = dict(zip(dims, np.indices([most[d] for d in dims])))
    values = x[tuple(at[d] for d in v.dims)].astype(NUMPY[v.dtype])
    if table:
        row = next(p[1][0] for p in case.params if p[0] == table)
        rows = np.array([*place.of(data[table]), *place.of([0])], object)  # 0 out of range
        at["T"] = rows[np.minimum(at[row], len(rows) - 1)]
    inside = np.ones(values.shape, bool)
    for d, n in zip(order, out.shape):
        inside &= ((at[d] >= 0) & (at[d] < n)).astype(bool)
    place = tuple(at[d][inside].astype(np.int64) for d in order)
    if op in ("write", SWAP):
        out[place] = values[inside]
        return
    times = np.prod([-(-case.size[d] // case.tile[d]) for d in case.cut if d not in dims] or [1])
    again = {"atomic_add": times, "atomic_xor": times % 2}.get(op, 1)  # once for each workgroup that has it
    (ATOMIC | BITWISE)[op].at(out, place, values[inside] * NUMPY[v.dtype](again))


def arguments(case):
    r = np.random.default_rng(case.seed)
    data = {}
    for name, order, dtype, _ in case.params:
        most = SMALL.get(dtype, 7)
        shape = case.shape(name, order)
        if name in case.tables:
            data[name] = numbers(case, r, name, shape[0], dtype).astype(NUMPY[dtype])
            continue
        most = 255 if name in case.packed else most
        least = 0 if dtype[0] == "u" else -most
        data[name] = r.integers(least, most + 1, shape).astype(NUMPY[dtype])
    return {name: lying(case, name, x) for name, x in data.items()}


def lying(case, name, x):
    """The same elements in another order in memory, or not contiguous."""
    how = case.views.get(name)
    if how == "apart":
        wide = np.zeros([2 * n for n in x.shape], x.dtype)
        view = wide[tuple(slice(None, None, 2) for _ in x.shape)]
    elif how == "padded" and x.ndim:
        past, before = 1 + case.seed % 9, case.seed // 9 % 5
        wide = np.full(x.shape[:-1] + (x.shape[-1] + past + before,), 3, x.dtype)
        view = wide[..., before : before + x.shape[-1]]
    elif how == "backwards":
        view = np.zeros(x.shape, x.dtype)[tuple(slice(None, None, -1) for _ in x.shape)]
    else:
        return x if how is None else np.asfortranarray(x)
    view[...] = x
    return view


def outputs(case):
    zeros = [(name, np.zeros(case.shape(name, order), NUMPY[v.dtype])) for name, order, v in case.outputs]
    return [lying(case, name, x) for name, x in zeros]
