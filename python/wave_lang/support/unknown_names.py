"""What is said to a name that a module of ours does not have."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from .. import _wave
from ..kernel._support.tracing import current_logs as _current_logs


def unknown_name(module: str, alias: str, names: Mapping[str, Any]) -> Callable[[str], Any]:
    """A module's `__getattr__`: inside a kernel a diagnostic at the line, elsewhere AttributeError;
    both name the nearest thing there is."""

    def missing(name: str) -> Any:
        known = [n for n in names if not n.startswith("_")]
        near = None if name.startswith("_") else _wave.nearest(name, known)
        hint = f"did you mean `{alias}.{near}`?" if near else None
        if _current_logs.get(None) is not None and not name.startswith("_"):
            _wave.report("E0309", f"`{alias}` has no `{name}`", hint)
        text = f"module {module!r} has no attribute {name!r}"
        raise AttributeError(f"{text}; {hint}" if hint else text, name=name)

    return missing
