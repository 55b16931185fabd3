#!/usr/bin/env python3
"""Checks that passes compute no analysis and look up no machine themselves: the pass manager gives
them both (passes.def, PassCtx).

tools/check_analyses.py [ROOT]
"""

import re
import sys
from pathlib import Path

ROW = re.compile(r"^ANALYSIS\((\w+),", re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
INCLUDE = re.compile(r'^#include "(.+)"', re.M)

# The files that may do what other files of src/ must not.
ONCE = "not a pass; needs an analysis once"
COMPUTES = {
    "analysis.h": "declares it",
    "facts_table.c": "defines it",
    "pass_manager.c": "computes what the next pass needs",
    "open_tiles.c": ONCE,
    "variants.c": ONCE,
    "api_data.c": ONCE,
    "api_proof.c": ONCE,
    "api_construct.c": ONCE,
    "api_choices.c": ONCE,
    "api_explain.c": ONCE,
    "api_kernel.c": ONCE,
    "fit.c": ONCE,
    "divide_room.c": "of copies with smaller tiles",
    "trial.c": "of a copy of the kernel that it has compiled",
    "choose_trial.c": "of a copy of the kernel that it has compiled",
}
READS_MACHINE = {
    "pass_manager.c": "fills in PassCtx",
    "retarget.c": "makes the row",
    "layouts.c": "its source location, for a diagnostic",
    "lower_mma.c": "its source location, for a diagnostic",
    "stages_roles.c": "adds service waves to the row",
    "trial.c": "of a copy of the kernel that it has compiled",
    "choose_trial.c": "of a copy of the kernel that it has compiled",
    "api_schedules.c": "not a pass",
    "api_explain.c": "not a pass",
}


def with_pass_h(texts):
    """Names of the files that include pass.h, directly or not; the driver does so through
    pass_manager.h, which does not count."""
    includes = {name: {Path(i).name for i in INCLUDE.findall(t)} for name, t in texts.items()}
    found, more = set(), {"pass.h"}
    while more - found:
        found |= more
        more = {n for n, used in includes.items() if used & (found - {"pass_manager.h"})}
    return found | {"pass_manager.c"}


def wrong(src):
    """What is wrong, a line each."""
    files = {p.name: p.relative_to(src.parent) for p in sorted(src.rglob("*.[ch]"))}
    texts = {n: COMMENT.sub("", (src.parent / p).read_text("utf-8")) for n, p in files.items()}
    rows = ROW.findall(next(src.rglob("analyses.def")).read_text("utf-8"))
    call = re.compile(rf"^ .*\bfind_({'|'.join(rows)})\(", re.M)
    passes, used = with_pass_h(texts), set()
    for name, text in texts.items():
        for match in call.finditer(text):
            yield f"{files[name]}: calls find_{match[1]}; name it in passes.def, or use facts_of"
        if re.search(r"\bfacts_(of|supply)\(", text):
            used.add(name)
            if name not in COMPUTES:
                yield f"{files[name]}: computes an analysis; name it in passes.def"
        if name in passes and re.search(r"\b(CONSTRAINT|kernel)_machine\b", text):
            used.add(name)
            if name not in READS_MACHINE:
                yield f"{files[name]}: looks up the machine row; use cx->machine"
    for name in sorted((COMPUTES | READS_MACHINE).keys() - used):
        yield f"tools/check_analyses.py: {name} need not be listed"


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    found = list(wrong(root / "src"))
    print("\n".join([*found, f"{len(found)} places bypass the pass manager"]))
    return bool(found)


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(print(__doc__))
    sys.exit(main())
