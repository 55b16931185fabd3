#!/usr/bin/env python3
"""Writes what docs/ops.md says about each op from src/ir/ops.def and the functions of `tkw`.

tools/gen_ops.py            rewrites the text between <!-- ops NAMES --> and <!-- end -->
tools/gen_ops.py --check    fails when docs/ops.md is not current

A block with one name shows its signature in full; one with several names is a table. The listings
are in the page itself, below the block of the ops they call. Both commands fail when a function
or an op of the language has no block, or when no listing below its block calls it.
"""

import ast
import inspect
import os
import re
import sys
import textwrap

from gen_ir import OP, head, main, op_rows, rewrite, row, rules

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENT = os.path.join(ROOT, "docs/ops.md")
BLOCK = re.compile(r"(<!-- ops (.*?) -->\n).*?(<!-- end -->)", re.S)
LISTING = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
WIDTH = 100

# How Python writes the ops that have no function.
OPERATORS = {
    "add": "a + b", "sub": "a - b", "mul": "a * b", "div": "a / b", "mod": "a % b",
    "floordiv": "a // b", "and": "a & b", "or": "a | b", "xor": "a ^ b", "shl": "a << b",
    "shr": "a >> b", "neg": "-a", "not": "~a", "abs": "abs(a)", "eq": "a == b", "ne": "a != b",
    "lt": "a < b", "le": "a <= b", "gt": "a > b", "ge": "a >= b",
}  # fmt: skip

# Ops that only passes make.
OF_PASSES = set(
    "exists inside runs report copy convert repeat squeeze barrier yield "
    "async_commit async_wait bulk_wait mbar_init mbar_inval mbar_wait stamp "
    "mbar_arrive wave_registers turn prefetch".split()
)

# The result of an op, in terms of its function's parameters. For other rules infer.def says it.
RESULTS = {
    "given_tile": "a tile of `shape` and `dtype`",
    "given_scalar": "a scalar of `dtype`",
    "given_mem": "a memory of `shape` and `dtype`",
    "self_index": "a tile over `dim`, of `dtype`",
    "apply": "the dims and dtype of the operands, integers of one type; i1 for a condition",
    "read": "the dims of the memory, or of the mapping's `outputs`, with the memory's dtype",
    "log": "",
    "binary": "the dims of both operands, with their dtype",
    "select": "the dims of all three operands, with the dtype of the branches",
    "test_float": "the dims of the operand, floats only, with dtype i1",
    "mma": "the type of `acc`",
    "scaled_mma": "the type of `acc`",
    "cast": "the dims of the operand, with `dtype`",
    "bitcast": "the dims of the operand, the last one times the ratio of the widths, with `dtype`",
    "inline": "the dims of all `inputs`, with dtype `result`",
    "broadcast": "a tile over `target_shape`, with the operand's dtype",
    "permute": "a tile over `target_shape`, with the operand's dtype",
    "extract": "the operand's type without its last dim",
    "reduce": "the operand's type without `dim`",
    "topk": "two tiles with `k_dim` instead of `dim`: the elements, and their positions (i32)",
    "carry": "the types of `init_args`",
    "while": "the types of `init_args`",
    "if": "the types of what the body returns",
}

# Functions that make several ops, and their results.
COMPOSED = {
    "argmax": "two values without `dim`: the elements, and their positions (i32)",
    "argmin": "two values without `dim`: the elements, and their positions (i32)",
    "philox": "four values of the dims of the words, with dtype u32",
    "tag": "its operand",
}

sys.path.insert(0, os.path.join(ROOT, "python"))


def table():
    """For each op that a tile kernel may have: the type of its result, and its meaning."""
    said = rules() | RESULTS
    levels = dict(re.findall(r"^OP\((\w+),\s*(\w+),", op_rows(), re.M))
    return {
        name: (said[rule], doc)
        for name, _, _, rule, _, _, doc in OP.findall(op_rows())
        if levels[name] != "THREAD"
    }


def functions():
    """The functions of `tkw` for ops and schedules, by name."""
    import wave_lang.kernel.wave as tkw

    return {
        name: value
        for name, value in vars(tkw).items()
        if inspect.isfunction(value) and value.__module__.startswith("wave_lang.kernel.ops.")
        if not name.startswith("_")
    }


def ops_of(function, ops):
    """The ops that a function emits: it names them in strings."""
    if function.__module__.endswith("schedule_ops"):
        return []
    tree = ast.parse(inspect.getsource(function))
    keys = {id(key) for n in ast.walk(tree) if isinstance(n, ast.Dict) for key in n.keys}
    named = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in keys)
    return list(dict.fromkeys(n for n in named if isinstance(n, str) and n in ops))


def signature(name, function):
    """The signature as Python shows it, without the `tag` that every op takes."""
    shown = inspect.signature(function)
    if name != "tag":
        kept = [p for p in shown.parameters.values() if p.name != "tag" or p.kind != p.KEYWORD_ONLY]
        shown = shown.replace(parameters=kept)
    text = re.sub(r"<MemoryAccessFlags\.(\w+): \d+>", r"MemoryAccessFlags.\1", str(shown))
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    text = re.sub(r"<built-in function (\w+)>", r"\1", text)
    return name + re.sub(r"\$|builtins\.", "", text)


def folded(call):
    """A signature in lines that fit the page."""
    if len(call) <= WIDTH:
        return call
    name, _, rest = call.partition("(")
    inside, _, result = rest.rpartition(") -> ")
    parts = re.split(r", (?=\w+: |\*,)", inside)
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f") -> {result}"


def result_of(name, function, ops):
    if name in COMPOSED:
        return COMPOSED[name]
    said = dict.fromkeys(ops[op][0] for op in ops_of(function, ops))
    return "; ".join(words for words in said if words)


def sentences(function):
    return re.sub(r"\s*\n\s*", " ", inspect.getdoc(function).strip().replace("\n\n", " "))


def one(name, function, ops):
    """A block for one op: its signature, its meaning, the type of its result."""
    if function.__name__ != name:
        return f"`{name}` is another name of `{function.__name__}`.\n"
    result, made = result_of(name, function, ops), ops_of(function, ops)
    text = sentences(function)
    if result:
        text += f" Result: {result}."
    if made and made != [name]:
        text += f" In the [text form](ir.md): {' or '.join(f'`{op}`' for op in made)}."
    text = textwrap.fill(text, 120, break_on_hyphens=False)
    return shown(signature(name, function)) + text + "\n"


def shown(call):
    return f"```text\n{folded(call)}\n```\n\n"


def parameters_of_all(names, known):
    """The parameters and result that all functions of a table share, if they are too long to
    repeat."""
    parts = {signature(name, known[name])[len(name) :] if name in known else "" for name in names}
    common = parts.pop()
    return common if not parts and len(common) > 60 else ""


def cells(name, known, ops, common):
    if name not in known:
        return f"`{OPERATORS[name]}`", *ops[name]
    call = f"`{name}`" if common else f"`{signature(name, known[name])}`"
    if name in OPERATORS:
        call = f"`{OPERATORS[name]}` or {call}"
    return call, result_of(name, known[name], ops), sentences(known[name])


def several(names, known, ops):
    common = parameters_of_all(names, known)
    rows = [cells(name, known, ops, common) for name in names]
    text = shown("op" + common) if common else ""
    if not any(result for _, result, _ in rows):
        return text + head("call", "meaning") + "".join(row(c, doc) for c, _, doc in rows)
    return text + head("call", "result", "meaning") + "".join(row(*cells) for cells in rows)


def block(names, known, ops):
    names = names.split()
    if len(names) == 1 and names[0] in known:
        return one(names[0], known[names[0]], ops)
    return several(names, known, ops)


def calls(name, listings):
    """Whether the listings call the function, name it in a list, or have the operator."""
    if name in OPERATORS and OPERATORS[name] in listings:
        return True
    return re.search(rf"(?<![\w.]){name}\b|\btkw\.{name}\b", listings) is not None


def problems(page, known, ops):
    """What the page lacks: ops without a block, or without a listing below it."""
    parts = re.split(r"^<!-- ops (.*?) -->$", page, flags=re.M)
    blocks = [(n.split(), LISTING.findall(below)) for n, below in zip(parts[1::2], parts[2::2])]
    documented = {name for names, _ in blocks for name in names}
    emitted = {op for function in known.values() for op in ops_of(function, ops)}
    yield from (f"`{n}` has no block <!-- ops … -->" for n in known if n not in documented)
    yield from (f"unknown function or op `{n}`" for n in documented - {*known, *OPERATORS})
    yield from (
        f"op `{n}` of the table has neither a function nor an operator"
        for n in ops.keys() - emitted - OPERATORS.keys() - OF_PASSES
    )
    for n, (names, _) in enumerate(blocks):
        nearest = next((listings for _, listings in blocks[n:] if listings), [])
        missing = (name for name in names if not calls(name, "".join(nearest)))
        yield from (f"no listing below the block of `{name}` calls it" for name in missing)


def run():
    known, ops = functions(), table()
    lacking = sorted(problems(open(DOCUMENT, encoding="utf-8").read(), known, ops))
    if lacking:
        print("docs/ops.md: " + "\ndocs/ops.md: ".join(lacking))
        return 1
    return rewrite(DOCUMENT, BLOCK, lambda names: block(names, known, ops))


if __name__ == "__main__":
    main(run)
