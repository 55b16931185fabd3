"""The plugins of SGLang and vLLM, models served through them, training, and large caches, on a GPU.

With SGLANG_SOURCE=CHECKOUT, SGLang's own tests of its `wave` kernels run unchanged, and its `wave`
backend is driven. With VLLM_SOURCE=CHECKOUT, vLLM's own classes replace stand-ins."""

import contextlib
import importlib.util
import os
import unittest

import torch

import serving_standins
import test_nn
import test_served_models
import test_sglang_plugin
import test_vllm_mla
import test_vllm_plugin
from exact_attention import expected
from gpu_utils import DEVICE
from plain_tests import MonkeyPatch, run_tests
from serving_standins import host
from test_sglang_plugin import SOURCE
from wave_lang import ops

KERNEL_TESTS = "test/registered/attention/test_wave_attention_kernels.py"


@contextlib.contextmanager
def sglang_sources():
    """Within it, SGLang's modules are those of the checkout."""
    if not SOURCE:
        raise unittest.SkipTest("SGLANG_SOURCE is not set")
    patch = MonkeyPatch()
    try:
        with serving_standins.on(DEVICE):
            serving_standins.sglang_source(patch, SOURCE)
            yield
    finally:
        patch.undo()


def kernel_tests():
    """SGLang's test file as a module."""
    path = os.path.join(SOURCE, KERNEL_TESTS)
    spec = importlib.util.spec_from_file_location("test_wave_attention_kernels", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_sglang_kernels():
    with sglang_sources():
        suite = unittest.defaultTestLoader.loadTestsFromModule(kernel_tests())
        result = unittest.TextTestRunner(verbosity=2).run(suite)
    wrong = result.errors + result.failures
    for test, text in wrong:
        print(f"  {test} failed\n{text[-1500:]}")
    assert result.testsRun == 3 and not wrong
    print(f"  {KERNEL_TESTS}: {result.testsRun} passed")


def test_sglang_plugin_on_a_gpu():
    with serving_standins.on(DEVICE):
        run_tests(test_sglang_plugin)


def test_vllm_plugin_on_a_gpu():
    with serving_standins.on(DEVICE):
        run_tests(test_vllm_plugin)
        run_tests(test_vllm_mla)


def test_models_on_a_gpu():
    with serving_standins.on(DEVICE):
        run_tests(test_served_models)


def test_training_on_a_gpu():
    with serving_standins.on(DEVICE):
        run_tests(test_nn, "200_steps")


def check_pool(elements, page, heads, kv_heads, size, columns):
    """Tokens in the last and the first pages of pools with more than this many elements; what no
    token is stored in is NaN. With fewer columns than the size, values are columns of keys."""
    pages = elements // (page * kv_heads * size) + 8
    shape, latent = (pages, page, kv_heads, size), columns < size
    pools = [
        torch.full(shape, float("nan"), dtype=torch.bfloat16, device=DEVICE)
        for _ in range(1 if latent else 2)
    ]
    keys, values = pools[0], pools[-1][..., :columns]
    lengths, count = [3 * page + 1, 2], 3 * page + 3
    table = [[pages - 1, 0, pages - 3, pages - 2], [pages - 5, pages - 6, 0, 0]]
    rng = torch.Generator().manual_seed(6)
    k, v, q = (
        torch.randn(*shape, generator=rng).bfloat16().to(DEVICE)
        for shape in ((count, kv_heads, size), (count, kv_heads, columns), (2, heads, size))
    )
    v = k[..., :columns] if latent else v
    places = [row[t // page] * page + t % page for row, n in zip(table, lengths) for t in range(n)]
    slots = torch.tensor(places, device=DEVICE)
    ops.kv_append(k, k if latent else v, keys, keys if latent else values, slots)
    whole = [torch.tensor(x, dtype=torch.int32, device=DEVICE) for x in (table, lengths, [0, 1, 2])]
    o, _ = ops.attention_paged(q, keys, values, *whole, 1, max(lengths), causal=True)
    for row, part in enumerate((slice(0, lengths[0]), slice(lengths[0], count))):
        exact = expected(host(q[row : row + 1]), host(k[part]), host(v[part]))[0]
        assert abs(host(o[row : row + 1]) - exact).max() <= 2**-6 * max(abs(exact).max(), 1)


def test_pools_past_2_31_elements():
    for page, *sizes in ((16, 8, 2, 128, 128), (1, 8, 2, 64, 64), (64, 16, 1, 576, 512)):
        check_pool(2**31, page, *sizes)
