"""Mistakes that Python itself would let pass or explain badly: what `@wave` decorates, uses of
values as if they were numbers, and how kernels are compiled and called."""

import functools
import math

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
G = GLOBAL_ADDRESS_SPACE
Matrix = tkl.Memory[M, N, G, tkl.f32]
TARGETS = ["eval", "sim:gfx942", "cpu"]


def rows(m=4, n=64):
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64}),
        tkw.WorkgroupConstraint(M, m, 1),
        tkw.WorkgroupConstraint(N, n, 0),
        tkw.TilingConstraint(K, 16),
    ]


def compiled(kernel, target="eval"):
    return wave_compile(WaveCompileOptions(dynamic_symbols=[M, N], target=target), kernel)


def copying(a: Matrix, b: Matrix):
    tkw.write(tkw.read(a), b)


def copies(kernel, target="eval", **named):
    """Whether the kernel copies its first argument to its second."""
    a, b = np.arange(15, dtype="f4").reshape(3, 5), np.zeros((3, 5), "f4")
    if named:
        compiled(kernel, target)(a, **{name: b for name in named})
    else:
        compiled(kernel, target)(a, b)
    return np.array_equal(a, b)


# ---- what is decorated -----------------------------------------------------------------------


def test_bare_decorator():
    with pytest.raises(CompileError, match="bare `@wave`") as e:
        tkw.wave(copying)
    assert e.value.diagnostics[0].code == "E0201"


def test_one_constraint_instead_of_a_list():
    with pytest.raises(TypeError, match="constraints must be a list"):
        tkw.wave(tkw.WorkgroupConstraint(M, 4, 0))(copying)


@pytest.mark.parametrize("given", [tkw.wave(rows())(copying), int, functools.partial(copying)])
def test_what_is_no_function(given):
    with pytest.raises(TypeError, match="kernel"):
        tkw.wave(rows())(given)


def test_static_methods_and_other_decorators():
    @functools.wraps(copying)
    def wrapped(*args, **named):
        return copying(*args, **named)

    assert copies(tkw.wave(rows())(staticmethod(copying)))
    assert copies(tkw.wave(rows())(wrapped))


def test_keyword_only_parameters():
    @tkw.wave(rows())
    def kernel(a: Matrix, *, b: Matrix):
        tkw.write(tkw.read(a), b)

    assert copies(kernel) and copies(kernel, b=None)


def a_generator(a: Matrix, b: Matrix):
    yield tkw.write(tkw.read(a), b)


async def a_coroutine(a: Matrix, b: Matrix):
    tkw.write(tkw.read(a), b)


def any_number(*tensors: Matrix):
    tkw.write(tkw.read(tensors[0]), tensors[1])


def python_type(a: Matrix, n: int):
    tkw.write(tkw.read(a), a)


def method(self, a: Matrix):
    tkw.write(tkw.read(a), a)


@pytest.mark.parametrize(
    "fn, code, words, hint",
    [
        (a_generator, "E0408", "does not run its body", "plain function"),
        (a_coroutine, "E0408", "does not run its body", "plain function"),
        (any_number, "E0319", "a variable number of parameters", "annotate"),
        (python_type, "E0319", "`n` of `python_type` has the type <class 'int'>", "f32"),
        (method, "E0319", "`self`", "@staticmethod"),
    ],
)
def test_functions_that_are_no_kernels(fn, code, words, hint):
    with pytest.raises(CompileError) as e:
        tkw.wave(rows())(fn)
    d = e.value.diagnostics[0]
    assert (d.code, d.file, d.line) == (code, __file__, fn.__code__.co_firstlineno)
    assert words in d.message and hint in d.hint


# ---- values used as if they were numbers -------------------------------------------------------


def loop_of(body):
    return lambda x, b: tkw.iterate(K, init_args=[x])(body)


def yields(acc):
    yield acc


@pytest.mark.parametrize(
    "body, code, hint",
    [
        (lambda x, b: x @ x, "E0310", "mma"),
        (lambda x, b: x**2, "E0310", "powf"),
        (lambda x, b: 2**x, "E0310", "powf"),
        (lambda x, b: math.exp(x), "E0403", "tkw.exp"),
        (lambda x, b: float(x), "E0403", "tkw"),
        (lambda x, b: max(x, 0.0), "E0403", "maximum"),
        (lambda x, b: 0.0 < x < 1.0, "E0403", "`&`"),
        (lambda x, b: b.__setitem__(slice(None), x), "E0310", "write"),
        (lambda x, b: sum(x), "E0404", "tkw.sum"),
        (lambda x, b: [v for v in x], "E0404", "tkw.sum"),
        (lambda x, b: x(), "E0310", "refers to the result"),
        (lambda x, b: tkw.iterate(K, init_args=[0.0]), "E0315", "Register"),
        (lambda x, b: tkw.conditional(M > 1, else_return=[0.0]), "E0315", "Register"),
        (loop_of(yields), "E0408", "return"),
        (lambda x, b: tkw.write(x, b, elements_per_thread=0), "E0318", "omit it"),
        (lambda x, b: tkw.read(b, elements_per_thread=-4), "E0318", "omit it"),
    ],
)
def test_values_are_no_numbers(body, code, hint):
    @tkw.wave(rows())
    def kernel(a: Matrix, b: Matrix):
        body(tkw.read(a), b)

    with pytest.raises(CompileError) as e:
        compiled(kernel)
    d = e.value.diagnostics[0]
    assert d.code == code and hint in d.hint and d.file == __file__ and d.line > 0


def test_kernels_return_nothing():
    @tkw.wave(rows())
    def kernel(a: Matrix, b: Matrix):
        return tkw.read(a)

    with pytest.raises(CompileError, match="cannot return a value") as e:
        compiled(kernel)
    assert "write" in e.value.diagnostics[0].hint


# ---- compiling -------------------------------------------------------------------------------


def test_arguments_of_wave_compile():
    kernel = tkw.wave(rows())(copying)
    options = WaveCompileOptions(dynamic_symbols=[M, N], target="eval")
    with pytest.raises(TypeError, match="options come first"):
        wave_compile(kernel, options)
    with pytest.raises(TypeError, match="WaveCompileOptions"):
        wave_compile({"target": "eval"}, kernel)
    with pytest.raises(TypeError, match="already compiled"):
        wave_compile(options, wave_compile(options, kernel))
    with pytest.raises(TypeError, match="dictionary"):
        wave_compile(WaveCompileOptions(subs=[(M, 3)], target="eval"), kernel)
    with pytest.raises(TypeError, match="must be a list"):
        wave_compile(WaveCompileOptions(dynamic_symbols=M, target="eval"), kernel)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [1 << 19, 1 << 62])
def test_tiles_that_no_machine_holds(target, size):
    """Neither memory nor an element count overflows."""
    a = np.ones((3, 5), "f4")
    with pytest.raises(CompileError) as e:
        compiled(tkw.wave(rows(size, size))(copying), target)(a, a)
    d = e.value.diagnostics[0]
    assert d.code in ("E0606", "E0706") and d.file == __file__ and "elements" in d.message


@pytest.mark.parametrize("target", ["cpu", "sim:sm_90a"])
def test_errors_come_before_remarks(target):
    kernel = tkw.wave(rows(tkl.sym.BLOCK_M / 4096))(copying)  # no value that is chosen is whole
    with pytest.raises(CompileError) as e:
        compiled(kernel, target)
    assert e.value.diagnostics[0].severity == "error"
    assert "BLOCK_M" in e.value.diagnostics[0].message and "remark" not in str(e.value)


# ---- calling ---------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_writes_convert(target):
    """As the language says: integers to floats, and floats among the wide formats."""

    @tkw.wave(rows())
    def kernel(
        a: Matrix, i: tkl.Memory[M, N, G, tkl.i32], b: tkl.Memory[M, N, G, tkl.f16], c: Matrix
    ):
        tkw.write(tkw.read(a), b)
        tkw.write(tkw.read(i), c)

    a = np.array([[1.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 65520, -1e-8, np.inf]], "f4")
    i = np.array([[0, -1, 2**24 + 1, 2**31 - 1, -(2**31), 7]], "i4")
    b, c = np.zeros_like(a, "f2"), np.zeros_like(a)
    compiled(kernel, target)(a, i, b, c)
    with np.errstate(over="ignore"):
        assert np.array_equal(b, a.astype("f2")) and np.array_equal(c, i.astype("f4"))


@pytest.mark.parametrize("target", TARGETS)
def test_tensors_that_are_not_dense(target):
    base = np.arange(12 * 14, dtype="f4").reshape(12, 14)
    for view in (base.T, base[::-1, ::-1], base[2:9, 3:10], base[::3, ::2], base[:1].repeat(3, 0)):
        whole = np.full((2 * view.shape[0], view.shape[1] + 3), -1, "f4")
        out = whole[::2, 1:-2]
        compiled(tkw.wave(rows())(copying), target)(view, out)
        assert np.array_equal(out, view)
        assert (
            (whole[1::2] == -1).all() and (whole[:, 0] == -1).all() and (whole[:, -2:] == -1).all()
        )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "a, b, words",
    [
        (np.ones((3, 6), "f4"), np.ones((3, 5), "f4"), "`b` has size 5 along `N`, expected 6"),
        (np.ones((3, 5, 1), "f4"), np.ones((3, 5), "f4"), "`a` has rank 3, expected 2"),
        (np.ones((3, 5), "f8"), np.ones((3, 5), "f4"), "`a` has dtype f64, expected"),
        (np.ones((3, 5), "i4"), np.ones((3, 5), "f4"), "`a` has dtype i32, expected"),
    ],
)
def test_tensors_that_do_not_fit(target, a, b, words):
    with pytest.raises(CompileError) as e:
        compiled(tkw.wave(rows())(copying), target)(a, b)
    d = e.value.diagnostics[0]
    assert d.code == "E0702" and words in d.message and d.file == __file__


def test_arguments_by_name():
    kernel = compiled(tkw.wave(rows())(copying))
    a, b = np.ones((2, 3), "f4"), np.zeros((2, 3), "f4")
    kernel(b=b, a=a)
    assert (b == 1).all()
    for args, named, words in (
        ((a,), {"bb": b}, "no parameter `bb`; did you mean `b`"),
        ((a,), {"a": b}, "two values for `a`"),
        ((), {"a": a}, "is missing the argument `b`"),
    ):
        with pytest.raises(TypeError, match=words):
            kernel(*args, **named)


def test_a_dimension_in_the_place_of_an_address_space():
    @tkw.wave(rows())
    def kernel(x: tkl.Memory[M, N, tkl.f32], y: Matrix):
        tkw.write(tkw.read(x), y)

    with pytest.raises(CompileError, match="E0319.*address space of `x` is `N`, which is 40") as error:
        wave_compile(WaveCompileOptions(subs={M: 4, N: 40}, target="eval"), kernel)
    (found,) = error.value.diagnostics
    assert found.file == __file__ and "GLOBAL_ADDRESS_SPACE" in found.hint
