#!/usr/bin/env python3
"""Checks which symbols a shared library exports: libwave only wv_*, the extension only PyInit_*.

tools/check_exports.py build/libwave.so path/to/_wave.abi3.so
"""

import os
import re
import subprocess
import sys

# The linker's own symbols; a sanitizer build is not checked.
LINKER = {"_init", "_fini", "_edata", "_end", "__bss_start"}


def check(path):
    allowed = re.compile(
        r"wv_\w+" if os.path.basename(path).startswith("libwave") else r"PyInit_\w+"
    )
    out = subprocess.run(
        ["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True
    ).stdout
    names = [line.split()[-1].split("@")[0] for line in out.splitlines() if line.split()]
    names = [name for name in names if name not in LINKER]
    wrong = [name for name in names if not allowed.fullmatch(name)]
    for name in wrong:
        print(f"{path}: exports `{name}`; only {allowed.pattern} may be visible")
    if not names:
        print(f"{path}: exports nothing")
    else:
        print(f"{path}: {len(names) - len(wrong)} of {len(names)} exported names are allowed")
    return bool(wrong) or not names


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(print(__doc__))
    sys.exit(any([check(path) for path in sys.argv[1:]]))
