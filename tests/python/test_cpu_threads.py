"""Launches on the CPU from several Python threads at the same time, and the number of threads they
use."""

import os
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


def run_at_once(work, n):
    """work(0) ... work(n - 1), each in its own thread."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_several_threads_launch_at_once():
    kernel, wrong = compiled(), []

    def work(seed):
        a, b = matrix(100 + seed, 70, seed=seed), matrix(90, 70, seed=seed + 50)
        for _ in range(20):
            c = np.full((100 + seed, 90), np.nan, np.float32)
            kernel(a, b, c)
            if not np.allclose(c, a @ b.T, atol=1e-3):
                wrong.append(seed)

    run_at_once(work, 6)
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
    """Workgroup i along M sums over i + 1 tiles of K: the panels that are ready are not all it
    needs."""
    a, b, c = matrix(160, 320), matrix(110, 320, seed=1), np.zeros((160, 110), np.float32)
    compiled(iters=WORKGROUP_0 + 1)(a, b, c)
    for i in range(5):
        rows, length = slice(32 * i, 32 * (i + 1)), 64 * (i + 1)
        exact = a[rows, :length].astype("f8") @ b[:, :length].T
        np.testing.assert_allclose(c[rows], exact, atol=1e-3)


BANDS = """
import sys
import numpy as np
sys.path.insert(0, {here!r})
import test_cpu_threads as t
kernel = t.compiled()
for m, n, k in (700, 300, 640), (256, 260, 256), (700, 300, 8192), (33, 2000, 65), (40, 40, 0):
    for seed in range(2):
        a, b = t.matrix(m, k, seed=seed), t.matrix(n, k, seed=seed + 2)
        c = np.full((m, n), np.nan, np.float32)
        kernel(a, b, c)
        np.testing.assert_allclose(c, a.astype("f8") @ b.T, atol=1e-2)
print("right")
"""


@pytest.mark.parametrize("threads", ["1", "2", "3", "4", "5"])
def test_panels_of_rows_are_shared_by_columns(threads):
    """Up to four threads run the grid in bands of rows, each one at least, if their panels fit (8192:
    they do not); the last band is smaller."""
    done = run_python(
        "-c", BANDS.format(here=os.path.dirname(__file__)), WAVE_NUM_THREADS=threads
    )
    assert done.stdout == "right\n", done.stderr


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


# ---- processes -----------------------------------------------------------------------------------


def right(kernel, seed=0, m=200):
    a, b, c = matrix(m, 70, seed=seed), matrix(90, 70, seed=seed + 1), np.zeros((m, 90), np.float32)
    kernel(a, b, c)
    return np.allclose(c, a @ b.T, atol=1e-3)


def in_child(work):
    """What `work` returns in the child of a fork."""
    child = os.fork()
    if child == 0:
        os._exit(0 if work() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_children_of_a_fork_launch():
    """As PyTorch's DataLoader does: the pool's threads are not there, and are started again. One
    more fork in the child, and kernels that are compiled there."""
    kernel = compiled()
    assert right(kernel)

    def work():
        return right(kernel, 1) and right(compiled("nt")) and in_child(lambda: right(kernel, 2))

    assert all(in_child(work) for _ in range(3))
    assert right(kernel, 3)


def test_a_fork_while_others_launch():
    """The other threads only launch: none is inside another library, where a fork may be unsafe."""
    kernel, done = compiled(), []
    a, b, c = matrix(400, 70), matrix(90, 70, seed=1), np.zeros((400, 90), np.float32)
    expected = a @ b.T

    def launch():
        for _ in range(100):
            kernel(a, b, np.zeros((400, 90), np.float32))

    def work():
        kernel(a, b, c)
        return abs(c - expected).max() < 1e-3

    threads = [threading.Thread(target=launch) for _ in range(3)]
    for thread in threads:
        thread.start()
    done = [in_child(work) for _ in range(5)]
    for thread in threads:
        thread.join()
    assert all(done)


EXIT = """
import sys, threading
sys.path.insert(0, {here!r})
import test_cpu_threads as t
kernel = t.compiled()
assert t.right(kernel)
began = threading.Event()
def work():
    while True:
        began.set()
        t.right(kernel, m=3000)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
began.wait()
"""


def test_the_process_ends_while_kernels_run():
    done = run_python("-c", EXIT.format(here=os.path.dirname(__file__)), WAVE_NUM_THREADS="2")
    assert done.returncode == 0, done.stderr


def test_different_kernels_at_once():
    """Each thread compiles and launches its own."""
    wrong = []

    def work(number):
        kernel = compiled("nn" if number % 2 else "nt")
        a, b = matrix(64 + number, 70, seed=number), matrix(90, 70, seed=number + 50)
        other = np.ascontiguousarray(b.T) if number % 2 else b
        for _ in range(10):
            c = np.full((64 + number, 90), np.nan, np.float32)
            kernel(a, other, c)
            if not np.allclose(c, a @ b.T, atol=1e-3):
                wrong.append(number)

    run_at_once(work, 8)
    assert not wrong


NUMBERS = """
import os, sys
from wave_lang import _wave
sys.path.insert(0, {here!r})
import test_cpu_threads as t
for number in "3", "5":
    os.environ["WAVE_NUM_THREADS"] = number
    kernel = t.compiled()
    assert t.right(kernel)
    print([d.name.split(", ")[1] for d in _wave.devices() if d.kind == "cpu"])
"""


def test_the_number_of_threads_stays_while_programs_live():
    """The pool belongs to the process: the variable is read when it is started."""
    done = run_python("-c", NUMBERS.format(here=os.path.dirname(__file__)), WAVE_NUM_THREADS="3")
    assert done.stdout == "['3 threads']\n['3 threads']\n", done.stderr
