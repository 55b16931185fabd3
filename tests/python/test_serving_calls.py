"""What serving frameworks call: the entry points of plugins, and the names, options and arguments
of SGLang's own `wave` backend, beside float64."""

import importlib
import tomllib
from pathlib import Path

import numpy as np
import pytest

from exact_attention import expected
from kernel_utils import run_python

from library_utils import check, draw, starts_of  # isort: skip
from wave_lang import MMAType, WaveCompileOptions, wave_compile
from wave_lang.kernel.wave.constraints import GenericDot, MMAOperand
from wave_lang.kernel.wave.utils.general_utils import get_default_scheduling_params
from wave_lang.kernel.wave.utils.run_utils import set_default_run_config

ROOT = Path(__file__).parents[2]
# What the three files of its `wave` backend import.
NAMES = {
    "lang.global_symbols": ["GLOBAL_ADDRESS_SPACE"],
    "wave.compile": ["WaveCompileOptions", "wave_compile"],
    "wave.constraints": ["GenericDot", "MMAOperand", "MMAType"],
    "wave.scheduling.schedule": ["SchedulingType"],
    "wave.templates.attention_common": ["AttentionShape"],
    "wave.templates.extend_attention": ["get_extend_attention_kernel"],
    "wave.templates.prefill_attention": ["get_prefill_attention_kernel"],
    "wave.templates.paged_decode_attention": [
        "get_paged_decode_attention_kernels",
        "get_paged_decode_intermediate_arrays_shapes",
        "paged_decode_attention_shape",
    ],
    "wave.utils.general_utils": ["get_default_scheduling_params"],
    "wave.utils.run_utils": ["set_default_run_config"],
    "wave.cache": ["CACHE_BASE_DIR"],
}


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    found = importlib.import_module(f"wave_lang.kernel.{name}")
    for member in NAMES[name]:
        assert hasattr(found, member)


def compiled(kernel, subs, dynamic_symbols=(), **options):
    """With the options that SGLang gives. It runs on the CPU, whatever GPU the options name."""
    subs = subs | get_default_scheduling_params()
    given = WaveCompileOptions(
        subs=subs, canonicalize=True, run_bench=False, dynamic_symbols=dynamic_symbols, **options
    )
    given = set_default_run_config(given)
    given.target = "cpu"
    return wave_compile(given, kernel)


def test_decode_call():
    """A graph's scratch is for the largest batch, and its table is a large buffer. Heads that share
    no keys use dot products."""
    from wave_lang.kernel.wave.templates import paged_decode_attention as template

    rng = np.random.default_rng(60)
    for h, hk, d, dv in ((4, 2, 32, 32), (2, 2, 16, 8)):
        lengths, splits, most = (9, 0, 1, 20), 4, 7
        ends, tokens = starts_of(lengths), rng.permutation(40)[:30].astype("i4")
        q, k, v = draw(rng, "f2", 4, h, d), draw(rng, "f2", 40, hk, d), draw(rng, "f2", 40, hk, dv)
        table = np.full(100, 10**6, "i4")
        table[: len(tokens)] = tokens
        unused = np.setdiff1d(np.arange(40), tokens)
        k[unused], v[unused] = np.nan, np.nan
        mma = (MMAType.F32_16x16x16_F16,) * 2
        if h == hk:
            mma = (
                GenericDot(along_dim=MMAOperand.M, k_vec_size=4, k_mult=1),
                GenericDot(along_dim=MMAOperand.M, k_vec_size=1, k_mult=64),
            )
        shape = template.paged_decode_attention_shape(h, hk, d, dv, 32, 4)
        first, second, subs_0, subs_1, dynamic_0, dynamic_1 = (
            template.get_paged_decode_attention_kernels(
                shape, mma, splits, input_dtype=q.dtype, output_dtype=q.dtype, logit_cap=0.0
            )
        )
        more = {"waves_per_eu": 2, "wave_runtime": True}
        first = compiled(first, subs_0, dynamic_0, use_buffer_ops=True, **more)
        second = compiled(second, subs_1, dynamic_1, use_buffer_ops=False, **more)
        largest = template.paged_decode_attention_shape(h, 0, 0, dv, 0, most)
        shapes = template.get_paged_decode_intermediate_arrays_shapes(largest, splits)
        logits, sums = (np.full(s, np.nan, "f4") for s in shapes)
        o = np.full((4, h, dv), np.nan, "f2")
        first(q, k, v, ends, table, logits, sums)
        second(logits, sums, ends, o)
        for s in range(4):
            mine = tokens[ends[s] : ends[s + 1]]
            check(o[s : s + 1], expected(q[s : s + 1], k[mine], v[mine])[0], "f2")


def test_extend_and_prefill_calls():
    from wave_lang.kernel.wave.scheduling.schedule import SchedulingType
    from wave_lang.kernel.wave.templates import extend_attention, prefill_attention
    from wave_lang.kernel.wave.templates.attention_common import AttentionShape

    rng = np.random.default_rng(61)
    prefix, new, h, hk, d = (5, 0, 3), (4, 9, 1), 4, 2, 32
    kv, qo = starts_of(prefix), starts_of(new)
    q, k, v = draw(rng, "f2", 14, h, d), draw(rng, "f2", 14, hk, d), draw(rng, "f2", 14, hk, d)
    k_buf, v_buf = draw(rng, "f2", 20, hk, d), draw(rng, "f2", 20, hk, d)
    table = rng.permutation(20)[:8].astype("i4")
    unused = np.setdiff1d(np.arange(20), table)
    k_buf[unused], v_buf[unused] = np.nan, np.nan
    shape = AttentionShape(
        num_query_heads=h, num_kv_heads=hk, head_size=d, head_size_kv=d, num_seqs=3, max_seq_len=9
    )
    kernel, subs, dynamic = extend_attention.get_extend_attention_kernel(
        shape,
        (MMAType.F32_16x16x32_K8_F16, MMAType.F32_16x16x16_F16),
        *(x.shape for x in (q, k, v, k_buf, v_buf, q)),
        input_dtype=q.dtype,
        output_dtype=q.dtype,
        size_dtype=qo.dtype,
        is_causal=True,
        layer_scaling=0.2,
        logit_cap=0.0,
    )
    more = {"schedule": SchedulingType.NONE, "use_scheduling_barriers": False, "waves_per_eu": 2}
    more |= {"use_buffer_ops": True, "denorm_fp_math_f32": "preserve-sign", "wave_runtime": True}
    o = np.full(q.shape, np.nan, "f2")
    compiled(kernel, subs, dynamic, **more)(q, k, v, k_buf, v_buf, qo, kv, table, 9, o)
    for s in range(3):
        rows, past = slice(qo[s], qo[s + 1]), table[kv[s] : kv[s + 1]]
        keys, values = (np.concatenate([b[past], n[rows]]) for b, n in ((k_buf, k), (v_buf, v)))
        check(o[rows], expected(q[rows], keys, values, causal=True, scale=0.2)[0], "f2")

    shape = AttentionShape(
        num_query_heads=h,
        num_kv_heads=hk,
        head_size=d,
        head_size_kv=d,
        num_seqs=3,
        max_seq_len=9,
        total_seq_len=14,
    )
    kernel, subs = prefill_attention.get_prefill_attention_kernel(
        shape,
        (MMAType.F32_16x16x16_F16,) * 2,
        *(x.shape for x in (q, k, v, q)),
        input_dtype=q.dtype,
        output_dtype=q.dtype,
        size_dtype=np.dtype("i8"),
    )
    o = np.full(q.shape, np.nan, "f2")
    scaled = (q.astype("f4") * 1.44269504089 * d**-0.5).astype("f2")
    run = compiled(kernel, subs, use_scheduling_barriers=False)
    run(scaled, k, v, qo[:-1].astype("i8"), np.array(new, "i8"), o)
    for s in range(3):
        rows = slice(qo[s], qo[s + 1])
        exact = expected(scaled[rows], k[rows], v[rows], scale=np.log(2))[0]
        check(o[rows], exact, "f2", scale=2)


def test_entry_points_import_no_framework():
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    for group in ("vllm.general_plugins", "sglang.srt.plugins"):
        name, _, function = points[group]["wave"].partition(":")
        code = (
            f"import sys, {name} as m; assert callable(m.{function});"
            "assert not {'torch', 'numpy', 'vllm', 'sglang'} & sys.modules.keys()"
        )
        done = run_python("-c", code)
        assert done.returncode == 0, done.stderr
