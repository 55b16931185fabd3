/* lower_matrices.c: fragments of matrix instructions that ldmatrix reads from shared memory, and
 * stmatrix writes to it.
 *
 *     %x = read %s : tile<M, K, f16> @ [16, 16] reg d1/2:1 d0/2:8 d1/2:8 | lane d1/4:2 d0/8:1
 *
 *     %r = expr ... the beginning of the row that this lane addresses ... : i32
 *     %x = ldmatrix %s, %r : vec<8, f16>
 *
 * One instruction replaces four loads or stores of the same bytes; transposed, eight. AMD's
 * transposing reads, `ldmatrix {columns}`, replace a load of each element. The layouts that they can
 * fill are found in target/matrices.h. All lanes of a wave must take part, so none of
 * them may have diverged. */
#include "ir/ops/alloc_layout.h"
#include "ir/schedule/op_parts.h"
#include "lower_threads/lower.h"
#include "target/matrices.h"

/* The whole tile is accessed by name: its coordinates are those of the allocation. */
static bool is_by_name(const Op *op, const Value *tile, const Value *memory, const MemLayout *m) {
  const Type *t = tile->type;
  if (op_has(op, ATTR_mapping) || op_has(op, ATTR_volatile)) return false;
  if (t->kind != TYPE_tile || t->rank != memory->type->rank) return false;
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] != memory->type->dims[i] || tile->layout->extent[i] > m->extent[i]) return false;
  return true;
}

/* Accesses `tile`, which is all that the op moves, by matrices: where their rows begin. */
static bool open_matrices(Lower *l, const Op *op, const Value *tile, const Value *memory,
                          MatrixPlan *plan, LaneAccess *rows) {
  const Op *alloc = memory->def;
  MemLayout m;
  if (!tile->layout || !alloc || alloc->kind != OP_alloc || !alloc_slot_layout(alloc, &m))
    return false;
  int along = matrix_dim(l->machine.target, &m);
  if (along < 0 || !is_by_name(op, tile, memory, &m)) return false;
  if (uniform_around(l->uniform, op).level > UNIFORM_WAVE) return false;
  if (m.bits != dtype_info[tile->type->dtype].bits)
    return false; /* bits and 6-bit floats in bytes */
  if (!matrix_plan(l->machine.target, tile->layout, m.bits, along, plan)) return false;
  return open_access(l, op, l->bounds[op->id], &plan->rows, rows) && !rows->tests.n;
}

static int matrix_attrs(const LaneOffset *row, const MatrixPlan *plan, Attr *out) {
  int n = 0;
  if (row->imm) out[n++] = (Attr){.key = ATTR_imm, .integer = row->imm};
  if (plan->form) out[n++] = (Attr){.key = ATTR_columns};
  else if (plan->transposed) out[n++] = (Attr){.key = ATTR_transposed};
  return n;
}

Value *lower_read_matrices(Lower *l, const Op *op) {
  MatrixPlan *plan = ARENA_NEW(l->arena, MatrixPlan);
  LaneAccess a;
  if (!matrix_is_read(l->machine.target) || op->nargs > 1) return NULL;
  if (!open_matrices(l, op, &op->results[0], op->args[0], plan, &a)) return NULL;
  int n = layout_size(a.layout, LAYOUT_REG);
  const Type *type = type_vec(l->k->cx, plan->count * plan->each, a.memory->type->dtype);
  const LaneOffset *rows = lane_offsets(l, &a);
  Value **parts = ARENA_ARRAY(l->arena, Value *, n);
  for (int i = 0; i < n; i++) {
    Value *args[] = {a.memory, rows[i].base};
    Attr attrs[2];
    if (!parts_have(op, op->results[0].layout, i * type->n, type->n)) continue;
    parts[i] = emit_op(l, OP_ldmatrix, args, 2, attrs, matrix_attrs(&rows[i], plan, attrs), type);
  }
  lane_fill_up(parts, n);
  return emit_join(l, parts, n);
}

/* Each element is in exactly one register of one thread, so no store needs to be masked. */
static bool is_held_once(Lower *l, const Layout *layout) {
  const Digits *regs = &layout->part[LAYOUT_REG];
  if (lane_is_first(l, layout, l->machine.waves)) return false;
  for (int i = 0; i < regs->n; i++)
    if (!regs->at[i].stride) return false;
  for (int d = 0; d < layout->dims; d++)
    if (holders_of_dim(l, layout, d).kind != HOLDERS_SINGLE) return false;
  return true;
}

bool lower_write_matrices(Lower *l, const Op *op) {
  const Value *tile = op->args[0];
  MatrixPlan *plan = ARENA_NEW(l->arena, MatrixPlan);
  LaneAccess a;
  if (!target_has(l->machine.target, FEATURE_STMATRIX) || op->nargs > 2) return false;
  if (!tile->layout || !is_held_once(l, tile->layout)) return false;
  if (!open_matrices(l, op, tile, op->args[1], plan, &a)) return false;
  int n = layout_size(a.layout, LAYOUT_REG), regs = plan->count * plan->each;
  const LaneOffset *rows = lane_offsets(l, &a);
  for (int i = 0; i < n; i++) {
    if (!parts_have(op, tile->layout, i * regs, regs)) continue;
    Value *args[] = {emit_range(l, l->value[tile->id], i * regs, regs), a.memory, rows[i].base};
    Attr attrs[2];
    emit_op(l, OP_stmatrix, args, 3, attrs, matrix_attrs(&rows[i], plan, attrs), NULL);
  }
  return true;
}
