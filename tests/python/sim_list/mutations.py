"""Mutations of one lane's program: a table of changes to a line, in addition to the faults of
thread_faults.py.

Synchronisation of threads and copies is dropped or weakened, the counts of barriers are changed,
phases are flipped, shuffles read another lane, loops run once more or less, masks and bounds are
off by one.
"""

import re
from dataclasses import dataclass
from typing import Callable

from thread_faults import Fault, faults

_FRESH = "%mutant"


@dataclass(frozen=True)
class Mutation:
    """`become` turns a match of `pattern` in the stripped line into the lines that replace it."""

    kind: str
    what: str
    pattern: str
    become: Callable


def _gone(match):
    return []


def _number(by):
    """The second group is a number, which is increased by `by`."""
    return lambda m: [f"{m[1]}{int(m[2]) + by}{m[3]}"]


def _word(new):
    """The second group becomes another word."""
    return lambda m: [f"{m[1]}{new}{m[3]}"]


def _operand(expression):
    """The second group is a value, which becomes an expression of it."""
    return lambda m: [f"{_FRESH} = expr {expression} {m[2]} : i32", f"{m[1]}{_FRESH}{m[3]}"]


def _unmoved(m):
    """Replaces a shuffle by the lane's own value."""
    wide = re.search(r"vec<(\d+)", m[3])
    registers = ", ".join(str(i) for i in range(int(wide[1]) if wide else 1))
    return [f"{m[1]}pick [{registers}] {m[2]}{m[3]}"]


_ONE_MORE, _ONE_LESS = "$APPLY_EXPR_ARG_0 + 1", "$APPLY_EXPR_ARG_0 - 1"
_CONDITION = r"(%[\w.]+ = expr .*?|(?:%[\w., ]+ = )?if .*?)"  # then a comparison, then the rest

MUTATIONS = (
    Mutation("barrier", "of the wave only", r"(barrier )(workgroup)(.*)", _word("wave")),
    Mutation("commit", "removed", r"(async_commit|bulk_commit|wgmma_commit)\b.*", _gone),
    Mutation("wait", "counter one less", r"(counter_\w+ .*?: )(\d+)(.*)", _number(1)),
    Mutation("arrive", "removed", r"(mbar_\w*arrive\w*|mbar_expect|mbar_init)\b.*", _gone),
    Mutation("arrive", "count one more", r"(mbar_init .*count = )(\d+)(.*)", _number(1)),
    Mutation("arrive", "count one less", r"(mbar_init .*count = )(\d+)(.*)", _number(-1)),
    Mutation("arrive", "16 bytes more", r"(mbar_(?:arrive|expect) .*bytes = )(\d+)(.*)", _number(16)),
    Mutation("arrive", "16 bytes less", r"(mbar_(?:arrive|expect) .*bytes = )(\d+)(.*)", _number(-16)),
    Mutation("copy", "removed", r"(copy_async|tma_load|tma_store)\b.*", _gone),
    Mutation("store", "removed", r"(store|stmatrix)\b.*", _gone),
    Mutation("phase", "flipped", r"(mbar_wait %\S+, %\S+, )(%\S+)()", _operand("1 - $APPLY_EXPR_ARG_0")),
    Mutation("phase", "next slot", r"(mbar_wait %\S+, )(%[\w.]+)(, .*)", _operand(_ONE_MORE)),
    Mutation("phase", "next slot", r"(mbar_arrive %\S+, )(%[\w.]+)(.*)", _operand(_ONE_MORE)),
    Mutation("shuffle", "one lane more", r"(.* = shuffle .*by = )(\d+)(.*)", _number(1)),
    Mutation("shuffle", "up", r"(.* = shuffle )(xor|down)(.*)", _word("up")),
    Mutation("shuffle", "down", r"(.* = shuffle )(xor|up)(.*)", _word("down")),
    Mutation("shuffle", "none", r"(%\S+ = )shuffle \w+ (%\S+) .*( : .*)", _unmoved),
    Mutation("shuffle", "next lane", r"(.* = shuffle_idx %\S+, )(%[\w.]+)(.*)", _operand(_ONE_MORE)),
    Mutation("trips", "one more", r"(.*\btrips = )([^}]*)(\}.*)", lambda m: [f"{m[1]}{m[2]} + 1{m[3]}"]),
    Mutation("trips", "one less", r"(.*\btrips = )([^}]*)(\}.*)", lambda m: [f"{m[1]}{m[2]} - 1{m[3]}"]),
    Mutation("mask", "mask removed", r"(.*\bload %[\w.]+, %[\w.]+)(, %[\w.]+)( .*)", _word("")),
    Mutation("mask", "mask removed", r"(store %[\w.]+, %[\w.]+, %[\w.]+)(, %[\w.]+)(.*)", _word("")),
    Mutation("mask", "mask removed", r"(copy_async (?:%[\w.]+, ){3}%[\w.]+)(, %[\w.]+)(.*)", _word("")),
    Mutation("mask", "mask removed", r"(.*\batomic \w+ (?:%[\w.]+, ){2}%[\w.]+)(, %[\w.]+)(.*)", _word("")),
    Mutation("edge", "< is <=", _CONDITION + r"( < )(.*)", _word(" <= ")),
    Mutation("edge", "<= is <", _CONDITION + r"( <= )(.*)", _word(" < ")),
    Mutation("edge", ">= is >", _CONDITION + r"( >= )(.*)", _word(" > ")),
    Mutation("edge", "> is >=", _CONDITION + r"( > )(.*)", _word(" >= ")),
    Mutation("offset", "one less", r"(.*\b(?:ldmatrix|load) %[\w.]+, )(%[\w.]+)(.*)", _operand(_ONE_LESS)),
    Mutation("offset", "one less", r"(store %[\w.]+, %[\w.]+, )(%[\w.]+)(.*)", _operand(_ONE_LESS)),
    Mutation("offset", "one less", r"(copy_async %[\w.]+, )(%[\w.]+)(.*)", _operand(_ONE_LESS)),
    Mutation("offset", "one less", r"(.* = wgmma \S+ %\S+ %\S+ )(%[\w.]+)(,.*)", _operand(_ONE_LESS)),
    Mutation("offset", "one more", r"(tma_\w+ %[\w.]+, )(%[\w.]+)(.*)", _operand(_ONE_MORE)),
    Mutation("offset", "box one on", r"(tma_load .*, )(%[\w.]+)( \{.*)", _operand(_ONE_MORE)),
)  # fmt: skip
_ROWS = [(row, re.compile(row.pattern)) for row in MUTATIONS]


def mutants(text):
    """Every fault of a printed kernel, and every mutation of the table."""
    yield from faults(text)
    lines = text.splitlines()
    for i, line in enumerate(lines):
        bare = line.strip()
        space = line[: len(line) - len(line.lstrip())]
        for row, pattern in _ROWS:
            if match := pattern.fullmatch(bare):
                new = [space + word for word in row.become(match)]
                changed = "\n".join(lines[:i] + new + lines[i + 1 :]) + "\n"
                yield Fault(row.kind, i + 1, f"{bare}  ({row.what})", changed)
