"""The listings of docs/gpu.md that need a GPU."""

import linecache
import re
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/gpu.md"


def test_listings():
    text = DOCUMENT.read_text(encoding="utf-8")
    listings = re.findall(r"^```py\n(.*?)^```$", text, re.M | re.S)
    assert len(listings) >= 5
    namespace = {"__name__": "__listing__"}
    for number, code in enumerate(listings):
        name = f"gpu_listing{number}.py"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        exec(compile(code, name, "exec"), namespace)
