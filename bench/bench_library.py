"""The kernel library on the GPU of this machine, or in small sizes on its CPU (make bench-library).

    bench_library.py [--only WORD[,WORD]] [--no-compile] [--json FILE] [--small]

Each row has our time and rate, the share of the bandwidth of a copy, the best peer and its time by
ours, and the bar that is to be reached. Peers are PyTorch's kernels, measured in this process on
the same data; those with a * are not: they are what an H200 took in another run (PyTorch 2.11,
Triton 3.6 with SGLang's kernels). Times are medians with cold caches; on a GPU, from CUDA graphs,
unless the peer is autograd's or compiled. Results are not checked: the tests do that.
"""

import argparse
import gc
import json
import sys

import numpy as np

from library_peers import torch
from library_rows import FULL, SMALL, Maker, all_rows
from wave_lang.benchmark import bench


def words_of(error):
    """The first line of an error, and not all of it."""
    return f"{type(error).__name__}: {error}".split("\n")[0][:90]


class Table:
    def __init__(self, options, make):
        self.options, self.make, self.rows = options, make, []
        self.full = make.gpu and not options.small
        self.how = {} if self.full else dict(cold=False, budget_ms=5.0)
        self.device = torch.cuda.get_device_name() if make.gpu else "cpu"
        self.copy = self.copy_rate()
        print(f"{self.device}: a copy moves {self.copy:.3f} TB/s", flush=True)

    def copy_rate(self):
        """TB/s that copying a tensor reads and writes. On an H200, one of 256 MiB reaches 4.24; one of
        1 GiB does so, too, but 2.77 in a CUDA graph."""
        count = 1 << (27 if self.full else 20)  # of 2 bytes
        a, b = self.make.random(count), self.make.random(count)
        call = (lambda a, b: b.copy_(a)) if torch else (lambda a, b: np.copyto(b, a))
        return bench(call, (a, b), **self.how).rate(2 * a.nbytes) / 1e12

    def wanted(self, row):
        return any(word in row.name for word in self.options.only.split(","))

    def measure_peer(self, peer, case):
        """(microseconds or None, whether measured here, error)."""
        fixed = peer.fixed(peer.amount or case.amount) if self.full else None
        skipped = peer.compiled and (self.options.no_compile or not self.full)
        if peer.call is None or torch is None or skipped:
            return fixed, False, None
        args = case.args if peer.args is None else peer.args
        try:
            return bench(peer.call, args, graph=peer.graph, **self.how).median, True, None
        except Exception as error:  # a peer that this machine does not have
            return fixed, False, f"{peer.name}: {words_of(error)}"

    def best_peer(self, case, us, found):
        """Adds the peer that is hardest to beat."""
        best = None
        for peer in case.peers:
            other, measured, error = self.measure_peer(peer, case)
            if error:
                found.setdefault("errors", []).append(error)
            if other is None:
                continue
            found.setdefault("peers", {})[peer.name + "*" * (not measured)] = other
            ratio = other / us * (case.amount / peer.amount if peer.amount else 1)
            if best is None or ratio < best[0]:
                best = ratio, peer.name + "*" * (not measured), other
        if best:
            found |= dict(ratio=best[0], peer=best[1], peer_us=best[2])

    def time(self, case):
        """On a GPU the second of two measurements: clocks fall under load, and the peers come after it."""
        for _ in range(1 + self.full):
            timing = bench(case.call, case.args, graph=case.graph, **self.how)
        return timing

    def measure(self, row):
        found = {"name": row.name, "bar": None if not row.bar else [row.bar.kind, row.bar.value]}
        self.rows.append(found)
        if row.needs_torch and torch is None:
            found["state"] = "needs PyTorch"
            return found
        try:
            case = row.build(self.make, *row.args)
            timing = self.time(case)
        except Exception as error:
            found.update(state="failed", errors=[words_of(error)])
            return found
        rate = timing.rate(case.amount) / 1e12
        found |= {"us": timing.median, "rate": rate, "unit": case.unit}
        if case.unit == "TB/s":
            found["copy"] = rate / self.copy
        self.best_peer(case, timing.median, found)
        found["state"] = self.state(row.bar, found) if self.full else ""
        return found

    @staticmethod
    def state(bar, found):
        if not bar:
            return ""
        if bar.kind == "us":
            return "ok" if found["us"] <= bar.value else "missed"
        value = found.get("copy" if bar.kind == "copy" else "ratio")
        return "no peer" if value is None else "ok" if value >= bar.value else "missed"

    def print_row(self, found):
        words = f"{found['name']:40}"
        if "us" in found:
            words += f" {found['us']:10.1f} us {found['rate']:8.3f} {found['unit']}"
            words += f" {found['copy']:5.2f} copy" if "copy" in found else " " * 11
            peer = f"{found['peer']} {found['peer_us']:.1f} us" if "peer" in found else ""
            words += f" {peer:>24}" + (f" {found['ratio']:6.2f}" if peer else " " * 7)
            if found["bar"] and self.full:
                kind, value = found["bar"]
                words += f"  {'at most' if kind == 'us' else 'at least'} {value:g} {kind}"
        print(f"{words} {found['state']}".rstrip())
        for error in found.get("errors", ()):
            print(f"    {error}")
        sys.stdout.flush()

    def summary(self):
        states = {}
        for found in self.rows:
            if found["state"]:
                states.setdefault(found["state"], []).append(found["name"])
        for state, names in sorted(states.items()):
            print(f"{state}: {len(names)}" + ("" if state == "ok" else f" ({'; '.join(names)})"))
        if any(found.get("peer", "").endswith("*") for found in self.rows):
            print("* not measured here: what an H200 took in another run")
        return 1 if "failed" in states else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="only rows whose name has one of these words")
    parser.add_argument("--no-compile", action="store_true", help="no peers of torch.compile")
    parser.add_argument("--json", help="writes all rows there")
    parser.add_argument("--small", action="store_true", help="small sizes, as without a GPU")
    options = parser.parse_args()
    table = Table(options, Maker())
    for row in filter(table.wanted, all_rows(FULL if table.full else SMALL)):
        table.print_row(table.measure(row))
        gc.collect()
        if table.make.gpu:
            torch.cuda.empty_cache()
    code = table.summary()
    if options.json:
        with open(options.json, "w") as out:
            found = {"device": table.device, "copy": table.copy, "rows": table.rows}
            json.dump(found, out, indent=1)
    return code


if __name__ == "__main__":
    sys.exit(main())
