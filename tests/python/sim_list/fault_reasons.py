"""Why a seeded fault changes nothing: reasons that are checked by trying every thread.

Masks, branches and offsets are evaluated for all workgroups, threads and iterations of a launch, so
that "no access becomes active by this" is checked and not assumed.
"""

import re
from functools import cached_property

import numpy as np

IMPLIED = "no access becomes active: the rest of its conditions imply the same at these sizes"
NEVER = "at these sizes no thread reaches this line, or the mask is false in all of them"
AGAIN = "the masked copy of the body runs where the other one did, and writes the same values again"
UNUSED = "lanes load elements of the tensor that are not used"
SAME_BITS = "several lanes hold the value, and all of them write it"
LOCKSTEP = "lanes of a wave run in lockstep on this machine"
SAME_THREAD = "every thread reads only what it wrote itself"
SAME_WAVE = "every wave reads only what it wrote itself, and its lanes run in lockstep or synchronise"
GATHERED = "lanes load elements that are not used, from addresses that are read from memory"
FIRST = "shared memory was not accessed before, and the loop has no second iteration at these sizes"

_NAME = re.compile(r"`([^`]+)`|\$?\b[A-Za-z]\w*(?:\.\d+)?")
_EXPR = re.compile(r"(%[\w.]+) = expr (.*?)((?: %[\w.]+(?:, %[\w.]+)*)?) : (?:index|i32|i64|i1)$")
_SCALAR = re.compile(r"(%[\w.]+) = scalar (-?\d+) : (?:index|i32|i64|i1)$")
_LOGIC = re.compile(r"(%[\w.]+) = (and|or) (%[\w.]+), (%[\w.]+) : i1$")
_ACCESS = re.compile(r"(?:%[\w.]+ = )?(load|store)\b ([^{:]*)")
_COPY = re.compile(r"copy_async (%[\w.]+), (%[\w.]+), .*\bbytes = (\d+)")
_ALLOC = re.compile(r"(%[\w.]+) = alloc .*: mem<.*, [a-z]+(\d+)\w*, shared>$")
_LOOP = re.compile(r"\bfor (\S+)(?: from (%[\w.]+))? with \{trips = (.*)\}(?: carry .*)? \{$")
_BRANCH = re.compile(r"\bif (\(.*\))(?: carry .*)? \{$")

FUNCTIONS = {
    "floor": np.floor,
    "ceiling": np.ceil,
    "Mod": np.mod,
    "Eq": np.equal,
    "Ne": np.not_equal,
    "Min": lambda *a: np.minimum.reduce(np.broadcast_arrays(*a)),
    "Max": lambda *a: np.maximum.reduce(np.broadcast_arrays(*a)),
    "xor": lambda a, b: np.bitwise_xor(np.asarray(a, int), np.asarray(b, int)),
    "signed": lambda x: x,
    "True": True,
    "False": False,
}


def _value(expression, known):
    """An expression's value, for arrays of symbols at once. NameError: a symbol is not known."""

    def name(match):
        word = match[1] or match[0]
        if word not in known:
            raise NameError(word)
        return f"_known[{word!r}]"

    return eval(_NAME.sub(name, expression), {"_known": known})


def _split(words):
    """Expressions between commas at the top level."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(words):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(words[start:i])
            start = i + 1
    return parts + [words[start:]]


class Program:
    """A printed kernel whose conditions and offsets can be evaluated. Lines count from 0."""

    def __init__(self, text, sizes):
        raw = text.splitlines()
        self.lines = [line.strip() for line in raw]
        self.indents = [len(line) - len(line.lstrip()) for line in raw]
        header = text[: text.index("{\n")]
        self.known = {**FUNCTIONS, **{str(d): n for d, n in sizes.items()}}
        self.known.update({name: int(v) for name, v in re.findall(r"bind (\w+) = (\d+)", header)})
        launch = re.search(r"launch grid \((.*)\) block \((.*)\) wave", header)
        self.grid = [int(_value(e, self.known)) for e in _split(launch[1])]
        self.block = [int(_value(e, self.known)) for e in _split(launch[2])]
        self.wave = int(re.search(r"\bwave (\d+)", header)[1])
        self.definitions = {}
        for line in self.lines:
            found = _EXPR.match(line) or _SCALAR.match(line) or _LOGIC.match(line)
            if found:
                self.definitions[found[1]] = found
        self.spaces = {}

    @cached_property
    def threads(self):
        """Each symbol of a thread, as an array over all threads of the launch."""
        names = [f"$WG{i}" for i in range(3)] + [f"$T{i}" for i in range(3)]
        axes = np.meshgrid(*(np.arange(n) for n in self.grid + self.block), indexing="ij")
        symbols = dict(zip(names, (a.ravel().astype(float) for a in axes)))
        return {**symbols, "thread": np.arange(axes[0].size)}

    def around(self, line):
        """The lines that open the regions around a line, outermost first."""
        found, depth = [], self.indents[line]
        for i in range(line - 1, -1, -1):
            if self.lines[i].endswith("{") and 0 < self.indents[i] < depth:
                depth = self.indents[i]
                found.append(i)
        return tuple(found[::-1])

    def space(self, line):
        """Symbols of all threads and iterations around a line, and which of them reach it."""
        regions = self.around(line)
        if regions not in self.spaces:
            symbols, reached = dict(self.threads), np.array(True)
            for text in (self.lines[i] for i in regions):
                loop, branch = _LOOP.search(text), _BRANCH.search(text)
                if loop:
                    count = int(np.max(self.value(loop[3], symbols), initial=0))
                    n = symbols["thread"].size
                    reached = np.tile(np.broadcast_to(reached, n), count)
                    symbols = {name: np.tile(v, count) for name, v in symbols.items()}
                    counter = np.repeat(np.arange(count, dtype=float), n)
                    if loop[2]:
                        reached = reached & (counter >= self.named(loop[2], symbols))
                    symbols[f"$ARG{loop[1]}"] = counter
                elif branch:
                    reached = reached & np.asarray(self.value(branch[1], symbols))
                else:
                    raise NameError(text)
            symbols["reached"] = np.broadcast_to(reached, symbols["thread"].shape)
            self.spaces[regions] = symbols
        return self.spaces[regions]

    def value(self, expression, symbols, operands=()):
        """Evaluates an expression of this program; its operands are values of the program."""
        given = {f"$APPLY_EXPR_ARG_{i}": self.named(v, symbols) for i, v in enumerate(operands)}
        return _value(expression, {**self.known, **symbols, **given})

    def named(self, name, symbols):
        """The value `%name` in each thread and iteration."""
        if name not in self.definitions:
            raise NameError(name)
        found = self.definitions[name]
        if found.re is _SCALAR:
            return float(found[2])
        if found.re is _LOGIC:
            a, b = (np.asarray(self.named(found[i], symbols), bool) for i in (3, 4))
            return a & b if found[2] == "and" else a | b
        return self.value(found[2], symbols, re.findall(r"%[\w.]+", found[3]))

    def accesses(self):
        """(line, kind, operands after the value of a store: memory, offset and perhaps mask)."""
        for i, line in enumerate(self.lines):
            found = _ACCESS.match(line)
            if found:
                operands = re.findall(r"%[\w.]+", found[2])
                yield i, found[1], operands[found[1] == "store" :]

    def active(self, line, operands):
        """Which threads and iterations perform this access."""
        symbols = self.space(line)
        mask = self.named(operands[2], symbols) if len(operands) > 2 else True
        return symbols["reached"] & np.asarray(mask, bool)

    def depends(self, operands, value):
        """Whether an operand is the value, or is computed from it."""
        for name in operands:
            found = self.definitions.get(name)
            inner = re.findall(r"%[\w.]+", found[0].split(" = ")[1]) if found else []
            if name == value or self.depends(inner, value):
                return True
        return False

    def width(self, line):
        """The number of elements that an access moves."""
        typed = self.lines[line]
        if typed.startswith("store"):
            typed = self.type_of(re.match(r"store (%[\w.]+)", typed)[1])
        wide = re.search(r": vec<(\d+)", typed)
        return int(wide[1]) if wide else 1

    def type_of(self, value):
        """`: vec<2, i32>` of a value, which may be one of several results of a region."""
        for line in self.lines:
            results = line.split(" = ")[0].split(", ")
            if value in results:
                types = re.findall(r"vec<\d+, \w+>|\w+", line.rsplit(" : ", 1)[1])
                return f": {types[results.index(value)]}"
        raise NameError(value)

    def end_of(self, line):
        """The line that closes the region that opens on this one."""
        same = (i for i in range(line + 1, len(self.lines)) if self.indents[i] == self.indents[line])
        return next(i for i in same if self.lines[i].startswith("}"))

    def sides(self, line):
        """The lines before and after a barrier that only it separates, also around loops."""
        others = [i for i, text in enumerate(self.lines) if text.startswith("barrier workgroup")]
        others = [i for i in others if i != line]
        start = max((i for i in others if i < line), default=0)
        stop = min((i for i in others if i > line), default=len(self.lines))
        before, after = set(range(start, line)), set(range(line, stop))
        for loop in (i for i in self.around(line) if _LOOP.search(self.lines[i])):
            end = self.end_of(loop)
            inside = [i for i in others if loop < i < end]
            if start < loop:
                before.update(range(max(inside, default=loop), end))
            if stop > end:
                after.update(range(loop, min(inside, default=end)))
        return before, after

    def places(self, line, operands, width, blocks, threads):
        """(memory, workgroup, element), and the thread or group of threads that accesses it."""
        symbols, size = self.space(line), np.prod(self.block)
        active = self.active(line, operands) & np.isin(symbols["thread"] // size, blocks)
        imm = re.search(r"\bimm = (\d+)", self.lines[line])
        offset = np.broadcast_to(self.named(operands[1], symbols), active.shape)[active]
        thread = symbols["thread"][active]
        for element in range(width):
            at = offset.astype(int) + (int(imm[1]) if imm else 0) + element
            where = zip([operands[0]] * at.size, (thread // size).tolist(), at.tolist())
            yield from zip(where, (thread // threads).tolist())

    def within(self, line, threads=1):
        """Whether no thread, or group of that many threads, accesses on one side of a barrier what
        another one stores on the other, or stores what another one accesses there."""
        shared = {m[1]: int(m[2]) for text in self.lines if (m := _ALLOC.match(text))}
        here, found = self.space(line), ({}, {})
        blocks = np.unique(here["thread"][here["reached"]] // np.prod(self.block))
        sides = self.sides(line)
        for at, kind, operands, width in self.shared_accesses(shared):
            for side in (side for side in (0, 1) if at in sides[side]):
                for place, thread in self.places(at, operands, width, blocks, threads):
                    found[side].setdefault(place, set()).add((kind, thread))
        return not any(
            x != y and "store" in (kind, other)
            for place in found[0].keys() & found[1].keys()
            for kind, x in found[0][place]
            for other, y in found[1][place]
        )

    def rounds(self, line):
        """The number of iterations of the loop that opens on this line; 1 for a branch."""
        loop = _LOOP.search(self.lines[line])
        if not loop:
            return 1
        symbols = self.space(line)
        before = np.maximum(self.named(loop[2], symbols), 0) if loop[2] else 0
        return int(np.max(self.value(loop[3], symbols) - before, initial=0))

    def comes_first(self, line):
        """Whether shared memory is not accessed before this line."""
        shared = {m[1]: int(m[2]) for text in self.lines if (m := _ALLOC.match(text))}
        before = [at for at, *_ in self.shared_accesses(shared) if at < line]
        again = any(self.rounds(i) > 1 for i in self.around(line))
        return not again and not any(self.space(at)["reached"].any() for at in before)

    def shared_accesses(self, shared):
        """(line, kind, operands, elements) of all; a copy stores zeros where its mask is false."""
        for line, kind, operands in self.accesses():
            if operands[0] in shared:
                yield line, kind, operands, self.width(line)
        for line, text in enumerate(self.lines):
            if found := _COPY.match(text):
                elements = int(found[3]) * 8 // shared[found[1]]
                yield line, "store", [found[1], found[2]], elements


def _why_bound(fault, before, after):
    changed = []
    mask = re.match(r"(%[\w.]+) = expr\b", before.lines[fault.line - 1])
    for (line, kind, old), (_, _, new) in zip(before.accesses(), after.accesses()):
        if mask and not before.depends(old, mask[1]):
            continue  # it does not use what was changed
        if not np.array_equal(before.active(line, old), after.active(line, new)):
            changed.append(kind)
    if not changed:
        return IMPLIED
    if before.lines[fault.line - 1].startswith("if "):
        return AGAIN if _other_copy(before, fault.line - 1) else None
    return SAME_BITS if "store" in changed else UNUSED


def _other_copy(program, line):
    """Whether a branch is taken exactly if the one before it was not."""
    for i in range(line - 1, 0, -1):
        if program.lines[i].startswith("if ") and program.indents[i] == program.indents[line]:
            symbols = program.space(line)
            words = (_BRANCH.search(program.lines[at])[1] for at in (i, line))
            one, other = (np.asarray(program.value(w, symbols), bool) for w in words)
            return bool((one != other).all())
    return False


def _why_not_run(fault, program):
    """An index that is used only by accesses that are never executed, or a barrier that no thread
    reaches."""
    line = fault.line - 1
    if fault.kind != "index":
        return NEVER if not program.space(line)["reached"].any() else None
    defined = re.match(r"(%[\w.]+) = (?:expr|scalar)\b", program.lines[line])
    for at, _, operands in program.accesses():
        concerned = program.depends(operands[1:2], defined[1]) if defined else at == line
        if concerned and program.active(at, operands).any():
            return None
    return NEVER


def _why_dynamic(fault, program):
    """A mask of loads only, which depends on a value from memory."""
    defined = re.match(r"(%[\w.]+) = expr .*\$APPLY_EXPR_ARG_0", program.lines[fault.line - 1])
    if fault.kind != "bound" or not defined:
        return None
    masked = {k for _, k, at in program.accesses() if program.depends(at[2:3], defined[1])}
    return GATHERED if masked == {"load"} else None


def reason(fault, text, sizes, target):
    """The reason why a fault survived, or None if it is unknown."""
    program = Program(text, sizes)
    try:
        if fault.kind in ("bound", "condition"):
            return _why_bound(fault, program, Program(fault.text, sizes))
        why = _why_not_run(fault, program)
        if why or fault.kind != "barrier":
            return why
        in_step = target.startswith("gfx")
        if fault.what.startswith("barrier wave") and in_step:
            return LOCKSTEP
        if program.comes_first(fault.line - 1):
            return FIRST
        if program.within(fault.line - 1):
            return SAME_THREAD
        weaker = fault.what.endswith("(of the wave only)")
        if (weaker or in_step) and program.within(fault.line - 1, program.wave):
            return SAME_WAVE
        return None
    except NameError:  # a value known only at run time
        return _why_dynamic(fault, program)
