"""Addresses on `emu` whose elements are counted in 64 bits, but whose bytes fit into 32."""

import numpy as np
import pytest

from amd_utils import has_llvm
from wave_lang import _wave

pytestmark = pytest.mark.skipif(not has_llvm(), reason="libLLVM is not installed")

# The size of M is not known where the tile is written, so rows are counted in 64 bits.
KERNEL = """kernel @k(%a: mem<M, K, f16, shared>, %b: mem<K, N, f16>, %c: mem<M, N, f32>)
  workgroup M by 16 on 0; tile K by 16
  wave M by 16
  hardware threads 64, mma F32_16x16x16_F16, vector {{M: 16, N: 51}}
  dynamic M, N, K
{{
  %zero = fill 0.0 : tile<M, N, f32>
  %sum = for K carry %acc = %zero {{
    %x = read %a {{mapping = map 2 {{M: $index0, K: $index1 + {shift}}} -> {{M: $index0, K: $index1}}}}
    %y = read %b {{mapping = map 2 {{K: $index1, N: $index0}} -> {{N: $index0, K: $index1}}}} : tile<N, K, f16>
    %n = mma %x, %y, %acc
    yield %n
  }}
  %rows = scalar {rows} : i32
  set_symbol M %rows
  write %sum, %c
}}
"""


class Compiled(_wave.Launchable):
    def __init__(self, text, target):
        kernel = _wave.parse(text, "k.wave")[0]
        self._bind(kernel)
        self._use(kernel.compile(target=target, cache=-1))


@pytest.mark.parametrize("shift", [1, 2, 5])
@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx1100"])
def test_an_index_is_multiplied_by_the_size_of_an_element(chip, shift):
    for rows, columns, depth in ((1, 51, 7), (19, 51, 40)):
        text = KERNEL.format(shift=shift, rows=rows)
        rng = np.random.default_rng(shift)
        a, b = (rng.integers(-8, 9, s).astype("f2") for s in ((rows, depth), (depth, columns)))
        got, want = np.zeros((rows, columns), "f4"), np.zeros((rows, columns), "f4")
        Compiled(text, f"emu:{chip}")(a, b, got)
        moved = np.zeros_like(a)
        moved[:, :-shift] = a[:, shift:]
        np.matmul(moved.astype("f4"), b.astype("f4"), out=want)
        assert np.array_equal(got, want)
