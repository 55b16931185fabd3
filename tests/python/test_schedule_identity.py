"""A schedule that was written to a file and read again gives the same code, instruction by instruction."""

import glob
import os
import re
import subprocess

import pytest
from trip_kernels import KERNELS, kernel_text

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WAVEC = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")
MACHINES = ["sm_90a", "sm_80", "gfx942", "gfx950"]

# Kernels of bench/kernels, with sizes.
SIZES = {
    "gemm": "bind M = 4096; bind N = 4096; bind K = 4096",
    "attention": "bind B = 4; bind M = 1024; bind K2 = 1024",
    "attention_backward": "bind M = 1024; bind L = 1024",
    "scaled": "bind M = 1024; bind N = 1024; bind K = 1024",
    "convolution": "bind N = 4; bind H = 34; bind W = 34; bind C = 64; bind NF = 128",
}
# What rows of a user leave open.
ROWS = ["", "schedule K depth 3 unroll 2 drain peeled", "schedule K kind modulo"]


def wavec(path, target, *options):
    done = subprocess.run([WAVEC, path, f"--target={target}", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def code(path, target, *options):
    """PTX, or for other machines the program of one lane, without the rows themselves."""
    if target.startswith("sm"):
        text = wavec(path, target, "--emit=ptx", *options)
        return [line for line in text.splitlines() if not line.startswith(("//", "\t.loc", ".file"))]
    text = wavec(path, target, "--passes=all", *options)
    return text[text.index("\n{") :].splitlines()


def check(folder, text, target):
    path, file = str(folder / "kernel.wave"), str(folder / "kernel.schedule")
    with open(path, "w") as out:
        out.write(text)
    written = wavec(path, target, "--emit=schedule")
    with open(file, "w") as out:
        out.write(written)
    assert code(path, target, f"--schedule={file}") == code(path, target), written
    again = wavec(path, target, "--emit=schedule", f"--schedule={file}")
    assert again == written


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("name", SIZES)
def test_large_kernels(name, target, tmp_path):
    with open(os.path.join(ROOT, "bench", "kernels", name + ".wave")) as source:
        text = source.read().replace("\n{", f"\n  {SIZES[name]}\n{{", 1)
    check(tmp_path, text, target)


# The loops of these kernels that are solved. Ops without a name have places, too.
LOOPS = {"gemm": "K", "attention": "K2", "attention_backward": "M", "scaled": "K", "convolution": '"C*HF*WF"'}


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("name", LOOPS)
def test_solved_loops(name, target, tmp_path):
    with open(os.path.join(ROOT, "bench", "kernels", name + ".wave")) as source:
        rows = f"{SIZES[name]}; schedule {LOOPS[name]} kind modulo"
        text = source.read().replace("\n{", f"\n  {rows}\n{{", 1)
    check(tmp_path, text, target)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("target", MACHINES + ["toy8"])
@pytest.mark.parametrize("name", KERNELS)
def test_small_kernels(name, target, rows, tmp_path):
    if target == "toy8" and "depth 3" in rows:
        rows = rows.replace("depth 3", "depth 2")  # shared memory has no room for more
    check(tmp_path, kernel_text(name, "bind M = 64; bind N = 32; bind K = 256", rows), target)


def staged_texts(folder):
    """The texts of a folder's kernels with one kernel and a loop that is not pipelined by hand."""
    for path in sorted(glob.glob(os.path.join(ROOT, folder, "*.wave"))):
        with open(path, errors="replace") as source:
            text = "".join(line for line in source if not line.startswith("#"))
        loops = set(re.findall(r"^ *(?:%.* = )?for ([^ ]+)", text, re.M))
        if loops and text.count("kernel @") == 1 and "\n{" in text and not re.search(r"slot = |\bschedule ", text):
            yield os.path.relpath(path, ROOT), text, loops


def differs(folder, text, target):
    """What reading a schedule that was written says, or that it gives another one; None: it gives the same."""
    path, file = str(folder / "kernel.wave"), str(folder / "kernel.schedule")
    with open(path, "w") as out:
        out.write(text)
    options = [WAVEC, path, f"--target={target}", "--emit=schedule"]
    written = subprocess.run(options, capture_output=True, text=True)
    if written.returncode or "schedule " not in written.stdout:
        return None  # the machine cannot do it, or there is no loop left
    with open(file, "w") as out:
        out.write(written.stdout)
    again = subprocess.run([*options, f"--schedule={file}"], capture_output=True, text=True)
    same = again.returncode == 0 and again.stdout == written.stdout
    return None if same else written.stdout + again.stdout + again.stderr


# Kernels of other tests: solved, and as they are.
FOLDERS = ["docs", "tests/ir/copies", "tests/ir/layouts", "tests/ir/promote", "tests/ir/proof", "tests/ir/solve"]
FOLDERS += ["tests/ir/stages", "tests/llvm", "tests/run"]


@pytest.mark.parametrize("kind", ["none", "modulo"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_kernels_of_other_tests(folder, kind, tmp_path):
    failed = {}
    for i, (name, text, loops) in enumerate(staged_texts(folder)):
        target = MACHINES[i % len(MACHINES)]
        rows = "".join(f'  schedule "{loop}" on {target} kind {kind}\n' for loop in sorted(loops))
        why = differs(tmp_path, text.replace("\n{", f"\n{rows}{{", 1), target)
        if why:
            failed[name, target] = why
    assert not failed
