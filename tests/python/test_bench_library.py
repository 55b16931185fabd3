"""`make bench-library` in small sizes: it measures, and no peer ends it."""

import json
import sys
from types import SimpleNamespace

import pytest

from test_docs import ROOT

sys.path.insert(0, f"{ROOT}/bench")
import bench_library  # noqa: E402
import library_peers  # noqa: E402
import library_rows  # noqa: E402
from library_peers import Peer  # noqa: E402
from library_rows import Bar, Case, Maker, Row  # noqa: E402


@pytest.fixture
def table():
    return bench_library.Table(SimpleNamespace(only="", small=True, no_compile=False), Maker())


def case(*peers, call=lambda x: x + x):
    return lambda make: Case(call, (make.single(64),), 512.0, "TB/s", list(peers))


def fails(*_):
    raise RuntimeError("no such kernel\nand more")


def test_small_rows_are_measured(tmp_path, monkeypatch, capsys):
    out = tmp_path / "rows.json"
    monkeypatch.setattr(sys, "argv", ["x", "--small", "--only", "softmax,gate", "--json", str(out)])
    assert bench_library.main() == 0
    found = json.loads(out.read_text())
    assert [row["name"] for row in found["rows"]] == ["gate 64 top 2 of 16", "softmax 4x1024", "softmax 4x2048"]
    assert found["copy"] > 0 and all(row["us"] > 0 for row in found["rows"])
    assert "softmax 4x1024" in capsys.readouterr().out


def test_a_peer_that_fails_leaves_the_figure_of_another_run(table):
    table.full = True  # of an H200; the sizes here are small
    found = table.measure(Row("x", Bar("peer", 1e-9), case(Peer("that", fails, us=1e6))))
    assert found["peer"] == "that*" and found["state"] == "ok"
    if library_peers.torch:  # otherwise nothing of PyTorch is tried
        assert found["errors"] == ["that: RuntimeError: no such kernel"]
    found = table.measure(Row("x", Bar("peer", 1.0), case(Peer("that", fails))))
    assert found["state"] == "no peer" and "ratio" not in found


def test_the_hardest_peer_counts(table):
    table.full = True
    peers = Peer("slow", us=3e6), Peer("quick", us=1e-6)
    found = table.measure(Row("x", Bar("peer", 1.0), case(*peers)))
    assert found["peer"] == "quick*" and found["state"] == "missed"
    assert set(found["peers"]) == {"slow*", "quick*"}
    peer = Peer("half the work", us=1.0, amount=256.0)  # rates are compared
    found = table.measure(Row("x", None, case(peer)))
    assert found["ratio"] == pytest.approx(2.0 / found["us"]) and found["state"] == ""


def test_our_errors_count_and_what_is_missing_is_named(table, monkeypatch):
    assert table.measure(Row("x", None, case(call=fails)))["state"] == "failed"
    monkeypatch.setattr(bench_library, "torch", None)
    row = Row("y", None, case(), needs_torch=True)
    assert table.measure(row)["state"] == "needs PyTorch"
    assert table.summary() == 1


@pytest.mark.parametrize("sizes", [library_rows.FULL, library_rows.SMALL])
def test_names_of_rows_differ(sizes):
    names = [row.name for row in library_rows.all_rows(sizes)]
    assert len(set(names)) == len(names) > 40


def test_peers_of_pytorch_run_here(table):
    pytest.importorskip("torch")
    table.options.only = "prefill ragged,backward dense,grouped,rms_norm backward,top_p"
    rows = list(filter(table.wanted, library_rows.all_rows(library_rows.SMALL)))
    found = [table.measure(row) for row in rows]
    assert len(found) == 7 and all("ratio" in row and "errors" not in row for row in found)
