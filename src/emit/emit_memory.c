/* emit_memory.c: the offsets of the elements of allocations.
 *
 *     [64, 64] d1/64:1 d0/64:64 xor 0x38>>3    o = 64*y0 + y1
 *                                              o + 8*(xor(Mod(o/8, 8), Mod(o/64, 8)) - Mod(o/8, 8))
 *
 * In this form, two offsets differ by a constant whenever they agree in the flipped bits and in
 * those that control the flip, and then share an address register: rows that are 8 apart, elements
 * of one vector. */
#include "emit/emit.h"
#include "ir/ops/alloc_layout.h"

const Sym *memory_linear_offset(Lower *l, const MemLayout *m, const Sym *const *coords) {
  const Sym *sum = sym_int(l->sym, 0);
  for (int d = 0; d < m->dims; d++) {
    int weight = 1, left = m->digits.n;
    while (left > 0 && m->digits.at[left - 1].dim != d) left--; /* the outermost digit of the dim */
    for (int i = 0; i < left; i++) {
      Digit g = m->digits.at[i];
      if (g.dim != d) continue;
      const Sym *e = sym_floordiv(l->sym, coords[d], sym_int(l->sym, weight));
      if (i + 1 < left) e = sym_mod(l->sym, e, sym_int(l->sym, g.radix));
      sum = sym_add(l->sym, sum, sym_mul(l->sym, e, sym_int(l->sym, g.stride)));
      weight *= g.radix;
    }
  }
  return sum;
}

/* Bits [from, from + n) of e as a number. */
static const Sym *bits_of(Lower *l, const Sym *e, int from, int n) {
  e = sym_floordiv(l->sym, e, sym_int(l->sym, INT64_C(1) << from));
  return sym_mod(l->sym, e, sym_int(l->sym, INT64_C(1) << n));
}

/* A slot that does not exist is a mistake, which the evaluator reports; here it is another slot. */
static const Sym *slot_of(Lower *l, const Op *op, const Value *memory) {
  const Attr *slot = op_attr(op, ATTR_slot);
  const Sym *slots = sym_int(l->sym, alloc_slots(memory_root(memory)->def));
  if (!slot) return sym_int(l->sym, 0);
  return sym_mod(l->sym, distribute_expr(l->d, op, slot->sym), slots);
}

void memory_add_slot(Lower *l, const Value *memory, const Op *op, const Sym **coords) {
  const Op *alloc = memory_root(memory)->def;
  int rank = memory->type->rank;
  if (!alloc || alloc_slots(alloc) < 2) return;
  for (int i = rank; i > 0; i--) coords[i] = coords[i - 1];
  coords[0] = slot_of(l, op, memory);
}

const Sym *memory_swizzled(Lower *l, const MemLayout *m, const Sym *plain) {
  const Sym *out = plain;
  unsigned mask = m->swizzle.mask;
  for (int from = 0, n; mask >> from; from += n) {
    for (n = 1; (mask >> from & 1) && (mask >> (from + n) & 1); n++) continue;
    if (!(mask >> from & 1)) continue;
    const Sym *flipped = bits_of(l, plain, from, n);
    const Sym *by = bits_of(l, plain, from + m->swizzle.shift, n);
    const Sym *change = sym_sub(l->sym, sym_xor(l->sym, flipped, by), flipped);
    out = sym_add(l->sym, out, sym_mul(l->sym, change, sym_int(l->sym, INT64_C(1) << from)));
  }
  return out;
}

/* The slots of a ring do not affect the bits that a swizzle reads: the slot is added afterwards. */
static bool is_slot_whole(const MemLayout *m) {
  Digit last = m->digits.at[m->digits.n - 1];
  int64_t period = 1;
  while (period <= (int64_t)m->swizzle.mask << m->swizzle.shift) period *= 2;
  return last.dim == 0 && last.radix >= m->extent[0] && last.stride % period == 0;
}

const Sym *memory_offset(Lower *l, const MemLayout *m, const Value *memory, const Op *op,
                         const Sym *const *coords) {
  const Sym *all[IR_MAX_RANK + 1];
  int rank = memory->type->rank, slot = m->dims - rank;
  for (int i = 0; i < rank; i++) all[slot + i] = coords[i];
  if (!slot) return memory_swizzled(l, m, memory_linear_offset(l, m, all));
  all[0] = slot_of(l, op, memory);
  if (!is_slot_whole(m)) return memory_swizzled(l, m, memory_linear_offset(l, m, all));
  const Sym *stride = sym_int(l->sym, m->digits.at[m->digits.n - 1].stride);
  const Sym *before = sym_mul(l->sym, all[0], stride);
  all[0] = sym_int(l->sym, 0);
  return sym_add(l->sym, before, memory_swizzled(l, m, memory_linear_offset(l, m, all)));
}

bool memory_layout(const Value *memory, MemLayout *out) {
  const Op *alloc = memory->def;
  return alloc && alloc->kind == OP_alloc && alloc_layout(alloc, out);
}

bool memory_slot_layout(Lower *l, const Value *memory, const Op *op, MemLayout *out,
                        const Sym **before) {
  MemLayout ring;
  *before = sym_int(l->sym, 0);
  if (!memory_layout(memory, &ring) || !alloc_slot_layout(memory->def, out)) return false;
  if (alloc_slots(memory->def) < 2) return true;
  const Sym *slot = sym_int(l->sym, ring.digits.at[ring.digits.n - 1].stride);
  *before = sym_mul(l->sym, slot_of(l, op, memory), slot);
  return true;
}
