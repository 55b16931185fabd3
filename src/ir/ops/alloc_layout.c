/* alloc_layout.c: see alloc_layout.h. */
#include "ir/ops/alloc_layout.h"

#include "ir/dtype.h"

enum { ALIGN = 16, ALIGN_BANKS = 128, LONGEST_ATOM = 1024, MOST_ELEMENTS = 1 << 24 };

int alloc_slots(const Op *alloc) {
  const Attr *ring = op_attr(alloc, ATTR_ring);
  return ring ? (int)ring->integer : 1;
}

bool alloc_slot_layout(const Op *alloc, MemLayout *out) {
  const Type *t = alloc->results[0].type;
  const Attr *physical = op_attr(alloc, ATTR_physical), *memory = op_attr(alloc, ATTR_memory);
  int extent[LAYOUT_DIMS];
  int64_t n, all = 1;
  if (memory) return *out = *memory->memory, true;
  for (int i = 0; i < t->rank; i++) {
    const Sym *e = physical ? physical->exprs[i] : t->dims[i];
    if (!sym_is_int(e, &n) || n < 1 || n > MOST_ELEMENTS || (all *= n) > MOST_ELEMENTS)
      return false;
    extent[i] = (int)n;
  }
  *out = mem_rows(t->rank, extent, dtype_memory_bits(t->dtype), 0);
  return true;
}

/* The period of a swizzle: the bits it flips depend on bits below that one. */
static int64_t swizzle_bytes(const MemLayout *m) {
  int64_t period = 1;
  while (period <= (int64_t)m->swizzle.mask << m->swizzle.shift) period *= 2;
  return period * m->bits / 8;
}

int64_t alloc_end(const Kernel *k) {
  int64_t end = 0;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (op->kind != OP_alloc || alloc_bytes(op) < 0) continue;
    int64_t own = alloc_base(op, end) + alloc_bytes(op);
    if (own > end) end = own;
  }
  return end;
}

int64_t alloc_bytes_beside(const Kernel *k, const Op *but) {
  int64_t sum = 0;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_alloc && op != but && alloc_bytes(op) > 0) sum += alloc_bytes(op);
  return sum;
}

int alloc_align(const Op *alloc) {
  MemLayout m;
  if (!op_has(alloc, ATTR_memory) || !alloc_slot_layout(alloc, &m)) return ALIGN;
  int64_t atom = m.swizzle.mask ? swizzle_bytes(&m) : 0;
  return atom > ALIGN_BANKS && atom <= LONGEST_ATOM ? (int)atom : ALIGN_BANKS;
}

bool alloc_layout(const Op *alloc, MemLayout *out) {
  int slots = alloc_slots(alloc);
  if (!alloc_slot_layout(alloc, out)) return false;
  if (slots > 1) *out = mem_ring(out, slots, alloc_align(alloc));
  return true;
}

const Sym *alloc_extent(const Kernel *k, const Op *alloc, int i) {
  const Attr *physical = op_attr(alloc, ATTR_physical), *memory = op_attr(alloc, ATTR_memory);
  if (physical) return physical->exprs[i];
  return memory ? sym_int(k->cx->sym, memory->memory->extent[i]) : NULL;
}

int64_t alloc_bytes(const Op *alloc) {
  const Attr *physical = op_attr(alloc, ATTR_physical);
  MemLayout m;
  int64_t n;
  if (alloc_layout(alloc, &m)) return mem_bytes(&m);
  for (int i = 0; physical && i < physical->n; i++)
    if (sym_is_int(physical->exprs[i], &n) && n == 0) return 0;
  return -1;
}

int64_t alloc_base(const Op *alloc, int64_t end) {
  const Attr *base = op_attr(alloc, ATTR_base);
  int64_t align = alloc_align(alloc);
  return base ? base->integer : (end + align - 1) / align * align;
}

/* ---- mistakes ---- */

static const char *memory_mistake(const Op *alloc, const Type *t, const MemLayout *m) {
  const Attr *physical = op_attr(alloc, ATTR_physical);
  int64_t n, elements = 1;
  if (m->dims != t->rank) return "`memory` has a different rank than its type";
  if (m->bits != dtype_memory_bits(t->dtype))
    return "`memory` has a different element size than its type";
  if (!mem_is_valid(m)) return "`memory` does not cover all elements, or its xor is not invertible";
  for (int i = 0; i < m->dims; i++) {
    const Sym *e = physical ? physical->exprs[i] : t->dims[i];
    if (m->extent[i] < 1 || (elements *= m->extent[i]) > MOST_ELEMENTS)
      return "`memory` is too large";
    if (sym_is_int(e, &n) && n != m->extent[i])
      return "`memory` has different extents than the allocation";
  }
  if (mem_size(m) > MOST_ELEMENTS) return "`memory` is too large";
  Arena *scratch = arena_new();
  bool apart = mem_is_injective(scratch, m);
  arena_free(scratch);
  return apart ? NULL : "`memory` maps two elements to the same address";
}

const char *alloc_layout_mistake(const Op *alloc, const Type *type) {
  const Attr *memory = op_attr(alloc, ATTR_memory), *ring = op_attr(alloc, ATTR_ring);
  if (ring && (ring->integer < 1 || ring->integer > 64)) return "a ring must have 1 to 64 slots";
  if (ring && type->rank == LAYOUT_DIMS) return "a ring has too many dims";
  return memory ? memory_mistake(alloc, type, memory->memory) : NULL;
}

bool alloc_overlaps(const Op *a, const Op *b) {
  if (!a || !b) return false;
  if (a == b) return true;
  const Attr *p = op_attr(a, ATTR_base), *q = op_attr(b, ATTR_base);
  if (!p || !q) return false;
  int64_t m = alloc_bytes(a), n = alloc_bytes(b);
  if (m < 0 || n < 0) return true;
  return p->integer < q->integer + n && q->integer < p->integer + m;
}
