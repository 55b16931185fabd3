"""Attention of sequences of the same length, and with latent keys, compared with float64."""

import importlib
import re
from dataclasses import replace

import numpy as np
import pytest

from exact_attention import expected
from library_utils import BF16, draw, on_targets
from test_ops_attention import FP8, compare
from wave_lang import WaveCompileOptions, ops, wave_compile
from wave_lang.ops import attention_kernels as kernels
from wave_lang.ops import programs
from wave_lang.ops.attention_call import call_of, dense_call, folded

# B, queries, keys, H, Hk, D, Dv, type, options
DENSE = [
    (2, 37, 50, 4, 2, 32, 16, "f2", {"causal": True, "window": (20, -1)}),
    (3, 1, 70, 8, 2, 80, 80, BF16, {"softcap": 3.0, "scale": 0.3}),
    (1, 20, 9, 2, 1, 16, 16, "f4", {"causal": True}),
    (2, 5, 0, 2, 2, 16, 16, "f2", {}),
    (2, 130, 33, 2, 1, 24, 40, "f2", {"window": (3, 5), "layout": "bhsd"}),
    (2, 70, 150, 4, 2, 64, 64, BF16, {"causal": True}),
    (3, 70, 150, 2, 2, 64, 64, "f2", {"causal": True, "layout": "bhsd"}),
]


@on_targets(DENSE)
def test_dense(case, target):
    b, rows, keys, h, hk, d, dv, dtype, options = case
    rng = np.random.default_rng(70)
    q, k = draw(rng, dtype, b, rows, h, d), draw(rng, dtype, b, keys, hk, d)
    v = draw(rng, dtype, b, keys, hk, dv)
    sinks = draw(rng, "f4", h) if "window" in options else None
    wanted = [expected(q[s], k[s], v[s], sinks=sinks, **options) for s in range(b)]
    order = (lambda x: x.swapaxes(1, 2)) if "layout" in options else (lambda x: x)
    with ops.on_target(target):
        given = [np.ascontiguousarray(order(x)) for x in (q, k, v)]
        found = ops.attention(*given, sinks=sinks, return_lse=True, **options)
    compare([order(x) for x in found], [np.stack(x) for x in zip(*wanted)], dtype)


def test_keys_of_8_bits_and_strided_views():
    rng = np.random.default_rng(71)
    q, scale = draw(rng, "f2", 2, 9, 4, 64)[:, ::2, :, ::2], np.array([0.5, 2], "f4")
    k, v = (draw(rng, "f4", 3, 30, 2, 32).astype(FP8)[::2, ::-1] for _ in range(2))
    found = ops.attention(q, k, v, k_scale=scale, v_scale=scale, return_lse=True)
    wide = [x.astype(float) * scale[:, None] for x in (k, v)]
    wanted = [expected(q[s], wide[0][s], wide[1][s]) for s in range(2)]
    compare(found, [np.stack(x) for x in zip(*wanted)], "f2")


@pytest.mark.parametrize("heads_of_keys", [1, 4])
def test_heads_first_have_wide_accesses(heads_of_keys, monkeypatch):
    """The log-sum-exps of one head are far apart then, but threads write each by itself anyway."""
    made = []
    module = importlib.import_module("wave_lang.ops.attention")  # `ops.attention` is the function
    record = lambda *key: made.append(programs.program(*key)) or made[-1]
    monkeypatch.setattr(module, "program", record)
    rng = np.random.default_rng(35)
    q = draw(rng, "f2", 2, 4, 70, 64)
    k, v = draw(rng, "f2", 2, heads_of_keys, 90, 64), draw(rng, "f2", 2, heads_of_keys, 90, 64)
    with ops.on_target("cpu"):
        ops.attention(q, k, v, causal=True, layout="bhsd")
    (kernel,) = made
    ran = [v.facts for v in kernel.program.variants if v.compiled]
    assert any("contiguous 16-byte aligned rows" in facts for facts in ran)
    assert not {"", "32-bit offsets"} & set(ran)  # any strides, element by element


def test_views_of_keys_with_three_dimensions():
    """Keys of all sequences follow each other, or their heads do; then TMA copies them."""
    x = np.zeros((2, 10, 3, 4, 16), "f2")
    views = {
        "tokens": [x[:, :, 1], x[:1, ::-1, 2], x[:, :0, 1]],
        "heads": [x.reshape(2, 12, 10, 16).swapaxes(1, 2)],
        "": [x[:, 1:, 0], x[::-1, :, 1]],
    }
    for wanted, group in views.items():
        for k in group:
            fold, *made = folded(k, k)
            assert fold == wanted
            for y in made:
                assert y.ndim == (3 if fold else 4) and (y.size == 0 or np.shares_memory(y, x))
    form = dense_call(*[np.zeros((2, 300, 4, 128), "f2")] * 3, "bshd", {"causal": True})
    form = form.form(False, 0)
    for fold in ("tokens", "heads"):
        made, subs, symbols, _ = kernels.dense(replace(form, fold=fold, out_fold=fold))
        options = WaveCompileOptions(subs=subs, dynamic_symbols=symbols, target="sm_90a")
        ptx = wave_compile(options, made).ptx
        for way in ("shared::cluster.global", "global.shared::cta"):
            assert re.search(rf"cp.async.bulk.tensor.\dd.{way}", ptx)


@pytest.mark.parametrize("tokens, keys, stay", [(1000, 1000, True), (300, 1024, True), (1025, 1025, False)])
def test_workgroups_stay_where_loops_are_short(tokens, keys, stay):
    """Under a causal mask, as the compiler decides for about as many keys."""
    x, y = np.zeros((2, tokens, 4, 128), "f2"), np.zeros((2, keys, 4, 128), "f2")
    with ops.on_target("sm_90a"):
        form = dense_call(x, y, y, "bshd", {"causal": True}).form(False, 0)
    made, subs, symbols, options = kernels.dense(replace(form, **dict.fromkeys(("fold", "q_fold", "out_fold"), "tokens")))
    kernel = wave_compile(WaveCompileOptions(subs=subs, dynamic_symbols=symbols, target="sm_90a", **options), made)
    assert any(r.code == "R0617" for r in kernel.remarks) == stay


def test_results_are_written_where_their_strides_say():
    """Views with three dimensions, or four, with other elements between them."""
    rng = np.random.default_rng(73)
    q, k, v = (draw(rng, "f2", 2, n, 3, 64) for n in (140, 70, 70))
    expected = ops.attention(q, k, v, causal=True)
    for shape, view in (
        ((2, 140, 3, 64), lambda x: x),
        ((2, 140, 5, 64), lambda x: x[:, :, 1:4]),
        ((2, 3, 150, 64), lambda x: x.swapaxes(1, 2)[:, 5:145]),
        ((3, 140, 2, 64), lambda x: x.transpose(2, 1, 0, 3)),
    ):
        for target in ("cpu", "sim:sm_90a"):
            whole = np.full(shape, np.nan, "f2")
            out = view(whole)
            with ops.on_target(target):
                ops.attention(q, k, v, causal=True, out=out)
            assert np.abs(out.astype("f4") - expected).max() < 2e-3, (shape, target)
            assert np.isnan(whole).sum() == whole.size - out.size


def test_a_sequence_has_the_same_bits_in_any_batch():
    rng = np.random.default_rng(72)
    q, k, v = (draw(rng, "f2", 3, n, 2, 32) for n in (17, 40, 40))
    whole = ops.attention(q, k, v, causal=True)
    for s in range(3):
        alone = ops.attention(*(x[s : s + 1] for x in (q, k, v)), causal=True)
        assert np.array_equal(alone[0], whole[s])


# type, heads, D, Dv, tokens of a page, tokens of a sequence, options
LATENT = [
    ("f2", 16, 48, 32, 5, 1, {"causal": True, "splits": 2}),
    (BF16, 128, 576, 512, 13, 1, {"causal": True}),
    (BF16, 16, 48, 32, 1, 1, {}),
    ("f2", 8, 96, 64, 4, 2, {"causal": True}),
    ("f2", 40, 384, 384, 20, 2, {"causal": True, "softcap": 2.0}),
    ("f2", 40, 336, 320, 7, 1, {"splits": 3}),
]


@on_targets(LATENT)
def test_mla_decode(case, target):
    """Heads share the keys of a cache; values are its first columns."""
    dtype, heads, size, columns, page, new, options = case
    rng = np.random.default_rng(73)
    q, cache = draw(rng, dtype, 3 * new, heads, size), draw(rng, dtype, 9, page, size)
    lengths, starts = np.array([3 * page, 0, new], "i4"), np.arange(4, dtype="i4") * new
    table = np.array([[4, 1, 8], [0, 0, 0], [2, 0, 0]], "i4")
    wanted = []
    for s, n in enumerate(lengths):
        keys = cache[table[s]].reshape(-1, 1, size)[:n]
        rows = q[s * new : (s + 1) * new]
        wanted.append(expected(rows, keys, keys[..., :columns], **options))
    cache[[0, 3, 5, 6, 7]] = np.nan
    with ops.on_target(target):
        given = (q, cache, table, lengths, starts, new, 3 * page)
        found = ops.mla_decode(*given, dv=columns, **options)
    compare(found, [np.concatenate(x) for x in zip(*wanted)], dtype)


def test_values_that_are_columns_of_keys():
    """The cache is copied to shared memory once, also if it is given twice."""
    cache = np.zeros((9, 16, 1, 576), "f2")
    q, ends = np.zeros((3, 128, 576), "f2"), np.arange(4, dtype="i4")
    for target, v, wanted in (
        ("sm_90a", cache[..., :512], True),
        ("sm_90a", cache[..., 64:], False),
        ("sm_90a", cache[..., :512].copy(), False),
        ("sm_90a", cache[..., :100], False),
        ("sm_80", cache[..., :512], False),
        ("gfx942", cache[..., :512], False),
    ):
        with ops.on_target(target):
            form = call_of(q, cache, v, ends, 1, 100, {"causal": True}).form(True, 16)
        assert form.latent == wanted


def test_wrong_arguments():
    q, k = np.ones((2, 3, 4, 8), "f2"), np.ones((2, 5, 2, 8), "f2")
    cache, ends, table = np.ones((4, 2, 8), "f2"), np.arange(3, dtype="i4"), np.ones((2, 3), "i4")
    latent = lambda cache=cache, dv=8: ops.mla_decode(
        q[0], cache, table, ends[1:], np.array([0, 1, 3], "i4"), 2, 2, dv=dv
    )
    for kind, name, call in (
        (ValueError, "`q`", lambda: ops.attention(q[0], k, k)),
        (ValueError, "`k`", lambda: ops.attention(q, k[0], k)),
        (ValueError, "`k`", lambda: ops.attention(q, k[:1], k[:1])),
        (ValueError, "`v`", lambda: ops.attention(q, k, k[:, :4])),
        (ValueError, "`k`", lambda: ops.attention(q, k[..., :4], k)),
        (TypeError, "`k`", lambda: ops.attention(q, *[k.astype("f4")] * 2)),
        (ValueError, "`q` has 3 heads", lambda: ops.attention(q[:, :, :3], k, k)),
        (ValueError, "`layout`", lambda: ops.attention(q, k, k, layout="sbhd")),
        (ValueError, "`window`", lambda: ops.attention(q, k, k, window=(1, -2))),
        (ValueError, "`sinks`", lambda: ops.attention(q, k, k, sinks=np.ones(3, "f4"))),
        (ValueError, "`out`", lambda: ops.attention(q, k, k, out=q)),
        (TypeError, "`dropout`", lambda: ops.attention(q, k, k, dropout=0.1)),
        (ValueError, "`cache`", lambda: latent(cache[0])),
        (ValueError, "`dv`", lambda: latent(dv=9)),
    ):
        with pytest.raises(kind, match=name):
            call()
