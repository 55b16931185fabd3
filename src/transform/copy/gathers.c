/* gathers: makes one copy of a read whose coordinates come from memory and the write of its tile to
 * shared memory, so that the tile can bypass registers and be prefetched.
 *
 *     %i = read %t : ... @ [64] ...           %i = read %t : ... @ [64] reg d0/8:8 | lane ~/8 ...
 *     %x = read %a, %i {mapping = m}    =>    copy %a, %s, %i {mapping = m}
 *     write %x, %s                            %y = read %s
 *     %y = read %s
 *
 * `promote` separates the two, so that `layouts` gives the values that the coordinates are computed
 * from a layout. Here the layout of the copy is known (copy_plan.h), and each thread needs the values
 * of the elements that it copies. Tables are read again in that layout, and arithmetic on them is
 * repeated, rather than converted from one layout to another. A tile whose coordinates are computed
 * in another way, or looked up at other coordinates than its own, still goes through registers.
 *
 * Needs DISTRIBUTE, BOUNDS; breaks what counts ops. Does nothing without a target or before
 * layouts. */
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "transform/copy/copy_plan.h"
#include "transform/pass.h"

enum { MOST_DEEP = 8 }; /* ops from a table to a coordinate */

/* A value as it is in another layout. */
typedef struct Again {
  const Value *of;
  const Layout *layout;
  Value *value;
} Again;

typedef struct Gathers {
  Kernel *k;
  const PassCtx *cx;
  Vec(Again) again;
  bool changed;
} Gathers;

/* ---- values in another layout ---- */

static bool is_table(const Gathers *g, const Op *op) {
  return op->kind == OP_read && op->nargs == 1 && !op_has(op, ATTR_volatile) &&
         !memory_is_scratch(op->args[0]) && !memory_is_written(g->k, op->args[0]);
}

static bool is_arithmetic(const Op *op) {
  return op->nresults == 1 && (op_is_elementwise(op) || op->kind == OP_apply_expr);
}

/* The layout that operand i of an elementwise op must have, if its result has that one. */
static bool operand_layout(Op *op, int i, const Layout *result, Layout *out) {
  const Value *v = op->args[i];
  LayoutLink link = {.whole = &op->results[0], .part = op->args[i], .ratio = 1, .group = 1};
  return v->layout && layout_of_part(&link, result, v->layout->extent, out);
}

/* Whether the value can be had in that layout without exchanging it between threads. */
static bool can_have(const Gathers *g, const Value *v, const Layout *l, int deep) {
  Op *op = v->def;
  Layout own;
  if (!v->layout || layout_equal(v->layout, l)) return true;
  if (!op || v->varying || deep == MOST_DEEP) return false;
  if (op->kind == OP_convert) return can_have(g, op->args[0], l, deep + 1);
  if (is_table(g, op) || op->kind == OP_fill) return true;
  for (int i = 0; is_arithmetic(op) && i < op->nargs; i++)
    if (op->args[i]->layout &&
        (!operand_layout(op, i, l, &own) || !can_have(g, op->args[i], &own, deep + 1)))
      return false;
  return is_arithmetic(op);
}

static Op *insert_again(Gathers *g, Op *op, const Layout *l) {
  Op *made = ir_insert(g->k, op->next, op->kind, op->at, op->args, op->nargs, op->results[0].type);
  for (int i = 0; i < op->nattrs; i++) op_set_attr(g->k, made, attr_copy(g->k, &op->attrs[i]));
  made->results[0].name = op->results[0].name;
  ir_set_layout(g->k, &made->results[0], l);
  return made;
}

/* The value in that layout, computed next to where it is computed now. */
static Value *have(Gathers *g, Value *v, const Layout *l) {
  Op *op = v->def;
  Layout own;
  if (!v->layout) return v;
  if (op && op->kind == OP_convert && can_have(g, op->args[0], l, 0))
    return have(g, op->args[0], l);
  if (layout_equal(v->layout, l)) return v;
  for (int i = 0; i < g->again.n; i++)
    if (g->again.at[i].of == v && layout_equal(g->again.at[i].layout, l))
      return g->again.at[i].value;
  Op *made = insert_again(g, op, l);
  for (int i = 0; is_arithmetic(op) && i < op->nargs; i++)
    if (operand_layout(op, i, l, &own)) made->args[i] = have(g, op->args[i], &own);
  Value *again = &made->results[0];
  vec_push(g->cx->scratch, &g->again, ((Again){v, again->layout, again}));
  return again;
}

/* ---- which tiles ---- */

static bool is_whole(const Gathers *g, const Op *write) {
  const AccessBounds *b = g->cx->facts.in_bounds[write->id];
  const Op *alloc = write->args[1]->def;
  const Type *tile = write->args[0]->type;
  MemLayout slot;
  if (!alloc || alloc->kind != OP_alloc || !alloc_slot_layout(alloc, &slot)) return false;
  if (write->nargs != 2 || op_has(write, ATTR_mapping) || op_has(write, ATTR_bounds)) return false;
  if (slot.dims != tile->rank || alloc->results[0].type->rank != tile->rank) return false;
  for (int i = 0; i < tile->rank; i++)
    if (alloc->results[0].type->dims[i] != tile->dims[i] ||
        slot.extent[i] != write->args[0]->layout->extent[i])
      return false;
  for (int i = 0; i < b->nbounds; i++)
    if (b->bounds[i].verdict == BOUND_tested) return false;
  return true;
}

/* The write that takes the whole tile to shared memory, if nothing else uses it; NULL: none. */
static Op *find_write(const Gathers *g, const Op *read) {
  Op *op = read->next;
  while (op && (op_is_pure(op) || op->kind == OP_read) && !op_takes(op, &read->results[0]))
    op = op->next;
  if (!op || op->kind != OP_write || op->args[0] != &read->results[0] || !is_whole(g, op))
    return NULL;
  return ir_count_uses(g->k->body, &read->results[0]) == 1 ? op : NULL;
}

static bool is_gather(const Gathers *g, const Op *op) {
  const AccessBounds *b = op->kind == OP_read ? g->cx->facts.in_bounds[op->id] : NULL;
  if (!b || !b->access.ndynamic || !op->results[0].layout || b->no_position) return false;
  if (dtype_memory_bits(op->results[0].type->dtype) < 8) return false; /* threads share bytes */
  if (op_has(op, ATTR_volatile) || memory_is_scratch(op->args[0])) return false;
  for (int i = 0; i < b->access.ndynamic; i++)
    if (!access_looks_up_in_place(&b->access, i)) return false;
  return op->nargs == 1 + b->access.ndynamic;
}

/* ---- copies ---- */

static void drop_unused(Gathers *g, Value *v) {
  Op *op = v->def;
  if (!op || !op->parent || op->nresults != 1) return; /* it may be an operand twice */
  if (!(op_is_pure(op) || op->kind == OP_read) || ir_count_uses(g->k->body, v)) return;
  ir_remove(op);
  for (int i = 0; i < op->nargs; i++) drop_unused(g, op->args[i]);
}

static void insert_copy(Gathers *g, Op *read, Op *write, const Layout *layouts) {
  Value **args = ARENA_ARRAY(g->cx->scratch, Value *, read->nargs + 1);
  args[0] = read->args[0];
  args[1] = write->args[1];
  for (int i = 1; i < read->nargs; i++) args[i + 1] = have(g, read->args[i], &layouts[i]);
  Op *copy = ir_insert(g->k, write, OP_copy, read->at, args, read->nargs + 1, NULL);
  for (int i = 0; i < read->nattrs; i++) op_set_attr(g->k, copy, attr_copy(g->k, &read->attrs[i]));
  ir_remove(write);
  ir_remove(read);
  for (int i = 1; i < read->nargs; i++) drop_unused(g, read->args[i]);
  g->changed = true;
}

static bool make_copy(Gathers *g, Op *read) {
  Layout *layouts = ARENA_ARRAY(g->cx->scratch, Layout, read->nargs);
  Op *write = find_write(g, read);
  CopyPlan plan;
  if (!write) return true;
  if (!copy_plan(g->cx->facts.distribute, g->cx->machine, g->cx->facts.in_bounds[read->id], &plan))
    return false;
  for (int i = 1; i < read->nargs; i++) {
    const Value *v = read->args[i];
    LayoutLink link = {.whole = &read->results[0], .part = read->args[i], .ratio = 1, .group = 1};
    if (!v->layout) continue;
    if (!layout_of_part(&link, &plan.layout, v->layout->extent, &layouts[i])) return true;
    if (!can_have(g, v, &layouts[i], 0)) return true;
  }
  insert_copy(g, read, write, layouts);
  return true;
}

bool pass_gathers(Kernel *k, PassCtx *cx) {
  Gathers g = {.k = k, .cx = cx};
  cx->idle = true;
  if (!cx->machine || !cx->target || !ir_has_layouts(k)) return true;
  int nops = k->nops;
  for (Op *op = ir_first(k), *next; op; op = next) {
    next = ir_next(op);
    if (op->id >= nops || !is_gather(&g, op)) continue;
    if (next && next == find_write(&g, op)) next = ir_next(next);
    if (!make_copy(&g, op)) return false;
  }
  cx->idle = !g.changed;
  return true;
}
