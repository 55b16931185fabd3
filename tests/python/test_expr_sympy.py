"""SymPy's expressions are accepted where ours are, and the other way round."""

import pytest

sympy = pytest.importorskip("sympy")

import wave_lang as wl
from kernel_utils import run_python
from wave_lang import CompileError, Expr, sym
from wave_lang.support import sympy_shim as shim

M, N, K = sym.M, sym.N, sym.K
m, n, k = sympy.symbols("M N K", integer=True, nonnegative=True)

PAIRS = [
    (M + 2 * N, m + 2 * n),
    (M / 32, m / 32),
    (M // 3, m // 3),
    (M % 5 + 1, m % 5 + 1),
    (shim.ceiling(K / 32), sympy.ceiling(k / 32)),
    (shim.floor((M + 1) / N), sympy.floor((m + 1) / n)),
    (shim.Min(M, N, 3), sympy.Min(m, n, 3)),
    (shim.Max(M - N, 0), sympy.Max(m - n, 0)),
    (shim.Piecewise((M, M < N), (N, True)), sympy.Piecewise((m, m < n), (n, True))),
    (
        shim.Piecewise((1, M < 2), (2, M < 4), (3, True)),
        sympy.Piecewise((1, m < 2), (2, m < 4), (3, True)),
    ),
    (shim.Eq(M, N), sympy.Eq(m, n)),
    (shim.Ne(M % 2, 0), sympy.Ne(m % 2, 0)),
    ((M < 4) & (N >= 2), (m < 4) & (n >= 2)),
    ((M < 4) | (N >= 2), (m < 4) | (n >= 2)),
    (M**3, m**3),
    (shim.Rational(1, 3), sympy.Rational(1, 3)),
    (Expr(7), sympy.Integer(7)),
    (Expr(True), sympy.true),
    (shim.Symbol("J"), sympy.Symbol("J")),
]


@pytest.mark.parametrize("ours, theirs", PAIRS, ids=[repr(p[0]) for p in PAIRS])
def test_round_trip(ours, theirs):
    assert Expr(theirs) == ours
    assert Expr(ours._sympy_()) == ours
    assert Expr(sympy.sympify(ours)) == ours


def test_symbols_keep_their_assumptions():
    assert sympy.sympify(M) == m
    assert sympy.sympify(shim.Symbol("J")) == sympy.Symbol("J")
    assert Expr(sympy.Symbol("p", positive=True)).is_nonnegative


def test_functions_of_sympy_take_our_symbols():
    assert Expr(sympy.ceiling(K / 32)) == shim.ceiling(K / 32)
    assert Expr(sympy.Min(M, 4)) == shim.Min(M, 4)
    assert Expr(sympy.Eq(sympy.Mod(K, 32), 0)) == shim.Eq(K % 32, 0)
    assert Expr(sympy.Piecewise((M, M < N), (N, True))) == shim.Piecewise((M, M < N), (N, True))


def test_a_piecewise_without_a_default():
    """Of SymPy it is NaN where no condition holds; here one of them must hold."""
    assert Expr(sympy.Piecewise((1, m < 2), (2, m >= 2))) == shim.Piecewise((1, M < 2), (2, True))
    for theirs in (sympy.Piecewise((1, m < 2)), sympy.Piecewise((1, m < 2), (2, m < 4))):
        with pytest.raises(CompileError, match="E0105.*may all be false") as e:
            Expr(theirs)
        assert e.value.diagnostics[0].file == __file__


def test_mixed_arithmetic():
    assert Expr(M + n) == M + N and Expr(n + M) == M + N
    assert Expr(M * sympy.Rational(1, 2)) == M / 2
    assert Expr(M < n) == (M < N)
    assert (M + N).subs({m: 3, n: sympy.Integer(4)}) == 7


def test_what_has_no_meaning_is_refused():
    with pytest.raises(CompileError) as e:
        Expr(sympy.sin(m))
    d = e.value.diagnostics[0]
    assert d.code == "E0105" and "sin" in d.message and d.file == __file__
    with pytest.raises(CompileError):
        Expr(m * sympy.Float(0.5))


def test_global_symbols_bind_the_real_module():
    scope = {}
    exec("from wave_lang.kernel.lang.global_symbols import *", scope)
    assert scope["sympy"] is sympy


def test_sympy_is_loaded_only_when_used():
    code = (
        "import sys, wave_lang; from wave_lang.kernel.lang.global_symbols import *;"
        "before = 'sympy.core' in sys.modules; x = sympy.ceiling(wave_lang.sym.K / 2);"
        "import sympy as s; print(before, 'sympy.core' in sys.modules, s is sympy,"
        " wave_lang.Expr(x))"
    )
    done = run_python("-c", code)
    assert done.stdout.split() == ["False", "True", "True", "ceiling(K/2)"], done.stderr


def test_subs_with_sympy_keys():
    options = wl.WaveCompileOptions(subs={m: 4, N: 8})
    assert {Expr(key) for key in options.subs} == {M, N}
