"""Launches on the processor from several threads of Python at once, and how many threads they use."""

import threading

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import rng, run_python
from wave_lang import LaunchError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import WORKGROUP_0

pytestmark = pytest.mark.skipif(
    not any(d.kind == "cpu" for d in _wave.devices()), reason="there is no libLLVM"
)
M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K


def compiled(form="nt", iters=None):
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    turned = tkw.IndexMapping(num_iterators=2, inputs={K: j, N: i}, outputs={N: i, K: j})
    shape, mapping = ((N, K), None) if form == "nt" else ((K, N), turned)

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 48, 1),
            tkw.TilingConstraint(K, 64, iters=iters),
            tkw.WaveConstraint(M, 32),
            tkw.WaveConstraint(N, 48),
        ]
    )
    def gemm(
        a: tkl.Memory[M, K, G, tkl.f32],
        b: tkl.Memory[shape[0], shape[1], G, tkl.f32],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b, mapping=mapping), acc)

        tkw.write(product, c)

    options = WaveCompileOptions(dynamic_symbols=[M, N, K], target="cpu", strict=True)
    return wave_compile(options, gemm)


def matrix(*shape, seed=0):
    return rng(seed).standard_normal(shape).astype(np.float32)


def test_several_threads_launch_at_once():
    kernel, wrong = compiled(), []

    def work(seed):
        a, b = matrix(100 + seed, 70, seed=seed), matrix(90, 70, seed=seed + 50)
        for _ in range(20):
            c = np.full((100 + seed, 90), np.nan, np.float32)
            kernel(a, b, c)
            if not np.allclose(c, a @ b.T, atol=1e-3):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("form", ["nt", "nn"])
@pytest.mark.parametrize("k", [1, 64, 1000, 9000])
def test_panels_of_one_launch_are_not_those_of_the_next(form, k):
    """Panels outlive workgroups (9000: more tiles than are kept), never the launch."""
    kernel = compiled(form)
    for seed in range(3):
        a, b = matrix(100, k, seed=seed), matrix(110, k, seed=seed + 10)
        c = np.full((100, 110), np.nan, np.float32)
        kernel(a, b if form == "nt" else np.ascontiguousarray(b.T), c)
        np.testing.assert_allclose(c, a.astype("f8") @ b.T, atol=1e-4 * np.sqrt(k))


def test_later_workgroups_need_more_panels():
    """Workgroup i along M sums over i + 1 tiles of K: what it finds ready is not all it needs."""
    a, b, c = matrix(160, 320), matrix(110, 320, seed=1), np.zeros((160, 110), np.float32)
    compiled(iters=WORKGROUP_0 + 1)(a, b, c)
    for i in range(5):
        rows, length = slice(32 * i, 32 * (i + 1)), 64 * (i + 1)
        exact = a[rows, :length].astype("f8") @ b[:, :length].T
        np.testing.assert_allclose(c[rows], exact, atol=1e-3)


def test_others_go_on_during_a_launch():
    """A launch does not hold the lock of the interpreter: this thread counts meanwhile."""
    kernel, state = compiled(), {"counted": 0, "running": False, "done": False}
    a, b, c = matrix(1500, 1000), matrix(1500, 1000), np.zeros((1500, 1500), np.float32)

    def work():
        state["running"] = True
        kernel(a, b, c)
        state["done"] = True

    thread = threading.Thread(target=work)
    thread.start()
    while not state["done"]:
        state["counted"] += state["running"]
    thread.join()
    assert state["counted"] > 1000


@pytest.mark.parametrize("variable", ["WAVE_NUM_THREADS", "OMP_NUM_THREADS"])
def test_the_number_of_threads_is_asked_for(variable):
    code = (
        "from wave_lang import _wave; print([d.name for d in _wave.devices() if d.kind == 'cpu'])"
    )
    others = {"WAVE_NUM_THREADS": "", "OMP_NUM_THREADS": "7"}
    done = run_python("-c", code, **{**others, variable: "3"})
    assert "3 threads" in done.stdout, done.stderr


def test_what_was_wrong_with_one_launch_is_not_said_of_the_next():
    kernel, c = compiled(), np.zeros((40, 50), np.float32)
    for rows in (41, 42, 40, 43):
        a, b = matrix(rows, 30), matrix(50, 30, seed=1)
        if rows == 40:
            kernel(a, b, c)
            np.testing.assert_allclose(c, a @ b.T, atol=1e-4)
            continue
        with pytest.raises(LaunchError) as error:
            kernel(a, b, c)
        assert str(rows) in str(error.value) and str(error.value).count("error[") == 1
