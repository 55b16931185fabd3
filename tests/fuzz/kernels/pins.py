"""Rows of a schedule for the loops over K: rings, depths, places and orders of reads, of other ops and
of parts of them, drawn before the ops are known."""

import random
import re

KINDS = ("depth", "kind", "ring", "ring", "copy", "moved", "moved", "fetch", "early", "early", "early")
KINDS += ("roles", "roles", "roles", "turns", "turns", "order", "order", "parts", "parts", "persist", "split")


def draw_pins(r):
    return [(r.choice(KINDS), r.randint(1, 5), r.random()) for _ in range(r.randint(1, 4))]


def loops(body):
    return "".join(re.findall(r"^  %\w+ = for K .*?^  }$", body, re.S | re.M))


def reads(body):
    """The values that loops over K read, in the text of a kernel's body."""
    return re.findall(r"%(\w+) = read ", loops(body))


def values(body):
    """All values that loops over K compute."""
    return re.findall(r"^    %(\w+) = (?!for|while|if)", loops(body), re.M)


def roles(case, n):
    """Waves that copy beside those that the machine's lanes make of the declared ones (sm_90a: 32)."""
    waves = case.waves_m * case.waves_n * case.waves_k * case.threads // 32
    registers = (" x 40", " x 232") if n == 5 else ("", "")
    return f"roles K load {(1, 4)[n % 2]}{registers[0]}, math {max(waves, 1)}{registers[1]}"


def turns(n, body):
    """Two or three groups take turns, at products if there are any."""
    products = re.findall(r"^    %(\w+) = mma ", loops(body), re.M)
    names = products or values(body)[n % 2 :][:1]
    return f"turns K {2 + n // 5} {' '.join(names)}" if names else None


def halves(names, products, r):
    """Fetches and products along K in two parts each; sometimes only the products."""
    fetched = r.random() < 0.5
    every = [n for n in names if n in products or (fetched and n.endswith(".fetch"))]
    firsts, seconds = ([f"{n}[K {half}/2]" for n in every] for half in (0, 1))
    return [n for n in names if n not in every] + firsts + seconds


def order(kind, which, body):
    """Fetches and other ops mostly as they were written, and copies anywhere among them."""
    r, read = random.Random(which), reads(body)
    products = re.findall(r"^    %(\w+) = mma ", loops(body), re.M)
    names = [n + ".fetch" for n in read if r.random() < 0.7]
    names += [n for n in values(body) if n not in read and (n in products or r.random() < 0.5)]
    if kind == "parts":
        names = halves(names, products, r)
    if len(names) > 1 and r.random() < 0.25:
        at = r.randrange(len(names) - 1)
        names[at : at + 2] = names[at + 1], names[at]
    for name in read:
        at = r.randint(0, len(names))
        names[at:at] = r.choice(([], [f"{name}.copy"], [f"{name}.store"], [f"{name}.load", f"{name}.store"]))
    return f"order K {' '.join(names)}" if names else None


# How the loop is unrolled and ends.
ROUNDS = ("", "", " unroll 2", " unroll 4", " drain peeled", " unroll 2 drain peeled", " unroll 3 drain peeled")


def row(kind, n, name, depth, which):
    stage, rounds = (n - 1) % depth, ROUNDS[int(which * len(ROUNDS))]
    return {
        "depth": f"schedule K depth {n}{rounds}",
        "kind": f"schedule K kind {('modulo', 'none', 'prefetch', 'four_stage', 'modulo')[n % 5]}",
        "ring": f"ring K {name} slots {n + 1}",
        "copy": f"at K {stage}.{n % 2} {name}.copy",
        "fetch": f"at K {stage}.{n % 3} {name}.fetch",
        "early": f"at K {stage}.{n % 3} {name}",
        "moved": f"at K {stage}.0 {name}.load; at K {(stage + n % 2) % depth}.1 {name}.store",
    }[kind]


def depth_of(case):
    """The stages that the first row about the loop gives it, if any. Ops are early only before a last
    stage."""
    for kind, n, _ in case.pins:
        if kind == "depth":
            return n
        if kind == "kind":
            return (9, 9, 2, 4, 9)[n % 5]
    return 4 if any(kind in ("early", "fetch") for kind, _, _ in case.pins) else 9


def pin_rows(case, body):
    """No row says twice what another one says: that is an error."""
    every, rows = {True: reads(body), False: values(body)}, {}
    for kind, n, which in case.pins if every[True] else ():
        names = every[kind != "early"]
        name = names[int(which * len(names))]
        about = "schedule" if kind in ("depth", "kind") else ("ring" if kind == "ring" else "at", name)
        if kind in ("persist", "split"):
            rows.setdefault(kind, f"{kind} {n}")
        elif kind == "roles":
            rows.setdefault("roles", roles(case, n))
        elif kind == "turns":
            rows.setdefault("turns", turns(n, body))
        elif kind in ("order", "parts"):
            rows.setdefault("order", order(kind, which, body))
        else:
            rows.setdefault(about, row(kind, n, name, depth_of(case), which))
    if rows and depth_of(case) == 4:
        rows.setdefault("schedule", "schedule K depth 4")
    return [text for text in rows.values() if text]
