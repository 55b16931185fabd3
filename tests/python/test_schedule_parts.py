"""Parts of copies, fetches and matmuls, placed one by one: the same bits as without a schedule, in any order that
the sums allow."""

import numpy as np
import pytest
from test_schedule_identity import check
from test_schedule_trips import lowered, results
from trip_kernels import fill_in

GEMM = """kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)
  workgroup M by 128 on 0; workgroup N by 64 on 1; tile K by 32; wave M by 64; wave N by 32
  hardware threads 64, mma F32_16x16x16_F16
  SIZES
  ROWS
{
  %zero = fill 0.0 : tile<M, N, f32>
  %r = for K carry %acc = %zero {
    %x = read %a
    %y = read %b
    %n = mma %x, %y, %acc
    yield %n
  }
  write %r, %c
}
"""
# Two products, of which one is divided along its result and one along its sum.
CHAIN = """kernel @chain(%a: mem<M, D, f16, shared>, %b: mem<K, D, f16, shared>, %v: mem<N, K, f16, shared>, %c: mem<N, M, f32>)
  workgroup M by 64 on 0; workgroup N by 32 on 1; tile K by 64; wave M by 32; hardware threads 64, mma F32_16x16x16_F16
  bind D = 32; SIZES
  ROWS
{
  %zero = fill 0.0 : tile<N, M, f32>
  %r = for K carry %acc = %zero {
    %x = read %a
    %y = read %b
    %z = fill 0.0 : tile<K, M, f32>
    %p = mma %y, %x, %z
    %h = cast %p : tile<K, M, f16>
    %t = permute %h : tile<M, K, f16>
    %w = read %v
    %n = mma %w, %t, %acc
    yield %n
  }
  write %r, %c
}
"""
# An operand is cast and scaled before it is multiplied.
CAST = """kernel @cast(%a: mem<M, K, i8, shared>, %s: mem<M, f16>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)
  workgroup M by 128 on 0; workgroup N by 64 on 1; tile K by 32; wave M by 64; wave N by 32
  hardware threads 64, mma F32_16x16x16_F16
  SIZES
  ROWS
{
  %zero = fill 0.0 : tile<M, N, f32>
  %g = read %s
  %r = for K carry %acc = %zero {
    %x = read %a
    %y = read %b
    %h = cast %x : tile<M, K, f16>
    %w = broadcast %g : tile<M, K, f16>
    %e = mul %h, %w
    %n = mma %e, %y, %acc
    yield %n
  }
  write %r, %c
}
"""
SCALED = """kernel @scaled(%a: mem<M, K, f8e4m3fn, shared>, %as: mem<M, K/32, f8e8m0fnu>,
               %b: mem<N, K, f8e4m3fn, shared>, %bs: mem<N, K/32, f8e8m0fnu>, %c: mem<M, N, f32>)
  workgroup M by 64 on 0; workgroup N by 32 on 1; tile K by 256; wave M by 32; wave N by 16
  hardware threads 64, mma F32_16x16x128_F8F6F4
  SIZES
  ROWS
{
  %z = fill 0.0 : tile<M, N, f32>
  %r = for K carry %acc = %z {
    %x = read %a
    %p = read %as
    %y = read %b
    %q = read %bs
    %n = scaled_mma %x, %p, %y, %q, %acc
    yield %n
  }
  write %r, %c
}
"""

HALVES = (
    "order K x.fetch[K 0/2] y.fetch[K 0/2] x.copy n[K 0/2] x.fetch[K 1/2] y.fetch[K 1/2] y.copy n[K 1/2]",
    "schedule K depth 3; order K y.fetch x.fetch[M 0/2] n[M 0/2] x.fetch[M 1/2] x.copy y.copy n[M 1/2]",
    "order K x.fetch y.fetch n[N 1/2] x.copy n[N 0/2]",
    "at K 0.0 x.copy y.copy; at K 1.1 x.fetch[K 0/2] y.fetch[K 0/2]; at K 2.0 n[K 0/2]; at K 2.2 x.fetch[K 1/2] y.fetch[K 1/2] n[K 1/2]",
    "order K n[M 1/2, N 0/2, K 0/2] n[M 0/2, N 0/2, K 0/2] n[M 1/2, N 0/2, K 1/2] y.copy n[M 0/2, N 1/2, K 0/2] n[M 0/2, N 0/2, K 1/2]",
    "order K x.fetch[M 0/2, K 0/2] y.fetch[N 0/2] n[M 0/2, N 0/2, K 0/2] x.fetch[M 1/2, K 1/2]; schedule K unroll 2 drain peeled",
    "order K x.load x.fetch[K 0/2] y.load n[K 0/2] x.fetch[K 1/2] x.store n[K 1/2] y.store",
)
COPIES = (
    "order K x.copy[M 0/2] n x.copy[M 1/2]",
    "order K x.copy[K 0/2] x.fetch[K 0/2] y.fetch[K 0/2] n[K 0/2] x.fetch[K 1/2] x.copy[K 1/2] y.copy n[K 1/2]",
    "at K 0.0 x.copy[M 0/2] y.copy; at K 1.1 x.copy[M 1/2]; at K 3.0 n",
    "ring K x slots 4; at K 0.0 x.copy[M 0/2]; at K 2.0 x.copy[M 1/2]; at K 2.1 n",
    "at K 0.0 x.load[M 1/4]; at K 1.0 x.load[M 0/4] x.load[M 3/4]; at K 0.2 y.copy[N 0/2]; at K 1.1 x.store; at K 2.1 n",
    "schedule K depth 3 unroll 3 drain peeled; order K x.load[M 0/2] n x.store[M 0/2] x.load[M 1/2] x.store[M 1/2]",
    "at K 0.0 x.copy[M 0/2, K 0/2] x.copy[M 1/2, K 1/2]; at K 1.0 x.copy[M 0/2, K 1/2]; at K 2.0 x.fetch[K 0/2]; at K 3.0 n",
)
CASES = [("gemm", GEMM, rows) for rows in HALVES + COPIES] + [
    ("chain", CHAIN, "order K y.fetch[K 0/2] p[K 0/2] y.fetch[K 1/2] p[K 1/2] w.copy y.copy n[N 1/2] n[N 0/2]"),
    ("chain", CHAIN, "order K p[D 0/2] w.fetch[K 0/2] p[D 1/2] h n[K 0/2] w.fetch[K 1/2] n[K 1/2]"),
    ("cast", CAST, "order K x.fetch[K 0/2] h[K 0/2] e[K 0/2] x.copy n[K 0/2] x.fetch[K 1/2] h[K 1/2] y.copy n[K 1/2]"),
    ("cast", CAST, "at K 0.0 x.copy; at K 1.0 x.fetch[M 0/2] h[M 0/2]; at K 2.1 x.fetch[M 1/2]; order K e[M 1/2] n[M 1/2] n[M 0/2]"),
]


def sizes_of(trips):
    return {"M": 70, "N": 40, "D": 32, "K": max(0, 32 * trips - (9 if trips % 2 else 0))}


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942", "gfx950", "gfx1100"])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_parts_give_the_same_bits(number, target):
    name, source, rows = CASES[number]
    for sizes in ("dynamic M, N, K", "bind M = 128; bind N = 64; bind K = 224"):
        plain, kernel = (lowered(fill_in(source, sizes, r), target) for r in ("", rows))
        if not kernel:
            assert target in ("sm_90a", "gfx1100"), (name, rows)  # instructions of other shapes
            continue
        for t in range(number % 2, 6, 2) if "dynamic" in sizes else (5,):
            at = sizes_of(t) if "dynamic" in sizes else {"M": 128, "N": 64, "D": 32, "K": 224}
            got, want = (
                results(lambda a, k=k: k.sim(tuple(a), target, "random:1", False), source, at) for k in (kernel, plain)
            )
            assert got == want, (rows, t)


@pytest.mark.parametrize("target", ["sm_80", "gfx942", "gfx950"])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_file_with_parts_gives_the_same_code(number, target, tmp_path):
    _, source, rows = CASES[number]
    check(tmp_path, fill_in(source, "bind M = 128; bind N = 64; bind K = 320", rows), target)


def test_scales_are_divided_with_their_operands():
    rows = "order K x.fetch[K 0/2] p[K 0/2] y.fetch[K 0/2] q[K 0/2] n[K 0/2] x.copy n[K 1/2]"
    plain, kernel = (lowered(fill_in(SCALED, "bind M = 64; bind N = 32; bind K = 1024", r), "gfx950") for r in ("", rows))
    rng = np.random.default_rng(3)
    args = [rng.integers(1, 100, s).astype("u1") for s in ((64, 1024), (64, 32), (32, 1024), (32, 32))]
    args[1], args[3] = (120 + a % 8 for a in (args[1], args[3]))
    out = []
    for k in (plain, kernel):
        c = np.zeros((64, 32), "f4")
        k.sim((*args, c), "gfx950", "round", False)
        out.append(c.tobytes())
    assert out[0] == out[1]


def test_each_part_has_its_own_instructions():
    """Nothing is fetched twice."""
    sizes = "bind M = 128; bind N = 64; bind K = 320"
    halves = {GEMM: HALVES[0], CAST: CASES[-2][2]}
    for source, target, op in ((GEMM, "sm_80", "load_matrix"), (GEMM, "gfx942", "load"), (CAST, "gfx942", "load")):
        plain, divided = (str(lowered(fill_in(source, sizes, r), target)) for r in ("", halves[source]))
        assert divided.count("wave_mma") == 2 * plain.count("wave_mma")
        assert divided.count(f" = {op} ") == plain.count(f" = {op} ")
