"""Assumptions that hold and that do not: the result is right in both cases, and a remark says which
code ran."""


import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, LaunchError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.wave import cache

M, N, K, LEN = tkl.sym.M, tkl.sym.N, tkl.sym.K, tkl.sym.LEN
TARGETS = ["eval", "cpu", "sim:sm_90a", "sim:sm_80", "sim:gfx942"]
everywhere = pytest.mark.parametrize("target", TARGETS)


@pytest.fixture(autouse=True)
def no_kernels_of_other_tests():
    """A kernel that a process keeps may have been prepared already."""
    cache.reset_cache_manager()


def compiled(kernel, target, dynamic=(), subs={}, **options):
    o = WaveCompileOptions(subs=subs, dynamic_symbols=list(dynamic), target=target, **options)
    return wave_compile(o, kernel)


def told(kernel):
    return [r for r in kernel.remarks if getattr(r, "code", "") == "R0701"]


def copy(*assumptions):
    """With the assumptions as facts no access has a mask."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 4, N: 64}),
            tkw.WorkgroupConstraint(M, 4, 1),
            tkw.WorkgroupConstraint(N, 64, 0),
            *map(tkw.Assumption, assumptions),
        ]
    )
    def copy(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(a), b)

    return copy




def numbers(*shape, dtype="f4", seed=0):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


def check_copy(kernel, m, n):
    """The tensors are inside larger ones, which must not change elsewhere."""
    room = np.full(m * n + 512, 99, "f4")
    a, b = numbers(m, n), room[256 : 256 + m * n].reshape(m, n)
    kernel(a, b)
    assert np.array_equal(a, b)
    assert (room[:256] == 99).all() and (room[256 + m * n :] == 99).all()


# Each is false for some of the sizes below.
CLAIMS = [
    [M % 4 < 1, N % 64 < 1],
    [N > 200],
    [M < 6, N < 100],
    [M * N > 2000],
    [N / (M - 5) > 3],  # without a value for M = 5
]
SIZES = [(4, 64), (8, 256), (5, 40), (3, 64), (8, 100), (1, 1)]


@everywhere
@pytest.mark.parametrize("claims", range(len(CLAIMS)))
def test_any_launch_is_right(target, claims):
    kernel = compiled(copy(*CLAIMS[claims]), target, (M, N))
    for m, n in SIZES:
        check_copy(kernel, m, n)
    assert len(told(kernel)) >= 1
    first = len(told(kernel))
    for m, n in SIZES:
        check_copy(kernel, m, n)
    assert len(told(kernel)) == first  # it is not repeated
    assert first == 1 or target == "eval" or target.startswith("sim")


@everywhere
def test_no_remark_where_all_hold(target):
    kernel = compiled(copy(M % 4 < 1, N % 64 < 1), target, (M, N))
    check_copy(kernel, 8, 128)
    assert not told(kernel)


@everywhere
def test_false_for_bound_sizes(target):
    """It is dropped at compile time; the other assumptions are used."""
    kernel = compiled(copy(M % 4 < 1, N % 64 < 1, N < 50), target, (), {M: 5, N: 40})
    remarks = told(kernel)
    check_copy(kernel, 5, 40)
    if target != "eval":  # which notices at run time
        assert [r.message.split("`")[1] for r in remarks] == ["Mod(M, 4) <= 0", "Mod(N, 64) <= 0"]
        assert len(told(kernel)) == len(remarks)
    assert {r.line for r in told(kernel)}  # of the assumption
    with pytest.raises(CompileError, match="E0709"):
        check_copy(compiled(copy(M % 4 < 1), target, (), {M: 5, N: 40}, strict=True), 5, 40)


@everywhere
def test_strict_refuses(target):
    kernel = compiled(copy(M % 4 < 1, N % 64 < 1), target, (M, N), strict=True)
    check_copy(kernel, 8, 128)
    room = np.zeros(40 * 5 + 64, "f4")
    with pytest.raises(LaunchError, match="E0709.*the assumption `Mod\\(.*` does not hold") as error:
        kernel(numbers(5, 40), room[:200].reshape(5, 40))
    assert error.value.diagnostics[0].line and not room.any()


@everywhere
def test_ignore_is_without(target):
    """Two false assumptions at N = 40 wrote 24 elements too many when their facts were kept."""
    kernel = compiled(copy(M % 4 < 1, N % 64 < 1), target, (M, N), assume="ignore")
    for m, n in SIZES:
        check_copy(kernel, m, n)
    assert "assume" not in str(kernel.ir) and not told(kernel)


@everywhere
@pytest.mark.parametrize("m, n, k", [(64, 64, 64), (35, 50, 70), (64, 17, 64)])
def test_product(target, m, n, k):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 32, 1),
            tkw.TilingConstraint(K, 16),
            tkw.WaveConstraint(M, 16),
            tkw.Assumption(M % 32 < 1),
            tkw.Assumption(N % 32 < 1),
            tkw.Assumption(K % 16 < 1),
            tkw.Assumption(K > 4 * 16),
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

    kernel = compiled(gemm, target, (M, N, K))
    a, b = numbers(m, k, dtype="f2"), numbers(n, k, dtype="f2", seed=1)
    c = np.zeros((m, n), "f4")
    kernel(a, b, c)
    assert np.array_equal(c, a.astype("f8") @ b.astype("f8").T)
    assert len(told(kernel)) >= 1


def set_length(strict_claim):
    """LEN is the kernel's own: no launch can check assumptions about it."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, LEN: 64}),
            tkw.WorkgroupConstraint(M, 1, 0),
            tkw.TilingConstraint(LEN, 64),
            tkw.Assumption(strict_claim),
        ]
    )
    def count(lengths: tkl.Memory[M, G, tkl.i32], c: tkl.Memory[M, G, tkl.i32]):
        zero = tkl.Register[M, tkl.i32](0)
        tkw.set_symbol(LEN, tkw.read(lengths, elements_per_thread=1))

        @tkw.iterate(LEN, init_args=[zero])
        def rounds(acc):
            return acc + tkl.Register[M, tkl.i32](1)

        tkw.write(rounds, c)

    return count


@everywhere
@pytest.mark.parametrize("claim", ["holds", "fails"])
def test_what_the_kernel_sets_is_no_fact(target, claim):
    kernel = compiled(set_length(LEN < (1000 if claim == "holds" else 100)), target, (M,))
    lengths = np.array([1, 64, 65, 200, 0], "i4")
    got = np.zeros(5, "i4")
    kernel(lengths, got)
    assert np.array_equal(got, -(-lengths // 64))
    assert bool(told(kernel)) == (claim == "fails")


@pytest.mark.parametrize("target", TARGETS[1:])
def test_kernel_that_needs_its_assumptions(target):
    """A position of K/32 is an integer only if that of K is a multiple of 32: the error says so, at
    the right line."""
    start = tkl.sym.START

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, K: 64}),
            tkw.WorkgroupConstraint(M, 1, 1),
            tkw.WorkgroupConstraint(K, 64, 0, apply_fn=lambda i: 64 * i + start),
            tkw.Assumption(tkl.Eq(start % 32, 0)),
        ]
    )
    def parts(
        x: tkl.Memory[M, K / 32, G, tkl.f32],
        START: tkl.SymbolBind[tkl.i32],
        y: tkl.Memory[M, K / 32, G, tkl.f32],
    ):
        tkw.write(tkw.read(x), y)

    kernel = compiled(parts, target, (M, K))
    x, y = numbers(3, 8), np.zeros((3, 8), "f4")
    kernel(x, 64, y)
    assert np.array_equal(y[:, 2:], x[:, 2:]) and not y[:, :2].any()
    with pytest.raises(LaunchError, match="E0709.*`Eq.Mod.START, 32., 0.`.*does not compile") as error:
        kernel(x, 65, y)
    (note,) = error.value.diagnostics[0].notes
    assert "E0605" in note.message and note.line
    kernel(x, 32, y)  # others continue
    if kernel.program:
        with pytest.raises(CompileError, match="E0709"):
            kernel.prepare()


@everywhere
def test_tile_that_an_assumption_knows(target):
    """A tile of N elements has a size if N has one; for another size it is compiled again."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: N}),
            tkw.WorkgroupConstraint(M, 1, 1),
            tkw.WorkgroupConstraint(N, N, 0),
            tkw.Assumption(N <= 64),
            tkw.Assumption(N >= 64),
        ]
    )
    def rows(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
        tkw.write(tkw.sum(tkw.read(x), dim=N), y)

    kernel = compiled(rows, target, (M, N))
    for n in (64, 65, 7, 64):
        x, y = numbers(3, n), np.zeros(3, "f4")
        kernel(x, y)
        assert np.array_equal(y, x.sum(1))
    assert told(kernel)
    strict = compiled(rows, target, (M, N), strict=True)
    assert not [r for r in strict.remarks if getattr(r, "code", "") == "R0613"]
    strict(numbers(3, 64), y)
    with pytest.raises(LaunchError, match="E0709"):
        strict(numbers(3, 65), y)


def test_prepare_compiles_all():
    kernel = compiled(copy(M % 4 < 1, N % 64 < 1), "cpu", (M, N))
    if kernel.program is None:
        pytest.skip("there is no libLLVM")
    assert [v.compiled for v in kernel.program.variants].count(True) == 1
    kernel.prepare()
    assert all(v.compiled for v in kernel.program.variants)
    facts = [v.facts for v in kernel.program.variants]
    half = len(facts) // 2
    assert all("assumptions" in f for f in facts[:half])
    assert not any("assumptions" in f for f in facts[half:])
    check_copy(kernel, 5, 40)
    compiled(copy(), "eval", (M, N)).prepare()  # nothing to do


# ---- as text


def parse(assume, extra=""):
    text = f"""kernel @k(%a: mem<M, N, f32>, %b: mem<M, N, f32>)
  workgroup M by 4 on 1; workgroup N by 64 on 0; hardware threads 64, vector {{M: 4, N: 64}}
  dynamic M; dynamic N; assume {assume}{extra}
{{
  %x = read %a
  write %x, %b
}}
"""
    return _wave.parse(text, "k.wave")[0]


@pytest.mark.parametrize("claim", ["Eq($T0, 0)", "$WG0 < 1", "$T0 + M < 4", "LEN < 4"])
@pytest.mark.parametrize("way", ["sim", "cpu"])
def test_ids_are_no_facts(claim, way):
    """Assumptions that no launch can check are not used."""
    kernel = parse(claim)
    a, b = numbers(5, 200), np.zeros((5, 200), "f4")
    if way == "sim":
        kernel.lower("sm_90a")
        kernel.sim((a, b), "sm_90a")
    else:
        if not any(d.kind == "cpu" for d in _wave.devices()):
            pytest.skip("there is no libLLVM")
        launchable = type("Launchable", (_wave.Launchable,), {})()
        launchable._bind(kernel)
        launchable._use(kernel.compile(target="cpu", cache=-1))
        launchable(a, b)
    assert np.array_equal(a, b)


def test_required_is_kept_in_text():
    kernel = parse("Eq(Mod(M, 4), 0)", " required")
    assert "assume Eq(Mod(M, 4), 0) required" in str(kernel)
    assert str(_wave.parse(str(kernel))[0]) == str(kernel)
    with pytest.raises(LaunchError, match="E0709"):
        kernel.eval((numbers(5, 8), numbers(5, 8)))


def test_one_lanes_program_needs_its_assumptions():
    """The text already relies on them: there is no version without."""
    kernel = parse("Eq(Mod(M, 4), 0)")
    kernel.lower("sm_90a")
    lanes = _wave.parse(str(kernel), "lanes.wave")[0]
    with pytest.raises(LaunchError, match="E0709.*the assumption `Eq\\(Mod\\(M, 4\\), 0\\)`"):
        lanes.sim((numbers(5, 8), numbers(5, 8)), "sm_90a")
