"""Options of `wave_compile`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Callable, Mapping, Sequence

from ... import _wave
from .option_rows import Asked, asked
from .option_types import CoalescingType, LocationCaptureConfig, SchedulingType


@dataclass
class WaveCompileOptions:
    """How to compile a kernel. `subs` gives symbols their values; `dynamic_symbols` lists those
    that are taken from the tensors at each call.

    The default target is this machine; `target` may name another one: "sim:gfx942" or "sim:sm_90a"
    runs the kernel lane by lane on a simulation of that machine, with every check; "sm_90a", "cuda"
    or "cpu" compile for such a device; "eval" is the reference evaluator. A machine that is not
    available (an AMD GPU) is replaced by one that is, with a warning; with `strict` it is an error.
    docs/compatibility.md says what each option does, as the compiler's table has it (options.def).
    An option that is set but has no effect gives a remark (R0609) on the compiled kernel; with
    `strict` it is an error.
    """

    # general
    postprocess: str | None = None
    canonicalize: bool = True
    func_name: str = "isolated_benchmark"

    # symbols
    subs: Mapping[Any, Any] = field(default_factory=dict)
    dynamic_symbols: Sequence[Any] = field(default_factory=list)
    expected_sizes: Mapping[Any, int] = field(default_factory=dict)

    # scheduling
    schedule: SchedulingType | bool = SchedulingType.NONE
    use_scheduling_barriers: bool = False
    multi_buffer_count: int | None = None
    override_schedule: str | None = None
    dump_schedule: str | None = None

    # filled in by a compile
    kernel_launch_info: Any = None
    kernel_usages: Any = None

    # back end
    backend: str = "llvm"
    device: str = "hip"
    target: str = ""
    codeobj: str = "5"
    iree_preprocessing_pass_pipeline: str | None = None
    num_devices: int = 1
    strict: bool = False
    assume: str = "check"
    sizes: str = "equal"
    device_asserts: bool = True
    use_water_backend: bool = False
    linearize_reads: bool = True

    # benchmarking
    run_bench: bool = False
    benchmark_batch_size: int | None = None
    benchmark_repetitions: int | None = None
    benchmark_results_file: str | None = None
    capture_trace: bool = False
    bench_with_constant_weights: bool = False
    profile_python_wrapper: bool = False
    profile_python_cprofile: bool = True
    profile_python_warmup: int = 1
    profile_python_repetitions: int = 1000

    # cache
    kernel_hash: str | None = None

    # debugging
    create_vmfb_file: str | None = None
    override_mlir: str | None = None
    override_stage: str | None = None
    dump_binaries: str | None = None
    dump_intermediates: str | None = None
    compile_to_mlir: bool = False
    location_capture_config: LocationCaptureConfig = field(default_factory=LocationCaptureConfig)
    use_local_scope: bool = False
    use_water_leak_check: bool | str = False
    check_water_analysis: bool = False
    enforce_locations: bool = True
    drop_debug_info_before_mlir: bool = True
    verify_region_captures: bool = True

    # performance
    optimization_level: bool = True
    denorm_fp_math_f32: str | None = None
    waves_per_eu: int | None = None
    persistent_workgroups: int | None = None
    split_k: int | None = None
    wave_runtime: bool = False
    iree_launch_async: bool = True
    use_buffer_ops: bool = False
    use_fast_math: bool = False
    use_global_to_shared: bool | None = None
    repack_rows: bool | None = None
    recompute: bool | None = None
    warm_cache: bool = True
    fetch_reads: bool = False
    linearize_shared_access: bool = False
    scalarize_packed_math: bool = False
    coalescing_strategy_hint: CoalescingType = CoalescingType.LINEAR
    enable_swizzle: bool = True
    enable_mark_hardware_transpose_candidates: bool = True

    # compiler
    minimize_shared_allocs: bool = True
    reorder_allocs: bool = True
    use_bound_check: bool = False
    specialize: bool = False
    eliminate_epilogue: bool = False
    cluster_barrier_delay: int | None = None
    allow_noncontiguous_runtime_buffers: bool = False

    # interactive
    edit_ir_before: str | None = None
    edit_ir_after: str | None = None
    edit_ir_before_all: bool = False
    edit_ir_after_all: bool = False

    # printing
    mlir_print_ir_after_all: bool = False
    print_trace_begin: bool = False
    print_grid: bool = False
    print_signature: bool = False
    print_mlir: bool = False
    print_mlir_before_water: bool = False
    print_mlir_after_water: bool = False
    print_pass_times: bool = False
    print_ir_after: Sequence[str] | str = field(default_factory=list)
    print_ir_before: Sequence[str] | str = field(default_factory=list)
    profile_pass: Sequence[str] = field(default_factory=list)
    print_mlir_file: str | None = None

    # assembly
    compile_to_asm: bool = False

    def __post_init__(self) -> None:
        self._place: _wave.Place | None = None  # where the options were written
        self._read_old_schedule()

    def _read_old_schedule(self) -> None:
        if isinstance(self.schedule, bool):
            self.schedule = SchedulingType.MODULO if self.schedule else SchedulingType.NONE

    @property
    def dynamic_strides(self) -> bool:
        """Whether tensors may be strided views."""
        return self.wave_runtime

    def validate(self) -> None:
        """Raises ValueError if options exclude each other, CompileError for an unknown target or a
        file that does not exist."""
        self._checked()

    def _checked(self) -> Asked:
        """The options as the compiler takes them, checked."""
        if not isinstance(self.subs, Mapping):
            raise TypeError(f"subs must be a dictionary {{symbol: value}}, not {self.subs!r}")
        if not isinstance(self.dynamic_symbols, (list, tuple, set, frozenset)):
            raise TypeError(f"dynamic_symbols must be a list, not {self.dynamic_symbols!r}")
        if not isinstance(self.expected_sizes, Mapping):
            raise TypeError(
                f"expected_sizes must be a dictionary {{symbol: size}}, not {self.expected_sizes!r}"
            )
        self._read_old_schedule()
        said = asked(self)
        _wave.check_options(*said)
        return said


def _reject_unknown(init: Callable[..., None]) -> Callable[..., None]:
    """A misspelled field is a diagnostic that names the nearest one."""
    known = [f.name for f in fields(WaveCompileOptions)]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for name in kwargs:
            if name not in known:
                near = _wave.nearest(name, known)
                _wave.report(
                    "E0602",
                    f"WaveCompileOptions has no field `{name}`",
                    f"did you mean `{near}`?" if near else None,
                )
        init(self, *args, **kwargs)
        self._place = _wave.here()

    __init__.__wrapped__ = init  # type: ignore[attr-defined]
    return __init__


WaveCompileOptions.__init__ = _reject_unknown(  # type: ignore[method-assign]
    WaveCompileOptions.__init__
)

__all__ = ["WaveCompileOptions"]
