"""Code for AMD GPUs as files: `wavec --emit=hsaco`, `asm`, `obj`, and what is refused."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from test_cpu_llvm import installed

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WAVEC = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")
KERNEL = os.path.join(ROOT, "docs", "staged.wave")
AMDGPU, RELOCATABLE, SHARED = 224, 1, 3


def wavec(*options, **env):
    return subprocess.run(
        [WAVEC, KERNEL, *options], capture_output=True, env={**os.environ, **env}, check=False
    )


def emitted(kind, file, target="gfx942"):
    done = wavec(f"--target={target}", "--passes=all", f"--emit={kind}", "-o", str(file))
    if b"E0901" in done.stderr:
        pytest.skip("no libLLVM for AMD GPUs")
    assert done.returncode == 0, done.stderr.decode()
    return file.read_bytes()


@pytest.mark.parametrize("kind, type_", [("obj", RELOCATABLE), ("hsaco", SHARED)])
@pytest.mark.parametrize("target, number", [("gfx90a", 0x3F), ("gfx942", 0x4C), ("gfx1201", 0x4E)])
def test_code_objects(tmp_path, kind, type_, target, number):
    code = emitted(kind, tmp_path / "k", target)
    assert code[:4] == b"\x7fELF"
    assert int.from_bytes(code[16:18], "little") == type_
    assert int.from_bytes(code[18:20], "little") == AMDGPU
    assert code[48] == number
    assert b"wave_staged.kd\0" in code and f"amdgcn-amd-amdhsa--{target}".encode() in code


def chips():
    """The rows of chips.def."""
    table = Path(ROOT, "src/target/chips.def").read_text()
    return re.findall(r"^CHIP\((\w+),", table, flags=re.M)


@pytest.mark.parametrize("chip", chips())
def test_each_chip_has_code_of_its_own(tmp_path, chip):
    listed = subprocess.run([WAVEC, "--list=targets"], capture_output=True, text=True, check=True)
    assert re.search(rf"^{chip} +code sim emu", listed.stdout, flags=re.M)
    code = emitted("hsaco", tmp_path / "k", chip)
    assert f"amdgcn-amd-amdhsa--{chip}".encode() in code
    gemm = os.path.join(ROOT, "tests/run/gemm.wave")
    ran = [
        subprocess.run(
            [WAVEC, "run", gemm, "--data=exact", f"--target={target}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for target in ("eval", f"sim:{chip}", f"emu:{chip}")
    ]
    assert ran[0] and ran == [ran[0]] * 3
    loops = subprocess.run([WAVEC, "loops", tmp_path / "k"], capture_output=True, text=True)
    assert loops.returncode == 0 and f"kernel wave_staged: {chip}," in loops.stdout


def test_assembly(tmp_path):
    text = emitted("asm", tmp_path / "k").decode()
    assert "v_mfma_f32_16x16x16_f16" in text and "s_barrier" in text
    assert ".vgpr_spill_count: 0" in text and ".sgpr_spill_count: 0" in text


@pytest.mark.parametrize(
    "options, code, words",
    [
        (["--target=gfx942", "--passes=all", "--emit=hsaco"], 2, "-o NAME.hsaco"),
        (["--target=sm_90a", "--passes=all", "--emit=hsaco", "-o", "/dev/null"], 1, "E0603"),
        (["--target=cpu", "--passes=all", "--emit=hsaco", "-o", "/dev/null"], 1, "AMD target"),
    ],
)
def test_refused(options, code, words):
    done = wavec(*options)
    assert done.returncode == code and words in done.stderr.decode()


@pytest.mark.parametrize("library", ["/no/such/libLLVM.so", "libc.so.6"])
def test_libraries_that_do_not_serve(library):
    options = ["--target=gfx942", "--passes=all", "--emit=hsaco", "-o", "/dev/null"]
    done = wavec(*options, WAVE_LLVM=library)
    assert done.returncode == 1 and "E0901" in done.stderr.decode()


@pytest.mark.parametrize(
    "kind, words", [("llvm", b"amdgpu_kernel"), ("asm", b"s_endpgm"), ("hsaco", b"\x7fELF")]
)
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_every_form_without_passes(tmp_path, kind, words, target):
    """A target alone means the whole pipeline."""
    done = wavec("--target", target, f"--emit={kind}", "-o", str(tmp_path / "k"))
    if b"E0901" in done.stderr:
        pytest.skip("no libLLVM for AMD GPUs")
    assert done.returncode == 0 and words in (tmp_path / "k").read_bytes()


@pytest.fixture(scope="module")
def compiled():
    import wave_lang.kernel.lang as tkl
    import wave_lang.kernel.wave as tkw
    from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL
    from wave_lang.kernel.wave.compile import WaveCompileOptions, wave_compile

    M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 32, 1),
            tkw.TilingConstraint(K, 16),
        ]
    )
    def gemm(
        a: tkl.Memory[M, K, GLOBAL, tkl.f16],
        b: tkl.Memory[N, K, GLOBAL, tkl.f16],
        c: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    def make(target):
        options = WaveCompileOptions(dynamic_symbols=[M, N, K], target=target)
        return wave_compile(options, gemm)

    return make


@pytest.mark.parametrize("target", ["emu:gfx942", "emu:gfx1201"])
def test_assembly_of_compiled_kernels(compiled, target):
    """Machine code as LLVM disassembles it, with source lines and the targets of branches."""
    emitted("hsaco", Path(os.devnull))  # skips without libLLVM
    kernel = compiled(target)
    text = kernel.asm
    assert text.startswith("wave_gemm:\n") and "s_endpgm" in text
    assert "define amdgpu_kernel" in kernel.program.text("llvm")
    assert f"; {__file__}:" in text or f"; {os.path.basename(__file__)}:" in text
    for label in set(re.findall(r"; (L[0-9a-f]+)$", text, re.M)):
        assert f"\n{label}:\n" in text
    assert kernel.loops.startswith("kernel wave_gemm: " + target[4:])
    assert "v_wmma" in text or "v_mfma" in text


def test_other_machines_have_no_loops(compiled):
    with pytest.raises(ValueError, match="has no loops to show|not for a GPU"):
        compiled("cpu").loops
    assert "v_mfma" not in compiled("cpu").asm


@pytest.mark.parametrize("name", ["lds", "zeros", "barriers", "zero", "nowhere"])
@pytest.mark.parametrize("target", ["gfx942", "gfx1250", "cpu"])
def test_names_of_kernels(tmp_path, name, target):
    """Other globals of a module do not have the names of kernels."""
    text = Path(ROOT, "tests/run/gemm.wave").read_text().replace("@gemm", f"@{name}")
    (tmp_path / "k.wave").write_text(text)
    words = [WAVEC, tmp_path / "k.wave", f"--target={target}", "--passes=all", "--emit=llvm"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "E0901" in done.stderr:
        pytest.skip("no libLLVM for this chip")
    assert done.returncode == 0, done.stderr
    assert set(re.findall(r"@wave_\w+", done.stdout)) == {f"@wave_{name}"}


ATOMICS = {
    "i32": ["add", "min", "max", "and", "or", "xor", "exchange"],
    "i64": ["add", "max", "xor"],
    "f32": ["add"],
}


@pytest.mark.parametrize("version", [19, 22])
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_atomics_are_instructions(tmp_path, target, version):
    """Where the chip has one: not a loop of compare-and-swap."""
    every = [(op, dtype) for dtype, ops in ATOMICS.items() for op in ops]
    tensors = "".join(f", %{op}_{dtype}: mem<M, {dtype}>" for op, dtype in every)
    updates = [f"%old_{op}_{dtype} = atomic_{op} %x_{dtype}, %{op}_{dtype}" for op, dtype in every]
    (tmp_path / "k.wave").write_text(
        f"kernel @k(%i32: mem<M, i32>, %i64: mem<M, i64>, %f32: mem<M, f32>{tensors})\n"
        "  workgroup M by 64 on 0; hardware threads 64; bind M = 64\n{\n"
        + "".join(f"  %x_{dtype} = read %{dtype}\n" for dtype in ATOMICS)
        + "".join(f"  {update}\n" for update in updates)
        + "}\n"
    )
    words = [WAVEC, tmp_path / "k.wave", f"--target={target}", "--emit=asm"]
    env = {**os.environ, "WAVE_LLVM": str(installed().get(version))}
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    if "E0901" in done.stderr:
        pytest.skip(f"no libLLVM {version} for this chip")
    assert done.returncode == 0, done.stderr
    found = re.findall(r"\b(?:global|buffer)_atomic_\w+", done.stdout)
    assert len(found) == len(every) and not any("cmpswap" in name for name in found), found
