"""Tests of the GPU tests on machines without a GPU: a wrong result is detected."""

import importlib.util
import types
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import gpu_utils  # needs PyTorch
from wave_lang import _wave

TOOL = Path(__file__).resolve().parents[2] / "tools/test_gpu.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("test_gpu", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f8e4m3fn", "i8", "f64"])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("pad, shift", [(0, 0), (3, 1)])
def test_guarded_tensors(dtype, shape, pad, shift):
    size = np.dtype(gpu_utils.STORAGE[dtype]).itemsize
    array = np.arange(np.prod(shape) * size, dtype="u1").view(gpu_utils.STORAGE[dtype])
    array = array.reshape(shape)
    guarded = gpu_utils.Guarded(dtype, array, pad, shift)
    assert guarded.tensor.shape == shape and guarded.numpy(dtype).tobytes() == array.tobytes()
    bits, first = guarded.bits, guarded.bits.storage_offset()
    with pytest.raises(AssertionError, match="outside"):
        bits.as_strided((1,), (1,), first + bits.stride(0) * shape[0] + pad).fill_(1)
        guarded.numpy(dtype)


def test_a_right_kernel_passes(tool):
    item = next(i for i, c in enumerate(tool.every_case()) if c.name.startswith("rms_norm"))
    assert tool.run_case((item, 2, "eval", 7, tool.PLACES))[3] is None


@pytest.mark.parametrize("target", ["cpu", "sim:cpu"])
def test_a_cpu_needs_no_gpu(tool, target):
    item = next(i for i, c in enumerate(tool.every_case()) if c.name.startswith("copy_f32"))
    if target in ("sim:cpu", *(device.kind for device in _wave.devices())):
        assert tool.run_case((item, 2, target, 7, tool.PLACES))[3] is None


def test_a_wrong_kernel_is_reported(tool, monkeypatch):
    item = next(i for i, c in enumerate(tool.every_case()) if c.name.startswith("copy_f32"))
    case = tool.every_case()[item]

    def spoilt(self, sizes, target):
        def run(a, b):
            b.copy_(a)
            b[-1, -1] += 1

        return run

    monkeypatch.setattr(type(case), "compile", spoilt)
    assert "are wrong" in tool.run_case((item, 2, "eval", 7, tool.PLACES))[3]


def test_the_list_is_whole(tool):
    def options(part):
        given = {"only": "", "targets": ["sm_80", "sm_90a"], "sample": 0, "seed": 1}
        return types.SimpleNamespace(part=part, **given)

    items = tool.list_items(options("1/1"))
    assert len(items) == 2 * sum(len(c.shapes) for c in tool.every_case()) and len(items) > 3000
    assert len({i[3] for i in items}) == len(items)  # fresh inputs each
    parts = [tool.list_items(options(f"{i}/5")) for i in range(1, 6)]
    assert sorted(sum(parts, [])) == sorted(items) and min(map(len, parts)) > len(items) // 6


def test_crashes_and_hangs_are_failures(tool, monkeypatch):
    worker = tool.Worker()
    item = (0, 0, "eval", 1, [(0, 0)])
    assert worker.run(item)[3] is None
    worker.process.kill()
    assert "the process ended" in worker.run(item)[3]
    assert worker.run(item)[3] is None  # by another process
    monkeypatch.setattr(tool.Worker, "SECONDS", 0)
    assert "the process ended" in worker.run(item)[3]
    assert worker.process is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_it_is_said_what_is_missing(tool):
    assert "no GPU" in tool.what_is_missing(["sm_80"]) and tool.what_is_missing(["eval"]) is None
