"""The listings of the talks, verbatim, on a GPU through PyTorch."""

import itertools

import torch

import test_kernels_seed as seeds
from wave_lang import WaveCompileOptions, wave_compile


def run_on_gpu(kernel, subs, *args, **options):
    """Instead of the evaluator: arrays are copied to the GPU and back."""
    compiled = wave_compile(WaveCompileOptions(subs=subs, **options), kernel)
    tensors = [torch.from_numpy(a).cuda() for a in args]
    compiled(*tensors)
    torch.cuda.synchronize()
    for array, tensor in zip(args, tensors):
        array[...] = tensor.cpu().numpy()


def each(test):
    """Every set of parameters that a test is decorated with, as names and values."""
    rows = []
    for mark in test.pytestmark:
        names = [n.strip() for n in mark.args[0].split(",")]
        rows.append([dict(zip(names, v if len(names) > 1 else [v])) for v in mark.args[1]])
    for chosen in itertools.product(*rows):
        yield {k: v for part in chosen for k, v in part.items()}


def run_all(test):
    before = seeds.run
    seeds.run = run_on_gpu
    try:
        for parameters in each(test):
            test(**parameters)
    finally:
        seeds.run = before


def test_copy():
    run_all(seeds.test_copy)


def test_gemm():
    run_all(seeds.test_gemm)


def test_convolution():
    run_all(seeds.test_convolution)


def test_attention():
    run_all(seeds.test_attention)


def test_attention_of_the_overview_talk():
    run_all(seeds.test_attention_of_the_overview_talk)


def test_a_violated_assumption_is_named():
    before = seeds.run
    seeds.run = run_on_gpu
    try:
        seeds.test_a_violated_assumption_is_named()
    finally:
        seeds.run = before
