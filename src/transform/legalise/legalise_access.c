/* legalise_access.c: splits loads and stores to the widths that the machine supports.
 *
 *     %v = load %a, %o : vec<8, f32>    =>   %0 = load %a, %o : vec<4, f32>
 *                                            %1 = load %a, %o {imm = 4} : vec<4, f32>
 *                                            %v = join %0, %1 : vec<8, f32> */
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "transform/legalise/legalise.h"

typedef struct Split {
  Kernel *k;
  Op *op;
  bool store;
  const Type *whole;
} Split;

static int mask_operand(const Split *s) { return s->store ? 3 : 2; }

/* Elements of one access; 0: no limit. NVIDIA's accesses have a power of two of bytes, are aligned
 * to their size, and have one mask. An address is known to be a multiple of the largest power of
 * two in the bytes of the whole access. */
static int widest(const Split *s, const TargetInfo *target) {
  const Value *memory = s->op->args[s->store ? 1 : 0];
  int most = memory_is_scratch(memory) ? target->shared_access : target->global_access;
  int bits = dtype_memory_bits(memory->type->dtype), all = s->whole->n * bits;
  if (target_has(target, FEATURE_UNALIGNED)) return 0; /* the emitter splits registers */
  if (target->vendor != VENDOR_NVIDIA) return most * 8 / bits;
  const Value *mask = s->op->nargs > mask_operand(s) ? s->op->args[mask_operand(s)] : NULL;
  if (all % 8 || (mask && mask->type->n > 1)) return 1;
  int aligned = all / 8 & -(all / 8);
  return (aligned < most ? aligned : most) * 8 / bits;
}

static Value *take(const Split *s, Value *v, int first, int n) {
  Kernel *k = s->k;
  int *regs = ARENA_ARRAY(k->arena, int, n);
  const Type *type = type_vec(k->cx, n, v->type->dtype);
  if (v->type->n == 1) return v;
  for (int i = 0; i < n; i++) regs[i] = first + i;
  Op *pick = ir_insert(k, s->op, OP_pick, s->op->at, &v, 1, type);
  op_set_attr(k, pick, attr_ints(k, ATTR_regs, regs, n));
  return &pick->results[0];
}

/* Registers first .. first + n - 1 of an access. Logical coordinates are known only for the first
 * part: the others may be in the next row. */
static Op *part_of(const Split *s, int first, int n) {
  Op *op = s->op, *part = ir_op_new(s->k, op->kind, op->at, op->args, op->nargs);
  int mask = mask_operand(s);
  const Attr *imm = op_attr(op, ATTR_imm);
  for (int i = 0; i < op->nattrs; i++)
    if (op->attrs[i].key != ATTR_imm && (op->attrs[i].key != ATTR_coords || first == 0))
      op_set_attr(s->k, part, attr_copy(s->k, &op->attrs[i]));
  int64_t by = (imm ? imm->integer : 0) + first;
  if (by) op_set_attr(s->k, part, (Attr){.key = ATTR_imm, .integer = by});
  if (s->store) part->args[0] = take(s, op->args[0], first, n);
  if (op->nargs > mask) part->args[mask] = take(s, op->args[mask], first, n);
  ir_insert_before(op, part);
  return part;
}

void legalise_split_access(Kernel *k, const TargetInfo *target, Arena *scratch, Op *op) {
  bool store = op->kind == OP_store;
  Split s = {k, op, store, store ? op->args[0]->type : op->results[0].type};
  int most = widest(&s, target), n = 0;
  if (!most || s.whole->n <= most) return;
  Value **parts = ARENA_ARRAY(scratch, Value *, s.whole->n);
  for (int first = 0; first < s.whole->n; first += most) {
    int count = s.whole->n - first < most ? s.whole->n - first : most;
    Op *part = part_of(&s, first, count);
    const Type *type = type_vec(k->cx, count, s.whole->dtype);
    if (store) continue;
    ir_set_results(k, part, &type, 1);
    parts[n++] = &part->results[0];
  }
  if (store) {
    ir_remove(op);
    return;
  }
  op->kind = OP_join;
  op->nattrs = 0;
  op->args = arena_copy(k->arena, parts, sizeof(Value *) * (size_t)n);
  op->nargs = n;
}
