/* repack.c: see repack.h. When it pays was measured on an H200 (bench/NOTES.md): 600x601x600 takes 7 us with
 * copies and 28 without, 512x512x1001 12.6 and 14.3, 4000x100x500 17.4 and 16.7. */
#include "driver/repack/repack.h"

#include "ir/dtype.h"

/* Times that an element is read, and reads of all elements. */
enum { LEAST_TIMES = 4, LEAST_READS = 1 << 20 };

/* 1, 0, or -1: the kernel leaves it to us. */
static int asks(const Kernel *k) {
  const Constraint *row = kernel_constraint(k, CONSTRAINT_repack, NULL);
  int64_t n;
  return row && sym_is_int(row->option.allowed, &n) ? n != 0 : -1;
}

static bool is_wanted(const Kernel *k, const TargetInfo *machine) {
  const Constraint *boxes = kernel_constraint(k, CONSTRAINT_boxes, NULL);
  int64_t n;
  if (k->level != LEVEL_TILE || asks(k) >= 0) return asks(k) == 1 && k->level == LEVEL_TILE;
  bool by_threads = boxes && sym_is_int(boxes->option.allowed, &n) && !n;
  return target_has(machine, FEATURE_TMA) && !by_threads;
}

/* Whether each dim of the memory is one of the tile's: a mapping that only names or turns them. */
static bool maps_dims(const Attr *mapping) {
  for (int i = 0; mapping && i < mapping->mapping->inputs.n; i++)
    if (sym_kind(mapping->mapping->inputs.at[i].value) != SYM_symbol) return false;
  return true;
}

/* Also if the product takes it transposed. */
static bool is_read_of(const Value *v, const Value *memory) {
  while (v->def && v->def->kind == OP_permute) v = v->def->args[0];
  return v->def && v->def->kind == OP_read && v->def->nargs == 1 && v->def->args[0] == memory &&
         maps_dims(op_attr(v->def, ATTR_mapping));
}

/* The dim whose tiles each need the operand again; NULL: it is not an operand of the product. */
static const Sym *other_dim(Kernel *k, const Op *op, const Value *memory) {
  Product p;
  if (op->kind != OP_mma || product_of(k, op, &p)) return NULL;
  return is_read_of(p.lhs, memory) ? p.roles.n : is_read_of(p.rhs, memory) ? p.roles.m : NULL;
}

/* How many workgroups read the same elements for the first product; NULL: one, or it is not an operand. */
static const Sym *times_read(const LaunchSymbols *s, const Value *memory) {
  SymCtx *cx = s->k->cx->sym;
  for (const Op *op = ir_first(s->k); op; op = ir_next(op)) {
    const Sym *dim = other_dim(s->k, op, memory);
    const Constraint *group = dim ? kernel_constraint(s->k, CONSTRAINT_workgroup, dim) : NULL;
    if (group) return sym_ceildiv(cx, dim, group->workgroup.size);
    if (dim && asks(s->k) == 1) return sym_int(cx, 1);
  }
  return NULL;
}

static bool is_only_read(const Kernel *k, const Value *memory) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op_takes(op, memory) && op->kind != OP_read) return false;
  return true;
}

static bool is_repacked(const LaunchSymbols *s, int param) {
  const Value *memory = s->k->body->args[param];
  const Type *t = memory->type;
  if (t->kind != TYPE_mem || t->layout) return false;
  if (t->rank < REPACK_RANK_LEAST || t->rank > REPACK_RANK_MOST) return false;
  if (dtype_memory_bits(t->dtype) % 8) return false;
  return is_only_read(s->k, memory) && times_read(s, memory);
}

int64_t repack_params(const LaunchSymbols *s, const TargetInfo *machine) {
  int64_t found = 0;
  if (!is_wanted(s->k, machine)) return 0;
  for (int i = 0; i < kernel_given(s->k); i++)
    if (is_repacked(s, i)) found |= INT64_C(1) << i;
  return found;
}

const Sym *repack_pays(const LaunchSymbols *s, int param) {
  SymCtx *cx = s->k->cx->sym;
  const Value *memory = s->k->body->args[param];
  const Sym *times = times_read(s, memory), *reads = times;
  if (asks(s->k) == 1) return sym_bool(cx, true);
  for (int d = 0; d < memory->type->rank; d++) reads = sym_mul(cx, reads, memory->type->dims[d]);
  return sym_and(cx, sym_ge(cx, times, sym_int(cx, LEAST_TIMES)),
                 sym_ge(cx, reads, sym_int(cx, LEAST_READS)));
}
