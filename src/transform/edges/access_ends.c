/* access_ends.c: see access_ends.h. */
#include "transform/edges/access_ends.h"

#include "analysis/access/in_bounds.h"

static void add_counter(AccessEnds *c, const Sym *symbol, const Sym *count) {
  SymCtx *sym = c->k->cx->sym;
  WV_ASSERT(c->n < (int)WV_LEN(c->symbol));
  c->symbol[c->n] = symbol;
  c->last[c->n++] = sym_sub(sym, count, sym_int(sym, 1));
}

bool access_ends(Kernel *k, const Facts *facts, const MemAccess *a, AccessEnds *out) {
  const Distribution *d = facts->distribute;
  *out = (AccessEnds){.k = k, .facts = facts};
  for (int i = 0; i < a->tile->rank; i++) {
    TileRange range;
    if (!distribute_dim(d, a->op, a->tile->dims[i], &range)) return false;
    add_counter(out, access_tile_position(k->cx->sym, i), range.extent);
  }
  for (const Op *loop = a->op->parent->owner; loop; loop = loop->parent->owner)
    if (loop->kind == OP_for && out->n < (int)WV_LEN(out->symbol))
      add_counter(out, ir_loop_counter(k, op_attr(loop, ATTR_axis)->sym),
                  distribute_trips(d, loop));
  return true;
}

static const Sym *extreme(const AccessEnds *c, const Sym *e, bool greatest) {
  SymCtx *sym = c->k->cx->sym;
  const Sym *coeff[WV_LEN(c->symbol)], *rest, *zero = sym_int(sym, 0);
  const SymFacts *f = c->facts->header;
  if (!e || !sym_linear(sym, e, c->symbol, c->n, coeff, &rest)) return NULL;
  for (int i = 0; i < c->n; i++) {
    if (coeff[i] == zero) continue;
    bool grows = sym_proves(sym, f, sym_ge(sym, coeff[i], zero));
    if (!grows && !sym_proves(sym, f, sym_le(sym, coeff[i], zero))) return NULL;
    if (grows == greatest) rest = sym_add(sym, rest, sym_mul(sym, coeff[i], c->last[i]));
  }
  return rest;
}

const Sym *access_least(const AccessEnds *c, const Sym *e) { return extreme(c, e, false); }

const Sym *access_greatest(const AccessEnds *c, const Sym *e) { return extreme(c, e, true); }
