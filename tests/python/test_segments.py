"""Loops over a part of a tensor's rows that only the workgroup knows (by TMA on Hopper, where the rows
end inside the tensor), and masks that hold for most tiles: kernels as users write them, with
everything outside the parts full of NaN."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as GLOBAL
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as SHARED

GROUP, ROW, M, N, K, FIRST, START = (
    getattr(tkl.sym, name) for name in "GROUP ROW M N K FIRST START".split()
)
TARGETS = ("cpu", "sim:sm_90a", "sim:gfx942")
RNG = np.random.default_rng(3)


# ---- sums over segments: the gradient of grouped weights ----


def weight_gradient(m, n, target, dtype=tkl.f16, clamp=True, block=64):
    """c[g] = x[rows of g].T @ y[rows of g], where row numbers are in `ends`."""
    i, j = (tkw.IndexMapping.iterator(d) for d in range(2))
    following = tkw.IndexMapping(1, inputs={GROUP: i + 1}, outputs={GROUP: i})
    x_of = tkw.IndexMapping(2, inputs={ROW: j + START, M: i}, outputs={M: i, K: j})
    y_of = tkw.IndexMapping(2, inputs={ROW: j + START, N: i}, outputs={N: i, K: j})
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16, vector_shapes={GROUP: 0}),
        tkw.WorkgroupConstraint(M, 64, 0),
        tkw.WorkgroupConstraint(N, 64, 1),
        tkw.WorkgroupConstraint(GROUP, 1, 2, iters=GROUP - 1),
        tkw.TilingConstraint(K, block),
        tkw.WaveConstraint(M, 32),
        tkw.WaveConstraint(N, 32),
    ]
    one_less = tkl.MemoryLayout(shape=[GROUP - 1, M, N])

    @tkw.wave(constraints)
    def gradient(
        x: tkl.Memory[ROW, M, SHARED, dtype],
        y: tkl.Memory[ROW, N, SHARED, dtype],
        ends: tkl.Memory[GROUP, GLOBAL, tkl.i32],
        c: tkl.Memory[GROUP, M, N, GLOBAL, tkl.f32, one_less],
    ):
        first = tkw.read(ends)
        tkw.set_symbol(FIRST, first)
        tkw.set_symbol(K, tkw.read(ends, mapping=following) - first)
        tkw.set_symbol(START, tkw.scalar(tkl.Max(FIRST, 0) if clamp else FIRST, tkl.i32))

        @tkw.iterate(K, init_args=[tkw.register([M, N], tkl.f32, 0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(x, mapping=x_of), tkw.read(y, mapping=y_of), acc)

        tkw.write(tkw.broadcast(loop, [GROUP, M, N]), c)

    options = WaveCompileOptions(subs={M: m, N: n}, dynamic_symbols=[ROW, GROUP], target=target)
    return wave_compile(options, gradient)


def segments(lengths, m, n, before=0, after=0):
    """Packed rows of the segments, with NaN before and after them."""
    starts = np.cumsum([before, *lengths]).astype(np.int32)
    rows = starts[-1] + after
    x, y = (np.full((rows, w), np.nan, np.float16) for w in (m, n))
    for first, last in zip(starts, starts[1:]):
        x[first:last] = RNG.integers(-4, 5, (last - first, m))
        y[first:last] = RNG.integers(-4, 5, (last - first, n))
    return x, y, starts


@pytest.mark.parametrize("target", TARGETS)
def test_segments_of_any_length(target):
    kernel = weight_gradient(64, 64, target)
    x, y, ends = segments([1, 0, 64, 63, 65, 0, 130], 64, 64, before=7, after=5)
    c = np.full((7, 64, 64), np.nan, np.float32)
    kernel(x, y, ends, c)
    for g, (first, last) in enumerate(zip(ends, ends[1:])):
        rows = slice(first, last)
        np.testing.assert_array_equal(c[g], x[rows].astype("f8").T @ y[rows].astype("f8"))


def copies(kernel):
    return [r.message + " ".join(n.message for n in r.notes) for r in kernel.remarks if r.code == "R0607"]


def test_rows_that_end_inside_come_by_tma():
    said = copies(weight_gradient(64, 64, "sm_90a"))
    assert len(said) == 2 and all("by TMA" in s and "up to Min(ROW" in s for s in said)


def test_rows_that_may_begin_before_the_tensor_do_not():
    """A map has a last row but no first one, so the compiler wants to know."""
    said = copies(weight_gradient(64, 64, "sm_90a", clamp=False))
    assert len(said) == 2 and all("are not known to begin inside it" in s for s in said)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_before_the_tensor_are_zeros(target):
    kernel = weight_gradient(64, 64, target, clamp=False)
    x, y, _ = segments([40], 64, 64)
    ends = np.array([-10, 30], np.int32)
    c = np.full((1, 64, 64), np.nan, np.float32)
    kernel(x, y, ends, c)
    np.testing.assert_array_equal(c[0], x[:30].astype("f8").T @ y[:30].astype("f8"))


@pytest.mark.parametrize("target", TARGETS)
def test_an_end_past_the_tensor(target):
    """The tensor has 40 rows, but the segment claims 100."""
    kernel = weight_gradient(64, 64, target)
    x, y, _ = segments([40], 64, 64)
    c = np.full((1, 64, 64), np.nan, np.float32)
    kernel(x, y, np.array([8, 108], np.int32), c)
    np.testing.assert_array_equal(c[0], x[8:].astype("f8").T @ y[8:].astype("f8"))


@pytest.mark.parametrize("target", TARGETS)
def test_no_rows_at_all(target):
    kernel = weight_gradient(64, 64, target)
    x, y, ends = segments([0, 0], 64, 64)
    c = np.full((2, 64, 64), np.nan, np.float32)
    kernel(x, y, ends, c)
    assert not c.any()


# ---- the simulator's own check ----

CLIPPED = """
thread kernel @clip(%a: mem<M, 64, f16>, %b: mem<64, 64, f16>, %first: i32, %end: i32)
  launch grid (1) block (32) wave 32 shared 8200
  dynamic M
{
  %s = alloc {base = 0} : mem<64, 64, f16, shared>
  %bar = alloc {base = 8192} : mem<1, i64, shared>
  %zero = scalar 0 : i32
  if ($T0 < 1) {
    mbar_init %bar, %zero {count = 1}
  }
  barrier workgroup
  if ($T0 < 1) {
    mbar_arrive %bar, %zero {bytes = 8192}
    tma_load %s, %zero, %bar, %zero, %a, %first, %zero, %end {box = [64, 64], swizzle = 128, clip = 0}
  }
  mbar_wait %bar, %zero, %zero
  fence_proxy
  if ($T0 < 1) {
    tma_store %s, %zero, %b, %zero, %zero {box = [64, 64], swizzle = 128}
    bulk_commit
    bulk_wait 0
  }
}
"""


def clip(first, end, rows=70):
    a = RNG.integers(1, 9, (rows, 64)).astype(np.float16)
    b = np.full((64, 64), np.nan, np.float16)
    _wave.parse(CLIPPED, "clip.wave")[0].sim((a, b, first, end), "sim:sm_90a")
    return a, b


@pytest.mark.parametrize("first, end", [(0, 70), (0, 64), (3, 50), (40, 70), (69, 70), (30, 30), (60, 20)])
def test_simulated_rows(first, end):
    a, b = clip(first, end)
    n = max(min(end - first, 64), 0)
    np.testing.assert_array_equal(b[:n], a[first : first + n])
    assert not b[n:].any()


@pytest.mark.parametrize("first, end", [(-1, 50), (0, 71)])
def test_simulated_rows_outside(first, end):
    with pytest.raises(CompileError, match="E0806.*a clipped copy"):
        clip(first, end)


# ---- masks that hold for most tiles ----


def banded(m, n, target, seen, block=32):
    """Sums of the elements that a row sees, with a mask made of positions."""
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 16, N: block}),
        tkw.WorkgroupConstraint(M, 16, 0),
        tkw.TilingConstraint(N, block),
        tkw.WaveConstraint(M, 16),
    ]

    @tkw.wave(constraints)
    def banded(x: tkl.Memory[M, N, GLOBAL, tkl.f32], c: tkl.Memory[M, GLOBAL, tkl.f32]):
        @tkw.iterate(N, init_args=[tkw.register([M], tkl.f32, 0.0)])
        def loop(total):
            row = tkw.broadcast(tkw.self_index(M, tkl.i64), [M, N])
            column = tkw.broadcast(tkw.self_index(N, tkl.i64), [M, N])
            kept = tkw.select(seen(row, column), tkw.read(x), tkw.register([M, N], tkl.f32, 0.0))
            return tkw.sum(kept, total, dim=N)

        tkw.write(loop, c)

    return wave_compile(WaveCompileOptions(subs={M: m, N: n}, target=target), banded)


MASKS = {
    "causal": lambda r, c: c <= r,
    "strictly": lambda r, c: c < r,
    "later": lambda r, c: c >= r,
    "strictly later": lambda r, c: c > r,
    "window": lambda r, c: (c <= r + 5) & (c >= r - 20),
    "rows of four": lambda r, c: c // 4 <= r - 3,
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_of_positions(name):
    """Values are 0 or NaN where the mask does not hold: a test that is left out would show."""
    m, n = 90, 130
    rows, columns = np.indices((m, n))
    x = np.where(MASKS[name](rows, columns), RNG.integers(-9, 10, (m, n)), np.nan).astype("f4")
    for target in TARGETS:
        c = np.full(m, np.nan, np.float32)
        banded(m, n, target, MASKS[name])(x, c)
        np.testing.assert_array_equal(c, np.nansum(x.astype("f8"), axis=1))


def test_a_mask_of_32_bits_that_may_wrap_is_tested_everywhere():
    """2^31 - 1 + row wraps, so nothing follows from the largest row."""
    most = 2**31 - 1

    def seen(row, column):
        row = tkw.cast(row, tkl.i32) + most
        return tkw.cast(column, tkl.i32) >= row

    x = RNG.integers(-9, 10, (32, 64)).astype("f4")
    for target in TARGETS:
        c = np.full(32, np.nan, np.float32)
        banded(32, 64, target, seen)(x, c)
        want = x.sum(axis=1, dtype="f8")
        want[0] = 0
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("target", TARGETS)
def test_a_mask_of_two_loops(target):
    """Rows are positions of the outer loop: only columns change in the inner one."""
    m, n = 70, 90
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={GROUP: 0, M: 16, N: 32}),
        tkw.WorkgroupConstraint(GROUP, 1, 0),
        tkw.TilingConstraint(M, 16),
        tkw.TilingConstraint(N, 32),
    ]

    @tkw.wave(constraints)
    def sums(
        x: tkl.Memory[GROUP, M, N, GLOBAL, tkl.f32], c: tkl.Memory[GROUP, M, GLOBAL, tkl.f32]
    ):
        @tkw.iterate(M, init_args=[])
        def rows():
            row = tkw.broadcast(tkw.self_index(M, tkl.i64) + 3, [M, N])

            @tkw.iterate(N, init_args=[tkw.register([GROUP, M], tkl.f32, 0.0)])
            def columns(total):
                column = tkw.broadcast(tkw.self_index(N, tkl.i64), [M, N])
                none = tkw.register([GROUP, M, N], tkl.f32, 0.0)
                return tkw.sum(tkw.select(column < row, tkw.read(x), none), total, dim=N)

            tkw.write(columns, c)

    x = np.where(np.tri(m, n, 2, bool), RNG.integers(-9, 10, (2, m, n)), np.nan).astype("f4")
    c = np.full((2, m), np.nan, np.float32)
    wave_compile(WaveCompileOptions(subs={GROUP: 2, M: m, N: n}, target=target), sums)(x, c)
    np.testing.assert_array_equal(c, np.nansum(x.astype("f8"), axis=2))
