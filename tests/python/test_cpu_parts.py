"""Products on CPUs whose panels are too long for the L1 cache, and are multiplied in parts of k."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE
from wave_lang.kernel.wave.machine import devices

pytestmark = pytest.mark.skipif(not devices("cpu"), reason="there is no libLLVM")
M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
TYPES = {
    "f32": (tkl.f32, tkl.f32, "f4", "f4"),
    "f64": (tkl.f64, tkl.f64, "f8", "f8"),
    "f16": (tkl.f16, tkl.f16, "f2", "f2"),  # sums are rounded once per tile, not once per part
    "i8": (tkl.i8, tkl.i32, "i1", "i4"),
}


def gemm(kind, tile, start, target, dynamic):
    dtype, total, _, _ = TYPES[kind]
    rows, columns, terms = tile

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64),
            tkw.WorkgroupConstraint(M, rows, 0),
            tkw.WorkgroupConstraint(N, columns, 1),
            tkw.TilingConstraint(K, terms),
        ]
    )
    def gemm(
        a: tkl.Memory[M, K, GLOBAL_ADDRESS_SPACE, dtype],
        b: tkl.Memory[N, K, GLOBAL_ADDRESS_SPACE, dtype],
        c: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, total],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, total](start)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    return lambda subs: wave_compile(
        WaveCompileOptions(
            subs={} if dynamic else subs,
            dynamic_symbols=[M, N, K] if dynamic else [],
            target=target,
            strict=True,
        ),
        gemm,
    )


@pytest.mark.parametrize("target", ["cpu", "sim:cpu_avx2"])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    "size, tile, start",
    [
        ((37, 50, 700), (32, 48, 300), 0),
        ((5, 97, 513), (16, 96, 512), 3),
        ((33, 31, 129), (33, 50, 1000), 0),
        ((8, 8, 0), (16, 16, 600), 2),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_parts(target, kind, size, tile, start, dynamic):
    m, n, k = size
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-3, 4, (rows, k)) for rows in (m, n))
    a, b = a.astype(TYPES[kind][2]), b.astype(TYPES[kind][2])
    c = np.full((m, n), 99, TYPES[kind][3])
    gemm(kind, tile, start, target, dynamic)({M: m, N: n, K: k})(a, b, c)
    wanted = a.astype("f8") @ b.astype("f8").T + start
    np.testing.assert_array_equal(c.astype("f8"), wanted)  # integers, small enough for f16
