"""A ready `handler=` for debug_log: writes the logs to `debug-view.html`."""

from __future__ import annotations

import html
from itertools import product
from pathlib import Path
from typing import Any, Mapping

_STYLE = "body{font:14px sans-serif} td{padding:2px 8px;text-align:right;font:12px monospace}"


def _rows(value: Any) -> list[str]:
    """One table per 2-D slice."""
    shape = tuple(value.shape)
    if len(shape) < 2:
        value, shape = value.reshape(1, -1), (1, -1)
    parts = []
    for outer in product(*(range(n) for n in shape[:-2])):
        title = f"<h3>{list(outer)}</h3>" if outer else ""
        cells = (
            "".join(f"<td>{html.escape(f'{float(x):.6g}')}</td>" for x in row)
            for row in value[outer]
        )
        parts.append(title + "<table>" + "".join(f"<tr>{c}</tr>" for c in cells) + "</table>")
    return parts


def html_viewer(logs: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes all logs as tables to debug-view.html in the working directory."""
    body = []
    for label, log in logs.items():
        dims = html.escape(", ".join(map(str, log["symbolic_shape"])))
        body.append(f"<h2>{html.escape(label)} [{dims}]</h2>")
        body += _rows(log["value"])
    page = f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style>{''.join(body)}"
    Path("debug-view.html").write_text(page)
