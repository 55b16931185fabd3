"""The compiler through its C interface, in this process: passes one by one, evaluator, simulator.

The Python package has no passes to call. This sees what `include/wave.h` offers, by ctypes.
"""

import ctypes as c
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
I64P = c.POINTER(c.c_int64)


class PassOptions(c.Structure):
    _fields_ = [
        ("passes", c.c_char_p),
        ("stop_after", c.c_char_p),
        ("dump", c.c_char_p),
        ("verify_each", c.c_bool),
        ("time", c.c_bool),
        ("write", c.CFUNCTYPE(None, c.c_void_p, c.c_char_p, c.c_char_p)),
        ("user", c.c_void_p),
        ("target", c.c_char_p),
    ]


class Buffer(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("dtype", c.c_char_p),
        ("rank", c.c_int),
        ("shape", I64P),
        ("strides", I64P),
    ]


class Arg(c.Structure):
    _fields_ = [("buffer", c.POINTER(Buffer)), ("number", c.c_double), ("integer", c.c_int64)]


class EvalOptions(c.Structure):
    _fields_ = [
        ("log", c.c_void_p),
        ("interrupted", c.c_void_p),
        ("user", c.c_void_p),
        ("check_masks", c.c_bool),
    ]


class SimOptions(c.Structure):
    _fields_ = [
        ("target", c.c_char_p),
        ("schedule", c.c_char_p),
        ("seed", c.c_uint64),
        ("nonfinite", c.c_bool),
        ("write", c.CFUNCTYPE(None, c.c_void_p, c.c_char_p)),
        ("user", c.c_void_p),
    ]


class Diag(c.Structure):
    _fields_ = [
        ("severity", c.c_char_p),
        ("code", c.c_char_p),
        ("text", c.c_char_p),
        ("hint", c.c_char_p),
        ("file", c.c_char_p),
        ("line", c.c_uint32),
        ("col", c.c_uint32),
        ("len", c.c_uint32),
        ("rendered", c.c_char_p),
    ]


_RESULTS = {
    "wv_ctx_new": (c.c_void_p, []),
    "wv_ctx_free": (None, [c.c_void_p]),
    "wv_diag_get": (c.c_bool, [c.c_void_p, c.c_int, c.POINTER(Diag)]),
    "wv_diag_clear": (None, [c.c_void_p]),
    "wv_parse": (c.c_int, [c.c_void_p, c.c_char_p, c.c_char_p, c.POINTER(c.c_void_p), c.c_int]),
    "wv_print": (c.c_void_p, [c.c_void_p]),
    "wv_free": (None, [c.c_void_p]),
    "wv_kernel_free": (None, [c.c_void_p]),
    "wv_run_passes": (c.c_bool, [c.c_void_p, c.POINTER(PassOptions)]),
    "wv_eval": (c.c_bool, [c.c_void_p, c.POINTER(Arg), c.c_int, c.POINTER(EvalOptions)]),
    "wv_sim": (c.c_bool, [c.c_void_p, c.POINTER(Arg), c.c_int, c.POINTER(SimOptions)]),
    "wv_pass_info": (c.c_bool, [c.c_int, c.POINTER(c.c_char_p), c.POINTER(c.c_char_p)]),
}


class Refused(Exception):
    """Diagnostics of the compiler or the simulator. `codes` are those of its errors."""

    def __init__(self, codes, text):
        super().__init__(text)
        self.codes = codes


@cache
def library():
    path = ROOT / os.environ.get("BUILD", "build") / "libwave.so"
    if not path.exists():
        pytest.skip(f"no {path.name}: these tests need a build in the tree")
    lib = c.CDLL(str(path))
    for name, (result, args) in _RESULTS.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, args
    return lib


def passes():
    """The names of the pipeline, in order."""
    name, doc, found = c.c_char_p(), c.c_char_p(), []
    while library().wv_pass_info(len(found), name, doc):
        found.append(name.value.decode())
    return found


class Context:
    """A compiler's context; `with Context() as cx` frees it and its kernels."""

    def __enter__(self):
        self.lib, self.kernels = library(), []
        self.cx = self.lib.wv_ctx_new()
        return self

    def __exit__(self, *exc):
        for kernel in self.kernels:
            self.lib.wv_kernel_free(kernel)
        self.lib.wv_ctx_free(self.cx)

    def refuse(self):
        diag, codes, text, i = Diag(), [], [], 0
        while self.lib.wv_diag_get(self.cx, i, diag):
            if diag.severity == b"error":
                codes.append(diag.code.decode())
                text.append(diag.rendered.decode())
            i += 1
        self.lib.wv_diag_clear(self.cx)
        raise Refused(codes, "".join(text) or "it failed without a diagnostic")

    def parse(self, text):
        kernel = c.c_void_p()
        if self.lib.wv_parse(self.cx, b"kernel.wave", text.encode(), kernel, 1) != 1:
            self.refuse()
        self.kernels.append(kernel)
        return kernel

    def text(self, kernel):
        pointer = self.lib.wv_print(kernel)
        text = c.cast(pointer, c.c_char_p).value.decode()
        self.lib.wv_free(pointer)
        return text

    def after_passes(self, kernel, target, stop_after=None):
        """[(pass, the kernel's text after it)]; the kernel is changed."""
        dumps = []

        def write(_, name, text):
            dumps.append((name.decode(), text.decode()))

        options = PassOptions(
            dump=b"all",
            verify_each=True,
            write=PassOptions._fields_[5][1](write),
            target=target.encode(),
            stop_after=stop_after and stop_after.encode(),
        )
        if not self.lib.wv_run_passes(kernel, options):
            self.refuse()
        return dumps

    def eval(self, kernel, args, check_masks=True):
        if not self.lib.wv_eval(
            kernel, _args(args), len(args), EvalOptions(check_masks=check_masks)
        ):
            self.refuse()

    def sim(self, kernel, args, target, schedule="round", seed=1):
        options = SimOptions(target=target.encode(), schedule=schedule.encode(), seed=seed)
        if not self.lib.wv_sim(kernel, _args(args), len(args), options):
            self.refuse()


def _args(args):
    """`args`: (dtype, array) pairs. The structures live as long as the array that is returned."""
    made = (Arg * len(args))()
    for slot, (dtype, array) in zip(made, args):
        assert array.flags.c_contiguous and isinstance(array, np.ndarray)
        shape = (c.c_int64 * max(array.ndim, 1))(*array.shape)
        slot.buffer = c.pointer(Buffer(array.ctypes.data, dtype.encode(), array.ndim, shape, None))
    return made
