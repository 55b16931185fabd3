"""Masked accesses of LDS on `emu`: an inactive lane accesses nothing that another wave may write.

Each lane writes elements of its own and reads those of its neighbour in the wave, without a barrier.
Lanes beyond a limit are inactive, so the executor must report no race, and the simulator must give
the same result.
"""

import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WAVEC = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")
LANES = {"gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1201": 32, "gfx1250": 32}
OPEN = """thread kernel @edge(%x: mem<N, {dtype}>, %y: mem<N, {dtype}>)
  launch grid (1) block (128) wave {lanes} shared {bytes}
  bind N = {n}
{{
  %s = alloc {{base = 0}} : mem<{size}, {dtype}, shared>
  %at = expr {each}*$T0 : index
  %v = load %x, %at : {type}
"""
READ = """  store %v, %s, %at
  %here = expr $T0 < 100 : i1
  %near = expr {each}*xor($T0, 1) : index
  %w = load %s, %near, %here : {type}
"""
WRITE = """  %here = expr $T0 < 100 : i1
  %far = expr {each}*Mod($T0, 100) : index
  store %v, %s, %far, %here
  %w = load %s, %at, %here : {type}
"""
ADD = """  store %v, %s, %at
  %here = expr $T0 < 100 : i1
  %far = expr Mod($T0, 100) : index
  %old = atomic add %v, %s, %far, %here : {type}
  %w = load %s, %at, %here : {type}
"""
CLOSE = """  store %w, %y, %at
}}
"""


def run(path, target):
    words = [WAVEC, "run", str(path), "--target", target]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "E0901" in done.stderr:
        pytest.skip("no libLLVM for this chip")
    assert done.returncode == 0, done.stderr
    return done.stdout


def compare(path, chip, body, dtype, each, lds=None):
    """`lds`: bytes of the workgroup; without it, as many as the kernel uses."""
    bits = {"f32": 32, "i32": 32, "f16": 16, "i8": 8, "i4": 4}[dtype]
    used = 128 * each * bits // 8
    words = {
        "dtype": dtype,
        "each": each,
        "lanes": LANES[chip],
        "n": 128 * each,
        "size": (lds or used) * 8 // bits,
        "bytes": lds or used,
        "type": dtype if each == 1 else f"vec<{each}, {dtype}>",
    }
    path.write_text((OPEN + body + CLOSE).format(**words))
    found = run(path, f"emu:{chip}")
    assert found and found == run(path, f"sim:{chip}")


@pytest.mark.parametrize("chip", LANES)
@pytest.mark.parametrize("body", [READ, WRITE, ADD], ids=["read", "write", "add"])
def test_inactive_lanes(tmp_path, chip, body):
    compare(tmp_path / "edge.wave", chip, body, "i32", 1)


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", "i4"])
@pytest.mark.parametrize("each", [1, 2, 8])
def test_types(tmp_path, dtype, each):
    compare(tmp_path / "edge.wave", "gfx942", READ, dtype, each)
    compare(tmp_path / "edge.wave", "gfx942", WRITE, dtype, each)


@pytest.mark.parametrize("chip, lds", [("gfx942", 32768), ("gfx942", 65536), ("gfx950", 163840)])
def test_no_lds_left(tmp_path, chip, lds):
    """Inactive lanes must not cost the compute unit a workgroup."""
    compare(tmp_path / "edge.wave", chip, READ, "f32", 2, lds)
    words = [WAVEC, str(tmp_path / "edge.wave"), "--target", chip, "--emit=asm"]
    asm = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert re.search(rf"group_segment_fixed_size:? {lds}\n", asm)


SHIFTED = """kernel @shifted(%a: mem<M, f32>, %b: mem<M, K, f32, shared>, %c: mem<M, f32>)
  workgroup M by 32 on 0; tile K by 4; wave M by 16; wave K by 1
  hardware threads {lanes}, vector {{M: 32}}
  bind M = 32; bind K = 9
{{
  %x = read %a
  %sum = for K carry %s = %x {{
    %y = read %b {{mapping = map 2 {{M: $index0, K: $index1 - 1}} -> {{M: $index0, K: $index1}}}}
    %t = sum %y, %s {{dim = K}}
    yield %t
  }}
  write %sum, %c
}}
"""


@pytest.mark.parametrize("chip", LANES)
def test_offsets_before_the_tensor(tmp_path, chip):
    """LLVM 22 computes x + 3 as (x - 1) + 4, and makes the 4 a part of the instruction."""
    path = tmp_path / "shifted.wave"
    path.write_text(SHIFTED.format(lanes=LANES[chip]))
    found = run(path, f"emu:{chip}")
    assert found and found == run(path, f"sim:{chip}")


TURNED = """kernel @turned(%a: mem<M, N, i32, shared, layout(_, _)>, %o: mem<N, M, i32>)
  workgroup M by 1 on 0; wave M by 1
  hardware threads 64, vector {M: 1, N: 97}
  bind M = 5; bind N = 97
{
  %v = read %a
  %r = atomic_xor %v, %o
}
"""


@pytest.mark.parametrize("chip", LANES)
def test_scaled_offsets(tmp_path, chip):
    """LLVM 22 lets gfx1250 scale an offset of which it kept only the lower 30 bits."""
    path = tmp_path / "turned.wave"
    path.write_text(TURNED)
    found = run(path, f"emu:{chip}")
    assert found and found == run(path, f"sim:{chip}")


UPPER = """kernel @upper(%a: mem<N, i16>, %o: mem<N, u32>, %q: mem<N, i16>)
  workgroup N by {n} on 0
  hardware threads 64, vector {{N: {n}}}
  bind N = {n}
{{
  %x = read %a
  %f = scalar 6000 : i16
  %y = mul %x, %f
  %e = scalar 8 : {dtype}
  %wide = cast %y : tile<N, {dtype}>
  %down = shr %wide, %e
  %s = cast %down : tile<N, i16>
  %u = bitcast %s : tile<N, u16>
  %w = cast %u : tile<N, u32>
  %three = scalar 3 : u32
  %z = shl %w, %three
  write %z, %o
  %r = atomic_or %s, %q
}}
"""


@pytest.mark.parametrize("n", [64, 192])
@pytest.mark.parametrize("dtype", ["i16", "i32"])
@pytest.mark.parametrize("chip", LANES)
def test_upper_bytes(tmp_path, chip, dtype, n):
    """LLVM extends the upper byte of a word with its sign, also where zeros are needed above."""
    path = tmp_path / "upper.wave"
    path.write_text(UPPER.format(dtype=dtype, n=n))
    found = run(path, f"emu:{chip}")
    assert found and found == run(path, f"sim:{chip}")
