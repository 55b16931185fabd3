/* ptx_divide.c: integer division by a constant.
 *
 *     div %x, 7      mul.hi.s32 q, x, 0x92492493; add q, q, x; shr.s32 q, q, 2; + its sign bit
 *
 * ptxas emits about 20 instructions for a 32-bit division, even by a constant, and calls a function
 * for a 64-bit one. Smaller integers are computed in the 32 bits that hold them. */
#include <inttypes.h>

#include "backend/ptx/ptx_divide.h"
#include "backend/ptx/ptx_state.h"

/* 2**(bits + shift) / d, rounded up, with the smallest shift for which the error of the product,
 * times the largest dividend, is below one unit, so that it never changes a quotient. */
Divide divide_by(int64_t d, int bits) {
  uint64_t top = UINT64_C(1) << (bits - 1), by = d < 0 ? -(uint64_t)d : (uint64_t)d;
  uint64_t limit = top + (d < 0), most = limit - 1 - limit % by; /* the critical dividend */
  uint64_t q1 = top / most, r1 = top % most, q2 = top / by, r2 = top % by, error;
  int shift = -1;
  do {
    shift++;
    q1 = 2 * q1 + (2 * r1 >= most), r1 = 2 * r1 >= most ? 2 * r1 - most : 2 * r1;
    q2 = 2 * q2 + (2 * r2 >= by), r2 = 2 * r2 >= by ? 2 * r2 - by : 2 * r2;
    error = by - r2;
  } while (q1 < error || (q1 == error && r1 == 0));
  uint64_t factor = d < 0 ? -(q2 + 1) : q2 + 1;
  bool is_negative = factor >> (bits - 1) & 1;
  if (bits == 32) factor &= UINT32_MAX;
  return (Divide){factor, shift, d > 0 && is_negative ? 1 : d < 0 && !is_negative ? -1 : 0};
}

bool ptx_constant(const Value *v, int64_t *out) {
  while (v->def && v->def->kind == OP_splat) v = v->def->args[0];
  if (!v->def || v->def->kind != OP_scalar) return false;
  const Attr *value = op_attr(v->def, ATTR_value);
  return value && value->sym && sym_is_int(value->sym, out);
}

/* Rounds toward zero. */
static Reg quotient(Ptx *p, Reg x, int64_t d, int bits) {
  Reg q = ptx_new(p, x.class), sign = ptx_new(p, x.class);
  if (d == 1 || d == -1) {
    ptx_line(p, "%s%d %s, %s", d < 0 ? "neg.s" : "mov.b", bits, q.name, x.name);
    return q;
  }
  Divide m = divide_by(d, bits);
  ptx_line(p, "mul.hi.s%d %s, %s, 0x%" PRIX64, bits, q.name, x.name, m.factor);
  if (m.add)
    ptx_line(p, "%s.s%d %s, %s, %s", m.add > 0 ? "add" : "sub", bits, q.name, q.name, x.name);
  if (m.shift) ptx_line(p, "shr.s%d %s, %s, %d", bits, q.name, q.name, m.shift);
  ptx_line(p, "shr.u%d %s, %s, %d", bits, sign.name, q.name, bits - 1);
  ptx_line(p, "add.s%d %s, %s, %s", bits, q.name, q.name, sign.name);
  return q;
}

/* x - q * d */
static Reg rest(Ptx *p, Reg x, Reg q, int64_t d, int bits) {
  Reg r = ptx_let(p, x.class, "mul.lo.s%d %s, %" PRId64, bits, q.name, d);
  ptx_line(p, "sub.s%d %s, %s, %s", bits, r.name, x.name, r.name);
  return r;
}

/* One less where there is a remainder whose sign differs from the divisor's. */
static Reg floored(Ptx *p, Reg x, Reg q, int64_t d, int bits) {
  Reg r = rest(p, x, q, d, bits);
  if (d < 0) ptx_line(p, "neg.s%d %s, %s", bits, r.name, r.name);
  ptx_line(p, "shr.s%d %s, %s, %d", bits, r.name, r.name, bits - 1);
  ptx_line(p, "add.s%d %s, %s, %s", bits, r.name, q.name, r.name);
  return r;
}

bool ptx_divide(Ptx *p, const Op *op) {
  int64_t d;
  if (op->kind != OP_div && op->kind != OP_mod && op->kind != OP_floordiv) return false;
  const Type *t = op->results[0].type;
  DTypeClass class = dtype_info[t->dtype].class;
  if ((class != DTYPE_INT && class != DTYPE_INDEX) || !ptx_constant(op->args[1], &d)) return false;
  int bits = dtype_info[t->dtype].bits == 64 ? 64 : 32;
  if (d == 0 || d == INT64_MIN || (bits == 32 && d != (int32_t)d)) return false;
  const Reg *x = ptx_elems_of(p, held_spread(p, op->args[0], t->n));
  Reg *out = ARENA_ARRAY(p->arena, Reg, t->n);
  for (int i = 0; i < t->n; i++) {
    Reg q = quotient(p, x[i], d, bits);
    if (op->kind == OP_mod) q = rest(p, x[i], q, d, bits);
    if (op->kind == OP_floordiv) q = floored(p, x[i], q, d, bits);
    out[i] = ptx_wrap_integer(p, t->dtype, q);
  }
  ptx_set(p, &op->results[0], (Held){.dtype = t->dtype, .n = t->n, .elem = out, .own = true});
  return true;
}
