"""Seeded faults in machine code: would the executor find a missing wait or barrier?

Each wait and each barrier of thirty kernels is removed in turn. While the unchanged code runs, the
executor notes for each of them whether something was accessed that no other wait covered, or that
no other barrier ordered. Those must be reported when they are missing; the others must not, since
the code is right without them.
"""

import pytest

from compiler_steps import copied
from kernel_list import EVERY_CASE, FULL
from amd_utils import has_llvm
from wave_lang import LaunchError

pytestmark = pytest.mark.skipif(not has_llvm(), reason="there is no libLLVM with AMD GPUs")

CHIPS = ("gfx942", "gfx1100", "gfx1201")
KERNELS = """
copy_f32_2x32_shared hashed_i32_2x48 functions_f32_2x64 combined_block_i32_w4x64
transpose_f32_16x32_read_shared softmax_f16_2x32 online_softmax_f32_128_shared2
online_softmax_f32_96_shared3 layer_norm_f32_2x96 rms_norm_block_f32_w4x64 block_max_f16_w2x192
ragged_block_f32_w4x64 ragged_product_shared_32x32x32 loops_collatz_40 gather_times3_4x12
if_edge_4x12 atomic_histogram_256_w4 atomic_sums_i32_3x256_w4_block
gemm_nt_f16_16x16x16_t32x32x16_shared gemm_nn_f16_16x16x16_t32x16x16_shared
gemm_tn_i8_16x16x32_i8_t16x16x96_shared_shared3 gemm_nt_f16_16x16x16_t16x16x64_shared_shared2
gemm_nt_bf16_dot_m_t8x8x64_shared gemm_nn_f32_16x16x4_f32_t16x16x8_shared
gathered_a_f16_16x16x16_t32x16x16_w2x1 batched_gemm_f16_16x16x16_t16x16x16_shared
chained_gemm_16x16x16_16x16x16_t32x16x16x16_shared conv_3x3_stride2_32x32x8_t32x32x24_shared
attention_causal_16x16x16_t32x16x16x32_shared attention_boundary_16x16x16_t48x16x16x48_shared
""".split()
REPORTS = (
    "is touched before a wait",
    "did not wait for its",
    "without a barrier in between",
    "never signals",
)


def places():
    """Each kernel on gfx942, and on one of the others in turn; in `make test-full` on each."""
    cases = {case.name: case for case in EVERY_CASE}
    for turn, name in enumerate(KERNELS):
        for chip in CHIPS if FULL else (CHIPS[0], CHIPS[1 + turn % 2]):
            yield pytest.param(cases[name], chip, id=f"{name}-{chip}")


class Run:
    """A kernel that was run once, unchanged."""

    def __init__(self, case, chip):
        sizes = case.shapes[2]  # one more than the tiles: loops run again
        self.arguments = case.arguments(sizes)
        self.kernel = case.compile(sizes, f"emu:{chip}")
        case.check(sizes, self.arguments, self.launched())

    def launched(self):
        after = copied(self.arguments)
        self.kernel(*(array for _, array in after))
        return after

    def ordering(self):
        """(variant, index, text, executed, needed) of each wait and barrier."""
        program = self.kernel.program
        for variant, made in enumerate(program.variants):
            for i, row in enumerate(program.test_instructions(variant) if made.compiled else ()):
                if row[1].startswith(("s_wait", "s_barrier")):
                    yield variant, i, *row[1:]

    def without(self, variant, i):
        """What is reported without the instruction; "" if nothing is."""
        self.kernel.program.test_remove(i, variant)
        try:
            self.launched()
            return ""
        except LaunchError as error:
            return str(error)
        finally:
            self.kernel.program.test_remove(-1, variant)


@pytest.mark.parametrize("case, chip", places())
def test_missing_waits_and_barriers(case, chip):
    run = Run(case, chip)
    wrong, tried, needed = [], 0, 0
    for variant, i, text, executed, is_needed in run.ordering():
        if not executed:
            continue
        report = run.without(variant, i)
        tried, needed = tried + 1, needed + is_needed
        known = any(words in report for words in REPORTS)
        if known != bool(is_needed) or known != bool(report):
            wrong.append(f"{variant}.{i} {text}: needed {is_needed}, {report or 'not reported'}")
    assert not wrong, "\n".join(wrong)
    assert needed and needed >= 0.5 * tried, f"{needed} of {tried} are needed"
    run.launched()  # unchanged again


def test_thirty_kernels():
    assert len(set(KERNELS)) == 30


def test_what_cannot_be_removed():
    case = next(case for case in EVERY_CASE if case.name == "copy_f32_2x32_shared")
    run = Run(case, "gfx942")
    program = run.kernel.program
    count = len(program.test_instructions())
    for i in (count, -2, 2**31 - 1):
        with pytest.raises(IndexError, match="has no instruction"):
            program.test_remove(i)
    with pytest.raises(IndexError):
        program.test_remove(0, len(program.variants))
    run.launched()
    host = case.compile(case.shapes[2], "cpu").program
    assert host.test_instructions() == []
    with pytest.raises(IndexError):
        host.test_remove(0)
