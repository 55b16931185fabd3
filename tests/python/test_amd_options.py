"""Options that concern only AMD GPUs, in the code that LLVM is given."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from amd_utils import has_llvm
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL
from wave_lang.kernel.ops.wave_ops import MemoryAccessFlags

pytestmark = pytest.mark.skipif(not has_llvm(), reason="there is no libLLVM with AMD GPUs")

M, N = tkl.sym.M, tkl.sym.N
CHIPS = ("gfx942", "gfx1100", "gfx1201")


def made(flags=None):
    """y = x * 0.5, by waves of 64 columns."""
    how = {} if flags is None else {"flags": flags}

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64}),
            tkw.WorkgroupConstraint(M, 1, 0),
            tkw.WorkgroupConstraint(N, 64, 1),
            tkw.WaveConstraint(N, 64),
        ]
    )
    def halve(x: tkl.Memory[M, N, GLOBAL, tkl.f32], y: tkl.Memory[M, N, GLOBAL, tkl.f32]):
        tkw.write(tkw.read(x, **how) * 0.5, y, **how)

    return halve


def compiled(target, n=128, flags=None, **options):
    return wave_compile(
        WaveCompileOptions(subs={M: 3, N: n}, target=target, **options), made(flags)
    )


def unused(kernel):
    return [remark.message for remark in kernel.remarks if remark.code == "R0609"]


def halved(kernel, x):
    y = np.full_like(x, 7)
    kernel(x, y)
    return y


def data(n=128):
    return np.arange(3 * n, dtype="f4").reshape(3, n) - 100


@pytest.mark.parametrize("chip", CHIPS)
def test_waves_per_eu(chip):
    kernel = compiled(f"emu:{chip}", waves_per_eu=2)
    assert '"amdgpu-waves-per-eu"="2"' in kernel.program.text("llvm")
    assert unused(kernel) == []
    assert "waves-per-eu" not in compiled(f"emu:{chip}").program.text("llvm")
    np.testing.assert_array_equal(halved(kernel, data()), data() / 2)


@pytest.mark.parametrize("value, words", [(-1, "not -1"), (99, "not 99"), ("two", "an integer")])
def test_impossible_numbers_of_waves(value, words):
    with pytest.raises((CompileError, ValueError), match=words):
        compiled("emu:gfx942", waves_per_eu=value)


@pytest.mark.parametrize("chip", CHIPS)
def test_subnormal_numbers(chip):
    x = np.full((3, 128), 2.0**-126, "f4")  # half of it is subnormal
    kept = compiled(f"emu:{chip}", denorm_fp_math_f32="ieee")
    flushed = compiled(f"emu:{chip}", denorm_fp_math_f32="preserve-sign")
    words = '"denormal-fp-math-f32"="preserve-sign,preserve-sign"'
    assert words in flushed.program.text("llvm") and words not in kept.program.text("llvm")
    np.testing.assert_array_equal(halved(kept, x), x / 2)
    np.testing.assert_array_equal(halved(flushed, x), 0 * x)
    assert np.signbit(halved(flushed, -x)).all() and unused(flushed) == []


def test_unknown_modes_are_refused():
    with pytest.raises(ValueError, match="'ieee' or 'preserve-sign'"):
        compiled("emu:gfx942", denorm_fp_math_f32="sometimes")


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("n", [128, 100])
def test_buffers(chip, n):
    """Without the option only masked accesses go through buffers."""
    plain, through = compiled(f"emu:{chip}", n), compiled(f"emu:{chip}", n, use_buffer_ops=True)
    text, other = plain.program.text("llvm"), through.program.text("llvm")
    assert ("raw.ptr.buffer.load" in text) == (n == 100)
    assert "raw.ptr.buffer.load" in other and "raw.ptr.buffer.store" in other
    assert " load " not in other and "  store " not in other and unused(through) == []
    np.testing.assert_array_equal(halved(through, data(n)), data(n) / 2)
    np.testing.assert_array_equal(halved(plain, data(n)), data(n) / 2)


@pytest.mark.parametrize("chip, policy", [("gfx942", 2), ("gfx1100", 6), ("gfx1201", 1)])
def test_data_that_is_used_once(chip, policy):
    once = MemoryAccessFlags.NONTEMPORAL
    whole, masked = compiled(f"emu:{chip}", flags=once), compiled(f"emu:{chip}", 100, flags=once)
    text = whole.program.text("llvm")
    lines = [line for line in text.splitlines() if " load " in line or " store " in line]
    assert lines and all("!nontemporal !" in line for line in lines)
    calls = [line for line in masked.program.text("llvm").splitlines() if "buffer.load" in line]
    assert any(f", i32 {policy})" in line for line in calls)
    np.testing.assert_array_equal(halved(whole, data()), data() / 2)
    np.testing.assert_array_equal(halved(masked, data(100)), data(100) / 2)


@pytest.mark.parametrize(
    "options",
    [{"waves_per_eu": 2}, {"use_buffer_ops": True}, {"denorm_fp_math_f32": "preserve-sign"}],
)
def test_other_machines_say_so(options):
    (name,) = options
    (message,) = unused(compiled("cpu", **options))
    assert message.startswith(f"`{name}=") and "has no effect on target" in message
