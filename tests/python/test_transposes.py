"""Tiles that are written in another order than they were read pass through shared memory, so that
both accesses are wide."""

import re

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from thread_faults import faults, made_arguments, outcome
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

B, M, N = tkl.sym.B, tkl.sym.M, tkl.sym.N
TYPES = {tkl.f16: "f2", tkl.f32: "f4"}
TARGETS = ["sim:sm_90a", "sim:sm_80", "sim:gfx942", "eval"]
CONSTRAINTS = [
    tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={B: 0, M: 16, N: 64}),
    tkw.WorkgroupConstraint(M, 64, 1),
    tkw.WorkgroupConstraint(N, 64, 0),
    tkw.WorkgroupConstraint(B, 1, 2),
    tkw.WaveConstraint(M, 16),
]


def transpose(dtype, target, sizes=None):
    @tkw.wave([c for c in CONSTRAINTS if getattr(c, "dim", None) != B])
    def transpose(x: tkl.Memory[M, N, G, dtype], y: tkl.Memory[N, M, G, dtype]):
        tkw.write(tkw.permute(tkw.read(x), [N, M]), y)

    options = {"subs": sizes or {}, "dynamic_symbols": [] if sizes else [M, N], "target": target}
    return wave_compile(WaveCompileOptions(**options), transpose)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_transpose(dtype, target):
    kernel, rng = transpose(dtype, target), np.random.default_rng(1)
    for shape in ((64, 128), (72, 200), (65, 33)):
        x = rng.standard_normal(shape, np.float32).astype(TYPES[dtype])
        y = np.zeros(shape[::-1], TYPES[dtype])
        kernel(x, y)
        assert np.array_equal(y, x.T)


@pytest.mark.parametrize("target", TARGETS[:3])
def test_permute(target):
    """Rows of a batch become columns, by a mapping."""
    i, j, k = (tkw.IndexMapping.iterator(n) for n in range(3))
    turned = tkw.IndexMapping(3, inputs={B: i, M: j, N: k}, outputs={N: k, B: i, M: j})

    @tkw.wave(CONSTRAINTS)
    def permute(x: tkl.Memory[B, M, N, G, tkl.f16], y: tkl.Memory[N, B, M, G, tkl.f16]):
        tkw.write(tkw.read(x), y, mapping=turned)

    x = np.random.default_rng(2).standard_normal((3, 80, 72), np.float32).astype("f2")
    y = np.zeros((72, 3, 80), "f2")
    options = WaveCompileOptions(dynamic_symbols=[B, M, N], target=target)
    wave_compile(options, permute)(x, y)
    assert np.array_equal(y, x.transpose(2, 0, 1))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_accesses_are_wide(dtype):
    text = transpose(dtype, "sm_90a", {M: 1024, N: 2048}).asm
    assert set(re.findall(r"(?:ld|st)\.global(?:\.v4)?", text)) == {"ld.global.v4", "st.global.v4"}


def test_the_barrier_is_needed():
    text = str(transpose(tkl.f32, "sim:sm_90a", {M: 64, N: 64}).lowered)
    arguments = made_arguments(text)
    (fault,) = (f for f in faults(text) if f.kind == "barrier")
    assert "E0803" in outcome(fault.text, arguments, arguments, "sm_90a")
