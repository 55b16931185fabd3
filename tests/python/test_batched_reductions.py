"""Reductions of an iteration that waves exchange together: one barrier for each batch."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from thread_faults import faults, made_arguments, outcome
from compiler_steps import simulated
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
SIZES = {M: 2, K: 5, N: 1024}


def compiled(target, dependent=False, sizes=SIZES):
    """Rows less their mean, by the mean of their squares; if `dependent`, of the squares that
    remain."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 0, K: 0, N: 128}),
            tkw.WorkgroupConstraint(M, 1, 0),
            tkw.WorkgroupConstraint(N, N, 1),
            tkw.WaveConstraint(N, 128),
            tkw.TilingConstraint(K, 1),
        ]
    )
    def rows(x: tkl.Memory[M, K, N, G, tkl.f32], y: tkl.Memory[M, K, N, G, tkl.f32]):
        def mean(value):
            total = tkw.sum(value, dim=N, block=True) / tkw.register([M, K], tkl.f32, N)
            return tkw.broadcast(total, [M, K, N])

        @tkw.iterate(K, init_args=[])
        def loop():
            value = tkw.read(x)
            rest = value - mean(value)
            base = rest if dependent else value
            tkw.write(rest / mean(base * base), y)

    return wave_compile(WaveCompileOptions(subs=sizes, target=target), rows)


@pytest.mark.parametrize("dependent, barriers", [(False, 1), (True, 2)])
def test_barriers(dependent, barriers):
    assert compiled("sm_90a", dependent).asm.count("bar.sync") == barriers


@pytest.mark.parametrize("target", ["sim:sm_90a", "sim:sm_80", "sim:gfx942", "eval"])
@pytest.mark.parametrize("dependent", [False, True])
def test_results(target, dependent):
    x = np.random.default_rng(1).standard_normal((2, 5, 1024), np.float32)
    y = np.zeros_like(x)
    compiled(target, dependent)(x, y)
    value = x.astype(float)
    rest = value - value.mean(2, keepdims=True)
    base = rest if dependent else value
    np.testing.assert_allclose(y, rest / (base * base).mean(2, keepdims=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", ["sm_90a", "gfx942"])
def test_faults_are_found(target):
    """The barrier is needed, and so are both slots: with one, the next iteration overwrites what
    waves of this one may not have read."""
    text = str(compiled(f"sim:{target}", sizes={M: 1, K: 3, N: 1024}).lowered)
    arguments = made_arguments(text)
    expected = simulated(text, arguments, target)
    for fault in faults(text):
        if fault.kind == "barrier":
            assert "E0803" in outcome(fault.text, arguments, expected, target), fault
    assert "Mod($ARGK, 2)" in text
    assert "E0803" in outcome(text.replace("Mod($ARGK, 2)", "0"), arguments, expected, target)


ROWS = [
    tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: 64}),
    tkw.WorkgroupConstraint(M, 1, 0),
    tkw.WorkgroupConstraint(N, 256, 1),
    tkw.WaveConstraint(N, 64),
]


@pytest.mark.parametrize("target", ["sim:sm_90a", "sim:gfx942", "cpu", "eval"])
def test_symbols_between(target):
    """Which elements the second sum has is known only after the first one."""

    @tkw.wave(ROWS)
    def sums(
        x: tkl.Memory[M, N, G, tkl.f32],
        lengths: tkl.Memory[M, G, tkl.i32],
        all_of_it: tkl.Memory[M, G, tkl.f32],
        start: tkl.Memory[M, G, tkl.f32],
    ):
        value, length = tkw.read(x), tkw.read(lengths)
        total = tkw.sum(value, dim=N, block=True)
        tkw.set_symbol(N, length)
        tkw.write(total, all_of_it)
        tkw.write(tkw.sum(value * 2.0, dim=N, block=True), start)

    x = np.random.default_rng(1).standard_normal((4, 200), np.float32)
    lengths, got = np.array([1, 200, 0, 133], "i4"), np.zeros((2, 4), "f4")
    wave_compile(WaveCompileOptions(subs={M: 4, N: 200}, target=target), sums)(x, lengths, *got)
    np.testing.assert_allclose(got[0], x.sum(1), rtol=1e-4, atol=1e-5)
    want = [2 * row[:length].sum() for row, length in zip(x, lengths)]
    np.testing.assert_allclose(got[1], want, rtol=1e-4, atol=1e-5)
