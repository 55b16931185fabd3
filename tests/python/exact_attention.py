"""Attention in float64: of a head, of heads that share keys, and with the options of ops."""

import numpy as np


def attend(q, k, v, visible=None, scale=None, cap=0.0):
    """(result, log-sum-exp) of one head: q [rows, D], k [keys, D], v [keys, Dv]; `visible` is
    [rows, keys]. Rows that see no key are 0 and -inf."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    s = q @ k.T * (q.shape[1] ** -0.5 if scale is None else scale)
    s = cap * np.tanh(s / cap) if cap else s
    s = s if visible is None else np.where(visible, s, -np.inf)
    most = np.max(s, 1, keepdims=True, initial=-1e300)
    p = np.exp(s - most)
    total = p.sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        return p @ v / np.where(total > 0, total, 1), (most + np.log(total))[:, 0]


def heads(q, k, v, **more):
    """`attend` for each head of [tokens, heads, D]; query heads share key heads."""
    group = q.shape[1] // k.shape[1]
    parts = [attend(q[:, h], k[:, h // group], v[:, h // group], **more) for h in range(q.shape[1])]
    return np.stack([p[0] for p in parts], 1), np.stack([p[1] for p in parts], 1)


def expected(q, k, v, causal=False, window=(-1, -1), sinks=None, scale=None, softcap=0.0, **_):
    """(o, lse) of one sequence: q [rows, H, D], k and v [keys, Hk, D]."""
    i, j = np.arange(len(q))[:, None] + len(k) - len(q), np.arange(len(k))
    left, right = window[0], 0 if causal else window[1]
    seen = ((left < 0) | (j >= i - left)) & ((right < 0) | (j <= i + right))
    o, lse = heads(q, k, v, visible=seen, scale=scale, cap=softcap)
    if sinks is not None:
        total = np.logaddexp(lse, sinks)
        o, lse = o * np.exp(lse - total)[..., None], total
    return o, lse
