#!/usr/bin/env python3
"""Writes the tables of docs/library.md that say what each function of `wave_lang.ops` can do, from
what tests show: tests/python/features.txt (feature_record.py beside it says how tests are held to
that), and the cases of test_ops_torch.py.

tools/gen_features.py            rewrites the text between <!-- features NAME --> and <!-- end -->
tools/gen_features.py --check    fails when the document is not current

Both fail if a line of features.txt names a function or a test that does not exist.
"""

import ast
import os
import re
import sys
from collections import defaultdict
from functools import cache

from gen_ir import head, main, rewrite, row

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENT = os.path.join(ROOT, "docs/library.md")
TESTS = os.path.join(ROOT, "tests/python")
BLOCK = re.compile(r"(<!-- features (attention|all) -->\n).*?(<!-- end -->)", re.S)
LINE = re.compile(r"^((\w+\.py)::(\w+)\S*) (\w+): (.+)$")
NO_FUNCTIONS = {"define_operators", "on_target", "extend_attention"}  # the last is another name

TARGETS = {"cpu": "CPU", "sim:sm_90a": "sm_90a", "sim:gfx942": "gfx942"}
TYPES = ("f16", "bf16", "f32")
ATTENTION = {
    "causal": "causal", "window": "window", "softcap": "soft cap", "sinks": "sinks",
    "gqa": "shared key heads", "alibi": "ALiBi", "bias": "bias", "mask": "mask",
    "keys of 8 bits": "keys of 8 bits", "lse": "log-sum-exp", "splits": "splits",
    "batch_invariant": "batch invariant",
}  # fmt: skip
SAME = {"custom_mask": "mask"}  # another name of a feature
HIDDEN = {"out", "refused", "mask_indptr", *TARGETS, *TYPES}  # in a column, or part of another


@cache
def parsed(path):
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read())


def assigned(path, name):
    """The value that a module gives to a name, as a tree."""
    for node in parsed(path).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return node.value
    raise SystemExit(f"{os.path.relpath(path, ROOT)} has no `{name}`")


def functions():
    names = assigned(os.path.join(ROOT, "python/wave_lang/ops/__init__.py"), "__all__")
    return [name for name in ast.literal_eval(names) if name not in NO_FUNCTIONS]


def tests_of(file):
    path = os.path.join(TESTS, file)
    if not os.path.exists(path):
        return set()
    return {node.name for node in parsed(path).body if isinstance(node, ast.FunctionDef)}


def problems(text, known):
    """What is wrong with the lines of features.txt."""
    for line in text.splitlines():
        found = LINE.match(line)
        if not found and line and not line.startswith("#"):
            yield f"`{line}` is not a line `test function: features`"
        elif found and found[4] not in known:
            yield f"`{found[4]}` is not a function of wave_lang.ops"
        elif found and found[3] not in tests_of(found[2]):
            yield f"`{found[1]}` is not a test"


def shown(text):
    """{function: features}"""
    made = defaultdict(set)
    for found in filter(None, map(LINE.match, text.splitlines())):
        made[found[4]] |= {SAME.get(word, word) for word in found[5].split(", ")}
    return made


def operators():
    """The operators that test_ops_torch.py has a case for, and those whose gradients it checks."""
    path = os.path.join(TESTS, "test_ops_torch.py")
    keys = lambda name: {ast.literal_eval(key) for key in assigned(path, name).keys}
    for file, test in (
        ("test_ops_torch.py", "test_opcheck"),
        ("test_ops_torch.py", "test_compiled"),
        ("test_gpu_ops.py", "test_replayed"),
        ("test_gpu_ops.py", "test_gradients_replayed"),
    ):
        if test not in tests_of(file):
            raise SystemExit(f"{file} has no `{test}`, which the column of operators stands for")
    return keys("CASES"), keys("DIFFERENTIABLE")


def is_attention(name):
    return name.startswith("attention") or name == "mla_decode"


def mark(condition):
    return "yes" if condition else ""


def attention_table(features):
    rows = list(filter(is_attention, functions()))
    made = head("", *(f"`{name}`" for name in rows))
    for feature, words in ATTENTION.items():
        made += row(words, *(mark(feature in features[name]) for name in rows))
    return made


def whole_table(features):
    cases, differentiable = operators()
    flags = ("`out`", "refuses", "operator", "gradient")
    made = head("function", "types", *TARGETS.values(), *flags, "also")
    for name in functions():
        found = features[name]
        types = ", ".join(word for word in TYPES if word in found)
        other = sorted(found - HIDDEN - set(ATTENTION if is_attention(name) else ()))
        made += row(
            f"`{name}`",
            types,
            *(mark(target in found) for target in TARGETS),
            mark("out" in found),
            mark("refused" in found),
            mark(name in cases),
            mark(name in differentiable),
            ", ".join(f"`{word}`" for word in other),
        )
    return made


def run():
    with open(os.path.join(TESTS, "features.txt"), encoding="utf-8") as file:
        text = file.read()
    wrong = [*problems(text, set(functions()))]
    if wrong:
        print("\n".join(f"tests/python/features.txt: {words}" for words in wrong))
        return 1
    features = shown(text)
    tables = {"attention": attention_table, "all": whole_table}
    return rewrite(DOCUMENT, BLOCK, lambda name: tables[name](features))


if __name__ == "__main__":
    main(run)
