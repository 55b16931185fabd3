"""GEMMs of the sizes that people ask for, beside cuBLAS: bf16 operands and results.

    bench_gemm.py [--only WORD] [--rounds 3] [--json FILE] [--target sm_90a] [--small]

Each size is computed by several forms of one kernel: with the tiles, and the number of workgroups for each, that
the compiler chooses (`chosen`), and by a search: other tiles, and workgroups with one tile or
several (`persist`), in the order of their numbers or so that workgroups which run together share
operands (`rows`), or several workgroups for one tile (`split`), at most as many as the machine has room
for. All forms of a size and cuBLAS are timed in random order, in one process, with cold caches
(wave_lang/benchmark.py). The medians of the rounds are printed:

    size                form                          time us   TF/s   by cuBLAS
    4096x4096x4096      128x256x64 persist rows 8       182.1    755       1.012
    4096x4096x4096      cuBLAS                          184.3    746
    4096x4096x4096      best 128x256x64 persist rows 8: 1.012; chosen 1.003
    geometric mean of 14 sizes: best 0.970, least 0.810 (1000x1000x1000); chosen 0.963, least 0.805 (1000x1000x1000)

`by cuBLAS` is cuBLAS's time divided by ours: above 1 we are faster. Results are compared with
float32 first. `--small` with `--target sim:sm_90a` only compares results, of small sizes.
"""

import argparse
import json
import math
import random
import statistics
import sys

import numpy as np

import gpu_kernels as kernels
import wave_lang.kernel.lang as tkl
from wave_lang import CompileError
from wave_lang.benchmark import bench

SIZES = (
    (8192, 8192, 8192),
    (4096, 4096, 4096),
    (2048, 2048, 2048),
    (1024, 1024, 1024),
    (512, 512, 512),
    (16384, 1280, 8192),
    (16384, 8192, 1024),
    (4864, 4096, 8256),
    (8192, 28672, 4096),
    (16, 4096, 4096),
    (64, 14336, 4096),
    (128, 4096, 14336),
    (1000, 1000, 1000),
    (4097, 4099, 4103),
)
TILES = ((128, 256, 64), (256, 128, 64), (128, 128, 64), (64, 256, 64), (64, 128, 64), (64, 64, 128),
         (64, 32, 128))  # fmt: skip


CHOSEN = "chosen"


def filling(m, n, workgroups):
    """Tiles of 128 rows that are narrower than 256, and leave less of the last round of workgroups idle."""

    def time(width):
        return math.ceil(math.ceil(m / 128) * math.ceil(n / width) / workgroups) * width

    best = min(range(256, 127, -16), key=time)
    return ((128, best, 64),) if time(best) < 0.95 * time(256) else ()


def forms(m, n, k, workgroups=132):
    """(name, tile, waves, options) of each form that makes sense for the size; the first is the compiler's."""
    yield CHOSEN, None, (1, 1), {}
    more = filling(m, n, workgroups) if m >= 128 and n >= 256 else ()
    for tile in (*TILES, *(t for t in more if t not in TILES)):
        if tile[0] > max(m, 64) or tile[1] > max(n, 64):
            continue
        waves = (tile[0] // 64 if tile[0] < 256 else 2, 1)
        name = "x".join(map(str, tile))
        tiles = math.ceil(m / tile[0]) * math.ceil(n / tile[1])
        large = tile[0] * tile[1] >= 128 * 192
        whole = {"persistent_workgroups": 0, "split_k": 0}
        yield name, tile, waves, whole
        for parts in sorted({2, 4, 8, workgroups // tiles}):
            if 1 < parts <= min(workgroups // tiles, k // tile[2], 64):
                yield f"{name} split {parts}", tile, waves, whole | {"split_k": parts}
        if large and tiles > workgroups:
            yield name + " persist", tile, waves, {"persistent_workgroups": workgroups}
            rows = 16 if tile[0] <= 128 else 8
            if rows < math.ceil(m / tile[0]):
                own = {"rows": rows, "persistent_workgroups": workgroups}
                yield f"{name} persist rows {rows}", tile, waves, own
                yield f"{name} rows {rows}", tile, waves, own | {"persistent_workgroups": 0}


def arrays(size, on_gpu):
    m, n, k = size
    if not on_gpu:
        rng = np.random.default_rng(0)
        x, y = (rng.standard_normal(s).astype("f2") for s in ((m, k), (n, k)))
        return x, y, np.zeros((m, n), "f2")
    import torch

    x, y = (torch.randn(*s, device="cuda").to(torch.bfloat16) for s in ((m, k), (n, k)))
    return x, y, torch.zeros(m, n, device="cuda", dtype=torch.bfloat16)


def wrong(args, on_gpu):
    """The largest error relative to the largest result."""
    x, y, c = args
    if not on_gpu:
        want = x.astype("f8") @ y.astype("f8").T
        return float(np.abs(c - want).max() / np.abs(want).max())
    import torch

    want = x.float() @ y.float().T
    return float((c.float() - want).abs().max() / want.abs().max())


def compile_forms(size, target, on_gpu, only):
    dtype = tkl.bf16 if on_gpu else tkl.f16
    found = {}
    for name, tile, waves, options in forms(*size, 132 if on_gpu else 3):
        if only and not all(word in name for word in only):
            continue
        try:
            found[name] = kernels.gemm(
                *size, tile, waves, kernels.WGMMA, target, dtype, out=dtype, **options
            )
        except CompileError as error:
            print(f"{'x'.join(map(str, size)):20} {name} does not compile: {str(error).splitlines()[0][:90]}")
    return found


def measure(size, options, on_gpu):
    label, args = "x".join(map(str, size)), arrays(size, on_gpu)
    found = compile_forms(size, options.target, on_gpu, options.form)
    calls = {}
    for name, kernel in found.items():
        kernel(*args)
        error = wrong(args, on_gpu)
        if error > 1e-2:
            print(f"{label:20} {name} is wrong: {error:.3g}")
            continue
        calls[name] = (kernel, args)
    if on_gpu:
        import torch

        calls["cuBLAS"] = (lambda x, y: torch.matmul(x, y.T), args[:2])
    times = {name: [] for name in calls}
    order, shuffled = list(calls), random.Random(0)
    for _ in range(options.rounds if on_gpu else 0):
        shuffled.shuffle(order)  # what runs after something light is faster
        for name in order:
            times[name].append(bench(*calls[name]).median)
    return label, {name: statistics.median(t) if t else 0.0 for name, t in times.items()}


def report(size, label, times):
    work, peer, best = 2.0 * size[0] * size[1] * size[2], times.get("cuBLAS"), None
    if not peer:
        return print(f"{label:20} right: {', '.join(times)}", flush=True)
    for name, us in sorted(times.items(), key=lambda item: item[1]):
        by = f"{peer / us:11.3f}" if name != "cuBLAS" else ""
        print(f"{label:20} {name:32} {us:9.2f} {work / us / 1e6:6.0f} {by}", flush=True)
        best = best or (name if name != "cuBLAS" else None)
    ratios = {"best": peer / times[best]} | ({CHOSEN: peer / times[CHOSEN]} if CHOSEN in times else {})
    said = f"; {CHOSEN} {ratios[CHOSEN]:.3f}" if CHOSEN in ratios else ""
    print(f"{label:20} best {best}: {ratios['best']:.3f}{said}", flush=True)
    return ratios


def summary(ratios, which):
    found = {label: of[which] for label, of in ratios.items() if which in of}
    least = min(found, key=found.get)
    return f"{which} {statistics.geometric_mean(found.values()):.3f}, least {found[least]:.3f} ({least})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="sizes that contain this")
    parser.add_argument("--form", nargs="*", help="forms that contain all of these words")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    on_gpu = not options.target.startswith("sim:")
    rows, ratios = [], {}
    for size in ((300, 600, 128), (512, 512, 64), (60, 64, 640)) if options.small else SIZES:
        if options.only not in "x".join(map(str, size)):
            continue
        label, times = measure(size, options, on_gpu)
        of = report(size, label, times)
        rows += [{"size": label, "form": name, "us": us} for name, us in times.items()]
        if of:
            ratios[label] = of
        if options.json:
            with open(options.json, "w") as file:
                json.dump(rows, file, indent=1)
    if ratios:
        whiches = [w for w in ("best", CHOSEN) if any(w in of for of in ratios.values())]
        said = "; ".join(summary(ratios, which) for which in whiches)
        print(f"geometric mean of {len(ratios)} sizes: {said}")


if __name__ == "__main__":
    sys.exit(main())
