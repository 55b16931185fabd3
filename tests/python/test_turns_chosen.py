"""Attention in which groups of waves take turns at products without a row that says so: packed sequences of odd
lengths, on a simulated H100, in several orders of waves, compared with float64.
"""

import re

import numpy as np
import pytest

from test_attention_long import attention
from test_roles import parsed
from wave_lang import SimulationError, ops
from wave_lang.ops import attention_call, programs

TARGET = "sim:sm_90a"
ORDERS = ("round", "reverse", "last", "first", "random:3")
LENGTHS = ((300, 300), (1, 260), (129, 64))  # of queries and keys


@pytest.fixture
def launches(monkeypatch):
    """Kernels with their arguments, instead of being run."""
    found = []

    def program(make, *key):
        return lambda *args: found.append((programs._compiled(TARGET, make, *key), args))

    monkeypatch.setattr(attention_call, "program", program)
    return found


def packed(head, dtype=np.float16):
    rng = np.random.default_rng(head)
    rows, keys = (np.cumsum([0, *lengths]).astype(np.int32) for lengths in zip(*LENGTHS))
    q = rng.standard_normal((rows[-1], 1, head)).astype(dtype)
    k, v = rng.standard_normal((2, keys[-1], 1, head)).astype(dtype)
    return q, k, v, rows, keys


def expected(q, k, v, rows, keys, causal, window):
    def of(x, ends, i):
        return x[ends[i] : ends[i + 1]].transpose(1, 0, 2)[None]

    parts = [
        attention(of(q, rows, i), of(k, keys, i), of(v, keys, i), causal, window)[0].transpose(1, 0, 2)
        for i in range(len(LENGTHS))
    ]
    return np.concatenate(parts)


@pytest.mark.parametrize("head, causal, window", [(128, True, None), (128, False, None), (128, True, (70, 0))])
def test_results(launches, head, causal, window):
    q, k, v, rows, keys = packed(head)
    options = {"causal": causal} if window is None else {"causal": causal, "window": window}
    with programs.on_target(TARGET):
        out, _ = ops.attention_varlen(q, k, v, rows, keys, 300, 300, **options)
    (kernel, args), want = launches[0], expected(q, k, v, rows, keys, causal, window)
    assert "turns N_KV 2 " in str(kernel.schedule())
    bits = []
    for order in ORDERS if causal and window is None else ORDERS[:2]:
        out[:] = 77
        kernel.simulate(*args, schedule=order)
        assert np.linalg.norm(out - want) <= 2e-3 * np.linalg.norm(want)
        bits.append(out.tobytes())
    assert len(set(bits)) == 1


def faults(text):
    """Programs of one lane in which one group does not wait for its turn, or does not pass it on."""
    named = [line for line in text.splitlines() if re.match(r" +barrier named", line)]
    assert any("arrive" in line for line in named) and any("arrive" not in line for line in named)
    for line in sorted(set(named)):
        if "arrive" in line:
            yield f"without {line.strip()}", text.replace(line + "\n", "")


def test_a_turn_that_is_not_passed_on_is_a_deadlock(launches):
    q, k, v, rows, keys = packed(128)
    with programs.on_target(TARGET):
        ops.attention_varlen(q, k, v, rows, keys, 300, 300, causal=True)
    kernel, args = launches[0]
    text = kernel.ir_after("early")
    for what, fault in faults(text):
        with pytest.raises(SimulationError, match="E08"):
            parsed(fault).sim(args, TARGET, "round")
            pytest.fail(what)
