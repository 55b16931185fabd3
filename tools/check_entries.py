#!/usr/bin/env python3
"""Checks that every function of include/wave.h is a landing: its body begins with an API_ macro of
src/driver/api/api.h, so that no internal error below it ends the user's process.

tools/check_entries.py [ROOT]
"""

import glob
import os
import re
import sys

DECLARED = re.compile(r"^WV_API[^;(]*?\b(wv_\w+)\(", re.M)
DEFINED = re.compile(r"^[a-z][\w \*]*?\b(wv_\w+)\([^;{]*\)\s*\{\n(.*\n)(.*\n)(.*\n)?", re.M)


def main():
    root = (
        sys.argv[1]
        if len(sys.argv) > 1
        else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    )
    header = open(os.path.join(root, "include/wave.h"), encoding="utf-8").read()
    bodies = {}
    for path in sorted(glob.glob(os.path.join(root, "src/driver/**/*.c"), recursive=True)):
        for match in DEFINED.finditer(open(path, encoding="utf-8").read()):
            bodies[match.group(1)] = "".join(line or "" for line in match.groups()[1:])
    names = DECLARED.findall(header)
    wrong = [name for name in names if not re.search(r"^  API_[A-Z_]+\b", bodies.get(name, ""), re.M)]
    for name in wrong:
        print(f"{name} does not begin with an API_ macro of src/driver/api/api.h")
    print(f"{len(names) - len(wrong)} of {len(names)} functions of wave.h are landings")
    return bool(wrong) or not names


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(print(__doc__))
    sys.exit(main())
