"""The kernels of the talks, as printed there: copy, GEMM, convolution, attention."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import f64, halfs, run
from wave_lang.kernel.lang.global_symbols import *
from wave_lang.kernel.wave.constraints import MMAType

M, N, K, B = tkl.sym.M, tkl.sym.N, tkl.sym.K, tkl.sym.B
BLOCK_M, BLOCK_N, BLOCK_K = tkl.sym.BLOCK_M, tkl.sym.BLOCK_N, tkl.sym.BLOCK_K
ADDRESS_SPACE = tkl.sym.ADDRESS_SPACE


@pytest.mark.parametrize("shape", [(1, 1), (16, 256), (111, 813), (27, 300)])
@pytest.mark.parametrize(
    "space", [GLOBAL_MEMORY, tkl.AddressSpace.GLOBAL_MEMORY, 2, SHARED_ADDRESS_SPACE, 1]
)
def test_copy(shape, space):
    constraints = [tkw.HardwareConstraint(threads_per_wave=64)]
    constraints += [tkw.WorkgroupConstraint(M, BLOCK_M, 1)]
    constraints += [tkw.WorkgroupConstraint(N, BLOCK_N, 0)]
    constraints += [tkw.WaveConstraint(M, BLOCK_M)]
    constraints += [tkw.WaveConstraint(N, BLOCK_N)]

    @tkw.wave(constraints)
    def test(
        a: tkl.Memory[M, N, ADDRESS_SPACE, tkl.f16],
        b: tkl.Memory[M, N, ADDRESS_SPACE, tkl.f16],
    ):
        res = tkw.read(a)
        tkw.write(res, b)

    a, b = halfs(shape), np.zeros(shape, np.float16)
    run(test, {M: shape[0], N: shape[1], BLOCK_M: 1, BLOCK_N: 256, ADDRESS_SPACE: space}, a, b)
    assert np.array_equal(a, b)


def gemm_kernel(dynamic_dims):
    constraints = [tkw.WorkgroupConstraint(M, BLOCK_M, 0)]
    constraints += [tkw.WorkgroupConstraint(N, BLOCK_N, 1)]
    constraints += [tkw.TilingConstraint(K, BLOCK_K)]
    constraints += [tkw.WaveConstraint(M, BLOCK_M / 2)]
    constraints += [tkw.WaveConstraint(N, BLOCK_N / 2)]
    constraints += [tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.F32_16x16x16_F16)]
    if dynamic_dims:
        constraints += [tkw.Assumption(K > BLOCK_K * 4)]

    @tkw.wave(constraints)
    def gemm(
        a: tkl.Memory[M, K, ADDRESS_SPACE, tkl.f16],
        b: tkl.Memory[N, K, ADDRESS_SPACE, tkl.f16],
        c: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, tkl.f32],
    ):
        c_reg = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.reduction(K, init_args=[c_reg])
        def repeat(acc: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
            a_reg = tkw.read(a)
            b_reg = tkw.read(b)
            acc = tkw.mma(a_reg, b_reg, acc)
            return acc

        tkw.write(repeat, c)

    return gemm


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("m, n, k", [(64, 64, 160), (100, 70, 200), (1, 130, 129)])
def test_gemm(m, n, k, dynamic):
    sizes = {M: m, N: n, K: k}
    tiles = {BLOCK_M: 32, BLOCK_N: 32, BLOCK_K: 32, ADDRESS_SPACE: SHARED_ADDRESS_SPACE}
    a, b, c = halfs((m, k)), halfs((n, k), 1), np.zeros((m, n), np.float32)
    if dynamic:
        run(gemm_kernel(True), tiles, a, b, c, dynamic_symbols=[M, N, K])
    else:
        run(gemm_kernel(False), {**sizes, **tiles}, a, b, c)
    np.testing.assert_allclose(c, f64(a) @ f64(b).T, atol=1e-4 * k**0.5)


def test_a_violated_assumption_is_named():
    from wave_lang import CompileError

    a, b, c = halfs((8, 16)), halfs((8, 16)), np.zeros((8, 8), np.float32)
    tiles = {BLOCK_M: 32, BLOCK_N: 32, BLOCK_K: 32, ADDRESS_SPACE: SHARED_ADDRESS_SPACE}
    with pytest.raises(CompileError) as e:
        run(gemm_kernel(True), tiles, a, b, c, dynamic_symbols=[M, N, K], strict=True)
    assert "K" in str(e.value) and e.value.diagnostics[0].file == __file__
    run(gemm_kernel(True), tiles, a, b, c, dynamic_symbols=[M, N, K])
    np.testing.assert_allclose(c, f64(a) @ f64(b).T, atol=1e-3)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("sizes", [(2, 6, 6, 4, 3, 3, 5), (1, 9, 9, 3, 2, 2, 17)])
def test_convolution(sizes, stride):
    n, h, w, c, hf, wf, nf = sizes
    H, W, C, HF, WF, NF = (getattr(tkl.sym, s) for s in "H W C HF WF NF".split())
    H_OUT = (H - HF) // stride + 1
    W_OUT = (W - WF) // stride + 1
    SZ_OUT = H_OUT * W_OUT
    i = tkw.IndexMapping.iterator(0)
    j = tkw.IndexMapping.iterator(1)
    M = SZ_OUT * N
    K = HF * WF * C
    x_mapping = tkw.IndexMapping(
        num_iterators=2,
        inputs={
            N: i // SZ_OUT,
            C: j % C,
            H: (i % SZ_OUT) % W_OUT * stride + (j // C) % WF,
            W: (i % SZ_OUT) // W_OUT * stride + (j // C) // WF,
        },
        outputs={M: i, K: j},
    )
    w_mapping = tkw.IndexMapping(
        num_iterators=2,
        inputs={NF: i % NF, C: j % C, HF: (j // C) % WF, WF: (j // C) // WF},
        outputs={NF: i, K: j},
    )
    out_mapping = tkw.IndexMapping(
        num_iterators=2,
        inputs={M: i, NF: j},
        outputs={
            N: i // SZ_OUT,
            NF: j,
            H_OUT: (i % SZ_OUT) % W_OUT,
            W_OUT: (i % SZ_OUT) // W_OUT,
        },
    )
    constraints = [tkw.WorkgroupConstraint(M, BLOCK_M, 1)]
    constraints += [tkw.WorkgroupConstraint(NF, BLOCK_N, 0)]
    constraints += [tkw.WaveConstraint(M, BLOCK_M)]
    constraints += [tkw.WaveConstraint(NF, BLOCK_N)]
    constraints += [tkw.TilingConstraint(K, BLOCK_K)]
    constraints += [tkw.HardwareConstraint(threads_per_wave=64)]

    @tkw.wave(constraints)
    def conv(
        x: tkl.Memory[N, H, W, C, ADDRESS_SPACE, tkl.f16],
        we: tkl.Memory[HF, WF, C, NF, ADDRESS_SPACE, tkl.f16],
        out: tkl.Memory[N, H_OUT, W_OUT, NF, GLOBAL_ADDRESS_SPACE, tkl.f32],
    ):
        c_reg = tkl.Register[M, NF, tkl.f32](0.0)

        @tkw.reduction(K, init_args=[c_reg])
        def repeat(acc: tkl.Register[M, NF, tkl.f32]) -> tkl.Register[M, NF, tkl.f32]:
            a_reg = tkw.read(x, mapping=x_mapping)
            b_reg = tkw.read(we, mapping=w_mapping)
            acc = tkw.mma(a_reg, b_reg, acc)
            return acc

        tkw.write(repeat, out, mapping=out_mapping)

    h_out, w_out = (h - hf) // stride + 1, (w - wf) // stride + 1
    x, we = halfs((n, h, w, c)), halfs((hf, wf, c, nf), 1)
    out = np.zeros((n, h_out, w_out, nf), np.float32)
    run(
        conv,
        {
            N: n,
            H: h,
            W: w,
            C: c,
            HF: hf,
            WF: wf,
            NF: nf,
            BLOCK_M: 16,
            BLOCK_N: 16,
            BLOCK_K: 16,
            ADDRESS_SPACE: SHARED_ADDRESS_SPACE,
        },
        x,
        we,
        out,
    )
    # The listing indexes H with the fast part of M and W with the slow one: inputs are square.
    expected = np.zeros(out.shape)
    for p in range(h_out):
        for q in range(w_out):
            patch = f64(x)[:, p * stride : p * stride + hf, q * stride : q * stride + wf, :]
            expected[:, p, q, :] = np.tensordot(patch, f64(we), ([1, 2, 3], [0, 1, 2]))
    np.testing.assert_allclose(out, expected, atol=1e-3)


def softmax2(scores):
    weights = np.exp2(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize(
    "b, m, n, k1, k2", [(1, 64, 32, 32, 64), (2, 40, 24, 16, 37), (1, 5, 3, 7, 11)]
)
def test_attention(b, m, n, k1, k2):
    K1, K2, BLOCK_B, BLOCK_K2 = tkl.sym.K1, tkl.sym.K2, tkl.sym.BLOCK_B, tkl.sym.BLOCK_K2
    mfma_variant = [MMAType.F32_16x16x16_F16, MMAType.F32_16x16x16_F16]
    constraints = [tkw.WorkgroupConstraint(M, BLOCK_M, 0)]
    constraints += [tkw.WorkgroupConstraint(N, BLOCK_N, 1)]
    constraints += [tkw.WorkgroupConstraint(B, BLOCK_B, 2)]
    constraints += [tkw.TilingConstraint(K2, BLOCK_K2)]
    constraints += [tkw.WaveConstraint(M, BLOCK_M / 4)]
    constraints += [tkw.WaveConstraint(N, BLOCK_N / 1)]
    constraints += [
        tkw.HardwareConstraint(
            threads_per_wave=64, mma_type=mfma_variant[1], vector_shapes={B: 0, M: 16, N: 16}
        )
    ]
    i, j, k = (tkw.IndexMapping.iterator(d) for d in range(3))
    mapping = tkw.IndexMapping(
        num_iterators=3, inputs={B: i, N: j, M: k}, outputs={B: i, M: k, N: j}
    )
    v_mapping = tkw.IndexMapping(
        num_iterators=3, inputs={B: i, K2: k, N: j}, outputs={B: i, N: j, K2: k}
    )

    @tkw.wave(constraints)
    def attention(
        q: tkl.Memory[B, M, K1, GLOBAL_ADDRESS_SPACE, tkl.f16],
        k: tkl.Memory[B, K2, K1, ADDRESS_SPACE, tkl.f16],
        v: tkl.Memory[B, K2, N, ADDRESS_SPACE, tkl.f16],
        c: tkl.Memory[B, M, N, GLOBAL_ADDRESS_SPACE, tkl.f32],
    ):
        c_reg = tkl.Register[B, N, M, tkl.f32](0.0)
        init_sum = tkl.Register[B, M, tkl.f32](0.0)
        init_max = tkl.Register[B, M, tkl.f32](-1e6)
        ZERO = tkl.Register[M, K2, tkl.f32](0.0)
        MIN_INF = tkl.Register[M, K2, tkl.f32](-1e6)

        @tkw.reduction(K2, init_args=[init_max, init_sum, c_reg])
        def repeat(
            partial_max: tkl.Register[B, M, tkl.f32],
            partial_sum: tkl.Register[B, M, tkl.f32],
            acc: tkl.Register[B, N, M, tkl.f32],
        ):
            imm_reg = tkl.Register[B, K2, M, tkl.f32](0.0)
            q_reg = tkw.read(q)
            k_reg = tkw.read(k)
            inner_acc = tkw.mma(k_reg, q_reg, imm_reg, mfma_variant[0])
            x_j = tkw.permute(inner_acc, target_shape=[B, M, K2])
            k2_index = tkw.self_index(K2, tkl.i64)
            mask = tkw.apply_expr(k2_index, lambda x: x < K2)
            mask = tkw.broadcast(mask, target_shape=[M, K2])
            mask = tkw.cast(mask, tkw.i1)
            bias = tkw.select(mask, ZERO, MIN_INF)
            x_j = x_j + bias
            m_j = tkw.max(x_j, partial_max, dim=K2)
            e_delta_max = tkw.exp2(partial_max - m_j)
            e_delta = tkw.exp2(x_j - m_j)
            e_init = partial_sum * e_delta_max
            d_j = tkw.sum(e_delta, e_init, dim=K2)
            imm_f16 = tkw.cast(e_delta, tkl.f16)
            v_reg = tkw.read(v, mapping=v_mapping)
            new_acc = acc * e_delta_max
            acc = tkw.mma(v_reg, imm_f16, new_acc)
            return m_j, d_j, acc

        res_max, res_sum, res_mm = repeat
        reciprocal_sum = tkw.reciprocal(res_sum)
        res = res_mm * reciprocal_sum
        tkw.write(res, c, mapping=mapping)

    q, kk, v = halfs((b, m, k1), 0, 0.5), halfs((b, k2, k1), 1, 0.5), halfs((b, k2, n), 2)
    c = np.zeros((b, m, n), np.float32)
    run(
        attention,
        {
            B: b,
            M: m,
            N: n,
            K1: k1,
            K2: k2,
            BLOCK_B: 1,
            BLOCK_M: 64,
            BLOCK_N: 32,
            BLOCK_K2: 16,
            ADDRESS_SPACE: SHARED_ADDRESS_SPACE,
        },
        q,
        kk,
        v,
        c,
    )
    expected = softmax2(f64(q) @ f64(kk).transpose(0, 2, 1)) @ f64(v)
    np.testing.assert_allclose(c, expected, atol=2e-3)


@pytest.mark.parametrize("sizes", [(1, 32, 2, 16, 16, 32), (2, 20, 3, 8, 12, 48)])
def test_attention_of_the_overview_talk(sizes):
    """Written with bare names, four grid dimensions and heads in the middle."""
    scope = {}
    exec("from wave_lang import *", scope)
    run_bare_attention(scope, *sizes)


def run_bare_attention(scope, b, m, h, n, k1, k2):
    source = """
def make(num_waves, scale):
    B, M, H, N, K1, K2 = sym.B, sym.M, sym.H, sym.N, sym.K1, sym.K2
    BLOCK_M, BLOCK_N, BLOCK_B, BLOCK_H, BLOCK_K2 = (
        sym.BLOCK_M, sym.BLOCK_N, sym.BLOCK_B, sym.BLOCK_H, sym.BLOCK_K2)
    mfma_variant = [MMAType.F32_16x16x16_F16]
    constraints = [WorkgroupConstraint(M, BLOCK_M, 0),
                   WorkgroupConstraint(N, BLOCK_N, 1),
                   WorkgroupConstraint(B, BLOCK_B, 2),
                   WorkgroupConstraint(H, BLOCK_H, 3),
                   TilingConstraint(K2, BLOCK_K2),
                   WaveConstraint(M, BLOCK_M / num_waves),
                   WaveConstraint(N, BLOCK_N / 1),
                   HardwareConstraint(threads_per_wave=64,
                                      mma_type=MMAType.F32_16x16x16_F16,
                                      vector_shapes={B: 0, H: 0})]
    i, j, k, l = (IndexMapping.iterator(d) for d in range(4))
    q_mapping = IndexMapping(4, {B: i, M: k, H: j, K1: l}, {B: i, H: j, M: k, K1: l})
    k_mapping = IndexMapping(4, {B: i, K2: k, H: j, K1: l}, {B: i, H: j, K2: k, K1: l})
    v_mapping = IndexMapping(4, {B: i, K2: l, H: j, N: k}, {B: i, H: j, N: k, K2: l})
    mapping = IndexMapping(4, {B: i, H: j, N: k, M: l}, {B: i, M: l, H: j, N: k})

    @wave(constraints)
    def attention(
        q: Memory[B, M, H, K1, GLOBAL_ADDRESS_SPACE, f16],
        k: Memory[B, K2, H, K1, SHARED_ADDRESS_SPACE, f16],
        v: Memory[B, K2, H, N, SHARED_ADDRESS_SPACE, f16],
        c: Memory[B, M, H, N, GLOBAL_ADDRESS_SPACE, f32],
    ):
        c_reg = Register[B, H, N, M, f32](0.0)
        init_sum = Register[B, H, M, f32](0.0)
        init_max = Register[B, H, M, f32](-1e6)
        qk_scaling = Register[B, H, M, K2, f32](scale)

        @iterate(K2, init_args=[init_max, init_sum, c_reg])
        def repeat(partial_max: Register[B, H, M, f32], partial_sum: Register[B, H, M, f32],
                   acc: Register[B, H, N, M, f32]):
            imm_reg = Register[B, H, K2, M, f32](0.0)
            q_reg = read(q, mapping=q_mapping)
            k_reg = read(k, mapping=k_mapping)
            inner_acc = mma(k_reg, q_reg, imm_reg, mfma_variant[0])
            x_j = permute(inner_acc, target_shape=[B, H, M, K2])
            x_j *= qk_scaling
            m_j = max(x_j, partial_max, dim=K2)
            e_delta_max = exp2(partial_max - m_j)
            e_delta = exp2(x_j - m_j)
            e_init = partial_sum * e_delta_max
            d_j = sum(e_delta, e_init, dim=K2)
            imm_f16 = cast(e_delta, f16)
            v_reg = read(v, mapping=v_mapping)
            new_acc = acc * e_delta_max
            acc = mma(v_reg, imm_f16, new_acc)
            return m_j, d_j, acc

        res_max, res_sum, res_mm = repeat
        reciprocal_sum = reciprocal(res_sum)
        res = res_mm * reciprocal_sum
        write(res, c, mapping=mapping)

    return attention
"""
    scope["__annotations__"] = {}
    exec(compile(source, __file__, "exec"), scope)
    sym, scale = scope["sym"], 0.25
    q, kk = halfs((b, m, h, k1)), halfs((b, k2, h, k1), 1)
    v, c = halfs((b, k2, h, n), 2), np.zeros((b, m, h, n), np.float32)
    run(
        scope["make"](4, scale),
        {
            sym.B: b,
            sym.M: m,
            sym.H: h,
            sym.N: n,
            sym.K1: k1,
            sym.K2: k2,
            sym.BLOCK_M: 64,
            sym.BLOCK_N: 16,
            sym.BLOCK_B: 1,
            sym.BLOCK_H: 1,
            sym.BLOCK_K2: 16,
        },
        q,
        kk,
        v,
        c,
    )
    scores = np.einsum("bmhd,bkhd->bhmk", f64(q), f64(kk)) * scale
    expected = np.einsum("bhmk,bkhn->bmhn", softmax2(scores), f64(v))
    np.testing.assert_allclose(c, expected, atol=4e-3)
