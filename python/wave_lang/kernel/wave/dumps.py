"""Prints, or writes to a folder, the IR between passes, the times of passes, and the final code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from ... import _wave
from .compile_options import WaveCompileOptions


def _names(*wanted: str | Sequence[str]) -> list[str]:
    """Names of passes: lists of them, or texts with commas."""
    names: list[str] = []
    for entry in wanted:
        listed = entry.split(",") if isinstance(entry, str) else list(entry)
        if not all(isinstance(name, str) for name in listed):
            raise TypeError(f"expected names of passes, got {entry!r}")
        names += listed
    return [name.strip() for name in names if name and name.strip()]


def wants_trace(options: WaveCompileOptions) -> bool:
    """Whether print_ir_after or print_ir_before requests the kernel as traced."""
    return "trace" in _names(options.print_ir_after) or "first" in _names(options.print_ir_before)


def _passes(names: list[str]) -> str | None:
    """As the compiler takes them: "all", names with commas, or None. `trace`, `first` and `last`
    are not passes."""
    passes = [name for name in names if name not in ("trace", "first", "last")]
    return "all" if "all" in passes else ",".join(passes) or None


class Dumps:
    """The dumps that options and WAVE_DUMP request. Within a `with` block, `asked` is passed to the
    compiler, which calls `write`."""

    def __init__(self, options: WaveCompileOptions):
        everything = "all" if options.mlir_print_ir_after_all else ""
        self._after = _names(options.print_ir_after, everything, _wave.variable_text("WAVE_DUMP") or "")
        self._times = ["all"] if options.print_pass_times else _names(options.profile_pass)
        self._options = options
        self._folder = options.dump_intermediates and Path(options.dump_intermediates)
        self._count = 0
        self._last = ""
        every = self._folder or "last" in self._after
        self.asked: dict[str, Any] = {
            "dump": "all" if every else _passes(self._after),
            "dump_before": _passes(_names(options.print_ir_before)),
            "time": bool(self._times),
            "write": self.write,
        }

    @property
    def wanted(self) -> bool:
        """Whether any dump is requested: the kernel is then compiled even if it is cached."""
        asked = any(value for name, value in self.asked.items() if name != "write")
        return asked or self._options.dump_binaries is not None

    def save(self, program: _wave.Program) -> None:
        """Writes what the device loads to the folder `dump_binaries`."""
        if self._options.dump_binaries is None:
            return
        folder = Path(self._options.dump_binaries)
        folder.mkdir(parents=True, exist_ok=True)
        ending = {"cuda": "ptx", "hip": "hsaco"}.get(program.kind, "o")
        for i, variant in enumerate(program.variants):
            if variant.compiled:
                name = f"{program.name}_{program.target}_{i}.{ending}"
                (folder / name).write_bytes(program.code(i))

    def __enter__(self) -> "Dumps":
        if self._folder:
            self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, kind: Any, *exc: Any) -> None:
        if kind is None and "last" in self._after and "all" not in self._after:
            print(f"# ---- after the last pass\n{self._last}")

    def write(self, name: str, text: str) -> None:
        """A dump of a pass; with "" as name, how long each took."""
        if not name:
            self._print_times(text)
        elif text.startswith("# before"):
            print(f"# ---- before {name}\n{text}")
        else:
            self._write_after(name, text)

    def _write_after(self, name: str, text: str) -> None:
        self._last = text
        if "all" in self._after or name in self._after:
            print(f"# ---- after {name}\n{text}")
        if self._folder:
            self._count += 1
            (self._folder / f"{self._count:02}_{name}.wave").write_text(text)

    def _print_times(self, text: str) -> None:
        lines = {line.split()[0]: line for line in text.splitlines()}
        for name in self._times:
            if name != "all" and name not in lines:
                near = _wave.nearest(name, list(lines))
                hint = f"did you mean `{near}`?" if near else None
                _wave.report("E0604", f"unknown pass `{name}`", hint, self._options._place)
        shown = text.splitlines() if "all" in self._times else map(lines.get, self._times)
        print("# ---- times of passes", *shown, sep="\n")


__all__ = ["Dumps", "wants_trace"]
