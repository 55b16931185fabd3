"""Launches on the processor from several threads of Python at once, and how many threads they use."""

import threading

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import rng, run_python
from wave_lang import WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

pytestmark = pytest.mark.skipif(
    not any(d.kind == "cpu" for d in _wave.devices()), reason="there is no libLLVM"
)
M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K


@tkw.wave(
    [
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
        tkw.WorkgroupConstraint(M, 32, 0),
        tkw.WorkgroupConstraint(N, 48, 1),
        tkw.TilingConstraint(K, 64),
        tkw.WaveConstraint(M, 32),
        tkw.WaveConstraint(N, 48),
    ]
)
def gemm(
    a: tkl.Memory[M, K, G, tkl.f32],
    b: tkl.Memory[N, K, G, tkl.f32],
    c: tkl.Memory[M, N, G, tkl.f32],
):
    @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
    def product(acc):
        return tkw.mma(tkw.read(a), tkw.read(b), acc)

    tkw.write(product, c)


def compiled():
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
