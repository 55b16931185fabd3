"""The waits of a loop of AMD machine code, counted again.

An instruction that touches a register must come after a wait for the load that fills it, and a
barrier after waits for what other waves will read or overwrite. The loop is followed for some
iterations, with the operations of each counter in the order of their issue, as they complete. A
wait for at most n operations is as weak as possible if the loop is wrong with n + 1 and all other
waits unchanged.

This shares nothing with the executor in src/isa or with LLVM.
"""

import re
from dataclasses import dataclass, field

VM, LGKM = "vmcnt", "lgkmcnt"
MOST = {VM: 63, LGKM: 15}  # the largest count that an instruction can wait for
ROUNDS = 3


@dataclass
class Instruction:
    text: str
    counter: str = ""  # that it increments
    fills: frozenset = frozenset()
    touches: frozenset = frozenset()
    shared: bool = False  # it accesses shared memory, other than by a direct copy
    direct: bool = False
    waits: dict = field(default_factory=dict)

    @property
    def name(self):
        return self.text.split()[0]


def registers(text):
    """v[2:3], a7, s[0:1]: by name and number."""
    found = set()
    for file, first, last, one in re.findall(r"\b([vas])(?:\[(\d+):(\d+)\]|(\d+))", text):
        low, high = (one, one) if one else (first, last)
        found |= {(file, i) for i in range(int(low), int(high) + 1)}
    return frozenset(found)


def decoded(text):
    name, _, rest = text.partition(" ")
    touches = registers(rest)
    if name == "s_waitcnt":
        counts = re.findall(r"(\w+cnt)\((\d+)\)", rest)
        return Instruction(text, waits={counter: int(n) for counter, n in counts})
    assert not name.startswith(("s_load", "flat_", "scratch_", "s_wait", "ds_gws")), text
    memory = name.startswith(("buffer_", "global_"))
    shared = name.startswith("ds_")
    if not memory and not shared:
        return Instruction(text, touches=touches)
    direct = memory and (" lds" in rest or "_lds_" in name)
    returns = not direct and "store" not in name and "write" not in name
    fills = registers(rest.split(",")[0]) if returns else frozenset()
    lanes = name.startswith(("ds_bpermute", "ds_permute", "ds_swizzle"))  # no memory
    return Instruction(text, VM if memory else LGKM, fills, touches, shared and not lanes, direct)


def loops(asm):
    """The instructions of each loop without branches that has matrix instructions."""
    lines = [line.split(";")[0].strip() for line in asm.splitlines()]
    lines = [x for x in lines if x and (not x.startswith(".") or x.endswith(":"))]
    at = {line[:-1]: i for i, line in enumerate(lines) if line.endswith(":")}
    for i, line in enumerate(lines):
        branch = re.match(r"s_c?branch\w* (\S+)", line)
        first = at.get(branch[1], i) if branch else i
        body = [x for x in lines[first:i] if not x.endswith(":")]
        straight = not any(x.startswith(("s_cbranch", "s_branch")) for x in body)
        if first < i and straight and any(x.startswith("v_mfma") for x in body):
            yield [decoded(re.sub(r"\s+", " ", x)) for x in body]


class Fault(Exception):
    """Something is touched, or a barrier reached, before a wait that it needs."""


class Wave:
    def __init__(self, barriers):
        self.barriers = barriers
        self.issued, self.done = {VM: 0, LGKM: 0}, {VM: 0, LGKM: 0}
        self.filled = {}  # by register: counter and number of the load
        self.shared, self.direct = 0, []  # numbers of accesses to shared memory

    def touch(self, x):
        for register in x.touches:
            counter, number = self.filled.get(register, (VM, 0))
            # loads of one counter complete in order: the later one may fill the register, too
            if number > self.done[counter] and not (register in x.fills and counter == x.counter):
                raise Fault(x.text)

    def issue(self, x):
        self.issued[x.counter] += 1
        number = self.issued[x.counter]
        if x.shared:
            self.shared = number
        if x.direct:
            self.direct.append(number)
        for register in x.fills:
            self.filled[register] = x.counter, number

    def meet(self, x, needs):
        if needs.waits and self.shared > self.done[LGKM]:
            raise Fault(x.text)
        flying = sum(number > self.done[VM] for number in self.direct)
        if needs.direct is not None and flying > needs.direct:
            raise Fault(x.text)

    def step(self, x, counts):
        for counter, n in counts.items():
            self.done[counter] = max(self.done[counter], self.issued[counter] - n)
        self.touch(x)
        if x.counter:
            self.issue(x)
        if x.name == "s_barrier":
            self.meet(x, next(self.barriers))


@dataclass
class Barrier:
    waits: bool  # for accesses to shared memory
    direct: int | None  # direct copies that may be in flight


def is_right(loop, barriers, weaker=(-1, "", 0)):
    """`weaker`: a wait, its counter, and the number for which it waits."""
    at, counter, n = weaker
    wave = Wave(iter(barriers * ROUNDS))
    try:
        for i in range(ROUNDS * len(loop)):
            x = loop[i % len(loop)]
            wave.step(x, {**x.waits, counter: n} if i % len(loop) == at else x.waits)
    except Fault:
        return False
    return True


def limits(loop, barriers):
    """(index, counter, count, the largest that is right) of each wait; above MOST: needless."""
    assert is_right(loop, barriers)
    for i, x in enumerate(loop):
        for counter, n in x.waits.items():
            most, none = n, MOST[counter] + 1
            while most < none and is_right(loop, barriers, (i, counter, most + 1)):
                most = none if is_right(loop, barriers, (i, counter, none)) else most + 1
            yield i, counter, n, most


def kind(x):
    if x.direct:
        return "load to LDS"
    if x.counter == VM:
        return "load"
    kinds = {"v_mfma": "matrix", "ds_read": "LDS read", "ds_write": "LDS write", "ds_": "exchange"}
    return next((what for name, what in kinds.items() if x.name.startswith(name)), "")


def summary(loop):
    """A line for each wait, barrier and priority, with what comes after it."""
    marks, counts = [""], [{}]
    for x in loop:
        if x.waits or x.name in ("s_barrier", "s_setprio"):
            marks.append(x.text)
            counts.append({})
        elif kind(x):
            counts[-1][kind(x)] = counts[-1].get(kind(x), 0) + 1
    rows = [
        f"{mark:30}  {', '.join(f'{n} {what}' for what, n in count.items())}".rstrip()
        for mark, count in zip(marks, counts)
    ]
    return rows if counts[0] else rows[1:]
