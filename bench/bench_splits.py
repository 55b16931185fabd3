"""Sums that workgroups share, on the GPU of this machine: `gemm_w4a16` and GEMMs with few tiles.

    bench_splits.py [--only WORD] [--rounds 3] [--small]

Forms of one kernel, with different tiles and numbers of workgroups that share a sum over K (`by 4`), beside cuBLAS
in bf16, in random order, with cold caches (wave_lang/benchmark.py). Where a line says `(cluster)`, the workgroups of a
cluster send each other what they have; `(workspace)`: the last workgroup of a tile adds the parts. Each form is
compared with float32 first, and must give the same bits twice. The medians of the rounds are printed:

    case               form                                  time us   by cuBLAS
    w4a16 64           64x64 by 2, 8 slots * (cluster)               11.20      1.052
    w4a16 64           cuBLAS                                        11.78

`*` is what `ops.gemm_w4a16` uses, or what the compiler chooses. `--small` only compares results, on the simulator.
"""

import argparse
import random
import statistics
import sys

import numpy as np

import gpu_kernels
import wave_lang.kernel.lang as tkl
from wave_lang import CompileError, ops
from wave_lang.benchmark import bench
from wave_lang.ops import scaled_kernels as kernels
from wave_lang.ops.programs import program

GROUP = 128
Form = kernels.GroupsForm
GROUPS = {
    16: [Form(64, 16, 2, 8), Form(128, 16, 4, 6)],
    64: [Form(64, 64, 2, 8), Form(128, 32, 2, 8), Form(128, 64, 4, 8), Form(128, 64, 2, 8)],
    256: [Form(128, 64, 1, 0, True), Form(128, 64, 2), Form(128, 128, 2, 4), Form(256, 64, 2)],
}
SPLITS = {  # m, n, k: tiles, and the numbers of workgroups that share one
    (1000, 1000, 1000): [((128, 128, 64), 2), ((64, 128, 64), 1), ((128, 256, 64), 4), ((64, 256, 64), 2)],
    (1024, 1024, 1024): [((128, 128, 64), 2), ((64, 128, 64), 1)],
    (512, 512, 512): [((64, 128, 64), 2), ((64, 64, 128), 1), ((64, 64, 128), 2)],
    (128, 4096, 14336): [((128, 128, 64), 4), ((128, 128, 64), 2), ((128, 64, 64), 2)],
    (64, 14336, 4096): [((64, 256, 64), 2), ((64, 128, 64), 1)],
    (16, 4096, 4096): [((64, 32, 128), 1), ((64, 64, 128), 2), ((64, 128, 64), 4), ((64, 128, 64), 3)],
}


def name_of(form):
    rings = f", {form.slots} slots" if form.slots else ""
    return f"{form.down}x{form.across} by {form.splits}{rings}" + ", stays" * form.stays


def arrays(on_gpu, m, n, k):
    """a, b, scales, c, what c should be, and b as bf16; k is a multiple of GROUP."""
    rng = np.random.default_rng(0)
    packed = rng.integers(0, 256, (n, k // 2), dtype=np.uint8)
    b = np.stack([packed & 15, packed >> 4], -1).reshape(n, k) - 8.0
    a, scales = rng.standard_normal((m, k)), rng.random((n, k // GROUP)) + 0.5
    b = b * np.repeat(scales.astype("f2"), GROUP, 1)
    if not on_gpu:
        a, scales = a.astype("f2"), scales.astype("f2")
        return a, packed, scales, np.zeros((m, n), "f2"), a.astype("f8") @ b.T, None
    import torch

    half = lambda x: torch.from_numpy(np.ascontiguousarray(x, "f4")).cuda().to(torch.bfloat16)
    a, scales, packed = half(a), half(scales), torch.from_numpy(packed).cuda()
    both = torch.stack([packed & 15, packed >> 4], -1).reshape(n, k).float() - 8
    b = both * scales.float().repeat_interleave(GROUP, 1)
    c = torch.zeros(m, n, device="cuda", dtype=torch.bfloat16)
    return a, packed, scales, c, a.float() @ b.T, b.to(torch.bfloat16)


def error_of(found, want):
    if isinstance(found, np.ndarray):
        return float(np.abs(found - want).max() / np.abs(want).max())
    return float((found.float() - want).abs().max() / want.abs().max())


def how(kernel):
    """How workgroups add what they have."""
    words = {"st.async": " (cluster)", "atom.acq_rel": " (workspace)"}
    text = kernel.ptx if options.on_gpu else ""
    return next((said for word, said in words.items() if word in text), "")


def w4_forms(most, n, k):
    """(name, kernel maker and its key) of the programs for up to that many rows."""
    dtype = tkl.bf16 if options.on_gpu else tkl.f16
    key = (dtype, dtype, False, False)
    if most <= 16:
        yield "waves *", kernels.by_waves, (*key, most, n, k, GROUP)
    for form in GROUPS.get(most, ()):
        used = " *" * (most > 16 and form == kernels.groups_form(most, n, k, GROUP))
        yield name_of(form) + used, kernels.by_groups, (*key, n, k, GROUP, form)


def w4_case(m, n, k):
    most = next(most for most in (8, 16, 64, 256) if m <= most)
    a, b, scales, c, want, whole = arrays(options.on_gpu, m, n, k)
    calls = {}
    with ops.on_target(options.target):
        for name, make, key in w4_forms(most, n, k):
            try:
                kernel = program(make, *key)
            except CompileError as error:
                print(f"w4a16 {m}: {name} does not compile: {str(error).splitlines()[0][:90]}")
                continue
            calls[name] = (kernel, (a, b, scales, c))
    peer = (lambda a, b: a @ b.T, (a, whole))
    return f"w4a16 {m}", calls, c, want, peer


def gemm_case(m, n, k):
    groups = -(-k // GROUP) * GROUP
    a, _, _, c, _, _ = arrays(options.on_gpu, m, n, groups)
    a, b = a[:, :k], arrays(options.on_gpu, n, GROUP, groups)[0][:, :k]
    a, b = (x.contiguous() if options.on_gpu else np.ascontiguousarray(x) for x in (a, b))
    want = a.float() @ b.float().T if options.on_gpu else a.astype("f8") @ b.astype("f8").T
    dtype, calls = tkl.bf16 if options.on_gpu else tkl.f16, {}
    kind = (gpu_kernels.WGMMA, options.target, dtype)
    tiles = {"chosen *": (None, (1, 1), {})}
    for tile, parts in SPLITS.get((m, n, k), [((64, 64, 64), 2)]):
        alone = {"persistent_workgroups": 0, "split_k": parts if parts > 1 else 0}
        tiles["x".join(map(str, tile)) + f" by {parts}"] = (tile, (max(tile[0] // 64, 1), 1), alone)
    for name, (tile, waves, more) in tiles.items():
        try:
            calls[name] = (gpu_kernels.gemm(m, n, k, tile, waves, *kind, out=dtype, **more), (a, b, c))
        except CompileError as error:
            print(f"gemm {m}x{n}x{k}: {name} does not compile: {str(error).splitlines()[0][:90]}")
    return f"{m}x{n}x{k}", calls, c, want, (lambda a, b: a @ b.T, (a, b))


def check(label, calls, c, want):
    """Those whose results are right, and the same twice."""
    right = {}
    for name, (kernel, args) in calls.items():
        found = []
        for _ in range(2):
            c[...] = 0
            kernel(*args)
            found.append(c.copy() if isinstance(c, np.ndarray) else c.clone())
        error, same = error_of(found[0], want), bool((found[0] == found[1]).all())
        if error > 1e-2 or not same:
            print(f"{label:18} {name} is wrong: error {error:.3g}, {'the same' if same else 'other bits'} twice")
        else:
            right[name + how(kernel)] = (kernel, args)
    return right


def measure(label, calls, c, want, peer):
    calls = check(label, calls, c, want)
    if not options.on_gpu:
        return print(f"{label:18} right: {', '.join(calls)}", flush=True)
    calls["cuBLAS"] = peer
    times, order, shuffled = {name: [] for name in calls}, list(calls), random.Random(0)
    for _ in range(options.rounds):
        shuffled.shuffle(order)
        for name in order:
            times[name].append(bench(*calls[name], budget_ms=60.0).median)
    found = {name: statistics.median(all) for name, all in times.items()}
    for name, us in sorted(found.items(), key=lambda item: item[1]):
        ratio = "" if name == "cuBLAS" else f"{found['cuBLAS'] / us:10.3f}"
        print(f"{label:18} {name:46} {us:8.2f} {ratio}", flush=True)


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases that contain this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    options.on_gpu = not options.small
    options.target = "sim:sm_90a" if options.small else "sm_90a"
    n = 256 if options.small else 4096
    sizes = [(60, 64, 640)] if options.small else SPLITS
    cases = [(f"w4a16 {m}", w4_case, (m, n, n)) for m in ((1, 13) if options.small else (1, 16, 64, 256))]
    cases += [("x".join(map(str, size)), gemm_case, size) for size in sizes]
    for label, make, size in cases:
        if options.only in label:
            measure(*make(*size))


if __name__ == "__main__":
    sys.exit(main())
