"""A bug in the compiler is an exception: the process, compiled kernels and later kernels are not
affected.

The compiler is made to fail on purpose (`_wave.test_fault`): system memory in every build, single
allocations and assertions in builds with WAVE_FAULTS (`make san`)."""

import os
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from wave_lang import *
from wave_lang import InternalError, _wave
from wave_lang.kernel.wave import cache

ROOT = Path(__file__).resolve().parents[2]
WAVEC = ROOT / os.environ.get("BUILD", "build") / "wavec"
M, N, B = sym.M, sym.N, sym.B  # made before any error, used after each
KINDS = [kind for kind in ("malloc", "alloc", "assert", "site") if _wave.test_fault(kind) >= 0]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WAVE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "WAVE_CACHE_ON", 0)
    yield tmp_path
    _wave.test_fault("malloc", 0)


def traced():
    @wave(
        [
            WorkgroupConstraint(M, B, 0),
            WaveConstraint(M, B),
            HardwareConstraint(threads_per_wave=64, vector_shapes={M: B, N: 1}),
        ]
    )
    def twice(a: Memory[M, GLOBAL_ADDRESS_SPACE, f32], c: Memory[M, GLOBAL_ADDRESS_SPACE, f32]):
        write(read(a) + read(a), c)

    return twice


def compiled(target):
    return wave_compile(
        WaveCompileOptions(subs={B: 64}, dynamic_symbols=[M], target=target), traced()
    )


def launches(kernel):
    a, c = np.arange(100, dtype=np.float32), np.zeros(100, dtype=np.float32)
    kernel(a, c)
    return np.array_equal(c, 2 * a)


def fails(target, kind, n):
    """The error of a compile and a launch whose n-th `kind` fails; None: there are fewer."""
    _wave.test_fault(kind, n)
    try:
        kernel = compiled(target)
        launches(kernel)
        return None
    except (InternalError, MemoryError) as error:
        return error
    finally:
        _wave.test_fault("malloc", 0)


def faults(target, kind):
    launches(compiled(target))  # one-time initialisation is done
    _wave.test_fault(kind, 0)
    launches(compiled(target))
    return _wave.test_fault("malloc", 0)


def again(path):
    if not WAVEC.exists():
        pytest.skip("wavec is not built")
    return subprocess.run([WAVEC, "again", path], capture_output=True, text=True)


@pytest.mark.parametrize("target", ["cpu", "sim:sm_90a", "eval"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_process_goes_on(target, kind):
    before = {t: compiled(t) for t in ("cpu", "sim:gfx942", "eval")}
    count = faults(target, kind)
    errors = [fails(target, kind, n) for n in range(1, count, max(1, count // 12))]
    assert any(isinstance(error, InternalError) for error in errors)
    assert launches(compiled(target))
    for kernel in before.values():
        assert launches(kernel)


def test_what_it_says(folder):
    count = faults("cpu", "malloc")
    error = fails("cpu", "malloc", count // 2)
    assert isinstance(error, InternalError) and not isinstance(error, CompileError)
    assert "error[I0003]: out of memory" in str(error)
    assert error.reproducer and error.reproducer.startswith(str(folder)), (count, str(error))
    assert f"wavec again {error.reproducer}" in str(error)
    text = open(error.reproducer).read()
    assert text.startswith("# wavec again: ") and "kernel @twice" in text
    done = again(error.reproducer)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif("site" not in KINDS, reason="a build without WAVE_FAULTS")
def test_an_assertion_is_named():
    error = fails("cpu", "site", 3)
    assert "error[I0002]: internal error at " in str(error)
    assert error.diagnostics[0].code == "I0002"


def test_expressions_move_to_the_new_context():
    e, facts = M * 3 + N // 2, {M: 1, N: 2}
    known = hash(e)
    for n in range(1, 200, 20):
        fails("sim:sm_90a", "malloc", n)
    assert hash(e) == known and e == sym.M * 3 + sym.N // 2
    assert facts[sym.M] == 1 and e.subs({M: 4, N: 2}) == 13


def test_other_threads_launch_meanwhile():
    kernel, stop, wrong = compiled("cpu"), threading.Event(), []

    def work():
        while not stop.is_set():
            if not launches(kernel):
                wrong.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    for n in range(1, 400, 40):
        fails("cpu", "malloc", n)
    stop.set()
    thread.join()
    assert not wrong


def test_no_such_file():
    done = again(os.devnull)
    assert done.returncode == 2 and "does not begin with" in done.stderr
