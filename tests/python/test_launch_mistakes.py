"""A call that does not match a kernel raises LaunchError, the same on every target, and runs
nothing.

An argument that cannot be used at all gives an ArgumentError, which is also a TypeError and a
ValueError."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import ArgumentError, LaunchError, WaveCompileOptions, wave_compile

M, N = tkl.sym.M, tkl.sym.N
G = tkw.GLOBAL_ADDRESS_SPACE
TARGETS = ("eval", "cpu", "sim:sm_80", "sim:gfx942")


@tkw.wave([
    tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64}),
    tkw.WorkgroupConstraint(M, 4, 1),
    tkw.WorkgroupConstraint(N, 64, 0),
])  # fmt: skip
def scaled(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, N, G, tkl.f32], s: tkl.f32):
    tkw.write(tkw.read(a) * s, b)


@pytest.fixture(scope="module", params=TARGETS)
def kernel(request):
    options = WaveCompileOptions(dynamic_symbols=[M, N], target=request.param)
    return wave_compile(options, scaled)


def ones(*shape, dtype="f4"):
    return np.ones(shape, dtype)


def read_only(*shape):
    x = ones(*shape)
    x.flags.writeable = False
    return x


class Elsewhere:
    """A GPU tensor, as described by its array interface."""

    __cuda_array_interface__ = {
        "typestr": "<f4", "shape": (6, 70), "data": (4096, False), "strides": None, "version": 3,
    }  # fmt: skip


class Failing:
    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        raise KeyError("the producer's own")


# the value of `a`, the message; whether it has a diagnostic (E0702) or cannot be used at all
TENSORS = {
    "rank 1": (ones(6), "E0702", "`a` has rank 1, expected 2"),
    "rank 3": (ones(1, 6, 70), "E0702", "`a` has rank 3, expected 2"),
    "f64": (ones(6, 70, dtype="f8"), "E0702", "`a` has dtype f64"),
    "i32": (ones(6, 70, dtype="i4"), "E0702", "`a` has dtype i32"),
    "other size": (ones(5, 70), "E0702", "has size"),
    "None": (None, None, "argument `a` must be a tensor"),
    "list": ([[1.0] * 70] * 6, None, "argument `a` must be a tensor"),
    "number": (1.0, None, "argument `a` must be a tensor"),
    "text": ("a", None, "argument `a` must be a tensor"),
    "objects": (np.empty((6, 70), object), None, "argument `a`: element format 'O'"),
    "big-endian": (ones(6, 70, dtype=">f4"), None, "argument `a`: element format '>f'"),
    "complex": (ones(6, 70, dtype="c8"), None, "argument `a`: element format 'Zf'"),
    "nine dimensions": (ones(*[1] * 9), None, "argument `a` has 9 dimensions"),
    "on a GPU": (Elsewhere(), None, "cuda|is on a device"),
}


@pytest.mark.parametrize("mistake", TENSORS)
def test_tensors(kernel, mistake):
    a, code, words = TENSORS[mistake]
    b = np.full((6, 70), -1, "f4")
    with pytest.raises(LaunchError, match=words) as e:
        kernel(a, b, 2.0)
    assert [d.code for d in e.value.diagnostics] == ([code] if code else [])
    assert isinstance(e.value, ArgumentError) == (code is None)
    assert isinstance(e.value, TypeError) == isinstance(e.value, ValueError) == (code is None)
    assert (b == -1).all()


CALLS = {
    "too few": (lambda k, a, b: k(a, b), r"takes 3 arguments \(a, b, s\), 2 given"),
    "none": (lambda k, a, b: k(), "takes 3 arguments .*, 0 given"),
    "too many": (lambda k, a, b: k(a, b, 1.0, 2.0), "takes 3 arguments .*, 4 given"),
    "unknown name": (lambda k, a, b: k(a, bb=b, s=1.0), "no parameter `bb`; did you mean `b`"),
    "twice": (lambda k, a, b: k(a, a=a, s=1.0), "two values for `a`"),
    "missing by name": (lambda k, a, b: k(a, s=1.0), "is missing the argument `b`"),
    "scalar as text": (lambda k, a, b: k(a, b, "2"), "argument `s` must be a number of type f32"),
    "scalar as bytes": (lambda k, a, b: k(a, b, b"2"), "argument `s` must be a number of type f32"),
    "scalar None": (lambda k, a, b: k(a, b, None), "argument `s` must be a number"),
    "scalar as array": (lambda k, a, b: k(a, b, ones(2)), "argument `s` must be a number"),
    "read-only": (lambda k, a, b: k(a, read_only(6, 70), 1.0), "`b` is written .* read-only"),
}


@pytest.mark.parametrize("mistake", CALLS)
def test_calls(kernel, mistake):
    call, words = CALLS[mistake]
    b = np.full((6, 70), -1, "f4")
    with pytest.raises(ArgumentError, match=words):
        call(kernel, ones(6, 70), b)
    assert (b == -1).all()


def test_a_producer_that_fails_is_not_hidden(kernel):
    with pytest.raises(KeyError, match="the producer's own"):
        kernel(Failing(), ones(6, 70), 1.0)


def test_what_is_no_mistake(kernel):
    """Views of any stride, read-only inputs, tensors without elements."""
    wide = ones(6, 140)
    for a in (wide[:, ::2], ones(70, 6).T, ones(6, 70)[::-1], read_only(6, 70)):
        b = np.zeros((70, 6), "f4").T
        kernel(a, b, 3)
        assert (b == 3).all()
    kernel(ones(0, 70), ones(0, 70), 1.0)


@pytest.mark.parametrize("target", TARGETS)
def test_sizes_that_were_bound(target):
    kernel = wave_compile(WaveCompileOptions(subs={M: 6, N: 70}, target=target), scaled)
    with pytest.raises(LaunchError, match="`a` has size 71 along `N`, expected 70") as e:
        kernel(ones(6, 71), ones(6, 70), 1.0)
    assert e.value.diagnostics[0].code == "E0702"


@pytest.mark.parametrize("target", TARGETS)
def test_a_symbol_without_a_value(target):
    """Detected when the kernel is compiled, if code for a machine is generated, or at the
    launch."""

    @tkw.wave(scaled.constraints)
    def kernel(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, N, G, tkl.f32]):
        q = tkw.cast(tkw.scalar(tkl.sym.Q, tkl.i32), tkl.f32)
        tkw.write(tkw.read(a) * q, b)

    with pytest.raises(LaunchError.__mro__[1], match=r"(?s)E0103.*`Q`.*no value.*or list it in"):
        options = WaveCompileOptions(dynamic_symbols=[M, N], target=target)
        wave_compile(options, kernel)(ones(6, 70), ones(6, 70))
    with pytest.raises(LaunchError.__mro__[1], match=r"(?s)E0103.*`Q`.*no tensor has a dimension"):
        options = WaveCompileOptions(dynamic_symbols=[M, N, tkl.sym.Q], target=target)
        wave_compile(options, kernel)(ones(6, 70), ones(6, 70))


# ---- integers out of range for their type; symbols without a value ----

RANGES = {
    "i8": (-128, 127),
    "u8": (0, 255),
    "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "u32": (0, 2**32 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u64": (0, 2**64 - 1),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", RANGES)
def test_integers_out_of_range(target, dtype):
    t = getattr(tkl, dtype)

    @tkw.wave(
        [tkw.HardwareConstraint(64, vector_shapes={N: 64}), tkw.WorkgroupConstraint(N, 64, 0)]
    )
    def filled(s: t, b: tkl.Memory[N, G, t]):
        tkw.write(tkw.broadcast(s, [N]), b)

    made = wave_compile(WaveCompileOptions(dynamic_symbols=[N], target=target), filled)
    stored = ("int" if dtype[0] == "i" else "uint") + dtype[1:]
    for good in RANGES[dtype]:
        b = np.ones(5, stored)
        made(good, b)
        assert (b == good).all()
    least, most = RANGES[dtype]
    for bad in (least - 1, most + 1, 2**70, -(2**70)):
        b = np.ones(5, stored)
        with pytest.raises(ArgumentError, match=f"`s` is {bad}, which is not a valid {dtype}"):
            made(bad, b)
        assert (b == 1).all()


@pytest.mark.parametrize("target", TARGETS)
def test_dynamic_symbols_that_nobody_uses(target):
    Z = tkl.sym.Z

    def compiled(value):
        @tkw.wave(
            [tkw.HardwareConstraint(64, vector_shapes={N: 64}), tkw.WorkgroupConstraint(N, 64, 0)]
        )
        def kernel(b: tkl.Memory[N, G, tkl.i32]):
            tkw.write(tkl.Register[N, tkl.i32](value), b)

        return wave_compile(WaveCompileOptions(dynamic_symbols=[N, Z], target=target), kernel)

    b = np.zeros(5, "i4")
    compiled(3)(b)
    assert (b == 3).all()
    with pytest.raises(Exception, match="E0103.*`Z`"):
        compiled(Z)(b)
