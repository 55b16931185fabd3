"""`use_global_to_shared=True` on AMD machines: loads that end in shared memory, in the simulator and
in the executor of machine code, compared with NumPy in float64."""

import re

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import LaunchError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S

B, M, N, K = tkl.sym.B, tkl.sym.M, tkl.sym.N, tkl.sym.K
TARGETS = ["sim:gfx90a", "sim:gfx942", "sim:gfx950", "emu:gfx90a", "emu:gfx942", "emu:gfx950"]
TARGETS += ["sim:gfx1250", "emu:gfx1250"]
DIRECT = "loads to shared memory"
REPORTS = "did not wait for its|touched before a wait|without a barrier|never signals"
MMA = tkw.MMAType


def gemm(dtype, tile, waves, mma=MMA.F32_16x16x16_F16):
    """Rows of both operands are contiguous along K."""
    m, n, k = tile

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=mma),
            tkw.WorkgroupConstraint(M, m, 0),
            tkw.WorkgroupConstraint(N, n, 1),
            tkw.TilingConstraint(K, k),
            tkw.WaveConstraint(M, m // waves[0]),
            tkw.WaveConstraint(N, n // waves[1]),
        ]
    )
    def product(
        a: tkl.Memory[M, K, S, dtype], b: tkl.Memory[N, K, S, dtype], c: tkl.Memory[M, N, G, tkl.f32]
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(loop, c)

    return product


def compiled(kernel, target, sizes, dynamic=(), **options):
    options = WaveCompileOptions(
        subs={s: v for s, v in sizes.items() if s not in dynamic},
        dynamic_symbols=list(dynamic),
        target=target,
        use_global_to_shared=True,
        **options,
    )
    try:
        return wave_compile(options, kernel)
    except _wave.CompileError as error:
        if "E0901" in str(error):
            pytest.skip("no libLLVM compiles for this chip")
        raise


def modes(kernel):
    return [r.message for r in kernel.remarks if " is copied " in r.message]


def halves(rng, *shape):
    return (rng.integers(-8, 9, shape) / 8).astype("f2")


def check_gemm(kernel, sizes, make=halves):
    rng = np.random.default_rng(3)
    a, b = make(rng, sizes[M], sizes[K]), make(rng, sizes[N], sizes[K])
    c = np.full((sizes[M], sizes[N]), np.nan, "f4")
    kernel(a, b, c)
    np.testing.assert_allclose(c, a.astype("f8") @ b.astype("f8").T, rtol=0, atol=1e-3)


GEMMS = [
    # tile, waves, sizes: whole tiles; ragged rows and a ragged K; one tile of many
    ((64, 64, 32), (2, 2), (128, 64, 96)),
    ((64, 64, 32), (2, 2), (100, 70, 104)),
    ((48, 80, 64), (1, 1), (97, 161, 136)),
    ((128, 32, 64), (4, 1), (130, 33, 8)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("tile, waves, shape", GEMMS)
@pytest.mark.parametrize("slots", [None, 2, 3])
def test_gemm(target, tile, waves, shape, slots):
    sizes = dict(zip((M, N, K), shape))
    options = {"multi_buffer_count": slots} if slots else {}
    kernel = compiled(gemm(tkl.f16, tile, waves), target, sizes, **options)
    assert all(DIRECT in mode for mode in modes(kernel)), modes(kernel)
    check_gemm(kernel, sizes)


@pytest.mark.parametrize("target", ["sim:gfx942", "emu:gfx942", "emu:gfx950"])
def test_dynamic_sizes(target):
    """Nothing is known about the length of rows: threads copy, as without the option."""
    kernel = gemm(tkl.f16, (64, 64, 32), (2, 2))
    sizes = {M: 100, N: 70, K: 99}
    check_gemm(compiled(kernel, target, sizes, dynamic=(M, N, K)), sizes)


@pytest.mark.parametrize("target", ["sim:gfx950", "emu:gfx950"])
def test_sixteen_bytes(target):
    sizes = {M: 136, N: 128, K: 96}
    kernel = gemm(tkl.f16, (128, 128, 32), (2, 2), MMA.F32_16x16x32_F16)
    kernel = compiled(kernel, target, sizes, multi_buffer_count=2)
    assert all("16-byte loads to shared memory" in mode for mode in modes(kernel)), modes(kernel)
    check_gemm(kernel, sizes)


@pytest.mark.parametrize("target", ["sim:gfx942", "emu:gfx942"])
def test_one_operand(target):
    """Rows of 2 bytes more than a multiple of 4 are loaded and stored; the other operand is not."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=MMA.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 32, 1),
            tkw.TilingConstraint(K, 32),
            tkw.WaveConstraint(M, 32),
            tkw.WaveConstraint(N, 32),
        ]
    )
    def product(
        a: tkl.Memory[M, K, S, tkl.f16], b: tkl.Memory[K, N, S, tkl.f16], c: tkl.Memory[M, N, G, tkl.f32]
    ):
        i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
        turned = tkw.IndexMapping(2, inputs={K: j, N: i}, outputs={N: i, K: j})

        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(a), tkw.read(b, mapping=turned), acc)

        tkw.write(loop, c)

    sizes = {M: 40, N: 37, K: 72}
    kernel = compiled(product, target, sizes, multi_buffer_count=3)
    assert [DIRECT in mode for mode in modes(kernel)] == [True, False], modes(kernel)
    rng = np.random.default_rng(4)
    a, b = halves(rng, 40, 72), halves(rng, 72, 37)
    c = np.full((40, 37), np.nan, "f4")
    kernel(a, b, c)
    np.testing.assert_allclose(c, a.astype("f8") @ b.astype("f8"), rtol=0, atol=1e-3)


@pytest.mark.parametrize("target", ["sim:gfx942", "emu:gfx942", "emu:gfx950", "sim:sm_90a"])
def test_softmax_of_rows(target):
    """A copy outside any loop; NVIDIA machines copy as they always do."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 256}),
            tkw.WorkgroupConstraint(M, 4, 0),
            tkw.WorkgroupConstraint(N, 256, 1),
            tkw.WaveConstraint(M, 1),
            tkw.WaveConstraint(N, 256),
        ]
    )
    def softmax(x: tkl.Memory[M, N, S, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32]):
        v = tkw.read(x)
        e = tkw.exp2(v - tkw.broadcast(tkw.max(v, dim=N), [M, N]))
        tkw.write(e / tkw.broadcast(tkw.sum(e, dim=N), [M, N]), y)

    kernel = compiled(softmax, target, {M: 9, N: 256})
    x = np.random.default_rng(5).standard_normal((9, 256)).astype("f4")
    y = np.full_like(x, np.nan)
    kernel(x, y)
    e = np.exp2(x.astype("f8") - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_old_versions_wait_for_all():
    """A remark says so; versions from 22 on wait as the kernel does."""
    sizes = {M: 128, N: 64, K: 96}
    kernel = compiled(gemm(tkl.f16, (64, 64, 32), (2, 2)), "emu:gfx942", sizes)
    said = [r.message for r in kernel.remarks if "waits for all loads" in r.message]
    for message in said:
        assert int(re.search(r"LLVM (\d+)", message)[1]) < 22
    if not said:
        assert "lds" in kernel.asm


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype, numpy", [(tkl.i64, "i8"), (tkl.f64, "f8"), (tkl.i32, "i4"), (tkl.i8, "i1")])
def test_width_of_elements(target, dtype, numpy):
    """A lane copies whole elements: not those of 8 bytes, 4 bytes at a time."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 4, N: 64}),
            tkw.WorkgroupConstraint(M, 4, 0),
            tkw.WorkgroupConstraint(N, 64, 1),
        ]
    )
    def twice(a: tkl.Memory[M, N, S, dtype], b: tkl.Memory[M, N, G, dtype]):
        x = tkw.read(a)
        tkw.write(x + x, b)

    sizes = {M: 7, N: 96}
    kernel = compiled(twice, target, sizes)
    is_wide = numpy in ("i8", "f8") and not target.endswith(("950", "1250"))
    assert all((DIRECT in mode) != is_wide for mode in modes(kernel)), modes(kernel)
    a = np.random.default_rng(5).integers(-60, 60, (7, 96)).astype(numpy)
    b = np.zeros_like(a)
    kernel(a, b)
    np.testing.assert_array_equal(b, a + a)


def test_asynchronous_copies():
    """gfx1250 has loads with a counter of their own; ragged tiles are copied by them, too."""
    sizes = {M: 100, N: 70, K: 104}
    kernel = compiled(gemm(tkl.f16, (64, 64, 32), (2, 2)), "emu:gfx1250", sizes, multi_buffer_count=3)
    copies = re.findall(r"global_load_async_to_lds_\w+|ds_store_\w+", kernel.asm)
    assert copies and set(copies) == {"global_load_async_to_lds_b128"}
    left = {int(n, 0) for n in re.findall(r"s_wait_asynccnt (\w+)", kernel.asm)}
    assert max(left) > 0  # some stay in flight
    check_gemm(kernel, sizes)


@pytest.mark.parametrize("target, wait", [("emu:gfx950", "vmcnt"), ("emu:gfx1250", "asynccnt")])
def test_missing_waits_are_reported(target, wait):
    sizes = {M: 100, N: 70, K: 104}
    kernel = compiled(gemm(tkl.f16, (64, 64, 32), (2, 2)), target, sizes, multi_buffer_count=2)
    check_gemm(kernel, sizes)
    program, found = kernel.program, set()
    for i, (_, text, executed, needed) in enumerate(program.test_instructions(0)):
        if not (executed and needed and (wait in text or text.startswith("s_barrier"))):
            continue
        program.test_remove(i, 0)
        with pytest.raises(LaunchError, match=REPORTS):
            check_gemm(kernel, sizes)
        program.test_remove(-1, 0)
        found.add(text.split()[0])
    assert any(wait in text or "waitcnt" in text for text in found) and "s_barrier" in str(found)
