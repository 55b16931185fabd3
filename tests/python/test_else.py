"""Conditionals with an else, and Wave's own index functions, on every target."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import run_python
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
G = GLOBAL_ADDRESS_SPACE
TARGETS = ("eval", "cpu", "sim:cpu", "sim:gfx942", "sim:sm_90a", "sim:sm_80")


@pytest.fixture(params=TARGETS)
def target(request):
    return request.param


def rows(bm=1, bn=40):
    hardware = tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: bm, N: bn})
    return [hardware, tkw.WorkgroupConstraint(M, bm, 1), tkw.WorkgroupConstraint(N, bn, 0)]


def call(target, kernel, *args, subs=None):
    options = WaveCompileOptions(
        subs=subs or {}, dynamic_symbols=[] if subs else [M, N], target=target
    )
    wave_compile(options, kernel)(*args)


def test_values_of_two_branches(target):
    """The condition is an expression of the workgroup id: tiles are computed in two ways."""

    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        x = tkw.read(a)

        def elsewhere():
            return x * 2.0, tkw.exp2(x)

        @tkw.conditional(WORKGROUP_1 < 3, otherwise=elsewhere)
        def here():
            return x + 1.0, -x

        first, second = here
        tkw.write(first + second, c)

    a = np.random.default_rng(0).integers(-3, 4, (7, 91)).astype("f4")
    c = np.zeros_like(a)
    call(target, kernel, a, c)
    expected = np.where(np.arange(7)[:, None] < 3, 1, 2 * a + np.exp2(a))
    assert np.array_equal(c, expected)


def test_effects_of_two_branches(target):
    """The condition is a value read from memory, true if it is not 0; each branch writes another
    tensor."""

    @tkw.wave(rows())
    def kernel(
        flag: tkl.Memory[M, G, tkl.i32],
        a: tkl.Memory[M, N, G, tkl.i32],
        b: tkl.Memory[M, N, G, tkl.i32],
        c: tkl.Memory[M, N, G, tkl.i32],
    ):
        x, wanted = tkw.read(a), tkw.read(flag)

        def elsewhere():
            tkw.write(-x, c)

        @tkw.conditional(wanted, otherwise=elsewhere)
        def here():
            tkw.write(x + 1, b)

    a = np.arange(5 * 43, dtype="i4").reshape(5, 43)
    flag = np.array([0, 1, -7, 0, 2], "i4")
    b, c = np.full_like(a, 77), np.full_like(a, 77)
    call(target, kernel, flag, a, b, c)
    on = flag[:, None] != 0
    assert np.array_equal(b, np.where(on, a + 1, 77)) and np.array_equal(c, np.where(on, 77, -a))


def test_else_in_a_loop(target):
    """Every second tile of K is subtracted; a branch of the else has one of its own."""
    hardware = tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 4, K: 8})
    constraints = [hardware, tkw.WorkgroupConstraint(M, 4, 0), tkw.TilingConstraint(K, 8)]

    @tkw.wave(constraints)
    def kernel(a: tkl.Memory[M, K, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkl.Register[M, tkl.f32](0.0)])
        def total(acc):
            part = tkw.sum(tkw.read(a), dim=K)
            step = tkl.index_symbol("$ARGK")

            def odd():
                def third():
                    return acc - part

                @tkw.conditional(tkl.Eq(step % 3, 0), otherwise=third)
                def chosen():
                    return acc - 2.0 * part

                return chosen

            @tkw.conditional(tkl.Eq(step % 2, 0), otherwise=odd)
            def next_acc():
                return acc + part

            return next_acc

        tkw.write(total, c)

    a = np.random.default_rng(1).integers(-4, 5, (6, 37)).astype("f4")
    c = np.zeros(6, "f4")
    call(target, kernel, a, c, subs={M: 6, K: 37})
    factor = [1 if k % 2 == 0 else -2 if k % 3 == 0 else -1 for k in range(5)]
    expected = sum(f * a[:, 8 * k : 8 * k + 8].sum(1) for k, f in enumerate(factor))
    assert np.array_equal(c, expected)


def test_a_truth_value_of_the_kernel(target):
    """A comparison of a scalar argument; the branches return i1 and f32."""

    @tkw.wave(rows())
    def kernel(s: tkl.i32, a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        x = tkw.read(a)

        def elsewhere():
            return x < 0.0, x

        @tkw.conditional(s > 2, otherwise=elsewhere)
        def here():
            return x > 0.0, x * x

        test, y = here
        tkw.write(tkw.select(test, y, -1.0), c)

    a = np.random.default_rng(2).integers(-3, 4, (3, 50)).astype("f4")
    for s in 1, 5:
        c = np.zeros_like(a)
        call(target, kernel, s, a, c)
        expected = np.where(a > 0, a * a, -1) if s > 2 else np.where(a < 0, a, -1)
        assert np.array_equal(c, expected), s


def mistake(body):
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        x = tkw.read(a)
        body(x, c)

    with pytest.raises(CompileError) as e:
        call("eval", kernel, np.zeros((2, 2), "f4"), np.zeros((2, 2), "f4"))
    return e.value.diagnostics[0]


def test_branches_that_differ():
    def types(x, c):
        @tkw.conditional(WORKGROUP_0 < 1, otherwise=lambda: tkw.cast(x, tkl.f16))
        def here():
            return x

    def counts(x, c):
        @tkw.conditional(WORKGROUP_0 < 1, otherwise=lambda: (x, x))
        def here():
            return x

    def both(x, c):
        @tkw.conditional(WORKGROUP_0 < 1, else_return=[x], otherwise=lambda: x)
        def here():
            return x

    assert mistake(types).code == "E0401"
    assert mistake(counts).code == "E0404"
    assert mistake(both).code == "E0404"


def test_index_functions(target):
    """Min, Max and ceiling in tiles, bounds and conditions, without SymPy."""
    tile = tkl.Min(tkl.Max(tkl.ceiling(N / 3), 5), 64)
    hardware = tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={N: tile})

    @tkw.wave([hardware, tkw.WorkgroupConstraint(N, tile, 0)])
    def kernel(a: tkl.Memory[N, G, tkl.i32], c: tkl.Memory[N, G, tkl.i32]):
        x = tkw.read(a)
        limit = tkw.scalar(tkl.Piecewise((N, tkl.Ne(N % 2, 0)), (-1, True)), tkl.i32)
        tkw.write(tkw.minimum(x, limit), c)

    for n in 7, 40, 100:
        a = np.arange(n, dtype="i4") * 2
        c = np.zeros_like(a)
        call(target, kernel, a, c, subs={N: n})
        assert np.array_equal(c, np.minimum(a, n if n % 2 else -1))


def test_index_functions_need_no_sympy():
    program = (
        "import sys, wave_lang.kernel.lang as tkl\n"
        "M = tkl.sym.M\n"
        "print(tkl.Min(tkl.ceiling(M / 4), 8), 'sympy.core' in sys.modules)"
    )
    assert run_python("-c", program).stdout.split()[-1] == "False"
