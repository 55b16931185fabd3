"""Indices from memory that are far away: whatever their value, an access outside of the tensor is masked."""

import numpy as np
import pytest

from wave_lang import _wave
from wave_lang.testing import simulate

WAYS = ("eval", "cpu", "sim:cpu", "sim:sm_90a", "sim:sm_80", "sim:gfx942")
HAS_CPU = any(device.kind == "cpu" for device in _wave.devices())
ROWS, COLUMNS = 8, 3

# How a mapping may compute a row from a value, in text and in exact arithmetic.
ROW_OF = {
    "$dynamic_val0": lambda d: d,
    "2*$dynamic_val0": lambda d: 2 * d,
    "N*$dynamic_val0": lambda d: ROWS * d,
    "$dynamic_val0 + 1": lambda d: d + 1,
    "3 - $dynamic_val0": lambda d: 3 - d,
    "floor($dynamic_val0/2)": lambda d: d // 2,
    "7*floor($dynamic_val0/3) + 1": lambda d: 7 * (d // 3) + 1,
    "1000000007*$dynamic_val0": lambda d: 1000000007 * d,
    "Mod($dynamic_val0, N)": lambda d: d % ROWS,
    "Min(Max($dynamic_val0, 0), N - 1)": lambda d: min(max(d, 0), ROWS - 1),
}
GATHER = """kernel @gather(%a: mem<N, K, i32>, %i: mem<M, TYPE>, %o: mem<M, K, i32>)
  workgroup M by 8 on 0; hardware threads 64, vector {M: 8, K: 3}
  dynamic M; dynamic N; bind K = 3
{
  %x = read %i
  %v = read %a, %x {mapping = map 2 {N: ROW, K: $index1} -> {M: $index0, K: $index1} with {M: $index0}} : tile<M, K, i32>
  write %v, %o
}
"""
SCATTER = """kernel @scatter(%a: mem<N, i32>, %i: mem<M, TYPE>, %v: mem<M, i32>)
  workgroup M by 8 on 0; hardware threads 64, vector {M: 8}
  dynamic M; dynamic N
{
  %x = read %i
  %y = read %v
  %old = atomic_add %y, %a, %x {mapping = map 1 {N: ROW} -> {M: $index0} with {M: $index0}}
}
"""


class Compiled(_wave.Launchable):
    def __init__(self, kernel):
        self._bind(kernel)
        self._use(kernel.compile(target="cpu", cache=-1))


def run(way, text, *args):
    if way == "eval":
        _wave.parse(text, "far.wave")[0].eval(args)
    elif way == "cpu":
        Compiled(_wave.parse(text, "far.wave")[0])(*args)
    else:
        simulate(text, *args, target=way)


def far(dtype):
    most = np.iinfo(dtype).max
    near = [0, 1, 2, 3, 4, 5, -1, -2]
    return np.array(near + [most, -most - 1, most // 2, most // 2 + 1, -(most // 2), most // 3], dtype)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["i64", "i32", "i8"])
@pytest.mark.parametrize("row", ROW_OF)
def test_gather(row, dtype, way):
    if way == "cpu" and not HAS_CPU:
        pytest.skip("no libLLVM")
    table = (10 * np.arange(1, ROWS + 1)[:, None] + np.arange(COLUMNS)).astype("i4")
    index = far(dtype.replace("i", "int"))
    rows = [ROW_OF[row](int(d)) for d in index]
    expected = np.stack([table[r] if 0 <= r < ROWS else 0 * table[0] for r in rows])
    out = np.full(expected.shape, -7, "i4")
    run(way, GATHER.replace("ROW", row).replace("TYPE", dtype), table, index, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("way", [w for w in WAYS if w != "sim:cpu"])
@pytest.mark.parametrize("row", ["2*$dynamic_val0", "$dynamic_val0 + 1", "Mod($dynamic_val0, N)"])
def test_atomic(row, way):
    """The neighbours of a tensor are not written."""
    if way == "cpu" and not HAS_CPU:
        pytest.skip("no libLLVM")
    memory = np.zeros(3 * ROWS, "i4")
    index = far("int64")
    expected = np.zeros_like(memory)
    for d in index:
        r = ROW_OF[row](int(d))
        if 0 <= r < ROWS:
            expected[ROWS + r] += 1
    text = SCATTER.replace("ROW", row).replace("TYPE", "i64")
    run(way, text, memory[ROWS : 2 * ROWS], index, np.ones(index.size, "i4"))
    np.testing.assert_array_equal(memory, expected)


def test_products_of_values_from_memory_are_refused():
    text = GATHER.replace("ROW", "$dynamic_val0*floor($dynamic_val0/2)").replace("TYPE", "i64")
    args = np.zeros((ROWS, COLUMNS), "i4"), np.zeros(8, "i8"), np.zeros((8, COLUMNS), "i4")
    with pytest.raises(Exception, match="from memory"):
        run("eval", text, *args)
    with pytest.raises(Exception, match="from memory"):
        run("sim:sm_90a", text, *args)
