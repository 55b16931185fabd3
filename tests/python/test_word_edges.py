"""Elements of less than a word at the edges of a tensor: 4-bit stores, and atomics on 1 and 2 bytes.

GPUs have no atomic operations on so few bits. They update the aligned word that contains the element,
of which a part may be outside the tensor: before its first byte or after its last. Those bytes must
stay as they are. On `emu`, the executor reports any other access to them.
"""

import os
import subprocess

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

M, N = tkl.sym.M, tkl.sym.N
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WAVEC = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")
TARGETS = ["eval", "cpu", "sim:gfx942", "sim:sm_90a", "emu:gfx942", "emu:gfx1201"]
SIZES = [1, 3, 5, 7]
EDGE = 8  # bytes before and after the tensor


def compiled(kernel, target):
    try:
        return wave_compile(WaveCompileOptions(dynamic_symbols=[M, N], target=target), kernel)
    except CompileError as error:
        if "E0901" in str(error):
            pytest.skip("no libLLVM for this chip")
        raise


def placed(values, shift):
    """The values in the middle of other bytes, `shift` bytes after a multiple of 16."""
    whole = np.full(values.nbytes + 2 * EDGE + 32, 0xA5, "u1")
    start = -whole.ctypes.data % 16 + EDGE + shift
    view = whole[start : start + values.nbytes].view(values.dtype)
    view[:] = values
    return whole, view


def assert_edges(whole, view):
    view.view("u1")[:] = 0xA5
    assert (whole == 0xA5).all()


# ---- atomics ----

HARDWARE = tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64})
TILES = [HARDWARE, tkw.WorkgroupConstraint(M, 1, 1), tkw.WorkgroupConstraint(N, 64, 0)]
i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
ONE_ROW = tkw.IndexMapping(num_iterators=2, inputs={N: j}, outputs={M: i, N: j})
COMBINED = {
    "add": lambda c, a: c + a.sum(0, dtype=c.dtype),
    "min": lambda c, a: np.minimum(c, a.min(0)),
    "max": lambda c, a: np.maximum(c, a.max(0)),
    "and": lambda c, a: c & np.bitwise_and.reduce(a),
    "or": lambda c, a: c | np.bitwise_or.reduce(a),
    "xor": lambda c, a: c ^ np.bitwise_xor.reduce(a),
}
TYPES = {"i8": "i1", "u8": "u1", "i16": "i2", "u16": "u2", "f16": "f2"}


def rows_into_one(dtype, word):
    T, atomic = getattr(tkl, dtype), getattr(tkw, f"atomic_{word}")

    @tkw.wave(TILES)
    def kernel(a: tkl.Memory[M, N, G, T], c: tkl.Memory[N, G, T]):
        atomic(tkw.read(a), c, mapping=ONE_ROW)

    return kernel


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("word", COMBINED)
@pytest.mark.parametrize("target", TARGETS)
def test_atomics_of_many_workgroups(target, word, dtype):
    if dtype[0] == "f" and word in ("and", "or", "xor"):
        pytest.skip("bits of floats")
    run = compiled(rows_into_one(dtype, word), target)
    rng = np.random.default_rng(7)
    for n in SIZES:
        a = rng.integers(0, 100, (6, n)).astype(TYPES[dtype])
        c = rng.integers(0, 100, n).astype(TYPES[dtype])
        for shift in range(0, 4, c.itemsize):
            whole, view = placed(c, shift)
            run(a, view)
            np.testing.assert_array_equal(view, COMBINED[word](c, a), err_msg=f"{n} at {shift}")
            assert_edges(whole, view)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("target", TARGETS)
def test_exchanges(target, dtype):
    """One that always writes, and one that writes where it finds what it expects."""
    T = getattr(tkl, dtype)

    @tkw.wave(TILES)
    def kernel(
        a: tkl.Memory[M, N, G, T], c: tkl.Memory[M, N, G, T], d: tkl.Memory[M, N, G, T],
        old: tkl.Memory[M, N, G, T], found: tkl.Memory[M, N, G, T],
    ):  # fmt: skip
        x = tkw.read(a)
        tkw.write(tkw.atomic_exchange(x, c), old)
        tkw.write(tkw.atomic_compare_exchange(x, d, 7), found)

    run = compiled(kernel, target)
    for n in SIZES:
        a = np.arange(1, n + 1).astype(TYPES[dtype])[None]
        c, d = a + 40, np.where(a % 2, 7, a + 90).astype(TYPES[dtype])
        for shift in range(0, 4, c.itemsize):
            (whole, view), (other, at) = placed(c[0], shift), placed(d[0], shift)
            old, found = np.zeros_like(c), np.zeros_like(d)
            run(a, view[None], at[None], old, found)
            np.testing.assert_array_equal(view, a[0])
            np.testing.assert_array_equal(old, c)
            np.testing.assert_array_equal(found, d)
            np.testing.assert_array_equal(at, np.where(d == 7, a, d)[0])
            assert_edges(whole, view)
            assert_edges(other, at)


# ---- four bits ----

NEGATED = """kernel @negated(%a: mem<M, N, TYPE>, %c: mem<M, N, TYPE>, %d: mem<N, M, TYPE>)
  workgroup M by 2 on 1; workgroup N by TILE on 0
  hardware threads 64, vector {M: 2, N: TILE}
  bind M = ROWS; bind N = COLUMNS
{
  %x = read %a
  %y = neg %x
  write %y, %c
  %t = permute %y : tile<N, M, TYPE>
  write %t, %d
}
"""


def nibbles(codes):
    codes = np.append(codes.reshape(-1), [0] * (codes.size % 2)).reshape(-1, 2)
    return (codes[:, 0] | codes[:, 1] << 4).astype("u1")


def elements(given, n):
    given = given.reshape(-1).view("u1")
    return np.stack([given & 15, given >> 4], 1).reshape(-1)[:n]


@pytest.mark.parametrize("dtype", ["i4", "f4e2m1fn"])
@pytest.mark.parametrize("rows, columns, tile", [(1, 1, 64), (1, 3, 64), (1, 5, 64), (1, 7, 2), (3, 5, 64), (5, 7, 3)])  # fmt: skip
@pytest.mark.parametrize("target", TARGETS)
def test_four_bits(tmp_path, target, rows, columns, tile, dtype):
    """Rows that begin in the middle of a byte, in a tensor that ends in the middle of a word."""
    words = {"ROWS": rows, "COLUMNS": columns, "TILE": tile, "TYPE": dtype}
    text = NEGATED
    for word, value in words.items():
        text = text.replace(word, str(value))
    (tmp_path / "k.wave").write_text(text)
    codes = np.random.default_rng(columns).integers(1, 16, (rows, columns))
    np.save(tmp_path / "a.npy", nibbles(codes))
    options = [w for name in "cd" for w in ("--out", f"{name}={tmp_path / name}.npy")]
    done = subprocess.run(
        [WAVEC, "run", tmp_path / "k.wave", "--target", target, "--arg", f"a={tmp_path}/a.npy"] + options,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "E0901" in done.stderr:
        pytest.skip("no libLLVM for this chip")
    assert done.returncode == 0, done.stderr
    want = (codes ^ 8) if dtype[0] == "f" else -codes & 15
    for name, expected in ("c", want), ("d", want.T):
        got = elements(np.load(tmp_path / f"{name}.npy"), codes.size)
        np.testing.assert_array_equal(got, expected.reshape(-1), err_msg=name)


# ---- shared memory ----

IN_LDS = """thread kernel @lds(%x: mem<N, TYPE>, %y: mem<N, TYPE>)
  launch grid (1) block (128) wave LANES shared BYTES
  bind N = SIZE
{
  %s = alloc {base = 0} : mem<SIZE, TYPE, shared>
  %here = expr $T0 < SIZE : i1
  %at = expr $T0 : index
  %v = load %x, %at, %here : TYPE
  store %v, %s, %at, %here
  shared_barrier
  %far = expr Mod($T0, SIZE) : index
  UPDATE
  shared_barrier
  %w = load %s, %at, %here : TYPE
  store %w, %y, %at, %here
}
"""


@pytest.mark.parametrize("dtype", ["i4", "i8", "i16", "f16"])
@pytest.mark.parametrize("chip", ["gfx942", "gfx1201"])
def test_shared_memory(tmp_path, dtype, chip):
    """An allocation that ends in the middle of a word is the last of the workgroup's memory."""
    bits = int(dtype[1:])
    for n in SIZES:
        update = "" if bits == 4 else f"%old = atomic add %v, %s, %far : {dtype}"
        words = {"TYPE": dtype, "SIZE": n, "LANES": 64 if chip == "gfx942" else 32}
        words |= {"BYTES": (n * bits + 7) // 8, "UPDATE": update}
        text = IN_LDS
        for word, value in words.items():
            text = text.replace(word, str(value))
        (tmp_path / "k.wave").write_text(text)
        ran = [
            subprocess.run(
                [WAVEC, "run", tmp_path / "k.wave", "--target", f"{way}:{chip}", "--data=exact"],
                capture_output=True, text=True, check=False,
            )
            for way in ("sim", "emu")
        ]  # fmt: skip
        if "E0901" in ran[1].stderr:
            pytest.skip("no libLLVM for this chip")
        assert ran[1].returncode == 0, ran[1].stderr
        assert ran[0].stdout and ran[0].stdout == ran[1].stdout
