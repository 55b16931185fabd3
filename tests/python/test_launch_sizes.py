"""Which sizes a launch uses for symbols, and tensors that are larger or smaller."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, LaunchError, WaveCompileOptions, _wave, wave_compile
from wave_lang._wave import Launchable
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.wave.machine import devices

S, M, N, K = tkl.sym.S, tkl.sym.M, tkl.sym.N, tkl.sym.K
TARGETS = ["eval", "cpu", "sim:sm_90a", "sim:sm_80", "sim:gfx942"]
everywhere = pytest.mark.parametrize("target", TARGETS)


def free(rank):
    return tkl.MemoryLayout(shape=[None] * rank)


def compiled(kernel, target, dynamic=(), subs={}, **options):
    o = WaveCompileOptions(subs=subs, dynamic_symbols=list(dynamic), target=target, **options)
    return wave_compile(o, kernel)


def numbers(*shape, dtype="f4", seed=0):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


# ---- tensors with a free layout


def tiles(m=4, n=32):
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: m, N: n}),
        tkw.WorkgroupConstraint(M, m, 1),
        tkw.WorkgroupConstraint(N, n, 0),
    ]


@tkw.wave(tiles())
def free_first(x: tkl.Memory[M, N, G, tkl.f32, free(2)], y: tkl.Memory[M, N, G, tkl.f32]):
    tkw.write(tkw.read(x) + 1.0, y)


@tkw.wave(tiles())
def free_last(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32, free(2)]):
    tkw.write(tkw.read(x) + 1.0, y)


@everywhere
@pytest.mark.parametrize("dynamic", [(M, N), (M,), ()])
@pytest.mark.parametrize("larger", [(7, 77), (3, 77), (7, 45)])
def test_free_operand_is_larger(target, dynamic, larger):
    """Its symbols come from the other tensor, whichever is first."""
    bound = {s: v for s, v in ((M, 3), (N, 45)) if s not in dynamic}
    x, y = numbers(*larger), np.zeros((3, 45), "f4")
    compiled(free_first, target, dynamic, bound)(x, y)
    assert np.array_equal(y, x[:3, :45] + 1)
    x, y = numbers(3, 45), np.zeros(larger, "f4")
    compiled(free_last, target, dynamic, bound)(x, y)
    want = np.zeros(larger, "f4")
    want[:3, :45] = x + 1
    assert np.array_equal(y, want)


@everywhere
def test_free_operand_is_smaller(target):
    """Elements outside it are 0 when read and are not written."""
    x, y = numbers(2, 40), np.full((3, 45), 9, "f4")
    compiled(free_first, target, (M, N))(x, y)
    assert np.array_equal(y, np.pad(x, ((0, 1), (0, 5))) + 1)
    x, room = numbers(3, 45), np.full((4, 40), 9, "f4")
    compiled(free_last, target, (M, N))(x, room[1:3])
    assert np.array_equal(room[1:3], x[:2, :40] + 1)
    assert (room[[0, 3]] == 9).all()


@everywhere
def test_only_free_tensors(target):
    """The smallest counts: each has an element for every coordinate."""

    @tkw.wave(tiles())
    def add(
        x: tkl.Memory[M, N, G, tkl.f32, free(2)],
        y: tkl.Memory[M, N, G, tkl.f32, free(2)],
        z: tkl.Memory[M, N, G, tkl.f32, free(2)],
    ):
        tkw.write(tkw.read(x) + tkw.read(y), z)

    x, y, z = numbers(9, 40), numbers(5, 50, seed=1), np.zeros((7, 60), "f4")
    compiled(add, target, (M, N))(x, y, z)
    want = np.zeros_like(z)
    want[:5, :40] = x[:5] + y[:, :40]
    assert np.array_equal(z, want)


@everywhere
@pytest.mark.parametrize("which", ["a", "b", "c", "abc"])
def test_free_operands_of_a_product(target, which):
    """Scratch memory for the largest batch: rows beyond the symbol's are neither read nor
    written."""

    def memory(name, *dims):
        dtype = tkl.f32 if name == "c" else tkl.f16
        return tkl.Memory[(*dims, G, dtype, *([free(2)] if name in which else []))]

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 32, 1),
            tkw.TilingConstraint(K, 16),
            tkw.WaveConstraint(M, 16),
        ]
    )
    def gemm(a: memory("a", M, K), b: memory("b", N, K), c: memory("c", M, N)):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    m, n, k = 35, 17, 39
    pad = lambda name, *shape: [v + 8 * (name in which) for v in shape]  # noqa: E731
    a, b = numbers(*pad("a", m, k), dtype="f2"), numbers(*pad("b", n, k), dtype="f2", seed=1)
    c = np.full(pad("c", m, n), 9, "f4")
    if which == "abc":  # only free layouts: the smallest
        m, n, k = (min(x) for x in ((len(a), len(c)), (len(b), c.shape[1]), (a.shape[1], b.shape[1])))
    compiled(gemm, target, (M, N, K))(a, b, c)
    want = np.full_like(c, 9)
    want[:m, :n] = a[:m, :k].astype("f8") @ b[:n, :k].astype("f8").T
    assert np.array_equal(c, want)


@everywhere
def test_element_behind_the_symbol(target):
    """Offsets with S + 1 elements: the next one is read through a mapping, and is valid."""
    i = tkw.IndexMapping.iterator(0)
    following = tkw.IndexMapping(num_iterators=1, inputs={S: i + 1}, outputs={S: i})

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={S: 64}),
            tkw.WorkgroupConstraint(S, 64, 0),
        ]
    )
    def lengths(
        offsets: tkl.Memory[S, G, tkl.i32, free(1)], length: tkl.Memory[S, G, tkl.i32]
    ):
        tkw.write(tkw.read(offsets, mapping=following) - tkw.read(offsets), length)

    offsets = np.cumsum(np.arange(71), dtype="i4")
    got = np.zeros(70, "i4")
    compiled(lengths, target, (S,))(offsets, got)
    assert np.array_equal(got, np.diff(offsets))


@everywhere
@pytest.mark.parametrize("dynamic", [(M, N), (N,), ()])
def test_symbols_of_shapes_need_not_be_listed(target, dynamic):
    x, y = numbers(3, 45), np.zeros((3, 45), "f4")
    compiled(free_first, target, dynamic)(x, y)
    assert np.array_equal(y, x + 1)


@everywhere
@pytest.mark.parametrize("options", [{"subs": {M: 3}}, {"dynamic": (M,)}])
def test_a_symbol_has_one_value(target, options):
    @tkw.wave(tiles())
    def kernel(M: tkl.SymbolBind[tkl.i32], y: tkl.Memory[K, N, G, tkl.i32]):
        tkw.write(tkl.Register[N, tkl.i32](tkl.sym.M), y)

    with pytest.raises(CompileError, match="E0208.*argument `M` gives it its value"):
        compiled(kernel, target, **options)


@everywhere
def test_a_symbol_that_is_not_negative(target):
    """The compiler relies on it; a launch does not."""

    @tkw.wave(tiles())
    def kernel(L: tkl.SymbolBind[tkl.i32], y: tkl.Memory[M, N, G, tkl.i32]):
        tkw.write(tkl.Register[M, N, tkl.i32](tkl.Max(tkl.sym.L, 0) + tkl.sym.L % 4), y)

    made, y = compiled(kernel, target, (M, N)), np.zeros((1, 2), "i4")
    for value in 6, 0:
        made(value, y)
        assert (y == value + value % 4).all()
    for _ in range(2):
        with pytest.raises(LaunchError, match="E0702.*`L` is -3, but the symbol that it defines"):
            made(-3, y)
    made(6, y)
    assert (y == 8).all()


SIGNED = """kernel @signed(%n: i32 binds signed(L), %y: mem<N, i32>)
  workgroup N by 8 on 0 iters Max(signed(L) + 5, 0); hardware threads 64, vector {N: 8}; dynamic N
{
  %v = fill Max(signed(L), 0)*10 + Mod(signed(L), 4) : tile<N, i32>
  write %v, %y
}
"""


@pytest.mark.parametrize("value", [-3, -5, -9, 7])
@pytest.mark.parametrize("way", ["eval", "cpu"])
def test_a_symbol_that_may_be_negative(way, value):
    kernel, y = _wave.parse(SIGNED, "signed.wave")[0], np.full(64, 99, "i4")
    if way == "eval":
        kernel.eval((value, y))
    else:
        if not devices("cpu"):
            pytest.skip("there is no libLLVM")
        program = Launchable()
        program._bind(kernel)
        program._use(kernel.compile(target="cpu", cache=-1))
        program(value, y)
    written = 8 * max(value + 5, 0)
    assert (y[:written] == max(value, 0) * 10 + value % 4).all() and (y[written:] == 99).all()


@everywhere
def test_size_as_a_multiple(target):
    """A tensor of 2*M rows defines M, if no other does; an odd size is an error."""

    @tkw.wave(tiles())
    def pairs(x: tkl.Memory[2 * M, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32, free(2)]):
        tkw.write(tkl.Register[M, N, tkl.f32](3.0), y)

    kernel = compiled(pairs, target, (M, N))
    y = np.zeros((9, 40), "f4")
    kernel(numbers(10, 33), y)
    assert (y[:5, :33] == 3).all() and y.sum() == 3 * 5 * 33
    with pytest.raises(CompileError, match="E0702.*`x` has size 11 along `2\\*M`, expected 10"):
        kernel(numbers(11, 33), y)


@everywhere
def test_symbols_that_are_set_have_no_size(target):
    """A symbol that the kernel sets does not change the sizes of the tensors."""

    @tkw.wave(tiles())
    def shorter(x: tkl.Memory[M, N, G, tkl.f32, free(2)], y: tkl.Memory[M, N, G, tkl.f32]):
        tkw.set_symbol(M, tkw.scalar(2, tkl.i32))
        tkw.write(tkw.read(x), y)

    x, y = numbers(9, 40), np.zeros((4, 40), "f4")
    compiled(shorter, target, (M, N))(x, y)
    assert np.array_equal(y[:2], x[:2]) and not y[2:].any()


@everywhere
def test_half_of_an_odd_size(target):
    @tkw.wave(tiles(4, 32))
    def halves(x: tkl.Memory[M, N, G, tkl.i8], y: tkl.Memory[M, N / 2, G, tkl.i32]):
        tkw.write(tkl.Register[M, N / 2, tkl.i32](7), y)

    kernel, y = compiled(halves, target, (M, N)), np.zeros((3, 20), "i4")
    kernel(numbers(3, 40, dtype="i1"), y)
    assert (y == 7).all()
    for columns in 20, 21:
        with pytest.raises(LaunchError, match="E0702.*`y` has size .*`N/2` is not an integer"):
            kernel(numbers(3, 41, dtype="i1"), np.zeros((3, columns), "i4"))


# ---- tensors that disagree


def lengths(layout=()):
    """Offsets with S + 1 elements, declared as S: the one after the last is read by a mapping."""
    i = tkw.IndexMapping.iterator(0)
    following = tkw.IndexMapping(num_iterators=1, inputs={S: i + 1}, outputs={S: i})

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={S: 64}),
            tkw.WorkgroupConstraint(S, 64, 0),
        ]
    )
    def lengths(
        offsets: tkl.Memory[(S, G, tkl.i32, *layout)], length: tkl.Memory[S, G, tkl.i32]
    ):
        tkw.write(tkw.read(offsets, mapping=following) - tkw.read(offsets), length)

    return lengths


@everywhere
@pytest.mark.parametrize("size", [1, 63, 64, 70, 200])
def test_smallest_size_counts(target, size):
    offsets = np.cumsum(np.arange(size + 1), dtype="i4")
    got = np.full(size, -1, "i4")
    compiled(lengths(), target, (S,), sizes="smallest")(offsets, got)
    assert np.array_equal(got, np.diff(offsets))
    room = np.full(size + 6, -1, "i4")  # the other way round: nothing after S is written
    compiled(lengths(), target, (S,), sizes="smallest")(offsets, room)
    want = np.full(size + 6, -1, "i4")
    want[: size + 1] = np.diff(np.append(offsets, 0))  # reads after the end of a tensor give 0
    assert np.array_equal(room, want)


@everywhere
def test_disagreement_is_an_error_with_a_hint(target):
    offsets, got = np.zeros(9, "i4"), np.zeros(8, "i4")
    with pytest.raises(LaunchError, match="E0702.*`length` has size 8 along `S`, expected 9") as e:
        compiled(lengths(), target, (S,))(offsets, got)
    hint = e.value.diagnostics[0].hint
    assert "MemoryLayout(shape=[None])" in hint and 'sizes="smallest"' in hint
    with pytest.raises(LaunchError, match="E0702.*`offsets` has size 9 along `S`, expected 8") as e:
        compiled(lengths(), target, (), {S: 8})(offsets, got)
    hint = e.value.diagnostics[0].hint
    assert "MemoryLayout(shape=[None])" in hint and "sizes" not in hint
    compiled(lengths([free(1)]), target, (), {S: 8})(offsets, got)  # what the hint says


@everywhere
def test_smallest_sizes_of_a_product(target):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 32, 1),
            tkw.TilingConstraint(K, 16),
            tkw.WaveConstraint(M, 16),
        ]
    )
    def gemm(
        a: tkl.Memory[M, K, G, tkl.f16],
        b: tkl.Memory[N, K, G, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    kernel = compiled(gemm, target, (M, N, K), sizes="smallest")
    for (m1, k1), (n1, k2), (m2, n2) in (
        ((40, 39), (24, 45), (35, 17)),
        ((35, 64), (17, 33), (64, 30)),
        ((32, 32), (32, 32), (32, 32)),
    ):
        a, b = numbers(m1, k1, dtype="f2"), numbers(n1, k2, dtype="f2", seed=1)
        c = np.full((m2, n2), 9, "f4")
        kernel(a, b, c)
        m, n, k = min(m1, m2), min(n1, n2), min(k1, k2)
        want = np.full_like(c, 9)
        want[:m, :n] = a[:m, :k].astype("f8") @ b[:n, :k].astype("f8").T
        assert np.array_equal(c, want)


@everywhere
def test_smallest_size_of_scales(target):
    """One tensor has a 32nd of a dimension."""

    @tkw.wave(tiles(4, 32))
    def scaled(x: tkl.Memory[M, N, G, tkl.f32], s: tkl.Memory[M, N / 32, G, tkl.f32]):
        tkw.write(tkw.read(x) + 1.0, x)

    for (m, n), (m2, parts) in (((5, 70), (4, 2)), ((4, 64), (6, 3))):
        x, s = numbers(m, n), numbers(m2, parts)
        want = x.copy()
        want[: min(m, m2), : min(n, 32 * parts)] += 1
        compiled(scaled, target, (M, N), sizes="smallest")(x, s)
        assert np.array_equal(x, want)


def test_sizes_is_one_of_two():
    with pytest.raises(ValueError, match="sizes must be"):
        compiled(lengths(), "eval", (S,), sizes="largest")


# ---- launch mistakes


@everywhere
def test_mistakes_have_one_class(target):
    kernel = compiled(free_last, target, (M, N))
    good = numbers(3, 40)
    for x, y in ((good, numbers(3)), (good.astype("f8"), good), (good, good.astype("i4"))):
        with pytest.raises(LaunchError, match="E0702"):
            kernel(x, y)
    with pytest.raises(TypeError, match="takes 2 arguments"):
        kernel(good)
    with pytest.raises(TypeError, match="must be a tensor"):
        kernel(good, 3)


# ---- several devices


@everywhere
@pytest.mark.parametrize("dynamic", [False, True])
def test_several_devices_are_refused(target, dynamic):
    """One device would have only a part of a dimension: that is an error, not half a result."""
    part = tkl.sym.PART
    constraints = [*tiles(), tkw.DeviceConstraint(M, part, 0)]

    @tkw.wave(constraints)
    def copy(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(x), y)

    bound = {part: 5, N: 40} | ({} if dynamic else {M: 10})
    with pytest.raises(CompileError, match="E0215.*`M` is split across devices") as error:
        compiled(copy, target, (M,) if dynamic else (), bound, num_devices=2)
    assert error.value.diagnostics[0].line  # of the constraint
    x, y = numbers(10, 40), np.zeros((10, 40), "f4")
    compiled(copy, target, (M,) if dynamic else (), bound | {part: M if dynamic else 16})(x, y)
    assert np.array_equal(x, y)


# ---- symbols that tensors have only through `subs`

P = tkl.sym.P


@everywhere
@pytest.mark.parametrize("divided", [False, True])
@pytest.mark.parametrize(
    "value, subs, dynamic",
    [
        (21, {N: P, M: 3}, [P]),
        (10, {N: 2 * P + 1}, [M, P]),
        (4, {N: K * 4 + 1, K: P + 1}, [M, P]),
        (3, {M: P, N: P + 18}, [P]),
    ],
)
def test_a_symbol_that_follows_from_a_bound_one(target, divided, value, subs, dynamic):
    rows = tiles(1, 32) if divided else tiles(1, 32)[:-1]

    @tkw.wave(rows)
    def kernel(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32]):
        p = tkw.cast(tkl.Register[M, N, tkl.i32](P), tkl.f32)
        tkw.write(tkw.read(x) + p, y)

    x, y = numbers(3, 21), np.zeros((3, 21), "f4")
    made = compiled(kernel, target, dynamic, subs)
    made(x, y)
    assert np.array_equal(y, x + value)


@everywhere
def test_a_size_that_a_bound_symbol_never_has(target):
    @tkw.wave(tiles())
    def kernel(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(x), y)

    made = compiled(kernel, target, [M, P], {N: 2 * P + 2})
    for n, expected in ((33, 32), (0, 2)):
        with pytest.raises(LaunchError, match=f"E0702.*size {n} along `N`, expected {expected}"):
            made(np.zeros((3, n), "f4"), np.zeros((3, n), "f4"))
