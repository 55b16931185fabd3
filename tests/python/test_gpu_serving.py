"""The plugins of SGLang and vLLM, models that are served through them, and training, on a GPU.

With SGLANG_SOURCE=CHECKOUT, SGLang's own tests of its `wave` kernels run unchanged, its `wave`
backend is driven. With VLLM_SOURCE=CHECKOUT, vLLM's own classes replace stand-ins."""

import contextlib
import importlib.util
import os
import unittest

import serving_standins
import test_nn
import test_served_models
import test_sglang_plugin
import test_vllm_mla
import test_vllm_plugin
from gpu_utils import DEVICE
from plain_tests import MonkeyPatch, run_tests
from test_sglang_plugin import SOURCE

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
