#!/usr/bin/env python3
"""Writes the tables of docs/ir.md from the compiler's own: src/ir/{ops,elementwise,attrs,types}.def, src/ir/infer/infer.def,
src/ir/schedule/schedule.def.

tools/gen_ir.py            rewrites the text between <!-- table NAME --> and <!-- end -->
tools/gen_ir.py --check    fails when docs/ir.md is not current
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENT = os.path.join(ROOT, "docs/ir.md")
TABLE = re.compile(r"(<!-- table (.*?) -->\n).*?(<!-- end -->)", re.S)
OP = re.compile(
    r"^OP\((\w+),\s*\w+,\s*ARGS\((\w+), (\w+)\),\s*\w+,\s*[\w| ]+,\s*(\w+),\s*(\w+),\s*(.*?), \"(.*)\"\)$",
    re.M,
)
RULE = re.compile(r'^RULE\((\w+),\s*"(.*)"\)$', re.M)


ELEMENTWISE = re.compile(r'^ELEMENTWISE\((\w+),\s*(\w+),\s*([\w| ]+),\s*(\w+),\s*\w+,\s*(".*")\)$', re.M)


def read(name):
    return open(os.path.join(ROOT, "src/ir", name), encoding="utf-8").read()


def op_rows():
    """ops.def, the short rows of elementwise.def written out."""

    def row(match):
        name, kind, flags, rule, doc = match.groups()
        n = 1 if kind in ("unary", "test") else 2
        return f"OP({name}, BOTH, ARGS({n}, {n}), 1, PURE | {flags}, {rule}, NONE, NONE, {doc})"

    return read("ops.def").replace(
        '#include "ir/elementwise.def"', ELEMENTWISE.sub(row, read("elementwise.def"))
    )


def rules():
    """What each rule says about the result; `the same` repeats the previous one."""
    said, last = {}, ""
    for name, words in RULE.findall(read("infer/infer.def")):
        base, _, rest = words.partition(",")
        if base.startswith("the same"):
            words = last + ("," + rest if rest else "")
        else:
            last = words
        said[name] = words.replace("given:", "written:").replace("the author's", "a written")
    return said


def row(*cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def head(*cells):
    return row(*cells) + "|" + "---|" * len(cells) + "\n"


def operands(least, most):
    if most == "ANY":
        return "any" if least == "0" else f"{least} or more"
    return {"00": ""}.get(least + most, least if least == most else f"{least} to {most}")


def ops(group):
    parts = re.split(r"/\* ---- (.*?) ---- \*/", op_rows())
    said = rules()
    text = head("op", "operands", "result", "attributes", "meaning")
    for name, least, most, rule, lead, attrs, doc in OP.findall(
        dict(zip(parts[1::2], parts[2::2]))[group]
    ):
        keys = [f"**`{lead}`**"] * (lead != "NONE") + [
            f"`{k}`" for k in re.findall(r"A\((\w+)\)", attrs)
        ]
        text += row(f"`{name}`", operands(least, most), said[rule], ", ".join(keys), doc)
    return text


def attributes():
    found = re.findall(r'^ATTR\((\w+),\s*(\w+),\s*"(.*)"\)', read("attrs.def"), re.M)
    return head("attribute", "kind", "meaning") + "".join(row(f"`{n}`", k, d) for n, k, d in found)


def dtypes():
    found = re.findall(r'^DTYPE\((\w+),\s*\w+,\s*(\d+),.*?"(.*)"\)', read("types.def"), re.M)
    described = (row(f"`{n}`", bits, doc or "arithmetic is signed") for n, bits, doc in found)
    return head("element type", "bits", "") + "".join(described)


def schedule():
    """The words of schedule rows, by what they follow."""
    text = read("schedule/schedule.def")
    found = re.findall(r'^(SCHEDULE_KIND|SCHEDULE_DRAIN|OP_CLASS)\((\w+),.*?"(.*)"\)', text, re.M)
    after = {"SCHEDULE_KIND": "`kind`", "SCHEDULE_DRAIN": "`drain`", "OP_CLASS": "the name of an op"}
    return head("after", "word", "meaning") + "".join(
        row(after[macro], f"`{'.' * (macro == 'OP_CLASS')}{word}`", doc) for macro, word, doc in found
    )


def table(name):
    kind, _, rest = name.partition(" ")
    made = {"attributes": attributes, "dtypes": dtypes, "schedule": schedule}
    return made.get(kind, lambda: ops(rest))()


def rewrite(document, pattern, made):
    """Replaces the text between the comments that `pattern` finds by what `made` returns for their
    names. With --check it only reports whether that would change the document."""
    old = open(document, encoding="utf-8").read()
    new = pattern.sub(lambda m: m[1] + made(m[2]) + m[3], old)
    if "--check" in sys.argv and new != old:
        tool = os.path.basename(sys.argv[0])
        print(f"{os.path.relpath(document, ROOT)} is not current: run tools/{tool}")
        return 1
    if new != old:
        open(document, "w", encoding="utf-8").write(new)
    return 0


def main(run):
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(print(sys.modules["__main__"].__doc__))
    sys.exit(run())


if __name__ == "__main__":
    main(lambda: rewrite(DOCUMENT, TABLE, table))
