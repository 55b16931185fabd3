"""Schedules that the compiler solves (`kind modulo`): the same bits as without one, for any number of
iterations; and the best ones as files."""

import re
from pathlib import Path

import numpy as np
import pytest

import role_forms
from schedule_kernels import GEMM, gemm, gemm_args
from trip_kernels import KERNELS, NESTED, TWICE, arguments, fill_in, kernel_text
from wave_lang import WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.wave.option_types import SchedulingType

MACHINES = ["gfx942", "gfx950", "sm_80", "sm_90a"]
SOLVED = "schedule K kind modulo"
BENCH = Path(__file__).parents[2] / "bench/kernels"


def lowered(text, target):
    kernel = _wave.parse(text, "solve.wave")[0]
    kernel.lower(target)
    return kernel, [d for d in _wave.take_diagnostics() if d.code == "R0618"]


def results(kernel, target, text, sizes, order):
    args = arguments(np.random.default_rng(sizes["K"]), text, sizes)
    kernel.sim(tuple(args), target, order, False)
    return [a.tobytes() for a in args]


def check(plain, solved, target, all_sizes):
    (before, _), (after, remarks) = lowered(plain, target), lowered(solved, target)
    assert remarks
    for i, sizes in enumerate(all_sizes):
        order = ("round", "reverse", "random:1")[i % 3]
        got, want = (results(k, target, plain, sizes, order) for k in (after, before))
        assert got == want, sizes


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("name", KERNELS)
def test_results_are_those_of_the_rules(name, target):
    sizes = [{"M": 35, "N": 19, "D": 16, "K": max(0, 16 * t - (5 if t % 2 else 0))} for t in range(9)]
    plain, solved = (kernel_text(name, "dynamic M, N, K", rows) for rows in ("", SOLVED))
    check(plain, solved, target, sizes)


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("nested", [False, True])
def test_several_loops(nested, target):
    source, dims = (NESTED, "dynamic B, M, N, K") if nested else (TWICE, "dynamic M, N, K")
    loops = dict.fromkeys(re.findall(r'tag = \["(\w+)"\]', source)) or ["B", "K"]
    rows = "; ".join(f"schedule {loop} kind modulo" for loop in loops)
    plain, solved = (fill_in(source, dims, rows) for rows in ("", rows))
    sizes = [{"B": 2, "K": 16 * k - k % 3, "M": 33, "N": 31} for k in (0, 1, 2, 5)]
    check(plain, solved, target, sizes)


@pytest.mark.parametrize("target", MACHINES)
def test_gradients_of_attention(target):
    text = (BENCH / "attention_backward.wave").read_text()
    plain = text.replace("  bind D", "  dynamic M, L\n  bind D")
    solved = plain.replace("  bind D", "  schedule M kind modulo\n  bind D")
    check(plain, solved, target, [{"M": m, "L": 70, "D": 64, "K": m} for m in (0, 40, 64, 300)])


# Heads of 128 elements leave room for one workgroup on a compute unit, with service waves or without; of
# those of 64 elements two fit, and one with service waves. A mask and a scale take time with and without
# them, so that what they gain is less than the margin of predictions. A GEMM of wide tiles keeps the matrix unit
# busy without any, and two workgroups of one of narrow tiles do.
WIDE = {"BLOCK_N": 128, "BLOCK_K2": 128, "K1": 128, "N": 128}
LAUNCH = "bind B = 64; bind M = 4096; bind K2 = 4096; schedule K2 kind modulo"
SQUARE = "bind M = 1024; bind N = 1024; bind K = 4096; schedule K kind modulo"


def bench_text(name, rows, binds=(), by=("", "")):
    text = (BENCH / name).read_text().replace(*by)
    for symbol, size in dict(binds).items():
        text = re.sub(rf"bind {symbol} = \d+", f"bind {symbol} = {size}", text)
    return text.replace("\n{", f"\n  {rows}\n{{", 1)


def unmasked(rows):
    """Neither masked nor scaled."""
    text = bench_text("attention.wave", rows, WIDE)
    text = re.sub(r" *%s\.[12] = (add|mul) .*\n", "", text)
    return re.sub(r"%s\.[12]", "%3", text)


@pytest.mark.parametrize(
    "text, chosen",
    [
        (unmasked(LAUNCH), True),
        (unmasked(LAUNCH + "; ring K2 keys slots 2"), False),
        (bench_text("attention.wave", LAUNCH, WIDE), True),
        (bench_text("attention.wave", LAUNCH), False),
        (bench_text("gemm.wave", SQUARE), False),
        (bench_text("gemm.wave", SQUARE, by=("N by 256", "N by 128")), False),
    ],
    ids=["heads of 128", "pinned", "masked", "heads of 64", "gemm", "narrow gemm"],
)
def test_roles_are_chosen_where_they_pay(text, chosen):
    (remark,) = lowered(text, "sm_90a")[1]
    assert any("make its copies" in note.message for note in remark.notes) == chosen


@pytest.mark.parametrize("keys", [384, 1024])
def test_results_with_roles_that_were_chosen(keys):
    rows = f"bind B = 1; bind M = 128; bind K2 = {keys}"
    plain, solved = (unmasked(rows + more) for more in ("", "; schedule K2 kind modulo"))
    (before, _), (after, (remark,)) = lowered(plain, "sm_90a"), lowered(solved, "sm_90a")
    assert any("make its copies" in note.message for note in remark.notes)
    sizes = {"B": 1, "M": 128, "K2": keys, "K1": 128, "N": 128, "K": keys}
    got, want = (results(k, "sm_90a", plain, sizes, "reverse") for k in (after, before))
    assert got == want


# Operands and sum of one product are more registers than a thread has: the remark says so.
@pytest.mark.parametrize("name", ["gemm", "scaled"])
def test_why_every_schedule_spills(name):
    (remark,) = lowered(bench_kernel(name, "schedule {} kind modulo"), "sm_80")[1]
    assert "every schedule needs 256 or more" in remark.notes[1].message
    assert "mma" in remark.rendered.splitlines()[5]


# A launch of 784 workgroups on 132 compute units: six each, which run at once with the rules' schedule,
# but in two turns with one that takes half the cycles and more registers. With 882 there are two turns
# either way.
@pytest.mark.parametrize("images, cycles", [(8, 1204), (9, 602)])
def test_workgroups_of_a_launch_count(images, cycles):
    sizes = {"N": images, "H": 58, "W": 58, "C": 64, "NF": 128}
    rows = "".join(f"\n  bind {name} = {size}" for name, size in sizes.items())
    text = (BENCH / "convolution.wave").read_text()
    solved = text.replace("\n{", rows + '\n  schedule "C*HF*WF" kind modulo\n{', 1)
    (remark,) = lowered(solved, "sm_90a")[1]
    assert f"takes {cycles} cycles" in remark.message


# A workgroup of one wave occupies the units of one SIMD of four: twelve workgroups do not keep them busy.
def test_workgroups_of_one_wave_leave_simds_free():
    rows = "".join(f"\n  bind {name} = {size}" for name, size in {"N": 8, "H": 58, "W": 58, "C": 64, "NF": 128}.items())
    text = (BENCH / "convolution.wave").read_text()
    solved = text.replace("\n{", rows + '\n  schedule "C*HF*WF" kind modulo\n{', 1)
    (remark,) = lowered(solved, "gfx950")[1]
    assert "takes 912 cycles, the fewest possible" in remark.message


# ---- bounds ----

LOOPS = {
    "gemm": ("K", {"M": 4096, "N": 4096, "K": 4096}),
    "attention": ("K2", {"B": 32, "M": 4096, "K2": 4096}),
    "attention_backward": ("M", {"M": 4096, "L": 4096}),
    "convolution": ('"C*HF*WF"', {"N": 8, "H": 58, "W": 58, "C": 64, "NF": 128}),
    "scaled": ("K", {"M": 4096, "N": 4096, "K": 4096}),
}


def bench_kernel(name, row):
    loop, sizes = LOOPS[name]
    binds = "".join(f"\n  bind {size} = {n}" for size, n in sizes.items())
    return (BENCH / f"{name}.wave").read_text().replace("\n{", f"{binds}\n  {row.format(loop)}\n{{", 1)


# What is solved is not slower than what the rules do, and no candidate is below the bound.
@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("name", LOOPS)
def test_no_schedule_is_below_the_bound(name, target):
    (remark,) = lowered(bench_kernel(name, "schedule {} kind modulo"), target)[1]
    cycles = int(re.search(r"takes (\d+) cycles", remark.message)[1])
    bound = re.search(r"fewer than (\d+)", remark.rendered)
    before = re.search(r"without the solver it would take (\d+)", remark.rendered)
    assert not before or cycles < int(before[1])
    kernel = _wave.parse(bench_kernel(name, ""), "plain.wave")[0]
    texts = kernel.schedules(target, 6)
    assert texts
    for text in texts:
        alone = not re.search(r"^(roles|turns) ", text, re.M)  # the bound is for waves that all do the same
        assert not alone or int(re.search(r"predicted: (\d+)", text)[1]) >= (int(bound[1]) if bound else 0)


# ---- pins ----


def compiled(target, rows=None, tmp_path=None, **options):
    if rows is not None:
        path = tmp_path / "rows.schedule"
        path.write_text(rows)
        options["override_schedule"] = str(path)
    return wave_compile(WaveCompileOptions(subs=GEMM, target=f"sim:{target}", **options), gemm())


def check_gemm(kernel):
    args, want = gemm_args(np.random.default_rng(1))
    kernel(*args)
    assert np.array_equal(args[-1], want)


@pytest.mark.parametrize("target", MACHINES)
def test_what_rows_give_is_kept(target, tmp_path):
    rows = "schedule k_loop kind modulo\nring k_loop read_a slots 3\n"
    kernel = compiled(target, rows, tmp_path)
    assert re.search(r"ring k_loop read_a slots 3", str(kernel.schedules(1)[0]))
    check_gemm(kernel)


def test_a_pin_that_cannot_be_obeyed_is_the_reason(tmp_path):
    rows = "schedule k_loop kind modulo depth 3\nring k_loop read_a slots 2\n"
    with pytest.raises(_wave.CompileError) as error:
        compiled("sm_80", rows, tmp_path)
    found = next(d for d in error.value.diagnostics if d.code == "E0620")
    assert "with 2 slots it overwrites" in found.message
    assert found.hint == "it needs 3 slots"


# ---- options and files ----


@pytest.mark.parametrize("kind", ["MODULO", "MODULO_MULTI_BUFFERED"])
def test_the_option_solves_all_loops(kind):
    kernel = compiled("gfx942", schedule=SchedulingType[kind])
    assert "schedule k_loop kind modulo" in str(kernel.ir)
    assert any(r.code == "R0618" for r in kernel.remarks)
    check_gemm(kernel)


@pytest.mark.parametrize("target", MACHINES)
def test_files_give_what_they_predict(target, tmp_path):
    texts = compiled(target).schedules(4)
    assert texts and len(set(texts)) == len(texts)
    loads = [int(re.search(r"^# load: (\d+)", text, re.M)[1]) for text in texts]
    assert loads == sorted(loads)
    for text in texts:
        kernel = compiled(target, text, tmp_path)
        assert str(kernel.schedule()).split("\n")[2:] == text.split("\n")[4:]
        check_gemm(kernel)


@pytest.mark.parametrize("make, arguments_of", role_forms.FORMS)
def test_groups_of_waves_are_candidates(make, arguments_of, tmp_path):
    """Roles, turns and both, each with rings of several lengths; results are the same, bit for bit."""
    args, sizes, want = arguments_of(np.random.default_rng(1), 130, 66, 320)
    options = {"subs": sizes, "target": "sim:sm_90a"}
    texts = wave_compile(WaveCompileOptions(**options), make()).schedules(32)
    has = [("\nroles K load 4, math " in text, "\nturns K 2 " in text) for text in texts]
    assert {(False, False), (True, False), (False, True), (True, True)} <= set(has)
    slots = {tuple(re.findall(r"slots (\d+)", text)) for text, (roles, _) in zip(texts, has) if roles}
    assert len(slots) >= 2
    path = tmp_path / "candidate.schedule"
    for text in texts:
        path.write_text(text)
        kernel = wave_compile(WaveCompileOptions(**options, override_schedule=str(path)), make())
        got = [array.copy() for array in args]
        kernel(*got)
        np.testing.assert_array_equal(got[-1], want, err_msg=text)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_machines_without_groups_list_none(target):
    assert not any(re.search("^(roles|turns) ", t, re.M) for t in compiled(target).schedules(16))


def test_given_roles_are_kept(tmp_path):
    """A list for a kernel with roles has candidates with these roles only."""
    path = tmp_path / "roles.schedule"
    path.write_text("roles K load 1, math 8\n")
    make, arguments_of = role_forms.FORMS[0]
    _, sizes, _ = arguments_of(np.random.default_rng(1), 128, 64, 320)
    options = WaveCompileOptions(subs=sizes, target="sim:sm_90a", override_schedule=str(path))
    texts = wave_compile(options, make()).schedules(8)
    assert len(texts) > 1 and all("\nroles K load 1, math 8 on sm_90a" in text for text in texts)


def test_there_may_be_nothing_to_schedule():
    assert compiled("gfx942").schedules(0) == []
    with pytest.raises(ValueError, match="not negative"):
        compiled("gfx942").schedules(-1)
