"""Loops whose iterations are shared by several workgroups: sums of any kind, of odd sizes, on simulated
machines; what is left alone; and faults that the simulator must find."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from gemm_kernels import RNG, B, K, M, N, check_gemm, gemm, halves, product, tiled
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tools"))

import ptxas  # noqa: E402

WAVEC = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")
HOPPER, AMD = ("sim:sm_90a", 128, 1), ("sim:gfx942", 64, 2)


def constraints(machine=HOPPER, tile=(64, 64, 32), *more):
    return tiled(tile, *machine[1:], *more)


def compiled(kernel, sizes, parts, target="sim:sm_90a", dynamic=()):
    subs = {s: n for s, n in sizes.items() if s not in dynamic}
    options = WaveCompileOptions(subs=subs, dynamic_symbols=list(dynamic), target=target, split_k=parts)
    return wave_compile(options, kernel)


def remark(kernel):
    """What was said about dividing the loop, or None."""
    found = [r.message for r in kernel.remarks if getattr(r, "code", "") == "R0621"]
    return found[0] if found else None


@pytest.mark.parametrize("machine", [HOPPER, AMD], ids=["sm_90a", "gfx942"])
@pytest.mark.parametrize(
    "sizes, parts",
    [
        ((1, 1, 8), 2),  # fewer iterations than workgroups
        ((130, 72, 200), 3),  # 7 iterations, a part of each dimension beyond the end
        ((64, 64, 256), 4),  # everything divides
        ((130, 72, 280), 8),  # 9 iterations, two for each of the first four
        ((65, 8, 16), 5),  # less than one tile of K
        ((40, 64, 0), 2),  # no iteration
    ],
)
def test_sizes(sizes, parts, machine):
    kernel = compiled(gemm(constraints(machine)), dict(zip((M, N, K), sizes)), parts, machine[0])
    assert remark(kernel) == f"{parts} workgroups share the iterations over `K` of each tile of `gemm`"
    check_gemm(kernel, *sizes)


@pytest.mark.parametrize("dynamic", [(), (M, N, K)], ids=["known", "dynamic"])
@pytest.mark.parametrize("k, step, parts", [(64, 2, 2), (200, 3, 2), (320, 2, 3), (330, 4, 4)])
def test_loops_with_a_step(k, step, parts, dynamic):
    """A part begins with a whole step."""

    @tkw.wave(constraints())
    def some(a: tkl.Memory[M, K, S, tkl.f16], b: tkl.Memory[N, K, S, tkl.f16], c: tkl.Memory[M, N, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.5)], step=step)
        def total(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(total, c)

    kernel = compiled(some, {M: 70, N: 40, K: k}, parts, dynamic=dynamic)
    a, b, c = halves(70, k), halves(40, k), np.full((70, 40), np.nan, "f4")
    kernel(a, b, c)
    assert remark(kernel).startswith(f"{parts} workgroups share")
    taken = np.arange(k) // 32 % step == 0
    np.testing.assert_allclose(c, product(a[:, taken], b[:, taken]) + 0.5, atol=1e-3 * k**0.5)


def test_dynamic_sizes():
    kernel = compiled(gemm(constraints()), {}, 3, dynamic=(M, N, K))
    for sizes in (130, 72, 200), (1, 8, 8), (64, 64, 96), (70, 72, 0):
        check_gemm(kernel, *sizes)


@pytest.mark.parametrize("n, parts, clusters", [(2048, 4, True), (4096, 4, False), (8192, 2, True), (8192, 4, True)])
def test_clusters_that_do_not_run_at_once(n, parts, clusters):
    """32 clusters of four leave compute units of an H200 idle, and some wait for others; 64 of two do not. Where
    there are more workgroups than compute units, some wait in any case."""
    kernel = compiled(gemm(constraints(("", 128, 2), (128, 128, 64))), {M: 128, N: n, K: 14336}, parts, "sm_90a")
    assert ("st.async" in kernel.asm) == clusters


def test_too_many_tiles():
    kernel = compiled(gemm(constraints()), {K: 8, N: 8}, 2, "sim:sm_80", dynamic=(M,))
    big = 64 * 4097
    with pytest.raises(Exception, match="E0709|assum"):
        kernel(np.zeros((big, 8), "f2"), np.zeros((8, 8), "f2"), np.zeros((big, 8), "f4"))


@pytest.mark.parametrize("parts", [2, 3])
def test_same_bits_in_every_run(parts):
    """Whichever workgroup arrives last; and the bits of a sum of the parts in their order."""
    m, n, k = 64, 64, 192
    a, b = halves(m, k), halves(n, k)
    kernel = compiled(gemm(constraints()), {M: m, N: n, K: k}, parts)
    whole = compiled(gemm(constraints()), {M: m, N: n, K: k // parts}, 0)
    want = np.zeros((m, n), "f4")
    for i in range(parts):
        c, part = np.zeros((m, n), "f4"), slice(i * k // parts, (i + 1) * k // parts)
        whole(np.ascontiguousarray(a[:, part]), np.ascontiguousarray(b[:, part]), c)
        want = want + c
    for _ in range(2):
        c = np.zeros((m, n), "f4")
        kernel(a, b, c)
        assert c.tobytes() == want.tobytes()


P = tkl.sym.P
TYPES = [tkl.f32, tkl.f64, tkl.i32, tkl.i64]


def sums_of(dtype, parts):
    """The sum of the matrices that workgroups have, plus a row."""
    rows = [
        tkw.WorkgroupConstraint(M, 16, 0),
        tkw.WorkgroupConstraint(N, 32, 1),
        tkw.WorkgroupConstraint(P, 1, 2),
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 16, N: 32}),
    ]

    @tkw.wave(rows)
    def added(a: tkl.Memory[P, M, N, G, dtype], b: tkl.Memory[N, G, dtype], c: tkl.Memory[M, N, G, dtype]):
        total = tkw.sum(tkw.read(a), dim=P, grid=True)
        tkw.write(total + tkw.broadcast(tkw.read(b), [M, N]), c)

    return added


@pytest.mark.parametrize("parts", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("target", ["sim:sm_90a", "sim:sm_80", "sim:gfx942", "eval"])
def test_sums_that_a_kernel_asks_for(dtype, parts, target):
    """In clusters of up to 8 that divide the tile, or by the last workgroup."""
    subs = {M: 27, N: 40, P: parts}
    kernel = wave_compile(WaveCompileOptions(subs=subs, target=target), sums_of(dtype, parts))
    kind = np.dtype({"f32": "f4", "f64": "f8", "i32": "i4", "i64": "i8"}[dtype.name])
    a, b = ((RNG.integers(-80, 80, shape) / (8 if kind.kind == "f" else 1)).astype(kind) for shape in ((parts, 27, 40), (40,)))
    c = np.zeros((27, 40), kind)
    kernel(a, b, c)
    assert np.array_equal(c, a.sum(0) + b)


def test_sums_over_workgroups_that_are_refused():
    """The reference evaluator runs them."""
    kernel = sums_of(tkl.f32, 2)
    sizes = {M: 27, N: 40}
    with pytest.warns(RuntimeWarning, match="over the workgroups along `P` is not supported here: the machine has no waves"):
        wave_compile(WaveCompileOptions(subs=sizes | {P: 2}, target="cpu"), kernel)
    with pytest.raises(CompileError, match="their number is not known"):
        options = WaveCompileOptions(subs=sizes, dynamic_symbols=[P], target="sim:sm_90a")
        wave_compile(options, kernel)


HEAD = """kernel @k(%a: mem<P, M, f32>, %h: mem<P, M, f16>, %d: mem<M, f32>, %e: mem<M, f16>, %q: mem<M, Q, f32>,
          %c: mem<M, f32>)
  workgroup M by 16 on 0; hardware threads 64; bind M = 27; tile K by 8; bind K = 20; bind Q = 24
"""
ROW = "workgroup P by 1 on 1; bind P = 3"
OWN = "%own = sum %x {dim = P, block}; %s = sum %x {dim = P, grid}; %r = sub %s, %own; write %r, %c"
LOOP = """%z = fill 0.0 : tile<M, f32>
  %own = sum %x {dim = P, block}
  %r = for K carry %t = %z {
    %u = add %t, %own
    yield %u
  }
  %s = sum %x {dim = P, grid}; %w = sub %s, %r; write %w, %c"""
CHUNKS = """%z = fill 0.0 : tile<M, f32>
  %r = for Q carry %t = %z {
    %y = read %q : tile<M, Q, f32>
    %u = sum %y, %t {dim = Q}
    yield %u
  }
  %s = sum %x {dim = P, grid}; %w = sub %s, %r; write %w, %c"""
KEPT = """%own = sum %x {dim = P, block}; %m = alloc : mem<M, f32, shared>; write %own, %m
  %s = sum %x {dim = P, grid}; %r = read %m : tile<M, f32>; %w = sub %s, %r; write %w, %c"""
BROAD = "%b = broadcast %s : tile<P, M, f32>"
REFUSED = {
    "own": (ROW, OWN, "what follows it differs between workgroups", "at this `sub`"),
    "carried": (ROW, LOOP, "what follows it differs between workgroups", "at this `sub`"),
    "chunks": (
        ROW + "; tile Q by 8 from 8*$WG1 iters 1",
        CHUNKS,
        "what follows it differs between workgroups",
        "at this `sub`",
    ),
    "kept": (ROW, KEPT, "what follows it differs between workgroups", "at this `read`"),
    "begun": (
        ROW,
        "%own = sum %x {dim = P, block}; %s = sum %x, %own {dim = P, grid}; write %s, %c",
        "what follows it differs between workgroups",
        "to a kernel of its own",
    ),
    "adds": (
        ROW,
        "%s = sum %x {dim = P, grid}; %old = atomic_add %s, %c",
        "an atomic follows it, which each of the workgroups would do",
        "combine what each workgroup has atomically, without `grid`",
    ),
    "again": (
        ROW,
        "%s = sum %x {dim = P, grid}; %old = read %c; %n = add %s, %old; write %n, %c",
        "one of the workgroups may read what another one has written after it",
        "read it before the sum",
    ),
    "needs": (
        ROW,
        f"%s = sum %x {{dim = P, grid}}; {BROAD}; %f = sub %x, %b; %t = sum %f {{dim = P, grid}}; write %t, %c",
        "another depends on it",
        "compute the other one in a kernel of its own",
    ),
    "between": (
        ROW,
        "%s = sum %x {dim = P, grid}; %z = fill 0.0 : tile<M, f32>; write %z, %d; "
        "%t = sum %x {dim = P, grid}; write %t, %c",
        "another follows what cannot be moved",
        "write the sums below each other",
    ),
    "halves": (
        ROW,
        "%y = read %h : tile<P, M, f16>; %s = sum %y {dim = P, grid}; write %s, %e",
        "its operand is not a tile of f32, f64, i32 or i64",
        "cast the operand",
    ),
    "pairs": (
        "workgroup P by 2 on 1; bind P = 4",
        "%s = sum %x {dim = P, grid}; write %s, %c",
        "no `workgroup` row divides the dimension by 1",
        "divide it by `WorkgroupConstraint(P, 1, ...)`",
    ),
    "unknown": (
        "workgroup P by 1 on 1; dynamic P",
        "%s = sum %x {dim = P, grid}; write %s, %c",
        "their number is not known",
        "give `P` a number in `subs`",
    ),
    "persistent": (
        ROW + "; persist 2",
        "%s = sum %x {dim = P, grid}; write %s, %c",
        "workgroups compute several tiles",
        "leave out `persistent_workgroups`",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_said_of_refused_sums(name, tmp_path):
    rows, body, why, more = REFUSED[name]
    text = body.replace("; ", "\n  ")
    path = tmp_path / "refused.wave"
    path.write_text(f"{HEAD}  {rows}\n{{\n  %x = read %a : tile<P, M, f32>\n  {text}\n}}\n")
    done = subprocess.run([WAVEC, str(path), "--target=sm_90a", "--passes=split"], capture_output=True, text=True)
    said = f"error[E0601]: `sum` over the workgroups along `P` is not supported here: {why}\n"
    assert done.returncode == 1 and said in done.stderr and more in done.stderr, done.stderr


@pytest.mark.parametrize("target", ["eval", "sim:sm_90a"])
def test_read_of_what_follows(target):
    """In place, a matrix is read before the sum."""
    rows = [
        tkw.WorkgroupConstraint(M, 16, 0),
        tkw.WorkgroupConstraint(P, 1, 1),
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 16}),
    ]

    def added(before):
        @tkw.wave(rows)
        def added(a: tkl.Memory[P, M, G, tkl.f32], c: tkl.Memory[M, G, tkl.f32]):
            first = tkw.read(c) if before else None
            total = tkw.sum(tkw.read(a), dim=P, grid=True)
            tkw.write(total + (first if before else tkw.read(c)), c)

        return wave_compile(WaveCompileOptions(subs={M: 20, P: 4}, target=target), added)

    a, c = RNG.integers(0, 9, (4, 20)).astype("f4"), np.ones(20, "f4")
    added(True)(a, c)
    assert np.array_equal(c, a.sum(0) + 1)
    with pytest.raises(CompileError, match="one of the workgroups .* what another one has written after it"):
        added(False)(a, c)


def layer(rows):
    """A sum that begins with the bias, a second one, and more after the loop."""

    @tkw.wave(rows)
    def layer(
        x: tkl.Memory[M, K, S, tkl.f16],
        w: tkl.Memory[N, K, S, tkl.f16],
        bias: tkl.Memory[N, G, tkl.f32],
        skip: tkl.Memory[M, N, G, tkl.f16],
        y: tkl.Memory[M, N, G, tkl.f16],
        raw: tkl.Memory[M, N, G, tkl.f32],
    ):
        first = tkw.broadcast(tkw.read(bias), [M, N])

        @tkw.iterate(K, init_args=[first, tkl.Register[M, N, tkl.f32](0.0)])
        def sums(acc, twice):
            p, q = tkw.read(x), tkw.read(w)
            return tkw.mma(p, q, acc), tkw.mma(p, q, tkw.mma(p, q, twice))

        product, twice = sums
        tkw.write(twice, raw)
        active = tkw.maximum(product, tkl.Register[M, N, tkl.f32](0.0))
        tkw.write(tkw.cast(active + tkw.cast(tkw.read(skip), tkl.f32), tkl.f16), y)

    return layer


@pytest.mark.parametrize("machine", [HOPPER, AMD], ids=["sm_90a", "gfx942"])
def test_several_sums_and_an_epilogue(machine):
    m, n, k = 100, 72, 136
    x, w, skip = halves(m, k), halves(n, k), halves(m, n)
    bias = RNG.standard_normal(n).astype("f4")
    y, raw = np.zeros((m, n), "f2"), np.zeros((m, n), "f4")
    kernel = compiled(layer(constraints(machine)), {M: m, N: n, K: k}, 2, machine[0])
    assert remark(kernel).startswith("2 workgroups share")
    kernel(x, w, bias, skip, y, raw)
    want = product(x, w)
    np.testing.assert_allclose(raw, 2 * want, atol=2e-2)
    np.testing.assert_allclose(y, np.maximum(want + bias, 0) + skip, atol=0.06)


def test_sums_of_rows():
    rows = [
        tkw.HardwareConstraint(threads_per_wave=128, vector_shapes={B: 0}),
        tkw.WorkgroupConstraint(M, 64, 0),
        tkw.WorkgroupConstraint(B, 1, 1),
        tkw.TilingConstraint(K, 32),
        tkw.WaveConstraint(M, 64),
    ]

    @tkw.wave(rows)
    def sums(a: tkl.Memory[B, M, K, G, tkl.f32], c: tkl.Memory[B, M, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkl.Register[B, M, tkl.f32](0.0)])
        def loop(acc):
            return tkw.sum(tkw.read(a), acc, dim=K)

        tkw.write(loop, c)

    a, c = RNG.standard_normal((3, 70, 100)).astype("f4"), np.zeros((3, 70), "f4")
    kernel = compiled(sums, {B: 3, M: 70, K: 100}, 2)
    assert remark(kernel).startswith("2 workgroups share")
    kernel(a, c)
    np.testing.assert_allclose(c, a.sum(2, dtype="f8"), atol=1e-4)


def carried_maximum(rows):
    @tkw.wave(rows)
    def rowmax(a: tkl.Memory[M, N, K, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](-1e6)])
        def loop(acc):
            return tkw.max(tkw.read(a), acc, dim=K)

        tkw.write(loop, c)

    return rowmax


def seen_sum(rows):
    @tkw.wave(rows)
    def seen(a: tkl.Memory[M, N, K, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero, zero])
        def loop(acc, other):
            return tkw.sum(tkw.read(a), acc, dim=K), other + acc

        tkw.write(loop[0] + loop[1], c)

    return seen


def scaled_sum(rows):
    @tkw.wave(rows)
    def scaled(a: tkl.Memory[M, N, K, G, tkl.f32], c: tkl.Memory[M, N, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.sum(tkw.read(a), acc * acc, dim=K)

        tkw.write(loop, c)

    return scaled


def test_batches_use_the_whole_grid():
    """So that no dimension is left for the parts."""
    rows = constraints(HOPPER, (64, 64, 32), tkw.WorkgroupConstraint(B, 1, 2))

    @tkw.wave(rows)
    def batched(
        a: tkl.Memory[B, M, K, S, tkl.f16],
        b: tkl.Memory[B, N, K, S, tkl.f16],
        c: tkl.Memory[B, M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[B, M, N, tkl.f32](0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(loop, c)

    kernel = compiled(batched, {B: 2, M: 64, N: 64, K: 64}, 2)
    assert remark(kernel) == "the loop of `batched` is not divided: its grid has no dimension left"


@pytest.mark.parametrize("kernel", [carried_maximum, seen_sum, scaled_sum])
def test_other_carried_values_are_left_alone(kernel):
    rows = constraints(HOPPER, (16, 16, 8))
    a, got, want = RNG.standard_normal((20, 16, 24)).astype("f4"), *np.zeros((2, 20, 16), "f4")
    asked = compiled(kernel(rows), {M: 20, N: 16, K: 24}, 2)
    assert remark(asked).endswith("is not divided: its loop carries a value that is not a sum")
    asked(a, got)
    compiled(kernel(rows), {M: 20, N: 16, K: 24}, 0)(a, want)
    assert got.tobytes() == want.tobytes()


def test_not_unasked():
    kernel = compiled(gemm(constraints(HOPPER, (64, 128, 64))), {M: 64, N: 2048, K: 16384}, None, "sm_90a")
    assert remark(kernel) is None


def test_cpus_leave_it_alone():
    kernel = compiled(gemm(constraints()), {M: 64, N: 64, K: 64}, None, "cpu")
    assert remark(kernel) is None


def test_bad_numbers():
    for bad, message in ((-1, "`split` takes a number"), (65, "from 0 to 64"), ("many", "split_k")):
        with pytest.raises((CompileError, TypeError, ValueError), match=message):
            compiled(gemm(constraints()), {M: 64, N: 64, K: 64}, bad)


def mutants(text):
    """Programs of one lane that lack one thing which orders the workgroups of a tile."""
    yield "the release and the acquire", re.sub(r"(atomic add [^\n]*)volatile", r"\1", text)
    yield "the reset of the counter", re.sub(r"\n *store [^\n]*%arrived[^\n]*", "", text)
    before, after = text.split("atomic add", 1)
    head, _, tail = before.rpartition("barrier workgroup")
    yield "the barrier before the atomic", head + tail + "atomic add" + after
    head, _, tail = after.partition("barrier workgroup")
    yield "the barrier after the atomic", before + "atomic add" + head + tail


def test_faults_are_found(tmp_path):
    def findings(text):
        path = tmp_path / "lane.wave"
        path.write_text(text)
        command = [WAVEC, "run", str(path), "--target", "sim:sm_90a"]
        done = subprocess.run(command, capture_output=True, text=True)
        return re.findall(r"error\[(\w+)\]", done.stderr + done.stdout)

    source = os.path.join(ROOT, "tests", "ir", "split", "gemm.wave")
    command = [WAVEC, source, "--target=sm_90a", "--passes=all"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert findings(text) == []
    for what, changed in mutants(text):
        assert changed != text, what
        assert findings(changed), f"without {what} nothing is found"


@pytest.mark.skipif(not ptxas.find(), reason="ptxas is not installed")
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dynamic", [(), (M, N, K)])
def test_ptxas_has_nothing_to_say(target, dynamic):
    rows = constraints(("", 128, 2), (128, 128, 64))
    kernel = compiled(gemm(rows), {M: 128, N: 2048, K: 14336}, 4, target, dynamic)
    clusters = target == "sm_90a"
    assert ("atom.acq_rel.gpu.global.add" in kernel.asm) == (not clusters)
    assert ("st.async" in kernel.asm) == clusters and "barrier.cluster.arrive.release" not in kernel.asm
    result = ptxas.assemble(kernel.asm)
    assert result.ok and not result.advices, result.log
