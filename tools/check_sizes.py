#!/usr/bin/env python3
"""Line counts: fails on C and Python files above 800 lines, reports the advisory limits.

    tools/check_sizes.py           only what fails
    tools/check_sizes.py --advise  also long functions, wide lines and full folders
    tools/check_sizes.py --table   lines per folder (make wc)

A longer file says why in its head comment, with the words "long because".
"""

import collections
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT, FUNCTION, COLUMNS, FOLDER = 800, 60, 100, 20
TOPS = ("src", "include", "python", "tools", "tests", "bench", "kernels")


def sources():
    for top in TOPS:
        for folder, dirs, names in os.walk(os.path.join(ROOT, top)):
            dirs[:] = sorted(d for d in dirs if not d.startswith((".", "__pycache__")))
            for name in sorted(names):
                if name.endswith((".c", ".h", ".def", ".py", ".sh")):
                    path = os.path.join(folder, name)
                    yield os.path.relpath(path, ROOT), open(
                        path, encoding="utf-8"
                    ).read().splitlines()


def long_functions(lines):
    """C functions begin at column 0 and end with a brace at column 0."""
    start = None
    for number, line in enumerate(lines, 1):
        if re.match(r"[a-zA-Z].*\)\s*\{$", line) and not line.startswith("typedef"):
            start = number
        elif line.startswith("}") and start:
            if number - start > FUNCTION:
                yield start, number - start + 1
            start = None


def advice(path, lines):
    if path.endswith((".c", ".h")):
        for start, length in long_functions(lines):
            yield f"{path}:{start}: a function of {length} lines"
    if not path.endswith((".def", ".py")):
        wide = [n for n, line in enumerate(lines, 1) if len(line) > COLUMNS]
        if wide:
            yield f"{path}:{wide[0]}: {len(wide)} lines above {COLUMNS} columns"


def main():
    too_long, totals, folders = [], collections.Counter(), collections.Counter()
    for path, lines in sources():
        head = "\n".join(lines[:40])
        if len(lines) > LIMIT and "long because" not in head:
            too_long.append(
                f'{path}: {len(lines)} lines; above {LIMIT} say why in the head ("long because")'
            )
        parts = path.split("/")
        totals["/".join(parts[:2]) if parts[0] in ("src", "tests", "python") else parts[0]] += len(
            lines
        )
        folders[os.path.dirname(path)] += path.startswith("src/")
        if "--advise" in sys.argv:
            print("".join(f"{line}\n" for line in advice(path, lines)), end="")
    if "--advise" in sys.argv:
        print("".join(f"{f}: {n} files\n" for f, n in folders.items() if n > 2 * FOLDER), end="")
    if "--table" in sys.argv:
        for name, count in totals.items():
            print(f"{count:7d}  {name}")
        print(f"{sum(totals.values()):7d}  in all")
    print(
        "\n".join(too_long)
        or f"{sum(totals.values())} lines; no file above {LIMIT} without a reason"
    )
    return bool(too_long)


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(print(__doc__))
    sys.exit(main())
