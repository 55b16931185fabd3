#!/usr/bin/env python3
"""Checks every include and src/README.md against tools/layers.txt, and that C file names are unique.

tools/check_layers.py [ROOT]
"""

import os
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
README_ROW = re.compile(r"^\| `([\w/]+)/` \| ([^|]*) \|", re.M)
LEAF_DIRS = ("tools", "python/ext", "tests", "bench")  # layers outside src/


def read_rules(path):
    rules = {}
    for line in open(path, encoding="utf-8"):
        line = line.split("#")[0].strip()
        if line:
            layer, allowed = line.split(":")
            rules[layer.strip()] = set(allowed.split())
    return rules


def c_files(root):
    for top in ("src", "include") + LEAF_DIRS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".def")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def layer_in_src(path, rules):
    """The innermost folder of a path below src/ that is a layer: `backend/ptx`, else `backend`."""
    folder = os.path.dirname(path)
    while os.path.dirname(folder) and folder not in rules:
        folder = os.path.dirname(folder)
    return folder


def layer_of(path, rules):
    if path.startswith("src/"):
        return layer_in_src(path[len("src/") :], rules)
    return next((leaf for leaf in LEAF_DIRS if path.startswith(leaf + "/")), None)


def covers(allowed, layer):
    """A layer may be named by itself or by the folder around it."""
    return layer in allowed or os.path.dirname(layer) in allowed


def check_include(root, path, layer, name, rules):
    """What is wrong with this include, or None."""
    if name == "wave.h":
        used = "wave.h"
    elif os.path.exists(os.path.join(root, "src", name)):
        used = layer_in_src(name, rules)
    elif layer in LEAF_DIRS:  # its own headers: tests/unit/harness.h, python/ext/ext.h
        bases = {layer, os.path.dirname(path), os.path.dirname(layer) or layer}
        if any(os.path.exists(os.path.join(root, base, name)) for base in bases):
            return None
        return f'"{name}" is not a header of {layer}; write system headers as <{name}>'
    else:
        return f'"{name}" is not a path from src/ (write "layer/file.h")'
    if used == layer or covers(rules[layer], used):
        return None
    return f"{layer} must not include {used} (tools/layers.txt)"


def check_readme(root, rules):
    """Rows of src/README.md that differ from the rules, and layers that have no row."""
    path = os.path.join(root, "src/README.md")
    if not os.path.exists(path):
        return
    text = open(path, encoding="utf-8").read()
    shown = {layer: set(allowed.split()) for layer, allowed in README_ROW.findall(text)}
    layers = [layer for layer in rules if layer not in LEAF_DIRS]
    words = {"nothing": set(), "all": {*(layer.split("/")[0] for layer in layers), "wave.h"}}
    for layer in sorted({*shown, *layers}):
        allowed = shown.get(layer, {"?"})
        for word, meaning in words.items():
            allowed = meaning if allowed == {word} else allowed
        if allowed - {layer} != rules.get(layer):
            yield f"src/README.md: the row of `{layer}/` differs from tools/layers.txt"


def main():
    root = (
        sys.argv[1]
        if len(sys.argv) > 1
        else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    )
    rules = read_rules(os.path.join(root, "tools/layers.txt"))
    problems, seen, includes = [*check_readme(root, rules)], {}, 0
    for path in c_files(root):
        other = seen.setdefault(os.path.basename(path), path)
        if other != path:
            problems.append(f"{path}: has the same name as {other}")
        layer = layer_of(path, rules)
        if layer is None:
            continue
        if layer not in rules:
            problems.append(f"{path}: layer `{layer}` is not in tools/layers.txt")
            continue
        for number, line in enumerate(open(os.path.join(root, path), encoding="utf-8"), 1):
            match = INCLUDE.match(line)
            if match:
                includes += 1
                problem = check_include(root, path, layer, match.group(1), rules)
                if problem:
                    problems.append(f"{path}:{number}: {problem}")
    print(
        "\n".join(problems) or f"{includes} includes in {len(seen)} files follow tools/layers.txt"
    )
    return bool(problems)


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(print(__doc__))
    sys.exit(main())
