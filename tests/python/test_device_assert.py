"""device_assert: which elements failed, where and with which values, the same on every target."""

import re

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import rng
from wave_lang import CompileError, DeviceAssertError, LaunchError, WaveCompileOptions, _wave
from wave_lang import wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N, K, LEN = (getattr(tkl.sym, s) for s in ("M", "N", "K", "LEN"))
G = GLOBAL_ADDRESS_SPACE
HAS_CPU = any(d.kind == "cpu" for d in _wave.devices())
TARGETS = ("eval", *(("cpu",) if HAS_CPU else ()), "sim:sm_90a", "sim:sm_80", "sim:gfx942", "sim:cpu")
everywhere = pytest.mark.parametrize("target", TARGETS)


def rows(*more, waves=1, tile=64, row=2):
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: tile // waves}),
        tkw.WorkgroupConstraint(M, row, 1),
        tkw.WorkgroupConstraint(N, tile, 0),
        tkw.WaveConstraint(N, tile // waves),
        *more,
    ]


def built(kernel, target, dynamic=(M, N), **options):
    return wave_compile(
        WaveCompileOptions(target=target, dynamic_symbols=list(dynamic), **options), kernel
    )


def failures(kernel, *arguments):
    """What a launch reports: (message, how often, the notes) of each assertion that failed."""
    try:
        kernel(*arguments)
    except DeviceAssertError as error:
        found = [d for d in error.diagnostics if d.code == "E0714"]
        return [
            (
                re.fullmatch(r"assertion failed(?:: (.*?))?(?: \((\d+) times\))?", d.message)[1] or "",
                int((re.search(r"\((\d+) times\)", d.message) or (0, 1))[1]),
                [n.message for n in d.notes],
            )
            for d in found
        ]
    return []


def floats(*shape, seed=0):
    return rng(seed).uniform(-3, 3, shape).astype(np.float32)


# ---- tiles ---------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("waves", [1, 2])
def test_elements_that_failed(target, waves):
    @tkw.wave(rows(waves=waves))
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        x = tkw.read(a)
        tkw.device_assert(x < 100.0, "too large")
        tkw.write(x * 2.0, c)

    run, a = built(kernel, target), floats(5, 131)
    c = np.zeros_like(a)
    assert failures(run, a, c) == [] and np.array_equal(c, a * 2)
    a[3, 7], a[4, 130], a[0, 64] = 101.5, 1e9, np.inf
    expected = ["at M = 0, N = 64: x = inf", "at M = 3, N = 7: x = 101.5"]
    expected.append("at M = 4, N = 130: x = 1e+09")
    assert failures(run, a, c) == [("too large", 3, expected)]
    assert np.array_equal(c, a * 2)  # it runs to its end
    a[:] = 1.0
    assert failures(run, a, c) == []  # nothing stays


@everywhere
def test_what_does_not_exist_is_not_asserted(target):
    """Padding is 0 after a read, and anything after arithmetic."""

    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        x = tkw.read(a)
        tkw.device_assert(x != 0.0)
        tkw.device_assert(tkw.reciprocal(x) < 1e9)
        tkw.device_assert(tkw.self_index(N, tkl.i32) < tkw.scalar(N, tkl.i32), "column")
        tkw.write(x, c)

    for shape in ((1, 1), (3, 65), (2, 64), (0, 5), (7, 0)):
        a = np.abs(floats(*shape)) + 1
        assert failures(built(kernel, target), a, np.zeros_like(a)) == []


@everywhere
def test_more_failures_than_are_kept(target):
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.i32]):
        tkw.device_assert(tkw.read(a) != 7, "seven")

    ((message, count, notes),) = failures(built(kernel, target), np.full((9, 333), 7, "i4"))
    assert (message, count, len(notes)) == ("seven", 9 * 333, 4)
    assert all(re.fullmatch(r"at M = \d+, N = \d+: 7", note) for note in notes)


@everywhere
@pytest.mark.parametrize(
    "dtype, numpy, bad, shown",
    [
        ("f64", "f8", 1 / 3, "0.33333333333333331"),
        ("f32", "f4", -0.0, "-0"),
        ("f16", "f2", np.nan, "-?nan"),
        ("i64", "i8", -(2**63), "-9223372036854775808"),
        ("u64", "u8", 2**64 - 1, "18446744073709551615"),
        ("u32", "u4", 2**32 - 1, "4294967295"),
        ("i16", "i2", -5, "-5"),
        ("u8", "u1", 200, "200"),
        ("i8", "i1", -128, "-128"),
    ],
)
def test_values_of_every_type(target, dtype, numpy, bad, shown):
    T = getattr(tkl, dtype)

    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, T], ok: tkl.Memory[M, N, G, tkl.i8]):
        value = tkw.read(a)
        tkw.device_assert(tkw.read(ok) == 1, "flag", value)

    a, ok = np.ones((3, 70), numpy), np.ones((3, 70), "i1")
    a[2, 69], ok[2, 69] = bad, 0
    ((_, count, notes),) = failures(built(kernel, target), a, ok)
    assert count == 1 and re.fullmatch(f"at M = 2, N = 69: value = {shown}", notes[0]), notes


@everywhere
def test_what_a_condition_looks_at(target):
    """Both sides of comparisons, however they are joined; literals are not shown."""

    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.i32], low: tkl.Memory[M, G, tkl.i32]):
        x = tkw.read(a)
        least = tkw.read(low)
        tkw.device_assert((x >= tkw.broadcast(least, [M, N])) & ~(x > 1000), "range")

    a, low = np.full((3, 65), 5, "i4"), np.array([1, 6, 2], "i4")
    a[2, 3] = 2000
    ((_, count, notes),) = failures(built(kernel, target), a, low)
    assert count == 66 and notes[0].startswith("at M = 1, N = 0: x = 5, ") and "6" in notes[0]


# ---- scalars, and regions ------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("waves", [1, 4])
def test_numbers(target, waves):
    """Once for each workgroup, however many threads hold the number."""

    @tkw.wave(rows(waves=waves, tile=256))
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], limit: tkl.i32):
        row = tkw.scalar(WORKGROUP_1, tkl.i32)
        tkw.device_assert(row < limit, "row")
        tkw.write(tkw.read(a) + 1.0, a)

    a = floats(7, 300)
    run = built(kernel, target)
    assert failures(run, a, 4) == []
    ((_, count, notes),) = failures(run, a, 3)
    assert count == 2 and notes[0] == "in workgroup (0, 3, 0): row = 3, limit = 3"
    assert notes[1] == "in workgroup (1, 3, 0): row = 3, limit = 3"


@everywhere
def test_in_a_loop_and_a_conditional(target):
    @tkw.wave(rows(tkw.TilingConstraint(K, 32)))
    def kernel(a: tkl.Memory[M, K, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32], on: tkl.i32):
        @tkw.iterate(K, init_args=[tkl.Register[M, tkl.f32](0.0)])
        def total(acc):
            x = tkw.read(a)
            tkw.device_assert(x >= 0.0, "negative", x)

            @tkw.conditional(on > 0)
            def checked():
                tkw.device_assert(x <= 3.0, "above 3")

            return tkw.sum(x, acc, dim=K)

        tkw.write(total, c)

    a = np.abs(floats(3, 77))
    run = built(kernel, target, dynamic=(M, K), subs={N: 1})
    c = np.zeros(3, "f4")
    a[1, 70], a[2, 0] = -1.0, 4.0
    note = "at M = 1, K = 70: x = -1"
    assert failures(run, a, c, 0) == [("negative", 1, [note])]
    found = failures(run, a, c, 1)
    assert [f[:2] for f in found] == [("negative", 1), ("above 3", 1)]
    assert found[1][2] == ["at M = 2, K = 0: x = 4"]
    np.testing.assert_allclose(c, a.sum(1), rtol=1e-5)


@everywhere
def test_reductions_and_products(target):
    """A row that several waves share fails once."""

    @tkw.wave(rows(waves=2, tile=128))
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]):
        largest = tkw.max(tkw.read(a), dim=N, block=True)
        tkw.device_assert(largest < 10.0, "row")
        tkw.write(largest, c)

    a, c = -np.abs(floats(5, 100)) - 1, np.zeros(5, "f4")
    run = built(kernel, target)
    assert failures(run, a, c) == [] and np.array_equal(c, a.max(1))
    a[4, 99] = 11
    assert failures(run, a, c) == [("row", 1, ["at M = 4: largest = 11"])]


# ---- launches ------------------------------------------------------------------------------------


def signs(check):
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        x = tkw.read(a)
        if check:
            tkw.device_assert(x < 0.0, "sign")
        tkw.write(x, c)

    return kernel


@everywhere
def test_left_out(target):
    """An option drops every assertion: the kernel is then the same as without them."""
    a, c = np.ones((3, 70), "f4"), np.zeros((3, 70), "f4")
    run = built(signs(True), target, device_asserts=False)
    assert failures(run, a, c) == [] and np.array_equal(a, c)
    assert "report" not in str(run.ir) and "failure" not in str(run.ir)
    assert "failure" in str(built(signs(True), target).ir)
    if target == "cpu":
        assert "atomicrmw" not in run.program.text("llvm")


@everywhere
def test_beside_logs(target):
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32]):
        x = tkw.read(a)
        tkw.device_assert(x < 2.0, "first")
        tkw.debug_log(x, "x", printer=None)
        tkw.device_assert(x > -2.0, "second")

    a, logs = np.array([[1, 2.5], [-3, 0]], "f4"), {}
    run = built(kernel, target)
    with pytest.raises(DeviceAssertError) as caught:
        run(a, debug_logs=logs)
    assert [d.message for d in caught.value.diagnostics if d.code == "E0714"] == [
        "assertion failed: first",
        "assertion failed: second",
    ]
    assert np.array_equal(logs["x"]["value"], a)


def test_the_error():
    run = built(signs(True), "eval")
    with pytest.raises(LaunchError) as caught:
        run(np.ones((1, 2), "f4"), np.zeros((1, 2), "f4"))
    assert type(caught.value) is DeviceAssertError is tkw.DeviceAssertError
    found = caught.value.diagnostics[0]
    assert found.file == __file__ and found.line > 0
    assert 'tkw.device_assert(x < 0.0, "sign")' in str(caught.value)


def test_a_message_of_several_lines():
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32]):
        tkw.device_assert(tkw.read(a) < 0.0, 'a\tb\nc "d" \\ %s')

    ((message, _, _),) = failures(built(kernel, "sim:gfx942"), np.ones((1, 1), "f4"))
    assert message == 'a b c "d" \\ %s'


# ---- mistakes --------------------------------------------------------------------------------


def refused(body, code, *words):
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[K, G, tkl.f32]):
        body(tkw.read(a), b)

    with pytest.raises((CompileError, TypeError)) as caught:
        built(kernel, "eval", dynamic=(M, N, K))
    assert all(word in str(caught.value) for word in (code, *words)), caught.value


def test_mistakes():
    refused(lambda x, b: tkw.device_assert(x, "no"), "E0311", "condition", "tile<M, N, f32>")
    refused(lambda x, b: tkw.device_assert(True), "", "traced value")
    refused(lambda x, b: tkw.device_assert(b), "E0311", "mem<K, f32>")
    refused(lambda x, b: tkw.device_assert(x > 0.0, "", tkw.read(b)), "E0305", "tile<K, f32>")
    refused(lambda x, b: tkw.device_assert(x > 0.0, "", *[x] * 11), "E0309", "at most 10 values")
    refused(lambda x, b: tkw.device_assert(x > 0.0, x), "", "")


# ---- assumptions about symbols that a kernel sets
# -----------------------------------------------------------


def lengths_kernel(*claims):
    @tkw.wave(rows(*(tkw.Assumption(claim) for claim in claims), row=1))
    def kernel(
        lengths: tkl.Memory[M, G, tkl.i32],
        a: tkl.Memory[M, N, G, tkl.f32],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        tkw.set_symbol(LEN, tkw.read(lengths, elements_per_thread=1))
        x = tkw.read(a)
        inside = tkw.apply_expr(tkw.self_index(N, tkl.i32), lambda n: n < LEN)
        zero = tkl.Register[M, N, tkl.f32](0.0)
        tkw.write(tkw.select(tkw.broadcast(inside, [M, N]), x, zero), c)

    return kernel


@everywhere
def test_assumptions_are_checked_where_symbols_are_set(target):
    """A remark; with `strict` an error. Assumptions about the launch alone are not the kernel's concern."""
    lengths, a = np.array([5, 69, 70, 71, 0], "i4"), floats(5, 70)
    expected = np.where(np.arange(70) < lengths[:, None], a, 0)
    for claim, holds in ((LEN <= N + 1, True), (LEN < N, False)):
        run, c = built(lengths_kernel(claim, M < 100), target), np.zeros_like(a)
        run(lengths, a, c)
        assert np.array_equal(c, expected)
        told = [r for r in run.remarks if r.code == "R0701"]
        assert len({r.message for r in told}) == (0 if holds else 1)
        assert all("LEN < N" in r.message and "set_symbol(LEN" in r.rendered for r in told)
        strict = built(lengths_kernel(claim, M < 100), target, strict=True)
        if holds:
            strict(lengths, a, c)
            continue
        with pytest.raises(CompileError, match="E0709.*LEN < N") as caught:
            strict(lengths, a, c)
        if target != "eval":  # which stops there
            assert "in workgroup (0, 2, 0): LEN = 70" in str(caught.value)
        ignoring = built(lengths_kernel(claim), target, assume="ignore")
        ignoring(lengths, a, c)
        assert not [r for r in ignoring.remarks if r.code == "R0701"]


@everywhere
def test_symbols_that_are_set_again(target):
    """The assumption is about the version in force; one that has no value yet is not checked."""
    OTHER = tkl.sym.OTHER

    @tkw.wave(rows(tkw.Assumption(LEN < OTHER), tkw.Assumption(LEN < 50), row=1))
    def kernel(lengths: tkl.Memory[M, G, tkl.i32], c: tkl.Memory[M, G, tkl.i32]):
        n = tkw.read(lengths, elements_per_thread=1)
        tkw.set_symbol(LEN, n)
        tkw.set_symbol(OTHER, n + 1)
        tkw.set_symbol(LEN, n + n)
        tkw.write(n, c)

    run, c = built(kernel, target, dynamic=(M,), subs={N: 1}, strict=True), np.zeros(3, "i4")
    run(np.array([0, -1, -7], "i4"), c)
    with pytest.raises(CompileError, match="LEN < OTHER"):
        run(np.array([0, 3, 0], "i4"), c)
    with pytest.raises(CompileError, match="LEN < 50"):
        run(np.array([-1, 0, 60], "i4"), c)
