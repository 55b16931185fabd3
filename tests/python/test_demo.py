"""`make demo`: every kernel runs and gives the right result, and the page shows all of them."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from wave_lang import _wave
from wave_lang.kernel.wave.machine import devices

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ("copy", "softmax", "gemm", "convolution", "attention")
VOID = {"meta", "input", "br"}


class Page(HTMLParser):
    """Elements in order; each that is opened is closed, in the right order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.tags, self.problems = [], [], [], []
        self.feed(text)
        self.close()
        self.problems += [f"<{tag}> is not closed" for tag in self.open]

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.problems += [f"{name}={value}" for name, value in attrs if name in ("src", "srcset")]
        self.problems += [v for n, v in attrs if n == "href" and not v.startswith("#")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}>")


def demo(*options, cwd):
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(ROOT / "tools/demo.py"), *options],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.skipif(not devices("cpu"), reason="there is no libLLVM")
def test_the_demo_writes_its_page(tmp_path):
    done = demo("--seconds", "0.02", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    table = done.stdout
    for kernel in KERNELS:
        assert re.search(rf"^{kernel} .* ok$", table, re.M), table
    text = (tmp_path / "demo-report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not page.problems and "http:" not in text.replace("http://www.w3.org", "")
    assert {f"kernel-{kernel}" for kernel in KERNELS} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert page.tags.count("svg") >= 4 and page.tags.count("details") >= len(KERNELS)
    assert "@tkw.iterate(K, init_args=[zero])" in text  # a kernel's source
    assert "with_torch" not in text  # and no more


def test_one_kernel_without_a_page(tmp_path):
    done = demo("--kernel", "softmax", "--seconds", "0.01", "--html", "", cwd=tmp_path)
    assert done.returncode == 0 and "softmax" in done.stdout and "gemm" not in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_kernel_that_does_not_exist(tmp_path):
    done = demo("--kernel", "sofmax", cwd=tmp_path)
    assert done.returncode == 2 and "unknown kernel `sofmax`" in done.stderr


# ---- arguments of the extension ----------------------------------------------------------------


def test_rows_are_checked():
    page = lambda *rows: _wave.measurements_html("t", ["m"], list(rows))
    row = {"kernel": "k", "target": "cpu"}
    assert not Page(page(row)).problems and "kernel-k" in Page(page(row)).ids
    for wrong in (
        {"kernel": "k"},
        {**row, "nonsense": 1},
        {**row, "run_ms": "fast"},
        {**row, "rivals": [("NumPy",)]},
        {**row, "rivals": ["NumPy"]},
        {**row, "rivals": 3},
        {**row, "remarks": [("R0601", "text")]},
        "row",
    ):
        with pytest.raises(TypeError):
            page(wrong)
    with pytest.raises(TypeError):
        _wave.measurements_html("t", [1], [])
    with pytest.raises(TypeError):
        _wave.measurements_html("t", "m", 3)


def test_a_wrong_result_is_not_called_right():
    row = {"kernel": "k", "target": "cpu", "error": float("nan"), "allowed": 1.0}
    assert "1 of 1 results are wrong" in _wave.measurements_html("t", [], [row])
