"""Every listing of README.md and docs/*.md is run.

```python    runs, in order, with one namespace per document; a block ```output that follows is
             what it prints. A first line `# name.py` is the file name shown in diagnostics.
             Kernels for target `cpu` are compiled, not evaluated, if there is a libLLVM.
```wave      must be accepted by wavec; tile kernels, and docs/*.wave, compute the same on the CPU of
             this machine as on the reference evaluator
```c         must compile against include/wave.h; with a main() it is linked and run, with the kernels
             of tests/tools whose headers it includes, compiled for the CPU of this machine
```console   lines `$ build/...` run, and print the lines below them; a line `…` matches any lines,
             `…` in a line any text
```mma       lines of the tables of matrix instructions, ignoring blanks
"""

import contextlib
import glob
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from wave_lang.kernel.wave.compile import WaveKernel
from wave_lang.kernel.wave.machine import devices

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
WAVEC = os.path.join(BUILD, "wavec")
DOCUMENTS = [
    os.path.relpath(path, ROOT)
    for pattern in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/*.md")
    for path in sorted(glob.glob(os.path.join(ROOT, pattern)))
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


class Block:
    def __init__(self, document, number, text, match):
        self.document, self.number = document, number
        self.language, self.code = match.groups()
        self.place = f"{document}:{text.count(chr(10), 0, match.start()) + 2}"

    def must_be(self, text):
        """The block shows `text`; when blessing, it will."""
        text = text.rstrip() + "\n"
        if text != self.code and os.environ.get("BLESS"):
            whole = read(self.document)
            match = list(BLOCK.finditer(whole))[self.number]
            with open(os.path.join(ROOT, self.document), "w", encoding="utf-8") as file:
                file.write(whole[: match.start(2)] + text + whole[match.end(2) :])
        else:
            assert text == self.code, self.place


def read(document):
    with open(os.path.join(ROOT, document), encoding="utf-8") as file:
        return file.read()


def blocks(document):
    text = read(document)
    return [Block(document, n, text, match) for n, match in enumerate(BLOCK.finditer(text))]


def all_blocks(language):
    found = [b for d in DOCUMENTS for b in blocks(d) if b.language == language]
    return [pytest.param(b, id=b.place) for b in found]


def with_language(language):
    return [d for d in DOCUMENTS if any(b.language == language for b in blocks(d))]


def run_python(block, number, namespace):
    """Returns what the block prints. The block is written to a file, so that diagnostics can show
    its lines."""
    named = re.match(r"# (\w+\.py)\n", block.code)
    name = named.group(1) if named else f"listing{number}.py"
    with open(name, "w", encoding="utf-8") as file:
        file.write(block.code)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.code, name, "exec"), namespace)
    return printed.getvalue()


@pytest.fixture
def compiled(monkeypatch):
    """The kernels that were compiled for the CPU of this machine; none of them is evaluated."""
    made, plain = [], WaveKernel.compile_for

    def compile_for(self, kind):
        program = plain(self, kind)
        if kind == "cpu":
            made.append(self)
            assert program or not devices("cpu"), "\n".join(map(str, self.remarks))
        return program

    monkeypatch.setattr(WaveKernel, "compile_for", compile_for)
    monkeypatch.setenv("WAVE_CACHE_ON", "0")
    return made


@pytest.mark.parametrize("document", with_language("python"))
def test_python(document, tmp_path, monkeypatch, compiled):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__listing__"}
    listed = [b for b in blocks(document) if b.language in ("python", "output")]
    for number, block in enumerate(listed):
        if block.language == "output":
            continue
        try:
            printed = run_python(block, number, namespace)
        except Exception as problem:
            raise AssertionError(f"{block.place}: {type(problem).__name__}: {problem}") from problem
        following = listed[number + 1] if number + 1 < len(listed) else None
        if following and following.language == "output":
            following.must_be(printed)
    assert compiled or document not in ("README.md", "docs/tour.md", "docs/debugging.md")


UNKNOWN_SIZE = re.compile(r"add --set (\w+)=N")


def run_wave(path, target, folder):
    """The tensors that `wavec run` writes, by name. Sizes that nothing binds are made up."""
    sets, outs = [], []
    for name in re.findall(r"%(\w+): mem<", re.search(r"kernel @[^{]*", path.read_text())[0]):
        outs += ["--out", f"{name}={folder / name}.npy"]
    for size in (64, 37, 70, 45, 19, 8):
        command = [WAVEC, "run", str(path), "--target", target, *sets, *outs]
        done = subprocess.run(command, capture_output=True, text=True)
        unknown = UNKNOWN_SIZE.search(done.stderr)
        if not unknown:
            break
        sets += ["--set", f"{unknown[1]}={size}"]
    assert done.returncode == 0, done.stdout + done.stderr
    return {file.stem: np.load(file) for file in sorted(folder.glob("*.npy"))}


def same_on_cpu(path, folder):
    if re.search(r"^thread kernel", path.read_text(), re.M):
        pytest.skip("the program of a GPU's thread")
    results = []
    for target in "eval", "cpu":
        (folder / target).mkdir()
        results.append(run_wave(path, target, folder / target))
    assert results[0].keys() == results[1].keys() and results[0]
    for name, expected in results[0].items():
        np.testing.assert_allclose(results[1][name], expected, rtol=1e-5, atol=1e-5, err_msg=name)


needs_llvm = pytest.mark.skipif(not devices("cpu"), reason="there is no libLLVM")


@needs_llvm
@pytest.mark.parametrize(
    "name", sorted(os.path.basename(p) for p in glob.glob(f"{ROOT}/docs/*.wave"))
)
def test_files_on_cpu(name, tmp_path):
    same_on_cpu(Path(ROOT, "docs", name), tmp_path)


@needs_llvm
@pytest.mark.parametrize("block", all_blocks("wave"))
def test_wave_on_cpu(block, tmp_path):
    path = tmp_path / "listing.wave"
    path.write_text(block.code)
    same_on_cpu(path, tmp_path)


@pytest.mark.parametrize("block", all_blocks("wave"))
def test_wave(block, tmp_path):
    path = tmp_path / "listing.wave"
    path.write_text(block.code)
    done = subprocess.run([WAVEC, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, f"{block.place}\n{done.stdout}{done.stderr}"


def compile_as_cpp(command, path):
    """docs/c.md says that its program is also valid C++."""
    if not shutil.which("c++"):
        return
    paths = [word for word in command if word.startswith("-I")]
    flags = ["-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
    done = subprocess.run(["c++", *flags, *paths, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", all_blocks("c"))
def test_c(block, tmp_path):
    path = tmp_path / "listing.c"
    code = block.code if "wave.h" in block.code else '#include "wave.h"\n' + block.code
    path.write_text(code)
    compiler = shlex.split(os.environ.get("CC", "cc")) + ["-std=c17", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    command = compiler + [f"-I{ROOT}/include", str(path)]
    for name in re.findall(r'#include "(\w+)\.h"', code):
        kernel = f"{ROOT}/tests/tools/{name}.wave"
        if os.path.exists(kernel):
            made = [WAVEC, kernel, "--emit=c", "--target=cpu"]
            if subprocess.run(made, cwd=tmp_path, capture_output=True).returncode != 0:
                pytest.skip("there is no libLLVM")
            command += [f"-I{tmp_path}", str(tmp_path / f"{name}.c")]
    if "int main(" not in code:
        command += ["-Wno-unused-function", "-Wno-unused-variable", "-fsyntax-only"]
    else:
        command += ["-o", str(tmp_path / "listing"), f"-L{BUILD}", "-lwave", f"-Wl,-rpath,{BUILD}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{block.place}\n{done.stderr}"
    if "int main(" in code:
        if block.document == "docs/c.md":
            compile_as_cpp(command, path)
        ran = subprocess.run([str(tmp_path / "listing")], capture_output=True, text=True)
        assert ran.returncode == 0, f"{block.place}\n{ran.stdout}{ran.stderr}"
        following = (blocks(block.document) + [None])[block.number + 1]
        if following and following.language == "output":
            following.must_be(ran.stdout)


def is_excerpt(shown, printed):
    """Whether the text shown was printed, with `…` for omissions."""
    pattern = ""
    for line in shown.rstrip().splitlines():
        any_lines = line.strip() == "…"
        pattern += r"(?:.*\n)*?" if any_lines else re.escape(line).replace("…", ".*") + r"\n"
    return "…" in shown and re.fullmatch(pattern, printed.rstrip() + "\n") is not None


def console(block):
    """The block with the real output of its commands, and whether all commands without output
    succeeded."""
    text, problems = "", []
    for step in re.split(r"^(?=\$ )", block.code, flags=re.M):
        command, _, shown = step.partition("\n")
        if not command.startswith("$ build/"):
            text += step
            continue
        words = shlex.split(command[2:].replace("build/", BUILD + "/", 1))
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        printed = (done.stdout + done.stderr).replace(BUILD + "/", "build/")
        if not shown.strip() and done.returncode != 0:
            problems.append(f"{block.place}: {command}\n{printed}")
        if is_excerpt(shown, printed):
            printed = shown
        gap = shown[len(shown.rstrip()) :].lstrip("\n") if shown.strip() else shown
        text += f"{command}\n" + (printed.rstrip() + "\n" + gap if shown.strip() else shown)
    return text, problems


@pytest.mark.parametrize("block", all_blocks("console"))
def test_console(block):
    text, problems = console(block)
    assert not problems, "\n".join(problems)
    block.must_be(text)


PASSES = re.compile(r"^.*│  (both|lanes|loops) +((?:[a-z_]+|…)(?: (?:[a-z_]+|…))*)  +\S.*$", re.M)


def pipelines():
    """{"lanes": passes, "loops": passes} as wavec lists them."""
    done = subprocess.run([WAVEC, "--list=passes"], capture_output=True, text=True, check=True)
    _, lanes, loops = re.split(r"^for .*:\n", done.stdout, flags=re.M)
    named = {"lanes": lanes, "loops": loops}
    return {kind: [line.split()[0] for line in text.splitlines()] for kind, text in named.items()}


def in_order(text, kind, passes):
    """Whether the picture in `text` names the passes of a pipeline in order; `…` matches any."""
    rows = [row.split() for machines, row in PASSES.findall(text) if machines in ("both", kind)]
    words = [r"(?:\w+ )*" if word == "…" else word + " " for row in rows for word in row]
    return re.fullmatch("".join(words), "".join(name + " " for name in passes)) is not None


@pytest.mark.parametrize("kind", ["lanes", "loops"])
def test_pipelines_are_shown_in_order(kind):
    text, passes = read("ARCHITECTURE.md"), pipelines()[kind]
    assert len(passes) > 15 and in_order(text, kind, passes)
    assert not in_order(text, kind, [*passes, "new"])
    assert not in_order(text.replace("retarget widen", "widen retarget"), kind, passes)
    assert not in_order(text, "loops" if kind == "lanes" else "lanes", passes)


def test_architecture_names_every_folder():
    """A folder has a row, or is named in that of the folder around it."""
    folders = [path.relative_to(ROOT) for path in Path(ROOT, "src").glob("**/") if any(path.glob("*.c"))]
    rows = dict(re.findall(r"^- `(src/[\w/]+)/` — (.*?)(?=^- `|^$)", read("ARCHITECTURE.md"), re.M | re.S))
    assert len(folders) > 20 and len(rows) > 10
    unnamed = [f for f in folders if str(f) not in rows and f"`{f.name}/`" not in rows.get(str(f.parent), "")]
    assert unnamed == []


STEP = re.compile(r"^\d+\. `([^`]+)`: (.*?)(?=^\d+\. |^$)", re.M | re.S)


def lost(walk):
    """What is wrong with the steps of a walk: files visited twice, functions that do not exist."""
    visited = set()
    for path, text in STEP.findall(walk):
        if path in visited or not os.path.exists(os.path.join(ROOT, path)):
            yield path
            continue
        visited.add(path)
        source = read(path)
        function = re.match(r"`(\w+)`", text)
        pattern = r"^(?:def |    def |[\w *]+[ *]){0}\(" if not path.endswith(".def") else r"\b{0}\b"
        if function and not re.search(pattern.format(function.group(1)), source, re.M):
            yield f"{path}: {function.group(1)}"


def test_walks_go_forward():
    walks = read("docs/walks.md").split("\n## ")[1:]
    assert [len(STEP.findall(walk)) > 5 for walk in walks] == [True] * 3
    assert [problem for walk in walks for problem in lost(walk)] == []
    there = "1. `src/base/diag.c`: `diag_add` adds.\n"
    assert list(lost(there)) == []
    assert list(lost(there.replace("diag_add", "diag_ad"))) == ["src/base/diag.c: diag_ad"]
    assert list(lost(there + there)) == ["src/base/diag.c"]
    assert list(lost(there.replace("diag.c", "none.c"))) == ["src/base/none.c"]


@pytest.mark.parametrize("block", all_blocks("mma"))
def test_mma(block):
    tables = ("src/target/mma.def", "src/target/targets.def", "tests/unit/test_fragment.c")
    rows = {"".join(line.split()) for table in tables for line in read(table).splitlines()}
    done = subprocess.run([WAVEC, "--list=mma"], capture_output=True, text=True)
    names = {line.split()[0] for line in done.stdout.splitlines()}
    for line in block.code.splitlines():
        assert "".join(line.split()) in rows, f"{block.place}: {line}"
        if line.startswith("MMA("):
            assert re.match(r"MMA\((\w+)", line).group(1) in names, f"{block.place}: {line}"


LINK = re.compile(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)")


def anchors(document):
    """The names by which links refer to the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", read(document)), re.M)
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}


def broken_links(document, text):
    """Links to files that do not exist, and to headings that their document does not have."""
    for path, anchor in LINK.findall(BLOCK.sub("", text)):
        target = os.path.normpath(os.path.join(os.path.dirname(document), path)) if path else document
        exists = os.path.exists(os.path.join(ROOT, target))
        if not exists or (anchor and target.endswith(".md") and anchor not in anchors(target)):
            yield f"{path}#{anchor}" if anchor else path


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links(document):
    assert [*broken_links(document, read(document))] == []


def test_broken_links_are_found():
    text = "[a](tour.md#padding) [b](tour.md#stuffing) [c](#nowhere) [d](../README.md) [e](none.md)"
    assert [*broken_links("docs/ir.md", text)] == ["tour.md#stuffing", "#nowhere", "none.md"]


SECTION = r"(\d+(?:\.\d+)?)(?: (?:to|and) (\d+(?:\.\d+)?))?"
TO_SECTION = re.compile(rf"(?:docs/)?(\w+\.md), sections? {SECTION}")
UNCHECKED = re.compile(r"(?:\bdesign|\b\w+\.md) [§KA]?\d[\d.]*")
SOURCES = ("src", "include", "python", "tests", "tools", "bench")


def sections(document):
    """The numbers of its headings: `## 4. Constraints`, `### 4.8 Position and extent`."""
    return set(re.findall(r"^#{2,3} (\d+(?:\.\d+)?)\b", read(document), re.M))


def strayed(text):
    """References to sections that no document has, and to documents that are not here."""
    text = re.sub(r"\n[ \t]*(?:\*|#|//)?[ \t]*", " ", text)  # comments continue on the next line
    found = [match[0] for match in UNCHECKED.finditer(text)]
    for match in TO_SECTION.finditer(text):
        document = f"docs/{match[1]}"
        known = sections(document) if document in DOCUMENTS else set()
        found += [match[0] for number in match.groups()[1:] if number and number not in known]
    return found


def test_references_to_sections():
    """References to sections in the sources are valid, and so are those in docs/language.md."""
    for folder in SOURCES:
        for path in sorted(Path(ROOT, folder).rglob("*")):
            if path.suffix in (".c", ".h", ".def", ".py", ".pyi", ".wave") and path != Path(__file__):
                assert strayed(path.read_text(encoding="utf-8")) == [], path
    inside = re.sub(r"\s+", " ", BLOCK.sub("", read("docs/language.md")))
    mentioned = {n for pair in re.findall(rf"\bsections? {SECTION}", inside) for n in pair if n}
    assert mentioned and mentioned <= sections("docs/language.md")


def test_references_that_stray_are_found():
    assert strayed("/* (docs/language.md,\n * section 6.2) and docs/ir.md, sections 3 to 5 */") == []
    for wrong in (
        "docs/language.md, section 99",
        "docs/language.md, sections 4 to 99.1",
        "docs/nowhere.md, section 1",
    ):
        assert strayed(f"/* {wrong} */") == [wrong]
    assert strayed("(language.md 6.8, K24)") == ["language.md 6.8"]
    assert strayed("(language.md K24), design 3.11") == ["language.md K24", "design 3.11"]


@pytest.mark.parametrize(
    "generator",
    [f"gen_{name}.py" for name in ("errors", "features", "ir", "ops", "options", "pictures")],
)
def test_generated_documents_are_current(generator):
    command = [sys.executable, os.path.join(ROOT, "tools", generator), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_op_has_a_listing(monkeypatch):
    """Ops that docs/ops.md does not show, or shows without a listing, are named."""
    monkeypatch.syspath_prepend(os.path.join(ROOT, "tools"))
    import gen_ops

    page, known, ops = read("docs/ops.md"), gen_ops.functions(), gen_ops.table()
    assert [*gen_ops.problems(page, known, ops)] == []
    assert [*gen_ops.problems(page, known | {"new": known["exp"]}, ops)] == [
        "`new` has no block <!-- ops … -->"
    ]
    assert [*gen_ops.problems(page, known, ops | {"new": ("", "")})] == [
        "op `new` of the table has neither a function nor an operator"
    ]
    silent = page.replace("tkw.cumsum(", "tkw.sum(")
    assert [*gen_ops.problems(silent, known, ops)] == [
        "no listing below the block of `cumsum` calls it"
    ]
    assert "unknown function or op `cumsun`" in gen_ops.problems(
        page.replace("ops cumsum", "ops cumsun"), known, ops
    )
