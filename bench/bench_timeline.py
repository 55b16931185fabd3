"""Predicted and measured loops of kernels on the GPU of this machine.

    bench_timeline.py [--only WORD] [--target sm_90a] [--json FILE] [--ops] [--repeat N]

For each kernel: cycles per iteration as predicted and as measured (kernel.timeline), the share of
ops whose times agree within 15 %, what stamps add to an iteration, and the op that disagrees most.
Only ops that take at least 5 % of an iteration count. `--ops` prints whole timelines. `--target
sim:sm_90a` runs the same on the simulator, which counts instructions: that tests this script, and
says nothing about time.
"""

import argparse
import json
import statistics
import sys

import numpy as np

import gpu_kernels as kernels

# Workgroups, one on each SM of an H200, since a workgroup alone on its SM is what is predicted; and
# elements along the loop.
GRID, LONG = (11, 12), 8192
NEAR, LEAST = 0.15, 0.05  # ops that agree; the share of an iteration from which an op counts


def tensors(target, shapes):
    """Random f16 operands, and zeros of f32 for the last."""
    rng = np.random.default_rng(1)
    arrays = [(rng.integers(-8, 9, s) / 16).astype("f2") for s in shapes[:-1]]
    arrays.append(np.zeros(shapes[-1], "f4"))
    if ":" in target:
        return arrays
    import torch

    return [torch.from_numpy(a).cuda() for a in arrays]


def gemm(m, n, k, tile, waves, unit, **options):
    def make(target):
        return kernels.gemm(m, n, k, tile, waves, unit, target, **options)

    return make, [(m, k), (n, k), (m, n)]


def lone_gemm(tile, waves, unit, grid=GRID, k=LONG, **options):
    return gemm(grid[0] * tile[0], grid[1] * tile[1], k, tile, waves, unit, **options)


def attention(heads, length, depth, tile, waves, unit):
    def make(target):
        return kernels.attention(heads, length, length, depth, tile, waves, unit, target)

    return make, [(heads, length, depth)] * 4


def lone_attention(depth, tile, waves, unit, grid=GRID):
    """Two heads; as many keys as queries."""
    length = max(grid[0] * grid[1] // 2, 8) * tile[0]
    return attention(2, length, depth, tile, waves, unit)


def convolution(n, h, c, nf):
    def make(target):
        return kernels.convolution(n, h, h, c, 3, 3, nf, target=target)

    return make, [(n, h, h, c), (3, 3, c, nf), (n, h - 2, h - 2, nf)]


SYNC, WGMMA = kernels.SYNC, kernels.WGMMA


def cases(grid=GRID, k=LONG):
    def product(*args, **options):
        return lone_gemm(*args, grid=grid, k=k, **options)

    def scores(*args):
        return lone_attention(*args, grid=grid)

    return {
        "gemm mma.sync 128x128x64": product((128, 128, 64), (2, 2), SYNC),
        "gemm mma.sync 64x64x32": product((64, 64, 32), (2, 2), SYNC),
        "gemm mma.sync 128x64x32": product((128, 64, 32), (4, 1), SYNC),
        "gemm mma.sync 128x128x32, 1 slot": product(
            (128, 128, 32), (2, 2), SYNC, multi_buffer_count=1
        ),
        "gemm mma.sync 128x128x32, 2 slots": product(
            (128, 128, 32), (2, 2), SYNC, multi_buffer_count=2
        ),
        "gemm mma.sync 128x128x64, cp.async": product(
            (128, 128, 64), (2, 2), SYNC, use_global_to_shared=False
        ),
        "gemm wgmma 128x128x64": product((128, 128, 64), (2, 1), WGMMA),
        "gemm wgmma 128x256x64": product((128, 256, 64), (2, 1), WGMMA),
        "gemm wgmma 64x128x128": product((64, 128, 128), (1, 1), WGMMA),
        "gemm wgmma 64x64x64": product((64, 64, 64), (1, 1), WGMMA),
        "gemm wgmma 64x256x64": product((64, 256, 64), (1, 1), WGMMA),
        "gemm wgmma 128x128x64, 2 slots": product(
            (128, 128, 64), (2, 1), WGMMA, multi_buffer_count=2
        ),
        "gemm wgmma 256x128x64": product((256, 128, 64), (2, 1), WGMMA),
        "gemm wgmma 128x192x64": product((128, 192, 64), (2, 1), WGMMA),
        "gemm wgmma 192x192x64": product((192, 192, 64), (3, 1), WGMMA),
        "gemm wgmma 128x256x32": product((128, 256, 32), (2, 1), WGMMA),
        "gemm wgmma 64x128x64": product((64, 128, 64), (1, 1), WGMMA),
        "gemm wgmma 128x64x128": product((128, 64, 128), (2, 1), WGMMA),
        "gemm mma.sync 128x256x32": product((128, 256, 32), (2, 4), SYNC),
        "gemm mma.sync 64x128x64": product((64, 128, 64), (2, 2), SYNC),
        "attention mma.sync d64": scores(64, (128, 64), 4, SYNC),
        "attention mma.sync d128": scores(128, (64, 64), 4, SYNC),
        "attention wgmma d64": scores(64, (128, 64), 2, WGMMA),
        "attention wgmma d128": scores(128, (128, 128), 2, WGMMA),
        "attention wgmma d64, 64 rows": scores(64, (64, 64), 1, WGMMA),
        "attention wgmma d128, 64 keys": scores(128, (128, 64), 2, WGMMA),
        "attention wgmma d256": scores(256, (128, 64), 2, WGMMA),
        "convolution 4x47x47x128": convolution(4, 47, 128, 128),
    }


def measure(make, shapes, target, repeat=5):
    """The first loop of the median run, by its interval; None if no loop was measured."""
    kernel, arguments = make(target), tensors(target, shapes)
    runs = [kernel.timeline(*arguments) for _ in range(repeat)]
    loops = [(run.data["loops"], run) for run in runs]
    measured = sorted(((l[0]["measured"], n) for n, (l, _) in enumerate(loops) if l))
    if not measured:
        return None, None
    loop, run = loops[measured[len(measured) // 2][1]]
    return loop[0], run


def agreement(loop):
    """The share of ops that agree, and the one that disagrees most with its difference."""
    counted = [
        op
        for op in loop["ops"]
        if max(op["predicted"], op["measured"]) >= LEAST * max(loop["predicted"], loop["measured"])
    ]
    near = [op for op in counted if abs(op["measured"] - op["predicted"]) <= NEAR * op["predicted"]]
    worst = max(counted, key=lambda op: abs(op["measured"] - op["predicted"]), default=None)
    return (len(near) / len(counted) if counted else 0), worst


def show(name, loop):
    share, worst = agreement(loop)
    ratio = loop["measured"] / loop["predicted"]
    stamps = 100 * (loop["with_stamps"] / loop["measured"] - 1) if loop["measured"] else 0
    word = f"{worst['name']} {worst['predicted']} -> {worst['measured']:.0f}" if worst else ""
    times = f"{loop['predicted']:9} {loop['measured']:9.0f} {ratio:6.2f}"
    print(f"{name:36} {times} {100 * share:5.0f} % {stamps:7.1f} %  {word}", flush=True)
    return {"kernel": name, "ratio": ratio, "ops_near": share, **loop}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--json")
    parser.add_argument("--ops", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    rows, failed = [], 0
    heads = f"{'predicted':>9} {'measured':>9} {'ratio':>6} {'ops':>7} {'stamps':>9}"
    print(f"{'kernel':36} {heads}  worst op")
    small = {"grid": (1, 1), "k": 512} if ":" in given.target else {}
    for name, (make, shapes) in cases(**small).items():
        if given.only not in name:
            continue
        try:
            loop, run = measure(make, shapes, given.target, given.repeat)
        except Exception as error:  # the others are still measured
            failed += 1
            print(f"{name:36} FAILED {str(error).splitlines()[0][:90]}", flush=True)
            continue
        if loop is None:
            print(f"{name:36} no loop was measured", flush=True)
            continue
        rows.append(show(name, loop))
        if given.ops:
            print(run)
    if rows:
        off = statistics.median(abs(row["ratio"] - 1) for row in rows)
        within = sum(abs(row["ratio"] - 1) <= 0.05 for row in rows)
        print(f"{len(rows)} loops, {within} within 5 %, median difference {100 * off:.0f} %")
    if given.json:
        with open(given.json, "w") as file:
            json.dump(rows, file, indent=1)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
