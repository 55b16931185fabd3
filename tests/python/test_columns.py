"""Sums along columns on a CPU: in whole and partial vectors, with known and unknown numbers of
columns."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import rng
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.wave.machine import devices

pytestmark = pytest.mark.skipif(not devices("cpu"), reason="there is no libLLVM")
M, N = tkl.sym.M, tkl.sym.N
REDUCE = {"sum": (tkw.sum, np.sum), "max": (tkw.max, np.max), "min": (tkw.min, np.min)}


def down(name, dtype, target, m, n, dynamic):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: M, N: 64}),
            tkw.WorkgroupConstraint(N, 256, 0),
            tkw.WorkgroupConstraint(M, M, 1),
        ]
    )
    def columns(x: tkl.Memory[M, N, G, dtype], y: tkl.Memory[N, G, dtype]):
        tkw.write(REDUCE[name][0](tkw.read(x), dim=M), y)

    subs = {M: m} if dynamic else {M: m, N: n}
    options = WaveCompileOptions(
        subs=subs, dynamic_symbols=[N] if dynamic else [], target=target, strict=True
    )
    return wave_compile(options, columns)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", REDUCE)
@pytest.mark.parametrize("n", [1, 15, 64, 255, 256, 300, 1000])
def test_columns(name, n, dynamic):
    x, y = rng().standard_normal((37, n)).astype("f4"), np.full(n, np.nan, "f4")
    down(name, tkl.f32, "cpu", 37, n, dynamic)(x, y)
    np.testing.assert_allclose(y, REDUCE[name][1](x.astype("f8"), axis=0), atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", ["f16", "i32", "f64"])
@pytest.mark.parametrize("target", ["cpu", "sim:cpu"])
def test_types(dtype, target, dynamic):
    x = (8 * rng().standard_normal((5, 130))).astype(
        dtype.replace("f", "float").replace("i", "int")
    )
    y = np.zeros(130, x.dtype)
    down("sum", getattr(tkl, dtype), target, 5, 130, dynamic)(x, y)
    np.testing.assert_allclose(y, x.astype("f8").sum(0), rtol=2e-3, atol=2e-2)
