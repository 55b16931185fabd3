"""Named barriers: some of the waves of a workgroup meet. On gfx1250 as machine code, executed here."""

import numpy as np
import pytest

from wave_lang import LaunchError, SimulationError, _wave
from wave_lang.testing import simulate

THREADS, GROUPS = 256, 3

# Every two waves exchange what they have.
PAIRS = """thread kernel @pairs(%a: mem<N, i32>, %b: mem<N, i32>)
  launch grid (3) block (256) wave 32 shared 1024; bind N = 768
{
  %s = alloc {base = 0} : mem<256, i32, shared>
  %t = expr $T0 : i32
  %g = expr $WG0*256 + $T0 : i32
  %x = load %a, %g : i32
  store %x, %s, %t
  barrier named {bar = 3, member = floor($T0/64), count = 64}
  %o = expr 64*floor($T0/64) + 63 - Mod($T0, 64) : i32
  %y = load %s, %o : i32
  store %y, %b, %g
}
"""

# Two waves fill a buffer of 64 elements for the other six, seven times: barrier 1 says that it is
# full, barrier 2 that it is free.
RING = """thread kernel @ring(%a: mem<N, i32>, %b: mem<N, i32>)
  launch grid (3) block (256) wave 32 shared 256; bind N = 768
{
  %s = alloc {base = 0} : mem<64, i32, shared>
  %t = expr $T0 : i32
  %u = expr Mod($T0, 64) : i32
  %g = expr $WG0*256 + $T0 : i32
  %x = load %a, %g : i32
  if ($T0 < 64) {
    %r = for K with {trips = 7} carry %p = %x {
      store %p, %s, %t
      barrier named {bar = 1, count = 256, arrive}
      %one = scalar 1 : i32
      %q = add %p, %one
      barrier named {bar = 2, count = 256}
      yield %q
    }
    store %r, %b, %g
  }
  if ($T0 >= 64) {
    %z = scalar 0 : i32
    %r2 = for K with {trips = 7} carry %sum = %z {
      barrier named {bar = 1, count = 256}
      %v = load %s, %u : i32
      %w = mul %v, %x
      %n = add %sum, %w
      barrier named {bar = 2, count = 256, arrive}
      yield %n
    }
    store %r2, %b, %g
  }
}
"""

# The stores of one iteration are read in the next one: the barrier that orders them begins the loop.
TURNS = """thread kernel @turns(%a: mem<N, i32>, %b: mem<N, i32>)
  launch grid (3) block (256) wave 32 shared 2048; bind N = 768
{
  %s = alloc {base = 0} : mem<512, i32, shared>
  %t = expr $T0 : i32
  %g = expr $WG0*256 + $T0 : i32
  %x = load %a, %g : i32
  store %x, %s, %t
  %r = for K with {trips = 5} carry %p = %x {
    barrier named {bar = 2, member = floor($T0/64), count = 64}
    %o = expr 256*Mod($ARGK, 2) + 64*floor($T0/64) + 63 - Mod($T0, 64) : i32
    %y = load %s, %o : i32
    %q = add %p, %y
    %n = expr 256*Mod($ARGK + 1, 2) + $T0 : i32
    store %q, %s, %n
    yield %q
  }
  store %r, %b, %g
}
"""


def pairs(a):
    return a.reshape(-1, 64)[:, ::-1].reshape(-1)


def ring(a):
    groups = a.reshape(GROUPS, THREADS)
    out = groups + 7
    given = sum(groups[:, :64] + i for i in range(7))
    out[:, 64:] = (groups[:, 64:].reshape(GROUPS, 3, 64) * given[:, None]).reshape(GROUPS, -1)
    return out.reshape(-1)


def turns(a):
    for _ in range(5):
        a = a + pairs(a)
    return a


PROGRAMS = pytest.mark.parametrize(
    "text, expected", [(PAIRS, pairs), (RING, ring), (TURNS, turns)], ids=["pairs", "ring", "turns"]
)


class Compiled(_wave.Launchable):
    def __init__(self, text, target="emu:gfx1250"):
        kernel = _wave.parse(text, "named.wave")[0]
        self._bind(kernel)
        try:
            self.program = kernel.compile(target=target, cache=-1)
            self._use(self.program)
        except _wave.CompileError as error:
            if "E0901" in str(error):
                pytest.skip("no libLLVM compiles for this chip")
            raise


def arguments():
    a = np.random.default_rng(1).integers(-50, 50, THREADS * GROUPS).astype("i4")
    return a, np.zeros_like(a)


@PROGRAMS
@pytest.mark.parametrize("schedule", ["round", "reverse", "first", "random"])
@pytest.mark.parametrize("target", ["sim:sm_90a", "sim:gfx1250"])
def test_simulated(text, expected, schedule, target):
    a, b = arguments()
    simulate(text, a, b, target=target, schedule=schedule)
    np.testing.assert_array_equal(b, expected(a))


@PROGRAMS
def test_machine_code(text, expected):
    a, b = arguments()
    kernel = Compiled(text)
    kernel(a, b)
    np.testing.assert_array_equal(b, expected(a))
    code = [line.strip() for _, line, _, _ in kernel.program.test_instructions(0)]
    assert {"s_barrier_join m0", "s_barrier_signal m0", "s_barrier_wait 1"} <= set(code)


def test_declared_waves():
    """Declared waves of 64 lanes are two waves here, which meet where the kernel says `barrier wave`."""
    text = """kernel @declared(%a: mem<M, N, f32>, %b: mem<M, N, f32>)
      workgroup M by 8 on 0; workgroup N by 64 on 1; wave M by 2
      hardware threads 64, vector {M: 2, N: 64}; bind M = 13; bind N = 100
    {
      %x = read %a
      %t = scalar $T0 : f32
      %s = add %x, %t
      barrier wave
      %y = sub %s, %t
      write %y, %b
    }
    """
    a = np.random.default_rng(2).integers(-9, 9, (13, 100)).astype("f4")
    b = np.zeros_like(a)
    kernel = Compiled(text)
    kernel(a, b)
    np.testing.assert_array_equal(a, b)
    assert any("s_barrier_join" in line for _, line, _, _ in kernel.program.test_instructions(0))


FAULTY = [
    (PAIRS, ("  barrier named {bar = 3, member = floor($T0/64), count = 64}\n", ""), "without a barrier"),
    (PAIRS, ("member = floor($T0/64)", "member = Mod(floor($T0/32), 4)"), "without a barrier"),
    (RING, ("      barrier named {bar = 2, count = 256}\n", ""), "barrier 1, and no other wave can"),
    (RING, ("bar = 1, count = 256, arrive", "bar = 4, count = 64, arrive"), "barrier 2, and no other"),
    (RING, ("bar = 2, count = 256, arrive", "bar = 2, count = 32, arrive"), "for 1 waves, and was for"),
]


@pytest.mark.parametrize("text, change, said", FAULTY, ids=range(len(FAULTY)))
def test_faults_are_reported(text, change, said):
    kernel = Compiled(text.replace(*change))
    with pytest.raises(LaunchError, match=said):
        kernel(*arguments())


@pytest.mark.parametrize("text", [PAIRS, RING, TURNS], ids=["pairs", "ring", "turns"])
def test_missing_waits_are_reported(text):
    """Stores that are not waited for before the signal, and signals that others wait for."""
    kernel = Compiled(text)
    kernel(*arguments())
    program, found = kernel.program, set()
    for i, (_, line, executed, needed) in enumerate(program.test_instructions(0)):
        if not (line.startswith(("s_wait_dscnt", "s_barrier_signal")) and executed and needed):
            continue
        program.test_remove(i, 0)
        with pytest.raises(LaunchError):
            kernel(*arguments())
        program.test_remove(-1, 0)
        found.add(line.split()[0])
    assert found == {"s_wait_dscnt", "s_barrier_signal"}


@pytest.mark.parametrize(
    "target, change, said",
    [
        ("gfx942", ("wave 32", "wave 64"), "a named barrier"),
        ("gfx1201", ("", ""), "a named barrier"),
        ("gfx1250", ("count = 64", "count = 48"), "this many threads"),
        ("gfx1250", ("bar = 3", "bar = 16"), "of this number"),
    ],
)
def test_refused(target, change, said):
    with pytest.raises(_wave.CompileError, match=rf"E0601.*{said}"):
        Compiled(PAIRS.replace(*change), target)


# Three waves read what the last one has written, and it writes there again: it waits for the others
# before that, or only for the one that reads last.
READERS = """thread kernel @readers(%a: mem<N, i32>, %b: mem<N, i32>)
  launch grid (1) block (128) wave 32 shared 256; bind N = 128
{
  %s = alloc {base = 0} : mem<64, TYPE, shared>
  %t = expr $T0 : i32
  %u = expr Mod($T0, 32) : i32
  %x = load %a, %t : i32
  %c = cast %x : TYPE
  %last = expr $T0 >= 96 : i1
  store %c, %s, %u, %last
  shared_barrier
  %v = load %s, %u : TYPE
  %w = cast %v : i32
  store %w, %b, %t
  if ($T0 >= FIRST) {
    barrier named {bar = 1, count = COUNT}
  }
  store %c, %s, %u, %last
}
"""


@pytest.mark.parametrize("dtype", ["i32", "i16", "i8"])
@pytest.mark.parametrize("first", [0, 32, 64])
def test_every_reader_counts(first, dtype):
    text = READERS.replace("FIRST", str(first)).replace("COUNT", str(128 - first))
    kernel = Compiled(text.replace("TYPE", dtype))
    a = np.arange(128, dtype="i4")
    b = np.zeros_like(a)
    if first == 0:
        kernel(a, b)
        np.testing.assert_array_equal(b, np.tile(a[96:], 4))
        return
    with pytest.raises(LaunchError, match="is written, which another wave read without a barrier"):
        kernel(a, b)
    with pytest.raises(SimulationError):
        simulate(text.replace("TYPE", dtype), a, b, target="sim:gfx1250")
