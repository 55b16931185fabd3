"""Kernels with a `roles` row, as text: sizes are bound by `bound`.

Products that read rings themselves, one of them in flight; two rings that are read at different
times, one of them early; two loops; a ring that lanes fetch from; rings without a product; waves that
exchange values before and after the loop; rings of different lengths.
"""

GEMM = """\
kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)
  workgroup M by 128 on 0;  workgroup N by 64 on 1;  tile K by 32
  wave M by 64;  wave N by 64;  hardware threads 128
  roles K load 4, math 8
{
  %z = fill 0.0 : tile<M, N, f32>
  %r = for K carry %acc = %z {
    %x = read %a
    %y = read %b
    %n = mma %x, %y, %acc
    yield %n
  }
  write %r, %c
}
"""

PRODUCT = GEMM[GEMM.index("{\n") :]  # what all products of one step compute

ATTENTION = """\
kernel @attention(%q: mem<B, M, K1, f16, shared>, %k: mem<B, K2, K1, f16, shared>, %v: mem<B, N, K2, f16, shared>, %c: mem<B, M, N, f32>)
  workgroup M by 128 on 0; workgroup N by 64 on 1; workgroup B by 1 on 2; tile K2 by 32
  wave M by 32
  hardware threads 64, mma F32_16x16x16_F16, vector {B: 0}
  roles K2 load 4, math 8
{
  %oz = fill 0.0 : tile<B, N, M, f32>
  %sz = fill 0.0 : tile<B, M, f32>
  %mz = fill -1e6 : tile<B, M, f32>
  %ra, %rb, %rc = for K2 carry %m = %mz, %s = %sz, %acc = %oz {
    %kk = read %k
    %qq = read %q
    %z = fill 0.0 : tile<B, K2, M, f32>
    %t = mma %kk, %qq, %z
    %p = permute %t : tile<B, M, K2, f32>
    %m1 = max %p, %m {dim = K2}
    %mb = broadcast %m1 : tile<B, M, K2, f32>
    %d = sub %p, %mb
    %e = exp2 %d
    %dm = sub %m, %m1
    %em = exp2 %dm
    %sm = mul %s, %em
    %s1 = sum %e, %sm {dim = K2}
    %eh = cast %e : tile<B, M, K2, f16>
    %vv = read %v
    %sc = broadcast %em : tile<B, N, M, f32>
    %as = mul %acc, %sc
    %o = mma %vv, %eh, %as
    yield %m1, %s1, %o
  }
  %rs = reciprocal %rb
  %rsb = broadcast %rs : tile<B, N, M, f32>
  %out = mul %rc, %rsb
  %po = permute %out : tile<B, M, N, f32>
  write %po, %c
}
"""

TWO_LOOPS = """\
kernel @two(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %e: mem<M, L, f16, shared>, %f: mem<N, L, f16, shared>, %g: mem<M, f32>, %c: mem<M, N, f16>)
  workgroup M by 128 on 0;  workgroup N by 64 on 1;  tile K by 32; tile L by 64
  wave M by 64;  wave N by 64;  hardware threads 128
  roles K load 4 x 24, math 8 x 240
  roles L load 4 x 24, math 8 x 240
{
  %z = fill 0.0 : tile<M, N, f32>
  %r = for K carry %acc = %z {
    %x = read %a
    %y = read %b
    %n = mma %x, %y, %acc
    yield %n
  }
  %s = read %g
  %sb = broadcast %s : tile<M, N, f32>
  %rr = mul %r, %sb
  %t = for L carry %acc2 = %rr {
    %x2 = read %e
    %y2 = read %f
    %n2 = mma %x2, %y2, %acc2
    yield %n2
  }
  %h = cast %t : tile<M, N, f16>
  write %h, %c
}
"""

FETCHED = """\
kernel @fetch(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %s: mem<K, f32>, %c: mem<M, N, f32>)
  workgroup M by 64 on 0;  workgroup N by 64 on 1;  tile K by 32
  wave M by 64;  wave N by 64;  hardware threads 128
  roles K copy 1, math 4
{
  %z = fill 0.0 : tile<M, N, f32>
  %r = for K carry %acc = %z {
    %x = read %a
    %y = read %b
    %xf = cast %x : tile<M, K, f32>
    %w = read %s
    %wb = broadcast %w : tile<M, K, f32>
    %xs = mul %xf, %wb
    %xh = cast %xs : tile<M, K, f16>
    %n = mma %xh, %y, %acc
    yield %n
  }
  write %r, %c
}
"""

ROW_SUMS = """\
kernel @rowsum(%a: mem<M, K, f32, shared>, %c: mem<M, f32>)
  workgroup M by 64 on 0; tile K by 32
  wave M by 16; hardware threads 32, vector {M: 1, K: 4}
  roles K load 1, math 4
{
  %z = fill 0.0 : tile<M, f32>
  %r = for K carry %acc = %z {
    %x = read %a
    %y = mul %x, %x
    %n = sum %y, %acc {dim = K}
    yield %n
  }
  write %r, %c
}
"""

NORMALISED = """\
kernel @norm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %g: mem<M, N, f32>, %c: mem<M, N, f32>)
  workgroup M by 64 on 0;  workgroup N by 128 on 1;  tile K by 64
  wave M by 64;  wave N by 64;  hardware threads 128
  roles K load 4, math 8
{
  %q = read %g
  %m0 = max %q {dim = N, block}
  %mb0 = broadcast %m0 : tile<M, N, f32>
  %z = sub %q, %mb0
  %r = for K carry %acc = %z {
    %x = read %a
    %y = read %b
    %n = mma %x, %y, %acc
    yield %n
  }
  %m = max %r {dim = N, block}
  %mb = broadcast %m : tile<M, N, f32>
  %d = sub %r, %mb
  write %d, %c
}
"""

THREE_RINGS = """\
kernel @three(%a: mem<B, M, K, f16, shared>, %b: mem<N, K, f16, shared>, %w: mem<N, K, f16, shared>, %c: mem<B, M, N, f32>)
  workgroup M by 192 on 0;  workgroup N by 48 on 1; workgroup B by 1 on 2; tile K by 32
  wave M by 64;  hardware threads 128, vector {B: 0}
  roles K load 4, math 12
  ring K x slots 3; ring K y slots 2; ring K v slots 5
{
  %z = fill 0.0 : tile<B, M, N, f32>
  %r, %s = for K carry %acc = %z, %bcc = %z {
    %x = read %a
    %y = read %b
    %v = read %w
    %n = mma %x, %y, %acc
    %o = mma %x, %v, %bcc
    yield %n, %o
  }
  %t = mul %r, %s
  write %t, %c
}
"""


def bound(text, sizes):
    """With a `bind` row for each size."""
    rows = "".join(f"  bind {name} = {value}\n" for name, value in sizes.items())
    return text.replace("\n{\n", "\n" + rows + "{\n", 1)


def without_roles(text):
    return "".join(line + "\n" for line in text.splitlines() if not line.startswith("  roles "))
