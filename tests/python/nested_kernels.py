"""Kernels with `roles` rows for loops inside others, as text: sizes are bound by `role_kernels.bound`.

A workgroup that computes several tiles one after another; one whose sums go from run to run; heads of
attention, the first product of which is early; waves that exchange values between two runs; a loop in
two others, with a second one after it; runs that have more iterations each time; tiles that are fetched
early; rings of different lengths.
"""

import role_kernels
import turn_kernels

PERSISTENT = """\
kernel @persistent(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)
  workgroup M by 128 on 0;  tile N by 64;  tile K by 32
  wave M by 64;  hardware threads 128
  roles K load 4, math 8
{
  for N {
    %z = fill 0.0 : tile<M, N, f32>
    %r = for K carry %acc = %z {
      %x = read %a
      %y = read %b
      %n = mma %x, %y, %acc
      yield %n
    }
    write %r, %c
  }
}
"""

CARRIED = turn_kernels.with_rows(turn_kernels.NESTED, "roles K load 4 x 24, math 8 x 240")

HEADS = """\
kernel @heads(%q: mem<B, M, K1, f16, shared>, %k: mem<B, K2, K1, f16, shared>, %v: mem<B, N, K2, f16, shared>, %c: mem<B, M, N, f32>)
  workgroup M by 128 on 0; workgroup N by 64 on 1; tile B by 1; tile K2 by 32
  wave M by 64
  hardware threads 128, vector {B: 0}
  roles K2 load 4, math 8
  turns K2 2 t o
{
  for B {
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
}
"""

EXCHANGED = """\
kernel @exchanged(%a: mem<M, K, f16, shared>, %b: mem<T, N, K, f16, shared>, %c: mem<T, M, N, f32>)
  workgroup M by 64 on 0;  workgroup N by 128 on 1;  tile T by 1;  tile K by 64
  wave M by 64;  wave N by 64;  hardware threads 128, vector {T: 0}
  roles K load 4, math 8
{
  for T {
    %z = fill 0.0 : tile<M, N, f32>
    %r = for K carry %acc = %z {
      %x = read %a
      %w = read %b : tile<T, N, K, f16>
      %y = squeeze %w : tile<N, K, f16>
      %n = mma %x, %y, %acc
      yield %n
    }
    %m = max %r {dim = N, block}
    %mb = broadcast %m : tile<M, N, f32>
    %d = sub %r, %mb
    %u = broadcast %d : tile<T, M, N, f32>
    write %u, %c
  }
}
"""

DEEP = """\
kernel @deep(%a: mem<T, M, K, f16, shared>, %b: mem<N, K, f16, shared>, %e: mem<M, L, f16, shared>, %f: mem<N, L, f16, shared>, %c: mem<T, M, N, f32>)
  workgroup M by 64 on 0;  tile T by 1;  tile N by 64;  tile K by 32;  tile L by 32
  wave M by 64;  hardware threads 128, vector {T: 0}
  roles K load 4, math 4
  roles L load 4, math 4
{
  for T {
    for N {
      %z = fill 0.0 : tile<M, N, f32>
      %r = for K carry %acc = %z {
        %w = read %a : tile<T, M, K, f16>
        %x = squeeze %w : tile<M, K, f16>
        %y = read %b
        %n = mma %x, %y, %acc
        yield %n
      }
      %s = for L carry %more = %r {
        %g = read %e
        %h = read %f
        %o = mma %g, %h, %more
        yield %o
      }
      %u = broadcast %s : tile<T, M, N, f32>
      write %u, %c
    }
  }
}
"""

EARLY = """\
kernel @early(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %s: mem<K, f32>, %c: mem<M, N, f32>)
  workgroup M by 64 on 0;  tile N by 64;  tile K by 32
  wave M by 64;  hardware threads 128
  roles K copy 1, math 4
  schedule K depth 4
  at K 2.1 x.fetch
  at K 3.2 n.mma
{
  for N {
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
}
"""

# A copy engine reads no tensor that may be empty.
GROWING = PERSISTENT.replace("tile K by 32", "tile K by 32 iters ceiling(K/32) + 3*$ARGN; assume K >= 1")

LENGTHS = PERSISTENT.replace("math 8\n", "math 8\n  ring K x slots 3; ring K y slots 5\n")

bound, without_roles = role_kernels.bound, role_kernels.without_roles


def without_rows(text):
    """Without anything that schedules."""
    words = ("  roles ", "  turns ", "  at ", "  schedule ", "  ring ")
    return "".join(line + "\n" for line in text.splitlines() if not line.startswith(words))
