/* lower_copy.c: copies between an argument and an allocation, by loads and stores.
 *
 * The copy has a layout of its own: vectors along the dim that is contiguous in the argument, as
 * wide as was proved, neighbouring lanes on neighbouring vectors. */
#include "ir/dtype.h"
#include "lower/lower.h"

static Layout copy_layout(Lower *l, const AccessBounds *b, const int *extent) {
  const Type *t = b->access.tile;
  LayoutBlocking blocking = {.dims = t->rank,
                             .bits = dtype_memory_bits(t->dtype),
                             .lanes = l->machine.lanes,
                             .waves = l->machine.waves,
                             .widest = l->machine.target->global_access};
  int n = 0;
  if (b->run_axis >= 0) blocking.order[n++] = b->run_axis;
  for (int i = t->rank - 1; i >= 0; i--)
    if (i != b->run_axis) blocking.order[n++] = i;
  for (int i = 0; i < t->rank; i++) blocking.extent[i] = extent[i];
  return layout_blocked(&blocking);
}

/* The allocation's side: coordinates relative to the tile. */
static bool open_scratch(Lower *l, const LaneAccess *global, const Value *scratch,
                         LaneAccess *out) {
  MemLayout m;
  if (!memory_layout(scratch, &m)) return lower_refuse(l, global->op, "a copy to another memory");
  *out = *global;
  out->memory = l->value[scratch->id];
  out->ntests = out->ndynamic = 0;
  out->offset_dtype = DTYPE_i32;
  out->width = memory_width(l, &m, global->layout);
  int rank = scratch->type->rank, slot = m.dims - rank;
  for (int i = 0; i < rank; i++) {
    out->coords[i] = sym_sub(l->sym, access_x(l->sym, i), global->start[i]);
    const Sym *extent = sym_int(l->sym, m.extent[slot + i]);
    if (m.extent[slot + i] >= global->layout->extent[i]) continue;
    out->tests[out->ntests++] = sym_lt(l->sym, out->coords[i], extent); /* the rest is dropped */
    while (m.extent[slot + i] % out->width) out->width /= 2;
  }
  out->offset = memory_offset(l, &m, out->coords);
  return true;
}

bool lower_copy(Lower *l, const Op *op) {
  const AccessBounds *b = l->bounds[op->id];
  bool in = memory_is_scratch(op->args[1]);
  const Value *scratch = op->args[in ? 1 : 0];
  int extent[IR_MAX_RANK];
  LaneAccess global, local;
  if (!distribute_extents(l->d, op, b->access.tile, extent)) return false;
  Layout *layout = ARENA_NEW(l->arena, Layout);
  *layout = copy_layout(l, b, extent);
  if (!open_access(l, op, b, layout, &global)) return false;
  if (!open_scratch(l, &global, scratch, &local)) return false;
  if (in) lane_store(l, &local, lane_load(l, &global)), lower_publish(l, scratch);
  else lane_store(l, &global, lane_load(l, &local));
  return true;
}
