/* tiles_needed.c: how much of a tile is ever used.
 *
 * A workgroup at the edge has tiles that extend past their tensors. If all writes skip the elements
 * from some coordinate on, and no op combines elements of different coordinates, products need not
 * compute them. */
#include "lower_tiles/tiles.h"

static bool has(const Type *t, const Sym *dim) {
  return t->kind == TYPE_tile && type_has_dim(t, dim);
}

/* The op combines elements of different coordinates along the dim. */
static bool joins(const Op *op, Kernel *k, const Sym *dim) {
  const Attr *along = op_attr(op, ATTR_dim);
  if (along && op->kind != OP_self_index && op->kind != OP_exists &&
      dim_base(along->sym) == dim_base(dim))
    return true;
  MmaRoles roles;
  if (op->kind != OP_mma ||
      ir_mma_roles(k, op->args[0]->type, op->args[1]->type, op->results[0].type, &roles))
    return false;
  return dim_base(roles.k) == dim_base(dim);
}

/* Values with this dim are looked up at coordinates that mappings compute. */
static bool looks_up(const Op *op, const Sym *dim) {
  MemAccess a;
  if (!access_of(op, &a)) return false;
  for (int i = 0; i < a.ndynamic; i++)
    if (has(a.dynamic[i]->type, dim)) return true;
  return false;
}

/* The limit is constant throughout the kernel: no loop or set_symbol, not even a later one, changes
 * it. */
static bool is_steady(const Tiles *t, const Sym *limit) {
  for (const Op *op = ir_first(t->l.k); op; op = ir_next(op)) {
    const Attr *axis = op_attr(op, ATTR_axis), *version = op_attr(op, ATTR_version);
    if (version && sym_contains(limit, version->sym)) return false;
    if (axis && sym_contains(limit, ir_loop_counter(t->l.k, axis->sym))) return false;
  }
  return true;
}

const Sym *tiles_needed(Tiles *t, const Sym *dim) {
  const Sym *limit = NULL;
  for (const Op *op = ir_first(t->l.k); op; op = ir_next(op)) {
    MemAccess a;
    if (joins(op, t->l.k, dim) || looks_up(op, dim)) return NULL;
    bool writes = op_info[op->kind].flags & OPF_WRITES;
    if (!writes || !access_of(op, &a) || !has(a.tile, dim)) continue;
    const Sym *own = access_limit(t, op, dim);
    if (!own || (limit && own != limit)) return NULL;
    limit = own;
  }
  return limit && is_steady(t, limit) ? limit : NULL;
}
