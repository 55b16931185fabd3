/* lower_matrices.c: tiles that ldmatrix reads from shared memory, for matrix instructions.
 *
 *     %x = read %s : tile<M, K, f16> @ [16, 16] reg d1/2:1 d0/2:8 d1/2:8 | lane d1/4:2 d0/8:1
 *
 *     %r = expr ... where the row begins that this lane names ... : i32
 *     %x = ldmatrix %s, %r : vec<8, f16>
 *
 * One instruction instead of four loads, of the same bytes. Which layouts it fills is found in
 * target/matrices.h. */
#include "ir/alloc_layout.h"
#include "lower/lower.h"
#include "target/matrices.h"

/* The whole tile is read by name: its coordinates are those of the allocation. */
static bool reads_by_name(const Op *op, const MemLayout *m) {
  const Type *tile = op->results[0].type, *memory = op->args[0]->type;
  if (op->nargs > 1 || op_has(op, ATTR_mapping) || op_has(op, ATTR_volatile)) return false;
  if (tile->kind != TYPE_tile || tile->rank != memory->rank) return false;
  for (int i = 0; i < tile->rank; i++)
    if (tile->dims[i] != memory->dims[i] || op->results[0].layout->extent[i] > m->extent[i])
      return false;
  return true;
}

static Value *load_matrices(Lower *l, const LaneAccess *a, const MatrixPlan *plan) {
  int n = layout_size(a->layout, LAYOUT_REG);
  const Type *type = type_vec(l->k->cx, plan->count * plan->each, a->memory->type->dtype);
  const LaneOffset *rows = lane_offsets(l, a);
  Value **parts = ARENA_ARRAY(l->arena, Value *, n);
  for (int i = 0; i < n; i++) {
    Value *args[] = {a->memory, rows[i].base};
    Attr attrs[2];
    int nattrs = 0;
    if (rows[i].imm) attrs[nattrs++] = (Attr){.key = ATTR_imm, .integer = rows[i].imm};
    if (plan->transposed) attrs[nattrs++] = (Attr){.key = ATTR_transposed};
    parts[i] = emit(l, OP_ldmatrix, args, 2, attrs, nattrs, type);
  }
  return emit_join(l, parts, n);
}

Value *lower_read_matrices(Lower *l, const Op *op) {
  const Op *alloc = op->args[0]->def;
  MatrixPlan *plan = ARENA_NEW(l->arena, MatrixPlan);
  LaneAccess a;
  MemLayout m;
  if (!target_has(l->machine.target, FEATURE_LDMATRIX) || !op->results[0].layout) return NULL;
  if (!alloc || alloc->kind != OP_alloc || !alloc_slot_layout(alloc, &m)) return NULL;
  int along = matrix_dim(&m);
  if (along < 0 || !reads_by_name(op, &m)) return NULL;
  if (!matrix_plan(op->results[0].layout, m.bits, along, plan)) return NULL;
  if (!open_access(l, op, l->bounds[op->id], &plan->rows, &a) || a.ntests) return NULL;
  return load_matrices(l, &a, plan);
}
