"""Attacks on the package that once worked: each gives an error or the right result, and the process
continues. Those on texts are in tests/diag and tests/oracle, on the C interface in test_api.c and
fuzz_calls.c, on the cache in test_cache_trust.c."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pytest

from kernel_utils import run_python
from wave_lang import CompileError, LaunchError, _wave
from wave_lang.testing import simulate

HAS_CPU = any(device.kind == "cpu" for device in _wave.devices())
needs_cpu = pytest.mark.skipif(not HAS_CPU, reason="there is no libLLVM")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


class Compiled(_wave.Launchable):
    def __init__(self, text, target="cpu"):
        (kernel,) = _wave.parse(text, "k")
        self._bind(kernel)
        self._use(kernel.compile(target=target, cache=-1))


# ---- arguments that are arrays of ctypes ----

COPY = """kernel @copy(%a: mem<M, N, f32>, %b: mem<M, N, f32>)
  workgroup M by 4 on 0; workgroup N by 64 on 1
  hardware threads 64, vector {M: 4, N: 64}
  dynamic M, N
{
  %x = read %a
  write %x, %b
}
"""
MATRIX = ctypes.c_float * 5 * 3


@needs_cpu
def test_ctypes_arrays_are_dense_tensors():
    rows = [(ctypes.c_float * 5)(*range(5 * i, 5 * i + 5)) for i in range(3)]
    a, b, c = MATRIX(*rows), MATRIX(), np.zeros((3, 5), "f4")
    copy = Compiled(COPY)
    copy(a, b)
    copy(a, c)
    assert np.array_equal(c, np.arange(15, dtype="f4").reshape(3, 5))
    assert [list(row) for row in b] == c.tolist()


@needs_cpu
@pytest.mark.parametrize(
    "given",
    [
        (ctypes.c_double * 5 * 3)(),
        (ctypes.c_float * 5)(),
        ctypes.c_float(3),
        (ctypes.c_char * 60)(),
        ctypes.pointer(ctypes.c_float(1)),
        (ctypes.c_float * 0 * 3)(),
        ((ctypes.c_float.__ctype_be__) * 5 * 3)(),
        b"x" * 60,
    ],
    ids=lambda given: type(given).__name__,
)
def test_other_memory_is_refused(given):
    copy, out = Compiled(COPY), np.ones((3, 5), "f4")
    with pytest.raises((LaunchError, TypeError)):
        copy(given, out)
    assert (out == 1).all()


# ---- the end of a process in the middle of a compile ----

COMPILE = """
import sys, threading, time, os
from wave_lang import _wave

def text(i):
    return ("kernel @k(%a: mem<M, f32>, %o: mem<M, f32>)\\n"
            f"  workgroup M by {64 + i} on 0\\n  hardware threads 64, vector {{M: 64}}\\n"
            "  dynamic M\\n{\\n  %x = read %a\\n  %y = exp %x\\n  write %y, %o\\n}\\n")

def compile_all(start):
    i = start
    while True:
        _wave.parse(text(i), "k")[0].compile(target="cpu", cache=-1)
        i += 3

for start in range(3):
    threading.Thread(target=compile_all, args=(start,), daemon=True).start()
"""


@needs_cpu
@pytest.mark.parametrize("after", [0, *(0.002 + 0.003 * i for i in range(9)), 0.05, 0.3, 0.35])
def test_exit_while_threads_compile(after):
    """In the first tenth of a second libLLVM is being loaded."""
    done = run_python("-c", COMPILE + f"time.sleep({after})\n")
    assert (done.returncode, done.stderr) == (0, "")


@needs_cpu
@needs_fork
@pytest.mark.parametrize("after", [0.005, 0.015, 0.3])
def test_fork_while_threads_compile(after):
    """The child must not continue what its parent's threads left half done; it ends, or reports an
    error."""
    child = (
        COMPILE
        + f"time.sleep({after})\n"
        + """
for turn in range(5):
    pid = os.fork()
    if pid == 0:
        (k,) = _wave.parse(text(0), "k")
        k.run_passes(target="sm_90a")
        os._exit(0)
    deadline = time.time() + 20
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if time.time() > deadline:
            os.kill(pid, 9)
            sys.exit("the child hangs")
        time.sleep(0.01)
    if ended[1]:
        sys.exit(f"the child ended with {ended[1]}")
"""
    )
    done = run_python("-W", "ignore", "-c", child)
    assert (done.returncode, done.stderr) == (0, "")


# ---- Ctrl-C in the middle of one workgroup ----

ENDLESS = """thread kernel @endless(%a: mem<64, f32>)
  launch grid (1) block (32) wave 32
{
  %at = expr $T0 : index
  %x = load %a, %at : f32
  %r = for I with {trips = 40000000000} carry %c = %x : f32 {
    %n = mul %c, %c : f32
    yield %n
  }
  store %r, %a, %at
}
"""
ENDLESS_TILE = """kernel @endless(%a: mem<M, f32>)
  workgroup M by 64 on 0; tile K by 1
  hardware threads 64, vector {M: 64}
  bind M = 64; bind K = 40000000000
{
  %x = read %a : tile<M, f32>
  %r = for K carry %c = %x {
    %y = mul %c, %c : tile<M, f32>
    yield %y
  }
  write %r, %a
}
"""


def interrupted(run):
    """How long a run continues after the signal."""
    sent = []

    def later():
        time.sleep(0.3)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=later)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            run()
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    return time.monotonic() - sent[0]


@pytest.mark.parametrize("target", ["sim:sm_90a", "sim:gfx942"])
def test_ctrl_c_ends_one_workgroup_of_the_simulator(target):
    text = ENDLESS.replace("wave 32", "wave 64") if "gfx" in target else ENDLESS
    text = text.replace("block (32)", "block (64)")
    assert interrupted(lambda: simulate(text, np.ones(64, "f4"), target=target)) < 5


def test_ctrl_c_ends_one_workgroup_of_the_evaluator():
    (kernel,) = _wave.parse(ENDLESS_TILE, "k")
    assert interrupted(lambda: kernel.eval((np.ones(64, "f4"),))) < 5


@pytest.mark.parametrize("op", ["exp2 %x", "sum %x {dim = N}", "cumsum %x {dim = N}", "cast %x : tile<N, f16>"])
def test_ctrl_c_ends_one_op_of_the_evaluator(op):
    """Each step of it takes seconds, the first ones too."""
    text = f"""kernel @k(%a: mem<M, f32>)
  workgroup B by 1 on 0; hardware threads 64; bind B = 1; bind M = 1; bind N = {1 << 26}
{{
  %x = fill 1.5 : tile<N, f32>
  %y = {op}
}}
"""
    (kernel,) = _wave.parse(text, "k")
    assert interrupted(lambda: kernel.eval((np.ones(1, "f4"),))) < 2


# ---- very large inputs ----


@pytest.mark.parametrize(
    "text, code",
    [
        ("kernel @k(" + ", ".join(f"%p{i}: f32" for i in range(50_000)) + ")\n{\n}\n", "E0216"),
        ("kernel @k(%p: mem<" + ", ".join(f"D{i}" for i in range(100_000)) + ", f32>)\n{\n}\n", "E0506"),
        ("kernel @k()\n" + "".join(f"  bind D{i} = 3\n" for i in range(100_000)) + "{\n}\n", "E0216"),
        (f"kernel @k()\n{{\n  %x = scalar {' + '.join(f'S{i}' for i in range(100_000, 0, -1))} : i32\n}}\n", "E0105"),
        (f"kernel @k()\n{{\n  %s = alloc {{physical = {list(range(100_000))}}} : mem<M, f32, shared>\n}}\n", "E0304"),
    ],
    ids=["parameters", "dimensions", "constraints", "terms", "extents"],
)  # fmt: skip
def test_too_many_of_something_is_said_at_once(text, code):
    began = time.process_time()
    with pytest.raises(CompileError) as error:
        _wave.parse(text, "k")
    assert code in {d.code for d in error.value.diagnostics}
    assert len(error.value.diagnostics) < 5
    assert time.process_time() - began < 5


# ---- memory ----


@pytest.mark.skipif(sys.platform != "linux", reason="memory limits need Linux")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="ASan reserves memory")
def test_a_simulation_without_memory_is_an_error():
    script = """
import resource, numpy as np
from wave_lang.testing import simulate
T = '''thread kernel @g(%b: mem<4, i32>, %c: mem<4, i32>)
  launch grid (67108864) block (1) wave 32
{
  %z = expr 1 : i32
  %at = expr 0 : index
  %o = atomic add %z, %b, %at
  store %o, %c, %at
}
'''
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
try:
    simulate(T, np.zeros(4, "i4"), np.zeros(4, "i4"), target="sim:sm_90a")
except Exception as error:
    print(type(error).__name__)
print("alive")
"""
    done = run_python("-c", script)
    assert done.stdout == "LaunchError\nalive\n", done.stdout + done.stderr


# ---- indices from a tensor ----

GATHER = """kernel @gather(%a: mem<N, i32>, %i: mem<M, i64>, %o: mem<M, i32>)
  workgroup M by 64 on 0
  hardware threads 64, vector {M: 64}
  dynamic M; dynamic N
{
  %x = read %i : tile<M, i64>
  %v = read %a, %x {mapping = map 1 {N: INDEX} -> {M: $index0} with {M: $index0}} : tile<M, i32>
  write %v, %o
}
"""
FAR = [0, 3, 4, -1, 2**60, 2**61, 2**62, 2**62 + 1, 2**63 - 1, -(2**62), -(2**63)]


@needs_cpu
@pytest.mark.parametrize("index", ["$dynamic_val0", "2*$dynamic_val0", "4*$dynamic_val0",
                                   "$dynamic_val0 + 1", "$dynamic_val0 - 1", "1000000007*$dynamic_val0"])  # fmt: skip
def test_far_indices_read_nothing(index):
    a, i, o = np.arange(1, 9, dtype="i4"), np.zeros(64, "i8"), np.full(64, -7, "i4")
    i[: len(FAR)] = FAR
    Compiled(GATHER.replace("INDEX", index))(a, i, o)
    exact = [eval(index.replace("$dynamic_val0", f"({n})")) for n in FAR]
    assert o[: len(FAR)].tolist() == [int(a[n]) if 0 <= n < 8 else 0 for n in exact]


SCATTER = """kernel @scatter(%i: mem<M, i64>, %v: mem<M, i32>, %o: mem<N, i32>)
  workgroup M by 64 on 0
  hardware threads 64, vector {M: 64}
  dynamic M; dynamic N
{
  %x = read %i : tile<M, i64>
  %d = read %v : tile<M, i32>
  write %d, %o, %x {mapping = map 1 {M: $index0} -> {N: 2*$dynamic_val0} with {M: $index0}}
}
"""


@needs_cpu
@pytest.mark.parametrize("far", FAR[3:])
def test_far_indices_write_nothing(far):
    whole = np.zeros(32, "i4")
    Compiled(SCATTER)(np.array([far], "i8"), np.array([1234], "i4"), whole[16:24])
    assert not whole.any()


# ---- one cache, two builds ----

FROM_CACHE = """
import sys, numpy as np
from wave_lang import _wave
(kernel,) = _wave.parse(sys.argv[1], "k")

class Compiled(_wave.Launchable):
    pass

copy, a, b = Compiled(), np.arange(15, dtype="f4").reshape(3, 5), np.zeros((3, 5), "f4")
program = kernel.compile(target="cpu", cache=1, cache_dir=sys.argv[2])
copy._bind(kernel)
copy._use(program)
copy(a, b)
print(program.variants[0].from_cache, (a == b).all())
"""
NOTE = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"  # of an ELF file's build id, 20 bytes


@needs_cpu
@pytest.mark.skipif(sys.platform != "linux", reason="the build id is an ELF file's")
def test_what_another_build_has_cached_is_compiled_anew(tmp_path):
    package = os.path.dirname(os.path.dirname(_wave.__file__))
    with open(_wave.__file__, "rb") as file:
        code = bytearray(file.read())
    if NOTE not in code:
        pytest.skip("the extension has no build id")
    code[code.index(NOTE) + len(NOTE)] ^= 1
    shutil.copytree(package, tmp_path / "other", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "other/wave_lang" / os.path.basename(_wave.__file__)).write_bytes(code)

    def run(path):
        command = [sys.executable, "-c", FROM_CACHE, COPY, str(tmp_path / "cache")]
        env = {**os.environ, "PYTHONPATH": str(path)}
        return subprocess.run(command, env=env, capture_output=True, text=True).stdout

    assert run(package) == "False True\n"
    assert run(package) == "True True\n"
    assert run(tmp_path / "other") == "False True\n"
    assert run(package) == run(tmp_path / "other") == "True True\n"


AS_NOBODY = """
import os, sys
child = os.fork()
if child == 0:
    os.setgid(65534)
    os.setuid(65534)
elif os.waitpid(child, 0)[1]:
    sys.exit("the other user could not compile")
"""


@needs_cpu
@needs_fork
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="root only")
def test_what_another_user_has_cached_is_compiled_anew():
    """In a folder that both may write to: the second user does not execute code of the first."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        import_first = "import numpy as np\nfrom wave_lang import _wave\n"
        script = import_first + AS_NOBODY + FROM_CACHE
        done = run_python("-c", script, COPY, os.path.join(folder, "cache"))
        assert (done.returncode, done.stdout) == (0, "False True\n" * 2), done.stderr
        assert os.stat(os.path.join(folder, "cache")).st_uid == 65534


def test_namer_must_be_callable():
    """It is called whenever a value of a kernel is named: anything else would break every kernel."""
    with pytest.raises(TypeError, match="`namer` must be callable"):
        _wave.set_package("/nowhere", "/nowhere/kernels", 3)


# ---- objects of the wrong kind, given to the extension itself ----


MISUSES = {
    "options that are not tuples": lambda k: _wave.text_only([{}], None),
    "a row that is not a dict": lambda k: k.constrain([(1, 2)]),
    "a row without a kind": lambda k: k.constrain([{"dim": 1}]),
    "threads beyond 32 bits": lambda k: k.constrain([{"kind": "hardware", "threads": 2**32 + 64}]),
}


@pytest.mark.parametrize("name", MISUSES)
def test_objects_of_the_wrong_kind_raise(name):
    (kernel,) = _wave.parse(COPY, "k")
    with pytest.raises((TypeError, OverflowError)):
        MISUSES[name](kernel)
