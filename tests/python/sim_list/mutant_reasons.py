"""Why a mutant survives: reasons that are checked by running the program with probes in it.

A probe is a store far out of bounds under a condition: the simulator reports it when the condition
holds in any lane. So it is checked, not assumed, that a line is never executed, that a mutation
computes the same bits, or that the lanes where it does not may hold any value. fault_reasons.py may
explain what probes do not, from the expressions of the program.
"""

import math
import re

from fault_reasons import reason as reason_of_expressions
from thread_faults import outcome

NEVER = "never executed: no thread reaches this line, or only with a false mask"
SAME = "same bits: in every lane that reaches this line the mutation computes the original value"
UNUSED = "not used: where the mutation computes another value, any value leads to the same results"
STORED_ALIKE = "same bits: other threads store the same value, and another one would be reported"
UNREAD = "not used: any value could be stored there"
LATER = "same bits: later all lanes hold the original values, and those that differed are not used"
UNUSED_LATER = "not used: later the value differs only in lanes where any value is allowed"
IDLE = "same bits: the extra, or missing, iteration does not change what the loop carries"
ENDED = "not used: only mbarriers are invalidated, and their memory is not used afterwards"

_NAMES = re.compile(r"%[\w.]+")
_TYPES = re.compile(r"vec<\d+, \w+>|\w+")
_DEFINED = re.compile(r"(%[\w.]+(?:, %[\w.]+)*) = .* : ((?:(?:vec<\d+, \w+>|\w+)(?:, )?)+)(?: \{)?$")
_ALLOC = re.compile(r"(%[\w.]+) = alloc \{.*\bbase = (\d+).*, [a-z]+(\d+)\w*, shared>$")
_ACCESS = re.compile(r"(?:.* = )?(load|store|atomic|copy_async)\b([^{:]*)")
_OPERANDS = {"load": 2, "store": 3, "atomic": 3, "copy_async": 4}  # without the mask
_STORE = re.compile(r"store (%[\w.]+), ")
_BRANCH = re.compile(r"(?:.* = )?if (\(.*\))(?: carry .*)? \{$")
_LOOP = re.compile(r"(?:.* = )?for (.+?) with \{trips = (.*?)\}(?: carry (.*) : (.*))? \{$")
_PURE = re.compile(r"%[\w.]+ = (?!alloc|atomic|load|ldmatrix|wgmma|for |if |while )\w+ .* : ")
_INTEGER = {"f64": "i64", "f32": "i32", "f16": "i16", "bf16": "i16"}  # of the same size
_FAR = 1 << 62


def _typed(width, dtype):
    return f"vec<{width}, {dtype}>" if width else dtype


def _type(text):
    """(registers of a vector or 0, dtype) of `vec<4, f32>` or `f32`."""
    found = re.fullmatch(r"vec<(\d+), (\w+)>", text)
    return (int(found[1]), found[2]) if found else (0, text)


def _poison(dtype):
    """Values that no kernel computes, so that a use of one of them is visible."""
    if dtype == "i1":
        return "1", "0"
    if dtype in ("i8", "u8", "i16", "u16"):
        return "85", "-86" if dtype[0] == "i" else "171"
    return ("3.0e4", "-3.0e4") if dtype[0] in "fb" else ("1000003", "-1000003")


class Program:
    """A printed program and the line under examination."""

    def __init__(self, text, line):
        self.lines = text.splitlines()
        self.at = line - 1
        self.bare = self.lines[self.at].strip()
        header = text[: text.index("{\n")]
        param = re.search(r"%(\w+): mem<[^>]*?(\w+)>", header)
        self.memory, self.dtype = param[1], param[2]

    def replaced(self, new):
        """The text with this line replaced by others."""
        return "\n".join([*self.lines[: self.at], *new, *self.lines[self.at + 1 :]]) + "\n"

    def type_of(self, name):
        """(registers, dtype) of a value; None: it is a parameter or carried by a loop."""
        for line in self.lines:
            found = _DEFINED.match(line.strip())
            names = found[1].split(", ") if found else ()
            if name in names:
                return _type(_TYPES.findall(found[2])[names.index(name)])
        return None

    def end_of_region(self):
        """The line that closes the region this one opens."""
        space = self.lines[self.at][: -len(self.bare)]
        closing = (i for i in range(self.at + 1, len(self.lines)) if self.lines[i] == f"{space}}}")
        return next(closing)

    def shared(self, name):
        """The bytes of shared memory that an allocation covers."""
        for line in self.lines:
            found = _ALLOC.match(line.strip())
            if found and found[1] == name:
                sizes = re.search(r"physical = \[(.*?)\]", line) or re.search(r"mem<(.*), \w+, sh", line)
                elements = math.prod(int(n) for n in sizes[1].split(","))
                return range(int(found[2]), int(found[2]) + elements * int(found[3]) // 8)
        return range(0)

    def only_gives_up_barriers(self):
        """Whether this branch, outside loops, only invalidates mbarriers whose memory is not used
        after it."""
        end, outermost = self.end_of_region(), self.lines[self.at].index(self.bare) == 2
        body = [line.strip() for line in self.lines[self.at + 1 : end]]
        if not outermost or not all(re.match(r"mbar_inval|%\S+ = scalar", line) for line in body):
            return False
        given_up = [self.shared(line.split()[1].strip(",")) for line in body if "inval" in line]
        later = {name for line in self.lines[end:] for name in _NAMES.findall(line)}
        used = [self.shared(name) for name in later]
        return not any(set(a) & set(b) for a in given_up for b in used)

    def probe(self, *conditions):
        """Lines that cause a report if one of the conditions holds in a lane that reaches them."""
        zero = "0.0" if self.dtype[0] in "fb" else "0"
        yield f"%probe.value = scalar {zero} : {self.dtype}"
        yield f"%probe.far = scalar {_FAR} : index"
        for condition in conditions:
            yield f"store %probe.value, %{self.memory}, %probe.far, {condition}"


def different(one, other, width, dtype):
    """Lines that compare two values bit for bit, as %probe.ne, and its registers."""
    lines, bits = [], [one, other]
    if dtype in _INTEGER:
        bits = ["%probe.one.bits", "%probe.other.bits"]
        kind = _typed(width, _INTEGER[dtype])
        lines = [f"{b} = bitcast {v} : {kind}" for b, v in zip(bits, (one, other))]
    compare = "xor" if dtype == "i1" else "ne"
    lines.append(f"%probe.ne = {compare} {bits[0]}, {bits[1]} : {_typed(width, 'i1')}")
    if not width:
        return lines, ["%probe.ne"]
    registers = [f"%probe.ne{i}" for i in range(width)]
    return lines + [f"{r} = pick [{i}] %probe.ne : i1" for i, r in enumerate(registers)], registers


def constant(name, value, width, dtype):
    """Lines that define a constant of any type."""
    word = f"{float(value)}" if dtype[0] in "fb" else value
    if not width:
        return [f"{name} = scalar {word} : {dtype}"]
    one = f"{name}.one"
    return [f"{one} = scalar {word} : {dtype}", f"{name} = splat {one} : {_typed(width, dtype)}"]


def mask_of(line):
    """The mask of an access, or None."""
    found = _ACCESS.match(line)
    operands = re.findall(r"%[\w.]+", found[2]) if found else []
    return operands[-1] if found and len(operands) > _OPERANDS[found[1]] else None


def mutated_lines(text, fault):
    """The lines of a mutant that replace one of the program."""
    new = fault.text.splitlines()
    more = len(new) - len(text.splitlines())
    return [line.strip() for line in new[fault.line - 1 : fault.line + more]]


def _defines(name, lines):
    """Whether one of the lines defines the value, and does not open a region."""
    return any(line.startswith(f"{name} = ") and line[-1] != "{" for line in lines)


def _as(new_name, name, lines):
    return [new_name + l[len(name) :] if l.startswith(f"{name} = ") else l for l in lines]


class Judge:
    """Reasons for the survivors of one program on one machine. `runs`: arguments and results."""

    def __init__(self, text, runs, sizes, target):
        self.text, self.runs, self.sizes, self.target = text, runs, sizes, target

    def reason(self, fault):
        """The first reason that holds, or None."""
        program = Program(self.text, fault.line)
        new = mutated_lines(self.text, fault)
        rules = (self.never, self.value, self.later, self.mask, self.branch, self.store, self.loop)
        found = (rule(program, new, fault) for rule in rules)
        why = next((w for w in found if w), None)
        return why or reason_of_expressions(fault, self.text, self.sizes, self.target)

    def is_quiet(self, text):
        """Whether nothing is reported and the results are the same. Raises if the text is not a
        program."""
        for arguments, expected in self.runs:
            found = outcome(text, arguments, expected, self.target)
            if found != "survived":
                wrong = [c for c in found.split() if c[0] == "E" and not c.startswith("E08")]
                assert not wrong, f"a probe is not understood: {found}\n{text}"
                return False
        return True

    def never(self, program, new, fault):
        mask = mask_of(program.bare)
        if mask and fault.kind == "mask":
            return None
        true = ["%probe.true = expr True : i1"]
        lines = [*true, *program.probe(mask or "%probe.true"), program.bare]
        return NEVER if self.is_quiet(program.replaced(lines)) else None

    def value(self, program, new, fault):
        """For a line that defines a value, if those of the mutant do so too."""
        name = program.bare.split(" = ")[0]
        typed = program.type_of(name)
        if not typed or not _defines(name, new):
            return None
        twins = _as("%probe.one", name, [program.bare]) + _as("%probe.other", name, new)
        return self.compared(program, twins, name, typed)

    def compared(self, program, twins, name, typed):
        """For a value that `twins` define twice, as %probe.one and as %probe.other: is it the same,
        or unused where it differs?"""
        compared, registers = different("%probe.one", "%probe.other", *typed)
        lines, whole = [*twins, *compared], _typed(*typed)
        same = f"{name} = select %probe.ne, %probe.one, %probe.one : {whole}"
        if self.is_quiet(program.replaced([*lines, *program.probe(*registers), same])):
            return SAME
        poisoned = f"{name} = select %probe.ne, %probe.poison, %probe.one : {whole}"
        made = [constant("%probe.poison", value, *typed) for value in _poison(typed[1])]
        quiet = all(self.is_quiet(program.replaced([*lines, *m, poisoned])) for m in made)
        return UNUSED if quiet else None

    def later(self, program, new, fault):
        """Both programs run side by side until they differ in only one value."""
        name = program.bare.split(" = ")[0]
        if not program.type_of(name) or not _defines(name, new):
            return None
        lines, twin = list(program.lines), {name: f"%twin{len(program.lines)}"}
        lines[program.at] += "\n" + "\n".join(_as(twin[name], name, new))
        for at in range(program.at + 1, len(lines)):
            bare = lines[at].strip()
            used = set(_NAMES.findall(bare)) & set(twin)
            if not used:
                continue
            if not _PURE.match(bare) or "{" == bare[-1]:
                return None
            name = bare.split(" = ")[0]
            other = _NAMES.sub(lambda m: twin.get(m[0], m[0]), bare)
            rest = set(_NAMES.findall("\n".join(lines[at + 1 :])))
            if not rest & set(twin):
                cut = Program("\n".join(lines) + "\n", at + 1 + sum(l.count("\n") for l in lines[:at]))
                both = _as("%probe.one", name, [bare]) + _as("%probe.other", name, [other])
                found = self.compared(cut, both, name, program.type_of(name))
                if found:
                    return {SAME: LATER, UNUSED: UNUSED_LATER}[found]
            twin[name] = f"%twin{at}"
            lines[at] += "\n" + _as(twin[name], name, [other])[0]
        return None

    def mask(self, program, new, fault):
        """A mask that is true in all lanes can be dropped."""
        mask = mask_of(program.bare)
        typed = mask and fault.kind == "mask" and program.type_of(mask)
        if not typed:
            return None
        true = constant("%probe.true", "1", *typed)
        compared, registers = different(mask, "%probe.true", *typed)
        lines = [*true, *compared, *program.probe(*registers), program.bare]
        return SAME if self.is_quiet(program.replaced(lines)) else None

    def branch(self, program, new, fault):
        found = [_BRANCH.match(line) for line in (program.bare, *new[:1])]
        if len(found) < 2 or not all(found):
            return None
        names = "%probe.one", "%probe.other"
        lines = [f"{name} = expr {match[1]} : i1" for name, match in zip(names, found)]
        compared, registers = different(*names, 0, "i1")
        lines += [*compared, *program.probe(*registers), program.bare]
        if self.is_quiet(program.replaced(lines)):
            return SAME
        return ENDED if program.only_gives_up_barriers() else None

    def store(self, program, new, fault):
        """The extra, or missing, store of the mutant is given another value."""
        found = _STORE.match(program.bare)
        typed = found and program.type_of(found[1])
        if not typed:
            return None
        lines = constant("%probe.poison", _poison(typed[1])[0], *typed)
        spoilt = [line.replace(found[1], "%probe.poison", 1) for line in new or [program.bare]]
        kept = [program.bare] if new else []
        quiet = self.is_quiet(program.replaced([*lines, *spoilt, *kept]))
        return UNREAD if quiet else STORED_ALIKE

    def loop(self, program, new, fault):
        """In the iteration that the mutant adds or leaves out, the carried values do not change."""
        found = fault.kind == "trips" and _LOOP.match(program.bare)
        if not found:
            return None
        more = fault.what.endswith("(one more)")
        within = Program(fault.text if more else self.text, program.end_of_region())
        inside = re.findall(r"(%[\w.]+) = %", found[3] or "")
        handed = re.findall(r"%[\w.]+", within.bare) if within.bare.startswith("yield") else []
        types = [_type(t) for t in _TYPES.findall(found[4] or "")]
        lines = [f"%probe.late = expr `$ARG{found[1]}` >= {found[2]}{'' if more else ' - 1'} : i1"]
        for n, (old, now, typed) in enumerate(zip(inside, handed, types)):
            compared, registers = different(old, now, *typed)
            late = [f"%probe.late{i}" for i in range(len(registers))]
            compared += [f"{l} = and {r}, %probe.late : i1" for l, r in zip(late, registers)]
            compared += program.probe(*late)
            lines += [re.sub(r"%probe\.(?!late )", f"%probe.{n}.", c) for c in compared]
        lines[1:] = [l.replace(f"%probe.{n}.late ", "%probe.late ") for l in lines[1:]]
        return IDLE if self.is_quiet(within.replaced([*lines, within.bare])) else None
