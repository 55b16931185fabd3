#!/usr/bin/env python3
"""Writes the tables of docs/compatibility.md: the compile options, from WaveCompileOptions itself, and
the modules for public code, from the first lines of their files; and that of docs/environment.md,
from src/base/environment/environment.def.

tools/gen_options.py            rewrites the text between <!-- table NAME --> and <!-- end -->
tools/gen_options.py --check    fails when a document is not current
"""

import ast
import os
import re
import sys
from dataclasses import fields
from pathlib import Path

from gen_ir import head, main, rewrite, row

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENTS = [os.path.join(ROOT, "docs", name) for name in ("compatibility.md", "environment.md")]
TABLE = re.compile(r"(<!-- table (options|modules|variables) -->\n).*?(<!-- end -->)", re.S)
MACHINES = {"cpu": "CPUs", "cuda": "NVIDIA GPUs", "hip": "AMD GPUs", "sim": "simulated machines"}
READERS = {"any": "all", "Python": "Python", "tools": "tests", "none": ""}
VALUES = {"text": "", "switch": "a switch", "count": "0, 1, ...", "some": "1, 2, ...", "size": "bytes, K, M, G"}
LEADS = {"idle": "no effect: ", "holds": "always so: ", "result": "filled in: "}

sys.path.insert(0, os.path.join(ROOT, "python"))


def places(kinds):
    """The kinds of machines in words."""
    if {"cuda", "hip"} <= set(kinds):
        kinds = ["gpu" if kind == "cuda" else kind for kind in kinds if kind != "hip"]
    return [{**MACHINES, "gpu": "GPUs"}[kind] for kind in kinds]


def cells(option):
    """Name, default and meaning of one option."""
    from wave_lang.kernel.wave.option_rows import default_of, row_of

    said = row_of(option)
    text = LEADS.get(said.kind, "") + said.text
    if said.kind == "result":
        return f"`{option.name}`", "", text
    where = " and ".join(", ".join(places(said.on)).rsplit(", ", 1))
    value = default_of(option)
    shown = f"{type(value).__name__}()" if hasattr(value, "__dataclass_fields__") else str(value)
    shown = repr(value) if isinstance(value, str) else shown
    return f"`{option.name}`", f"`{shown}`", text + (f" (on {where})" if where else "")


def option_table():
    from wave_lang import WaveCompileOptions

    rows = (row(*cells(option)) for option in fields(WaveCompileOptions))
    return head("option", "default", "what it does") + "".join(rows)


def module_table():
    text = head("module", "what it is for")
    for path in sorted((Path(ROOT) / "python/wave_lang/public").rglob("*.py")):
        inner = path.relative_to(Path(ROOT) / "python/wave_lang/public").with_suffix("")
        name = ".".join(("wave_lang", *inner.parts)).removesuffix(".__init__")
        purpose = ast.get_docstring(ast.parse(path.read_text())).splitlines()[0]
        if not purpose.startswith("The folder of"):
            text += row(f"`{name}`", purpose)
    return text


def variable_table():
    from wave_lang import _wave

    text = head("variable", "value", "read by", "what it does")
    for name, reader, kind, purpose in _wave.variable_table:
        text += row(f"`{name}`", VALUES[kind], READERS[reader], purpose)
    return text


def table(name):
    return {"options": option_table, "modules": module_table, "variables": variable_table}[name]()


if __name__ == "__main__":
    main(lambda: max([rewrite(document, TABLE, table) for document in DOCUMENTS]))
