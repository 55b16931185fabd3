/* lower_copy.c: copies between an argument and an allocation: loads and stores, or asynchronous
 * copies that are waited for before the barrier that publishes them. Prefetched copies of a
 * pipelined loop belong to the groups that the kernel itself commits and waits for. */
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "lower_threads/lower.h"
#include "transform/copy/copy_plan.h"

/* The allocation's side: coordinates relative to the tile. */
static void open_scratch(Lower *l, const LaneAccess *global, const Value *scratch,
                         const MemLayout *m, LaneAccess *out) {
  *out = *global;
  out->memory = l->value[scratch->id];
  out->tests.n = out->dynamic.n = 0;
  out->offset_dtype = DTYPE_i32;
  out->width = memory_width(l, m, global->layout);
  int rank = scratch->type->rank, slot = m->dims - rank;
  for (int i = 0; i < rank; i++) {
    out->coords[i] = sym_sub(l->sym, access_x(l->sym, i), global->start[i]);
    const Sym *extent = sym_int(l->sym, m->extent[slot + i]);
    if (m->extent[slot + i] >= global->layout->extent[i]) continue;
    out->tests.at[out->tests.n++] =
        sym_lt(l->sym, out->coords[i], extent); /* the rest is dropped */
    while (m->extent[slot + i] % out->width) out->width /= 2;
  }
  out->offset = memory_offset(l, m, scratch, global->op, out->coords);
  memory_add_slot(l, scratch, global->op, out->coords);
}

/* `width`: elements that are contiguous on both sides. */
static bool copy_async(Lower *l, LaneAccess *global, LaneAccess *local, const CopyPlan *plan,
                       int width) {
  const Value *scratch = global->op->args[1];
  int bytes = width * dtype_memory_bits(global->memory->type->dtype) / 8;
  if (!copy_is_in(global->op) || !plan->exact || local->tests.n || bytes < 4)
    return emit_refuse(l, global->op,
                       "an asynchronous copy of fewer than 4 bytes, or of part of a tile");
  global->width = local->width = width;
  lane_copy_async(l, local, global);
  if (op_has(global->op, ATTR_iteration)) return true; /* the kernel has its own wait for it */
  emit_op(l, OP_async_commit, NULL, 0, NULL, 0, NULL);
  vec_push(l->arena, &l->copying, scratch);
  return true;
}

/* Copies are counted by wave, not collected in groups of a thread. */
static bool counts_copies(const Lower *l) {
  return !target_has(l->machine.target, FEATURE_CP_ASYNC);
}

bool lower_async_commit(Lower *l, const Op *op) {
  if (!counts_copies(l)) emit_op(l, OP_async_commit, NULL, 0, op->attrs, op->nattrs, NULL);
  return true;
}

void lower_wait(Lower *l) {
  if (!l->copying.n) return;
  if (counts_copies(l)) lower_wait_direct(l, NULL);
  else emit_op(l, OP_async_wait, NULL, 0, &(Attr){.key = ATTR_pending}, 1, NULL);
  for (int i = 0; i < l->copying.n; i++) lower_publish(l, l->copying.at[i]);
  l->copying.n = 0;
}

/* Prefetched copies have arrived: those to operands of matrix instructions are published. */
bool lower_async_wait(Lower *l, const Op *op) {
  if (counts_copies(l)) return lower_wait_direct(l, op), true;
  emit_op(l, OP_async_wait, NULL, 0, op->attrs, op->nattrs, NULL);
  for (const Op *copy = l->tiles->first; copy; copy = ir_next(copy))
    if (copy->kind == OP_copy && op_has(copy, ATTR_iteration) && copy_goes_by(copy, "async"))
      lower_publish(l, copy->args[1]);
  return true;
}

/* Each thread has the values that the coordinates of its elements are computed from. */
static bool has_coords(Lower *l, const MemAccess *a, const Layout *layout) {
  Value whole = {.type = a->tile};
  for (int i = 0; i < a->ndynamic; i++) {
    Value *v = a->dynamic[i];
    LayoutLink link = {.whole = &whole, .part = v, .ratio = 1, .group = 1};
    Layout wanted;
    if (!v->layout || !access_looks_up_in_place(a, i)) continue;
    if (!layout_of_part(&link, layout, v->layout->extent, &wanted) ||
        !layout_equal(&wanted, v->layout))
      return emit_refuse(l, a->op, "a copy whose coordinates have another layout");
  }
  return true;
}

bool lower_copy(Lower *l, const Op *op) {
  const AccessBounds *b = l->bounds[op->id];
  bool in = copy_is_in(op);
  const Value *scratch = op->args[in ? 1 : 0];
  CopyPlan *plan = ARENA_NEW(l->arena, CopyPlan);
  LaneAccess global, local;
  MemLayout m;
  if (copy_goes_by(op, "tma")) return lower_copy_boxes(l, op);
  if (copy_goes_by(op, "bulk")) return lower_store_boxes(l, op);
  if (copy_goes_by(op, "direct")) return lower_copy_direct(l, op);
  if (!memory_layout(scratch, &m)) return emit_refuse(l, op, "a copy of a loop-carried allocation");
  if (!copy_plan(l->d, &l->machine, b, plan)) return false;
  if (!has_coords(l, &b->access, &plan->layout)) return false;
  if (!open_access(l, op, b, &plan->layout, &global)) return false;
  open_scratch(l, &global, scratch, &m, &local);
  if (copy_goes_by(op, "async"))
    return copy_async(l, &global, &local, plan, copy_width(plan, b, &m));
  int held = layout_size(&plan->layout, LAYOUT_REG);
  if (held > IR_MAX_VEC) return anchor_report_size(l->k, op, held);
  if (in) lane_store(l, &local, lane_load(l, &global)), lower_publish(l, scratch);
  else lane_store(l, &global, lane_load(l, &local));
  return true;
}
