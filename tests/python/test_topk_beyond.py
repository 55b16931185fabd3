"""`topk` of more elements than a tile, or a row, has: the rest is the type's lowest value at -1."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import rng
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
G = GLOBAL_ADDRESS_SPACE
TARGETS = pytest.mark.parametrize(
    "target", ["eval", "cpu", "sim:cpu", "sim:sm_80", "sim:sm_90a", "sim:gfx942"]
)
STORED = {"f32": "f4", "f16": "f2", "i32": "i4", "i8": "i1", "u32": "u4"}


def least(dtype):
    kind = np.dtype(STORED[dtype])
    return -np.inf if kind.kind == "f" else np.iinfo(kind).min


def expected(a, k, dtype):
    values = np.full((len(a), k), least(dtype), a.dtype)
    places = np.full((len(a), k), -1, "i4")
    for row, (v, p) in enumerate(zip(values, places)):
        order = np.argsort(-a[row].astype(np.float64), kind="stable")[:k]
        v[: len(order)], p[: len(order)] = a[row, order], order
    return values, places


def run(target, a, k, dtype, tile, rows=1, dynamic=True, op=lambda x: x):
    t = getattr(tkl, dtype)
    cut = [tkw.WorkgroupConstraint(N, tile, 1)] if tile else []

    @tkw.wave(
        [
            tkw.HardwareConstraint(
                threads_per_wave=64, vector_shapes={M: rows, N: tile or a.shape[1], K: k}
            ),
            tkw.WorkgroupConstraint(M, rows, 0),
            *cut,
        ]
    )
    def kernel(
        a: tkl.Memory[M, N, G, t], v: tkl.Memory[M, K, G, t], at: tkl.Memory[M, K, G, tkl.i32]
    ):
        values, places = tkw.topk(op(tkw.read(a)), K, dim=N)
        tkw.write(values, v)
        tkw.write(places, at)

    v, at = np.ones((len(a), k), a.dtype), np.zeros((len(a), k), "i4")
    sizes = {M: len(a), N: a.shape[1]}
    dynamic = [M, N] if dynamic and tile else []
    subs = {K: k, **({} if dynamic else sizes)}
    wave_compile(WaveCompileOptions(subs=subs, dynamic_symbols=dynamic, target=target), kernel)(
        a, v, at
    )
    return v, at


def numbers(dtype, *shape):
    return rng(9).permutation(np.arange(np.prod(shape)) % 100).reshape(shape).astype(STORED[dtype])


@TARGETS
@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("size, k, tile", [(5, 9, 8), (8, 11, 8), (1, 3, 4), (7, 7, 8), (3, 20, 16)])
def test_more_than_the_tile_has(target, dtype, size, k, tile):
    a = numbers(dtype, 3, size)
    v, at = run(target, a, k, dtype, tile)
    values, places = expected(a, k, dtype)
    np.testing.assert_array_equal(v, values)
    np.testing.assert_array_equal(at, places)


@TARGETS
@pytest.mark.parametrize("rows", [1, 2])
def test_more_than_a_row_that_nothing_cuts_has(target, rows):
    """The top 10 of 6 experts."""
    a = numbers("f32", 5, 6)
    v, at = run(target, a, 10, "f32", None, rows)
    values, places = expected(a, 10, "f32")
    np.testing.assert_array_equal(v, values)
    np.testing.assert_array_equal(at, places)


@TARGETS
def test_real_infinities_come_before_what_does_not_exist(target):
    a = np.array([[-np.inf, np.nan, 1, -np.inf, 2]], "f4")
    v, at = run(target, a, 8, "f32", 8)
    np.testing.assert_array_equal(v, [[2, 1, -np.inf, -np.inf, np.nan] + [-np.inf] * 3])
    np.testing.assert_array_equal(at, [[4, 2, 0, 3, 1, -1, -1, -1]])


@TARGETS
def test_a_row_without_elements(target):
    v, at = run(target, np.zeros((2, 0), "f4"), 3, "f32", 4)
    # there are no workgroups along N: nothing is written
    assert (v == 1).all() and (at == 0).all()


@TARGETS
def test_of_what_is_computed(target):
    """Padding of -|x| would be 0, more than any element."""
    a = numbers("f32", 3, 5) + 1
    v, at = run(target, a, 12, "f32", 16, op=lambda x: tkw.abs(x) * -1.0)
    values, places = expected(-a, 12, "f32")
    np.testing.assert_array_equal(v, values)
    np.testing.assert_array_equal(at, places)


SPECIAL = {
    "f32": [-0.0, 0.0, np.nan, -np.inf, 1e-40, -1e-40, np.inf, 2, -3, -3, -np.nan, 3e38, -3e38],
    "f16": [0.0, -0.0, np.nan, -np.inf, 6e-8, -6e-8, np.inf, -1.0, 65504, -65504, np.inf],
    "i32": [-(2**31), 2**31 - 1, 0, -1, -(2**31), 1, 2**31 - 1],
    "i8": [-128, 127, 0, -1, -128, 5],
}


@TARGETS
@pytest.mark.parametrize("dtype", SPECIAL)
def test_order_of_special_values(target, dtype):
    """Zeros are equal and keep their signs; NaNs come last, in their order."""
    a = np.array([SPECIAL[dtype]], STORED[dtype])
    v, at = run(target, a, a.shape[1], dtype, 16)
    numbers = [i for i in range(a.shape[1]) if not np.isnan(a[0, i])]
    order = sorted(numbers, key=lambda i: -a[0, i].astype(float))
    order += [i for i in range(a.shape[1]) if i not in numbers]
    assert at[0].tolist() == order
    n, kept = len(numbers), a[0, order]
    assert np.array_equal(v[0, :n], kept[:n]) and np.isnan(v[0, n:]).all()
    assert np.array_equal(np.signbit(v[0, :n]), np.signbit(kept[:n]))
