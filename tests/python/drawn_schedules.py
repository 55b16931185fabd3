"""Random schedule functions: each is refused, or gives the results of the kernel without it.

    tests/python/drawn_schedules.py [SEED [COUNT]]
"""

import random
import sys

import numpy as np
import scheduled
from scheduled import M, N, K, attention, compiled, gemm, scaled_gemm

import wave_lang.kernel.wave as tkw
from wave_lang import CompileError
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE
from wave_lang.kernel.wave import wave_schedule

TARGETS = ("sim:gfx942", "sim:gfx950", "sim:gfx1250", "sim:sm_90a", "sim:sm_80", "sim:gfx1100")
REFUSED = ("E0620", "E0218")
# A loop, then tags of its ops in the order in which they were written.
TAGS = {
    gemm: ("k_loop", "read_a", "read_b", "mma"),
    attention: ("kv_loop", "read_k", "mma_qk", "turned", "row_max", "delta", "shrink", "moved",
                "weights", "shrunk_sum", "row_sum", "rounded", "shrunk_out", "read_v", "mma_pv"),
    scaled_gemm: ("k_loop", "read_a", "bitcast_a", "read_a_scale", "bitcast_a_scale", "read_b",
                  "bitcast_b", "read_b_scale", "bitcast_b_scale", "scaled_mma"),
}  # fmt: skip
CLASSES = (tkw.GatherToLDS, tkw.Write, tkw.Read)


def parts(rng, nodes):
    """Mostly the list itself."""
    if not nodes or rng.random() < 0.7:
        return [nodes]
    return tkw.partition_by_dim(nodes, dim=rng.choice([M, N, K]), num_partitions=rng.choice([2, 2, 3, 4]))


def groups(rng, tags):
    """Lists of nodes that are placed together."""
    found = []
    for tag in tags:
        nodes = tkw.get_node_by_tag(tag)
        if not tag.startswith("read_"):
            found.append(nodes)
            continue
        loads, others = tkw.partition_by_address_space(nodes, GLOBAL_ADDRESS_SPACE)
        found.append(loads)
        found += [tkw.filter_nodes(others, node_type=c) for c in CLASSES]
    found = [part for nodes in found for part in parts(rng, nodes)]
    return [nodes for nodes in found if nodes and rng.random() < 0.95]


def places(rng, n, depth, interval):
    """A time for each group: mostly one after the other, as the data flows."""
    times = sorted(rng.randrange(depth * interval) for _ in range(n))
    if rng.random() < 0.3:
        i, j = rng.randrange(n), rng.randrange(n)
        times[i], times[j] = times[j], times[i]
    return times


def order(rng, lists):
    """The lists in another order, some of them in parts that are mixed with others."""
    lists = [part for x in lists if x for part in parts(rng, x) if part]
    if rng.random() < 0.5:
        rng.shuffle(lists)
    if rng.random() < 0.4 and len(lists) > 1:
        mixed = tkw.interleave_operations(lists[0], lists[1:], intervals=rng.randint(1, 3))
        return [tkw.cluster([mixed])]
    return [tkw.cluster([x, tkw.SchedulingBarrier([])]) for x in lists]


def drawn(rng, tags):
    @wave_schedule.wave_schedule()
    def function():
        loop = tkw.get_node_by_tag(tags[0])
        depth, interval = rng.randint(1, 4), rng.randint(1, 3)
        if rng.random() < 0.1:
            tkw.unroll(loop, rng.randint(2, 5))
        lists = groups(rng, tags[1:])
        times = places(rng, len(lists), depth, interval)
        slots = rng.choice([None, None, None, 1, 2, 3])
        masked = rng.random() < 0.3
        pipeline = tkw.pipeline(loop, eliminate_epilogue=masked, multi_buffer_count=slots)
        with pipeline as p:
            for stage in range(depth):
                cycles = range(stage * interval, (stage + 1) * interval)
                p.set_stage([tuple(x for x, t in zip(lists, times) if t == c) for c in cycles])
        if rng.random() < 0.6:
            by_time = sorted(range(len(lists)), key=lambda i: (times[i] % interval, -times[i], i))
            steady = [tkw.filter_nodes(lists[i], subgraph=pipeline.KERNEL) for i in by_time]
            tkw.reorder_graph(pipeline.KERNEL, order(rng, steady))
        if rng.random() < 0.2:
            tkw.stagger(pipeline.KERNEL)

    return function


def draw(seed):
    """"refused", or "obeyed"; raises if the results differ."""
    rng = random.Random(seed)
    make = rng.choice(list(TAGS))
    sizes = {
        gemm: {M: rng.randint(1, 70), N: rng.randint(1, 70), K: rng.randint(0, 400)},
        attention: {M: 40, N: 32, scheduled.K1: 32, scheduled.K2: rng.randint(1, 200)},
        scaled_gemm: {M: 40, N: 33, K: 256 * rng.randint(1, 5)},
    }[make]
    options = {"use_global_to_shared": True} if rng.random() < 0.5 else {}
    case = scheduled.Scheduled(make, None, sizes, options)
    target = rng.choice(TARGETS)
    try:
        kernel = compiled(case, target, drawn(rng, TAGS[make]))
    except CompileError as error:
        found = [d for d in error.diagnostics if d.severity == "error"]
        assert len(found) == 1 and found[0].code in REFUSED, error
        assert found[0].code == "E0218" or len(found[0].notes) >= 2, error
        return "refused"
    tensors = scheduled.arguments(case, seed)
    orders = rng.choice(["round", "reverse", f"random:{seed}"])
    assert kernel.simulate(*tensors, schedule=orders).findings == []
    plain = scheduled.arguments(case, seed)
    compiled(case, target)(*plain)
    assert np.array_equal(tensors[-1], plain[-1], equal_nan=True), (seed, target)
    return "obeyed"


def main():
    seed, count = (list(map(int, sys.argv[1:])) + [1, 100])[:2] if len(sys.argv) > 2 else (1, 100)
    done = {"refused": 0, "obeyed": 0}
    for i in range(seed, seed + count):
        try:
            done[draw(i)] += 1
        except Exception as error:
            print(f"seed {i}: {type(error).__name__}: {error}")
    print(done)


if __name__ == "__main__":
    main()
