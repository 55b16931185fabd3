"""Random numbers: the published vectors of Philox4x32-10, and the same bits on every target."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *

M, N = tkl.sym.M, tkl.sym.N
G = GLOBAL_ADDRESS_SPACE
TARGETS = ("eval", "cpu", "sim:cpu", "sim:gfx942", "sim:sm_90a", "sim:sm_80")

# kat_vectors of Random123: counter, key, result.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text):
    return [int(w, 16) for w in text.split()]


def philox(counter, key):
    """The definition, on Python's integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def rows(n):
    hardware = tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: n})
    return [hardware, tkw.WorkgroupConstraint(M, 1, 1), tkw.WorkgroupConstraint(N, n, 0)]


@pytest.mark.parametrize("target", TARGETS)
def test_known_answers(target):
    """One test vector per row: four columns of the counter, two of the key."""

    @tkw.wave([tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={N: 32}), tkw.WorkgroupConstraint(N, 32, 0)])
    def kernel(
        c0: tkl.Memory[N, G, tkl.u32],
        c1: tkl.Memory[N, G, tkl.u32],
        c2: tkl.Memory[N, G, tkl.u32],
        c3: tkl.Memory[N, G, tkl.u32],
        k0: tkl.Memory[N, G, tkl.u32],
        k1: tkl.Memory[N, G, tkl.u32],
        r0: tkl.Memory[N, G, tkl.u32],
        r1: tkl.Memory[N, G, tkl.u32],
        r2: tkl.Memory[N, G, tkl.u32],
        r3: tkl.Memory[N, G, tkl.u32],
    ):
        counter = [tkw.read(c) for c in (c0, c1, c2, c3)]
        for value, out in zip(tkw.philox(counter, [tkw.read(k0), tkw.read(k1)]), (r0, r1, r2, r3)):
            tkw.write(value, out)

    given = np.array([words(c) + words(k) for c, k, _ in KNOWN] * 13, "u4").T
    found = np.zeros((4, given.shape[1]), "u4")
    options = WaveCompileOptions(dynamic_symbols=[N], target=target)
    wave_compile(options, kernel)(*map(np.ascontiguousarray, given), *found)
    assert np.array_equal(found.T, np.array([words(r) for _, _, r in KNOWN] * 13, "u4"))


@pytest.mark.parametrize("target", TARGETS)
def test_dropout(target):
    """From the position of an element and a seed: the tile size does not matter."""
    for tile in 24, 70:

        @tkw.wave(rows(tile))
        def dropout(seed: tkl.u32, a: tkl.Memory[M, N, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
            row = tkw.broadcast(tkw.self_index(M, tkl.u32), [M, N])
            place = row * 100 + tkw.self_index(N, tkl.u32)
            bits = tkw.philox(place, seed)[0]
            uniform = tkw.cast(bits >> 8, tkl.f32) * 2.0**-24
            tkw.write(tkw.select(uniform < 0.25, 0.0, tkw.read(a) / 0.75), c)

        a = np.random.default_rng(0).standard_normal((3, 70)).astype("f4")
        c = np.zeros_like(a)
        options = WaveCompileOptions(subs={M: 3, N: 70}, target=target)
        wave_compile(options, dropout)(3_000_000_000, a, c)
        first = [[philox([100 * i + j, 0, 0, 0], [3_000_000_000, 0])[0] for j in range(70)] for i in range(3)]
        uniform = (np.array(first) >> 8) * 2.0**-24
        assert np.allclose(c, np.where(uniform < 0.25, 0, a / 0.75), rtol=1e-6)


def test_the_definition_has_the_known_answers():
    assert all(philox(words(c), words(k)) == words(r) for c, k, r in KNOWN)


def test_mistakes():
    def traced(body):
        @tkw.wave(rows(8))
        def kernel(a: tkl.Memory[M, N, G, tkl.i32]):
            body(tkw.read(a))

        with pytest.raises(CompileError) as e:
            wave_compile(WaveCompileOptions(subs={M: 2, N: 8}, target="eval"), kernel)
        return e.value.diagnostics[0].code

    assert traced(lambda x: tkw.philox(x, 1)) == "E0311"
    assert traced(lambda x: tkw.philox([tkw.cast(x, tkl.u32)] * 5, 1)) == "E0309"
    assert traced(lambda x: tkw.philox(tkw.cast(x, tkl.u32), 2**32)) == "E0315"
