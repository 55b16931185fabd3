"""Seeded faults: one lane's program with one mistake in it, as text.

A kernel is printed, one of its lines is changed, and it runs in the simulator. Kinds:

    barrier   a barrier or a fence is removed
    wait      a wait is removed, or waits for one group fewer
    bound     one condition of a mask, or of a branch, is removed
    condition the same for a condition that no access depends on
    index     an index, an offset or an immediate is increased by one

The outcome of a run is the findings of the simulator (`E0803 E0804`), `result` if the outputs
differ, or `survived`. A text that the verifier rejects cannot be run and counts as found.
"""

import re
from dataclasses import dataclass

import numpy as np

from number_formats import STORAGE, sample
from compiler_steps import copied, simulated
from wave_lang import CompileError

KINDS = ("barrier", "wait", "bound", "condition", "index")
_RESULT = r"(?:%[\w.]+ = )?"
_BARRIER = re.compile(
    r"(barrier|workgroup_barrier|shared_barrier|counter_barrier|fence_proxy|wgmma_fence)\b"
)
_WAIT = re.compile(r"(async_wait|bulk_wait|wgmma_wait|mbar_wait|counter_wait|barrier_wait)\b")
_PENDING = re.compile(r"(async_wait|bulk_wait|wgmma_wait) (\d+)")
_CONDITION = re.compile(r"(%[\w.]+ = expr )(.*?)((?: %[\w.]+(?:, %[\w.]+)*)? : i1)$")
_BRANCH = re.compile(r"((?:%[\w.]+(?:, %[\w.]+)* = )?if )(\(.*\))((?: carry .*)? \{)$")
_INDEX = re.compile(
    r"(%[\w.]+) = (expr|scalar) (.*?)((?: %[\w.]+(?:, %[\w.]+)*)? : (?:index|i32|i64))$"
)
_BOTH = re.compile(r"(%[\w.]+) = and (%[\w.]+), (%[\w.]+) : i1$")
# Operands of an access without its mask.
_OPERANDS = {"load": 2, "store": 3, "atomic": 3, "copy_async": 4}
_IMMEDIATE = re.compile(r"\bimm = (-?\d+)")
_ACCESS = re.compile(_RESULT + r"(load|store|atomic|copy_async|tma_load|tma_store|wgmma)\b")


@dataclass(frozen=True)
class Fault:
    kind: str
    line: int  # of the text, from 1
    what: str  # the line before, and what was done to it
    text: str  # the kernel with the fault

    def __str__(self):
        return f"{self.kind} {self.line}: {self.what}"


def conjuncts(condition):
    """The parts of `(a) & (b)`, or the whole."""
    inner = condition.strip()
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(inner):
        depth += (letter == "(") - (letter == ")")
        if letter == "&" and depth == 0:
            parts.append(inner[start:i].strip())
            start = i + 1
    return parts + [inner[start:].strip()]


def without_each(condition):
    """(part, the condition without it) of each part."""
    parts = conjuncts(condition)
    for i, part in enumerate(parts):
        rest = parts[:i] + parts[i + 1 :]
        yield part, " & ".join(rest) if rest else "True"


def _unwrapped(condition):
    """A branch's condition without the parentheses around all of it."""
    depth = 0
    for i, letter in enumerate(condition):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and i + 1 < len(condition):
            return condition
    return condition[1:-1]


def addresses(lines):
    """Values that accesses use as an offset or coordinate, directly or through other indices."""
    used = set()
    for line in lines:
        if _ACCESS.match(line):
            operands = re.findall(r"%[\w.]+", line.split("{")[0])
            used.update(operands[1:])
    for line in reversed(lines):
        found = _INDEX.match(line)
        if found and found[1] in used:
            used.update(re.findall(r"%[\w.]+", found[4]))
    return used


def masks(lines):
    """Values that accesses use as a mask, directly or through others."""
    used = set()
    for line in lines:
        access = _ACCESS.match(line)
        operands = re.findall(r"%[\w.]+", line.split("{")[0].split(" = ")[-1])
        if access and len(operands) > _OPERANDS.get(access[1], 99):
            used.add(operands[-1])
    for line in reversed(lines):
        result, _, rest = line.partition(" = ")
        if result in used and re.match(r"(and|or|not|join|expr|pick|splat)\b", rest):
            used.update(re.findall(r"%[\w.]+", rest))
    return used


def _line_faults(line, used, masking):
    """(kind, what, the changed line; None: removed)."""
    if _BARRIER.match(line):
        yield "barrier", "removed", None
    if _WAIT.match(line):
        yield "wait", "removed", None
    pending = _PENDING.match(line)
    if pending:
        yield "wait", "one less", f"{pending[1]} {int(pending[2]) + 1}{line[pending.end():]}"
    condition = _CONDITION.match(line)
    if condition:
        kind = "bound" if condition[1].split(" = ")[0] in masking else "condition"
        for part, rest in without_each(condition[2]):
            yield kind, f"without {part}", condition[1] + rest + condition[3]
    branch = _BRANCH.match(line)
    if branch:
        for part, rest in without_each(_unwrapped(branch[2])):
            yield "bound", f"without {part}", f"{branch[1]}({rest}){branch[3]}"
    both = _BOTH.match(line)
    if both and both[1] in masking:
        yield "bound", f"without {both[2]}", f"{both[1]} = and {both[3]}, {both[3]} : i1"
        yield "bound", f"without {both[3]}", f"{both[1]} = and {both[2]}, {both[2]} : i1"
    index = _INDEX.match(line)
    if index and index[1] in used:
        yield "index", "plus 1", f"{index[1]} = {index[2]} {index[3]} + 1{index[4]}"
    immediate = _IMMEDIATE.search(line)
    if immediate:
        more = f"imm = {int(immediate[1]) + 1}"
        yield "index", "imm plus 1", line[: immediate.start()] + more + line[immediate.end() :]


def faults(text):
    """Every fault that can be seeded in a printed kernel."""
    lines = text.splitlines()
    bare = [line.strip() for line in lines]
    used, masking = addresses(bare), masks(bare)
    for i, line in enumerate(bare):
        for kind, what, spoilt in _line_faults(line, used, masking):
            rest = (
                []
                if spoilt is None
                else [lines[i][: len(lines[i]) - len(lines[i].lstrip())] + spoilt]
            )
            changed = "\n".join(lines[:i] + rest + lines[i + 1 :]) + "\n"
            yield Fault(kind, i + 1, f"{line}  ({what})", changed)


# ---- running -------------------------------------------------------------------------------------

_PARAM = re.compile(r"%(\w+): mem<([^>]*)>")
_BIND = re.compile(r"bind (\w+) = (-?\d+)")


def parameters(text):
    """(name, dtype, shape, is written) of each tensor; all symbols are bound."""
    header = text[: text.index("{\n")]
    values = {name: int(value) for name, value in _BIND.findall(header)}
    found = []
    for name, inside in _PARAM.findall(header):
        *dims, dtype = [part.strip() for part in inside.split(",")]
        shape = tuple(int(d) if d.isdigit() else values[d] for d in dims)
        written = re.search(rf"(store|atomic \w+) %[\w.]+, %{name},|tma_store .*%{name}\b", text)
        found.append((name, dtype, shape, bool(written)))
    return found


def made_arguments(text, seed=0):
    """Arguments for a kernel given as text: random inputs, zero outputs."""
    rng = np.random.default_rng(seed)
    return [
        (dtype, np.zeros(shape, STORAGE[dtype]) if written else sample(dtype, shape, rng))
        for _, dtype, shape, written in parameters(text)
    ]


def outcome(text, arguments, expected, target, schedule="round"):
    """The outcome of a run: the codes of findings, "result", or "survived"."""
    try:
        after = simulated(text, arguments, target, schedule)
    except CompileError as error:
        return " ".join(sorted({d.code for d in error.diagnostics if d.severity == "error"}))
    same = all(a.tobytes() == b.tobytes() for (_, a), (_, b) in zip(after, expected))
    return "survived" if same else "result"


# A race, a read of uninitialised memory, a missing fence, registers of a wgmma in flight.
ORDER = {"E0803", "E0804", "E0810", "E0812"}


def is_found(fault, found):
    """Missing synchronisation must be reported as such, a missing bound by any check; a wrong index
    may show only in the result, and so may the condition of an `if` and an extra atomic."""
    if fault.kind in ("barrier", "wait"):
        return bool(ORDER & set(found.split()))
    quietly = fault.kind in ("condition", "index") or " = atomic " in fault.text
    quietly |= fault.what.startswith("if (")
    return found[0] == "E" or (found == "result" and quietly)
