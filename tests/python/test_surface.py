"""Every module and name that public Wave kernels, templates and tests import exists here."""

import importlib
from pathlib import Path

import pytest

import wave_lang

# module below wave_lang -> names (the kernel library, `templates` and `nn`, has its own tests)
NAMES = {
    "debugging.html_viewer": "html_viewer",
    "kernel": "",
    "kernel._support.dtype": "DataType f16 f32 i32",
    "kernel._support.indexing": "IndexSymbol index_symbol sym",
    "kernel.lang": "DataType",
    "kernel.lang.global_symbols": "GLOBAL_ADDRESS_SPACE SHARED_ADDRESS_SPACE THREAD_0 WORKGROUP_0",
    "kernel.lang.kernel_buffer": "KernelBufferUsage",
    "kernel.lang.wave_types": "AddressSpace IndexMapping Memory Register",
    "kernel.ops.wave_ops": """
        Allocate Broadcast Conditional IterArg Iterate MMA NestedRegionOp NewScalar Output
        Placeholder Read SharedMemoryBarrier ShuffleOp Write get_custom""",
    "kernel.wave": "",
    "kernel.wave.assumptions": "Assumption",
    "kernel.wave.cache": "CACHE_BASE_DIR WAVE_CACHE_ON get_cache_manager is_cache_enabled reset_cache_manager",
    "kernel.wave.compile": "WaveCompileOptions wave_compile",
    "kernel.wave.constraints": """
        Constraint DeviceConstraint GenericDot HardwareConstraint MMAOperand MMAType
        ScaledMMAType TilingConstraint WaveConstraint WorkgroupConstraint""",
    "kernel.wave.execution_engine": "is_execution_engine_available",
    "kernel.wave.iree_utils": "generate_iree_ref",
    "kernel.wave.scheduling.resources": "Operation",
    "kernel.wave.scheduling.schedule": "SchedulingType",
    "kernel.wave.scheduling.schedule_enums": "SchedulingType",
    "kernel.wave.symbolic_constraints": "SymbolicAlias",
    "kernel.wave.templates": "AttentionShape",
    "kernel.wave.templates.attention_common": "AttentionShape",
    "kernel.wave.utils.classes": "CoalescingType",
    "kernel.wave.utils.compile_utils": "set_default_compile_config",
    "kernel.wave.utils.general_utils": """
        DEFAULT_GPU_DEVICE TORCH_DTYPE_TO_WAVE ceildiv check_leaks clamp delinearize_index
        divide_shape_into_chunks get_default_scheduling_params run_test torch_dtype_range
        torch_dtype_to_wave wave_dtype_to_torch""",
    "kernel.wave.utils.mma_utils": "get_mfma_load_elems_per_thread get_mfma_store_elems_per_thread",
    "kernel.wave.utils.mxfp_utils": """
        SCALE_GROUP_SIZE b_preshuffle e8m0_shuffle e8m0_to_f32 generate_gemm_afp4wfp4_inputs
        mxfp4_to_f32 torchScaledGemmMXFP4""",
    "kernel.wave.utils.reference_kernel_utils": "scaled_dot_product_attention_bhsd",
    "kernel.wave.utils.run_utils": """
        check_individual_kernels dump_generated_mlir dump_generated_mlir_file
        enable_scheduling_barriers get_arch_family get_default_arch set_default_run_config""",
    "kernel.wave.utils.torch_utils": """
        device_arange device_empty device_full device_ones device_randint device_randn
        device_randperm device_tensor device_zeros get_default_device quantized_tensor
        to_default_device""",
    "kernel.wave.visualization": "visualize_graph",
    "kernel.wave.wave": "LaunchableWave",
    "kernel.wave.wave_schedule": "",
    "kernel.wave.wave_sim": "wave_sim",
    "support.detect_water": "is_water_available",
    "support.detect_waveasm": "is_waveasm_available",
    "support.indexing": "index_symbol sym",
    "support.location_config": "LocationCaptureConfig LocationCaptureLevel",
    "support.logging": "get_logger",
}

# what `from module import *` must bind
STARS = {
    "kernel.lang.global_symbols": """
        GET_ITER_ARG GLOBAL_ADDRESS_SPACE GLOBAL_MEMORY_UNITS MMA_DELAY MMA_UNITS
        READ_GLOBAL_DELAY READ_SHARED_DELAY SHARED_ADDRESS_SPACE SHARED_MEMORY_UNITS
        SHUFFLE_DELAY SHUFFLE_UNITS THREAD_0 VALU_DELAY VALU_UNITS WORKGROUP_0 WORKGROUP_1
        WORKGROUP_2 WRITE_GLOBAL_DELAY WRITE_SHARED_DELAY index_symbol sympy""",
    "kernel.lang.wave_types": "Memory Register",
    "kernel.wave.templates.attention_common": """
        AttentionShape BLOCK_D_KV BLOCK_H BLOCK_H_KV BLOCK_H_Q BLOCK_N_KV BLOCK_N_Q D_KV D_Q H
        H_KV H_Q N_KV N_Q""",
}

TKL = """
    AddressSpace IndexSymbol Memory MemoryLayout Register SymbolBind bf16 bool f16 f32 f4e2m1fn
    f8e4m3fnuz f8e5m2 f8e8m0fnu i16 i32 i64 i8 sym
""".split()

TKW = """
    Assumption Constraint DeviceConstraint GatherToLDS GenericDot GridConstraint
    HardwareConstraint IndexMapping IteratorBindings MMAType MemoryAccessFlags MemoryCounterWait
    MemoryCounterWaitBarrier Read Register ReorderingConstraint ScaledMMAType SchedulingBarrier
    SetWavePrio SharedMemoryBarrier SharedMemoryBarrierSignal SharedMemoryBarrierWait
    TensorCounterWait TensorLoadToLDS TilingConstraint WaveConstraint WorkgroupBarrier
    WorkgroupConstraint Write abs allocate apply_expr atan2 atomic_add atomic_min bitcast
    broadcast cast cbrt ceil cluster conditional cos cumsum debug_log eq erf exp exp2 extract
    filter_nodes floor ge get_hardware_constraint get_node_by_tag get_node_by_tag_and_iteration
    get_node_by_tag_and_type gt i1 insert_after insert_at_end insert_at_start insert_before
    insert_cond_barrier_after insert_cond_barrier_before interleave_operations isinf isnan iterate le log log10
    log2 lt max maximum memory_counter_wait memory_counter_wait_barrier min minimum mma ne
    partition_by_address_space partition_by_dim permute pipeline powf read reciprocal reciprocal_approx
    reduction register remf reorder_graph reshape round roundeven rsqrt scalar scaled_mma scatter_add
    select self_index set_symbol set_wave_prio shared_memory_barrier
    shared_memory_barrier_signal shared_memory_barrier_wait sigmoid sin sinh softsign sqrt stagger sum
    tag tanh tanh_approx topk unroll wave wave_trace_only workgroup_barrier write
""".split()


# Seed kernels and the documentation use these without a prefix.
FLAT = """
    wave iterate reduction conditional Memory Register SymbolBind MemoryLayout IndexMapping sym
    WorkgroupConstraint WaveConstraint TilingConstraint HardwareConstraint DeviceConstraint
    GridConstraint ReorderingConstraint IteratorBindings SymbolicAlias Assumption MMAType
    ScaledMMAType GenericDot MMAOperand read write mma permute max sum min exp2 cast reciprocal
    broadcast select self_index apply_expr set_symbol f16 bf16 f32 i32 i64 i1 F32_16x16x16_F16
    GLOBAL_ADDRESS_SPACE SHARED_ADDRESS_SPACE GLOBAL_MEMORY SHARED_MEMORY WORKGROUP_0 THREAD_0
    WaveCompileOptions wave_compile SchedulingType CompileError sympy
""".split()


@pytest.mark.parametrize("module", sorted(NAMES))
def test_names(module):
    found = importlib.import_module(f"wave_lang.{module}")
    for name in NAMES[module].split():
        if name == "TORCH_DTYPE_TO_WAVE":
            pytest.importorskip("torch")
        assert hasattr(found, name), f"wave_lang.{module} lacks {name}"


PACKAGE = Path(wave_lang.__file__).parent


def public_modules():
    """The files of the folder public/, under the names by which they are imported."""
    for path in sorted((PACKAGE / "public").rglob("*.py")):
        inner = path.relative_to(PACKAGE / "public").with_suffix("")
        yield ".".join(("wave_lang", *inner.parts)).removesuffix(".__init__"), path


def test_public_modules_are_imported_by_their_public_names():
    found = dict(public_modules())
    assert len(found) > 20
    for name, path in found.items():
        module = importlib.import_module(name)
        assert module.__name__ == name and Path(module.__file__) == path
        assert module.__doc__, f"{path} does not say what it is for"


def test_public_modules_hide_nothing():
    """No module of public/ has the name of one of the package: that folder comes second in the
    path."""
    for _, path in public_modules():
        own = PACKAGE / path.relative_to(PACKAGE / "public")
        assert not own.exists() and not own.with_suffix("").is_dir()


@pytest.mark.parametrize("module", sorted(STARS))
def test_star_imports(module):
    scope = {}
    exec(f"from wave_lang.{module} import *", scope)
    assert set(STARS[module].split()) <= scope.keys()


def test_attributes():
    import wave_lang.kernel.lang as tkl
    import wave_lang.kernel.wave as tkw

    assert [n for n in TKL if not hasattr(tkl, n)] == []
    assert [n for n in TKW if not hasattr(tkw, n)] == []
    assert tkl.global_symbols.GLOBAL_ADDRESS_SPACE == tkw.GLOBAL_ADDRESS_SPACE


def test_the_decorator_is_not_the_module():
    import wave_lang.kernel.wave as tkw

    assert callable(tkw.wave) and tkw.wave.__name__ == "wave"
    assert tkw.reduction is tkw.iterate and tkw.Reduction is tkw.Iterate


def test_flat_import():
    scope = {}
    exec("from wave_lang import *", scope)
    assert [n for n in FLAT if n not in scope] == []
    assert "bool" not in scope or scope["bool"] is bool
    assert (scope["max"](1, 2), scope["sum"]([1, 2]), scope["abs"](-1)) == (2, 3, 1)
    import wave_lang as wl

    assert wl.f16 is scope["f16"] and wl.MMAType.F32_16x16x16_F16 is wl.F32_16x16x16_F16


def test_absent_back_ends_say_so():
    from wave_lang.kernel.wave.execution_engine import is_execution_engine_available
    from wave_lang.support.detect_water import is_water_available
    from wave_lang.support.detect_waveasm import is_waveasm_available

    assert not (is_water_available() or is_waveasm_available() or is_execution_engine_available())


def test_every_element_type_of_the_compiler_has_a_name():
    from wave_lang import _wave
    from wave_lang.kernel._support import dtype

    names = set(dtype.__all__) - {"DataType", "bool"}
    assert names == set(_wave.dtypes) and all(getattr(dtype, n) is _wave.dtypes[n] for n in names)


def test_mma_enumeration_has_the_public_values():
    from wave_lang.kernel.wave.constraints import MMAType, ScaledMMAType
    from wave_lang.kernel.wave.utils import mma_utils

    assert MMAType.F32_16x16x16_F16.value == 0x1020
    assert MMAType.RDNA4_WAVE32_F32_16x16x16_F16.value == 0x1920
    assert ScaledMMAType.F32_16x16x128_F8F6F4.value == 0x1340
    assert len(MMAType) == 18 and len(ScaledMMAType) == 3
    assert mma_utils.get_mfma_load_elems_per_thread(MMAType.F32_32x32x8_F16) == 4
    assert mma_utils.get_mfma_store_elems_per_thread(MMAType.F32_32x32x8_F16) == 16
    assert mma_utils.get_mfma_load_elems_per_thread(MMAType.GFX1250_F32_16x16x32_F16) is None
    assert mma_utils.get_mfma_load_elems_per_thread("MFMA_F32_32x32x8_F16") == 4
    assert mma_utils.get_mfma_load_elems_per_thread("nothing") is None


@pytest.mark.parametrize("lead", ["", "MFMA_", "MMAType.", "MMAType.MFMA_"])
def test_names_of_matrix_instructions_in_public_spellings(lead):
    from wave_lang.kernel.wave.constraints import HardwareConstraint, WorkgroupConstraint
    from wave_lang.kernel.wave.wave import wave_trace_only

    hardware = HardwareConstraint(threads_per_wave=64, mma_type=lead + "F32_32x32x8_F16")

    @wave_trace_only([hardware, WorkgroupConstraint(wave_lang.sym.M, 64, 0)])
    def kernel():
        pass

    assert "mma F32_32x32x8_F16" in str(kernel())


def test_attention_shape_iterates_over_what_is_set():
    from wave_lang.kernel.wave.templates.attention_common import AttentionShape, N_Q

    shape = AttentionShape(8, 2, 64, 32, query_seq_len=128)
    assert list(shape) == [8, 2, 64, 32, 128]
    assert N_Q.name == "N_D"


def test_the_stub_describes_the_extension():
    """Every public name of the extension is in _wave.pyi, with the same members."""
    import ast
    from pathlib import Path

    import wave_lang
    from wave_lang import _wave

    tree = ast.parse((Path(wave_lang.__file__).parent / "_wave.pyi").read_text())
    stub = {n.name: n for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    values = {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign)}
    public = {n for n in dir(_wave) if not n.startswith("__")}
    assert public == (stub.keys() | values) - {"__version__"}
    for name in ("Expr", "DataType", "Value", "Tracer", "Kernel"):
        described = {m.name for m in stub[name].body if isinstance(m, ast.FunctionDef)}
        described = {m for m in described if not m.startswith("_")}
        assert described == {m for m in vars(getattr(_wave, name)) if not m.startswith("_")}, name


def test_a_kernel_may_ask_for_names():
    import wave_lang.kernel.lang as tkl
    import wave_lang.kernel.wave as tkw
    from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE

    n = tkl.sym.N

    @tkw.wave([tkw.HardwareConstraint(64, vector_shapes={n: 64}), tkw.WorkgroupConstraint(n, 64, 0)])
    def asks(x: tkl.Memory[n, GLOBAL_ADDRESS_SPACE, tkl.f32]):
        assert not hasattr(tkw, "where") and not hasattr(tkl, "u4") and hasattr(tkw, "exp")
        tkw.write(getattr(tkw, "no_such_op", tkw.exp)(tkw.read(x)), x)

    asks.trace()
