"""Padding never reaches a result: what a kernel computes does not depend on its tiles.

Random kernels whose reductions cover their dimension are compared with themselves in one tile that
covers everything: integers, largest and smallest elements and positions bit for bit, sums of floats
within the bound of docs/numerics.md.
"""

import random

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

M, N, K, TILE = tkl.sym.M, tkl.sym.N, tkl.sym.K, tkl.sym.TILE
TARGETS = ["eval", "cpu", "sim:sm_90a", "sim:sm_80", "sim:gfx942"]
if not any(device.kind == "cpu" for device in _wave.devices()):
    TARGETS.remove("cpu")
EPSILON = 2.0**-23


class Random:
    """A kernel over rows of a [M, N] and a vector v [N], with tiles of any size along N."""

    STEPS = {  # of x, and the same in NumPy; none of them maps the padding to 0
        "shift": (lambda x, t: x + tkl.Register[M, N, t](3), lambda x: x + 3),
        "turn": (lambda x, t: tkl.Register[M, N, t](1) - x, lambda x: 1 - x),
        "square": (lambda x, t: x * x - x, lambda x: x * x - x),
        "clamp": (lambda x, t: tkw.maximum(x, tkl.Register[M, N, t](2)), lambda x: np.maximum(x, 2)),
    }
    REDUCE = {"sum": tkw.sum, "max": tkw.max, "min": tkw.min}

    def __init__(self, seed):
        r = self.r = random.Random(seed)
        self.dtype = r.choice(("i32", "f32"))
        self.block = r.random() < 0.3
        self.steps = [r.choice(list(self.STEPS)) for _ in range(r.randint(1, 3))]
        self.by_place = r.random() < 0.4
        self.ops = [r.choice(list(self.REDUCE)) for _ in range(r.randint(1, 2))]
        self.size = r.choice((1, 2, 7, 31, 33, 64, 100))
        self.rows = r.choice((1, 3, 5))
        self.dynamic = r.random() < 0.5
        self.target = r.choice(TARGETS)

    def make(self, tile):
        t, wave = getattr(tkl, self.dtype), self
        cut = tkw.WorkgroupConstraint(N, TILE, 1) if self.block else tkw.TilingConstraint(N, TILE)
        header = [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: TILE}),
            tkw.WorkgroupConstraint(M, 2, 0),
            tkw.WaveConstraint(M, 1),
            cut,
        ]

        def value(a):
            x = tkw.read(a)
            if wave.by_place:
                x = x + tkw.broadcast(tkw.cast(tkw.self_index(N, tkl.i32), t), [M, N])
            for step in wave.steps:
                x = wave.STEPS[step][0](x, t)
            return x

        @tkw.wave(header)
        def carried(a: tkl.Memory[M, N, G, t], b: tkl.Memory[M, G, t], c: tkl.Memory[M, G, t]):
            start = {"sum": 0, "max": -100000, "min": 100000}
            first = [tkl.Register[M, t](start[op]) for op in wave.both()]

            @tkw.iterate(N, init_args=first)
            def loop(p, q):
                x = value(a)
                return tuple(
                    wave.REDUCE[op](x, old, dim=N) for op, old in zip(wave.both(), (p, q))
                )

            p, q = loop
            tkw.write(p, b)
            tkw.write(q, c)

        @tkw.wave(header)
        def at_once(a: tkl.Memory[M, N, G, t], b: tkl.Memory[M, G, t], c: tkl.Memory[M, G, t]):
            x = value(a)
            for op, to in zip(wave.both(), (b, c)):
                tkw.write(wave.REDUCE[op](x, dim=N, block=True), to)

        return at_once if self.block else carried

    def both(self):
        return (self.ops[0], self.ops[-1])

    def magnitude(self, a):
        """The sum of the magnitudes."""
        x = a.astype("f8") + (np.arange(self.size) if self.by_place else 0)
        for step in self.steps:
            x = self.STEPS[step][1](x)
        return np.abs(x).sum(1)

    def run(self, tile, target, a):
        subs = {TILE: tile}
        if not self.dynamic:
            subs |= {M: self.rows, N: self.size}
        options = WaveCompileOptions(
            subs=subs, dynamic_symbols=[M, N] if self.dynamic else [], target=target
        )
        b, c = np.zeros((2, self.rows), a.dtype)
        wave_compile(options, self.make(tile))(a, b, c)
        return b, c

    def tiles(self):
        """Tile sizes that do not divide the row; with `block` one tile covers the row."""
        sizes = (1, 3, 8, 16, 24, 64, 128)
        fits = [t for t in sizes if not self.block or t >= self.size]
        return self.r.sample(fits, min(2, len(fits)))


@pytest.mark.parametrize("seed", range(24))
def test_tiles_do_not_matter(seed):
    case = Random(seed)
    rng = np.random.default_rng(seed)
    a = rng.integers(-6, -1, (case.rows, case.size)).astype("i4")
    if case.dtype == "f32":
        a = (a + rng.random(a.shape)).astype("f4")
    right = case.run(case.size, "eval", a)
    bound = 2 * (case.size + 8) * EPSILON * case.magnitude(a)  # of both; an element is computed in a few steps
    for tile in case.tiles():
        for op, got, want in zip(case.both(), case.run(tile, case.target, a), right):
            text = f"{op} on {case.target} in tiles of {tile}"
            if case.dtype == "f32" and op == "sum":
                assert (np.abs(got.astype("f8") - want) <= bound).all(), text
            else:
                np.testing.assert_array_equal(got, want, text)


def search(op, dtype, block, tile):
    """The position of the largest or smallest element, that element, and the product of all."""
    t = getattr(tkl, dtype)
    find = {"argmax": tkw.argmax, "argmin": tkw.argmin}[op]
    worst = {"argmax": -1000, "argmin": 1000}[op]
    header = [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: tile}),
        tkw.WorkgroupConstraint(M, 2, 0),
        tkw.WaveConstraint(M, 1),
        tkw.WorkgroupConstraint(N, tile, 1) if block else tkw.TilingConstraint(N, tile),
    ]

    @tkw.wave(header)
    def carried(
        a: tkl.Memory[M, N, G, t],
        v: tkl.Memory[M, G, t],
        at: tkl.Memory[M, G, tkl.i32],
        p: tkl.Memory[M, G, t],
    ):
        first = [tkl.Register[M, t](worst), tkl.Register[M, tkl.i32](-1), tkl.Register[M, t](1)]

        @tkw.iterate(N, init_args=first)
        def loop(best, where, times):
            x = tkw.read(a)
            best, where = find(x, (best, where), dim=N)
            return best, where, tkw.prod(x, times, dim=N)

        for value, to in zip(loop, (v, at, p)):
            tkw.write(value, to)

    @tkw.wave(header)
    def at_once(
        a: tkl.Memory[M, N, G, t],
        v: tkl.Memory[M, G, t],
        at: tkl.Memory[M, G, tkl.i32],
        p: tkl.Memory[M, G, t],
    ):
        x = tkw.read(a)
        best, where = find(x, dim=N, block=True)
        tkw.write(best, v)
        tkw.write(where, at)
        tkw.write(tkw.prod(x, dim=N, block=True), p)

    return at_once if block else carried


@pytest.mark.parametrize("seed", range(16))
def test_places_do_not_depend_on_tiles(seed):
    """Elements are -1, 2 and, in integers, 3: products are exact, and many elements are equal."""
    r, rng = random.Random(seed), np.random.default_rng(seed)
    dtype, op, size = r.choice(("i32", "f32")), r.choice(("argmax", "argmin")), r.choice((1, 5, 33, 100))
    block, dynamic = r.random() < 0.4, r.random() < 0.5
    a = rng.choice((-1, 2, 3) if dtype == "i32" else (-1, 2), (3, size)).astype({"i32": "i4", "f32": "f4"}[dtype])

    def run(tile, target):
        subs = {} if dynamic else {M: 3, N: size}
        options = WaveCompileOptions(subs=subs, dynamic_symbols=[M, N] if dynamic else [], target=target)
        out = np.zeros(3, a.dtype), np.zeros(3, "i4"), np.zeros(3, a.dtype)
        wave_compile(options, search(op, dtype, block, tile))(a, *out)
        return out

    right = run(size, "eval")
    np.testing.assert_array_equal(right[1], getattr(np, op)(a, axis=1))
    np.testing.assert_array_equal(right[2], np.prod(a, axis=1, dtype=a.dtype))
    for tile in r.sample([t for t in (1, 3, 8, 24, 64, 128, 136) if not block or t >= size], 2):
        for target in r.sample(TARGETS, 2):
            for got, want in zip(run(tile, target), right):
                np.testing.assert_array_equal(got, want, f"{op} on {target} in tiles of {tile}")


# ---- corners -------------------------------------------------------------------------------------


def rows(tile, *more):
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: tile, K: 4}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.WorkgroupConstraint(N, tile, 1),
        tkw.WaveConstraint(M, 1),
        *more,
    ]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", (1, 3, 17, 40))
def test_topk_finds_what_exists(target, size):
    @tkw.wave(rows(64))
    def kernel(
        a: tkl.Memory[M, N, G, tkl.f32],
        v: tkl.Memory[M, K, G, tkl.f32],
        at: tkl.Memory[M, K, G, tkl.i32],
    ):
        values, places = tkw.topk(tkw.read(a), K, dim=N)
        tkw.write(values, v)
        tkw.write(places, at)

    a = -np.arange(1, 2 * size + 1, dtype="f4").reshape(2, size)
    a[1, 0] = np.nan
    values, places = np.full((2, 4), -np.inf, "f4"), np.full((2, 4), -1, "i4")
    for row in range(2):
        order = sorted(range(size), key=lambda j: (np.isnan(a[row, j]), j))[:4]
        values[row, : len(order)], places[row, : len(order)] = a[row, order], order
    v, at = np.zeros((2, 4), "f4"), np.zeros((2, 4), "i4")
    options = WaveCompileOptions(subs={K: 4}, dynamic_symbols=[M, N], target=target)
    wave_compile(options, kernel)(a, v, at)
    np.testing.assert_array_equal(v, values)
    np.testing.assert_array_equal(at, places)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype, least, most", (("f32", -np.inf, np.inf), ("i64", -(2**63), 2**63 - 1)))
def test_nothing_is_left(target, dtype, least, most):
    """Rows of no elements: the neutral elements."""
    t = getattr(tkl, dtype)

    @tkw.wave(rows(16))
    def kernel(n: tkl.i32, b: tkl.Memory[M, G, t], c: tkl.Memory[M, G, t], d: tkl.Memory[M, G, t]):
        tkw.set_symbol(N, n)
        x = tkl.Register[M, N, t](5)
        tkw.write(tkw.sum(x, dim=N), b)
        tkw.write(tkw.max(x, dim=N), c)
        tkw.write(tkw.min(x, dim=N), d)

    b, c, d = np.ones((3, 2), "f4" if dtype == "f32" else "i8")
    kernel = wave_compile(WaveCompileOptions(subs={M: 2, N: 16}, target=target), kernel)
    for n, total, largest, smallest in ((0, 0, least, most), (3, 15, 5, 5)):
        kernel(n, b, c, d)
        assert (b == total).all() and (c == largest).all() and (d == smallest).all(), (n, b, c, d)


@pytest.mark.parametrize("target", TARGETS)
def test_constants_made_before_their_size_is_known(target):
    """As in the public prefill attention: only `set_symbol` defines the length of a row."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    packed = tkw.IndexMapping(num_iterators=2, inputs={K: j + tkl.sym.AT}, outputs={M: i, N: j})

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 0, N: TILE}),
            tkw.WorkgroupConstraint(M, 1, 0),
            tkw.TilingConstraint(N, TILE),
        ]
    )
    def kernel(
        a: tkl.Memory[K, G, tkl.i32, tkl.MemoryLayout(shape=[150])],
        start: tkl.Memory[M, G, tkl.i32],
        length: tkl.Memory[M, G, tkl.i32],
        b: tkl.Memory[M, G, tkl.i32],
    ):
        two, three = tkl.Register[M, N, tkl.i32](2), tkl.Register[M, N, tkl.i32](3)
        tkw.set_symbol(tkl.sym.AT, tkw.read(start))
        tkw.set_symbol(N, tkw.read(length))

        @tkw.iterate(N, init_args=[tkl.Register[M, tkl.i32](0)])
        def loop(total):
            x = tkw.read(a, mapping=packed)
            return tkw.sum(tkw.select(x > two, x, three), total, dim=N)

        tkw.write(loop, b)

    lengths = np.array([0, 70, 1, 64, 15], "i4")
    starts = np.cumsum([0, *lengths[:-1]]).astype("i4")
    a, b = np.arange(150, dtype="i4") % 7, np.zeros(5, "i4")
    parts = [a[s : s + n] for s, n in zip(starts, lengths)]
    wave_compile(WaveCompileOptions(subs={M: 5, TILE: 16}, target=target), kernel)(a, starts, lengths, b)
    assert b.tolist() == [int(np.where(part > 2, part, 3).sum()) for part in parts]


@pytest.mark.parametrize("target", TARGETS)
def test_both_operands_of_a_product(target):
    """1/0 in the padding of one operand, 0 in that of the other: their product would be NaN."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, 16, 0),
            tkw.WorkgroupConstraint(N, 16, 1),
            tkw.TilingConstraint(K, 16),
        ]
    )
    def kernel(
        a: tkl.Memory[M, K, G, tkl.f16],
        b: tkl.Memory[N, K, G, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(tkw.reciprocal(tkw.read(a)), tkw.read(b), acc)

        tkw.write(loop, c)

    a, b = np.full((5, 21), 0.5, "f2"), np.ones((7, 21), "f2")
    c = np.zeros((5, 7), "f4")
    wave_compile(WaveCompileOptions(dynamic_symbols=[M, N, K], target=target), kernel)(a, b, c)
    np.testing.assert_array_equal(c, np.full((5, 7), 42, "f4"))


@pytest.mark.parametrize("target", TARGETS)
def test_what_bounds_leave_out_counts(target):
    """Elements that exist but are outside `bounds` are `other`, or 0; padding is neither."""

    @tkw.wave(rows(16))
    def kernel(
        a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]
    ):
        tkw.write(tkw.max(tkw.read(a, bounds={N: 4}), dim=N), b)
        tkw.write(tkw.sum(tkw.read(a, bounds={N: 4}, other=2.0), dim=N), c)

    a = np.full((2, 10), -3, "f4")
    b, c = np.ones((2, 2), "f4")
    wave_compile(WaveCompileOptions(dynamic_symbols=[M, N], target=target), kernel)(a, b, c)
    assert (b == 0).all() and (c == -12 + 6 * 2).all()


def test_other_is_a_number():
    @tkw.wave(rows(16))
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(a, other="nothing at all"), b)

    with pytest.raises((CompileError, TypeError)):
        wave_compile(WaveCompileOptions(subs={M: 2, N: 16}, target="eval"), kernel)
