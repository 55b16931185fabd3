"""The diagnostic for a name that a module of ours does not have."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from ... import _wave
from .tracing import current_logs as _current_logs


class UnknownNameError(_wave.CompileError, AttributeError):
    """An AttributeError too: `hasattr`, and `getattr` with a default, ask for names in a kernel."""

    __module__ = "wave_lang"


_modules: dict[str, Mapping[str, Any]] = {}  # tkl, tkw


def _guess(alias: str, name: str) -> str | None:
    """The same name in the other module, or the nearest one in this."""
    if name.startswith("_"):
        return None
    for other, names in _modules.items():
        if name in names:
            return f"{other}.{name}"
    near = _wave.nearest(name, [n for n in _modules[alias] if not n.startswith("_")])
    return f"{alias}.{near}" if near else None


def _raise(message: str, hint: str | None) -> None:
    try:
        _wave.report("E0309", message, hint)
    except _wave.CompileError as error:
        found = UnknownNameError(*error.args)
        found.__dict__.update(error.__dict__)
        raise found from None


def unknown_name(module: str, alias: str, names: Mapping[str, Any]) -> Callable[[str], Any]:
    """A module's `__getattr__`: inside a kernel it reports a diagnostic at the line, elsewhere it
    raises AttributeError; both suggest the nearest name."""

    _modules[alias] = names

    def missing(name: str) -> Any:
        guess = _guess(alias, name)
        hint = f"did you mean `{guess}`?" if guess else None
        if _current_logs.get(None) is not None and not name.startswith("_"):
            _raise(f"`{alias}` has no `{name}`", hint)
        text = f"module {module!r} has no attribute {name!r}"
        raise AttributeError(f"{text}; {hint}" if hint else text, name=name)

    return missing
