/* ptx_cast.c: conversions to another dtype; constants.
 *
 * A conversion rounds once. Floats of 16 bits and less are converted through f32, which represents
 * them all, two at a time where the machine can: cvt.rn.f16x2.f32 writes a word. What is wider than
 * f32 is first rounded *to odd*: toward zero, with the last bit set if that was inexact, so that
 * the second rounding gives the same result as rounding once. */
#include <inttypes.h>

#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"

bool ptx_is_small_float(DType t) {
  return dtype_info[t].class == DTYPE_FLOAT && dtype_info[t].bits < 32;
}

bool ptx_is_native_f8(const Ptx *p, DType t) {
  return (t == DTYPE_f8e4m3fn || t == DTYPE_f8e5m2) && target_has(p->target, FEATURE_FP8_OCP);
}

/* ---- as f32 ---- */

static void halves_to_f32(Ptx *p, Held *h, Reg *to) {
  const Reg *elem = ptx_elems_of(p, h);
  for (int i = 0; i < h->n; i++) ptx_line(p, "cvt.f32.f16 %s, %s", to[i].name, elem[i].name);
}

/* The upper half of an f32 is a bf16. */
static void brains_to_f32(Ptx *p, Held *h, Reg *to) {
  const Reg *word = ptx_words_of(p, h);
  for (int i = 0; i < h->n; i++) {
    Reg bits = ptx_new(p, REG_R);
    if (i % 2 == 0) ptx_line(p, "shl.b32 %s, %s, 16", bits.name, word[i / 2].name);
    else ptx_line(p, "and.b32 %s, %s, 0xffff0000", bits.name, word[i / 2].name);
    ptx_line(p, "mov.b32 %s, %s", to[i].name, bits.name);
  }
}

/* What `cvt` calls a pair of 8-bit floats. For sm_89 this is newer than the target itself. */
static const char *f8_pair_name(Ptx *p, DType t) {
  if (!target_has(p->target, FEATURE_WGMMA)) ptx_needs(p, 81);
  return t == DTYPE_f8e4m3fn ? "e4m3x2" : "e5m2x2";
}

/* A pair of 8-bit floats in 16 bits, from bytes in registers of their own. */
static Reg pair_of_bytes(Ptx *p, const Reg *byte, bool both) {
  Reg pair = byte[0], low = ptx_new(p, REG_H), rest = ptx_new(p, REG_H);
  if (both) pair = ptx_let(p, REG_R, "prmt.b32 %s, %s, 0x0040", byte[0].name, byte[1].name);
  ptx_line(p, "mov.b32 {%s, %s}, %s", low.name, rest.name, pair.name);
  return low;
}

/* Converts pairs of 8-bit floats to words of f16, which represents both formats exactly. */
static const Reg *f8_to_halves(Ptx *p, Held *h) {
  bool bytes = !ptx_has_words(p, h);
  const Reg *from = bytes ? ptx_elems_of(p, h) : ptx_words_of(p, h);
  const char *name = f8_pair_name(p, h->dtype);
  Reg *pair = ARENA_ARRAY(p->arena, Reg, (h->n + 1) / 2), low, high = {0};
  for (int i = 0; i < (h->n + 1) / 2; i++) {
    if (bytes) {
      low = pair_of_bytes(p, from + 2 * i, 2 * i + 1 < h->n);
    } else if (i % 2 == 0) {
      low = ptx_new(p, REG_H), high = ptx_new(p, REG_H);
      ptx_line(p, "mov.b32 {%s, %s}, %s", low.name, high.name, from[i / 2].name);
    } else {
      low = high;
    }
    pair[i] = ptx_let(p, REG_R, "cvt.rn.f16x2.%s %s", name, low.name);
  }
  return pair;
}

const Reg *ptx_floats_of(Ptx *p, Held *h) {
  if (h->dtype == DTYPE_f32) return ptx_elems_of(p, h);
  Reg *to = ARENA_ARRAY(p->arena, Reg, h->n);
  for (int i = 0; i < h->n; i++) to[i] = ptx_new(p, REG_F);
  if (h->dtype == DTYPE_f16) halves_to_f32(p, h, to);
  else if (h->dtype == DTYPE_bf16) brains_to_f32(p, h, to);
  else if (ptx_is_native_f8(p, h->dtype)) {
    Held pairs = {.dtype = DTYPE_f16, .n = h->n, .word = f8_to_halves(p, h)};
    halves_to_f32(p, &pairs, to);
  } else {
    for (int i = 0; i < h->n; i++) small_to_f32(p, h->dtype, ptx_elems_of(p, h)[i], to[i]);
  }
  return to;
}

/* ---- from f32 ---- */

static Held to_words16(Ptx *p, DType t, const Reg *f, int n) {
  Held out = held_new(p, t, n, true);
  const char *name = t == DTYPE_f16 ? "f16" : "bf16";
  for (int i = 0; i < n; i += 2) {
    const char *high = i + 1 < n ? f[i + 1].name : "0f00000000";
    ptx_line(p, "cvt.rn.%sx2.f32 %s, %s, %s", name, out.word[i / 2].name, high, f[i].name);
  }
  return out;
}

static Held to_half(Ptx *p, DType t, Reg f) {
  Held out = held_new(p, t, 1, false);
  ptx_line(p, "cvt.rn.%s.f32 %s, %s", t == DTYPE_f16 ? "f16" : "bf16", out.elem[0].name, f.name);
  return out;
}

/* The machine saturates. Beyond the largest value, e4m3 has only NaN; e5m2 has infinity, one code
 * above the largest. */
static Reg beyond(Ptx *p, DType t, Reg f, Reg *code) {
  Reg m = ptx_new(p, REG_F), big = ptx_new(p, REG_P), out = ptx_new(p, REG_F);
  ptx_line(p, "abs.f32 %s, %s", m.name, f.name);
  if (t == DTYPE_f8e4m3fn) { /* 464 is halfway to the next value, which does not exist */
    ptx_line(p, "setp.gt.f32 %s, %s, 0f43E80000", big.name, m.name);
    ptx_line(p, "selp.f32 %s, 0f7FFFFFFF, %s, %s", out.name, f.name, big.name);
    return out;
  }
  *code = ptx_new(p, REG_H);
  ptx_line(p, "setp.ge.f32 %s, %s, 0f47700000", big.name, m.name); /* 61440 */
  ptx_line(p, "selp.b16 %s, 1, 0, %s", code->name, big.name);
  return f;
}

static Reg clipped_pair(Ptx *p, DType t, Reg low, Reg high) {
  return ptx_let(p, REG_H, "cvt.rn.satfinite.%s.f32 %s, %s", f8_pair_name(p, t), high.name,
                 low.name);
}

static Reg f8_pair(Ptx *p, DType t, Reg low, Reg high) {
  Reg code[2] = {{0}}, x = beyond(p, t, low, &code[0]);
  Reg y = high.name == low.name ? x : beyond(p, t, high, &code[1]), out = clipped_pair(p, t, x, y);
  if (code[0].name) ptx_line(p, "add.u16 %s, %s, %s", out.name, out.name, code[0].name);
  if (!code[1].name) return out;
  ptx_line(p, "shl.b16 %s, %s, 8", code[1].name, code[1].name);
  ptx_line(p, "add.u16 %s, %s, %s", out.name, out.name, code[1].name);
  return out;
}

typedef Reg PairFn(Ptx *p, DType t, Reg low, Reg high);

static Held to_f8(Ptx *p, DType t, const Reg *f, int n, PairFn *pair) {
  Held out = held_new(p, t, n, true);
  Reg zero = ptx_new(p, REG_H);
  for (int i = 0; i < n; i += 4) {
    Reg low = pair(p, t, f[i], f[i + 1 < n ? i + 1 : i]), high = zero;
    if (i + 2 < n) high = pair(p, t, f[i + 2], f[i + 3 < n ? i + 3 : i + 2]);
    else ptx_line(p, "mov.b16 %s, 0", zero.name);
    ptx_line(p, "mov.b32 %s, {%s, %s}", out.word[i / 4].name, low.name, high.name);
  }
  return out;
}

Held ptx_from_floats(Ptx *p, DType t, const Reg *f, int n) {
  Held out = {.dtype = t, .n = n, .elem = f};
  if (t == DTYPE_f32) return out;
  if (t == DTYPE_f16 || t == DTYPE_bf16)
    return n == 1 ? to_half(p, t, f[0]) : to_words16(p, t, f, n);
  if (ptx_is_native_f8(p, t)) return to_f8(p, t, f, n, f8_pair);
  Reg *elem = ARENA_ARRAY(p->arena, Reg, n);
  for (int i = 0; i < n; i++) elem[i] = small_from_f32(p, t, f[i]);
  out.elem = elem;
  return out;
}

/* ---- wide sources ---- */

/* An f64, i32 or i64 as f32, rounded to odd. */
static Reg to_odd(Ptx *p, const char *type, Reg from) {
  Reg f = ptx_new(p, REG_F), back = ptx_new(p, from.class), same = ptx_new(p, REG_P);
  Reg bits = ptx_new(p, REG_R), odd = ptx_new(p, REG_R), out = ptx_new(p, REG_F);
  bool is_float = from.class == REG_FD;
  ptx_line(p, "cvt.rz.f32.%s %s, %s", type, f.name, from.name);
  ptx_line(p, "cvt.%s%s.f32 %s, %s", is_float ? "" : "rzi.", type, back.name, f.name);
  ptx_line(p, "setp.%s.%s %s, %s, %s", is_float ? "equ" : "eq", type, same.name, back.name,
           from.name);
  ptx_line(p, "mov.b32 %s, %s", bits.name, f.name);
  ptx_line(p, "or.b32 %s, %s, 1", odd.name, bits.name);
  ptx_line(p, "selp.b32 %s, %s, %s, %s", bits.name, bits.name, odd.name, same.name);
  ptx_line(p, "mov.b32 %s, %s", out.name, bits.name);
  return out;
}

static const char *source_type(DType t) {
  if (t == DTYPE_f64) return "f64";
  if (dtype_is_unsigned(t)) return dtype_info[t].bits == 64 ? "u64" : "u32";
  return dtype_info[t].bits == 64 ? "s64" : "s32";
}

/* Converts an integer or a type wider than f32 to f32; `final`: f32 is the destination type. */
static Reg wide_to_f32(Ptx *p, DType t, Reg r, bool final) {
  Reg f = ptx_new(p, REG_F);
  if (dtype_info[t].class == DTYPE_BOOL) {
    ptx_line(p, "selp.f32 %s, 0f3F800000, 0f00000000, %s", f.name, r.name);
    return f;
  }
  if (!final && dtype_info[t].bits >= 32) return to_odd(p, source_type(t), r);
  ptx_line(p, "cvt.rn.f32.%s %s, %s", source_type(t), f.name, r.name);
  return f;
}

static Reg to_f64(Ptx *p, DType t, Reg r) {
  Reg f = ptx_new(p, REG_FD);
  if (dtype_info[t].class == DTYPE_BOOL)
    ptx_line(p, "selp.f64 %s, 0d3FF0000000000000, 0d0000000000000000, %s", f.name, r.name);
  else ptx_line(p, "cvt.rn.f64.%s %s, %s", source_type(t), f.name, r.name);
  return f;
}

static Held cast_to_float(Ptx *p, Held *from, DType to) {
  bool narrow = ptx_is_small_float(from->dtype) || from->dtype == DTYPE_f32;
  Reg *out = ARENA_ARRAY(p->arena, Reg, from->n);
  if (narrow && to != DTYPE_f64) {
    if (ptx_is_native_f8(p, from->dtype) && to == DTYPE_f16)
      return (Held){.dtype = to, .n = from->n, .word = f8_to_halves(p, from)};
    bool half = to == DTYPE_f16 || to == DTYPE_bf16;
    if (from->dtype == DTYPE_f4e2m1fn && half && from->n % 2 == 0 && ptx_has_words(p, from))
      return ptx_f4_to_words(p, from, to);
    return ptx_from_floats(p, to, ptx_floats_of(p, from), from->n);
  }
  const Reg *elem = narrow ? ptx_floats_of(p, from) : ptx_elems_of(p, from);
  for (int i = 0; i < from->n; i++) {
    if (to != DTYPE_f64) out[i] = wide_to_f32(p, from->dtype, elem[i], to == DTYPE_f32);
    else if (!narrow) out[i] = to_f64(p, from->dtype, elem[i]);
    else {
      out[i] = ptx_new(p, REG_FD);
      ptx_line(p, "cvt.f64.f32 %s, %s", out[i].name, elem[i].name);
    }
  }
  if (to != DTYPE_f64) return ptx_from_floats(p, to, out, from->n);
  return (Held){.dtype = to, .n = from->n, .elem = out};
}

/* ---- integers ---- */

/* Small integers are held in 32 bits, sign-extended if they are signed. */
Reg ptx_wrap_integer(Ptx *p, DType t, Reg r) {
  int bits = dtype_info[t].bits;
  bool is_signed = dtype_info[t].class == DTYPE_INT;
  if ((!is_signed && !dtype_is_unsigned(t)) || bits >= 32) return r;
  return ptx_let(p, REG_R, "bfe.%s32 %s, 0, %d", is_signed ? "s" : "u", r.name, bits);
}

/* Out of range gives the nearest end of the range, NaN gives 0. */
static Reg float_to_int(Ptx *p, bool is_double, DType to, Reg r) {
  bool wide = dtype_info[to].bits == 64;
  const char *from = is_double ? "f64" : "f32";
  Reg i = ptx_let(p, wide ? REG_RD : REG_R, "cvt.rzi.%s.%s %s", source_type(to), from, r.name);
  if (wide || is_double) { /* the instruction gives the least integer for NaN, or the largest if
                            * unsigned */
    Reg number = ptx_let(p, REG_P, "setp.num.%s %s, %s", from, r.name, r.name);
    ptx_line(p, "selp.b%d %s, %s, 0, %s", wide ? 64 : 32, i.name, i.name, number.name);
  }
  if (dtype_info[to].bits >= 32) return i;
  if (dtype_is_unsigned(to)) {
    ptx_line(p, "min.u32 %s, %s, %" PRId64, i.name, i.name, dtype_max_int(to));
    return i;
  }
  ptx_line(p, "max.s32 %s, %s, %" PRId64, i.name, i.name, dtype_min_int(to));
  ptx_line(p, "min.s32 %s, %s, %" PRId64, i.name, i.name, dtype_max_int(to));
  return i;
}

static Reg int_to_int(Ptx *p, DType from, DType to, Reg r) {
  bool was_wide = r.class == REG_RD, wide = dtype_info[to].bits == 64;
  Reg i = ptx_new(p, wide ? REG_RD : REG_R);
  if (dtype_info[from].class == DTYPE_BOOL) {
    ptx_line(p, "selp.b%d %s, 1, 0, %s", wide ? 64 : 32, i.name, r.name);
    return ptx_wrap_integer(p, to, i); /* the 1 of a one-bit integer is its sign */
  }
  if (was_wide == wide) return ptx_wrap_integer(p, to, r);
  const char *how = !wide ? "u32.u64" : dtype_is_unsigned(from) ? "u64.u32" : "s64.s32";
  ptx_line(p, "cvt.%s %s, %s", how, i.name, r.name);
  return ptx_wrap_integer(p, to, i);
}

static Reg to_truth(Ptx *p, DType from, Reg r) {
  Reg t = ptx_new(p, REG_P);
  if (dtype_info[from].class == DTYPE_BOOL) return r;
  if (r.class == REG_F) ptx_line(p, "setp.neu.f32 %s, %s, 0f00000000", t.name, r.name);
  else if (r.class == REG_FD)
    ptx_line(p, "setp.neu.f64 %s, %s, 0d0000000000000000", t.name, r.name);
  else ptx_line(p, "setp.ne.s%d %s, %s, 0", r.class == REG_RD ? 64 : 32, t.name, r.name);
  return t;
}

static Held cast_to_integer(Ptx *p, Held *from, DType to) {
  bool is_float = dtype_is_float(from->dtype), is_double = from->dtype == DTYPE_f64;
  const Reg *elem = is_float && !is_double ? ptx_floats_of(p, from) : ptx_elems_of(p, from);
  Reg *out = ARENA_ARRAY(p->arena, Reg, from->n);
  for (int i = 0; i < from->n; i++)
    out[i] = dtype_info[to].class == DTYPE_BOOL ? to_truth(p, from->dtype, elem[i])
             : is_float                         ? float_to_int(p, is_double, to, elem[i])
                                                : int_to_int(p, from->dtype, to, elem[i]);
  return (Held){.dtype = to, .n = from->n, .elem = out};
}

Reg ptx_truth(Ptx *p, const Value *v) {
  Held *h = ptx_get(p, v);
  return h->dtype == DTYPE_i1 ? ptx_elems_of(p, h)[0] : cast_to_integer(p, h, DTYPE_i1).elem[0];
}

void ptx_cast(Ptx *p, const Op *op) {
  DType to = op->results[0].type->dtype;
  const Value *clipped = ptx_is_native_f8(p, to) ? ptx_clipped(op) : NULL;
  Held *from = ptx_get(p, clipped ? clipped : op->args[0]), out = *from;
  if (clipped) out = to_f8(p, to, ptx_floats_of(p, from), from->n, clipped_pair);
  else if (dtype_is_float(to) && from->dtype != to) out = cast_to_float(p, from, to);
  else if (from->dtype != to) out = cast_to_integer(p, from, to);
  else out.own = false;
  ptx_set(p, &op->results[0], out);
}

/* ---- constants ---- */

static void set_float(Ptx *p, DType t, double v, Reg to) {
  uint64_t bits = dtype_encode(t, v);
  switch (ptx_class_of(t)) {
  case REG_F: ptx_line(p, "mov.f32 %s, 0f%08" PRIX64, to.name, bits); break;
  case REG_FD: ptx_line(p, "mov.f64 %s, 0d%016" PRIX64, to.name, bits); break;
  case REG_H: ptx_line(p, "mov.b16 %s, 0x%04" PRIX64, to.name, bits); break;
  default: ptx_line(p, "mov.b32 %s, %" PRIu64, to.name, bits);
  }
}

static void set_integer(Ptx *p, DType t, int64_t v, Reg to) {
  if (ptx_class_of(t) == REG_P) ptx_line(p, "setp.ne.s32 %s, %d, 0", to.name, v != 0);
  else ptx_line(p, "mov.b%d %s, %" PRId64, to.class == REG_RD ? 64 : 32, to.name, v);
}

/* ptxas keeps it in its place among accesses to memory. */
void ptx_clock(Ptx *p, const Op *op) {
  Held h = held_new(p, DTYPE_i64, 1, false);
  ptx_line(p, "mov.u64 %s, %%clock64", h.elem[0].name);
  ptx_set(p, &op->results[0], h);
}

void ptx_scalar(Ptx *p, const Op *op) {
  const Attr *value = op_attr(op, ATTR_value);
  DType t = op->results[0].type->dtype;
  Held h = held_new(p, t, 1, false);
  int64_t v;
  if (!value->sym && dtype_is_float(t)) set_float(p, t, value->number, h.elem[0]);
  else if (!value->sym) set_integer(p, t, dtype_truncate(t, value->number), h.elem[0]);
  else if (sym_is_int(value->sym, &v) && dtype_is_float(t))
    set_float(p, t, dtype_round_int(t, DTYPE_i64, v), h.elem[0]);
  else if (sym_is_int(value->sym, &v)) set_integer(p, t, dtype_from_int(t, v), h.elem[0]);
  else {
    DType as = dtype_is_float(t) ? DTYPE_index : t;
    Reg r = ptx_expr(p, op, value->sym, as, NULL);
    h = (Held){.dtype = as, .n = 1, .elem = arena_copy(p->arena, &r, sizeof r)};
    if (as != t) h = cast_to_float(p, &h, t);
  }
  ptx_set(p, &op->results[0], h);
}
