"""Every compile option does what its row in docs/compatibility.md says, or says that it does not."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import wave_lang.kernel as tk
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, SchedulingType, _wave, WaveCompileOptions, wave_compile
from wave_lang.benchmark import bench
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave import wave_schedule
from wave_lang.kernel.wave.machine import devices
from wave_lang.kernel.wave.measured import _zeros
from wave_lang.kernel.wave.option_rows import ROWS, default_of, given, row_of
from wave_lang.kernel.wave.utils.classes import CoalescingType
from wave_lang.support.location_config import LocationCaptureConfig, LocationCaptureLevel

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
SIZES = {M: 37, N: 50}
OPTIONS = {option.name: option for option in fields(WaveCompileOptions)}
IDLE = [name for name, option in OPTIONS.items() if row_of(option).kind == "idle"]


@tkw.wave(
    [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64}),
        tkw.WorkgroupConstraint(M, 4, 0),
        tkw.WorkgroupConstraint(N, 64, 1),
        tkw.WaveConstraint(M, 4),
        tkw.WaveConstraint(N, 64),
    ]
)
def double(
    x: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, tkl.f32],
    y: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, tkl.f32],
):
    tkw.write(tkw.read(x) * 2.0, y)


PRODUCT = {M: 128, N: 128, K: 256}


@tkw.wave(
    [
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
        tkw.WorkgroupConstraint(M, 64, 0),
        tkw.WorkgroupConstraint(N, 64, 1),
        tkw.TilingConstraint(K, 32),
        tkw.WaveConstraint(M, 32),
        tkw.WaveConstraint(N, 32),
    ]
)
def product(
    a: tkl.Memory[M, K, SHARED_ADDRESS_SPACE, tkl.f16],
    b: tkl.Memory[N, K, SHARED_ADDRESS_SPACE, tkl.f16],
    c: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, tkl.f32],
):
    zero = tkl.Register[M, N, tkl.f32](0.0)

    @tkw.iterate(K, init_args=[zero])
    def sums(acc):
        return tkw.mma(tkw.read(a), tkw.read(b), acc)

    tkw.write(sums, c)


def compiled(kernel=double, **options):
    options = {"subs": SIZES, "target": "eval", **options}
    return wave_compile(WaveCompileOptions(**options), kernel)


def check_double(kernel):
    x = np.arange(37 * 50, dtype=np.float32).reshape(37, 50)
    y = np.zeros_like(x)
    kernel(x, y)
    assert np.array_equal(y, 2 * x)


def without_effect(kernel):
    return [r.message for r in kernel.remarks if getattr(r, "code", "") == "R0609"]


def another_value(option):
    """A value that the option's type allows and that is not the default."""
    default = default_of(option)
    special = {
        "backend": "asm",
        "location_capture_config": LocationCaptureConfig(LocationCaptureLevel.NONE),
        "coalescing_strategy_hint": CoalescingType.WAVE_TILE_ALIGNED,
    }
    if option.name in special:
        return special[option.name]
    if isinstance(default, bool):
        return not default
    if isinstance(default, (int, str)):
        return type(default)(default + type(default)(1))
    return 3 if "int" in option.type else "word"


def existing(option, tmp_path):
    """The value; if the option names a file or folder, one that exists."""
    value = another_value(option)
    if row_of(option).file:
        (tmp_path / value).write_text("")
        return str(tmp_path / value)
    return value


# ---- the table ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_says_what_it_does(name):
    assert row_of(OPTIONS[name]).text, "add a row to src/driver/options/options.def"


def test_the_compiler_has_a_row_for_each_option_and_no_other():
    assert list(ROWS) == list(OPTIONS)


def test_values_as_the_compiler_takes_them(tmp_path):
    options = WaveCompileOptions(
        schedule=True,
        multi_buffer_count=2,
        enable_swizzle=False,
        print_ir_after=["cse", "mask"],
        print_mlir_file=tmp_path / "file",
        location_capture_config=LocationCaptureConfig(LocationCaptureLevel.NONE),
    )
    options.kernel_usages = ["input"]  # a result is not an option
    assert {name: value for name, value, _ in given(options)} == {
        "schedule": "MODULO",
        "multi_buffer_count": "2",
        "enable_swizzle": "False",
        "print_ir_after": "cse,mask",
        "print_mlir_file": str(tmp_path / "file"),
        "location_capture_config": None,
    }
    assert given(options)[0][2] == "SchedulingType.MODULO" and given(WaveCompileOptions()) == []


ODD = [None, -1, 2.5, "x", "", ["a"], ("a", 3), object(), True, b"x", 10**30, "a\0b", "\ud800", {1: 2}]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", OPTIONS)
def test_odd_values_are_accepted_or_said_to_be_wrong(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in ODD:
        if value is True and name == "print_mlir_file":
            continue  # open(True) is the standard output
        try:
            compiled(**{name: value})
        except (CompileError, TypeError, ValueError):
            pass


@pytest.mark.parametrize("name", ["use_fast_math", "print_ir_after", "target"])
def test_an_array_is_not_an_option(name):
    """An array compares element by element, or not at all."""
    with pytest.raises((CompileError, TypeError, ValueError), match=name):
        compiled(**{name: np.zeros((3, 5))}, strict=True)


@pytest.mark.parametrize("count", ["two", 2.5])
def test_a_count_must_be_a_number(count):
    with pytest.raises(ValueError, match="multi_buffer_count must be an integer, not "):
        compiled(multi_buffer_count=count)


@pytest.mark.parametrize("kind", ["PREFETCHH", "prefetch", "", 32, None])
def test_a_schedule_is_one_of_the_kinds(kind):
    with pytest.raises(ValueError, match="schedule must be 'NONE' or 'MODULO' or .*, not ") as error:
        compiled(schedule=kind)
    assert str(error.value).endswith(repr(kind))


@pytest.mark.parametrize("kind", [*SchedulingType, *SchedulingType.__members__])
def test_every_kind_of_schedule_is_known(kind):
    if kind != "GEMM_FOUR_STAGE":  # only the type has this name
        compiled(schedule=kind)


def test_old_truths_of_schedules_may_be_assigned():
    for given_kind, kind in ((True, SchedulingType.MODULO), (False, SchedulingType.NONE)):
        options = WaveCompileOptions(subs=SIZES, target="eval")
        options.schedule = given_kind
        wave_compile(options, double)
        assert options.schedule is kind


def test_an_option_without_a_row_is_noticed():
    from dataclasses import dataclass

    @dataclass
    class Forgetful:
        forgotten: int = 1

    with pytest.raises(KeyError):
        row_of(fields(Forgetful)[0])


# ---- options without effect --------------------------------------------------------------------


@pytest.mark.parametrize("name", IDLE)
def test_an_idle_option_gives_one_remark(name, tmp_path):
    value = existing(OPTIONS[name], tmp_path)
    needed = {"wave_runtime": True} if name == "backend" else {}
    kernel = compiled(**{name: value}, **needed)
    (remark,) = without_effect(kernel)
    assert remark.startswith(f"`{name}=") and remark.endswith(row_of(OPTIONS[name]).text)
    check_double(kernel)


@pytest.mark.parametrize("name", IDLE)
def test_an_idle_option_is_an_error_when_strict(name, tmp_path):
    value = existing(OPTIONS[name], tmp_path)
    needed = {"wave_runtime": True} if name == "backend" else {}
    with pytest.raises(CompileError, match="E0617") as error:
        compiled(strict=True, **{name: value}, **needed)
    found = error.value.diagnostics[0]
    assert f"`{name}=" in found.message and found.file == __file__ and "strict" in found.hint


def test_defaults_give_no_remark_and_are_strict():
    assert without_effect(compiled(strict=True)) == []
    assert without_effect(compiled(denorm_fp_math_f32="ieee", strict=True)) == []
    assert (
        without_effect(
            compiled(wave_runtime=True, allow_noncontiguous_runtime_buffers=True, strict=True)
        )
        == []
    )


def test_an_option_of_other_targets_gives_a_remark_on_this_one():
    assert without_effect(compiled(print_ir_after=["cse"])) == [
        "`print_ir_after=['cse']` has no effect on target `eval`"
    ]
    with pytest.raises(CompileError, match="E0617"):
        compiled(print_ir_after=["cse"], strict=True)


def test_several_options_are_one_error():
    with pytest.raises(CompileError) as error:
        compiled(use_buffer_ops=True, waves_per_eu=2, strict=True)
    (found,) = error.value.diagnostics
    assert "use_buffer_ops" in found.message and "waves_per_eu" in found.message


def test_manual_schedules_need_a_function():
    @wave_schedule.wave_schedule()
    def schedule():
        pass

    message = "`schedule=MANUAL` has no effect without a schedule function"
    options = WaveCompileOptions(subs=SIZES, target="eval", schedule=SchedulingType.MANUAL)
    assert without_effect(wave_compile(options, double, schedule)) == []
    assert without_effect(compiled(schedule=SchedulingType.MANUAL)) == [message]
    with pytest.raises(CompileError, match="without a schedule function"):
        compiled(schedule=SchedulingType.MANUAL, strict=True)


# ---- attributes that are not options -----------------------------------------------------------


def assigned(name, **more):
    options = WaveCompileOptions(subs=SIZES, target="eval", **more)  # HERE
    setattr(options, name, True)
    return wave_compile(options, double)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "name, meant",
    [("recompte", "recompute"), ("persistant_workgroups", "persistent_workgroups")],
)
def test_an_attribute_that_resembles_an_option(name, meant):
    (found,) = [r for r in assigned(name).remarks if getattr(r, "code", "") == "W0601"]
    assert found.severity == "warning" and f"`{name}`" in found.message
    assert found.hint == f"did you mean `{meant}`?"
    assert found.file == __file__ and "# HERE" in found.rendered


@pytest.mark.parametrize("name", ["use_wave_asm_backend", "note", "kernel_launch_info", "_recompte"])
def test_other_attributes_may_be_assigned(name):
    assert not [r for r in assigned(name, strict=True).remarks if "assigned" in str(r)]


def test_an_attribute_that_resembles_an_option_is_an_error_when_strict():
    with pytest.raises(CompileError, match="E0602.*`recompte`") as caught:
        assigned("recompte", strict=True)
    assert caught.value.diagnostics[0].hint == "did you mean `recompute`?"


# ---- files -------------------------------------------------------------------------------------

READ = [n for n, option in OPTIONS.items() if row_of(option).file == "read"] + ["override_mlir"]
WRITTEN = [n for n, option in OPTIONS.items() if row_of(option).file == "written"]


@pytest.mark.parametrize("name", READ)
def test_a_file_that_does_not_exist_is_an_error(name, tmp_path):
    with pytest.raises(CompileError, match="E0618.*does not exist") as error:
        compiled(**{name: str(tmp_path / "absent")})
    assert error.value.diagnostics[0].file == __file__
    with pytest.raises(CompileError, match="E0618"):
        compiled(**{name: str(tmp_path)})  # a folder is not a file


@pytest.mark.parametrize("name", WRITTEN)
def test_a_folder_that_does_not_exist_is_an_error(name, tmp_path):
    with pytest.raises(CompileError, match="E0618.*folder that does not exist"):
        compiled(**{name: str(tmp_path / "absent" / "file")})


# ---- printed output ---------------------------------------------------------------------------


def test_print_grid(capsys):
    compiled(print_grid=True, strict=True)
    assert capsys.readouterr().out == "double: grid [10, 1, 1], threads [64, 1, 1]\n"
    compiled(print_grid=True, subs={}, dynamic_symbols=[M, N], target="sim:gfx942")
    assert "grid [ceiling(M/4), ceiling(N/64), 1]" in capsys.readouterr().out


def test_print_signature(capsys):
    compiled(print_signature=True, strict=True)
    assert capsys.readouterr().out == "double:\n  x: f32[M, N], input\n  y: f32[M, N], output\n"


@pytest.mark.parametrize("target", ["eval", "cpu", "sim:sm_90a", "sm_90a"])
def test_launch_info_is_filled_in(target):
    info = compiled(subs={}, dynamic_symbols=[N, M], target=target).options.kernel_launch_info
    assert info.grid([65, 37]) == [10, 2, 1] and info.func_name == "double"
    assert info.shared_memory_bytes == 0 and len(info.blocks) == 3
    info = compiled(product, subs=PRODUCT, target="sm_90a").options.kernel_launch_info
    assert info.shared_memory_bytes >= 2 * 64 * 32 * 2


def test_launch_info_counts_scalars_that_define_symbols():
    @tkw.wave(double.constraints)
    def kernel(x: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, tkl.f32], M: tkl.SymbolBind[tkl.i32]):
        tkw.write(tkw.read(x) * 2.0, x)

    info = compiled(kernel, subs={}, dynamic_symbols=[N]).options.kernel_launch_info
    assert info.grid([9, 64]) == [3, 1, 1]


def lines_of(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


@pytest.mark.parametrize("target", ["cpu", "sim:sm_90a", "sm_90a"])
def test_print_ir_before_and_after(target, capsys):
    compiled(target=target, print_ir_before=["widen"], print_ir_after="mask", strict=True)
    printed = capsys.readouterr().out
    assert lines_of(printed, "# ----") == ["# ---- before widen", "# ---- after mask"]
    before, after = printed.split("# ---- after mask")
    assert "mask = " not in before and "mask = " in after


def test_print_ir_of_a_pass_that_does_not_run(capsys):
    """CPUs have no lanes: no pass decides layouts."""
    kernel = compiled(target="cpu", print_ir_before=["layouts"], print_ir_after="mask")
    assert lines_of(capsys.readouterr().out, "# ----") == ["# ---- after mask"]
    remarks = [r.message for r in kernel.remarks if getattr(r, "code", "") == "R0609"]
    assert remarks == ["nothing is printed for the pass `layouts`: it does not run for this kernel and target"]


@pytest.mark.parametrize("target", ["cpu", "sim:sm_90a"])
def test_print_ir_of_every_pass(target, capsys):
    compiled(target=target, print_ir_before="all")
    before = lines_of(capsys.readouterr().out, "# ----")
    compiled(target=target, mlir_print_ir_after_all=True)
    after = lines_of(capsys.readouterr().out, "# ----")
    assert [b.replace("before", "after") for b in before] == after and len(after) > 15


def test_print_ir_words(capsys):
    compiled(print_ir_after=["trace"], strict=True)  # needs no pass
    traced = capsys.readouterr().out
    compiled(print_ir_before="first", strict=True)
    assert capsys.readouterr().out == traced and traced.startswith("kernel @double")
    kernel = compiled(print_ir_after=["last"], target="sim:sm_90a", strict=True)
    printed = capsys.readouterr().out
    assert lines_of(printed, "# ----") == ["# ---- after the last pass"]
    assert str(kernel.lowered).strip() in printed


@pytest.mark.parametrize("target", ["cpu", "sim:sm_90a", "sm_90a"])
def test_print_pass_times(target, capsys):
    compiled(target=target, print_pass_times=True, strict=True)
    printed = capsys.readouterr().out
    assert lines_of(printed, "layouts ") and lines_of(printed, "total ")
    compiled(target=target, profile_pass=["mask", "layouts"], strict=True)
    title, *times = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in times] == ["mask", "layouts"]
    assert all(float(line.split()[1]) >= 0 for line in times)


@pytest.mark.parametrize(
    "bad",
    [{"print_ir_after": "layout"}, {"print_ir_before": "layout"}, {"profile_pass": ["layout"]}],
)
def test_passes_that_do_not_exist(bad):
    with pytest.raises(CompileError, match="E0604.*unknown pass `layout`(.|\n)*`layouts`"):
        compiled(target="sim:sm_90a", **bad)


@pytest.mark.parametrize("target", ["cpu", "sim:sm_90a", "sim:gfx942"])
@pytest.mark.parametrize("stage", ["simplify", "mask", "legalise"])
def test_override_stage_on_every_target(target, stage):
    text = compiled(target=target).ir_after(stage)
    assert " mul " in text
    kernel = compiled(
        target=target,
        override_mlir=text.replace(" mul ", " add "),
        override_stage=stage,
        strict=True,
    )
    x, y = np.ones((37, 50), np.float32) * 5, np.zeros((37, 50), np.float32)
    kernel(x, y)
    assert (y == 7).all()  # x + 2.0 instead of x * 2.0


# ---- environment variables ---------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]
READ = re.compile(r'(?:getenv\(|environ(?:\.get\(|\[))"(WAVE_\w+)"')
READ_BY_NAME = re.compile(r'variable_(?:text|number)\("(\w+)"')
DOCUMENTED = re.compile(r"`(WAVE_[A-Z_]+)(?:=[^`]*)?`")


def sources(folder, *endings):
    return [p.read_text() for p in sorted((ROOT / folder).rglob("*")) if p.suffix in endings]


def test_variables_are_read_through_the_table():
    """Their values mean the same everywhere, and each is documented."""
    texts = "\n".join(sources("src", ".c") + sources("tools", ".c") + sources("python", ".py", ".c"))
    assert READ.findall(texts) == []
    assert READ.findall('getenv("WAVE_A") os.environ["WAVE_B"]') == ["WAVE_A", "WAVE_B"]
    table = {name: (reader, kind) for name, reader, kind, _ in _wave.variable_table}
    by_name = set(READ_BY_NAME.findall(texts))
    assert "WAVE_CACHE_LIMIT" in by_name and by_name <= set(table)
    only = {name for name, (reader, _) in table.items() if reader == "Python"}
    assert only <= by_name, "a variable of Python that Python does not read"
    in_c = set(re.findall(r"\bVARIABLE_([A-Z_]+)\b", texts)) - {"COUNT"}
    both = {name for name, (reader, _) in table.items() if reader == "any"}
    assert both == {f"WAVE_{name}" for name in in_c}


def test_every_variable_in_the_documents_is_known():
    named = set(DOCUMENTED.findall("\n".join(sources("docs", ".md"))))
    assert "WAVE_PERF" in named and not named - {row[0] for row in _wave.variable_table}


# ---- measuring ---------------------------------------------------------------------------------


@tkw.wave(double.constraints)
def increment(x: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, tkl.f32]):
    tkw.write(tkw.read(x) + 1.0, x)


needs_llvm = pytest.mark.skipif(devices("cpu") == [], reason="no libLLVM")


def measure(kernel=increment, **options):
    return compiled(kernel, target="cpu", run_bench=True, strict=True, **options)


@needs_llvm
def test_run_bench_writes_results_and_leaves_the_tensors_alone(tmp_path):
    results = tmp_path / "results.json"
    kernel = measure(benchmark_results_file=str(results), benchmark_repetitions=2)
    x = np.zeros((37, 50), np.float32)
    kernel(x)
    assert (x == 1).all()  # once, however often it was measured
    rows = json.loads(results.read_text())
    assert len(rows) == 2
    for name, took, _, calls, _ in rows:
        number, unit = took.split()
        assert name == "increment" and unit == "us" and float(number) > 0 and int(calls) > 1


@needs_llvm
def test_run_bench_prints_without_a_file(capsys):
    kernel = measure(benchmark_batch_size=3)
    kernel(np.zeros((37, 50), np.float32))
    ((name, _, _, calls, _),) = json.loads(capsys.readouterr().out)
    assert name == "increment" and int(calls) % 3 == 0


@needs_llvm
def test_run_bench_with_constant_weights_measures_zeros():
    seen = []

    kernel = measure(bench_with_constant_weights=True)
    kernel._write_results = seen.extend
    x = np.ones((37, 50), np.float32)
    kernel(x)
    assert (x == 2).all() and len(seen) == 1
    assert (_zeros(x) == 0).all() and (x == 2).all() and _zeros(3.5) == 3.5


@pytest.mark.parametrize("target", ["eval", "sim:sm_90a"])
def test_run_bench_measures_no_simulation(target, capsys):
    kernel = compiled(target=target, run_bench=True)
    assert without_effect(kernel) == [f"`run_bench=True` has no effect on target `{target}`"]
    check_double(kernel)
    assert capsys.readouterr().out == ""


@needs_llvm
def test_bench_takes_tensors_of_the_host():
    kernel = compiled(target="cpu")
    x = np.ones((37, 50), np.float32)
    took = bench(kernel, (x, np.zeros_like(x)), budget_ms=10)
    assert 0 < took.least <= took.median <= took.most and took.runs >= 5
    assert bench(np.add, (x, x), calls=2, runs=3, cold=False).runs == 3
    assert bench(lambda: None, budget_ms=1).calls > 1


@pytest.mark.parametrize("wrong", [{"calls": 0}, {"calls": 2.0}, {"runs": -1}, {"runs": "3"}])
def test_bench_refuses_counts_that_are_not_positive(wrong):
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` is a positive int or None"):
        bench(lambda: None, **wrong)


def test_calls_are_profiled(capsys):
    x = np.zeros((37, 50), np.float32)
    kernel = compiled(
        increment,
        profile_python_wrapper=True,
        profile_python_repetitions=5,
        profile_python_warmup=2,
    )
    kernel(x)
    assert (x == 8).all() and "function calls" in capsys.readouterr().out
    kernel = compiled(
        increment,
        profile_python_wrapper=True,
        profile_python_repetitions=5,
        profile_python_cprofile=False,
    )
    kernel(x)
    assert (x == 15).all() and "us per call" in capsys.readouterr().out


def test_options_of_older_kernels_reach_the_compile(tmp_path):
    given = {"canonicalize": True, "run": True, "run_config": {"target": "eval"}}
    x = np.zeros((37, 50), np.float32)
    with tk.gen.TestLaunchContext(SIZES, **given) as launch:
        increment(x)
    assert (x == 1).all() and launch.options.canonicalize
    with tk.gen.TestLaunchContext(SIZES, create_vmfb_file=str(tmp_path / "no" / "file"), **given):
        with pytest.raises(CompileError, match="E0618"):
            increment(x)


# ---- results of a compile --------------------------------------------------------------


@pytest.mark.parametrize("target, ending", [("cpu", "o"), ("sm_90a", "ptx")])
def test_dump_binaries(target, ending, tmp_path):
    for _ in range(2):  # also of a kernel that was compiled before
        folder = tmp_path / "new" / "folder"
        kernel = compiled(target=target, dump_binaries=str(folder), strict=True)
        (file,) = folder.iterdir()
        assert file.name.startswith("double_") and file.suffix == f".{ending}"
        code = file.read_bytes()
        assert code == kernel.program.code() and code
        assert code.startswith(b"\x7fELF") if target == "cpu" else b".entry double" in code
        file.unlink()


@pytest.mark.parametrize("target", ["eval", "cpu", "sim:sm_90a", "sm_90a"])
def test_compile_to_mlir_gives_the_ir(target):
    kernel = compiled(target=target, compile_to_mlir=True, strict=True)
    assert kernel.asm == str(kernel.ir) and kernel.program is None and kernel.lowered is None
    with pytest.raises(ValueError, match="compile_to_mlir=True compiles it to text only"):
        check_double(kernel)


@pytest.mark.parametrize("target, word", [("cpu", "define"), ("sm_90a", ".entry")])
def test_compile_to_asm_gives_the_text(target, word):
    kernel = compiled(target=target, compile_to_asm=True, strict=True)
    assert word in kernel.asm
    with pytest.raises(ValueError, match="compile_to_asm=True compiles it to text only"):
        check_double(kernel)
    if target == "cpu":
        check_double(compiled(target=target))  # another kernel, which can be called


# ---- fast math ---------------------------------------------------------------------------------


@tkw.wave(double.constraints)
def functions(
    x: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, tkl.f32],
    y: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, tkl.f32],
):
    v = tkw.read(x)
    tkw.write(tkw.exp(v) + tkw.tanh(v) + tkw.sin(v) + tkw.log2(tkw.exp2(v) + v * v), y)


@needs_llvm
def test_fast_math_on_the_cpu():
    x = np.random.default_rng(0).uniform(-9, 9, (37, 50)).astype(np.float32)
    w = x.astype(np.float64)
    exact = np.exp(w) + np.tanh(w) + np.sin(w) + np.log2(np.exp2(w) + w * w)
    errors = []
    for fast in False, True:
        kernel = compiled(functions, target="cpu", use_fast_math=fast, strict=True)
        y = np.zeros_like(x)
        kernel(x, y)
        errors.append((np.abs(y - exact) / np.maximum(np.abs(exact), 1)).max())
    assert errors[0] < 1e-6 and errors[0] < errors[1] < 2**-18


def test_fast_math_changes_the_program():
    def text(target, **options):
        return compiled(functions, target=target, **options).asm

    assert "tanh.approx.f32" in text("sm_90a", use_fast_math=True)
    assert "tanh.approx.f32" not in text("sm_90a")
    for target in ["cpu_avx2", "cpu_neon"]:
        plain = text(target, compile_to_asm=True)
        assert len(text(target, compile_to_asm=True, use_fast_math=True)) < 0.8 * len(plain)
    assert without_effect(compiled(functions, target="sim:sm_90a", use_fast_math=True))


# ---- shared memory -----------------------------------------------------------------------------


@tkw.wave([*product.constraints])
def product_and_rows(
    a: tkl.Memory[M, K, SHARED_ADDRESS_SPACE, tkl.f16],
    b: tkl.Memory[N, K, SHARED_ADDRESS_SPACE, tkl.f16],
    bias: tkl.Memory[N, SHARED_ADDRESS_SPACE, tkl.f32],
    c: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, tkl.f32],
):
    zero = tkl.Register[M, N, tkl.f32](0.0)

    @tkw.iterate(K, init_args=[zero])
    def sums(acc):
        return tkw.mma(tkw.read(a), tkw.read(b), acc)

    tkw.write(sums + tkw.broadcast(tkw.read(bias), [M, N]), c)


def places(kernel):
    """(first byte, end) of each allocation."""
    found = []
    for line in kernel.ir_after("allocs").splitlines():
        if " = alloc " not in line:
            continue
        base = int(re.search(r"base = (\d+)", line)[1])
        extents = [int(n) for n in re.search(r"physical = \[([\d, ]+)\]", line)[1].split(",")]
        bits = int(re.search(r"mem<.*[fi](\d+), shared>", line)[1])
        found.append((base, base + int(np.prod(extents)) * bits // 8))
    return sorted(found)


@pytest.mark.parametrize("target", ["sim:sm_90a", "sim:sm_80", "sim:gfx942"])
@pytest.mark.parametrize("sizes", [(128, 64, 96), (70, 45, 50), (1, 33, 7)])
def test_shared_memory_as_asked(target, sizes):
    m, n, k = sizes
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype("f2"), rng.standard_normal((n, k)).astype("f2")
    bias = rng.standard_normal(n).astype("f4")
    for options in (
        {"minimize_shared_allocs": False},
        {"enable_swizzle": False},
        {"enable_swizzle": False, "minimize_shared_allocs": False, "use_global_to_shared": False},
    ):
        kernel = compiled(
            product_and_rows, subs={M: m, N: n, K: k}, target=target, strict=True, **options
        )
        c = np.zeros((m, n), "f4")
        kernel(a, b, bias, c)
        assert np.abs(c - (a.astype("f8") @ b.astype("f8").T + bias)).max() < 1e-3


def test_allocations_lie_apart_where_asked():
    shared = places(compiled(product_and_rows, subs=PRODUCT, target="sim:gfx942"))
    apart = places(
        compiled(product_and_rows, subs=PRODUCT, target="sim:gfx942", minimize_shared_allocs=False)
    )
    assert all(end <= begin for (_, end), (begin, _) in zip(apart, apart[1:]))
    assert any(end > begin for (_, end), (begin, _) in zip(shared, shared[1:]))


@pytest.mark.parametrize("target", ["sim:sm_80", "sim:gfx942"])
def test_tiles_are_not_swizzled_where_asked(target):
    text = compiled(product, subs=PRODUCT, target=target).ir_after("copies")
    plain = compiled(product, subs=PRODUCT, target=target, enable_swizzle=False).ir_after("copies")
    assert " xor " in text and " xor " not in plain


def test_shared_memory_options_have_no_effect_without_it():
    kernel = compiled(
        minimize_shared_allocs=False, enable_swizzle=False, use_global_to_shared=False
    )
    assert len(without_effect(kernel)) == 3
    assert without_effect(compiled(use_global_to_shared=True, strict=True)) == []


@pytest.mark.parametrize("name", ["recompute", "fetch_reads", "repack_rows", "use_global_to_shared", "use_buffer_ops"])
@pytest.mark.parametrize("value", [2, -1, 10**30, "yes", 0.5, [1]])
def test_truths(name, value):
    """Not the opposite of what was meant, and not nothing."""
    with pytest.raises(ValueError, match=f"{name} must be True or False, not "):
        WaveCompileOptions(**{name: value}).validate()
    for good in (True, False, None):
        WaveCompileOptions(**{name: good}).validate()
