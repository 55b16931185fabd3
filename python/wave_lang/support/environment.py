"""The environment variables Wave reads. An unknown WAVE_ name is probably misspelled: it gives one
warning."""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path

from .. import _wave

KNOWN = {
    "WAVE_CACHE_ON": "0 switches the cache of compiled kernels off",
    "WAVE_CACHE_DIR": "where compiled kernels are kept",
    "WAVE_CACHE_LIMIT": "how many kernels are kept in memory",
    "WAVE_CACHE_SIZE": "how many bytes of compiled kernels are kept in files (K, M, G)",
    "WAVE_ALWAYS_COMPILE": "1 ignores the cache",
    "WAVE_MAX_LRU_CACHE_SIZE": "accepted for compatibility",
    "WAVE_DEFAULT_ARCH": "the target of set_default_run_config",
    "WAVE_DUMP_MLIR": "1 prints the IR of each kernel",
    "WAVE_DUMP_MLIR_FILE": "writes the IR of each kernel to this file",
    "WAVE_USE_SCHED_BARRIERS": "1 uses scheduling barriers",
    "WAVE_CHECK_INDIV_KERNS": "tests check each phase of a kernel",
    "WAVE_CHECK_LEAKS": "1 makes check_leaks look for leaks",
    "WAVE_DEBUG": "a comma list: log_level=, asserts, runtime_trace_dir=, location_level=",
    "WAVE_LOG_LEVEL": "the level of Wave's logger",
    "WAVE_LOCATION_LEVEL": "accepted for compatibility",
    "WAVE_EMULATE_CEILDIV": "accepted for compatibility",
    "WAVE_USE_AFFINE_EXPR": "accepted for compatibility",
    "WAVE_WATER_DUMP_MLIR_BEFORE": "accepted for compatibility",
    "WAVE_WATER_DUMP_MLIR_AFTER": "accepted for compatibility",
    "WAVE_JIT_OPT_LEVEL": "accepted for compatibility",
    "WAVE_ENABLE_OBJECT_CACHE": "accepted for compatibility",
    "WAVE_ENABLE_GDB_LISTENER": "accepted for compatibility",
    "WAVE_ENABLE_PERF_LISTENER": "accepted for compatibility",
    "WAVE_DUMP": "prints the IR after these passes",
    "WAVE_LLVM": "a libLLVM to use instead of the one that is found",
    "WAVE_NUM_THREADS": "how many threads run kernels on the CPU",
    "WAVE_PERF": "1 tells `perf` the names of kernels on the CPU",
    "WAVE_CUDA_LIB": "a libcuda to use instead of the system's",
    "WAVE_PTXAS": "an assembler for ahead-of-time NVIDIA binaries",
}


_SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "": 1}
_SWITCHES = {"0": 0, "off": 0, "no": 0, "false": 0, "1": 1, "on": 1, "yes": 1, "true": 1}


def _number(text: str) -> int:
    return _SWITCHES[text.lower()] if text.lower() in _SWITCHES else int(text)


def _threads(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def _size(text: str) -> int:
    unit = text[-1:].upper() if text[-1:].isalpha() else ""
    return int(text[: len(text) - len(unit)]) * _SIZES[unit]


# How to parse the values of variables that are not plain text; a ValueError or KeyError means that
# the value is invalid.
_READ = {
    "WAVE_CACHE_ON": _number,
    "WAVE_ALWAYS_COMPILE": _number,
    "WAVE_CACHE_LIMIT": _number,
    "WAVE_DUMP_MLIR": _number,
    "WAVE_PERF": _number,
    "WAVE_CACHE_SIZE": _size,
    "WAVE_NUM_THREADS": _threads,
}


def number(name: str, otherwise: int) -> int:
    """The value of a variable; `otherwise` if it is not set or invalid (`check` warns)."""
    try:
        return _READ[name](os.environ[name])
    except (KeyError, ValueError):
        return otherwise


def home() -> Path:
    """The user's folder; one for temporary files if there is none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir())


def check() -> None:
    """Warns about unknown WAVE_ variables and invalid values."""
    for name, read in _READ.items():
        try:
            read(os.environ.get(name, "1"))
        except (KeyError, ValueError):
            found = f"{name}={os.environ[name]} is ignored ({KNOWN[name]})"
            warnings.warn(f"environment variable {found}", stacklevel=3)
    for name in sorted(os.environ):
        if name.startswith("WAVE_") and name not in KNOWN:
            near = _wave.nearest(name, list(KNOWN))
            hint = f"; did you mean {near}?" if near else ""
            warnings.warn(f"environment variable {name} is unknown to Wave{hint}", stacklevel=3)
