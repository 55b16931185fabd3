"""Scheduled kernels on a GPU: the same results as without rows, bit for bit, and as NumPy's."""

import importlib
import os
import tempfile

import numpy as np
import torch

import role_forms
import scheduled
from schedule_kernels import KERNELS, K, gemm, gemm_args, rows_of
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel import lang as tkl


def run_on_gpu(kernel, args, **options):
    compiled = wave_compile(WaveCompileOptions(**options), kernel)
    tensors = [torch.from_numpy(a).cuda() for a in args]
    compiled(*tensors)
    torch.cuda.synchronize()
    return [t.cpu().numpy() for t in tensors]


def with_rows(text, kernel, args, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.schedule")
        with open(path, "w") as file:
            file.write(text)
        return run_on_gpu(kernel, args, override_schedule=path, **options)


def test_rows_keep_results():
    for make, arguments, sizes, loop, ops in KERNELS.values():
        args, want = arguments(np.random.default_rng(5))
        plain = run_on_gpu(make(), args, subs=sizes)
        np.testing.assert_array_equal(plain[-1], want)
        for text in rows_of(loop, ops):
            for one, other in zip(plain, with_rows(text, make(), args, subs=sizes)):
                np.testing.assert_array_equal(one, other)


def test_any_number_of_iterations():
    for text in rows_of("k_loop", ["read_a", "right"]):
        for k in range(0, 13 * 16, 8):
            sizes = {s: k if s is K else 33 for s in KERNELS["gemm"][2]}
            args, want = gemm_args(np.random.default_rng(k), sizes)
            np.testing.assert_array_equal(with_rows(text, gemm(), args, subs=sizes)[-1], want)


def test_schedule_functions_keep_results():
    """Bit for bit, but where a product is added to something: the assembler may fuse them or not."""
    for name, case in scheduled.CASES.items():
        args = scheduled.arguments(case)
        options = {"subs": case.sizes, **case.options}
        plain = run_on_gpu(case.kernel(), args, **options)
        kernel = wave_compile(WaveCompileOptions(**options), case.kernel(), case.schedule)
        tensors = [torch.from_numpy(a).cuda() for a in args]
        kernel(*tensors)
        torch.cuda.synchronize()
        fused = 1e-6 if case.kernel is scheduled.attention else 0
        found = tensors[-1].cpu().numpy()
        np.testing.assert_allclose(found, plain[-1], rtol=fused, atol=fused, err_msg=name)


def test_roles_keep_results():
    """Waves that copy beside waves that compute (wgmma), for any number of iterations."""
    if torch.cuda.get_device_capability()[0] != 9:
        return
    for make, arguments_of in role_forms.FORMS:
        for text in role_forms.ROWS:
            for k in (0, 8, 32, 40, 64, 96, 128, 160, 256, 1000, 4096):
                args, sizes, want = arguments_of(np.random.default_rng(k), 330, 200, k)
                got = with_rows(text, make(), args, subs=sizes)[-1]
                np.testing.assert_array_equal(got, want, err_msg=f"{text} {k}")


def test_clusters_keep_results():
    """Workgroups that share an operand: the number of one must not be in descriptors, whose fields
    only operands with columns first use."""
    if torch.cuda.get_device_capability()[0] != 9:
        return
    parts = importlib.import_module("wave_lang.ops.matmul")
    tiles = (parts.BLOCK_M, parts.BLOCK_N, parts.BLOCK_K, parts.PART_M)
    for orders in (("MK", "KN"), ("MK", "NK"), ("KM", "KN"), ("KM", "NK")):
        for tile, shape in (((64, 128, 64, 64), (512,) * 3), ((128, 256, 32, 64), (512, 768, 416))):
            m, n, k = shape
            made, _, sizes, *_ = parts._product(
                tkl.bf16, tkl.bf16, shape, orders, False, None, False, None
            )
            options = {"subs": dict(zip(tiles, tile)), "dynamic_symbols": sizes}
            kernel = wave_compile(WaveCompileOptions(**options, persistent_workgroups=12), made)
            a, b = (torch.randint(-4, 5, s).cuda().bfloat16() for s in ((m, k), (k, n)))
            c = torch.full((m, n), float("nan"), dtype=torch.bfloat16, device="cuda")
            given = [x if o in ("MK", "KN") else x.t().contiguous() for x, o in zip((a, b), orders)]
            kernel(*given, c)
            assert torch.equal(c, (a.double() @ b.double()).bfloat16()), (orders, tile)


def test_slots_of_clusters_are_read_before_they_are_free():
    """Many waves that load a small tile by ldmatrix, with more tiles than fit into the cache."""
    if torch.cuda.get_device_capability()[0] != 9:
        return
    parts = importlib.import_module("wave_lang.ops.matmul")
    tiles = (parts.BLOCK_M, parts.BLOCK_N, parts.BLOCK_K, parts.PART_M)
    shape = m, n, k = 4104, 4104, 1040
    made, _, sizes, *_ = parts._product(
        tkl.f16, tkl.f16, shape, ("MK", "NK"), False, None, False, None
    )
    options = {"subs": dict(zip(tiles, (96, 32, 16, 16))), "dynamic_symbols": sizes}
    kernel = wave_compile(WaveCompileOptions(**options, persistent_workgroups=132), made)
    a, b = (torch.randint(-4, 5, s).cuda().half() for s in ((m, k), (n, k)))
    for _ in range(3):
        c = torch.full((m, n), float("nan"), dtype=torch.half, device="cuda")
        kernel(a, b, c)
        assert torch.equal(c, (a.float() @ b.float().t()).half())


def test_sums_of_clusters():
    """Workgroups that send each other their sums: exact results of any size, the same in each run."""
    if torch.cuda.get_device_capability()[0] != 9:
        return
    parts = importlib.import_module("wave_lang.ops.matmul")
    tiles = (parts.BLOCK_M, parts.BLOCK_N, parts.BLOCK_K, parts.PART_M)
    for workgroups in (2, 4, 8):
        for shape in ((64, 128, 512), (200, 264, 1032), (136, 1096, 72), (8, 8, 4104)):
            m, n, k = shape
            made, _, sizes, *_ = parts._product(
                tkl.f16, tkl.f16, shape, ("MK", "NK"), False, None, False, None
            )
            options = {"subs": dict(zip(tiles, (64, 128, 64, 64))), "dynamic_symbols": sizes}
            kernel = wave_compile(WaveCompileOptions(**options, split_k=workgroups), made)
            assert "st.async" in kernel.asm
            a, b = (torch.randint(-4, 5, s).cuda().half() for s in ((m, k), (n, k)))
            for _ in range(3):
                c = torch.full((m, n), float("nan"), dtype=torch.half, device="cuda")
                kernel(a, b, c)
                assert torch.equal(c, (a.float() @ b.float().t()).half()), (workgroups, shape)
