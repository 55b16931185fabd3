"""The tests of the kernel library and of ops with tensors on a GPU: arrays are copied there and
back."""

import contextlib
import functools
import types
from inspect import signature

import numpy as np
import torch

import test_library_biases
import test_library_decode
import test_library_dense
import test_library_extend
import test_library_gemm
import test_library_prefill
import test_library_speculative
import test_ops_attention
import test_ops_attention_gradients
import test_ops_biases
import test_ops_conv
import test_ops_dense
import test_ops_extend
import test_ops_gradients
import test_ops_matmul
import test_ops_moe
import test_ops_moe_gradients
import test_ops_mx
import test_ops_rows
import test_ops_sampling
import test_ops_speculative
from wave_lang import WaveCompileOptions, ops, wave_compile
from wave_lang.ops import sampling

TEMPLATES = (
    test_library_biases,
    test_library_decode,
    test_library_dense,
    test_library_extend,
    test_library_gemm,
    test_library_prefill,
    test_library_speculative,
)
OPS = (
    test_ops_attention,
    test_ops_attention_gradients,
    test_ops_biases,
    test_ops_conv,
    test_ops_dense,
    test_ops_extend,
    test_ops_gradients,
    test_ops_matmul,
    test_ops_moe,
    test_ops_moe_gradients,
    test_ops_mx,
    test_ops_rows,
    test_ops_sampling,
    test_ops_speculative,
)
WHOLE = {1: np.uint8, 2: np.int16}  # for types that PyTorch does not take from NumPy


def to_gpu(array):
    """A copy on the GPU, with the same strides if elements have places of their own; PyTorch's
    types have the names of ml_dtypes'."""
    given = [s // array.itemsize for s in array.strides]
    array = np.array(array, order="C")
    strides = [s // array.itemsize for s in array.strides]
    special = array.dtype.kind == "V" or array.dtype.isbuiltin != 1
    made = torch.from_numpy(array.view(WHOLE[array.itemsize]) if special else array).cuda()
    if array.size > 1 and given != strides and min(given) > 0:
        made = made.new_empty_strided(array.shape, given).copy_(made)
    return made.view(getattr(torch, array.dtype.name)) if special else made


def to_host(tensor, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "V" or dtype.isbuiltin != 1:
        whole = {1: torch.uint8, 2: torch.int16}[dtype.itemsize]
        return tensor.contiguous().view(whole).cpu().numpy().view(dtype)
    return tensor.cpu().numpy()


def numpy_type(tensor):
    import ml_dtypes

    name = str(tensor.dtype).removeprefix("torch.")
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def on_gpu(function):
    """The same function on copies of arrays; what it writes is copied back, what it makes is
    copied to the host, and an argument that it returns is the caller's array."""

    def call(*args, **named):
        known = []

        def moved(value):
            if not isinstance(value, np.ndarray):
                return value
            known.append((value, to_gpu(value)))
            return known[-1][1]

        made = function(*map(moved, args), **{name: moved(v) for name, v in named.items()})
        torch.cuda.synchronize()
        for array, tensor in known:
            if array.flags.writeable:
                array[...] = to_host(tensor, array.dtype)

        def returned(tensor):
            for array, other in known:
                if other is tensor:
                    return array
            return to_host(tensor, numpy_type(tensor))

        if isinstance(made, tuple):
            return tuple(map(returned, made))
        return made if made is None else returned(made)

    return call


def compiled(target, kernel, subs, dynamic_symbols=(), **options):
    given = WaveCompileOptions(subs=subs, dynamic_symbols=list(dynamic_symbols), **options)
    return on_gpu(wave_compile(given, kernel))


def gpu_ops():
    """The module of ops, with functions that take arrays."""
    functions = {name: on_gpu(getattr(ops, name)) for name in ops.__all__ if name != "on_target"}
    return types.SimpleNamespace(**functions, on_target=lambda target: contextlib.nullcontext())


def cases(module):
    """(test, case) of a module's tests that need nothing else, each case once."""
    for name, test in vars(module).items():
        plain = name.startswith("test_") and set(signature(test).parameters) == {"case", "target"}
        for mark in getattr(test, "pytestmark", []) if plain else []:
            if mark.args[0] == "case, target":
                rows = [getattr(row, "values", row) for row in mark.args[1]]
                seen = []
                for case, _ in rows:
                    if not any(case is other for other in seen):
                        seen.append(case)
                        yield test, case


@contextlib.contextmanager
def replaced(module, name, value):
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


@contextlib.contextmanager
def with_gpu_ops(module):
    """Within it, the functions that the tests of a module call run on the GPU."""
    on, every = gpu_ops(), {"ops": ops, **{name: getattr(ops, name) for name in ops.__all__}}
    with contextlib.ExitStack() as stack:
        for name, function in every.items():
            if vars(module).get(name) is function and name != "on_target":
                new = on if name == "ops" else getattr(on, name)
                stack.enter_context(replaced(module, name, new))
        yield


def test_templates():
    for module in TEMPLATES:
        with replaced(module, "compiled", compiled):
            for test, case in cases(module):
                test(case, "")


def test_ops():
    for module in OPS:
        with with_gpu_ops(module):
            for test, case in cases(module):
                test(case, "")


def test_divided_rows():
    """Rows of logits that several workgroups divide, as those of a large vocabulary are."""
    small = functools.partial(sampling.Form, part=256, parts=2, bins=128, room=32)
    with with_gpu_ops(test_ops_sampling), replaced(sampling, "Form", small):
        with replaced(sampling, "LONG", 0):
            for case in test_ops_sampling.DIVIDED:
                test_ops_sampling.test_divided_rows(case, "", None)


def test_batch_invariance():
    with with_gpu_ops(test_ops_attention):
        for case in test_ops_attention.INVARIANT:
            test_ops_attention.test_batch_invariance(*case, "")


def test_strided_views_and_bits():
    with with_gpu_ops(test_ops_dense):
        test_ops_dense.test_keys_of_8_bits_and_strided_views()
        test_ops_dense.test_a_sequence_has_the_same_bits_in_any_batch()


def test_draws():
    """The distributions of a million draws, by chi-square."""
    with with_gpu_ops(test_ops_sampling), replaced(test_ops_sampling, "DRAWS", 1_000_000):
        for limits in ({}, {"top_k": 5}, {"top_p": 0.7}, {"min_p": 0.3}):
            test_ops_sampling.test_frequencies(limits)
        test_ops_sampling.test_offsets_and_seeds_draw_anew()
        test_ops_sampling.test_a_number_for_each_row()
    with with_gpu_ops(test_ops_speculative):
        test_ops_speculative.test_chains_follow_the_target()
