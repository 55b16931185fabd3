"""Operands whose rows do not begin at multiples of 16 bytes: launches that copy them first (`repack_rows`),
on the CPU, where every launch can be asked to; what the kernel then does, in the simulator; and when the
compiler chooses it."""

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from gemm_kernels import B, K, M, N, tiled
from wave_lang import LaunchError, SimulationError, WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tools"))

import ptxas  # noqa: E402

RNG = np.random.default_rng(5)
COPIED = "operands copied to 16-byte aligned rows"
# For each type of elements in NumPy's terms: the operands' and the results' type, and the results' in NumPy.
TYPES = {
    "f2": (tkl.f16, tkl.f32, "f4"),
    "f4": (tkl.f32, tkl.f32, "f4"),
    "f8": (tkl.f64, tkl.f64, "f8"),
    "i1": (tkl.i8, tkl.i32, "i4"),
}


def gemm(dtype=tkl.f16, transposed=False, tile=(64, 64, 32), out=tkl.f32):
    right = tkl.Memory[K, N, S, dtype] if transposed else tkl.Memory[N, K, S, dtype]

    @tkw.wave(tiled(tile, 128, 1))
    def gemm(a: tkl.Memory[M, K, S, dtype], b: right, c: tkl.Memory[M, N, G, out]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, out](0.0)])
        def product(acc):
            y = tkw.permute(tkw.read(b), [N, K]) if transposed else tkw.read(b)
            return tkw.mma(tkw.read(a), y, acc)

        tkw.write(product, c)

    return gemm


def mapped(tile=(64, 64, 32)):
    """The operands are read by mappings, the second one by one that transposes it."""
    i, j = (tkw.IndexMapping.iterator(n) for n in range(2))
    same = tkw.IndexMapping(2, inputs={M: i, K: j}, outputs={M: i, K: j})
    turned = tkw.IndexMapping(2, inputs={K: j, N: i}, outputs={N: i, K: j})

    @tkw.wave(tiled(tile, 128, 1))
    def mapped(
        a: tkl.Memory[M, K, S, tkl.f16], b: tkl.Memory[K, N, S, tkl.f16], c: tkl.Memory[M, N, G, tkl.f32]
    ):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a, mapping=same), tkw.read(b, mapping=turned), acc)

        tkw.write(product, c)

    return mapped


def batched(tile=(64, 64, 32)):
    @tkw.wave([*tiled(tile, 128, 1), tkw.WorkgroupConstraint(B, 1, 2)])
    def batched(
        a: tkl.Memory[B, M, K, S, tkl.f16], b: tkl.Memory[B, N, K, S, tkl.f16], c: tkl.Memory[B, M, N, G, tkl.f32]
    ):
        @tkw.iterate(K, init_args=[tkl.Register[B, M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    return batched


def compiled(kernel, subs=None, target="cpu", dynamic=(), **options):
    return wave_compile(
        WaveCompileOptions(subs=subs or {}, dynamic_symbols=list(dynamic), target=target, **options), kernel
    )


def values(shape, kind="f2"):
    return RNG.integers(-3, 4, shape).astype(kind)


def used(kernel):
    """The facts of the variants that calls have compiled."""
    return [v.facts for v in kernel.program.variants if v.compiled]


def wide(shape, kind, past, before):
    """A view whose rows begin `past` elements later than they end, the first after `before` others; the
    elements around it are not numbers, or large."""
    pitch, lead = shape[-1] + past, int(np.prod(shape[:-1]))
    memory = np.full(lead * pitch + before + 64, 100 if kind == "i1" else np.nan, kind)
    at = -memory.ctypes.data % 64 // memory.itemsize + before
    view = memory[at : at + lead * pitch].reshape(*shape[:-1], pitch)[..., : shape[-1]]
    view[...] = values(shape, kind)
    return view


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("past, before", [(0, 0), (1, 0), (3, 1), (7, 5), (8, 3), (17, 0)])
def test_views_with_any_pitch_and_offset(kind, past, before):
    """The copy has the values of the tensor and nothing from around it."""
    dtype, out, result = TYPES[kind]
    kernel = compiled(gemm(dtype, out=out), dynamic=(M, N, K), repack_rows=True)
    a, b = wide((37, 45), kind, past, before), wide((70, 45), kind, past + 1, 0)
    c = np.zeros((37, 70), result)
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a.astype("f8") @ b.astype("f8").T)
    assert any(COPIED in facts for facts in used(kernel))


def test_aligned_operands_are_used_in_place():
    """One operand is aligned, the other is not; then both are, and nothing is copied."""
    kernel = compiled(gemm(), dynamic=(M, N, K), repack_rows=True)
    c = np.zeros((33, 65), "f4")
    a, b = wide((33, 48), "f2", 16, 0), wide((65, 48), "f2", 1, 0)
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a.astype("f4") @ b.astype("f4").T)
    a, b = values((33, 48)), values((65, 48))
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a.astype("f4") @ b.astype("f4").T)
    assert any(COPIED not in facts for facts in used(kernel))


def test_batches_and_transposed_operands():
    a, b = wide((3, 37, 45), "f2", 1, 3), wide((3, 70, 45), "f2", 0, 1)
    c = np.zeros((3, 37, 70), "f4")
    kernel = compiled(batched(), dynamic=(B, M, N, K), repack_rows=True)
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a.astype("f4") @ b.astype("f4").transpose(0, 2, 1))
    assert any(COPIED in facts for facts in used(kernel))
    a, b, c = wide((37, 45), "f2", 1, 3), wide((45, 71), "f2", 0, 1), np.zeros((37, 71), "f4")
    for operation in (gemm(transposed=True), mapped()):
        c[...] = 0
        kernel = compiled(operation, dynamic=(M, N, K), repack_rows=True)
        kernel(a, b, c)
        np.testing.assert_array_equal(c, a.astype("f4") @ b.astype("f4"))
        assert any(COPIED in facts for facts in used(kernel))


def test_fixed_sizes():
    """What is compiled first is what a dense call needs."""
    sizes = {M: 37, N: 70, K: 45}
    kernel = compiled(gemm(), sizes, repack_rows=True)
    assert [COPIED in facts for facts in used(kernel)] == [True]
    a, b, c = values((37, 45)), values((70, 45)), np.zeros((37, 70), "f4")
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a.astype("f4") @ b.astype("f4").T)
    assert [COPIED in facts for facts in used(kernel)] == [True]
    whole = compiled(gemm(), {M: 37, N: 70, K: 48}, repack_rows=True)
    assert used(whole) == ["row-major, 16-byte aligned"]
    never = compiled(gemm(), sizes, repack_rows=False)
    assert not any(COPIED in v.facts for v in never.program.variants)


def test_what_is_written_or_read_otherwise_stays():
    """An operand that the kernel writes, too, or that no product reads, keeps its address."""

    @tkw.wave(tiled((64, 64, 32), 128, 1))
    def in_place(a: tkl.Memory[M, K, S, tkl.f16], b: tkl.Memory[N, K, S, tkl.f16], c: tkl.Memory[M, N, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            x = tkw.read(a)
            tkw.write(x, a)
            return tkw.mma(x, tkw.read(b), acc)

        tkw.write(product, c)

    kernel = compiled(in_place, {M: 37, N: 70, K: 45}, repack_rows=True)
    remarks = [r.message for r in kernel.remarks if r.code == "R0624"]
    assert remarks == ["`b` is copied before `in_place` runs if its rows do not begin at multiples of 16 bytes"]


def test_bad_arguments_are_refused_as_before():
    kernel = compiled(gemm(), dynamic=(M, N, K), repack_rows=True)
    with pytest.raises(LaunchError, match="has size 44 along `K`, expected 45"):
        kernel(values((37, 45)), values((70, 44)), np.zeros((37, 70), "f4"))
    kernel(values((0, 45)), values((70, 45)), np.zeros((0, 70), "f4"))


# ---- the kernel that gets the copies ----

VIEWS = "".join(
    f"  view {x}\n  assume Eq($STRIDE_{x}_1, 1)\n  assume Eq(Mod($STRIDE_{x}_0, 8), 0)\n  assume Eq(Mod($BASE_{x}, 16), 0)\n"
    for x in "ab"
)


def with_views(kernel, sizes, **options):
    """The variant for copies, as text: what a simulator can be given."""
    text = str(compiled(kernel, sizes, "sim:sm_90a", **options).ir)
    return text.replace("\n{\n", f"\n{VIEWS}{{\n", 1)


@pytest.mark.parametrize("sizes", [(65, 67, 71), (64, 130, 33), (130, 260, 33), (1, 3, 5), (200, 64, 129)])
@pytest.mark.parametrize("workgroups", [None, 2])
def test_simulated(sizes, workgroups):
    """TMA with rows of any length: elements past the end of a row arrive as zeros, not as what the copy has
    there."""
    m, n, k = sizes
    kernel = gemm(tile=(64, 128 if n > 128 else 64, 64), out=tkl.f32)
    subs = {M: m, N: n, K: k}
    text = with_views(kernel, subs, persistent_workgroups=workgroups)
    simulated = compiled(kernel, subs, "sim:sm_90a", override_mlir=text)
    assert any(r.code == "R0617" for r in simulated.remarks) == bool(workgroups)
    assert sum("copied by TMA" in r.message for r in simulated.remarks) == 2
    past = -k % 8
    a, b, c = wide((m, k), "f2", past, 0), wide((n, k), "f2", past + 8, 8), np.zeros((m, n), "f4")
    simulated(a, b, c)
    np.testing.assert_array_equal(c, a.astype("f4") @ b.astype("f4").T)


def run_changed(change, past=1):
    """What the simulator says about that kernel, changed after all decisions."""
    kernel, subs = gemm(tile=(64, 64, 64)), {M: 65, N: 67, K: 135}
    text = str(compiled(kernel, subs, "sim:sm_90a", override_mlir=with_views(kernel, subs)).ir_after("sync"))
    changed = change(re.sub(r"\n  assume [^\n]*", "", text))
    simulated = compiled(kernel, subs, "sim:sm_90a", override_mlir=changed, override_stage="sync")
    a, b, c = wide((65, 135), "f2", past, 0), wide((67, 135), "f2", 1, 0), np.zeros((65, 67), "f4")
    simulated(a, b, c)
    np.testing.assert_array_equal(c, a.astype("f4") @ b.astype("f4").T)


def test_faults_are_found():
    """Without a wait, and with rows that the engine cannot take."""
    run_changed(lambda text: text)
    with pytest.raises(SimulationError, match="E08"):
        run_changed(lambda text: re.sub(r"\n *mbar_wait %full[^\n]*", "", text))
    with pytest.raises(SimulationError, match="a tensor map needs multiples of 16"):
        run_changed(lambda text: text, past=0)


# ---- when ----


def test_the_compiler_chooses_it_where_it_pays():
    large, few = {M: 4097, N: 4099, K: 4103}, {M: 16, N: 4099, K: 4103}
    tile = (64, 128, 64)
    for operation, subs, target, options, copied in (
        (gemm, large, "sm_90a", {}, True),
        (mapped, large, "sm_90a", {}, True),
        (partial(gemm, transposed=True), large, "sm_90a", {}, True),
        (gemm, large, "sm_90a", {"repack_rows": False}, False),
        (gemm, large, "sm_90a", {"use_global_to_shared": False}, False),
        (gemm, large | {K: 4104}, "sm_90a", {}, False),
        (gemm, large, "sm_80", {}, False),
        (gemm, few, "sm_90a", {}, False),
    ):
        kernel = compiled(operation(tile=tile), subs, target, **options)
        assert (COPIED in used(kernel)[0]) == copied, (subs, target, options)
        assert ("cp.async.bulk.tensor" in kernel.ptx) == (copied or subs[K] == 4104 and target == "sm_90a")
        assert sum(r.code == "R0624" for r in kernel.remarks) == 2 * copied


@pytest.mark.skipif(not ptxas.find(), reason="ptxas is not installed")
def test_ptxas_has_nothing_to_say():
    for dynamic in ((), (M, N, K)):
        kernel = compiled(gemm(tile=(64, 128, 64)), {M: 4097, N: 4099, K: 4103}, "sm_90a", dynamic)
        result = ptxas.assemble(kernel.asm)
        assert result.ok and not result.advices, result.log


def test_threads_have_memory_of_their_own():
    kernel = compiled(gemm(), dynamic=(M, N, K), repack_rows=True)
    ones = [(values((37, k)), values((70, k)), np.zeros((37, 70), "f4")) for k in (45, 77, 45, 13) * 4]

    def call(args):
        for _ in range(5):
            kernel(*args)

    call(ones[0])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(call, ones))
    for a, b, c in ones:
        np.testing.assert_array_equal(c, a.astype("f4") @ b.astype("f4").T)
