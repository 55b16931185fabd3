"""Very large indices from memory: whatever their value, an access outside the tensor is masked."""

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


# ---- values that become symbols ----

BY_SYMBOL = """kernel @by_symbol(%a: mem<N, K, i32>, %i: mem<M, TYPE>, %o: mem<M, K, i32>)
  workgroup M by 1 on 0; hardware threads 64, vector {M: 0, K: 3}
  dynamic M; dynamic N; bind K = 3
{
  %x = read %i
  set_symbol signed(S) %x
  %v = read %a {mapping = map 2 {N: ROW, K: $index1} -> {M: $index0, K: $index1}} : tile<M, K, i32>
  write %v, %o
}
"""
FROM_SYMBOL = """kernel @from_symbol(%a: mem<N, i32>, %i: mem<M, TYPE>, %o: mem<M, i32>, %p: mem<M, i32>)
  workgroup M by 1 on 0; hardware threads 64, vector {M: 0, N: 4}
  tile N by 4 from ROW iters 2
  dynamic M; dynamic N
{
  %x = read %i
  set_symbol signed(S) %x
  %z = fill 0 : tile<M, i32>
  %l = fill -9 : tile<M, i32>
  %s, %m = for N carry %acc = %z, %most = %l {
    %v = read %a : tile<N, i32>
    %w = broadcast %v : tile<M, N, i32>
    %n = sum %w, %acc {dim = N}
    %k = max %w, %most {dim = N}
    yield %n, %k
  }
  write %s, %o
  write %m, %p
}
"""
ADD_BY_SYMBOL = """kernel @add(%a: mem<N, i32>, %i: mem<M, TYPE>, %v: mem<M, i32>)
  workgroup M by 1 on 0; hardware threads 64, vector {M: 0}
  dynamic M; dynamic N
{
  %x = read %i
  set_symbol signed(S) %x
  %y = read %v
  %old = atomic_add %y, %a {mapping = map 1 {N: ROW} -> {M: $index0}}
}
"""
WHILE = """kernel @far_loop(%a: mem<N, i32>, %i: mem<M, i64>, %o: mem<M, i32>)
  workgroup M by 1 on 0; tile N by 1; hardware threads 64, vector {M: 0, N: 1}
  dynamic M; dynamic N
{
  %x = read %i
  %z = fill 0 : tile<M, i32>
  %one = scalar 1 : i32
  %r = while N as signed(N.2) (%at) from %x cond signed($GET_ITER_ARG_0) < 1 carry %acc = %z {
    %v = read %a : tile<N, i32>
    %w = broadcast %v : tile<M, N, i32>
    %n = sum %w, %acc {dim = N}
    %c = add %n, %one
    yield %x, %c
  }
  write %r, %o
}
"""


def skip_without(way):
    if way == "cpu" and not HAS_CPU:
        pytest.skip("no libLLVM")


def by_symbol(text, row, dtype):
    row = row.replace("$dynamic_val0", "signed(S)")
    return text.replace("ROW", row).replace("TYPE", dtype)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["i64", "i32"])
@pytest.mark.parametrize("row", ROW_OF)
def test_read_by_symbol(row, dtype, way):
    skip_without(way)
    table = (10 * np.arange(1, ROWS + 1)[:, None] + np.arange(COLUMNS)).astype("i4")
    index = far(dtype.replace("i", "int"))
    rows = [ROW_OF[row](int(d)) for d in index]
    expected = np.stack([table[r] if 0 <= r < ROWS else 0 * table[0] for r in rows])
    out = np.full(expected.shape, -7, "i4")
    run(way, by_symbol(BY_SYMBOL, row, dtype), table, index, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["i64", "i32"])
@pytest.mark.parametrize("row", ROW_OF)
def test_loop_from_symbol(row, dtype, way):
    """Elements after the end do not exist; reads before the start give 0."""
    skip_without(way)
    line, index = -np.arange(1, ROWS + 1, dtype="i4"), far(dtype.replace("i", "int"))
    sums, most = [], []
    for d in index:
        at = [ROW_OF[row](int(d)) + j for j in range(8)]
        seen = [int(line[r]) if r >= 0 else 0 for r in at if r < ROWS]
        sums.append(sum(seen))
        most.append(max([-9, *seen]))
    out, largest = np.full((2, index.size), -7, "i4")
    run(way, by_symbol(FROM_SYMBOL, row, dtype), line, index, out, largest)
    np.testing.assert_array_equal(out, sums)
    np.testing.assert_array_equal(largest, most)


@pytest.mark.parametrize("way", [w for w in WAYS if w != "sim:cpu"])
@pytest.mark.parametrize("row", ROW_OF)
def test_atomic_by_symbol(row, way):
    skip_without(way)
    memory, index = np.zeros(3 * ROWS, "i4"), far("int64")
    expected = np.zeros_like(memory)
    for d in index:
        r = ROW_OF[row](int(d))
        if 0 <= r < ROWS:
            expected[ROWS + r] += 1
    text = by_symbol(ADD_BY_SYMBOL, row, "i64")
    run(way, text, memory[ROWS : 2 * ROWS], index, np.ones(index.size, "i4"))
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("way", WAYS)
def test_while_loop_that_begins_far_away(way):
    skip_without(way)
    line, index = np.arange(10, 10 + ROWS, dtype="i4"), far("int64")
    expected = [int(line[d]) if 0 <= d < ROWS else 0 for d in index.tolist()]
    out = np.full(index.size, -7, "i4")
    run(way, WHILE, line, index, out)
    np.testing.assert_array_equal(out, np.array(expected) + 1)


@pytest.mark.parametrize("way", ["eval", "cpu", "sim:sm_90a"])
def test_products_of_symbols_are_refused(way):
    skip_without(way)
    text = by_symbol(BY_SYMBOL, "$dynamic_val0*floor($dynamic_val0/2)", "i64")
    args = np.zeros((ROWS, COLUMNS), "i4"), np.full(8, 1 << 62), np.zeros((8, COLUMNS), "i4")
    with pytest.raises(Exception, match="E0710|E0601"):
        run(way, text, *args)


# ---- values that are looked up at other positions than the tile's own

# The position of each element's index, in text and in NumPy; some are outside the table.
LOOKED_UP_AT = {
    "$index0 + 1": lambda i: i + 1,
    "$index0 - 3": lambda i: i - 3,
    "2*$index0": lambda i: 2 * i,
    "7 - $index0": lambda i: 7 - i,
    "floor($index0/2)": lambda i: i // 2,
    "$index0 + 1000000000": lambda i: i + 10**9,
    "$index0 - 40000000000": lambda i: i - 4 * 10**10,
}
LOOKUP = """kernel @lookup(%a: mem<N, i32>, %i: mem<M, i32>, %o: mem<M, i32>)
  workgroup M by 8 on 0; hardware threads 64, vector {M: 8}
  ROWS
{
  %x = read %i
  %one = scalar 1 : i32
  %y = sub %x, %one
  %v = read %a, %y {mapping = map 1 {N: $dynamic_val0} -> {M: $index0} with {M: PLACE}} : tile<M, i32>
  write %v, %o
}
"""


@pytest.mark.parametrize("place", LOOKED_UP_AT)
@pytest.mark.parametrize("rows", ["dynamic M; dynamic N", "bind M = 8; bind N = 5", "bind M = 6; bind N = 5"])
@pytest.mark.parametrize("way", WAYS)
def test_looked_up_outside_of_the_table(way, rows, place):
    """No machine reads outside the table; all its elements are found, in other workgroups' tiles
    too."""
    if way == "cpu" and not HAS_CPU:
        pytest.skip("there is no libLLVM")
    n = {"dynamic M; dynamic N": 19}.get(rows, 8 if "M = 8" in rows else 6)
    table = np.random.default_rng(1).integers(1, 6, n).astype("i4")
    values, found = np.arange(5, dtype="i4") + 10, np.zeros(n, "i4")
    at = LOOKED_UP_AT[place](np.arange(n))
    inside = (at >= 0) & (at < n)
    text = LOOKUP.replace("ROWS", rows).replace("PLACE", place)
    if way == "eval":  # it holds a tile at a time
        held = (at // 8 == np.arange(n) // 8) & (at >= 0)
        if not held.all():
            with pytest.raises(Exception, match="E0710"):
                run(way, text, values, table, found)
            return
    run(way, text, values, table, found)
    assert (found[inside] == values[table[at[inside]] - 1]).all()
