"""debug_log: every machine gives the same logs as the evaluator."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import rng
from wave_lang import CompileError, LaunchError, SimulationError, WaveCompileOptions, _wave
from wave_lang import wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N, K, STEP, OTHER = (getattr(tkl.sym, s) for s in ("M", "N", "K", "STEP", "OTHER"))
G, SHARED = GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
MACHINES = [f"sim:{name}" for name in ("gfx942", "sm_80", "sm_90a", "gfx1201", "toy8")]
HAS_CPU = any(d.kind == "cpu" for d in _wave.devices())
TARGETS = [*MACHINES, "cpu"] if HAS_CPU else MACHINES
needs_cpu = pytest.mark.skipif(not HAS_CPU, reason="there is no libLLVM")


def rows(*more, threads=64):
    return [
        tkw.HardwareConstraint(threads_per_wave=threads, vector_shapes={M: 1, N: 64}),
        tkw.WorkgroupConstraint(M, 2, 1),
        tkw.WorkgroupConstraint(N, 64, 0),
        tkw.WaveConstraint(M, 2),
        tkw.WaveConstraint(N, 64),
        *more,
    ]


def logged(kernel, subs, arguments, target, dynamic=(), **kw):
    options = WaveCompileOptions(subs=subs, target=target, dynamic_symbols=list(dynamic))
    logs = {}
    compiled = wave_compile(options, kernel)
    assert (compiled.program is not None) == (target == "cpu")  # it is not evaluated instead
    compiled(*(a.copy() for a in arguments), debug_logs=logs, **kw)
    return {label: log["value"] for label, log in logs.items()}


def check(kernel, subs, *arguments, dynamic=(), loose=0.0):
    """The same logs everywhere; those of the evaluator."""
    expected = logged(kernel, subs, arguments, "eval", dynamic)
    for target in TARGETS:
        found = logged(kernel, subs, arguments, target, dynamic)
        assert list(found) == list(expected)
        for label, value in expected.items():
            assert found[label].shape == value.shape and found[label].dtype == value.dtype
            np.testing.assert_allclose(found[label], value, rtol=loose, err_msg=f"{label}, {target}")
    return expected


def floats(*shape, seed=0):
    return rng(seed).uniform(-3, 3, shape).astype(np.float32)


def test_values_of_several_types():
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32]):
        x = tkw.read(a)
        tkw.debug_log(x, "before", printer=None)
        tkw.debug_log(x > 0.0, "positive", printer=None)
        tkw.debug_log(tkw.cast(x, tkl.f16), printer=None)
        tkw.debug_log(tkw.cast(x, tkl.i32), "whole", printer=None)
        tkw.write(x + 1.0, a)

    a = floats(5, 70)
    logs = check(kernel, {M: 5, N: 70}, a)
    assert np.array_equal(logs["before"], a) and np.array_equal(logs["positive"], a > 0)
    assert np.array_equal(logs["debug_log_output_2"], a.astype("f2"))
    check(kernel, {}, floats(3, 65), dynamic=(M, N))


def test_operands_of_a_product():
    """Several workgroups log the same elements: that is not a race."""

    @tkw.wave([
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
        tkw.WorkgroupConstraint(M, 32, 0),
        tkw.WorkgroupConstraint(N, 32, 1),
        tkw.TilingConstraint(K, 16),
        tkw.WaveConstraint(M, 16),
        tkw.WaveConstraint(N, 16),
    ])
    def gemm(
        a: tkl.Memory[M, K, SHARED, tkl.f16],
        b: tkl.Memory[N, K, SHARED, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            x, y = tkw.read(a), tkw.read(b)
            tkw.debug_log(x, "x", printer=None)
            tkw.debug_log(y, "y", printer=None)
            acc = tkw.mma(x, y, acc)
            tkw.debug_log(acc, "acc", extra_iteration_dimensions=[(STEP, K, 2)], printer=None)
            return acc

        tkw.write(product, c)

    rand = rng(1)
    a, b = (rand.integers(-4, 5, (n, 50)).astype("f2") for n in (70, 40))
    logs = check(gemm, {M: 70, N: 40, K: 50}, a, b, np.zeros((70, 40), "f4"))
    assert np.array_equal(logs["x"], a) and np.array_equal(logs["y"], b)
    wide = a.astype("f4"), b.astype("f4")
    assert np.array_equal(logs["acc"][0], wide[0][:, :16] @ wide[1][:, :16].T)
    assert np.array_equal(logs["acc"][1], wide[0] @ wide[1].T)


def loop_kernel(slots):
    @tkw.wave([
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64}),
        tkw.WorkgroupConstraint(M, 1, 0),
        tkw.TilingConstraint(N, 32),
    ])
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]):
        @tkw.iterate(N, init_args=[tkl.Register[M, tkl.f32](0.0)])
        def loop(total):
            total = tkw.sum(tkw.read(a), total, dim=N)
            tkw.debug_log(total, "total", extra_iteration_dimensions=slots, printer=None)
            return total

        tkw.write(loop, c)

    return kernel


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_iterations(count):
    a, c = rng(2).integers(-9, 9, (5, 70)).astype("f4"), np.zeros(5, "f4")
    logs = check(loop_kernel([(STEP, N, count)]), {M: 5, N: 70}, a, c)
    sums = np.stack([a[:, : 32 * (i + 1)].sum(1) for i in range(3)])
    expected = np.zeros((count, 5), "f4")
    for i in range(3 if count else 0):
        expected[min(i, count - 1)] = sums[i]
    assert np.array_equal(logs["total"], expected)


@pytest.mark.parametrize("count", [-1, M - 2, M // 2, 5 - M, 1 - M], ids=str)
def test_iterations_as_many_as_an_expression_says(count):
    """None if it is not positive."""
    a, c = rng(2).integers(-9, 9, (5, 70)).astype("f4"), np.zeros(5, "f4")
    kernel = loop_kernel([(STEP, N, count)])
    expected = check(kernel, {M: 5, N: 70}, a, c)["total"]
    if HAS_CPU:
        found = logged(kernel, {}, [a, c], "cpu", (M, N))["total"]
        assert np.array_equal(found, expected)


@needs_cpu
def test_a_part_of_an_iteration():
    a, c = floats(5, 70), np.zeros(5, "f4")
    with pytest.raises(LaunchError, match="E0710.*the debug log `total` has no size"):
        logged(loop_kernel([(STEP, N, M / 2)]), {}, [a, c], "cpu", (M, N))


def test_two_slots_one_of_no_loop():
    a, c = rng(2).integers(-9, 9, (5, 70)).astype("f4"), np.zeros(5, "f4")
    logs = check(loop_kernel([(STEP, N, 3), (OTHER, M, 3)]), {M: 5, N: 70}, a, c)
    assert logs["total"].shape == (3, 3, 5) and not logs["total"][:, 1:].any()


def test_mapping():
    i, j = (tkw.IndexMapping.iterator(n) for n in range(2))
    swap = tkw.IndexMapping(num_iterators=2, inputs={M: i, N: j}, outputs={N: j, M: i})

    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32]):
        tkw.debug_log(tkw.read(a), "turned", mapping=swap, printer=None)

    a = floats(5, 70)
    assert np.array_equal(check(kernel, {M: 5, N: 70}, a)["turned"], a.T)


def test_a_condition_and_a_number():
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], scale: tkl.f32):
        x = tkw.read(a)

        @tkw.conditional(WORKGROUP_1 < 1)
        def first():
            tkw.debug_log(x, "first rows", printer=None)

        tkw.debug_log(scale, "scale", printer=None)

    a = floats(5, 70)
    options = dict(subs={M: 5, N: 70})
    for target in ("eval", *TARGETS):
        logs = {}
        wave_compile(WaveCompileOptions(target=target, **options), kernel)(a, 2.5, debug_logs=logs)
        assert logs["scale"]["value"].shape == () and logs["scale"]["value"] == 2.5
        rows_logged = logs["first rows"]["value"]
        assert np.array_equal(rows_logged[:2], a[:2]) and not rows_logged[2:].any()


@pytest.mark.parametrize("target", ["sim:gfx942", pytest.param("cpu", marks=needs_cpu)])
def test_printers_and_handlers_run_afterwards(target):
    printed, handled = [], []

    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32]):
        tkw.debug_log(
            tkw.read(a), "x", printer=lambda *p: printed.append(p), handler=handled.append
        )

    a = floats(5, 70)
    logged(kernel, {M: 5, N: 70}, [a], target)
    assert printed[0][0] == "x" and np.array_equal(printed[0][1], a) and "x" in handled[0]


def test_a_simulation_that_finds_something_still_delivers():
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]):
        x = tkw.read(a)
        tkw.debug_log(x, "x", printer=None)
        tkw.write(tkw.sum(x, dim=N), c)  # by the workgroups along N

    a, logs = floats(4, 128), {}
    options = WaveCompileOptions(subs={M: 4, N: 128}, target="sim:gfx942")
    compiled = wave_compile(options, kernel)
    with pytest.raises(SimulationError):
        compiled(a, np.zeros(4, "f4"), debug_logs=logs)
    assert np.array_equal(logs["x"]["value"], a)


def test_a_log_that_is_too_large():
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, G, tkl.f32], b: tkl.Memory[N, G, tkl.f32]):
        x = tkw.broadcast(tkw.read(a), [M, N]) + tkw.broadcast(tkw.read(b), [M, N])
        tkw.debug_log(x, "outer", printer=None)

    for target in ("eval", "sim:gfx942", *TARGETS[len(MACHINES) :]):
        with pytest.raises((CompileError, SimulationError), match="E0706"):
            logged(kernel, {M: 2**15, N: 2**15}, [floats(2**15), floats(2**15)], target)


def test_one_label_for_several_logs():
    """Also in and after a loop, whose logs are delivered first, and next to a label that is
    numbered."""
    printed = []

    def checked(x, printer=None):
        tkw.debug_log(x, "x", printer=lambda label, value: printed.append(label))
        return x + 1.0

    @tkw.wave(rows(tkw.TilingConstraint(N, 16)))
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, G, tkl.f32]):
        first = checked(tkw.read(b))

        @tkw.iterate(N, init_args=[first])
        def total(acc):
            checked(tkw.read(a))
            return tkw.sum(tkw.read(a), acc, dim=N)

        tkw.debug_log(total, "x.2", printer=None)
        checked(checked(total))
        tkw.debug_log(total * 2.0, printer=None)
        tkw.debug_log(total * 3.0, "debug_log_output_5", printer=None)

    a, b = floats(5, 40), floats(5, seed=1)
    found = check(kernel, {M: 5, N: 40}, a, b, loose=1e-5)
    total = a.sum(1) + b + 1
    expected = {"x": b, "x.2": a, "x.2.2": total, "x.3": total, "x.4": total + 1}
    expected |= {"debug_log_output_5": total * 2, "debug_log_output_5.2": total * 3}
    assert set(found) == set(expected)
    for label, value in expected.items():
        np.testing.assert_allclose(found[label], value, rtol=1e-4, err_msg=label)
    assert printed[:4] == ["x", "x.2", "x.3", "x.4"]


def scaled(printer=None):
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        x = tkw.read(a)
        tkw.debug_log(x * x, "square", printer=printer)
        tkw.write(x + x, c)

    options = WaveCompileOptions(target="cpu", dynamic_symbols=[M, N])
    return wave_compile(options, kernel)


@needs_cpu
def test_every_launch_of_a_program_has_logs_of_its_own():
    """With other sizes, strided tensors, empty tensors: in every variant."""
    compiled = scaled()
    whole = floats(6, 144)
    for a in (whole, whole[::2, 1:130:2], whole[:, :67], whole[1:2, :1], whole[:0]):
        c, logs = np.zeros(a.shape, "f4"), {"old": 1}
        compiled(a, c, debug_logs=logs)
        assert np.array_equal(c, a + a) and list(logs) == ["old", "square"]
        assert np.array_equal(logs["square"]["value"], a * a)
        assert [str(s) for s in logs["square"]["symbolic_shape"]] == ["M", "N"]


@needs_cpu
def test_who_does_not_ask_has_it_printed():
    printed = []
    compiled = scaled(lambda label, value: printed.append((label, value)))
    a, c = floats(3, 70), np.zeros((3, 70), "f4")
    compiled(a, c)
    compiled.launch(a + 1, c)
    assert [label for label, _ in printed] == ["square"] * 2
    assert np.array_equal(printed[1][1], (a + 1) ** 2)


@needs_cpu
def test_mistakes_of_a_launch_with_logs():
    compiled, logs = scaled(), {}
    with pytest.raises(LaunchError, match="E0702.*`c` has size 4 along `M`, expected 3"):
        compiled(floats(3, 70), floats(4, 70), debug_logs=logs)
    with pytest.raises(TypeError, match="takes 2 arguments|2"):
        compiled(floats(3, 70), debug_logs=logs)
    with pytest.raises(TypeError, match="`logs`"):
        compiled(floats(3, 70), floats(3, 70), logs=logs)
    assert not logs


@needs_cpu
def test_a_printer_that_raises():
    def broken(label, value):
        raise KeyError(label)

    with pytest.raises(KeyError, match="square"):
        scaled(broken)(floats(3, 70), floats(3, 70))


def test_logs_become_parameters_once():
    """Before there are variants: compiling one does not look for logs again."""
    (kernel,) = _wave.parse(
        """kernel @k(%a: mem<M, f32>)
             workgroup M by 64 on 0; hardware threads 64, vector {M: 64}; dynamic M
           { %x = read %a
             debug_log "x" %x }""",
        "k.wave",
    )
    passes = []
    write = lambda name, text: passes.append((name, "debug_log" in text, "%log0" in text))
    kernel.compile(target="sm_90a", dump="logs,bind", write=write)
    assert passes == [("logs", False, True), ("bind", False, True)]
