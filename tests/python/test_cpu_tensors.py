"""NumPy arrays and PyTorch tensors on the CPU of this machine: used in place, with their strides;
if one cannot be used the error names it, and nothing is written."""

import mmap

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import ArgumentError, CompileError, LaunchError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.wave.machine import devices

pytestmark = pytest.mark.skipif(not devices("cpu"), reason="there is no libLLVM")

M, N = tkl.sym.M, tkl.sym.N
ROWS = [
    tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64}),
    tkw.WorkgroupConstraint(M, 1, 1),
    tkw.WorkgroupConstraint(N, 64, 0),
]


def compiled(kernel):
    made = wave_compile(WaveCompileOptions(dynamic_symbols=[M, N], target="cpu"), kernel)
    assert made.program is not None
    return made


def doubling(dtype):
    @tkw.wave(ROWS)
    def double(a: tkl.Memory[M, N, G, dtype], b: tkl.Memory[M, N, G, dtype]):
        x = tkw.read(a)
        tkw.write(x + x, b)

    return compiled(double)


@pytest.fixture(scope="module")
def double():
    return doubling(tkl.f32)


TYPES = ("f64", "f32", "f16", "i64", "i32", "i16", "i8")


@pytest.mark.parametrize("name", TYPES)
def test_types(name):
    dtype = np.dtype(name.replace("f", "float").replace("i", "int"))
    a = np.arange(-35, 35).reshape(2, 35).astype(dtype)
    b = np.zeros_like(a)
    doubling(getattr(tkl, name))(a, b)
    assert np.array_equal(b, a + a)


VIEWS = {
    "rows apart": lambda x: x[::2, 1:40],
    "columns apart": lambda x: x[:9, ::3],
    "turned": lambda x: x.T,
    "backwards": lambda x: x[::-1, ::-1],
    "not aligned": lambda x: x[1:, 1:],
    "one element": lambda x: x[3:4, 5:6],
    "one column": lambda x: x[:, 7:8],
}


@pytest.mark.parametrize("first", VIEWS)
@pytest.mark.parametrize("second", ["whole", "same"])
def test_views(double, first, second):
    a = np.arange(20 * 131, dtype=np.float32).reshape(20, 131)
    source = VIEWS[first](a)
    base = np.full_like(a, -1)
    target = VIEWS[first](base) if second == "same" else np.full(source.shape, -1, np.float32)
    double(source, target)
    assert np.array_equal(target, 2 * source)
    if second == "same":  # the elements in between are not written
        VIEWS[first](base)[...] = -1
        assert (base == -1).all()


def test_a_row_for_all(double):
    """Stride 0."""
    row = np.arange(70, dtype=np.float32)
    b = np.zeros((5, 70), np.float32)
    double(np.broadcast_to(row, b.shape), b)
    assert np.array_equal(b, np.broadcast_to(2 * row, b.shape))


def test_nothing_is_copied(double):
    """Rows that are 1 GB apart, in memory that is allocated when it is touched: a copy of it would
    not fit; results are read through another view of the same pages."""
    count, gap = 32, 1 << 30
    try:
        pages = mmap.mmap(
            -1, count * gap, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # NORESERVE
        )
    except OSError:
        pytest.skip("there is not enough address space")
    whole = np.frombuffer(pages, np.float32)
    far = np.lib.stride_tricks.as_strided(whole, (count, 100), (gap, 4))
    far[:] = np.arange(100)
    double(far, far)
    assert whole[5 * gap // 4 + 7] == 14 and np.array_equal(far[31], 2 * np.arange(100))


def test_read_only_arrays(double):
    a, b = np.ones((3, 8), np.float32), np.zeros((3, 8), np.float32)
    a.setflags(write=False)
    double(a, b)
    assert (b == 2).all()
    b.setflags(write=False)
    with pytest.raises((TypeError, ValueError, LaunchError, BufferError), match="`?b`?"):
        double(a, b)
    assert (b == 2).all()


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0, 0)])
def test_empty_arrays(double, shape):
    double(np.zeros(shape, np.float32), np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    "a, b, words",
    [
        (np.ones((2, 3), "f4"), np.ones((2, 4), "f4"), ["`b`", "4", "3"]),
        (np.ones((2, 3), "f4"), np.ones((3,), "f4"), ["`b`"]),
        (np.array(1, "f4"), np.ones((2, 3), "f4"), ["`a`"]),
        (np.ones((2, 3), "f8"), np.ones((2, 3), "f4"), ["`a`", "f32"]),
        (np.ones((2, 3), ">f4"), np.ones((2, 3), "f4"), ["`a`"]),
        ([1.0, 2.0], np.ones((2, 3), "f4"), ["`a`"]),
        (None, np.ones((2, 3), "f4"), ["`a`"]),
    ],
    ids=["size", "rank", "no dimensions", "width", "big-endian", "list", "none"],
)
def test_what_does_not_fit_is_named(double, a, b, words):
    before = b.copy()
    with pytest.raises((CompileError, TypeError, ValueError, BufferError)) as refused:
        double(a, b)
    assert all(word in str(refused.value) for word in words), str(refused.value)
    assert np.array_equal(b, before)


# ---- types that NumPy takes from ml_dtypes ----


@pytest.fixture
def ml_dtypes():
    return pytest.importorskip("ml_dtypes")


EXTENDED = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2"}


@pytest.mark.parametrize("name", EXTENDED)
def test_ml_dtypes(ml_dtypes, name):
    dtype = getattr(ml_dtypes, name)
    a = np.arange(-8, 8).reshape(2, 8).astype(dtype)
    b = np.zeros((4, 16), dtype)
    doubling(getattr(tkl, EXTENDED[name]))(a, b[::2, 1::2])
    assert np.array_equal(b[::2, 1::2].astype("f4"), 2 * a.astype("f4"))
    assert not b[1::2].any() and not b[:, ::2].any()


def test_ml_dtypes_that_do_not_fit(ml_dtypes):
    a, b = np.ones((2, 3), ml_dtypes.bfloat16), np.ones((2, 3), ml_dtypes.bfloat16)
    b.flags.writeable = False
    with pytest.raises(ValueError, match="`b` is written by the kernel but is read-only"):
        doubling(tkl.bf16)(a, b)
    with pytest.raises(CompileError, match="`a`.*bf16"):
        doubling(tkl.f16)(a, np.ones((2, 3), np.float16))
    with pytest.raises(BufferError):  # one element per byte there, two here
        doubling(tkl.f16)(np.ones((2, 3), ml_dtypes.float4_e2m1fn), np.ones((2, 3), np.float16))


# ---- PyTorch ----


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float64", "int32", "int8"])
def test_torch_types(torch, name):
    ours = {"bfloat16": "bf16"}.get(name) or name.replace("float", "f").replace("int", "i")
    a = torch.arange(-35, 35).reshape(2, 35).to(getattr(torch, name))
    b = torch.zeros_like(a)
    doubling(getattr(tkl, ours))(a, b)
    assert torch.equal(b, a + a)


def test_torch_tensors_are_written_where_they_lie(torch, double):
    base = torch.zeros(9, 140)
    for view in (lambda x: x[::2, 3:90], lambda x: x.T, lambda x: x[1:, 1:]):
        base.zero_()
        target = view(base)
        a = torch.randn(target.shape)
        address = base.data_ptr()
        double(a, target)
        assert base.data_ptr() == address and torch.equal(target, a + a)
    double(torch.ones(3, 8).expand(3, 8)[:1].expand(4, 8), base[:4, :8])
    assert (base[:4, :8] == 2).all()


def test_torch_tensors_with_the_other_sign(torch, double):
    """The imaginary part of a conjugate is that of the tensor, with a bit that says so."""
    x = torch.complex(torch.zeros(4, 70), torch.arange(280.0).reshape(4, 70)).conj().imag
    y = torch.zeros(4, 70)
    with pytest.raises(ArgumentError, match="argument `a` has .* the other sign: give `resolve_neg"):
        double(x, y)
    double(x.resolve_neg(), y)
    assert torch.equal(y, 2 * x)


def test_torch_tensors_that_do_not_fit(torch, double):
    with pytest.raises(CompileError, match="`b`"):
        double(torch.ones(2, 3), torch.ones(2, 4))
    with pytest.raises(RuntimeError, match="storage") as caught:  # PyTorch's own words
        double(torch.ones(2, 3), torch.ones(2, 3).to_sparse())
    assert caught.value.__notes__ == ["this is about argument `b`"]
    double(torch.zeros(0, 3), torch.zeros(0, 3))
