/* ptx_address.c: addresses of accesses, computing as few as possible inside loops.
 *
 *     %o = expr a + b      a from outside the loop     address(a) there, add scaled(b) in the loop
 *                          a is another access's       its address, add scaled(b)
 *
 * An address is kept as long as its region is open. Sums are split only where no bit can be lost:
 * 32-bit offsets to global memory may have wrapped around. */
#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"

bool ptx_is_shared(const Ptx *p, const Value *memory) {
  return memory->type->space == p->k->cx->shared_space;
}

static bool is_known(const Ptx *p, const Value *memory, const Value *offset, int scale, Reg *out) {
  for (int i = p->addresses.n - 1; i >= 0; i--) {
    const Address *a = &p->addresses.at[i];
    if (a->memory != memory || a->offset != offset || a->scale != scale) continue;
    *out = a->reg;
    return true;
  }
  return false;
}

static Reg remember(Ptx *p, Address a) { return vec_push(p->arena, &p->addresses, a), a.reg; }

/* Bytes per element, or 0 if an element is smaller than a byte. */
static int size_of(const Value *memory) { return dtype_memory_bits(memory->type->dtype) / 8; }

/* ---- from nothing ---- */

/* 4-bit elements are addressed by the byte that contains them. */
static Reg byte_offset(Ptx *p, const Value *memory, Reg offset) {
  if (size_of(memory)) return offset;
  return ptx_let(p, offset.class, "shr.s%d %s, 1", offset.class == REG_RD ? 64 : 32, offset.name);
}

static Reg global_address(Ptx *p, const Value *memory, Reg offset, int size) {
  Reg base = ptx_get(p, memory)->elem[0], to = ptx_new(p, REG_RD);
  const char *how = offset.class == REG_RD ? "mad.lo.s64" : "mad.wide.s32";
  ptx_line(p, "%s %s, %s, %d, %s", how, to.name, offset.name, size, base.name);
  return to;
}

static Reg low_word(Ptx *p, Reg offset) {
  if (offset.class != REG_RD) return offset;
  return ptx_let(p, REG_R, "cvt.u32.u64 %s", offset.name);
}

static Reg shared_address(Ptx *p, Reg offset, int size) {
  Reg word = low_word(p, offset), to = ptx_new(p, REG_R);
  ptx_line(p, "mad.lo.s32 %s, %s, %d, %s", to.name, word.name, size, p->shared.name);
  return to;
}

Reg ptx_address_of(Ptx *p, const Value *memory, Reg offset, int size) {
  return ptx_is_shared(p, memory) ? shared_address(p, offset, size)
                                  : global_address(p, memory, offset, size);
}

/* ---- from another address ---- */

/* `offset` is the sum of two values, and its byte offset is the sum of theirs. */
static bool is_sum(const Ptx *p, const Value *memory, const Value *offset) {
  const Op *op = offset->def;
  if (!op || op->kind != OP_expr || op->nargs != 2 || !size_of(memory)) return false;
  if (!ptx_is_shared(p, memory) && ptx_class_of(offset->type->dtype) != REG_RD) return false;
  const Sym *sum = op_attr(op, ATTR_expr)->sym, *arg[2], *coeff[2], *rest;
  for (int i = 0; i < 2; i++) arg[i] = ir_numbered_symbol(p->k->cx, "$APPLY_EXPR_ARG_", i, false);
  const Sym *one = sym_int(p->sym, 1), *zero = sym_int(p->sym, 0);
  return sym_linear(p->sym, sum, arg, 2, coeff, &rest) && coeff[0] == one && coeff[1] == one &&
         rest == zero;
}

/* The offset in bytes, as wide as an address of the memory. */
static Reg scaled(Ptx *p, const Value *memory, const Value *offset) {
  bool shared = ptx_is_shared(p, memory);
  int size = size_of(memory), scale = shared ? -size : size;
  Reg r = ptx_elems_of(p, ptx_get(p, offset))[0], to = {0};
  if (is_known(p, NULL, offset, scale, &to)) return to;
  if (shared) r = low_word(p, r);
  to = ptx_new(p, shared ? REG_R : REG_RD);
  const char *how = shared ? "mul.lo.s32" : r.class == REG_RD ? "mul.lo.s64" : "mul.wide.s32";
  ptx_line(p, "%s %s, %s, %d", how, to.name, r.name, size);
  return remember(p, (Address){.offset = offset, .scale = scale, .reg = to});
}

static bool from_another(Ptx *p, const Value *memory, const Value *offset, Reg *out) {
  Reg from;
  if (!is_sum(p, memory, offset)) return false;
  for (int i = 0; i < 2; i++) {
    if (!is_known(p, memory, offset->def->args[i], 0, &from)) continue;
    Reg by = scaled(p, memory, offset->def->args[1 - i]), to = ptx_new(p, from.class);
    ptx_line(p, "add.s%d %s, %s, %s", from.class == REG_RD ? 64 : 32, to.name, from.name, by.name);
    *out = to;
    return true;
  }
  return false;
}

Reg ptx_address(Ptx *p, const Value *memory, const Value *offset) {
  Reg to;
  if (is_known(p, memory, offset, 0, &to)) return to;
  if (!from_another(p, memory, offset, &to)) {
    Reg from = byte_offset(p, memory, ptx_elems_of(p, ptx_get(p, offset))[0]);
    to = ptx_address_of(p, memory, from, size_of(memory) ? size_of(memory) : 1);
  }
  return remember(p, (Address){memory, offset, to, 0});
}

/* ---- in units of 16 bytes ---- */

enum { UNIT_BYTES = 16, IN_UNITS = INT32_MAX }; /* the second: a scale of Address */

/* The offset to which `offset` adds whole units, and these in bytes. */
static const Value *before_sum(const Ptx *p, const Value *memory, const Value *offset,
                               int64_t *bytes) {
  const Op *op = offset->def;
  if (!op || op->kind != OP_expr || op->nargs != 1 || !size_of(memory)) return offset;
  const Sym *arg = ir_numbered_symbol(p->k->cx, "$APPLY_EXPR_ARG_", 0, false), *coeff, *rest;
  int64_t elements;
  if (!sym_linear(p->sym, op_attr(op, ATTR_expr)->sym, &arg, 1, &coeff, &rest) ||
      coeff != sym_int(p->sym, 1) || !sym_is_int(rest, &elements) ||
      elements * size_of(memory) % UNIT_BYTES || op->args[0]->type != offset->type)
    return offset;
  *bytes += elements * size_of(memory);
  return op->args[0];
}

bool ptx_can_address(Ptx *p, const Value *memory, const Value *offset) {
  int64_t added = 0;
  return ptx_get(p, before_sum(p, memory, offset, &added)) != NULL;
}

Reg ptx_address_unit(Ptx *p, const Value *memory, const Value *offset, int64_t *added) {
  Reg to;
  const Value *from = before_sum(p, memory, offset, added);
  if (is_known(p, memory, from, IN_UNITS, &to)) return to;
  /* Shared memory has 18 bits of an address. In a cluster, the number of the workgroup is in others. */
  to = ptx_let(p, REG_R, p->clustered ? "bfe.u32 %s, 4, 14" : "shr.u32 %s, 4",
               ptx_address(p, memory, from).name);
  return remember(p, (Address){memory, from, to, IN_UNITS});
}

/* ---- before loops ---- */

typedef struct Access {
  const Value *memory, *offset;
} Access;

typedef Vec(Access) Accesses;

/* The operands of an op that are a memory followed by an offset into it. */
static void find_accesses(Ptx *p, const Op *op, Accesses *out) {
  switch (op->kind) {
  case OP_load:
  case OP_store:
  case OP_ldmatrix:
  case OP_stmatrix:
  case OP_atomic:
  case OP_copy_async:
  case OP_wgmma: break;
  default: return;
  }
  for (int i = 0; i + 1 < op->nargs; i++)
    if (op->args[i]->type->kind == TYPE_mem)
      vec_push(p->arena, out, ((Access){op->args[i], op->args[i + 1]}));
}

static bool is_inside(const Value *v, const Region *r) {
  const Region *at = v->def ? v->def->parent : v->owner;
  while (at && at != r) at = at->owner ? at->owner->parent : NULL;
  return at == r;
}

static bool is_accessed(const Accesses *all, const Value *memory, const Value *offset) {
  for (int i = 0; i < all->n; i++)
    if (all->at[i].memory == memory && all->at[i].offset == offset) return true;
  return false;
}

/* For a sum that changes with the loop, the operand that does not. */
static const Value *invariant_part(const Ptx *p, const Accesses *all, Access a, const Region *r) {
  if (!is_sum(p, a.memory, a.offset)) return NULL;
  for (int i = 0; i < 2; i++) {
    const Value *side = a.offset->def->args[i], *other = a.offset->def->args[1 - i];
    if (!is_inside(side, r) && is_inside(other, r) && !is_accessed(all, a.memory, other))
      return side;
  }
  return NULL;
}

void ptx_addresses_before(Ptx *p, const Region *body) {
  Accesses all = {0};
  for (const Op *op = body->first; op; op = op->next) find_accesses(p, op, &all);
  for (int i = 0; i < all.n; i++) {
    Access a = all.at[i];
    const Value *offset = is_inside(a.offset, body) ? invariant_part(p, &all, a, body) : a.offset;
    if (offset && !is_inside(a.memory, body)) ptx_address(p, a.memory, offset);
  }
}
