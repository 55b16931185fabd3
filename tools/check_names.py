#!/usr/bin/env python3
"""Checks that external functions of src/ begin with a word of their module: of the file, of a folder
around it, or one that tools/names.txt lists.

tools/check_names.py [ROOT]
"""

import glob
import os
import re
import sys

COMMENT = re.compile(r"/\*.*?\*/", re.S)
DEFINED = re.compile(
    r"^(?!static|typedef|extern|enum|union|return|else)(?:WV_\w+ )?[A-Za-z_][\w *]*?[ *](\w+)\([^;{}]*?\)\s*\{",
    re.M | re.S,
)


def read_words(path):
    """Folder -> words. A line that begins with spaces continues the row above it."""
    words, folder = {}, None
    for line in open(path, encoding="utf-8"):
        text = line.split("#")[0].rstrip()
        if ":" in text:
            folder, _, text = text.partition(":")
        words.setdefault(folder, set()).update(text.split())
    return words


def own_words(path):
    """`src/lower_tiles/tiles_nest.c`: lower, tiles, nest, each in the singular and the plural."""
    parts = re.split(r"[/_]", os.path.splitext(path)[0].partition("/")[2])
    return {w for part in parts for w in (part, part + "s", part.removesuffix("s"))}


def allowed(path, words):
    found, folder = own_words(path), os.path.dirname(path)
    while folder:
        found |= words.get(folder, set())
        folder = os.path.dirname(folder)
    return found


def main(root):
    words = read_words(os.path.join(root, "tools/names.txt"))
    wrong, count, used = [], 0, set()
    for full in sorted(glob.glob(os.path.join(root, "src/**/*.c"), recursive=True)):
        path = os.path.relpath(full, root)
        text = COMMENT.sub("", open(full, encoding="utf-8").read())
        for name in DEFINED.findall(text):
            word = name.split("_")[0]
            count += 1
            used.add(word)
            if word and word not in allowed(path, words):
                wrong.append(f"{path}: `{name}` begins with no word of its module (tools/names.txt)")
    unused = {w for listed in words.values() for w in listed} - used
    wrong += [f"tools/names.txt: no function begins with `{word}`" for word in sorted(unused)]
    print("\n".join(wrong) or f"{count} functions begin with a word of their module")
    return bool(wrong) or not count


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(print(__doc__))
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else here))
