"""What tests show about the functions of `wave_lang.ops`, for the tables of docs/library.md.

tests/python/features.txt has lines `test op: feature, …`: this test calls this function with these
features. Each time such a test runs, the calls are watched, and the test fails if it did not show
what its line says. tools/gen_features.py makes the tables from the lines. The lines are written by

    pytest tests/python/test_ops_*.py --record-features

which keeps those of files that it does not run. Features are parameters with another value than
their default, and what `features_of` adds.
"""

import functools
import inspect
from collections import defaultdict
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("features.txt")
TARGETS = ("cpu", "sim:sm_90a", "sim:gfx942")
TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
# What `**options` of attention stand for if they are not given.
DEFAULTS = (None, False, 0, "", (-1, -1))


def plain(value):
    """A value that `==` compares as a whole."""
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    return value if isinstance(value, (bool, int, float, str, type(None))) else object()


def dtype_of(value):
    return str(getattr(value, "dtype", "")).removeprefix("torch.")


def heads_of(given, name):
    shape = getattr(given.get(name), "shape", ())
    if len(shape) < 3:
        return 1
    return shape[1 if given.get("layout") == "bhsd" else -2]


def features_of(function, args, named, made):
    """The features of a call that gave `made`."""
    signature = inspect.signature(function)
    bound = signature.bind(*args, **named)
    given, found = dict(bound.arguments), set()
    given |= given.pop("options", {}) | given.pop("given", {})
    for name, value in given.items():
        parameter = signature.parameters.get(name)
        usual = None if parameter is None else parameter.default
        if usual is inspect.Parameter.empty:
            continue
        if plain(value) not in (usual, *DEFAULTS):
            found.add(name)
    every = [made] if not isinstance(made, tuple) else list(made)
    bound.apply_defaults()
    if {**bound.arguments, **given}.get("causal") is True and "custom_mask" not in found:
        found.add("causal")
    results = {n for n, value in named.items() if any(value is x is not None for x in every)}
    found -= results
    if results:
        found.add("out")
    keys = next((name for name in ("k_cache", "cache", "k") if name in given), None)
    if "q" in given and keys and (keys != "k" or "v" in given):
        if heads_of(given, "q") != (1 if keys == "cache" else heads_of(given, keys)):
            found.add("gqa")
        if dtype_of(given[keys]).startswith("float8"):
            found.add("keys of 8 bits")
        if len(every) == 2:
            found.add("lse")
    first = next(iter(given.values()), None)
    if dtype_of(first) in TYPES:
        found.add(TYPES[dtype_of(first)])
    return found


class Watch:
    """Notes calls of functions of `ops`, by the names of the functions, while `found` is a dict."""

    found = None

    def install(self):
        """Before tests are imported, because some have tables of functions."""
        from wave_lang import ops

        for name in set(ops.__all__) - {"define_operators", "on_target"}:
            function = getattr(ops, name)
            setattr(ops, name, self.watched(function.__name__, function))

    def watched(self, name, function):
        from wave_lang.ops import programs

        @functools.wraps(function)
        def call(*args, **named):
            if self.found is None:
                return function(*args, **named)
            try:
                made = function(*args, **named)
            except (TypeError, ValueError):
                self.found[name].add("refused")
                raise
            target = programs._target.get() or "cpu"
            self.found[name] |= features_of(function, args, named, made) | {target} & set(TARGETS)
            return made

        return call


def read():
    """{test: {op: features}}"""
    lines = defaultdict(dict)
    for line in FILE.read_text().splitlines() if FILE.exists() else ():
        if line and not line.startswith("#"):
            test, op, features = line.split(" ", 2)
            lines[test][op.rstrip(":")] = set(features.split(", "))
    return lines


def name_of(item):
    return f"{item.path.name}::{item.name}"


def covering(shown, kept):
    """Few tests that together show what `kept` does not, and `kept`: {test: {op: features}}, each
    feature of an op once."""
    pairs = lambda test, of: {(op, f) for op, found in of[test].items() for f in found}
    missing = set().union(*(pairs(test, shown) for test in shown))
    missing -= set().union(*(pairs(test, kept) for test in kept))
    chosen = defaultdict(lambda: defaultdict(set), kept)
    while missing:
        best = max(sorted(shown), key=lambda test: len(pairs(test, shown) & missing))
        for op, feature in pairs(best, shown) & missing:
            chosen[best][op].add(feature)
        missing -= pairs(best, shown)
    return chosen


class Recorder:
    """The plugin of pytest. The tests of a session with --record-features are the new lines."""

    def __init__(self, recording):
        self.lines, self.recording, self.shown = read(), recording, {}
        self.watch, self.files = None, {test.partition("::")[0] for test in self.lines}

    def pytest_pycollect_makemodule(self, module_path):
        if self.watch is None and (self.recording or module_path.name in self.files):
            self.watch = Watch()
            self.watch.install()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config, items):
        """A line whose test there is not would claim something for nothing."""
        if self.recording or any("::" in arg for arg in config.args):
            return
        names = set(map(name_of, items))
        functions = {name.partition("[")[0] for name in names}
        for test in self.lines:
            if test.partition("[")[0] in functions and test not in names:
                raise pytest.UsageError(f"{FILE.name} names `{test}`, which is not a test")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        test = name_of(item)
        wanted = self.lines.get(test)
        if not wanted and not self.recording:
            return (yield)
        self.watch.found = found = defaultdict(set)
        try:
            made = yield
        finally:
            self.watch.found = None
        if self.recording:
            self.shown[test] = {op: features for op, features in found.items() if features}
            return made
        for op, features in wanted.items():
            missing = features - found[op]
            if missing:
                missing = ", ".join(sorted(missing))
                pytest.fail(f"{FILE.name} says that this test shows {missing} of {op}; it does not")
        return made

    def pytest_sessionfinish(self, exitstatus):
        if self.recording and exitstatus == 0:
            files = {test.partition("::")[0] for test in self.shown}
            kept = {t: ops for t, ops in self.lines.items() if t.partition("::")[0] not in files}
            lines = [
                f"{test} {op}: {', '.join(sorted(features))}"
                for test, ops in covering(self.shown, kept).items()
                for op, features in ops.items()
            ]
            head = "# Written by pytest --record-features: see feature_record.py.\n"
            FILE.write_text(head + "\n".join(sorted(lines)) + "\n")
