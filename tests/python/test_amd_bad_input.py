"""What a chip lacks: widened with a remark, or refused with what there is."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from amd_utils import has_llvm
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import (
    GLOBAL_ADDRESS_SPACE as GLOBAL,
    SHARED_ADDRESS_SPACE as SHARED,
)

pytestmark = pytest.mark.skipif(not has_llvm(), reason="there is no libLLVM with AMD GPUs")

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K


def product(dtype, total, mma, tile, step):
    """c = a b', with both operands in shared memory."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=mma),
            tkw.WorkgroupConstraint(M, tile, 0),
            tkw.WorkgroupConstraint(N, tile, 1),
            tkw.TilingConstraint(K, step),
            tkw.WaveConstraint(M, tile // 2),
            tkw.WaveConstraint(N, tile // 2),
        ]
    )
    def gemm(
        a: tkl.Memory[M, K, SHARED, dtype],
        b: tkl.Memory[N, K, SHARED, dtype],
        c: tkl.Memory[M, N, GLOBAL, total],
    ):
        zero = tkl.Register[M, N, total](0.0)

        @tkw.iterate(K, init_args=[zero])
        def summed(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(summed, c)

    return gemm


def compiled(chip, kernel, size=64):
    return wave_compile(
        WaveCompileOptions(subs={M: size, N: size, K: size}, target=f"emu:{chip}"), kernel
    )


def widened(kernel):
    return [remark.message for remark in kernel.remarks if remark.code == "R0603"]


@pytest.mark.parametrize(
    "chip, dtype, is_widened",
    [
        ("gfx942", "f8e4m3fn", True),
        ("gfx942", "f8e4m3fnuz", False),
        ("gfx90a", "f8e4m3fnuz", True),
        ("gfx1100", "f8e4m3fn", True),
        ("gfx1201", "f8e4m3fn", False),
        ("gfx1201", "f8e4m3fnuz", True),
    ],
)
def test_types_without_an_instruction(chip, dtype, is_widened):
    """They are converted exactly, and a remark says so; results are right either way."""
    mma = tkw.MMAType.F32_16x16x32_F8
    kernel = compiled(chip, product(getattr(tkl, dtype), tkl.f32, mma, 32, 32))
    assert bool(widened(kernel)) == is_widened
    assert all(f"{chip} has no instruction for {dtype}" in text for text in widened(kernel))
    bits = np.random.default_rng(0).integers(0x30, 0x40, (2, 64, 64), dtype="u1")
    small = (1 + (bits & 7) / 8) * 2.0 ** ((bits >> 3).astype("f8") - (8 if "uz" in dtype else 7))
    c = np.zeros((64, 64), "f4")
    kernel(bits[0], bits[1], c)
    np.testing.assert_allclose(c, small[0] @ small[1].T, rtol=1e-6)


@pytest.mark.parametrize("chip, room", [("gfx90a", 65536), ("gfx942", 65536), ("gfx1201", 65536)])
def test_more_lds_than_there_is(chip, room):
    kernel = product(tkl.f16, tkl.f32, tkw.MMAType.F32_16x16x16_F16, 32, 4096)
    with pytest.raises(CompileError) as error:
        compiled(chip, kernel, 4096)
    found = error.value.diagnostics[0]
    assert found.code == "E0613" and f"{chip} has {room}" in found.message
    assert found.file == __file__ and "smaller tiles" in found.hint


def test_instructions_of_another_chip_are_replaced():
    """MFMA with K 32 for f16 is new in gfx950."""
    kernel = product(tkl.f16, tkl.f32, tkw.MMAType.F32_16x16x32_F16, 32, 32)
    for chip in ("gfx90a", "gfx942", "gfx1100", "gfx1201"):
        made = compiled(chip, kernel)
        assert any(r.code == "R0602" and f"on {chip}" in r.message for r in made.remarks)
        a = np.arange(2 * 64 * 64, dtype="f2").reshape(2, 64, 64) % 7
        c = np.zeros((64, 64), "f4")
        made(a[0], a[1], c)
        np.testing.assert_array_equal(c, a[0].astype("f4") @ a[1].astype("f4").T)
