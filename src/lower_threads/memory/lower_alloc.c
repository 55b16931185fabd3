/* lower_alloc.c: allocations, and how much of them one access moves. */
#include "ir/ops/alloc_layout.h"
#include "lower_threads/lower.h"

int memory_width(Lower *l, const MemLayout *m, const Layout *layout) {
  int widest = 1;
  for (int d = 0; d < layout->dims; d++) {
    int v = layout_vector(layout, d, m->bits, l->machine.target->shared_access);
    int most = mem_vector(m, d + m->dims - layout->dims);
    if (most < v) v = most;
    if (v > widest) widest = v;
  }
  return widest;
}

/* The dims of an allocation are numbers: it is as large as the tile it holds. A ring has the slot
 * as an additional dim from here on. */
bool lower_alloc(Lower *l, const Op *op) {
  const Type *t = op->results[0].type;
  int extent[IR_MAX_RANK], slots = alloc_slots(op), n = 0;
  const Sym *dims[IR_MAX_RANK + 1];
  Attr attrs[2];
  MemLayout m;
  if (!alloc_extent(l->k, op, 0) && !distribute_extents(l->d, op, t, extent)) return false;
  if (slots > 1) dims[n++] = sym_int(l->sym, slots);
  for (int i = 0; i < t->rank; i++) {
    const Sym *given = alloc_extent(l->k, op, i);
    dims[n++] = given ? distribute_expr(l->d, op, given) : sym_int(l->sym, extent[i]);
  }
  const Type *type = type_mem(l->k->cx, dims, n, t->dtype, l->k->cx->shared_space, NULL);
  attrs[0] = *op_attr(op, ATTR_base);
  n = 1;
  if ((slots > 1 || op_has(op, ATTR_memory)) && alloc_layout(op, &m))
    attrs[n++] = (Attr){.key = ATTR_memory, .memory = &m};
  Value *v = emit_op(l, OP_alloc, NULL, 0, attrs, n, type);
  v->name = op->results[0].name;
  l->value[op->results[0].id] = v;
  return true;
}
