"""Rows that are kept as they were loaded: values in f32 are computed again after barriers."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

M, N = tkl.sym.M, tkl.sym.N
ORDERS = ["round", "reverse", "first", "last", "random:7"]
WAVES = 40  # more than a workgroup has: two of 20 waves, or four of 10


def softmax(dtype, again, columns, **options):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: 1024}),
            tkw.WorkgroupConstraint(M, 1, 0),
            tkw.WorkgroupConstraint(N, 1024 * WAVES, 1),
            tkw.WaveConstraint(N, 1024),
        ]
    )
    def softmax(x: tkl.Memory[M, N, G, dtype], y: tkl.Memory[M, N, G, dtype]):
        value = tkw.cast(tkw.read(x), tkl.f32)
        largest = tkw.broadcast(tkw.max(value, dim=N, block=True), [M, N])
        weights = tkw.exp2(value - largest)
        scale = tkw.reciprocal(tkw.sum(weights, dim=N, block=True))
        tkw.write(tkw.cast(weights * tkw.broadcast(scale, [M, N]), dtype), y)

    given = {"subs": {N: columns}, "dynamic_symbols": [M], "target": "sim:sm_90a"}
    return wave_compile(
        WaveCompileOptions(**{**given, **options}, recompute=again), softmax
    )


def scaled(columns, waves, **options):
    """Rows divided by their norm, times weights."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(
                threads_per_wave=32, vector_shapes={M: 1, N: columns // waves}
            ),
            tkw.WorkgroupConstraint(M, 1, 0),
            tkw.WorkgroupConstraint(N, columns, 1),
            tkw.WaveConstraint(N, columns // waves),
        ]
    )
    def scaled(
        x: tkl.Memory[M, N, G, tkl.f16],
        w: tkl.Memory[N, G, tkl.f16],
        y: tkl.Memory[M, N, G, tkl.f16],
    ):
        value = tkw.cast(tkw.read(x), tkl.f32)
        factor = tkw.broadcast(
            tkw.rsqrt(tkw.sum(value * value, dim=N, block=True)), [M, N]
        )
        weights = tkw.broadcast(tkw.cast(tkw.read(w), tkl.f32), [M, N])
        tkw.write(tkw.cast(value * factor * weights, tkl.f16), y)

    given = {"subs": {N: columns}, "dynamic_symbols": [M], "target": "sim:sm_90a"}
    return wave_compile(WaveCompileOptions(**{**given, **options}), scaled)


def decided(kernel):
    return [r.message for r in kernel.remarks if getattr(r, "code", "") == "R0627"]


def exact(x):
    weights = np.exp2(x.astype(float) - x.max(1, keepdims=True).astype(float))
    return weights / weights.sum(1, keepdims=True)


@pytest.mark.parametrize("columns", [40960, 40952, 40004, 33000, 20482, 40001])
def test_results_are_the_same(columns):
    """To the bit: only what is kept in registers differs. Rows end in any of the workgroups; elements of odd
    ones are loaded one by one."""
    x = np.random.default_rng(columns).standard_normal((3, columns)).astype("f2")
    results = []
    for again in (True, False, None):
        kernel, y = softmax(tkl.f16, again, columns), np.zeros_like(x)
        kernel(x, y)
        assert bool(decided(kernel)) == (again is not False and columns % 2 == 0)
        results.append(y)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_allclose(results[0], exact(x), rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("order", ORDERS)
def test_orders(order):
    x = np.random.default_rng(1).standard_normal((2, 40952)).astype("f2")
    kernel, y = softmax(tkl.f16, None, 40952), np.zeros_like(x)
    kernel.simulate(x, y, schedule=order)
    np.testing.assert_allclose(y, exact(x), rtol=1e-3, atol=1e-7)


def test_no_rows():
    kernel, x = softmax(tkl.f16, None, 40960), np.zeros((0, 40960), "f2")
    kernel(x, x.copy())


def test_wide_elements_are_kept():
    """In f32, what is loaded takes as many registers as what is computed from it."""
    kernel = softmax(tkl.f32, True, 40960)
    assert not decided(kernel) and " after " not in str(kernel.lowered)


def test_text():
    """ptxas is told how many workgroups are to fit, and nothing of a row is in f32 at a barrier."""
    kernel = softmax(tkl.f16, None, 40960, target="sm_90a")
    assert ".minnctapersm 6" in kernel.asm and ".maxntid 320" in kernel.asm
    assert "keeps 16 registers instead of 32" in decided(kernel)[0]
    kernel = softmax(tkl.f16, False, 40960, target="sm_90a")
    assert ".minnctapersm" not in kernel.asm


@pytest.mark.parametrize(
    "columns, waves, ahead", [(65536, 64, False), (262144, 128, True)]
)
def test_weights_are_loaded_late(columns, waves, ahead):
    """Each piece where it is used or, if there are registers, while the one before is used."""
    text = scaled(columns, waves, target="sm_90a").asm
    rows, rest = text.split("barrier.cluster.wait", 1)
    loads = columns // waves // 256
    assert rows.count("ld.global") == loads and rest.count("ld.global") == loads
    pieces = [piece.count("ld.global") for piece in rest.split("st.global")]
    assert pieces == ([2] + [1] * (loads - 2) + [0, 0] if ahead else [1] * loads + [0])
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(s).astype("f2") for s in ((2, columns), columns))
    y, z = np.zeros_like(x), np.zeros_like(x)
    scaled(columns, waves)(x, w, y)
    scaled(columns, waves, recompute=False)(x, w, z)
    np.testing.assert_array_equal(y, z)


def test_loads_come_first():
    """All of a row are issued before what the first one is needed for: that also needs the last one."""
    kernel = str(softmax(tkl.f16, None, 40960).lowered)
    before = kernel.split("barrier")[0]
    assert before.rindex(" load ") < before.index(" after ") < before.index(" cast ")


def test_machines_without_clusters():
    """Where a workgroup has the whole row, values are computed again if that is requested, or few workgroups fit."""

    def centred(again, columns=16384):
        @tkw.wave(
            [
                tkw.HardwareConstraint(
                    threads_per_wave=32, vector_shapes={M: 1, N: columns // 16}
                ),
                tkw.WorkgroupConstraint(M, 1, 0),
                tkw.WorkgroupConstraint(N, columns, 1),
                tkw.WaveConstraint(N, columns // 16),
            ]
        )
        def centred(x: tkl.Memory[M, N, G, tkl.f16], y: tkl.Memory[M, N, G, tkl.f16]):
            value = tkw.cast(tkw.read(x), tkl.f32)
            mean = tkw.sum(value, dim=N, block=True) / tkl.Register[M, tkl.f32](N)
            tkw.write(tkw.cast(value - tkw.broadcast(mean, [M, N]), tkl.f16), y)

        given = {"subs": {N: columns}, "dynamic_symbols": [M], "target": "sim:sm_90a"}
        return wave_compile(WaveCompileOptions(**given, recompute=again), centred)

    x = (1000 + np.random.default_rng(2).standard_normal((2, 16384))).astype("f2")
    y, z = np.zeros_like(x), np.zeros_like(x)
    default, never = centred(None), centred(False)
    default(x, y)
    never(x, z)
    assert decided(default) and not decided(never)
    assert not decided(centred(None, 4096))
    np.testing.assert_array_equal(y, z)
