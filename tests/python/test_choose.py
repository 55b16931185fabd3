"""Tiles without a value: the compiler chooses them (pass `choose`), and results are right."""

import numpy as np
import pytest
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
BM, BN, BK, WM, WN = (getattr(tkl.sym, f"T_{name}") for name in "BM BN BK WM WN".split())
TARGETS = ("eval", "cpu", "sim:sm_90a", "sim:gfx942")


@tkw.wave(
    [
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
        tkw.WorkgroupConstraint(M, BM, 0),
        tkw.WorkgroupConstraint(N, BN, 1),
        tkw.TilingConstraint(K, BK),
        tkw.WaveConstraint(M, WM),
        tkw.WaveConstraint(N, WN),
    ]
)
def gemm(
    a: tkl.Memory[M, K, S, tkl.f16],
    b: tkl.Memory[N, K, S, tkl.f16],
    c: tkl.Memory[M, N, G, tkl.f32],
):
    @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
    def product(acc):
        return tkw.mma(tkw.read(a), tkw.read(b), acc)

    tkw.write(product, c)


def compiled(kernel, subs, target, **options):
    return wave_compile(WaveCompileOptions(subs=subs, target=target, **options), kernel)


def chosen(kernel):
    return [r for r in kernel.remarks if getattr(r, "code", "") == "R0623"]


def check_gemm(kernel, m, n, k):
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-8, 9, s).astype("f2") / 8 for s in ((m, k), (n, k)))
    c = np.full((m, n), 7.0, "f4")
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a.astype("f4") @ b.astype("f4").T)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [(100, 72, 96), (1, 17, 33), (65, 130, 40)])
def test_gemm(target, size):
    kernel = compiled(gemm, dict(zip((M, N, K), size)), target)
    check_gemm(kernel, *size)
    if target != "eval":
        (remark,) = chosen(kernel)
        assert all(f"`{symbol}` = " in remark.message for symbol in (BM, BN, BK, WM, WN))


@pytest.mark.parametrize("target", ("cpu", "sim:sm_90a"))
def test_dynamic(target):
    kernel = compiled(gemm, {}, target, dynamic_symbols=[M, N, K])
    check_gemm(kernel, 100, 72, 96)
    check_gemm(kernel, 3, 200, 41)


@pytest.mark.parametrize("target", ("cpu", "sim:sm_90a", "sim:gfx942"))
def test_expected_sizes(target):
    """Tiles are those for the expected sizes; results of others are right, too."""
    sizes = {M: 40, N: 30, K: 96}
    options = {"dynamic_symbols": [M, N, K], "expected_sizes": sizes}
    kernel = compiled(gemm, {}, target, **options)
    check_gemm(kernel, 40, 30, 96)
    check_gemm(kernel, 100, 72, 41)
    tiles = [remark.message.split(":")[0] for remark in chosen(kernel)]
    known = compiled(gemm, sizes, target, split_k=0)
    assert tiles == [remark.message.split(":")[0] for remark in chosen(known)]
    compiled(gemm, sizes, target, expected_sizes=sizes)  # known sizes are used


@pytest.mark.parametrize("expected", [{M: 0}, {M: -4}, {M: None}, [M], {M: "a"}])
def test_bad_expected_sizes(expected):
    options = {"dynamic_symbols": [M, N, K], "expected_sizes": expected}
    with pytest.raises((CompileError, TypeError)):
        compiled(gemm, {}, "sim:sm_90a", **options)


@pytest.mark.parametrize("target", ("cpu", "sim:sm_90a"))
@pytest.mark.parametrize("size", [(0, 72, 96), (100, 0, 96), (100, 72, 0)])
def test_empty(target, size):
    check_gemm(compiled(gemm, dict(zip((M, N, K), size)), target), *size)


def test_given_values_are_kept():
    size = {M: 100, N: 72, K: 96, BM: 32, BN: 32, WM: 16, WN: 16}
    kernel = compiled(gemm, size, "sim:sm_90a")
    check_gemm(kernel, 100, 72, 96)
    (remark,) = chosen(kernel)
    assert f"`{BK}` = " in remark.message and f"`{BM}`" not in remark.message
    assert not chosen(compiled(gemm, size | {BK: 32}, "sim:sm_90a"))


def test_choices_are_legal_and_the_same_each_time():
    size = {M: 100, N: 72, K: 96}
    kernel = compiled(gemm, size, "sim:sm_90a")
    all_of_them = kernel.choices(1000)
    assert len(all_of_them) > 20 and kernel.choices(3) == all_of_them[:3]
    assert compiled(gemm, size, "sim:sm_90a").choices(1000) == all_of_them
    for tiles in all_of_them[:2] + all_of_them[-2:]:
        values = {tkl.sym.__getattr__(name): value for name, value in tiles.items()}
        check_gemm(compiled(gemm, size | values, "sim:sm_90a"), 100, 72, 96)
    assert compiled(gemm, size | values, "sim:sm_90a").choices(10) == []


# ---- several workgroups for a tile


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [(16, 16, 4096), (17, 33, 8192)])
def test_split(target, size):
    """Few tiles and many iterations: workgroups share them on machines with waves."""
    kernel = compiled(gemm, dict(zip((M, N, K), size)), target)
    check_gemm(kernel, *size)
    said = " ".join(remark.message for remark in chosen(kernel))
    assert ("`split_k` = " in said) == target.startswith("sim")


def test_split_is_one_of_the_choices():
    size = {M: 16, N: 16, K: 4096}
    kernel = compiled(gemm, size, "sim:sm_90a")
    tiles = next(t for t in kernel.choices(1000) if "split_k" in t)
    parts = tiles.pop("split_k")
    assert parts in (2, 4, 8)
    values = {getattr(tkl.sym, name): value for name, value in tiles.items()}
    check_gemm(compiled(gemm, size | values, "sim:sm_90a", split_k=parts), 16, 16, 4096)


def test_split_gives_the_same_bits_each_time():
    kernel = compiled(gemm, {M: 16, N: 16, K: 4096}, "sim:sm_90a")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((16, 4096)).astype("f2") for _ in range(2))
    results = [np.zeros((16, 16), "f4") for _ in range(3)]
    for c, schedule in zip(results, ("round", "reverse", "random")):
        kernel.simulate(a, b, c, schedule=schedule)
    assert all(np.array_equal(c, results[0]) for c in results)


@pytest.mark.parametrize("parts", [0, 1, 2])
def test_split_that_is_given_is_kept(parts):
    kernel = compiled(gemm, {M: 16, N: 16, K: 4096}, "sim:sm_90a", split_k=parts)
    check_gemm(kernel, 16, 16, 4096)
    assert "split_k" not in chosen(kernel)[0].message
    assert not any("split_k" in tiles for tiles in kernel.choices(1000))
    shared = [r.message for r in kernel.remarks if getattr(r, "code", "") == "R0621"]
    assert [m.split()[0] for m in shared] == (["2"] if parts == 2 else [])


@pytest.mark.parametrize("parts", [-1, 1 << 20])
def test_split_into_impossible_numbers(parts):
    with pytest.raises(CompileError) as error:
        compiled(gemm, {M: 16, N: 16, K: 4096}, "sim:sm_90a", split_k=parts)
    assert "E0212" in str(error.value)


def test_split_is_not_chosen_where_it_cannot_be():
    """A maximum cannot be added up, and a grid of unknown size may need more counters than there are."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64),
            tkw.WorkgroupConstraint(M, BM, 0),
            tkw.TilingConstraint(K, BK),
            tkw.WaveConstraint(M, WM),
        ]
    )
    def largest(a: tkl.Memory[M, K, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkl.Register[M, tkl.f32](-1e30)])
        def most(acc):
            return tkw.max(tkw.read(a), acc, dim=K)

        tkw.write(most, c)

    for kernel, subs, dynamic in (
        (largest, {M: 16, K: 65536}, []),
        (gemm, {M: 16, N: 16}, [K]),
        (gemm, {N: 16, K: 65536}, [M]),
    ):
        made = compiled(kernel, subs, "sim:sm_90a", dynamic_symbols=dynamic)
        assert "split_k" not in chosen(made)[0].message
        assert not any("split_k" in tiles for tiles in made.choices(1000))


def softmax_of(constraints, block):
    @tkw.wave(constraints)
    def softmax(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, N, G, tkl.f32]):
        x = tkw.read(a)
        e = tkw.exp(x - tkw.broadcast(tkw.max(x, dim=N, block=block), [M, N]))
        total = tkw.sum(e, dim=N, block=block)
        tkw.write(e * tkw.broadcast(tkw.reciprocal(total), [M, N]), b)

    return softmax


ROWS = [
    tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: WN}),
    tkw.WorkgroupConstraint(M, BM, 0),
    tkw.WorkgroupConstraint(N, BN, 1),
    tkw.WaveConstraint(N, WN),
]


def check_softmax(kernel, m, n):
    x = np.random.default_rng(n).standard_normal((m, n)).astype("f4")
    y = np.zeros_like(x)
    kernel(x, y)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("target", TARGETS[1:])
@pytest.mark.parametrize("size", [(5, 96), (9, 1000), (2, 33)])
@pytest.mark.parametrize("block", [True, False])
def test_rows(target, size, block):
    """Without `block` each wave would combine a part of a row of its own: one wave has all of it."""
    kernel = compiled(softmax_of(ROWS, block), dict(zip((M, N), size)), target)
    check_softmax(kernel, *size)


@pytest.mark.parametrize("target", ("cpu", "sim:sm_90a"))
def test_rows_of_any_length(target):
    """N is known at the call: the kernel is then fitted, and its rows per workgroup are chosen."""
    rows = [
        tkw.HardwareConstraint(threads_per_wave=32),
        tkw.WorkgroupConstraint(M, BM, 0),
        tkw.WorkgroupConstraint(N, N, 1),
    ]
    kernel = compiled(softmax_of(rows, True), {}, target, dynamic_symbols=[M, N])
    check_softmax(kernel, 5, 100)
    check_softmax(kernel, 3, 700)


def test_unknown_rows_are_refused():
    with pytest.raises(CompileError) as error:
        compiled(softmax_of(ROWS, True), {}, "cpu", dynamic_symbols=[M, N])
    assert "E0622" in str(error.value) and f"`{BN}`" in str(error.value)


def test_value_of_a_tensor_is_not_chosen():
    """The shape of a tensor is the caller's."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64),
            tkw.WorkgroupConstraint(M, BM, 0),
        ]
    )
    def copy(a: tkl.Memory[M, G, tkl.f32], b: tkl.Memory[M * BM, G, tkl.f32]):
        tkw.write(tkw.read(a), b)

    with pytest.raises(CompileError):
        compiled(copy, {M: 64}, "sim:sm_90a")


@pytest.mark.parametrize("n", [-1, 0])
def test_no_choices(n):
    assert compiled(gemm, {M: 64, N: 64, K: 64}, "sim:sm_90a").choices(n) == []
