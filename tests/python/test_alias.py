"""Launches in which one tensor is the first columns of another: both are read once."""

import numpy as np
import pytest

from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL

M, N, WIDE, ROWS = tkl.sym.M, tkl.sym.N, tkl.sym.WIDE, tkl.sym.ROWS
i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
ROW = tkw.IndexMapping.dynamic_val(0)


def of(columns, first=0):
    """Rows that a table names, of the columns from `first` on."""
    return tkw.IndexMapping(
        2,
        inputs={ROWS: ROW, columns: j + first},
        outputs={M: i, N: j},
        dynamic_val_mappings=({M: i},),
    )


def made(first=0, writes=False):
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64}),
        tkw.WorkgroupConstraint(M, 1, 1),
        tkw.WorkgroupConstraint(N, 64, 0),
    ]

    @tkw.wave(constraints)
    def both(
        a: tkl.Memory[ROWS, WIDE, GLOBAL, tkl.f32],
        b: tkl.Memory[ROWS, N, GLOBAL, tkl.f32],
        table: tkl.Memory[M, GLOBAL, tkl.i32],
        c: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        at = tkw.read(table)
        x = tkw.read(a, mapping=of(WIDE, first), mapping_dynamic_vals=(at,))
        if writes:
            there = tkw.IndexMapping(
                2,
                inputs={M: i, N: j},
                outputs={ROWS: ROW, WIDE: j},
                dynamic_val_mappings=({M: i},),
            )
            tkw.write(x, a, mapping=there, mapping_dynamic_vals=(at,))
        y = tkw.read(b, mapping=of(N), mapping_dynamic_vals=(at,))
        tkw.write(x + y * 2.0, c)

    options = WaveCompileOptions(dynamic_symbols=[M, N, WIDE, ROWS], target="cpu")
    return wave_compile(options, both)


def aliased(kernel):
    return [v.compiled for v in kernel.program.variants if "first columns" in v.facts]


@pytest.mark.parametrize("columns", (64, 72, 96))
def test_first_columns_are_read_once(columns):
    """72 columns leave part of a tile empty, in which the other tensor has elements."""
    rng, kernel = np.random.default_rng(1), made()
    a = rng.standard_normal((9, 128)).astype("f4")
    table, c = np.array([8, 0, 3, 3], "i4"), np.full((4, columns), np.nan, "f4")
    kernel(a, a[:, :columns], table, c)
    np.testing.assert_array_equal(c, a[table, :columns] * np.float32(3))
    assert aliased(kernel).count(True) == 1


def test_other_launches_read_both():
    """Other columns, other rows, rows that are apart in another way, another tensor."""
    rng, kernel = np.random.default_rng(2), made()
    a = rng.standard_normal((18, 128)).astype("f4")
    table = np.array([8, 0, 3, 3], "i4")
    pairs = [
        (a[:9], a[:9, 64:]),
        (a[:9], a[9:, :64]),
        (a[:9], a[::2, :64]),
        (a[:9], a[:9, :64].copy()),
        (a[:9, :64], a.reshape(36, 64)[:9]),
    ]
    for x, y in pairs:
        c = np.full((4, 64), np.nan, "f4")
        kernel(x, y, table, c)
        np.testing.assert_array_equal(c, x[table, :64] + y[table] * np.float32(2))
    assert aliased(kernel)


def test_calls_in_turn():
    """Only the addresses of tensors differ from call to call: those of both, then of one."""
    rng, kernel = np.random.default_rng(3), made()
    a = rng.standard_normal((4, 9, 128)).astype("f4")
    table = np.array([8, 0, 3, 3], "i4")
    for x, y in ((0, 0), (1, 1), (0, 1), (2, 3), (3, 3), (0, 0), (1, 0)):
        c = np.full((4, 64), np.nan, "f4")
        kernel(a[x], a[y, :, :64], table, c)
        np.testing.assert_array_equal(c, a[x, table, :64] + a[y, table, :64] * np.float32(2))
    assert aliased(kernel).count(True) == 1


@pytest.mark.parametrize("options", ({"first": 4}, {"writes": True}))
def test_no_variant_where_reads_differ(options):
    """Reads of other columns; a tensor that is written."""
    assert not aliased(made(**options))
