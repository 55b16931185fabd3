"""Inline PTX in a kernel: its meaning on other targets, what is rejected, the generated code.

Kernels that run everywhere, also on a GPU, are rows of sim_list/cases_inline.py."""

import os
import sys

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, _wave, wave_compile

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "tools"))
import ptxas  # noqa: E402

M, N = tkl.sym.M, tkl.sym.N
G = tkw.GLOBAL_ADDRESS_SPACE
TARGETS = ("eval", "cpu", "sim:sm_80", "sim:sm_90a", "sim:gfx942")
EX2 = "ex2.approx.ftz.f32 $0, $1;"


def rows(bm=3, bn=40):
    return [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: bn}),
        tkw.WorkgroupConstraint(M, bm, 1),
        tkw.WorkgroupConstraint(N, bn, 0),
    ]


def unary(function, source=tkl.f32, result=tkl.f32):
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, source], b: tkl.Memory[M, N, G, result]):
        tkw.write(function(tkw.read(a)), b)

    return kernel


def compiled(kernel, target="eval"):
    return wave_compile(WaveCompileOptions(dynamic_symbols=[M, N], target=target), kernel)


def ptx(kernel, target="sm_90a"):
    return wave_compile(WaveCompileOptions(subs={M: 7, N: 75}, target=target), kernel).ptx


def run(kernel, target, a, dtype="f4"):
    b = np.zeros(a.shape, dtype)
    compiled(kernel, target)(a, b)
    return b


# ---- meanings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(1, 1), (7, 75), (3, 40), (0, 9)])
def test_the_meaning_runs_elsewhere(target, shape):
    a = np.random.default_rng(1).standard_normal(shape).astype("f4")
    kernel = unary(lambda x: tkw.inline_ptx(EX2, x, tkl.f32, meaning=tkw.exp2))
    np.testing.assert_allclose(run(kernel, target, a), np.exp2(a.astype("f8")), rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_a_meaning_may_be_a_number_or_lack_dimensions(target):
    a = np.ones((4, 41), "f4")
    number = unary(lambda x: tkw.inline_ptx("mov.f32 $0, 0f40400000;", x, tkl.f32, lambda x: 3))
    assert (run(number, target, a) == 3).all()
    scalar = unary(
        lambda x: tkw.inline_ptx(
            "mov.f32 $0, 0f40400000;", x, tkl.f32, lambda x: tkw.scalar(3.0, tkl.f32)
        )
    )
    assert (run(scalar, target, a) == 3).all()


@pytest.mark.parametrize("target", TARGETS)
def test_of_scalars(target):
    @tkw.wave(rows())
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], s: tkl.f32, b: tkl.Memory[M, N, G, tkl.f32]):
        twice = tkw.inline_ptx("add.f32 $0, $1, $1;", s, tkl.f32, lambda s: s + s)
        tkw.write(tkw.read(a) * twice, b)

    a, b = np.arange(82, dtype="f4").reshape(2, 41), np.zeros((2, 41), "f4")
    compiled(kernel, target)(a, 1.5, b)
    assert (b == 3 * a).all()


@pytest.mark.parametrize("target", TARGETS)
def test_several_operands_and_twelve_numbers(target):
    """`$12` is the twelfth operand, not the first and a 2."""
    text = "add.f32 $0, $1, $12;"
    kernel = unary(
        lambda x: tkw.inline_ptx(
            text, [x * i for i in range(12)], tkl.f32, meaning=lambda *v: v[0] + v[11]
        )
    )
    a = np.arange(82, dtype="f4").reshape(2, 41)
    assert (run(kernel, target, a) == 11 * a).all()
    if ptxas.find():
        assert ptxas.assemble(ptx(kernel)).ok


@pytest.mark.parametrize("target", TARGETS)
def test_without_a_meaning(target):
    def body(x):
        return tkw.inline_ptx(EX2, x, tkl.f32)

    with pytest.raises(CompileError, match="E0619.* cannot run `inline_ptx` without its meaning") as e:
        run(unary(body), target, np.ones((3, 4), "f4"))
    d = e.value.diagnostics[0]
    assert "meaning=" in d.hint and d.file == __file__
    assert d.line == body.__code__.co_firstlineno + 1


def test_a_meaning_of_another_type():
    with pytest.raises(CompileError, match="E0316.*the meaning .* returns tile<M, N, i32>, but its result"):
        compiled(unary(lambda x: tkw.inline_ptx(EX2, x, tkl.f32, lambda x: tkw.cast(x, tkl.i32))))


# ---- the text --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, words",
    [
        ("add.f32 $0, $1, $2;", r"`\$2`, but there is 1 operand"),
        ("mov.f32 $0, $1", "does not end in `;`"),
        ("mov.f32 $0, $1; }", "an unmatched `}`"),
        ("mov.f32 $0, $1; ret;", "`ret`, which leaves the inline code"),
        ("L: mov.f32 $0, $1;", "the label `L`"),
        ("mov.f32 $0, $1; @p exit;", "`exit`, which leaves the inline code"),
        (".func f; mov.f32 $0, $1;", "the directive `.func`"),
        ('mov.f32 $0, $1; .pragma "x";', "the directive `.pragma`|a string"),
        ("mov.f32 $0, $1; /* } */", "a comment"),
        ("mov.f32 $0, é;", "not printable ASCII"),
        ("mov.f32 $0, %f1;", "the register `%f1`"),
        ("shfl.sync.bfly.b32 $0, $1, 1, 31, -1;", "`shfl`, .* add `volatile`"),
        ("mov.u32 $0, %clock64;", "`%clock64`, .* add `volatile`"),
    ],
)
def test_texts_that_are_refused(text, words):
    with pytest.raises(CompileError, match=f"E0322.*{words}"):
        compiled(unary(lambda x: tkw.inline_ptx(text, x, tkl.f32, tkw.exp2)))


@pytest.mark.parametrize("text", [None, 3, b"mov.f32 $0, $1;", "mov\0"])
def test_what_is_no_text(text):
    with pytest.raises((TypeError, ValueError, CompileError)):
        compiled(unary(lambda x: tkw.inline_ptx(text, x, tkl.f32, tkw.exp2)))


@pytest.mark.parametrize("inputs", [(), None, 2.0, (1.0, 2.0)])
def test_inputs_are_values(inputs):
    with pytest.raises((TypeError, CompileError)):
        compiled(unary(lambda x: tkw.inline_ptx(EX2, inputs, tkl.f32)))


@pytest.mark.parametrize("dtype", [tkl.i8, tkl.i16, tkl.i1, tkl.f8e5m2])
def test_types_without_a_register(dtype):
    with pytest.raises(CompileError, match="E0311.*floats of at least 16 bits"):
        compiled(unary(lambda x: tkw.inline_ptx(EX2, tkw.cast(x, dtype), tkl.f32)))
    with pytest.raises(CompileError, match="E0311.*floats of at least 16 bits"):
        compiled(unary(lambda x: tkw.cast(tkw.inline_ptx(EX2, x, dtype), tkl.f32)))


# ---- the generated code
# ----------------------------------------------------------------------------


def twice(volatile):
    def body(x):
        y, z = (tkw.inline_ptx(EX2, x, tkl.f32, tkw.exp2, volatile=volatile) for _ in range(2))
        tkw.inline_ptx("sin.approx.f32 $0, $1;", x, tkl.f32, volatile=volatile)  # it is not used
        return y + z

    return unary(body)


@pytest.mark.parametrize("target", ("sm_80", "sm_90a"))
def test_pure_is_shared_and_dropped_volatile_is_not(target):
    pure, kept = ptx(twice(False), target), ptx(twice(True), target)
    assert kept.count("ex2.approx.ftz") == 2 * pure.count("ex2.approx.ftz") > 0
    assert pure.count("sin.approx") == 0 and kept.count("sin.approx") > 0


@pytest.mark.parametrize("target", ("sm_80", "sm_90a"))
def test_what_only_the_meaning_needs_is_not_emitted(target):
    def meaning(x):
        return tkw.sqrt(tkw.tanh(x) * 2.0)

    text = ptx(unary(lambda x: tkw.inline_ptx(EX2, x, tkl.f32, meaning)), target)
    assert EX2.split()[0] in text and "sqrt" not in text and "rcp" not in text
    if ptxas.find():
        assert ptxas.assemble(text).ok


@pytest.mark.skipif(not ptxas.find(), reason="no ptxas")
def test_what_the_assembler_refuses_names_the_line():
    def body(x):
        return tkw.inline_ptx("nonsense.f32 $0, $1;", x, tkl.f32, tkw.exp2)

    text = ptx(unary(body))
    result = ptxas.assemble(text)
    assert not result.ok and "nonsense" in result.log
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if "nonsense" in line)
    places = [line.split() for line in lines[:at] if line.startswith("\t.loc")]
    assert int(places[-1][2]) == body.__code__.co_firstlineno + 1


def test_the_text_form_is_read_back():
    kernel = compiled(unary(lambda x: tkw.inline_ptx(' { .reg .f32 t;\n mov.f32 t, $1;\tmov.f32 $0, t; }', x, tkl.f32, tkw.exp2, volatile=True)))  # fmt: skip
    again = _wave.parse(str(kernel.ir))[0]
    assert again == kernel.ir and str(again) == str(kernel.ir)
    assert "inline_ptx" in str(again) and "{volatile, meaning}" in str(again)


def test_texts_are_part_of_what_is_cached():
    """Kernels that differ only in their instructions are two kernels."""
    one = compiled(unary(lambda x: tkw.inline_ptx(EX2, x, tkl.f32, tkw.exp2)))
    two = compiled(unary(lambda x: tkw.inline_ptx(EX2.replace(".ftz", ""), x, tkl.f32, tkw.exp2)))
    assert one.ir != two.ir and str(one.ir) != str(two.ir)


# ---- several results -------------------------------------------------------------------------------

DIVIDE = "div.s32 $0, $2, $3; rem.s32 $1, $2, $3;"


def divided(use, volatile=False, meaning=lambda x, d: (x / d, x - (x / d) * d), times=1):
    def body(x):
        for _ in range(times):
            q, r = tkw.inline_ptx(DIVIDE, (x, x + 3), (tkl.i32, tkl.i32), meaning, volatile=volatile)
        return use(q, r)

    return unary(body, tkl.i32, tkl.i32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(1, 1), (7, 75), (0, 9)])
def test_meanings_of_several_results(target, shape):
    a = np.random.default_rng(1).integers(1, 99, shape).astype("i4")
    expected = a // (a + 3) * 1000 + a % (a + 3)
    assert (run(divided(lambda q, r: q * 1000 + r), target, a, "i4") == expected).all()
    assert (run(divided(lambda q, r: r), target, a, "i4") == a % (a + 3)).all()


@pytest.mark.parametrize("target", ("sm_80", "sm_90a"))
def test_one_text_for_all_results(target):
    """Also if only one of them is used; of the meaning nothing is left."""
    texts = {use: ptx(divided(f), target) for use, f in (("both", lambda q, r: q * r), ("last", lambda q, r: r))}
    for text in texts.values():
        assert text.count("div.s32") == text.count("rem.s32") > 0  # the meaning has divisions only
    assert texts["both"].count("div.s32") == texts["last"].count("div.s32")
    if ptxas.find():
        assert all(ptxas.assemble(text).ok for text in texts.values())


@pytest.mark.parametrize("target", ("sm_80", "sm_90a"))
def test_volatile_texts_with_several_results(target):
    once, pure, kept = (
        ptx(divided(lambda q, r: q * r, volatile, times=times), target)
        for volatile, times in ((True, 1), (False, 2), (True, 2))
    )
    assert kept.count("div.s32") == 2 * once.count("div.s32") == 2 * pure.count("div.s32") > 0
    if ptxas.find():
        assert ptxas.assemble(kept).ok


def test_several_results_are_read_back():
    kernel = compiled(divided(lambda q, r: q + r, volatile=True))
    again = _wave.parse(str(kernel.ir))[0]
    assert again == kernel.ir and 'types = "i32 i32"' in str(again)


def test_several_results_without_a_meaning():
    with pytest.raises(CompileError, match="E0619"):
        run(divided(lambda q, r: q, meaning=None), "eval", np.ones((3, 4), "i4"), "i4")
    assert "div.s32" in ptx(divided(lambda q, r: q, meaning=None))


@pytest.mark.parametrize(
    "text, types, words",
    [
        ("mov.f32 $0, $2;", [tkl.f32, tkl.f32], r"no `\$1` \(a result\)"),
        ("mov.f32 $0, $3; mov.f32 $1, $2;", [tkl.f32, tkl.f32], r"`\$3`, but there is 1 operand beside 2 results"),
        ("mov.f32 $0, $1;", [tkl.f32, tkl.i8], "up to 16 types of registers"),
        ("mov.f32 $0, $1;", [tkl.f32] * 17, "up to 16 types of registers"),
    ],
)
def test_mistakes_with_several_results(text, types, words):
    with pytest.raises(CompileError, match=f"E0311|E0322.*{words}"):
        compiled(unary(lambda x: tkw.inline_ptx(text, x, types)[0]))


@pytest.mark.parametrize("meaning", [lambda x: x, lambda x: (x,), lambda x: (x, x, x)])
def test_meanings_with_too_few_results(meaning):
    with pytest.raises(TypeError, match="the meaning must return 2 values"):
        compiled(unary(lambda x: tkw.inline_ptx("mov.f32 $0, $2; mov.f32 $1, $2;", x, [tkl.f32] * 2, meaning)[0]))


def test_mistakes_of_the_text_form():
    def parsed(attrs):
        return _wave.parse(
            f"""kernel @k(%a: mem<N, f32>)
  workgroup N by 64 on 0; hardware threads 64
{{
  %x = read %a
  %y = inline_ptx "mov.f32 $0, $2; mov.f32 $1, $2;" %x {attrs} : tile<N, f32>
  write %y, %a
}}"""
        )

    parsed('{types = "f32 i32", which = 0}')
    for attrs in ('{types = "f32 i32", which = 1}', '{types = "f32 f32", which = 2}', '{types = "f32 f32"}',
                  '{types = "f32,f32", which = 0}', '{types = "", which = 0}', '{which = 0}'):  # fmt: skip
        with pytest.raises(CompileError, match="E0322"):
            parsed(attrs)
