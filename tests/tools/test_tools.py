#!/usr/bin/env python3
"""Tests of the test tools: what must fail does fail. Prints `N passed, M failed`."""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOLS = os.path.join(ROOT, "tools")

# Replaces wavec: prints its input without comments, and reports the errors that `!` lines request.
FAKE_WAVEC = """
import os, sys
errors = 0
for number, line in enumerate(open(sys.argv[1]), 1):
    code = line.split('#')[0].rstrip()
    if code.startswith('!crash'): os.abort()
    if code.startswith('!'):
        errors += 1
        print(f'{sys.argv[1]}:{number}:1: error[{code[1:6]}]: {code[7:]}', file=sys.stderr)
    elif code: print(code)
sys.exit(errors != 0)
"""


def wcheck(folder, text, *options, golden=None):
    """True if the test file `text` passes."""
    path = os.path.join(folder, "case.wave")
    fake = os.path.join(folder, "fake.py")
    open(fake, "w").write(FAKE_WAVEC)
    open(path, "w").write(textwrap.dedent(text))
    if golden is not None:
        open(os.path.join(folder, "case.golden"), "w").write(golden)
    command = [sys.executable, f"{TOOLS}/wcheck.py", "--wavec", f"{sys.executable} {fake}", path]
    done = subprocess.run(command + list(options), capture_output=True, text=True)
    summary = "1 passed, 0 failed" if done.returncode == 0 else "0 passed, 1 failed"
    assert done.stdout.splitlines()[-1] == summary, done.stdout + done.stderr
    return done.returncode == 0


def test_check_finds_text_in_order(folder):
    assert wcheck(folder, "# CHECK: one\n# CHECK: two\none\ntwo\n")
    assert not wcheck(folder, "# CHECK: two\n# CHECK: one\none\ntwo\n")
    assert not wcheck(folder, "# CHECK: three\none\n")


def test_check_is_literal_but_for_spaces_and_holes(folder):
    assert wcheck(folder, "# CHECK: a + b\na  +   b\n")
    assert not wcheck(folder, "# CHECK: a . b\na + b\n")
    assert wcheck(folder, "# CHECK: a {{[+-]}} b\na - b\n")


def test_check_next_is_the_next_line(folder):
    assert wcheck(folder, "# CHECK: one\n# CHECK-NEXT: two\none\ntwo\n")
    assert not wcheck(folder, "# CHECK: one\n# CHECK-NEXT: three\none\ntwo\nthree\n")


def test_check_not_looks_between_matches(folder):
    assert not wcheck(folder, "# CHECK: one\n# CHECK-NOT: bad\n# CHECK: two\none\nbad\ntwo\n")
    assert wcheck(folder, "# CHECK: one\n# CHECK-NOT: bad\n# CHECK: two\none\ntwo\nbad\n")
    assert not wcheck(folder, "# CHECK: one\n# CHECK-NOT: bad\none\ntwo\nbad\n")


def test_variables_bind_and_repeat(folder):
    assert wcheck(folder, "# CHECK: %[[X:\\w+]] = a\n# CHECK: use %[[X]]\n%7 = a\nuse %7\n")
    assert not wcheck(folder, "# CHECK: %[[X:\\w+]] = a\n# CHECK: use %[[X]]\n%7 = a\nuse %8\n")
    assert wcheck(folder, "# CHECK: [[X:[a-z]+]], [[X]]\nab, ab\n")
    assert not wcheck(folder, "# CHECK: use [[NEVER_BOUND]]\nuse x\n")


def test_error_blames_its_line(folder):
    assert wcheck(folder, "ok\n!E0203 bad tile   # ERROR: E0203 bad\n")
    assert wcheck(folder, "ok\n# ERROR: E0203\n!E0203 bad tile\n")
    assert not wcheck(folder, "ok   # ERROR: E0203\n!E0203 bad tile\n")
    assert not wcheck(folder, "!E0204 bad tile   # ERROR: E0203\n")
    assert not wcheck(folder, "!E0203 bad tile   # ERROR: E0203 other words\n")
    assert not wcheck(folder, "ok   # ERROR: E0203\n")


def test_every_error_must_be_expected(folder):
    assert not wcheck(folder, "!E0203 x   # ERROR: E0203\n!E0204 y\n")
    assert wcheck(folder, "!E0203 x   # ERROR: E0203\n!E0204 y   # ERROR: E0204\n")


def test_run_lines_decide_the_status(folder):
    assert wcheck(folder, "# RUN: not wavec %s\n!E0203 x\n")
    assert not wcheck(folder, "# RUN: wavec %s\n!E0203 x\n")
    assert not wcheck(folder, "# RUN: not wavec %s\nfine\n")
    assert wcheck(folder, "# RUN: wavec %s\n# RUN: wavec %s\n# CHECK: one\n# CHECK: one\none\n")


def test_a_crash_is_never_an_expected_failure(folder):
    assert not wcheck(folder, "# RUN: not wavec %s\n!crash\n")


def test_golden_is_the_whole_output(folder):
    assert wcheck(folder, "one\ntwo\n", golden="one\ntwo\n")
    assert not wcheck(folder, "one\ntwo\n", golden="one\n")
    assert wcheck(folder, "one\ntwo\n", "--bless", golden="one\n")
    assert wcheck(folder, "one\ntwo\n")


def test_no_files_is_a_failure(folder):
    done = subprocess.run(
        [sys.executable, f"{TOOLS}/wcheck.py", folder], capture_output=True, text=True
    )
    assert done.returncode != 0


def check_tree(tool, folder, files):
    """Runs a check on a tree of {path: text}; its output if something is wrong, else ''."""
    for path, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        open(os.path.join(folder, path), "w").write(text)
    done = subprocess.run(
        [sys.executable, f"{TOOLS}/{tool}", folder], capture_output=True, text=True
    )
    assert done.returncode == 0 or done.stdout, done.stderr
    return done.stdout if done.returncode else ""


def layers(folder, files):
    rules = {"tools/layers.txt": open(f"{TOOLS}/layers.txt").read()}
    return check_tree("check_layers.py", folder, files | rules)


def test_layers_accept_what_is_allowed(folder):
    tree = {
        "src/base/a.h": "",
        "src/ir/b.c": '#include "base/a.h"\n',
        "src/ir/c.c": "#include <stdio.h>\n",
    }
    assert layers(folder, tree) == ""


def test_layers_refuse_an_upward_include(folder):
    tree = {"src/ir/b.h": "", "src/base/a.c": '\n#include "ir/b.h"\n'}
    assert "src/base/a.c:2: base must not include ir" in layers(folder, tree)


def test_layers_inside_a_folder(folder):
    files = {"src/backend/eval/e.h": "", "src/backend/ptx/p.h": "", "src/ir/text/t.h": ""}
    fine = {
        "src/backend/sim/a.c": '#include "backend/eval/e.h"\n',
        "src/ir/b.c": '#include "ir/text/t.h"\n',
        "src/driver/c.c": '#include "backend/ptx/p.h"\n',
    }
    assert layers(folder, files | fine) == ""
    wrong = {"src/backend/llvm/d.c": '#include "backend/ptx/p.h"\n'}
    assert "backend/llvm must not include backend/ptx" in layers(folder, files | wrong)


def test_layers_refuse_a_private_header_in_tools(folder):
    tree = {"src/ir/b.h": "", "tools/t.c": '#include "ir/b.h"\n'}
    assert "tools must not include ir" in layers(folder, tree)


def test_layers_refuse_unqualified_paths_and_equal_names(folder):
    assert "is not a path from src/" in layers(folder, {"src/ir/b.c": '#include "b.h"\n'})
    assert "same name" in layers(folder, {"src/ir/b.c": "", "src/sym/b.c": ""})


def test_layers_compare_the_readme(folder):
    readme = open(f"{TOOLS}/../src/README.md").read()
    assert layers(folder, {"src/README.md": readme}) == ""
    for wrong in (
        readme.replace("| `sym/` | base |", "| `sym/` | base target |"),
        readme.replace("| `sym/` | base |", "| `other/` | base |"),
    ):
        assert "the row of `sym/` differs" in layers(folder, {"src/README.md": wrong})


IMPORTS = """
low: _wave support.*
middle: kernel.lang.* kernel.wave.named
high: kernel.wave.*
public: public.*
doors: kernel kernel.wave
"""


def imports(folder, files):
    """Runs check_imports on modules {path below wave_lang: text}; what is wrong, else ''."""
    tree = {f"python/wave_lang/{path}": text for path, text in files.items()}
    return check_tree("check_imports.py", folder, {"tools/imports.txt": IMPORTS, **tree})


def test_imports_accept_what_is_allowed(folder):
    files = {
        "support/a.py": "from .. import _wave\nimport os",
        "kernel/lang/b.py": "from ...support import a\nfrom ..._wave import Expr",
        "kernel/wave/__init__.py": "from ..lang.b import *\nfrom . import c\nfrom .old import f",
        "kernel/wave/c.py": "import wave_lang.kernel.lang.b\nfrom .named import g",
        "public/kernel/wave/old.py": "from wave_lang.kernel.wave.c import f",
        "public/kernel/wave/named.py": "",
    }
    assert imports(folder, files) == ""


def test_imports_refuse_what_goes_up(folder):
    up = "from ..kernel.lang.b import f"
    for text in (
        up,
        f"def g():\n    {up}",
        f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {up}",
        "import wave_lang.kernel.lang.b",
    ):
        wrong = imports(folder, {"support/a.py": text, "kernel/lang/b.py": ""})
        line = 1 + text.count("\n")
        assert f"a.py:{line}: layer `low` must not import `wave_lang.kernel.lang.b`" in wrong


def test_imports_refuse_what_is_only_for_public_code(folder):
    files = {"kernel/wave/a.py": "from .b import f", "public/kernel/wave/b.py": ""}
    wrong = imports(folder, files)
    assert "a.py:1: layer `high` must not import `wave_lang.kernel.wave.b` of `public`" in wrong


def test_imports_refuse_circles_within_a_layer(folder):
    files = {
        "kernel/wave/a.py": "from . import b",
        "kernel/wave/b.py": "def f():\n    from .c import g",
        "kernel/wave/c.py": "from .a import h",
        "support/d.py": "",
    }
    wrong = imports(folder, files)
    assert "import cycle: wave_lang.kernel.wave.a -> wave_lang.kernel.wave.b -> " in wrong
    assert imports(folder, {**files, "kernel/wave/c.py": "from ...support.d import h"}) == ""


def test_imports_refuse_a_package_that_imports_its_user(folder):
    files = {"kernel/wave/__init__.py": "from .a import f", "kernel/wave/a.py": "from . import g"}
    assert "cycle" in imports(folder, files)


def test_imports_refuse_what_they_cannot_see(folder):
    assert "a.py: `wave_lang.other.a` is in no layer" in imports(folder, {"other/a.py": ""})
    hidden = 'import importlib\nimportlib.import_module("wave_lang.kernel")'
    assert "b.py:2: imports with a call" in imports(folder, {"support/b.py": hidden, "other/a.py": ""})


def names(folder, files):
    words = {"tools/names.txt": "src: op\nsrc/ir: loop  # a comment\n          value\n"}
    return check_tree("check_names.py", folder, files | words)


def test_names_begin_with_a_word_of_their_module(folder):
    fine = "int nest_run(void) {\n}\nstatic int run(void) {\n}\nint tiles_at(int a,\n  int b) {\n}\n"
    listed = "bool op_is(void) {\n}\nSym *loop_at(void) {\n}\nint value_of(int x) {\n}\n"
    tree = {"src/lower/tiles_nest.c": fine, "src/ir/text/parse.c": listed}
    assert names(folder, tree) == ""
    said = names(folder, tree | {"src/lower/a.c": "int loop_at(void) {\n}\n/* int f(void) {} */\n"})
    assert said == "src/lower/a.c: `loop_at` begins with no word of its module (tools/names.txt)\n"


def test_words_that_no_name_needs_are_reported(folder):
    said = names(folder, {"src/ir/a.c": "int op_at(void) {\n}\nint loop_at(void) {\n}\n"})
    assert said == "tools/names.txt: no function begins with `value`\n"


def test_sizes_accept_what_is_within_the_limits(folder):
    function = "int f(void) {\n" + "  ;\n" * 58 + "}\n"
    tree = {f"src/base/a{i}.c": function for i in range(22)}
    assert check_tree("check_sizes.py", folder, tree) == ""


def test_sizes_refuse_long_files_functions_and_full_folders(folder):
    def said(tree):
        return check_tree("check_sizes.py", folder, tree)

    assert "src/base/a.c: 801 lines" in said({"src/base/a.c": "\n" * 801})
    assert said({"src/base/a.c": "/* long because */" + "\n" * 801}) == ""
    function = "int f(void) {\n" + "  ;\n" * 59 + "}\n"
    assert "src/base/b.c:1: a function of 61 lines" in said({"src/base/b.c": function})
    assert "src/ir: 23 files" in said({f"src/ir/c{i}.c": "" for i in range(23)})


def bypasses(folder, text):
    """What check_analyses says about a file of src/ that is put next to the tree's own."""
    if not os.path.exists(f"{folder}/src"):
        shutil.copytree(f"{ROOT}/src", f"{folder}/src")
    path = f"{folder}/src/new/x.c"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
    command = [sys.executable, f"{TOOLS}/check_analyses.py", folder]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    os.remove(path)
    return [line.partition(": ")[2] for line in lines[:-1]]


def test_analyses_are_computed_by_the_pass_manager(folder):
    include = '#include "transform/pass.h"\n'
    assert bypasses(folder, include + "bool pass_x(void) {\n  return cx->facts.uniform;\n}\n") == []
    (said,) = bypasses(folder, include + "void f(void) {\n  u = find_uniform(k, f);\n}\n")
    assert said.startswith("calls find_uniform")
    (said,) = bypasses(folder, include + "void f(void) {\n  u = facts_of(k, a, 1);\n}\n")
    assert said.startswith("computes an analysis")


def test_the_machine_is_in_the_context_of_a_pass(folder):
    text = "void f(void) {\n  kernel_constraint(k, CONSTRAINT_machine, NULL);\n}\n"
    assert bypasses(folder, text) == []  # not a pass
    (said,) = bypasses(folder, '#include "transform/copy_mode.h"\n' + text)
    assert said.startswith("looks up the machine row")


def phrases(folder, name, text, *options):
    """What check_phrases prints about one file."""
    path = os.path.join(folder, name)
    open(path, "w").write(text)
    command = [sys.executable, f"{TOOLS}/check_phrases.py", *options, path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *found, total = done.stdout.splitlines()
    assert total.startswith(f"{len(found)} phrases")
    return [line.removeprefix(path + ":") for line in found]


def test_phrases_are_looked_for_in_text_only(folder):
    code = 'int nobody; /* a\n * mended one, in\n * front of it */\nchar *s = "is no tile";\n'
    assert phrases(folder, "a.c", code) == [
        "2: in front of: before",
        "2: mended: fixed",
        "4: is no tile: is not a",
    ]
    script = 'nobody = """x\nmended."""  # under way\n'
    assert len(phrases(folder, "a.py", script)) == 2
    page = "mended\n```\nmended\n```\n`mended`, and mended\n"
    assert phrases(folder, "a.md", page) == ["1: mended: fixed", "5: mended: fixed"]


def test_phrases_know_what_is_right(folder):
    right = "There is no tile. It is no longer there, and is no larger. The reasons behind it.\n"
    right += "Too many rows are masked, too many for one tile.\n"
    assert phrases(folder, "a.md", right, "--level", "3") == []
    assert phrases(folder, "a.md", "wants\n") == []
    assert len(phrases(folder, "a.md", "wants\n", "--level", "3")) == 1


def test_every_tool_says_what_it_is_for(folder):
    """Except for those that need NumPy, or the built package."""
    for name in sorted(os.listdir(TOOLS)):
        if not name.endswith(".py") or name.startswith("demo"):
            continue
        command = [sys.executable, os.path.join(TOOLS, name), "--help"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        text = open(os.path.join(TOOLS, name)).read().split('"""')[1].split("\n")[0]
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        assert text.split()[0] in done.stdout, f"{name}: {done.stdout}"


def test_counts_of_fuzzers_are_added(folder):
    """Of processes that counted the same things, and of one that counted another."""
    script = """
import json, fuzz_long
sums = None
for line in ('{"all": {"legal": 2}, "n": 1}', '{"all": {"legal": 3, "illegal": 4}, "n": 0}', '{"n": 5}'):
    sums = fuzz_long.added(sums, json.loads(line))
print(json.dumps(sums))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=TOOLS)
    assert done.stdout.strip() == '{"all": {"legal": 5, "illegal": 4}, "n": 6}', done.stdout + done.stderr


def main():
    passed = failed = 0
    for name, test in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(folder)
                passed += 1
            except AssertionError:
                import traceback

                failed += 1
                print(f"FAILED {name}")
                traceback.print_exc(file=sys.stdout)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
