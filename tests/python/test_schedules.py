"""Schedules in files: what `dump_schedule` writes, `override_schedule` obeys, on kernels with odd
sizes; results are compared with NumPy in float64, and with the kernel without a schedule."""

import re

import numpy as np
import pytest

from schedule_kernels import GEMM, KERNELS, K, M, N, gemm, gemm_args, rows_of, whole_rows
from wave_lang import WaveCompileOptions, _wave, wave_compile

MACHINES = ["sim:sm_90a", "sim:sm_80", "sim:gfx942", "sim:gfx950"]


def compiled(kernel, target, sizes, dynamic=(), **options):
    subs = {s: v for s, v in sizes.items() if s not in dynamic}
    options = WaveCompileOptions(subs=subs, dynamic_symbols=list(dynamic), target=target, **options)
    try:
        return wave_compile(options, kernel)
    except _wave.CompileError as error:
        if "E0901" in str(error):
            pytest.skip("no libLLVM compiles for this chip")
        raise


def schedule_file(tmp_path, text):
    path = tmp_path / "a.schedule"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("name", KERNELS)
def test_rows_keep_results(tmp_path, name, target):
    make, arguments, sizes, loop, ops = KERNELS[name]
    args, want = arguments(np.random.default_rng(5))
    compiled(make(), target, sizes)(*args)
    plain = [a.copy() for a in args]
    np.testing.assert_array_equal(plain[-1], want)
    for text in rows_of(loop, ops):
        again, _ = arguments(np.random.default_rng(5))
        kernel = compiled(make(), target, sizes, override_schedule=schedule_file(tmp_path, text))
        kernel(*again)
        for one, other in zip(plain, again):
            np.testing.assert_array_equal(one, other)
        assert any("its schedule says so" in r.message for r in kernel.remarks), kernel.remarks


@pytest.mark.parametrize("target", [*MACHINES, "emu:gfx942"])
def test_dynamic_sizes_and_views(tmp_path, target):
    """Variants that a launch compiles obey the rows, too: here for operands with odd strides."""
    path = schedule_file(tmp_path, "ring k_loop read_a slots 3\nring k_loop right slots 2\n")
    kernel = compiled(gemm(), target, {}, dynamic=(M, N, K), override_schedule=path)
    rng = np.random.default_rng(3)
    for k in [0, 1, 16, 17, 40, 97]:
        (a, b, c), want = gemm_args(rng, {M: 33, N: 31, K: k})
        kernel(a, b, c)
        np.testing.assert_array_equal(c, want)
        strided = np.zeros((33, 2 * k + 3), "f2")[:, 1 : 1 + 2 * k : 2]
        strided[...] = a
        kernel(strided, b, c := np.zeros_like(c))
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx950", "gfx1250"])
def test_machine_code_with_direct_copies(tmp_path, chip):
    """Copies that end in shared memory, and waits that count them, in rings of different lengths."""
    path = schedule_file(tmp_path, "ring k_loop read_a slots 4\nring k_loop right slots 2\n")
    options = {"override_schedule": path, "use_global_to_shared": True}
    for k in [0, 16, 40, 120]:
        sizes = {M: 33, N: 31, K: k}
        (a, b, c), want = gemm_args(np.random.default_rng(k), sizes)
        compiled(gemm(), f"emu:{chip}", sizes, **options)(a, b, c)
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("target", [*MACHINES, "cpu"])
def test_what_is_written_is_read(tmp_path, target):
    first, second = str(tmp_path / "1"), str(tmp_path / "2")
    compiled(gemm(), target, GEMM, dump_schedule=first)
    text = open(first).read()
    assert re.match(r"Initiation Interval: \d+\nNumber of Stages: \d+\nschedule k_loop on ", text)
    compiled(gemm(), target, GEMM, override_schedule=first, dump_schedule=second)
    assert open(second).read() == text


def test_an_edited_file(tmp_path):
    path = str(tmp_path / "1")
    compiled(gemm(), "sim:sm_80", GEMM, dump_schedule=path, multi_buffer_count=2)
    text = open(path).read()
    assert "ring k_loop read_a slots 2" in text
    edited = schedule_file(tmp_path, text.replace("read_a slots 2", "read_a slots 5"))
    kernel = compiled(gemm(), "sim:sm_80", GEMM, override_schedule=edited)
    assert any("keeps 5 tiles of `a`, 2 of `b`" in r.message for r in kernel.remarks)


def test_a_text_instead_of_a_file(tmp_path):
    text = "ring k_loop read_a slots 3\nring k_loop right slots 2\n"
    path = str(tmp_path / "1")
    compiled(gemm(), "sim:sm_80", GEMM, override_schedule=text, dump_schedule=path)
    assert "ring k_loop read_a slots 3" in open(path).read()
    with pytest.raises(_wave.CompileError, match="E0217.*<override_schedule>:1:1|<override_schedule>:1:1.*E0217"):
        compiled(gemm(), "sim:sm_80", GEMM, override_schedule="ring k_loop read_x slots 3\n")
    with pytest.raises(_wave.CompileError, match="E0618(.|\n)*end each with a line feed"):
        compiled(gemm(), "sim:sm_80", GEMM, override_schedule="ring k_loop read_a slots 3")


def test_kernels_with_other_schedules_are_other_kernels(tmp_path):
    path = schedule_file(tmp_path, "schedule k_loop depth 2\n")
    one = compiled(gemm(), "sim:sm_80", GEMM, override_schedule=path)
    schedule_file(tmp_path, "schedule k_loop depth 3\n")
    two = compiled(gemm(), "sim:sm_80", GEMM, override_schedule=path)
    kept = [[r.message for r in k.remarks if "its schedule says so" in r.message] for k in (one, two)]
    assert kept[0] != kept[1]


@pytest.mark.parametrize(
    "text, said",
    [
        ("schedule k_lop depth 2\n", ["E0217", "no loop is called `k_lop`", "did you mean `k_loop`"]),
        (
            "ring k_loop read_b slots 2\nring k_loop reed_a slots 2\n",
            ["no op `read_b`", "no op `reed_a`", "did you mean `read_a`"],
        ),
        (
            "schedule k_loop hash x00\nring k_loop left_over slots 2\n",
            ["no op `left_over`", "written for another version of the loop"],
        ),
        ("ring k_loop read_a slots 0\n", ["E0511"]),
        ("ring k_loop read_a slots 99\n", ["E0212", "1 to 64 slots"]),
        ("ring k_loop read_a slots 60\nring k_loop right slots 60\n", ["E0620", "bytes of shared memory"]),
        ("schedule k_loop depth 3\nring k_loop right slots 2\n", ["E0620", "it needs 3 slots"]),
        ("turn k_loop 2 mma\n", ["E0505", "unknown header row `turn`"]),
        ("turns k_loop 2\n", ["E0501", "expected the name of an op"]),
        ("stages 3\n", ["E0505", "is not part of a schedule"]),
        ("node | cycle\n", ["E0505"]),
    ],
)
def test_files_that_do_not_fit(tmp_path, text, said):
    with pytest.raises(_wave.CompileError) as error:
        compiled(gemm(), "sim:gfx942", GEMM, override_schedule=schedule_file(tmp_path, text))
    for words in said:
        assert words in str(error.value)


def test_a_loop_that_has_changed(tmp_path):
    path = schedule_file(tmp_path, "schedule k_loop depth 2 hash x0123456789abcdef\n")
    with pytest.warns(RuntimeWarning, match="W0201"):
        compiled(gemm(), "sim:sm_80", GEMM, override_schedule=path)


def test_machines_without_lanes(tmp_path):
    path = schedule_file(tmp_path, "schedule k_loop depth 2\n")
    kernel = compiled(gemm(), "cpu", GEMM, override_schedule=path)
    codes = [r.code for r in kernel.remarks if hasattr(r, "code")]
    assert "R0609" in codes
    with pytest.raises(_wave.CompileError, match="override_schedule"):
        compiled(gemm(), "cpu", GEMM, override_schedule=path, strict=True)


def test_kernels_that_are_compiled_when_they_are_called(tmp_path):
    path = str(tmp_path / "1")
    kernel = compiled(whole_rows(), "sim:sm_80", {}, dynamic=(M, K), dump_schedule=path)
    assert any("nothing is dumped" in r.message for r in kernel.remarks)


def test_files_that_cannot_be_used(tmp_path):
    with pytest.raises(_wave.CompileError, match="E0618"):
        compiled(gemm(), "sim:sm_80", GEMM, override_schedule=str(tmp_path / "none"))
    with pytest.raises(_wave.CompileError, match="E0618"):
        compiled(gemm(), "sim:sm_80", GEMM, dump_schedule=str(tmp_path / "none" / "file"))
