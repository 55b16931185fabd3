/* amd_address.c: addresses: 32-bit offsets where they are known to suffice, and buffers.
 *
 * An instruction adds a scalar base, an unsigned 32-bit offset of the lane and an immediate. Where
 * LLVM cannot see that the offset is not negative, it computes 64-bit addresses instead, so the
 * offset is proved here and extended with zeros. */
#include <inttypes.h>
#include <string.h>

#include "backend/amd/amd_state.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"

/* ---- what is known about an offset ---- */

/* Whether a loop between the definition of the operand and the op that uses it has a counter of the
 * same name as one that the operand's expression mentions: it would be taken for the other one. */
static bool is_hidden(Llvm *p, const Op *use, const Op *def, const Sym *e) {
  for (const Op *outer = use->parent->owner; outer && outer != def->parent->owner;
       outer = outer->parent->owner) {
    if (outer->kind != OP_for) continue;
    if (sym_contains(e, ir_loop_counter(p->k, op_attr(outer, ATTR_axis)->sym))) return true;
  }
  return false;
}

/* The expression of an operand, if its symbols have the same values where it is used. */
const Sym *amd_expression_at(Llvm *p, const Op *use, const Value *v) {
  const Sym *e = amd_expression(p, v);
  return e && !is_hidden(p, use, v->def, e) ? e : NULL;
}

static const Sym *expand(Llvm *p, const Op *op) {
  const Sym *e = op_attr(op, ATTR_expr)->sym;
  SymBinding *all = ARENA_ARRAY(p->arena, SymBinding, op->nargs + 1);
  int n = 0;
  for (int i = 0; i < op->nargs; i++) {
    const Sym *operand = amd_expression_at(p, op, op->args[i]);
    if (!operand) continue;
    all[n++] = (SymBinding){ir_numbered_symbol(p->k->cx, "$APPLY_EXPR_ARG_", i, false), operand};
  }
  const Sym *whole = n ? sym_subst(p->sym, e, all, n) : e;
  return whole ? whole : e;
}

/* Operands that are not expressions stay symbols. */
const Sym *amd_expression(Llvm *p, const Value *v) {
  if (!v->def || v->def->kind != OP_expr) return NULL;
  if (!p->amd->offset[v->id]) p->amd->offset[v->id] = expand(p, v->def);
  sym_take_error(p->sym);
  return p->amd->offset[v->id];
}

/* Of the value in units of `bits` bits, in bytes. */
static SymRange range_of(Llvm *p, const Sym *e, int64_t bits) {
  SymRange unknown = {SYM_MIN_INF, SYM_MAX_INF};
  const Sym *bytes = e ? sym_mul(p->sym, e, sym_rational(p->sym, bits, 8)) : NULL;
  SymRange r = bytes ? sym_range(p->sym, p->facts, bytes) : unknown;
  return *sym_take_error(p->sym) ? unknown : r;
}

/* Whether no part of the sum is negative: then LLVM may move a constant of it into the instruction,
 * which adds it to an unsigned number. */
static bool has_no_negative_part(Llvm *p, const Sym *e) {
  int n = e && sym_kind(e) == SYM_add ? sym_nargs(e) : 0;
  for (int i = 0; i < n; i++)
    if (range_of(p, sym_arg(p->sym, e, i), 8).lo < 0) return false;
  return n || range_of(p, e, 8).lo >= 0;
}

/* The largest power of two, at most 16, that divides the value in bytes; at least `least`. */
static int alignment(Llvm *p, const Sym *e, int bits, int least) {
  int bytes = 16;
  while (bytes > least && !(e && sym_divides(p->sym, p->facts, bytes * 8 / bits, e))) bytes /= 2;
  sym_take_error(p->sym);
  return bytes;
}

static int least(int a, int b) { return a < b ? a : b; }

static int least_bit(int64_t v, int most) {
  while (most > 1 && v % most) most /= 2;
  return most;
}

/* The operand of an access that is its memory; -1: not a load or store. */
static int memory_operand(const Op *op) {
  return op->kind == OP_load ? 0 : op->kind == OP_store ? 1 : -1;
}

static const Value *mask_of(const Op *op, int at) {
  return op->nargs > at + 2 ? op->args[at + 2] : NULL;
}

void amd_find_offsets(Llvm *p) {
  p->amd->first = ARENA_ARRAY(p->arena, const Op *, p->k->nvalues);
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    int at = memory_operand(op);
    if (at >= 0 && !op_imm(op, ATTR_imm)) p->amd->first[op->args[at + 1]->id] = op;
  }
}

/* Whether the offset is not negative in any lane that is active: a lane of the same block, active
 * under the same mask, accesses the element at the offset itself. */
static bool is_accessed(const Llvm *p, const Op *op, int at) {
  const Op *first = p->amd->first[op->args[at + 1]->id];
  if (!first || first->parent != op->parent || memory_operand(op) != at) return false;
  const Value *mask = mask_of(first, memory_operand(first));
  return !mask || mask == mask_of(op, at);
}

/* ---- parts that all lanes have in common ---- */

static bool is_common_symbol(const Sym *s) {
  const char *name = sym_name(s);
  return strncmp(name, "$WG", 3) == 0 || strncmp(name, "$ARG", 4) == 0 || *name != '$';
}

/* An expression of ids of workgroups, counters and sizes, as far as the names tell: LLVM finds out
 * where they are wrong. */
static bool is_common(Llvm *p, const Sym *e) {
  FreeSymbols all = sym_symbols(p->arena, e);
  for (int i = 0; i < all.n; i++)
    if (!is_common_symbol(all.at[i])) return false;
  return true;
}

/* The operand of a sum of two operands that is common to all lanes; -1: none. Neither operand may
 * be negative, and both must be multiples of `unit`. */
static int common_operand(Llvm *p, const Op *use, const Value *offset, int unit) {
  const Op *op = offset->def;
  if (!op || op->kind != OP_expr || op->nargs != 2) return -1;
  const Sym *arg[2], *coeff[2], *rest, *one = sym_int(p->sym, 1);
  for (int i = 0; i < 2; i++) arg[i] = ir_numbered_symbol(p->k->cx, "$APPLY_EXPR_ARG_", i, false);
  if (!sym_linear(p->sym, op_attr(op, ATTR_expr)->sym, arg, 2, coeff, &rest) || coeff[0] != one ||
      coeff[1] != one || rest != sym_int(p->sym, 0))
    return -1;
  const Sym *e[2];
  for (int i = 0; i < 2; i++) {
    e[i] = amd_expression_at(p, use, op->args[i]);
    if (!e[i] || range_of(p, e[i], 8).lo < 0) return -1;
    if (!sym_divides(p->sym, p->facts, unit, e[i])) return -1;
  }
  return is_common(p, e[1]) ? 1 : is_common(p, e[0]) ? 0 : -1;
}

/* ---- addresses ---- */

/* An index of elements of `bits` bits, in bytes, `wide` bits; that of 4-bit elements is even. */
static const char *scaled(Llvm *p, LlvmNumber index, int wide, int bits) {
  if (bits == 4) index.name = llvm_let(p, "ashr exact i%d %s, 1", index.bits, index.name);
  const char *name = llvm_in_bits(p, index, wide);
  return bits <= 8 ? name : llvm_let(p, "mul i%d %s, %d", wide, name, bits / 8);
}

/* The same in 32 bits, of an index that may differ between lanes. LLVM 19 may forget to multiply one that
 * is the low half of a sum: (trunc(x) + 2) * 2 becomes trunc(x) + 2 if x is also used in 64 bits. */
static const char *near_of(Llvm *p, LlvmNumber index, int bits) {
  bool lost = index.bits == 64 && bits > 8 && !amd_has_habit(p->amd->llvm, AMD_KEEPS_SHIFTS);
  if (lost) index = (LlvmNumber){amd_hidden(p, "i32", llvm_in_bits(p, index, 32)), 32};
  return scaled(p, index, 32, bits);
}

/* A power of two of which the address of an allocation is a multiple. */
static int base_alignment(const Value *memory) {
  const Op *alloc = memory->def && memory->def->kind == OP_alloc ? memory->def : NULL;
  const Attr *base = alloc ? op_attr(alloc, ATTR_base) : NULL;
  if (!alloc) return 1; /* one of several */
  return base ? least_bit(base->integer, 16) : 16;
}

AmdAddress amd_address(Llvm *p, const Op *op, int at, int64_t imm) {
  const Value *memory = op->args[at], *offset = op->args[at + 1];
  AmdAddress a = {.memory = llvm_held_get(p, memory), .shared = memory_is_scratch(memory)};
  int bits = dtype_memory_bits(memory->type->dtype), size = bits < 8 ? 1 : bits / 8;
  LlvmNumber n = llvm_number_of(p, offset);
  const Sym *e = amd_expression_at(p, op, offset);
  SymRange bytes = range_of(p, e, bits);
  a.imm = imm * bits / 8;
  a.counts = bytes.lo >= 0 || is_accessed(p, op, at);
  a.align = size;
  if (a.shared)
    a.align = least_bit(a.imm, least(alignment(p, e, bits, size), base_alignment(memory)));
  if (a.align < size) a.align = size;
  bool fits = bytes.lo >= INT32_MIN && bytes.hi <= INT32_MAX;
  int common = !a.shared && fits ? common_operand(p, op, offset, bits == 4 ? 2 : 1) : -1;
  if (common >= 0) {
    e = amd_expression_at(p, op, offset->def->args[1 - common]);
    a.near = near_of(p, llvm_number_of(p, offset->def->args[1 - common]), bits);
    a.common = scaled(p, llvm_number_of(p, offset->def->args[common]), 32, bits);
    a.counts = true;
  } else if (a.shared || fits) a.near = near_of(p, n, bits);
  else a.far = scaled(p, n, 64, bits);
  a.splits = has_no_negative_part(p, e);
  return a;
}

AmdAddress amd_address_after(AmdAddress from, int64_t bytes) {
  from.imm += bytes;
  from.align = least_bit(bytes, from.align);
  return from;
}

static const char *step(Llvm *p, const char *type, const char *from, int bits, const char *by) {
  return llvm_let(p, "getelementptr i8, %s %s, i%d %s", type, from, bits, by);
}

static const char *extended(Llvm *p, const char *word) {
  return *word == '%' ? llvm_let(p, "zext i32 %s to i64", word) : word;
}

/* gfx1250 can multiply an offset by the size of an element. LLVM 22 uses that for x << 2 although it
 * has replaced x by something that is equal in the lower 30 bits only. */
static bool scales_offsets(const Llvm *p) { return target_has(p->amd->target, FEATURE_WMMA_1250); }

const char *amd_pointer(Llvm *p, const AmdAddress *a) {
  const char *type = llvm_pointer_type(a->memory->space), *base = a->memory->base;
  const char *imm = arena_printf(p->arena, "%" PRId64, a->imm), *at;
  if (a->shared) {
    at = step(p, type, base, 32, a->near);
    return a->imm ? step(p, type, at, 32, imm) : at;
  }
  if (a->far) {
    at = step(p, type, base, 64, a->far);
    return a->imm ? step(p, type, at, 64, imm) : at;
  }
  if (a->common) base = step(p, type, base, 64, extended(p, a->common));
  bool apart = a->imm && a->counts; /* otherwise only the sum is known not to be negative */
  const char *near = a->near;
  if (a->imm && !apart) near = llvm_let(p, "add i32 %s, %s", near, imm);
  if (scales_offsets(p) && *near == '%') near = amd_hidden(p, "i32", near);
  at = step(p, type, base, 64, extended(p, near));
  return apart ? step(p, type, at, 64, imm) : at;
}

/* ---- buffers ---- */

/* Words 2 and 3 of a resource: its length, which no offset of an access reaches, and how it is
 * read. */
static const char *resource_words(const TargetInfo *t) {
  if (target_has(t, FEATURE_WMMA_1250)) return "0000000001000000"; /* in units of 128 bytes */
  bool rdna = t->lanes == 32;
  return rdna ? "3100400080000000" : "0002700080000000";
}

const char *amd_buffer(Llvm *p, const Held *memory) {
  Amd *amd = p->amd;
  bool has = amd_knows(amd, "raw.ptr.buffer.load") && amd_knows(amd, "raw.ptr.buffer.store");
  if (!has || memory->space != AMD_GLOBAL || strncmp(memory->base, "%arg", 4) != 0) return NULL;
  for (int i = 0; i < amd->buffers.n; i++)
    if (strcmp(amd->buffers.at[i].base, memory->base) == 0) return amd->buffers.at[i].name;
  const char *name = arena_printf(p->arena, "%%buffer%d", amd->buffers.n);
  sb_printf(&amd->opening, "  %s.base = ptrtoint ptr addrspace(1) %s to i64\n", name, memory->base);
  sb_printf(&amd->opening, "  %s.low = zext i64 %s.base to i128\n", name, name);
  sb_printf(&amd->opening, "  %s.all = or i128 %s.low, u0x%s0000000000000000\n", name, name,
            resource_words(amd->target));
  sb_printf(&amd->opening, "  %s = inttoptr i128 %s.all to ptr addrspace(8)\n", name, name);
  vec_push(p->arena, &amd->buffers, ((AmdBuffer){memory->base, name}));
  return name;
}
