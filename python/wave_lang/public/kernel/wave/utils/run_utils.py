"""set_default_run_config and get_default_arch: tests and examples set the target with them."""

from __future__ import annotations

import os
import sys

from wave_lang import _wave
from wave_lang.kernel.wave.compile_options import WaveCompileOptions
from wave_lang.kernel.wave.machine import machine_of
from wave_lang.support import environment

dump_generated_mlir = environment.number("WAVE_DUMP_MLIR", 0)
dump_generated_mlir_file = os.environ.get("WAVE_DUMP_MLIR_FILE")
check_individual_kernels = os.environ.get("WAVE_CHECK_INDIV_KERNS")
enable_scheduling_barriers = os.environ.get("WAVE_USE_SCHED_BARRIERS")


def get_default_arch() -> str:
    """The target of this machine: WAVE_DEFAULT_ARCH, the AMD GPU that PyTorch sees, the NVIDIA GPU
    here, or "cpu"."""
    arch = os.environ.get("WAVE_DEFAULT_ARCH")
    if arch:
        return arch
    torch = sys.modules.get("torch")  # kernels that use PyTorch have imported it
    if torch is not None and torch.cuda.is_available():
        name = getattr(torch.cuda.get_device_properties(0), "gcnArchName", "").split(":")[0]
        if "gfx" in name:
            return name
    return machine_of(WaveCompileOptions()).target or "cpu"


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
