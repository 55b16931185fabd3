"""Helpers for tests with PyTorch tensors: guards around them, and checks that do not need
pytest."""

import contextlib
import os
import re
import subprocess
import sys

import numpy as np
import torch

from number_formats import STORAGE, wave_type
from wave_lang.kernel.wave.utils.general_utils import wave_dtype_to_torch

GUARD = 64  # elements on both sides, of a pattern that is NaN or garbage in every type
PATTERN = 0xFF
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # the tests of these tests


class Guarded:
    """A tensor inside a larger one: writes outside it are detected, and reads there give NaN. `pad`
    elements are between rows, `shift` before the first."""

    def __init__(self, dtype, array, pad=0, shift=0, device=DEVICE):
        size = array.itemsize
        whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
        row, first = array.shape[-1] + pad, GUARD + shift
        strides = [1, row]
        for extent in array.shape[-2:0:-1]:
            strides.append(strides[-1] * extent)
        strides = strides[: array.ndim][::-1]
        count = 2 * GUARD + shift + array.shape[0] * (strides[0] if array.ndim > 1 else row)
        self.whole = torch.full((count * size,), PATTERN, dtype=torch.uint8, device=device)
        self.inside = torch.zeros(count, dtype=torch.bool, device=device)
        self.inside.as_strided(array.shape, strides, first).fill_(True)
        self.bits = self.whole.view(whole).as_strided(array.shape, strides, first)
        source = torch.frombuffer(bytearray(array.tobytes()), dtype=whole)
        self.bits.copy_(source.reshape(array.shape))
        self.tensor = self.bits.view(wave_dtype_to_torch(wave_type(dtype)))

    def numpy(self, dtype):
        """Its contents; AssertionError if the guards were written."""
        cells = self.whole.view(self.inside.numel(), -1)
        written = (cells != PATTERN).any(dim=1) & ~self.inside
        if written.any():
            first = int(written.nonzero()[0])
            raise AssertionError(
                f"written outside the tensor: {int(written.sum())} elements, the first "
                f"{first - self.bits.storage_offset()} after its start: {cells[first].tolist()}"
            )
        found = self.bits.contiguous().cpu().numpy()
        return np.frombuffer(found.tobytes(), STORAGE[dtype]).reshape(found.shape)


def run_guarded(kernel, arguments, pad=0, shift=0, device=DEVICE):
    """The contents of copies of the (dtype, array) arguments after a call."""
    guarded = [Guarded(dtype, array, pad, shift, device) for dtype, array in arguments]
    kernel(*(g.tensor for g in guarded))
    if device == "cuda":
        torch.cuda.synchronize()
    return [(dtype, g.numpy(dtype)) for (dtype, _), g in zip(arguments, guarded)]


@contextlib.contextmanager
def raises(error, *words, match=""):
    """The block must raise this error, with all the words and the pattern in its text."""
    try:
        yield
    except error as found:
        assert re.search(match, str(found)), f"{match!r} is not in {found}"
        for word in words:
            assert word in str(found), f"{word!r} is not in {found}"
        return
    raise AssertionError(f"no {error.__name__} was raised")


def run_child(code, **env):
    """Runs a Python process with the same paths; returns its result."""
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=given, timeout=120
    )
