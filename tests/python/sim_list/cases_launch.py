"""Kernels with tensors, assumptions or sizes that differ from what the symbols alone imply."""

import numpy as np

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from number_formats import wave_type
from sim_cases import Case, Tensor
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K


def free(rank):
    return tkl.MemoryLayout(shape=[None] * rank)


# ---- free layouts --------------------------------------------------------------------------------


def free_copy(dtype, bm, bn, more, dynamic):
    """A tensor with `more` rows and columns than its symbols say; fewer if negative."""
    t = wave_type(dtype)

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: bm, N: bn}),
                tkw.WorkgroupConstraint(M, bm, 1),
                tkw.WorkgroupConstraint(N, bn, 0),
            ]
        )
        def free_copy(a: tkl.Memory[M, N, G, t, free(2)], b: tkl.Memory[M, N, G, t]):
            tkw.write(tkw.read(a), b)

        return free_copy

    def reference(a, M, N, **_):
        full = np.zeros((M, N))
        full[: a.shape[0], : a.shape[1]] = a[:M, :N]
        return full

    return Case(
        f"free_copy_{dtype}_{bm}x{bn}_by{more}" + "_dynamic" * dynamic,
        make,
        around={M: bm, N: bn},
        inputs=(Tensor(dtype, (M + more, N + more)),),
        outputs=(Tensor(dtype, (M, N)),),
        reference=reference,
        dynamic=(M, N) if dynamic else (),
        exact=True,
        roomy=more != 0,  # fewer: tiles at the edge read nothing
    )


def free_gemm(bm, bn, bk, more, dynamic):
    """Operands with room for a larger batch."""

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
                tkw.WorkgroupConstraint(M, bm, 0),
                tkw.WorkgroupConstraint(N, bn, 1),
                tkw.TilingConstraint(K, bk),
                tkw.WaveConstraint(M, bm // 2),
                tkw.WaveConstraint(N, bn // 2),
            ]
        )
        def free_gemm(
            a: tkl.Memory[M, K, G, tkl.f16, free(2)],
            b: tkl.Memory[N, K, G, tkl.f16],
            c: tkl.Memory[M, N, G, tkl.f32],
        ):
            zero = tkl.Register[M, N, tkl.f32](0.0)

            @tkw.iterate(K, init_args=[zero])
            def product(acc):
                return tkw.mma(tkw.read(a), tkw.read(b), acc)

            tkw.write(product, c)

        return free_gemm

    def reference(a, b, M, K, **_):
        a = a[:M, :K]
        return a @ b.T, np.abs(a) @ np.abs(b).T

    return Case(
        f"free_gemm_t{bm}x{bn}x{bk}_by{more}" + "_dynamic" * dynamic,
        make,
        around={M: bm, N: bn, K: bk},
        inputs=(Tensor("f16", (M + more, K + more)), Tensor("f16", (N, K))),
        outputs=(Tensor("f32", (M, N)),),
        reference=reference,
        dynamic=(M, N, K) if dynamic else (),
        roomy=more > 0,
    )


# ---- assumptions ---------------------------------------------------------------------------------


def assumed_copy(bm, bn, claims, dynamic):
    """The assumption holds for some of the sizes; for the others, other code is launched."""

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: bm, N: bn}),
                tkw.WorkgroupConstraint(M, bm, 1),
                tkw.WorkgroupConstraint(N, bn, 0),
                *map(tkw.Assumption, claims),
            ]
        )
        def assumed_copy(a: tkl.Memory[M, N, G, tkl.f16], b: tkl.Memory[M, N, G, tkl.f16]):
            tkw.write(tkw.read(a), b)

        return assumed_copy

    return Case(
        f"assumed_copy_{bm}x{bn}_{len(claims)}" + "_dynamic" * dynamic,
        make,
        around={M: bm, N: bn},
        inputs=(Tensor("f16", (M, N)),),
        outputs=(Tensor("f16", (M, N)),),
        reference=lambda a, **_: a,
        dynamic=(M, N) if dynamic else (),
        exact=True,
        lanes_alone=False,
    )


# ---- tensors that disagree -----------------------------------------------------------------------


def differences(bn, more):
    """Offsets with `more` elements than there are rows: the one after the last is valid."""
    i = tkw.IndexMapping.iterator(0)
    following = tkw.IndexMapping(num_iterators=1, inputs={N: i + 1}, outputs={N: i})

    def make():
        @tkw.wave(
            [
                tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={N: bn}),
                tkw.WorkgroupConstraint(N, bn, 0),
            ]
        )
        def differences(offsets: tkl.Memory[N, G, tkl.i32], c: tkl.Memory[N, G, tkl.i32]):
            tkw.write(tkw.read(offsets, mapping=following) - tkw.read(offsets), c)

        return differences

    return Case(
        f"differences_{bn}_by{more}",
        make,
        around={N: bn},
        inputs=(Tensor("i32", (N + more,)),),
        outputs=(Tensor("i32", (N,)),),
        reference=lambda offsets, N, **_: np.diff(offsets)[:N],
        dynamic=(N,),
        exact=True,
        roomy=True,
        options={"sizes": "smallest"},
    )


CASES = [
    free_copy("f32", 4, 64, 5, dynamic=True),
    free_copy("f16", 3, 48, 8, dynamic=False),
    free_copy("f32", 2, 64, -1, dynamic=True),
    free_gemm(64, 64, 32, 8, dynamic=True),
    free_gemm(32, 48, 16, 3, dynamic=False),
    assumed_copy(4, 64, [M % 4 < 1, N % 64 < 1], dynamic=True),
    assumed_copy(2, 96, [N > 96], dynamic=True),
    differences(64, 1),
    differences(96, 40),
    assumed_copy(3, 48, [N % 48 < 1], dynamic=False),
]
