"""Every interface to a tensor gives the same result: DLPack's table of C functions, PyTorch's
attributes, `__cuda_array_interface__`, the buffer protocol, `__dlpack__`."""

import ctypes
import sys

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
from test_buffers import TORCH, copy_kernel
from wave_lang import CompileError, _wave


@pytest.fixture(params=["exchange", "attributes"])
def torch(request):
    torch = pytest.importorskip("torch")
    if request.param == "exchange" and not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this PyTorch has no table of C functions")
    _wave.use_exchange(request.param == "exchange")
    yield torch
    _wave.use_exchange(True)


@pytest.mark.parametrize("name", TORCH)
def test_types(torch, name):
    from wave_lang.kernel.wave.utils.general_utils import torch_dtype_to_wave

    dtype = getattr(torch, name)
    a = torch.randint(0, 2, (3, 70)).to(dtype)
    b = torch.zeros((3, 70)).to(dtype)
    copy_kernel(torch_dtype_to_wave(dtype))(a, b)
    assert torch.equal(a.float(), b.float())


def test_views(torch):
    whole = torch.zeros(8, 12)
    a = torch.randn(6, 8).T[::2]
    copy_kernel(tkl.f32)(a, whole[::2, ::2])
    assert torch.equal(whole[::2, ::2], a) and whole[1::2].abs().sum() == 0
    a = torch.randn(1, 5).expand(4, 5)
    b = torch.zeros(4, 5)
    copy_kernel(tkl.f32)(a, b)
    assert torch.equal(a, b)


def test_parameters_and_tensors_with_gradients(torch):
    a = torch.nn.Parameter(torch.randn(3, 4))
    b = torch.zeros(3, 4)
    copy_kernel(tkl.f32)(a, b)
    assert torch.equal(a.detach(), b)


def test_empty_tensors(torch):
    copy_kernel(tkl.f32)(torch.zeros(0, 5), torch.zeros(0, 5))


def test_mistakes_name_the_argument(torch):
    kernel, b = copy_kernel(tkl.f32), torch.zeros(2, 3)
    with pytest.raises((TypeError, BufferError), match="`a`|complex"):
        kernel(torch.zeros(2, 3, dtype=torch.complex64), b)
    with pytest.raises(ValueError, match="`a` has 9 dimensions"):
        kernel(torch.zeros([1] * 9), b)
    with pytest.raises(CompileError, match="a"):
        kernel(torch.zeros(2, 3, 4), b)
    with pytest.raises((ValueError, BufferError, RuntimeError, NotImplementedError)) as caught:
        kernel(torch.zeros(2, 3, device="meta"), b)
    assert "argument `a`" in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


def test_no_reference_is_kept(torch):
    a, b = torch.zeros(2, 3), torch.zeros(2, 3)
    kernel = copy_kernel(tkl.f32)
    kernel(a, b)
    before = sys.getrefcount(a)
    for _ in range(10):
        kernel(a, b)
        with pytest.raises(CompileError):
            kernel(a, torch.zeros(2, 3, dtype=torch.float64))
    assert sys.getrefcount(a) == before


# ---- other libraries -----------------------------------------------------------------------------


class OnlyDLPack:
    """An array that has only `__dlpack__`."""

    def __init__(self, array):
        self.array, self.asked = array, []

    def __dlpack__(self, **named):
        self.asked.append(named)
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack_capsules():
    a, b = np.arange(6, dtype="f4").reshape(2, 3), np.zeros((2, 3), "f4")
    copy_kernel(tkl.f32)(OnlyDLPack(a), OnlyDLPack(b))
    assert np.array_equal(a, b)


def test_a_failing_producer_is_not_hidden():
    class Broken:
        def __dlpack__(self, **named):
            raise RuntimeError("no such memory")

    with pytest.raises(RuntimeError, match="no such memory"):
        copy_kernel(tkl.f32)(Broken(), np.zeros((2, 3), "f4"))


class CudaArray:
    def __init__(self, **fields):
        self.__cuda_array_interface__ = fields

    __cuda_array_interface__ = None


def cuda_array(**changed):
    fields = {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3, **changed}
    made = CudaArray()
    made.__dict__["__cuda_array_interface__"] = fields
    return made


@pytest.mark.parametrize(
    "changed, error, text",
    [
        ({}, ValueError, "`a` is on a device"),
        ({"stream": 1, "strides": (12, 4)}, ValueError, "`a` is on a device"),
        ({"typestr": "<c8"}, TypeError, "`a`: element type '<c8'"),
        ({"strides": (12, 3)}, ValueError, "`a`: a stride"),
        ({"data": None}, ValueError, "`a`: __cuda_array_interface__ has no data"),
        ({"shape": [2, 3]}, TypeError, "`a`"),
        ({"data": (0, False)}, ValueError, "`a` has no data"),
    ],
)
def test_cuda_array_interface(changed, error, text):
    with pytest.raises(error, match=text):
        copy_kernel(tkl.f32)(cuda_array(**changed), np.zeros((2, 3), "f4"))


def test_read_only_cuda_arrays_are_not_written():
    with pytest.raises(ValueError, match="`b` is written by the kernel but is read-only"):
        copy_kernel(tkl.f32)(np.zeros((2, 3), "f4"), cuda_array(data=(4096, True)))


# ---- a table of C functions that is not PyTorch's ------------------------------------------------


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_View = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_DLTensor))


class _Table(ctypes.Structure):
    pass


_Table._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("older", ctypes.POINTER(_Table)),
    ("unused", ctypes.c_void_p * 3),
    ("view", _View),
    ("stream", ctypes.c_void_p),
]


@_View
def _view(o, out):
    array, t = o.array, out.contents
    t.data, t.device_type, t.ndim = array.ctypes.data - 8, 1, array.ndim
    t.code, t.bits, t.lanes, t.byte_offset = 2, 32, 1, 8
    o.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    t.shape, t.strides = o.shape, None
    return 0


def exchange_type(major=1, older=None):
    """A type of arrays with such a table; a later major version may point to an older table."""
    table = _Table(major, 3, older, (ctypes.c_void_p * 3)(), _view, 1)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_void_p,
    ]
    name = ctypes.c_char_p(b"dlpack_exchange_api")
    capsule = new(ctypes.addressof(table), name, None)
    kept = {"table": table, "name": name, "__c_dlpack_exchange_api__": capsule}
    made = type("Array", (), kept)
    made.__init__ = lambda self, array: setattr(self, "array", array)
    return made


def test_the_table_under_its_other_name():
    Array = exchange_type()
    a, b = np.arange(6, dtype="f4").reshape(2, 3), np.zeros((2, 3), "f4")
    copy_kernel(tkl.f32)(Array(a), Array(b))
    assert np.array_equal(a, b)


def test_tables_of_other_versions():
    a, b = np.arange(6, dtype="f4").reshape(2, 3), np.zeros((2, 3), "f4")
    with pytest.raises(TypeError, match="`a` must be a tensor"):
        copy_kernel(tkl.f32)(exchange_type(major=2)(a), b)
    older = exchange_type().table
    copy_kernel(tkl.f32)(exchange_type(major=2, older=ctypes.pointer(older))(a), b)
    assert np.array_equal(a, b)
