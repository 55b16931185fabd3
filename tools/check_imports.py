#!/usr/bin/env python3
"""Checks the imports of the Python package against tools/imports.txt: none goes up a layer, and
there are no cycles.

tools/check_imports.py [ROOT]

Imports in functions and under TYPE_CHECKING count like those at the top of a file.
"""

import ast
import os
import sys

PACKAGE = "wave_lang"
EXTENSION = f"{PACKAGE}._wave"
PUBLIC = f"python/{PACKAGE}/public"  # its folders are parts of the packages of the same name
HIDDEN = ("import_module", "__import__")  # calls that hide what is imported


def read_layers(path):
    """{pattern: number of its layer, counted from the lowest}, {number: name}."""
    layers, names = {}, []
    for line in open(path, encoding="utf-8"):
        line = line.split("#")[0].strip()
        if line:
            name, patterns = line.split(":")
            layers.update(dict.fromkeys(patterns.split(), len(names)))
            names.append(name.strip())
    return layers, names


def layer_of(module, modules, layers):
    """The layer of `a.b`: by its own name, else by the innermost folder with a row `a.*`; for the
    modules of public/ that is the row `public.*`."""
    path, module = modules[module], module.removeprefix(PACKAGE + ".")
    if module in layers:
        return layers[module]
    if path.startswith(PUBLIC):
        module = "public"
    while module and f"{module}.*" not in layers:
        module = module.rpartition(".")[0]
    return layers.get(f"{module}.*")


def name_of(path):
    """The name under which a file is imported."""
    top = PUBLIC if path.startswith(PUBLIC) else f"python/{PACKAGE}"
    inner = os.path.relpath(path, top).removesuffix(".py").removesuffix("__init__").rstrip(os.sep)
    return ".".join(filter(None, [PACKAGE, *inner.split(os.sep)]))


def find_modules():
    """{dotted name: path} of the package's modules."""
    found = {EXTENSION: ""}
    for folder, _, names in os.walk(f"python/{PACKAGE}"):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(".py"):
                found[name_of(path)] = path
    return found


def imported(node, package, modules):
    """The modules of the package that an import statement names."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names} & modules.keys()
    parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    base = ".".join(parts + ([node.module] if node.module else []))
    inner = [f"{base}.{alias.name}" for alias in node.names]
    return {name if name in modules else base for name in inner} & modules.keys()


def read_imports(module, modules):
    """(line, imported module) of one file; None for a call that hides the name."""
    path = modules[module]
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(open(path, encoding="utf-8").read())):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for name in sorted(imported(node, package, modules)):
                yield node.lineno, name
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in HIDDEN:
                yield node.lineno, None


def find_circle(edges):
    """One cycle of imports, as a list of modules; [] if there is none."""
    done, way = set(), []

    def walk(module):
        if module in way:
            return way[way.index(module) :] + [module]
        if module in done:
            return []
        way.append(module)
        circle = next(filter(None, map(walk, edges[module])), [])
        way.pop()
        done.add(module)
        return circle

    return next(filter(None, map(walk, edges)), [])


def check_module(module, modules, layers, names, edges):
    """Yields what is wrong with a module's imports; adds them to `edges`."""
    own, path = layer_of(module, modules, layers), modules[module]
    if own is None:
        yield f"{path}: `{module}` is in no layer of tools/imports.txt"
    for line, name in read_imports(module, modules):
        if name is None:
            yield f"{path}:{line}: imports with a call; write an import statement"
            continue
        edges[module].append(name)
        used = layer_of(name, modules, layers)
        if own is not None and used is not None and used > own:
            yield f"{path}:{line}: layer `{names[own]}` must not import `{name}` of `{names[used]}`"


def main():
    own_root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    os.chdir(sys.argv[1] if len(sys.argv) > 1 else own_root)
    layers, names = read_layers("tools/imports.txt")
    modules = find_modules()
    edges = {module: [] for module in modules}
    problems = []
    for module in sorted(modules.keys() - {EXTENSION}):
        problems += check_module(module, modules, layers, names, edges)
    circle = find_circle(edges)
    if circle:
        problems.append(f"import cycle: {' -> '.join(circle)}")
    count = sum(map(len, edges.values()))
    good = f"{count} imports of {len(modules) - 1} Python modules follow tools/imports.txt"
    print("\n".join(problems) or good)
    return bool(problems)


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(print(__doc__))
    sys.exit(main())
