"""Attention ops, compared with float64."""

import numpy as np
import pytest

from exact_attention import expected
from library_utils import ml_dtypes  # isort: skip
from library_utils import BF16, check, draw, on_targets, starts_of
from wave_lang import ops
from wave_lang.ops import attention_call
from wave_lang.ops import attention_kernels as kernels
from wave_lang.ops.programs import program

FP8 = ml_dtypes.float8_e4m3fn


def compare(found, wanted, dtype):
    check(found[0], wanted[0], dtype)
    assert np.array_equal(np.isneginf(found[1]), np.isneginf(wanted[1]))
    same = np.isneginf(wanted[1]) | np.isnan(wanted[1])
    assert np.array_equal(np.isnan(found[1]), np.isnan(wanted[1]))
    np.testing.assert_allclose(found[1][~same], wanted[1][~same], atol=1e-3)


# query lengths, key lengths, H, Hk, D, Dv, type, options
VARLEN = [
    ((33, 0, 1, 70), (33, 5, 9, 70), 4, 2, 32, 32, "f2", {"causal": True}),
    ((20, 3), (70, 0), 2, 1, 48, 24, BF16, {"window": (7, 2), "softcap": 3.0, "scale": 0.3}),
    ((5, 40), (9, 40), 2, 2, 16, 16, "f2", {"causal": True, "window": (6, -1), "splits": 3}),
    ((40, 3), (9, 0), 2, 1, 16, 16, "f4", {"causal": True}),
    ((20, 3), (9, 0), 2, 1, 16, 16, "f2", {"causal": True, "scale": 1.5}),
]


@on_targets(VARLEN)
def test_varlen(case, target):
    """Rows before the first key, and sequences without keys, see nothing."""
    q_len, k_len, h, hk, d, dv, dtype, options = case
    rng = np.random.default_rng(30)
    q, k = draw(rng, dtype, sum(q_len) + 3, h, d), draw(rng, dtype, sum(k_len) + 3, hk, d)
    v = draw(rng, dtype, sum(k_len) + 3, hk, dv)
    cu_q, cu_k = starts_of(q_len), starts_of(k_len)
    wanted = np.full((len(q), h, dv), np.nan), np.full((len(q), h), np.nan)
    for s in range(len(q_len)):
        rows, keys = slice(cu_q[s], cu_q[s + 1]), slice(cu_k[s], cu_k[s + 1])
        wanted[0][rows], wanted[1][rows] = expected(q[rows], k[keys], v[keys], **options)
    k[cu_k[-1] :], v[cu_k[-1] :] = np.nan, np.nan
    out, lse = np.full((len(q), h, dv), np.nan, dtype), np.full((len(q), h), np.nan, "f4")
    with ops.on_target(target):
        found = ops.attention_varlen(
            q, k, v, cu_q, cu_k, max(q_len), max(k_len), out=out, lse=lse, **options
        )
    assert found[0] is out and found[1] is lse
    compare(found, wanted, dtype)


@pytest.mark.parametrize(
    "target, dtype, size, rows",
    [
        ("sim:gfx942", "f4", 128, 1),
        ("sim:gfx942", "f2", 256, 1),
        ("sim:gfx1100", "f4", 128, 1),
        ("sim:gfx1100", "f2", 256, 70),
        ("sim:sm_90a", "f4", 512, 70),
        ("sim:sm_80", "f4", 512, 70),
    ],
)
def test_heads_that_fill_a_workgroup(target, dtype, size, rows):
    """Keys and values of an iteration leave room for what waves exchange."""
    rng = np.random.default_rng(31)
    q, k, v = draw(rng, dtype, rows, 1, size), *(draw(rng, dtype, 70, 1, size) for _ in "kv")
    with ops.on_target(target):
        found = ops.attention_varlen(q, k, v, starts_of([rows]), starts_of([70]), rows, 70)
    compare(found, expected(q, k, v), dtype)


@on_targets(["f2", BF16])
def test_rows_without_keys_have_no_result_for_any_cap(case, target):
    """The largest score of theirs remains the lowest number."""
    rng = np.random.default_rng(34)
    q, k = draw(rng, case, 1, 40, 1, 16), draw(rng, case, 1, 20, 1, 16)
    for cap in (0.7, 7.3, 11.0):
        options = {"window": (3, 0), "softcap": cap}
        with ops.on_target(target):
            found = ops.attention(q, k, k, return_lse=True, **options)
        wanted = expected(q[0], k[0], k[0], **options)
        compare([x[0] for x in found], wanted, case)


@on_targets([("f2", 2e6), (BF16, 1e30), ("f4", 1e9)])
def test_a_large_cap_changes_little(case, target):
    """Its tanh is that of a small number, of which the relative error counts."""
    dtype, cap = case
    rng = np.random.default_rng(37)
    q, k, sinks = draw(rng, dtype, 1, 9, 2, 16), draw(rng, dtype, 1, 20, 2, 16), draw(rng, "f4", 2)
    options = {"softcap": cap, "causal": True, "sinks": sinks}
    with ops.on_target(target):
        found = ops.attention(q, k, k, return_lse=True, **options)
        made = ops.attention_backward(q, q, k, k, *found, sinks, softcap=cap, causal=True)
        plain = ops.attention_backward(q, q, k, k, *found, sinks, causal=True)
    compare([x[0] for x in found], expected(q[0], k[0], k[0], **options), dtype)
    for one, two in zip(made[:3], plain):
        check(one, two.astype(float), dtype, 2.0)


@on_targets(["f4", "f2", BF16])
def test_a_sink_of_minus_infinity_is_none(case, target):
    """Also for rows that see no key, with or without a cap."""
    rng = np.random.default_rng(35)
    q, k = draw(rng, case, 1, 40, 2, 16), draw(rng, case, 1, 20, 2, 16)
    sinks = np.array([-np.inf, 0.5], "f4")
    for cap in (0.0, 3.0):
        options = {"window": (3, 0), "softcap": cap}
        with ops.on_target(target):
            found = ops.attention(q, k, k, sinks=sinks, return_lse=True, **options)
            made = ops.attention_backward(np.ones_like(q), q, k, k, *found, sinks, **options)
        for head, sink in enumerate((None, sinks[1:])):
            wanted = expected(*(x[0, :, head : head + 1] for x in (q, k, k)), sinks=sink, **options)
            compare([x[0, :, head : head + 1] for x in found], wanted, case)
        assert not any(np.isnan(x.astype(float)).any() for x in made) and made[3][0] == 0


@on_targets([{}, {"splits": 2}])
def test_rows_before_the_first_sequence_are_left(case, target):
    """Of a tensor whose first rows another call computes."""
    rng = np.random.default_rng(36)
    q, k, sinks = draw(rng, "f2", 9, 2, 16), draw(rng, "f2", 50, 2, 16), draw(rng, "f4", 2)
    q[:3] = np.nan
    ends, k_ends = np.array([3, 5, 9], "i4"), np.array([0, 30, 50], "i4")
    out, lse = np.full(q.shape, np.nan, "f2"), np.full((9, 2), np.nan, "f4")
    given = (ends, k_ends, 4, 30)
    with ops.on_target(target):
        ops.attention_varlen(q, k, k, *given, sinks=sinks, out=out, lse=lse, **case)
        found = ops.attention_varlen_backward(np.ones_like(q), q, k, k, out, lse, *given, sinks)
        apart = (np.ones_like(q[3:]), q[3:], k, k, out[3:], lse[3:], ends - 3, *given[1:], sinks)
        wanted = ops.attention_varlen_backward(*apart)
    assert np.isnan(out[:3]).all() and np.isnan(lse[:3]).all() and not found[0][:3].any()
    parts = ((slice(3, 5), slice(0, 30)), (slice(5, 9), slice(30, 50)))
    exact = [expected(q[rows], k[keys], k[keys], sinks=sinks) for rows, keys in parts]
    compare([out[3:], lse[3:]], [np.concatenate(x) for x in zip(*exact)], "f2")
    assert np.array_equal(found[0][3:], wanted[0]) and not np.isnan(found[3]).any()
    for one, two in zip(found[1:3], wanted[1:3]):
        assert np.array_equal(one, two)
    np.testing.assert_allclose(found[3], wanted[3], rtol=1e-5)


@pytest.mark.parametrize("options", [{"causal": True}, {}, {"window": (40, 5)}])
def test_tiles_of_many_rows(options, monkeypatch):
    """Those that are used if they fill a machine."""
    monkeypatch.setattr(attention_call, "ENOUGH_WORKGROUPS", 1)
    case = ((3, 70), (9, 130), 4, 1, 64, 64, "f2", options)
    test_varlen(case, "sim:sm_90a")


class Pages:
    """Sequences whose keys are in pages out of order; pages and tokens that none has are NaN."""

    def __init__(self, q_len, lengths, h, hk, d, dv, page, dtype, cache, seed=31):
        rng = np.random.default_rng(seed)
        count = [-(-n // page) for n in lengths]
        numbers = rng.permutation(sum(count) + 3).astype("i4")
        self.q = draw(rng, dtype, sum(q_len) + 2, h, d)
        self.k, self.v = (draw(rng, "f4", len(numbers), page, hk, x) for x in (d, dv))
        self.table = np.full((len(lengths), max(count, default=0) + 1), 10**6, "i4")
        self.starts, self.lengths = starts_of(q_len), np.array(lengths, "i4")
        self.keys, used = [], np.zeros(self.k.shape[:2], bool)
        self.k, self.v = self.k.astype(cache), self.v.astype(cache)
        for s, (n, at) in enumerate(zip(lengths, np.cumsum([0, *count]))):
            mine = numbers[at : at + count[s]]
            self.table[s, : count[s]] = mine
            places = [(mine[t // page], t % page) for t in range(n)]
            for place in places:
                used[place] = True
            pick = lambda x: np.array([x[p] for p in places]).reshape(n, *x.shape[2:])
            self.keys.append((pick(self.k), pick(self.v)))
        self.k[~used], self.v[~used] = np.nan, np.nan
        self.most = max(q_len, default=0), max(lengths, default=0)

    def arguments(self):
        return (self.q, self.k, self.v, self.table, self.lengths, self.starts, *self.most)

    def wanted(self, dv, k_scale=1.0, v_scale=1.0, **options):
        h = self.q.shape[1]
        o, lse = np.full((len(self.q), h, dv), np.nan), np.full((len(self.q), h), np.nan)
        for s, (k, v) in enumerate(self.keys):
            rows = slice(self.starts[s], self.starts[s + 1])
            k = k.astype(float) * np.reshape(k_scale, (-1, 1))
            v = v.astype(float) * np.reshape(v_scale, (-1, 1))
            o[rows], lse[rows] = expected(self.q[rows], k, v, **options)
        return o, lse


# query lengths, lengths, H, Hk, D, Dv, page, type, cache, options
PAGED = [
    ((1, 1, 1), (70, 1, 300), 8, 2, 32, 32, 16, "f2", "f2", {"causal": True, "splits": 3}),
    ((1, 0, 1), (40, 0, 9), 2, 2, 32, 16, 1, BF16, BF16, {"causal": True, "window": (7, -1)}),
    ((20, 1, 3), (70, 9, 3), 4, 2, 32, 32, 7, "f2", "f2", {"causal": True}),
    ((4, 4), (300, 20), 2, 1, 16, 16, 32, "f2", FP8, {"causal": True, "splits": 2}),
    ((1, 2), (70, 130), 8, 2, 32, 32, 16, BF16, FP8, {"causal": True}),
]


@on_targets(PAGED)
def test_paged(case, target):
    *sizes, options = case
    data, h, hk, dv = Pages(*sizes), sizes[2], sizes[3], sizes[5]
    options = dict(options)
    if sizes[8] is FP8:
        options |= {"k_scale": np.array(0.5, "f4"), "v_scale": np.full(hk, 0.25, "f4")}
    options["sinks"] = np.linspace(-1, 2, h).astype("f4") if h == 8 else None
    out = np.full((len(data.q), h, dv), np.nan, data.q.dtype)
    lse = np.full((len(data.q), h), np.nan, "f4")
    with ops.on_target(target):
        found = ops.attention_paged(*data.arguments(), out=out, lse=lse, **options)
    compare(found, data.wanted(dv, **options), data.q.dtype)


@on_targets([FP8, ml_dtypes.float8_e5m2])
def test_narrow_keys_with_queries_of_any_size(case, target):
    """Products are of f16, which has fewer exponents than the queries."""
    data = Pages((1, 1), (40, 33), 4, 1, 32, 32, 16, BF16, case)
    sizes = np.array([1e30, 1e-3, 1e-30, 0]).reshape(-1, 1)
    for row, unit in enumerate((1, 1e-30)):
        data.q[row] = (data.q[row] * (sizes * unit)).astype(BF16)
    for row, options in enumerate(({"scale": 1e-30}, {"scale": 1.0, "softcap": 2.0})):
        with ops.on_target(target):
            found = ops.attention_paged(*data.arguments(), causal=True, **options)
        check(found[0][row], data.wanted(32, causal=True, **options)[0][row], BF16)


def test_waves_with_narrow_keys_of_their_own(monkeypatch):
    """If there are enough workgroups for two on each multiprocessor, four waves of 32 threads do not
    exchange the weights of their keys."""
    monkeypatch.setattr(attention_call, "ENOUGH_WORKGROUPS", 1)
    data = Pages((1, 1, 0), (140, 33, 9), 8, 2, 64, 64, 16, BF16, FP8)
    scales = {"k_scale": np.array(0.5, "f4"), "v_scale": np.array(0.25, "f4")}
    with ops.on_target("sim:sm_90a"):
        found = ops.attention_paged(*data.arguments(), causal=True, **scales)
    wanted = data.wanted(64, causal=True, **scales)
    for one, other in zip(found, wanted):
        check(one[:2], other[:2], BF16)
    q, k, v, _, _, ends, most, longest = data.arguments()
    with ops.on_target("sm_90a"):
        call = attention_call.call_of(q, k, v, ends, most, longest, {"causal": True})
        text = program(kernels.paged, call.form(False, 16)).ptx
    assert ".maxntid 128," in text and "stmatrix" not in text


# query lengths, lengths, D
INVARIANT = [((1, 1, 1), (1500, 20, 2100), 16), ((1, 150, 1), (1100, 160, 70), 128)]


@pytest.mark.parametrize("target", ["cpu", "sim:sm_90a"])
@pytest.mark.parametrize("queries, keys, d", INVARIANT)
def test_batch_invariance(queries, keys, d, target):
    """The bits of a sequence depend neither on what else is in the batch nor on the largest
    lengths."""
    whole = Pages(queries, keys, 4, 2, d, d, 16, "f2", "f2")
    more = {"causal": True, "batch_invariant": True}
    with ops.on_target(target):
        o, lse = ops.attention_paged(*whole.arguments(), **more)
        for s, number in enumerate(queries):
            part, rows = slice(s, s + 1), slice(whole.starts[s], whole.starts[s + 1])
            alone = ops.attention_paged(
                whole.q[rows],
                *(whole.k, whole.v, whole.table[part].copy(), whole.lengths[part].copy()),
                *(np.array([0, number], "i4"), number, int(whole.lengths[s])),
                **more,
            )
            assert np.array_equal(alone[0], o[rows]) and np.array_equal(alone[1], lse[rows])
    used = whole.starts[-1]
    compare((o[:used], lse[:used]), [x[:used] for x in whole.wanted(d, causal=True)], "f2")


def test_splits_by_default():
    """Long sequences are divided; what is computed does not change."""
    data = Pages((1,), (1200,), 4, 2, 16, 16, 16, "f2", "f2")
    out, lse = np.full((3, 4, 16), np.nan, "f2"), np.full((3, 4), np.nan, "f4")
    found = ops.attention_paged(*data.arguments(), causal=True, out=out, lse=lse)
    compare(found, data.wanted(16, causal=True), "f2")


def test_nothing_to_do():
    q, k = np.ones((0, 2, 16), "f2"), np.ones((5, 2, 16), "f2")
    ends = np.zeros(1, "i4")
    o, lse = ops.attention_varlen(q, k, k, ends, ends, 0, 0)
    assert o.shape == (0, 2, 16) and lse.shape == (0, 2)


def test_wrong_arguments():
    data = Pages((1, 1), (5, 9), 4, 2, 16, 16, 4, "f2", "f2")
    good = dict(zip("q k v table lengths starts max_q max_k".split(), data.arguments()))

    def call(options=None, **changes):
        return ops.attention_paged(*(good | changes).values(), **(options or {}))

    for kind, name, run in (
        (TypeError, "`q`", lambda: call(q=3)),
        (ValueError, "`q`", lambda: call(q=data.q[:, :3])),
        (ValueError, "`k_cache`", lambda: call(k=data.k[0])),
        (ValueError, "`k`", lambda: call(k=data.k[..., :8])),
        (TypeError, "`k`", lambda: call(k=data.k.astype("f4"), v=data.v.astype("f4"))),
        (ValueError, "`v`", lambda: call(v=data.v[:1])),
        (ValueError, "`v` has heads of 0", lambda: call(v=data.v[..., :0])),
        (ValueError, "`seq_lens`", lambda: call(lengths=data.lengths[:1])),
        (TypeError, "`seq_lens`", lambda: call(lengths=data.lengths.astype("i8"))),
        (TypeError, "`block_table`", lambda: call(table=data.table.astype("i8"))),
        (ValueError, "`cu_q`", lambda: call(starts=data.starts[:2])),
        (ValueError, "`max_k`", lambda: call(max_k=-1)),
        (ValueError, "`window`", lambda: call({"window": (-2, 0)})),
        (ValueError, "`softcap`", lambda: call({"softcap": -1.0})),
        (ValueError, "`splits`", lambda: call({"splits": 0})),
        (ValueError, "`softcap`", lambda: call({"softcap": float("inf")})),
        (ValueError, "`v_scale`", lambda: call({"k_scale": np.ones(2, "f4")})),
        (ValueError, "`sinks`", lambda: call({"sinks": np.ones(3, "f4")})),
        (TypeError, "`masks`", lambda: call({"masks": None})),
        (ValueError, "`out`", lambda: call({"out": data.q})),
    ):
        with pytest.raises(kind, match=name):
            run()


@on_targets([("f2", (5, 2, 24)), (BF16, (1, 3, 130))])
def test_merge_state(case, target):
    """Results over two parts of the keys are those over all; those of empty parts do not count."""
    dtype, (tokens, h, d) = case
    rng = np.random.default_rng(32)
    a, b = draw(rng, dtype, tokens, h, d), draw(rng, dtype, tokens, h, d)
    lse_a, lse_b = draw(rng, "f4", tokens, h, scale=3), draw(rng, "f4", tokens, h, scale=3)
    lse_a[0, 0], lse_b[0, :2], a[0, 0], b[0, :2] = -np.inf, -np.inf, 0, 0
    given = [x.copy() for x in (a, b)]
    given[0][0, 0], given[1][0, :2] = np.nan, np.inf
    with ops.on_target(target):
        o, lse = ops.merge_state(given[0], lse_a, given[1], lse_b)
    total = np.logaddexp(lse_a.astype(float), lse_b)
    with np.errstate(invalid="ignore"):
        one, two = (np.nan_to_num(np.exp(x - total))[..., None] for x in (lse_a, lse_b))
    compare((o, lse), (a.astype(float) * one + b.astype(float) * two, total), dtype)


@on_targets([("f2", "f2", 16, "i8"), (BF16, FP8, 1, "i4")])
def test_kv_append(case, target):
    dtype, cache, page, index = case
    rng, fp8 = np.random.default_rng(33), case[1] is FP8
    k, v = draw(rng, dtype, 7, 2, 24), draw(rng, dtype, 7, 2, 40)
    pages = 40 // page + 1
    caches = [np.zeros((pages, page, 2, d), cache) for d in (24, 40)]
    slots = rng.permutation(pages * page)[:7].astype(index)
    slots[2], slots[5] = -1, -100
    scales = np.array(0.01, "f4"), np.array([2, 0.5], "f4")
    with ops.on_target(target):
        more = dict(zip(("k_scale", "v_scale"), scales)) if fp8 else {}
        assert ops.kv_append(k, v, *caches, slots, **more) is None
    for x, found, scale in zip((k, v), caches, scales):
        flat = np.zeros((pages * page, *x.shape[1:]))
        value = x.astype("f4")
        value = (value / np.reshape(scale, (-1, 1))).clip(-448, 448).astype(FP8) if fp8 else value
        flat[slots[slots >= 0]] = value[slots >= 0].astype(float)
        assert np.array_equal(found.astype(float).reshape(flat.shape), flat)


def test_wrong_arguments_of_the_cache():
    k, cache, slots = np.ones((3, 2, 16), "f2"), np.ones((4, 8, 2, 16), "f2"), np.ones(3, "i4")
    lse, narrow = np.ones((3, 2), "f4"), np.ones((4, 8, 2, 16), FP8)
    for kind, name, run in (
        (ValueError, "`k_cache`", lambda: ops.kv_append(k, k, cache[0], cache, slots)),
        (ValueError, "`v_cache`", lambda: ops.kv_append(k, k, cache, cache[..., :8], slots)),
        (TypeError, "`k_cache`", lambda: ops.kv_append(k, k, narrow, narrow, slots)),
        (ValueError, "`slots`", lambda: ops.kv_append(k, k, cache, cache, slots[:2])),
        (TypeError, "`slots`", lambda: ops.kv_append(k, k, cache, cache, slots.astype("f4"))),
        (ValueError, "`lse_b`", lambda: ops.merge_state(k, lse, k, lse[:2])),
        (TypeError, "`lse_a`", lambda: ops.merge_state(k, k[..., 0], k, lse)),
        (ValueError, "`o_b`", lambda: ops.merge_state(k, lse, k[:, :1], lse)),
        (ValueError, "`out`", lambda: ops.merge_state(k, lse, k, lse, out=k)),
    ):
        with pytest.raises(kind, match=name):
            run()
    assert (cache == 1).all()
