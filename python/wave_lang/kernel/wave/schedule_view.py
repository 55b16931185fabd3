"""What `kernel.schedule()` and `kernel.timeline()` return: texts and pictures that C has made."""

from __future__ import annotations

import json
from typing import Any, Callable


class _View:
    """A text, a picture of the first loop and numbers; a notebook shows the pictures of all loops."""

    def __init__(self, show: Callable[[str], str]):
        self._show = show  # one of the forms of wv_schedule_as or wv_timeline_as
        self.text = show("text")

    @property
    def svg(self) -> str:
        return self._show("svg")

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self._show("json"))

    def _repr_html_(self) -> str:
        return self._show("fragment")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        what = type(self).__name__.lower()
        return f"<{what} of {self.data['kernel']} on {self.data['target']}>"


class Schedule(_View):
    """How the loops of a kernel are pipelined on its machine, and what that is predicted to take.

    `str()` is the text of a schedule file, which `override_schedule` reads. A notebook shows the
    pictures; `svg` is that of the first loop, `html` a page with all of them, `data` their numbers.
    """

    @property
    def html(self) -> str:
        return self._show("html")


class Timeline(_View):
    """What a launch measured of the loops of a kernel, beside what is predicted.

    `str()` is a table; a notebook also shows pictures. `svg` is that of the first loop, `data` has the
    numbers: for each loop, cycles per iteration and what each op takes.
    """


__all__ = ["Schedule", "Timeline"]
