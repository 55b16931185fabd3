"""Arguments of the wrong kind: the error names the argument, and nothing is written."""

import numpy as np
import pytest

from wave_lang import ops

RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.standard_normal(shape, np.float32)


Q, X, ONES = drawn(1, 3, 2, 16), drawn(3, 4), np.ones(4, np.float32)
IMAGE, FILTERS = drawn(1, 2, 5, 5), drawn(3, 2, 3, 3)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: ops.attention(Q, Q, Q, causal="yes"), "`causal` is 'yes', expected True or False"),
        (lambda: ops.attention(Q, Q, Q, scale="x"), "`scale` is 'x', expected a number or None"),
        (lambda: ops.attention(Q, Q, Q, softcap=None), "`softcap` is None, expected a number"),
        (
            lambda: ops.attention(Q, Q, Q, window=(1.5, 2)),
            r"`window` is \(1.5, 2\), expected one or two integers",
        ),
        (lambda: ops.attention(Q, Q, Q, window=None), "`window` is None, expected one or two"),
        (lambda: ops.attention(Q, Q, Q, layout=3), "`layout` is 3, expected a string"),
        (lambda: ops.topk_gate(X, 2.5), "`k` is 2.5, expected an integer"),
        (lambda: ops.topk_gate(X, True), "`k` is True, expected an integer"),
        (lambda: ops.rms_norm(X, ONES, "x"), "`eps` is 'x', expected a number"),
        (lambda: ops.matmul(X, X.T, trans_a="no"), "`trans_a` is 'no', expected True or False"),
        (lambda: ops.matmul(X, X.T, out_dtype="f17"), "`out_dtype` is f17, expected f16 or bf16"),
        (lambda: ops.matmul(X, X.T, out_dtype=float), "`out_dtype` is .*float.*, expected f16"),
        (lambda: ops.conv2d(IMAGE, FILTERS, stride=1.5), "`stride` is 1.5, expected one or two"),
        (lambda: ops.conv2d(IMAGE, FILTERS, padding="same"), "`padding` is 'same', expected one"),
        (lambda: ops.softmax(X.astype("c8")), "`x` has elements of type complex64, expected f16"),
        (lambda: ops.softmax(X.astype(object)), "`x` has elements of type object, expected f16"),
    ],
)
def test_wrong_kinds(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_numbers_of_numpy_are_numbers():
    """And one number is a window on both sides, as with tensors of PyTorch."""
    wide = ops.attention(Q, Q, Q, window=np.int64(1), scale=np.float32(0.5), causal=np.False_)
    assert np.array_equal(wide, ops.attention(Q, Q, Q, window=(1, 1), scale=0.5))


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_the_rank_of_heads(layout):
    names = {"bshd": "batch, tokens, heads, D", "bhsd": "batch, heads, tokens, D"}[layout]
    with pytest.raises(ValueError, match=rf"`q` has the shape \(3, 2, 16\), expected \({names}\)"):
        ops.attention(Q[0], Q[0], Q[0], layout=layout)


def test_targets():
    for wrong in None, 5:
        with pytest.raises(TypeError, match=f"`target` is {wrong}, expected a string"):
            with ops.on_target(wrong):
                pass


def test_results_that_overlap_themselves():
    rows = np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (3, 4), (0, 4))
    with pytest.raises(ValueError, match="several elements of `out` are in one place"):
        ops.softmax(X, out=rows)
    with pytest.raises(ValueError, match="several elements of `residual` are in one place"):
        ops.rms_norm(X, ONES, residual=rows)
    assert not rows.any()
    one = np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (1, 4), (0, 4))
    assert np.allclose(ops.softmax(X[:1], out=one).sum(), 1)


def test_results_of_torch_that_overlap_themselves():
    torch = pytest.importorskip("torch")
    x, heads = torch.randn(3, 4), torch.zeros(1, 2, 8).expand(5, 2, 8)
    with pytest.raises(ValueError, match="several elements of `out` are in one place"):
        ops.softmax(x, out=torch.zeros(3, 1).expand(3, 4))
    with pytest.raises(ValueError, match="several elements of `q` are in one place"):
        ops.rope(heads, None, torch.zeros(5, 8), torch.arange(5))
    with pytest.raises(TypeError, match="`x` has elements of type torch.complex64, expected f16"):
        ops.softmax(x.to(torch.complex64))
    with pytest.raises(TypeError, match="`x` is sparse, expected a tensor with strides"):
        ops.softmax(x.to_sparse())


def test_wrong_kinds_beside_tensors_of_torch():
    """Their errors are the same."""
    torch = pytest.importorskip("torch")
    q, x, ones = (torch.from_numpy(t) for t in (Q, X, ONES))
    for call, message in (
        (lambda: ops.attention(q, q, q, causal="yes"), "`causal` is 'yes', expected True or False"),
        (lambda: ops.topk_gate(x, 2.5), "`k` is 2.5, expected an integer"),
        (lambda: ops.rms_norm(x, ones, "x"), "`eps` is 'x', expected a number"),
        (lambda: ops.rms_norm(x, ones, "x", out=ones), "`eps` is 'x', expected a number"),
        (lambda: ops.conv2d(q, q, padding="same"), "`padding` is 'same', expected one or two"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
