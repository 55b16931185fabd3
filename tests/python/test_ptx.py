"""Every PTX text that the tests emit is assembled by ptxas, if there is one, and its advice is
checked. A text is assembled once: tools/ptxas.py caches the result."""

import glob
import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WAVEC = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")
sys.path.append(os.path.join(ROOT, "tools"))

import ptxas  # noqa: E402

WANTED = "no ptxas: `make setup` installs one if it can"
needs_ptxas = pytest.mark.skipif(not ptxas.find(), reason=WANTED)

# The lane programs of tests/run are for machines with waves of their size.
EMITTED = sorted(glob.glob(os.path.join(ROOT, "tests/ptx/*.wave")))
RUN = sorted(glob.glob(os.path.join(ROOT, "tests/run/*.wave")))


def emit(file, target):
    command = [WAVEC, file, "--target", target, "--passes=all", "--emit=ptx"]
    return subprocess.run(command, capture_output=True, text=True)


def texts(output):
    return re.split(r"(?=^\.version )", output, flags=re.MULTILINE)[1:]


@needs_ptxas
@pytest.mark.parametrize("file", EMITTED, ids=os.path.basename)
def test_what_is_emitted_assembles(file):
    runs = re.findall(r"^# RUN: (.*)$", open(file, encoding="utf-8").read(), re.MULTILINE)
    if runs[0].startswith("not"):
        pytest.skip("refused on purpose")
    targets = {re.search(r"--target[ =](\w+)", run).group(1) for run in runs}
    for target in sorted(targets):
        done = emit(file, target)
        assert done.returncode == 0, done.stderr
        for text in texts(done.stdout):
            result = ptxas.assemble(text)
            assert result.ok, result.log
            assert result.advices == []


@needs_ptxas
@pytest.mark.parametrize("target", ptxas.targets())
@pytest.mark.parametrize("file", RUN, ids=os.path.basename)
def test_what_runs_assembles_or_is_refused(file, target):
    """A rejected kernel needs something the machine lacks, or has a mistake: there is a
    diagnostic."""
    done = emit(file, target)
    if done.returncode:
        assert re.search(r"error\[E\d+\]", done.stderr), done.stderr
        return
    for text in texts(done.stdout):
        result = ptxas.assemble(text)
        assert result.ok, result.log


# ---- sources ----


def test_lines_lead_back_to_the_source():
    file = os.path.join(ROOT, "tests/ptx/softmax.wave")
    source = open(file, encoding="utf-8").read().splitlines()
    text = emit(file, "sm_80").stdout
    assert f'.file 1 "{file}"' in text
    line = 1 + next(i for i, row in enumerate(source) if "= exp %d" in row)
    assert re.search(rf"\.loc 1 {line} \d+\n(\t[^.].*\n)*\tex2\.approx\.ftz\.f32", text)


# ---- the output of ptxas ----

LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due \
to insufficient register resources for the wgmma pipeline in the function 'gemm'
ptxas info    : Function properties for gemm
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine \
register count at entry.
ptxas info    : Compiling entry function 'other' for 'sm_90a'
ptxas info    : Function properties for other
    32 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'fine' for 'sm_90a'
ptxas info    : Function properties for fine
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""


def test_advices_are_read():
    found = [(a.code, a.kernel) for a in ptxas.parse(LOG)]
    assert found == [("C7511", "gemm"), ("spill", "gemm"), ("C7508", "gemm"), ("stack", "other")]
    texts = [a.text for a in ptxas.parse(LOG)]
    assert texts[0].startswith("wgmma.mma_async instructions are serialized")
    assert texts[1] == "8 bytes of registers are stored to memory and 12 loaded"
    assert texts[2].startswith("'setmaxnreg' ignored")
    assert str(ptxas.parse(LOG)[3]) == "remark[stack]: `other`: 32 bytes of memory hold an array"


def test_silence_and_errors_are_no_advice():
    assert ptxas.parse("") == []
    wrong = "ptxas kernel.ptx, line 3; fatal   : Parsing error near '}': syntax error\n"
    assert ptxas.parse(wrong) == []


# Two 64 x 256 accumulators do not fit in the registers of a thread.
SERIAL = """\
thread kernel @full(%a: mem<64, 16, f16>, %c: mem<128, 256, f32>)
  launch grid (1) block (128) wave 32 shared 16384
{
  %s = alloc {base = 0} : mem<64, 16, f16, shared>
  %b = alloc {base = 2048} : mem<256, 16, f16, shared>
  %z = scalar 0 : i32
  %i = expr 128*$T0 : i32
  %x = load %c, %i : vec<128, f32>
  %y = load %c, %i {imm = 16384} : vec<128, f32>
  wgmma_fence
  %p = wgmma wgmma_m64n256k16_f32_f16 %x, %s, %z, %b, %z {desc_a = [128, 256, 0, 0], \
desc_b = [128, 256, 0, 0]}
  %q = wgmma wgmma_m64n256k16_f32_f16 %y, %s, %z, %b, %z {desc_a = [128, 256, 0, 0], \
desc_b = [128, 256, 0, 0]}
  wgmma_commit
  wgmma_wait 0
  store %p, %c, %i
  store %q, %c, %i {imm = 16384}
}
"""


# More numbers than 32 registers hold at once.
MANY = """\
thread kernel @many(%a: mem<4096, f32>)
  launch grid (1) block (32) wave 32
{
  %i = expr 64*$T0 : i32
  %x = load %a, %i : vec<64, f32>
  %y = exp2 %x
  barrier workgroup
  store %y, %a, %i
  barrier workgroup
  store %x, %a, %i
}
"""


@needs_ptxas
def test_ptxas_advises(tmp_path):
    """Its messages about serialised instructions, spills, and ignored setmaxnreg."""
    file = tmp_path / "full.wave"
    file.write_text(SERIAL)
    text = emit(str(file), "sm_90a").stdout
    assert "C7511" in {a.code for a in ptxas.run(text).advices}
    late = text.replace("wgmma.fence.sync.aligned", "// none")
    assert "C7519" in {a.code for a in ptxas.run(late).advices}
    roles = emit(os.path.join(ROOT, "tests/ptx/roles.wave"), "sm_90a").stdout
    (advice,) = ptxas.run(roles.replace(".minnctapersm 1", "")).advices
    assert advice.code == "C7508" and advice.text.startswith("'setmaxnreg' ignored")
    file.write_text(MANY)
    few = emit(str(file), "sm_80").stdout.replace("\n{", "\n.maxnreg 32\n{", 1)
    (advice,) = ptxas.run(few).advices
    assert advice.code == "spill" and advice.kernel == "many"
    assert not ptxas.run("no PTX", "sm_80").ok


@needs_ptxas
def test_a_text_is_assembled_once(tmp_path, monkeypatch):
    monkeypatch.setattr(ptxas, "ROOT", str(tmp_path))
    text = emit(EMITTED[0], "sm_90a").stdout
    first = ptxas.assemble(text)
    assert first.ok
    monkeypatch.setattr(ptxas, "run", lambda *_: pytest.fail("assembled again"))
    moved = text.replace(".loc 1 ", ".loc 1 1")
    assert ptxas.assemble(text) == ptxas.assemble(moved) == first
