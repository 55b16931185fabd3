"""Schedules in files: what `dump_schedule` writes, `override_schedule` obeys, on kernels with odd
sizes; results are compared with NumPy in float64, and with the kernel without a schedule."""

import re

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S

M, N, K, P = tkl.sym.M, tkl.sym.N, tkl.sym.K, tkl.sym.P
MACHINES = ["sim:sm_90a", "sim:sm_80", "sim:gfx942", "sim:gfx950"]
GEMM = {M: 40, N: 37, K: 56}


def halves(rng, *shape):
    return (rng.integers(-8, 9, shape) / 8).astype("f2")


def hardware(*rows):
    return [tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16), *rows]


def gemm():
    @tkw.wave(
        hardware(
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 32, 1),
            tkw.TilingConstraint(K, 16),
            tkw.WaveConstraint(M, 16),
            tkw.WaveConstraint(N, 16),
        )
    )
    def product(
        a: tkl.Memory[M, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)], tag="k_loop")
        def loop(acc):
            left = tkw.read(a, tag="read_a")
            right = tkw.read(b)
            return tkw.mma(left, right, acc)

        tkw.write(loop, c)

    return product


def gemm_args(rng, sizes=None):
    sizes = sizes or GEMM
    a, b = halves(rng, sizes[M], sizes[K]), halves(rng, sizes[N], sizes[K])
    return [a, b, np.zeros((sizes[M], sizes[N]), "f4")], a.astype("f8") @ b.astype("f8").T


def two_products():
    """Four operands in one loop, two of them in other types."""

    @tkw.wave(
        hardware(
            tkw.WorkgroupConstraint(M, 32, 0),
            tkw.WorkgroupConstraint(N, 16, 1),
            tkw.TilingConstraint(K, 16),
            tkw.WaveConstraint(M, 16),
        )
    )
    def both(
        a: tkl.Memory[M, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        c: tkl.Memory[M, K, S, tkl.f16],
        d: tkl.Memory[N, K, S, tkl.f32],
        out: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            one = tkw.mma(tkw.read(a), tkw.read(b), acc)
            weights = tkw.cast(tkw.read(d), tkl.f16)
            return tkw.mma(tkw.read(c), weights, one)

        tkw.write(loop, out)

    return both


def two_args(rng):
    a, b, c = halves(rng, 35, 72), halves(rng, 19, 72), halves(rng, 35, 72)
    d = halves(rng, 19, 72).astype("f4")
    want = a.astype("f8") @ b.astype("f8").T + c.astype("f8") @ d.astype("f8").T
    return [a, b, c, d, np.zeros((35, 19), "f4")], want


def chained():
    """The first matmul of an iteration may begin early."""

    @tkw.wave(
        hardware(
            tkw.WorkgroupConstraint(M, 64, 0),
            tkw.WorkgroupConstraint(N, 16, 1),
            tkw.TilingConstraint(K, 16),
            tkw.WaveConstraint(M, 64),
        )
    )
    def chain(
        q: tkl.Memory[M, P, S, tkl.f16],
        k: tkl.Memory[K, P, S, tkl.f16],
        v: tkl.Memory[N, K, S, tkl.f16],
        out: tkl.Memory[N, M, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[N, M, tkl.f32](0.0)])
        def loop(acc):
            keys = tkw.read(k)
            queries = tkw.read(q)
            scores = tkw.mma(keys, queries, tkl.Register[K, M, tkl.f32](0.0))
            weights = tkw.permute(tkw.cast(tkw.abs(scores), tkl.f16), target_shape=[M, K])
            values = tkw.read(v)
            return tkw.mma(values, weights, acc)

        tkw.write(loop, out)

    return chain


def chained_args(rng):
    q, k, v = halves(rng, 61, 16), halves(rng, 75, 16), halves(rng, 13, 75)
    scores = np.abs(k.astype("f8") @ q.astype("f8").T).astype("f2").astype("f8")
    return [q, k, v, np.zeros((13, 61), "f4")], v.astype("f8") @ scores


def running_sums():
    """No matmul: rows are scaled and summed along a loop, and one tile is written in it."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 16, K: 24}),
            tkw.WorkgroupConstraint(M, 16, 0),
            tkw.TilingConstraint(K, 24),
        ]
    )
    def sums(
        x: tkl.Memory[M, K, S, tkl.f32],
        w: tkl.Memory[M, K, S, tkl.f32],
        scaled: tkl.Memory[M, K, G, tkl.f32],
        total: tkl.Memory[M, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, tkl.f32](0.0)])
        def loop(acc):
            y = tkw.read(x) * tkw.read(w)
            tkw.write(y, scaled)
            return tkw.sum(y, acc, dim=K)

        tkw.write(loop, total)

    return sums


def sums_args(rng):
    x, w = halves(rng, 17, 100).astype("f4"), halves(rng, 17, 100).astype("f4")
    y = x.astype("f8") * w
    return [x, w, np.zeros_like(x), np.zeros(17, "f4")], y.sum(1)


KERNELS = {
    "gemm": (gemm, gemm_args, GEMM, "k_loop", ["read_a", "right"]),
    "two products": (two_products, two_args, {M: 35, N: 19, K: 72}, "K", ["a", "b", "c", "d"]),
    "chained": (chained, chained_args, {M: 61, N: 13, K: 75, P: 16}, "K", ["keys", "values"]),
    "sums": (running_sums, sums_args, {M: 17, K: 100}, "K", ["x", "w"]),
}


def compiled(kernel, target, sizes, dynamic=(), **options):
    subs = {s: v for s, v in sizes.items() if s not in dynamic}
    options = WaveCompileOptions(subs=subs, dynamic_symbols=list(dynamic), target=target, **options)
    try:
        return wave_compile(options, kernel)
    except _wave.CompileError as error:
        if "E0901" in str(error):
            pytest.skip("no libLLVM compiles for this chip")
        raise


def schedule_file(tmp_path, text):
    path = tmp_path / "a.schedule"
    path.write_text(text)
    return str(path)


def rows_of(loop, ops):
    """A ring of another length for every operand; all of one depth; the first copy far ahead."""
    yield "".join(f"ring {loop} {op} slots {2 + i}\n" for i, op in enumerate(ops))
    yield f"schedule {loop} depth 3\n"
    yield f"at {loop} 0.0 {ops[0]}.copy\nat {loop} 2.0 " + " ".join(f"{op}.copy" for op in ops[1:]) + (
        f"\nschedule {loop} depth 4\n"
    )


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("name", KERNELS)
def test_rows_keep_results(tmp_path, name, target):
    make, arguments, sizes, loop, ops = KERNELS[name]
    args, want = arguments(np.random.default_rng(5))
    compiled(make(), target, sizes)(*args)
    plain = [a.copy() for a in args]
    np.testing.assert_array_equal(plain[-1], want)
    for text in rows_of(loop, ops):
        again, _ = arguments(np.random.default_rng(5))
        kernel = compiled(make(), target, sizes, override_schedule=schedule_file(tmp_path, text))
        kernel(*again)
        for one, other in zip(plain, again):
            np.testing.assert_array_equal(one, other)
        assert any("its schedule says so" in r.message for r in kernel.remarks), kernel.remarks


@pytest.mark.parametrize("target", [*MACHINES, "emu:gfx942"])
def test_dynamic_sizes_and_views(tmp_path, target):
    """Variants that a launch compiles obey the rows, too: here for operands with odd strides."""
    path = schedule_file(tmp_path, "ring k_loop read_a slots 3\nring k_loop right slots 2\n")
    kernel = compiled(gemm(), target, {}, dynamic=(M, N, K), override_schedule=path)
    rng = np.random.default_rng(3)
    for k in [0, 1, 16, 17, 40, 97]:
        (a, b, c), want = gemm_args(rng, {M: 33, N: 31, K: k})
        kernel(a, b, c)
        np.testing.assert_array_equal(c, want)
        strided = np.zeros((33, 2 * k + 3), "f2")[:, 1 : 1 + 2 * k : 2]
        strided[...] = a
        kernel(strided, b, c := np.zeros_like(c))
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("target", [*MACHINES, "cpu"])
def test_what_is_written_is_read(tmp_path, target):
    first, second = str(tmp_path / "1"), str(tmp_path / "2")
    compiled(gemm(), target, GEMM, dump_schedule=first)
    text = open(first).read()
    assert re.match(r"Initiation Interval: \d+\nNumber of Stages: \d+\nschedule k_loop on ", text)
    compiled(gemm(), target, GEMM, override_schedule=first, dump_schedule=second)
    assert open(second).read() == text


def test_an_edited_file(tmp_path):
    path = str(tmp_path / "1")
    compiled(gemm(), "sim:sm_80", GEMM, dump_schedule=path, multi_buffer_count=2)
    text = open(path).read()
    assert "ring k_loop read_a slots 2" in text
    edited = schedule_file(tmp_path, text.replace("read_a slots 2", "read_a slots 5"))
    kernel = compiled(gemm(), "sim:sm_80", GEMM, override_schedule=edited)
    assert any("keeps 5 tiles of `a`, 2 of `b`" in r.message for r in kernel.remarks)


def test_kernels_with_other_schedules_are_other_kernels(tmp_path):
    path = schedule_file(tmp_path, "schedule k_loop depth 2\n")
    one = compiled(gemm(), "sim:sm_80", GEMM, override_schedule=path)
    schedule_file(tmp_path, "schedule k_loop depth 3\n")
    two = compiled(gemm(), "sim:sm_80", GEMM, override_schedule=path)
    kept = [[r.message for r in k.remarks if "its schedule says so" in r.message] for k in (one, two)]
    assert kept[0] != kept[1]


@pytest.mark.parametrize(
    "text, said",
    [
        ("schedule k_lop depth 2\n", ["E0217", "no loop is called `k_lop`", "did you mean `k_loop`"]),
        (
            "ring k_loop read_b slots 2\nring k_loop reed_a slots 2\n",
            ["no op `read_b`", "no op `reed_a`", "did you mean `read_a`"],
        ),
        (
            "schedule k_loop hash x00\nring k_loop left_over slots 2\n",
            ["no op `left_over`", "written for another version of the loop"],
        ),
        ("ring k_loop read_a slots 0\n", ["E0511"]),
        ("ring k_loop read_a slots 99\n", ["E0212", "1 to 64 slots"]),
        ("ring k_loop read_a slots 60\nring k_loop right slots 60\n", ["E0620", "bytes of shared memory"]),
        ("schedule k_loop depth 3\nring k_loop right slots 2\n", ["E0620", "it needs 3 slots"]),
        ("turns k_loop 2\n", ["E0505", "unknown header row `turns`"]),
        ("stages 3\n", ["E0505", "is not part of a schedule"]),
        ("node | cycle\n", ["E0505"]),
    ],
)
def test_files_that_do_not_fit(tmp_path, text, said):
    with pytest.raises(_wave.CompileError) as error:
        compiled(gemm(), "sim:gfx942", GEMM, override_schedule=schedule_file(tmp_path, text))
    for words in said:
        assert words in str(error.value)


def test_a_loop_that_has_changed(tmp_path):
    path = schedule_file(tmp_path, "schedule k_loop depth 2 hash x0123456789abcdef\n")
    with pytest.warns(RuntimeWarning, match="W0201"):
        compiled(gemm(), "sim:sm_80", GEMM, override_schedule=path)


def test_machines_without_lanes(tmp_path):
    path = schedule_file(tmp_path, "schedule k_loop depth 2\n")
    kernel = compiled(gemm(), "cpu", GEMM, override_schedule=path)
    codes = [r.code for r in kernel.remarks if hasattr(r, "code")]
    assert "R0609" in codes
    with pytest.raises(_wave.CompileError, match="override_schedule"):
        compiled(gemm(), "cpu", GEMM, override_schedule=path, strict=True)


def test_files_that_cannot_be_used(tmp_path):
    with pytest.raises(_wave.CompileError, match="E0618"):
        compiled(gemm(), "sim:sm_80", GEMM, override_schedule=str(tmp_path / "none"))
    with pytest.raises(_wave.CompileError, match="E0618"):
        compiled(gemm(), "sim:sm_80", GEMM, dump_schedule=str(tmp_path / "none" / "file"))
