"""Tensors are used in place: no copies, any strides, any same-width element type."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import build
from wave_lang import CompileError, _wave
from wave_lang.kernel._support.tensor_types import element_type, name_elsewhere
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave.host_tensors import log_tensor

M, N = tkl.sym.M, tkl.sym.N
G = GLOBAL_ADDRESS_SPACE


def copy_kernel(source, target=None):
    target = target or source

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64}),
            tkw.WorkgroupConstraint(M, 1, 1),
            tkw.WorkgroupConstraint(N, 64, 0),
        ]
    )
    def kernel(a: tkl.Memory[M, N, G, source], b: tkl.Memory[M, N, G, target]):
        x = tkw.read(a)
        tkw.write(x if source is target else tkw.cast(x, target), b)

    return build(kernel, {}, dynamic_symbols=[M, N])


NUMPY = [
    (tkl.f64, np.float64),
    (tkl.f32, np.float32),
    (tkl.f16, np.float16),
    (tkl.i64, np.int64),
    (tkl.i32, np.int32),
    (tkl.i16, np.int16),
    (tkl.i8, np.int8),
    (tkl.i8, np.uint8),
    (tkl.i32, np.uint32),
    (tkl.i1, np.bool_),
]


@pytest.mark.parametrize("ours, theirs", NUMPY, ids=lambda t: getattr(t, "__name__", str(t)))
def test_numpy_types(ours, theirs):
    a = np.random.default_rng(0).integers(0, 2, (3, 70)).astype(theirs)
    b = np.zeros_like(a)
    copy_kernel(ours)(a, b)
    assert np.array_equal(a, b)


def test_truth_is_written_as_one():
    """Any byte but 0 is read as true."""
    a, b = np.array([[77, 0, 1]], np.uint8), np.array([[99, 99, 0]], np.uint8)
    copy_kernel(tkl.i1)(a, b)
    assert b.tolist() == [[1, 0, 1]]


def test_views_are_read_and_written_in_place():
    kernel = copy_kernel(tkl.f32)
    base = np.arange(4 * 6 * 2, dtype=np.float32).reshape(8, 6)
    for view in (
        lambda x: x[::2, 1:4],
        lambda x: x.T,
        lambda x: x[::-1, ::-1],
        lambda x: np.broadcast_to(x[:1], (5, 6)),
        lambda x: x.T[2:5, ::3],
    ):
        a = view(base)
        whole = np.full(tuple(2 * s for s in a.shape), -1.0, np.float32)
        b = whole[::2, 1::2]
        kernel(a, b)
        assert np.array_equal(b, a)
        assert (np.delete(whole, np.s_[::2], 0) == -1).all() and (whole[:, ::2] == -1).all()


def test_other_exporters():
    import array

    a, b = bytearray(range(24)), array.array("b", [0] * 24)
    kernel = copy_kernel(tkl.i8)
    kernel(memoryview(a).cast("B", (4, 6)), memoryview(b).cast("B").cast("b", (4, 6)))
    assert bytes(b) == bytes(a)


def test_read_only_outputs_are_refused_but_inputs_are_fine():
    kernel = copy_kernel(tkl.f32)
    a, b = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    a.flags.writeable = False
    kernel(a, b)
    assert (b == 1).all()
    b.flags.writeable = False
    with pytest.raises(ValueError, match="`b`.*read-only"):
        kernel(a, b)


def test_wrong_arguments_name_the_parameter():
    kernel = copy_kernel(tkl.f32)
    good = np.ones((2, 3), np.float32)
    with pytest.raises(TypeError, match="`b` must be a tensor"):
        kernel(good, [[0.0]])
    with pytest.raises(TypeError, match="`a`.*format"):
        kernel(np.zeros((2, 3), "S4"), good)
    for wrong in (
        np.ones((2, 3), np.float64),
        np.ones(6, np.float32),
        np.ones((1, 2, 3), np.float32),
    ):
        with pytest.raises(CompileError) as e:
            kernel(wrong, good)
        assert "`a`" in str(e.value) or "%a" in str(e.value)


def test_scalar_arguments():
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1}),
            tkw.WorkgroupConstraint(M, 1, 0),
        ]
    )
    def kernel(c: tkl.Memory[M, G, tkl.f32], f: tkl.f32, i: tkl.i32):
        tkw.write(tkw.broadcast(f + tkw.cast(i, tkl.f32), [M]), c)

    compiled, c = build(kernel, {M: 3}), np.zeros(3, np.float32)
    for f, i in ((1.5, 2), (np.float32(1.5), np.int64(2)), (1, True)):
        compiled(c, f, i)
        assert (c == float(f) + int(i)).all()
    with pytest.raises(TypeError, match="`i` must be a number of type i32"):
        compiled(c, 1.0, 2.5)
    with pytest.raises(TypeError, match="`f` must be a number"):
        compiled(c, "x", 2)


# ---- DLPack: PyTorch -------------------------------------------------------------------------

TORCH = [
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "bool",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]


@pytest.mark.parametrize("name", TORCH)
def test_torch_types(name):
    torch = pytest.importorskip("torch")
    from wave_lang.kernel.wave.utils.general_utils import torch_dtype_to_wave, wave_dtype_to_torch

    dtype = getattr(torch, name)
    a = torch.randint(0, 2, (3, 70)).to(dtype)
    b = torch.zeros((3, 70)).to(dtype)
    ours = torch_dtype_to_wave(dtype)
    assert wave_dtype_to_torch(ours) == dtype
    copy_kernel(ours)(a, b)
    assert torch.equal(a.to(torch.float32), b.to(torch.float32))


def test_torch_views_and_arithmetic():
    torch = pytest.importorskip("torch")
    kernel = copy_kernel(tkl.bf16, tkl.f32)
    a = torch.randn(6, 8).to(torch.bfloat16).T[::2]
    whole = torch.zeros(8, 12)
    kernel(a, whole[::2, ::2])
    assert torch.equal(whole[::2, ::2], a.float()) and whole[1::2].abs().sum() == 0


def test_torch_packed_bytes():
    torch = pytest.importorskip("torch")
    a, b = torch.arange(12, dtype=torch.uint8).reshape(3, 4), torch.zeros(3, 4, dtype=torch.uint8)
    copy_kernel(tkl.i8)(a, b)
    assert torch.equal(a, b)


def test_torch_tensors_survive_and_memory_is_released():
    torch = pytest.importorskip("torch")
    import gc
    import weakref

    kernel = copy_kernel(tkl.f32)
    a, b = torch.ones(2, 3), torch.zeros(2, 3)
    kernel(a, b)
    alive = weakref.ref(a)
    del a
    gc.collect()
    assert alive() is None and b.sum() == 6


@pytest.mark.parametrize("columns", [5, 0])
@pytest.mark.parametrize("name", TORCH)
def test_torch_debug_logs_are_torch_tensors(name, columns):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64}),
            tkw.WorkgroupConstraint(M, 1, 1),
            tkw.WorkgroupConstraint(N, 64, 0),
        ]
    )
    def kernel(a: tkl.Memory[M, N, G, element_type(name)]):
        tkw.debug_log(tkw.read(a), "a", printer=None)

    logs, a = {}, torch.randint(0, 2, (2, columns)).to(dtype)
    build(kernel, {M: 2, N: columns})(a, debug_logs=logs)
    logged = logs["a"]["value"]
    assert logged.dtype == dtype and logged.shape == a.shape
    assert torch.equal(logged.view(torch.uint8), a.view(torch.uint8))


def test_types_that_a_library_lacks_stay_bytes():
    made = log_tensor("f6e2m3fn", (2, 3), bytes(range(6)), ())
    assert made.dtype == np.uint8 and made.shape == (2, 3)
    assert log_tensor("bf16", (3,), bytes(6), ()).dtype == np.uint16
    assert log_tensor("index", (0, 3), b"", ()).dtype == np.int64
    torch = pytest.importorskip("torch")
    assert log_tensor("f6e2m3fn", (2, 3), bytes(6), (torch.zeros(1),)).shape == (2, 3, 1)


def test_names_of_other_packages_have_one_list():
    for theirs, ours, in_numpy in _wave.tensor_dtypes:
        assert element_type(theirs) is ours
        if in_numpy:
            assert np.dtype(theirs).itemsize * 8 == max(ours.bitwidth(), 8)
            assert name_elsewhere(ours, in_numpy=True) == theirs
    assert element_type("complex64") is None and name_elsewhere(tkl.f4e2m1fn) is None
    assert name_elsewhere(tkl.bf16, in_numpy=True) is None


def test_torch_helpers():
    torch = pytest.importorskip("torch")
    from wave_lang.kernel.wave.utils import mxfp_utils, torch_utils

    x, w, xs, ws = mxfp_utils.generate_gemm_afp4wfp4_inputs((32, 64, 128))
    assert x.shape == (32, 64) and w.shape == (64, 64) and xs.shape == (32, 4)
    assert mxfp_utils.torchScaledGemmMXFP4(x, w, xs, ws).shape == (32, 64)
    assert mxfp_utils.mxfp4_to_f32(torch.tensor([[0x21, 0xF7]], dtype=torch.uint8)).tolist() == [
        [0.5, 1.0, 6.0, -6.0]
    ]
    assert mxfp_utils.e8m0_to_f32(torch.tensor([127, 128], dtype=torch.uint8)).tolist() == [
        1.0,
        2.0,
    ]
    assert sorted(mxfp_utils.b_preshuffle(torch.arange(16 * 32).reshape(16, 32)).flatten()) == list(
        range(512)
    )
    q = torch_utils.quantized_tensor((4, 4), torch.int8, 3.0)
    assert q.dtype == torch.int8 and q.abs().max() <= 3
    assert torch_utils.device_zeros(2, dtype=torch.float16).device.type in ("cpu", "cuda")
