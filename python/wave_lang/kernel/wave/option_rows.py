"""The options of `wave_compile` as the compiler's table describes them (options.def), and values that
were set as the compiler takes them."""

from __future__ import annotations

import os
from dataclasses import MISSING, Field, fields
from enum import Enum
from functools import cache
from numbers import Integral
from typing import Any, NamedTuple

from ... import _wave

GivenOption = tuple[str, str | None, str]  # name, value, the value as it is written
Asked = tuple[list[GivenOption], "_wave.Place | None"]  # as functions of the extension take options


class Row(NamedTuple):
    """One option.

    kind    "works", "holds" (what it requests is always true), "idle" (it has no effect), or
            "result" (a compile fills it in)
    text    what it does; for an idle one, why it has no effect
    on      kinds of machines (machine.py) where it works; (): all
    file    "read" or "written" if it names a file
    is_key  kernels compiled with different values differ, even if their IR does not
    """

    name: str
    kind: str
    text: str
    on: tuple[str, ...]
    file: str
    is_key: bool


ROWS = {
    name: Row(name, kind, text, tuple(filter(None, on.split(","))), file, is_key)
    for name, kind, text, on, file, is_key in _wave.option_table
}


def row_of(option: Field) -> Row:
    return ROWS[option.name]


def default_of(option: Field) -> Any:
    factory: Any = option.default_factory
    return option.default if factory is MISSING else factory()


def _plain(value: Any) -> str | None:
    """A value as text; None for one that the compiler does not read."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)  # type: ignore[return-value]
    if value is None or isinstance(value, (bool, Integral)):
        return str(value)
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    return None


@cache
def _defaults(options: type) -> list[tuple[str, Any]]:
    return [(f.name, default_of(f)) for f in fields(options) if row_of(f).kind != "result"]


def _is_default(value: Any, default: Any) -> bool:
    try:
        return value is default or bool(value == default)
    except Exception:  # an array, for instance, compares element by element
        return False


def given(options: Any) -> list[GivenOption]:
    """Name, value and text of the options that differ from their defaults."""
    found = []
    for name, default in _defaults(type(options)):
        value = getattr(options, name)
        if not _is_default(value, default):
            shown = str(value) if isinstance(value, Enum) else repr(value)
            found.append((name, _plain(value), shown))
    return found


def others(options: Any) -> list[GivenOption]:
    """Attributes that were assigned but are not options."""
    names = [name for name in vars(options) if name not in ROWS and not name.startswith("_")]
    return [(name, None, "") for name in names]


def asked(options: Any) -> Asked:
    """The options that differ from their defaults, and where they were written."""
    return given(options), options._place


__all__ = ["ROWS", "Asked", "Row", "asked", "default_of", "given", "others", "row_of"]
