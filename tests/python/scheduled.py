"""Kernels and schedule functions like those that the public package ships, and what becomes of them.

`python tests/python/scheduled.py` writes the table of docs/schedules.md.
"""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave import wave_schedule

M, N, K, K1, K2 = tkl.sym.M, tkl.sym.N, tkl.sym.K, tkl.sym.K1, tkl.sym.K2
MACHINES = ("gfx942", "gfx950", "gfx1250", "sm_90a")

# ---- kernels -----------------------------------------------------------------------------------


def gemm():
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, 64, 0),
            tkw.WorkgroupConstraint(N, 64, 1),
            tkw.TilingConstraint(K, 64),
            tkw.WaveConstraint(M, 32),
            tkw.WaveConstraint(N, 32),
        ]
    )
    def gemm(
        a: tkl.Memory[M, K, SHARED_ADDRESS_SPACE, tkl.f16],
        b: tkl.Memory[N, K, SHARED_ADDRESS_SPACE, tkl.f16],
        c: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)], tag="k_loop")
        def total(acc):
            left = tkw.read(a, tag="read_a")
            right = tkw.read(b, tag="read_b")
            return tkw.mma(left, right, acc, tag="mma")

        tkw.write(total, c)

    return gemm


def scaled_gemm(b_space=SHARED_ADDRESS_SPACE, scale_space=SHARED_ADDRESS_SPACE):
    """With 4-bit operands, and a scale for each 32 of their elements along K."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(
                threads_per_wave=64, mma_type=tkw.ScaledMMAType.F32_16x16x128_F8F6F4
            ),
            tkw.WorkgroupConstraint(M, 64, 0),
            tkw.WorkgroupConstraint(N, 64, 1),
            tkw.TilingConstraint(K, 256),
            tkw.WaveConstraint(M, 32),
            tkw.WaveConstraint(N, 32),
        ]
    )
    def scaled_gemm(
        a: tkl.Memory[M, K / 2, SHARED_ADDRESS_SPACE, tkl.i8],
        a_scale: tkl.Memory[M, K / 32, scale_space, tkl.i8],
        b: tkl.Memory[N, K / 2, b_space, tkl.i8],
        b_scale: tkl.Memory[N, K / 32, scale_space, tkl.i8],
        c: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)], tag="k_loop")
        def total(acc):
            x = tkw.bitcast(tkw.read(a, tag="read_a"), tkl.f4e2m1fn, tag="bitcast_a")
            xs = tkw.bitcast(
                tkw.read(a_scale, tag="read_a_scale"), tkl.f8e8m0fnu, tag="bitcast_a_scale"
            )
            y = tkw.bitcast(tkw.read(b, tag="read_b"), tkl.f4e2m1fn, tag="bitcast_b")
            ys = tkw.bitcast(
                tkw.read(b_scale, tag="read_b_scale"), tkl.f8e8m0fnu, tag="bitcast_b_scale"
            )
            return tkw.scaled_mma(x, xs, y, ys, acc, tag="scaled_mma")

        tkw.write(total, c)

    return scaled_gemm


def attention(scaled=False):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(M, 64, 0),
            tkw.WorkgroupConstraint(N, 32, 1),
            tkw.TilingConstraint(K2, 32),
            tkw.WaveConstraint(M, 16),
        ]
    )
    def attention(
        q: tkl.Memory[M, K1, GLOBAL_ADDRESS_SPACE, tkl.f16],
        k: tkl.Memory[K2, K1, SHARED_ADDRESS_SPACE, tkl.f16],
        v: tkl.Memory[N, K2, SHARED_ADDRESS_SPACE, tkl.f16],
        c: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, tkl.f32],
    ):
        most = tkl.Register[M, tkl.f32](-1e6)
        zero = tkl.Register[M, tkl.f32](0.0)
        start = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K2, init_args=[most, zero, start], tag="kv_loop")
        def loop(old, total, out):
            query = tkw.read(q)
            if scaled:
                query = tkw.tag(query * tkl.Register[M, K1, tkl.f16](0.5), "scaled")
            products = tkw.mma(
                tkw.read(k, tag="read_k"),
                query,
                tkl.Register[K2, M, tkl.f32](0.0),
                tag="mma_qk",
            )
            x = tkw.permute(products, [M, K2], tag="turned")
            new = tkw.max(x, old, dim=K2, tag="row_max")
            shrink = tkw.tag(tkw.exp2(tkw.tag(old - new, "delta")), "shrink")
            e = tkw.tag(tkw.exp2(tkw.tag(x - new, "moved")), "weights")
            total = tkw.sum(e, tkw.tag(total * shrink, "shrunk_sum"), dim=K2, tag="row_sum")
            p = tkw.cast(e, tkl.f16, tag="rounded")
            kept = tkw.tag(out * shrink, "shrunk_out")
            return new, total, tkw.mma(p, tkw.read(v, tag="read_v"), kept, tag="mma_pv")

        _, total, out = loop
        tkw.write(out / total, c)

    return attention


def scaled_attention():
    """Each iteration scales the query again."""
    return attention(scaled=True)


# ---- schedules ---------------------------------------------------------------------------------


def fence():
    return tkw.SchedulingBarrier([])


def at_high_priority(nodes):
    return [tkw.SetWavePrio(1), nodes, tkw.SetWavePrio(0)]


def kernel_part(pipeline, *lists):
    found = [tkw.filter_nodes(nodes, subgraph=pipeline.KERNEL) for nodes in lists]
    return found[0] if len(found) == 1 else found


def halves(nodes, dim=K):
    return tkw.partition_by_dim(nodes, dim=dim, num_partitions=2)


def copied(tag):
    """What copies a tile to shared memory, and what fetches it."""
    nodes = tkw.get_node_by_tag(tag)
    direct = [tkw.GatherToLDS, tkw.TensorLoadToLDS][0]
    return tkw.filter_nodes(nodes, node_type=direct), tkw.filter_nodes(nodes, node_type=tkw.Read)


def copies_of(*tags):
    """The loads, the stores to shared memory and the fetches of operands with these tags."""
    loads, stores, fetches = [], [], []
    for tag in tags:
        reads = tkw.get_node_by_tag_and_type(tag, tkw.Read)
        load, fetch = tkw.partition_by_address_space(reads, GLOBAL_ADDRESS_SPACE)
        loads, fetches = loads + load, fetches + fetch
        stores += tkw.get_node_by_tag_and_type(tag, tkw.Write)
    return loads, stores, fetches


@wave_schedule.wave_schedule()
def prefetch():
    """The next tiles are loaded first and stored last."""
    loop = tkw.get_node_by_tag("k_loop")
    loads, stores, fetches = copies_of("read_a", "read_b")
    products = tkw.get_node_by_tag("mma")
    with tkw.pipeline(loop) as p:
        p.set_stage([(loads,), (stores,)])
        p.set_stage([(fetches,), (products,)])


@wave_schedule.wave_schedule()
def two_clusters():
    """Halves of K; loads go through registers; two groups of waves, a cluster apart."""
    loop = tkw.get_node_by_tag("k_loop")
    loads, stores, fetches = {}, {}, {}
    for x in "ab":
        reads = tkw.get_node_by_tag_and_type(f"read_{x}", tkw.Read)
        loads[x], fetches[x] = tkw.partition_by_address_space(reads, GLOBAL_ADDRESS_SPACE)
        stores[x] = tkw.get_node_by_tag_and_type(f"read_{x}", tkw.Write)
    products = tkw.get_node_by_tag("mma")
    pipeline = tkw.pipeline(loop)
    with pipeline as p:
        p.set_stage([(loads["a"], loads["b"]), (stores["a"], stores["b"])])
        p.set_stage([(fetches["a"], fetches["b"]), (products,)])
    for lists in (loads, stores, fetches):
        for x in "ab":
            lists[x] = kernel_part(pipeline, lists[x])
    first, second = halves(kernel_part(pipeline, products))
    (a0, a1), (b0, b1) = halves(fetches["a"]), halves(fetches["b"])
    wait = tkw.WorkgroupBarrier()
    clusters = [
        tkw.cluster([a0, b0, fence(), loads["a"], fence(), a1, b1, fence(), loads["b"], wait]),
        tkw.cluster([*at_high_priority(first), tkw.SharedMemoryBarrier(), fence()]),
        tkw.cluster([stores["a"], stores["b"], tkw.WorkgroupBarrier(), fence()]),
        tkw.cluster([*at_high_priority(second), fence()]),
    ]
    tkw.insert_before(pipeline.KERNEL, tkw.SharedMemoryBarrier())
    tkw.insert_at_end(pipeline.KERNEL, tkw.SharedMemoryBarrier())
    tkw.reorder_graph(pipeline.KERNEL, clusters)
    tkw.stagger(pipeline.KERNEL)


def ahead_by(stages, unroll=1):
    """Copies `stages` - 1 iterations ahead, halves of K, counted waits."""

    @wave_schedule.wave_schedule()
    def ahead():
        loop = tkw.get_node_by_tag("k_loop")
        copies_a, fetches_a = copied("read_a")
        copies_b, fetches_b = copied("read_b")
        products = tkw.get_node_by_tag("mma")
        pipeline = tkw.pipeline(loop)
        with pipeline as p:
            p.set_stage([(copies_a, copies_b), ()])
            for _ in range(stages - 2):
                p.set_stage([(), ()])
            p.set_stage([(fetches_a, fetches_b), (products,)])
        copies = kernel_part(pipeline, copies_a) + kernel_part(pipeline, copies_b)
        first, second = halves(kernel_part(pipeline, products))
        (a0, a1), (b0, b1) = (halves(kernel_part(pipeline, x)) for x in (fetches_a, fetches_b))
        clusters = [
            tkw.cluster([a0, b0, fence(), copies, fence(), tkw.WorkgroupBarrier(), fence()]),
            tkw.cluster(
                [*at_high_priority(first), tkw.MemoryCounterWaitBarrier(load=len(copies))]
            ),
            tkw.cluster([a1, b1, fence(), tkw.MemoryCounterWaitBarrier(load=0), fence()]),
            tkw.cluster([*at_high_priority(second), fence()]),
        ]
        tkw.reorder_graph(pipeline.KERNEL, clusters)
        tkw.stagger(pipeline.KERNEL)
        if unroll > 1:
            tkw.unroll(pipeline.KERNEL, unroll)
            tkw.insert_after(pipeline.KERNEL, tkw.MemoryCounterWaitBarrier(load=0))

    return ahead


@wave_schedule.wave_schedule()
def tensor_loads():
    """Three stages with split barriers; prologue and epilogue are ordered as well."""
    loop = tkw.get_node_by_tag("k_loop")
    copies_a, fetches_a = copied("read_a")
    copies_b, fetches_b = copied("read_b")
    copies = tkw.get_node_by_tag({"read_a", "read_b"})
    if not copies:
        copies.extend(copies_a + copies_b)
    products = tkw.get_node_by_tag("mma")
    pipeline = tkw.pipeline(loop)
    with pipeline as p:
        p.set_stage([(copies,), ()])
        p.set_stage([(), ()])
        p.set_stage([(fetches_a, fetches_b), (products,)])

    def signal():
        return [tkw.SharedMemoryBarrierSignal(-1, ds_wait=False), tkw.SharedMemoryBarrierWait(-1)]

    hardware = tkw.get_hardware_constraint()
    middle = math.prod(hardware.waves_per_block) // 2
    tkw.insert_cond_barrier_before(hardware.wave_id >= middle, pipeline.KERNEL)
    before = tkw.filter_nodes(copies, subgraph=pipeline.PROLOGUE)
    fetches = kernel_part(pipeline, fetches_a) + kernel_part(pipeline, fetches_b)
    steady = [fetches, tkw.TensorCounterWait(0), *signal(), kernel_part(pipeline, copies)]
    after = [
        tkw.filter_nodes(nodes, subgraph=pipeline.EPILOGUE)
        for nodes in (fetches_a, fetches_b, products)
    ]
    clusters = [
        tkw.cluster([before, tkw.TensorCounterWait(1), *signal()]),
        tkw.cluster([*steady, kernel_part(pipeline, products), *signal()]),
        *(tkw.cluster([nodes[i::2] for nodes in after] + signal()) for i in range(2)),
    ]
    tkw.reorder_graph(pipeline.KERNEL, clusters)
    tkw.insert_cond_barrier_after(hardware.wave_id < middle, after[2][-1])
    tkw.insert_after(after[2][-1], tkw.SetWavePrio(1))


@wave_schedule.wave_schedule()
def attention_prefetch():
    """Four stages: K, then V and the first product, then the two halves of the softmax."""
    loop = tkw.get_node_by_tag("kv_loop")
    copies_k, fetches_k = copied("read_k")
    copies_v, fetches_v = copied("read_v")
    first, second = tkw.get_node_by_tag("mma_qk"), tkw.get_node_by_tag("mma_pv")
    before = [tkw.get_node_by_tag(t) for t in ("turned", "row_max", "delta", "shrink")]
    names = ("moved", "weights", "shrunk_sum", "row_sum", "rounded", "shrunk_out")
    after = [tkw.get_node_by_tag(t) for t in names]
    pipeline = tkw.pipeline(loop)
    with pipeline as p:
        p.set_stage([(copies_k,), ()])
        p.set_stage([(fetches_k,), (copies_v,)])
        p.set_stage([(first,), tuple(before)])
        p.set_stage([tuple(after), (fetches_v, second)])
    copies_k, fetches_k, copies_v, fetches_v, first, second = kernel_part(
        pipeline, copies_k, fetches_k, copies_v, fetches_v, first, second
    )
    before = [kernel_part(pipeline, nodes) for nodes in before]
    after = [kernel_part(pipeline, nodes) for nodes in after]
    clusters = [
        tkw.cluster([*at_high_priority([first, after]), tkw.WorkgroupBarrier()]),
        tkw.cluster([fetches_v, copies_k, tkw.WorkgroupBarrier()]),
        tkw.cluster([*at_high_priority([second, before]), tkw.WorkgroupBarrier()]),
        tkw.cluster([fetches_k, copies_v, tkw.WorkgroupBarrier()]),
    ]
    tkw.reorder_graph(pipeline.KERNEL, clusters)
    tkw.stagger(pipeline.KERNEL)


OPERANDS = ("a", "a_scale", "b", "b_scale")


def double_buffer(in_registers=(), dims=(K,), staggered=True):
    """A scaled GEMM: operands of `in_registers` do not go through shared memory; fetches and
    products are cut in halves along `dims`."""

    @wave_schedule.wave_schedule()
    def scaled():
        loop = tkw.get_node_by_tag("k_loop")
        copies, fetches, loads = {}, {}, {}
        for x in OPERANDS:
            if x in in_registers:
                loads[x] = tkw.filter_nodes(tkw.get_node_by_tag(f"read_{x}"), node_type=tkw.Read)
            else:
                copies[x], fetches[x] = copied(f"read_{x}")
        casts = {x: tkw.get_node_by_tag(f"bitcast_{x}") for x in OPERANDS}
        products = tkw.get_node_by_tag("scaled_mma")
        pipeline = tkw.pipeline(loop)
        with pipeline as p:
            p.set_stage([(*copies.values(), *loads.values()), (), ()])
            p.set_stage([tuple(fetches.values()), tuple(casts.values()), (products,)])
        lists = {x: kernel_part(pipeline, n) for x, n in {**fetches, **loads}.items()}
        casts = {x: kernel_part(pipeline, casts[x]) for x in OPERANDS}
        moved = [kernel_part(pipeline, nodes) for nodes in copies.values()]
        products = kernel_part(pipeline, products)
        clusters = []
        for dim in dims:
            parts = {x: halves(fetches_of, dim) for x, fetches_of in lists.items() if x in fetches}
            cast = {x: halves(casts[x], dim) for x in OPERANDS}
            product = halves(products, dim)
            for i in range(2):
                mine = [parts[x][i] for x in parts]
                clusters.append(tkw.cluster([mine, [cast[x][i] for x in OPERANDS], fence()]))
                clusters.append(
                    tkw.cluster([moved if not i else [], list(loads.values()) if not i else []])
                )
                clusters.append(
                    tkw.cluster(
                        [
                            *at_high_priority(product[i]),
                            tkw.MemoryCounterWaitBarrier(load=len(moved)),
                        ]
                    )
                )
        tkw.reorder_graph(pipeline.KERNEL, clusters)
        if staggered:
            tkw.stagger(pipeline.KERNEL)

    return scaled


def asymmetric(eliminate_epilogue=False):
    """A goes through shared memory, two ahead; B straight to registers; halves of M."""

    @wave_schedule.wave_schedule()
    def uneven():
        loop = tkw.get_node_by_tag("k_loop")
        copies, fetches, loads = {}, {}, {}
        for x in OPERANDS[:2]:
            copies[x], nodes = copied(f"read_{x}")
            fetches[x] = halves(nodes, M)
        for x in OPERANDS[2:]:
            loads[x] = tkw.filter_nodes(tkw.get_node_by_tag(f"read_{x}"), node_type=tkw.Read)
        casts = [tkw.get_node_by_tag(f"bitcast_{x}") for x in OPERANDS]
        products = tkw.get_node_by_tag("scaled_mma")
        pipeline = tkw.pipeline(loop, eliminate_epilogue=eliminate_epilogue)
        pipeline.multi_buffer_count = 2
        pipeline.unroll_factor = 2
        with pipeline as p:
            p.set_stage([tuple(copies.values()), (), ()])
            p.set_stage([tuple(loads.values()), tuple(f[0] for f in fetches.values()), ()])
            p.set_stage([tuple(f[1] for f in fetches.values()), tuple(casts), (products,)])
        first, second = halves(kernel_part(pipeline, products), M)
        casts = [kernel_part(pipeline, nodes) for nodes in casts]
        early = [kernel_part(pipeline, f[0]) for f in fetches.values()]
        late = [kernel_part(pipeline, f[1]) for f in fetches.values()]
        moved = [kernel_part(pipeline, nodes) for nodes in copies.values()]
        loaded = [kernel_part(pipeline, nodes) for nodes in loads.values()]
        half = [halves(nodes, M) for nodes in casts[:2]]

        def mixed(base, *groups):
            offsets = [min(o, max(0, len(base) - 1)) for o in (0, 3, 2, 0)]
            return tkw.interleave_operations(
                base_ops=base,
                interleaved_ops=groups,
                intervals=[4, 4, 2, 4],
                start_offsets=offsets,
                start_after_groups=[[], [], [1], [0]],
            )

        wait = tkw.MemoryCounterWaitBarrier(load=sum(map(len, loaded)), ds=0)
        one = mixed(first, loaded[0], late[0], late[1], loaded[1])
        two = mixed(second, moved[0], early[0], early[1], moved[1])
        clusters = [
            tkw.cluster([[h[0] for h in half], casts[2:], fence(), one, fence(), wait]),
            tkw.cluster([[h[1] for h in half], fence(), two, fence(), wait]),
        ]
        tkw.reorder_graph(pipeline.KERNEL, clusters)
        tkw.unroll(pipeline.KERNEL, 2)
        tkw.insert_at_start(pipeline.KERNEL, tkw.MemoryCounterWaitBarrier(load=0))

    return uneven


def unrolled(factor, then_pipeline=False):
    @wave_schedule.wave_schedule()
    def repeated():
        loop = tkw.get_node_by_tag("k_loop")
        tkw.unroll(loop, factor)
        parts = [tkw.get_node_by_tag_and_iteration("mma", iteration=i) for i in range(factor)]
        assert all(len(part) == len(parts[0]) for part in parts)
        if then_pipeline:
            copies_a, fetches_a = copied("read_a")
            copies_b, fetches_b = copied("read_b")
            with tkw.pipeline(loop) as p:
                p.set_stage([(copies_a, copies_b), ()])
                p.set_stage([(fetches_a, fetches_b), (tkw.get_node_by_tag("mma"),)])

    return repeated


# ---- the list ----------------------------------------------------------------------------------


@dataclass
class Scheduled:
    kernel: Callable[[], Any]
    schedule: Any
    sizes: dict
    options: dict = field(default_factory=dict)


GEMM = {M: 100, N: 70, K: 320}
SCALED = {M: 80, N: 72, K: 1024}
DIRECT = {"use_global_to_shared": True}
SCALES = ("a_scale", "b_scale")


def scaled_case(schedule, b_space=SHARED_ADDRESS_SPACE, scale_space=SHARED_ADDRESS_SPACE):
    return Scheduled(lambda: scaled_gemm(b_space, scale_space), schedule, SCALED, DIRECT)


# Those that the public package ships, then those of its tutorials.
CASES = {
    "two_pp_cluster": Scheduled(gemm, two_clusters, GEMM),
    "async_two_pp_clusters": Scheduled(gemm, ahead_by(2), GEMM, DIRECT),
    "async_two_cluster_triple_buffer": Scheduled(gemm, ahead_by(3, unroll=2), GEMM, DIRECT),
    "gfx1250_tbuf_gemm": Scheduled(gemm, tensor_loads, GEMM, DIRECT),
    "attention_prefetch": Scheduled(
        attention, attention_prefetch, {M: 70, N: 32, K1: 32, K2: 200}, DIRECT
    ),
    "mxfp4_dbuf": scaled_case(double_buffer()),
    "mxfp4_dbuf_pingpong": scaled_case(
        double_buffer(SCALES), scale_space=GLOBAL_ADDRESS_SPACE
    ),
    "mxfp4_dbuf_pingpong_Bshuffled": scaled_case(
        double_buffer((*SCALES, "b")), GLOBAL_ADDRESS_SPACE, GLOBAL_ADDRESS_SPACE
    ),
    "mxfp4_dbuf_pingpong_Bshuffled_lds": scaled_case(
        double_buffer(SCALES, staggered=False), scale_space=GLOBAL_ADDRESS_SPACE
    ),
    "mxfp4_dbuf_mixed_pingpong": scaled_case(double_buffer(dims=(M,))),
    "mxfp4_dbuf_mixed_pingpong_shuffle": scaled_case(
        double_buffer(SCALES, dims=(N,)), scale_space=GLOBAL_ADDRESS_SPACE
    ),
    "mxfp4_asymmetric": scaled_case(asymmetric(), GLOBAL_ADDRESS_SPACE),
    "prefetch": Scheduled(gemm, prefetch, GEMM),
    "unroll": Scheduled(gemm, unrolled(5), GEMM),
    "unroll, then pipeline": Scheduled(gemm, unrolled(5, then_pipeline=True), GEMM, DIRECT),
}


def arguments(case: Scheduled, seed=1):
    """Tensors for a call, the last of which is the result."""
    rng = np.random.default_rng(seed)
    m, n = case.sizes[M], case.sizes[N]
    out = np.zeros((m, n), np.float32)
    if case.kernel is gemm:
        a, b = (rng.integers(-8, 9, (size, case.sizes[K])) / 8 for size in (m, n))
        return a.astype("f2"), b.astype("f2"), out
    if case.kernel in (attention, scaled_attention):
        k1, k2 = case.sizes[K1], case.sizes[K2]
        shapes = ((m, k1), (k2, k1), (n, k2))
        return *(rng.standard_normal(s).astype("f2") for s in shapes), out
    k = case.sizes[K]
    tensors = []
    for size in (m, n):
        tensors.append(rng.integers(-128, 128, (size, k // 2)).astype("i1"))
        tensors.append(rng.integers(124, 130, (size, k // 32)).astype("u1").view("i1"))
    return *tensors, out


def compiled(case: Scheduled, target: str, schedule: Any = None, **options):
    given = WaveCompileOptions(subs=case.sizes, target=target, **{**case.options, **options})
    return wave_compile(given, case.kernel(), schedule)


def result(kernel, case: Scheduled):
    tensors = arguments(case)
    kernel(*tensors)
    return tensors[-1]


def rows_of(kernel):
    return [r for r in map(str.strip, str(kernel.ir).splitlines()) if r.split(" ")[0] in ROWS]


ROWS = ("schedule", "ring", "at", "order", "prio", "fence", "turns")


def dropped(kernel):
    """The notes of the remark about what was dropped."""
    found = [r for r in kernel.remarks if getattr(r, "code", "") == "R0616"]
    assert len(found) <= 1
    return found[0] if found else None


# ---- the table ---------------------------------------------------------------------------------

DOCS = Path(__file__).resolve().parents[2] / "docs" / "schedules.md"
BEGIN, END = "<!-- begin: tests/python/scheduled.py -->", "<!-- end -->"
SHORT = {
    "waits and barriers": "waits",
    "priorities": "priorities",
    "scheduling barriers": "fences",
    "staggered waves": "stagger",
}


def short(note: str) -> str:
    what = note.removeprefix("dropped: ").split(": ")[0]
    what = re.sub(r" \(\d+\)$", "", what)
    if " parts of " in what:
        return "parts"
    if what.startswith("the order of "):
        return "order of instructions"
    return SHORT.get(what, re.sub(r" by \d+$", "", what))


def table_row(name: str, machine: str) -> str:
    case = CASES[name]
    kernel = compiled(case, f"sim:{machine}", case.schedule)
    rows = rows_of(kernel)
    loop = next((r for r in rows if r.startswith("schedule")), "")
    depth, interval = (re.search(rf"{w} (\d+)", loop) for w in ("depth", "interval"))
    slots = next((r.message for r in kernel.remarks if "keeps" in getattr(r, "message", "")), "")
    count = re.search(r"keeps (.*?)( of each operand| and |: )", slots)
    remark = dropped(kernel)
    notes = sorted({short(n.message) for n in remark.notes}) if remark else []
    level = "copies" if remark and "as far as copies" in remark.message else "all"
    if remark and "only copies run ahead" in remark.message:
        level = "copies, order"
    if remark and "as a whole" in remark.message:
        level = "whole ops"
    if not rows:
        level = "-"
    cells = [
        f"`{name}`" if machine == MACHINES[0] else "",
        machine,
        depth[1] if depth else "-",
        interval[1] if interval else "-",
        count[1].replace(" tiles", "").replace(" tile", "") if count else "-",
        level,
        ", ".join(notes),
    ]
    return "| " + " | ".join(cells) + " |"


def table() -> str:
    head = "| schedule | machine | stages | interval | slots | applied | dropped |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    lines += [table_row(name, machine) for name in CASES for machine in MACHINES]
    return "\n".join(lines)


def main() -> None:
    text = DOCS.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END, 1)
    DOCS.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")


if __name__ == "__main__":
    main()
