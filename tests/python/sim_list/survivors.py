"""The list of faults that survived, maintained by runs that each cover a part of it.

A line says where and what, the next one why. A run replaces the faults that it has tried, drops
those that its kernels no longer contain, and keeps the rest, so that processes may share the work.
"""

import fcntl
from pathlib import Path


class Survivors:
    def __init__(self, path):
        self.path = Path(path)
        self.tried = {}  # place -> titles of all faults of its kernel, and of those that were tried
        self.found = {}  # title -> reason

    def take(self, place, every, tried):
        """A kernel's faults, and those of them that this run tries."""
        known, mine = self.tried.setdefault(place, (set(), set()))
        known.update(f"{place}: {fault}" for fault in every)
        mine.update(f"{place}: {fault}" for fault in tried)

    def add(self, place, fault, reason):
        self.found[f"{place}: {fault}"] = reason

    def keeps(self, title):
        """Whether an earlier run's entry is still valid, as far as this run knows."""
        known, mine = self.tried.get(title.partition(": ")[0], (None, ()))
        return known is None or (title in known and title not in mine)

    def write(self):
        with open(self.path, "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            lines = file.read().splitlines()
            old = {title: why.strip() for title, why in zip(lines[::2], lines[1::2])}
            kept = {title: why for title, why in old.items() if self.keeps(title)}
            merged = sorted({**kept, **self.found}.items())
            file.truncate(0)
            file.write("".join(f"{title}\n    {why}\n" for title, why in merged))
