"""Verification of draft tokens, which form a tree or a chain."""

from __future__ import annotations

from typing import Any

from wave_lang.kernel import lang as tkl

from . import speculative_kernels as kernels
from .operators import operator
from .programs import program
from .tensors import *

INDICES = ("i32", "i64")
TREE = (
    "Tensor(a!) predicts, Tensor(b!) accept_index, Tensor(c!) accept_token_num, Tensor candidates,"
    " Tensor retrive_index, Tensor retrive_next_token, Tensor retrive_next_sibling"
)


def _checked(name: str, x: Any, types: Any, shape: Any) -> Any:
    """An argument; an extent of None may be any."""
    x = tensor(name, x)
    element_type(name, x, types)
    if len(x.shape) != len(shape) or any(m is not None and n != m for n, m in zip(x.shape, shape)):
        wanted = tuple("any" if n is None else n for n in shape)
        raise ValueError(f"`{name}` has the shape {tuple(x.shape)}, expected {wanted}")
    return x


def _apart(**given: Any) -> None:
    """Raises if tensors that are written, which come first, share memory with others."""
    rows = list(given.items())
    for i, (name, x) in enumerate(rows[:4]):
        for _, other in rows[i + 1 :]:
            if not has_shapes_only() and overlap(x, other):
                raise ValueError(f"`{name}` shares memory with another argument")


def _tree(
    predicts: Any, accept_index: Any, accept_token_num: Any, candidates: Any, *links: Any
) -> tuple[Any, list[Any], list[Any]]:
    """The type of nodes, the results and the tree, checked."""
    candidates = _checked("candidates", candidates, INDICES, (None, None))
    shape, index = tuple(candidates.shape), wave_dtype(candidates.dtype)
    if shape[1] < 1:
        raise ValueError(f"`candidates` has the shape {shape}, expected at least the root")
    names = ("retrive_index", "retrive_next_token", "retrive_next_sibling")
    tree = [candidates]
    tree += [_checked(name, x, (index.name,), shape) for name, x in zip(names, links)]
    predicts = _checked("predicts", predicts, ("i32",), (None,))
    accepted = _checked("accept_index", accept_index, ("i32",), (shape[0], None))
    count = _checked("accept_token_num", accept_token_num, ("i32",), (shape[0],))
    if accepted.shape[1] < 1:
        raise ValueError("`accept_index` has no column, expected one for each accepted token")
    return index, [predicts, count, accepted], tree


@operator(
    f"tree_sampling_target_only({TREE}, Tensor uniform, Tensor uniform_final, Tensor target_probs,"
    " Tensor(d!) draft_probs, *, float threshold_single=1.0, float threshold_acc=1.0) -> ()"
)
def tree_sampling_target_only(
    predicts: Any,
    accept_index: Any,
    accept_token_num: Any,
    candidates: Any,
    retrive_index: Any,
    retrive_next_token: Any,
    retrive_next_sibling: Any,
    uniform: Any,
    uniform_final: Any,
    target_probs: Any,
    draft_probs: Any,
    *,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
) -> None:
    """Walks trees of draft tokens, `candidates` [B, nodes], from the root, node 0, and accepts
    tokens with the target's probabilities [B, nodes, V].

    `retrive_next_token` and `retrive_next_sibling` have the first child of a node and the next one
    of the same parent (-1: none), `retrive_index` the place of a node in `predicts`. Children are
    tried in order: one is accepted if the coin of their parent, of `uniform` [B, nodes], is at most
    the mass of it and the siblings before it, divided by `threshold_acc`, or if its probability is
    at least `threshold_single`. The probabilities of rejected ones are written to `draft_probs`,
    and the last token is drawn, with `uniform_final` [B], from what the target has more than that.

    `accept_index` [B, tokens] gets the places of the accepted nodes, the root first,
    `accept_token_num` [B] their number without the root, and `predicts` the token after each.
    """
    index, results, tree = _tree(
        *(predicts, accept_index, accept_token_num, candidates),
        *(retrive_index, retrive_next_token, retrive_next_sibling),
    )
    shape = tuple(tree[0].shape)
    coins = _checked("uniform", uniform, ("f32",), shape)
    final = _checked("uniform_final", uniform_final, ("f32",), shape[:1])
    target = _checked("target_probs", target_probs, ("f32",), (*shape, None))
    draft = _checked("draft_probs", draft_probs, ("f32",), tuple(target.shape))
    if target.shape[2] < 1:
        raise ValueError("`target_probs` has no token")
    for name, value in (("threshold_single", threshold_single), ("threshold_acc", threshold_acc)):
        if not value >= 0:
            raise ValueError(f"`{name}` is {value}, expected at least 0")
    names = ("predicts", "accept_token_num", "accept_index")
    _apart(**dict(zip(names, results)), draft_probs=draft, target_probs=target, uniform=coins)
    if not is_empty(coins):
        limit = results[2].shape[1] - 1
        program(kernels.tree_sampling, index)(
            *(coins, final, target, draft, *tree, limit, threshold_acc, threshold_single), *results
        )


@operator(f"verify_tree_greedy({TREE}, Tensor target_predict) -> ()")
def verify_tree_greedy(
    predicts: Any,
    accept_index: Any,
    accept_token_num: Any,
    candidates: Any,
    retrive_index: Any,
    retrive_next_token: Any,
    retrive_next_sibling: Any,
    target_predict: Any,
) -> None:
    """The same without chance: a child is accepted if it is the target's token after its parent,
    `target_predict` [B, nodes], which is in the order of `predicts`."""
    index, results, tree = _tree(
        *(predicts, accept_index, accept_token_num, candidates),
        *(retrive_index, retrive_next_token, retrive_next_sibling),
    )
    wanted = _checked("target_predict", target_predict, (index.name,), tuple(tree[0].shape))
    wanted = flat("target_predict", wanted)
    expect_shape("predicts", results[0], wanted.shape)
    names = ("predicts", "accept_token_num", "accept_index")
    _apart(**dict(zip(names, results)), target_predict=wanted, candidates=tree[0])
    if not is_empty(tree[0]):
        limit = results[2].shape[1] - 1
        program(kernels.tree_greedy, index)(*tree, wanted, limit, *results)


@operator(
    "chain_sampling(Tensor draft_probs, Tensor draft_tokens, Tensor target_probs, Tensor uniform,"
    " Tensor uniform_final) -> (Tensor tokens, Tensor accepted)"
)
def chain_sampling(
    draft_probs: Any,
    draft_tokens: Any,
    target_probs: Any,
    uniform: Any,
    uniform_final: Any,
    *,
    tokens: Any = None,
    accepted: Any = None,
) -> tuple[Any, Any]:
    """(tokens, accepted) of chains of n draft tokens [B, n], which were drawn from `draft_probs`
    [B, n, V]: a token is accepted with the probability target / draft, by the coin `uniform` [B,
    n]. Instead of the first that is rejected, one is drawn from what the target has more than the
    draft, by the coin `uniform_final` [B]; after n accepted ones, from the last row of
    `target_probs` [B, n + 1, V].

    Tokens [B, n + 1] are distributed as those that the target draws alone; after the last, they are
    -1. `accepted` [B] is the number of draft tokens among them.
    """
    draft_tokens = _checked("draft_tokens", draft_tokens, INDICES, (None, None))
    batch, number = draft_tokens.shape
    target = _checked("target_probs", target_probs, ("f32",), (batch, number + 1, None))
    draft = _checked("draft_probs", draft_probs, ("f32",), (batch, number, target.shape[2]))
    coins = _checked("uniform", uniform, ("f32",), (batch, number))
    final = _checked("uniform_final", uniform_final, ("f32",), (batch,))
    if target.shape[2] < 1:
        raise ValueError("`target_probs` has no token")
    inputs = (draft, draft_tokens, coins, final)
    tokens = result("tokens", tokens, target, (batch, number + 1), tkl.i32, *inputs)
    accepted = result("accepted", accepted, target, (batch,), tkl.i32, *inputs, tokens)
    if not is_empty(target):
        tokens[...] = -1
        key = wave_dtype(draft_tokens.dtype)
        program(kernels.chain, key)(
            coins, final, target, draft, draft_tokens, number, tokens, accepted
        )
    return tokens, accepted


@operator(
    "build_tree(Tensor parents) -> (Tensor index, Tensor next_token, Tensor next_sibling,"
    " Tensor depths, Tensor mask)"
)
def build_tree(
    parents: Any,
    *,
    index: Any = None,
    next_token: Any = None,
    next_sibling: Any = None,
    depths: Any = None,
    mask: Any = None,
) -> tuple[Any, ...]:
    """(index, next_token, next_sibling, depths, mask) of trees whose node n has the parent
    `parents[b, n]`, which is before it; the root, node 0, has -1.

    The first three are [B, nodes], as verification takes them, with places in one row of all trees;
    `depths` are the distances from the root, which positions of tokens begin with, and `mask` [B,
    nodes, nodes] has the bytes 1 where a node sees another: itself and the way to the root.
    """
    parents = _checked("parents", parents, ("i32",), (None, None))
    batch, nodes = parents.shape
    made: list[Any] = []
    given = dict(index=index, next_token=next_token, next_sibling=next_sibling, depths=depths)
    for name, out in given.items():
        made.append(result(name, out, parents, (batch, nodes), tkl.i32, *made))
    mask = result("mask", mask, parents, (batch, nodes, nodes), tkl.i8, *made)
    if not is_empty(parents):
        program(kernels.links, nodes)(parents, *made[:3])
        program(kernels.ancestors, nodes)(parents, made[3], mask)
    return *made, mask
