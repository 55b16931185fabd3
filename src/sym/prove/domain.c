/* domain.c: arithmetic on Dom. An end that overflows becomes infinite, and a lattice that overflows
 * is dropped; both only lose precision. */
#include "sym/prove/domain.h"

Dom dom_any(void) {
  return (Dom){.lo = RAT_MINUS_INF, .hi = RAT_INF, .step = RAT_ONE, .offset = RAT_ZERO};
}

Dom dom_integer(void) {
  Dom d = dom_any();
  d.lattice = true;
  return d;
}

Dom dom_const(Rat v) {
  Dom d = {.lo = v, .hi = v, .lattice = true, .step = RAT_ZERO, .offset = v};
  if (rat_is_int(v)) d.ones = (uint64_t)v.num, d.zeros = ~d.ones;
  return d;
}

Dom dom_range(Rat lo, Rat hi) {
  Dom d = dom_integer();
  d.lo = lo, d.hi = hi;
  dom_reduce(&d);
  return d;
}

bool dom_empty(const Dom *d) { return rat_cmp(d->lo, d->hi) > 0; }

bool dom_is_const(const Dom *d, Rat *v) {
  if (!rat_finite(d->lo) || !rat_eq(d->lo, d->hi)) return false;
  *v = d->lo;
  return true;
}

bool dom_is_integer(const Dom *d) {
  return d->lattice && rat_is_int(d->step) && rat_is_int(d->offset);
}

/* ---- reduction */

static void forget_lattice(Dom *d) { d->lattice = false, d->step = RAT_ONE, d->offset = RAT_ZERO; }

static void set_lattice(Dom *d, Rat step, Rat offset) {
  d->lattice = true;
  d->step = step;
  d->offset = offset;
  if (step.num && !rat_mod(offset, step, &d->offset)) forget_lattice(d);
}

static void tighten_ends(Dom *d) {
  Rat r;
  bool whole = d->lo.den <= 1 && d->hi.den <= 1 && d->offset.den == 1;
  if (whole && rat_is(d->step, 1)) return; /* any integer: whole ends are on it */
  if (d->step.num == 0) {
    if (rat_cmp(d->lo, d->offset) < 0) d->lo = d->offset;
    if (rat_cmp(d->hi, d->offset) > 0) d->hi = d->offset;
    return;
  }
  if (rat_finite(d->lo) && rat_sub(d->offset, d->lo, &r) && rat_mod(r, d->step, &r))
    rat_add(d->lo, r, &d->lo);
  if (rat_finite(d->hi) && rat_sub(d->hi, d->offset, &r) && rat_mod(r, d->step, &r))
    rat_sub(d->hi, r, &d->hi);
}

/* Bits above the highest one in which lo and hi differ are known. */
static void bits_from_interval(Dom *d) {
  if (!rat_finite(d->lo) || !rat_finite(d->hi) || (d->lo.num < 0) != (d->hi.num < 0)) return;
  uint64_t differ = (uint64_t)d->lo.num ^ (uint64_t)d->hi.num, low = 0;
  while (differ) low = low << 1 | 1, differ >>= 1;
  d->ones |= (uint64_t)d->lo.num & ~low;
  d->zeros |= ~(uint64_t)d->lo.num & ~low;
}

static void bits_from_lattice(Dom *d) {
  uint64_t low = (uint64_t)d->step.num & (~(uint64_t)d->step.num + 1); /* largest power of two */
  if (!low) return;
  d->ones |= (uint64_t)d->offset.num & (low - 1);
  d->zeros |= ~(uint64_t)d->offset.num & (low - 1);
}

static void interval_from_bits(Dom *d) {
  if (!(d->zeros >> 63)) return;
  Rat lo = rat_int((int64_t)d->ones), hi = rat_int((int64_t)~d->zeros);
  if (rat_cmp(d->lo, lo) < 0) d->lo = lo;
  if (rat_cmp(d->hi, hi) > 0) d->hi = hi;
}

/* Combines two lattices: by the Chinese remainder theorem while that stays small, otherwise the
 * finer one wins. */
static void meet_lattice(Dom *d, Rat step, Rat offset) {
  if (!d->lattice || rat_eq(d->step, step)) {
    if (!d->lattice) set_lattice(d, step, offset);
    return;
  }
  if (!d->step.num) return;
  if (!step.num) {
    set_lattice(d, step, offset);
    return;
  }
  Dom fine = *d;
  if (rat_cmp(step, d->step) > 0)
    set_lattice(d, step, offset), step = fine.step, offset = fine.offset;
  Rat ratio, x = d->offset, r;
  if (!rat_div(d->step, step, &ratio) || ratio.den > 4096) return;
  /* Membership in the other lattice repeats every den steps of x, x + D, x + 2D, ... */
  for (int64_t i = 0; i < ratio.den; i++) {
    if (!rat_sub(x, offset, &r) || !rat_mod(r, step, &r)) return;
    Rat wide;
    if (r.num == 0) {
      if (rat_mul(d->step, rat_int(ratio.den), &wide)) set_lattice(d, wide, x);
      return;
    }
    if (!rat_add(x, d->step, &x)) return;
  }
  d->lo = RAT_INF, d->hi = RAT_MINUS_INF; /* the lattices do not meet */
}

static void lattice_from_bits(Dom *d) {
  uint64_t known = d->zeros | d->ones, mask = 0;
  while (mask < (1ull << 61) && (known & (mask + 1))) mask = mask << 1 | 1;
  if (mask) meet_lattice(d, rat_int((int64_t)mask + 1), rat_int((int64_t)(d->ones & mask)));
}

void dom_reduce(Dom *d) {
  if (d->lattice) tighten_ends(d);
  if (dom_empty(d)) return;
  if (dom_is_integer(d)) {
    bits_from_interval(d);
    bits_from_lattice(d);
    interval_from_bits(d);
    lattice_from_bits(d);
    if (!dom_empty(d)) tighten_ends(d);
  }
  Rat v;
  if (dom_is_const(d, &v)) {
    if (d->lattice && d->step.num == 0 && !rat_eq(d->offset, v))
      d->lo = RAT_INF, d->hi = RAT_MINUS_INF;
    else *d = dom_const(v);
  }
}

/* ---- lattice of sets of values */

Dom dom_meet(Dom a, Dom b) {
  if (rat_cmp(b.lo, a.lo) > 0) a.lo = b.lo;
  if (rat_cmp(b.hi, a.hi) < 0) a.hi = b.hi;
  if (b.lattice) meet_lattice(&a, b.step, b.offset);
  a.zeros |= b.zeros;
  a.ones |= b.ones;
  dom_reduce(&a);
  return a;
}

Dom dom_join(Dom a, Dom b) {
  if (dom_empty(&a)) return b;
  if (dom_empty(&b)) return a;
  Dom d = dom_any();
  Rat step, gap;
  d.lo = rat_cmp(a.lo, b.lo) < 0 ? a.lo : b.lo;
  d.hi = rat_cmp(a.hi, b.hi) > 0 ? a.hi : b.hi;
  if (a.lattice && b.lattice && rat_sub(a.offset, b.offset, &gap) &&
      rat_gcd(a.step, b.step, &step) && rat_gcd(step, gap, &step))
    set_lattice(&d, step, a.offset);
  d.zeros = a.zeros & b.zeros;
  d.ones = a.ones & b.ones;
  dom_reduce(&d);
  return d;
}

/* ---- arithmetic */

static Rat end_add(Rat a, Rat b, Rat otherwise) {
  Rat r;
  if (!rat_finite(a)) return a;
  if (!rat_finite(b)) return b;
  return rat_add(a, b, &r) ? r : otherwise;
}

Dom dom_add(Dom a, Dom b) {
  Dom d = dom_any();
  Rat step, offset;
  d.lo = end_add(a.lo, b.lo, RAT_MINUS_INF);
  d.hi = end_add(a.hi, b.hi, RAT_INF);
  if (a.lattice && b.lattice && rat_gcd(a.step, b.step, &step) &&
      rat_add(a.offset, b.offset, &offset))
    set_lattice(&d, step, offset);
  if (dom_is_integer(&a) && dom_is_integer(&b) && !(~a.zeros & ~b.zeros)) { /* no carries */
    d.ones = a.ones | b.ones;
    d.zeros = a.zeros & b.zeros;
  }
  dom_reduce(&d);
  return d;
}

static Rat end_mul(Rat a, Rat b, bool up) {
  Rat r;
  if (!a.num || !b.num) return RAT_ZERO;
  if (!rat_finite(a) || !rat_finite(b)) return (a.num < 0) == (b.num < 0) ? RAT_INF : RAT_MINUS_INF;
  if (rat_mul(a, b, &r)) return r;
  return up ? RAT_INF : RAT_MINUS_INF;
}

Dom dom_mul(Dom a, Dom b) {
  Dom d = dom_any();
  Rat x[4] = {a.lo, a.lo, a.hi, a.hi}, y[4] = {b.lo, b.hi, b.lo, b.hi};
  d.lo = RAT_INF, d.hi = RAT_MINUS_INF;
  for (int i = 0; i < 4; i++) {
    Rat lo = end_mul(x[i], y[i], false), hi = end_mul(x[i], y[i], true);
    if (rat_cmp(lo, d.lo) < 0) d.lo = lo;
    if (rat_cmp(hi, d.hi) > 0) d.hi = hi;
  }
  /* (p + s*i)(q + t*j) = p*q + p*t*j + q*s*i + s*t*i*j */
  Rat pq, pt, qs, st;
  if (a.lattice && b.lattice && rat_mul(a.offset, b.offset, &pq) &&
      rat_mul(a.offset, b.step, &pt) && rat_mul(b.offset, a.step, &qs) &&
      rat_mul(a.step, b.step, &st) && rat_gcd(pt, qs, &pt) && rat_gcd(pt, st, &st))
    set_lattice(&d, st, pq);
  dom_reduce(&d);
  return d;
}

Dom dom_scale(Dom a, Rat c) {
  if (rat_is(c, 1)) return a;
  Dom d = dom_any();
  Rat step, offset;
  d.lo = end_mul(c.num < 0 ? a.hi : a.lo, c, false);
  d.hi = end_mul(c.num < 0 ? a.lo : a.hi, c, true);
  Rat size = c.num < 0 ? rat_neg(c) : c;
  if (a.lattice && rat_mul(a.step, size, &step) && rat_mul(a.offset, c, &offset))
    set_lattice(&d, step, offset);
  if (dom_is_integer(&a) && rat_is_int(c) && c.num > 0 && !(c.num & (c.num - 1)) &&
      rat_finite(d.lo) && rat_finite(d.hi)) {
    d.ones = a.ones * (uint64_t)c.num;
    d.zeros = ~(~a.zeros * (uint64_t)c.num);
  }
  dom_reduce(&d);
  return d;
}

Dom dom_inverse(Dom a) {
  Dom d = dom_any();
  if (a.lo.num > 0 || a.hi.num < 0) {
    Rat one = RAT_ONE;
    d.lo = !rat_finite(a.hi) ? RAT_ZERO : RAT_MINUS_INF,
    d.hi = !rat_finite(a.lo) ? RAT_ZERO : RAT_INF;
    if (rat_finite(a.hi) && !rat_div(one, a.hi, &d.lo)) d.lo = RAT_MINUS_INF;
    if (rat_finite(a.lo) && !rat_div(one, a.lo, &d.hi)) d.hi = RAT_INF;
  } else if (a.lo.num == 0) { /* only the positive values have one */
    d.lo = RAT_ZERO;
  }
  return d;
}

static Rat end_floor(Rat a) { return rat_finite(a) ? rat_int(rat_floor(a)) : a; }

Dom dom_floor(Dom a) {
  if (dom_is_integer(&a)) return a;
  Dom d = dom_range(end_floor(a.lo), end_floor(a.hi));
  if (a.lattice && rat_is_int(a.step) && a.step.num) { /* only the offset is a fraction */
    set_lattice(&d, a.step, rat_int(rat_floor(a.offset)));
    dom_reduce(&d);
  }
  return d;
}

Dom dom_ceil(Dom a) { return dom_scale(dom_floor(dom_scale(a, rat_int(-1))), rat_int(-1)); }

Dom dom_mod(Dom a, Dom m) {
  Rat mv, one = RAT_ONE, step, q;
  Dom d = dom_any();
  if (m.lo.num > 0) {
    Rat top = m.hi;
    if (dom_is_integer(&a) && dom_is_integer(&m) && rat_finite(top)) rat_sub(top, one, &top);
    d.lo = RAT_ZERO, d.hi = top;
    if (a.lo.num >= 0 && rat_cmp(a.hi, d.hi) < 0) d.hi = a.hi; /* Mod(a, m) <= a */
  } else if (m.hi.num < 0) {
    d.lo = m.lo, d.hi = RAT_ZERO;
  }
  if (a.lattice && m.lattice && rat_gcd(a.step, m.step, &step) && rat_gcd(step, m.offset, &step))
    set_lattice(&d, step, a.offset);
  if (dom_is_const(&m, &mv) && mv.num > 0) {
    Rat qlo, qhi;
    if (rat_finite(a.lo) && rat_finite(a.hi) && rat_div(a.lo, mv, &qlo) &&
        rat_div(a.hi, mv, &qhi) && rat_floor(qlo) == rat_floor(qhi) &&
        rat_mul(mv, rat_int(-rat_floor(qlo)), &q))
      return dom_add(a, dom_const(q));
    if (dom_is_integer(&a) && rat_is_int(mv) && !(mv.num & (mv.num - 1))) {
      d.ones = a.ones & (uint64_t)(mv.num - 1);
      d.zeros = a.zeros | ~(uint64_t)(mv.num - 1);
    }
  }
  dom_reduce(&d);
  return d;
}

Dom dom_min(Dom a, Dom b) {
  Dom d = dom_join(a, b);
  if (rat_cmp(a.hi, d.hi) < 0) d.hi = a.hi;
  if (rat_cmp(b.hi, d.hi) < 0) d.hi = b.hi;
  dom_reduce(&d);
  return d;
}

Dom dom_max(Dom a, Dom b) {
  Dom d = dom_join(a, b);
  if (rat_cmp(a.lo, d.lo) > 0) d.lo = a.lo;
  if (rat_cmp(b.lo, d.lo) > 0) d.lo = b.lo;
  dom_reduce(&d);
  return d;
}

Dom dom_xor(Dom a, Dom b) {
  Dom d = dom_integer();
  if (dom_is_integer(&a) && dom_is_integer(&b)) {
    d.ones = (a.ones & b.zeros) | (a.zeros & b.ones);
    d.zeros = (a.zeros & b.zeros) | (a.ones & b.ones);
  }
  dom_reduce(&d);
  return d;
}
