"""Loops that promise until when they change a row: waves whose rows need no more only keep up. Kernels of odd sizes on
simulated machines, in several orders of waves, compared with float64.
"""

import re
import warnings

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from test_roles import parsed
from wave_lang import CompileError, SimulationError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S
from wave_lang.kernel.lang.global_symbols import THREAD_0, WORKGROUP_0

H, M, N, D, KEY, I = (getattr(tkl.sym, name) for name in ("H", "M", "N", "D", "KEY", "I"))
ORDERS = ("round", "reverse", "first", "last", "random:3")
i, j, k = (tkw.IndexMapping.iterator(n) for n in range(3))


def attention(rows, keys, waves=4, group=1, late=0, until=True):
    """Row r sees keys up to r // group, and `late` more; `until`: whether it says so."""
    last = (rows * (WORKGROUP_0 + 1) - 1) // group + late
    count = tkl.Min(tkl.ceiling(KEY / keys), tkl.ceiling((last + 1) / keys))
    constraints = [
        tkw.HardwareConstraint(
            threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16, vector_shapes={H: 0}
        ),
        tkw.WorkgroupConstraint(M, rows, 0),
        tkw.WorkgroupConstraint(N, N, 1),
        tkw.WorkgroupConstraint(H, 1, 2),
        tkw.TilingConstraint(KEY, keys, iters=count),
        tkw.WaveConstraint(M, rows / waves),
        tkw.Assumption(KEY >= 1),  # the copy engine reads no tensor that may be empty
        tkw.Assumption(H >= 1),
    ]
    by_row = tkw.IndexMapping(3, inputs={H: i, M: j, N: k}, outputs={H: i, M: j, N: k})

    @tkw.wave(constraints)
    def attention(
        q: tkl.Memory[H, M, D, G, tkl.f16],
        key: tkl.Memory[H, KEY, D, S, tkl.f16],
        value: tkl.Memory[H, KEY, N, S, tkl.f16],
        c: tkl.Memory[H, M, N, G, tkl.f32],
    ):
        rows_of = tkw.read(q)
        start = [
            tkl.Register[H, M, tkl.f32](-1e5),
            tkl.Register[H, M, tkl.f32](0.0),
            tkl.Register[H, N, M, tkl.f32](0.0),
        ]

        @tkw.iterate(KEY, init_args=start, until={M: i // group + late + 1} if until else None)
        def loop(most, total, acc):
            scores = tkw.mma(tkw.read(key), rows_of, tkl.Register[H, KEY, M, tkl.f32](0.0))
            row = tkw.broadcast(tkw.self_index(M, tkl.i32) // group, [M, KEY])
            seen = tkw.broadcast(tkw.self_index(KEY, tkl.i32), [M, KEY]) <= row + late
            x = tkw.select(seen, tkw.permute(scores, [H, M, KEY]), float("-inf"))
            larger = tkw.max(x, most, dim=KEY)
            kept, e = tkw.exp2(most - larger), tkw.exp2(x - larger)
            total = tkw.sum(e, total * kept, dim=KEY)
            p = tkw.cast(e, tkl.f16)
            return larger, total, tkw.mma(tkw.read(value), p, acc * kept)

        _, total, result = loop
        tkw.write(result * tkw.reciprocal(total), c, mapping=by_row)

    return attention


@pytest.fixture
def compiled(tmp_path):
    """Compiles for Hopper with waves that only copy."""

    def made(kernel, target="sim:sm_90a", waves=4, rows="", sizes=None, **options):
        if target == "sim:sm_90a":
            (tmp_path / "rows").write_text(f"roles KEY load 4, math {2 * waves}\n{rows}\n")
            options["override_schedule"] = str(tmp_path / "rows")
        subs = {D: 64, N: 64, **(sizes or {})}
        dynamic = [symbol for symbol in (H, M, KEY) if symbol not in subs]
        return wave_compile(WaveCompileOptions(subs=subs, dynamic_symbols=dynamic, target=target, **options), kernel)

    return made


def arguments(heads, rows, keys):
    rng = np.random.default_rng(rows + keys)
    q, key, value = (
        rng.standard_normal((heads, n, 64), np.float32).astype("f2") for n in (rows, keys, keys)
    )
    return q / 8, key, value, np.zeros((heads, rows, 64), "f4")


def expected(q, key, value, group=1, late=0):
    q, key, value = (x.astype("f8") for x in (q, key, value))
    hidden = np.arange(key.shape[1]) > np.arange(q.shape[1])[:, None] // group + late
    x = np.where(hidden, -np.inf, q @ key.swapaxes(1, 2))
    e = np.exp2(x - x.max(2, keepdims=True))
    return e @ value / e.sum(2, keepdims=True)


def check(kernel, *sizes, **form):
    args = arguments(*sizes)
    kernel(*args)
    np.testing.assert_allclose(args[-1], expected(*args[:-1], **form), atol=4e-3)


def skips(kernel):
    """Whether there is a loop in which waves only keep up."""
    return bool(re.search(r"\n +for KEY from [^{]*with [^{]*\{(?:(?!\n +for ).)*?mbar_wait", str(kernel.lowered), re.S))


FORMS = [
    dict(rows=128, keys=64),
    dict(rows=192, keys=64, waves=6),
    dict(rows=256, keys=32),
    dict(rows=128, keys=48, late=5),
    dict(rows=128, keys=64, group=3),
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_waves_skip_what_they_do_not_need(form, compiled):
    rest = {name: form[name] for name in ("group", "late") if name in form}
    kernel = compiled(attention(**form), waves=form.get("waves", 4))
    assert skips(kernel) and any(r.code == "R0626" for r in kernel.remarks)
    for sizes in ((1, 300, 300), (2, 129, 65), (1, 1, 7), (1, 257, 64)):
        check(kernel, *sizes, **rest)


@pytest.mark.parametrize("persistent", [0, 2])
@pytest.mark.parametrize("order", ORDERS)
def test_orders_of_waves(order, persistent, compiled):
    """Waves that copy may be far ahead: of the last keys, and then of the next tile."""
    kernel = compiled(attention(128, 64), persistent_workgroups=persistent)
    assert skips(kernel)
    args = arguments(3, 300, 310)
    kernel.simulate(*args, schedule=order)
    np.testing.assert_allclose(args[-1], expected(*args[:-1]), atol=4e-3)


@pytest.mark.parametrize("rows", ["schedule KEY drain peeled", "schedule KEY unroll 2"])
@pytest.mark.parametrize("until", [True, False])
def test_divided_loops_of_workgroups_that_stay(until, rows, compiled):
    """After the last iteration of a tile, the next tile's keys arrive where a product that is not needed would read."""
    kernel = compiled(attention(128, 64, until=until), rows=rows, persistent_workgroups=1)
    args = arguments(1, 300, 310)
    for order in ORDERS:
        args[-1][:] = 0
        kernel.simulate(*args, schedule=order)
        np.testing.assert_allclose(args[-1], expected(*args[:-1]), atol=4e-3)


@pytest.mark.parametrize("keys, size", [(64, 128), (48, 63), (48, 96), (128, 150)])
def test_two_tiles_of_keys(keys, size, compiled):
    """An iteration later is the last one, wherever a wave is."""
    kernel = compiled(attention(128, keys, group=3), sizes={KEY: size}, persistent_workgroups=0)
    check(kernel, 1, 300, size, group=3)


@pytest.mark.parametrize("target", ["eval", "sim:sm_80", "sim:gfx942", "cpu"])
def test_other_machines(target, compiled):
    check(compiled(attention(128, 64), target), 2, 200, 150)


def test_the_same_bits(compiled):
    args = arguments(1, 300, 300)
    results = []
    for until in (True, False):
        kernel = compiled(attention(256, 64, until=until))
        assert skips(kernel) == until
        args[-1][:] = 0
        kernel(*args)
        results.append(args[-1].copy())
    assert np.array_equal(*results)


def test_a_wait_too_many(compiled):
    """The last iteration waits for no next tile: that wait might be for a phase that is over."""
    text = str(compiled(attention(128, 64), persistent_workgroups=1).lowered)
    fault, count = re.subn(r"if \(\$ARGKEY \+ 2 <= [^{]*\) \{(\s+mbar_wait)", r"if (True) {\1", text)
    assert count == 2

    def is_found(text):
        for order in ORDERS:
            try:
                parsed(text).sim(arguments(1, 640, 640), "sim:sm_90a", order)
            except SimulationError:
                return True
        return False

    assert is_found(fault) and not is_found(text)


def row_sums(until, tile=64, **loop_options):
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=64),
        tkw.WorkgroupConstraint(M, tile, 0),
        tkw.TilingConstraint(KEY, 16, induction_var=I),
    ]

    @tkw.wave(constraints)
    def total(x: tkl.Memory[M, KEY, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]):
        @tkw.iterate(KEY, init_args=[tkl.Register[M, tkl.f32](0.0)], until=until, **loop_options)
        def loop(acc):
            return tkw.sum(tkw.read(x), acc, dim=KEY)

        tkw.write(loop, c)

    return total


@pytest.mark.parametrize("target", ["eval", "sim:sm_90a", "sim:cpu", "cpu"])
def test_tiles_of_one_row(target):
    c = np.zeros(3, "f4")
    options = WaveCompileOptions(subs={M: 3, KEY: 30}, target=target)
    wave_compile(options, row_sums({M: 32 + 0 * i}, tile=1))(np.ones((3, 30), "f4"), c)
    assert (c == 30).all()


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("target", ["eval", "sim:sm_90a"])
def test_results_that_lie_differently(swapped, target, compiled):
    """Rows of one are divided among groups of waves, those of the other are in all waves."""
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=128),
        tkw.WorkgroupConstraint(M, 128, 0),
        tkw.WorkgroupConstraint(N, 128, 1),
        tkw.TilingConstraint(KEY, 32),
        tkw.WaveConstraint(M, 64),
        tkw.WaveConstraint(N, 128),
    ]

    @tkw.wave(constraints)
    def lower(
        a: tkl.Memory[M, KEY, S, tkl.f16],
        b: tkl.Memory[N, KEY, S, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
        d: tkl.Memory[M, G, tkl.f32],
    ):
        none, zeros = tkl.Register[M, tkl.f32](0.0), tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(KEY, init_args=[none, zeros] if swapped else [zeros, none], until={M: i + 1})
        def loop(first, second):
            acc, count = (second, first) if swapped else (first, second)
            position = tkw.broadcast(tkw.scalar(KEY, tkl.i32) * 32, [M])
            count = tkw.select(position <= tkw.self_index(M, tkl.i32), count + 1.0, count)
            acc = tkw.mma(tkw.read(a), tkw.read(b), acc)
            return (count, acc) if swapped else (acc, count)

        tkw.write(loop[swapped], c)
        tkw.write(loop[not swapped], d)

    a, b = np.tril(np.ones((200, 130), "f2")), np.ones((128, 130), "f2")
    c, d = np.zeros((200, 128), "f4"), np.zeros(200, "f4")
    with warnings.catch_warnings(action="ignore"):
        kernel = compiled(lower, target, sizes={M: 200, N: 128, KEY: 130})
    kernel(a, b, c, d)
    np.testing.assert_array_equal(c, a.astype("f4") @ b.T.astype("f4"))
    np.testing.assert_array_equal(d, np.minimum(np.arange(200) // 32 + 1, 5))


def test_half_rows():
    """`until` names the dimension that results have, and its position is that of their rows. A fraction is rounded up."""
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 8}),
        tkw.WorkgroupConstraint(M, 64, 0),
        tkw.WorkgroupConstraint(N, 8, 1),
        tkw.TilingConstraint(KEY, 1),
    ]

    def total(until):
        @tkw.wave(constraints)
        def total(c: tkl.Memory[M / 2, N, G, tkl.f32]):
            @tkw.iterate(KEY, init_args=[tkl.Register[M / 2, N, tkl.f32](0.0)], until=until)
            def loop(acc):
                row, column = (tkw.broadcast(tkw.self_index(x, tkl.i32), [M / 2, N]) for x in (M / 2, N))
                position = tkw.broadcast(tkw.scalar(KEY, tkl.i32), [M / 2, N])
                return tkw.select((position * 2 < row) | (column >= 5), acc + 1.0, acc)  # there are 5 columns

            tkw.write(loop, c)

        return wave_compile(WaveCompileOptions(subs={M: 64, N: 5, KEY: 40}, target="eval"), total)

    c = np.zeros((32, 5), "f4")
    with warnings.catch_warnings(action="ignore"):
        total({M / 2: i / 2})(c)
        np.testing.assert_array_equal(c, np.repeat((np.arange(32)[:, None] + 1) // 2, 5, 1))
        with pytest.raises(Exception, match="E0715.*for 3 along `M/2`"):
            total({M / 2: i / 4})(c)
        for other in (M, 2 * M):
            with pytest.raises(CompileError, match="E0406.*does not have the dimension"):
                total({other: i})


def test_a_promise_that_does_not_hold():
    """Each row sums all keys, although `until` says that it needs only those before its own index: the evaluator
    names the first row that breaks the promise."""

    x, c = np.ones((64, 64), "f4"), np.zeros(64, "f4")
    kernel = wave_compile(WaveCompileOptions(subs={M: 64, KEY: 64}, target="eval"), row_sums({M: i}))
    with pytest.raises(Exception, match=r"(?s)E0715.*the iteration at 0 changes result 1 for 0 along `M`"):
        kernel(x, c)


@pytest.mark.parametrize(
    "until, message",
    [
        ({KEY: i}, "`until` names `KEY`, the dimension of the loop"),
        ({D: i}, "does not have the dimension `D`, which `until` names"),
        ({}, "`until` names 0 dimensions, expected one"),
        ({2 * M: i}, r"does not have the dimension `2\*M`, which `until` names"),
        ({M: 16 * I + 16}, "`until` depends on `I`"),
        ({M: j}, r"`until` depends on `\$index1`"),
        ({M: THREAD_0}, r"`until` depends on `\$T0`"),
        ({M: i < 3}, r"`until` is `\$index0 < 3`, a condition, not a position"),
        ({M: None}, "`until` has M: None, expected a dimension and a position"),
        ([M, i], r"`until` is \[M, \$index0\], expected a dimension and a position"),
        (5, "`until` is 5, expected a dimension and a position"),
    ],
)
def test_mistakes(until, message):
    with pytest.raises(CompileError, match=f"E0406.*{message}"):
        wave_compile(WaveCompileOptions(subs={M: 64, KEY: 64, D: 4}, target="sim:sm_90a"), row_sums(until))


def test_a_while_loop_has_no_until():
    with pytest.raises(CompileError, match="E0406.*`until` belongs to a loop without condition="):
        options = WaveCompileOptions(subs={M: 64, KEY: 64}, target="sim:sm_90a")
        wave_compile(options, row_sums({M: i}, start=0, condition=KEY < 3))


@pytest.mark.parametrize("start", [1.5, float("nan")])
def test_a_loop_starts_at_an_integer(start):
    with pytest.raises(CompileError, match=f"E0406.*`start` is {start}, not an integer"):
        wave_compile(WaveCompileOptions(subs={M: 64, KEY: 64}, target="eval"), row_sums(None, start=start))
