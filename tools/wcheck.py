#!/usr/bin/env python3
"""wcheck: runs tests written in text IR. The directives are comments in the test itself.

    # RUN: wavec %s --passes=fold     a command that must succeed; %s is the file, %t a scratch file
    # RUN: not wavec %s               a command that must fail; without any RUN line: wavec %s
    # RUN: env A=B wavec %s           ... with a variable of the environment
    # CHECK: %[[P:\\w+]] = read %a     text that follows, in order, in the output of all commands
    # CHECK-NEXT: write %[[P]]        ... on the very next line
    # CHECK-NOT: fill                 ... and this not before the next match
    %x = add %a, %b                   # ERROR: E0302 the message or a part of it

[[X:regex]] binds, [[X]] repeats, {{regex}} matches; the rest is literal, spaces match any spaces.
ERROR (also WARNING, REMARK) blames its own line, or, alone on a line, the next one; it implies
`not`, and an unexpected error fails the test; an error that several commands report is expected
once. A file x.golden beside x.wave holds the whole expected output; --bless rewrites it.

    tools/wcheck.py [--wavec PATH] [--bless] [--filter WORD] FILE_OR_FOLDER...
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

DIRECTIVE = re.compile(r"^\s*#\s*(RUN|CHECK|CHECK-NEXT|CHECK-NOT):\s*(.*?)\s*$")
BLAME = re.compile(r"#\s*(ERROR|WARNING|REMARK):\s*([A-Z]\d{4})\s*(.*?)\s*$")
REPORT = re.compile(r"^(?:.*?):(\d+):\d+: (error|warning|remark)\[([A-Z]\d{4})\]: (.*)$", re.M)
HOLE = re.compile(r"\[\[(\w+)(?::(.*?))?\]\]|\{\{(.*?)\}\}|(\s+)")


class Failure(Exception):
    pass


def to_regex(pattern, bound):
    out, at = "", 0
    for hole in HOLE.finditer(pattern):
        out += re.escape(pattern[at : hole.start()])
        name, regex, raw, _ = hole.groups()
        if name and regex:
            out += f"(?P<{name}>{regex})"
        elif name:
            out += (
                f"(?P={name})"
                if f"(?P<{name}>" in out
                else re.escape(bound.get(name, f"[[{name}]]"))
            )
        else:
            out += f"(?:{raw})" if raw else r"[^\S\n]+"
        at = hole.end()
    return re.compile(out + re.escape(pattern[at:]))


def check_output(checks, text):
    bound, at, forbidden = {}, 0, []
    for line, kind, pattern in checks + [(0, "END", "")]:
        if kind == "CHECK-NOT":
            forbidden.append((line, pattern))
            continue
        start, end, found = at, len(text), None
        if kind != "END":
            if kind == "CHECK-NEXT":
                start = text.find("\n", at) + 1 or len(text)
                end = text.find("\n", start) if "\n" in text[start:] else len(text)
            found = to_regex(pattern, bound).search(text, start, end)
            if not found:
                raise Failure(
                    f"line {line}: {kind}: {pattern}\nnot found from here on:\n{text[at:]}"
                )
        for where, pattern_not in forbidden:
            wrong = to_regex(pattern_not, bound).search(text, at, found.start() if found else end)
            if wrong:
                raise Failure(
                    f"line {where}: CHECK-NOT: {pattern_not}\nfound: {wrong.group()}\nin:\n{text}"
                )
        if found:
            forbidden, at = [], found.end()
            bound.update(found.groupdict())


def check_blame(blames, text, repeated):
    reports = [(int(n), sev, code, message) for n, sev, code, message in REPORT.findall(text)]
    for number, severity, code, words in blames:
        hit = [
            r for r in reports if r[0] in number and r[1:3] == (severity, code) and words in r[3]
        ]
        if not hit:
            raise Failure(
                f"line {number[-1]}: no {severity}[{code}] {words}\nthe output was:\n{text}"
            )
        # Several commands may each report the same.
        reports = [r for r in reports if not repeated or r[:3] != hit[0][:3]]
        if not repeated:
            reports.remove(hit[0])
    for number, severity, code, message in reports:
        if severity == "error" and blames:
            raise Failure(f"line {number}: unexpected error[{code}]: {message}")


def run(command, path, scratch, wavec, must_fail):
    words = [w.replace("%s", path).replace("%t", scratch) for w in shlex.split(command)]
    if words[0] == "not":
        words, must_fail = words[1:], True
    if words[0] in ("wavec", "env"):
        at = words.index("wavec")
        words = words[:at] + wavec + words[at + 1 :]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )
    output = done.stdout + done.stderr
    if (
        done.returncode < 0
        or done.returncode > 2
        or "Sanitizer" in output
        or "runtime error:" in output
    ):
        raise Failure(f"crashed with status {done.returncode}: {shlex.join(words)}\n{output}")
    if must_fail != (done.returncode != 0):
        raise Failure(f"{'succeeded' if must_fail else 'failed'}: {shlex.join(words)}\n{output}")
    return output


def run_test(path, wavec, bless):
    commands, checks, blames, above = [], [], [], 0
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if directive := DIRECTIVE.match(line):
            kind, rest = directive.groups()
            commands.append(rest) if kind == "RUN" else checks.append((number, kind, rest))
        elif blame := BLAME.search(line):
            alone = line[: blame.start()].strip() == ""
            above = above + 1 if alone else 0
            blames.append(([number], blame[1].lower(), blame[2], blame[3]))
            continue
        for blamed in blames[len(blames) - above :]:  # the lines above blame this one
            blamed[0].append(number)
        above = 0
    must_fail = any(severity == "error" for _, severity, _, _ in blames)
    with tempfile.TemporaryDirectory() as folder:
        scratch = os.path.join(folder, "scratch.wave")
        text = "".join(run(c, path, scratch, wavec, must_fail) for c in commands or ["wavec %s"])
    check_blame(blames, text, len(commands) > 1)
    check_output(checks, text)
    golden = os.path.splitext(path)[0] + ".golden"
    if os.path.exists(golden):
        if bless:
            open(golden, "w", encoding="utf-8").write(text)
        elif text != open(golden, encoding="utf-8").read():
            raise Failure(f"differs from {golden} (--bless rewrites it):\n{text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--wavec", default="build/wavec")
    parser.add_argument("--bless", action="store_true")
    parser.add_argument("--filter", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("paths", nargs="+")
    args = parser.parse_args()
    files = []
    for path in args.paths:
        walk = (
            [(os.path.dirname(path), [], [os.path.basename(path)])]
            if os.path.isfile(path)
            else os.walk(path)
        )
        files += [
            os.path.join(f, n)
            for f, _, names in walk
            for n in names
            if n.endswith(".wave") and args.filter in os.path.join(f, n)
        ]

    def attempt(path):
        try:
            run_test(path, shlex.split(args.wavec), args.bless)
        except (Failure, subprocess.TimeoutExpired, OSError, re.error) as problem:
            return f"FAILED {path}\n{problem}".rstrip() + "\n"

    failed = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        for done, problem in enumerate(pool.map(attempt, sorted(files)), 1):
            failed += problem is not None
            print(problem or "", end="", flush=True)
            if sys.stderr.isatty():
                print(f"\r{done}/{len(files)}", end="\r", file=sys.stderr)
    print(f"{len(files) - failed} passed, {failed} failed")
    return failed != 0 or not files


if __name__ == "__main__":
    sys.exit(main())
