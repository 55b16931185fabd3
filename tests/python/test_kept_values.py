"""Values that workgroups have in common are computed once on a CPU: for these workgroups and this
launch."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import rng
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.wave.machine import devices

pytestmark = pytest.mark.skipif(not devices("cpu"), reason="there is no libLLVM")
M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K


def compiled(kernel, target="cpu", **subs):
    subs = {getattr(tkl.sym, name): value for name, value in subs.items()}
    dynamic = [s for s in (M, N) if s not in subs]
    options = WaveCompileOptions(subs=subs, dynamic_symbols=dynamic, target=target, strict=True)
    return wave_compile(options, kernel)


def rows_and_columns(first, rows=1, columns=48):
    """Along which of the two dimensions workgroups are numbered first."""
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 16}),
        tkw.WorkgroupConstraint(M, rows, first),
        tkw.WorkgroupConstraint(N, columns, 1 - first),
    ]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("shape", [(40, 200), (1, 48), (7, 1), (64, 47)])
def test_weights(first, rows, shape):
    @tkw.wave(rows_and_columns(first, rows))
    def scale(
        x: tkl.Memory[M, N, G, tkl.f32],
        w: tkl.Memory[N, G, tkl.f16],
        v: tkl.Memory[M, G, tkl.f16],
        y: tkl.Memory[M, N, G, tkl.f32],
    ):
        columns = tkw.exp2(tkw.cast(tkw.read(w), tkl.f32))
        lines = tkw.exp2(tkw.cast(tkw.read(v), tkl.f32))
        tkw.write(tkw.read(x) * tkw.broadcast(columns, [M, N]) * tkw.broadcast(lines, [M, N]), y)

    kernel = compiled(scale)
    for seed in range(3):  # the next launch does not find what this one kept
        r = rng(seed)
        x = r.standard_normal(shape).astype("f4")
        v, w = (r.standard_normal(n).astype("f2") for n in shape)
        y = np.full(shape, np.nan, "f4")
        kernel(x, w, v, y)
        exact = x * np.exp2(w.astype("f8")) * np.exp2(v.astype("f8"))[:, None]
        np.testing.assert_allclose(y, exact, rtol=1e-5)


@pytest.mark.parametrize("target", ["cpu", "sim:cpu"])
def test_a_loop_does_not_add_to_what_is_kept(target):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 16, K: 8}),
            tkw.WorkgroupConstraint(M, 1, 0),
            tkw.WorkgroupConstraint(N, N, 1),
            tkw.TilingConstraint(K, 8),
        ]
    )
    def doubled(bias: tkl.Memory[N, G, tkl.f16], y: tkl.Memory[M, N, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkw.cast(tkw.read(bias), tkl.f32)])
        def total(acc):
            return acc + acc

        tkw.write(tkw.broadcast(total, [M, N]), y)

    bias, y = rng(1).standard_normal(32).astype("f2"), np.zeros((9, 32), "f4")
    compiled(doubled, target, M=9, N=32, K=24)(bias, y)
    assert np.array_equal(y, np.tile(8 * bias.astype("f4"), (9, 1)))


def test_what_does_not_fit_is_made_again():
    """A million weights do not fit."""

    @tkw.wave(rows_and_columns(0, columns=N))
    def scale(
        x: tkl.Memory[M, N, G, tkl.f32],
        w: tkl.Memory[N, G, tkl.f16],
        y: tkl.Memory[M, N, G, tkl.f32],
    ):
        tkw.write(tkw.read(x) * tkw.broadcast(tkw.exp2(tkw.cast(tkw.read(w), tkl.f32)), [M, N]), y)

    n = 1 << 20
    x, w = rng().standard_normal((3, n)).astype("f4"), rng(1).standard_normal(n).astype("f2")
    y = np.zeros_like(x)
    compiled(scale, N=n)(x, w, y)
    np.testing.assert_allclose(y, x * np.exp2(w.astype("f8")), rtol=1e-5)
