"""The invariants that the study of the reference compiler lists as worth testing, by number.

    1  value edges have equal layouts or a conversion; matmul operands have those of the table
    2  each element of a written tile is owned by one (thread, register), or by declared copies
    3  a copy loads the tile's elements; what is read from shared memory was written to it, and
       writers do not overlap
    5  pipelined loops: the same results for none to more iterations than there are stages
    6  no race, with aliases after packing and the wrap-around of loops
    7  waits: each consumer's producer has finished, and one group fewer would fail
    8  the bank-conflict model equals a count lane by lane
    9  the simplifier: random expressions, idempotent, no growth
   10  the cache: any change of the kernel changes the key
   11  reductions, scans, top-k: dims, rows, waves, types, ties, NaN
   12  short and ragged shapes

ELSEWHERE names the tests of those that are not here. Not applicable yet:

    4  merged reads: no pass merges different reads; one read is cut into vectors by its layout
"""

import re
from pathlib import Path

import numpy as np
import pytest

from compiler_steps import after_each_pass, kernel, tile_passes
from fault_reasons import Program
from kernel_list import CASES, NOT_LOWERED, TARGETS, refusal, runs
from wave_lang import CompileError

TESTS = Path(__file__).resolve().parents[2]
ELSEWHERE = {
    1: ["unit/test_fragment.c: layouts_equal_the_published_formulas"],
    2: ["unit/test_layout.c: cover_counts", "unit/test_fragment.c: fragments_cover_their_tiles"],
    5: ["unit/test_stages.c: any_number_of_iterations"],
    6: [
        "unit/test_sync.c: every_path_is_in_order_and_every_barrier_needed",
        "unit/test_allocs.c: values_are_kept_on_every_path",
        "python/sim_list/test_sim_list.py: test_schedules",
        "python/sim_list/test_seeded_faults.py: test_faults_are_found",
    ],
    7: [
        "python/sim_list/test_thread_faults.py: test_faults_are_found",
        "unit/test_stages.c: missing_waits_and_barriers_are_found",
    ],
    8: ["unit/test_banks.c: model_equals_definition"],
    9: ["fuzz/fuzz_sym.c: idempotent"],
    10: ["python/test_compile.py: test_the_same_kernel_is_compiled_once"],
    11: [
        "unit/test_reduce_lanes.c: reductions_across_waves",
        "unit/test_eval.c: topk_ties_take_the_first",
        "unit/test_eval.c: cumsum_with_init",
    ],
    12: ["python/sim_list/test_sim_list.py: test_simulator"],
}


@pytest.mark.parametrize("number", ELSEWHERE)
def test_the_others_are_where_they_are_said_to_be(number):
    for place in ELSEWHERE[number]:
        file, _, name = place.partition(": ")
        assert name in (TESTS / file).read_text(), place


# ---- 1: layouts ----------------------------------------------------------------------------------

LAYOUT = re.compile(r"@ (\[[\d, ]+\]) ([^{@]*?)(?= \{|$)")
TURNED = {"d0": "d1", "d1": "d0"}


def with_other_layouts(text):
    """The kernel with one value's dimensions exchanged in its layout, for each value in turn."""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        found = LAYOUT.search(line)
        if found and found[1] in ("[16, 16]", "[32, 32]"):
            turned = re.sub(r"\bd[01]\b", lambda m: TURNED[m[0]], found[2])
            if turned != found[2]:
                spoilt = line[: found.start(2)] + turned + line[found.end(2) :]
                yield line, "\n".join(lines[:i] + [spoilt] + lines[i + 1 :]) + "\n"


def accepted_with_another(target, word, judge):
    """The lines with `word` whose layout may be changed without an error, according to `judge`."""
    case = next(c for c in CASES if c.name == "gemm_nt_f16_16x16x16_t16x16x16_shared")
    text = dict(after_each_pass(case.text(case.shapes[2]), target))["layouts"]
    kernel(text)
    spoilt = [(line, changed) for line, changed in with_other_layouts(text) if word in line]
    assert spoilt
    for line, changed in spoilt:
        try:
            judge(kernel(changed))
            yield line
        except CompileError:
            pass


@pytest.mark.parametrize("target", TARGETS[:3])
@pytest.mark.parametrize("word", ["fill", "for", "mma"])
def test_values_meet_in_equal_layouts(word, target):
    """The verifier checks this after every pass; here it is tested by spoiling layouts one by
    one."""
    assert not list(accepted_with_another(target, word, lambda read: None))


@pytest.mark.parametrize("target", TARGETS[:3])
def test_operands_of_products_lie_as_the_table_says(target):
    """The machine is known when the kernel is lowered."""
    names = tile_passes()
    rest = [*names[names.index("layouts") + 1 :], "lower_threads"]

    def lower(changed):
        changed.run_passes(target=target, passes=",".join(rest))

    assert not list(accepted_with_another(target, "read", lower))


# ---- 2 and 3: which thread writes what
# --------------------------------------------------------------------


def elements(program, line, operands):
    """(thread, iteration, element) of each element that an access touches."""
    symbols, active = program.space(line), program.active(line, operands)
    imm = re.search(r"\bimm = (-?\d+)", program.lines[line])
    offset = np.broadcast_to(program.named(operands[1], symbols), active.shape)[active]
    first = offset.astype(int) + (int(imm[1]) if imm else 0)
    thread = symbols["thread"][active]
    rounds = np.flatnonzero(active) // program.threads["thread"].size
    wide = np.arange(program.width(line))
    return [np.repeat(x, wide.size) for x in (thread, rounds)] + [(first[:, None] + wide).ravel()]


def lowered(case, sizes, target):
    if refusal(NOT_LOWERED, case, sizes, target):
        pytest.skip("not lowered")
    return case.lanes(sizes, target)


def own_sizes(case, sizes, text):
    """The sizes of tensors, which a program mentions if they differ from those of their symbols."""
    names = re.findall(r"%(\w+): mem<", text)
    arrays = [array for _, array in case.arguments(sizes)]
    found = {f"$SIZE_{n}_{d}": s for n, a in zip(names, arrays) for d, s in enumerate(a.shape)}
    return {**sizes, **found}


@runs(1, "case", "sizes", "target", shift=3, full=False)
def test_every_element_has_an_owner(case, sizes, target):
    """Every element of each output that is not accumulated into is written once, by one thread."""
    text = lowered(case, sizes, target)
    program = Program(text, own_sizes(case, sizes, text))
    names = re.findall(r"%(\w+): mem<", text)[len(case.inputs) :]
    arrays = [array for _, array in case.arguments(sizes)[len(case.inputs) :]]
    for name, array, output in zip(names, arrays, case.outputs):
        if output.start is not None:
            continue
        counts = np.zeros(array.size, int)
        for line, kind, operands in program.accesses():
            if kind == "store" and operands[0] == f"%{name}":
                np.add.at(counts, elements(program, line, operands)[2], 1)
        assert (
            counts == 1
        ).all(), f"{(counts != 1).sum()} elements of `{name}` have another number"


@runs(1, "case", "sizes", "target", shift=4, full=False)
def test_what_is_read_from_shared_memory_was_written(case, sizes, target):
    """By one thread in each iteration, in its own workgroup."""
    text = lowered(case, sizes, target)
    program = Program(text, sizes)
    if re.search(r"\b(copy_async|tma_load|stmatrix|atomic)\b", text):
        pytest.skip("written not only by stores")
    for name in re.findall(r"(%[\w.]+) = alloc", text):
        written, read = {}, set()
        for line, kind, operands in program.accesses():
            if operands[0] != name:
                continue
            thread, rounds, at = elements(program, line, operands)
            block = thread // np.prod(program.block)
            if kind == "load":
                read.update(zip(block.tolist(), at.tolist()))
                continue
            where = (program.around(line), *(x.tolist() for x in (block, rounds, at, thread)))
            for b, r, a, t in zip(*where[1:]):
                assert written.setdefault((where[0], b, r, a), t) == t, f"{name}[{a}] twice"
        assert read <= {(b, a) for _, b, _, a in written}, f"more of {name} is read than written"
