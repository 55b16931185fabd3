"""Kernels whose result depends on threads: the CPU of this machine compared with NumPy, as well as
the simulator. Each declares waves and lanes, and must run with exactly those."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import rng
from wave_lang import CompileError, LaunchError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N, K, S, TOP = (getattr(tkl.sym, s) for s in ("M", "N", "K", "S", "TOP"))
G, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
HAS_CPU = any(d.kind == "cpu" for d in _wave.devices())
needs_cpu = pytest.mark.skipif(not HAS_CPU, reason="there is no libLLVM")
TARGETS = pytest.mark.parametrize(
    "target", [pytest.param("cpu", marks=needs_cpu), "sim:cpu", "sim:gfx942", "sim:sm_90a"]
)


def build(kernel, subs, target, dynamic=()):
    """Compiled for the target as lane-observable: not evaluated, and not as tiles."""
    options = WaveCompileOptions(subs=subs, target=target, dynamic_symbols=list(dynamic))
    made = wave_compile(options, kernel)
    if target == "cpu":
        assert made.compile_for("cpu")
    assert any("is lane-observable" in str(remark) for remark in made.remarks)
    return made


def rows(waves=4, threads=64, rows=1):
    return [
        tkw.HardwareConstraint(threads_per_wave=threads, vector_shapes={M: 1, N: 64}),
        tkw.WorkgroupConstraint(M, rows, 1),
        tkw.WorkgroupConstraint(N, 64 * waves, 0),
        tkw.WaveConstraint(N, 64),
    ]


def floats(*shape, seed=0):
    return rng(seed).integers(-9, 10, shape).astype(np.float32)


def wave_parts(a, width=64):
    """The rows split into one part per wave, padded with zeros."""
    padded = np.zeros((len(a), -(-a.shape[1] // width) * width), a.dtype)
    padded[:, : a.shape[1]] = a
    return padded.reshape(len(a), -1, width)


# ---- values per wave ---------------------------------------------------------------


@TARGETS
@pytest.mark.parametrize("op, combine", [(tkw.sum, np.sum), (tkw.max, np.max)])
@pytest.mark.parametrize("shape", [(3, 256), (2, 300), (1, 1), (2, 511)])
def test_each_wave_reduces_its_part(target, op, combine, shape):
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        part = op(tkw.read(a), dim=N)
        tkw.write(tkw.broadcast(part, [M, N]), c)

    a, c = floats(*shape), np.zeros(shape, "f4")
    build(kernel, {M: shape[0], N: shape[1]}, target)(a, c)
    parts = np.broadcast_to(combine(wave_parts(a), axis=2)[..., None], wave_parts(a).shape)
    assert np.array_equal(c, parts.reshape(len(a), -1)[:, : shape[1]])


@TARGETS
@pytest.mark.parametrize("shape", [(3, 256), (2, 300), (1, 1), (2, 511)])
def test_each_wave_combines_its_part(target, shape):
    """With a combine function; a wave without elements keeps the initial value."""

    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.i32], c: tkl.Memory[M, N, G, tkl.i32]):
        x = tkw.read(a)
        part = tkw.reduce(x, lambda p, q: p & q, -1, dim=N)
        seen = tkw.scan(x, lambda p, q: p & q, 0xFFFF, dim=N)
        tkw.write(tkw.broadcast(part, [M, N]) + seen, c)

    a = np.random.default_rng(1).integers(0, 2**16, shape).astype("i4") | 0x0F00
    c = np.zeros(shape, "i4")
    build(kernel, {M: shape[0], N: shape[1]}, target)(a, c)
    whole = np.full((len(a), -(-shape[1] // 256) * 256), -1)
    whole[:, : shape[1]] = a
    seen = np.bitwise_and.accumulate(wave_parts(whole), axis=2)
    right = (seen[..., -1:] + (seen & 0xFFFF)).reshape(len(a), -1)[:, : shape[1]]
    assert np.array_equal(c, right)


@TARGETS
def test_scans_of_waves(target):
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.cumsum(tkw.read(a), dim=N), c)

    a, c = floats(3, 256), np.zeros((3, 256), "f4")
    build(kernel, {M: 3, N: 256}, target)(a, c)
    assert np.array_equal(c, np.cumsum(wave_parts(a), axis=2).reshape(3, 256))


# ---- threads and their numbers -------------------------------------------------------------------


@TARGETS
@pytest.mark.parametrize("threads", [32, 64])
def test_numbers_of_threads(target, threads):
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=threads, vector_shapes={M: 1, N: threads}),
        tkw.WorkgroupConstraint(M, 1, 1),
        tkw.WorkgroupConstraint(N, 2 * threads, 0),
        tkw.WaveConstraint(N, threads),
    ]
    if target == "sim:gfx942" and threads == 32:
        pytest.skip("its waves have 64 lanes")

    @tkw.wave(constraints)
    def kernel(a: tkl.Memory[M, N, G, tkl.i32], c: tkl.Memory[M, N, G, tkl.i32]):
        tkw.write(tkw.read(a) + tkw.scalar(THREAD_0, tkl.i32), c)

    n = 3 * threads + 5
    a, c = rng(1).integers(0, 99, (2, n)).astype(np.int32), np.zeros((2, n), np.int32)
    build(kernel, {M: 2, N: n}, target)(a, c)
    assert np.array_equal(c, a + np.arange(n, dtype=np.int32) % (2 * threads))


@TARGETS
def test_lanes_go_different_ways(target):
    """A write under a condition that differs from lane to lane."""

    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.i32], c: tkl.Memory[M, N, G, tkl.i32]):
        x = tkw.read(a)

        @tkw.conditional(x > tkw.scalar(4, tkl.i32))
        def some():
            tkw.write(x + x, c)

    a, c = rng(2).integers(0, 10, (3, 300)).astype(np.int32), np.full((3, 300), -1, np.int32)
    build(kernel, {M: 3, N: 300}, target)(a, c)
    assert np.array_equal(c, np.where(a > 4, 2 * a, -1))


@TARGETS
def test_a_symbol_of_each_lane(target):
    """The address that a lane reads depends on what it has read."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    moved = tkw.IndexMapping(num_iterators=2, inputs={M: i, N: S}, outputs={M: i, N: j})

    @tkw.wave(rows())
    def kernel(
        at: tkl.Memory[M, N, G, tkl.i32],
        a: tkl.Memory[M, N, G, tkl.f32],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        tkw.set_symbol(S, tkw.read(at))
        tkw.write(tkw.read(a, mapping=moved), c)

    at, a = rng(3).integers(0, 256, (3, 256)).astype(np.int32), floats(3, 256)
    c = np.zeros((3, 256), "f4")
    build(kernel, {M: 3, N: 256}, target)(at, a, c)
    assert np.array_equal(c, np.take_along_axis(a, at, axis=1))


# ---- atomics -------------------------------------------------------------------------------------


@TARGETS
def test_every_thread_adds(target):
    """All lanes of all waves hold the sum; with `elements_per_thread`, each of them adds it. A
    remark says so."""

    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]):
        tkw.atomic_add(tkw.sum(tkw.read(a), dim=N, block=True), c, elements_per_thread=1)

    a, c = floats(3, 256), np.ones(3, "f4")
    made = build(kernel, {M: 3, N: 256}, target)
    made(a, c)
    assert np.array_equal(c, 1 + 256 * a.sum(axis=1))
    assert any("applied 256 times to each element" in str(remark) for remark in made.remarks)


@TARGETS
def test_one_thread_adds(target):
    """Without it one of them adds it, even if other ops depend on threads."""

    @tkw.wave(rows())
    def kernel(
        a: tkl.Memory[M, N, G, tkl.f32],
        c: tkl.Memory[M, G, tkl.f32],
        t: tkl.Memory[M, N, G, tkl.f32],
    ):
        x = tkw.read(a)
        tkw.atomic_add(tkw.sum(x, dim=N, block=True), c)
        tkw.write(x + tkw.scalar(THREAD_0, tkl.f32), t)

    a, c, t = floats(3, 256), np.ones(3, "f4"), np.zeros((3, 256), "f4")
    made = build(kernel, {M: 3, N: 256}, target)
    made(a, c, t)
    assert np.array_equal(c, 1 + a.sum(axis=1))
    assert np.array_equal(t, a + np.arange(256))
    assert not any("times to each element" in str(remark) for remark in made.remarks)


@TARGETS
def test_each_wave_adds_its_part(target):
    """Each wave has its own sum and adds it once."""

    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]):
        tkw.atomic_add(tkw.sum(tkw.read(a), dim=N), c)

    a, c = floats(3, 700), np.ones(3, "f4")
    build(kernel, {M: 3, N: 700}, target)(a, c)
    assert np.array_equal(c, 1 + a.sum(axis=1))


@TARGETS
@pytest.mark.parametrize("count, experts", [(64, 4), (64, 60)])
def test_each_thread_counts_its_index(target, count, experts):
    """A register of `experts` ones, of which each thread adds one, at its own index."""
    i = tkw.IndexMapping.iterator(0)
    counted = tkw.IndexMapping(
        num_iterators=1,
        inputs={K: tkw.IndexMapping.dynamic_val(0)},
        outputs={K: i},
        dynamic_val_mappings={K: i},
    )

    @tkw.wave(
        [
            tkw.WorkgroupConstraint(N, N, 0),
            tkw.WorkgroupConstraint(K, K, 1),
            tkw.WaveConstraint(N, N),
            tkw.WaveConstraint(K, K),
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={N: N, K: K}),
        ]
    )
    def kernel(indices: tkl.Memory[N, G, tkl.i32], found: tkl.Memory[K, G, tkl.i32]):
        zero, one = tkl.Register[K, tkl.i32](0), tkl.Register[K, tkl.i32](1)
        index = tkw.read(indices, elements_per_thread=1)
        counts = tkw.allocate(shape=(K,), distributed_shape=(K,), dtype=tkl.i32)
        tkw.write(zero, counts)
        tkw.atomic_add(
            one, counts, mapping=counted, mapping_dynamic_vals=(index,), elements_per_thread=1
        )
        tkw.write(tkw.read(counts), found)

    indices = rng(0).integers(0, experts, count).astype("i4")
    found = np.full(experts, -1, "i4")
    build(kernel, {N: count, K: experts}, target)(indices, found)
    assert np.array_equal(found, np.bincount(indices, minlength=experts))


# ---- logs ----------------------------------------------------------------------------------------


@TARGETS
def test_logs(target):
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.i32], c: tkl.Memory[M, N, G, tkl.i32]):
        x = tkw.read(a) + tkw.scalar(THREAD_0, tkl.i32)
        tkw.debug_log(x, "x", printer=None)
        tkw.write(x, c)

    a, c, logs = np.ones((2, 256), np.int32), np.zeros((2, 256), np.int32), {}
    build(kernel, {M: 2, N: 256}, target)(a, c, debug_logs=logs)
    assert np.array_equal(logs["x"]["value"], c)
    assert np.array_equal(c, a + np.arange(256, dtype=np.int32))


# ---- products ------------------------------------------------------------------------------------


@TARGETS
def test_products_between_threads(target):
    """The matrix instruction of the declared wave, in a kernel whose result depends on threads."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 32, 1),
            tkw.TilingConstraint(K, 16),
            tkw.WaveConstraint(M, 16),
            tkw.WaveConstraint(N, 16),
        ]
    )
    def kernel(
        a: tkl.Memory[M, K, SHARED, tkl.f16],
        b: tkl.Memory[N, K, SHARED, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
        who: tkl.Memory[M, N, G, tkl.f32],
    ):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)
        tkw.write(product * 0.0 + tkw.scalar(THREAD_0, tkl.f32), who)

    m, n, k = 45, 37, 50
    a, b = floats(m, k, seed=4).astype("f2"), floats(n, k, seed=5).astype("f2")
    c, who = np.zeros((m, n), "f4"), np.full((m, n), -1, "f4")
    build(kernel, {M: m, N: n, K: k}, target)(a, b, c, who)
    assert np.array_equal(c, a.astype("f4") @ b.astype("f4").T)
    assert who.min() >= 0 and who.max() == 127  # two waves along x


# ---- flags ---------------------------------------------------------------------------------------

FLAG = """thread kernel @flag(%data: mem<32, i32>, %flag: mem<1, i32>, %c: mem<32, i32>)
  launch grid (GRID) block (32) wave 32
{
  %at = expr $T0 : index
  %zero = scalar 0 : index
  if ($WG0 >= GRID - 1) {
    %x = expr 3*$T0 : i32
    store %x, %data, %at
    barrier workgroup
    %one = scalar 1 : i32
    %first = expr $T0 < 1 : i1
    store %one, %flag, %zero, %first {volatile}
  }
  if ($WG0 < GRID - 1) {
    while F as signed(F.2) (%f) from %zero cond signed(F.2) < 1 {
      %v = load %flag, %zero {volatile} : i32
      %n = cast %v : index
      yield %n
    }
    %y = load %data, %at : i32
    store %y, %c, %at
  }
}
"""


def flagged(grid):
    """Compiled through a kernel of the same parameters."""
    D, E = tkl.sym.D, tkl.sym.E

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={D: 32, E: 1}),
            tkw.WorkgroupConstraint(D, 32, 0),
        ]
    )
    def flag(
        data: tkl.Memory[D, G, tkl.i32],
        flag: tkl.Memory[E, G, tkl.i32],
        c: tkl.Memory[D, G, tkl.i32],
    ):
        tkw.write(tkw.read(data), c)

    text = FLAG.replace("GRID", str(grid))
    options = WaveCompileOptions(subs={D: 32, E: 1}, target="cpu", override_mlir=text)
    return wave_compile(options, flag)


@needs_cpu
@pytest.mark.parametrize("grid", [2, 40, 1500])
def test_workgroups_wait_for_the_last(grid):
    """More workgroups than CPU cores: one that waits does not keep the others from running."""
    data, flag, c = (np.zeros(n, np.int32) for n in (32, 1, 32))
    flagged(grid)(data, flag, c)
    assert np.array_equal(c, 3 * np.arange(32)) and flag[0] == 1


@needs_cpu
def test_more_workgroups_than_run_at_once():
    data, flag, c = (np.zeros(n, np.int32) for n in (32, 1, 32))
    with pytest.raises(LaunchError, match="4097 workgroups that wait for each other; at most 4096"):
        flagged(4097)(data, flag, c)
    assert not c.any() and not flag.any()


# ---- any wave ------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [pytest.param("cpu", marks=needs_cpu), "sim:cpu"])
@pytest.mark.parametrize("threads, waves", [(1, 2), (2, 3), (8, 2), (12, 2), (32, 4), (128, 2)])
def test_waves_of_any_size(target, threads, waves):
    """Waves of one lane; of 12; of more than any machine has, which it runs as several waves."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=threads, vector_shapes={M: 1, N: threads}),
            tkw.WorkgroupConstraint(M, 1, 1),
            tkw.WorkgroupConstraint(N, threads * waves, 0),
            tkw.WaveConstraint(N, threads),
        ]
    )
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.broadcast(tkw.sum(tkw.read(a), dim=N), [M, N]), c)

    n = 2 * threads * waves - 1
    a, c = floats(3, n), np.zeros((3, n), "f4")
    build(kernel, {M: 3, N: n}, target)(a, c)
    parts = np.repeat(wave_parts(a, threads).sum(axis=2), threads, axis=1)
    assert np.array_equal(c, parts[:, :n])


# ---- elements of waves and threads ---------------------------------------------------------------


@TARGETS
@pytest.mark.parametrize("columns", [256, 200])
def test_each_wave_finds_its_largest(target, columns):
    """top-k without `block` over a dim that four waves share: each has its own."""
    i = tkw.IndexMapping.iterator(0)
    at = {M: i, S: THREAD_0 // 64}
    own = tkw.IndexMapping(num_iterators=1, inputs={M: i}, outputs=at)

    @tkw.wave(rows())
    def kernel(
        a: tkl.Memory[M, N, G, tkl.f32],
        c: tkl.Memory[M, S, G, tkl.f32],
    ):
        values, _ = tkw.topk(tkw.read(a), TOP, N)
        tkw.write(tkw.max(values, dim=TOP), c, mapping=own)

    a, c = floats(3, columns), np.zeros((3, 4), "f4")
    build(kernel, {M: 3, N: columns, S: 4, TOP: 2}, target)(a, c)
    assert np.array_equal(c, wave_parts(a).max(axis=2))


@TARGETS
@pytest.mark.parametrize("which", [0, 3])
def test_an_element_of_each_thread(target, which):
    """`extract` takes one of the four neighbours that a thread holds."""
    i = tkw.IndexMapping.iterator(0)
    own = tkw.IndexMapping(num_iterators=1, inputs={M: i}, outputs={M: i, S: THREAD_0})
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 256}),
        tkw.WorkgroupConstraint(M, 1, 1),
        tkw.WorkgroupConstraint(N, 256, 0),
    ]

    @tkw.wave(constraints)
    def kernel(a: tkl.Memory[M, N, G, tkl.i32], c: tkl.Memory[M, S, G, tkl.i32]):
        tkw.write(tkw.extract(tkw.read(a), [which]), c, mapping=own)

    a = rng(6).integers(0, 99, (3, 256)).astype(np.int32)
    c = np.zeros((3, 64), np.int32)
    build(kernel, {M: 3, N: 256, S: 64}, target)(a, c)
    assert np.array_equal(c, a.reshape(3, 64, 4)[:, :, which])


@TARGETS
@pytest.mark.parametrize("dtype", [tkl.i32, tkl.i64])
def test_rounds_of_each_thread(target, dtype):
    """A loop whose counter is narrower than an index, in waves that synchronise at barriers."""
    I = tkl.sym.I
    i = tkw.IndexMapping.iterator(0)
    turned = tkw.IndexMapping(num_iterators=1, inputs={N: 255 - i}, outputs={N: i})

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={N: 64, I: 0}),
            tkw.WorkgroupConstraint(N, 256, 0),
            tkw.WaveConstraint(N, 64),
            tkw.TilingConstraint(I),
        ]
    )
    def kernel(a: tkl.Memory[N, G, tkl.f32], b: tkl.Memory[N, G, tkl.f32]):
        def round():
            tkw.write(tkw.read(a, elements_per_thread=1) + 1.0, a, elements_per_thread=1)
            turn = tkw.read(a, mapping=turned, elements_per_thread=1)
            tkw.write(turn, b, elements_per_thread=1)
            tkw.set_symbol(I, tkw.scalar(I, dtype) + tkw.scalar(1, dtype))

        start = tkw.scalar(THREAD_0, dtype) - tkw.scalar(THREAD_0, dtype)
        tkw.iterate(I, start=start, condition=I < 3, init_args=[])(round)

    a, b = floats(256), np.zeros(256, np.float32)
    expected = a + 3
    build(kernel, {N: 256}, target)(a, b)
    assert np.array_equal(a, expected) and np.array_equal(b, expected[::-1])


# ---- communication between workgroups
# -------------------------------------------------------------


@TARGETS
@pytest.mark.parametrize("groups", [1, 2, 5])
def test_a_plain_write_ends_a_wait(target, groups):
    """Only the read that waits is volatile, as in the public stream-K kernel: the flag is set after
    every thread has written, and the others then see the data."""
    READY = tkl.sym.READY
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    last = tkw.IndexMapping(num_iterators=1, inputs={S: groups - 1 + 0 * i}, outputs={S: i})
    row = tkw.IndexMapping(
        num_iterators=2, inputs={S: groups - 1 + 0 * i, N: 255 - j}, outputs={S: i, N: j}
    )

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={S: 1, N: 64, READY: 0}),
            tkw.WorkgroupConstraint(S, 1, 1),
            tkw.WorkgroupConstraint(N, 256, 0),
            tkw.WaveConstraint(N, 64),
            tkw.TilingConstraint(READY),
        ]
    )
    def kernel(
        a: tkl.Memory[S, N, G, tkl.f32],
        partial: tkl.Memory[S, N, G, tkl.f32],
        flag: tkl.Memory[S, G, tkl.i32],
        c: tkl.Memory[S, N, G, tkl.f32],
    ):
        mine = tkw.read(a) * 2.0 + tkw.cast(tkw.scalar(THREAD_0, tkl.i32), tkl.f32) * 0.0
        tkw.write(mine, partial, flags=tkw.MemoryAccessFlags.VOLATILE)
        tkw.write(tkl.Register[S, tkl.i32](1), flag)

        @tkw.iterate(READY, start=tkw.scalar(0, tkl.i32), condition=READY < 1, init_args=[])
        def wait():
            seen = tkw.read(flag, mapping=last, flags=tkw.MemoryAccessFlags.VOLATILE)
            tkw.set_symbol(READY, seen)

        theirs = tkw.read(partial, mapping=row, flags=tkw.MemoryAccessFlags.VOLATILE)
        tkw.write(mine + theirs, c)

    a = floats(groups, 256)
    partial, flag, c = np.zeros_like(a), np.zeros(groups, np.int32), np.zeros_like(a)
    build(kernel, {S: groups, N: 256}, target)(a, partial, flag, c)
    assert np.array_equal(c, 2 * a + 2 * a[-1, ::-1]) and (flag == 1).all()


@TARGETS
def test_a_wait_that_nobody_ends(target):
    READY = tkl.sym.READY

    @tkw.wave([*rows(), tkw.TilingConstraint(READY)])
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], flag: tkl.Memory[M, G, tkl.i32]):
        tkw.write(tkw.read(a) + tkw.cast(tkw.scalar(THREAD_0, tkl.i32), tkl.f32), a)

        @tkw.iterate(READY, start=tkw.scalar(0, tkl.i32), condition=READY < 1, init_args=[])
        def wait():
            tkw.set_symbol(READY, tkw.read(flag, flags=tkw.MemoryAccessFlags.VOLATILE))

    made = build(kernel, {M: 2, N: 256}, target)
    made(floats(2, 256), np.ones(2, np.int32))
    with pytest.raises(CompileError, match="E0807.*deadlock") as stopped:
        made(floats(2, 256), np.zeros(2, np.int32))
    assert "no other thread changes" in str(stopped.value)
