"""Symbolic expressions: Python's operators, exactness, structure, substitution."""

import copy
import operator
import pickle
from fractions import Fraction

import pytest

from wave_lang import CompileError, Expr, _wave, sym
from wave_lang.support import sympy_shim as shim

M, N, K = sym.M, sym.N, sym.K


def test_symbols_are_known_by_name_and_sign():
    assert sym.M == M and hash(sym.M) == hash(M)
    assert M != N
    assert shim.Symbol("M") != M  # may be negative
    assert shim.Symbol("M", nonnegative=True) == M
    assert M.name == "M" and M.free_symbols == {M}


def test_non_negative_symbols_fold_sign_tests():
    assert bool(M >= 0)
    with pytest.raises(TypeError, match="J.*depends on symbols"):
        bool(shim.Symbol("J") >= 0)


def test_equal_expressions_are_one():
    assert M + N == N + M and hash(M + N) == hash(N + M)
    assert 2 * M - M == M
    assert (M * 4) / 2 == 2 * M
    assert M - M == 0 and hash(M - M) == hash(0)


@pytest.mark.parametrize(
    "op, a, b",
    [
        (operator.add, 7, 3),
        (operator.sub, 7, 3),
        (operator.mul, 7, 3),
        (operator.floordiv, 7, 3),
        (operator.mod, 7, 3),
        (operator.floordiv, -7, 3),
        (operator.mod, -7, 3),
        (operator.pow, 7, 3),
    ],
)
def test_operators_agree_with_python(op, a, b):
    expected = op(a, b)
    assert int(op(Expr(a), b)) == int(op(a, Expr(b))) == expected
    x, y = shim.Symbol("x"), shim.Symbol("y")
    if op is not operator.pow:
        assert int(op(x, y).subs({x: a, y: b})) == expected


@pytest.mark.parametrize("op", [operator.lt, operator.le, operator.gt, operator.ge])
def test_comparisons_build_conditions(op):
    condition = op(M, N)
    assert condition.is_Boolean
    for a, b in [(1, 2), (2, 2), (3, 2)]:
        assert bool(condition.subs({M: a, N: b})) == op(a, b)
        assert bool((~condition).subs({M: a, N: b})) != op(a, b)


def test_division_is_exact():
    assert repr(M / 2) == "M/2"
    assert (M / 2).subs(M, 8) == 4
    assert (M / 2).subs({M: 7}) * 2 == 7
    assert M * Fraction(1, 2) == M / 2
    assert shim.Rational(3, 2) + shim.Rational(1, 2) == 2


def test_logic():
    both = (M < 4) & (N > 2)
    assert bool(both.subs({M: 1, N: 3})) and not bool(both.subs({M: 1, N: 2}))
    either = (M < 4) | (N > 2)
    assert bool(either.subs({M: 9, N: 3})) and not bool(either.subs({M: 9, N: 0}))


def test_functions_of_the_shim():
    values = {M: 7, N: 2}
    for made, expected in [
        (shim.ceiling(M / N), 4),
        (shim.floor(M / N), 3),
        (shim.Min(M, N), 2),
        (shim.Max(M, N), 7),
        (shim.Mod(M, N), 1),
        (shim.Add(M, N, 1), 10),
        (shim.Mul(M, N), 14),
        (shim.Pow(M, 2), 49),
        (shim.Piecewise((1, M < N), (2, shim.Eq(M, 7)), (3, True)), 2),
        (shim.Piecewise((1, M < N), (3, True)), 3),
        (shim.Integer(5), 5),
    ]:
        assert made.subs(values) == expected
    assert bool(shim.Ne(M, N).subs(values)) and bool(shim.Or(M < N, M > N).subs(values))
    assert bool(shim.And(shim.Ge(M, 7), shim.Not(shim.Lt(M, 7))).subs(values))
    a, b = shim.symbols("a b")
    assert a.name == "a" and b.name == "b"


def test_substitution_is_simultaneous():
    assert (M + 2 * N).subs({M: N, N: M}) == N + 2 * M
    assert (M + N).subs([(M, 1), (N, K)]) == K + 1


def test_simplify_uses_facts():
    assert (M % 4).simplify() == M % 4
    assert (M % 4).simplify(M < 4) == M
    assert ((32 * M + N) // 32).simplify(N < 32) == M


def test_constants_are_numbers():
    four = M.subs({M: 4})
    assert four == 4 and four.is_number and int(four) == 4 and float(four) == 4.0
    assert [10, 20, 30, 40, 50][four] == 50
    assert list(range(Expr(3))) == [0, 1, 2]
    assert {four: "x"}[4] == "x"
    assert not M.is_number
    with pytest.raises(TypeError, match="M.*not an integer constant"):
        int(M)


def test_whole_floats_are_integers_and_others_are_refused():
    assert M * 2.0 == 2 * M
    with pytest.raises(CompileError) as e:
        M * 0.3
    assert e.value.diagnostics[0].code == "E0105"
    assert "M / 2" in e.value.diagnostics[0].hint or "division" in e.value.diagnostics[0].hint


def test_mistakes_have_a_code_and_a_place():
    for make, words in [
        (lambda: M // 0, "zero"),
        (lambda: M + 2**70, "2**63"),
        (lambda: (M * 2**62) * 2**62, "64"),
    ]:
        with pytest.raises(CompileError) as e:
            make()
        d = e.value.diagnostics[0]
        assert d.code.startswith("E01") and words in d.message
        assert d.file == __file__ and d.line == make.__code__.co_firstlineno
    with pytest.raises(CompileError) as e:
        Expr("M +")
    assert e.value.diagnostics[0].code == "E0105" and e.value.diagnostics[0].col == 4


def test_numpy_scalars():
    np = pytest.importorskip("numpy")
    assert np.int64(3) * M == 3 * M == M * np.int64(3)
    assert isinstance(np.int32(2) + M, Expr) and (M + 1).subs({M: np.int16(4)}) == 5
    with pytest.raises(TypeError):
        np.ones(3) * M


def test_strangers():
    with pytest.raises(TypeError):
        M + "x"
    with pytest.raises(TypeError):
        M < [1]
    assert M != "M" and (M == None) is False  # noqa: E711
    with pytest.raises(AttributeError, match="only a symbol has a name"):
        (M + 1).name


@pytest.mark.parametrize(
    "e",
    [
        M,
        M + 1,
        M / 2,
        shim.Symbol("J"),
        sym.M // 3 % 5,
        (M < 4) & (N > 2),
        Expr(7),
        shim.Piecewise((1, M < 4), (K, True)),
        shim.ceiling(K / 32),
        Expr("$WG0") * 4,
    ],
    ids=repr,
)
def test_copies_and_pickles(e):
    assert copy.copy(e) is e and copy.deepcopy({e: [e]}) == {e: [e]}
    assert pickle.loads(pickle.dumps(e)) == e
    assert Expr(repr(e)) == e


def test_structure():
    assert (M + 1).kind == "add" and set((M + 1).args) == {M, Expr(1)}
    assert (M * N).free_symbols == {M, N}
    assert Expr(3).free_symbols == set()


@pytest.mark.parametrize("op", ["floordiv", "min", "xor"])
def test_nesting_has_an_end(op):
    """Deep expressions are rejected when they are built; all others can be used."""
    x, y = _wave.symbol("M"), _wave.symbol("N")
    deep = [x]
    with pytest.raises(CompileError, match="nested too deeply"):
        for i in range(100_000):
            deep.append(_wave.op(op, deep[-1] * 2 + y * (i + 1), y + 3 + i))
    assert len(deep) > 100
    last = deep[-1]
    assert str(last).count("M") >= 1 and last.free_symbols == {x, y}
    assert last.simplify(x < 10) is not None and (deep[-9] < 5) is not None
    with pytest.raises(CompileError):
        last.subs({x: last})


@pytest.mark.parametrize("what", [[5], [[1, 2]], ["MN"], [(1,)], [(1, 2, 3)], [None], 3])
def test_subs_takes_pairs(what):
    with pytest.raises(TypeError):
        _wave.symbol("M").subs(what)


WHOLE = [
    ((1, M < 2), (2, M >= 2)),
    ((1, M < N), (2, M > N), (3, shim.Eq(M, N))),
    ((1, ~(M < 4)), (2, M < 4)),
    ((1, M < 2), (2, M >= 0)),
    ((1, False), (2, M >= 0)),
    ((1, True), (2, False)),
    ((1, 1),),
]
PARTIAL = [
    ((1, M < 2),),
    ((1, M < 2), (2, M < 4)),
    ((1, M < 2), (2, M > 2)),
    ((1, False), (2, False)),
    ((1, 0),),
]


@pytest.mark.parametrize("branches", WHOLE)
def test_a_piecewise_of_which_one_condition_holds(branches):
    ours = shim.Piecewise(*branches)
    for m in range(6):
        for n in range(4):
            at = {M: m, N: n}
            holds = (v for v, c in branches if Expr(c).subs(at) in (True, 1))
            assert ours.subs(at) == next(holds), (m, n)


@pytest.mark.parametrize("branches", PARTIAL)
def test_a_piecewise_without_a_default(branches):
    """The value of the last branch was taken whatever its condition."""
    with pytest.raises(CompileError, match="E0105.*may all be false.*last branch must be True") as e:
        shim.Piecewise(*branches)
    assert e.value.diagnostics[0].file == __file__
    pairs = ", ".join(f"({v}, {c})" for v, c in branches)
    with pytest.raises(CompileError, match="E0105.*may all be false"):
        Expr(f"Piecewise({pairs}) + 1")


def test_a_piecewise_without_branches():
    with pytest.raises(CompileError, match="E0105.*pairs of a value and a condition"):
        shim.Piecewise()
    with pytest.raises(CompileError, match="E0105"):
        Expr("Piecewise()")
