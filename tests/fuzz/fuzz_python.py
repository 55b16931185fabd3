#!/usr/bin/env python3
"""Every public name of the package, used wrongly: it raises, and the process continues.

    tests/fuzz/fuzz_python.py [--seed N] [--count N] [--seconds N]

A case is a few dozen calls of functions, classes, methods and operators of the package, in any order,
with arguments of any kind: numbers at and beyond every limit, texts, containers, arrays, symbols,
types, kernels, and what earlier calls returned. A third of the cases call inside a kernel that is
being traced, which is compiled afterwards, half of them with options and environment variables that
have such values; some schedule it with a function that calls in the same way. Each call must return
or raise an ordinary exception; an InternalError, a SystemError, a crash or a hang is a finding.

Cases run in a child process, in a separate folder. The last line is `N passed, M failed`.
"""

import argparse
import ctypes
import dataclasses
import faulthandler
import importlib
import inspect
import io
import operator
import os
import pkgutil
import random
import resource
import subprocess
import sys
import tempfile
import time
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

BATCH, CALLS, PATIENCE = 40, 30, 60  # cases per child, calls per case, seconds per case
MEMORY = 6 << 30  # bytes: a larger allocation raises MemoryError
# They measure for a long time, start programs, draw, end the test run by design, or (set_package)
# tell the extension where the package lies.
LEFT_OUT = {"run_bench", "bench", "benchmark", "html_viewer", "visualize_graph", "run_test", "wave_sim", "main",
            "set_package"}  # fmt: skip
VARIABLES = ["CACHE_ON", "CACHE_SIZE", "ALWAYS_COMPILE", "CACHE_LIMIT", "CUDA_LIB", "HIP_LIB", "NUM_THREADS",
             "DEFAULT_ARCH", "DUMP", "DUMP_MLIR", "LOG_LEVEL", "USE_SCHED_BARRIERS", "NOPE"]  # fmt: skip
# Their methods and operators are Python's own, and some write 4 GiB: (1).to_bytes(2**32).
BUILTIN = {bool, int, float, complex, str, bytes}
SETTINGS = ["", "0", "1", "-1", "off", "all", "last", "bind,nope", "4k", "9" * 30, "sm_90a", "x" * 5000, "/", "%n"]


# ---- functions and arguments ---------------------------------------------------------------


def surface():
    """(name, callable) of all modules of the package, in an order that does not change."""
    import wave_lang

    found = {}
    for module in pkgutil.walk_packages(wave_lang.__path__, "wave_lang."):
        if ".templates" in module.name or ".benchmark" in module.name:
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError:  # for packages that are not installed, such as PyTorch
            continue
        for name, value in vars(loaded).items():
            ours = (getattr(value, "__module__", None) or "").startswith("wave_lang")
            if not name.startswith("_") and callable(value) and ours and name not in LEFT_OUT:
                found.setdefault(f"{module.name}.{name}", value)
    return sorted(found.items())


def plain_values():
    """Values of Python and NumPy, and some that imitate them."""
    import numpy as np

    class Odd:
        """Raises on every attribute access."""

        def __getattr__(self, name):
            raise ValueError(name)

        __len__ = __index__ = __float__ = __iter__ = lambda self: 1 / 0

    numbers = [0, 1, -1, 2, 3, 16, 64, 65, 1024, 2**16, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1,
               2**63, -(2**63), -(2**63) - 1, 2**64, 10**40]  # fmt: skip
    numbers += [0.0, -0.5, 1.5, 1e300, float("nan"), float("inf"), 1j, True, False]
    texts = ["", "M", "N", "f32", "cpu", "sm_90a", "sim:gfx942", "eval", "nope", "%s%n", "x" * 5000]
    texts += ["M +", "a\0b", "\ud800", b"", b"abc"]
    containers = [[], (), {}, set(), [None], [1, 2, 3], (64, 1), {"M": 1}, {1: 2}, [[]], range(3)]
    arrays = [np.zeros(0, "f4"), np.zeros((3, 5), "f4"), np.ones(64, "i4"), np.zeros((2, 2), "O"),
              np.float32(1), np.zeros((4, 4), "f8")[::2, ::-1], (ctypes.c_float * 4)()]  # fmt: skip
    others = [None, ..., object(), Odd(), int, Odd, len, lambda *a: a, type, NotImplemented]
    return [*numbers, *texts, *containers, *arrays, *others, io.StringIO(), slice(None), 1 << 100]


def own_values():
    """Values of the package: what calls expect."""
    import wave_lang.kernel.lang as tkl
    import wave_lang.kernel.wave as tkw
    from wave_lang import WaveCompileOptions
    from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE

    m, n, k = tkl.sym.M, tkl.sym.N, tkl.sym.K
    memory = tkl.Memory[m, n, GLOBAL_ADDRESS_SPACE, tkl.f32]
    shared = tkl.Memory[m, SHARED_ADDRESS_SPACE, tkl.f16]
    rows = [tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={m: 4, n: 64}),
            tkw.WorkgroupConstraint(m, 4, 0), tkw.WorkgroupConstraint(n, 64, 1)]  # fmt: skip

    @tkw.wave(rows)
    def copy(a: memory, b: memory):
        tkw.write(tkw.read(a), b)

    options = WaveCompileOptions(subs={m: 8, n: 64}, target="eval")
    types = [tkl.f32, tkl.f16, tkl.i32, tkl.index, memory, shared, tkl.Register[m, n, tkl.f32]]
    return [m, n, k, m + n, m * 2 - 1, m // n, m < n, GLOBAL_ADDRESS_SPACE, *types, *rows, rows, copy,
            options, {m: 8, n: 64}, {m: n}, [m, n], (m, k), [64, 2]]  # fmt: skip


OPERATORS = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.truediv,
             operator.lt, operator.ge, operator.eq, operator.and_, operator.or_, operator.xor,
             operator.getitem, operator.contains]  # fmt: skip
ALONE = [str, repr, hash, bool, len, iter, int, float, operator.neg, operator.invert, dir, abs]


# ---- one case ------------------------------------------------------------------------------------


class Finding(Exception):
    pass


class Case:
    def __init__(self, seed, names):
        self.rng, self.names = random.Random(seed), names
        self.plain, self.own, self.made = plain_values(), own_values(), []

    def value(self):
        kinds = [self.plain, self.own, self.made or self.own]
        return self.rng.choice(self.rng.choices(kinds, [3, 4, 3])[0])

    def arguments(self, function):
        """Often the right number of arguments, by position or by name."""
        try:
            names = list(inspect.signature(function).parameters)
        except Exception:  # it compares its arguments, and values of a kernel may raise
            names = []
        count = self.rng.choice([len(names), len(names), 0, 1, 2, 3])
        by_name = self.rng.sample(names, self.rng.randint(0, len(names))) if names else []
        if self.rng.random() < 0.5:
            return [self.value() for _ in range(count)], {}
        return [self.value() for _ in range(self.rng.randint(0, 1))], {n: self.value() for n in by_name}

    def call(self, name, function, args, named):
        try:
            result = function(*args, **named)
        except Exception as error:
            self.judge(name, error)
            return
        if result is not None and len(self.made) < 200:
            self.made.append(result)

    def judge(self, name, error):
        from wave_lang import InternalError

        wrong = isinstance(error, (InternalError, SystemError))
        if wrong and "memory" not in str(error):
            raise Finding(f"{name}: {type(error).__name__}: {str(error)[:300]}") from error

    def step(self):
        kind = self.rng.random()
        if kind < 0.6:
            name, function = self.rng.choice(self.names)
            return self.call(name, function, *self.arguments(function))
        subject = self.rng.choice(self.made if self.made and self.rng.random() < 0.6 else self.own)
        if kind < 0.8:
            if type(subject) in BUILTIN:
                return
            names = [n for n in dir(type(subject)) if not n.startswith("_") and n not in LEFT_OUT]
            if not names:
                return
            name = self.rng.choice(names)
            try:
                method = getattr(subject, name)
            except Exception as error:
                return self.judge(name, error)
            if callable(method):
                self.call(name, method, *self.arguments(method))
        elif kind < 0.95:
            function, pair = self.rng.choice(OPERATORS), [subject, self.value()]
            if self.rng.random() < 0.3:
                pair.reverse()
            if not all(type(v) in BUILTIN for v in pair):
                self.call(function.__name__, function, pair, {})
        else:
            function = self.rng.choice(ALONE)
            self.call(function.__name__, function, [subject], {})

    def traced(self):
        """The same inside a kernel, with its values among the arguments."""
        import wave_lang.kernel.wave as tkw
        from wave_lang import WaveCompileOptions, wave_compile

        m, n = self.own[0], self.own[1]
        memory = next(v for v in self.own if getattr(v, "__name__", "") == "Memory" or "Memory" in str(v))
        rows = next(v for v in self.own if isinstance(v, list) and len(v) == 3)

        @tkw.wave(rows)
        def kernel(a: memory, b: memory):
            self.made += [a, b, tkw.read(a)]
            for _ in range(self.rng.randint(1, 12)):
                self.step()
            tkw.write(tkw.read(a), b)

        target = self.rng.choice(["eval", "cpu", "sm_90a", "sim:gfx942", "sim:sm_80"])
        options = WaveCompileOptions(subs={m: 8, n: 64}, target=target)
        if self.rng.random() < 0.5:
            self.misuse(options)
        try:
            self.made.append(wave_compile(options, kernel))
        except Finding:
            raise
        except Exception as error:
            self.judge("wave_compile", error)

    def scheduled(self):
        """The same inside a schedule function, with nodes and lists of them among the arguments."""
        import wave_lang.kernel.lang as tkl
        import wave_lang.kernel.wave as tkw
        from wave_lang import WaveCompileOptions, wave_compile
        from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
        from wave_lang.kernel.ops import wave_schedule_ops

        m, n, k = self.own[:3]
        operand = lambda d: tkl.Memory[d, k, SHARED_ADDRESS_SPACE, tkl.f16]

        @tkw.wave([
            tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
            tkw.WorkgroupConstraint(m, 32, 0), tkw.WorkgroupConstraint(n, 32, 1),
            tkw.TilingConstraint(k, 32), tkw.WaveConstraint(m, 16), tkw.WaveConstraint(n, 16),
        ])  # fmt: skip
        def gemm(a: operand(m), b: operand(n), c: tkl.Memory[m, n, GLOBAL_ADDRESS_SPACE, tkl.f32]):
            @tkw.iterate(k, init_args=[tkl.Register[m, n, tkl.f32](0.0)], tag="loop")
            def total(acc):
                return tkw.mma(tkw.read(a, tag="a"), tkw.read(b, tag="b"), acc, tag="mma")

            tkw.write(total, c)

        calls = [(name, getattr(wave_schedule_ops, name)) for name in wave_schedule_ops.__all__]
        inserted = [tkw.SchedulingBarrier([]), tkw.SetWavePrio(1), tkw.WorkgroupBarrier()]

        @tkw.wave_schedule.wave_schedule()
        def schedule():
            lists = [tkw.get_node_by_tag(tag) for tag in ("loop", "a", "b", "mma")]
            mine = [*lists, *(x[:1] for x in lists), *inserted, tkw.Read, tkw.MMA, tkw.GatherToLDS]
            self.made += mine * 3
            for _ in range(self.rng.randint(1, 20)):
                name, function = self.rng.choice(calls)
                self.call(name, function, *self.arguments(function))
                if self.made and isinstance(self.made[-1], wave_schedule_ops.PipelinedLoop):
                    self.stages(self.made[-1], lists)

        target = self.rng.choice(["eval", "cpu", "sim:gfx942", "sim:sm_90a", "sim:sm_80"])
        options = WaveCompileOptions(subs={m: 40, n: 33, k: 100}, target=target)
        options.use_global_to_shared = self.rng.choice([None, True])
        self.call("wave_compile", wave_compile, [options, gemm, schedule], {})

    def stages(self, pipeline, lists):
        """Enters a pipeline, with stages of anything."""

        def fill():
            with pipeline as p:
                for _ in range(self.rng.randint(0, 3)):
                    stage = [tuple(self.rng.sample(lists[1:], self.rng.randint(0, 2))) for _ in range(2)]
                    p.set_stage(stage if self.rng.random() < 0.7 else self.value())

        self.call("pipeline", fill, [], {})
        self.made += [pipeline.KERNEL, pipeline.PROLOGUE, pipeline.EPILOGUE]

    def misuse(self, options):
        """Gives options and environment variables values of any kind."""
        names = [f.name for f in dataclasses.fields(options) if f.name not in LEFT_OUT]
        for name in self.rng.sample(names, self.rng.randint(1, 4)):
            setattr(options, name, self.value())
        for name in self.rng.sample(VARIABLES, self.rng.randint(0, 2)):
            os.environ[f"WAVE_{name}"] = self.rng.choice(SETTINGS)

    def run(self):
        before = dict(os.environ)
        try:
            drawn = self.rng.random()
            if drawn < 0.35:
                self.traced()
            elif drawn < 0.5:
                self.scheduled()
            for _ in range(CALLS):
                self.step()
        finally:
            os.environ.clear()
            os.environ.update(before)


# ---- the main program
# ---------------------------------------------------------------------------------


def run_child(seed, count):
    """In a separate folder, where the file `case` says which one runs; 1 if one has failed."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    faulthandler.enable()
    warnings.simplefilter("ignore")
    names, out = surface(), sys.stdout
    sys.stdout = io.StringIO()
    for case in range(seed, seed + count):
        with open("case", "w") as file:
            file.write(str(case))
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        try:
            Case(case, names).run()
        except Finding as finding:
            print(f"case {case}: {finding}", file=out)
            return 1
        finally:
            faulthandler.cancel_dump_traceback_later()
            sys.stdout.seek(0)
            sys.stdout.truncate()
    return 0


def child(seed, count):
    """(the case that failed or None, what was written)."""
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"WAVE_CACHE_DIR": os.path.join(folder, "cache"), "HOME": folder,
                            "WAVE_NUM_THREADS": "2"}  # fmt: skip
        command = [sys.executable, os.path.abspath(__file__), "--child", f"{seed},{count}"]
        done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")  # fmt: skip
        if done.returncode == 0:
            return None, ""
        with open(os.path.join(folder, "case")) as file:
            return int(file.read()), f"status {done.returncode}\n{done.stdout[-4000:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0, help="instead of a count")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return run_child(*map(int, args.child.split(",")))
    began, done, failed = time.time(), 0, 0
    while failed < 10 and (time.time() - began < args.seconds if args.seconds else done < args.count):
        n = BATCH if args.seconds else min(BATCH, args.count - done)
        case, text = child(args.seed + done, n)
        if case is None:
            done += n
            continue
        print(f"--- case {case}: {text}", flush=True)
        done, failed = case - args.seed + 1, failed + 1
    print(f"{done - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
