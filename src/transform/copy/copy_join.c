/* copy_join.c: see copy_join.h. */
#include "transform/copy/copy_join.h"

#include "ir/ops/access.h"

const Sym *copy_stride(const Distribution *d, const AccessBounds *b, int m) {
  SymCtx *sym = d->k->cx->sym;
  const Value *memory = b->access.memory;
  if (memory_is_view(d->k, memory)) return memory_symbol(d->k, memory, "STRIDE", m);
  const Sym *stride = sym_int(sym, 1);
  for (int i = m + 1; i < memory->type->rank; i++)
    stride = b->sizes[i] && stride ? sym_mul(sym, stride, b->sizes[i]) : NULL;
  return stride;
}

/* Whether dim m begins where the previous element of the dim before it ends. */
static bool is_dense(const Distribution *d, const AccessBounds *b, int m) {
  SymCtx *sym = d->k->cx->sym;
  const Sym *outer = copy_stride(d, b, m - 1), *inner = copy_stride(d, b, m);
  const Sym *whole = outer && inner && b->sizes[m] ? sym_mul(sym, inner, b->sizes[m]) : NULL;
  return whole && sym_equal(sym, d->facts, outer, whole) == SYM_ALWAYS;
}

/* Otherwise a coordinate outside dim m would be inside the joined one. */
static bool is_inside(const Distribution *d, const AccessBounds *b, int m) {
  SymCtx *sym = d->k->cx->sym;
  const Sym *y = b->coords[m];
  return sym_proves(sym, d->facts, sym_ge(sym, y, sym_int(sym, 0))) &&
         sym_proves(sym, d->facts, sym_lt(sym, y, b->sizes[m]));
}

bool copy_join(const Distribution *d, const AccessBounds *b, int dim, CopyJoin *out) {
  SymCtx *sym = d->k->cx->sym;
  const Sym *coord = b->coords[0], *extent = b->sizes[0];
  for (int m = 1; m <= dim && coord && extent; m++) {
    if (!b->coords[m] || !b->sizes[m] || !is_dense(d, b, m) || !is_inside(d, b, m)) return false;
    extent = sym_mul(sym, extent, b->sizes[m]);
    coord = sym_mul(sym, coord, b->sizes[m]);
    coord = coord ? sym_add(sym, coord, b->coords[m]) : NULL;
  }
  *out = (CopyJoin){dim, coord ? sym_simplify(sym, d->facts, coord) : NULL, extent};
  return out->coord && extent;
}
