"""Errors in code that is not in a file: notebook cells, exec; and in files that change."""

import linecache
import signal

import numpy as np
import pytest

import wave_lang
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import build

CELL = """
import wave_lang.kernel.lang as tkl, wave_lang.kernel.wave as tkw
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE
M = tkl.sym.M

@tkw.wave([tkw.WorkgroupConstraint(M, 64, 0), tkw.HardwareConstraint(threads_per_wave=64)])
def kernel(a: tkl.Memory[M, GLOBAL_ADDRESS_SPACE, tkl.f32]):
    tkw.write(tkw.exp2(a), a)
"""


def error_of(source: str, name: str) -> wave_lang.CompileError:
    namespace = {}
    exec(compile(source, name, "exec"), namespace)
    with pytest.raises(wave_lang.CompileError) as caught:
        build(namespace["kernel"], {tkl.sym.M: 64})
    return caught.value


def test_a_cell_shows_its_line():
    name = "<ipython-input-7>"
    linecache.cache[name] = (len(CELL), None, CELL.splitlines(True), name)
    assert "tkw.write(tkw.exp2(a), a)" in str(error_of(CELL, name))
    changed = CELL.replace("exp2", "log2")
    linecache.cache[name] = (len(changed), None, changed.splitlines(True), name)
    assert "tkw.write(tkw.log2(a), a)" in str(error_of(changed, name))


def test_unknown_sources_still_say_where():
    error = error_of(CELL, "<nowhere>")
    assert "<nowhere>:8:15: error[E0310]" in str(error)


def test_a_changed_file_shows_its_new_line(tmp_path):
    file = tmp_path / "kernel.py"
    for name in ("exp2", "log2"):
        source = CELL.replace("exp2", name)
        file.write_text(source)
        assert f"tkw.write(tkw.{name}(a), a)" in str(error_of(source, str(file)))


def test_ctrl_c_ends_an_evaluation():
    M, K = tkl.sym.M, tkl.sym.K

    @tkw.wave([tkw.WorkgroupConstraint(M, 1, 0), tkw.TilingConstraint(K, 1),
               tkw.HardwareConstraint(threads_per_wave=64)])
    def forever(a: tkl.Memory[M, tkl.AddressSpace.GLOBAL_MEMORY, tkl.f32]):
        @tkw.iterate(K, init_args=[])
        def loop():
            tkw.write(tkw.read(a) + 1.0, a)

    def stop(*_):
        raise KeyboardInterrupt

    kernel = build(forever, {M: 1, K: 10**15})
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            kernel(np.zeros(1, np.float32))
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(wave_lang.CompileError) as caught:  # nothing is left over
        kernel(np.zeros((2, 2), np.float32))
    assert all(d.code != "E0712" for d in caught.value.diagnostics)
