"""Options of `wave_compile`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Callable, Mapping, Sequence

from ... import _wave
from .option_rows import check_files, holds, idle, result, works
from .option_types import CoalescingType, LocationCaptureConfig, SchedulingType


COMPILED = ("sim", "cpu", "cuda")  # kinds of machines whose kernels go through the passes

DEVICES = ("cpu", "cuda")  # those that run compiled code


@dataclass
class WaveCompileOptions:
    """How to compile a kernel. `subs` gives symbols their values; `dynamic_symbols` lists those
    that are taken from the tensors at each call.

    The default target is this machine; `target` may name another one: "sim:gfx942" or "sim:sm_90a"
    runs the kernel lane by lane on a simulation of that machine, with every check; "sm_90a", "cuda"
    or "cpu" compile for such a device; "eval" is the reference evaluator. A machine that is not
    available (an AMD GPU) is replaced by one that is, with a warning; with `strict` it is an error.
    docs/compatibility.md says what each option does. An option that is set but has no effect gives
    a remark (R0609) on the compiled kernel; with `strict` it is an error.
    """

    # general
    postprocess: str | None = idle(None, "there is no MLIR for a transform script to change")
    canonicalize: bool = idle(True, "expressions are always simplified")
    func_name: str = idle("isolated_benchmark", "a kernel has the name of its function")

    # symbols
    subs: Mapping[Any, Any] = works(dict, "the values of symbols")
    dynamic_symbols: Sequence[Any] = works(list, "symbols that each call takes from its tensors")

    # scheduling
    schedule: SchedulingType | bool = works(
        SchedulingType.NONE,
        "any value except `NONE` and `MANUAL` requests software pipelining of loops; with `NONE` "
        "the compiler decides. `MANUAL` has no effect: schedules are recorded, not applied",
    )
    use_scheduling_barriers: bool = idle(False, "AMD GPUs only")
    multi_buffer_count: int | None = works(
        None, "how many tiles of an operand a loop keeps in shared memory; 1: no prefetching"
    )
    override_schedule: str | None = idle(
        None, "loops are not scheduled cycle by cycle, so there is no such file", file="read"
    )
    dump_schedule: str | None = idle(
        None, "loops are not scheduled cycle by cycle; remark R0608 says what is prefetched"
    )

    # filled in by a compile
    kernel_launch_info: Any = result("grid, threads per workgroup and bytes of shared memory")
    kernel_usages: Any = result('"input" or "output" for each tensor')

    # back end
    backend: str = idle("llvm", "no AMD assembly is written")
    device: str = works("hip", "the kind of device if `target` does not name one: `cuda`, `cpu`")
    target: str = works(
        "", "the machine: `sm_90a`, `cpu`, `sim:gfx942`, `eval`; by default this one"
    )
    codeobj: str = idle("5", "no AMD code objects are written")
    iree_preprocessing_pass_pipeline: str | None = idle(None, "IREE is not used")
    num_devices: int = idle(1, "a kernel runs on one device")
    strict: bool = works(False, "replacements and omissions that are otherwise remarks are errors")
    assume: str = works(
        "check",
        '"check": calls for which an `Assumption` is false use code compiled without assumptions; '
        '"ignore": all calls do',
    )
    sizes: str = works(
        "equal",
        '"equal": tensors that disagree about a dynamic symbol are rejected; "smallest": the '
        "smallest size counts, and accesses are bounded by their own tensor",
    )
    device_asserts: bool = works(True, "`device_assert` is checked; `False` omits all assertions")
    use_water_backend: bool = idle(False, "that back end is not part of this compiler")
    linearize_reads: bool = idle(True, "the compiler chooses how to compute addresses")

    # benchmarking
    run_bench: bool = works(
        False, "measures the kernel at each call, on copies of its arguments", on=DEVICES
    )
    benchmark_batch_size: int | None = works(None, "the number of calls per measurement")
    benchmark_repetitions: int | None = works(None, "the number of measurements of `run_bench`")
    benchmark_results_file: str | None = works(
        None, "a JSON file for the results of `run_bench`, instead of printing them", file="written"
    )
    capture_trace: bool = idle(False, "it requests a profiler for AMD GPUs")
    bench_with_constant_weights: bool = works(False, "`run_bench` uses tensors of zeros instead")
    profile_python_wrapper: bool = works(
        False, "each call is repeated, and the repetitions are profiled"
    )
    profile_python_cprofile: bool = works(
        True, "profile with cProfile; `False`: measure only the time"
    )
    profile_python_warmup: int = works(1, "the number of calls before the profiled ones")
    profile_python_repetitions: int = works(1000, "the number of profiled calls")

    # cache
    kernel_hash: str | None = result("the key of the kernel in the cache of this process")

    # debugging
    create_vmfb_file: str | None = idle(None, "no IREE module is written", file="written")
    override_mlir: str | None = works(
        None, "text IR, or the name of a file with it, to compile instead of the traced kernel"
    )
    override_stage: str | None = works(
        None, "the pass after which that text was dumped; by default, before any pass", on=COMPILED
    )
    dump_binaries: str | None = works(
        None, "a folder for the code that the device loads: PTX, ELF objects", on=DEVICES
    )
    dump_intermediates: str | None = works(
        None, "a folder for the IR after each pass", on=COMPILED
    )
    compile_to_mlir: bool = works(
        False, "the kernel is only traced and checked: `kernel.asm` is its IR; it cannot be called"
    )
    location_capture_config: LocationCaptureConfig = idle(
        LocationCaptureConfig, "file, line and column of each op are always recorded"
    )
    use_local_scope: bool = idle(False, "it concerns how MLIR is printed")
    use_water_leak_check: bool | str = idle(False, "simulated targets check every access instead")
    check_water_analysis: bool = idle(False, "that analysis is not part of this compiler")
    enforce_locations: bool = idle(True, "each op has its source location")
    drop_debug_info_before_mlir: bool = idle(True, "there is no MLIR; PTX names source lines")
    verify_region_captures: bool = idle(True, "the IR is always verified")

    # performance
    optimization_level: bool = idle(True, "every pass always runs")
    denorm_fp_math_f32: str | None = idle(
        None,
        "subnormal numbers are kept, except where docs/numerics.md says otherwise",
        same=("ieee",),
    )
    waves_per_eu: int | None = idle(None, "it is a hint for AMD's compiler")
    wave_runtime: bool = holds(False, "kernels are launched directly")
    iree_launch_async: bool = idle(True, "a call never waits for a GPU")
    use_buffer_ops: bool = idle(False, "AMD GPUs only")
    use_fast_math: bool = works(
        False, "approximations of f32 functions (docs/numerics.md)", on=DEVICES
    )
    use_global_to_shared: bool | None = works(
        None,
        "`False`: threads, not a copy engine, copy tiles to shared memory; otherwise the compiler "
        "decides",
        on=("sim", "cuda"),
        same=(True,),
    )
    linearize_shared_access: bool = idle(
        False, "the compiler chooses how to compute addresses"
    )
    scalarize_packed_math: bool = idle(False, "the compiler decides on packed arithmetic")
    coalescing_strategy_hint: CoalescingType = idle(
        CoalescingType.LINEAR, "the compiler chooses which thread copies which elements (R0607)"
    )
    enable_swizzle: bool = works(
        True,
        "`False`: tiles in shared memory are row-major unless an instruction requires a swizzle",
        on=("sim", "cuda"),
    )
    enable_mark_hardware_transpose_candidates: bool = idle(
        True, "the compiler chooses which loads transpose"
    )

    # compiler
    minimize_shared_allocs: bool = works(
        True,
        "`False`: allocations do not share bytes of shared memory as long as there is room",
        on=("sim", "cuda"),
    )
    reorder_allocs: bool = idle(True, "the largest allocation is always placed first")
    use_bound_check: bool = idle(
        False,
        "each access is checked: out of bounds, reads give 0 and writes do nothing; nothing traps",
    )
    specialize: bool = idle(False, "waves are not divided into producers and consumers")
    eliminate_epilogue: bool = idle(False, "pipelined loops have no epilogue")
    cluster_barrier_delay: int | None = idle(None, "AMD GPUs only")
    allow_noncontiguous_runtime_buffers: bool = holds(False, "tensors may be strided views")

    # interactive
    edit_ir_before: str | None = idle(None, "use `override_mlir` with edited IR instead")
    edit_ir_after: str | None = idle(None, "use `override_mlir` with edited IR instead")
    edit_ir_before_all: bool = idle(False, "use `override_mlir` with edited IR instead")
    edit_ir_after_all: bool = idle(False, "use `override_mlir` with edited IR instead")

    # printing
    mlir_print_ir_after_all: bool = works(False, "prints the IR after every pass", on=COMPILED)
    print_trace_begin: bool = works(False, "prints the traced kernel")
    print_grid: bool = works(False, "prints the grid and the number of threads per workgroup")
    print_signature: bool = works(False, "prints the parameters and whether they are written")
    print_mlir: bool = works(False, "prints the traced kernel")
    print_mlir_before_water: bool = idle(False, "that back end is not part of this compiler")
    print_mlir_after_water: bool = idle(False, "that back end is not part of this compiler")
    print_pass_times: bool = works(False, "prints how long each pass took", on=COMPILED)
    print_ir_after: Sequence[str] | str = works(
        list,
        "prints the IR after these passes; `all`, `last`; `trace`: as traced",
        on=COMPILED,
        same=("trace",),
    )
    print_ir_before: Sequence[str] | str = works(
        list,
        "prints the IR before these passes; `all`; `first`: as traced",
        on=COMPILED,
        same=("first",),
    )
    profile_pass: Sequence[str] = works(
        list, "prints how long these passes took; `all`", on=COMPILED
    )
    print_mlir_file: str | None = works(None, "a file for the traced kernel", file="written")

    # assembly
    compile_to_asm: bool = works(
        False, "the kernel is compiled but not loaded: `kernel.asm` is its text (PTX, LLVM IR)"
    )

    def __post_init__(self) -> None:
        self._place: _wave.Place | None = None  # where the options were written
        if isinstance(self.schedule, bool):
            self.schedule = SchedulingType.MODULO if self.schedule else SchedulingType.NONE

    @property
    def dynamic_strides(self) -> bool:
        """Whether tensors may be strided views."""
        return self.wave_runtime

    def validate(self) -> None:
        """Raises ValueError if options contradict each other, CompileError for an unknown
        target."""
        _wave.check_target(self.target, self._place)
        if not isinstance(self.subs, Mapping):
            raise TypeError(f"subs must be a dictionary {{symbol: value}}, not {self.subs!r}")
        if not isinstance(self.dynamic_symbols, (list, tuple, set, frozenset)):
            raise TypeError(f"dynamic_symbols must be a list, not {self.dynamic_symbols!r}")
        if self.sizes not in ("equal", "smallest"):
            raise ValueError(f"sizes must be 'equal' or 'smallest', not {self.sizes!r}")
        if self.assume not in ("check", "ignore"):
            raise ValueError(f"assume must be 'check' or 'ignore', not {self.assume!r}")
        if self.backend not in ("llvm", "asm"):
            raise ValueError(f"backend must be 'llvm' or 'asm', not {self.backend!r}")
        if self.backend == "asm" and not (self.wave_runtime or self.use_water_backend):
            raise ValueError("backend='asm' needs wave_runtime=True")
        if self.wave_runtime and self.run_bench:
            raise ValueError("wave_runtime=True cannot be combined with run_bench=True")
        check_files(self)


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
