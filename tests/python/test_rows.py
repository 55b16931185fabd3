"""Rows of dynamic length that one workgroup reduces: nothing divides N, and N is an argument.

Such a kernel is compiled when it is called: for each power of two of N, or for each N if the
division of the kernel depends on the value itself. Results are compared with NumPy in float64.
"""

import threading

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, LaunchError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G, THREAD_0

B, M, N, K = tkl.sym.B, tkl.sym.M, tkl.sym.N, tkl.sym.K
TARGETS = ["eval", "cpu", "sim:sm_90a", "sim:sm_80", "sim:gfx942"]
if not any(device.kind == "cpu" for device in _wave.devices()):
    TARGETS.remove("cpu")
SIZES = (0, 1, 7, 64, 1000, 1025, 5000)
EPSILON = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
everywhere = pytest.mark.parametrize("target", TARGETS)
compiles = pytest.mark.parametrize("target", TARGETS[1:])
on_cpu = pytest.mark.skipif("cpu" not in TARGETS, reason="there is no libLLVM")


def compiled(kernel, target, dynamic=(M, N), **options):
    return wave_compile(
        WaveCompileOptions(dynamic_symbols=list(dynamic), target=target, **options), kernel
    )


def said(kernel):
    return [r for r in kernel.remarks if getattr(r, "code", "") == "R0613"]


def rows(*more, tile=2):
    """Each workgroup has `tile` whole rows."""
    return [tkw.HardwareConstraint(threads_per_wave=64), tkw.WorkgroupConstraint(M, tile, 0), *more]


# ---- numbers


def to_bf16(x):
    bits = np.ascontiguousarray(x, "f4").view("u4")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("u2")


def stored(dtype, x):
    if dtype == "bf16":
        return to_bf16(x)
    return np.ascontiguousarray(x, {"f32": "f4", "f16": "f2", "i32": "i4"}[dtype])


def loaded(dtype, x):
    if dtype == "bf16":
        return (x.astype("u4") << 16).view("f4").astype("f8")
    return x.astype("f8")


def sample(dtype, shape, seed):
    r = np.random.default_rng(seed)
    return stored(dtype, r.integers(-50, 50, shape) if dtype == "i32" else r.standard_normal(shape))


def near(got, expected, scale, dtype):
    """Sums of n terms are rounded at most n times, in a tree mostly."""
    bound = 8 * EPSILON[dtype] * scale + 64 * EPSILON["f32"] * scale
    wrong = ~(np.abs(got - expected) <= bound)
    assert not wrong.any(), (np.argwhere(wrong)[0], got[wrong][0], expected[wrong][0])


# ---- rows of every length and type


def softmax(t, *more, tile=2):
    @tkw.wave(rows(*more, tile=tile))
    def softmax(x: tkl.Memory[M, N, G, t], y: tkl.Memory[M, N, G, t]):
        v = tkw.cast(tkw.read(x), tkl.f32)
        e = tkw.exp(v - tkw.broadcast(tkw.max(v, dim=N), [M, N]))
        tkw.write(tkw.cast(e / tkw.broadcast(tkw.sum(e, dim=N), [M, N]), t), y)

    return softmax


def softmax_of(x):
    e = np.exp(x - x.max(1, keepdims=True)) if x.size else x
    return e / e.sum(1, keepdims=True)


@everywhere
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_softmax(target, dtype):
    kernel = compiled(softmax(getattr(tkl, dtype)), target)
    for n in SIZES:
        x = sample(dtype, (3, n), n)
        y = sample(dtype, (3, n), 9)
        kernel(x, y)
        near(loaded(dtype, y), softmax_of(loaded(dtype, x)), 1, dtype)


@everywhere
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_rms_norm(target, dtype):
    """The mean is over N elements, whatever the tile."""
    t = getattr(tkl, dtype)

    @tkw.wave(rows(tile=1))
    def rms_norm(
        x: tkl.Memory[M, N, G, t], w: tkl.Memory[N, G, t], y: tkl.Memory[M, N, G, tkl.f32]
    ):
        v = tkw.cast(tkw.read(x), tkl.f32)
        count = tkw.cast(tkw.scalar(N, tkl.i32), tkl.f32)
        scale = tkw.rsqrt(tkw.sum(v * v, dim=N) / tkw.broadcast(count, [M]) + 1e-5)
        weight = tkw.broadcast(tkw.cast(tkw.read(w), tkl.f32), [M, N])
        tkw.write(v * tkw.broadcast(scale, [M, N]) * weight, y)

    kernel = compiled(rms_norm, target)
    for n in SIZES:
        x, w, y = sample(dtype, (3, n), n), sample(dtype, (n,), 5), np.full((3, n), 9, "f4")
        kernel(x, w, y)
        v, weight = loaded(dtype, x), loaded(dtype, w)
        scale = 1 / np.sqrt((v * v).sum(1, keepdims=True) / max(n, 1) + 1e-5)
        near(y, v * scale * weight, np.abs(v * scale * weight) + 1e-3, "f32")


@everywhere
def test_layer_norm(target):
    """The second reduction depends on the first: padding that is neutral for one is not for the
    other."""

    @tkw.wave(rows())
    def layer_norm(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32]):
        v = tkw.read(x)
        count = tkw.broadcast(tkw.cast(tkw.scalar(N, tkl.i32), tkl.f32), [M])
        far = v - tkw.broadcast(tkw.sum(v, dim=N) / count, [M, N])
        variance = tkw.sum(far * far, dim=N) / count
        tkw.write(far * tkw.broadcast(tkw.rsqrt(variance + 1e-5), [M, N]), y)

    kernel = compiled(layer_norm, target)
    for n in SIZES:
        x, y = sample("f32", (5, n), n) + 7, np.full((5, n), 9, "f4")
        kernel(x, y)
        if n:
            v = x.astype("f8")
            far = v - v.mean(1, keepdims=True)
            near(y, far / np.sqrt((far * far).mean(1, keepdims=True) + 1e-5), 20, "f32")


@everywhere
@pytest.mark.parametrize("dtype", ["f32", "f16", "i32"])
def test_argmax(target, dtype):
    """Negative numbers: padding of 0 would be the largest element."""
    t = getattr(tkl, dtype)

    @tkw.wave(rows())
    def largest(
        x: tkl.Memory[M, N, G, t], v: tkl.Memory[M, G, t], i: tkl.Memory[M, G, tkl.i32]
    ):
        value, index = tkw.argmax(tkw.read(x), dim=N)
        tkw.write(value, v)
        tkw.write(index, i)

    kernel = compiled(largest, target)
    for n in SIZES:
        x = stored(dtype, -np.abs(loaded(dtype, sample(dtype, (3, n), n))) - 1)
        v, i = sample(dtype, (3,), 1), np.full(3, 77, "i4")
        kernel(x, v, i)
        if n:
            assert np.array_equal(i, x.argmax(1)) and np.array_equal(v, x.max(1))
        else:
            assert (i == -1).all()


@everywhere
@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_nothing_to_combine(target, dtype):
    """Every reduction of an empty row gives its neutral element, and the result is written."""
    t = getattr(tkl, dtype)

    @tkw.wave(rows())
    def reduce(
        x: tkl.Memory[M, N, G, t], a: tkl.Memory[M, G, t], b: tkl.Memory[M, G, t], c: tkl.Memory[M, G, t]
    ):
        v = tkw.read(x)
        tkw.write(tkw.sum(v, dim=N), a)
        tkw.write(tkw.max(v, dim=N), b)
        tkw.write(tkw.min(v + tkl.Register[M, N, t](1), dim=N), c)

    kernel = compiled(reduce, target)
    lowest, highest = (-np.inf, np.inf) if dtype == "f32" else (-(2**31), 2**31 - 1)
    for n in SIZES:
        x = sample(dtype, (3, n), n)
        a, b, c = (stored(dtype, np.full(3, 99)) for _ in "abc")
        kernel(x, a, b, c)
        assert np.allclose(a, x.sum(1), rtol=1e-4, atol=1e-3)
        assert np.array_equal(b, x.max(1) if n else np.full(3, lowest))
        assert np.array_equal(c, (x + 1).min(1) if n else np.full(3, highest))


# ---- all kinds of kernels


def integers(*shape, seed=0):
    """Sums of these are exact in any order."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype("f4")


def check(kernel, target, calls, expected, dynamic=(M, N)):
    """`calls` are arguments, the last `len(expected(...))` of them outputs."""
    made = compiled(kernel, target, dynamic)
    for args in calls:
        right = expected(*args)
        out = args[len(args) - len(right) :]
        for array in out:
            array[...] = 77
        made(*args)
        for got, want in zip(out, right):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    return made


@everywhere
@pytest.mark.parametrize("waves", [2, 4])
def test_waves_that_divide_the_row(target, waves):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64),
            tkw.WorkgroupConstraint(M, 1, 1),
            tkw.WorkgroupConstraint(N, N, 0),
            tkw.WaveConstraint(N, tkl.ceiling(N / waves)),
        ]
    )
    def sums(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
        tkw.write(tkw.sum(tkw.read(x), dim=N, block=True), y)

    calls = [(integers(3, n), np.zeros(3, "f4")) for n in SIZES[1:]]
    check(sums, target, calls, lambda x, y: [x.sum(1)])


@everywhere
def test_waves_of_the_hardware(target):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, waves_per_block=(4, 1, 1)),
            tkw.WorkgroupConstraint(M, 4, 0),
        ]
    )
    def sums(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
        tkw.write(tkw.sum(tkw.read(x), dim=N), y)

    calls = [(integers(5, n), np.zeros(5, "f4")) for n in SIZES]
    check(sums, target, calls, lambda x, y: [x.sum(1)])


@everywhere
def test_two_whole_dimensions(target):
    @tkw.wave([tkw.HardwareConstraint(threads_per_wave=64), tkw.WorkgroupConstraint(B, 1, 2)])
    def both(
        x: tkl.Memory[B, M, N, G, tkl.f32],
        y: tkl.Memory[B, N, G, tkl.f32],
        z: tkl.Memory[B, M, G, tkl.f32],
    ):
        v = tkw.read(x)
        tkw.write(tkw.sum(v, dim=M), y)
        tkw.write(tkw.sum(v, dim=N), z)

    shapes = [(1, 1), (3, 7), (33, 65), (5, 0), (0, 5)]
    calls = [(integers(2, m, n), np.zeros((2, n), "f4"), np.zeros((2, m), "f4")) for m, n in shapes]
    check(both, target, calls, lambda x, y, z: [x.sum(1), x.sum(2)], dynamic=(B, M, N))


@everywhere
def test_whole_outside_of_a_loop_over_it(target):
    """Inside the loop, the loop's tile applies."""

    @tkw.wave(rows(tkw.TilingConstraint(N, 32)))
    def normalise(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32]):
        largest = tkw.max(tkw.read(x), dim=N)
        zero = tkl.Register[M, tkl.f32](0.0)

        @tkw.iterate(N, init_args=[zero])
        def total(acc):
            return tkw.sum(tkw.read(x) - tkw.broadcast(largest, [M, N]), acc, dim=N)

        tkw.write(tkw.read(x) * tkw.broadcast(total, [M, N]), y)

    def expected(x, y):
        return [x * (x - x.max(1, keepdims=True)).sum(1, keepdims=True) if x.size else x]

    check(normalise, target, [(integers(3, n), np.zeros((3, n), "f4")) for n in (0, 1, 33, 1025)], expected)


@everywhere
def test_waves_that_share_a_loop(target):
    """The row is whole outside the loop, and waves divide the tiles inside it."""

    @tkw.wave(rows(tkw.TilingConstraint(N, 64), tkw.WaveConstraint(N, 16)))
    def shifted(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
        largest = tkw.max(tkw.read(x), dim=N)

        @tkw.iterate(N, init_args=[tkl.Register[M, tkl.f32](0.0)])
        def total(acc):
            return tkw.sum(tkw.read(x) - tkw.broadcast(largest, [M, N]), acc, dim=N)

        tkw.write(total, y)

    calls = [(integers(3, n), np.zeros(3, "f4")) for n in (1, 33, 300)]
    check(shifted, target, calls, lambda x, y: [(x - x.max(1, keepdims=True)).sum(1)])


@everywhere
def test_product_over_all_of_k(target):
    """Operands end within an instruction, and infinities follow them."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, 16, 0),
            tkw.WorkgroupConstraint(N, 16, 1),
        ]
    )
    def product(
        a: tkl.Memory[M, K, G, tkl.f16],
        b: tkl.Memory[N, K, G, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        left = tkw.reciprocal(tkw.read(a))  # of padding that is 0, infinity
        tkw.write(tkw.mma(left, tkw.read(b), tkl.Register[M, N, tkl.f32](0.0)), c)

    def args(k):
        a = 2.0 ** np.random.default_rng(k).integers(-2, 3, (17, k))
        return a.astype("f2"), integers(20, k).astype("f2"), np.zeros((17, 20), "f4")

    def expected(a, b, c):
        return [(1 / a.astype("f8")) @ b.astype("f8").T]

    check(product, target, [args(k) for k in (0, 1, 7, 16, 33, 100)], expected, dynamic=(M, N, K))


@everywhere
def test_scan(target):
    @tkw.wave(rows())
    def scan(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.cumsum(tkw.read(x), dim=N), y)

    calls = [(integers(3, n), np.zeros((3, n), "f4")) for n in SIZES]
    check(scan, target, calls, lambda x, y: [x.cumsum(1)])


@everywhere
def test_writes_that_every_workgroup_agrees_on(target):
    """A constraint whose tile is the whole dimension does not make workgroups differ."""

    @tkw.wave(rows())
    def twice(
        x: tkl.Memory[N, G, tkl.f32], y: tkl.Memory[N, G, tkl.f32], z: tkl.Memory[M, N, G, tkl.f32]
    ):
        v = tkw.read(x)
        tkw.write(v + v, y)
        tkw.write(v, z)  # over all rows of the workgroup

    calls = [(integers(n), np.zeros(n, "f4"), np.zeros((5, n), "f4")) for n in (0, 1, 7, 100)]
    check(twice, target, calls, lambda x, y, z: [2 * x, np.broadcast_to(x, z.shape)])


@everywhere
def test_count_that_is_an_argument(target):
    """A symbol may also be a scalar argument."""

    count = tkl.sym.COUNT

    @tkw.wave(rows())
    def times(
        x: tkl.Memory[M, N, G, tkl.f32], COUNT: tkl.SymbolBind[tkl.i32], y: tkl.Memory[M, G, tkl.f32]
    ):
        ones = tkl.Register[M, count, tkl.f32](1.0)
        tkw.write(tkw.sum(tkw.read(x), dim=N) * tkw.sum(ones, dim=count), y)

    calls = [(integers(3, n), n + 2, np.zeros(3, "f4")) for n in (0, 1, 7, 100)]
    check(times, target, calls, lambda x, k, y: [x.sum(1) * k])


@everywhere
def test_other_layouts_of_tensors(target):
    """Transposed, backwards, with a stride, from an odd address."""
    made = compiled(softmax(tkl.f32), target)
    x = integers(9, 40) / 4
    for view in (x.T, x[:, ::-1], x[::2, ::3], x[1:, 3:], np.asfortranarray(x)):
        y = np.zeros(view.shape, "f4")
        made(view, y)
        np.testing.assert_allclose(y, softmax_of(view.astype("f8")), atol=1e-6)


@everywhere
def test_tensors_that_disagree(target):
    """With sizes="smallest" the rows are as long as the shorter tensor says."""

    @tkw.wave(rows())
    def add(
        a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]
    ):
        tkw.write(tkw.sum(tkw.read(a) * tkw.read(b), dim=N), y)

    made = compiled(add, target, sizes="smallest")
    a, b, y = integers(3, 70), integers(3, 41, seed=1), np.zeros(3, "f4")
    made(a, b, y)
    assert np.array_equal(y, (a[:, :41] * b).sum(1))


# ---- where the value itself matters


@everywhere
def test_tile_of_another_dimension(target):
    """Each workgroup sums N rows: with another tile they would be other rows."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64),
            tkw.WorkgroupConstraint(M, N, 0),
        ]
    )
    def blocks(x: tkl.Memory[M, N, G, tkl.i32], y: tkl.Memory[M, N, G, tkl.i32]):
        total = tkw.sum(tkw.read(x), dim=M, block=True)
        tkw.write(tkw.broadcast(total, [M, N]), y)

    def expected(x, y):
        parts = [x[i : i + x.shape[1]] for i in range(0, len(x), x.shape[1])]
        return [np.concatenate([np.broadcast_to(p.sum(0), p.shape) for p in parts])]

    calls = [(sample("i32", (3 * n - 1, n), n), np.zeros((3 * n - 1, n), "i4")) for n in (1, 3, 16, 20)]
    made = check(blocks, target, calls, expected)
    if target != "eval":
        (remark,) = said(made)
        assert "there is a program for each value of `N`" in remark.rendered


@compiles
def test_threads_that_are_observed(target):
    """The elements of a lane must not change with a larger tile."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: N}),
            tkw.WorkgroupConstraint(M, 1, 1),
            tkw.WorkgroupConstraint(N, N, 0),
            tkw.WaveConstraint(N, N),
        ]
    )
    def number(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32]):
        lane = tkw.cast(tkw.scalar(THREAD_0, tkl.i32), tkl.f32)
        tkw.write(tkw.read(x) + tkw.broadcast(lane, [M, N]), y)

    made, fixed = compiled(number, target), compiled(number, target, [M], subs={N: 128})
    x, y, z = integers(2, 128), np.zeros((2, 128), "f4"), np.zeros((2, 128), "f4")
    made(x, y)
    fixed(x, z)
    assert np.array_equal(y, z) and not np.array_equal(x, y)
    assert "for each value of `N`" in said(made)[0].rendered


@everywhere
def test_part_of_a_dimension(target):
    """K/32 of a larger K would be more."""

    @tkw.wave(rows())
    def scaled(
        x: tkl.Memory[M, K, G, tkl.f32], s: tkl.Memory[M, K / 32, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]
    ):
        tkw.write(tkw.sum(tkw.read(x), dim=K) + tkw.sum(tkw.read(s), dim=K / 32), y)

    calls = [(integers(3, k), integers(3, k // 32), np.zeros(3, "f4")) for k in (32, 96, 1024)]
    check(scaled, target, calls, lambda x, s, y: [x.sum(1) + s.sum(1)], dynamic=(M, K))


# ---- assumptions, logs, assertions


@everywhere
def test_assumptions(target):
    @tkw.wave(rows(tkw.Assumption(N % 4 < 1), tkw.Assumption(M <= 4)))
    def sums(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
        tkw.write(tkw.sum(tkw.read(x), dim=N), y)

    shapes = [(3, 4), (3, 7), (5, 100), (3, 1024), (5, 3)]
    calls = [(integers(m, n), np.zeros(m, "f4")) for m, n in shapes]
    check(sums, target, calls, lambda x, y: [x.sum(1)])
    strict = compiled(sums, target, strict=True)
    for m, n in ((3, 7), (5, 8)):
        with pytest.raises(LaunchError, match="E0709"):
            strict(integers(m, n), np.zeros(m, "f4"))
    x, y = integers(3, 8), np.zeros(3, "f4")
    strict(x, y)  # as others of its power of two were rejected
    assert np.array_equal(y, x.sum(1))


@everywhere
def test_logs_and_assertions(target):
    @tkw.wave(rows())
    def watched(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
        v = tkw.read(x)
        tkw.debug_log(v, label="v", printer=lambda *_: None)
        tkw.device_assert(v < tkl.Register[M, N, tkl.f32](50.0), "small")
        tkw.write(tkw.sum(v, dim=N), y)

    made = compiled(watched, target)
    for n in (0, 3, 100):
        x, y, logs = integers(3, n), np.zeros(3, "f4"), {}
        made(x, y, debug_logs=logs)
        assert np.array_equal(y, x.sum(1)) and np.array_equal(np.asarray(logs["v"]["value"]), x)
    with pytest.raises(LaunchError, match="E0714.*small .15 times"):
        made(integers(3, 5) + 100, np.zeros(3, "f4"))


# ---- long rows, and what cannot be compiled


@compiles
@pytest.mark.parametrize("waves", ["declared", "free"])
def test_long_rows(target, waves):
    """One wave could not hold them: the workgroup gets more, even if it declares one."""
    more = [tkw.WaveConstraint(M, 1)] if waves == "declared" else []
    made = compiled(softmax(tkl.f32, *more, tile=1), target)
    x, y = sample("f32", (2, 100_000), 1), np.zeros((2, 100_000), "f4")
    made(x, y)
    near(y, softmax_of(x.astype("f8")), 1e-3, "f32")


@compiles
def test_rows_that_are_too_long(target):
    """The call raises the error, at the right line, and other calls still work."""
    made = compiled(softmax(tkl.f32), target)
    x = np.zeros((1, 3_000_000), "f4")
    for _ in range(2):
        with pytest.raises(LaunchError, match="E0606.*3000000 elements, at most 1048576") as error:
            made(x, x.copy())
        (found,) = [d for d in error.value.diagnostics if d.severity == "error"]
        assert found.file == __file__ and found.line and "divide `N`" in found.hint
    x, y = sample("f32", (3, 33), 1), np.zeros((3, 33), "f4")
    made(x, y)
    near(y, softmax_of(x.astype("f8")), 1, "f32")


@on_cpu
def test_the_value_where_the_power_of_two_is_too_large():
    """16 rows of 2**18 elements need more memory than a CPU thread has; 16 of 140,000 do not."""
    made = compiled(softmax(tkl.f32, tile=16), "cpu")
    for n in (140_000, 140_001, 140_000):
        x, y = sample("f32", (16, n), n), np.zeros((16, n), "f4")
        made(x, y)
        near(y, softmax_of(x.astype("f8")), 1e-3, "f32")
    alone = [r.message for r in said(made) if "alone" in r.message]
    assert [m.split(" alone")[0].split("for ")[1] for m in alone] == ["N = 140000", "N = 140001"]
    assert "for N at most 262144 it does not compile: " in alone[0]


@compiles
def test_mistakes_of_calls(target):
    made = compiled(softmax(tkl.f32), target)
    x = np.zeros((3, 5), "f4")
    for args, words in (
        ((x, np.zeros((3, 6), "f4")), "E0702.*`y` has size 6 along `N`, expected 5"),
        ((x[0], x), "E0702.*`x` has rank 1"),
        ((x.astype("f2"), x), "E0702.*`x` has dtype f16"),
        ((x,), "takes 2 arguments"),
    ):
        with pytest.raises(LaunchError, match=words):
            made(*args)


# ---- programs


def programs(kernel):
    """How often it was compiled, according to the variants of the program of the last call."""
    return [v.compiled for v in kernel.program.variants].count(True)


@on_cpu
def test_one_remark():
    made = compiled(softmax(tkl.f32), "cpu")
    for n in (3, 4, 100, 65, 3):
        made(sample("f32", (2, n), n), np.zeros((2, n), "f4"))
    (remark,) = said(made)
    assert remark.message == (
        "`softmax` is compiled when it is called: the size of its tiles depends on `N`"
    )
    assert "one program serves every `N` up to the same power of two" in remark.rendered
    assert "bind `N`, or divide that dimension" in remark.hint and remark.file == __file__


@on_cpu
def test_before_the_first_call():
    made = compiled(softmax(tkl.f32, tile=7), "cpu")  # a kernel that has not been called
    x = sample("f32", (2, 100), 1)
    for look in (lambda: made.asm, lambda: made.prepare(), lambda: made.program.code()):
        with pytest.raises(CompileError, match="E0904.*`softmax` is compiled when it is called"):
            look()
    assert made.program.variants == []
    made.prepare(x, x.copy())
    assert "softmax" in made.asm and programs(made) == 1
    made.prepare()
    assert all(v.compiled for v in made.program.variants)
    with pytest.raises(CompileError, match="E0904"):
        compiled(softmax(tkl.f32, tile=9), "cpu", compile_to_asm=True)
    for target in ("eval", "sim:sm_90a"):
        compiled(softmax(tkl.f32), target).prepare(x, x.copy())  # nothing to do


@on_cpu
def test_threads_with_rows_of_other_lengths():
    made, wrong = compiled(softmax(tkl.f32), "cpu"), []

    def call(seed):
        r = np.random.default_rng(seed)
        for n in map(int, r.integers(0, 300, 25)):
            x, y = r.standard_normal((3, n)).astype("f4"), np.zeros((3, n), "f4")
            made(x, y)
            if not np.allclose(y, softmax_of(x.astype("f8")), atol=1e-6):
                wrong.append(n)

    callers = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@compiles
def test_nothing_to_dump(target, tmp_path, capsys):
    for asked in ({"print_ir_after": "all"}, {"dump_intermediates": str(tmp_path)}):
        made = compiled(softmax(tkl.f32), target, **asked)
        (remark,) = [r for r in made.remarks if getattr(r, "code", "") == "R0609"]
        assert "nothing is dumped: `softmax` is compiled when it is called" in remark.message
        with pytest.raises(CompileError, match="E0617.*nothing is dumped"):
            compiled(softmax(tkl.f32), target, strict=True, **asked)
    assert capsys.readouterr().out == "" and not list(tmp_path.iterdir())
    made(np.zeros((2, 3), "f4"), np.zeros((2, 3), "f4"))


def test_fitted_text():
    """The code that a call compiles, for inspection."""
    kernel = compiled(softmax(tkl.f32, tile=1), "eval").ir
    assert kernel.is_open
    text = str(kernel.fit({N: 5000}))
    assert "workgroup N by 8192 on 0 start 0 secondary" in text and "waves (4, 1, 1)" in text
    assert str(_wave.parse(text)[0]) == text and not _wave.parse(text)[0].is_open
    assert "N by 2 on" in str(kernel.fit({N: 0})) and "waves" not in str(kernel.fit({N: 7}))
    with pytest.raises(CompileError, match="`N` of `softmax` has no value"):
        kernel.fit({M: 3})
    with pytest.raises(CompileError, match="E0606.*the tile of `N` is `N`"):
        kernel.clone().lower("sm_90a")
    bound = wave_compile(WaveCompileOptions(subs={N: 0}, dynamic_symbols=[M]), softmax(tkl.f32))
    assert not bound.ir.is_open
    bound(np.zeros((3, 0), "f4"), np.zeros((3, 0), "f4"))
