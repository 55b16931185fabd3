#!/usr/bin/env python3
"""Enforces the limits of CONTRIBUTING.md: it fails on files above 800 lines, C functions above 60
lines, and folders of src/ with more than 22 files.

    tools/check_sizes.py [ROOT]           what fails
    tools/check_sizes.py --advise [ROOT]  also wide lines
    tools/check_sizes.py --table [ROOT]   lines per folder (make wc)

A longer file says why in its top comment, with the words "long because".
"""

import collections
import os
import re
import sys

LINES, FUNCTION, COLUMNS, FOLDER = 800, 60, 100, 22
TOPS = ("src", "include", "python", "tools", "tests", "bench", "kernels")


def sources(root):
    for top in TOPS:
        for folder, dirs, names in os.walk(os.path.join(root, top)):
            dirs[:] = sorted(d for d in dirs if not d.startswith((".", "__pycache__")))
            for name in sorted(names):
                if name.endswith((".c", ".h", ".def", ".py", ".sh")):
                    path = os.path.join(folder, name)
                    lines = open(path, encoding="utf-8").read().splitlines()
                    yield os.path.relpath(path, root), lines


def long_functions(lines):
    """C functions begin at column 0 and end with a brace at column 0."""
    start = None
    for number, line in enumerate(lines, 1):
        if re.match(r"[a-zA-Z].*\)\s*\{$", line) and not line.startswith("typedef"):
            start = number
        elif line.startswith("}") and start:
            if number - start >= FUNCTION:
                yield start, number - start + 1
            start = None


def faults_of_file(path, lines):
    if len(lines) > LINES and "long because" not in "\n".join(lines[:40]):
        yield f'{path}: {len(lines)} lines; above {LINES} say why at the top ("long because")'
    if path.endswith((".c", ".h")):
        for start, length in long_functions(lines):
            yield f"{path}:{start}: a function of {length} lines; at most {FUNCTION}"


def faults_of_folders(files):
    count = collections.Counter(os.path.dirname(path) for path in files if path.startswith("src/"))
    for folder, n in count.items():
        if n > FOLDER:
            yield f"{folder}: {n} files; at most {FOLDER} (give a part of them a folder)"


def wide_lines(path, lines):
    wide = [n for n, line in enumerate(lines, 1) if len(line) > COLUMNS]
    if wide and not path.endswith((".def", ".py")):
        yield f"{path}:{wide[0]}: {len(wide)} lines above {COLUMNS} columns"


def print_table(files):
    totals = collections.Counter()
    for path, lines in files.items():
        parts = path.split("/")
        deep = parts[0] in ("src", "tests", "python")
        totals["/".join(parts[:2]) if deep else parts[0]] += len(lines)
    for name, count in totals.items():
        print(f"{count:7d}  {name}")


def main(root):
    files = dict(sources(root))
    faults = [fault for path, lines in files.items() for fault in faults_of_file(path, lines)]
    faults += faults_of_folders(files)
    if "--advise" in sys.argv:
        for path, lines in files.items():
            print("".join(f"{line}\n" for line in wide_lines(path, lines)), end="")
    if "--table" in sys.argv:
        print_table(files)
    total = sum(len(lines) for lines in files.values())
    print("\n".join(faults) or f"{total} lines; files, functions and folders within their limits")
    return bool(faults)


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(print(__doc__))
    given = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    sys.exit(main(given[0] if given else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
