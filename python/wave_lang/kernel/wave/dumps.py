"""IR on the way through the compiler: printed, or written to a folder, pass by pass."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .compile_options import WaveCompileOptions


def _names(*wanted: Any) -> str | None:
    """Comma-separated names of passes, "all", or None."""
    names: list[str] = []
    for entry in wanted:
        names += entry.split(",") if isinstance(entry, str) else list(entry)
    names = [n.strip() for n in names if n and n.strip()]
    return None if not names else "all" if "all" in names else ",".join(names)


class Dumps:
    """What options and WAVE_DUMP ask to see. `passes` is None when it is nothing."""

    def __init__(self, options: WaveCompileOptions):
        everything = ["all"] if options.mlir_print_ir_after_all else []
        self._printed = _names(options.print_ir_after, everything, os.environ.get("WAVE_DUMP", ""))
        self._folder = options.dump_intermediates and Path(options.dump_intermediates)
        self.passes = "all" if self._folder else self._printed
        self._count = 0

    def __enter__(self) -> "Dumps":
        if self._folder:
            self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *exc: Any) -> None:
        pass

    def write(self, name: str, text: str) -> None:
        if self._printed and (self._printed == "all" or name in self._printed.split(",")):
            print(f"# ---- after {name}\n{text}")
        if self._folder:
            self._count += 1
            (self._folder / f"{self._count:02}_{name}.wave").write_text(text)


__all__ = ["Dumps"]
