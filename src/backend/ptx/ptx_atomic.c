/* ptx_atomic.c: atomic read-modify-write. Without an instruction for it, an atomic is a
 * compare-and-swap loop on the word that contains the element. Atomic f32 additions in global
 * memory flush subnormals, as the hardware does. */
#include <string.h>

#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"

typedef enum Mode { ADD, MIN, MAX, AND, OR, XOR, XCHG, CAS, MODES } Mode;

static Mode mode_of(const Op *op) {
  static const char *const words[] = {"add", "min", "max", "and", "or", "xor", "xchg", "cas"};
  const char *word = op_attr(op, ATTR_mode)->text;
  int i = 0;
  while (i < MODES && strcmp(words[i], word) != 0) i++;
  return (Mode)i;
}

/* The instruction's operation and type; NULL: there is none. */
static const char *native(Ptx *p, Mode mode, DType t) {
  static const char *const words[] = {"add.u32", "min.s32", "max.s32",  "and.b32",
                                      "or.b32",  "xor.b32", "exch.b32", "cas.b32"};
  static const char *const doubles[] = {"add.u64", "min.s64", "max.s64",  "and.b64",
                                        "or.b64",  "xor.b64", "exch.b64", "cas.b64"};
  bool wide = dtype_info[t].bits == 64, is_float = dtype_is_float(t);
  if (ptx_is_packed(t) || dtype_info[t].class == DTYPE_BOOL) {
    if (mode == ADD && t == DTYPE_f16) return "add.noftz.f16";
    if (mode != ADD || t != DTYPE_bf16 || !target_has(p->target, FEATURE_WGMMA)) return NULL;
    return "add.noftz.bf16";
  }
  if (is_float && mode == ADD) return wide ? "add.f64" : "add.f32";
  if (is_float && mode < XCHG) return NULL;
  if (dtype_is_unsigned(t) && mode == MIN) return wide ? "min.u64" : "min.u32";
  if (dtype_is_unsigned(t) && mode == MAX) return wide ? "max.u64" : "max.u32";
  return wide ? doubles[mode] : words[mode];
}

/* ---- one element ---- */
typedef struct AtomicTarget {
  const char *space, *order;
  Reg address;  /* of the element's first byte */
  Reg nibble;   /* 4-bit elements: which half of the byte */
  Reg expected; /* for CAS */
} AtomicTarget;

/* Bits as a register of the type's class, and the reverse. */
static Reg from_bits(Ptx *p, DType t, Reg bits) {
  Held h = {.dtype = t, .n = 1, .word = arena_copy(p->arena, &bits, sizeof bits)};
  return ptx_elems_of(p, &h)[0];
}

static Reg to_bits(Ptx *p, DType t, Reg r) {
  Held h = {.dtype = t, .n = 1, .elem = arena_copy(p->arena, &r, sizeof r)};
  return ptx_words_of(p, &h)[0];
}

/* The new value of the element. */
static Reg combine(Ptx *p, Mode mode, DType t, Reg old, Reg value) {
  static const OpKind kinds[] = {OP_add, OP_minimum, OP_maximum, OP_and, OP_or, OP_xor};
  if (mode >= XCHG) return value;
  if (!ptx_is_small_float(t)) return ptx_apply(p, kinds[mode], t, old, value);
  Held a = {.dtype = t, .n = 1, .elem = &old}, b = {.dtype = t, .n = 1, .elem = &value};
  Reg x = ptx_floats_of(p, &a)[0], y = ptx_floats_of(p, &b)[0];
  Reg f = ptx_apply(p, kinds[mode], DTYPE_f32, x, y);
  Held h = ptx_from_floats(p, t, &f, 1);
  return ptx_elems_of(p, &h)[0];
}

static Reg own_copy(Ptx *p, Reg r) {
  return ptx_let(p, r.class, "%s %s",
                 r.class == REG_F    ? "mov.f32"
                 : r.class == REG_FD ? "mov.f64"
                 : r.class == REG_RD ? "mov.b64"
                 : r.class == REG_H  ? "mov.b16"
                                     : "mov.b32",
                 r.name);
}

/* An element of 32 or 64 bits. */
static Reg swap_whole(Ptx *p, Mode mode, DType t, const AtomicTarget *at, Reg value) {
  bool wide = dtype_info[t].bits == 64;
  const char *bits = wide ? "b64" : "b32";
  Reg seen = ptx_new(p, wide ? REG_RD : REG_R), got = ptx_new(p, seen.class);
  Reg same = ptx_new(p, REG_P), old = ptx_new(p, ptx_class_of(t));
  int n = p->labels++;
  ptx_line(p, "ld.volatile.%s.%s %s, [%s]", at->space, bits, seen.name, at->address.name);
  ptx_label(p, "swap", n);
  ptx_line(p, "mov.%s %s, %s", bits, old.name, seen.name);
  Reg next = ptx_new(p, seen.class), made = combine(p, mode, t, old, value);
  ptx_line(p, "mov.%s %s, %s", bits, next.name, made.name);
  ptx_line(p, "atom%s.%s.cas.%s %s, [%s], %s, %s", at->order, at->space, bits, got.name,
           at->address.name, seen.name, next.name);
  ptx_line(p, "setp.eq.%s %s, %s, %s", bits, same.name, got.name, seen.name);
  ptx_line(p, "mov.%s %s, %s", bits, seen.name, got.name);
  ptx_line(p, "@!%s bra $swap%d", same.name, n);
  return old;
}

/* The word that holds the element, and the element's first bit in it. */
static Reg containing(Ptx *p, const AtomicTarget *at, Reg *first) {
  bool wide = at->address.class == REG_RD;
  Reg word = ptx_new(p, at->address.class), low = at->address;
  *first = ptx_new(p, REG_R);
  ptx_line(p, "and.b%d %s, %s, -4", wide ? 64 : 32, word.name, at->address.name);
  if (wide) {
    low = ptx_new(p, REG_R);
    ptx_line(p, "cvt.u32.u64 %s, %s", low.name, at->address.name);
  }
  ptx_line(p, "and.b32 %s, %s, 3", first->name, low.name);
  ptx_line(p, "shl.b32 %s, %s, 3", first->name, first->name);
  if (at->nibble.name)
    ptx_line(p, "mad.lo.s32 %s, %s, 4, %s", first->name, at->nibble.name, first->name);
  return word;
}

/* The new bits if the expected ones are found; otherwise those that were found. */
static Reg if_expected(Ptx *p, Reg found, Reg expected, Reg bits) {
  Reg same = ptx_new(p, REG_P), out = ptx_new(p, REG_R);
  ptx_line(p, "setp.eq.b32 %s, %s, %s", same.name, found.name, expected.name);
  ptx_line(p, "selp.b32 %s, %s, %s, %s", out.name, bits.name, found.name, same.name);
  return out;
}

/* An element of 16 bits. */
static Reg swap_half(Ptx *p, Mode mode, DType t, const AtomicTarget *at, Reg value) {
  int n = p->labels++;
  Reg seen = ptx_new(p, REG_H), got = ptx_new(p, REG_H), next = ptx_new(p, REG_H);
  Reg part = ptx_new(p, REG_R), same = ptx_new(p, REG_P);
  ptx_line(p, "ld.volatile.%s.b16 %s, [%s]", at->space, seen.name, at->address.name);
  ptx_label(p, "swap", n);
  ptx_line(p, "cvt.u32.u16 %s, %s", part.name, seen.name);
  Reg old = from_bits(p, t, part);
  Reg made = to_bits(p, t, combine(p, mode, t, old, value));
  if (mode == CAS) made = if_expected(p, part, to_bits(p, t, at->expected), made);
  ptx_line(p, "cvt.u16.u32 %s, %s", next.name, made.name);
  ptx_line(p, "atom%s.%s.cas.b16 %s, [%s], %s, %s", at->order, at->space, got.name,
           at->address.name, seen.name, next.name);
  ptx_line(p, "setp.eq.b16 %s, %s, %s", same.name, got.name, seen.name);
  ptx_line(p, "mov.b16 %s, %s", seen.name, got.name);
  ptx_line(p, "@!%s bra $swap%d", same.name, n);
  return own_copy(p, old);
}

/* An element of 4 or 8 bits: there are no operations on so few, so the rest of the word is written
 * as it was, even if it is outside the tensor (it is in the same allocation). */
static Reg swap_part(Ptx *p, Mode mode, DType t, const AtomicTarget *at, Reg value) {
  int width = dtype_memory_bits(t), n = p->labels++;
  Reg first, word = containing(p, at, &first), seen = ptx_new(p, REG_R), got = ptx_new(p, REG_R);
  Reg part = ptx_new(p, REG_R), next = ptx_new(p, REG_R), same = ptx_new(p, REG_P);
  ptx_line(p, "ld.volatile.%s.b32 %s, [%s]", at->space, seen.name, word.name);
  ptx_label(p, "swap", n);
  ptx_line(p, "bfe.u32 %s, %s, %s, %d", part.name, seen.name, first.name, width);
  Reg old = from_bits(p, t, part);
  Reg made = to_bits(p, t, combine(p, mode, t, old, value));
  if (mode == CAS) made = if_expected(p, part, to_bits(p, t, at->expected), made);
  ptx_line(p, "bfi.b32 %s, %s, %s, %s, %d", next.name, made.name, seen.name, first.name, width);
  ptx_line(p, "atom%s.%s.cas.b32 %s, [%s], %s, %s", at->order, at->space, got.name, word.name,
           seen.name, next.name);
  ptx_line(p, "setp.eq.b32 %s, %s, %s", same.name, got.name, seen.name);
  ptx_line(p, "mov.b32 %s, %s", seen.name, got.name);
  ptx_line(p, "@!%s bra $swap%d", same.name, n);
  return own_copy(p, old);
}

static Reg one_atomic(Ptx *p, Mode mode, DType t, const AtomicTarget *at, Reg value, bool wanted) {
  const char *name = native(p, mode, t);
  if (!name)
    return !ptx_is_packed(t)            ? swap_whole(p, mode, t, at, value)
           : dtype_memory_bits(t) == 16 ? swap_half(p, mode, t, at, value)
                                        : swap_part(p, mode, t, at, value);
  if (!wanted && mode < XCHG) {
    ptx_line(p, "red%s.%s.%s [%s], %s", at->order, at->space, name, at->address.name, value.name);
    return (Reg){0};
  }
  return ptx_let(p, value.class, "atom%s.%s.%s [%s], %s%s%s", at->order, at->space, name,
                 at->address.name, mode == CAS ? at->expected.name : "", mode == CAS ? ", " : "",
                 value.name);
}

/* ---- the op ---- */

void ptx_exchange(Ptx *p, const char *space, Reg address, Reg nibble, DType t, Reg value) {
  AtomicTarget at = {.space = space, .order = "", .address = address, .nibble = nibble};
  swap_part(p, XCHG, t, &at, value);
}

static void refuse(Ptx *p, const Op *op, DType t) {
  ptx_fail(p, op,
           arena_printf(p->arena, "`%s` on %s", op_attr(op, ATTR_mode)->text, dtype_info[t].name));
}

/* Element by element; a masked element is skipped, and its old value is 0. */
void ptx_atomic(Ptx *p, const Op *op) {
  Held *h = ptx_get(p, op->args[0]);
  Mode mode = mode_of(op);
  DType t = h->dtype;
  Held *mask = op->nargs > 3 ? held_spread(p, op->args[3], op->results[0].type->n) : NULL;
  bool wanted = p->uses[op->results[0].id] > 0;
  if (dtype_info[t].class == DTYPE_BOOL || (dtype_is_float(t) && mode >= AND && mode <= XOR)) {
    refuse(p, op, t);
    return;
  }
  const Reg *value = ptx_elems_of(p, h), *on = mask ? ptx_elems_of(p, mask) : NULL;
  int n = op->results[0].type->n; /* the expected value is the operand after it (CAS has one
                                   * element) */
  Held out = held_new(p, t, n, false);
  for (int i = 0; i < n; i++) {
    AtomicTarget at = {.space = ptx_space(p, op, op->args[1])};
    if (mode == CAS) at.expected = value[n + i];
    at.order = op_has(op, ATTR_volatile) ? ".acq_rel.gpu" : "";
    at.address = ptx_element_address(p, op, 1, i, &at.nibble);
    int skip = p->labels++;
    if (wanted && mask) ptx_clear(p, out.elem[i]);
    if (mask) ptx_line(p, "@!%s bra $skip%d", on[i].name, skip);
    Reg old = one_atomic(p, mode, t, &at, value[i], wanted);
    if (wanted) {
      Held from = {.dtype = t, .n = 1, .elem = &old},
           to = {.dtype = t, .n = 1, .elem = &out.elem[i]};
      ptx_move_held(p, &to, &from);
    }
    if (mask) ptx_label(p, "skip", skip);
  }
  if (!wanted) /* the old value is not needed */
    for (int i = 0; i < n; i++) ptx_clear(p, out.elem[i]);
  ptx_set(p, &op->results[0], out);
}
