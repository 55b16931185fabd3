"""Which kernels give the same bits as AMD machine code and in the simulator (docs/numerics.md)."""

import re
from pathlib import Path

MMA_DEF = Path(__file__).resolve().parents[3] / "src/target/mma.def"
FUNCTIONS = (
    "exp exp2 log log2 log10 rsqrt reciprocal_approx sin cos tanh tanh_approx erf sigmoid softsign"
    " cbrt sinh atan2 powf"
).split()
_FLOAT = r"(?:vec<\d+, )?b?f\d+\w*>?"
_RESULT = re.compile(rf"(%[\w.]+) = (\w+) (.*?)(?: \{{.*\}})? : {_FLOAT}$")
_VALUE = re.compile(r"%[\w.]+")


def virtual_rows():
    """Matrix instructions that a machine executes as several."""
    return set(re.findall(r"^MMA\((\w+),\s*\w+,\s*VIRTUAL", MMA_DEF.read_text(), re.M))


def why_bits_may_differ(text):
    """The reasons, of one lane's program; empty: every bit is the same."""
    found, products = set(), set()
    for line in map(str.strip, text.splitlines()):
        if re.search(r"\batomic add\b.* : .*f\d|\batomic\b.*\bf(?:16|32|64)\b", line):
            found.add("atomic sums of floats are added in any order")
        made = _RESULT.match(line)
        if not made:
            continue
        name, op, operands = made.groups()
        used = set(_VALUE.findall(operands))
        if op in FUNCTIONS:
            found.add(f"`{op}` is approximated")
        if op == "wave_mma" and operands.split()[0] in virtual_rows():
            found.add(f"{operands.split()[0]} is several instructions, each of which rounds")
        if op == "mul" or (op in ("neg", "pick", "join", "select") and used & products):
            products.add(name)
        if op in ("add", "sub") and used & products:
            found.add("a product and a sum are fused")
    return found
