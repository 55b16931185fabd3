"""Verification of draft tokens: walks a tree of them from the root, accepting with the target's
probabilities, and draws the last token from what the target has more than the draft."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_tiles import check_sizes

BATCH, NODE, SPECULATIVE, SEQUENCE, VOCABULARY, STEP = (
    getattr(tkl.sym, name)
    for name in "BATCH_SIZE NUM_DRAFT_TOKENS NUM_SPECULATIVE_TOKENS SEQ_LEN VOCAB_SIZE STEP".split()
)
BLOCK_V = tkl.sym.BLOCK_V
GLOBAL = GLOBAL_ADDRESS_SPACE
NOWHERE = -1  # an index that no tensor has: what is written there is dropped

_i, _j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
_x, _y = tkw.IndexMapping.dynamic_val(0), tkw.IndexMapping.dynamic_val(1)
_own = {BATCH: _i}
ROOT = tkw.IndexMapping(1, inputs={BATCH: _i, NODE: 0}, outputs=_own)
NODE_OF = tkw.IndexMapping(
    1, inputs={BATCH: _i, NODE: _x}, outputs=_own, dynamic_val_mappings=({BATCH: _i},)
)
_probability = {BATCH: _i, NODE: _x, VOCABULARY: _y}
_token = tkw.IndexMapping(
    1, inputs=_probability, outputs=_own, dynamic_val_mappings=({BATCH: _i}, {BATCH: _i})
)
_to_token = tkw.IndexMapping(
    1, inputs=_own, outputs=_probability, dynamic_val_mappings=({BATCH: _i}, {BATCH: _i})
)
TO_PREDICTS = tkw.IndexMapping(
    1, inputs=_own, outputs={SEQUENCE: _x}, dynamic_val_mappings=({BATCH: _i},)
)
TO_ACCEPTED = tkw.IndexMapping(
    1, inputs=_own, outputs={BATCH: _i, SPECULATIVE: _x}, dynamic_val_mappings=({BATCH: _i},)
)
_row = tkw.IndexMapping(
    2,
    inputs={BATCH: _i, NODE: _x, VOCABULARY: _j},
    outputs={BATCH: _i, VOCABULARY: _j},
    dynamic_val_mappings=({BATCH: _i},),
)


def whole(value: int) -> Any:
    return tkl.Register[BATCH, tkl.i32](value)


def narrow(value: Any) -> Any:
    """Tokens and nodes as i32."""
    return tkw.cast(value, tkl.i32) if value.dtype == tkl.i64 else value


def at_node(memory: Any, node: Any) -> Any:
    return narrow(tkw.read(memory, mapping=NODE_OF, mapping_dynamic_vals=(node,)))


class Tree:
    """The tensors of a tree, and the walk through it."""

    def __init__(self, coins, target, draft, candidates, index, next_token, next_sibling):
        self.coins, self.target, self.draft = coins, target, draft
        self.candidates, self.index = candidates, index
        self.next_token, self.next_sibling = next_token, next_sibling

    def walk(self, limit, threshold_acc, threshold_single, predicts, accept_index):
        """Visits one node per iteration: the first child of an accepted node, or the next sibling
        of a rejected one. Returns how many were accepted, the node whose probabilities count next,
        and where its token is predicted."""
        zero, no = tkl.Register[BATCH, tkl.f32](0.0), whole(NOWHERE)
        first = narrow(tkw.read(self.index, mapping=ROOT))
        tkw.write(first, accept_index, mapping=TO_ACCEPTED, mapping_dynamic_vals=(whole(0),))
        child = narrow(tkw.read(self.next_token, mapping=ROOT))
        coin = tkw.read(self.coins, mapping=ROOT)
        open_ = lambda node, count: tkw.cast((node >= whole(0)) & (count < limit), tkl.i32)
        state = [open_(child, whole(0)), child, whole(0), whole(0), first, zero, coin]
        more = (STEP < NODE) & (GET_ITER_ARG(0) > 0)  # each node at most once

        @tkw.iterate(STEP, start=tkw.scalar(0, tkl.i32), condition=more, init_args=state)
        def visit(_, node, parent, count, last, mass, coin):
            tkw.set_symbol(STEP, tkw.scalar(STEP, tkl.i32) + 1)
            token, place = at_node(self.candidates, node), at_node(self.index, node)
            at = (parent, token)
            p = tkw.read(self.target, mapping=_token, mapping_dynamic_vals=at)
            mass = mass + p
            taken = (coin * threshold_acc <= mass) | (p >= zero + threshold_single)
            rejected = tkw.select(taken, no, token)
            tkw.write(
                p, self.draft, mapping=_to_token, mapping_dynamic_vals=(parent, rejected)
            )
            to = tkw.select(taken, last, no)
            tkw.write(token, predicts, mapping=TO_PREDICTS, mapping_dynamic_vals=(to,))
            count = tkw.select(taken, count + 1, count)
            to = tkw.select(taken, count, no)
            tkw.write(place, accept_index, mapping=TO_ACCEPTED, mapping_dynamic_vals=(to,))
            child, beside = (at_node(x, node) for x in (self.next_token, self.next_sibling))
            following = tkw.select(taken, child, beside)
            return (
                open_(following, count),
                following,
                tkw.select(taken, node, parent),
                count,
                tkw.select(taken, place, last),
                tkw.select(taken, zero, mass),
                tkw.select(taken, at_node(self.coins, node), coin),
            )

        return visit[3], visit[2], visit[4]

    def surplus(self, node, none_left):
        """What the target has more than the draft, of this iteration's tokens; the draft counts as
        0 if every draft token was accepted."""
        p = tkw.read(self.target, mapping=_row, mapping_dynamic_vals=(node,))
        q = tkw.read(self.draft, mapping=_row, mapping_dynamic_vals=(node,))
        zero = tkl.Register[BATCH, VOCABULARY, tkl.f32](0.0)
        return tkw.maximum(tkw.select(none_left, p, p - q), zero)

    def draw(self, node, none_left, coin):
        """The token at which the sum of the surplus passes `coin` times the whole: the inverse of
        its distribution. If the sums do not get there by rounding, the last token with any."""
        f_zero, far = tkl.Register[BATCH, tkl.f32](0.0), VOCABULARY - 1

        @tkw.iterate(VOCABULARY, init_args=[f_zero])
        def total(so_far):
            return tkw.sum(self.surplus(node, none_left), so_far, dim=VOCABULARY)

        goal = coin * total

        @tkw.iterate(VOCABULARY, init_args=[f_zero, whole(far), whole(NOWHERE)])
        def search(before, found, last):
            extra = self.surplus(node, none_left)
            sums = tkw.cumsum(extra, dim=VOCABULARY) + before
            token = tkw.broadcast(tkw.self_index(VOCABULARY, tkl.i32), [BATCH, VOCABULARY])
            some = extra > tkl.Register[BATCH, VOCABULARY, tkl.f32](0.0)
            every = tkl.Register[BATCH, VOCABULARY, tkl.i32]
            passed = tkw.select(some & (sums > goal), token, every(far))
            present = tkw.select(some, token, every(NOWHERE))
            return (
                tkw.sum(extra, before, dim=VOCABULARY),
                tkw.min(passed, found, dim=VOCABULARY),
                tkw.max(present, last, dim=VOCABULARY),
            )

        _, found, last = search
        missed = (found == whole(far)) & (last >= whole(0))
        return tkw.select(missed, last, found)


def get_speculative_sampling_kernel(
    batch_size: int,
    num_speculative_tokens: int,
    threshold_acc: float,
    threshold_single: float,
    num_draft_tokens: int,
    vocab_size: int,
    seq_len: int,
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """`speculative_sampling(uniform_samples, uniform_samples_for_final_sampling, target_probs,
    draft_probs, candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling,
    num_spec_tokens, predicts, accept_token_num, accept_index)`.

    A child is accepted if its coin is at most the target's mass of it and its rejected siblings,
    divided by `threshold_acc`, or if its own mass is at least `threshold_single`. The mass of a
    rejected child is written to the draft's probabilities of its parent.
    """
    check_sizes(
        batch_size=batch_size,
        num_speculative_tokens=num_speculative_tokens,
        num_draft_tokens=num_draft_tokens,
        vocab_size=vocab_size,
        seq_len=seq_len,
    )
    for name, value in (("threshold_acc", threshold_acc), ("threshold_single", threshold_single)):
        if not value >= 0:
            raise ValueError(f"`{name}` is {value}, expected at least 0")
    constraints = [
        tkw.WorkgroupConstraint(BATCH, 1, 0),
        tkw.TilingConstraint(VOCABULARY, BLOCK_V),
        tkw.TilingConstraint(STEP),
        tkw.HardwareConstraint(
            threads_per_wave=64, vector_shapes={BATCH: 0, NODE: 0, SPECULATIVE: 0}
        ),
    ]
    nodes = tkl.Memory[BATCH, NODE, GLOBAL, tkl.i32]
    rows = tkl.Memory[BATCH, NODE, VOCABULARY, GLOBAL, tkl.f32]

    @tkw.wave(constraints)
    def speculative_sampling(
        uniform_samples: tkl.Memory[BATCH, NODE, GLOBAL, tkl.f32],
        uniform_samples_for_final_sampling: tkl.Memory[BATCH, GLOBAL, tkl.f32],
        target_probs: rows,
        draft_probs: rows,
        candidates: nodes,
        retrieve_index: nodes,
        retrieve_next_token: nodes,
        retrieve_next_sibling: nodes,
        num_spec_tokens: tkl.i32,
        predicts: tkl.Memory[SEQUENCE, GLOBAL, tkl.i32],
        accept_token_num: tkl.Memory[BATCH, GLOBAL, tkl.i32],
        accept_index: tkl.Memory[BATCH, SPECULATIVE, GLOBAL, tkl.i32],
    ):
        tree = Tree(
            uniform_samples,
            target_probs,
            draft_probs,
            candidates,
            retrieve_index,
            retrieve_next_token,
            retrieve_next_sibling,
        )
        limit = tkw.broadcast(num_spec_tokens, [BATCH]) - 1
        count, node, last = tree.walk(
            limit, float(threshold_acc), float(threshold_single), predicts, accept_index
        )
        tkw.write(count, accept_token_num)
        none_left = tkw.broadcast(count >= limit, [BATCH, VOCABULARY])
        token = tree.draw(node, none_left, tkw.read(uniform_samples_for_final_sampling))
        tkw.write(token, predicts, mapping=TO_PREDICTS, mapping_dynamic_vals=(last,))

    hyperparams = {
        BATCH: batch_size,
        NODE: num_draft_tokens,
        SPECULATIVE: num_speculative_tokens,
        SEQUENCE: seq_len,
        VOCABULARY: vocab_size,
        BLOCK_V: min(1024, -(-vocab_size // 64) * 64),
    }
    return speculative_sampling, hyperparams, []
