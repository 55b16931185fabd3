/* copy_stage.c: see copy_stage.h. */
#include "transform/copy/copy_stage.h"

#include "ir/attr.h"
#include "ir/dtype.h"
#include "target/descriptor.h"

Op *copy_stage_loop(const Kernel *k) {
  const Constraint *row = kernel_persistent(k);
  for (Op *op = k->body->first; op; op = op->next)
    if (row && op->kind == OP_for && op_attr(op, ATTR_axis)->sym == row->persist.loop) return op;
  return NULL;
}

int copy_stage_inner(const AccessBounds *b) {
  return b->run_axis >= 0 ? b->run_axis : b->access.tile->rank - 1;
}

bool copy_stage_layout(const AccessBounds *b, const Type *tile, const int *extent, MemLayout *out) {
  int bits = dtype_info[tile->dtype].bits, inner = copy_stage_inner(b);
  if (extent[inner] * bits / 8 % COPY_STAGE_SPAN) return false;
  *out = descriptor_boxes(tile->rank, extent, bits, inner, COPY_STAGE_SPAN);
  return true;
}

bool copy_stage_is_there(const Distribution *d, const AccessBounds *b, const Op *other) {
  const Op *read = b->access.op;
  const Type *t = read->args[0]->type, *tile = b->access.tile;
  if (tile->rank != t->rank) return false;
  for (int i = 0; i < t->rank; i++) {
    TileRange here, there;
    if (type_base_dim(tile, t->dims[i]) < 0) return false;
    if (!distribute_dim(d, read, t->dims[i], &here) ||
        !distribute_dim(d, other, t->dims[i], &there))
      return false;
    if (here.start != there.start || here.extent != there.extent) return false;
  }
  return true;
}

Value *copy_stage(Kernel *k, Span at, const Type *tile, const MemLayout *m, const char *name) {
  const Type *mem = type_mem(k->cx, tile->dims, tile->rank, tile->dtype, k->cx->shared_space, NULL);
  Op *alloc = ir_insert(k, k->body->first, OP_alloc, at, NULL, 0, mem);
  const Sym **physical = ARENA_ARRAY(k->arena, const Sym *, tile->rank);
  for (int i = 0; i < tile->rank; i++) physical[i] = sym_int(k->cx->sym, m->extent[i]);
  op_set_attr(k, alloc, (Attr){.key = ATTR_physical, .n = tile->rank, .exprs = physical});
  const MemLayout *copy = arena_copy(k->arena, m, sizeof *m);
  op_set_attr(k, alloc, (Attr){.key = ATTR_memory, .memory = copy});
  alloc->results[0].name = name;
  return &alloc->results[0];
}
