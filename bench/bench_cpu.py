"""Kernels on the CPU of this machine, compared with NumPy (OpenBLAS) and PyTorch: `make bench-cpu`.

    PYTHONPATH=python python bench/bench_cpu.py [--threads 1,2] [--only WORD] [--json FILE] [--quick]
                                                [--mixed]

There is one process for each number of threads, in which all take turns; the best of several rounds
is shown. With one thread the time is CPU time, so that other load on the machine has little effect;
with more it is wall-clock time. Threads of a library spin for a while after a call, those of OpenMP
for about 15 ms, and take cores from the library that is called next. So each turn begins with a
rest and a call that is not timed; with --mixed it does not. Every result is compared before it is
timed. The kernels are not tuned for any size. Ratios are theirs / ours: above 1 we are faster. The
goals at the end are those of the project, by ratio.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings

ROUNDS, SECONDS = 9, 1.2  # at most, and for one kernel and its peers (at least two rounds)
SLOW = 0.7  # seconds: a call that takes longer is measured once
REST, TIMED = 0.02, 3  # seconds before the turn of a library; calls of a turn that are timed


# ---- the process for one number of threads ----------------------------------------


class Worker:
    """Measures, and passes each row to the parent as a line of JSON."""

    def __init__(self, threads, only, quick, mixed):
        self.threads, self.only, self.quick = threads, only, quick
        self.rests = threads > 1 and not mixed
        self.clock = time.process_time if threads == 1 else time.perf_counter
        self.rng = np.random.default_rng(0)

    def emit(self, **row):
        print(json.dumps(row | {"threads": self.threads}), flush=True)

    def random(self, *shape, dtype="f4", scale=1.0):
        return (self.rng.standard_normal(shape, dtype="f4") * scale).astype(dtype)

    def timed(self, call):
        start = self.clock()
        call()
        return self.clock() - start

    def turn(self, call):
        """The least of a few times, without the threads of other libraries if they can be avoided."""
        if not self.rests:
            return self.timed(call)
        time.sleep(REST)
        call()
        return min(self.timed(call) for _ in range(TIMED))

    def best(self, calls):
        """The fewest seconds of each, taken in turns. The first call of each warms up."""
        least = {name: self.timed(call) for name, call in calls.items()}
        again = {n: c for n, c in calls.items() if least[n] < SLOW}
        calls_each = 1 + TIMED if self.rests else 1
        round_seconds = calls_each * sum(least[n] for n in again) or 1
        for _ in range(min(ROUNDS, max(2, int(SECONDS / round_seconds)))):
            for name, call in again.items():
                least[name] = min(least[name], self.turn(call))
        return least

    def measure(self, name, make, args, expected, peers, work, unit, tolerance=1e-4):
        """make() -> kernel, whose last argument is the result; expected(result) -> the largest
        difference, relative to the largest element; peers: calls by name."""
        if self.only not in name:
            return
        try:
            kernel = make()
            kernel(*args)
            error = expected(args[-1])
            if not error <= tolerance:
                raise AssertionError(f"wrong by {error:.1e}")
            seconds = self.best({"wave": lambda: kernel(*args)} | peers)
        except Exception as failure:  # the others are still needed
            return self.emit(name=name, failed=str(failure).splitlines()[0])
        ours = seconds.pop("wave")
        beside = {peer: 1e3 * s for peer, s in seconds.items()}
        self.emit(name=name, ms=1e3 * ours, rate=1e-9 * work / ours, unit=unit, peers=beside)


def relative(got, expected):
    return float(np.abs(got - expected).max() / (np.abs(expected).max() or 1))


def tensor(array):
    return torch.from_numpy(array)


# ---- products ----

GEMMS = (
    (1024,) * 3,
    (2048,) * 3,
    (1000, 1001, 1003),
    (512,) * 3,
    (256,) * 3,
    (64,) * 3,
    (17, 65, 129),
)
SKINNY = ((1, 4096, 1024), (8, 4096, 1024))
# Few rows, with tiles that suit them: long contiguous accesses.
THIN = {"nt": lambda m, threads: (m, 64, 4096), "nn": lambda m, threads: (m, 4096 // threads, 64)}
BATCHES = ((32, 256, 256, 256), (16, 512, 512, 512), (64, 128, 128, 64))


def product_peers(w, a, b, form):
    """a and b, of [n, k] or [k, n], multiplied in their own type."""
    peers = {}
    if a.dtype == np.float32:
        peers["numpy"] = lambda: a @ (b.T if form == "nt" else b)
    if torch and a.dtype != np.int8:
        x, y = tensor(a), tensor(b)
        peers["torch"] = lambda: x @ (y.T if form == "nt" else y)
    return peers


def bench_gemm(w, name, form, dtype, element, out, sizes, tile=(128, 192, 256)):
    kernel = None

    def make():
        nonlocal kernel
        kernel = kernel or kernels.gemm(dtype, out, form, tile)
        return kernel

    for m, n, k in sizes:
        if element == "i1":
            a, b = (w.rng.integers(-128, 128, s, dtype="i1") for s in ((m, k), (n, k)))
        else:
            a, b = w.random(m, k, dtype=element), w.random(n, k, dtype=element)
        b = b if form == "nt" else np.ascontiguousarray(b.T)
        c = np.zeros((m, n), "i4" if element == "i1" else "f4")
        rows = np.unique(w.rng.integers(0, m, 64))  # in float64 these suffice
        exact = a[rows].astype("f8") @ (b.T if form == "nt" else b).astype("f8")
        check = lambda got: relative(got[rows], exact)
        peers = product_peers(w, a, b, form)
        w.measure(
            f"{name} {form} {m}x{n}x{k}",
            make,
            [a, b, c],
            check,
            peers,
            2 * m * n * k,
            "GFLOP/s",
        )


def bench_batches(w, sizes):
    kernel = None

    def make():
        nonlocal kernel
        kernel = kernel or kernels.bmm()
        return kernel

    for batch, m, n, k in sizes:
        a, b, c = w.random(batch, m, k), w.random(batch, k, n), np.zeros((batch, m, n), "f4")
        exact = a[-1].astype("f8") @ b[-1].astype("f8")
        check = lambda got: relative(got[-1], exact)
        peers = {"numpy": lambda: a @ b}
        if torch:
            x, y = tensor(a), tensor(b)
            peers["torch"] = lambda: torch.bmm(x, y)
        name, work = f"bmm f32 nn {batch}x{m}x{n}x{k}", 2 * batch * m * n * k
        w.measure(name, make, [a, b, c], check, peers, work, "GFLOP/s")


def bench_thin(w):
    for form, tile in THIN.items():
        for m in (1, 4, 8):
            size = (m, 4096, 1024)
            bench_gemm(w, "thin f32", form, tkl.f32, "f4", tkl.f32, (size,), tile(m, w.threads))
    bench_gemm(w, "thin f16", "nt", tkl.f16, "f2", tkl.f32, ((1, 4096, 1024),), (1, 64, 4096))


def bench_bf16(w, sizes):
    """NumPy has no such type: tensors of PyTorch."""
    for m, n, k in sizes:
        a, b = (tensor(w.random(*s)).bfloat16() for s in ((m, k), (n, k)))
        c = torch.zeros(m, n)
        exact = (a.double() @ b.double().T).numpy()
        check = lambda got: relative(got.numpy(), exact)
        make = lambda: kernels.gemm(tkl.bf16)
        peers = {"torch": lambda: a @ b.T}
        w.measure(
            f"gemm bf16 nt {m}x{n}x{k}", make, [a, b, c], check, peers, 2 * m * n * k, "GFLOP/s"
        )


def bench_products(w):
    sizes = GEMMS[:1] if w.quick else GEMMS
    bench_gemm(w, "gemm f32", "nt", tkl.f32, "f4", tkl.f32, sizes + (() if w.quick else SKINNY))
    bench_gemm(w, "gemm f32", "nn", tkl.f32, "f4", tkl.f32, sizes[:4])
    bench_gemm(w, "gemm f16", "nt", tkl.f16, "f2", tkl.f32, ((512,) * 3,))
    bench_gemm(w, "gemm i8", "nt", tkl.i8, "i1", tkl.i32, ((1024,) * 3,))
    if torch:
        bench_bf16(w, ((512,) * 3,))
    if not w.quick:
        bench_thin(w)
    bench_batches(w, BATCHES[:1] if w.quick else BATCHES)


# ---- rows ----


def bench_rows(w):
    for columns in (4096,) if w.quick else (1024, 4096, 16384):
        rows = (1 << 22) // columns
        x, y = w.random(rows, columns), np.zeros((rows, columns), "f4")
        g, b = w.random(columns), w.random(columns)
        e = np.exp(x - x.max(-1, keepdims=True))
        softmax = e / e.sum(-1, keepdims=True)
        rms = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + rows_of.EPSILON) * g
        centred = x - x.mean(-1, keepdims=True)
        variance = np.square(centred).mean(-1, keepdims=True)
        norm = centred / np.sqrt(variance + rows_of.EPSILON) * g + b
        peers = ({}, {}, {})
        if torch:
            tx, tg, tb, size = tensor(x), tensor(g), tensor(b), (columns,)
            peers = (
                {"torch": lambda: F.softmax(tx, -1)},
                {"torch": lambda: F.rms_norm(tx, size, tg, rows_of.EPSILON)},
                {"torch": lambda: F.layer_norm(tx, size, tg, tb, rows_of.EPSILON)},
            )
        for (name, make, args, result), beside in zip(
            (
                ("softmax", rows_of.softmax, [x, y], softmax),
                ("rms_norm", rows_of.rms_norm, [x, g, y], rms),
                ("layer_norm", rows_of.layer_norm, [x, g, b, y], norm),
            ),
            peers,
        ):
            compiled = lambda: make(rows, columns, tkl.f32, "cpu")
            check = lambda got: relative(got, result)
            w.measure(
                f"{name} f32 {rows}x{columns}", compiled, args, check, beside, 2 * x.nbytes, "GB/s"
            )


# ---- attention, convolution ----


def attention_rows(q, k, v, causal, rows):
    """The result of some rows of the first head, in float64. q is scaled for powers of 2."""
    s = q[0, rows].astype("f8") @ k[0].T.astype("f8")
    if causal:
        s = np.where(rows[:, None] >= np.arange(s.shape[1]), s, -np.inf)
    p = np.exp2(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v[0]


def bench_attention(w):
    heads, length, depth = (4, 512, 64) if w.quick else (16, 2048, 128)
    q, k, v = (w.random(heads, length, depth) for _ in range(3))
    c = np.zeros((heads, length, depth), "f4")
    scaled = (q * (math.log2(math.e) / math.sqrt(depth))).astype("f4")
    rows = np.unique(w.rng.integers(0, length, 64))
    for causal in (False, True):
        name = f"attention f32 {heads}x{length}x{depth}" + " causal" * causal
        exact = attention_rows(scaled, k, v, causal, rows)
        check = lambda got: relative(got[0, rows], exact)
        make = lambda: kernels.attention(heads, length, length, depth, causal)
        peers = {}
        if torch:
            tq, tk, tv = (tensor(x)[None] for x in (q, k, v))
            peers["torch"] = lambda: F.scaled_dot_product_attention(tq, tk, tv, is_causal=causal)
        work = 4 * heads * length * length * depth / (2 if causal else 1)
        w.measure(name, make, [scaled, k, v, c], check, peers, work, "GFLOP/s")


def bench_convolution(w):
    n, h, c, nf = (2, 30, 32, 64) if w.quick else (8, 58, 64, 128)
    x, f, out = w.random(n, h, h, c), w.random(3, 3, c, nf), h - 2
    exact = sum(
        x[0, i : i + out, j : j + out].astype("f8") @ f[i, j] for i in range(3) for j in range(3)
    )
    for form in ("nhwc", "nchw"):
        last = form == "nhwc"
        image = x if last else np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        filters = f if last else np.ascontiguousarray(f.transpose(3, 2, 0, 1))
        result = np.zeros((n, out, out, nf) if last else (n, nf, out, out), "f4")
        check = lambda got: relative(got[0] if last else got[0].transpose(1, 2, 0), exact)
        peers = {}
        if torch:
            tx, tf = tensor(image), tensor(filters)
            if last:  # channels last, as PyTorch calls it
                tx = tx.permute(0, 3, 1, 2)
                tf = tf.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
            peers["torch"] = lambda: F.conv2d(tx, tf)
        make = lambda: kernels.convolution(n, h, h, c, 3, 3, nf, form)
        args, work = [image, filters, result], 2 * result.size * 9 * c
        w.measure(
            f"convolution f32 {form} {n}x{h}x{h}x{c} {nf}",
            make,
            args,
            check,
            peers,
            work,
            "GFLOP/s",
        )


# ---- compiling, launching ----


def bench_compile(w, name, make):
    """CPU time of one thread: with an empty cache, and from the cache; best of several."""
    if w.threads != 1 or w.only not in f"compile {name}":
        return
    cold, cached = [], []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as folder:
            cache.reset_cache_manager(folder)
            for times in (cold, cached):
                start = time.thread_time()
                make()
                times.append(1e3 * (time.thread_time() - start))
    cache.reset_cache_manager()
    w.emit(compile=name, first_ms=cold[0], ms=min(cold), cached_ms=min(cached))


def bench_launch(w):
    """A kernel of one workgroup with one element to copy."""
    if w.only not in "launch":
        return
    kernel = rows_of.copy(1, 1, tkl.f32, "cpu")
    a, b = np.zeros((1, 1), "f4"), np.zeros((1, 1), "f4")
    many = lambda: [kernel(a, b) for _ in range(1000)]
    w.emit(launch_us=1e3 * w.best({"wave": many})["wave"])


def work(options):
    """Runs everything, with the number of threads set in the environment."""
    global np, torch, F, tkl, kernels, rows_of, cache
    from wave_lang import _wave

    start = time.thread_time()
    cpus = [d for d in _wave.devices() if d.kind == "cpu"]
    loaded = time.thread_time() - start
    if not cpus:
        print(json.dumps({"error": "there is no libLLVM here: nothing to measure"}))
        return 1
    import numpy as np

    warnings.simplefilter("ignore")  # PyTorch warns at length about its code paths
    try:
        import torch
        import torch.nn.functional as F

        torch.set_num_threads(options.worker)
    except ImportError:
        torch = None
    import cpu_kernels as kernels
    import gpu_kernels as rows_of
    import wave_lang.kernel.lang as tkl
    from wave_lang.kernel.wave import cache

    w = Worker(options.worker, options.only, options.quick, options.mixed)
    w.emit(
        machine=cpus[0].name,
        torch=torch and torch.__version__,
        numpy=np.__version__,
        load_ms=1e3 * loaded,
    )
    bench_compile(w, "gemm f32", lambda: kernels.gemm())
    bench_compile(w, "attention f32", lambda: kernels.attention(16, 2048, 2048, 128))
    bench_launch(w)
    bench_products(w)
    bench_rows(w)
    bench_attention(w)
    bench_convolution(w)
    return 0


# ---- the goals -----------------------------------------------------------------------------------

# Prefixes of kernel names: at least this many times as fast as a peer.
RATIOS = (
    ("gemm f32 nt 1024x", "numpy", 0.9),
    ("gemm f32 nt 1024x", "torch", 0.9),
    ("gemm f32 nn 1024x", "numpy", 0.9),
    ("gemm f32 nn 1024x", "torch", 0.9),
    ("gemm f32 nt 2048x", "numpy", 0.9),
    ("gemm f32 nt 2048x", "torch", 0.9),
    ("gemm f32 nn 2048x", "numpy", 0.9),
    ("gemm f32 nn 2048x", "torch", 0.9),
    ("gemm f16", "torch", 0.9),
    ("gemm bf16", "torch", 0.9),
    ("thin f32", "numpy", 0.9),
    ("thin f32", "torch", 0.9),
    ("thin f16", "torch", 0.9),
    ("bmm", "torch", 0.9),
    ("softmax", "torch", 1.5),
    ("rms_norm", "torch", 1.5),
    ("layer_norm", "torch", 1.5),
    ("attention", "torch", 1.0),
    ("convolution", "torch", 0.8),
)
UNALIGNED = ("gemm f32 nt 1000x1001x1003", "gemm f32 nt 1024x1024x1024", 0.9)
SCALED = ("gemm f32 nt 1024x", "gemm f32 nt 2048x", "attention", "convolution")
SCALING = 1.8
COMPILES = {"gemm f32": 60, "attention f32": 150}  # ms
CACHED = 5  # ms
LAUNCH = 2e-3  # ms, of a kernel that does almost nothing, from Python


class Goals:
    def __init__(self):
        self.met, self.missed = 0, []

    def at_least(self, what, value, goal):
        if value >= goal:
            self.met += 1
        else:
            self.missed.append(f"{what}: {value:.2f}, goal {goal:.2f}")

    def at_most(self, what, value, goal):
        if value <= goal:
            self.met += 1
        else:
            self.missed.append(f"{what}: {value:.3g} ms, goal {goal} ms")


def judge(rows):
    goals, by_name = Goals(), {}
    for row in rows:
        if "compile" in row:
            goals.at_most(f"compiling {row['compile']}", row["ms"], COMPILES[row["compile"]])
            goals.at_most(f"{row['compile']} from the cache", row["cached_ms"], CACHED)
        if "launch_us" in row:
            goals.at_most(f"a launch, {row['threads']} threads", 1e-3 * row["launch_us"], LAUNCH)
        if "rate" not in row:
            continue
        by_name.setdefault(row["name"], {})[row["threads"]] = row
        for start, peer, goal in RATIOS:
            if row["name"].startswith(start) and peer in row["peers"]:
                what = f"{row['name']}, {row['threads']} threads, beside {peer}"
                goals.at_least(what, row["peers"][peer] / row["ms"], goal)
    odd, even, goal = UNALIGNED
    for threads, row in by_name.get(odd, {}).items():
        if threads in by_name.get(even, {}):
            ratio = row["rate"] / by_name[even][threads]["rate"]
            goals.at_least(f"{odd}, {threads} threads, beside {even}", ratio, goal)
    for name, row in by_name.items():
        if name.startswith(SCALED) and {1, 2} <= row.keys():
            ratio = row[1]["ms"] / row[2]["ms"]
            print(f"two threads are {ratio:.2f} times as fast as one: {name}")
            goals.at_least(f"two threads, {name}", ratio, SCALING)
    return goals


# ---- the parent ----------------------------------------------------------------------------------


def show(row):
    if "machine" in row:
        peers = f"NumPy {row['numpy']}, " + (
            f"PyTorch {row['torch']}" if row["torch"] else "no PyTorch"
        )
        print(f"\n{row['machine']}; {peers}; libLLVM loaded in {row['load_ms']:.0f} ms")
    elif "compile" in row:
        print(
            f"compile {row['compile']}: {row['ms']:.0f} ms (the first {row['first_ms']:.0f}), "
            f"from the cache {row['cached_ms']:.1f} ms"
        )
    elif "launch_us" in row:
        print(f"launch: {row['launch_us']:.2f} us")
    elif "failed" in row:
        print(f"{row['name']:42} FAILED {row['failed']}")
    else:
        beside = "".join(
            f"   {p} {ms:8.2f} ms {ms / row['ms']:5.2f}" for p, ms in row["peers"].items()
        )
        print(f"{row['name']:42} {row['ms']:8.2f} ms {row['rate']:7.1f} {row['unit']:7}{beside}")


def run_worker(threads, options):
    """Its rows, printed as they come."""
    count = str(threads)
    # Threads of one library must not spin while another one runs: that would count as its time.
    env = dict(os.environ, OPENBLAS_THREAD_TIMEOUT="4")
    env |= dict.fromkeys(("WAVE_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), count)
    command = [sys.executable, __file__, "--worker", count, "--only", options.only]
    command += ["--quick"] * options.quick + ["--mixed"] * options.mixed
    rows = []
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            row = json.loads(line)
            if "error" in row:
                print(row["error"])
                break
            rows.append(row)
            show(row)
            sys.stdout.flush()
    return rows if process.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", default="1,2", help="comma-separated numbers (1,2)")
    parser.add_argument("--only", default="", help="only kernels whose name contains this")
    parser.add_argument("--json", help="writes all rows there")
    parser.add_argument("--quick", action="store_true", help="one small size of each")
    parser.add_argument("--mixed", action="store_true", help="libraries directly after each other")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options)
    rows = []
    for threads in options.threads.split(","):
        more = run_worker(int(threads), options)
        if more is None:
            return 1
        rows += more
    goals = judge(rows)
    print(f"\n{goals.met} goals met, {len(goals.missed)} missed")
    for line in goals.missed:
        print(f"  {line}")
    if options.json:
        with open(options.json, "w") as out:
            json.dump({"rows": rows, "missed": goals.missed}, out, indent=1)
    return 1 if any("failed" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
