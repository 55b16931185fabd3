"""Loops on `emu` whose number of iterations is known only at the launch: groups of iterations, one for
each slot of a ring, then the rest."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G, SHARED_ADDRESS_SPACE as S

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
CHIPS = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"]


def gemm(lanes):
    mma = tkw.MMAType.F32_16x16x16_F16 if lanes == 64 else tkw.MMAType.RDNA4_WAVE32_F32_16x16x16_F16

    @tkw.wave([
        tkw.HardwareConstraint(threads_per_wave=lanes, mma_type=mma),
        tkw.WorkgroupConstraint(M, 32, 0),
        tkw.WorkgroupConstraint(N, 32, 1),
        tkw.TilingConstraint(K, 16),
        tkw.WaveConstraint(M, 16),
        tkw.WaveConstraint(N, 16),
    ])  # fmt: skip
    def kernel(a: tkl.Memory[M, K, S, tkl.f16], b: tkl.Memory[N, K, S, tkl.f16],
               c: tkl.Memory[M, N, G, tkl.f32]):  # fmt: skip
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    return kernel


@pytest.mark.parametrize("chip", CHIPS)
def test_any_number_of_iterations(chip):
    kernel = gemm(64 if chip.startswith("gfx9") else 32)
    try:
        run = wave_compile(WaveCompileOptions(dynamic_symbols=[M, N, K], target=f"emu:{chip}"), kernel)
    except CompileError as error:
        if "E0901" in str(error):
            pytest.skip("no libLLVM for this chip")
        raise
    rng = np.random.default_rng(4)
    for k in (0, 1, 16, 17, 32, 48, 64, 79, 80, 96, 112, 130):
        a, b = rng.integers(-4, 5, (37, k)).astype("f2"), rng.integers(-4, 5, (33, k)).astype("f2")
        c = np.full((37, 33), 7, "f4")
        run(a, b, c)
        np.testing.assert_array_equal(c, a.astype("f4") @ b.astype("f4").T, err_msg=f"K = {k}")
