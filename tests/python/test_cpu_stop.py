"""Kernels on the CPU that do not finish: deadlocks are detected and reported, Ctrl-C interrupts
them, and the next launch is not affected."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import run_python
from wave_lang import LaunchError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

pytestmark = pytest.mark.skipif(
    not any(d.kind == "cpu" for d in _wave.devices()), reason="there is no libLLVM"
)
D, E = tkl.sym.D, tkl.sym.E

HEAD = """thread kernel @k(%data: mem<32, f32>, %flag: mem<4, i32>)
  launch grid (GRID) block (BLOCK) wave 32MORE
{
  %zero = scalar 0 : index
  %at = expr Mod($T0, 32) : index
"""
# Loops until element 0 of %flag is not 0.
WAIT = """  while F as signed(F.2) (%f) from %zero cond signed(F.2) < 1 {
    %v = load %flag, %zero {volatile} : i32
    %n = cast %v : index
    yield %n
  }
"""
# The same, but it counts its iterations, so that no two of them are alike.
COUNT = """  %first = scalar 0 : i64
  %many = while F as signed(F.2) (%f) from %zero cond signed(F.2) < 1 carry %c = %first {
    %v = load %flag, %zero {volatile} : i32
    %n = cast %v : index
    %one = scalar 1 : i64
    %d = add %c, %one
    yield %n, %d
  }
"""
# An endless loop that reads nothing.
FOREVER = """  while F as signed(F.2) (%f) from %zero cond signed(F.2) < 1 {
    %n = expr signed(F.2)*0 : index
    yield %n
  }
"""
# About 0.2 ms of arithmetic, once in every workgroup.
WORK = """  %x = load %data, %at : f32
  %r = for K with {trips = 60000} carry %p = %x {
    %q = mul %p, %p
    %s = add %q, %x
    yield %s
  }
  store %r, %data, %at
"""
# Minutes of it, in one workgroup: plain, inside other loops, with a barrier in every iteration.
LONG = WORK.replace("60000", "40000000000")
NESTED = """  %x = load %data, %at : f32
  %r = for K with {trips = 1000000} carry %p = %x {
    %q = for J with {trips = 1 + Mod($ARGK, 5)} carry %o = %p {
      %m = for I with {trips = 200000} carry %n = %o {
        %s = mul %n, %n
        %t = add %s, %x
        yield %t
      }
      yield %m
    }
    yield %q
  }
  store %r, %data, %at
"""
MEETING = """  %x = load %data, %at : f32
  %r = for K with {trips = TRIPS} carry %p = %x {
    barrier workgroup
    %q = mul %p, %p
    %s = add %q, %x
    yield %s
  }
  store %r, %data, %at
"""
SAME, OWN = (MEETING.replace("TRIPS", n) for n in ("40000000000", "40000000000 + floor($T0/32)"))


def built(body, grid=1, block=32, more=""):
    """Compiled through a kernel of the same parameters."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={D: 32, E: 4}),
            tkw.WorkgroupConstraint(D, 32, 0),
        ]
    )
    def k(data: tkl.Memory[D, G, tkl.f32], flag: tkl.Memory[E, G, tkl.i32]):
        tkw.write(tkw.read(data), data)

    head = HEAD.replace("GRID", str(grid)).replace("BLOCK", str(block)).replace("MORE", more)
    text = head + body + "}\n"
    options = WaveCompileOptions(subs={D: 32, E: 4}, target="cpu", override_mlir=text)
    made = wave_compile(options, k)
    assert made.compile_for("cpu")
    return made


def tensors(flag=0):
    return np.full(32, 0.25, np.float32), np.full(4, flag, np.int32)


# ---- deadlocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("grid, block", [(1, 32), (1, 96), (3, 32), (5, 64)])
def test_a_deadlock_is_said(grid, block):
    kernel = built(WAIT, grid, block)
    with pytest.raises(LaunchError) as error:
        kernel(*tensors())
    said = error.value.diagnostics[0]
    assert said.code == "E0807" and said.line == 6
    assert "`k` waits for memory that no other thread changes" in said.message
    kernel(*tensors(flag=1))  # nothing of it is left


def test_workgroups_that_wait_for_one_that_is_stuck():
    """Workgroup 0 would set the flag for the others, but waits at a barrier that its second wave
    skips."""
    body = (
        "  if ($WG0 < 1) {\n  if ($T0 < 32) {\n    barrier workgroup\n    %one = scalar 1 : i32\n"
        "    store %one, %flag, %zero {volatile}\n  }\n  }\n  if ($WG0 > 0) {\n" + WAIT + "  }\n"
    )
    with pytest.raises(LaunchError, match="deadlock: `k` waits at a barrier") as error:
        built(body, grid=4, block=64)(*tensors())
    assert error.value.diagnostics[0].line == 8


MEMORY = """
import sys, resource
sys.path.insert(0, {here!r})
import numpy as np, test_cpu_stop as t
from wave_lang import LaunchError
large = "  %s = alloc {{base = 0}} : mem<32, f32, shared>\\n  %y = load %data, %at : f32\\n"
kernel = t.built(large + "  store %y, %s, %at\\n", {grid}, {block}, " shared 200000000")
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20), -1))
try:
    kernel(*t.tensors())
except LaunchError as error:
    print(error.diagnostics[0].code, error.diagnostics[0].message)
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
kernel(*t.tensors())
"""


@pytest.mark.parametrize("grid, block", [(1, 32), (4, 32)])
def test_memory_that_cannot_be_had(grid, block):
    code = MEMORY.format(here=os.path.dirname(__file__), grid=grid, block=block)
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "E0902 `k` needs 200000001 bytes of memory for each thread\n"


# ---- Ctrl-C --------------------------------------------------------------------------------------

INTERRUPTED = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
sys.path.insert(0, {here!r})
import test_cpu_stop as t
kernel = t.built({body!r}, {grid}, {block})
small = t.built(t.WORK)
print("begins", flush=True)
try:
    kernel(*t.tensors())
except KeyboardInterrupt:
    print("interrupted", flush=True)
data, flag = t.tensors()
small(data, flag)
assert abs(data[0] - 0.5) < 0.01, data
try:
    kernel(*t.tensors())
except KeyboardInterrupt:
    print("again", flush=True)
"""


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize(
    "body, grid, block",
    [(WORK, 4000000, 1), (COUNT, 1, 32), (COUNT, 3, 64), (FOREVER, 1, 32), (FOREVER, 2, 1),
     (LONG, 1, 1), (LONG, 1, 64), (LONG, 2, 1), (NESTED, 1, 1), (NESTED, 1, 32), (SAME, 1, 64),
     (OWN, 1, 64)],
    ids=["work", "wait", "waves wait", "for ever", "workgroups for ever", "long", "lanes long",
         "workgroups long", "nested", "lanes nested", "meeting", "meeting apart"],
)  # fmt: skip
def test_control_c(body, grid, block, threads):
    """Twice: the threads are available for the next launch, which can also be interrupted."""
    code = INTERRUPTED.format(here=os.path.dirname(__file__), body=body, grid=grid, block=block)
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "WAVE_NUM_THREADS": threads},
    )
    try:
        assert child.stdout.readline() == "begins\n"
        for answer in "interrupted\n", "again\n":
            time.sleep(0.3)
            child.send_signal(signal.SIGINT)
            asked = time.monotonic()
            assert child.stdout.readline() == answer
            assert time.monotonic() - asked < 5  # within 0.1 s on a machine at rest
        assert child.wait(20) == 0
    finally:
        child.kill()
        child.wait()


def test_other_threads_do_not_hear_control_c():
    """Python signals the main thread; a launch of another thread runs to its end."""
    kernel, done = built(WORK, 400, 1), []
    data, flag = tensors()
    thread = threading.Thread(target=lambda: done.append(kernel(data, flag)))
    before = signal.signal(signal.SIGINT, lambda *_: done.append("heard"))
    try:
        thread.start()
        os.kill(os.getpid(), signal.SIGINT)
        thread.join(60)
    finally:
        signal.signal(signal.SIGINT, before)
    assert sorted(map(str, done)) == ["None", "heard"]


# ---- long loops that are not stopped ---------------------------------------------------------------

XORS = """thread kernel @xors(%n: i64 binds N, %out: mem<LANES, i64>)
  launch grid (1) block (LANES) wave 32
{
  %at = expr $T0 : index
  %first = expr 5 : index
  %zero = scalar 0 : i64
  %one = scalar 1 : i64
  %x, %rounds = for K from %first step 3 with {trips = N + $T0} carry %s = %zero, %c = %zero {
    %k = expr $ARGK : i64
    %t = xor %s, %k
    %d = add %c, %one
    yield %t, %d
  }
  %all = add %x, %rounds
  store %all, %out, %at
}
"""


class Folding(_wave.Launchable):
    def __init__(self, lanes):
        (kernel,) = _wave.parse(XORS.replace("LANES", str(lanes)), "k")
        self._bind(kernel)
        self._use(kernel.compile(target="cpu", cache=-1))


@pytest.mark.parametrize("lanes, most", [(1, 60_000_000), (64, 800_000)])
def test_stretches_of_a_long_loop_join(lanes, most):
    """Every iteration runs once, whatever the number of iterations between checks for Ctrl-C."""
    fold = Folding(lanes)
    for n in 0, 5, 6, 8, 9, most // 7 + 1, most // 3, most // 2 + 2, most:
        out = np.zeros(lanes, "i8")
        fold(n, out)
        for lane in 0, lanes - 1:
            rounds = np.arange(5, n + lane, 3)
            assert out[lane] == np.bitwise_xor.reduce(rounds) + len(rounds)
