"""Every mistake a user can make is explained: code, the user's file and line, and a hint.

The line to blame is marked `# HERE` (for header mistakes, the constraint's line).
"""

import inspect
import math

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, explain, wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N, K, J = tkl.sym.M, tkl.sym.N, tkl.sym.K, tkl.sym.J
BM, BN, BK = tkl.sym.BM, tkl.sym.BN, tkl.sym.BK
G = GLOBAL_ADDRESS_SPACE
SIZES = {M: 64, N: 64, K: 64, BM: 32, BN: 32, BK: 16}


def header(*more, hardware=True):
    rows = [
        tkw.WorkgroupConstraint(M, BM, 0),
        tkw.WorkgroupConstraint(N, BN, 1),
        tkw.TilingConstraint(K, BK),
    ]
    if hardware:
        rows.append(tkw.HardwareConstraint(threads_per_wave=64))
    return rows + list(more)


def blamed_line(fn):
    lines, first = inspect.getsourcelines(fn)
    return first + next(i for i, text in enumerate(lines) if "# HERE" in text)


def check(fn, code, words, hint=None):
    """`fn` raises CompileError with this code at its marked line."""
    with pytest.raises(CompileError) as caught:
        fn()
    d = caught.value.diagnostics[0]
    assert d.code == code, caught.value
    assert words in d.message, d.message
    assert d.file == __file__
    assert d.line == blamed_line(fn), caught.value
    if hint is not None:
        assert d.hint and hint in d.hint, d.hint
    # The text shows the source line, and the code has an explanation.
    assert f"error[{code}]" in str(caught.value) and "# HERE" in str(caught.value)
    assert explain(code)
    return d


def compile_kernel(constraints, body, subs=SIZES, **options):
    """Compiles `body(a, b, c)` over a[M, K], b[N, K] in f16 and c[M, N] in f32."""

    @tkw.wave(constraints)
    def kernel(
        a: tkl.Memory[M, K, G, tkl.f16],
        b: tkl.Memory[N, K, G, tkl.f16],
        c: tkl.Memory[M, N, G, tkl.f32],
    ):
        body(a, b, c)

    return wave_compile(WaveCompileOptions(subs=subs, target="eval", **options), kernel)


def copy_c(a, b, c):
    tkw.write(tkw.read(c), c)


# ---- constraints -----------------------------------------------------------------------------


def test_missing_hardware_constraint():
    with pytest.raises(CompileError) as e:
        compile_kernel(header(hardware=False), copy_c)
    d = e.value.diagnostics[0]
    assert d.code == "E0201" and d.file == __file__ and "HardwareConstraint" in (d.hint or "")


def test_two_hardware_constraints():
    def mistake():
        second = tkw.HardwareConstraint(threads_per_wave=32)  # HERE
        compile_kernel(header(second), copy_c)

    d = check(mistake, "E0202", "hardware")
    assert d.notes and d.notes[0].file == __file__  # the first one


def test_wave_constraint_without_a_tile():
    def mistake():
        wave = tkw.WaveConstraint(tkl.sym.S, 16)  # HERE
        compile_kernel(header(wave), copy_c)

    check(mistake, "E0205", "S", "TilingConstraint")


def test_tile_not_divisible():
    def mistake():
        wave = tkw.WaveConstraint(M, 24)  # HERE
        compile_kernel(header(wave), copy_c)

    check(mistake, "E0203", "24")


@pytest.mark.parametrize("size", [0, -16])
def test_zero_or_negative_tile(size):
    def mistake():
        tile = tkw.WorkgroupConstraint(J, tkl.sym.BJ, 2)  # HERE
        compile_kernel(header(tile), copy_c, {**SIZES, J: 8, tkl.sym.BJ: size})

    check(mistake, "E0204", str(size))


def test_a_tile_without_elements_has_a_hint():
    def mistake():
        tile = tkw.WorkgroupConstraint(J, 0, 2)  # HERE
        compile_kernel(header(tile), copy_c, {**SIZES, J: 8})

    check(mistake, "E0204", "of `J` is 0", "at least one element")


def test_a_tile_whose_size_set_symbol_sets():
    tile, lanes = tkw.WorkgroupConstraint(M, 1, 0), tkw.HardwareConstraint(threads_per_wave=64)

    def mistake():
        @tkw.wave([tile, lanes])
        def row_sums(a: tkl.Memory[M, N, G, tkl.i32], lengths: tkl.Memory[M, G, tkl.i32]):
            tkw.set_symbol(N, tkw.read(lengths))
            tkw.write(tkw.sum(tkw.read(a), dim=N), lengths)  # HERE

        wave_compile(WaveCompileOptions(dynamic_symbols=[M, N], target="sim:sm_90a"), row_sums)

    check(mistake, "E0606", "of `N` has a size that `set_symbol` sets", "divide `N` with")


def test_a_tile_that_is_no_integer():
    def mistake():
        tkw.WorkgroupConstraint(J, 6.5, 2)  # HERE

    check(mistake, "E0105", "6.5 is not an integer", "division")
    with pytest.raises(TypeError, match="TilingConstraint: `tile_size` is the string '6'"):
        tkw.TilingConstraint(J, "6")


def test_the_size_of_a_launch_depends_on_an_id():
    def mistake():
        tile = tkw.WorkgroupConstraint(J, tkl.sym.BJ, 2)  # HERE
        compile_kernel(header(tile), copy_c, {**SIZES, J: 8, tkl.sym.BJ: 1 + WORKGROUP_2})

    d = check(mistake, "E0212", "cannot depend on `$WG2`")
    assert "`BJ` is `$WG2 + 1`" in d.notes[0].message


def test_two_primaries_on_one_workgroup_dim():
    def mistake():
        second = tkw.WorkgroupConstraint(J, 16, 0)  # HERE
        compile_kernel(header(second), copy_c, {**SIZES, J: 64})

    check(mistake, "E0206", "", "primary=False")


def test_workgroup_dim_out_of_range():
    def mistake():
        far = tkw.WorkgroupConstraint(J, 16, 7)  # HERE
        compile_kernel(header(far), copy_c, {**SIZES, J: 64})

    check(mistake, "E0207", "7")


def test_grid_constraint_has_one_extent():
    def mistake():
        tkw.GridConstraint((4, 4))  # HERE

    check(mistake, "E0212", "one extent")


def test_generic_dot_along_k():
    def mistake():
        tkw.GenericDot(along_dim=tkw.MMAOperand.K)  # HERE

    check(mistake, "E0212", "along K", "MMAOperand.N")


def test_unknown_matrix_instruction():
    def mistake():
        hw = tkw.HardwareConstraint(threads_per_wave=64, mma_type="F32_16x16x16_F17")  # HERE
        compile_kernel(header(hw, hardware=False), copy_c)

    check(mistake, "E0210", "F32_16x16x16_F17", "F32_16x16x16_F16")


# ---- symbols ---------------------------------------------------------------------------------


def test_unknown_symbol():
    """Not the size of a tile, which the compiler would choose (test_choose.py)."""

    def shifted(a, b, c):
        tkw.write(tkw.register([M, N], tkl.f32, tkl.sym.SHIFT), c)

    with pytest.raises(CompileError) as e:
        kernel = compile_kernel(header(), shifted)
        kernel(*(np.zeros((64, 64), t) for t in (np.float16, np.float16, np.float32)))
    d = e.value.diagnostics[0]
    assert "SHIFT" in d.message and d.file == __file__ and d.line > 0, d


def test_none_in_subs():
    def mistake():
        options = WaveCompileOptions(subs={**SIZES, M: None}, target="eval")  # HERE

        @tkw.wave(header())
        def kernel(c: tkl.Memory[M, N, G, tkl.f32]):
            tkw.write(tkw.read(c), c)

        wave_compile(options, kernel)

    check(mistake, "E0103", "`M`", "dynamic_symbols")


def test_recursion_in_subs():
    def mistake():
        subs = {**SIZES, tkl.sym.X: tkl.sym.Y + 1, tkl.sym.Y: tkl.sym.X - 1}
        compile_kernel(header(), copy_c, subs)

    with pytest.raises(CompileError) as e:
        mistake()
    d = e.value.diagnostics[0]
    assert d.code == "E0104" and "X" in d.message and "Y" in d.message and d.file == __file__


# ---- types and shapes ------------------------------------------------------------------------


def test_mma_shapes_that_do_not_fit():
    def mistake():
        def body(a, b, c):
            acc = tkl.Register[M, J, tkl.f32](0.0)
            tkw.mma(tkw.read(a), tkw.read(b), acc)  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0303", "mma")


def test_dtype_mismatch():
    def mistake():
        def body(a, b, c):
            tkw.read(a) + tkl.Register[M, K, tkl.f32](1.0)  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0301", "f16", "cast")


def test_disjoint_shapes():
    def mistake():
        def body(a, b, c):
            tkl.Register[M, tkl.f32](0.0) + tkl.Register[N, tkl.f32](0.0)  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0302", "M", "broadcast")


def test_mapping_iterator_conflict():
    def mistake():
        i = tkw.IndexMapping.iterator(0)
        tkw.IndexMapping(num_iterators=1, inputs={M: i, N: i}, outputs={N: i, M: i})  # HERE

    check(mistake, "E0313", "M")


def test_mapping_iterator_without_extent():
    def mistake():
        i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
        tkw.IndexMapping(num_iterators=2, inputs={M: i, N: j + 1}, outputs={M: i})  # HERE

    check(mistake, "E0313", "iterator 1")


def test_wrong_rank():
    def mistake():
        def body(a, b, c):
            tkw.write(tkl.Register[M, N, J, tkl.f32](0.0), c)  # HERE

        compile_kernel(header(), body, {**SIZES, J: 4})

    check(mistake, "E0304", "J")


def test_broadcast_and_permute_targets():
    def broadcast():
        def body(a, b, c):
            tkw.broadcast(tkw.read(a), [K, J])  # HERE

        compile_kernel(header(), body)

    def permute():
        def body(a, b, c):
            tkw.permute(tkw.read(a), [K, N])  # HERE

        compile_kernel(header(), body)

    check(broadcast, "E0305", "M")
    check(permute, "E0306", "permut")


def test_bitcast_widths():
    def mistake():
        def body(a, b, c):
            tkw.bitcast(tkw.read(a), tkl.f32)  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0307", "bitcast")


def test_literal_of_the_wrong_kind():
    def mistake():
        def body(a, b, c):
            tkl.Register[M, tkl.i32](1) + 0.5  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0315", "0.5")


def test_names_that_are_not_there():
    def op():
        def body(a, b, c):
            tkw.sigmod(tkw.read(c))  # HERE

        compile_kernel(header(), body)

    def dtype():
        def body(a, b, c):
            tkw.cast(tkw.read(c), tkl.bfloat16)  # HERE

        compile_kernel(header(), body)

    check(op, "E0309", "`tkw` has no `sigmod`", "tkw.sigmoid")
    check(dtype, "E0309", "`tkl` has no `bfloat16`")
    with pytest.raises(AttributeError, match="did you mean `tkw.argmax`"):
        tkw.artmax
    assert not hasattr(tkw, "bfloat16")


@pytest.mark.parametrize(
    "name, guess",
    [("expp", "tkw.exp"), ("Sum", "tkw.sum"), ("maximun", "tkw.maximum"), ("atomic_ad", "tkw.atomic_add"),
     ("f32", "tkl.f32"), ("Registr", "tkw.Register"), ("zzzzzz", None)],
)  # fmt: skip
def test_the_nearest_name_of_tkw(name, guess):
    def mistake():
        def body(a, b, c):
            getattr(tkw, name)(tkw.read(c))  # HERE

        compile_kernel(header(), body)

    d = check(mistake, "E0309", f"`tkw` has no `{name}`")
    assert d.hint == (guess and f"did you mean `{guess}`?")


@pytest.mark.parametrize(
    "name, guess", [("exp", "tkw.exp"), ("f322", "tkl.f32"), ("Memry", "tkl.Memory"), ("read", "tkw.read")]
)  # fmt: skip
def test_the_nearest_name_of_tkl(name, guess):
    with pytest.raises(AttributeError, match=f"did you mean `{guess}`"):
        getattr(tkl, name)


@pytest.mark.parametrize(
    "use, code, words, hint",
    [
        (lambda x: divmod(x, x), "E0310", "`divmod`", "`//`"),
        (lambda x: divmod(2, x), "E0310", "`divmod`", "`//`"),
        (lambda x: x @ x, "E0310", "`@`", "mma"),
        (lambda x: 2**x, "E0310", "`**`", "powf"),
        (lambda x: round(x), "E0310", "`round`", "tkw.round(x)"),
        (lambda x: math.trunc(x), "E0310", "trunc", "cast"),
        (lambda x: math.exp(x), "E0403", "a Python number", "tkw.exp"),
        (lambda x: int(x), "E0403", "a Python number", "tkw"),
        (lambda x: len(x), "E0403", "no length", "x.shape"),
        (lambda x: not x, "E0403", "as a Python bool", "select"),
        (lambda x: 0 < x < 1, "E0403", "as a Python bool", "`&`"),
        (lambda x: [y for y in x], "E0404", "iterated over", "tkw.sum"),
        (lambda x: x.sum(), "E0309", "no attribute `sum`", "`tkw.sum(x, ...)`"),
        (lambda x: x.T, "E0309", "no attribute `T`", "`shape`"),
        (lambda x: x.astype(tkl.f16), "E0309", "no attribute `astype`", "functions in `tkw`"),
        (lambda x: x << 1, "E0311", "`shl` takes integers", None),
        (lambda x: ~x, "E0311", "`not` takes integers", None),
    ],
)
def test_operators_that_values_do_not_have(use, code, words, hint):
    with pytest.raises(CompileError) as caught:
        compile_kernel(header(), lambda a, b, c: tkw.write(use(tkw.read(c)), c))
    d = caught.value.diagnostics[0]
    assert d.code == code and words in d.message and d.file == __file__
    assert hint is None or hint in d.hint


def test_what_libraries_ask_a_value_is_answered():
    """`__array__` and the like are looked up by name; that is not a mistake in the kernel."""

    def body(a, b, c):
        x = tkw.read(c)
        assert not hasattr(x, "__array_interface__") and not hasattr(x, "_anything")
        tkw.write(np.float32(2) * x, c)

    compile_kernel(header(), body)


def test_waves_on_the_fourth_dimension():
    constraints = [
        tkw.HardwareConstraint(threads_per_wave=64),
        *(tkw.WorkgroupConstraint(d, 16, i) for i, d in enumerate((M, N, K, tkl.sym.B))),
        tkw.WaveConstraint(tkl.sym.B, 16),
    ]
    with pytest.raises(CompileError) as caught:
        compile_kernel(constraints, lambda a, b, c: None)
    d = caught.value.diagnostics[0]
    assert d.code == "E0213" and "0, 1 or 2" in d.hint


def test_select_between_two_numbers():
    def mistake():
        def body(a, b, c):
            tkw.select(tkw.read(c) > 0.0, 1, 0)  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0315", "numbers", "Register")


def test_select_needs_a_truth_value():
    def mistake():
        def body(a, b, c):
            x = tkw.read(c)
            tkw.select(x, x, 0.0)  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0312", "i1")


def test_reduction_needs_a_dimension_of_its_operand():
    def mistake():
        def body(a, b, c):
            tkw.sum(tkw.read(c), dim=K)  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0308", "K")


def test_memory_is_not_a_register():
    def mistake():
        def body(a, b, c):
            a + a  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0310", "mem")


@pytest.mark.parametrize("what", ["memory", "register"])
def test_values_cannot_be_indexed(what):
    def mistake():
        def body(a, b, c):
            x = a if what == "memory" else tkw.read(a)
            x[0]  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0310", "index", "IndexMapping")


def test_the_only_result_of_a_loop_may_be_indexed():
    def body(a, b, c):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            return acc

        tkw.write(loop[0], c)

    compile_kernel(header(), body)


def test_parameters_need_types():
    def mistake():
        @tkw.wave(header())
        def kernel(a): ...  # not blamed: the decorated function is

    with pytest.raises(CompileError) as e:
        mistake()
    d = e.value.diagnostics[0]
    assert d.code == "E0319" and "`a`" in d.message and "Memory" in d.hint and d.file == __file__


def test_types_are_checked_when_written():
    for make in (
        lambda: tkl.Memory[M],
        lambda: tkl.Memory[M, G],
        lambda: tkl.Memory[M, G, 3],
        lambda: tkl.Memory[M, tkl.AddressSpace.REGISTER, tkl.f16],
        lambda: tkl.Memory[(), G, tkl.f16],
        lambda: tkl.Register[tkl.f32],
        lambda: tkl.Register[M, N],
        lambda: tkl.Register[M, tkl.f16, tkl.f32],
        lambda: tkl.Memory(),
        lambda: tkl.SymbolBind[3],
        lambda: tkl.Memory["M", G, tkl.f16],
    ):
        with pytest.raises((TypeError, CompileError)):
            make()


# ---- regions ---------------------------------------------------------------------------------


def test_results_of_conditionals():
    def no_other_case():
        def body(a, b, c):
            @tkw.conditional(WORKGROUP_0 < 1)
            def found():
                return tkw.read(c)  # HERE

        compile_kernel(header(), body)

    def other_type():
        def body(a, b, c):
            @tkw.conditional(
                WORKGROUP_0 < 1,
                otherwise=lambda: tkw.cast(tkw.read(c), tkl.f16),  # HERE
            )
            def found():
                return tkw.read(c)

        compile_kernel(header(), body)

    check(no_other_case, "E0404", "0 are given for the other case", "`else_return=`")
    d = check(other_type, "E0401", "f32> in one case but tile<M, N, f16> in the other", "f32")
    assert d.col > len("                otherwise=")  # the expression, not the line


def test_carried_value_changes_type():
    def mistake():
        def body(a, b, c):
            @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
            def loop(acc):
                return tkw.cast(acc, tkl.f16)  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0401", "f16")


def test_value_outside_its_region():
    def mistake():
        def body(a, b, c):
            kept = []

            @tkw.iterate(K, init_args=[])
            def loop():
                kept.append(tkw.read(c))

            tkw.write(kept[0], c)  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0402", "", "return")


def test_value_of_another_kernel():
    kept = []

    def mistake():
        compile_kernel(header(), lambda a, b, c: kept.append(tkw.read(c)))

        def body(a, b, c):
            tkw.write(kept[0], c)  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0402", "another kernel")
    with pytest.raises(RuntimeError, match="already been traced"):
        kept[0] + 1


@pytest.mark.parametrize("use", ["if", "and", "not", "while"])
def test_traced_value_as_python_bool(use):
    def branch(x):
        return 1 if x > 0.0 else 0  # HERE

    def conjunction(x):
        return x > 0.0 and x  # HERE

    def negation(x):
        return not (x > 0.0)  # HERE

    def loop(x):
        while x > 0.0:  # HERE
            pass

    fn = {"if": branch, "and": conjunction, "not": negation, "while": loop}[use]
    with pytest.raises(CompileError) as e:
        compile_kernel(header(), lambda a, b, c: fn(tkw.read(c)))
    d = e.value.diagnostics[0]
    assert (d.code, d.file, d.line) == ("E0403", __file__, blamed_line(fn))
    assert "conditional" in d.hint and "select" in d.hint


def test_region_function_with_too_few_arguments():
    def mistake():
        def body(a, b, c):
            zero = tkl.Register[M, N, tkl.f32](0.0)

            @tkw.iterate(K, init_args=[zero, zero])  # HERE
            def loop(acc):
                return acc

        compile_kernel(header(), body)

    check(mistake, "E0404", "takes 1 argument, but 2 values are", "init_args")


def test_region_function_returns_too_few_values():
    def mistake():
        def body(a, b, c):
            zero = tkl.Register[M, N, tkl.f32](0.0)

            @tkw.iterate(K, init_args=[zero, zero])
            def loop(x, y):
                return x  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0404", "")


def test_unpacking_one_result():
    def mistake():
        def body(a, b, c):
            @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
            def loop(acc):
                return acc

            x, y = loop  # HERE

        compile_kernel(header(), body)

    check(mistake, "E0404", "unpacked", "carried")


def test_loop_without_a_tile():
    def mistake():
        def body(a, b, c):
            @tkw.iterate(J, init_args=[])  # HERE
            def loop(): ...

        compile_kernel(header(), body)

    check(mistake, "E0211", "J")


def test_condition_without_start():
    def mistake():
        def body(a, b, c):
            @tkw.iterate(K, init_args=[], condition=K < 4)  # HERE
            def loop(): ...

        compile_kernel(header(), body)

    check(mistake, "E0406", "start=")


def test_while_loop_that_does_not_advance():
    with pytest.raises(CompileError) as e:

        def body(a, b, c):
            @tkw.iterate(K, init_args=[], start=0, condition=K < 4)
            def loop():
                tkw.write(tkw.read(c), c)

        compile_kernel(header(), body)
    d = e.value.diagnostics[0]
    assert d.code == "E0405" and d.file == __file__ and d.line > 0


def test_op_outside_a_kernel():
    def mistake():
        tkl.Register[M, tkl.f32](0.0)  # HERE

    check(mistake, "E0408", "outside a kernel", "@wave")


def test_user_exceptions_pass_through():
    def body(a, b, c):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        compile_kernel(header(), body)
    compile_kernel(header(), copy_c)  # and the next trace is not disturbed


def test_strangers_as_operands():
    for wrong in ([1], "x", object()):
        with pytest.raises(TypeError):
            compile_kernel(header(), lambda a, b, c: tkw.read(c) + wrong)
        with pytest.raises(TypeError):
            compile_kernel(header(), lambda a, b, c: tkw.cast(wrong, tkl.f16))


# ---- options, targets, calls -----------------------------------------------------------------


def test_unknown_option_field():
    def mistake():
        WaveCompileOptions(sub={M: 1})  # HERE

    check(mistake, "E0602", "`sub`", "subs")


def test_unknown_target():
    def mistake():
        options = WaveCompileOptions(subs=SIZES, target="evl")  # HERE
        wave_compile(options, tkw.wave(header())(typed_copy))

    def typed_copy(c: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(c), c)

    check(mistake, "E0603", "evl", "eval")


def test_wrong_number_of_arguments():
    kernel = compile_kernel(header(), copy_c)
    with pytest.raises(TypeError, match=r"kernel\(\) takes 3 arguments \(a, b, c\), 1 given"):
        kernel(np.zeros((64, 64), np.float16))


def test_error_text_underlines_the_expression():
    def body(a, b, c):
        x = tkw.read(c)
        y = x + tkw.cast(x, tkl.f16)

    with pytest.raises(CompileError) as e:
        compile_kernel(header(), body)
    lines = str(e.value).splitlines()
    source = next(i for i, text in enumerate(lines) if "y = x + tkw.cast" in text)
    start = lines[source].index("x + tkw.cast")
    assert lines[source + 1][start:].rstrip() == "^" * len("x + tkw.cast(x, tkl.f16)")


@pytest.mark.parametrize(
    "body, words",
    [
        (lambda a, b, c: tkw.write(tkw.read(c) + np.ones(3), c), "ndarray.*arguments of the ker"),
        (lambda a, b, c: tkw.read(c, mapping=5), "mapping: expected an IndexMapping, got.*int"),
        (lambda a, b, c: tkw.sum(tkw.read(c), dim="N"), "got the string 'N': a symbol is written"),
    ],
)
def test_arguments_of_another_kind(body, words):
    with pytest.raises(TypeError, match=words):
        compile_kernel(header(), body)


def test_dimensions_are_distinct():
    for kind, more in (tkl.Memory, (G, tkl.f32)), (tkl.Register, (tkl.f32,)):
        with pytest.raises(TypeError, match="dimension `N` is given twice"):
            kind[(N, M, N, *more)]


def test_a_warning_is_seen():
    """Code that does not mean what it seems to gives a warning at its line, and the kernel runs."""
    m, n = tkl.sym.M, tkl.sym.N

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={m: 0, n: 4}),
            tkw.WorkgroupConstraint(m, 1, 0),
            tkw.TilingConstraint(n, 4),
        ]
    )
    def kernel(a: tkl.Memory[m, n, GLOBAL_ADDRESS_SPACE, tkl.i32]):
        @tkw.iterate(n, init_args=[])
        def loop():
            tkw.write(tkw.broadcast(tkw.scalar(n, tkl.i32), [m, n]), a)

    with pytest.warns(RuntimeWarning, match="W0401.*iteration number"):
        compiled = wave_compile(WaveCompileOptions(subs={m: 1, n: 8}, target="eval"), kernel)
    out = np.zeros((1, 8), np.int32)
    compiled(out)
    assert out.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1]]
