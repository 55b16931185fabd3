"""Workgroups that compute several tiles one after another, in clusters where neighbours share operands:
kernels as users write them, of odd sizes, on a simulated H100."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from gemm_kernels import RNG, B, K, M, N, check_gemm, gemm, halves, tiled
from wave_lang import CompileError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S
from wave_lang.kernel.lang.global_symbols import WORKGROUP_0, WORKGROUP_1

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tools"))

import ptxas  # noqa: E402

WAVEC = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")


def constraints(tile=(64, 64, 64), waves=1, *more):
    return tiled(tile, 128, waves, *more)


def compiled(kernel, sizes, workgroups, dynamic=(), target="sim:sm_90a"):
    subs = {s: n for s, n in sizes.items() if s not in dynamic}
    options = WaveCompileOptions(subs=subs, dynamic_symbols=list(dynamic), target=target)
    options.persistent_workgroups = workgroups
    return wave_compile(options, kernel)


@pytest.mark.parametrize("workgroups", [1, 2, 5, 132])
@pytest.mark.parametrize("sizes", [(1, 1, 8), (130, 200, 72), (257, 65, 8), (64, 448, 136)])
def test_sizes(sizes, workgroups):
    kernel = compiled(gemm(constraints()), dict(zip((M, N, K), sizes)), workgroups)
    check_gemm(kernel, *sizes)


@pytest.mark.parametrize("rows, dynamic", [(3072, ()), (4864, ()), (4864, (M,)), (4864, (M, N, K))])
def test_no_division(rows, dynamic):
    """Tiles are found by constants that the launch passes, and nothing in the loops needs 64 bits."""
    sizes = {M: rows, N: 3072, K: 768}
    text = compiled(gemm(constraints((128, 256, 64), 2)), sizes, 132, dynamic, target="sm_90a").ptx
    loops = re.findall(r"^\$loop(\d+):\n((?:(?!\$loop).*\n)*?)\tbra \$loop\1;", text, re.M)
    assert len(loops) == 2  # one copies, one multiplies
    assert "div." not in text
    assert not any(".s64" in body for _, body in loops)


def test_dynamic_sizes():
    kernel = compiled(gemm(constraints((128, 64, 64), 2)), {}, 4, dynamic=(M, N, K))
    for sizes in (300, 200, 136), (1, 8, 8), (128, 64, 64), (513, 72, 40):
        check_gemm(kernel, *sizes)


def test_tiles_in_a_users_order():
    swapped = [tkw.ReorderingConstraint(WORKGROUP_1, 0), tkw.ReorderingConstraint(WORKGROUP_0, 1)]
    kernel = compiled(gemm(constraints((64, 64, 64), 1, *swapped)), {M: 192, N: 192, K: 64}, 4)
    check_gemm(kernel, 192, 192, 64)


def test_epilogue():
    """Bias, activation, a residual and a second output, after the loop."""

    @tkw.wave(constraints((128, 64, 64), 2))
    def layer(
        x: tkl.Memory[M, K, S, tkl.f16],
        w: tkl.Memory[N, K, S, tkl.f16],
        bias: tkl.Memory[N, G, tkl.f32],
        skip: tkl.Memory[M, N, G, tkl.f16],
        y: tkl.Memory[M, N, G, tkl.f16],
        raw: tkl.Memory[M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(x), tkw.read(w), acc)

        tkw.write(product, raw)
        biased = product + tkw.broadcast(tkw.read(bias), [M, N])
        active = tkw.maximum(biased, tkl.Register[M, N, tkl.f32](0.0))
        tkw.write(tkw.cast(active + tkw.cast(tkw.read(skip), tkl.f32), tkl.f16), y)

    m, n, k = 333, 200, 136
    x, w, skip = halves(m, k), halves(n, k), halves(m, n)
    bias = RNG.standard_normal(n).astype("f4")
    y, raw = np.zeros((m, n), "f2"), np.zeros((m, n), "f4")
    compiled(layer, {M: m, N: n, K: k}, 4)(x, w, bias, skip, y, raw)
    want = x.astype("f8") @ w.astype("f8").T
    np.testing.assert_allclose(raw, want, atol=1e-2)
    np.testing.assert_allclose(y, np.maximum(want + bias, 0) + skip, atol=0.06)


def test_batches():
    @tkw.wave(constraints((64, 64, 64), 1, tkw.WorkgroupConstraint(B, 1, 2)))
    def batched(
        a: tkl.Memory[B, M, K, S, tkl.f16],
        b: tkl.Memory[B, N, K, S, tkl.f16],
        c: tkl.Memory[B, M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[B, M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    a, b, c = halves(3, 130, 72), halves(3, 100, 72), np.zeros((3, 130, 100), "f4")
    compiled(batched, {B: 3, M: 130, N: 100, K: 72}, 6)(a, b, c)
    np.testing.assert_allclose(c, a.astype("f8") @ b.astype("f8").swapaxes(1, 2), atol=1e-2)


def test_weights_shared_by_batches():
    """`b` is the same for all batches, which are along M's dimension of the grid."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=128, vector_shapes={B: 0}),
            tkw.WorkgroupConstraint(B, 1, 0),
            tkw.WorkgroupConstraint(N, 64, 1),
            tkw.WorkgroupConstraint(M, 64, 2),
            tkw.TilingConstraint(K, 64),
            tkw.WaveConstraint(M, 64),
        ]
    )
    def shared(
        a: tkl.Memory[B, M, K, S, tkl.f16],
        b: tkl.Memory[N, K, S, tkl.f16],
        c: tkl.Memory[B, M, N, G, tkl.f32],
    ):
        @tkw.iterate(K, init_args=[tkl.Register[B, M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    a, b, c = halves(3, 100, 72), halves(100, 72), np.zeros((3, 100, 100), "f4")
    compiled(shared, {B: 3, M: 100, N: 100, K: 72}, 4)(a, b, c)
    np.testing.assert_allclose(c, a.astype("f8") @ b.astype("f8").T, atol=1e-2)


def test_bad_numbers():
    for bad, message in ((-1, "`persist` takes a number"), ("many", "persistent_workgroups"), (2.5, "persistent_workgroups")):
        with pytest.raises((CompileError, TypeError, ValueError), match=message):
            compiled(gemm(constraints()), {M: 64, N: 64, K: 64}, bad)


@pytest.mark.parametrize("dtype, numpy", [(tkl.f16, "f2"), (tkl.bf16, None)])
@pytest.mark.parametrize("sizes", [(1, 8, 8), (200, 264, 72), (64, 128, 128), (300, 520, 8)])
def test_results_by_the_copy_engine(sizes, dtype, numpy):
    """16-bit results leave through shared memory; a tile may be partial in both dimensions."""

    @tkw.wave(constraints((64, 128, 64)))
    def product16(a: tkl.Memory[M, K, S, tkl.f16], b: tkl.Memory[N, K, S, tkl.f16], c: tkl.Memory[M, N, G, dtype]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(tkw.cast(product, dtype), c)

    m, n, k = sizes
    a, b, c = halves(m, k), halves(n, k), np.full((m, n), 0x7FC1, "u2")
    compiled(product16, {M: m, N: n, K: k}, 4)(a, b, c if numpy is None else c.view(numpy))
    got = (c.astype("u4") << 16).view("f4") if numpy is None else c.view(numpy)
    want = a.astype("f8") @ b.astype("f8").T
    np.testing.assert_allclose(got, want, rtol=2**-8, atol=1e-2)


def mutants(text):
    """Programs of one lane that lack one thing which orders the workgroups of a cluster."""
    yield "an arrival at the other workgroup", re.sub(r"\n *mbar_arrive [^\n]*\{peer = 1\}", "", text)
    yield "the cluster's first barrier", text.replace("barrier cluster", "barrier workgroup", 1)
    head, _, tail = text.rpartition("  barrier cluster\n")
    yield "the cluster's last barrier", head + tail
    yield "one half of the tile", text.replace("multicast = 3", "multicast = 1")
    yield "arrivals of one workgroup", text.replace("{count = 8}", "{count = 4}")


def store_mutants(text):
    """The same for results that the copy engine writes."""
    waits = [m.span() for m in re.finditer(r"\n *bulk_wait 0 \{read\}", text)]
    yield "the wait for the tile of before", text[: waits[0][0]] + text[waits[0][1] :]
    yield "the wait at the end", text[: waits[-1][0]] + text[waits[-1][1] :]
    yield "the fence", text.replace("fence_proxy", "", 1)
    barriers = [m.span() for m in re.finditer(r"\n *barrier named [^\n]*", text)]
    for number, (start, end) in enumerate(barriers):
        yield f"barrier {number}", text[:start] + text[end:]
    yield "the group", text.replace("bulk_commit", "", 1)


def lane_program(name, kernel):
    """Of the first kernel of a file."""
    source = os.path.join(ROOT, "tests", "ir", "persist", name)
    command = [WAVEC, source, "--target=sm_90a", "--passes=all"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return next(part for part in re.split(r"(?=^thread kernel)", text, flags=re.M) if f"@{kernel}" in part)


@pytest.mark.parametrize(
    "name, kernel, changes", [("gemm.wave", "gemm", mutants), ("stores.wave", "half", store_mutants)]
)
def test_faults_are_found(name, kernel, changes, tmp_path):
    def findings(text):
        path = tmp_path / "lane.wave"
        path.write_text(text)
        done = subprocess.run(
            [WAVEC, "run", str(path), "--target", "sim:sm_90a"], capture_output=True, text=True
        )
        return re.findall(r"error\[(\w+)\]", done.stderr + done.stdout)

    text = lane_program(name, kernel)
    assert findings(text) == []
    for what, changed in changes(text):
        assert changed != text, what
        assert findings(changed), f"without {what} nothing is found"


@pytest.mark.skipif(not ptxas.find(), reason="ptxas is not installed")
@pytest.mark.parametrize("tile", [(128, 256, 64), (256, 128, 64)])
@pytest.mark.parametrize("dynamic", [(), (M, N, K)])
def test_ptxas_has_nothing_to_say(tile, dynamic):
    """No spills, neither of the waves that compute nor of the one that copies with few registers."""
    sizes = {M: 4096, N: 4096, K: 4096}
    kernel = compiled(gemm(constraints(tile, 2)), sizes, None, dynamic, target="sm_90a")
    assert "setmaxnreg" in kernel.asm
    result = ptxas.assemble(kernel.asm)
    assert result.ok and not result.advices, result.log
