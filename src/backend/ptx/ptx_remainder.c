/* ptx_remainder.c: the exact remainder of f64.
 *
 * r - q s is exact if q = trunc(r / s) has at most 52 bits. So s is b times a power of two that
 * makes the quotient that small, and the remainder is divided again until it is less than b. Each
 * iteration reduces the difference of the exponents by 50; most operands need one. */
#include "backend/ptx/ptx_state.h"

/* The biased exponent of a normal number. */
static Reg biased(Ptx *p, Reg r) {
  Reg low = ptx_new(p, REG_R), high = ptx_new(p, REG_R);
  ptx_line(p, "mov.b64 {%s, %s}, %s", low.name, high.name, r.name);
  ptx_line(p, "bfe.u32 %s, %s, 20, 11", high.name, high.name);
  return high;
}

/* The exponent of a positive number, also if it is subnormal; it is then below 0. */
static Reg exponent(Ptx *p, Reg b) {
  Reg up = ptx_new(p, REG_FD), small = ptx_new(p, REG_P), less = ptx_new(p, REG_R);
  ptx_line(p, "setp.lt.f64 %s, %s, 0d0010000000000000", small.name, b.name);
  ptx_line(p, "mul.f64 %s, %s, 0d4350000000000000", up.name, b.name); /* 2**54 */
  ptx_line(p, "selp.f64 %s, %s, %s, %s", up.name, up.name, b.name, small.name);
  ptx_line(p, "selp.b32 %s, 54, 0, %s", less.name, small.name);
  Reg e = biased(p, up);
  ptx_line(p, "sub.s32 %s, %s, %s", e.name, e.name, less.name);
  return e;
}

/* v 2**k for k from 0 to about 2200, in three steps, since no power of two is that large. */
static void scale(Ptx *p, Reg v, Reg k) {
  Reg part = ptx_new(p, REG_R), rest = ptx_new(p, REG_R), zero = ptx_new(p, REG_R);
  Reg power = ptx_new(p, REG_FD);
  ptx_line(p, "mov.b32 %s, %s", rest.name, k.name);
  ptx_line(p, "mov.b32 %s, 0", zero.name);
  for (int i = 0; i < 3; i++) {
    ptx_line(p, "min.s32 %s, %s, 1000", part.name, rest.name);
    ptx_line(p, "sub.s32 %s, %s, %s", rest.name, rest.name, part.name);
    ptx_line(p, "add.s32 %s, %s, 1023", part.name, part.name);
    ptx_line(p, "shl.b32 %s, %s, 20", part.name, part.name);
    ptx_line(p, "mov.b64 %s, {%s, %s}", power.name, zero.name, part.name);
    ptx_line(p, "mul.rn.f64 %s, %s, %s", v.name, v.name, power.name);
  }
}

/* One iteration: r becomes its remainder by b 2**k. */
static void turn(Ptx *p, Reg r, Reg b, Reg b_exponent) {
  Reg k = ptx_new(p, REG_R), s = ptx_new(p, REG_FD), q = ptx_new(p, REG_FD);
  Reg under = ptx_new(p, REG_P), e = exponent(p, r);
  ptx_line(p, "sub.s32 %s, %s, %s", k.name, e.name, b_exponent.name);
  ptx_line(p, "sub.s32 %s, %s, 50", k.name, k.name);
  ptx_line(p, "max.s32 %s, %s, 0", k.name, k.name);
  ptx_line(p, "mov.f64 %s, %s", s.name, b.name);
  scale(p, s, k);
  ptx_line(p, "div.rn.f64 %s, %s, %s", q.name, r.name, s.name);
  ptx_line(p, "cvt.rzi.f64.f64 %s, %s", q.name, q.name);
  ptx_line(p, "neg.f64 %s, %s", q.name, q.name);
  ptx_line(p, "fma.rn.f64 %s, %s, %s, %s", r.name, q.name, s.name, r.name);
  ptx_line(p, "setp.lt.f64 %s, %s, 0d0000000000000000", under.name, r.name); /* q was rounded up */
  ptx_line(p, "@%s add.rn.f64 %s, %s, %s", under.name, r.name, r.name, s.name);
}

/* NaN where a is infinite, b is 0, or either is NaN; zeros keep the sign of a. */
static Reg remainder_of(Ptx *p, Reg a, Reg b) {
  Reg r = ptx_new(p, REG_FD), d = ptx_new(p, REG_FD), out = ptx_new(p, REG_FD);
  Reg more = ptx_new(p, REG_P), has = ptx_new(p, REG_P), other = ptx_new(p, REG_P);
  int n = p->labels++;
  ptx_line(p, "abs.f64 %s, %s", r.name, a.name);
  ptx_line(p, "abs.f64 %s, %s", d.name, b.name);
  ptx_line(p, "setp.lt.f64 %s, %s, 0d7FF0000000000000", has.name, r.name);
  ptx_line(p, "setp.gt.f64 %s, %s, 0d0000000000000000", other.name, d.name);
  ptx_line(p, "and.pred %s, %s, %s", has.name, has.name, other.name);
  ptx_line(p, "selp.f64 %s, %s, 0d7FFFFFFFFFFFFFFF, %s", r.name, r.name, has.name);
  Reg e = exponent(p, d);
  ptx_label(p, "rest", n);
  ptx_line(p, "setp.ge.f64 %s, %s, %s", more.name, r.name, d.name);
  ptx_line(p, "@!%s bra $less%d", more.name, n);
  turn(p, r, d, e);
  ptx_line(p, "bra $rest%d", n);
  ptx_label(p, "less", n);
  ptx_line(p, "copysign.f64 %s, %s, %s", out.name, a.name, r.name);
  return out;
}

void ptx_remainder(Ptx *p, const Op *op) {
  const Type *t = op->results[0].type;
  const Reg *a = ptx_elems_of(p, held_spread(p, op->args[0], t->n));
  const Reg *b = ptx_elems_of(p, held_spread(p, op->args[1], t->n));
  Reg *out = ARENA_ARRAY(p->arena, Reg, t->n);
  for (int i = 0; i < t->n; i++) out[i] = remainder_of(p, a[i], b[i]);
  ptx_set(p, &op->results[0], (Held){.dtype = t->dtype, .n = t->n, .elem = out, .own = true});
}
