"""The features of cases: a row for each, so that `--stats` can print how often it is drawn and how
often each way runs it. A feature that is drawn and always rejected counts as not drawn."""

import re
from collections import Counter

from .text import text_of

ATOMICS = ("atomic_add", "atomic_min", "atomic_max", "atomic_or", "atomic_xor", "atomic_compare_exchange")


def gathered_ring(case, text):
    """A matmul of rows gathered through a table, in a loop of several iterations that keeps tiles
    in shared memory."""
    rows = re.search(r"for K .*\$dynamic_val0.*= mma", text, re.S)
    return bool(rows) and case.size["K"] > case.tile["K"] and "stages 1" not in case.wishes


def masked_ring(case, text):
    """A loop of several waves over a ring of tiles that are smaller than matrices."""
    ring = case.size["K"] > case.tile["K"] and re.search(r"\n  stages [2-4]", text)
    small = case.tile["N"] % 16 or case.tile["K"] % 16
    return bool(ring and small and case.waves_m > 1 and "for K" in text)


def wrong_way(case, text):
    """A matmul of tiles in shared memory, stored along M or N, in any size."""
    stored = re.findall(r"read (%a\d+)", text)
    tall = [p for p in case.used if p[0] in stored and p[1][0] == "K" and "shared" in p[3]]
    return bool(tall) and "= mma " in text


def part_of_span(case, text):
    """Columns of a warpgroup that are not whole swizzle spans, of 64 elements of f16."""
    return case.wide and case.tile["N"] // case.waves_n % 64 != 0


def ragged(case, *dims):
    return any(case.size[d] % case.tile[d] for d in dims if case.tile[d])


def no_power(n):
    return n & (n - 1) != 0


ROWS = {
    "while loop": lambda c, t: bool(c.loops),
    "while loop in a while loop": lambda c, t: any("nested" in how for how in c.loops),
    "while loop, rounds from memory": lambda c, t: "set_symbol LI" in t or "set_symbol LJ" in t,
    "while loop, ended by a flag": lambda c, t: "$GET_ITER_ARG_0" in t,
    "while loop, row by its counter": lambda c, t: bool(re.search(r"\{T: signed\([IJ]\.", t)),
    "loop over K": lambda c, t: "for K" in t,
    "product in parts of K": lambda c, t: c.target.startswith("cpu") and c.tile["K"] >= 300 and "= mma" in t,
    "loop over K with a start": lambda c, t: "for K from" in t,
    "rows for which a loop over K is over": lambda c, t: "until = {M" in t,
    "waves that skip iterations": lambda c, t: c.target == "sm_90a" and "until = {M" in t and "\n  roles K" in t,
    "if in a loop over K": lambda c, t: bool(re.search(r"for K.*\n    %v\d+ = if ", t, re.S)),
    "if and else": lambda c, t: bool(re.search(r"if \(\$WG0 <.*if \(\$WG0 >=", t, re.S)),
    "if of some workgroups": lambda c, t: "= if (" in t,
    "read where a table says": lambda c, t: bool(re.search(r"read %a\d+, %", t)),
    "read of a dim of another name": lambda c, t: bool(re.search(r"\bT: \$index", t)),
    "write where a table says": lambda c, t: bool(re.search(r"write %v\d+, %o\d, %", t)),
    "table with the largest numbers": lambda c, t: "wild" in [k for n, k in c.tables.items() if n + ":" in t],
    "table looked up elsewhere": lambda c, t: bool(re.search(r"with \{[MN]: \d*\*?[Ff]loor|with \{[MN]: .*Mod", t)),
    "table of i64": lambda c, t: any(n in c.tables and d == "i64" for n, _, d, _ in c.used),
    "mapping with 2*v, 3*v or -v": lambda c, t: bool(re.search(r"\d\*signed\(\$dynamic_val0", t)),
    "mapping moved out of range": lambda c, t: bool(re.search(r"\$index\d [+-] \d", t)),
    "atomic": lambda c, t: any(op in t for op in ATOMICS),
    "atomic where a table says": lambda c, t: any(h[0] in ATOMICS and h[1] for h in c.how.values()),
    "atomic of a value that all lanes hold": lambda c, t: any(
        c.how.get(n, ("write",))[0] in ATOMICS and len(v.dims) == 1 for n, _, v in c.outputs
    ),
    "write along a dim that is lacking": lambda c, t: any(
        n not in c.how and len(o) > len(v.dims) for n, o, v in c.outputs
    ),
    "stored after a dim got another size": lambda c, t: bool(c.resized),
    "gathered operand and a ring": gathered_ring,
    "ring of ragged tiles": masked_ring,
    "operand in shared memory along M or N": wrong_way,
    "several warpgroups": lambda c, t: c.wide and c.waves_m * c.waves_n * c.threads > 128,
    "columns that are not whole spans": part_of_span,
    "tile that fills the registers": lambda c, t: c.crowded,
    "product": lambda c, t: "= mma " in t,
    "product with scales": lambda c, t: "= scaled_mma " in t,
    "product of two numbers in a byte": lambda c, t: bool(c.packed) and "= mma " in t,
    "reduction over a ragged edge": lambda c, t: bool(re.search(r"= (sum|max|min|prod) .*dim = K", t))
    and ragged(c, "K"),
    "compare and exchange": lambda c, t: "atomic_compare_exchange" in t,
    "constants at the ends of their type": lambda c, t: bool(re.search(r"x = scalar .*\n.*y = scalar", t)),
    "arithmetic in bf16": lambda c, t: bool(re.search(r"y = cast .*bf16>", t)),
    "arithmetic in f16": lambda c, t: bool(re.search(r"y = cast .*, f16>", t)),
    "subtraction that saturates": lambda c, t: bool(re.search(r"m = maximum .*\n.*= sub %\w+m, ", t)),
    "sum that saturates": lambda c, t: bool(re.search(r"g = maximum .*\n.*n = minimum ", t)),
    "half a round of Philox": lambda c, t: "3528531795" in t,
    "product of elements": lambda c, t: "= prod " in t,
    "place of the largest or smallest": lambda c, t: bool(re.search(r"= (max|min) .*\n.*= broadcast .*\n.*= eq ", t)),
    "assertion": lambda c, t: "report %fine" in t,
    "reduction of some workgroups": lambda c, t: bool(re.search(r"if .* carry %v\d+e = .*\n.*= sum", t)),
    "inline PTX": lambda c, t: "inline_ptx" in t,
    "inline PTX of several results": lambda c, t: ", which = " in t,
    "cumsum": lambda c, t: "cumsum" in t,
    "reduction with a function": lambda c, t: "= reduce " in t,
    "scan with a function": lambda c, t: "= scan " in t,
    "product over a ragged edge": lambda c, t: "= mma " in t and ragged(c, "K"),
    "free layout": lambda c, t: "layout(" in t,
    "tensors that disagree": lambda c, t: c.disagree and bool(c.spare),
    "tensor that does not lie row by row": lambda c, t: any(c.views.values()),
    "read with bounds": lambda c, t: "bounds = " in t,
    "read with another number outside": lambda c, t: "other = " in t,
    "assumption": lambda c, t: bool(c.assumed),
    "option: stages": lambda c, t: "\n  stages" in t,
    "option: again": lambda c, t: "\n  again 1" in t,
    "option: fetch": lambda c, t: "\n  fetch 1" in t and c.target == "sm_90a" and "for K" in t,
    "option: boxes": lambda c, t: "\n  boxes" in t,
    "option: swizzle": lambda c, t: "\n  swizzle" in t,
    "option: timeline": lambda c, t: "\n  timeline" in t,
    "option: overlap": lambda c, t: "\n  overlap" in t,
    "schedule: depth": lambda c, t: "\n  schedule K" in t,
    "schedule: ring": lambda c, t: "\n  ring K" in t,
    "schedule: place": lambda c, t: "\n  at K" in t,
    "schedule: modulo": lambda c, t: "kind modulo" in t,
    "schedule: roles": lambda c, t: c.target == "sm_90a" and "\n  roles K" in t,
    "schedule: turns": lambda c, t: "\n  turns K" in t,
    "products by workgroups that stay": lambda c, t: c.stays,
    "several tiles per workgroup": lambda c, t: c.target == "sm_90a" and "\n  persist" in t,
    "loops as long as rows need": lambda c, t: "tile K by" in t and " iters Max(0" in t,
    "loops that begin where rows do": lambda c, t: "*Max(0, floor((" in t,
    "several tiles that begin so": lambda c, t: bool(re.search(r"\n  persist [\s\S]*\*Max\(0, floor\(\(", t)),
    "several such tiles per workgroup": lambda c, t: " iters Max(0" in t and c.target == "sm_90a" and "\n  persist" in t,
    "operands copied to aligned rows": lambda c, t: "\n  repack 1" in t and "= mma " in t,
    "several workgroups per tile": lambda c, t: c.target.startswith(("sm_", "gfx")) and "\n  split" in t,
    "sum over workgroups": lambda c, t: c.shares and c.size["P"] > 1,
    "sum over workgroups that is a number": lambda c, t: bool(re.search(r"s = sum .*dim = P, grid", t)),
    "schedule: early op": lambda c, t: any(kind in ("early", "fetch") for kind, _, _ in c.pins) and "\n  at K" in t,
    "schedule: order of ops": lambda c, t: "\n  order K" in t,
    "schedule: halves of ops": lambda c, t: bool(re.search(r"\n  order K .*\[K 1/2\]", t)),
    "option: fast math": lambda c, t: c.fast_math,
    "size 0": lambda c, t: any(c.has(d) and c.size[d] == 0 for d in "MNKT"),
    "size 1": lambda c, t: any(c.has(d) and c.size[d] == 1 for d in "MNKT"),
    "tile that is not a power of two": lambda c, t: any(no_power(c.tile[d]) for d in "MNK"),
    "size from a tensor": lambda c, t: "\n  dynamic" in t,
    "tile as large as a tensor": lambda c, t: c.open and "N" in c.symbols(),
    "several waves": lambda c, t: c.waves_m * c.waves_n > 1,
    "waves that share the tile of a loop": lambda c, t: c.waves_k > 1 and "for K" in t,
    "product whose sum waves share": lambda c, t: c.waves_k > 1
    and c.tile["K"] % (16 * c.waves_k) == 0
    and bool(re.search(r"for K .*= mma ", t, re.S)),
    "thread number": lambda c, t: c.observable,
    "u32": lambda c, t: ", u32" in t,
    "u8": lambda c, t: ", u8" in t,
    "i16": lambda c, t: ", i16" in t,
    "i64": lambda c, t: ", i64" in t,
}


def features(case):
    text = text_of(case)
    return [name for name, has in ROWS.items() if has(case, text)]


class Stats:
    """How often each feature was drawn, and by which ways it was run."""

    def __init__(self):
        self.drawn, self.ran = Counter(), Counter()

    def add(self, case, ways):
        for name in ("all", *features(case)):
            self.drawn[name] += 1
            for way in ways:
                self.ran[name, way] += 1

    def table(self):
        """{feature: {"drawn": n, way: n}}"""
        ways = sorted({way for _, way in self.ran})
        return {
            name: {"drawn": self.drawn[name], **{way: self.ran[name, way] for way in ways}}
            for name in ("all", *ROWS)
        }

    def print(self):
        rows = self.table()
        ways = list(rows["all"])
        print(f"{'':40}" + "".join(f" {way:>6}" for way in ways))
        for name, row in rows.items():
            print(f"{name:40}" + "".join(f" {row[way]:{max(6, len(way))}}" for way in ways))
