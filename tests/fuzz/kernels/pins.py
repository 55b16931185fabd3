"""Rows of a schedule for the loops over K: rings, depths and places of reads, drawn before the reads
are known."""

import re

KINDS = ("depth", "kind", "ring", "ring", "copy", "moved", "moved")


def draw_pins(r):
    return [(r.choice(KINDS), r.randint(1, 5), r.random()) for _ in range(r.randint(1, 3))]


def reads(body):
    """The values that loops over K read, in the text of a kernel's body."""
    loops = re.findall(r"^  %\w+ = for K .*?^  }$", body, re.S | re.M)
    return re.findall(r"%(\w+) = read ", "".join(loops))


def row(kind, n, name, depth):
    stage = (n - 1) % depth
    return {
        "depth": f"schedule K depth {n}",
        "kind": f"schedule K kind {('none', 'prefetch', 'four_stage')[n % 3]}",
        "ring": f"ring K {name} slots {n + 1}",
        "copy": f"at K {stage}.{n % 2} {name}.copy",
        "moved": f"at K {stage}.0 {name}.load; at K {(stage + n % 2) % depth}.1 {name}.store",
    }[kind]


def depth_of(case):
    """The stages that the first row about the loop gives it, if any."""
    for kind, n, _ in case.pins:
        if kind == "depth":
            return n
        if kind == "kind":
            return (9, 2, 4)[n % 3]
    return 9


def pin_rows(case, body):
    """No row says twice what another one says: that is an error."""
    names, rows = reads(body), {}
    for kind, n, which in case.pins if names else ():
        name = names[int(which * len(names))]
        about = "schedule" if kind in ("depth", "kind") else ("ring" if kind == "ring" else "at", name)
        rows.setdefault(about, row(kind, n, name, depth_of(case)))
    return list(rows.values())
