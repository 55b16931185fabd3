"""Kernels with `turns` rows, as text: sizes are bound by `bound`, or come with the tensors.

Products in flight, of waves that only compute; two products of an iteration, with other work between
them; products that share a turn; several groups; loops without roles, inside another loop, and one
after another.
"""

import re

import role_kernels

GEMM = role_kernels.GEMM.replace("math 8\n", "math 8\n  turns K 2 n\n")
ATTENTION = role_kernels.ATTENTION.replace("math 8\n", "math 8\n  turns K2 2 t o\n")
TWO_LOOPS = role_kernels.TWO_LOOPS.replace(
    "  roles L load", "  turns K 2 n\n  turns L 2 n2\n  roles L load"
)
THREE_GROUPS = role_kernels.THREE_RINGS.replace("math 12\n", "math 12\n  turns K 3 n o\n")
NORMALISED = role_kernels.NORMALISED.replace("math 8\n", "math 8\n  turns K 2 mma\n")


def without_roles(text):
    return "".join(line + "\n" for line in text.splitlines() if not line.startswith("  roles "))


ALL_COPY = without_roles(GEMM)
ALL_COPY_ATTENTION = without_roles(ATTENTION)

NESTED = """\
kernel @nested(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %s: mem<T, M, f32>, %c: mem<M, N, f32>)
  workgroup M by 128 on 0; workgroup N by 64 on 1; tile T by 1; tile K by 32
  wave M by 64; hardware threads 128, vector {T: 0}
  turns K 2 n
{
  %z = fill 0.0 : tile<M, N, f32>
  %r = for T carry %all = %z {
    %p = for K carry %acc = %all {
      %x = read %a
      %y = read %b
      %n = mma %x, %y, %acc
      yield %n
    }
    %w = read %s : tile<T, M, f32>
    %v = broadcast %w : tile<T, M, N, f32>
    %q = squeeze %v : tile<M, N, f32>
    %o = mul %p, %q
    yield %o
  }
  write %r, %c
}
"""

FETCHED = (
    """\
kernel @fetched(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)
  workgroup M by 64 on 0; workgroup N by 64 on 1; tile K by 32
  wave M by 16; wave N by 64; hardware threads 32, mma F32_16x16x16_F16
  turns K 4 n
"""
    + role_kernels.PRODUCT
)

STENCIL = """\
kernel @smooth(%a: mem<M, K, f32, shared>, %w: mem<M, f32>, %c: mem<M, f32>)
  workgroup M by 64 on 0; tile K by 32
  wave M by 16; hardware threads 32, vector {M: 1, K: 4}
  turns K 2 e
{
  %z = read %w
  %r = for K carry %acc = %z {
    %x = read %a
    %e = exp2 %x
    %n = sum %e, %acc {dim = K}
    yield %n
  }
  write %r, %c
}
"""


def without_turns(text):
    return "".join(line + "\n" for line in text.splitlines() if not line.startswith("  turns "))


# ---- machines with one barrier: two groups, one of them a barrier later ----

HALVES = (
    """\
kernel @halves(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)
  workgroup M by 64 on 0; workgroup N by 64 on 1; tile K by 32
  wave M by 16; wave N by 32; hardware threads 64, mma F32_16x16x16_F16
  turns K 2 n
"""
    + role_kernels.PRODUCT
)


def with_rows(text, *rows):
    return text.replace("\n{\n", "".join(f"\n  {row}" for row in rows) + "\n{\n", 1)


# A tile is stored an iteration after it was loaded: turns alone order all accesses.
HANDED_OVER = with_rows(
    HALVES,
    "schedule K depth 3",
    "at K 0.0 x.load y.load",
    "at K 1.1 x.store y.store",
    "at K 2.2 x.fetch y.fetch",
    "at K 2.3 n",
)
# One tile in shared memory, that of the next iteration in registers.
ONE_SLOT = with_rows(
    HALVES,
    "ring K x slots 1; ring K y slots 1",
    "at K 0.3 x.load y.load",
    "at K 1.0 x.store y.store",
    "at K 1.1 x.fetch y.fetch",
    "at K 1.2 n",
)
DEEP = with_rows(HALVES, "schedule K depth 4 unroll 3", "prio K 2 n")
NO_AHEAD = with_rows(HALVES, "stages 1")


def of_halves(text):
    """Without roles, and with two groups."""
    lines = without_roles(text).splitlines()
    return "".join(re.sub(r"^(  turns \w+) \d", r"\1 2", line) + "\n" for line in lines)


HALVES_ATTENTION = of_halves(ATTENTION)
HALVES_TWO_LOOPS = of_halves(TWO_LOOPS)
HALVES_THREE_RINGS = of_halves(THREE_GROUPS)
HALVES_NORMALISED = of_halves(NORMALISED)
HALVES_NESTED = NESTED
HALVES_FETCHED = of_halves(FETCHED)
