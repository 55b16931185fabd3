#!/usr/bin/env python3
"""Writes the pictures of docs/: drawings extracted from the simulator's page, the banks of an
allocation's words, from the `memory` layout that a pass has chosen, and schedules of loops.

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


def wavec(*words):
    done = subprocess.run([WAVEC, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def page(kernel, target):
    return wavec("run", kernel, "--target", target, "--html=-")


def alone(drawing):
    """A drawing of the page as a separate file, with its style."""
    if "xmlns=" not in drawing:
        drawing = drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return drawing.replace("</title>", "</title>\n" + STYLE, 1) + "\n"


def stack(kernel, target):
    """The bank conflicts of the most expensive access of a kernel."""
    return alone(re.search(r'<svg [^>]*class="stack".*?</svg>', page(kernel, target), re.S).group())


def tile(kernel, target, name):
    """Which lanes hold the tile of that name; a tile without one is found by its op."""
    for figure in re.findall(
        r'<figure class="layout-map">.*?</figure>', page(kernel, target), re.S
    ):
        if f"<b>{name}</b>" in figure:
            return alone(re.search(r"<svg .*?</svg>", figure, re.S).group())
    raise SystemExit(f"{kernel} on {target} has no tile `{name}`")


# ---- words and banks


class Memory:
    """The text of a memory layout: `[8, 8] d1/8:1 d0/8:8 xor 0x7>>3 : 32 bits`."""

    def __init__(self, text):
        self.text = text
        extents, rest = re.fullmatch(r"\[([\d, ]+)\](.*)", text).groups()
        self.extents = [int(n) for n in extents.split(",")]
        self.digits = [[int(n) for n in d] for d in re.findall(r"d(\d+)/(\d+):(\d+)", rest)]
        flips = re.findall(r"xor (0x[0-9a-f]+)>>(\d+)", rest)
        self.flips = [(int(mask, 16), int(shift)) for mask, shift in flips]
        self.bytes = int(re.search(r": (\d+) bits", rest).group(1)) // 8

    def offset(self, coords):
        left, at = list(coords), 0
        for dim, radix, stride in self.digits:
            at += left[dim] % radix * stride
            left[dim] //= radix
        for mask, shift in self.flips:
            at ^= (at >> shift) & mask
        return at


def allocation(kernel, target, name):
    text = wavec(kernel, f"--target={target}", "--passes=all", "--stop-after=copies", "--emit=wave")
    found = re.search(rf"%{re.escape(name)} = alloc {{.*?memory = (.*? bits)", text)
    return Memory(found.group(1))


def words(kernel, target, name, rows, banks):
    """The first rows of an allocation, a box for each word, with its bank. Left: row-major; right:
    as `copies` has laid it out."""
    chosen = allocation(kernel, target, name)
    width = chosen.extents[1]
    plain = Memory(f"[{rows}, {width}] d1/{width}:1 d0/{rows}:{width} : {8 * chosen.bytes} bits")
    per_word, side, gap = 4 // chosen.bytes, 26, 40
    columns = width // per_word
    wide, high = 2 * columns * side + gap, rows * side + 20
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -1 {wide + 2} {high + 2}" '
        f'width="{wide + 2}" height="{high + 2}" stroke="#8886" role="img">',
        f"<title>banks of the words of {rows} rows: row by row, and {chosen.text}</title>\n{STYLE}",
    ]
    for i, memory in enumerate((plain, chosen)):
        left = i * (columns * side + gap)
        out.append(f'<text class="axis" x="{left}" y="12">{["row by row", "swizzled"][i]}</text>')
        for row in range(rows):
            for column in range(columns):
                bank = memory.offset((row, column * per_word)) * memory.bytes // 4 % banks
                x, y = left + column * side, 20 + row * side
                out.append(
                    f'<rect x="{x}" y="{y}" width="{side}" height="{side}" '
                    f'fill="hsl({360 * bank // banks} 62% 74%)"/>'
                    f'<text x="{x + side // 2}" y="{y + 17}" text-anchor="middle">{bank}</text>'
                )
    return "\n".join(out) + "\n</svg>\n"


PICTURES = {
    "docs/tile16.svg": lambda: tile("docs/tile16.wave", "sim:gfx942", "sum"),
    "docs/operand.svg": lambda: tile("docs/tile16.wave", "sim:sm_80", "x"),
    "docs/rows24.svg": lambda: tile("docs/rows24.wave", "sim:sm_80", "x"),
    "docs/convert_from.svg": lambda: tile("docs/chain.wave", "sim:gfx950", "eh"),
    "docs/convert_to.svg": lambda: tile("docs/chain.wave", "sim:gfx950", "convert"),
    "docs/swizzle.svg": lambda: words("docs/staged.wave", "sm_80", "a.1", 8, 32),
    "docs/schedule.svg": lambda: wavec(
        "docs/staged.wave", "--target=sm_80", "--emit=schedule-svg"
    ),
    "docs/banks.svg": lambda: stack("tests/run/sim_transpose.wave", "sim:sm_90a"),
}


def main():
    stale = []
    for name, draw in PICTURES.items():
        text, path = draw(), os.path.join(ROOT, name)
        if "--check" not in sys.argv:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        elif not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            stale.append(name)
    if stale:
        print(f"{', '.join(stale)}: not current; run tools/gen_pictures.py")
    return len(stale) > 0


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(print(__doc__))
    sys.exit(main())
