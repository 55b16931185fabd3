"""Compiled kernels of this process, so that compiling the same kernel again is a lookup."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from pathlib import Path
from typing import Any

from ..._wave import Kernel
from .compile_options import WaveCompileOptions

WAVE_CACHE_ON = int(os.environ.get("WAVE_CACHE_ON", "1"))
WAVE_ALWAYS_COMPILE = int(os.environ.get("WAVE_ALWAYS_COMPILE", "0"))
WAVE_CACHE_LIMIT = int(os.environ.get("WAVE_CACHE_LIMIT", "16"))
CACHE_BASE_DIR = Path(os.environ.get("WAVE_CACHE_DIR", str(Path.home() / ".wave")))

# What an artefact depends on beside the kernel's text.
_KEY_FIELDS = (
    "func_name",
    "schedule",
    "backend",
    "device",
    "target",
    "num_devices",
    "multi_buffer_count",
    "optimization_level",
    "use_fast_math",
    "use_bound_check",
    "use_scheduling_barriers",
    "use_global_to_shared",
    "minimize_shared_allocs",
    "override_mlir",
    "override_schedule",
    "postprocess",
    "wave_runtime",
)


class WaveCacheManager:
    """The kernels compiled last, by a hash of their text and options."""

    def __init__(self, base_dir: Any = None):
        self.base_dir = Path(base_dir or CACHE_BASE_DIR)
        self.session_cache: OrderedDict[str, Kernel] = OrderedDict()
        self.file_cache: set[str] = set()
        self.cache_hits = 0
        self.cache_misses = 0

    @staticmethod
    def key(kernel: Kernel, options: WaveCompileOptions) -> str:
        parts = [str(kernel)] + [f"{name}={getattr(options, name)}" for name in _KEY_FIELDS]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def load(self, kernel: Kernel, options: WaveCompileOptions) -> Kernel | None:
        options.kernel_hash = self.key(kernel, options)
        found = None if WAVE_ALWAYS_COMPILE else self.session_cache.get(options.kernel_hash)
        if found is None:
            self.cache_misses += 1
        else:
            self.cache_hits += 1
            self.session_cache.move_to_end(options.kernel_hash)
        return found

    def store(self, kernel: Kernel, options: WaveCompileOptions) -> None:
        self.session_cache[self.key(kernel, options)] = kernel
        while len(self.session_cache) > WAVE_CACHE_LIMIT:
            self.session_cache.popitem(last=False)


_manager: WaveCacheManager | None = None


def is_cache_enabled() -> bool:
    """Whether kernels are kept."""
    return bool(WAVE_CACHE_ON)


def get_cache_manager() -> WaveCacheManager:
    """The cache of this process."""
    global _manager
    if _manager is None:
        _manager = WaveCacheManager()
    return _manager


def reset_cache_manager(cache_dir: Any = None) -> None:
    """Forgets all kernels."""
    global _manager
    _manager = WaveCacheManager(cache_dir)
