"""`wavec run`: arguments from .npy files of every kind, or made up; mistakes in them are
reported."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from wave_lang.kernel.wave.machine import devices

ROOT = Path(__file__).resolve().parents[2]
WAVEC = ROOT / os.environ.get("BUILD", "build") / "wavec"
pytestmark = pytest.mark.skipif(not WAVEC.exists(), reason="wavec is not built")
TARGETS = ["eval", "sim:sm_80", *(["cpu"] if devices("cpu") else [])]

COPY = """
kernel @copy(%a: mem<M, N, {0}>, %b: mem<M, N, {0}>)
  workgroup M by 4 on 0; workgroup N by 64 on 1
  hardware threads 64, vector {{M: 1, N: 64}}
{{
  %x = read %a
  write %x, %b
}}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(dtype):
    Path("copy.wave").write_text(COPY.format(dtype))


def wavec(*words):
    command = [WAVEC, "run", "copy.wave", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def copied(target, **files):
    """b after a run, with arguments from files."""
    words = [w for name, file in files.items() for w in ("--arg", f"{name}={file}")]
    done = wavec("--target", target, *words, "--out", "b=out.npy")
    assert done.returncode == 0, done.stdout + done.stderr
    return np.load("out.npy")


# Our type, and the NumPy type that stores it.
TYPES = [
    ("f64", "f8"), ("f32", "f4"), ("f16", "f2"), ("bf16", "u2"), ("bf16", "i2"),
    ("f8e4m3fn", "u1"), ("f8e5m2", "i1"), ("f8e4m3fnuz", "u1"),
    ("i64", "i8"), ("i32", "i4"), ("i32", "u4"), ("i16", "i2"), ("i8", "i1"), ("i1", "?"),
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype, held", TYPES)
def test_types(here, target, dtype, held):
    write(dtype)
    a = np.arange(6 * 70).reshape(6, 70) % (2 if held == "?" else 100)
    np.save("a.npy", a.astype(held))
    b = copied(target, a="a.npy")
    assert b.shape == (6, 70) and b.itemsize == np.dtype(held).itemsize
    assert b.tobytes() == a.astype(held).tobytes()


@pytest.mark.parametrize("target", TARGETS)
def test_orders(here, target):
    """Column-major arrays are read and written correctly."""
    write("f32")
    a = np.arange(35, dtype="f4").reshape(5, 7)
    np.save("a.npy", np.asfortranarray(a))
    assert np.array_equal(copied(target, a="a.npy"), a)
    np.save("b.npy", np.asfortranarray(np.zeros_like(a)))
    assert np.array_equal(copied(target, a="a.npy", b="b.npy"), a)
    shown = wavec("--target", target, "--arg", "a=a.npy", "--arg", "b=b.npy", "--show", "b")
    assert "\n  0 1 2 3 4 5 6\n  7 8 9 10 11 12 13\n" in shown.stdout


def test_versions_of_the_format(here):
    write("f32")
    a = np.arange(12, dtype="f4").reshape(3, 4)
    for version in (1, 0), (2, 0), (3, 0):
        with open("a.npy", "wb") as file:
            np.lib.format.write_array(file, a, version=version)
        assert np.array_equal(copied("eval", a="a.npy"), a)


def test_sizes_come_from_files_or_settings(here):
    write("f32")
    np.save("a.npy", np.ones((3, 5), "f4"))
    assert copied("eval", a="a.npy").shape == (3, 5)
    done = wavec("--arg", "a=a.npy", "--set", "M=4")
    assert done.returncode == 1 and "size 3 along `M`, expected 4" in done.stderr
    done = wavec("--set", "M=4")
    assert done.returncode == 2 and "add --set N=" in done.stderr
    assert "b: 4x2 f32" in wavec("--set", "M=4", "--set", "N=2").stdout


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1)])
def test_small_files(here, target, shape):
    write("f32")
    np.save("a.npy", np.ones(shape, "f4"))
    b = copied(target, a="a.npy")
    assert b.shape == shape and (b == 1).all()


def test_arguments_are_made_up_from_the_seed(here):
    write("f16")
    words = ["--set", "M=4", "--set", "N=9"]
    runs = {t: wavec("--target", t, *words).stdout for t in TARGETS}
    assert len(set(runs.values())) == 1 and "b: 4x9 f16" in runs["eval"]
    assert (
        wavec(*words, "--seed", "2").stdout != runs["eval"] == wavec(*words, "--seed", "1").stdout
    )


# The largest number of different values that are made for a type; if there are more elements, each
# run of that many elements contains all of them.
MADE = [
    ("f64", "f8", 2**53), ("f32", "f4", 2**24), ("f16", "f2", 2**11), ("bf16", "u2", 2**8),
    ("f8e4m3fn", "u1", 2**4), ("f8e5m2", "u1", 2**3), ("f8e8m0fnu", "u1", 2), ("i64", "i8", 2**63),
    ("i32", "i4", 2**31), ("i16", "i2", 2**15), ("i8", "i1", 2**7), ("u8", "u1", 2**7), ("i1", "?", 2),
]  # fmt: skip


@pytest.mark.parametrize("dtype, held, values", MADE)
@pytest.mark.parametrize("seed", ["1", "2"])
def test_made_elements_differ(here, dtype, held, values, seed):
    write(dtype)
    for shape in (1, 1), (3, 5), (64, 64):
        m, n = shape
        sets = ["--set", f"M={m}", "--set", f"N={n}", "--seed", seed, "--out", "a=a.npy"]
        assert wavec(*sets).returncode == 0
        a = np.load("a.npy").view("u1" if held == "?" else held).ravel()
        room = 1 << min((m * n - 1).bit_length() or 1, values.bit_length() - 1)
        for start in range(0, a.size, room):
            run = a[start : start + room]
            assert len(np.unique(run)) == len(run)
        if held[0] == "f" and a.size > 1:
            assert (a != 0).all() and (a < 0).any() and 0.4 < a.mean() < 0.7


def test_exact_data_adds_up_in_every_order(here):
    write("f16")
    sets = ["--set", "M=64", "--set", "N=64", "--data=exact", "--out", "a=a.npy"]
    assert wavec(*sets).returncode == 0
    a = np.load("a.npy").astype("f8")
    assert np.array_equal(a * 8, np.round(a * 8)) and np.abs(a).max() <= 1
    done = wavec(*sets[:4], "--data=other")
    assert done.returncode == 2 and "--data must be one of distinct|exact" in done.stderr



class Odd:
    def __init__(self, words, save):
        self.words, self.save = words, save


ODD = {
    "big-endian": Odd("big-endian", lambda: np.ones((2, 3), ">f4")),
    "wide": Odd("type f8, but the dtype of `a` is f32", lambda: np.ones((2, 3), "f8")),
    "integers": Odd("type i4, but the dtype of `a` is f32", lambda: np.ones((2, 3), "i4")),
    "complex": Odd("type <c8 are not supported", lambda: np.ones((2, 3), "c8")),
    "text": Odd("type <U1 are not supported", lambda: np.full((2, 3), "x")),
    "records": Odd("not plain numbers", lambda: np.zeros((2, 3), [("x", "f4")])),
    "rank": Odd("has 1 dimensions, but `a` has 2", lambda: np.ones(3, "f4")),
    "no dimensions": Odd("has 0 dimensions, but `a` has 2", lambda: np.array(1, "f4")),
}


@pytest.mark.parametrize("kind", ODD)
def test_files_that_do_not_fit(here, kind):
    write("f32")
    np.save("a.npy", ODD[kind].save())
    done = wavec("--arg", "a=a.npy", "--set", "M=2", "--set", "N=3")
    assert done.returncode == 2 and ODD[kind].words in done.stderr, done.stderr
    assert "b:" not in done.stdout


def test_broken_files(here):
    write("f32")
    np.save("a.npy", np.ones((20, 30), "f4"))
    whole = Path("a.npy").read_bytes()
    for length in (0, 5, 9, 11, 60, 127, 128, 2000, len(whole) - 1):
        Path("cut.npy").write_bytes(whole[:length])
        done = wavec("--arg", "a=cut.npy", "--set", "M=20", "--set", "N=30")
        assert done.returncode == 2 and "cut.npy" in done.stderr, (length, done.stderr)
    for at in range(128):  # any wrong byte: the file is read or rejected
        Path("bad.npy").write_bytes(whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :])
        done = wavec("--arg", "a=bad.npy", "--set", "M=20", "--set", "N=30")
        assert done.returncode in (0, 1, 2), (at, done.returncode)
    done = wavec("--arg", "a=nothing.npy", "--set", "M=20", "--set", "N=30")
    assert done.returncode == 2 and "cannot read nothing.npy" in done.stderr


def test_names_that_do_not_exist(here):
    write("f32")
    for option in ("--arg", "--out"):
        done = wavec("--set", "M=1", "--set", "N=1", option, "q=x.npy")
        assert done.returncode == 2 and "no such parameter" in done.stderr


def test_help_says_it(here):
    text = subprocess.run([WAVEC, "run", "--help"], capture_output=True, text=True).stdout
    for word in ("--target", "cpu", ".npy", "--set", "--out", "--show", "--seed", "Examples:"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_full_disk_is_an_error(here):
    """A failed write is an error."""
    write("f32")
    with open("/dev/full", "w") as full:
        for words in (["--version"], ["--list=ops"], ["copy.wave"]):
            done = subprocess.run([WAVEC, *words], stdout=full, stderr=subprocess.PIPE, text=True)
            assert done.returncode == 2 and "cannot write" in done.stderr, words
