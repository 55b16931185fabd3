"""Compiled kernels of this process, so that compiling the same kernel again is a lookup."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ... import _wave
from ..._wave import Kernel, Program
from .compile_options import WaveCompileOptions
from .option_rows import asked

WAVE_CACHE_ON = _wave.variable_number("WAVE_CACHE_ON", 1)
WAVE_ALWAYS_COMPILE = _wave.variable_number("WAVE_ALWAYS_COMPILE", 0)
WAVE_CACHE_LIMIT = _wave.variable_number("WAVE_CACHE_LIMIT", 256)
CACHE_BASE_DIR = Path(_wave.cache_dir())


@dataclass
class Entry:
    """A kernel and what it was compiled to, by kind of device."""

    kernel: Kernel
    programs: dict[str, Program] = field(default_factory=dict)


class WaveCacheManager:
    """The kernels compiled last, by a hash of their text and options. The compiler manages the
    files on disk, in `directory`, or in WAVE_CACHE_DIR if that is None."""

    def __init__(self, base_dir: Any = None):
        self.base_dir = Path(base_dir or CACHE_BASE_DIR)
        self.directory: str | None = None if base_dir is None else str(base_dir)
        self.session_cache: OrderedDict[str, Entry] = OrderedDict()
        self.file_cache: set[str] = set()
        self.cache_hits = 0
        self.cache_misses = 0

    @staticmethod
    def key(kernel: Kernel, options: WaveCompileOptions) -> str:
        return hashlib.sha256(kernel.key(*asked(options)).encode()).hexdigest()

    def load_or_store(self, kernel: Kernel, options: WaveCompileOptions) -> Entry:
        """The entry of an equal kernel, or a new one."""
        key = options.kernel_hash = self.key(kernel, options)
        found = None if WAVE_ALWAYS_COMPILE else self.session_cache.get(key)
        if found is not None:
            self.cache_hits += 1
            self.session_cache.move_to_end(key)
            return found
        self.cache_misses += 1
        self.session_cache[key] = Entry(kernel)
        while len(self.session_cache) > WAVE_CACHE_LIMIT:
            self.session_cache.popitem(last=False)
        return self.session_cache.get(key) or Entry(kernel)


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
