"""kernel.explain(): what was decided about each line."""

import numpy as np
import pytest
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang._wave import parse
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S

M, N, K, BM = tkl.sym.M, tkl.sym.N, tkl.sym.K, tkl.sym.BLOCK_M


@tkw.wave(
    [
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
        tkw.WorkgroupConstraint(M, BM, 0),
        tkw.WorkgroupConstraint(N, 32, 1),
        tkw.TilingConstraint(K, 32),
        tkw.WaveConstraint(M, 16),
        tkw.WaveConstraint(N, 16),
    ]
)
def gemm(
    a: tkl.Memory[M, K, S, tkl.f16],
    b: tkl.Memory[N, K, S, tkl.f16],
    c: tkl.Memory[M, N, G, tkl.f32],
):
    @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
    def product(acc):
        return tkw.mma(tkw.read(a), tkw.read(b), acc)

    tkw.write(product, c)


SIZES = {M: 64, N: 64, K: 128}


def compiled(target, **subs):
    values = {tkl.sym.__getattr__(name): value for name, value in subs.items()}
    return wave_compile(WaveCompileOptions(subs=SIZES | values, target=target), gemm)


@pytest.mark.parametrize("target", ("sim:sm_90a", "sim:sm_80", "sim:gfx942"))
def test_lines(target):
    text = compiled(target).explain()
    first, *_ = text.splitlines()
    assert first == f"`gemm` on {target[4:]}"
    lines = text.split(f"{__file__}:")
    (read,) = [line for line in lines if "tkw.mma(tkw.read(a)" in line.splitlines()[0]]
    assert "`a`: ring of" in read and "`b`: ring of" in read and "[R0602]" in read
    assert "predicted: " in text and "floor: " in text and "cycles; busy: " in text
    assert f"`{BM}` = " in text  # which was chosen


def test_explaining_says_nothing_twice_and_leaves_no_remarks():
    kernel = compiled("sim:sm_90a", BLOCK_M=32)
    before = len(kernel.remarks)
    text = kernel.explain()
    assert text == kernel.explain() and len(kernel.remarks) == before and "R0623" not in text
    body = [line for line in text.splitlines() if "[R06" in line]
    assert len(set(body)) == len(body)


def test_page():
    page = compiled("sim:sm_90a").explain(html=True)
    assert page.startswith("<!") and "<pre" in page and "`gemm` on sm_90a" in page


def test_report_has_decisions():
    kernel = compiled("sim:sm_90a")
    a, b = (np.ones(s, "f2") for s in ((64, 128), (64, 128)))
    kernel(a, b, np.zeros((64, 64), "f4"))
    assert 'id="decisions"' in kernel.report().html() and "ring of" in kernel.report().html()


def test_on_a_cpu():
    text = compiled("cpu").explain()
    assert "on cpu" in text and "predicted" not in text and f"`{BM}` = " in text


def test_nothing_to_explain():
    with pytest.raises(ValueError, match="nothing is decided"):
        compiled("eval", BLOCK_M=32).explain()
    kernel = compiled("sim:sm_90a")
    with pytest.raises(CompileError, match="E0409"):
        kernel.lowered.explain("sim:sm_90a", "text")
    with pytest.raises(CompileError, match="no form"):
        kernel.ir.explain("sim:sm_90a", "svg")
    with pytest.raises(CompileError, match="E0603"):
        kernel.ir.explain("sm_12345", "text")
    (again,) = parse(str(kernel.ir))
    assert "predicted: " in again.explain("sm_90a", "text")
