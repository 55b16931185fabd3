"""What each option of `wave_compile` does, stated where the option is declared.

`works`, `holds`, `idle` and `result` make the fields of WaveCompileOptions. The sentence each takes
is the option's row in docs/compatibility.md (tools/gen_options.py) and, for an idle one, the reason
in the remark that a value other than the default gives.
"""

from __future__ import annotations

import os
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from typing import Any, Iterator

from ... import _wave


@dataclass(frozen=True)
class Row:
    """One option.

    kind   "works", "holds" (what it requests is always so), "idle" (it has no effect), or "result"
           (a compile fills it in)
    text   what it does; for an idle one, why it does nothing
    on     kinds of machines (machine.py) where it works; (): all
    same   values beside the default, or items of lists, that no target leaves out
    file   "read": the file must exist; "written": the folder it is put in must exist
    """

    kind: str
    text: str
    on: tuple[str, ...] = ()
    same: tuple[Any, ...] = ()
    file: str = ""


def _field(default: Any, row: Row) -> Any:
    if isinstance(default, type):
        return field(default_factory=default, metadata={"row": row})
    return field(default=default, metadata={"row": row})


def works(
    default: Any,
    text: str,
    *,
    on: tuple[str, ...] = (),
    same: tuple[Any, ...] = (),
    file: str = "",
) -> Any:
    """An option that does what `text` says. A class as default makes a new object each time."""
    return _field(default, Row("works", text, on, same, file))


def holds(default: Any, text: str) -> Any:
    """An option that requests what `text` says, which holds whatever its value."""
    return _field(default, Row("holds", text))


def idle(default: Any, why: str, *, same: tuple[Any, ...] = (), file: str = "") -> Any:
    """An option without effect, for the reason given."""
    return _field(default, Row("idle", why, same=same, file=file))


def result(text: str) -> Any:
    """What a compile leaves in the options."""
    return _field(None, Row("result", text))


def row_of(option: Field) -> Row:
    return option.metadata["row"]


def default_of(option: Field) -> Any:
    factory: Any = option.default_factory
    return option.default if factory is MISSING else factory()


def changed(options: Any) -> Iterator[tuple[str, Any, Row]]:
    """Name, value and row of the options that differ from their defaults."""
    for option in fields(options):
        value, row = getattr(options, option.name), row_of(option)
        if value != default_of(option) and not _is_same(value, row):
            yield option.name, value, row


def _is_same(value: Any, row: Row) -> bool:
    items = value if isinstance(value, (list, tuple)) else [value]
    return all(item in row.same for item in items)


def without_effect(options: Any, kind: str, target: str) -> list[str]:
    """A sentence for each option that was set and changes nothing for a target of this kind."""
    found = []
    for name, value, row in changed(options):
        if row.kind == "idle":
            found.append(f"`{name}={_shown(value)}` has no effect: {row.text}")
        elif row.on and kind not in row.on:
            found.append(f"`{name}={_shown(value)}` has no effect on target `{target}`")
    return found


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, Enum) else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def check_files(options: Any) -> None:
    """Files that options read must exist, and so must the folders of files that they write."""
    for name, value, row in changed(options):
        if row.file == "read":
            require_file(options, name, value)
        folder = os.path.dirname(os.path.abspath(value)) if row.file == "written" else ""
        if folder and not os.path.isdir(folder):
            _missing(options, f"`{name}` names a file in a folder that does not exist: `{folder}`")


def require_file(options: Any, name: str, path: str) -> None:
    if not os.path.isfile(path):
        _missing(options, f"`{name}` names a file that does not exist: `{path}`")


def _missing(options: Any, text: str) -> None:
    _wave.report("E0618", text, None, options._place)


__all__ = [
    "Row",
    "changed",
    "check_files",
    "default_of",
    "holds",
    "idle",
    "require_file",
    "result",
    "row_of",
    "without_effect",
    "works",
]
