"""Kernels of speculative decoding: draft tokens are verified along a tree or a chain, one workgroup
for each sequence."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang import sym
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave.templates.speculative_decoding import *

OTHER = sym.OTHER  # nodes, as another dimension

_i, _j, _k = (tkw.IndexMapping.iterator(n) for n in range(3))
_x = tkw.IndexMapping.dynamic_val(0)


def _constraints() -> list[Any]:
    return [
        tkw.WorkgroupConstraint(BATCH, 1, 0),
        tkw.TilingConstraint(VOCABULARY, 1024),
        tkw.TilingConstraint(STEP),
        tkw.HardwareConstraint(
            threads_per_wave=64, vector_shapes={BATCH: 0, NODE: 0, SPECULATIVE: 0}
        ),
    ]


def tree_sampling(index: Any) -> Any:
    """`tree_sampling(coins, final coins, target, draft, candidates, index, next_token,
    next_sibling, limit, threshold_acc, threshold_single, predicts, count, accepted)`; `index` is
    the type of nodes and candidates."""
    nodes = tkl.Memory[BATCH, NODE, GLOBAL, index]
    rows = tkl.Memory[BATCH, NODE, VOCABULARY, GLOBAL, tkl.f32]

    @tkw.wave(_constraints())
    def tree_sampling(
        coins: tkl.Memory[BATCH, NODE, GLOBAL, tkl.f32],
        final_coins: tkl.Memory[BATCH, GLOBAL, tkl.f32],
        target: rows,
        draft: rows,
        candidates: nodes,
        retrive_index: nodes,
        next_token: nodes,
        next_sibling: nodes,
        limit: tkl.i32,
        threshold_acc: tkl.f32,
        threshold_single: tkl.f32,
        predicts: tkl.Memory[SEQUENCE, GLOBAL, tkl.i32],
        count: tkl.Memory[BATCH, GLOBAL, tkl.i32],
        accepted: tkl.Memory[BATCH, SPECULATIVE, GLOBAL, tkl.i32],
    ):
        tree = Tree(coins, target, draft, candidates, retrive_index, next_token, next_sibling)
        most = tkw.broadcast(limit, [BATCH])
        thresholds = (tkw.broadcast(x, [BATCH]) for x in (threshold_acc, threshold_single))
        found, node, last = tree.walk(most, *thresholds, predicts, accepted)
        tkw.write(found, count)
        none_left = tkw.broadcast(found >= most, [BATCH, VOCABULARY])
        token = tree.draw(node, none_left, tkw.read(final_coins))
        tkw.write(token, predicts, mapping=TO_PREDICTS, mapping_dynamic_vals=(last,))

    return tree_sampling, {}, [BATCH, NODE, VOCABULARY, SEQUENCE, SPECULATIVE]


def tree_greedy(index: Any) -> Any:
    """`tree_greedy(candidates, index, next_token, next_sibling, predicted, limit, predicts, count,
    accepted)`: `predicted` has the target's token after each node, by its place in `predicts`."""
    nodes = tkl.Memory[BATCH, NODE, GLOBAL, index]
    token_of = tkw.IndexMapping(
        1, inputs={SEQUENCE: _x}, outputs={BATCH: _i}, dynamic_val_mappings=({BATCH: _i},)
    )

    @tkw.wave(_constraints())
    def tree_greedy(
        candidates: nodes,
        retrive_index: nodes,
        next_token: nodes,
        next_sibling: nodes,
        predicted: tkl.Memory[SEQUENCE, GLOBAL, index],
        limit: tkl.i32,
        predicts: tkl.Memory[SEQUENCE, GLOBAL, tkl.i32],
        count: tkl.Memory[BATCH, GLOBAL, tkl.i32],
        accepted: tkl.Memory[BATCH, SPECULATIVE, GLOBAL, tkl.i32],
    ):
        most, no, none = tkw.broadcast(limit, [BATCH]), whole(NOWHERE), whole(0)
        after = lambda at: narrow(tkw.read(predicted, mapping=token_of, mapping_dynamic_vals=(at,)))
        first = narrow(tkw.read(retrive_index, mapping=ROOT))
        tkw.write(first, accepted, mapping=TO_ACCEPTED, mapping_dynamic_vals=(none,))
        child = narrow(tkw.read(next_token, mapping=ROOT))
        is_open = lambda node, found: tkw.cast((node >= none) & (found < most), tkl.i32)
        state = [is_open(child, none), child, none, first]
        more = (STEP < NODE) & (GET_ITER_ARG(0) > 0)  # each node at most once

        @tkw.iterate(STEP, start=tkw.scalar(0, tkl.i32), condition=more, init_args=state)
        def visit(_, node, found, last):
            tkw.set_symbol(STEP, tkw.scalar(STEP, tkl.i32) + 1)
            wanted, place = after(last), at_node(retrive_index, node)
            taken = at_node(candidates, node) == wanted
            to = tkw.select(taken, last, no)
            tkw.write(wanted, predicts, mapping=TO_PREDICTS, mapping_dynamic_vals=(to,))
            found = tkw.select(taken, found + 1, found)
            to = tkw.select(taken, found, no)
            tkw.write(place, accepted, mapping=TO_ACCEPTED, mapping_dynamic_vals=(to,))
            following = tkw.select(taken, at_node(next_token, node), at_node(next_sibling, node))
            return is_open(following, found), following, found, tkw.select(taken, place, last)

        tkw.write(visit[2], count)
        tkw.write(after(visit[3]), predicts, mapping=TO_PREDICTS, mapping_dynamic_vals=(visit[3],))

    return tree_greedy, {}, [BATCH, NODE, SEQUENCE, SPECULATIVE]


def chain(index: Any) -> Any:
    """`chain(coins, final coins, target, draft, tokens, drafts, out, count)`: the target has
    probabilities after each of `drafts` tokens, and after none."""
    free = tkl.MemoryLayout(shape=[None, None, None])
    some = tkl.MemoryLayout(shape=[None, None])
    token_of = tkw.IndexMapping(
        1,
        inputs={BATCH: _i, NODE: _x, VOCABULARY: tkw.IndexMapping.dynamic_val(1)},
        outputs={BATCH: _i},
        dynamic_val_mappings=({BATCH: _i}, {BATCH: _i}),
    )
    to_out = tkw.IndexMapping(
        1, inputs={BATCH: _i}, outputs={BATCH: _i, NODE: _x}, dynamic_val_mappings=({BATCH: _i},)
    )

    @tkw.wave(_constraints())
    def chain(
        coins: tkl.Memory[BATCH, NODE, GLOBAL, tkl.f32, some],
        final_coins: tkl.Memory[BATCH, GLOBAL, tkl.f32],
        target: tkl.Memory[BATCH, NODE, VOCABULARY, GLOBAL, tkl.f32],
        draft: tkl.Memory[BATCH, NODE, VOCABULARY, GLOBAL, tkl.f32, free],
        tokens: tkl.Memory[BATCH, NODE, GLOBAL, index, some],
        drafts: tkl.i32,
        out: tkl.Memory[BATCH, NODE, GLOBAL, tkl.i32],
        count: tkl.Memory[BATCH, GLOBAL, tkl.i32],
    ):
        most, no = tkw.broadcast(drafts, [BATCH]), whole(NOWHERE)
        open_ = lambda found: tkw.cast(found < most, tkl.i32)
        more = (STEP < NODE) & (GET_ITER_ARG(0) > 0)
        state = [open_(whole(0)), whole(0)]

        @tkw.iterate(STEP, start=tkw.scalar(0, tkl.i32), condition=more, init_args=state)
        def visit(_, found):
            tkw.set_symbol(STEP, tkw.scalar(STEP, tkl.i32) + 1)
            token = at_node(tokens, found)
            p, q = (
                tkw.read(memory, mapping=token_of, mapping_dynamic_vals=(found, token))
                for memory in (target, draft)
            )
            coin = tkw.read(coins, mapping=NODE_OF, mapping_dynamic_vals=(found,))
            taken = coin * q < p
            to = tkw.select(taken, found, no)
            tkw.write(token, out, mapping=to_out, mapping_dynamic_vals=(to,))
            following = tkw.select(taken, found + 1, found)
            stop = whole(0)
            return tkw.select(taken, open_(following), stop), following

        tkw.write(visit[1], count)
        none_left = tkw.broadcast(visit[1] >= most, [BATCH, VOCABULARY])
        tree = Tree(coins, target, draft, tokens, None, None, None)
        token = tree.draw(visit[1], none_left, tkw.read(final_coins))
        tkw.write(token, out, mapping=to_out, mapping_dynamic_vals=(visit[1],))

    return chain, {}, [BATCH, NODE, VOCABULARY]


def links(nodes: int) -> Any:
    """`links(parents, index, next_token, next_sibling)`: the number of each node among those of all
    trees, its first child, and the next node with the same parent; -1: none."""
    constraints = [
        tkw.WorkgroupConstraint(BATCH, 1, 0),
        tkw.HardwareConstraint(
            threads_per_wave=64, vector_shapes={BATCH: 0, NODE: 1, OTHER: OTHER}
        ),
    ]
    other_of = tkw.IndexMapping(
        2, inputs={BATCH: _i, NODE: _j}, outputs={BATCH: _i, OTHER: _j}
    )
    memory, dims = tkl.Memory[BATCH, NODE, GLOBAL, tkl.i32], [BATCH, NODE, OTHER]

    @tkw.wave(constraints)
    def links(parents: memory, index: memory, next_token: memory, next_sibling: memory):
        mine = tkw.broadcast(tkw.read(parents), dims)
        theirs = tkw.broadcast(tkw.read(parents, mapping=other_of), dims)
        here = tkw.broadcast(tkw.self_index(NODE, tkl.i32), dims)
        there = tkw.broadcast(tkw.self_index(OTHER, tkl.i32), dims)
        far = tkw.register(dims, tkl.i32, nodes)

        def first(among: Any) -> Any:
            found = tkw.min(tkw.select(among, there, far), dim=OTHER)
            none = tkw.register([BATCH, NODE], tkl.i32, NOWHERE)
            return tkw.select(found < tkw.register([BATCH, NODE], tkl.i32, nodes), found, none)

        both = [BATCH, NODE]
        number = tkw.broadcast(tkw.self_index(BATCH, tkl.i32) * nodes, both)
        tkw.write(number + tkw.broadcast(tkw.self_index(NODE, tkl.i32), both), index)
        tkw.write(first(theirs == here), next_token)
        tkw.write(first((theirs == mine) & (there > here)), next_sibling)

    return links, {NODE: nodes, OTHER: nodes}, [BATCH]


def ancestors(nodes: int) -> Any:
    """`ancestors(parents, depths, mask)`: how far each node is from the root, and which nodes are
    on the way, itself included; one workgroup for each node."""
    constraints = [
        tkw.WorkgroupConstraint(BATCH, 1, 0),
        tkw.WorkgroupConstraint(NODE, 1, 1),
        tkw.TilingConstraint(STEP, 1),
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={BATCH: 0, NODE: 0}),
    ]
    above = tkw.IndexMapping(
        2,
        inputs={BATCH: _i, NODE: _x},
        outputs={BATCH: _i, NODE: _j},
        dynamic_val_mappings=({BATCH: _i, NODE: _j},),
    )
    memory, dims = tkl.Memory[BATCH, NODE, GLOBAL, tkl.i32], [BATCH, NODE, OTHER]

    @tkw.wave(constraints)
    def ancestors(
        parents: memory, depths: memory, mask: tkl.Memory[BATCH, NODE, OTHER, GLOBAL, tkl.i8]
    ):
        none, one = (tkw.register([BATCH, NODE], tkl.i32, n) for n in (0, 1))
        at = tkw.broadcast(tkw.self_index(NODE, tkl.i32), [BATCH, NODE])
        there = tkw.broadcast(tkw.self_index(OTHER, tkl.i32), dims)
        seen = tkw.cast(there == tkw.broadcast(at, dims), tkl.i32)

        @tkw.iterate(STEP, init_args=[at, none, seen])
        def walk(node, depth, seen):
            known = tkw.maximum(node, none)
            parent = tkw.read(parents, mapping=above, mapping_dynamic_vals=(known,))
            parent = tkw.select(node >= none, parent, -one)
            marked = tkw.cast(there == tkw.broadcast(parent, dims), tkl.i32)
            return parent, tkw.select(parent >= none, depth + 1, depth), seen | marked

        tkw.write(walk[1], depths)
        tkw.write(tkw.cast(walk[2], tkl.i8), mask)

    return ancestors, {NODE: nodes, OTHER: nodes, STEP: nodes}, [BATCH]
