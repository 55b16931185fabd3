"""Every op and keyword traces, verifies, round-trips and computes what NumPy computes."""

import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import build, rng, run
from wave_lang import WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import *

ROOT = Path(__file__).parents[2]
M, N, K, BM, BN = tkl.sym.M, tkl.sym.N, tkl.sym.K, tkl.sym.BM, tkl.sym.BN
G = GLOBAL_ADDRESS_SPACE
SIZES = {M: 5, N: 70, BM: 1, BN: 64}
SHAPE = (5, 70)


def constraints(*more):
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: BN}),
        tkw.WorkgroupConstraint(M, BM, 1),
        tkw.WorkgroupConstraint(N, BN, 0),
        tkw.WaveConstraint(M, BM),
        tkw.WaveConstraint(N, BN),
        *more,
    ]


NUMPY = {
    "f32": np.float32,
    "f16": np.float16,
    "f64": np.float64,
    "i32": np.int32,
    "i64": np.int64,
    "i16": np.int16,
    "i8": np.int8,
    "bool": np.bool_,
}


def elementwise(fn, *inputs, dtype, out):
    """out[M, N] = fn(inputs...)"""
    memory = tkl.Memory[M, N, G, dtype]

    if len(inputs) == 1:

        @tkw.wave(constraints())
        def kernel(a: memory, c: tkl.Memory[M, N, G, out]):
            tkw.write(fn(tkw.read(a)), c)

    else:

        @tkw.wave(constraints())
        def kernel(a: memory, b: memory, c: tkl.Memory[M, N, G, out]):
            tkw.write(fn(tkw.read(a), tkw.read(b)), c)

    result = np.zeros(SHAPE, NUMPY[out.name])
    run(kernel, SIZES, *inputs, result)
    return result


def floats(lo=-3.0, hi=3.0, seed=0):
    return rng(seed).uniform(lo, hi, SHAPE).astype(np.float32)


def ints(lo=-20, hi=20, seed=0):
    return rng(seed).integers(lo, hi, SHAPE).astype(np.int32)


def round_away(x):
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def tanh_approx(x):
    q = np.exp2(-2 * 1.442695 * np.abs(x))
    return np.copysign((1 - q) / (1 + q), x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = {
    "exp": (np.exp, (-3, 3)),
    "exp2": (np.exp2, (-3, 3)),
    "log": (np.log, (0.1, 9)),
    "log2": (np.log2, (0.1, 9)),
    "log10": (np.log10, (0.1, 9)),
    "sqrt": (np.sqrt, (0, 9)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0.1, 9)),
    "cbrt": (np.cbrt, (-9, 9)),
    "reciprocal": (lambda x: 1 / x, (0.5, 3)),
    "reciprocal_approx": (lambda x: 1 / x, (0.5, 3)),
    "sin": (np.sin, (-3, 3)),
    "cos": (np.cos, (-3, 3)),
    "sinh": (np.sinh, (-3, 3)),
    "tanh": (np.tanh, (-3, 3)),
    "tanh_approx": (tanh_approx, (-3, 3)),
    "erf": (np.vectorize(math.erf), (-5, 5)),
    "sigmoid": (sigmoid, (-20, 20)),
    "abs": (np.abs, (-3, 3)),
    "floor": (np.floor, (-3, 3)),
    "ceil": (np.ceil, (-3, 3)),
    "round": (round_away, (-3, 3)),
    "roundeven": (np.rint, (-3, 3)),
    "trunc": (np.trunc, (-3, 3)),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    reference, bounds = UNARY[name]
    x = floats(*bounds)
    x[0, :4] = (0.5, 1.5, 2.5, 1.0)
    y = elementwise(lambda a: getattr(tkw, name)(a, tag="u"), x, dtype=tkl.f32, out=tkl.f32)
    np.testing.assert_allclose(y, reference(x.astype(np.float64)), rtol=2e-6, atol=1e-6)


BINARY = {
    "add": (lambda a, b: a + b, np.add),
    "sub": (lambda a, b: a - b, np.subtract),
    "mul": (lambda a, b: a * b, np.multiply),
    "div": (lambda a, b: a / b, np.divide),
    "mod": (lambda a, b: a % b, np.fmod),
    "tkw.mod": (tkw.mod, np.fmod),
    "remf": (tkw.remf, np.fmod),
    "maximum": (tkw.maximum, np.maximum),
    "minimum": (tkw.minimum, np.minimum),
    "atan2": (tkw.atan2, np.arctan2),
    "powf": (lambda a, b: tkw.powf(tkw.abs(a), b), lambda a, b: np.power(np.abs(a), b)),
    "neg": (lambda a, b: -a + b, lambda a, b: b - a),
    "pos": (lambda a, b: +a, lambda a, b: a),
    "absolute": (lambda a, b: abs(a), lambda a, b: np.abs(a)),
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_floats(name):
    ours, reference = BINARY[name]
    a, b = floats(seed=1), floats(0.5, 2.5, seed=2)
    y = elementwise(ours, a, b, dtype=tkl.f32, out=tkl.f32)
    np.testing.assert_allclose(
        y, reference(a.astype(np.float64), b.astype(np.float64)), rtol=1e-5, atol=1e-6
    )


def trunc_div(a, b):
    return np.trunc(a / b).astype(np.int32)


INTEGER = {
    "add": (lambda a, b: a + b, np.add),
    "mul": (lambda a, b: a * b, np.multiply),
    "div": (lambda a, b: a / b, trunc_div),
    "floordiv": (lambda a, b: a // b, np.floor_divide),
    "mod": (lambda a, b: a % b, np.fmod),
    "and": (lambda a, b: a & b, np.bitwise_and),
    "or": (lambda a, b: a | b, np.bitwise_or),
    "xor": (lambda a, b: a ^ b, np.bitwise_xor),
    "shl": (lambda a, b: a << b, np.left_shift),
    "shr": (lambda a, b: a >> b, np.right_shift),
    "not": (lambda a, b: ~a, lambda a, b: ~a),
    "abs": (lambda a, b: tkw.abs(a), lambda a, b: np.abs(a)),
    "maximum": (tkw.maximum, np.maximum),
}


@pytest.mark.parametrize("name", INTEGER)
def test_binary_integers(name):
    ours, reference = INTEGER[name]
    a, b = ints(seed=1), ints(1, 9, seed=2)
    y = elementwise(ours, a, b, dtype=tkl.i32, out=tkl.i32)
    assert np.array_equal(y, reference(a, b))


COMPARISONS = {
    "gt": (np.greater, lambda a, b: a > b),
    "ge": (np.greater_equal, lambda a, b: a >= b),
    "lt": (np.less, lambda a, b: a < b),
    "le": (np.less_equal, lambda a, b: a <= b),
    "eq": (np.equal, lambda a, b: a == b),
    "ne": (np.not_equal, lambda a, b: a != b),
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name):
    reference, operator = COMPARISONS[name]
    a, b = ints(0, 4, 1), ints(0, 4, 2)
    for ours in (getattr(tkw, name), operator):
        y = elementwise(
            lambda x, y: tkw.select(ours(x, y), tkl.Register[M, N, tkl.i32](1), 0),
            a,
            b,
            dtype=tkl.i32,
            out=tkl.i32,
        )
        assert np.array_equal(y, reference(a, b).astype(np.int32))


def test_literals_and_expressions_as_operands():
    x = floats()
    for ours, reference in [
        (lambda a: 2 * a + 0.5, 2 * x + 0.5),
        (lambda a: 1.0 / (a + 10), 1 / (x + 10)),
        (lambda a: a * N, x * 70),
        (lambda a: N - a, 70 - x),
        (lambda a: a * np.float32(3), x * 3),
        (lambda a: np.float32(3) * a - np.int64(2), 3 * x - 2),
    ]:
        y = elementwise(ours, x, dtype=tkl.f32, out=tkl.f32)
        np.testing.assert_allclose(y, reference, rtol=1e-6, atol=1e-6)


def test_augmented_assignment():
    def fn(a, b):
        a += b
        a *= 2
        a -= b
        a /= 4.0
        return a

    a, b = floats(seed=1), floats(seed=2)
    np.testing.assert_allclose(
        elementwise(fn, a, b, dtype=tkl.f32, out=tkl.f32),
        ((a + b) * 2 - b) / 4,
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize("target", ["eval", "cpu", "sim:sm_90a", "sim:gfx942"])
def test_softsign_with_an_expression_as_cap(target):
    cap, size = tkl.sym.CAP, tkl.sym.SIZE

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={size: 64}),
            tkw.WorkgroupConstraint(size, 64, 0),
        ]
    )
    def kernel(a: tkl.Memory[size, G, tkl.f32], b: tkl.Memory[size, G, tkl.f32]):
        tkw.write(tkw.softsign(tkw.read(a), cap + 1, apply_scaling=True, head_dim=9), b)

    x = np.linspace(-9, 9, 77, dtype=np.float32)
    y = np.zeros_like(x)
    wave_compile(WaveCompileOptions(subs={size: 77, cap: 4}, target=target), kernel)(x, y)
    np.testing.assert_allclose(y, x / (1 + np.abs(x) / (5 / 3)), rtol=1e-6)


@pytest.mark.parametrize("scaled", [False, True])
def test_softsign(scaled):
    x = floats(-40, 40)
    cap = 30.0 * (64**-0.5 if scaled else 1.0)
    y = elementwise(
        lambda a: tkw.softsign(a, logit_cap=30.0, apply_scaling=scaled, head_dim=64),
        x,
        dtype=tkl.f32,
        out=tkl.f32,
    )
    np.testing.assert_allclose(y, x / (1 + np.abs(x) / cap), rtol=1e-5)


@pytest.mark.parametrize(
    "source, target",
    [("f32", "f16"), ("f32", "i32"), ("i32", "f32"), ("f32", "f64"), ("i32", "i64"), ("i32", "i8")],
)
def test_cast(source, target):
    src, dst = getattr(tkl, source), getattr(tkl, target)
    x = (floats(-50, 50) if source[0] == "f" else ints(-300, 300)).astype(NUMPY[source])
    y = elementwise(lambda a: tkw.cast(a, dst, tag={"one", "two"}), x, dtype=src, out=dst)
    assert np.array_equal(y, x.astype(NUMPY[target]))


def test_conditions_are_values_too():
    a = ints(0, 4)
    y = elementwise(
        lambda x: tkw.select(~((x > 0) & (x < 3)) | (x == 1), x * 0 + 1, 0),
        a,
        dtype=tkl.i32,
        out=tkl.i32,
    )
    assert np.array_equal(y, (~((a > 0) & (a < 3)) | (a == 1)).astype(np.int32))


# ---- values, shapes --------------------------------------------------------------------------


def test_registers_and_scalars():
    @tkw.wave(constraints())
    def kernel(a: tkl.Memory[M, N, G, tkl.i32], s: tkl.i32, f: tkl.f32):
        x = tkl.Register[M, N, tkl.i32](1e6)
        x = x + tkw.register([M, N], tkl.i32, N * 2) + tkw.broadcast(s, [M, N])
        x = x + tkw.broadcast(tkw.scalar(M + 1, tkl.i32), [M, N])
        x = x + tkw.cast(tkw.broadcast(f * 2, [M, N]), tkl.i32)
        tkw.write(x, a)

    a = np.zeros(SHAPE, np.int32)
    run(kernel, SIZES, a, 7, 2.5)
    assert (a == 1000000 + 140 + 7 + 6 + 5).all()


def test_self_index_and_apply_expr():
    @tkw.wave(constraints())
    def kernel(a: tkl.Memory[M, N, G, tkl.i32]):
        i = tkw.self_index(M, tkl.i32)
        j = tkw.self_index(N, tkl.i32, elements_per_thread=1)
        i, j = tkw.broadcast(i, [M, N]), tkw.broadcast(j, [M, N])
        x = tkw.apply_expr(i + j, lambda x: x % 7 - 3)
        y = tkw.apply_expr([i, j], lambda x, y: sympy.Max(x - y, 0) + x // 2)
        tkw.write(x + y, a)

    a = np.zeros(SHAPE, np.int32)
    run(kernel, SIZES, a)
    i, j = np.indices(SHAPE)
    assert np.array_equal(a, (i + j) % 7 - 3 + np.maximum(i - j, 0) + i // 2)


def test_conditions_of_apply_expr_need_no_cast():
    @tkw.wave(constraints())
    def kernel(a: tkl.Memory[M, N, G, tkl.i32]):
        i = tkw.broadcast(tkw.self_index(M, tkl.i64), [M, N])
        j = tkw.broadcast(tkw.self_index(N, tkl.i64), [M, N])
        mask = tkw.apply_expr(j, lambda x: x < 40) & (j >= i)
        tkw.write(tkw.select(mask, tkl.Register[M, N, tkl.i32](1), 0), a)

    a = np.zeros(SHAPE, np.int32)
    run(kernel, SIZES, a)
    i, j = np.indices(SHAPE)
    assert np.array_equal(a, (j < 40) & (j >= i))


def test_permute_transposes_by_name():
    @tkw.wave(constraints())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[N, M, G, tkl.f32]):
        tkw.write(tkw.permute(tkw.read(a), target_shape=[N, M]), b)

    a, b = floats(), np.zeros(SHAPE[::-1], np.float32)
    run(kernel, SIZES, a, b)
    assert np.array_equal(b, a.T)


def test_bitcast_unpacks():
    HALF = K / 2

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, K: BN}),
            tkw.WorkgroupConstraint(M, BM, 1),
            tkw.WorkgroupConstraint(K, BN, 0),
        ]
    )
    def kernel(a: tkl.Memory[M, HALF, G, tkl.i8], b: tkl.Memory[M, K, G, tkl.f32]):
        tkw.write(tkw.cast(tkw.bitcast(tkw.read(a), tkl.f4e2m1fn), tkl.f32), b)

    a = rng().integers(0, 256, (3, 20)).astype(np.uint8)
    b = np.zeros((3, 40), np.float32)
    run(kernel, {M: 3, K: 40, BM: 1, BN: 64}, a, b)
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    table = np.concatenate([table, -table])
    assert np.array_equal(b, table[np.stack([a & 15, a >> 4], -1).reshape(3, 40)])


# ---- reductions and scans --------------------------------------------------------------------


def reduction_kernel(fn, out_dims, out_dtype=tkl.f32):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: N}),
            tkw.WorkgroupConstraint(M, 1, 0),
        ]
    )
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[(*out_dims, G, out_dtype)]):
        tkw.write(fn(tkw.read(a)), b)

    return kernel


@pytest.mark.parametrize("name", ["sum", "max", "min"])
@pytest.mark.parametrize("block", [False, True])
def test_reductions(name, block):
    op, reference = getattr(tkw, name), getattr(np, name)
    x, y = floats(), np.zeros(5, np.float32)
    run(reduction_kernel(lambda a: op(a, dim=N, block=block), [M]), {M: 5, N: 70}, x, y)
    np.testing.assert_allclose(y, reference(x, axis=1), rtol=1e-5)
    run(
        reduction_kernel(lambda a: op(a, tkl.Register[M, tkl.f32](1.25), N), [M]),
        {M: 5, N: 70},
        x,
        y,
    )
    both = np.concatenate([x, np.full((5, 1), 1.25, np.float32)], 1)
    np.testing.assert_allclose(y, reference(both, axis=1), rtol=1e-5)


@pytest.mark.parametrize("keywords", [{"dim": N}, {"dim": -1}, {}])
def test_cumsum(keywords):
    x, y = floats(), np.zeros(SHAPE, np.float32)
    run(reduction_kernel(lambda a: tkw.cumsum(a, **keywords), [M, N]), {M: 5, N: 70}, x, y)
    np.testing.assert_allclose(y, np.cumsum(x, 1), rtol=1e-4, atol=1e-5)


def test_topk():
    TOP = tkl.sym.TOP

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: N, TOP: TOP}),
            tkw.WorkgroupConstraint(M, 1, 0),
        ]
    )
    def kernel(
        a: tkl.Memory[M, N, G, tkl.f32],
        v: tkl.Memory[M, TOP, G, tkl.f32],
        i: tkl.Memory[M, TOP, G, tkl.i32],
    ):
        values, indices = tkw.topk(tkw.read(a), TOP, N)
        tkw.write(values, v)
        tkw.write(indices, i)

    x = floats()
    x[0, 3] = x[0, 9] = 5.0  # a tie: the lower index wins
    v, i = np.zeros((5, 4), np.float32), np.zeros((5, 4), np.int32)
    run(kernel, {M: 5, N: 70, TOP: 4}, x, v, i)
    order = np.argsort(-x, axis=1, kind="stable")[:, :4]
    assert np.array_equal(i, order) and np.array_equal(v, np.take_along_axis(x, order, 1))


# ---- hints, tags, debugging ------------------------------------------------------------------


def test_synchronisation_and_hints_trace():
    from wave_lang.kernel.wave.scheduling.resources import Operation

    @tkw.wave(constraints())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, N, G, tkl.f32]):
        x = tkw.read(a, tag="load")
        tkw.workgroup_barrier()
        tkw.shared_memory_barrier(wait_async_ops=True, tensor_wait=True)
        tkw.shared_memory_barrier_signal(-1, tensor_wait=True, ds_wait=False)
        tkw.shared_memory_barrier_wait(-1)
        tkw.memory_counter_wait(load=1, ds=0)
        tkw.memory_counter_wait_barrier(load=0, store=2)
        tkw.set_wave_prio(2)
        tkw.scheduling_barrier([Operation.MMA, Operation.VALU])
        tkw.scheduling_group_barrier({Operation.MMA: 2}, 1)
        tkw.write(tkw.tag(x + 1.0, "sum"), b, tag="store")

    compiled = build(kernel, SIZES)
    for text in (
        "workgroup_barrier",
        "wait_async",
        "barrier_signal",
        "bar = -1",
        "no_ds_wait",
        "counter_wait",
        "counter_barrier",
        "prio = 2",
        "MMA: 2",
        '"load"',
        '"sum"',
    ):
        assert text in compiled.asm, text
    a, b = floats(), np.zeros(SHAPE, np.float32)
    compiled(a, b)
    assert np.array_equal(b, a + 1)


def test_memory_flags_and_bounds():
    flags = tkw.MemoryAccessFlags.VOLATILE | tkw.MemoryAccessFlags.NONTEMPORAL

    @tkw.wave(constraints())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, N, G, tkl.f32]):
        x = tkw.read(a, elements_per_thread=4, bounds={N: N}, flags=flags)
        tkw.write(x, b, elements_per_thread=4, flags=tkw.MemoryAccessFlags.NONE)

    compiled = build(kernel, SIZES)
    assert "volatile" in compiled.asm and "nontemporal" in compiled.asm and "bounds" in compiled.asm
    a, b = floats(), np.zeros(SHAPE, np.float32)
    compiled(a, b)
    assert np.array_equal(a, b)


def test_bounds_switched_off_stay_written():
    @tkw.wave(constraints())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(a, bounds={}), a)

    assert "bounds = {}" in build(kernel, SIZES).asm


def test_debug_log():
    printed, handled = [], []

    @tkw.wave(constraints())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32]):
        x = tkw.read(a)
        tkw.debug_log(x, "before", printer=lambda label, t: printed.append((label, t.copy())))
        tkw.debug_log(x * 2.0, printer=None, handler=handled.append)
        tkw.write(x + 1.0, a)

    a = floats()
    original, logs = a.copy(), {}
    build(kernel, SIZES)(a, debug_logs=logs)
    assert list(logs) == ["before", "debug_log_output_1"]
    assert np.array_equal(logs["before"]["value"], original)
    assert logs["before"]["symbolic_shape"] == (M, N)
    np.testing.assert_allclose(logs["debug_log_output_1"]["value"], original * 2)
    assert [p[0] for p in printed] == ["before"] and np.array_equal(printed[0][1], original)
    assert handled and handled[0].keys() == logs.keys()
    assert np.array_equal(a, original + 1)


def test_debug_log_keeps_iterations():
    STEP, TILE = tkl.sym.STEP, tkl.sym.TILE
    rows = [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.TilingConstraint(N, TILE),
    ]

    @tkw.wave(rows)
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]):
        @tkw.iterate(N, init_args=[tkl.Register[M, tkl.f32](0.0)])
        def loop(total):
            total = tkw.sum(tkw.read(a), total, dim=N)
            tkw.debug_log(total, "total", extra_iteration_dimensions=[(STEP, N, 3)], printer=None)
            return total

        tkw.write(loop, c)

    a, c, logs = floats(), np.zeros(5, np.float32), {}
    build(kernel, {M: 5, N: 70, TILE: 32, STEP: 3})(a, c, debug_logs=logs)
    log = logs["total"]
    assert log["symbolic_shape"] == (STEP, M) and log["value"].shape == (3, 5)
    assert log["iteration_dimensions"] == [STEP]
    sums = [a[:, : 32 * (i + 1)].sum(1) for i in range(3)]
    np.testing.assert_allclose(log["value"], sums, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(c, a.sum(1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("start, step", [(0, 1), (1, 1), (0, 2), (1, 2), (5, 1)])
def test_loops_with_start_and_step(start, step):
    @tkw.wave(constraints(tkw.TilingConstraint(K, 4)))
    def kernel(c: tkl.Memory[M, N, G, tkl.i32]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.i32](0)], start=start, step=step)
        def loop(total):
            return total * 10 + tkw.broadcast(tkw.scalar(K, tkl.i32), [M, N])

        tkw.write(loop, c)

    expected = 0
    for i in range(start, 4, step):
        expected = expected * 10 + i
    c = np.zeros(SHAPE, np.int32)
    run(kernel, {**SIZES, K: 14}, c)
    assert (c == expected).all()


def test_html_viewer(tmp_path, monkeypatch):
    from wave_lang.debugging.html_viewer import html_viewer

    monkeypatch.chdir(tmp_path)
    html_viewer({"x": {"value": np.eye(3), "symbolic_shape": (M, N)}})
    page = (tmp_path / "debug-view.html").read_text()
    assert "x [M, N]" in page and page.count("<tr>") == 3


def test_every_op_of_the_language_can_be_written():
    from wave_lang.kernel import ops

    sys.path.insert(0, str(ROOT / "tools"))
    from gen_ops import OF_PASSES

    source = "".join(p.read_text() for p in Path(ops.__file__).parent.glob("*.py"))
    by_operators = {"add", "sub", "mul", "div", "floordiv", "and", "or", "xor", "shl", "shr"}
    by_operators |= {"neg", "not"}
    language = {name for name, level, _ in _wave.op_table if level != "thread"} - OF_PASSES
    assert [n for n in language if f'"{n}"' not in source and n not in by_operators] == []


def test_every_function_of_elements_is_tested():
    rows = re.findall(r"^ELEMENTWISE\((\w+),\s*(\w+)", (ROOT / "src/ir/elementwise.def").read_text(), re.M)
    tested = {*UNARY, *BINARY, *COMPARISONS, *INTEGER, "neg", "not", "isnan", "isinf"}
    assert [name for name, _ in rows if name not in tested] == []
