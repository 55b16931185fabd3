"""Runs the tests of a module without pytest: parameters, fixtures of the module, `monkeypatch`."""

import inspect
import itertools
import os
import traceback
import types
import unittest

import pytest

SKIPPED = (unittest.SkipTest, getattr(pytest.skip, "Exception", unittest.SkipTest))
ABSENT = object()


class MonkeyPatch:
    """What tests use of pytest's."""

    def __init__(self):
        self.before = []

    def setitem(self, mapping, key, value):
        self.before.append((mapping, key, mapping.get(key, ABSENT)))
        mapping[key] = value

    def delitem(self, mapping, key, raising=True):
        if key in mapping or raising:
            self.before.append((mapping, key, mapping[key]))
            del mapping[key]

    def setattr(self, owner, name, value):
        self.setitem(vars(owner), name, value)

    def setenv(self, name, value):
        self.setitem(os.environ, name, value)

    def undo(self):
        for mapping, key, value in reversed(self.before):
            if value is not ABSENT:
                mapping[key] = value
            else:
                mapping.pop(key, None)
        self.before.clear()


def marks(test, name):
    return [mark for mark in getattr(test, "pytestmark", []) if mark.name == name]


def parameters(test):
    """{name: value} for each case."""
    tables = []
    for mark in marks(test, "parametrize"):
        names = [name.strip() for name in mark.args[0].split(",")]
        rows = [row if len(names) > 1 else (row,) for row in mark.args[1]]
        tables.append([dict(zip(names, getattr(row, "values", row))) for row in rows])
    for row in itertools.product(*tables):
        yield {name: value for part in row for name, value in part.items()}


def call(module, function, known, ends):
    """Calls a test or a fixture with the fixtures that its parameters name. What a fixture does
    after its `yield` is added to `ends`."""
    for name in inspect.signature(function).parameters:
        if name not in known:
            made = call(module, inspect.unwrap(getattr(module, name)), known, ends)
            if isinstance(made, types.GeneratorType):
                ends.append(made)
                made = next(made)
            known[name] = made
    return function(**{name: known[name] for name in inspect.signature(function).parameters})


def run_case(module, test, given):
    patch, ends = MonkeyPatch(), []
    try:
        call(module, test, {**given, "monkeypatch": patch}, ends)
    finally:
        for end in reversed(ends):
            next(end, None)
        patch.undo()


def run_tests(module, *words):
    """Runs the tests whose names contain one of the words, or all; prints how many, and those that
    fail."""
    passed = skipped = failed = 0
    for name, test in inspect.getmembers(module, inspect.isfunction):
        if not name.startswith("test_") or words and not any(word in name for word in words):
            continue
        if any(mark.args[0] for mark in marks(test, "skipif")):
            skipped += 1
            continue
        for number, given in enumerate(parameters(test)):
            try:
                run_case(module, test, given)
                passed += 1
            except SKIPPED:
                skipped += 1
            except Exception:
                lines = traceback.format_exc().strip().splitlines()
                failed += 1
                print(f"  {name}[{number}] failed\n    " + "\n    ".join(lines[-5:]))
    print(f"  {module.__name__}: {passed} passed, {failed} failed, {skipped} skipped")
    assert passed and not failed
