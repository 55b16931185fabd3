#!/usr/bin/env python3
"""Hints at phrases that a native engineer would not write, in comments, messages and documents.

tools/check_phrases.py [--level 1|2|3] [PATH ...]    PATH: files or folders; without, the whole tree

Prints `file:line: phrase: what to write instead`, and always exits with 0: a hint is to be weighed, not
obeyed. Level 1, the default, has hints that are nearly always right; level 3 also those where the word
often is the right one. CONTRIBUTING.md has the rule these phrases break.
"""

import argparse
import collections
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOPS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs", "include", "src", "python", "tools")
TOPS += ("tests", "bench", "Makefile", "CMakeLists.txt", "pyproject.toml")
ENDINGS = (".c", ".h", ".def", ".py", ".md", ".wave", ".sym", ".sh", ".txt")
SKIPPED = ("tools/check_phrases.py", "LICENSE")

COMPARED = "longer|more|less|fewer|larger|smaller|greater|shorter|wider|earlier|later|better|worse|one"
# Level, phrase, what to write instead; the surest first. A space matches any white space, also across
# the lines of a comment. With a group in it, a phrase counts only where the group takes part.
PHRASES = [
    (1, "li(?:e|es|ying) anyhow", "may have arbitrary strides"),
    (1, "mended", "fixed"),
    (1, "one behind the other", "one after another"),
    (1, "without a sign", "unsigned"),
    (1, "sees? to it", "ensures, checks"),
    (1, "in front of", "before"),
    (1, "under way", "in flight, outstanding, running"),
    (1, "anew", "again; re- as in recompute, rebuild"),
    (1, "so many", "this many, that many"),
    (1, "(?:out|in)side of", "outside, inside"),
    (1, f"there (?:is|are) no|((?:is|are) no (?!{COMPARED})[a-z]+)", "is not a"),
    (1, "but for", "except for, apart from"),
    (1, "(?:say|says|told) of", "say about"),
    (1, "somebody|whoever", "name it: a thread, an op, the caller"),
    (1, "nobody", "no op, no thread, unused"),
    (1, "hands? on", "pass on, return"),
    (1, "runs? ahead", "is prefetched, is pipelined"),
    (1, "dear(?:er|est)", "most expensive"),
    (1, "in step", "in lockstep"),
    (1, "(?:makes?|comes?) of (?:it|them)", "turn into, become"),
    (1, "li(?:e|es) side by side|(?:as|where) (?:it|they) lies?", "contiguous, adjacent, in place"),
    (1, "what (?:lies|stands|sticks)", "name it: the elements, the text"),
    (1, "st(?:ick|icks|icking) out", "is partial, is beyond the end"),
    (1, "made again", "recomputed"),
    (1, "(?:go|goes|went) on", "continue"),
    (1, "(?:tell|tells|told) (?:\\w+ )?apart", "distinguish"),
    (1, "chang(?:e|es|ed|ing) places", "are swapped"),
    (1, "everybody|anybody|everyone|anyone", "name it: every thread, any caller"),
    (1, "hand(?:s|ed)? (?:\\w+ )?(?:over|through|to and fro)", "pass, return"),
    (1, "comes? (?:here|there)|came of", "reach, become"),
    (1, "tak(?:e|es|en|ing) (?:\\w+ )?away", "remove"),
    (1, "unless told|for as long as it is told", "by default"),
    (1, "clock on the wall", "wall-clock time"),
    (1, "found out", "detected, determined"),
    (1, "matrix products?", "matmul or GEMM"),
    (1, "rid(?:e|es|ing) on", "shares"),
    (1, "bit by bit", "bit for bit, to compare"),
    (1, "half way", "halfway"),
    (2, "(?:is|are|was|were) (?:said|told)", "a diagnostic says; is reported"),
    (2, "beside", "next to, besides, compared with"),
    (2, "taken for", "mistaken for"),
    (2, "against (?:NumPy|PyTorch|the (?:evaluator|simulator|definition))", "compared with"),
    (2, "(?:reasons?|scenes) behind|(behind)", "after"),
    (2, "(?:multi|pre)processors?|(processors?)", "CPU"),
    (2, "(?:stand|stands|stood) (?:in|at|behind|there|where|bare)", "is in, is written, comes after"),
    (2, "li(?:e|es) (?:in|at|where|so|there|like|alike|along|behind)", "is in, is contiguous along"),
    (2, "ask(?:s|ed)? for", "request, need, prefetch"),
    (2, "who", "which, the thread that"),
    (2, "row by row", "row-major, for row-major order"),
    (2, "rounds? of (?:a |the )?loops?|(?:next|each|every|first|last) round", "iteration"),
    (2, "fitted to", "adapted to, compiled for"),
    (2, "place in the source|its place", "source location, its position"),
    (2, ", too", "too, also (no comma)"),
    (3, "of (?:its|their|his) own", "its own, separate"),
    (3, "whole numbers?", "integer"),
    (3, "truth values?", "boolean"),
    (3, "wants?", "needs, requires, expects (things do not want)"),
    (3, "refus(?:e|es|ed)", "reject, for input that is not accepted"),
    (3, "quick(?:er|est|ly)?", "fast"),
    (3, "at once", "immediately; or: at the same time"),
    (3, "for good", "permanently"),
    (3, "judg(?:e|es|ed)", "check"),
    (3, "products?", "matmul or GEMM, if it is one"),
    (3, "asks?|asked", "checks, requests (things do not ask)"),
    (3, "meets?", "synchronise, conflict, are combined"),
    (3, "look(?:s|ed)? at", "inspect, read, check"),
]

C_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
HASH_TEXT = re.compile(r'"""(?:\\.|.)*?"""|#[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
CODE_BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)
CODE_SPAN = re.compile(r"`[^`\n]*`")
SPACE = r"(?:[ \t]|\n[ \t]*[*#]?[ \t]*)+"
NOT_TEXT = "\0"


def compiled(phrase):
    words = phrase.replace(" ", SPACE)
    return re.compile(rf"(?<!\w)(?:{words})(?!\w)" if phrase[0] != "," else rf"{phrase}(?!\w)(?! \w)", re.I)


def blank(text):
    """As many lines without words."""
    return NOT_TEXT + "\n" * text.count("\n")


def prose(path, text):
    """The text without its code, line by line."""
    if path.endswith(".md"):
        text = CODE_BLOCK.sub(lambda match: blank(match[0]), text)
    else:
        kept, end = [], 0
        for match in (C_TEXT if path.endswith((".c", ".h", ".def")) else HASH_TEXT).finditer(text):
            kept += [blank(text[end : match.start()]), match[0]]
            end = match.end()
        text = "".join(kept)
    return CODE_SPAN.sub(NOT_TEXT, text)


def hints(path, text, phrases):
    """Line, phrase and advice of each hint in a file."""
    text = prose(path, text)
    for pattern, advice in phrases:
        for match in pattern.finditer(text):
            if match.lastindex or not pattern.groups:
                yield text.count("\n", 0, match.start()) + 1, re.sub(r"[\s*#]+", " ", match[0]), advice


def files(paths):
    for path in paths:
        if os.path.isfile(path):
            yield path
        for folder, dirs, names in os.walk(path):
            dirs[:] = sorted(d for d in dirs if not d.startswith((".", "__pycache__")))
            for name in sorted(names):
                if name.endswith(ENDINGS):
                    yield os.path.join(folder, name)


def main():
    head, _, rest = __doc__.partition("\n")
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=head, epilog=rest, formatter_class=form)
    parser.add_argument("--level", type=int, default=1, choices=(1, 2, 3), help="how sure: 1 is surest")
    parser.add_argument("paths", nargs="*", metavar="PATH")
    args = parser.parse_args()
    phrases = [(compiled(phrase), advice) for level, phrase, advice in PHRASES if level <= args.level]
    found = collections.Counter()
    for path in files(args.paths or [os.path.join(ROOT, top) for top in TOPS]):
        shown = os.path.relpath(path, ROOT) if path.startswith(ROOT) else path
        if shown in SKIPPED:
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for line, phrase, advice in sorted(hints(path, text, phrases)):
            found[advice] += 1
            print(f"{shown}:{line}: {phrase}: {advice}")
    print(f"{sum(found.values())} phrases to look at (level {args.level})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
