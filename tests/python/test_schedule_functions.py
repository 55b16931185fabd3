"""Schedule functions: what they select, what becomes of it, and what is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scheduled
from drawn_schedules import draw
from scheduled import CASES, DIRECT, GEMM, MACHINES, K, M, N, compiled, dropped, result, rows_of

import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave import wave_schedule

# ---- the schedules of the public package -------------------------------------------------------


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", CASES)
def test_schedules_are_applied_and_change_no_result(name, machine):
    case = CASES[name]
    plain = compiled(case, f"sim:{machine}")
    kernel = compiled(case, f"sim:{machine}", case.schedule)
    assert rows_of(kernel) or name == "unroll"
    assert not rows_of(plain)
    expected = result(plain, case)
    assert np.array_equal(result(kernel, case), expected), (name, machine)
    tensors = scheduled.arguments(case)
    assert kernel.simulate(*tensors, schedule="random:7").findings == []
    assert np.array_equal(tensors[-1], expected), (name, machine)


SLOW = {("gfx942", name) for name in CASES if name.startswith("mxfp4")}  # it has no 4-bit matmuls


@pytest.mark.parametrize("chip", [machine for machine in MACHINES if machine.startswith("gfx")])
@pytest.mark.parametrize("name", ["two_pp_cluster", "gfx1250_tbuf_gemm", "attention_prefetch",
                                  "mxfp4_dbuf_pingpong", "mxfp4_asymmetric"])  # fmt: skip
def test_machine_code_gives_the_same_bits(name, chip):
    if (chip, name) in SLOW:
        pytest.skip("emulating it takes a minute")
    case = CASES[name]
    try:
        kernel = compiled(case, f"emu:{chip}", case.schedule)
    except CompileError as error:
        assert error.diagnostics[-1].code == "E0901", error
        pytest.skip("no libLLVM for this chip")
    assert rows_of(kernel)
    assert np.array_equal(result(kernel, case), result(compiled(case, f"emu:{chip}"), case))


@pytest.mark.parametrize("name", ["two_pp_cluster", "async_two_cluster_triple_buffer"])
def test_tensors_that_cannot_be_copied_directly(name):
    """Their variant of the kernel, compiled at the call, obeys the schedule in its own way."""
    case = CASES[name]
    case = scheduled.Scheduled(case.kernel, case.schedule, {M: 33, N: 70, K: 321}, case.options)
    try:
        kernel = compiled(case, "emu:gfx942", case.schedule)
    except CompileError as error:
        assert error.diagnostics[-1].code == "E0901", error
        pytest.skip("no libLLVM for AMD GPUs")
    a, b, c = scheduled.arguments(case)
    apart = np.zeros((33, 642), np.float16)
    apart[:, ::2] = a
    kernel(apart[:, ::2], b, c)
    assert np.array_equal(c, a.astype("f8") @ b.astype("f8").T)


@pytest.mark.parametrize("seed", range(24))
def test_any_schedule_is_refused_or_right(seed):
    assert draw(seed) in ("refused", "obeyed")


def test_the_table_in_the_docs_is_up_to_date():
    text = scheduled.DOCS.read_text()
    shown = (("two_pp_cluster", "gfx942"), ("attention_prefetch", "sm_90a"), ("mxfp4_dbuf", "gfx950"))
    for name, machine in shown:
        assert scheduled.table_row(name, machine) in text, "run tests/python/scheduled.py"
    assert text.count("| gfx950 |") == len(CASES)


def test_machines_without_waves_do_without():
    case = CASES["two_pp_cluster"]
    for target in ("eval", "cpu"):
        kernel = compiled(case, target, case.schedule)
        assert not rows_of(kernel) and "is not obeyed" in dropped(kernel).message
        assert np.array_equal(result(kernel, case), result(compiled(case, target), case))


def test_rows_of_a_file_come_first(tmp_path):
    path = tmp_path / "gemm.schedule"
    path.write_text("ring k_loop read_a slots 3\n")
    case = CASES["two_pp_cluster"]
    kernel = compiled(case, "sim:gfx942", case.schedule, override_schedule=str(path))
    assert rows_of(kernel) == ["ring k_loop read_a slots 3"]
    assert any("other rows" in note.message for note in dropped(kernel).notes)


def test_sizes_that_are_known_at_a_call_only():
    case = scheduled.Scheduled(scheduled.gemm, scheduled.ahead_by(3), {}, DIRECT)
    kernel = compiled(case, "sim:gfx942", case.schedule, dynamic_symbols=[M, N, K])
    case.sizes = GEMM
    for k in (0, 1, 64, 65, 128, 320):
        rng = np.random.default_rng(k)
        a, b = (rng.integers(-8, 9, (size, k)) / 8 for size in (33, 65))
        c = np.full((33, 65), np.nan, np.float32)
        kernel(a.astype("f2"), b.astype("f2"), c)
        assert np.array_equal(c, a @ b.T), k


# ---- selecting ---------------------------------------------------------------------------------


def scheduling(body, target="sim:gfx942", sizes=GEMM, kernel=scheduled.gemm, **options):
    """Compiles a GEMM with a schedule function."""
    given = WaveCompileOptions(subs=sizes, target=target, **options)
    return wave_compile(given, kernel(), wave_schedule.wave_schedule()(body))


def test_nodes_are_instructions():
    seen = {}

    def body():
        seen["mma"] = tkw.get_node_by_tag("mma")
        seen["reads"] = tkw.get_node_by_tag_and_type("read_a", tkw.Read)
        seen["loop"] = tkw.get_node_by_tag("k_loop")
        seen["name"] = seen["mma"][-1].name, seen["mma"][-1].expanded_dims
        seen["fetches"] = tkw.partition_by_address_space(seen["reads"], SHARED_ADDRESS_SPACE)[0]
        parts = tkw.partition_by_dim(seen["mma"], dim=K, num_partitions=3)
        seen["parts"] = [{n.expanded_dims[K] for n in part} for part in parts]

    scheduling(body)
    # a wave has 32 x 32 results, and sums 64 products each, by instructions for 16 x 16 x 16
    assert len(seen["mma"]) == 2 * 2 * 4 and len(seen["fetches"]) == 2 * 4
    assert len(seen["loop"]) == 1 and seen["name"] == (
        "mma[M 1/2, N 1/2, K 3/4]",
        {M: 1, N: 1, K: 3},
    )
    assert seen["parts"] == [{0, 1}, {2}, {3}]
    assert seen["mma"][:2] == seen["mma"][0:1] + seen["mma"][1:2]
    assert len(set(seen["mma"])) == 16 and repr(seen["loop"]) == "[<node k_loop>]"


def test_pipelining_changes_lists_in_place():
    seen = {}

    def body():
        copies, fetches = scheduled.copied("read_a")
        products = tkw.get_node_by_tag("mma")
        n, kept = len(copies), tkw.get_node_by_tag("mma")
        pipeline = tkw.pipeline(tkw.get_node_by_tag("k_loop"))
        assert pipeline.KERNEL is None
        with pipeline as p:
            p.set_stage([(copies,), ()])
            p.set_stage([(), ()])
            p.set_stage([(fetches,), (products,)])
        seen["copies"] = [len(copies) // n] + [
            len(tkw.filter_nodes(copies, subgraph=part)) // n
            for part in (pipeline.PROLOGUE, pipeline.KERNEL, pipeline.EPILOGUE)
        ]
        after = tkw.filter_nodes(products, subgraph=pipeline.EPILOGUE)
        seen["names"] = sorted({node.name[-4:] for node in after})
        seen["products"] = len(products) // len(kept), len(tkw.get_node_by_tag("mma")) // len(kept)
        seen["same"] = tkw.filter_nodes(kept, subgraph=pipeline.KERNEL) == kept

    scheduling(body, use_global_to_shared=True)
    assert seen == {
        "copies": [3, 2, 1, 0],
        "names": ["_1_2", "_2_2"],
        "products": (3, 3),
        "same": True,
    }


def test_a_loop_without_an_epilogue():
    def body():
        copies, fetches = scheduled.copied("read_a")
        pipeline = tkw.pipeline(tkw.get_node_by_tag("k_loop"), eliminate_epilogue=True)
        with pipeline as p:
            p.set_stage([(copies,), ()])
            p.set_stage([(fetches,), (tkw.get_node_by_tag("mma"),)])
        assert pipeline.EPILOGUE is None and len(copies) == 2 * len(
            tkw.filter_nodes(copies, subgraph=pipeline.KERNEL)
        )

    scheduling(body, use_global_to_shared=True)


def test_interleaving():
    def body():
        a, b = tkw.get_node_by_tag("mma"), tkw.get_node_by_tag("read_a")
        assert tkw.interleave_operations(a[:3], [b[:2]]) == [a[0], b[0], a[1], b[1], a[2]]
        mixed = tkw.interleave_operations(
            a[:5], [b[:2], b[2:4]], intervals=[2, 1], start_offsets=[1, 0], start_after_groups=[[], [0]]
        )
        assert mixed == [a[0], a[1], b[0], a[2], a[3], b[1], b[2], a[4], b[3]]
        assert tkw.interleave_operations(a[:1], [b[:2]], intervals=5) == [a[0], b[0], b[1]]
        assert tkw.interleave_operations([], []) == []

    scheduling(body)


def test_unrolled_bodies_know_their_iteration():
    def body():
        n = len(tkw.get_node_by_tag("mma"))
        tkw.unroll(tkw.get_node_by_tag("k_loop"), 5)
        assert len(tkw.get_node_by_tag("mma")) == 5 * n
        third = tkw.get_node_by_tag_and_iteration("mma", iteration=2)
        assert len(third) == n and {node.iteration for node in third} == {2}
        assert tkw.get_node_by_tag_and_iteration("mma", iteration=7) == []

    kernel = scheduling(body)
    assert not dropped(kernel) and rows_of(kernel) == ["schedule k_loop unroll 5"]


def test_a_loop_is_unrolled_once():
    def body():
        tkw.unroll(tkw.get_node_by_tag("k_loop"), 5)
        tkw.unroll(tkw.get_node_by_tag("k_loop"), 2)

    found = fails(body, "E0218", "`k_loop` is unrolled twice", "the first time is here")
    assert "by the product" in found.hint


# ---- what public Wave does not check -----------------------------------------------------------


def fails(body, code, *texts, **options):
    """The schedule is refused at a line of this file, with these texts; returns the diagnostic."""
    with pytest.raises(CompileError) as error:
        scheduling(body, **options)
    found = error.value.diagnostics[-1]
    assert found.code == code and found.file == __file__, error.value
    for text in texts:
        assert text in str(error.value), error.value
    return found


def staged(order=None, count=None, stages=2):
    """Loads and stores in stage 0; `order` lists the nodes of the steady state."""

    def body():
        loads, stores, fetches = scheduled.copies_of("read_a", "read_b")
        products = tkw.get_node_by_tag("mma")
        pipeline = tkw.pipeline(tkw.get_node_by_tag("k_loop"), multi_buffer_count=count)
        with pipeline as p:
            p.set_stage([(loads,), (stores,)])
            for _ in range(stages - 2):
                p.set_stage([(), ()])
            p.set_stage([(fetches,), (products,)])
        if order:
            steady = (
                tkw.filter_nodes(nodes, subgraph=pipeline.KERNEL)
                for nodes in (loads, stores, fetches, products)
            )
            tkw.reorder_graph(pipeline.KERNEL, order(*steady))

    return body


def store_first(loads, stores, fetches, products):
    return [tkw.cluster([loads, stores]), tkw.cluster([fetches, products])]


def test_stores_before_the_fetches_of_the_only_buffer():
    found = fails(
        staged(store_first, count=1),
        "E0620",
        "with 1 buffer `read_a.store` of iteration i + 1 overwrites the tile that `read_a.fetch`",
        "give it 2 buffers: `multi_buffer_count=2`",
    )
    assert any("reads the buffer" in note.message for note in found.notes)
    case = CASES["prefetch"]
    for count in (2, None):  # as the hint says; and if nothing is said
        kernel = scheduling(staged(store_first, count=count))
        assert "ring k_loop read_a.store slots 2" in rows_of(kernel)
        assert np.array_equal(result(kernel, case), result(compiled(case, "sim:gfx942"), case))


def test_one_buffer_is_enough_if_stores_come_last():
    case = CASES["prefetch"]
    kernel = scheduling(staged(count=1))
    assert "ring k_loop read_a.store slots 1" in rows_of(kernel)
    assert np.array_equal(result(kernel, case), result(compiled(case, "sim:gfx942"), case))


@pytest.mark.parametrize("machine", MACHINES)
def test_a_file_that_fetches_before_it_stores(machine, tmp_path):
    path = tmp_path / "gemm.schedule"
    path.write_text("at k_loop 0.0 read_a.fetch\nat k_loop 0.1 read_a.copy\n")
    if machine == "sm_90a":  # a matrix instruction reads shared memory itself
        path.write_text("at k_loop 0.0 mma\nat k_loop 0.1 read_a.copy\n")
    with pytest.raises(CompileError, match="E0620") as error:
        compiled(CASES["prefetch"], f"sim:{machine}", override_schedule=str(path))
    found = next(d for d in error.value.diagnostics if d.code == "E0620")
    op = "mma" if machine == "sm_90a" else "read_a.fetch"
    assert found.message == f"`{op}` is at cycle 0, before `read_a.copy` at cycle 1, whose result it needs"
    assert found.file == str(path) and len(found.notes) == 2
    assert found.hint == f"place `{op}` at cycle 1 or later"
    path.write_text(path.read_text().replace(f"0.0 {op}", f"0.1 {op}"))
    kernel = compiled(CASES["prefetch"], f"sim:{machine}", override_schedule=str(path))
    plain = compiled(CASES["prefetch"], f"sim:{machine}")
    assert np.array_equal(result(kernel, CASES["prefetch"]), result(plain, CASES["prefetch"]))


MISPLACED = {  # rows, what is said, and what the hint puts in place of which text
    "at k_loop 0.1 read_a.load; at k_loop 0.0 read_a.store": (
        "is stored to shared memory in 0.0, before it is loaded in 0.1",
        ("0.0 read_a.store", "0.1 read_a.store", "place the store at 0.1 or later"),
    ),
    "schedule k_loop depth 4; at k_loop 0.0 read_a.load; at k_loop 2.0 read_a.store": (
        "would wait in registers for 2 iterations; it can for one",
        ("0.0 read_a.load", "1.0 read_a.load", "place its load in stage 1 or 2"),
    ),
    "schedule k_loop depth 2; ring k_loop read_a slots 2; at k_loop 0.0 read_a.load; at k_loop 1.0 read_a.store": (
        "is read in the iteration that stores it, so it has one slot, not 2",
        ("1.0 read_a.store", "0.0 read_a.store", "place the store in stage 0"),
    ),
    "schedule k_loop depth 3; at k_loop 0.0 read_a.load; at k_loop 1.0 read_a.copy": (
        "another row places the copy of `a` in another stage than 1",
        ("; at k_loop 1.0 read_a.copy", "", "remove one of them"),
    ),
}


@pytest.mark.parametrize("rows", MISPLACED)
def test_hints_about_copies_through_registers(rows, tmp_path):
    path, (text, (old, new, hint)) = tmp_path / "gemm.schedule", MISPLACED[rows]
    path.write_text(rows.replace("; ", "\n"))
    with pytest.raises(CompileError, match="E0620") as error:
        compiled(CASES["prefetch"], "sim:gfx942", override_schedule=str(path))
    found = next(d for d in error.value.diagnostics if d.code == "E0620")
    assert text in found.message and found.notes and found.hint == hint
    path.write_text(rows.replace(old, new).replace("; ", "\n"))
    kernel, plain = (
        compiled(CASES["prefetch"], "sim:gfx942", **options)
        for options in ({"override_schedule": str(path)}, {})
    )
    assert np.array_equal(result(kernel, CASES["prefetch"]), result(plain, CASES["prefetch"]))


@pytest.mark.parametrize("iterations", range(8))
def test_short_loops_are_right(iterations):
    case = scheduled.Scheduled(scheduled.gemm, None, {**GEMM, K: 64 * iterations})
    kernel = scheduling(staged(stages=4), sizes=case.sizes)
    a, b, _ = tensors = scheduled.arguments(case)
    kernel(*tensors)
    assert np.array_equal(tensors[-1], a.astype("f8") @ b.astype("f8").T)


@pytest.mark.parametrize("machine", MACHINES)
def test_ops_that_repeat_have_no_stage(machine):
    """A product is placed before its operand, which is the same in each iteration."""
    case = replace(CASES["attention_prefetch"], kernel=scheduled.scaled_attention)
    seen = []

    @wave_schedule.wave_schedule()
    def early():
        copies, fetches = scheduled.copied("read_k")
        operand = tkw.get_node_by_tag("scaled")
        pipeline = tkw.pipeline(tkw.get_node_by_tag("kv_loop"))
        with pipeline as p:
            p.set_stage([(copies,), ()])
            p.set_stage([(fetches, tkw.get_node_by_tag("mma_qk")), (operand,)])
        seen.append((len(operand), tkw.filter_nodes(operand, subgraph=pipeline.KERNEL)))

    kernel = compiled(case, f"sim:{machine}", early)
    assert seen[0][0] > 0 and seen[0][1] == []
    assert any("mma_qk" in row for row in rows_of(kernel))
    assert not any("scaled" in row for row in rows_of(kernel))
    assert np.array_equal(result(kernel, case), result(compiled(case, f"sim:{machine}"), case))


def test_stages_against_the_data_flow():
    def body():
        copies, fetches = scheduled.copied("read_a")
        with tkw.pipeline(tkw.get_node_by_tag("k_loop")) as p:
            p.set_stage([(fetches,), (tkw.get_node_by_tag("mma"),)])
            p.set_stage([(copies,), ()])

    found = fails(
        body,
        "E0620",
        "`read_a.fetch[M 0/2, K 0/4]` needs `read_a.copy",
        "place `read_a.fetch` in stage 1, cycle 0, or later",
        use_global_to_shared=True,
    )
    assert [note.file == scheduled.__file__ for note in found.notes] == [True, True]


def test_an_op_in_no_stage_stays_where_it_is():
    def body():
        copies, fetches = scheduled.copied("read_a")
        with tkw.pipeline(tkw.get_node_by_tag("k_loop")) as p:
            p.set_stage([(copies,)])
            p.set_stage([(fetches,)])

    case = CASES["async_two_pp_clusters"]
    kernel = scheduling(body, use_global_to_shared=True)
    assert np.array_equal(result(kernel, case), result(compiled(case, "sim:gfx942"), case))


def test_an_order_against_a_dependence():
    def late(loads, stores, fetches, products):
        return [tkw.cluster([products]), tkw.cluster([loads, fetches, stores])]

    def backwards(loads, stores, fetches, products):
        return [tkw.cluster([fetches, list(reversed(products))])]

    found = fails(staged(late), "E0620", "`mma[M 0/2, N 0/2, K 0/4]` comes before `read_a.fetch")
    assert len(found.notes) == 2 and "put `read_a.fetch` before `mma`" in found.hint
    fails(staged(backwards), "E0620", "K 3/4]` comes before `mma[M 1/2, N 1/2, K 2/4]`")


def test_halves_of_an_op_do_not_need_each_other():
    def by_halves(loads, stores, fetches, products):
        parts = [tkw.partition_by_dim(x, dim=K, num_partitions=2) for x in (fetches, products)]
        return [tkw.cluster([fetch, product]) for fetch, product in zip(*parts)]

    kernel = scheduling(staged(by_halves))
    halves = [f"read_a.fetch[K {i}/2] read_b.fetch[K {i}/2] mma[K {i}/2]" for i in range(2)]
    assert dropped(kernel) is None and f"order k_loop {' '.join(halves)}" in rows_of(kernel)
    case = CASES["prefetch"]
    assert np.array_equal(result(kernel, case), result(compiled(case, "sim:gfx942"), case))


@pytest.mark.parametrize("machine", MACHINES)
def test_halves_in_different_stages(machine):
    """Half of the tile is fetched an iteration before the other half, with two buffers: the copy is
    issued when the second half of the tile in its slot has been fetched."""

    def body():
        copies, fetches = scheduled.copied("read_a")
        early, late = tkw.partition_by_dim(fetches, dim=M, num_partitions=2)
        products = tkw.get_node_by_tag("mma")
        pipeline = tkw.pipeline(tkw.get_node_by_tag("k_loop"), multi_buffer_count=2)
        with pipeline as p:
            p.set_stage([(copies,), ()])
            p.set_stage([(), (early,)])
            p.set_stage([(late,), (products,)])
        lists = (copies, early, late, products)
        copies, early, late, products = scheduled.kernel_part(pipeline, *lists)
        one, two = tkw.partition_by_dim(products, dim=M, num_partitions=2)
        tkw.reorder_graph(pipeline.KERNEL, [one, late, copies, early, two])

    case = CASES["async_two_pp_clusters"]
    kernel = scheduling(body, target=f"sim:{machine}", use_global_to_shared=True)
    assert np.array_equal(result(kernel, case), result(compiled(case, f"sim:{machine}"), case))
    if machine == "gfx942":
        assert ["2 buffers of `read_a.copy`" in n.message for n in dropped(kernel).notes] == [True]
        rows = {"at k_loop 1.3 read_a.fetch[M 0/2]", "at k_loop 2.1 read_a.fetch[M 1/2]"}
        assert rows <= set(rows_of(kernel))


def test_an_order_of_some_ops():
    kernel = scheduling(staged(lambda loads, stores, fetches, products: [fetches[:1]]))
    case = CASES["prefetch"]
    assert np.array_equal(result(kernel, case), result(compiled(case, "sim:gfx942"), case))


def test_stages_with_different_numbers_of_cycles():
    def body():
        copies, fetches = scheduled.copied("read_a")
        with tkw.pipeline(tkw.get_node_by_tag("k_loop")) as p:
            p.set_stage([(copies,)])
            p.set_stage([(fetches,), (tkw.get_node_by_tag("mma"),)])

    fails(
        body,
        "E0218",
        "stage 1 has 2 cycles, but the stages before it have 1",
        "an empty one is `()`",
        use_global_to_shared=True,
    )


def test_unknown_tags():
    def body():
        assert tkw.get_node_by_tag("reed_a") == []
        assert tkw.get_node_by_tag("something else") == []

    with pytest.warns(RuntimeWarning, match="W0202.*(\n.*)*did you mean `read_a`"):
        kernel = scheduling(body)
    assert [n.message for n in dropped(kernel).notes] == [
        "dropped: the tag `something else`: no op has it"
    ]


def test_waits_that_are_too_weak_or_missing_under_stagger():
    def body():
        scheduled.ahead_by(3).__dict__["_fn"]()
        tkw.insert_at_end(tkw.get_node_by_tag("k_loop"), tkw.MemoryCounterWait(load=63))

    case = CASES["async_two_pp_clusters"]
    kernel = scheduling(body, use_global_to_shared=True)
    assert any("waits and barriers" in note.message for note in dropped(kernel).notes)
    assert np.array_equal(result(kernel, case), result(compiled(case, "sim:gfx942"), case))


LDS, BARE = tkw.SharedMemoryBarrier, tkw.WorkgroupBarrier

# Buffers, what is written behind fetches and behind stores, and what is said about it.
BARRIERS = {
    "one buffer": (1, [LDS], [LDS], []),
    "two buffers": (2, [], [LDS], []),
    "needless": (2, [LDS], [LDS], ["needless: without this SharedMemoryBarrier all accesses are in order"]),
    "needless and bare": (2, [BARE], [LDS], ["needless: without this WorkgroupBarrier all accesses are in order"]),
    "missing": (1, [], [LDS], [f"missing: there is no barrier between `read_{x}.fetch` and `read_{x}.store`" for x in "ab"]),
    "too weak": (1, [BARE], [LDS], [f"too weak: between `read_{x}.fetch` and `read_{x}.store`, a Work" for x in "ab"]),
    "no barrier": (1, [tkw.MemoryCounterWait], [], [f"missing: there is no barrier between `read_{x}." for x in "aabb"]),
    "derived": (2, [], [], []),
}


@pytest.mark.parametrize("machine", ["gfx942", "gfx950"])
@pytest.mark.parametrize("name", BARRIERS)
def test_written_barriers_are_compared(name, machine):
    count, behind_fetches, behind_stores, said = BARRIERS[name]

    def order(loads, stores, fetches, products):
        return [
            tkw.cluster([loads, fetches, *(op() for op in behind_fetches)]),
            tkw.cluster([products, stores, *(op() for op in behind_stores)]),
        ]

    kernel = scheduling(staged(order, count=count), target=f"sim:{machine}")
    notes = [n for r in kernel.remarks if getattr(r, "code", "") == "R0619" for n in r.notes]
    assert len(notes) == len(said) and all(n.message.startswith(s) for n, s in zip(notes, said)), notes
    assert all(n.file == __file__ for n in notes)
    case = CASES["prefetch"]
    assert np.array_equal(result(kernel, case), result(compiled(case, f"sim:{machine}"), case))


def test_priorities_of_clusters():
    def body():
        copies, fetches = scheduled.copied("read_a")
        products = tkw.get_node_by_tag("mma")
        pipeline = tkw.pipeline(tkw.get_node_by_tag("k_loop"))
        with pipeline as p:
            p.set_stage([(copies,), ()])
            p.set_stage([(fetches,), (products,)])
        steady = tkw.filter_nodes(products, subgraph=pipeline.KERNEL)
        tkw.cluster([tkw.SetWavePrio(2), steady, tkw.SetWavePrio(0), fetches])

    kernel = scheduling(body, use_global_to_shared=True)
    assert "prio k_loop 2 mma" in rows_of(kernel) and dropped(kernel) is None
    parts = kernel.ir_after("prio").split("wave_prio {prio = ")
    assert len(parts) in (3, 5)  # `version` may have made a second loop
    for raised, after in zip(parts[1::2], parts[2::2]):
        assert raised.startswith("2}") and raised.count(" mma ") == 1 and after.startswith("0}")
    case = CASES["async_two_pp_clusters"]
    assert np.array_equal(result(kernel, case), result(compiled(case, "sim:gfx942"), case))
    kernel = scheduling(body, target="sim:sm_90a", use_global_to_shared=True)
    assert not any("prio" in row for row in rows_of(kernel))
    assert any("priorities (2)" in note.message for note in dropped(kernel).notes)


def test_fences_of_clusters():
    """Before what follows them: a part, another op, or what the next iteration begins with."""

    def body(fence=lambda: tkw.SchedulingBarrier([])):
        copies, fetches = scheduled.copied("read_a")
        other, others = scheduled.copied("read_b")
        products = tkw.get_node_by_tag("mma")
        pipeline = tkw.pipeline(tkw.get_node_by_tag("k_loop"))
        with pipeline as p:
            p.set_stage([(copies, other), ()])
            p.set_stage([(fetches, others), (products,)])
        lists = (products, fetches, others, copies, other)
        steady = [tkw.filter_nodes(x, subgraph=pipeline.KERNEL) for x in lists]
        first, second = tkw.partition_by_dim(steady[0], dim=K, num_partitions=2)
        clusters = [
            tkw.cluster([steady[1], steady[2], fence(), tkw.SetWavePrio(1), first]),
            tkw.cluster([fence(), second, tkw.SetWavePrio(0)]),
            tkw.cluster([fence(), steady[3], steady[4], fence()]),
        ]
        tkw.reorder_graph(pipeline.KERNEL, clusters)

    kernel = scheduling(body, use_global_to_shared=True)
    assert "fence k_loop mma[K 0/2] mma[K 1/2] read_a.copy read_a.fetch" in rows_of(kernel)
    assert dropped(kernel) is None
    loop = kernel.ir_after("prio").split("for K ", 1)[1].split("yield", 1)[0]
    lines = [line.split() for line in loop.splitlines()]
    after = [x for at, x in zip(lines, lines[1:]) if at == ["sched_barrier"]]
    assert [next(w for w in x if w in ("read", "wave_prio", "mma", "copy")) for x in after] == [
        "read", "wave_prio", "mma", "copy",
    ]  # fmt: skip
    case = CASES["async_two_pp_clusters"]
    assert np.array_equal(result(kernel, case), result(compiled(case, "sim:gfx942"), case))

    def weaker():
        body(lambda: tkw.SchedulingBarrier([tkw.Read]))

    for kernel in (
        scheduling(body, target="sim:sm_90a", use_global_to_shared=True),
        scheduling(weaker, use_global_to_shared=True),
    ):
        assert not any("fence" in row for row in rows_of(kernel))
        assert any("scheduling barriers (4)" in note.message for note in dropped(kernel).notes)


# ---- other mistakes ----------------------------------------------------------------------------

MISTAKES = {
    "takes one loop, not 0 nodes": lambda: tkw.pipeline([]),
    "takes one loop, not 16 nodes": lambda: tkw.pipeline(tkw.get_node_by_tag("mma")),
    "`pipeline` takes a loop, not `mma[": lambda: tkw.pipeline(tkw.get_node_by_tag("mma")[:1]),
    "`unroll` takes one loop": lambda: tkw.unroll([], 2),
    "`stagger` takes one loop": lambda: tkw.stagger([]),
    "unrolled 2 to 64 times, not 1": lambda: tkw.unroll(tkw.get_node_by_tag("k_loop"), 1),
    "5 iterations, which 2 does not divide": lambda: tkw.unroll(tkw.get_node_by_tag("k_loop"), 2),
    "cannot be divided into 0 parts": lambda: tkw.partition_by_dim(
        tkw.get_node_by_tag("mma"), dim=K, num_partitions=0
    ),
    "`mma[M 0/2, N 0/2, K 0/4]` accesses no memory": lambda: tkw.partition_by_address_space(
        tkw.get_node_by_tag("mma"), SHARED_ADDRESS_SPACE
    ),
    "not in `REGISTER": lambda: tkw.partition_by_address_space([], "REGISTER"),
    "nodes have no class `dict`": lambda: tkw.filter_nodes([], node_type=dict),
    "did you mean `MMA`": lambda: tkw.filter_nodes([], node_type=type("MMa", (), {})),
    "`dict` is not an op that schedules insert": lambda: tkw.cluster([{}]),
    "priorities are 0 to 3, not 4": lambda: tkw.cluster([tkw.SetWavePrio(4)]),
    "the interval of group 0 is 0": lambda: tkw.interleave_operations([], [[]], intervals=0),
    "after group 3, which does not exist": lambda: tkw.interleave_operations(
        [], [[]], intervals=[1], start_after_groups=[[3]]
    ),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_reported_at_their_line(text):
    fails(lambda: MISTAKES[text](), "E0218", text)


def test_mistakes_in_pipelines():
    def twice():
        tkw.pipeline(tkw.get_node_by_tag("k_loop"))
        tkw.pipeline(tkw.get_node_by_tag("k_loop"))

    def empty():
        with tkw.pipeline(tkw.get_node_by_tag("k_loop")):
            pass

    def no_cycles():
        with tkw.pipeline(tkw.get_node_by_tag("k_loop")) as p:
            p.set_stage([])

    def two_stages():
        with tkw.pipeline(tkw.get_node_by_tag("k_loop")) as p:
            p.set_stage([(tkw.get_node_by_tag("mma"),)])
            p.set_stage([(tkw.get_node_by_tag("mma"),)])

    def itself():
        with tkw.pipeline(tkw.get_node_by_tag("k_loop")) as p:
            p.set_stage([(tkw.get_node_by_tag("k_loop"),)])

    def many():
        with tkw.pipeline(tkw.get_node_by_tag("k_loop"), multi_buffer_count=1000) as p:
            p.set_stage([(tkw.get_node_by_tag("mma"),)])

    fails(twice, "E0218", "is pipelined twice", "the first time is here")
    fails(empty, "E0218", "has no stages", "call `set_stage`")
    fails(no_cycles, "E0218", "a stage has at least one cycle")
    fails(two_stages, "E0218", "is in stage 0 and in stage 1", "the first is here")
    fails(itself, "E0218", "`k_loop` is not in the loop `k_loop`")
    fails(many, "E0218", "1 to 64 buffers, not 1000")


def test_nodes_are_not_anything_else():
    def body():
        tkw.filter_nodes(["read_a"])

    with pytest.raises(TypeError, match="`filter_nodes` takes nodes, not 'read_a'"):
        scheduling(body)
    with pytest.raises(ValueError):  # lists of different lengths
        scheduling(lambda: tkw.interleave_operations([], [[]], intervals=[1, 2]))


def test_a_schedule_is_decorated():
    options = WaveCompileOptions(subs=GEMM, target="eval")
    for wrong in (staged(), scheduled.gemm(), "prefetch"):
        with pytest.raises(TypeError, match="decorated with @wave_schedule"):
            wave_compile(options, scheduled.gemm(), wrong)


def test_schedule_ops_belong_in_schedules():
    with pytest.raises(RuntimeError, match="wave_schedule"):
        tkw.get_node_by_tag("x")


def test_an_error_in_the_function_is_its_own():
    with pytest.raises(ZeroDivisionError):
        scheduling(lambda: 1 // 0)
    with pytest.raises(RuntimeError):  # nothing is being scheduled any more
        tkw.get_node_by_tag("x")


def test_a_function_may_serve_several_kernels():
    case = CASES["two_pp_cluster"]
    for machine in ("gfx942", "sm_80"):
        kernel = compiled(case, f"sim:{machine}", case.schedule)
        assert re.search("on (gfx942|sm_80)", dropped(kernel).message)
