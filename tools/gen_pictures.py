#!/usr/bin/env python3
"""Writes the pictures of docs/: drawings of the simulator's own page, taken out of it.

tools/gen_pictures.py            rewrites docs/*.svg
tools/gen_pictures.py --check    fails when one is not current

wavec is taken from the folder BUILD (build).
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WAVEC = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")
STYLE = (
    "<style>text{font:11px monospace;stroke:none}.labels text{font-size:.3px}.axis{fill:#888}"
    "</style>"
)

# file: (kernel, target, class of the drawing, which of them)
PICTURES = {
    "docs/tile16.svg": ("docs/tile16.wave", "sim:gfx942", "map", 0),
    "docs/banks.svg": ("tests/run/sim_transpose.wave", "sim:sm_90a", "stack", 0),
}


def page(kernel, target):
    command = [WAVEC, "run", kernel, "--target", target, "--html=-"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def picture(text, kind, number):
    """A drawing of the page as a file of its own: its style comes along."""
    drawing = re.findall(rf'<svg [^>]*class="{kind}".*?</svg>', text, re.S)[number] + "\n"
    if "xmlns=" not in drawing:
        drawing = drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return drawing.replace("</title>", "</title>\n" + STYLE, 1)


def main():
    stale = []
    for name, (kernel, target, kind, number) in PICTURES.items():
        text = picture(page(kernel, target), kind, number)
        path = os.path.join(ROOT, name)
        if "--check" not in sys.argv:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        elif not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            stale.append(name)
    if stale:
        print(f"{', '.join(stale)}: not current; run tools/gen_pictures.py")
    return len(stale) > 0


if __name__ == "__main__":
    sys.exit(main())
