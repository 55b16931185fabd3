"""Scaled matrix instructions of gfx950 in the code of a loop: operands go from the load to the
instruction as they are."""

import re
import subprocess

import pytest

from test_cpu_llvm import ROOT, WAVEC


def registers(word):
    """v7, v[4:7]"""
    found = re.fullmatch(r"v(?:(\d+)|\[(\d+):(\d+)\])", word)
    if not found:
        return []
    one, first, last = found.groups()
    return range(int(one or first), int(one or last) + 1)


def loop_of(text):
    """The instructions of the loop with the matrix instructions, in words."""
    blocks = re.split(r"^\.LBB\w+:.*$", text, flags=re.M)
    loop = max(blocks, key=lambda block: block.count("mfma_scale"))
    lines = [line.split(";")[0].strip() for line in loop.split("s_cbranch")[0].splitlines()]
    return [re.split(r"[ ,\t]+", line) for line in lines if line and not line.startswith(".")]


def test_packed_elements_reach_the_instruction():
    """What loads fill is not touched by the VALU: neither elements nor scales."""
    options = ["--target=gfx950", "--passes=all", "--emit=asm"]
    done = subprocess.run(
        [WAVEC, ROOT / "tests/isa/mxfp4.wave", *options], capture_output=True, text=True
    )
    if "E0901" in done.stderr:
        pytest.skip("no libLLVM for gfx950")
    assert done.returncode == 0, done.stderr
    writer, products = {}, 0
    loop = loop_of(done.stdout)
    for words in loop * 2:  # the second time with what an iteration leaves for the next
        if words[0].startswith("v_mfma_scale"):
            products += 1
            used = [r for i in (2, 3, 5, 6) for r in registers(words[i])]
            assert len(used) == 4 + 4 + 1 + 1
            assert not [writer[r] for r in used if writer.get(r, "").startswith("v_")]
        if words[0].startswith(("v_", "ds_read", "global_load", "buffer_load")):
            writer.update((r, words[0]) for r in registers(words[1]))
    assert products == 2 * 32
    assert not [w for w in loop if w[0].startswith("v_accvgpr")]
