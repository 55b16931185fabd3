"""Kernels on the GPU of this machine, compared with PyTorch and its libraries: `make bench`.

    bench_gpu.py [--only WORD] [--target sm_80,sm_90a] [--json FILE] [--triton] [--quick]

Every result is compared with PyTorch's before it is timed. Times are medians with cold caches, from
CUDA graphs (wave_lang/benchmark.py).
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

import gpu_kernels as kernels
import wave_lang.kernel.lang as tkl
from wave_lang import CompileError, _wave, ops
from wave_lang.benchmark import bench

HALF = torch.float16


def random(*shape, dtype=HALF, scale=1.0):
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


class Table:
    """Rows as they are measured, printed immediately and kept for JSON."""

    def __init__(self, only, triton):
        self.rows, self.only, self.failed, self.triton = [], only, 0, triton
        print(
            f"{'kernel':38} {'target':6} {'time':>10} {'rate':>13} {'beside, and how much longer':>30}"
        )

    def wants(self, name):
        return self.only in name

    def add(self, name, target, timing, rate, unit, beside):
        """`beside`: times of others by their names."""
        row = {"kernel": name, "target": target, "us": timing.median, "least_us": timing.least}
        row.update({unit: rate, "beside_us": {n: t.median for n, t in beside.items()}})
        self.rows.append(row)
        words = "".join(
            f"{other:>11} {t.median:7.1f} us {t.median / timing.median:5.2f}"
            for other, t in beside.items()
        )
        print(
            f"{name:38} {target:6} {timing.median:7.1f} us {rate:8.2f} {unit} {words}", flush=True
        )

    def fail(self, name, target, error):
        self.failed += 1
        self.rows.append({"kernel": name, "target": target, "error": str(error)[:500]})
        print(f"{name:38} {target:6} FAILED {str(error).splitlines()[0][:90]}", flush=True)


def close(name, got, expected, tolerance):
    error = (got.double() - expected.double()).abs().max().item()
    scale = expected.double().abs().max().item()
    if not error <= tolerance * scale:
        raise AssertionError(f"{name} is wrong by {error:.2e} of {scale:.2e}")


def generated(function):
    """The same with PyTorch's own compiler, which generates Triton; None if there is none."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return None
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)


def measure(
    table, name, make, args, out, other, amount, unit, targets, tolerance=2e-3, native=None
):
    """make(target) -> kernel; other: (name, function, its arguments) of PyTorch's; native: (name,
    function of the target) of another kernel of ours with the same arguments."""
    if not table.wants(name):
        return
    label, function, inputs = other
    expected = function(*inputs)
    beside = {label: bench(function, inputs)}
    fused = generated(function) if table.triton and unit == "TB/s" else None
    if fused:
        beside["Triton"] = bench(fused, inputs)
    for target in targets:
        try:
            kernel = make(target)
            args[out].fill_(math.nan)
            kernel(*args)
            close(name, args[out], expected, tolerance)
            timing = bench(kernel, args)
            if native:
                beside[native[0]] = bench(native[1](target), args)
        except (CompileError, AssertionError, RuntimeError, ValueError) as error:
            table.fail(name, target, error)
            continue
        table.add(name, target, timing, timing.rate(amount) / 1e12, unit, beside)


# ---- rows ----------------------------------------------------------------------------------------


def rows_of(columns):
    return (1 << 27) // columns  # 256 MB of f16


def bench_rows(table, targets, quick):
    for columns in (1024, 8192) if quick else (1024, 2048, 4096, 5000, 8192, 16384):
        rows = rows_of(columns)
        x, y = random(rows, columns), torch.empty(rows, columns, dtype=HALF, device="cuda")
        w, b = random(columns), random(columns)
        moved = 2 * x.numel() * 2

        def run(name, make, args, other, tolerance=2e-3):
            size = f"{name} {rows}x{columns} f16"
            make_for = lambda target: make(rows, columns, tkl.f16, target)
            measure(
                table, size, make_for, args, len(args) - 1, other, moved, "TB/s", targets, tolerance
            )

        run("copy", kernels.copy, [x, y], ("copy_", lambda a, c: c.copy_(a), [x, y.clone()]))
        run("softmax", kernels.softmax, [x, y], ("softmax", lambda a: F.softmax(a, -1), [x]), 4e-3)
        rms = lambda a, g: F.rms_norm(a, (columns,), g, kernels.EPSILON)
        run("rms_norm", kernels.rms_norm, [x, w, y], ("rms_norm", rms, [x, w]))
        norm = lambda a, g, c: F.layer_norm(a, (columns,), g, c, kernels.EPSILON)
        run("layer_norm", kernels.layer_norm, [x, w, b, y], ("layer_norm", norm, [x, w, b]))


# ---- products ------------------------------------------------------------------------------------

# target: its name, tile, waves, instruction, options
BY_THREADS = {"use_global_to_shared": False}  # no boxes: every thread copies, by cp.async


def with_rows(text):
    """Options that have loops obey the rows of a schedule, in a file that lasts as long as we do."""
    path = os.path.join(with_rows.folder.name, f"{len(os.listdir(with_rows.folder.name))}.schedule")
    with open(path, "w") as file:
        file.write(text)
    return {"override_schedule": path}


with_rows.folder = tempfile.TemporaryDirectory()
ROLES = with_rows("roles K load 4, math 8\n")  # waves that copy, besides waves that compute
ATTENTION_ROLES = with_rows("roles K2 load 4, math 8\n")
GEMM_FORMS = (
    ("sm_80", "mma.sync", (128, 128, 64), (2, 2), kernels.SYNC, {}),
    ("sm_90a", "wgmma", (128, 128, 64), (2, 1), kernels.WGMMA, {}),
    ("sm_90a", "wgmma", (128, 256, 64), (2, 1), kernels.WGMMA, {}),
    ("sm_90a", "wgmma, roles", (128, 128, 64), (2, 1), kernels.WGMMA, ROLES),
    ("sm_90a", "wgmma, roles", (128, 256, 64), (2, 1), kernels.WGMMA, ROLES),
    ("sm_90a", "wgmma", (64, 128, 128), (1, 1), kernels.WGMMA, {}),
    ("sm_90a", "mma.sync, cp.async", (128, 128, 64), (2, 2), kernels.SYNC, BY_THREADS),
    ("sm_90a", "mma.sync, boxes", (128, 128, 64), (2, 2), kernels.SYNC, {}),
)
GEMMS = ((4096,) * 3, (8192,) * 3, (1024,) * 3, (1000, 1001, 1003))


def bench_gemm(table, targets, quick):
    for m, n, k in GEMMS[:1] if quick else GEMMS:
        a, b = random(m, k), random(n, k)
        c = torch.empty(m, n, device="cuda")
        other = ("cuBLAS", lambda x, y: torch.matmul(x, y.T), [a, b])
        for target, word, tile, waves, unit, options in GEMM_FORMS:
            if target not in targets:
                continue
            name = f"gemm {m}x{n}x{k} {word} {tile[0]}x{tile[1]}"
            make = lambda t: kernels.gemm(m, n, k, tile, waves, unit, t, **options)
            work = 2.0 * m * n * k
            measure(table, name, make, [a, b, c], 2, other, work, "TF/s", [target])


def attention_tile(unit, depth):
    """Rows and keys, waves: results and scores must fit the registers (docs/gpu.md)."""
    if unit == kernels.WGMMA:
        return (128, 64 if depth <= 64 else 128), 2
    return (128 if depth <= 64 else 64, 64), 4


def bench_attention(table, targets, quick):
    shapes = ((64, 4096, 64), (64, 4096, 128), (64, 1024, 64))
    for heads, length, depth in shapes[:1] if quick else shapes:
        q, k, v = (random(heads, length, depth) for _ in range(3))
        c = torch.empty(heads, length, depth, device="cuda")
        scale = math.log2(math.e) / math.sqrt(depth)
        scaled = (q.float() * scale).half()
        flash = lambda x, y, z: F.scaled_dot_product_attention(x[None], y[None], z[None])[0]
        other = ("sdpa", flash, [q, k, v])
        work = 4.0 * heads * length * length * depth
        forms = [(form[0], form[1], form[4], {}) for form in GEMM_FORMS[:2]]
        forms.append(("sm_90a", "wgmma, roles", kernels.WGMMA, ATTENTION_ROLES))
        for target, word, unit, options in forms:
            if target not in targets:
                continue
            name = f"attention {heads}x{length}x{depth} {word}"
            tile, waves = attention_tile(unit, depth)
            make = lambda t: kernels.attention(heads, length, length, depth, tile, waves, unit, t, **options)
            measure(table, name, make, [scaled, k, v, c], 3, other, work, "TF/s", [target], 2e-2)


# Tiles of kernels for an MI300X, of four waves of 64 lanes: what does not fit is divided (R0620).
MFMA_TILES = (
    (256, 128, 64), (256, 256, 64), (256, 256, 32), (256, 224, 64), (192, 256, 64), (128, 512, 64),
)  # fmt: skip
MFMA_ATTENTION = ((64, (256, 64)), (128, (256, 128)), (128, (256, 64)), (256, (256, 64)))


def bench_mfma(table, targets, quick):
    """Kernels written for an MI300X, unchanged, beside our own for the machine."""
    if "sm_90a" not in targets:
        return
    best = ("128x256x64", lambda t: kernels.gemm(m, n, k, (128, 256, 64), (2, 1), kernels.WGMMA, t))
    for m, n, k in GEMMS[:1] if quick else (*GEMMS[:2], (4096, 4096, 1000)):
        a, b = random(m, k), random(n, k)
        c = torch.empty(m, n, device="cuda")
        other = ("cuBLAS", lambda x, y: torch.matmul(x, y.T), [a, b])
        for tile in MFMA_TILES:
            name = f"mfma gemm {m}x{n}x{k} {'x'.join(map(str, tile))}"
            make = lambda t: kernels.gemm(m, n, k, tile, (2, 2), kernels.MFMA, t)
            work = 2.0 * m * n * k
            measure(
                table, name, make, [a, b, c], 2, other, work, "TF/s", ["sm_90a"], native=best
            )
    heads, length = 64, 4096
    for depth, tile in MFMA_ATTENTION:
        q, k, v = (random(heads, length, depth) for _ in range(3))
        c = torch.empty(heads, length, depth, device="cuda")
        scaled = (q.float() * (math.log2(math.e) / math.sqrt(depth))).half()
        flash = lambda x, y, z: F.scaled_dot_product_attention(x[None], y[None], z[None])[0]
        sizes = (heads, length, length, depth)
        keys = 64 if depth != 128 else 128
        own = lambda t: kernels.attention(*sizes, (128, keys), 2, kernels.WGMMA, t)
        make = lambda t: kernels.attention(*sizes, tile, 4, kernels.MFMA, t)
        name, work = f"mfma attention {depth} {tile[0]}x{tile[1]}", 4.0 * heads * length**2 * depth
        measure(
            table, name, make, [scaled, k, v, c], 3, ("sdpa", flash, [q, k, v]), work, "TF/s",
            ["sm_90a"], 2e-2, (f"128x{keys}", own),
        )  # fmt: skip


def bench_convolution(table, targets, quick):
    for n, h, c, nf in [(32, 58, 64, 128)] if quick else [(32, 58, 64, 128), (16, 30, 256, 256)]:
        x, f = random(n, h, h, c), random(3, 3, c, nf)
        out = torch.empty(n, h - 2, h - 2, nf, device="cuda")
        nchw = x.permute(0, 3, 1, 2)  # channels last, as PyTorch calls it
        filters = f.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
        other = ("cuDNN", lambda a, b: F.conv2d(a, b).permute(0, 2, 3, 1), [nchw, filters])
        make = lambda t: kernels.convolution(n, h, h, c, 3, 3, nf, target=t)
        name, work = f"convolution {n}x{h}x{h}x{c} {nf} f16", 2.0 * out.numel() * 9 * c
        measure(table, name, make, [x, f, out], 2, other, work, "TF/s", targets)


# N, C, H, W, filters, window, stride, padding
CONVOLUTIONS = [
    (32, 256, 56, 56, 256, 3, 1, 1),
    (64, 512, 28, 28, 512, 3, 1, 1),
    (16, 128, 112, 112, 128, 3, 2, 1),
    (64, 256, 56, 56, 1024, 1, 1, 0),
]


def bench_conv2d(table, targets, quick):
    """`ops.conv2d`, whose tiles the compiler chooses; cuDNN's fastest algorithm."""
    torch.backends.cudnn.benchmark = True
    for n, c, h, w, nf, window, stride, pad in CONVOLUTIONS[: 1 if quick else None]:
        x, f = random(n, h, w, c), random(window, window, c, nf)
        rows, columns = ((size + 2 * pad - window) // stride + 1 for size in (h, w))
        out = torch.empty(n, rows, columns, nf, device="cuda", dtype=HALF)
        filters = f.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
        run = lambda a, b: F.conv2d(a, b, stride=stride, padding=pad).permute(0, 2, 3, 1)
        other = ("cuDNN", run, [x.permute(0, 3, 1, 2), filters])

        def make(target):
            def call(a, b, y):
                with ops.on_target(target):
                    ops.conv2d(a, b, None, stride, pad, layout="nhwc", out=y)

            return call

        name = f"conv2d {n}x{h}x{w}x{c} {nf} {window}x{window}/{stride} f16"
        work = 2.0 * out.numel() * window**2 * c
        measure(table, name, make, [x, f, out], 2, other, work, "TF/s", targets)


def bench_compile(table):
    """The time until the kernel is loaded: with nothing cached, bypassing the driver's cache; then
    from the cache."""
    import tempfile

    from wave_lang.kernel.wave import cache

    unusual = 64 * (100 + time.time_ns() % 1000)  # the driver has not seen it either

    def once(directory):
        cache.reset_cache_manager(directory)
        begin = time.perf_counter()
        kernel = kernels.gemm(4096, 4096, unusual, target=_wave.devices()[0].target)
        return (time.perf_counter() - begin) * 1e3, kernel.program.variants[0]

    with tempfile.TemporaryDirectory() as directory:
        cold, first = once(directory)
        warm, second = once(directory)
    cache.reset_cache_manager()
    for name, ms, v in (("cold", cold, first), ("warm", warm, second)):
        print(
            f"compile gemm, {name}: {ms:.1f} ms in all, {v.compile_ms:.1f} ms ours, "
            f"{v.load_ms:.1f} ms the driver's, from the cache: {v.from_cache}"
        )
        table.rows.append(
            {"compile": name, "ms": ms, "ours_ms": v.compile_ms, "load_ms": v.load_ms}
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="only kernels whose name contains this")
    parser.add_argument("--target", default="", help="comma-separated; default: that of the GPU")
    parser.add_argument("--json", help="writes all rows there")
    parser.add_argument("--triton", action="store_true", help="also measure torch.compile")
    parser.add_argument("--quick", action="store_true", help="one or two sizes of each")
    options = parser.parse_args()
    gpus = [d for d in _wave.devices() if d.kind == "cuda"]
    if not gpus:
        print("there is no GPU here: nothing to measure")
        return 0
    targets = options.target.split(",") if options.target else [gpus[0].target]
    torch.manual_seed(0)
    print(f"{gpus[0].name}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    table = Table(options.only, options.triton)
    bench_rows(table, targets, options.quick)
    bench_gemm(table, targets, options.quick)
    bench_attention(table, targets, options.quick)
    bench_mfma(table, targets, options.quick)
    bench_convolution(table, targets, options.quick)
    bench_conv2d(table, targets, options.quick)
    if table.wants("compile"):
        bench_compile(table)
    if options.json:
        with open(options.json, "w") as out:
            json.dump({"gpu": gpus[0].name, "rows": table.rows}, out, indent=1)
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
