"""Kernels over sequences of different lengths: workgroups whose rows do not exist leave, unless others
need what they do."""

import numpy as np
import pytest

from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

SEQ, TOKEN, ROW, D, E, START, MAX = (getattr(tkl.sym, s) for s in "SEQ TOKEN ROW D E START MAX".split())
GLOBAL, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
TARGETS = ("cpu", "sim:sm_90a", "sim:gfx942")
LENGTHS = ([0, 70, 1, 64, 0, 33], [5], [0, 0])
i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
NEXT = tkw.IndexMapping(1, inputs={SEQ: i + 1}, outputs={SEQ: i})
ROWS_AT = tkw.IndexMapping(2, inputs={TOKEN: i + START, D: j}, outputs={ROW: i, D: j})
ROWS_TO = tkw.IndexMapping(2, inputs={ROW: i, D: j}, outputs={TOKEN: i + START, D: j})
SUMS_TO = tkw.IndexMapping(1, inputs={ROW: i}, outputs={TOKEN: i + START})

x_type = tkl.Memory[TOKEN, D, GLOBAL, tkl.f32]
ends_type = tkl.Memory[SEQ, GLOBAL, tkl.i32]  # one more than sequences
sums_type = tkl.Memory[TOKEN, GLOBAL, tkl.f32]


def constraints(*more):
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={SEQ: 0, ROW: 32, D: D}),
        tkw.WorkgroupConstraint(ROW, 32, 0, iters=tkl.ceiling(MAX / 32)),
        tkw.WorkgroupConstraint(SEQ, 1, 1, iters=SEQ - 1),
        tkw.WorkgroupConstraint(D, D, 2),
        *more,
    ]


def take_rows(ends):
    first = tkw.read(ends)
    tkw.set_symbol(START, first)
    tkw.set_symbol(ROW, tkw.read(ends, mapping=NEXT) - first)


@tkw.wave(constraints())
def squares(x: x_type, ends: ends_type, MAX: tkl.SymbolBind[tkl.i32], y: x_type, sums: sums_type):
    take_rows(ends)
    value = tkw.read(x, mapping=ROWS_AT)
    square = value * value
    tkw.write(square, y, mapping=ROWS_TO)
    tkw.write(tkw.sum(square, dim=D), sums, mapping=SUMS_TO)


@tkw.wave(constraints())
def counted(x: x_type, ends: ends_type, MAX: tkl.SymbolBind[tkl.i32], y: x_type,
            lengths: tkl.Memory[SEQ, GLOBAL, tkl.i32]):  # fmt: skip
    """Workgroups without rows write the length, too."""
    take_rows(ends)
    tkw.write(tkw.read(x, mapping=ROWS_AT) * 2.0, y, mapping=ROWS_TO)
    tkw.write(tkw.read(ends, mapping=NEXT) - tkw.read(ends), lengths)


@tkw.wave(constraints())
def added(x: x_type, ends: ends_type, MAX: tkl.SymbolBind[tkl.i32],
          visits: tkl.Memory[SEQ, GLOBAL, tkl.i32], y: x_type):  # fmt: skip
    """Each workgroup of a sequence is counted, also those without rows."""
    take_rows(ends)
    tkw.atomic_add(tkw.register([SEQ], tkl.i32, 1), visits)
    tkw.write(tkw.read(x, mapping=ROWS_AT) + 1.0, y, mapping=ROWS_TO)


def made(kernel, target, lengths):
    rng = np.random.default_rng(3)
    ends = np.cumsum([0, *lengths]).astype(np.int32)
    x = rng.standard_normal((max(ends[-1], 1), 16)).astype(np.float32)
    options = WaveCompileOptions(subs={D: 16}, dynamic_symbols=[TOKEN, SEQ], target=target)
    return wave_compile(options, kernel), x, ends


def each_row(x, ends):
    known = np.zeros(len(x), bool)
    known[: ends[-1]] = True
    return known


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_exist_are_written(target, lengths):
    compiled, x, ends = made(squares, target, lengths)
    y, sums = np.full_like(x, np.nan), np.full(len(x), np.nan, np.float32)
    compiled(x, ends, max(lengths) + 100, y, sums)
    known = each_row(x, ends)
    assert np.array_equal(y[known], x[known] ** 2) and np.isnan(y[~known]).all()
    assert np.allclose(sums[known], (x[known] ** 2).sum(-1)) and np.isnan(sums[~known]).all()


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_other_writes_are_kept(target, lengths):
    compiled, x, ends = made(counted, target, lengths)
    y, found = np.full_like(x, np.nan), np.full(len(ends), -1, np.int32)
    compiled(x, ends, max(lengths) + 100, y, found)
    assert found.tolist() == [*lengths, -1]
    assert np.array_equal(y[: ends[-1]], x[: ends[-1]] * 2)


@pytest.mark.parametrize("target", TARGETS)
def test_workgroups_that_count_stay(target):
    lengths = LENGTHS[0]
    compiled, x, ends = made(added, target, lengths)
    y, visits = np.full_like(x, np.nan), np.zeros(len(ends), np.int32)
    compiled(x, ends, 100, visits, y)
    assert visits.tolist() == [4] * len(lengths) + [0]
    assert np.array_equal(y[: ends[-1]], x[: ends[-1]] + 1)


@pytest.mark.parametrize("kernel, leave", [(squares, True), (counted, False), (added, False)])
def test_only_where_all_writes_are_masked(kernel, leave, capfd):
    options = WaveCompileOptions(
        subs={D: 16}, dynamic_symbols=[TOKEN, SEQ], target="sm_90a", print_ir_after=["leave"]
    )
    wave_compile(options, kernel)
    printed = capfd.readouterr()
    assert ("if (32*$WG0 < signed(ROW" in printed.out + printed.err) == leave
