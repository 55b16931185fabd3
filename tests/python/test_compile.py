"""Options, targets, caching, schedules and the other ways to reach a kernel."""

from __future__ import annotations  # annotations below are strings: the hard case

import warnings

import numpy as np
import pytest

import wave_lang.kernel as tk
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import run_python
from wave_lang import CompileError, SchedulingType, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave import cache
from wave_lang.kernel.wave.machine import devices
from wave_lang.kernel.wave.utils import general_utils, run_utils
from wave_lang.kernel.wave.utils.classes import CoalescingType

M, N, BM, BN, AS = tkl.sym.M, tkl.sym.N, tkl.sym.BM, tkl.sym.BN, tkl.sym.ADDRESS_SPACE
SIZES = {M: 4, N: 70, BM: 1, BN: 64, AS: GLOBAL_ADDRESS_SPACE}


def constraints():
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: BM, N: BN}),
        tkw.WorkgroupConstraint(M, BM, 1),
        tkw.WorkgroupConstraint(N, BN, 0),
    ]


def scale_kernel(factor=2.0):
    P = tkl.Memory[M, N, AS, tkl.f32]  # only visible to string annotations through this frame

    @tkw.wave(constraints())
    def scale(x: P, y: tkl.Memory[M, N, AS, tkl.f32]):
        tkw.write(tkw.read(x) * factor, y)

    return scale


def compile_scale(factor=2.0, **options):
    options = {"subs": SIZES, "target": "eval", **options}
    return wave_compile(WaveCompileOptions(**options), scale_kernel(factor))


def check_scale(compiled, factor=2.0):
    x, y = np.arange(280, dtype=np.float32).reshape(4, 70), np.zeros((4, 70), np.float32)
    assert compiled(x, y) is None
    assert np.array_equal(y, x * factor)


@pytest.fixture
def fresh_cache():
    cache.reset_cache_manager()
    yield cache.get_cache_manager()
    cache.reset_cache_manager()


# ---- options ---------------------------------------------------------------------------------


def test_string_annotations_are_resolved_where_the_kernel_stands():
    check_scale(compile_scale())


def test_closure_variables_may_be_assigned_later():
    @tkw.wave(constraints())
    def kernel(x: tkl.Memory[M, N, AS, tkl.f32], y: tkl.Memory[M, N, AS, tkl.f32]):
        tkw.write(tkw.read(x) * factor, y)

    factor = 2.0
    check_scale(wave_compile(WaveCompileOptions(subs=SIZES, target="eval"), kernel))


def test_threads_copy_where_the_option_says_so():
    assert "boxes" not in str(compile_scale().ir)
    assert "boxes 1" in str(compile_scale(use_global_to_shared=True).ir)
    assert "boxes 0" in str(compile_scale(use_global_to_shared=False).ir)


def test_all_public_options_are_accepted():
    check_scale(
        compile_scale(
            canonicalize=True,
            run_bench=False,
            schedule=SchedulingType.PREFETCH,
            benchmark_batch_size=1,
            benchmark_repetitions=1,
            benchmark_results_file=None,
            dynamic_symbols=[],
            use_buffer_ops=True,
            denorm_fp_math_f32="preserve-sign",
            waves_per_eu=2,
            wave_runtime=True,
            use_global_to_shared=True,
            use_scheduling_barriers=True,
            minimize_shared_allocs=False,
            compile_to_mlir=False,
            backend="llvm",
            use_water_backend=False,
            linearize_shared_access=True,
            dump_intermediates=None,
            cluster_barrier_delay=1,
            coalescing_strategy_hint=CoalescingType.WAVE_TILE_ALIGNED,
            enable_swizzle=False,
            iree_launch_async=False,
            multi_buffer_count=2,
            scalarize_packed_math=True,
            specialize=False,
            allow_noncontiguous_runtime_buffers=True,
            dump_schedule=None,
            optimization_level=False,
            override_schedule=None,
            use_bound_check=True,
            print_ir_after=[],
            linearize_reads=False,
            enforce_locations=False,
            device="hip",
            use_local_scope=True,
            func_name="f",
            postprocess=None,
            drop_debug_info_before_mlir=False,
            reorder_allocs=False,
        )
    )


def test_attributes_may_be_assigned_freely():
    options = WaveCompileOptions(subs=SIZES, target="eval")
    options.use_wave_asm_backend = True  # not a field: kernels do this
    options.dynamic_symbols = [N]
    options.subs = {k: v for k, v in SIZES.items() if k != N}
    check_scale(wave_compile(options, scale_kernel()))


def test_schedule_accepts_the_old_booleans():
    assert WaveCompileOptions(schedule=True).schedule is SchedulingType.MODULO
    assert WaveCompileOptions(schedule=False).schedule is SchedulingType.NONE


@pytest.mark.parametrize(
    "bad", [{"backend": "mlir"}, {"backend": "asm"}, {"wave_runtime": True, "run_bench": True}]
)
def test_contradicting_options(bad):
    with pytest.raises(ValueError):
        compile_scale(**bad)


@pytest.mark.skipif(_wave.devices() != [], reason="there is something to launch kernels on")
def test_default_target_is_this_machine_and_says_so_once():
    code = (
        "import warnings, sys; sys.path.insert(0, sys.argv[1]); warnings.simplefilter('always');"
        "import test_compile as t\n"
        "with warnings.catch_warnings(record=True) as w:\n"
        "    a = t.compile_scale(target=''); b = t.compile_scale(target='cpu')\n"
        "t.check_scale(a); t.check_scale(b)\n"
        "print(len([x for x in w if x.category is RuntimeWarning]), len(a.remarks), len(b.remarks))"
    )
    done = run_python("-c", code, __file__.rpartition("/")[0])
    # Without a libLLVM the evaluator runs it, with a warning.
    said = "0" if devices("cpu") else "1"
    assert done.stdout.split() == [said] * 3, done.stderr


def test_default_arch(monkeypatch):
    monkeypatch.setenv("WAVE_DEFAULT_ARCH", "gfx1201")
    assert run_utils.get_default_arch() == "gfx1201" and run_utils.get_arch_family() == "RDNA"
    options = run_utils.set_default_run_config(WaveCompileOptions(subs=SIZES))
    assert (options.target, options.device) == ("gfx1201", "hip")
    monkeypatch.delenv("WAVE_DEFAULT_ARCH")
    assert run_utils.get_arch_family("gfx942") == "CDNA"


def test_unknown_environment_variables_warn():
    done = run_python("-c", "import wave_lang", WAVE_CACHE_NO="1", WAVE_CACHE_ON="1")
    assert "WAVE_CACHE_NO" in done.stderr and "WAVE_CACHE_ON?" in done.stderr
    assert done.stderr.count("Warning") == 1


def test_values_of_environment_variables_that_say_nothing_warn():
    values = {"WAVE_CACHE_ON": "banana", "WAVE_NUM_THREADS": "0", "WAVE_CACHE_SIZE": "1Q"}
    done = run_python("-c", "import wave_lang", **values)
    assert done.returncode == 0 and done.stderr.count("Warning") == 3, done.stderr
    for name, value in values.items():
        assert f"{name}={value} is ignored" in done.stderr
    fine = {"WAVE_CACHE_ON": "off", "WAVE_NUM_THREADS": "2", "WAVE_CACHE_SIZE": "2G"}
    assert run_python("-c", "import wave_lang", **fine).stderr == ""


def test_printing(capsys, tmp_path):
    compile_scale(print_mlir=True, print_mlir_file=str(tmp_path / "ir"))
    assert "kernel @scale" in capsys.readouterr().out
    assert "kernel @scale" in (tmp_path / "ir").read_text()


def test_buffers_are_a_row_of_the_header():
    assert "stages 3" in compile_scale(multi_buffer_count=3).asm
    kinds = {"PREFETCH": 2, "FOUR_STAGE": 4, "GEMM_FOUR_STAGE": 4, "MODULO": 0}
    kinds |= {"MODULO_MULTI_BUFFERED": 0, "PREFETCH_ATTENTION": 0}
    for kind, n in kinds.items():
        assert f"stages {n}" in compile_scale(schedule=SchedulingType[kind]).asm
    assert "stages" not in compile_scale(schedule=SchedulingType.MANUAL).asm
    assert "stages" not in compile_scale().asm


def test_scheduling_parameters_in_subs_are_not_symbols_of_the_kernel():
    subs = {**SIZES, **general_utils.get_default_scheduling_params()}
    compiled = compile_scale(subs=subs)
    assert "DELAY" not in compiled.asm
    check_scale(compiled)


def test_a_symbol_may_stand_for_itself():
    check_scale(compile_scale(subs={**SIZES, SHARED_ADDRESS_SPACE: SHARED_ADDRESS_SPACE}))


# ---- cache -----------------------------------------------------------------------------------


def test_the_same_kernel_is_compiled_once(fresh_cache):
    first, again = compile_scale(2.0), compile_scale(2.0)
    assert (fresh_cache.cache_hits, fresh_cache.cache_misses) == (1, 1)
    assert again.ir is first.ir and first.trace is not None and again.trace is None
    check_scale(again)
    other = compile_scale(3.0)  # another closure value
    compile_scale(2.0, subs={**SIZES, BN: 32})  # another tile
    assert (fresh_cache.cache_hits, fresh_cache.cache_misses) == (1, 3)
    check_scale(other, 3.0)


def test_the_cache_can_be_switched_off(fresh_cache, monkeypatch):
    monkeypatch.setattr(cache, "WAVE_CACHE_ON", 0)
    assert not cache.is_cache_enabled()
    compile_scale()
    compile_scale()
    assert fresh_cache.cache_hits == fresh_cache.cache_misses == 0


def test_the_cache_holds_a_library(fresh_cache):
    """A model calls dozens of kernels again and again: none is compiled twice."""
    factors = [float(n) for n in range(100)]
    first = [compile_scale(factor) for factor in factors]
    again = [compile_scale(factor) for factor in factors]
    assert (fresh_cache.cache_hits, fresh_cache.cache_misses) == (100, 100)
    assert all(one.ir is two.ir for one, two in zip(first, again))


def test_the_cache_forgets_the_oldest(fresh_cache, monkeypatch):
    monkeypatch.setattr(cache, "WAVE_CACHE_LIMIT", 2)
    for factor in (1.0, 2.0, 3.0):
        compile_scale(factor)
    compile_scale(1.0)
    assert len(fresh_cache.session_cache) == 2 and fresh_cache.cache_hits == 0


# ---- other entry points ----------------------------------------------------------------------


def test_a_kernel_must_be_compiled():
    with pytest.raises(TypeError, match="wave_compile"):
        scale_kernel()(1, 2)
    with pytest.raises(TypeError, match="@wave"):
        wave_compile(WaveCompileOptions(), lambda: 0)


def test_launch_context_of_older_kernels():
    x, y = np.ones((4, 70), np.float32), np.zeros((4, 70), np.float32)
    with tk.gen.TestLaunchContext(
        SIZES,
        canonicalize=True,
        run=True,
        schedule=False,
        run_config={"backend": "rocm", "device": "hip", "target": "eval"},
    ):
        scale_kernel(5.0)(x, y)
    assert (y == 5).all()


def test_tracing_alone():
    @tkw.wave_trace_only(constraints())
    def kernel(x: tkl.Memory[M, N, AS, tkl.f32]):
        y = tkw.read(x)
        tkw.write(y, x)

    traced = kernel()
    assert traced.name == "kernel" and "%y = read %x" in str(traced)
    (x,) = traced.params
    assert (x.name, x.kind, x.shape, x.dtype, x.is_output) == ("x", "mem", (M, N), tkl.f32, True)
    assert x.is_read
    assert [(p.is_output, p.is_read) for p in compile_scale().ir.params] == [(False, True), (True, False)]


def test_compiled_kernel_describes_itself():
    compiled = compile_scale()
    assert compiled.name == "scale" and compiled.get_compiled_graph() is compiled.ir
    assert compiled.options.kernel_usages == ["input", "output"]
    assert _wave.parse(compiled.asm)[0] == compiled.ir
    dynamic = wave_compile(
        WaveCompileOptions(
            subs={BM: 1, BN: 64, AS: GLOBAL_ADDRESS_SPACE}, dynamic_symbols=[M, N], target="eval"
        ),
        scale_kernel(),
    )
    assert dynamic.symbols_args_map == {M: (0, 0), N: (0, 1)}
    check_scale(dynamic)


def test_bad_text_is_explained():
    with pytest.raises(CompileError) as e:
        _wave.parse("kernel @x() { %a = reed %b }", "file.wave")
    d = e.value.diagnostics[0]
    assert d.code == "E0503" and (d.file, d.line) == ("file.wave", 1) and "read" in (d.hint or "")


def test_two_traces_may_nest():
    inner = {}

    @tkw.wave(constraints())
    def outer(x: tkl.Memory[M, N, AS, tkl.f32]):
        y = tkw.read(x)
        inner["kernel"] = scale_kernel().trace()
        tkw.write(y, x)

    assert "read %x" in str(outer.trace()) and "@scale" in str(inner["kernel"])


def test_threads_trace_their_own_kernels():
    from concurrent.futures import ThreadPoolExecutor

    expected = str(scale_kernel(1.5).trace())
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda _: str(scale_kernel(1.5).trace()), range(64)))
    assert set(texts) == {expected}


# ---- helpers ---------------------------------------------------------------------------------


def test_general_utils():
    assert general_utils.ceildiv(7, 2) == 4 and general_utils.clamp(9, 0, 5) == 5
    assert general_utils.delinearize_index(23, [2, 3, 4]) == [1, 2, 3]
    assert general_utils.divide_shape_into_chunks([8, 6], 12) == [2, 2]
    with pytest.raises(ValueError):
        general_utils.divide_shape_into_chunks([5], 2)


def test_types_compare_by_structure():
    assert tkl.Memory[M, N, AS, tkl.f16] == tkl.Memory[(M, N), AS, tkl.f16]
    assert tkl.Memory[M, N, AS, tkl.f16] != tkl.Memory[M, N, AS, tkl.f32]
    assert tkl.Register[M, tkl.f32] == tkl.Register[(M,), tkl.f32]
    assert len({tkl.Register[M, tkl.f32], tkl.Register[M, tkl.f32]}) == 1
    assert tkl.Memory[M, 16, AS, tkl.f16].symbolic_shape == (M, 16)
    layout = tkl.MemoryLayout(shape=[None, 4])
    usage = tkl.KernelBufferUsage.INPUT
    typed = tkl.Memory[M, N, tkl.AddressSpace.SHARED_MEMORY, tkl.f16, layout, usage]
    assert typed.physical_layout == layout and typed.address_space == SHARED_ADDRESS_SPACE


def test_mapping_helpers():
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    d = tkw.IndexMapping.dynamic_val(0)
    m = tkw.IndexMapping(2, {M: d, N: j + M}, {M: i, N: j}, dynamic_val_mappings={M: i})
    assert m.input_shape == (M, N) and m.output_shape == (M, N) and m.num_dynamic_vals == 1
    assert not m.is_identity() and m.is_output_identity()
    assert m == tkw.IndexMapping(2, {M: d, N: j + M}, {M: i, N: j}, ({M: i},))
    changed = m.substitute({M: BM})
    assert changed.input_mapping == {BM: d, N: j + BM}
    assert changed.dynamic_val_mappings == ({BM: i},)
    assert tkw.IndexMapping(2, {M: i, N: j}, {M: i, N: j}).is_identity()


def test_data_types():
    import copy
    import pickle

    assert tkl.f16.bitwidth() == 16 and tkl.f6e2m3fn.bitwidth() == 6
    assert tkl.f32.is_float_asm() and not tkl.f32.is_int_asm()
    assert tkl.i8.is_int_asm() and not tkl.bool.is_int_asm() and tkl.bool.name == "bool"
    assert tkl.f8e4m3fnuz.ir_type_asm() == "f8E4M3FNUZ" and tkl.bf16.ir_type_asm() == "bf16"
    assert tkl.f32.symbolic_shape == () and tkl.f32.dtype is tkl.f32
    assert copy.deepcopy(tkl.f16) is tkl.f16 and pickle.loads(pickle.dumps(tkl.i1)) is tkl.bool
    assert tkl.DataType("f32") is tkl.f32
    with pytest.raises(TypeError):
        tkl.DataType("f33")


def test_diagnostics_are_records():
    with pytest.raises(CompileError) as e:
        WaveCompileOptions(subz={})
    error = e.value
    d = error.diagnostics[0]
    assert (d.severity, d.code) == ("error", "E0602") and d.notes == [] and d.rendered in str(error)
    assert isinstance(error, Exception) and CompileError().diagnostics == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _wave.take_diagnostics() == []


# ---- proofs ----------------------------------------------------------------------------------


PADDED = """
kernel @best(%a: mem<M, N, f32>, %b: mem<M, f32>)
  workgroup M by 1 on 0; workgroup N by 32 on 1; hardware threads 32, vector {M: 1, N: 32}
  bind M = 4; bind N = 20
{
  %x = read %a
  %m = max %x {dim = N}
  write %m, %b
}
"""


def test_proof_of_an_op_without_memory():
    """`padding` has inserted a mask: its bounds are those of a tile."""
    (kernel,) = _wave.parse(PADDED, "padded.wave")
    kernel.run_passes(passes="padding")
    assert {r.memory for r in kernel.proof().rows if r.op == "exists"} == {""}


def test_proof_says_what_is_tested():
    proof = compile_scale().proof()
    rows = {(r.op, str(r.dim)): r for r in proof.rows if not r.of_memory}
    assert rows["read", "M"].verdict == "proved" and rows["read", "M"].test is None
    assert rows["read", "N"].verdict == "tested" and str(rows["read", "N"].test) == "$x1 < 70"
    assert {(r.memory, r.access) for r in proof.rows} == {("x", 0), ("y", 1)}
    assert all(r.verdict in ("proved", "implied") for r in proof.rows if r.of_memory)
    assert rows["write", "N"].offset_bits == 32 and rows["write", "N"].run == 2
    assert str(rows["write", "N"].run_dim) == "N" and rows["write", "N"].line > 0
    assert "tested as $x1 < 70" in proof.text


def test_kernels_of_the_package_take_no_names_from_their_caller():
    """Names of ops are in rows of schedules: they must not depend on who compiles the kernel."""
    from wave_lang.ops.attention_gradient_kernels import deltas

    unlikely_name = deltas(tkl.f16, 4, 64, False, False)[0].trace()
    assert "unlikely_name" not in str(unlikely_name)
