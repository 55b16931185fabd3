"""Which machine a kernel is compiled for, and what the kernel shows about it."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from test_compile import BM, BN, M, N, check_scale, compile_scale, constraints
from kernel_utils import run_python
from wave_lang import CompileError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.wave.machine import Machine, devices, machine_of
from wave_lang.support import visible

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / os.environ.get("BUILD", "build") / "tests/libfake_cuda.so"  # GPUs like an H200


@pytest.fixture
def gpus():
    """The GPUs of this machine; `test_with_and_without_a_gpu` runs such tests for both cases."""
    return devices("cuda")[:1]


@pytest.mark.skipif(not FAKE.exists(), reason="the fake driver is not built")
@pytest.mark.parametrize("driver", [FAKE, "none"])
def test_with_and_without_a_gpu(driver):
    """The tests of target names, in a separate process: a driver is loaded once."""
    words = "default or simulated or host_cpu or nvidia or cuda or amd"
    done = run_python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", f"({words}) and not with_and",
        WAVE_CUDA_LIB=str(driver), WAVE_HIP_LIB="none", EXPECT_GPU="" if driver == "none" else "sm_90a"
    )  # fmt: skip
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif("EXPECT_GPU" not in os.environ, reason="run by test_with_and_without_a_gpu")
def test_default_gpu_is_the_expected_one(gpus):
    assert [gpu.target for gpu in gpus] == os.environ["EXPECT_GPU"].split()


def of(target="", **options):
    return machine_of(WaveCompileOptions(target=target, **options))


def test_default_is_the_device_of_the_machine(gpus):
    here = Machine("cpu", anywhere=True)
    if gpus:
        here = Machine("cuda", gpus[0].target, 0, anywhere=True)
    assert of() == of(device="hip") == here


def test_simulated_and_evaluated(gpus):
    assert of("eval") == Machine("eval") and of("sim:gfx942") == Machine("sim", "sim:gfx942")


@pytest.mark.parametrize("target", ["cpu", "llvm-cpu", "local-task"])
def test_host_cpu(gpus, target):
    assert of(target) == Machine("cpu") == of(device=target)


@pytest.mark.skipif(not devices("cpu"), reason="there is no libLLVM")
def test_host_cpus_by_name():
    """Code is compiled for the named CPU, if this one has its features."""
    here, ran = devices("cpu")[0].target, []
    for target in [row[0] for row in _wave.target_table if row[0].startswith("cpu_")]:
        assert of(target) == Machine("cpu", target)
        try:
            compiled = compile_scale(target=target)
        except CompileError as error:
            assert error.diagnostics[0].code == "E0906" and " lacks " in str(error)
            continue
        check_scale(compiled)
        ran.append(target)
    assert here in ran and len(ran) < 8  # not those of two architectures


@pytest.mark.parametrize(
    "target, found",
    [
        ("sm_80", "sm_80"),
        ("sm_90a", "sm_90a"),
        ("sm_90", "sm_90a"),
        ("cuda/sm_90", "sm_90a"),
        ("sm_86", "sm_86"),
        ("sm_87", "sm_86"),
        ("sm_89", "sm_89"),
        ("sm_120", "sm_89"),
    ],
)
def test_nvidia(gpus, target, found):
    assert of(target) == Machine("cuda", found, 0 if gpus else -1)


def test_cuda_without_a_number_is_the_gpu_here(gpus):
    target = gpus[0].target if gpus else "sm_80"
    assert of("cuda") == of(device="cuda") == Machine("cuda", target, len(gpus) - 1)


@pytest.mark.parametrize("target", ["hip", "gfx942", "hip/gfx942", "rocm/gfx1100", "gfx906", "gfx942:xnack-", "gfx9-4-generic"])
def test_amd_is_replaced_by_the_machine_at_hand(gpus, target):
    found = of(target)
    assert found.anywhere and found.kind == ("cuda" if gpus else "cpu")
    assert target in found.remark and (gpus[0].target if gpus else "CPU") in found.remark
    with pytest.raises(CompileError) as e:
        of(target, strict=True)
    assert e.value.diagnostics[0].code == "E0601" and target in str(e.value)


@pytest.mark.parametrize("target", ["evl", "sim:sm_91", "vulkan/sm_90", "hip/mi300", "cuda:0", "gfx94", "gfx942x", "gfx9422"])
def test_unknown_targets(target):
    with pytest.raises(CompileError) as e:
        WaveCompileOptions(target=target).validate()
    assert e.value.diagnostics[0].code == "E0603"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_replaced_target_runs_and_says_so():
    compiled = compile_scale(target="hip/gfx942")
    assert any("no AMD device" in str(r) for r in compiled.remarks)
    check_scale(compiled)


def test_what_was_not_compiled_for_a_gpu_has_no_ptx():
    compiled = compile_scale(target="eval")
    for what in ("ptx", "resources"):
        with pytest.raises(ValueError, match="compiled for eval"):
            getattr(compiled, what)


def test_wrong_options():
    with pytest.raises(ValueError, match="assume"):
        compile_scale(target="eval", assume="maybe")


def test_named_arguments():
    compiled = compile_scale(target="eval")
    args = [np.zeros((2, 2), "f4") for _ in compiled.ir.params]
    with pytest.raises(TypeError, match="no parameter `strem`; did you mean `stream`"):
        compiled(*args, strem=1)
    with pytest.raises(TypeError, match="no argument `strem`"):
        compiled.launch(*args, strem=1)


# ---- dumps, and IR fed back ----------------------------------------------------------------------


def test_dumps_of_every_pass(tmp_path, capsys):
    compile_scale(target="sim:sm_90a", dump_intermediates=str(tmp_path), print_ir_after=["layouts"])
    files = sorted(p.name for p in tmp_path.iterdir())
    assert files[0].startswith("01_") and any(f.endswith("_lower_threads.wave") for f in files)
    for file in tmp_path.iterdir():
        assert len(_wave.parse(file.read_text(), file.name)) == 1
    printed = capsys.readouterr().out
    assert printed.count("# ---- after") == 1 and "after layouts" in printed


def test_dumps_by_environment(monkeypatch, capsys):
    monkeypatch.setenv("WAVE_DUMP", "bind, mask")
    compile_scale(target="sim:sm_90a")
    printed = capsys.readouterr().out
    assert "after bind" in printed and "after mask" in printed and printed.count("# ----") == 2


def test_ir_is_fed_back(tmp_path):
    text = str(compile_scale(target="eval").ir)
    assert "mul" in text
    edited = tmp_path / "edited.wave"
    edited.write_text(text.replace(" mul ", " add "))
    for given in (str(edited), edited.read_text()):
        compiled = compile_scale(target="eval", override_mlir=given)
        assert " add " in str(compiled.ir) and " mul " not in str(compiled.ir)
    lane = compile_scale(target="sim:sm_90a").lowered
    check_scale(compile_scale(target="sim:sm_90a", override_mlir=str(lane)))


OTHER = "kernel @f(%a: mem<M, f32>)\n  hardware threads 64; workgroup M by 64 on 0\n{\n}\n"


def test_fed_back_ir_must_fit():
    with pytest.raises(ValueError, match="parameters of scale"):
        compile_scale(target="eval", override_mlir=OTHER)


# ---- replacements are reported
# --------------------------------------------------------------------

SCALARS = 260  # more than a launch takes

MANY = f"""
def many({", ".join(f"s{i}: tkl.f32" for i in range(SCALARS))}, y: tkl.Memory[M, N, G, tkl.f32]):
    tkw.write(tkw.read(y) + tkw.broadcast({" + ".join(f"s{i}" for i in range(SCALARS))}, [M, N]), y)
"""


def kernel_of_many_arguments():
    scope = {"tkl": tkl, "tkw": tkw, "M": M, "N": N, "G": tkw.GLOBAL_ADDRESS_SPACE}
    exec(MANY, scope)
    return tkw.wave(constraints())(scope["many"])


def warnings_of(action):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = action()
    return [w for w in seen if w.category is RuntimeWarning], result


@pytest.fixture
def nothing_said(monkeypatch):
    monkeypatch.setattr(visible, "_said", set())


@pytest.mark.skipif(not devices("cpu"), reason="no libLLVM")
def test_a_kernel_on_the_evaluator_warns_with_the_reason(nothing_said):
    options = WaveCompileOptions(subs={M: 2, N: 64, BM: 1, BN: 64}, target="cpu")
    (warning,), compiled = warnings_of(lambda: wave_compile(options, kernel_of_many_arguments()))
    text = str(warning.message)
    assert "`many` runs on the reference evaluator, which is slow: " in text
    assert "more arguments" in text and warning.filename == __file__
    assert any(r.code == "E0601" for r in compiled.remarks)
    y = np.zeros((2, 64), np.float32)
    compiled(*[1.0] * SCALARS, y)
    assert (y == SCALARS).all()
    again = WaveCompileOptions(subs={M: 4, N: 64, BM: 1, BN: 64}, target="cpu")
    assert warnings_of(lambda: wave_compile(again, kernel_of_many_arguments()))[0] == []
    with pytest.raises(CompileError, match="E0601"):
        strict = WaveCompileOptions(subs={**options.subs, M: 8}, target="cpu", strict=True)
        wave_compile(strict, kernel_of_many_arguments())


def test_a_replaced_target_warns_once(nothing_said):
    seen, compiled = warnings_of(lambda: compile_scale(target="gfx942"))
    assert [str(w.message) for w in seen if "gfx942" in str(w.message)] == [compiled.machine.remark]
    assert not [w for w in warnings_of(lambda: compile_scale(target="gfx942"))[0]]
    other, _ = warnings_of(lambda: compile_scale(target="gfx1100"))
    assert len(other) == 1 and "gfx1100" in str(other[0].message)
