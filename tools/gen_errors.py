#!/usr/bin/env python3
"""Writes docs/errors.md from src/base/diag.def.

tools/gen_errors.py > docs/errors.md     (make bless)
tools/gen_errors.py --check              fails if docs/errors.md is out of date
"""

import ast
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TEXT = r'((?:\s*"(?:\\.|[^"\\])*")+)'
ROW = re.compile(r"^DIAG\((\w+),\s*(\w+)," + TEXT + "," + TEXT + r"\)", re.M)
AREA = re.compile(r"^/\* ---- (?:\d+ )?(.*?) ---- \*/", re.M)
HEAD = """# Diagnostics

Every message has a code, and `wavec --explain CODE` prints the text below. The first letter of a code
gives its kind: **E** is an error in your kernel, **W** a warning about it, **R** a remark on what the
compiler did, which needs no action, and **I** an internal error: a bug in the compiler.

<!-- Generated from src/base/diag.def by tools/gen_errors.py; `make bless` rewrites it. -->
"""


def literal(text):
    """The value of adjacent C string literals."""
    return "".join(ast.literal_eval(s) for s in re.findall(r'"(?:\\.|[^"\\])*"', text))


def rows(source):
    """(area, code, severity, title, explanation) in the order of the table."""
    areas = [(m.start(), m.group(1)) for m in AREA.finditer(source)]
    for match in ROW.finditer(source):
        code, severity, title, explanation = match.groups()
        area = [name for at, name in areas if at < match.start()]
        yield area[-1] if area else "", code, severity, literal(title), literal(explanation)


def document():
    source = open(os.path.join(ROOT, "src/base/diag.def"), encoding="utf-8").read()
    out, area_now = HEAD, None
    for area, code, severity, title, explanation in rows(source):
        if area != area_now:
            area_now = area
            out += f"\n## {area.capitalize()}\n"
        out += f"\n### {code}: {title}\n\n{explanation}\n"
    assert source.count("\nDIAG(") == out.count("\n### "), "a row of diag.def was not parsed"
    return out


def main():
    if "--check" not in sys.argv:
        sys.stdout.write(document())
        return 0
    path = os.path.join(ROOT, "docs/errors.md")
    if os.path.exists(path) and open(path, encoding="utf-8").read() == document():
        print("docs/errors.md is up to date")
        return 0
    print("docs/errors.md is out of date: run `make bless` (or tools/gen_errors.py > docs/errors.md)")
    return 1


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(print(__doc__))
    sys.exit(main())
