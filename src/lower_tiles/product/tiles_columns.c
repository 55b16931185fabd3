/* tiles_columns.c: along which dim of a product's result vectors are.
 *
 * Blocks of the result have rows of vectors along n, the columns of the rhs. If these vectors are
 * better along m, the operands are exchanged, and the product is computed transposed:
 *
 *   - the rhs has few columns, and the lhs is contiguous along its rows: the values of attention
 *     for a few queries, which are then read in place (tiles_skinny.c)
 *   - the result is written where it is contiguous along m: images with channels first. */
#include "ir/ops/access.h"
#include "lower_tiles/tiles.h"

static const Op *plain_read(const Value *v) {
  while (v->def && (v->def->kind == OP_cast || v->def->kind == OP_permute)) v = v->def->args[0];
  return v->def && v->def->kind == OP_read ? v->def : NULL;
}

static bool is_along(Tiles *t, const Op *access, const Sym *dim) {
  const Sym *along = access_contiguous(t, access);
  return along && dim_base(along) == dim_base(dim);
}

/* The same of a vector, if not of all: pixels of an image, in tiles of some extent. */
static bool is_in_runs_along(Tiles *t, const Op *access, const Sym *dim, int extent) {
  enum { LEAST = 4 };
  if (access_contiguous(t, access)) return is_along(t, access, dim);
  return access_run(t, access, dim, sym_int(t->l.sym, 0), extent, ACCESS_RUN) >= LEAST;
}

/* Whether what is computed from v, element by element and by loops that add it up, is written, and
 * only where that is contiguous along the dim. */
static bool is_written_along(Tiles *t, const Value *v, const Sym *dim, int extent) {
  bool *from = ARENA_ARRAY(t->l.arena, bool, t->l.k->nvalues + 1), written = false;
  from[v->id] = true;
  for (const Op *op = v->def; op; op = ir_next(op)) {
    bool uses = false;
    for (int i = 0; i < op->nargs; i++) uses = uses || from[op->args[i]->id];
    if (!uses) continue;
    if (op->kind == OP_write) {
      written = true;
      if (!from[op->args[0]->id] || !is_in_runs_along(t, op, dim, extent)) return false;
    } else if (op->kind == OP_yield) {
      const Op *loop = op->parent->owner;
      for (int i = 0; i < op->nargs && i < loop->nresults; i++)
        from[loop->results[i].id] = from[loop->results[i].id] || from[op->args[i]->id];
    } else if (op_is_elementwise(op) || op->kind == OP_permute) {
      from[op->results[0].id] = true;
    } else {
      return false;
    }
  }
  return written;
}

/* Whether the product is computed transposed. */
static bool is_turned(Tiles *t, const Op *op, const Product *p, const int *extent) {
  enum { FEW = 8 };
  const Type *type = op->results[0].type;
  int m = extent[type_base_dim(type, p->roles.m)], n = extent[type_base_dim(type, p->roles.n)];
  const Op *lhs = plain_read(p->lhs), *rhs = plain_read(p->rhs);
  if (m <= FEW || !lhs) return false;
  if (n <= FEW) return is_along(t, lhs, p->roles.m);
  return rhs && is_written_along(t, &op->results[0], p->roles.m, m);
}

const Sym *product_columns(Tiles *t, const Op *op, const int *extent) {
  Product p;
  if (op->kind != OP_mma || product_of(t->l.k, op, &p)) return NULL;
  return is_turned(t, op, &p, extent) ? p.roles.m : p.roles.n;
}
