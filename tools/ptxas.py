#!/usr/bin/env python3
"""Assembles PTX with NVIDIA's ptxas and prints its advice, one line each.

    tools/ptxas.py [--arch sm_90a] [--where] kernel.ptx ...
    wavec kernel.wave --target sm_90a --passes=all --emit=ptx | tools/ptxas.py -

The exit status is 1 if a text cannot be assembled. Results are cached in BUILD/ptxas, by the text
and the version of ptxas: `make test` assembles each text once.
"""

import argparse
import functools
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@functools.cache
def find():
    """The ptxas on the path, of the CUDA toolkit, or of a PyPI package (nvidia-cuda-nvcc); else
    None."""
    packages = [sys.prefix, os.path.join(ROOT, ".venv")]
    places = [os.environ.get("WAVE_PTXAS"), shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas"]
    for prefix in packages:
        inside = "lib/python*/site-packages/nvidia/**/bin/ptxas"
        places += sorted(glob.glob(os.path.join(prefix, inside), recursive=True))
    return next((p for p in places if p and os.access(p, os.X_OK)), None)


@functools.cache
def version():
    done = subprocess.run([find(), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def targets():
    """The machines whose PTX it assembles: the NVIDIA rows of targets.def."""
    with open(os.path.join(ROOT, "src/target/targets.def"), encoding="utf-8") as table:
        return re.findall(r"^TARGET\((\w+), *NVIDIA,", table.read(), re.MULTILINE)


# ---- its output ----


class Advice(NamedTuple):
    """A remark on a kernel: `code` is ptxas's own, or `spill` or `stack`."""

    code: str
    kernel: str
    text: str

    def __str__(self):
        return f"remark[{self.code}]: `{self.kernel}`: {self.text}"


# Messages about speed, not results: matrix instructions that wait for each other, registers that
# are not exchanged, and anything else that has a number and is not an error.
_COMPILING = re.compile(r"(?:Compiling entry function|Function properties for) '?([\w$]+)'?")
_ADVICE = re.compile(r"\((C\d+)\)\s*(?:Potential Performance Loss:\s*)?(.*)")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_NAMED = re.compile(r"in (?:the )?function '([\w$]+)'")


def parse(log):
    """The remarks in the output of ptxas -v (or a driver's log), in its order."""
    found, kernel = [], ""
    for line in log.splitlines():
        named = _COMPILING.search(line)
        if named:
            kernel = named.group(1)
        advice = _ADVICE.search(line)
        if advice:
            where = _NAMED.search(line)
            text = advice.group(2).strip()
            found.append(Advice(advice.group(1), where.group(1) if where else kernel, text))
        spills = _SPILLS.search(line)
        if spills:
            stack, stored, loaded = map(int, spills.groups())
            if stored or loaded:
                text = f"{stored} bytes of registers are stored to memory and {loaded} loaded"
                found.append(Advice("spill", kernel, text))
            elif stack:
                found.append(Advice("stack", kernel, f"{stack} bytes of memory hold an array"))
    return found


# ---- running it ----


class Assembled(NamedTuple):
    ok: bool
    log: str

    @property
    def advices(self):
        return parse(self.log)


def arch_of(text):
    return re.search(r"^\.target (\w+)", text, re.MULTILINE).group(1)


def run(text, arch=None):
    """Assembles the text, without the cache."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "kernel.ptx")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        command = [find(), f"-arch={arch or arch_of(text)}", "-v", source, "-o", source + ".cubin"]
        done = subprocess.run(command, capture_output=True, text=True)
    return Assembled(done.returncode == 0, (done.stdout + done.stderr).replace(folder, ""))


def assemble(text, arch=None):
    """Assembles the text, or returns the cached result of one that differs only in line
    information."""
    bare = re.sub(r"^\s*\.(loc|file) .*\n", "", text, flags=re.MULTILINE)
    key = hashlib.sha256("\n".join([version(), arch or "", bare]).encode()).hexdigest()[:32]
    folder = os.path.join(ROOT, os.environ.get("BUILD", "build"), "ptxas")
    known = os.path.join(folder, key)
    if os.path.exists(known):
        with open(known, encoding="utf-8") as file:
            return Assembled(True, file.read())
    result = run(text, arch)
    if result.ok:
        os.makedirs(folder, exist_ok=True)
        with open(f"{known}.{os.getpid()}", "w", encoding="utf-8") as file:
            file.write(result.log)
        os.replace(f"{known}.{os.getpid()}", known)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arch", help="override the target in the text")
    parser.add_argument("--where", action="store_true", help="print which ptxas is used")
    parser.add_argument("files", nargs="*", help="PTX files; -: standard input")
    args = parser.parse_args()
    if not find():
        parser.exit(2, "no ptxas: put it on the path, or pip install nvidia-cuda-nvcc-cu12\n")
    if args.where:
        print(find(), version())
    status = 0
    for name in args.files:
        text = sys.stdin.read() if name == "-" else open(name, encoding="utf-8").read()
        for part in re.split(r"(?=^\.version )", text, flags=re.MULTILINE)[1:]:
            result = assemble(part, args.arch)
            print(*result.advices, sep="\n", end="\n" if result.advices else "")
            if not result.ok:
                print(f"{name}: {result.log.strip()}", file=sys.stderr)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
