"""What a launch on `emu` reports: the kernel, the source line, the instruction and the tensor."""

import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WAVEC = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")

# Line 6 loads, line 7 stores.
SHIFTED = """thread kernel @shifted(%x: mem<N, f32>, %y: mem<P, f32>)
  launch grid (2) block (64) wave {lanes}
  bind N = {n}; bind P = {p}
{{
  %at = expr 64*$WG0 + $T0 + {shift} : index
  %v = load %x, %at : f32
  store %v, %y, %at
}}
"""

# Every lane adds its element to the last one of %n.
COUNT = """thread kernel @count(%x: mem<N, {dtype}>, %n: mem<P, {dtype}>)
  launch grid (1) block (64) wave {lanes}
  bind N = 64; bind P = {n}
{{
  %at = expr $T0 : index
  %last = expr {first} : index
  %v = load %x, %at : {dtype}
  %old = atomic add %v, %n, %last : {dtype}
}}
"""

# The last element of %n stays as it is.
NEUTRAL = """thread kernel @neutral(%n: mem<P, {dtype}>)
  launch grid (1) block (64) wave {lanes}
  bind P = 3
{{
  %last = expr 2 : index
  %v = scalar {value} : {dtype}
  %old = atomic {mode} %v, %n, %last : {dtype}
}}
"""


def run(path, chip):
    words = [WAVEC, "run", str(path), "--target", f"emu:{chip}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "E0901" in done.stderr:
        pytest.skip("no libLLVM for AMD GPUs")
    return done


@pytest.mark.parametrize(
    "chip, lanes", [("gfx942", 64), ("gfx90a", 64), ("gfx1100", 32), ("gfx1201", 32)]
)
@pytest.mark.parametrize(
    "n, p, shift, line, said",
    [
        (128, 128, 0, 0, ""),
        (100, 128, 0, 6, "4 bytes are read at byte 400 of `x`, which has 400"),
        (128, 100, 0, 7, "4 bytes are written at byte 400 of `y`, which has 400"),
        (128, 128, 1, 6, "4 bytes are read at byte 512 of `x`, which has 512"),
        (128, 128, -1, 6, "of `x`, which has 512"),
        (4096, 128, 1 << 20, 6, "of `x`, which has 16384"),
    ],
)
def test_outside_a_tensor(tmp_path, chip, lanes, n, p, shift, line, said):
    path = tmp_path / "shifted.wave"
    path.write_text(SHIFTED.format(lanes=lanes, n=n, p=p, shift=shift))
    done = run(path, chip)
    if not said:
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1 and said in done.stderr
    kind = "store" if line == 7 else "load"
    place = rf"{chip}: kernel `wave_shifted`, \S*shifted.wave:{line}, pc 0x\w+ \(`global_{kind}_\w+ "
    assert re.search(place, done.stderr), done.stderr


@pytest.mark.parametrize("chip", ["gfx1100", "gfx1201"])
def test_races(chip):
    done = run(os.path.join(ROOT, "docs", "race.wave"), chip)
    assert done.returncode == 1
    assert re.search(r"kernel `wave_race`, \S*race.wave:(9|11), pc 0x\w+ \(`ds_", done.stderr)


@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("dtype, first", [("f16", 0), ("f16", 1), ("i8", 0), ("i8", 3), ("u8", 1)])
def test_atomics_on_parts_of_words(tmp_path, chip, dtype, first):
    """LLVM makes them of operations on whole words, of which a part is not the tensor's."""
    path = tmp_path / "count.wave"
    lanes = 32 if chip.startswith("gfx1") else 64
    path.write_text(COUNT.format(dtype=dtype, lanes=lanes, first=first, n=first + 1))
    done = run(path, chip)
    assert done.returncode == 0, done.stderr
    machine = "gfx1100" if lanes == 32 else "gfx942"
    simulated = subprocess.run(
        [WAVEC, "run", str(path), "--target", f"sim:{machine}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout and done.stdout == simulated.stdout, simulated.stderr


@pytest.mark.parametrize("chip", ["gfx942", "gfx1201"])
@pytest.mark.parametrize("dtype", ["u8", "i16"])
@pytest.mark.parametrize("mode, value", [("or", 0), ("xor", 0), ("and", -1), ("add", 0), ("max", 0)])
def test_atomics_that_change_nothing(tmp_path, chip, dtype, mode, value):
    """LLVM would make a load of them, which reads bytes outside the tensor."""
    path = tmp_path / "neutral.wave"
    lanes = 32 if chip.startswith("gfx1") else 64
    value = 255 if value < 0 and dtype == "u8" else value
    path.write_text(NEUTRAL.format(dtype=dtype, lanes=lanes, mode=mode, value=value))
    done = run(path, chip)
    assert done.returncode == 0, done.stderr
