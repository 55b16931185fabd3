"""set_default_run_config and get_default_arch: tests and examples set the target with them."""

from __future__ import annotations

import sys

from wave_lang import _wave
from wave_lang.kernel.wave.compile_options import WaveCompileOptions

dump_generated_mlir = _wave.variable_number("WAVE_DUMP_MLIR", 0)
dump_generated_mlir_file = _wave.variable_text("WAVE_DUMP_MLIR_FILE")
check_individual_kernels = _wave.variable_number("WAVE_CHECK_INDIV_KERNS", 0)
enable_scheduling_barriers = _wave.variable_number("WAVE_USE_SCHED_BARRIERS", 0)


def get_default_arch() -> str:
    """The target of this machine: WAVE_DEFAULT_ARCH, the AMD GPU that PyTorch sees, the NVIDIA GPU
    here, or "cpu"."""
    gpu = None
    torch = sys.modules.get("torch")  # kernels that use PyTorch have imported it
    if torch is not None and torch.cuda.is_available():
        name = getattr(torch.cuda.get_device_properties(0), "gcnArchName", "").split(":")[0]
        gpu = name if "gfx" in name else None
    return _wave.target_default(gpu)


def get_arch_family(arch: str | None = None) -> str:
    """RDNA, GFX1250 or CDNA."""
    return _wave.target_family(arch or get_default_arch())


def set_default_run_config(options: WaveCompileOptions) -> WaveCompileOptions:
    """Sets the target to this machine; returns the options."""
    options.target = get_default_arch()
    options.device = "cuda" if _wave.target_device(options.target) == "cuda" else "hip"
    options.print_mlir = bool(options.print_mlir or dump_generated_mlir)
    options.print_mlir_file = options.print_mlir_file or dump_generated_mlir_file
    options.use_scheduling_barriers = bool(
        options.use_scheduling_barriers or enable_scheduling_barriers
    )
    return options
