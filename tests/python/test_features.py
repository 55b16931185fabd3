"""The tables of what tests show (docs/library.md): no feature is claimed without a test."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import feature_record
from feature_record import covering, features_of
from test_docs import ROOT
from wave_lang import ops

sys.path.insert(0, f"{ROOT}/tools")
import gen_features  # noqa: E402

KNOWN = {"softmax", "attention"}


def test_lines_that_claim_too_much_are_named():
    good = "test_ops_rows.py::test_gated[0-cpu] softmax: cpu, f16"
    assert [*gen_features.problems(f"# words\n{good}\n", KNOWN)] == []
    for line, words in (
        ("test_ops_rows.py::test_gatd[0-cpu] softmax: cpu", "`test_ops_rows.py::test_gatd[0-cpu]`"),
        ("test_nowhere.py::test_gated softmax: cpu", "`test_nowhere.py::test_gated` is not a test"),
        ("test_ops_rows.py::test_gated softmix: cpu", "`softmix` is not a function"),
        ("softmax: cpu", "`softmax: cpu` is not a line"),
    ):
        assert [words in found for found in gen_features.problems(line, KNOWN)] == [True]


def test_features_of_a_call():
    x = np.ones((1, 3, 4, 8), "f2")
    found = lambda op, *args, **named: features_of(op, args, named, op(*args, **named))
    assert found(ops.softmax, x) == {"f16"}
    assert found(ops.softmax, x, scale=1.0) == {"f16"}  # the default
    out = np.empty_like(x)
    assert found(ops.softmax, x, scale=0.5, out=out) == {"f16", "scale", "out"}
    assert found(ops.attention, x, x, x, causal=False, window=(-1, -1)) == {"f16"}
    k = x[:, :, :2]
    assert found(ops.attention, x, k, k, causal=True, window=(2, 0), sinks=np.ones(4, "f4")) == {
        *("f16", "causal", "window", "sinks", "gqa")
    }
    heads_first = dict(layout="bhsd", return_lse=True)
    assert found(ops.attention, x, x[:, :1], x[:, :1], **heads_first) == {
        *("f16", "gqa", "layout", "return_lse", "lse")
    }


def test_few_tests_show_all():
    shown = {"a": {"f": {"1"}}, "b": {"f": {"1", "2"}, "g": {"1"}}, "c": {"g": {"1", "3"}}}
    plain = lambda made: {test: {op: set(x) for op, x in of.items()} for test, of in made.items()}
    assert plain(covering(shown, {})) == {"b": shown["b"], "c": {"g": {"3"}}}
    kept = {"z": {"f": {"1", "2"}}}
    assert plain(covering(shown, kept)) == {**kept, "c": {"g": {"1", "3"}}}


@pytest.fixture
def recorder(monkeypatch, tmp_path):
    monkeypatch.setattr(feature_record, "FILE", tmp_path / "features.txt")
    lines = ("one[0] softmax: cpu, f32", "two softmax: scale", "three attention: causal")
    text = "".join(f"test_made.py::test_{line}\n" for line in lines)
    feature_record.FILE.write_text(text)
    made = feature_record.Recorder(False)
    made.watch = feature_record.Watch()
    return made


def item(name):
    return SimpleNamespace(path=Path("test_made.py"), name=name)


def test_a_test_is_held_to_its_line(recorder):
    softmax = recorder.watch.watched("softmax", ops.softmax)

    def run(name):
        """A test that calls softmax without options."""
        steps = recorder.pytest_runtest_call(item(name))
        next(steps)
        softmax(np.ones((2, 4), "f4"))
        with pytest.raises(StopIteration):
            steps.send(None)

    run("test_one[0]")
    run("test_four")  # no line
    for name, words in (("two", "scale of softmax"), ("three", "causal of attention")):
        with pytest.raises(pytest.fail.Exception, match=f"shows {words}; it does not"):
            run(f"test_{name}")


def test_a_line_without_a_test_ends_the_session(recorder):
    check = recorder.pytest_collection_modifyitems
    config = SimpleNamespace(args=["tests"])
    check(config, [item("test_one[0]"), item("test_two"), item("test_other")])
    words = r"`test_made.py::test_one\[0\]`, which is not a test"
    with pytest.raises(pytest.UsageError, match=words):
        check(config, [item("test_one[1]")])
    check(SimpleNamespace(args=["test_made.py::test_one[1]"]), [item("test_one[1]")])
