"""Attention of new tokens to a prefix in a cache, compared with float64."""

import numpy as np
import pytest

from exact_attention import expected, heads
from library_utils import BF16, draw, on_targets, starts_of
from test_ops_attention import compare
from wave_lang import ops
from wave_lang.ops import attention_call


class Batch:
    """Sequences of new tokens and prefixes; slots of the cache that none has are NaN."""

    def __init__(self, new, prefix, h, hk, d, dv, dtype, index="i4"):
        rng = np.random.default_rng(80)
        tokens, slots = sum(new), sum(prefix) + 4
        self.q, self.k, self.v = (
            draw(rng, dtype, tokens, *s) for s in ((h, d), (hk, d), (hk, dv))
        )
        self.k_cache, self.v_cache = draw(rng, dtype, slots, hk, d), draw(rng, dtype, slots, hk, dv)
        self.starts, self.ends = starts_of(new, index), starts_of(prefix, index)
        places = rng.permutation(slots)
        self.places = places[: sum(prefix)].astype("i4")
        unused = places[sum(prefix) :]
        self.k_cache[unused], self.v_cache[unused] = np.nan, np.nan
        self.longest = max(new)

    def arguments(self):
        caches = (self.k_cache, self.v_cache, self.starts, self.ends, self.places)
        return (self.q, self.k, self.v, *caches, self.longest)

    def sequences(self):
        """The rows of each sequence, and all its keys and values."""
        for s in range(len(self.starts) - 1):
            rows = slice(self.starts[s], self.starts[s + 1])
            at = self.places[self.ends[s] : self.ends[s + 1]]
            pairs = ((self.k_cache, self.k), (self.v_cache, self.v))
            yield rows, *(np.concatenate([cache[at], x[rows]]) for cache, x in pairs)


# new tokens, prefixes, H, Hk, D, Dv, type, type of offsets, options
EXTEND = [
    ((5, 0, 20, 1), (9, 3, 70, 0), 4, 2, 32, 16, "f2", "i4", {"window": (6, -1)}),
    ((1, 1), (40, 0), 8, 2, 80, 80, BF16, "i8", {"softcap": 3.0, "scale": 0.3}),
    ((70, 2), (0, 130), 2, 1, 16, 16, "f4", "i4", {"causal": False}),
    ((33,), (17,), 2, 2, 64, 64, "f2", "i4", {"window": (30, -1)}),
]


@on_targets(EXTEND)
def test_extend(case, target):
    new, prefix, h, hk, d, dv, dtype, index, options = case
    batch = Batch(new, prefix, h, hk, d, dv, dtype, index)
    sinks = draw(np.random.default_rng(81), "f4", h) if hk == 2 else None
    with ops.on_target(target):
        found = ops.attention_extend(*batch.arguments(), sinks=sinks, **options)
    for rows, k, v in batch.sequences():
        wanted = expected(batch.q[rows], k, v, sinks=sinks, **{"causal": True, **options})
        compare([x[rows] for x in found], wanted, dtype)


def test_tiles_of_many_rows(monkeypatch):
    """Those that are used if they fill a machine."""
    monkeypatch.setattr(attention_call, "ENOUGH_WORKGROUPS", 1)
    test_extend(((70, 2), (90, 130), 4, 1, 128, 128, "f2", "i4", {}), "sim:sm_90a")


MASKS = [
    ("i1", "i8", {}),
    (bool, "i4", {"window": (1, 0)}),  # which counts only without a mask
    ("i1", "i4", {"mask_prefix": False}),
    ("i1", "i8", {"mask_future": False}),
    (bool, "i4", {"mask_prefix": False, "mask_future": False}),
]


@on_targets(MASKS)
def test_masks(case, target):
    """Bytes decide what is seen, also of the prefix and of later tokens unless these are not masked; a
    token that sees nothing is 0 and -inf."""
    kind, index, options = case
    batch = Batch((4, 73), (5, 40), 4, 2, 32, 32, "f2")
    rng, masks = np.random.default_rng(82), []
    for rows, k, _ in batch.sequences():
        masks.append(rng.random((rows.stop - rows.start, len(k))) < 0.5)
    masks[0][1] = False
    flat = np.concatenate([m.ravel() for m in masks]).astype(kind)
    starts = starts_of([m.size for m in masks], index)
    with ops.on_target(target):
        found = ops.extend_attention(*batch.arguments(), flat, starts, **options)
    for mask, (rows, k, v) in zip(masks, batch.sequences()):
        before = len(k) - len(mask)
        mask[:, : 0 if options.get("mask_prefix", True) else before] = True
        if not options.get("mask_future", True):
            mask &= np.tri(*mask.shape, before, dtype=bool)
        compare([x[rows] for x in found], heads(batch.q[rows], k, v, visible=mask), "f2")


def test_nothing_to_do():
    batch = Batch((2,), (3,), 2, 1, 8, 8, "f2")
    q, k, v, *more = batch.arguments()
    more[2] = np.zeros(2, "i4")
    assert ops.attention_extend(q[:0], k[:0], v[:0], *more)[0].shape == (0, 2, 8)


def test_wrong_arguments():
    batch = Batch((2, 3), (3, 1), 2, 1, 8, 8, "f2")
    names = "q k v k_cache v_cache qo_indptr kv_indptr kv_indices max_q".split()
    good = dict(zip(names, batch.arguments()))
    mask, starts = np.ones(99, "i1"), np.zeros(3, "i4")
    for kind, name, change in (
        (ValueError, "q", {"q": batch.q[0]}),
        (ValueError, "k", {"k": batch.k[:3], "v": batch.v[:3]}),
        (TypeError, "k_cache", {"k_cache": batch.k_cache.astype("f4")}),
        (ValueError, "v_cache", {"v_cache": batch.v_cache[..., :4]}),
        (ValueError, "k_cache", {"k_cache": batch.k_cache[0]}),
        (TypeError, "kv_indptr", {"kv_indptr": batch.ends.astype("i8")}),
        (ValueError, "kv_indptr", {"kv_indptr": batch.ends[:2]}),
        (TypeError, "kv_indices", {"kv_indices": batch.places.astype("i8")}),
        (ValueError, "max_q", {"max_q": -1}),
        (ValueError, "custom_mask", {"custom_mask": mask}),
        (TypeError, "custom_mask", {"custom_mask": mask.astype("f4"), "mask_indptr": starts}),
        (ValueError, "mask_indptr", {"custom_mask": mask, "mask_indptr": starts[:2]}),
        (ValueError, "window", {"window": (-3, 0)}),
        (ValueError, "out", {"out": batch.q}),
    ):
        with pytest.raises(kind, match=f"`{name}`"):
            ops.attention_extend(**{**good, **change})
